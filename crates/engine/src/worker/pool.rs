//! Threads that measure beside each other, one for each topic or client, and what the main thread sees and tells them.

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

/// So many threads may look around every [`TAKE_TIMEOUT_NS`]; of more, each does so less often.
const LOOKING: u64 = 16;
/// However many there are, each looks around so often.
const LONGEST_LOOK_NS: u64 = 1_000_000_000;

/// How long one thread of so many may sleep before it looks around.
pub(super) fn look_ns(threads: usize) -> u64 {
    (TAKE_TIMEOUT_NS * threads as u64 / LOOKING).clamp(TAKE_TIMEOUT_NS, LONGEST_LOOK_NS)
}

/// What one thread does.
pub(super) type Work<'a, R> = Box<dyn FnOnce() -> Ended<R> + Send + 'a>;

/// The threads.
pub(super) struct ThreadPool {
    /// What ends each of them.
    pub shared: Vec<Shared>,
    targets: Vec<OnceLock<Target>>,
    main: Thread,
    /// Threads that have begun and not ended.
    running: AtomicUsize,
    /// Threads that a message cannot get lost at any more.
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

    /// To be called before a thread is started.
    pub(super) fn register(&self) -> Member<'_> {
        self.running.fetch_add(1, AcqRel);
        Member(self)
    }

    /// Some thread has not ended.
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

    /// Wakes every thread that is parked.
    pub(super) fn wake(&self) {
        self.targets.iter().filter_map(OnceLock::get).for_each(|target| target.interrupt(false));
    }

    /// Has the main thread look around at once.
    pub(super) fn wake_main(&self) {
        self.main.unpark();
    }

    /// Ends the blocking call that a thread is in.
    pub(super) fn interrupt(&self, thread: usize, by_signal: bool) {
        if let Some(target) = self.targets[thread].get() {
            target.interrupt(by_signal);
        }
    }
}

/// A place in the pool, which goes with the thread.
pub(super) struct Member<'a>(&'a ThreadPool);

impl Member<'_> {
    /// Shows which thread it is.
    pub(super) fn begin(&self, thread: usize) {
        // It is set once: each thread has its own.
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

/// A time during which the use of the machine is observed.
pub(super) struct Window {
    begin_ns: u64,
    before: Used,
    counters: Option<CpuCounters>,
}

impl Window {
    pub(super) fn open() -> Self {
        Self { begin_ns: monotonic_ns(), before: os::usage(Whose::Process), counters: None }
    }

    /// The same with cycles and instructions, if they can be counted here.
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

/// A window that the thread which hears the end of a leg closes: what follows is a wait for messages that were lost.
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

    /// Ends the observation, if it goes on.
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

/// In the log of the sub-experiment.
fn not_counted(error: &io::Error) {
    // A log that is full has no room for it.
    let _ = writeln!(io::stderr(), "cycles and instructions are not counted: {error}");
}

/// A pause of the main thread while others measure.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
