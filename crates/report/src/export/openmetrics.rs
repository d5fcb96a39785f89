//! OpenMetrics 1.0 text: a gauge for each figure, in base units, with its address as labels.
//!
//! # Source
//! <https://prometheus.io/docs/specs/om/open_metrics_spec/>

use super::exported::{ExportedSub, left_out, measured};
use crate::results::NamedResults;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use tripmeter_analysis::{MetricTable, Selection};
use tripmeter_model::figure::{Figure, Statistic, Unit};
use tripmeter_model::metric::Stream;

/// Every stored figure over all rounds, and the loss; then a line for each payload that is left out. Left out are
/// percentiles with too few samples for an upper bound, and payloads whose figures are unusable.
pub fn openmetrics(results: &[NamedResults<'_>]) -> (String, Vec<String>) {
    let mut families: BTreeMap<(Figure, bool), String> = BTreeMap::new();
    let mut add = |figure: Figure, labels: &[(&str, String)], statistic: Statistic, value: f64| {
        // A number of samples is not a time, so it has its own family.
        let is_count = statistic == Statistic::N;
        let (name, _, factor) = family(figure, is_count);
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", label(value))).collect();
        let statistic = if is_count { String::new() } else { format!(",statistic=\"{statistic}\"") };
        let samples = families.entry((figure, is_count)).or_default();
        let _ = writeln!(samples, "{name}{{{}{statistic}}} {}", labels.join(","), number(value * factor));
    };
    for one in results {
        let folder = (results.len() > 1).then(|| ("folder", one.name.to_owned()));
        let table = MetricTable::from_manifest(one.manifest);
        let measured = measured(std::slice::from_ref(one));
        let unusable = |sub: &'_ ExportedSub| {
            let payloads = sub.payloads.iter().filter(|payload| sub.unusable(payload).is_some());
            payloads.map(|payload| (sub.name.clone(), payload.payload_bytes)).collect::<Vec<_>>()
        };
        let unusable: HashSet<(String, u64)> = measured.iter().flat_map(unusable).collect();
        for rounds in table.select(|_| true) {
            let (row, stream) = (rounds.key.row, table.stream(rounds.key));
            let is_bounded = table.is_bounded(row, stream, rounds.key.figure, rounds.key.statistic);
            if !is_bounded || unusable.contains(&(table.sub(row).to_owned(), row.payload_bytes)) {
                continue;
            }
            let labels = [
                ("sub_experiment", table.sub(row).to_owned()),
                ("payload_bytes", payload(row.payload_bytes, table.has_several_sizes(row), stream)),
                ("offered_load", table.load(row).to_string()),
                ("stream", stream.to_string()),
            ];
            let labels: Vec<_> = folder.iter().cloned().chain(labels).collect();
            add(rounds.key.figure, &labels, rounds.key.statistic, rounds.folded());
        }
        for one in Selection::default().select(&table).iter().filter(|one| one.address.figure.is_derived()) {
            let address = &one.address;
            if unusable.contains(&(address.sub_experiment.clone(), address.payload_bytes)) {
                continue;
            }
            let labels = [
                ("sub_experiment", address.sub_experiment.clone()),
                ("payload_bytes", payload(address.payload_bytes, address.has_several_sizes, &address.stream)),
                ("offered_load", address.load.to_string()),
                ("stream", address.stream.to_string()),
            ];
            let labels: Vec<_> = folder.iter().cloned().chain(labels).collect();
            add(address.figure, &labels, address.statistic, one.value);
        }
    }
    let mut text = String::new();
    for ((figure, is_count), samples) in &families {
        let (name, unit, _) = family(*figure, *is_count);
        let _ = writeln!(text, "# TYPE {name} gauge");
        if !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let what = if *is_count { "number of samples: " } else { "" };
        let _ = writeln!(text, "# HELP {name} {what}{}", label(figure.help()));
        text += samples;
    }
    text += &info(results);
    (text + "# EOF\n", left_out(&measured(results)))
}

/// Program and machine of the measurement.
fn info(results: &[NamedResults<'_>]) -> String {
    let mut text = "# TYPE tripmeter_run info\n# HELP tripmeter_run program, machine and start of a run\n".to_owned();
    for NamedResults { name, manifest } in results {
        let folder = if results.len() > 1 { format!("folder=\"{}\",", label(name)) } else { String::new() };
        let pairs = [
            ("version", &manifest.tripmeter_version),
            ("started", &manifest.started),
            ("kernel", &manifest.environment.kernel),
            ("cpu_model", &manifest.environment.cpu_model),
        ];
        let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", label(value))).collect();
        let _ = writeln!(text, "tripmeter_run_info{{{folder}{}}} 1", pairs.join(","));
    }
    text
}

/// Name, which ends with the unit; unit; and factor of the values.
fn family(figure: Figure, is_count: bool) -> (String, &'static str, f64) {
    let id = figure.id();
    let (end, unit, factor) = match figure.unit() {
        Unit::Ns => ("_ns", "seconds", 1e-9),
        Unit::Hz => ("_hz", "hertz", 1.0),
        Unit::Bytes => ("_bytes", "bytes", 1.0),
        Unit::BytesPerS => ("_bytes_per_s", "bytes_per_second", 1.0),
        Unit::Share => ("_share", "ratio", 1.0),
        Unit::Count => ("", "", 1.0),
    };
    let stem = id.strip_suffix(end).unwrap_or(id);
    match (is_count, unit) {
        (true, _) => (format!("tripmeter_{stem}_samples"), "samples", 1.0),
        (false, "") => (format!("tripmeter_{stem}"), "", 1.0),
        (false, unit) => (format!("tripmeter_{stem}_{unit}"), unit, factor),
    }
}

/// Bytes; or `all topics` or `one topic` if messages have several sizes.
fn payload(bytes: u64, has_several_sizes: bool, stream: &Stream) -> String {
    match (has_several_sizes, &stream.topic) {
        (false, _) => bytes.to_string(),
        (true, None) => "all topics".to_owned(),
        (true, Some(_)) => "one topic".to_owned(),
    }
}

fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}
