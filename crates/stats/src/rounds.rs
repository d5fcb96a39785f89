//! How far figures can be trusted: over rounds, and within one.

use crate::drift::drift;
use crate::median;
use crate::modes::{Groups, dip_test, two_groups};
use crate::order::{median_interval, quantile_bounds};
use crate::series::{DRIFT_CHANGE, MODES_RATIO};
use tripmeter_model::channel::{Latency, SHOWN_FOLLOWERS, Used};
use tripmeter_model::manifest::{
    Bounds, Cell, FigureOverRounds, Figures, Manifest, OverRounds, OverRoundsFigure, WithinRun,
};

/// All intervals here are at 95 %.
pub const ALPHA: f64 = 0.05;

/// Fewest rounds that something is said of, and the p-value from which on it is.
const FEWEST: usize = 6;
const SHAPE_P: f64 = 0.01;

/// Two groups of rounds, in the order of their medians, if the rounds have two modes: the dip test rejects one at 1 %, the
/// groups are apart by [`MODES_RATIO`] or more, and each has two rounds or more. The median over all is of either then.
pub fn modes_of_rounds(medians: &[f64]) -> Option<Groups> {
    if medians.len() < FEWEST || dip_test(medians)?.p > SHAPE_P {
        return None;
    }
    let apart = |groups: &Groups| groups.upper_median >= MODES_RATIO * groups.lower_median;
    two_groups(medians).filter(|groups| groups.lower_count.min(groups.upper_count) >= 2 && apart(groups))
}

/// The change from the first round to the last, as a share of their median, if the rounds drift: the p-value by Mann and
/// Kendall is 1 % or less, and the change by Theil and Sen's slope [`DRIFT_CHANGE`] or more.
pub fn drift_of_rounds(medians: &[f64]) -> Option<f64> {
    if medians.len() < FEWEST {
        return None;
    }
    let found = drift(medians).filter(|found| found.p <= SHAPE_P)?;
    let level = median(medians).filter(|level| *level > 0.0)?;
    let change = found.slope * (medians.len() / found.batch - 1) as f64 / level;
    (change.abs() >= DRIFT_CHANGE).then_some(change)
}

/// The figures of each sub-experiment and payload over all rounds that have them, in the order of the plan; empty if the
/// plan has one round.
pub fn over_rounds(manifest: &Manifest) -> Vec<OverRounds> {
    if manifest.plan.rounds == 1 {
        return Vec::new();
    }
    let planned = manifest.plan.sub_experiments.iter();
    let cells = planned.flat_map(|sub| sub.payloads.iter().map(move |&bytes| (&sub.name, bytes)));
    cells.filter_map(|(name, bytes)| of_cell(manifest, name, bytes)).collect()
}

fn of_cell(manifest: &Manifest, name: &str, payload_bytes: u64) -> Option<OverRounds> {
    let results = manifest.sub_experiments.iter().filter(|result| result.name == name);
    let cells = results.flat_map(|result| &result.cells).filter(|cell: &&Cell| cell.payload_bytes == payload_bytes);
    let figures: Vec<Figures> = cells.filter_map(|cell| cell.rtt_half_ns).collect();
    let over = |figure: fn(&Figures) -> f64| figure_over_rounds(&figures.iter().map(figure).collect::<Vec<_>>());
    Some(OverRounds {
        name: name.to_owned(),
        payload_bytes,
        rounds: figures.len() as u32,
        min_ns: over(|figures| figures.min)?,
        mean_ns: over(|figures| figures.mean)?,
        median_ns: over(|figures| figures.median)?,
        p90_ns: over(|figures| figures.p90)?,
        p99_ns: over(|figures| figures.p99)?,
        p9999_ns: over(|figures| figures.p9999)?,
        max_ns: over(|figures| figures.max)?,
    })
}

/// All figures but those of [`over_rounds`]: one way, of trials and of channels, in the order of the plan; empty if the
/// plan has one round.
pub fn figures_over_rounds(manifest: &Manifest) -> Vec<FigureOverRounds> {
    if manifest.plan.rounds == 1 {
        return Vec::new();
    }
    let planned = manifest.plan.sub_experiments.iter();
    let cells = planned.flat_map(|sub| sub.payloads.iter().map(move |&bytes| (&sub.name, bytes)));
    cells.flat_map(|(name, bytes)| others_of_cell(manifest, name, bytes)).collect()
}

