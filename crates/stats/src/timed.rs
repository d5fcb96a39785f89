//! Summaries of patterns `channel` and `rpc`, whose payloads have more than one distribution: one for each rate and time.
//!
//! Each has a name of its own, which says what its latencies are, so that response times never meet service times, nor round
//! trips times one way: `NAME@service_1000hz`, `NAME@response_1000hz`, `NAME@service_recording`, `NAME@service_rtt` (mode
//! `bench`), `NAME@service_rtt_1000hz`, `NAME@response_rtt_burst-4-5ms`; of requests `NAME@one_way`, `NAME@one_way_1000hz`,
//! `NAME@one_way_burst-4-5ms` and `NAME@one_way_recording`, where that was asked for. Names of sub-experiments have no `@`.
//! What belongs to none of these times (losses and rates) stands with service times, which there always are.

use tripmeter_model::bytes::Bytes;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{Counts, PayloadResult, SubExperimentResult};
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::summary::{More, Summary, SummaryRow};
use tripmeter_model::trial::Trial;

/// Parts the name of a sub-experiment from what of it is meant.
const PART: char = '@';

/// The sub-experiment that a name is of.
pub fn sub_experiment(name: &str) -> &str {
    name.split_once(PART).map_or(name, |(sub_experiment, _)| sub_experiment)
}

/// What the latencies under a name are: `service`, `response_rtt` and so on, with `_hz` where a rate is kept,
/// `_burst` of bursts and `_recording` of a recording; `None` for a sub-experiment as a whole.
pub fn kind(name: &str) -> Option<String> {
    let (_, kind) = name.split_once(PART)?;
    if let Some((time, _)) = kind.split_once("_burst-") {
        return Some(format!("{time}_burst"));
    }
    let without_number = kind.trim_end_matches("hz").trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    Some(if kind.ends_with("hz") { format!("{without_number}hz") } else { kind.to_owned() })
}

/// The time that counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Time {
    Response,
    Service,
    /// Of requests, one way.
    OneWay,
}

/// A trial's place in a cell, and the time that counts.
struct TrialPart {
    name: String,
    trial: usize,
    time: Time,
}

/// The names that the plan makes, whatever was measured; none for other patterns.
fn parts(plan: &SubExperiment) -> Vec<TrialPart> {
    let way = if plan.workload.is_call() { "_rtt" } else { "" };
    let loads = if is_of(plan) { &plan.workload.loads[..] } else { &[] };
    let trials: Vec<String> = loads.iter().map(|load| format!("{way}{}", load.suffix())).collect();
    let times = |(trial, suffix): (usize, &String)| {
        let part = |(time, word, suffix): (Time, &str, &str)| TrialPart {
            name: format!("{}{PART}{word}{suffix}", plan.name),
            trial,
            time,
        };
        // In a closed loop a call is to be made when it is.
        let response = (suffix != "_rtt").then_some((Time::Response, "response", suffix.as_str()));
        let one_way = (plan.workload.is_call() && plan.one_way)
            .then(|| (Time::OneWay, "one_way", suffix.trim_start_matches("_rtt")));
        let times = response.into_iter().chain([(Time::Service, "service", suffix.as_str())]).chain(one_way);
        times.map(part).collect::<Vec<_>>()
    };
    trials.iter().enumerate().flat_map(times).collect()
}

/// True if a sub-experiment has summaries of this module.
pub fn is_of(plan: &SubExperiment) -> bool {
    plan.workload.is_timed()
}

/// The summary of each rate and time in microseconds, in the order of the plan; without rows where nothing was measured.
pub fn summaries(plan: &SubExperiment, result: Option<&SubExperimentResult>) -> Vec<(String, Summary)> {
    let cells = result.map_or(&[][..], |result| &result.cells);
    let summary = |part: TrialPart| {
        let rows = cells.iter().filter_map(|cell| row(cell, &part)).collect();
        (part.name, Summary { rows })
    };
    parts(plan).into_iter().map(summary).collect()
}

fn row(cell: &PayloadResult, part: &TrialPart) -> Option<SummaryRow> {
    let trial = cell.trials.get(part.trial)?;
    let figure = match (trial.is_of_calls(), part.time) {
        (false, Time::Response) => Figure::Response,
        (false, _) => Figure::Service,
        (true, Time::Response) => Figure::ResponseRtt,
        (true, Time::Service) => Figure::ServiceRtt,
        (true, Time::OneWay) => Figure::OneWay,
    };
    let of = |statistic| trial.of_all(figure, statistic);
    let us = |statistic| Some(of(statistic)? / 1000.0);
    let more = if part.time == Time::Service { more(trial) } else { More::default() };
    Some(SummaryRow {
        bytes: Bytes::from(cell.payload_bytes),
        samples: of(Statistic::N)? as u64,
        max: us(Statistic::Max)?,
        min: us(Statistic::Min)?,
        mean: us(Statistic::Mean)?,
        median: us(Statistic::P50)?,
        stdev: f64::NAN,
        mean_jitter: f64::NAN,
        max_jitter: f64::NAN,
        p90: us(Statistic::P90)?,
        p99: us(Statistic::P99)?,
        p9999: f64::NAN,
        more: Some(More { p999: us(Statistic::P999), ..more }),
    })
}

/// Loss and rates of a trial.
fn more(trial: &Trial) -> More {
    let value = |figure| trial.value(&Stream::all(), figure);
    let rate_hz = value(Figure::AchievedRate);
    let counts = trial.counts(&Stream::all());
    let late = if trial.is_of_calls() { 0 } else { counts.late };
    More {
        loss_percent: Some(percent(counts.lost + late + counts.damaged, counts)),
        rate_hz,
        qps: value(Figure::Completed).filter(|_| rate_hz.is_none()),
        ..More::default()
    }
}

fn percent(lost: u64, of: Counts) -> f64 {
    lost as f64 / of.sent.max(1) as f64 * 100.0
}

/// What a logger's payload has besides its summary: lines that were missing or damaged; `None` of other patterns.
pub fn of_log(cell: &PayloadResult) -> Option<More> {
    cell.trials.first()?.value(&Stream::all(), Figure::LinesWritten)?;
    let counts = cell.counts();
    Some(More { loss_percent: Some(percent(counts.lost + counts.damaged, counts)), ..More::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_measured() {
        for (name, expected) in [
            ("uds", None),
            ("uds@service_1000hz", Some("service_hz")),
            ("uds@response_0.5hz", Some("response_hz")),
            ("uds@response_rtt_burst-4-2.5ms", Some("response_rtt_burst")),
            ("uds@service_recording", Some("service_recording")),
            ("uds@service_rtt", Some("service_rtt")),
            ("uds@response_rtt_1000hz", Some("response_rtt_hz")),
            ("uds@one_way", Some("one_way")),
            ("uds@one_way_1000hz", Some("one_way_hz")),
        ] {
            assert_eq!((sub_experiment(name), kind(name).as_deref()), ("uds", expected), "{name}");
        }
    }
}
