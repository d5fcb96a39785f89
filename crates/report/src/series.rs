//! Findings of the audit of samples, with the row and figure that they concern; thresholds are in
//! [`tripmeter_analysis::series`].

use crate::document::{Note, Severity};
use crate::labels::offered;
use crate::merged::Merged;
use crate::number::{counted, fixed, micros};
use std::collections::BTreeSet;
use tripmeter_analysis::series::{drifts, has_modes, is_correlated, warm_up_changes};
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::group::by_key;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::series::Series;
use tripmeter_stats::rounds::{drift_of_rounds, modes_of_rounds};

/// Figures that may change if the warm-up is dropped.
const FIGURES: [&str; 3] = ["mean", "median", "p99"];

/// Figures whose rounds are audited, with their names in notes.
const OF_ROUNDS: [(Figure, &str); 6] = [
    (Figure::RttHalf, "rtt_half"),
    (Figure::OneWay, "one_way"),
    (Figure::Response, "response time"),
    (Figure::Service, "service time"),
    (Figure::ResponseRtt, "response time of calls"),
    (Figure::ServiceRtt, "service time of calls"),
];

/// Notes on series with findings: one per payload, load, topic and figure.
pub fn notes(subs: &[Merged<'_>], metrics: &MetricTable) -> Vec<Note> {
    (0..).zip(subs).flat_map(|(index, sub)| notes_of(index, sub, metrics)).collect()
}

/// Notes on one sub-experiment, by its index in the plan.
pub fn notes_of(index: u32, sub: &Merged<'_>, metrics: &MetricTable) -> Vec<Note> {
    let own: Vec<Row> = metrics.rows_of(index).collect();
    let mut notes = Vec::new();
    for payload_bytes in &sub.planned.payloads {
        let rows: Vec<Row> = own.iter().copied().filter(|row| row.payload_bytes == *payload_bytes).collect();
        for row in &rows {
            let mut lines = of_row(sub, metrics, *row);
            // Rounds at several loads are not judged.
            if rows.len() == 1 {
                lines.extend(of_rounds(sub, metrics, *row));
            }
            notes.extend(lines.into_iter().map(|text| Note::new(Severity::Info, KIND, Some(*row), text)));
        }
    }
    notes
}

pub const KIND: &str = "stability over time";

/// Series of a figure in one round, of one client.
struct Audited<'a> {
    round: u32,
    /// Client that made the calls; 0 if there are no clients.
    client: u32,
    series: &'a Series,
}

fn place(sub: &Merged<'_>, row: Row) -> String {
    format!("{} {}", sub.planned.name, sub.payload(row.payload_bytes).at())
}

/// A line for each topic and figure; clients share a line.
fn of_row(sub: &Merged<'_>, metrics: &MetricTable, row: Row) -> Vec<String> {
    let mut found = Vec::new();
    for (round, trial) in metrics.trials(row) {
        for (stream, figure, series) in trial.series() {
            let audited = Audited { round: *round, client: stream.client.unwrap_or(0), series };
            found.push(((Stream { client: None, ..stream.clone() }, figure), audited));
        }
    }
    let load = metrics.load(row);
    let of = |((stream, figure), audited)| line(sub, &named(sub, row, load, &stream, figure), audited);
    by_key(found).into_iter().filter_map(of).collect()
}

/// Name of a series in notes.
fn named(sub: &Merged<'_>, row: Row, load: OfferedLoad, stream: &Stream, figure: Figure) -> String {
    let of = match (&stream.topic, load) {
        (Some(topic), _) => format!("{}, topic '{topic}'", sub.planned.name),
        (None, load) if load.hz().is_some() => format!("{}, {}", place(sub, row), offered(load)),
        _ => place(sub, row),
    };
    match figure {
        Figure::Response | Figure::ResponseRtt => format!("{of}, response time"),
        Figure::Service | Figure::ServiceRtt => format!("{of}, service time"),
        _ => of,
    }
}

