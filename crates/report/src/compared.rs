//! An experiment against a reference, by a threshold or run against run.

use crate::document::{Block, Column, Digits, Document, Note, Table};
use crate::number::counted;
use crate::verdicts::{
    self, JudgedRow, NOT_COMPARED, address_cells, address_columns, change_cell, of_one_side, value_cell, value_column,
};
use tripmeter_analysis::comparison::{ByRuns, ByThreshold, ComparedFigure, ComparedSub, RareLoss};
use tripmeter_model::verdict::FigureVerdict;

/// Names of the sides in tables.
const SIDES: [&str; 2] = ["reference", "result"];

/// A table for each sub-experiment, the verdicts, and what one side lacks. Notes say whether a change of `effect` would
/// have been detected.
pub fn by_runs(made: &ByRuns, effect: f64, strict: bool) -> Document {
    let groups = made.judgements.chunk_by(|one, other| one.address.sub_experiment == other.address.sub_experiment);
    let table = |title: &str, group| Block::Table(verdicts::table(title, group, SIDES));
    let mut blocks: Vec<Block> = groups.map(|group| table(&group[0].address.sub_experiment, group)).collect();
    blocks.push(Block::Text(verdicts::summary(&made.judgements, &made.question, effect) + &unchanged(made)));
    let failures = made.failures.iter().map(|line| format!("FAILED: {line}; the verdicts do not use it"));
    let failures = failures.map(|text| Note::error("failed or not run", text));
    let missed = made.missed.iter().map(|line| Note::error("not trusted", format!("FAILED: {line}")));
    let known = made.notes.iter().map(|line| Note::warning("to be known", format!("note: {line}")));
    let too_few = made.too_few.iter().map(|line| match strict {
        true => Note::error("too few samples", format!("FAILED: {line}")),
        false => Note::warning("to be known", format!("note: {line}")),
    });
    let known = known.chain(too_few).chain(verdicts::could_not_run(&made.could_not_run, strict));
    let rare = made.rare_losses.iter().map(rare_loss);
    let modes = verdicts::modes(&made.judgements, SIDES);
    let lacks = lacks(&made.missing, &made.new, strict);
    let notes: Vec<Note> = failures.chain(missed).chain(known).chain(rare).chain(modes).chain(lacks).collect();
    blocks.extend(Block::notes(notes));
    blocks.push(Block::Text(verdicts::legend(&made.question, SIDES, true)));
    Document { blocks }
}

fn rare_loss(one: &RareLoss) -> Note {
    let RareLoss { address, is_result, share, rounds: [with, of] } = one;
    let (side, share) = (SIDES[usize::from(*is_result)], crate::percent(*share));
    let text = format!(
        "{address}: the {side} lost {share} of all messages, but only in {with} of {of} rounds; the median loss is 0"
    );
    Note::warning("lost in a few rounds", text)
}

/// Line on figures that are 0 in every run of both sides.
fn unchanged(made: &ByRuns) -> String {
    let mut names: Vec<&str> = made.always_zero.iter().map(|one| one.figure.id()).collect();
    names.sort_unstable();
    names.dedup();
    match made.always_zero.len() {
        0 => String::new(),
        count => format!("0 in every run of both sides: {} ({})\n", counted(count, "figure"), names.join(", ")),
    }
}

/// Page with the worst figure of each sub-experiment and the verdict; tables of all figures first if `detailed`.
pub fn by_threshold(made: &ByThreshold, threshold: f64, detailed: bool, strict: bool) -> Document {
    let distrusted = made.both.iter().filter_map(|one| verdicts::distrusted(&one.name, &one.distrust));
    let known = made.both.iter().flat_map(|one| verdicts::known(&one.name, &one.notes));
    let unclear = |one: &ComparedSub| one.count(FigureVerdict::Inconclusive) > 0;
    let [unclear, passed] = [true, false]
        .map(|is_unclear| made.both.iter().filter(|one| one.passed(strict) && unclear(one) == is_unclear).count());
    let unclear = if unclear > 0 { format!(", {unclear} inconclusive") } else { String::new() };
    let most = (threshold * 1e8).round() / 1e6;
    let least = ((1.0 / (1.0 + threshold) - 1.0) * 1e3).round() / 10.0;
    verdicts::page(
        made.both.iter().filter(|_| detailed).map(details),
        [["worst", "worst figure"], ["increase_percent", "increase"]],
        made.both.iter().map(|one| row(one, strict)),
        distrusted
            .chain(known)
            .chain(verdicts::could_not_run(&made.could_not_run, strict))
            .chain(lacks(&made.missing, &made.new, strict))
            .collect(),
        format!(
            "{passed} of {} sub-experiments passed{unclear}. Limit: {most:+} % (or {least:+} % for figures where \
             higher is better)",
            made.both.len()
        ),
    )
}

