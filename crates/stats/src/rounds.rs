//! How far figures can be trusted: over rounds, and within one.

use crate::median;
use crate::order::{median_interval, quantile_bounds};
use tripmeter_model::manifest::{Bounds, Cell, Figures, Manifest, OverRounds, OverRoundsFigure, WithinRun};

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