/// Modes and drift of the medians of the rounds.
fn of_rounds(sub: &Merged<'_>, metrics: &MetricTable, row: Row) -> Vec<String> {
    let place = place(sub, row);
    let mut lines = Vec::new();
    for (figure, kind) in OF_ROUNDS {
        let Some(medians) = metrics.get(row, &Stream::all(), figure, Statistic::P50) else { continue };
        if let Some(groups) = modes_of_rounds(medians.values) {
            let (low, high) = (micros(groups.lower_median), micros(groups.upper_median));
            let (lower, upper) = (groups.lower_count, groups.upper_count);
            lines.push(format!(
                "{place}: the rounds fall into two groups, {lower} at {low} µs and {upper} at {high} µs; the median of \
                 {kind} may fall in either"
            ));
        }
        if let Some(change) = drift_of_rounds(medians.values) {
            lines.push(format!("{place}: the median of {kind} {} from the first round to the last", moved(change)));
        }
    }
    lines
}

/// Findings on one row; of several rounds or clients, the text of the first with a finding, and how many have one.
fn line(sub: &Merged<'_>, place: &str, audited: Vec<Audited<'_>>) -> Option<String> {
    let clients = sub.planned.workload.topology.clients;
    let parts = [modes, drift, warm_up, correlation].iter().filter_map(|say| {
        let said: Vec<(&Audited<'_>, String)> =
            audited.iter().filter_map(|one| Some((one, say(one.series)?))).collect();
        let (first, text) = said.first()?;
        let mut extent = Vec::new();
        if clients > 1 {
            let those: BTreeSet<u32> = said.iter().map(|(one, _)| one.client).collect();
            extent.push(format!("client {}, {} of {clients} clients", first.client, those.len()));
        }
        if sub.rounds > 1 {
            let those: BTreeSet<u32> = said.iter().map(|(one, _)| one.round).collect();
            let measured: BTreeSet<u32> = audited.iter().map(|one| one.round).collect();
            extent.push(format!("in {} of {}", those.len(), counted(measured.len(), "round")));
        }
        Some(if extent.is_empty() { text.clone() } else { format!("{text} ({})", extent.join(", ")) })
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("{place}: {}", parts.join("; ")))
}

fn modes(series: &Series) -> Option<String> {
    let found = has_modes(series)?;
    let (low, high, share) = (micros(found.lower_ns), micros(found.upper_ns), fixed(found.upper_share * 100.0, 0));
    Some(format!("two peaks, at {low} and {high} µs ({share} % in the upper), so the median may fall in either"))
}

fn drift(series: &Series) -> Option<String> {
    Some(format!("the median {} from start to finish", moved(drifts(series)?.change)))
}

/// A change as `rose 5 %` or `fell 5 %`.
pub fn moved(change: f64) -> String {
    format!("{} {} %", if change < 0.0 { "fell" } else { "rose" }, fixed(change.abs() * 100.0, 0))
}

fn warm_up(series: &Series) -> Option<String> {
    let (changes, warm_up) = (warm_up_changes(series), series.warm_up?);
    let figures = [warm_up.mean_ns, warm_up.median_ns, warm_up.p99_ns];
    let changed = FIGURES.iter().zip(figures).zip(changes).filter(|(_, changes)| *changes);
    let changed: Vec<String> = changed
        .map(|((name, [all, rest]), _)| format!("{name} {} instead of {} µs", micros(rest), micros(all)))
        .collect();
    let (samples, changed_text) = (warm_up.samples, changed.join(", "));
    (!changed.is_empty())
        .then(|| format!("the first {samples} samples look like warm-up (MSER-5): without them, {changed_text}"))
}

fn correlation(series: &Series) -> Option<String> {
    let found = is_correlated(series)?;
    let (worth, samples) = (found.effective_samples, series.samples.saturating_mul(series.every));
    let bound = if found.is_complete { "" } else { "at most " };
    let wider = (samples as f64 / worth).sqrt();
    Some(format!(
        "neighbouring samples depend on each other, so {samples} carry {bound}as much information as {worth:.0}: widen \
         intervals within the run by a factor of {wider:.1}"
    ))
}

#[cfg(test)]
mod tests {
    use crate::fixture::all;
    use crate::fixture::{self, add, result, trial_of};
    use crate::iceperf;
    use crate::render::Text;
    use tripmeter_model::experiment::Mode;
    use tripmeter_model::figure::Figure;
    use tripmeter_model::metric::Stream;
    use tripmeter_model::series::{Correlation, Modes, Series, Trend, WarmUp};

    fn series() -> Series {
        Series {
            every: 1,
            samples: 10_000,
            warm_up: Some(WarmUp {
                samples: 300,
                is_reliable: true,
                mean_ns: [1200.0, 1000.0],
                median_ns: [1000.0, 999.0],
                p99_ns: [9000.0, 2000.0],
            }),
            autocorrelation: Some(Correlation { lag_1: 0.9, effective_samples: 400.0, is_complete: true }),
            drift: Some(Trend { change: -0.12, p: 1e-6 }),
            modes: Some(Modes { dip: 0.1, dip_limit: 0.03, upper_share: 0.3, lower_ns: 900.0, upper_ns: 1800.0 }),
        }
    }

    #[test]
    fn each_finding_names_its_figure() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        result(&mut manifest, "mq", 1, &[(1024, 1000.0)]);
        trial_of(&mut manifest, 0).put_series(&Stream::all(), Figure::RttHalf, Some(series()));
        let line = "mq at 1k: two peaks, at 0.900 and 1.800 µs (30 % in the upper), so the median may fall in either; \
                    the median fell 12 % from start to finish; the first 300 samples look like warm-up (MSER-5): \
                    without them, mean 1.000 instead of 1.200 µs, p99 2.000 instead of 9.000 µs; neighbouring samples \
                    depend on each other, so 10000 carry as much information as 400: widen intervals within the run by \
                    a factor of 5.0\n";
        assert!(all(&manifest).contains(line), "{}", all(&manifest));
        let text = Text { is_unwrapped: true, ..Text::default() }.render(&iceperf(&manifest));
        assert!(text.contains(line), "{text}");
        manifest.plan.rounds = 2;
        let steady = Series { warm_up: None, autocorrelation: None, modes: None, ..series() };
        result(&mut manifest, "mq", 2, &[(1024, 1000.0)]);
        trial_of(&mut manifest, 1).put_series(&Stream::all(), Figure::RttHalf, Some(steady));
        let text = all(&manifest);
        assert!(text.contains("start to finish (in 2 of 2 rounds); the first 300"), "{text}");
    }

    #[test]
    fn rounds_of_two_modes_are_reported() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        manifest.plan.rounds = 10;
        for round in 1..=10 {
            result(
                &mut manifest,
                "mq",
                round,
                &[(1024, if round % 2 == 0 { 1000.0 } else { 2000.0 } + f64::from(round))],
            );
        }
        let line = "mq at 1k: the rounds fall into two groups, 5 at 1.006 µs and 5 at 2.005 µs; the median of rtt_half \
                    may fall in either\n";
        assert!(all(&manifest).contains(line), "{}", all(&manifest));
    }

    #[test]
    fn calls_are_audited_client_by_client() {
        let mut manifest = fixture::manifest();
        fixture::add_calls(&mut manifest, "grpc", "grpc/unary", Mode::FixedFreq, 4);
        let drifting = Series { warm_up: None, autocorrelation: None, modes: None, ..series() };
        let steady = Series { drift: None, ..drifting.clone() };
        for (client, series) in (0..).zip([steady.clone(), drifting.clone(), steady, drifting]) {
            trial_of(&mut manifest, 0).put_series(&Stream::client(client), Figure::ServiceRtt, Some(series));
        }
        let line = "grpc at 1k, 1000 /s, service time: the median fell 12 % from start to finish (client 1, 2 of 4 \
                    clients)\n";
        assert!(all(&manifest).contains(line), "{}", all(&manifest));
    }

    #[test]
    fn topics_of_a_recording_are_audited_one_by_one() {
        let mut manifest = fixture::played();
        let drifting = Series { warm_up: None, autocorrelation: None, modes: None, ..series() };
        trial_of(&mut manifest, 0).put_series(&Stream::topic("/switch"), Figure::Service, Some(drifting));
        let line = "uds_channel, topic '/switch', service time: the median fell 12 % from start to finish\n";
        assert!(all(&manifest).contains(line), "{}", all(&manifest));
    }

    #[test]
    fn calls_of_a_logger_are_audited() {
        let mut manifest = fixture::manifest();
        fixture::add_logger(&mut manifest, "w", "write/file", &[(32, 500.0)]);
        trial_of(&mut manifest, 0).put_series(&Stream::all(), Figure::Call, Some(series()));
        assert!(all(&manifest).contains("w at 32: two peaks, at 0.900 and 1.800 µs"), "{}", all(&manifest));
    }
}
