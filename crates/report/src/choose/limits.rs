//! A transport against the limits: met, failed or unclear.

use super::wish::Wish;
use crate::curves::Curve;
use crate::document::Digits;
use crate::labels::load_text;
use crate::measured::MeasuredSide;
use crate::merged::Disqualified;
use crate::number::percent;
use crate::values::Value;
use strum::Display;
use tripmeter_analysis::Row;
use tripmeter_analysis::derived::cost;
use tripmeter_analysis::table::samples_for;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::PayloadResult;
use tripmeter_model::metric::{Interval, Process, Stream};
use tripmeter_stats::ErrorBounds;
use tripmeter_stats::proportion::{self, Proportion};
use tripmeter_stats::rounds::ALPHA;
use tripmeter_stats::shift::fewest_pairs;

pub struct JudgedTransport<'a> {
    pub curve: &'a Curve<'a>,
    /// Row of its figures.
    pub row: Row,
    /// Latency that is ranked.
    pub value: Value,
    pub lost: Option<Vec<Proportion>>,
    /// CPU time of the publisher and of the subscribers, by round.
    pub cpu: [Vec<f64>; 2],
    /// Reasons for failing, each with value and limit.
    pub fails: Vec<String>,
    /// Limits that may be met or not: inside the interval of their figure, or with too few messages.
    pub doubts: Vec<String>,
}

/// Outcome of a transport against the limits, in the order of the ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display)]
pub enum Standing {
    #[strum(serialize = "met")]
    Met,
    /// A limit may be met or not.
    #[strum(serialize = "unclear")]
    Unclear,
    #[strum(serialize = "FAILED")]
    Failed,
    /// It polled on a shared CPU, so its figures are those of the scheduler.
    #[strum(serialize = "not ranked")]
    NotRanked,
}

/// Judges a figure against its maximum; without an interval the value decides.
fn standing(value: f64, interval: Option<Interval>, most: f64) -> Standing {
    match interval {
        Some(Interval { high, .. }) if high <= most => Standing::Met,
        Some(Interval { low, .. }) if low <= most => Standing::Unclear,
        None if value <= most => Standing::Met,
        _ => Standing::Failed,
    }
}

fn has_intervals(rounds: usize) -> bool {
    rounds as u64 >= fewest_pairs(ALPHA)
}

/// Value without the interval within the only round, which says nothing about other rounds.
fn over_rounds(value: Value) -> Value {
    Value { interval: value.interval.filter(|_| has_intervals(value.rounds)), ..value }
}

impl<'a> JudgedTransport<'a> {
    /// Judges the transport of a curve; `None` if it is only the floor or nothing arrived.
    pub fn new(side: &MeasuredSide<'_>, curve: &'a Curve<'a>, payload: u64, wish: &Wish) -> Option<Self> {
        if curve.merged().planned.added_as_floor {
            return None;
        }
        let (metrics, row) = (&side.metrics, curve.row(payload));
        let value = over_rounds(curve.value(payload, wish.by)?);
        let lost = side.losses(row);
        let cpu = [Process::Leader, Process::Follower].map(|process| cost(metrics, row, process, Figure::CpuShare));
        let mut one = Self { curve, row, value, lost, cpu, fails: Vec::new(), doubts: Vec::new() };
        one.judge_latency(payload, wish);
        one.judge_cpu(wish);
        one.judge_loss(wish);
        one.judge_trials(side);
        Some(one)
    }

    pub fn standing(&self) -> Standing {
        if self.curve.merged().disqualified() == Some(Disqualified::PolledOnSharedCpu) {
            return Standing::NotRanked;
        }
        match (self.fails.is_empty(), self.doubts.is_empty()) {
            (false, _) => Standing::Failed,
            (true, false) => Standing::Unclear,
            (true, true) => Standing::Met,
        }
    }

    /// Messages in the round that has the fewest.
    fn fewest_messages(&self, payload: u64) -> f64 {
        let rounds = self.curve.rounds(payload, Statistic::N);
        rounds.map_or(0.0, |rounds| rounds.values.iter().copied().fold(f64::INFINITY, f64::min))
    }

    /// Note if the time cap ended the payload early.
    pub fn capped(&self) -> Option<String> {
        let why = self.shortfall(PayloadResult::is_capped)?;
        Some(format!("{}: fewer samples than planned: {why}", self.curve.label))
    }

    fn shortfall(&self, is_meant: fn(&PayloadResult) -> bool) -> Option<String> {
        let sub = self.curve.merged();
        let cells = sub.results.iter().flat_map(|result| &result.cells);
        let mut meant = cells.filter(|cell| cell.payload_bytes == self.row.payload_bytes && is_meant(cell));
        meant.find_map(|cell| cell.shortfall(sub.planned))
    }

    /// CPU time of all processes, over rounds.
    fn cpu_of_all(&self) -> Option<Value> {
        let [publisher, subscribers] = &self.cpu;
        let both: Vec<f64> = publisher.iter().zip(subscribers).map(|(one, other)| one + other).collect();
        Value::over(&both, None, ErrorBounds::NONE)
    }

