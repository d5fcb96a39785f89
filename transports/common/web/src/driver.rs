//! What runs hyper: the calling thread, one of tokio's, or one that does nothing else.

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

/// A runtime, and how its caller waits.
pub struct Driver {
    // Ends before the runtime.
    _runner: Option<Runner>,
    runtime: Arc<Runtime>,
    /// Connections move only while the caller waits here.
    needs_turns: bool,
    polls: bool,
}

/// A runtime with a thread of its own.
pub fn background() -> Result<Arc<Runtime>> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map(Arc::new).map_err(|error| Error::os("starting tokio's thread", error))
}

fn single_threaded() -> Result<Arc<Runtime>> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map(Arc::new).map_err(|error| Error::os("making a runtime of tokio", error))
}

/// A thread that runs a runtime's tasks, as `main` does in a program that has nothing else to do.
struct Runner {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    /// Returns once the thread is at it, so that no other runs a task.
    fn start(runtime: Arc<Runtime>) -> Result<Self> {
        let (stop, (begun, begins)) = (Arc::new(Notify::new()), channel());
        let stopped = stop.clone();
        let work = move || {
            runtime.block_on(async {
                // Nobody would wait for it only after a failure.
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
            // One that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

/// Whether this thread runs a task: it must not wait for others.
pub fn is_in_task() -> bool {
    Handle::try_current().is_ok()
}

impl Driver {
    /// One that runs in the calling thread.
    pub fn new(polls: bool) -> Result<Self> {
        Ok(Self { _runner: None, runtime: single_threaded()?, needs_turns: true, polls })
    }

    /// One that runs in a thread of its own, tasks in the order in which they are woken: tokio's own thread would run the
    /// last one first.
    pub fn running() -> Result<Self> {
        let runtime = single_threaded()?;
        Ok(Self { _runner: Some(Runner::start(runtime.clone())?), runtime, needs_turns: false, polls: false })
    }

    /// One that runs in the thread of `runtime`.
    pub fn of(runtime: Arc<Runtime>, polls: bool) -> Self {
        Self { _runner: None, runtime, needs_turns: false, polls }
    }

    /// Begins a task, which ends with the runtime, if not before.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(task));
    }

    /// Does `work`, which is described by `what`, until its end, or fails after the time-out.
    pub fn finish<T>(&self, timeout_ns: u64, what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let time = Duration::from_nanos(timeout_ns);
        let late = || Error::failed(format!("{what} did not come about within {} ms", time.as_millis()));
        // What was answered last goes out by the turn.
        self.turn(async { timeout(time, work).await.unwrap_or_else(|_| Err(late())) })
    }

    /// Waits until `ready`, as this end waits; `None` if it is not after the time-out, or at once.
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

    /// Does `work` until its end, or that of `end`.
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

    /// Does `work`, and then lets connections send what they have, as far as the kernel takes it.
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
