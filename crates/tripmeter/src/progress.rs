//! Progress on standard error: a bar or a full-screen view on a terminal, else a line per sub-experiment.
//!
//! Only this process draws, and at most once a second without events, so that it does not disturb the measuring
//! processes. The view draws twice a second if a CPU is free.

use crate::deadline::{end_by_time, until};
use crate::live::Live;
use crate::output;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tripmeter_engine::Event;
use tripmeter_model::manifest::{PayloadResult, RunStatus};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::payload::{finished_text, size_text};
use tripmeter_model::plan::{Plan, SubExperiment};

/// Shortest remaining time that progress lines mention.
const LEAST_LEFT: Duration = Duration::from_secs(60);

pub struct Progress<'a> {
    plan: &'a Plan,
    shown: ProgressView,
    bar: ProgressBar,
    /// Full-screen view, if requested and possible.
    live: Option<Live>,
    /// Work done, without the running payload.
    done: u64,
    /// Work done once the running sub-experiment ends, even if it skips payloads.
    done_after: u64,
    /// Start of measuring, and the work done before.
    begun: (Instant, u64),
    end: Option<Instant>,
    running: Option<Running<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressView {
    Quiet,
    /// A bar on a terminal, else a line per sub-experiment.
    Usual,
    /// Full screen on a terminal, else a line per payload.
    Live,
}

impl ProgressView {
    pub fn from_flags(quiet: bool, live: bool) -> Self {
        match (quiet, live) {
            (true, _) => ProgressView::Quiet,
            (_, true) => ProgressView::Live,
            _ => ProgressView::Usual,
        }
    }
}

struct Running<'a> {
    sub_experiment: &'a SubExperiment,
    place: String,
    payload_bytes: u64,
    payload_started: Instant,
    finished: Vec<u64>,
    /// The last payload, if it was ended early and not by a time cap.
    cut_off: Option<u64>,
}

impl Running<'_> {
    fn size(&self, bytes: u64) -> String {
        size_text(bytes, self.sub_experiment.workload.is_recorded())
    }

    /// Text on how much was measured; a payload that was cut off does not count.
    fn measured(&self, finished: &[u64], cut_off: Option<u64>) -> String {
        match (self.sub_experiment.workload.is_recorded(), finished.is_empty()) {
            (false, _) => finished_text(&self.sub_experiment.payloads, finished, cut_off),
            (true, true) => "not every message was sent".to_owned(),
            (true, false) => "every message was sent".to_owned(),
        }
    }
}

