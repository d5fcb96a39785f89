//! The full-screen view of `--live`, on standard error.
//!
//! The results so far are laid out between payloads, while the leader waits. A thread of this process reads the keys
//! and draws progress and machine load. It avoids the measured CPUs if there are others.

mod machine;
mod page;

use crate::deadline::end_by_time;
use crate::output;
use indicatif::ProgressBar;
use machine::MachineLoad;
use page::LivePage;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::termios::tcgetpgrp;
use std::io::{self, IsTerminal, Stderr};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tripmeter_engine::{measured_cpus, os};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::plan::Plan;

/// Time between two frames, if a CPU is free for drawing.
const PERIOD: Duration = Duration::from_millis(500);
/// Time between two frames, if all CPUs measure.
const PERIOD_ON_MEASURED: Duration = Duration::from_secs(1);
/// Laying out the results takes at most 1 / 20 of the time.
const LAYOUT_SHARE: u32 = 20;
/// Longest wait for Ctrl-Z to take effect; a shell without job control does not stop the process.
const STOPPING_PATIENCE: Duration = Duration::from_millis(500);
/// Longest time that a panic waits for the other thread to finish drawing.
const PANIC_PATIENCE: Duration = Duration::from_millis(200);

/// Full-screen view, which restores the terminal when dropped.
pub struct Live {
    screen: Arc<Screen>,
    thread: Option<JoinHandle<()>>,
}

/// State that both threads draw on.
struct Screen {
    canvas: Mutex<Canvas>,
    is_over: AtomicBool,
    stop: Arc<AtomicBool>,
    /// Ends the wait for keys.
    wake: OwnedFd,
}

struct Canvas {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    page: LivePage,
    /// Time of the last layout, and its duration.
    laid_out: Option<(Instant, Duration)>,
}

impl Live {
    /// Takes over the terminal, and sets `stop` when the user ends the run. An error is the reason why there is no
    /// view.
    pub fn start(plan: &Plan, bar: &ProgressBar, stop: &Arc<AtomicBool>) -> Result<Self, String> {
        Self::start_beside(measured_cpus(plan), bar, end_by_time(plan), stop)
    }

    /// Starts the view, given the measuring CPUs and the end of a run that ends by time.
    fn start_beside(
        measured: Vec<usize>,
        bar: &ProgressBar,
        end: Option<Instant>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, String> {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Err("standard input and standard error are not a terminal".to_owned());
        }
        if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
            return Err("TERM is not set, or names a terminal that cannot show it".to_owned());
        }
        // The call fails without job control, where no process is in the background.
        if tcgetpgrp(io::stderr()).is_ok_and(|foreground| foreground != getpgrp()) {
            return Err("it runs in the background".to_owned());
        }
        let failed = |error: io::Error| format!("the terminal cannot be used: {error}");
        let wake = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stderr())).map_err(failed)?;
        let free: Vec<usize> = os::allowed_cpus().into_iter().filter(|cpu| !measured.contains(cpu)).collect();
        let page = LivePage::new(bar.clone(), end, MachineLoad::new(measured));
        let canvas = Mutex::new(Canvas { terminal, page, laid_out: None });
        let screen = Arc::new(Screen { canvas, is_over: AtomicBool::new(false), stop: stop.clone(), wake });
        enter().map_err(|error| {
            leave();
            failed(error)
        })?;
        output::hold();
        restore_on_panic(&screen);
        let of_thread = screen.clone();
        let attend = move || of_thread.attend(&free);
        let live = |thread| Self { screen, thread };
        match std::thread::Builder::new().name("live".to_owned()).spawn(attend) {
            Ok(thread) => Ok(live(Some(thread))),
            Err(error) => {
                drop(live(None));
                Err(failed(error))
            }
        }
    }

    /// Shows the results so far, unless the last layout is recent and took long.
    pub fn show(&self, manifest: &Manifest) {
        let begin = Instant::now();
        let mut canvas = self.screen.lock();
        if canvas.laid_out.is_some_and(|(when, took)| when.elapsed() < took * LAYOUT_SHARE) {
            return;
        }
        canvas.page.show(manifest);
        self.screen.draw(&mut canvas);
        canvas.laid_out = Some((Instant::now(), begin.elapsed()));
    }

    /// Sets the name of what runs; draws at once if nothing is measured yet.
    pub fn set_place(&self, place: String, is_idle: bool) {
        let mut canvas = self.screen.lock();
        canvas.page.begin(place);
        if is_idle {
            self.screen.draw(&mut canvas);
        }
    }

    pub fn advance(&self, done: u64, planned: u64) {
        self.screen.lock().page.advance(done, planned);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.screen.end();
        // `end` has woken the thread, so that it finishes.
        let _ = self.thread.take().map(JoinHandle::join);
        output::release();
    }
}

impl Screen {
    fn lock(&self) -> MutexGuard<'_, Canvas> {
        self.canvas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws unless the terminal is restored. A frame that cannot be drawn is skipped.
    fn draw(&self, canvas: &mut Canvas) {
        let Canvas { terminal, page, .. } = canvas;
        if !self.is_over.load(Relaxed) {
            let is_ending = self.stop.load(Relaxed);
            let _ = terminal.draw(|frame| page.draw(frame, is_ending));
        }
    }

    fn end(&self) {
        let canvas = self.lock();
        self.end_with(Some(canvas));
    }