fn others_of_cell(manifest: &Manifest, name: &str, payload_bytes: u64) -> Vec<FigureOverRounds> {
    let results = manifest.sub_experiments.iter().filter(|result| result.name == name);
    let cells = results.flat_map(|result| &result.cells).filter(|cell| cell.payload_bytes == payload_bytes);
    // In the order in which they come first, with the values of all rounds.
    let mut found: Vec<(String, Vec<f64>)> = Vec::new();
    for (figure, value) in cells.flat_map(others) {
        match found.iter_mut().find(|(known, _)| *known == figure) {
            Some((_, values)) => values.push(value),
            None => found.push((figure, vec![value])),
        }
    }
    let over = |(figure, values): (String, Vec<f64>)| {
        let (name, rounds) = (name.to_owned(), values.len() as u32);
        Some(FigureOverRounds { name, payload_bytes, figure, rounds, over: figure_over_rounds(&values)? })
    };
    found.into_iter().filter_map(over).collect()
}

/// The figures of a cell, by where they stand in it.
fn others(cell: &Cell) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    let mut put = |place: &str, figures: &[(&str, f64)]| {
        found.extend(figures.iter().map(|(name, value)| (format!("{place}.{name}"), *value)));
    };
    of_trips(cell, &mut put);
    of_load(cell, &mut put);
    of_channel(cell, &mut put);
    of_rpc(cell, &mut put);
    of_log(cell, &mut put);
    found
}

fn of_trips(cell: &Cell, put: &mut Put<'_>) {
    of_figures("one_way_ns", cell.one_way_ns, put);
    of_figures("one_way_last_ns", cell.one_way_last_ns, put);
    if let Some(over) = &cell.over_handover_ns {
        over.rtt_half.iter().for_each(|figures| put("over_handover_ns.rtt_half", &[("median", figures.median)]));
    }
    for (index, follower) in cell.followers.iter().enumerate() {
        of_figures(&format!("followers[{index}].one_way_ns"), follower.one_way_ns, put);
    }
}

fn of_load(cell: &Cell, put: &mut Put<'_>) {
    for (index, trial) in cell.trials.iter().enumerate() {
        put(&format!("trials[{index}]"), &[("published_hz", trial.published_hz)]);
        for (follower, arrival) in trial.followers.iter().enumerate() {
            let figures =
                [("received_hz", arrival.received_hz), ("received_bytes_per_s", arrival.received_bytes_per_s)];
            let place = format!("trials[{index}].followers[{follower}]");
            put(&place, &figures);
            of_latency(&format!("{place}.one_way_ns"), arrival.one_way_ns, put);
        }
    }
}

fn of_channel(cell: &Cell, put: &mut Put<'_>) {
    for (index, trial) in cell.channel.iter().enumerate() {
        let place = format!("channel[{index}]");
        put(&place, &[("achieved_hz", trial.achieved_hz)]);
        of_latency(&format!("{place}.response_ns"), trial.response_ns, put);
        of_latency(&format!("{place}.service_ns"), trial.service_ns, put);
        of_latency(&format!("{place}.lateness_ns"), trial.lateness_ns, put);
        of_process(&format!("{place}.publisher"), Some(trial.publisher), put);
        of_process(&format!("{place}.subscriber"), trial.subscriber, put);
        for one in &trial.publishers {
            put(&format!("{place}.publishers[{}]", one.publisher), &[("achieved_hz", one.achieved_hz)]);
        }
        for one in trial.followers.iter().take(SHOWN_FOLLOWERS) {
            let place = format!("{place}.followers[{}]", one.follower);
            of_latency(&format!("{place}.response_ns"), one.response_ns, put);
            of_latency(&format!("{place}.service_ns"), one.service_ns, put);
        }
        for (topic, one) in trial.topics.iter().enumerate() {
            let place = format!("{place}.topics[{topic}]");
            put(&place, &[("achieved_hz", one.achieved_hz)]);
            of_latency(&format!("{place}.response_ns"), one.response_ns, put);
            of_latency(&format!("{place}.service_ns"), one.service_ns, put);
            of_latency(&format!("{place}.lateness_ns"), one.lateness_ns, put);
        }
    }
}

