//! What runs hyper: the calling thread, or one of tokio's.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;
use tripmeter_abi::{Error, Result};

/// A runtime, and how its caller waits.
pub(crate) struct Driver {
    runtime: Arc<Runtime>,
    /// Connections move only while the caller waits here.
    needs_turns: bool,
    polls: bool,
}

/// A runtime with a thread of its own.
pub(crate) fn background() -> Result<Arc<Runtime>> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map(Arc::new).map_err(|error| Error::os("starting tokio's thread", error))
}

impl Driver {
    /// One that runs in the calling thread.
    pub(crate) fn new(polls: bool) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::os("making a runtime of tokio", error))?;
        Ok(Self { runtime: Arc::new(runtime), needs_turns: true, polls })
    }

    /// One that runs in the thread of `runtime`.
    pub(crate) fn of(runtime: Arc<Runtime>, polls: bool) -> Self {
        Self { runtime, needs_turns: false, polls }
    }

    /// Does `work`, which is described by `what`, until its end, or fails after the time-out.
    pub(crate) fn finish<T>(&self, timeout_ns: u64, what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let time = Duration::from_nanos(timeout_ns);
        let late = || Error::failed(format!("{what} did not come about within {} ms", time.as_millis()));
        // What was answered last goes out by the turn.
        self.turn(async { timeout(time, work).await.unwrap_or_else(|_| Err(late())) })
    }

    /// Waits until `ready`, as this end waits; `None` if it is not after the time-out, or at once.
    pub(crate) fn wait<T>(&self, timeout_ns: u64, mut ready: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        if !self.polls {
            return self.sleep(timeout_ns, ready);
        }
        self.runtime.block_on(async {
            if let Poll::Ready(found) = poll_fn(|context| Poll::Ready(ready(context))).await {
                return Some(found);
            }
            yield_now().await;
            match poll_fn(|context| Poll::Ready(ready(context))).await {
                Poll::Ready(found) => Some(found),
                Poll::Pending => None,
            }
        })
    }

    /// Sleeps until `ready`; `None` after the time-out.
    pub(crate) fn sleep<T>(&self, timeout_ns: u64, ready: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        self.within(timeout_ns, poll_fn(ready))
    }

    /// Sleeps until the end of `work`; `None` after the time-out.
    pub(crate) fn within<T>(&self, timeout_ns: u64, work: impl Future<Output = T>) -> Option<T> {
        self.runtime.block_on(async { timeout(Duration::from_nanos(timeout_ns), work).await.ok() })
    }

    /// Does `work` until its end, or that of `end`.
    pub(crate) fn until(&self, end: impl Future<Output = ()>, work: impl Future<Output = ()>) {
        self.runtime.block_on(async {
            let (mut end, mut work) = (pin!(end), pin!(work));
            poll_fn(|context| match end.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => work.as_mut().poll(context),
            })
            .await;
        });
    }

    /// Does `work`, and then lets connections send what they have, as far as the kernel takes it.
    pub(crate) fn turn<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            let done = work.await;
            if self.needs_turns {
                yield_now().await;
            }
            done
        })
    }
}
