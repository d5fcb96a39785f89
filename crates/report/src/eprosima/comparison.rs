//! An experiment against a reference, as text and as a file.

use crate::document::{Cell, Column, Digits, Document, Missing, Note, Table};
use crate::number::{counted, per_cent};
use crate::verdicts::{JudgedRow, NOT_COMPARED, distrusted, lacking, of_one_side, page, verdict_cell};
use tripmeter_eprosima::comparison::Compared;
use tripmeter_eprosima::summary::{COLUMNS, Summary};
use tripmeter_model::verdict::FigureVerdict;

/// One sub-experiment that both sides have.
#[derive(Clone, Debug)]
pub struct SubExperimentComparison {
    pub name: String,
    /// Every figure of every payload.
    pub compared: Vec<Compared>,
    /// Reason why it fails even if all comparisons pass.
    pub distrust: Option<String>,
}

/// Two experiments side by side.
#[derive(Clone, Debug, Default)]
pub struct ExperimentComparison {
    /// Sub-experiments that both sides have.
    pub both: Vec<SubExperimentComparison>,
    /// Names of sub-experiments that the results lack.
    pub missing: Vec<String>,
    /// Names of sub-experiments that only the results have.
    pub new: Vec<String>,
}

impl SubExperimentComparison {
    /// Number of comparisons with this outcome.
    pub fn count(&self, outcome: FigureVerdict) -> usize {
        self.compared.iter().filter(|one| one.outcome == outcome).count()
    }

    /// True if no figure is worse than the reference.
    pub fn passed(&self) -> bool {
        self.distrust.is_none() && self.count(FigureVerdict::Failed) + self.count(FigureVerdict::Missing) == 0
    }
}

impl ExperimentComparison {
    /// True if nothing is worse than the reference or missing.
    pub fn passed(&self) -> bool {
        self.missing.is_empty() && self.both.iter().all(SubExperimentComparison::passed)
    }
}

/// Page with a row for each sub-experiment, the figure that increased most, and the verdict. If `detailed`, all
/// comparisons come first.
pub fn comparison(comparison: &ExperimentComparison, threshold: f64, detailed: bool) -> Document {
    let passed = comparison.both.iter().filter(|one| one.passed()).count();
    let all = comparison.both.len() + comparison.missing.len();
    let most = per_cent(threshold);
    page(
        comparison.both.iter().filter(|_| detailed).map(details),
        [["largest_increase", "largest increase"], ["increase_percent", "increase"]],
        comparison.both.iter().map(row),
        comparison
            .both
            .iter()
            .flat_map(notes)
            .chain(lacking(&comparison.missing, "missing in the results", NOT_COMPARED, true))
            .chain(lacking(&comparison.new, "only in the results", NOT_COMPARED, false))
            .collect(),
        format!("{passed}/{all} comparisons passed: at most {most:+} % for Min, Median, Max and 99%"),
    )
}

fn details(comparison: &SubExperimentComparison) -> Table {
    let columns = vec![
        Column::words("figure", "figure", ""),
        bytes_column(),
        micros_column("reference", "reference"),
        micros_column("result", "result"),
        Column::numbers("increase_percent", "increase", "", Digits::Change, ""),
        Column::words("outcome", "outcome", ""),
    ];
    let row = |one: &Compared| {
        let cells = vec![
            Cell::text(one.figure.column()),
            Cell::text(one.bytes.to_string()),
            Cell::maybe(one.reference),
            Cell::maybe(one.result),
            increase(one),
            verdict_cell(one.outcome),
        ];
        (None, cells)
    };
    Table::new(comparison.name.clone(), columns, comparison.compared.iter().map(row).collect())
}

/// Column of payloads as written in their file.
pub(super) fn bytes_column() -> Column {
    Column { unit: "bytes", is_right: true, ..Column::words("payload_bytes", "payload", "") }
}

/// Column of figures of summaries, which are already in microseconds.
pub(super) fn micros_column(id: &str, title: &str) -> Column {
    Column { divisor: 1.0, ..Column::numbers(id, title, "µs", Digits::Numpy(3), "") }
}

fn row(comparison: &SubExperimentComparison) -> JudgedRow<'_> {
    let on_both = comparison.compared.iter().filter(|one| one.percent().is_some());
    let order = |one: &&Compared| one.percent().filter(|percent| !percent.is_nan()).unwrap_or(f64::NEG_INFINITY);
    let worst = on_both.max_by(|a, b| order(a).total_cmp(&order(b)));
    JudgedRow {
        name: &comparison.name,
        passed: [
            comparison.count(FigureVerdict::Passed),
            comparison.compared.len() - comparison.count(FigureVerdict::New),
        ],
        worst: worst.map(|one| (format!("{} of {} bytes", one.figure.column(), one.bytes), increase(one))),
        is_good: comparison.passed(),
    }
}

