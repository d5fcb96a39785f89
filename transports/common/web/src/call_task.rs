//! Calls of a client that are in flight, and the task that makes them under wait `callback`.

use crate::ByteStream;
use crate::driver::{self, Driver};
use crate::host::Body;
use crate::settings::WebSettings;
use bytes::Bytes;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, TryAcquireError};
use tripmeter_abi::{Callback, Error, Result};

/// Outcome of a call; `None` if the follower released the message without an answer.
pub type Call<B> = Pin<Box<dyn Future<Output = Result<Option<B>>> + Send>>;

/// First response that has arrived.
pub fn poll_waiting<B>(waiting: &mut Vec<Call<B>>, context: &mut Context<'_>) -> Poll<Result<Option<B>>> {
    for at in 0..waiting.len() {
        if let Poll::Ready(answer) = waiting[at].as_mut().poll(context) {
            drop(waiting.remove(at));
            return Poll::Ready(answer);
        }
    }
    Poll::Pending
}

/// Connection of a client.
pub trait Connection: Sized + Send + 'static {
    /// Type of answers.
    type Answer: Body;

    /// True if a call begins when it is first polled, and waits for its turn itself. Otherwise it begins at once, over
    /// a connection that is ready.
    const IS_LAZY: bool;

    /// Connects to the follower, which must answer a greeting: only the answer shows that it accepted this end.
    fn open(stream: impl ByteStream, to: SocketAddr, settings: WebSettings) -> impl Future<Output = Result<Self>>;

    /// True if another call can begin.
    fn is_ready(&self) -> bool {
        true
    }

    /// Waits until another call can begin.
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// True if the connection has ended.
    fn is_closed(&self) -> bool {
        false
    }

    /// Makes a call.
    fn call(&mut self, body: Bytes) -> Call<Self::Answer>;
}

/// Task of a client that calls, and passes the answers to the host.
pub struct CallTask {
    queue: UnboundedSender<Bytes>,
    /// A permit for each call that may begin, which guarantees a place in the queue.
    room: Arc<Semaphore>,
    failure: Arc<OnceLock<Error>>,
}

impl CallTask {
    /// Starts the task, with at most `most` calls in flight. It ends at the latest with the driver's runtime.
    pub fn start<C: Connection>(driver: &Driver, connection: C, most: usize, callback: Callback) -> Self {
        let (queue, bodies) = unbounded_channel();
        let (room, failure) = (Arc::new(Semaphore::new(most)), Arc::<OnceLock<Error>>::default());
        let (left, noted) = (room.clone(), failure.clone());
        driver.spawn(async move {
            if let Err(error) = run(connection, bodies, &left, callback).await {
                // Set before senders that wait for room wake, so that they find the reason.
                let _ = noted.set(error);
            }
            left.close();
        });
        Self { queue, room, failure }
    }

    /// Passes a message to the task; `false` after the time-out, or, within a task, at once. Fails if the
    /// connection has ended.
    pub fn send(&self, driver: &Driver, body: Bytes, timeout_ns: u64) -> Result<bool> {
        let permit = match self.room.try_acquire() {
            Err(TryAcquireError::NoPermits) if driver::is_in_task() => return Ok(false),
            Err(TryAcquireError::NoPermits) => match driver.within(timeout_ns, self.room.acquire()) {
                None => return Ok(false),
                Some(acquired) => acquired.ok(),
            },
            acquired => acquired.ok(),
        };
        permit.ok_or_else(|| self.ended())?.forget();
        self.queue.send(body).map_err(|_| self.ended())?;
        Ok(true)
    }

    #[cold]
    fn ended(&self) -> Error {
        let no_reason = || Error::closed("the connection to the follower has ended");
        self.failure.get().cloned().unwrap_or_else(no_reason)
    }
}

/// Ends when all senders are gone.
async fn run<C: Connection>(
    mut connection: C,
    mut bodies: UnboundedReceiver<Bytes>,
    room: &Semaphore,
    callback: Callback,
) -> Result<()> {
    let (mut waiting, mut next) = (Vec::new(), None);
    poll_fn(move |context| {
        loop {
            while let Poll::Ready(answer) = poll_waiting(&mut waiting, context) {
                let answer: Option<C::Answer> = answer?;
                // The host sends the next message from its callback.
                room.add_permits(1);
                if let Some(body) = answer {
                    callback.call(&body.message()?);
                }
            }
            if next.is_none() {
                next = ready!(bodies.poll_recv(context));
            }
            if next.is_none() {
                return Poll::Ready(Ok(()));
            }
            ready!(connection.poll_ready(context))?;
            waiting.extend(next.take().map(|body| connection.call(body)));
        }
    })
    .await
}