fn of_rpc(cell: &Cell, put: &mut Put<'_>) {
    for (index, trial) in cell.rpc.iter().enumerate() {
        let place = format!("rpc[{index}]");
        put(&place, &[("qps", trial.qps)]);
        if let Some(pace) = trial.pace {
            put(&format!("{place}.pace"), &[("achieved_hz", pace.achieved_hz)]);
        }
        of_latency(&format!("{place}.response_rtt_ns"), trial.response_rtt_ns, put);
        of_latency(&format!("{place}.service_rtt_ns"), trial.service_rtt_ns, put);
        of_latency(&format!("{place}.lateness_ns"), trial.lateness_ns, put);
        of_latency(&format!("{place}.one_way_ns"), trial.one_way_ns, put);
        of_process(&format!("{place}.client"), Some(trial.client), put);
        of_process(&format!("{place}.server"), trial.server, put);
    }
}

fn of_log(cell: &Cell, put: &mut Put<'_>) {
    let Some(log) = &cell.log else { return };
    of_figures("log.call_ns", log.call_ns, put);
    put("log", &[("flush_ns", log.flush_ns as f64)]);
    if let Some(percent) = log.cpu_max_percent {
        put("log", &[("cpu_max_percent", percent)]);
    }
    of_process("log.used", Some(log.used), put);
}

/// Takes figures and the place that they have in common.
type Put<'a> = dyn FnMut(&str, &[(&str, f64)]) + 'a;

fn of_figures(place: &str, figures: Option<Figures>, put: &mut Put<'_>) {
    let Some(Figures { min, mean, median, p90, p99, p9999, max, .. }) = figures else { return };
    let figures =
        [("min", min), ("mean", mean), ("median", median), ("p90", p90), ("p99", p99), ("p9999", p9999), ("max", max)];
    put(place, &figures);
}

fn of_latency(place: &str, latency: Option<Latency>, put: &mut Put<'_>) {
    let Some(Latency { min, mean, median, p90, p99, p999, max, .. }) = latency else { return };
    let figures =
        [("min", min), ("mean", mean), ("median", median), ("p90", p90), ("p99", p99), ("p999", p999), ("max", max)];
    put(place, &figures);
}

fn of_process(place: &str, used: Option<Used>, put: &mut Put<'_>) {
    let Some(used) = used else { return };
    // Shares and rates too, as the tables have them: rounds do not last equally long.
    let figures = [
        ("cpu_time_ns", used.cpu_time_ns as f64),
        ("cpu_percent", used.cpu_percent()),
        ("switches_hz", used.switches_hz()),
        ("peak_memory_bytes", used.peak_memory_bytes as f64),
    ];
    put(place, &figures);
}

/// The median of one figure over rounds, with its interval; `None` without a round.
pub fn figure_over_rounds(values: &[f64]) -> Option<OverRoundsFigure> {
    let interval = median_interval(values, ALPHA).map(|interval| [interval.low, interval.high]);
    Some(OverRoundsFigure { median: median(values)?, interval })
}

/// The interval of the `p` quantile of sorted samples of one run, see [`crate::order`].
pub fn bounds(sorted: &[u64], p: f64) -> Bounds {
    let (low, high) = quantile_bounds(sorted, p, ALPHA);
    Bounds { low: low.map(|ns| ns as f64), high: high.map(|ns| ns as f64) }
}

