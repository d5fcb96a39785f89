//! Full-screen view, on a pseudo-terminal whose screen is read back.

use crate::common::{Finished, LONGEST, Running, Tripmeter, folder, manifest, say};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tripmeter_model::manifest::RunStatus;

/// Time limit for something to appear on the screen.
const MOST: Duration = Duration::from_secs(60);
/// Written after everything else.
const END: &str = "[END]";

struct Terminal {
    keyboard: File,
    /// The end that programs use.
    line: File,
    seen: Arc<Mutex<(vt100::Parser, Vec<u8>)>>,
}

impl Terminal {
    fn new(rows: u16, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let line =
            rustix::fs::open(&name, rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY, rustix::fs::Mode::empty());
        let (keyboard, line) = (File::from(master), File::from(line.unwrap()));
        let seen = Arc::new(Mutex::new((vt100::Parser::new(rows, columns, 1000), Vec::new())));
        let terminal = Self { keyboard, line, seen };
        terminal.resize(rows, columns);
        let (mut screen, seen) = (terminal.keyboard.try_clone().unwrap(), terminal.seen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It fails once all programs have closed the terminal.
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                let mut seen = seen.lock().unwrap();
                seen.0.process(&bytes[..read]);
                seen.1.extend(&bytes[..read]);
            }
        });
        terminal
    }

    fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        self.seen.lock().unwrap().0.screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.line, size).unwrap();
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        self.seen.lock().unwrap().0.screen().contents()
    }

    fn raw(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap().1).into_owned()
    }

    /// All output so far, of programs that have ended.
    fn whole(&self) -> String {
        (&self.line).write_all(END.as_bytes()).unwrap();
        let begin = Instant::now();
        loop {
            if let Some(text) = self.raw().strip_suffix(END) {
                return text.to_owned();
            }
            assert!(begin.elapsed() < MOST, "no {END:?} in:\n{}", self.raw());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_full_screen(&self) -> bool {
        self.seen.lock().unwrap().0.screen().alternate_screen()
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.line).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Waits until all `parts` are on the screen.
    fn until(&self, run: &mut Running, parts: &[&str]) {
        let begin = Instant::now();
        run.until("the view", |_| {
            assert!(begin.elapsed() < MOST, "no {parts:?} in:\n{}", self.text());
            let text = self.text();
            self.is_full_screen() && parts.iter().all(|part| text.contains(part))
        });
    }

    fn after(&self) -> String {
        self.raw().rsplit_once("\x1b[?1049l").map_or_else(String::new, |(_, after)| after.to_owned())
    }

    /// Checks that the terminal is restored, and that the first screen was printed.
    #[track_caller]
    fn is_restored(&self) {
        // The last output may still be in transit.
        let begin = Instant::now();
        while !self.after().contains("next: tripmeter show") && begin.elapsed() < MOST {
            std::thread::sleep(Duration::from_millis(5));
        }
        let after = self.after();
        let said = ["results in '", "INCOMPLETE", "µs, half a round trip", "next: tripmeter show"];
        assert!(said.iter().all(|part| after.contains(part)), "{after}");
        let seen = self.seen.lock().unwrap();
        let screen = seen.0.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor() && !self.is_raw(), "{after}");
    }
}

fn view(output: &Path) -> Tripmeter {
    let words =
        ["ping", "uds", "shm", "-n", "300", "--payloads", "1k,64k", "--rounds", "200", "--live", "--wait", "block"];
    let output = output.display().to_string();
    Tripmeter::new(words.into_iter().chain(["--no-report", "-o", &output])).environment("TERM", "xterm")
}

/// Checks that the run ended early and kept its results.
fn is_kept(finished: Finished, output: &Path) {
    finished.with(130);
    let manifest = manifest(output);
    assert_eq!(manifest.status, RunStatus::Interrupted);
    assert!(manifest.sub_experiments.iter().any(|result| !result.cells.is_empty()), "{manifest:?}");
}

#[test]
fn the_view_has_results_progress_and_load_and_q_ends_the_run() {
    let (mut terminal, folder) = (Terminal::new(24, 80), folder());
    let output = folder.path().join("results");
    let mut run = view(&output).start_on(&terminal.line);
    let figures = ["uds/datagram", "shm/ring", "1k", "64k", "p50", "p99", "median of ", "path proofs: 2 ok"];
    terminal.until(&mut run, &figures);
    terminal.until(&mut run, &["round ", "/2 ", "%", " left", "load ", "CPU 0", "q ends the run"]);
    let text = terminal.text();
    assert!(!text.contains("NOT RUN") && !text.contains("NOT ENDED"), "{text}");
    assert!(terminal.is_raw());
    terminal.press("q");
    is_kept(run.wait(LONGEST), &output);
    terminal.is_restored();
}

