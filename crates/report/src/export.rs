//! Results and verdicts in the formats of other programs: JUnit XML, workflow commands of GitHub, Bencher's metrics and
//! OpenMetrics.

mod bencher;
mod github;
mod junit;
mod openmetrics;

pub use bencher::bencher;
pub use github::{github_commands, github_summary};
pub use junit::junit;
pub use openmetrics::openmetrics;

use crate::plots::aimrt::NamedResults;
use std::collections::BTreeMap;
use tripmeter_analysis::{JudgedResults, MetricTable, Row, Selected, Selection};
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::{Figure, Unit};
use tripmeter_model::payload::display_size;
use tripmeter_model::verdict::{VerdictDocument, VerdictRow};

/// What is exported.
pub struct ExportInput<'a> {
    /// Results folders.
    pub results: &'a [NamedResults<'a>],
    /// The verdict on them, if there is one.
    pub verdict: Option<&'a VerdictDocument>,
}

/// How a payload of a sub-experiment came out.
enum PayloadState {
    Passed,
    Failed(String),
    Skipped(String),
}

/// A planned payload with the usual figures: p50 and p99 of latencies, rates and loss.
struct ExportedPayload {
    bytes: u64,
    state: PayloadState,
    figures: Vec<Selected>,
    /// Percentiles that its samples are too few for: those have no upper bound.
    unbounded: Vec<Selected>,
}

/// A planned sub-experiment.
struct ExportedSub {
    /// With the name of its folder, if there are several.
    name: String,
    /// Why its figures are not trusted or not complete, if so.
    trouble: Option<String>,
    payloads: Vec<ExportedPayload>,
    duration_s: f64,
}