    fn note(&mut self, standing: Standing, text: impl FnOnce() -> String) {
        match standing {
            Standing::Met | Standing::NotRanked => {}
            Standing::Unclear => self.doubts.push(text()),
            Standing::Failed => self.fails.push(text()),
        }
    }

    fn judge_latency(&mut self, payload: u64, wish: &Wish) {
        let Some(limit) = wish.max_latency_ns else { return };
        let statistic = wish.by;
        // The maximum is the largest of all rounds, not their median; two clocks add an error.
        let largest = self.curve.rounds(payload, statistic).filter(|_| statistic == Statistic::Max);
        let largest = largest.map(|rounds| {
            let seen = rounds.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let off = Interval { low: seen, high: seen }.widened(rounds.errors());
            (seen, Some(off).filter(|_| rounds.error > 0.0))
        });
        let (seen, interval) = largest.unwrap_or((self.value.value, self.value.interval));
        let ends = written(interval, time);
        let needed = samples_for(statistic).filter(|needed| self.fewest_messages(payload) < *needed as f64);
        let few = needed.map_or_else(String::new, |needed| format!("; it needs {needed} messages per round"));
        let text = || format!("{statistic} {}{ends}, limit {} (--max-latency){few}", time(seen), time(limit));
        let standing = match standing(seen, interval, limit) {
            // Without an upper bound, it is not known to be below the limit.
            Standing::Met if needed.is_some() => Standing::Unclear,
            other => other,
        };
        self.note(standing, text);
    }

    fn judge_cpu(&mut self, wish: &Wish) {
        match (wish.max_cpu, self.cpu_of_all()) {
            (Some(limit), Some(cpu)) => {
                let share = |share: f64| format!("{} %", percent(share));
                let ends = written(cpu.interval, share);
                let text = || format!("CPU {}{ends}, limit {} (--max-cpu)", share(cpu.value), share(limit));
                self.note(standing(cpu.value, cpu.interval, limit), text);
            }
            (Some(_), None) => self.fails.push("its CPU time was not measured (--max-cpu)".to_owned()),
            _ => {}
        }
    }

    fn judge_loss(&mut self, wish: &Wish) {
        let Some(rounds) = &self.lost else {
            return self.fails.push("its loss was not counted".to_owned());
        };
        let (lost, most) = (proportion::sum(rounds), wish.max_loss);
        // A limit of 0 is met if nothing was lost, whatever the interval.
        let interval = proportion::interval(rounds).filter(|_| most > 0.0);
        let interval = interval.filter(|_| has_intervals(rounds.len()));
        let share = |share: f64| format!("{} %", percent(share));
        let ends = written(interval, share);
        let Proportion { events, of } = lost;
        let text =
            || format!("loss {}{ends} ({events} of {of}), limit {} (--max-loss)", share(lost.share()), share(most));
        self.note(standing(lost.share(), interval, most), text);
    }

    /// Judges missed rates, failed proofs, missing rounds and payloads that were cut off.
    fn judge_trials(&mut self, side: &MeasuredSide<'_>) {
        if side.metrics.is_rate_missed(self.row) {
            let of = |figure| side.metrics.get(self.row, &Stream::all(), figure, Statistic::Value);
            let total = |figure| of(figure).map_or(0.0, |rounds| rounds.folded());
            let slowest = of(Figure::AchievedRate).and_then(|rounds| rounds.values.iter().copied().reduce(f64::min));
            let achieved = Digits::Rate.write(slowest.unwrap_or(0.0));
            let (behind, sent) = (total(Figure::Behind), total(Figure::Sent));
            let load = load_text(side.metrics.load(self.row));
            self.fails.push(format!(
                "it missed the rate of {load}: its slowest round reached {achieved} /s; {behind} of {sent} messages \
                 were sent more than one period late"
            ));
        }
        let sub = self.curve.merged();
        if sub.disqualified() == Some(Disqualified::PathProofFailed) {
            self.fails.push("its path proof failed".to_owned());
        }
        self.fails.extend(self.shortfall(PayloadResult::is_cut_off));
        let (measured, planned) = (self.value.rounds, sub.rounds as usize);
        if measured < planned {
            self.fails.push(format!("it was measured in only {measured} of {planned} rounds"));
        }
    }
}

/// ` (1.00 ms to 2.00 ms)`, empty without an interval.
pub fn written(interval: Option<Interval>, write: impl Fn(f64) -> String) -> String {
    interval.map_or(String::new(), |interval| format!(" ({} to {})", write(interval.low), write(interval.high)))
}

/// Nanoseconds as `5 ms`, `12.3 µs`.
pub fn time(ns: f64) -> String {
    let (value, unit) = if ns >= 1e6 { (ns / 1e6, "ms") } else { (ns / 1e3, "µs") };
    format!("{} {unit}", Digits::Significant(3).write(value))
}