#[test]
fn the_view_fits_narrow_terminals_and_ctrl_c_ends_the_run() {
    let (mut terminal, folder) = (Terminal::new(24, 80), folder());
    let output = folder.path().join("results");
    let mut run = view(&output).environment("NO_COLOR", "1").start_on(&terminal.line);
    terminal.until(&mut run, &["shm/ring"]);
    terminal.resize(14, 40);
    terminal.until(&mut run, &["round ", "load ", "ping"]);
    terminal.resize(3, 12);
    terminal.until(&mut run, &["round ", "["]);
    terminal.resize(40, 132);
    terminal.until(&mut run, &["shm/ring", "uds/datagram", "q ends the run"]);
    terminal.press("\x03");
    is_kept(run.wait(LONGEST), &output);
    terminal.is_restored();
    let raw = terminal.raw();
    assert!(!raw.contains("\x1b[38;") && !(31..38).any(|colour| raw.contains(&format!("\x1b[{colour}m"))), "{raw:?}");
}

#[test]
fn a_signal_restores_the_terminal() {
    let (terminal, folder) = (Terminal::new(24, 80), folder());
    let output = folder.path().join("results");
    let mut run = view(&output).start_on(&terminal.line);
    terminal.until(&mut run, &["shm/ring", "uds/datagram"]);
    run.signal("TERM");
    is_kept(run.wait(LONGEST), &output);
    terminal.is_restored();
}

#[test]
fn without_a_terminal_there_is_a_line_for_each_payload() {
    let (terminal, folder) = (Terminal::new(24, 80), folder());
    let words = |name: &str| {
        let output = folder.path().join(name).display().to_string();
        let words = ["ping", "uds", "-n", "50", "--payloads", "1k,2k", "--no-floor", "--no-report", "--live", "-o"];
        words.map(str::to_owned).into_iter().chain([output]).collect::<Vec<_>>()
    };
    let has_lines = |text: &str| {
        assert!(!text.contains('\x1b'), "{text:?}");
        let found = ["note: no live view: ", " 1k: 50 of 50 samples", " 2k: 50 of 50 samples"];
        assert!(found.iter().all(|part| text.contains(part)), "{text}");
    };
    let finished = Tripmeter::new(words("piped")).environment("TERM", "xterm").run().with(0);
    has_lines(&finished.stderr);
    let run = Tripmeter::new(words("dumb")).environment("TERM", "dumb").start_on(&terminal.line);
    run.wait(LONGEST).with(0);
    has_lines(&terminal.whole());
    Tripmeter::new(["ping", "uds", "--live", "--quiet"]).run().with(64).one_line(&["--live", "--quiet"]);
}

#[test]
fn ab_has_the_view() {
    let (mut terminal, folder) = (Terminal::new(24, 80), folder());
    let output = folder.path().join("results").display().to_string();
    let words = ["ab", "uds", "pipe", "-n", "300", "--payloads", "1k", "--live", "--no-report", "-o", &output];
    let mut run = Tripmeter::new(words).environment("TERM", "xterm").start_on(&terminal.line);
    terminal.until(&mut run, &["uds/datagram", "pipe/", "1k", "p50", "q ends the run"]);
    terminal.press("q");
    run.wait(LONGEST).with(130);
    assert!(!terminal.is_raw());
}

#[test]
fn the_view_is_drawn_on_cpus_that_do_not_measure() {
    let cpus = tripmeter_engine::os::allowed_cpus();
    let [measured, free, ..] = cpus[..] else { return say("SKIPPED: one CPU measures, and there is no other") };
    let (mut terminal, folder) = (Terminal::new(24, 80), folder());
    let (cpu, output) = (measured.to_string(), folder.path().join("results").display().to_string());
    let mut words = vec!["ping", "uds", "-n", "300", "--payloads", "1k", "--rounds", "60", "--wait", "block", "--live"];
    words.extend(["--no-floor", "--no-report", "--leader-cpu", &cpu, "--follower-cpu", &cpu, "-o", &output]);
    let mut run = Tripmeter::new(words).environment("TERM", "xterm").start_on(&terminal.line);
    terminal.until(&mut run, &["uds/datagram", &format!("CPU {measured}* ")]);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", run.pid())).unwrap();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    let view = texts.into_iter().find(|text| text.starts_with("Name:\tlive\n")).expect("it has a thread");
    let allowed = view.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).unwrap();
    let allowed = tripmeter_engine::audit::cpu_list(allowed).unwrap();
    assert!(allowed.contains(&free) && !allowed.contains(&measured), "{allowed:?}");
    terminal.press("q");
    run.wait(LONGEST).with(130);
}
