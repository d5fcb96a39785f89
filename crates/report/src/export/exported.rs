//! Results and verdicts, prepared for all export formats.

use crate::results::NamedResults;
use std::collections::BTreeMap;
use tripmeter_analysis::{JudgedResults, MetricTable, Selected, Selection};
use tripmeter_model::figure::{Figure, Unit};
use tripmeter_model::manifest::has_several_sizes;
use tripmeter_model::payload::{at_text, size_text};
use tripmeter_model::verdict::{VerdictDocument, VerdictRow};

/// Results and verdict that are exported.
pub struct ExportInput<'a> {
    /// Results folders.
    pub results: &'a [NamedResults<'a>],
    /// The verdict on them, if there is one.
    pub verdict: Option<&'a VerdictDocument>,
}

/// State of a payload of a sub-experiment.
pub(super) enum PayloadState {
    Passed,
    /// Messages were lost.
    Lossy(String),
    Failed(String),
    /// The payload, or one of its offered loads, has no figures.
    Skipped(String),
}

impl ExportedSub {
    /// Reason why the figures of a payload are unusable; `None` if they are good.
    pub fn unusable<'a>(&'a self, payload: &'a ExportedPayload) -> Option<&'a str> {
        payload.state.unusable().or(self.of_scheduler.as_deref())
    }
}

impl PayloadState {
    /// Reason why the figures are unusable; `None` if they are good.
    pub fn unusable(&self) -> Option<&str> {
        match self {
            PayloadState::Passed | PayloadState::Lossy(_) => None,
            PayloadState::Failed(why) | PayloadState::Skipped(why) => Some(why),
        }
    }
}

/// A planned payload with the usual figures: p50 and p99 of latencies, rates and loss.
pub(super) struct ExportedPayload {
    pub payload_bytes: u64,
    /// Payload, or `all topics`.
    pub size: String,
    /// `size` within a sentence, e.g. `at 64k`.
    pub at: String,
    pub state: PayloadState,
    pub figures: Vec<Selected>,
    /// Percentiles that have no upper bound because there are too few samples.
    pub unbounded: Vec<Selected>,
}

/// A planned sub-experiment.
pub(super) struct ExportedSub {
    /// Name, including that of its folder if there are several.
    pub name: String,
    /// Reason why its figures are not trusted or not complete.
    pub trouble: Option<String>,
    /// Further notes, a line each.
    pub notes: Vec<String>,
    /// Reason why its times and rates are those of scheduler time slices.
    pub of_scheduler: Option<String>,
    pub payloads: Vec<ExportedPayload>,
    pub duration_s: f64,
}

/// Lines about payloads whose figures are unusable, each with the reason.
pub(super) fn left_out(subs: &[ExportedSub]) -> Vec<String> {
    let of_sub = |sub: &ExportedSub| {
        if let Some(why) = &sub.of_scheduler {
            return vec![format!("{}: {why}", sub.name)];
        }
        let why = |payload: &ExportedPayload| Some(format!("{} {}: {}", sub.name, payload.at, sub.unusable(payload)?));
        sub.payloads.iter().filter_map(why).collect::<Vec<_>>()
    };
    subs.iter().flat_map(of_sub).collect()
}

