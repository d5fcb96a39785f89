//! How far figures can be trusted: over rounds, and within one.

use crate::median;
use crate::order::{median_interval, quantile_bounds};
use tripmeter_model::channel::Latency;
use tripmeter_model::manifest::{
    Bounds, Cell, FigureOverRounds, Figures, Manifest, OverRounds, OverRoundsFigure, WithinRun,
};

/// All intervals here are at 95 %.
pub const ALPHA: f64 = 0.05;

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
    let of_figures = |figures: Figures| {
        let Figures { min, mean, median, p90, p99, p9999, max, .. } = figures;
        [("min", min), ("mean", mean), ("median", median), ("p90", p90), ("p99", p99), ("p9999", p9999), ("max", max)]
    };
    for (place, figures) in [("one_way_ns", cell.one_way_ns), ("one_way_last_ns", cell.one_way_last_ns)] {
        figures.iter().for_each(|figures| put(place, &of_figures(*figures)));
    }
    if let Some(over) = &cell.over_handover_ns {
        over.rtt_half.iter().for_each(|figures| put("over_handover_ns.rtt_half", &[("median", figures.median)]));
    }
    for (index, follower) in cell.followers.iter().enumerate() {
        let place = format!("followers[{index}].one_way_ns");
        follower.one_way_ns.iter().for_each(|figures| put(&place, &of_figures(*figures)));
    }
    for (index, trial) in cell.trials.iter().enumerate() {
        put(&format!("trials[{index}]"), &[("published_hz", trial.published_hz)]);
        for (follower, arrival) in trial.followers.iter().enumerate() {
            let figures =
                [("received_hz", arrival.received_hz), ("received_bytes_per_s", arrival.received_bytes_per_s)];
            put(&format!("trials[{index}].followers[{follower}]"), &figures);
        }
    }
    for (index, trial) in cell.channel.iter().enumerate() {
        put(&format!("channel[{index}]"), &[("achieved_hz", trial.achieved_hz)]);
        let times = [("response_ns", trial.response_ns), ("service_ns", trial.service_ns)];
        for (time, latency) in times.into_iter().filter_map(|(time, latency)| Some((time, latency?))) {
            let Latency { min, mean, median, p90, p99, p999, max, .. } = latency;
            let figures = [
                ("min", min),
                ("mean", mean),
                ("median", median),
                ("p90", p90),
                ("p99", p99),
                ("p999", p999),
                ("max", max),
            ];
            put(&format!("channel[{index}].{time}"), &figures);
        }
    }
    found
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