/// Intervals of the quantiles of sorted samples of one run.
pub fn within_run(sorted: &[u64]) -> WithinRun {
    let of = |p: f64| bounds(sorted, p);
    WithinRun { median: of(0.5), p90: of(0.9), p99: of(0.99), p9999: of(0.9999) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_named_by_their_place() {
        let figures =
            Figures { min: 1.0, mean: 2.0, stdev: 9.0, median: 3.0, p90: 4.0, p99: 5.0, p9999: 6.0, max: 7.0 };
        let cell = Cell { one_way_ns: Some(figures), ..Cell::default() };
        let found = others(&cell);
        assert_eq!((found.len(), found[2].clone()), (7, ("one_way_ns.median".to_owned(), 3.0)));
        let log = serde_json::json!({
            "call_ns": figures, "refused": 0, "flush_ns": 8, "cpu_max_percent": 90.5,
            "lines": { "written": 0, "bytes": 0, "shortest_prefix_bytes": 0, "longest_prefix_bytes": 0 },
            "used": { "window_ns": 1, "cpu_time_ns": 2, "voluntary_switches": 0, "involuntary_switches": 0,
                "peak_memory_bytes": 3 },
        });
        let found = others(&Cell { log: serde_json::from_value(log).ok(), ..Cell::default() });
        let expected = [
            ("log.call_ns.p99", 5.0),
            ("log.flush_ns", 8.0),
            ("log.used.cpu_time_ns", 2.0),
            ("log.used.cpu_percent", 200.0),
            ("log.used.switches_hz", 0.0),
        ];
        for (figure, value) in expected {
            assert!(found.contains(&(figure.to_owned(), value)), "{figure} {found:?}");
        }
    }

    #[test]
    fn rounds_of_two_modes_or_that_drift_are_told() {
        let alternating: Vec<f64> = (0..10).map(|round| [2.55, 5.1][round % 2] + 0.01 * round as f64).collect();
        let found = modes_of_rounds(&alternating).unwrap();
        assert_eq!((found.lower_count, found.upper_count), (5, 5));
        assert_eq!(drift_of_rounds(&alternating), None);
        let rising: Vec<f64> = (0..12).map(|round| 1.05_f64.powi(round)).collect();
        assert!(drift_of_rounds(&rising).is_some_and(|change| (0.4..0.8).contains(&change)));
        assert_eq!(modes_of_rounds(&rising).map(|_| ()), None);
        // Too small to matter, and too few to tell.
        let close: Vec<f64> = alternating.iter().map(|value| 100.0 + value).collect();
        assert_eq!((modes_of_rounds(&close).map(|_| ()), modes_of_rounds(&alternating[..5]).map(|_| ())), (None, None));
        assert_eq!(drift_of_rounds(&rising[..5]), None);
        let slow: Vec<f64> = (0..12).map(|round| 100.0 + 0.1 * f64::from(round)).collect();
        assert_eq!(drift_of_rounds(&slow), None);
    }

    #[test]
    fn steady_rounds_are_hardly_ever_told() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut modes, mut drifts) = (0, 0);
        for _ in 0..400 {
            let rounds: Vec<f64> = (0..10).map(|_| 100.0 * (1.0 + random.f64())).collect();
            modes += u32::from(modes_of_rounds(&rounds).is_some());
            drifts += u32::from(drift_of_rounds(&rounds).is_some());
        }
        // 4 are expected of either; more than 12 come about once in a thousand times.
        assert!(modes <= 12 && drifts <= 12, "{modes} {drifts}");
    }

    #[test]
    fn figures_have_an_interval_from_six_rounds_on() {
        assert_eq!(figure_over_rounds(&[]), None);
        let rounds = [5.0, 3.0, 9.0, 4.0, 8.0, 7.0];
        let with = |interval, median| Some(OverRoundsFigure { median, interval });
        assert_eq!(figure_over_rounds(&rounds[..5]), with(None, 5.0));
        assert_eq!(figure_over_rounds(&rounds), with(Some([3.0, 9.0]), 6.0));
    }

    #[test]
    fn quantiles_of_a_run_have_bounds_where_there_are_samples_enough() {
        let sorted: Vec<u64> = (1..=10_000).collect();
        let within = within_run(&sorted);
        // Hahn and Meeker's places by the normal approximation: n p -+ 1.96 sqrt(n p (1 - p)).
        let near = |bound: Option<f64>, place: f64| assert!((bound.unwrap() - place).abs() <= 2.0, "{bound:?} {place}");
        near(within.median.low, 4902.0);
        near(within.median.high, 5098.0);
        near(within.p99.low, 9880.5);
        near(within.p99.high, 9919.5);
        assert_eq!((within.p9999.low.is_some(), within.p9999.high), (true, None));
        assert_eq!(within_run(&[]).median, Bounds { low: None, high: None });
    }
}