pub(super) fn measured(results: &[NamedResults<'_>]) -> Vec<ExportedSub> {
    let mut all = Vec::new();
    for one in results {
        let judged = JudgedResults { manifest: one.manifest.clone(), allows_damage: false };
        let mut by_place: BTreeMap<(String, u64), Vec<Selected>> = BTreeMap::new();
        let table = MetricTable::from_manifest(one.manifest);
        for figure in Selection::default().select(&table) {
            let place = (figure.address.sub_experiment.clone(), figure.address.payload_bytes);
            by_place.entry(place).or_default().push(figure);
        }
        let named = |name: &str| if results.len() > 1 { format!("{}/{name}", one.name) } else { name.to_owned() };
        all.extend(one.manifest.plan.missing.iter().map(|line| missing(line, named)));
        for plan in one.manifest.plan.sub_experiments.iter().filter(|plan| !plan.is_disturbed()) {
            let cells = one.manifest.sub_experiments.iter().filter(|result| result.name == plan.name);
            let unmeasured: Vec<_> = cells.clone().flat_map(|result| result.unmeasured(plan)).collect();
            let cells: Vec<_> = cells.flat_map(|result| &result.cells).collect();
            let [missed, _] = table.missed_rates(&plan.name, &[]);
            let distrust = judged.distrust(&plan.name);
            let payload = |&bytes: &u64| {
                let figures = by_place.remove(&(plan.name.clone(), bytes)).unwrap_or_default();
                let mut cells = cells.iter().filter(|cell| cell.payload_bytes == bytes).peekable();
                let has_several_sizes = has_several_sizes(plan, cells.clone().copied());
                let (size, at) = (size_text(bytes, has_several_sizes), at_text(bytes, has_several_sizes));
                let nothing = || unmeasured.iter().find(|one| one.payload_bytes == bytes).map(|one| one.why.clone());
                let nothing = if cells.peek().is_none() { Some("it was not measured".to_owned()) } else { nothing() };
                let mut cut_off = cells.filter(|cell| cell.is_cut_off()).filter_map(|cell| cell.shortfall(plan));
                let mut missed = missed.iter().filter(|(row, _)| row.payload_bytes == bytes);
                let missed = || missed.next().map(|(_, why)| why.clone());
                let unfinished = || judged.unfinished(&plan.name);
                let failed = distrust.clone().or_else(|| cut_off.next()).or_else(missed).or_else(unfinished);
                let state = match (nothing, failed, lost(&figures)) {
                    (Some(why), _, _) => PayloadState::Skipped(why),
                    (None, Some(why), _) => PayloadState::Failed(why),
                    (None, None, Some(why)) => PayloadState::Lossy(why),
                    (None, None, None) => PayloadState::Passed,
                };
                let (figures, unbounded) = figures.into_iter().partition(|one| one.needs.is_none());
                ExportedPayload { payload_bytes: bytes, size, at, state, figures, unbounded }
            };
            all.push(ExportedSub {
                name: named(&plan.name),
                payloads: plan.payloads.iter().map(payload).collect(),
                trouble: distrust.clone().or_else(|| judged.unfinished(&plan.name)),
                notes: judged.notes(&plan.name),
                of_scheduler: Some(&one.manifest.plan)
                    .filter(|all| all.polls_on_shared_cpu(plan))
                    .and_then(|all| all.shared_cpus(plan)),
                duration_s: cells.iter().map(|cell| cell.duration_ns as f64 / 1e9).sum(),
            });
        }
    }
    all
}

/// Entry for a transport that was requested by name but left out; the line has the reason.
fn missing(line: &str, named: impl Fn(&str) -> String) -> ExportedSub {
    let parts = line.strip_prefix("transport '").and_then(|rest| rest.split_once("': "));
    let (name, why) = parts.unwrap_or(("transport", line));
    let nothing = ExportedPayload {
        payload_bytes: 0,
        size: "all payloads".to_owned(),
        at: "at all payloads".to_owned(),
        state: PayloadState::Skipped(format!("it was not measured: {why}")),
        figures: Vec::new(),
        unbounded: Vec::new(),
    };
    ExportedSub {
        name: named(name),
        trouble: None,
        notes: Vec::new(),
        of_scheduler: None,
        payloads: vec![nothing],
        duration_s: 0.0,
    }
}

/// Note that messages were lost, if any were.
fn lost(figures: &[Selected]) -> Option<String> {
    let losses = figures.iter().filter(|one| one.address.figure == Figure::LossShare);
    let worst = losses.max_by(|a, b| a.value.total_cmp(&b.value)).filter(|worst| worst.value > 0.0)?;
    let percent = crate::percent(worst.value);
    Some(format!("{percent} of {} did not arrive in time and intact", worst.address.stream))
}

/// Name of a row within its sub-experiment: `64k 1000hz rtt_half_ns.p99`, `all topics response_ns.p99`, `topic=/imu
/// response_ns.p99`.
pub(super) fn row_name(row: &VerdictRow) -> String {
    let is_topic = row.has_several_sizes && row.stream.contains("topic=");
    let size = (!is_topic).then(|| size_text(row.payload_bytes, row.has_several_sizes));
    let is_told = row.offered_load == "closed" || row.has_several_sizes && row.offered_load == "recorded";
    let load = (!is_told).then(|| row.offered_load.clone());
    let stream = (row.stream != "all").then(|| row.stream.clone());
    let statistic = if row.statistic == "value" { String::new() } else { format!(".{}", row.statistic) };
    let figure = Some(format!("{}{statistic}", row.figure));
    [size, load, stream, figure].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Verdict in one line: `regressed: 8.152 µs, then 26.76 µs; ratio 3.28 (3.20 to 3.35)`.
pub(super) fn row_story(row: &VerdictRow) -> String {
    let value = |value: Option<f64>| value.map_or("none".to_owned(), |value| with_unit(value, &row.unit));
    let mut parts = Vec::new();
    match (row.limit, &row.since) {
        (Some(limit), _) => parts.push(format!("{}, limit {}", value(row.new), value(Some(limit)))),
        (None, Some(since)) => {
            let until = row.until.as_ref().map_or(String::new(), |until| format!(" until {until}"));
            parts.push(format!("{} before, {} after, since {since}{until}", value(row.old), value(row.new)));
        }
        (None, None) => parts.push(format!("{}, then {}", value(row.old), value(row.new))),
    }
    if let Some(ratio) = row.ratio {
        let end = |end: Option<f64>| end.map_or("unbounded".to_owned(), |end| format!("{end:.4}"));
        let interval = row.interval.map_or(String::new(), |[low, high]| format!(" ({} to {})", end(low), end(high)));
        parts.push(format!("ratio {ratio:.4}{interval}"));
    }
    format!("{}: {}", row.verdict, parts.join("; "))
}

/// Value with its unit, e.g. `8.152 µs`.
pub(super) fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        _ if unit == Unit::Ns.as_str() => format!("{:.3} µs", value / 1000.0),
        _ if unit == Unit::Share.as_str() => crate::percent(value),
        _ if unit == Unit::Count.as_str() => format!("{value}"),
        _ => format!("{value:.1} {unit}"),
    }
}

/// Text of at most `most` characters; a cut is marked.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