fn measured(results: &[NamedResults<'_>]) -> Vec<ExportedSub> {
    let mut all = Vec::new();
    for one in results {
        let judged = JudgedResults { manifest: one.manifest.clone(), allows_damage: false };
        let mut by_place: BTreeMap<(String, u64), Vec<Selected>> = BTreeMap::new();
        let table = MetricTable::of(one.manifest);
        for figure in Selection::default().select(&table) {
            let place = (figure.address.sub_experiment.clone(), figure.address.payload_bytes);
            by_place.entry(place).or_default().push(figure);
        }
        for plan in one.manifest.plan.sub_experiments.iter().filter(|plan| !plan.is_disturbed()) {
            let cells = one.manifest.sub_experiments.iter().filter(|result| result.name == plan.name);
            let cells: Vec<_> = cells.flat_map(|result| &result.cells).collect();
            let distrust = judged.distrust(&plan.name);
            let payload = |&bytes: &u64| {
                let figures = by_place.remove(&(plan.name.clone(), bytes)).unwrap_or_default();
                let state =
                    match (cells.iter().any(|cell| cell.payload_bytes == bytes), distrust.clone(), lost(&figures)) {
                        (false, _, _) => PayloadState::Skipped("it was not measured".to_owned()),
                        (_, Some(why), _) | (_, None, Some(why)) => PayloadState::Failed(why),
                        (_, None, None) => PayloadState::Passed,
                    };
                let (figures, unbounded) = figures.into_iter().partition(|one| is_bounded(&table, &one.address));
                ExportedPayload { bytes, state, figures, unbounded }
            };
            all.push(ExportedSub {
                name: if results.len() > 1 { format!("{}/{}", one.name, plan.name) } else { plan.name.clone() },
                payloads: plan.payloads.iter().map(payload).collect(),
                trouble: distrust.clone().or_else(|| judged.unfinished(&plan.name)),
                duration_s: cells.iter().map(|cell| cell.duration_ns as f64 / 1e9).sum(),
            });
        }
    }
    all
}

/// Whether it has an upper bound, if it is a percentile.
fn is_bounded(table: &MetricTable, address: &FigureAddress) -> bool {
    let is_its = |row: &Row| {
        let place = (table.sub(*row), row.payload_bytes, table.load(*row));
        place == (address.sub_experiment.as_str(), address.payload_bytes, address.load)
    };
    let bounded = |row| table.is_bounded(row, &address.stream, address.figure, address.statistic);
    table.all_rows().find(is_its).is_none_or(bounded)
}

/// That messages were lost, if so.
fn lost(figures: &[Selected]) -> Option<String> {
    let losses = figures.iter().filter(|one| one.address.figure == Figure::LossShare);
    let worst = losses.max_by(|a, b| a.value.total_cmp(&b.value)).filter(|worst| worst.value > 0.0)?;
    let percent = crate::percent(worst.value);
    Some(format!("{percent} of {} did not come in time and intact", worst.address.stream))
}

/// Within its sub-experiment: `64k 1000hz rtt_half_ns.p99`.
fn row_name(row: &VerdictRow) -> String {
    let load = if row.offered_load == "closed" { String::new() } else { format!(" {}", row.offered_load) };
    let stream = if row.stream == "all" { String::new() } else { format!(" {}", row.stream) };
    let statistic = if row.statistic == "value" { String::new() } else { format!(".{}", row.statistic) };
    format!("{}{load}{stream} {}{statistic}", display_size(row.payload_bytes), row.figure)
}

/// What was judged, in one line: `regressed: 8.152 µs, then 26.76 µs; ratio 3.28 (3.20 to 3.35)`.
fn row_story(row: &VerdictRow) -> String {
    let value = |value: Option<f64>| value.map_or("none".to_owned(), |value| with_unit(value, &row.unit));
    let mut parts = Vec::new();
    match (row.limit, &row.since) {
        (Some(limit), _) => parts.push(format!("{}, limit {}", value(row.new), value(Some(limit)))),
        (None, Some(since)) => {
            let until = row.until.as_ref().map_or(String::new(), |until| format!(" until {until}"));
            parts.push(format!("{} before, {} after; since {since}{until}", value(row.old), value(row.new)));
        }
        (None, None) => parts.push(format!("{}, then {}", value(row.old), value(row.new))),
    }
    if let Some(ratio) = row.ratio {
        let end = |end: Option<f64>| end.map_or("unbounded".to_owned(), |end| format!("{end:.4}"));
        let interval = row.interval.map_or(String::new(), |[low, high]| format!(" ({} to {})", end(low), end(high)));
        parts.push(format!("ratio {ratio:.4}{interval}"));
    }
    format!("{}: {}", row.verdict.name(), parts.join("; "))
}

/// A value for people.
fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        _ if unit == Unit::Ns.as_str() => format!("{:.3} µs", value / 1000.0),
        _ if unit == Unit::Share.as_str() => crate::percent(value),
        _ if unit == Unit::Count.as_str() => format!("{value}"),
        _ => format!("{value:.1} {unit}"),
    }
}

/// At most so many characters; what is cut off is marked.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, result, set_trips};

    #[test]
    fn a_percentile_without_a_bound_is_none_in_any_format() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        result(&mut manifest, "mq", 1, &[(1024, 1000.0)]);
        for (samples, is_bound) in [(298, false), (299, true)] {
            set_trips(&mut manifest.sub_experiments[0].cells[0], samples);
            let results = [NamedResults { name: "r", manifest: &manifest }];
            let metrics = &bencher(&results)["mq at 1k"];
            assert_eq!((metrics["latency"].is_object(), metrics["rtt-half-ns-p99"].is_object()), (true, is_bound));
            let summary = github_summary(&ExportInput { results: &results, verdict: None });
            assert_eq!(!summary.contains("| too few samples |"), is_bound, "{summary}");
            let suites = junit(&ExportInput { results: &results, verdict: None });
            assert_eq!(suites.contains("rtt_half_ns.p99\""), is_bound, "{suites}");
            let gauges = openmetrics(&results);
            assert_eq!(gauges.contains("statistic=\"p99\""), is_bound, "{gauges}");
            assert!(suites.contains("rtt_half_ns.p50") && gauges.contains("statistic=\"p50\""));
        }
    }
}