    fn end_with(&self, canvas: Option<MutexGuard<'_, Canvas>>) {
        if !self.is_over.swap(true, Relaxed) {
            leave();
        }
        drop(canvas);
        // If this fails, the thread ends with its next frame.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn attend(&self, free: &[usize]) {
        let is_free = !free.is_empty() && os::confine_thread(free).is_ok();
        let period = if is_free { PERIOD } else { PERIOD_ON_MEASURED };
        let mut next = Instant::now();
        while !self.is_over.load(Relaxed) {
            if Instant::now() >= next {
                let mut canvas = self.lock();
                canvas.page.look_around();
                self.draw(&mut canvas);
                next = Instant::now() + period;
            }
            let found = self.wait_until(next);
            let is_gone = found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
            if is_gone || (found.contains(PollFlags::IN) && !self.obey()) {
                return;
            }
        }
    }

    /// Waits for a key or until `next`; returns the keyboard's events.
    fn wait_until(&self, next: Instant) -> PollFlags {
        let stdin = io::stdin();
        let mut waited = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
        let left = next.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        // A signal may interrupt `poll`; that is no event.
        poll(&mut waited, Some(&left)).map_or(PollFlags::empty(), |_| waited[0].revents())
    }

    /// Handles all keys pressed; false if the terminal is gone.
    fn obey(&self) -> bool {
        loop {
            match event::poll(Duration::ZERO).and_then(|is_there| is_there.then(event::read).transpose()) {
                Ok(Some(Input::Key(key))) if key.kind != KeyEventKind::Release => self.obey_key(key),
                Ok(Some(_)) => self.draw(&mut self.lock()),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn obey_key(&self, key: KeyEvent) {
        let mut canvas = self.lock();
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if has_control => self.stop.store(true, Relaxed),
            KeyCode::Char('z') if has_control => self.pause(&mut canvas),
            KeyCode::Char('q' | 'Q') => self.stop.store(true, Relaxed),
            KeyCode::Up => canvas.page.scroll(-1, 0),
            KeyCode::Down => canvas.page.scroll(1, 0),
            KeyCode::PageUp => canvas.page.scroll(-10, 0),
            KeyCode::PageDown => canvas.page.scroll(10, 0),
            KeyCode::Left => canvas.page.scroll(0, -8),
            KeyCode::Right => canvas.page.scroll(0, 8),
            _ => return,
        }
        self.draw(&mut canvas);
    }

    /// Restores the terminal and stops all processes of the run until the shell continues them.
    fn pause(&self, canvas: &mut Canvas) {
        if self.is_over.load(Relaxed) {
            return;
        }
        let is_continued = Arc::new(AtomicBool::new(false));
        let Ok(registered) = signal_hook::flag::register(signal_hook::consts::SIGCONT, is_continued.clone()) else {
            return;
        };
        leave();
        // If the signal cannot be sent, the run goes on.
        let _ = kill_current_process_group(Signal::TSTP);
        // Another thread may receive the signal, so this one may run a little longer.
        let begin = Instant::now();
        while !is_continued.load(Relaxed) && begin.elapsed() < STOPPING_PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        signal_hook::low_level::unregister(registered);
        // If the view cannot be restored, the run goes on without it.
        let _ = enter();
        let _ = canvas.terminal.clear();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stderr(), EnterAlternateScreen, cursor::Hide)
}

fn leave() {
    // There is nowhere left to report a failure.
    let _ = execute!(io::stderr(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

fn restore_on_panic(screen: &Arc<Screen>) {
    let (screen, report) = (Arc::downgrade(screen), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        if let Some(screen) = screen.upgrade() {
            let begin = Instant::now();
            // The panicking thread may hold the lock.
            let canvas = loop {
                match screen.canvas.try_lock() {
                    Ok(canvas) => break Some(canvas),
                    Err(TryLockError::Poisoned(poisoned)) => break Some(poisoned.into_inner()),
                    Err(TryLockError::WouldBlock) if begin.elapsed() > PANIC_PATIENCE => break None,
                    Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
                }
            };
            screen.end_with(canvas);
            output::release();
        }
        report(panic);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::fs::File;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// Environment variable that makes this test start the view and panic.
    const PANICS: &str = "TRIPMETER_TEST_PANICS";

    #[test]
    fn a_panic_restores_the_terminal_before_it_is_reported() {
        if std::env::var_os(PANICS).is_some() {
            let stop = Arc::default();
            let _live = Live::start_beside(os::allowed_cpus(), &ProgressBar::hidden(), None, &stop).unwrap();
            panic!("on purpose");
        }
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let line = File::from(rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap());
        let before = rustix::termios::tcgetattr(&line).unwrap().local_modes;
        let end = || Stdio::from(line.try_clone().unwrap());
        let name = "live::tests::a_panic_restores_the_terminal_before_it_is_reported";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .envs([(PANICS, "1"), ("TERM", "xterm")])
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let mut reader = File::from(master);
        let read = std::thread::spawn(move || {
            let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
            // Reading fails once all processes have closed the terminal.
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                all.extend(&bytes[..read]);
            }
            String::from_utf8_lossy(&all).into_owned()
        });
        assert!(!child.wait().unwrap().success());
        assert_eq!(rustix::termios::tcgetattr(&line).unwrap().local_modes, before);
        drop(line);
        let text = read.join().unwrap();
        let [shown, gone, said] = ["\x1b[?1049h", "\x1b[?1049l", "on purpose"].map(|what| text.find(what));
        assert!(shown.is_some() && shown < gone && gone < said, "{text:?}");
    }
}
