//! An experiment against a reference, one run each.

use crate::bytes::Bytes;
use crate::summary::{COLUMNS, Magnitude, Summary, SummaryRow};
use crate::table::{push_row, three_decimals};
use tripmeter_model::verdict::FigureVerdict;

/// One figure of one payload on both sides, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    pub figure: Magnitude,
    pub bytes: Bytes,
    /// Value of the reference, if it has the payload.
    pub reference: Option<f64>,
    /// Value of the results, if they have the payload.
    pub result: Option<f64>,
    /// `Passed` if the result is at most the limit, `Failed` if above it or not a number, `Missing` without a result, `New`
    /// without a reference.
    pub outcome: FigureVerdict,
}

impl Compared {
    /// Increase of the result, in percent of the reference.
    pub fn percent(&self) -> Option<f64> {
        let (reference, result) = (self.reference?, self.result?);
        Some((result - reference) * 100.0 / reference)
    }
}

/// Compares each figure of each payload. A figure fails if result > reference * (1 + threshold).
///
/// Sorted by figure, then by payload: payloads of the reference in its order, then those only in the results.
///
/// # Source
/// `latency_compare_experiments.py` of eProsima's benchmarking, as documented there. Its code multiplies the result of
/// the comparison, not the reference, by 1 + threshold, so any increase fails.
pub fn by_threshold(reference: &Summary, result: &Summary, threshold: f64) -> Vec<Compared> {
    let is_new = |row: &&SummaryRow| reference.row(&row.bytes).is_none();
    let payloads: Vec<_> =
        reference.rows.iter().chain(result.rows.iter().filter(is_new)).map(|row| &row.bytes).collect();
    let compared = |figure: Magnitude, bytes: &Bytes| {
        let value = |summary: &Summary| summary.row(bytes).map(|row| figure.value_in(row));
        let (reference, result) = (value(reference), value(result));
        let outcome = match (reference, result) {
            (None, _) => FigureVerdict::New,
            (_, None) => FigureVerdict::Missing,
            (Some(reference), Some(result)) if is_within(reference, result, threshold) => FigureVerdict::Passed,
            (Some(_), Some(_)) => FigureVerdict::Failed,
        };
        Compared { figure, bytes: bytes.clone(), reference, result, outcome }
    };
    let figures = Magnitude::ALL.into_iter();
    figures.flat_map(|figure| payloads.iter().map(move |bytes| compared(figure, bytes))).collect()
}

/// Text of `<name>_comparison.csv`: the summary of each side, with a column that names the side. NaN is left empty.
///
/// # Source
/// `latency_compare_experiments.py` of eProsima's benchmarking.
pub fn comparison_csv(sides: [(&str, &Summary); 2]) -> Vec<u8> {
    let mut text = Vec::new();
    push_row(&mut text, COLUMNS.into_iter().chain(["Label"]));
    for (label, summary) in sides {
        for row in &summary.rows {
            let figure = |value: f64| if value.is_nan() { String::new() } else { three_decimals(value) };
            let (samples, figures) = (row.samples.to_string(), row.figures().map(figure));
            let first = [row.bytes.text(), samples.as_str()];
            push_row(&mut text, first.into_iter().chain(figures.iter().map(String::as_str)).chain([label]));
        }
    }
    text
}

/// True if the result is at most `threshold` above the reference. The limit itself passes, although decimals such as
/// 1.1 are not exact in binary.
fn is_within(reference: f64, result: f64, threshold: f64) -> bool {
    result <= reference * (1.0 + threshold) * (1.0 + 4.0 * f64::EPSILON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::summary;

    fn outcome(reference: f64, result: f64, threshold: f64) -> FigureVerdict {
        let side = |value| summary(&[(16, [value; 3])]);
        by_threshold(&side(reference), &side(result), threshold)[1].outcome
    }

    #[test]
    fn equality_with_the_limit_passes_and_a_thousandth_more_fails() {
        for thousandths in (1..3_000_000_u64).step_by(101) {
            let decimal =
                |thousandths: u64| format!("{}.{:03}", thousandths / 1000, thousandths % 1000).parse::<f64>().unwrap();
            let (reference, limit) = (decimal(thousandths * 10), decimal(thousandths * 11));
            assert_eq!(outcome(reference, limit, 0.1), FigureVerdict::Passed, "{reference}");
            assert_eq!(outcome(reference, decimal(thousandths * 11 + 1), 0.1), FigureVerdict::Failed, "{reference}");
        }
        assert_eq!((outcome(2.0, 2.0, 0.0), outcome(2.0, 2.001, 0.0)), (FigureVerdict::Passed, FigureVerdict::Failed));
        assert_eq!((outcome(0.0, 0.0, 0.1), outcome(0.0, 0.001, 0.1)), (FigureVerdict::Passed, FigureVerdict::Failed));
    }

    #[test]
    fn what_is_no_number_fails() {
        assert_eq!(outcome(1.0, f64::NAN, 0.1), FigureVerdict::Failed);
        assert_eq!(outcome(f64::NAN, 1.0, 0.1), FigureVerdict::Failed);
    }

    #[test]
    fn payloads_of_one_side_are_kept_apart() {
        let (reference, result) =
            (summary(&[(64, [1.0; 3]), (16, [1.0; 3])]), summary(&[(32, [1.0; 3]), (16, [1.0; 3])]));
        let compared = by_threshold(&reference, &result, 0.1);
        assert_eq!(compared.len(), 12);
        let of_max: Vec<_> = compared
            .iter()
            .filter(|one| one.figure == Magnitude::Max)
            .map(|one| (one.bytes.text(), one.outcome))
            .collect();
        assert_eq!(of_max, [("64", FigureVerdict::Missing), ("16", FigureVerdict::Passed), ("32", FigureVerdict::New)]);
    }
}
