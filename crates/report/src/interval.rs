//! Figures with their intervals, as the tables write them.

use tripmeter_model::manifest::Bounds;
use tripmeter_stats::rounds::figure_over_rounds;

/// Stands for an interval, or a figure, that has no bound.
pub const TOO_SMALL: &str = "n too small";

/// The median of a figure over rounds, and below it its interval. Of one round: the figure, and below it its interval
/// within that run, where there is one.
pub fn figure(values: &[f64], rounds: u32, within: Option<Bounds>, text: impl Fn(f64) -> String) -> String {
    let Some(over) = figure_over_rounds(values) else { return "-".to_owned() };
    let ends = match (rounds, within) {
        (0..=1, None) => return text(over.median),
        (0..=1, Some(Bounds { low, high })) => low.zip(high),
        _ => over.interval.map(|[low, high]| (low, high)),
    };
    let ends = ends.map_or(TOO_SMALL.to_owned(), |(low, high)| format!("{}..{}", text(low), text(high)));
    format!("{}\n{ends}", text(over.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::micros;

    #[test]
    fn a_figure_has_the_interval_that_there_is() {
        let bounds = |high| Some(Bounds { low: Some(900.0), high });
        assert_eq!(figure(&[], 1, None, micros), "-");
        assert_eq!(figure(&[1000.0], 1, None, micros), "1.000");
        assert_eq!(figure(&[1000.0], 1, bounds(Some(1100.0)), micros), "1.000\n0.900..1.100");
        assert_eq!(figure(&[1000.0], 1, bounds(None), micros), "1.000\nn too small");
        assert_eq!(figure(&[1000.0; 5], 5, bounds(Some(1.0)), micros), "1.000\nn too small");
        assert_eq!(figure(&[1000.0, 1.0, 2000.0, 1000.0, 1000.0, 1000.0], 6, None, micros), "1.000\n0.001..2.000");
    }
}
