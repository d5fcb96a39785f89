//! A thread that goes on accepting once the leader is there.

use crate::driver::Driver;
use std::net::{SocketAddr, TcpListener as Listener};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tripmeter_abi::{Error, Result};

/// The next connection from that address; anything may have come by.
///
/// # Errors
/// If the listener fails.
pub async fn accept(listener: &TcpListener, leader: SocketAddr) -> Result<TcpStream> {
    loop {
        let (stream, from) = listener.accept().await.map_err(|error| Error::os("accepting the leader", error))?;
        if from == leader {
            return Ok(stream);
        }
    }
}

/// A thread that goes on accepting, on the terms on which the leader was accepted, so that whoever must not be let in can
/// be seen to be refused. It sleeps while nobody comes.
pub struct Acceptor {
    closing: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Has `serve` serve whoever comes, in a thread of that name, until this is dropped.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start<F>(listener: Listener, name: &str, serve: impl Fn(TcpStream) -> F + Send + 'static) -> Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let driver = Driver::new(false)?;
        let closing = Arc::new(Notify::new());
        let closed = closing.clone();
        let watch = async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        };
        let work = move || driver.until(closed.notified(), watch);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        let thread = thread.map_err(|error| Error::os("starting a thread", error))?;
        Ok(Self { closing, thread: Some(thread) })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.closing.notify_one();
        if let Some(thread) = self.thread.take() {
            // One that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}
