//! Threads that measure in parallel, one per topic or client, and their control by the main thread.

use crate::clock::monotonic_ns;
use crate::cpu_accounting::is_kernel_time_exact;
use crate::lanes::Ended;
use crate::measure::{Shared, TAKE_TIMEOUT_NS};
use crate::os::{self, CpuCounters, Target, Whose};
use std::io::{self, Write};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;
use tripmeter_model::used::Used;

/// Most threads that check flags every [`TAKE_TIMEOUT_NS`]; with more, each does so less often.
const LOOKING: u64 = 16;
/// Longest interval between the checks of a thread, however many there are.
const LONGEST_LOOK_NS: u64 = 1_000_000_000;

/// Longest sleep of each thread before it checks the flags.
pub(super) fn look_ns(threads: usize) -> u64 {
    (TAKE_TIMEOUT_NS * threads as u64 / LOOKING).clamp(TAKE_TIMEOUT_NS, LONGEST_LOOK_NS)
}

pub(super) type Work<'a, R> = Box<dyn FnOnce() -> Ended<R> + Send + 'a>;

pub(super) struct ThreadPool {
    /// Flags of each thread, which end its loop.
    pub shared: Vec<Shared>,
    targets: Vec<OnceLock<Target>>,
    main: Thread,
    /// Number of threads that have begun and not ended.
    running: AtomicUsize,
    /// Number of threads that are ready to receive.
    pub ready: AtomicUsize,
}

impl ThreadPool {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            shared: (0..threads).map(|_| Shared::default()).collect(),
            targets: (0..threads).map(|_| OnceLock::new()).collect(),
            main: std::thread::current(),
            running: AtomicUsize::new(0),
            ready: AtomicUsize::new(0),
        }
    }

    /// Adds a thread. Must be called before the thread is started.
    pub(super) fn register(&self) -> Member<'_> {
        self.running.fetch_add(1, AcqRel);
        Member(self)
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.load(Acquire) > 0
    }

    /// Ends the loop of every thread, as if the user had asked to stop.
    pub(super) fn stop(&self) {
        self.shared.iter().for_each(|shared| shared.stop.store(true, Relaxed));
        self.wake();
    }

    /// Ends the loop of every thread, because the other side has gone.
    pub(super) fn orphan(&self) {
        self.shared.iter().for_each(|shared| shared.peer_gone.store(true, Relaxed));
        self.wake();
    }

    pub(super) fn wake(&self) {
        self.targets.iter().filter_map(OnceLock::get).for_each(|target| target.interrupt(false));
    }

    pub(super) fn wake_main(&self) {
        self.main.unpark();
    }

    /// Ends a thread's blocking call.
    pub(super) fn interrupt(&self, thread: usize, by_signal: bool) {
        if let Some(target) = self.targets[thread].get() {
            target.interrupt(by_signal);
        }
    }
}

/// Place of a thread in the pool, until the thread ends.
pub(super) struct Member<'a>(&'a ThreadPool);

impl Member<'_> {
    /// Registers the calling thread under this index.
    pub(super) fn begin(&self, thread: usize) {
        // This cannot fail: each thread sets its own place, once.
        let _ = self.0.targets[thread].set(Target::current());
        os::sleep_precisely();
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, AcqRel);
        self.0.main.unpark();
    }
}

/// Time in which resource use is observed.
pub(super) struct Window {
    begin_ns: u64,
    before: Used,
    counters: Option<CpuCounters>,
}

impl Window {
    pub(super) fn open() -> Self {
        Self { begin_ns: monotonic_ns(), before: os::usage(Whose::Process), counters: None }
    }

    /// Opens a window that also counts cycles and instructions, if possible.
    pub(super) fn counted() -> Self {
        let counters = CpuCounters::of_process().inspect_err(not_counted).ok();
        Self { counters, ..Self::open() }
    }

    pub(super) fn close(mut self) -> Used {
        let counted = self.counters.as_mut().and_then(|counters| counters.read().inspect_err(not_counted).ok());
        let used = os::usage(Whose::Process).since(self.before);
        let window_ns = monotonic_ns() - self.begin_ns;
        let (cycles, instructions) = counted.unzip();
        let kernel_time_ns = used.kernel_time_ns.filter(|_| is_kernel_time_exact());
        Used { window_ns, kernel_time_ns, peak_memory_bytes: os::peak_memory_bytes(), cycles, instructions, ..used }
    }
}

/// Window that ends with the message that the leg is over: the wait for lost messages is not part of it.
#[derive(Default)]
pub(super) struct CostWindow(Mutex<CostState>);

#[derive(Default)]
enum CostState {
    #[default]
    Closed,
    Open(Window),
    Read(Used),
}

impl CostWindow {
    pub(super) fn open(&self, window: Window) {
        *self.state() = CostState::Open(window);
    }

    /// Ends the observation, if it is running.
    pub(super) fn end(&self) {
        let mut state = self.state();
        *state = match std::mem::take(&mut *state) {
            CostState::Open(window) => CostState::Read(window.close()),
            other => other,
        };
    }

    /// Cost until the end; nothing if none was observed.
    pub(super) fn close(&self) -> Used {
        self.end();
        match std::mem::take(&mut *self.state()) {
            CostState::Read(used) => used,
            CostState::Closed | CostState::Open(_) => Used::NOTHING,
        }
    }

    fn state(&self) -> MutexGuard<'_, CostState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes in the log of the sub-experiment that cycles and instructions are not counted.
fn not_counted(error: &io::Error) {
    // The log may be full.
    let _ = writeln!(io::stderr(), "cycles and instructions are not counted: {error}");
}

/// Pause of the main thread while others measure.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_window_is_read_at_the_first_end() {
        let (cost, begun_ns) = (CostWindow::default(), monotonic_ns());
        cost.open(Window::open());
        cost.end();
        let most_ns = monotonic_ns() - begun_ns;
        std::thread::sleep(Duration::from_millis(20));
        let used = cost.close();
        assert!((1..=most_ns).contains(&used.window_ns), "{used:?}");
        assert_eq!(cost.close(), Used::NOTHING, "nothing is observed any more");
    }
}
