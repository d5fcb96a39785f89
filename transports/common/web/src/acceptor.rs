//! A thread that keeps accepting connections after the leader's.

use crate::driver::Driver;
use std::net::{SocketAddr, TcpListener as Listener};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tripmeter_abi::{Error, Result};

/// Accepts the leader's connection; drops those from other addresses.
pub async fn accept(listener: &TcpListener, leader: SocketAddr) -> Result<TcpStream> {
    loop {
        let (stream, from) = listener.accept().await.map_err(|error| Error::os("accepting the leader", error))?;
        if from == leader {
            return Ok(stream);
        }
    }
}

/// Thread that accepts further peers under the leader's terms, so that the refusal of unauthorized ones can be
/// seen. Sleeps while nobody connects.
pub struct Acceptor {
    closing: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Serves each connection by `serve`, in a thread called `name`, until this is dropped.
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
            // A thread that panicked has printed why.
            let _ = thread.join();
        }
    }
}
