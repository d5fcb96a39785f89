//! What the audit of samples found, said beside the row and the figure that it concerns; thresholds are those of
//! [`tripmeter_stats::series`].

use crate::merged::{Merged, MergedCell};
use crate::number::micros;
use tripmeter_model::manifest::Cell;
use tripmeter_model::payload::display_size;
use tripmeter_model::series::Series;
use tripmeter_stats::series::{drifts, has_modes, is_correlated, warm_up_changes};

/// Figures that dropping a warm-up may change.
const FIGURES: [&str; 3] = ["mean", "median", "p99"];

/// A line for each payload of which there is something to say.
pub fn notes(sub: &Merged<'_>) -> Vec<String> {
    sub.payloads().iter().flat_map(|cell| of_payload(sub, cell)).collect()
}

fn of_payload(sub: &Merged<'_>, cell: &MergedCell<'_>) -> Vec<String> {
    let place = format!("{} at {}", sub.planned.name, display_size(cell.payload_bytes));
    let mut lines: Vec<String> = line(sub, &place, &cell.cells, |cell| cell.series.as_ref()).into_iter().collect();
    let trials = cell.cells.iter().map(|cell| cell.channel.len()).max().unwrap_or(0);
    for trial in 0..trials {
        let rate = sub.planned.channel.as_ref().and_then(|flow| flow.rates_hz.get(trial)).copied().unwrap_or(0.0);
        let place = |time| format!("{place}, {} /s, {time} time", crate::throughput::count(rate));
        let of_response = |cell: &Cell| cell.channel.get(trial)?.response_series.clone();
        let of_service = |cell: &Cell| cell.channel.get(trial)?.service_series.clone();
        let responses: Vec<Option<Series>> = cell.cells.iter().map(|cell| of_response(cell)).collect();
        let services: Vec<Option<Series>> = cell.cells.iter().map(|cell| of_service(cell)).collect();
        lines.extend(line(sub, &place("response"), &responses, Option::as_ref));
        lines.extend(line(sub, &place("service"), &services, Option::as_ref));
    }
    lines
}

/// Everything about one row; of several rounds the first that something is said of, and how many there are.
fn line<T>(sub: &Merged<'_>, place: &str, rounds: &[T], series: impl Fn(&T) -> Option<&Series>) -> Option<String> {
    let series: Vec<&Series> = rounds.iter().filter_map(series).collect();
    let parts = [modes, drift, warm_up, correlation].iter().filter_map(|say| {
        let said: Vec<String> = series.iter().filter_map(|series| say(series)).collect();
        let first = said.first()?;
        Some(if sub.rounds > 1 {
            format!("{first} (in {} of {} rounds)", said.len(), sub.rounds)
        } else {
            first.clone()
        })
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("{place}: {}", parts.join("; ")))
}

fn modes(series: &Series) -> Option<String> {
    let found = has_modes(series)?;
    let (low, high, share) = (micros(found.lower_ns), micros(found.upper_ns), found.upper_share * 100.0);
    Some(format!(
        "two modes, {low} and {high} µs, {share:.0} % of the samples in the upper one: the median is of either"
    ))
}

fn drift(series: &Series) -> Option<String> {
    let found = drifts(series)?;
    Some(format!("the median drifted by {:+.0} % from begin to end", found.change * 100.0))
}

fn warm_up(series: &Series) -> Option<String> {
    let (changes, warm_up) = (warm_up_changes(series), series.warm_up?);
    let figures = [warm_up.mean_ns, warm_up.median_ns, warm_up.p99_ns];
    let changed = FIGURES.iter().zip(figures).zip(changes).filter(|(_, changes)| *changes);
    let changed: Vec<String> =
        changed.map(|((name, [all, rest]), _)| format!("{name} {} -> {} µs", micros(all), micros(rest))).collect();
    let (samples, changed_text) = (warm_up.samples, changed.join(", "));
    (!changed.is_empty()).then(|| format!("without its first {samples} samples (warm-up by MSER-5) {changed_text}"))
}

fn correlation(series: &Series) -> Option<String> {
    let found = is_correlated(series)?;
    let (worth, samples) = (found.effective_samples, series.samples);
    let bound = if found.is_complete { "" } else { "at most " };
    let wider = (samples as f64 / worth).sqrt();
    Some(format!(
        "autocorrelated: {samples} samples are worth {bound}{worth:.0}, so intervals within the run should be {wider:.1} \
         times as wide"
    ))
}

#[cfg(test)]
mod tests {
    use crate::fixture::{self, add, result};
    use crate::{all, iceperf};
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
        result(&mut manifest, "mq", 1, &[(1024, 1000.0)]).cells[0].series = Some(series());
        let line = "mq at 1k: two modes, 0.900 and 1.800 µs, 30 % of the samples in the upper one: the median is of either; \
                    the median drifted by -12 % from begin to end; without its first 300 samples (warm-up by MSER-5) mean \
                    1.200 -> 1.000 µs, p99 9.000 -> 2.000 µs; autocorrelated: 10000 samples are worth 400, so intervals \
                    within the run should be 5.0 times as wide\n";
        assert!(all(&manifest).contains(line), "{}", all(&manifest));
        assert!(iceperf(&manifest).contains(line), "{}", iceperf(&manifest));
        manifest.plan.rounds = 2;
        let steady = Series { warm_up: None, autocorrelation: None, modes: None, ..series() };
        result(&mut manifest, "mq", 2, &[(1024, 1000.0)]).cells[0].series = Some(steady);
        let text = all(&manifest);
        assert!(text.contains("begin to end (in 2 of 2 rounds); without its first 300"), "{text}");
    }
}
