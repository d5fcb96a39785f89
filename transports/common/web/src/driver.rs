//! Thread that runs hyper: the calling one, one of tokio's, or a dedicated one.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::timeout;
use tripmeter_abi::{Error, Result};

/// Runtime, and wait strategy of its caller.
pub struct Driver {
    // Ends before the runtime.
    _runner: Option<Runner>,
    runtime: Arc<Runtime>,
    /// True if connections make progress only while the caller waits here.
    needs_turns: bool,
    polls: bool,
}

/// Runtime with a thread of its own.
pub fn background() -> Result<Arc<Runtime>> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map(Arc::new).map_err(|error| Error::os("starting tokio's thread", error))
}

fn single_threaded() -> Result<Arc<Runtime>> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map(Arc::new).map_err(|error| Error::os("making a runtime of tokio", error))
}

/// Thread that only runs the tasks of a runtime.
struct Runner {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    /// Returns once the thread runs, so that no other thread runs a task.
    fn start(runtime: Arc<Runtime>) -> Result<Self> {
        let (stop, (begun, begins)) = (Arc::new(Notify::new()), channel());
        let stopped = stop.clone();
        let work = move || {
            runtime.block_on(async {
                // The receiver is gone only after a failure.
                let _ = begun.send(());
                stopped.notified().await;
            });
        };
        let thread = std::thread::Builder::new().name("tokio".to_owned()).spawn(work);
        let thread = thread.map_err(|error| Error::os("starting a thread", error))?;
        let runner = Self { stop, thread: Some(thread) };
        begins.recv().map_err(|_| Error::failed("the thread that runs tokio has ended at once"))?;
        Ok(runner)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed why.
            let _ = thread.join();
        }
    }
}

/// True if this thread runs a task, which must not wait for others.
pub fn is_in_task() -> bool {
    Handle::try_current().is_ok()
}

impl Driver {
    /// Driver that runs in the calling thread.
    pub fn new(polls: bool) -> Result<Self> {
        Ok(Self { _runner: None, runtime: single_threaded()?, needs_turns: true, polls })
    }

    /// Driver with a thread of its own, which runs tasks in the order of their wake-ups: tokio's own thread would
    /// run the last one first.
    pub fn running() -> Result<Self> {
        let runtime = single_threaded()?;
        Ok(Self { _runner: Some(Runner::start(runtime.clone())?), runtime, needs_turns: false, polls: false })
    }

    /// Driver that runs in the thread of `runtime`.
    pub fn with_runtime(runtime: Arc<Runtime>, polls: bool) -> Self {
        Self { _runner: None, runtime, needs_turns: false, polls }
    }

    /// Starts a task, which ends at the latest with the runtime.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(task));
    }

    /// Runs `work`, called `what` in errors, to its end, or fails after the time-out.
    pub fn finish<T>(&self, timeout_ns: u64, what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let time = Duration::from_nanos(timeout_ns);
        let late = || Error::failed(format!("{what} did not come about within {} ms", time.as_millis()));
        // `turn` also sends the last answer.
        self.turn(async { timeout(time, work).await.unwrap_or_else(|_| Err(late())) })
    }

    /// Waits for `ready` with this end's wait strategy; `None` after the time-out, or at once when polling.
    pub fn wait<T>(&self, timeout_ns: u64, mut ready: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
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
    pub fn sleep<T>(&self, timeout_ns: u64, ready: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        self.within(timeout_ns, poll_fn(ready))
    }

    /// Sleeps until the end of `work`; `None` after the time-out.
    pub fn within<T>(&self, timeout_ns: u64, work: impl Future<Output = T>) -> Option<T> {
        self.runtime.block_on(async { timeout(Duration::from_nanos(timeout_ns), work).await.ok() })
    }

    /// Runs `work` until it or `end` ends.
    pub fn until(&self, end: impl Future<Output = ()>, work: impl Future<Output = ()>) {
        self.runtime.block_on(async {
            let (mut end, mut work) = (pin!(end), pin!(work));
            poll_fn(|context| match end.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => work.as_mut().poll(context),
            })
            .await;
        });
    }

    /// Runs `work`, and then lets connections send pending data, as far as the kernel takes it.
    pub fn turn<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            let done = work.await;
            if self.needs_turns {
                yield_now().await;
            }
            done
        })
    }
}
