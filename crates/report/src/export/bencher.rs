//! Bencher Metric Format: benchmarks by name, each with measures.
//!
//! # Source
//! <https://bencher.dev/docs/reference/bencher-metric-format>: names have at most 1,024 characters, measures 64.

use super::exported::{ExportedPayload, cut, left_out, measured};
use crate::results::NamedResults;
use serde_json::{Map, Value, json};
use tripmeter_analysis::Selected;
use tripmeter_model::figure::{Figure, Statistic, Unit};
use tripmeter_model::metric::Interval;
use tripmeter_model::metric::Stream;

const MOST_NAME: usize = 1000;

/// Metrics of each sub-experiment and payload, and a line for each payload that is left out.
///
/// As Bencher calls them, `latency` is the median of the first latency and `throughput` the received rate. Other
/// metrics have the names of their figures. Latencies are in nanoseconds. From six rounds on, bounds are the 95 %
/// interval of the median.
///
/// Left out are percentiles with too few samples for an upper bound, and transports that polled on a shared CPU. So are
/// payloads that failed, were interrupted, were not measured or missed their rate.
pub fn bencher(results: &[NamedResults<'_>]) -> (Value, Vec<String>) {
    let mut all = Map::new();
    let subs = measured(results);
    for sub in &subs {
        let figures = |payload: &ExportedPayload| {
            let usable = payload.figures.iter().filter(|one| one.value.is_finite());
            usable.cloned().collect::<Vec<_>>()
        };
        let usable = sub.payloads.iter().filter(|payload| sub.unusable(payload).is_none());
        for figure in usable.flat_map(figures) {
            let stream = &figure.address.stream;
            let stream = if *stream == Stream::all() { String::new() } else { format!(" {stream}") };
            let name = format!("{}{stream}", figure.address.located_as(&sub.name));
            let name = match cut(&name, MOST_NAME) {
                // Long names may begin with the same characters.
                short if short != name => format!("{short} {}", all.len()),
                name => name,
            };
            let metrics = all.entry(name).or_insert_with(|| json!({}));
            if let Some(metrics) = metrics.as_object_mut() {
                let measure = measure(&figure, metrics);
                metrics.insert(measure, metric(&figure));
            }
        }
    }
    (Value::Object(all), left_out(&subs))
}

fn measure(one: &Selected, known: &Map<String, Value>) -> String {
    let (figure, statistic) = (one.address.figure, one.address.statistic);
    match (figure.unit(), statistic) {
        (Unit::Ns, Statistic::P50) if !known.contains_key("latency") => "latency".to_owned(),
        (Unit::Hz, _) if figure == Figure::ReceivedRate => "throughput".to_owned(),
        _ => {
            let statistic = if statistic == Statistic::Value { String::new() } else { format!("-{statistic}") };
            format!("{figure}{statistic}").replace('_', "-")
        }
    }
}

fn metric(one: &Selected) -> Value {
    let mut metric = json!({ "value": one.value });
    let interval = one.interval();
    // A loss is a share of all messages, not a median.
    if let Some(Interval { low, high }) = interval.filter(|_| one.address.figure != Figure::LossShare)
        && low.is_finite()
        && high.is_finite()
    {
        metric["lower_value"] = json!(low);
        metric["upper_value"] = json!(high);
    }
    metric
}
