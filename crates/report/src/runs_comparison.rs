//! Two experiments with several rounds, run against run.

use crate::comparison::one_sided;
use crate::document::{Block, Document, Note, Severity};
use crate::verdicts;
use tripmeter_stats::change::ChangeVerdict;
use tripmeter_stats::runs::{ComparedFigure, Comparison, Question};

/// What figures are the duration of, where it is not only half a round trip.
const TIMED: &str = "the figure: of NAME rtt_half (half of a round trip) or call (of a logger), of \
    NAME@... what the name says: response or service times, one way or whole round trips (rtt)";
/// What the figures of patterns `channel`, `rpc` and `log` are.
const TIMED_FIGURES: &str = "\
    delivered: 100 % less the loss; rate: messages per second on each topic, or calls per second of each client; \
    QPS: calls that succeeded per second. Less of these \
    three is worse, and `seen from` is the smallest decrease of them.\n";

/// What stands beside half round trips where messages were lost.
const DELIVERED: &str = "delivered: 100 % less the loss, where any message was lost; less is worse.\n";

/// How sides are called in the table.
const SIDES: [&str; 2] = ["reference", "result"];

/// What was found.
#[derive(Clone, Debug)]
pub struct RunsComparison {
    /// What was asked.
    pub question: Question,
    /// The change of which it is said whether it would have been seen.
    pub effect: f64,
    /// Sub-experiment by sub-experiment.
    pub comparisons: Vec<Comparison>,
    /// Rounds that do not count, a line each.
    pub failures: Vec<String>,
    /// Names of sub-experiments that the results lack.
    pub missing: Vec<String>,
    /// Names of those that only the results have.
    pub new: Vec<String>,
}

impl RunsComparison {
    /// Whether nothing regressed, and nothing of the reference is missing. If `strict`, nothing is new either.
    pub fn passed(&self, strict: bool) -> bool {
        let regressed = self.comparisons.iter().any(|one| one.judged.verdict == ChangeVerdict::Regressed);
        !regressed && self.missing.is_empty() && (self.new.is_empty() || !strict)
    }

    /// Whether any figure is of pattern `channel`, `rpc` or `log`. Those of half round trips may have the share delivered.
    pub fn has_timed(&self) -> bool {
        let of_half_trips =
            |figure: ComparedFigure| ComparedFigure::ALL.contains(&figure) || figure == ComparedFigure::Delivered;
        self.comparisons.iter().any(|one| !of_half_trips(one.figure))
    }
}

/// A table for each sub-experiment, the verdicts, and what one side lacks.
pub fn runs_comparison(made: &RunsComparison, strict: bool) -> Document {
    let groups = made.comparisons.chunk_by(|one, other| one.name == other.name);
    let mut blocks: Vec<Block> =
        groups.map(|group| Block::Table(verdicts::table(&group[0].name, group, &made.question, SIDES))).collect();
    blocks.push(Block::Text(verdicts::summary(&made.comparisons, &made.question, made.effect)));
    let failures = made.failures.iter().map(|line| format!("FAILED: {line}; it is not in the verdicts"));
    let notes: Vec<Note> = failures
        .map(|text| Note::new(Severity::Error, "failed or not run", None, text))
        .chain(one_sided(&made.missing, "missing in the results", true))
        .chain(one_sided(&made.new, "only in the results", strict))
        .collect();
    if !notes.is_empty() {
        blocks.push(Block::Notes(notes));
    }
    let has_losses = made.comparisons.iter().any(|one| one.figure == ComparedFigure::Delivered);
    let (latency, others) = match made.has_timed() {
        true => (TIMED, TIMED_FIGURES),
        false => (verdicts::RTT_HALF, if has_losses { DELIVERED } else { "" }),
    };
    blocks.push(Block::Text(verdicts::legend(&made.question, SIDES, latency) + others));
    Document { blocks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_stats::Figures;
    use tripmeter_stats::change::Control;
    use tripmeter_stats::power::Layout;
    use tripmeter_stats::runs::{Runs, compare};

    fn runs(name: &str, ratio: f64) -> Runs {
        let figures = |index: u32, factor: f64| {
            let median = 1000.0 * factor * (1.0 + 0.002 * f64::from(index));
            let (p99, max) = (2.0 * median, 3.0 * median);
            Figures { min: median, mean: median, stdev: 0.0, median, p90: p99, p99, p999: max, p9999: max, max }
        };
        let side = |factor: f64| (0..8).map(|index| figures(index, factor)).collect();
        Runs::of(name, 1024, &[side(1.0), side(ratio)])
    }

    #[test]
    fn a_table_for_each_and_what_one_side_lacks() {
        let control = Control::FalseDiscoveries(0.05);
        let question = Question { layout: Layout::Independent, margin: 0.02, control, power: 0.95 };
        let mut made = RunsComparison {
            question,
            effect: 0.1,
            comparisons: compare(&[runs("uds", 1.0), runs("tcp", 2.0)], &question).unwrap(),
            failures: vec!["uds, round 3 of the results: it hangs".to_owned()],
            missing: vec!["mq".to_owned()],
            new: Vec::new(),
        };
        let text = crate::fixture::text(&runs_comparison(&made, false));
        let rows = crate::fixture::squeezed(&text);
        let titles: Vec<&String> = rows.iter().filter(|row| ["uds", "tcp"].contains(&row.as_str())).collect();
        assert_eq!(titles, ["uds", "tcp"], "{text}");
        let medians: Vec<&String> = rows.iter().filter(|row| row.starts_with("1k median")).collect();
        let begins = ["1k median 8+8 1.007 1.007 1.000 0.9", "1k median 8+8 1.007 2.014 2.000 1.9"];
        let ends = ["equivalent", "REGRESSED"];
        let is_as = |index: usize| medians[index].starts_with(begins[index]) && medians[index].ends_with(ends[index]);
        assert!(is_as(0) && is_as(1), "{text}");
        let machines = crate::render::json(&runs_comparison(&made, false));
        let row = &machines["blocks"][1]["table"]["rows"][0];
        let is_interval = |value: &serde_json::Value| value["low"].as_f64() < value["high"].as_f64();
        assert_eq!((&row["payload_bytes"], &row["verdict"]), (&1024.0.into(), &"REGRESSED".into()));
        assert!((row["result_ns"]["value"].as_f64().unwrap() - 2014.0).abs() < 1e-6, "{row}");
        assert!(is_interval(&row["result_ns"]) && is_interval(&row["interval"]), "{row}");
        assert!(text.contains("FAILED: uds, round 3 of the results: it hangs; it is not in the verdicts\n"), "{text}");
        assert!(text.contains("FAILED: 1 sub-experiment missing in the results: mq\n"), "{text}");
        assert!(!made.passed(false));
        made.comparisons.truncate(2);
        made.missing.clear();
        assert!(made.passed(true));
        made.new.push("pipe".to_owned());
        assert!(made.passed(false) && !made.passed(true));
    }
}