fn lacks<'a>(missing: &'a [String], new: &'a [String], strict: bool) -> impl Iterator<Item = Note> + use<'a> {
    let lists = [(missing, "missing in the results", true), (new, "only in the results", strict)];
    let lists = lists.into_iter().filter(|(names, ..)| !names.is_empty());
    lists.map(|(names, what, fails)| of_one_side(&format!("{what}: {}", names.join(", ")), NOT_COMPARED, fails))
}

fn details(one: &ComparedSub) -> Table {
    let columns = address_columns().into_iter().chain([
        value_column("reference", SIDES[0]),
        value_column("result", SIDES[1]),
        Column::numbers("increase_percent", "increase", "", Digits::Change, ""),
        Column::words("outcome", "outcome", ""),
    ]);
    let row = |one: &ComparedFigure| {
        let cells = address_cells(&one.address).into_iter().chain([
            value_cell(one.address.figure, one.reference),
            value_cell(one.address.figure, one.result),
            change_cell(one.increase()),
            verdicts::verdict_cell(one.outcome),
        ]);
        (None, cells.collect())
    };
    Table::new(one.name.clone(), columns.collect(), one.compared.iter().map(row).collect())
}

fn row(one: &ComparedSub, strict: bool) -> JudgedRow<'_> {
    let worst = one.worst();
    JudgedRow {
        name: &one.name,
        passed: [one.count(FigureVerdict::Passed), one.compared.len() - one.count(FigureVerdict::New)],
        worst: worst
            .map(|one| (format!("{} at {}", one.address.name(), one.address.place()), change_cell(one.increase()))),
        is_good: one.passed(strict),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_analysis::comparison::JudgedFigure;
    use tripmeter_model::address::FigureAddress;
    use tripmeter_model::figure::{Figure, Statistic};
    use tripmeter_model::metric::Stream;
    use tripmeter_model::pace::OfferedLoad;
    use tripmeter_stats::change::Control;
    use tripmeter_stats::power::Layout;
    use tripmeter_stats::runs::Question;

    fn address(name: &str, figure: Figure, statistic: Statistic) -> FigureAddress {
        let (sub_experiment, payload_bytes) = (name.to_owned(), 1024);
        FigureAddress {
            sub_experiment,
            payload_bytes,
            has_several_sizes: false,
            load: OfferedLoad::Closed,
            stream: Stream::all(),
            figure,
            statistic,
        }
    }

    #[test]
    fn a_table_for_each_and_what_one_side_lacks() {
        let control = Control::Fdr(0.05);
        let question = Question { layout: Layout::Independent, margin: 0.02, control, power: 0.95 };
        let side = |factor: f64| (0..8).map(|index| 1000.0 * factor * (1.0 + 0.002 * f64::from(index))).collect();
        let cell = |name: &str, ratio: f64| {
            (address(name, Figure::RttHalf, Statistic::P50), [side(1.0), side(ratio)], [0.0; 2])
        };
        let (uds, values, _) = cell("uds", 1.0);
        let judged = JudgedFigure::all(vec![(uds, values, [20.0, 1500.0])], &question).unwrap();
        let text = verdicts::summary(&judged, &question, 0.1);
        assert!(text.starts_with("0 regressed, 0 improved, 0 equivalent, 1 inconclusive"), "{text}");
        assert!(text.ends_with("of up to 1.50 µs to latencies; intervals and verdicts include it\n"), "{text}");
        let mut made = ByRuns {
            question,
            judgements: JudgedFigure::all(vec![cell("uds", 1.0), cell("tcp", 2.0)], &question).unwrap(),
            failures: vec!["uds, round 3 of the results: it hangs".to_owned()],
            missed: Vec::new(),
            too_few: None,
            could_not_run: Vec::new(),
            notes: vec!["uds, in the results: fewer samples than planned".to_owned()],
            always_zero: vec![address("uds", Figure::LossShare, Statistic::Value)],
            rare_losses: vec![RareLoss {
                address: address("tcp", Figure::LossShare, Statistic::Value),
                is_result: true,
                share: 0.069,
                rounds: [2, 8],
            }],
            missing: vec!["mq".to_owned()],
            new: Vec::new(),
        };
        let text = crate::fixture::text(&by_runs(&made, 0.1, false));
        let rows = crate::fixture::squeezed(&text);
        let medians: Vec<&String> = rows.iter().filter(|row| row.starts_with("1k rtt_half_ns.p50")).collect();
        let begins = ["1k rtt_half_ns.p50 8+8 1.007 1.007 1.000 0.9", "1k rtt_half_ns.p50 8+8 1.007 2.014 2.000 1.9"];
        let ends = ["equivalent", "REGRESSED"];
        let is_as = |index: usize| medians[index].starts_with(begins[index]) && medians[index].ends_with(ends[index]);
        assert!(is_as(0) && is_as(1), "{text}");
        assert!(text.contains("FAILED: uds, round 3 of the results: it hangs; the verdicts do not use it\n"), "{text}");
        assert!(text.contains("missing in the results: mq\n"), "{text}");
        let rare = "tcp at 1k: loss_share: the result lost 6.9 % of all messages, but only in 2 of 8 rounds; the \
                    median loss is 0";
        assert!(crate::fixture::squeezed(&text).join(" ").contains(rare), "{text}");
        assert!(text.contains("\n0 in every run of both sides: 1 figure (loss_share)\n"), "{text}");
        assert!(!made.passed(false));
        made.judgements.truncate(1);
        made.missing.clear();
        assert!(text.contains("note: uds, in the results: fewer samples than planned\n"), "{text}");
        assert!(made.passed(true));
        made.missed.push("uds, in the results: RATE MISSED at 1k 1000hz".to_owned());
        assert!(!made.passed(false));
        let text = crate::fixture::text(&by_runs(&made, 0.1, false));
        assert!(text.contains("FAILED: uds, in the results: RATE MISSED at 1k 1000hz\n"), "{text}");
        made.missed.clear();
        made.too_few = Some("too few samples".to_owned());
        assert!(made.passed(false) && !made.passed(true));
        let texts = [false, true].map(|strict| crate::fixture::text(&by_runs(&made, 0.1, strict)));
        assert!(texts[0].contains("note: too few samples\n") && texts[1].contains("FAILED: too few samples\n"));
        made.too_few = None;
        made.could_not_run.push("not measured: transport 'mq'".to_owned());
        assert!(made.passed(false) && !made.passed(true));
        made.could_not_run.clear();
        made.new.push("pipe".to_owned());
        assert!(made.passed(false) && !made.passed(true));
    }

    #[test]
    fn a_line_for_each_sub_experiment_by_threshold() {
        let compared = |figure, reference, result, outcome| ComparedFigure {
            address: address("uds", figure, if figure == Figure::RttHalf { Statistic::P50 } else { Statistic::Value }),
            reference: Some(reference),
            result: Some(result),
            outcome,
        };
        let bad = vec![
            compared(Figure::RttHalf, 2000.0, 3000.0, FigureVerdict::Failed),
            compared(Figure::ReceivedRate, 1000.0, 1100.0, FigureVerdict::Passed),
        ];
        let both = vec![ComparedSub { name: "uds".to_owned(), compared: bad, distrust: None, notes: Vec::new() }];
        let made = ByThreshold { both, missing: vec!["mq".to_owned()], ..ByThreshold::default() };
        let golden = "\
sub-experiment passed worst figure          increase verdict
------------------------------------------------------------
uds               1/2 rtt_half_ns.p50 at 1k  +50.0 % FAILED

FAILED: missing in the results: mq

0 of 1 sub-experiments passed. Limit: +10 % (or -9.1 % for figures where higher is better)
";
        assert_eq!(crate::fixture::text(&by_threshold(&made, 0.1, false, false)), golden);
        let details = crate::fixture::rows_of(&crate::fixture::text(&by_threshold(&made, 0.1, true, false)), "1k");
        assert!(
            details.contains(&"1k received_rate_hz 1000.000 /s 1100.000 /s +10.0 % passed".to_owned()),
            "{details:?}"
        );
        assert!(!made.passed(false));
    }
}