fn increase(one: &Compared) -> Cell {
    let percent = one.percent().filter(|percent| !percent.is_nan());
    percent.map_or(Cell::Missing(Missing::NotMeasured), |percent| Cell::number(percent + 0.0))
}

fn notes(comparison: &SubExperimentComparison) -> Vec<Note> {
    let payloads = |outcome: FigureVerdict| -> Vec<&str> {
        let first = comparison.compared.first().map(|one| one.figure);
        let of_first = comparison.compared.iter().filter(|one| Some(one.figure) == first && one.outcome == outcome);
        of_first.map(|one| one.bytes.text()).collect()
    };
    let name = &comparison.name;
    let mut notes: Vec<Note> = distrusted(name, &comparison.distrust).into_iter().collect();
    let kinds =
        [(FigureVerdict::Missing, "missing in the results", true), (FigureVerdict::New, "only in the results", false)];
    for (outcome, what, fails) in kinds {
        let payloads = payloads(outcome);
        if !payloads.is_empty() {
            let (count, list) = (counted(payloads.len(), "payload"), payloads.join(", "));
            notes.push(of_one_side(&format!("{name}: {count} {what}: {list} bytes"), NOT_COMPARED, fails));
        }
    }
    notes
}

/// Summaries of two sides, payload by payload.
pub fn side_by_side(title: &str, sides: [(&str, &Summary); 2]) -> Table {
    let right = |name: &str| Column { is_right: true, ..Column::words(&name.to_lowercase(), name, "") };
    let figure = |name: &&str| Column { digits: Digits::Numpy(3), ..right(name) };
    let [bytes, samples, figures @ ..] = &COLUMNS;
    let mut columns = vec![Column::words("side", "side", ""), right(bytes), right(samples)];
    columns.extend(figures.iter().map(figure));
    let rows = sides.into_iter().flat_map(|(side, summary)| {
        summary.rows.iter().map(move |row| {
            let first =
                [Cell::text(side), Cell::text(row.bytes.to_string()), Cell::number(row.samples as f64)].into_iter();
            (None, first.chain(row.figures().map(Cell::number)).collect())
        })
    });
    Table::new(title.to_owned(), columns, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tripmeter_eprosima::bytes::Bytes;
    use tripmeter_eprosima::summary::Magnitude;

    fn compared(figure: Magnitude, bytes: u64, sides: [Option<f64>; 2], outcome: FigureVerdict) -> Compared {
        Compared { figure, bytes: Bytes::from(bytes), reference: sides[0], result: sides[1], outcome }
    }

    #[test]
    fn a_line_for_each_sub_experiment_and_what_one_side_lacks() {
        let good = vec![compared(Magnitude::Min, 16, [Some(2.0), Some(1.0)], FigureVerdict::Passed)];
        let bad = vec![
            compared(Magnitude::Median, 16, [Some(2.0), Some(3.0)], FigureVerdict::Failed),
            compared(Magnitude::Median, 32, [Some(2.0), None], FigureVerdict::Missing),
            compared(Magnitude::Median, 64, [None, Some(2.0)], FigureVerdict::New),
        ];
        let one = |name: &str, compared| SubExperimentComparison { name: name.to_owned(), compared, distrust: None };
        let made = ExperimentComparison {
            both: vec![one("uds", good), one("tcp", bad)],
            missing: vec!["mq".to_owned()],
            new: vec![],
        };
        let golden = "\
sub-experiment passed largest increase   increase verdict
---------------------------------------------------------
uds               1/1 Min of 16 bytes     -50.0 % passed
tcp               0/2 Median of 16 bytes  +50.0 % FAILED

FAILED: tcp: 1 payload missing in the results: 32 bytes
not compared: tcp: 1 payload only in the results: 64 bytes
FAILED: 1 sub-experiment missing in the results: mq

1/3 comparisons passed: at most +10 % for Min, Median, Max and 99%
";
        assert_eq!(crate::fixture::text(&comparison(&made, 0.1, false)), golden);
        let machines = crate::render::json(&comparison(&made, 0.1, true));
        let rows = &machines["blocks"][1]["table"]["rows"];
        assert_eq!((&rows[0]["reference"], &rows[0]["increase_percent"]), (&json!(2.0), &json!(50.0)));
        assert_eq!(rows[1]["result"], json!({ "missing": "not measured" }));
        assert!(!made.passed());
    }
}