impl<'a> Progress<'a> {
    /// Progress of a plan; a view sets `stop` when the user ends the run.
    pub fn new(plan: &'a Plan, shown: ProgressView, stop: &Arc<AtomicBool>) -> Self {
        let drawn = shown == ProgressView::Usual && std::io::stderr().is_terminal();
        let target = if drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("[{bar:30}] {percent:>3}% {left:>9}  {msg}");
        let end = end_by_time(plan);
        let left = move |state: &ProgressState, out: &mut dyn std::fmt::Write| time_left(end, state, out);
        let style = style.expect("the template is a constant").with_key("left", left).progress_chars("=> ");
        let bar = ProgressBar::with_draw_target(Some(total(plan, plan.rounds)), target).with_style(style);
        if drawn {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        let live = (shown == ProgressView::Live).then(|| Live::start(plan, &bar, stop)).and_then(|started| {
            started
                .inspect_err(|why| {
                    output::say(&format!("note: no live view: {why}; printing a line for each payload instead"))
                })
                .ok()
        });
        let begin = Instant::now();
        Self { plan, shown, bar, live, done: 0, done_after: 0, begun: (begin, 0), end, running: None }
    }

    /// Sets the sub-experiments still to be measured, by name and round.
    pub fn resume(&mut self, rest: &[(String, u32)]) {
        let of = |name: &str| self.plan.sub_experiments.iter().find(|one| one.name == name).map_or(0, weight_of_all);
        let rest: u64 = rest.iter().map(|(name, _)| of(name)).sum();
        self.done = total(self.plan, self.plan.rounds).saturating_sub(rest);
        self.begun = (Instant::now(), self.done);
        self.bar.set_position(self.done);
        self.bar.reset_eta();
    }

    pub fn watch(&mut self, event: &Event<'_>) {
        match event {
            Event::SubExperimentStarted { round, name, index, of, finished } => {
                self.start(*round, name, (*index, *of), finished);
            }
            Event::PayloadStarted { payload_bytes } => self.start_payload(*payload_bytes),
            Event::Progress { done, planned } => self.advance(*done, *planned),
            Event::PayloadFinished(cell) => self.finish_payload(cell),
            Event::PayloadAgain(cell) => self.repeat_payload(cell),
            Event::SubExperimentFinished { status, error } => self.finish(*status, error.as_deref()),
            Event::SoFar(manifest) => self.live.iter().for_each(|live| live.show(manifest)),
            Event::RoundsWanted(rounds) => self.bar.set_length(total(self.plan, *rounds)),
            Event::Note(text) => self.say(text),
            Event::Warning(text) => self.complain(text),
            Event::Results(folder) => self.say(&format!("results in '{}'", folder.path().display())),
        }
    }

    pub fn end(&mut self) {
        self.live = None;
        self.bar.finish_and_clear();
    }

    fn start(&mut self, round: u32, name: &str, (index, of): (usize, usize), finished: &[u64]) {
        let Some(sub_experiment) = self.plan.sub_experiments.iter().find(|one| one.name == name) else { return };
        let round = if self.plan.rounds > 1 { format!("round {round}, ") } else { String::new() };
        let place = format!("{round}{index}/{of} {name}");
        self.set_place(place.clone(), true);
        self.done_after = self.done + weight_of_all(sub_experiment);
        let payload_started = Instant::now();
        self.running = Some(Running {
            sub_experiment,
            place,
            payload_bytes: 0,
            payload_started,
            finished: finished.to_vec(),
            cut_off: None,
        });
    }

    fn start_payload(&mut self, payload_bytes: u64) {
        let Some(running) = &mut self.running else { return };
        running.payload_bytes = payload_bytes;
        running.payload_started = Instant::now();
        let place = format!("{} {}", running.place, running.size(payload_bytes));
        self.set_place(place, false);
    }

    /// Sets the name of what runs; `is_idle` if nothing is measured yet.
    fn set_place(&self, place: String, is_idle: bool) {
        match &self.live {
            Some(live) => live.set_place(place, is_idle),
            None => self.bar.set_message(place),
        }
    }

    fn advance(&mut self, done: u64, planned: u64) {
        let Some(running) = &self.running else { return };
        self.live.iter().for_each(|live| live.advance(done, planned));
        let trips = done as f64 / planned.max(1) as f64;
        let elapsed_ns = running.payload_started.elapsed().as_nanos() as f64;
        let limit_ns = load_ns(running.sub_experiment, running.payload_bytes).or(running.sub_experiment.time_cap_ns);
        let time = limit_ns.map_or(0.0, |limit| elapsed_ns / limit.max(1) as f64);
        let share = trips.max(time).min(1.0);
        let weight = weight(running.sub_experiment, running.payload_bytes);
        self.bar.set_position(self.done + (weight as f64 * share) as u64);
    }

    fn finish_payload(&mut self, cell: &PayloadResult) {
        let Some(running) = &mut self.running else { return };
        running.finished.push(cell.payload_bytes);
        running.cut_off = cell.is_cut_off().then_some(cell.payload_bytes);
        self.done += weight(running.sub_experiment, cell.payload_bytes);
        self.bar.set_position(self.done);
        let (place, size) = (&running.place, running.size(cell.payload_bytes));
        let line = format!("{place} {size}: {} of {} samples", cell.samples, cell.samples_planned);
        // A view was requested, but there is none.
        if self.shown == ProgressView::Live && self.live.is_none() {
            self.say(&line);
        }
    }

    /// Adds the time of a payload that is repeated.
    fn repeat_payload(&mut self, cell: &PayloadResult) {
        let Some(running) = &self.running else { return };
        let weight = weight(running.sub_experiment, cell.payload_bytes);
        self.bar.inc_length(weight);
        (self.done, self.done_after) = (self.done + weight, self.done_after + weight);
        self.bar.set_position(self.done);
    }

    fn finish(&mut self, status: RunStatus, error: Option<&str>) {
        let Some(running) = self.running.take() else { return };
        self.done = self.done_after;
        self.bar.set_position(self.done);
        let cut_off = running.cut_off.filter(|_| status != RunStatus::Complete);
        let finished: Vec<u64> = running.finished.iter().copied().filter(|bytes| Some(*bytes) != cut_off).collect();
        let (place, payloads) = (&running.place, running.measured(&finished, cut_off));
        match (status, error) {
            (RunStatus::Complete, _) if !self.bar.is_hidden() || self.shown == ProgressView::Live => {}
            (RunStatus::Complete, _) => self.say(&format!("{place}: {payloads}{}", self.left())),
            (_, Some(error)) => self.complain(&format!("{place}: {payloads}; then failed: {error}")),
            (_, None) => self.say(&format!("{place}: {payloads}; then interrupted")),
        }
    }

    /// Text on the remaining time for output without a bar; empty if it is short.
    fn left(&self) -> String {
        let (begin, before) = self.begun;
        let rest = self.bar.length().unwrap_or(0).saturating_sub(self.done) as f64;
        let left_s = begin.elapsed().as_secs_f64() * rest / self.done.saturating_sub(before).max(1) as f64;
        let left = until(self.end).or_else(|| Duration::try_from_secs_f64(left_s).ok());
        let left = left.filter(|left| *left >= LEAST_LEFT);
        left.map_or_else(String::new, |left| format!(", {:#} left", HumanDuration(left)))
    }

    fn say(&self, line: &str) {
        if self.shown != ProgressView::Quiet {
            self.complain(line);
        }
    }

    /// Prints a line, even with `--quiet`.
    fn complain(&self, line: &str) {
        self.bar.suspend(|| output::say(line));
    }
}

/// Progress bar for bytes read; hidden without a terminal or if `quiet`.
pub fn of_bytes(bytes: u64, quiet: bool) -> ProgressBar {
    let drawn = !quiet && std::io::stderr().is_terminal();
    let target = if drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("[{bar:30}] {percent:>3}% {left:>9}  {bytes} of {total_bytes}");
    let left = |state: &ProgressState, out: &mut dyn std::fmt::Write| time_left(None, state, out);
    let style = style.expect("the template is a constant").with_key("left", left).progress_chars("=> ");
    ProgressBar::with_draw_target(Some(bytes), target).with_style(style)
}

/// Writes the time until the end, or else an estimate.
fn time_left(end: Option<Instant>, state: &ProgressState, out: &mut dyn std::fmt::Write) {
    // A text that cannot be written is not drawn.
    let _ = match (until(end), state.pos()) {
        (Some(left), _) => write!(out, "{:#} left", HumanDuration(left)),
        (None, 0) => write!(out, "? left"),
        (None, _) => write!(out, "{:#} left", HumanDuration(state.eta())),
    };
}

fn total(plan: &Plan, rounds: u32) -> u64 {
    plan.sub_experiments.iter().map(weight_of_all).sum::<u64>() * u64::from(rounds)
}

fn weight_of_all(sub_experiment: &SubExperiment) -> u64 {
    sub_experiment.payloads.iter().map(|payload| weight(sub_experiment, *payload)).sum()
}

/// Estimated duration of a payload's trials, from time limits, rates or the usual duration of a call; `None` if only
/// the number of samples ends them.
fn load_ns(sub_experiment: &SubExperiment, payload_bytes: u64) -> Option<u64> {
    /// Typical duration of a rate search, as a multiple of the longest trial: most of its trials are shorter.
    const SEARCH: u64 = 5;
    let most_ns = sub_experiment.time_cap_ns.unwrap_or(u64::MAX);
    let workload = &sub_experiment.workload;
    if let Some(recorded) = workload.recorded {
        return Some(recorded.duration_ns.min(most_ns));
    }
    if workload.is_timed() {
        let each = (sub_experiment.samples_of(payload_bytes) + sub_experiment.warmup) as f64;
        // The duration of a closed loop is unknown; clients roughly take turns.
        let closed = 1e-4 * f64::from(workload.links());
        let seconds = workload.loads.iter().map(|load| load.hz().map_or(each * closed, |hz| each / hz)).sum::<f64>();
        return Some(((seconds * 1e9) as u64).min(most_ns));
    }
    let trials = workload.loads.iter().map(|load| if matches!(load, OfferedLoad::Search { .. }) { SEARCH } else { 1 });
    Some(workload.duration_ns?.saturating_mul(trials.sum()).min(most_ns))
}

/// Estimated duration of a payload in microseconds; only its proportions matter.
fn weight(sub_experiment: &SubExperiment, payload_bytes: u64) -> u64 {
    const START_NS: u64 = 100_000_000;
    const TRIP_NS: u64 = 10_000;
    let trip_ns = TRIP_NS + payload_bytes / 2;
    if let Some(load_ns) = load_ns(sub_experiment, payload_bytes) {
        return START_NS.saturating_add(load_ns) / 1000;
    }
    let samples = sub_experiment.workload.most_messages.unwrap_or(sub_experiment.samples_of(payload_bytes));
    let trips = samples.saturating_add(sub_experiment.warmup);
    let cap_ns = sub_experiment.time_cap_ns.unwrap_or(u64::MAX);
    START_NS.saturating_add(trip_ns.saturating_mul(trips).min(cap_ns)) / 1000
}
