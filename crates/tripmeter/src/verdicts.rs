//! Common parts of the commands that compare several runs.

use serde_json::{Map, Value, json};
use std::path::Path;
use tripmeter_analysis::check::{CheckedLimit, ResultsCheck};
use tripmeter_analysis::comparison::{ByRuns, ByThreshold, ComparedFigure, JudgedFigure};
use tripmeter_analysis::history::Change;
use tripmeter_model::address::FigureAddress;
use tripmeter_model::manifest::Manifest;
use tripmeter_model::printable;
use tripmeter_model::verdict::{
    FigureVerdict, JudgedFolder, JudgingCommand, VerdictDocument, VerdictRow, VerdictTrouble,
};
use tripmeter_stats::Interval;
use tripmeter_stats::change::Control;
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::Question;

/// Maximum expected share of false alarms among the changes reported.
pub const RATE: f64 = 0.05;
pub const CONTROL: Control = Control::Fdr(RATE);

pub fn question_json(question: &Question) -> Value {
    let (control, rate) = match question.control {
        Control::Fdr(rate) => ("false-discovery-rate", rate),
        Control::Fwer(rate) => ("family-wise", rate),
    };
    let layout = if question.layout == Layout::Paired { "pairs" } else { "independent" };
    json!({
        "runs": layout,
        "margin": question.margin,
        "control": control,
        "rate": rate,
        "power": question.power,
    })
}

pub fn address_json(address: &FigureAddress) -> Value {
    let mut value = json!(address);
    value["unit"] = json!(address.unit().as_str());
    value
}

/// Ends of an interval; JSON has no infinity, so an unbounded end is null.
fn ends(interval: Interval) -> [f64; 2] {
    [interval.low, interval.high]
}

pub fn judgement_json(one: &JudgedFigure) -> Value {
    let (comparison, judged) = (&one.comparison, &one.comparison.judged);
    let mut value = address_json(&one.address);
    for (name, of_one) in [
        ("runs", json!(comparison.runs)),
        ("ratio", json!(judged.ratio)),
        ("interval", json!(judged.interval.map(ends))),
        ("confidence", json!(1.0 - judged.alpha)),
        ("p_changed", json!(judged.p_changed)),
        ("p_equivalent", json!(judged.p_equivalent)),
        ("deviation", json!(comparison.log_sd)),
        ("seen_from", json!(comparison.min_detectable_effect)),
        ("verdict", json!(one.verdict())),
        ("reference", json!(comparison.sides[0])),
        ("result", json!(comparison.sides[1])),
        ("reference_interval", json!(comparison.side_intervals[0].map(ends))),
        ("result_interval", json!(comparison.side_intervals[1].map(ends))),
    ] {
        value[name] = of_one;
    }
    value
}

/// JSON of a document, with the fields of its command added.
pub fn with_fields(document: &VerdictDocument, fields: Value) -> Value {
    let mut made = serde_json::to_value(document).expect("it is plain data");
    if let (Value::Object(made), Value::Object(fields)) = (&mut made, fields) {
        let is_new = |made: &Map<String, Value>, name: &String| !made.contains_key(name);
        for (name, value) in fields {
            debug_assert!(is_new(made, &name), "two fields {name}");
            made.insert(name, value);
        }
    }
    made
}

pub fn judged_folder(folder: &Path, manifest: &Manifest) -> JudgedFolder {
    JudgedFolder::new(Some(printable::line(&folder.display().to_string()).into_owned()), manifest)
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn trouble(sub_experiment: Option<&str>, what: impl Into<String>, fails: bool) -> VerdictTrouble {
    VerdictTrouble { sub_experiment: sub_experiment.map(str::to_owned), what: what.into(), fails }
}

pub fn of_check(checked: &ResultsCheck, strict: bool, exit_code: u8) -> VerdictDocument {
    let row = |one: &CheckedLimit| {
        let verdict = one.value.map_or(FigureVerdict::Missing, |_| one.outcome());
        let limit = one.limit.limit;
        VerdictRow {
            new: one.value.and_then(finite),
            limit: finite(limit),
            ratio: one.value.and_then(|value| finite(value / limit)),
            ..VerdictRow::new(&one.limit.address, verdict)
        }
    };
    let rows = checked.checked.iter().flat_map(|one| &one.rows).map(row).collect();
    let distrust = checked.checked.iter().filter_map(|one| Some(trouble(Some(&one.name), one.distrust.clone()?, true)));
    let known = checked.checked.iter().flat_map(|one| known(&one.name, &one.notes));
    let without = checked.without_limits.iter().map(|name| trouble(Some(name), "it has no limits", strict));
    let absent = checked.not_measured.iter();
    let absent = absent.map(|name| trouble(Some(name), "it has limits, but was not run", checked.needs_all(strict)));
    let failed = checked.could_not_run.iter().map(|what| trouble(None, what, strict));
    let troubles = distrust.chain(known).chain(failed).chain(without).chain(absent).collect();
    VerdictDocument::new(JudgingCommand::Check, exit_code, rows, 0).with_troubles(troubles)
}

fn known<'a>(name: &'a str, notes: &'a [String]) -> impl Iterator<Item = VerdictTrouble> + 'a {
    notes.iter().map(move |what| trouble(Some(name), what, false))
}

/// Troubles for figures and sub-experiments that only one side has.
fn one_sided(missing: &[String], new: &[String], strict: bool) -> Vec<VerdictTrouble> {
    let missing = missing.iter().map(|what| trouble(None, format!("missing in the results: {what}"), true));
    missing.chain(new.iter().map(|what| trouble(None, format!("only in the results: {what}"), strict))).collect()
}

pub fn of_threshold(made: &ByThreshold, strict: bool, exit_code: u8) -> VerdictDocument {
    let row = |one: &ComparedFigure| {
        let verdict = match one.outcome {
            FigureVerdict::Failed => FigureVerdict::Regressed,
            outcome => outcome,
        };
        VerdictRow {
            old: one.reference.and_then(finite),
            new: one.result.and_then(finite),
            ratio: one.increase().and_then(|increase| finite(1.0 + increase)),
            ..VerdictRow::new(&one.address, verdict)
        }
    };
    let rows = made.both.iter().flat_map(|one| &one.compared).map(row).collect();
    let distrust = made.both.iter().filter_map(|one| Some(trouble(Some(&one.name), one.distrust.clone()?, true)));
    let known = made.both.iter().flat_map(|one| known(&one.name, &one.notes));
    let failed = made.could_not_run.iter().map(|what| trouble(None, what, strict));
    let troubles = distrust.chain(known).chain(failed).chain(one_sided(&made.missing, &made.new, strict)).collect();
    VerdictDocument::new(JudgingCommand::Compare, exit_code, rows, 0).with_troubles(troubles)
}

fn judged_row(one: &JudgedFigure) -> VerdictRow {
    let (comparison, judged) = (&one.comparison, &one.comparison.judged);
    VerdictRow {
        old: finite(comparison.sides[0]),
        new: finite(comparison.sides[1]),
        ratio: finite(judged.ratio),
        interval: judged.interval.map(|interval| ends(interval).map(finite)),
        ..VerdictRow::new(&one.address, one.verdict())
    }
}

fn rate(question: &Question) -> Option<f64> {
    match question.control {
        Control::Fdr(rate) => Some(rate),
        Control::Fwer(_) => None,
    }
}

pub fn of_ranks(made: &ByRuns, strict: bool, exit_code: u8) -> VerdictDocument {
    let zero = |address: &FigureAddress| VerdictRow {
        old: Some(0.0),
        new: Some(0.0),
        ..VerdictRow::new(address, FigureVerdict::Equivalent)
    };
    let rows = made.judgements.iter().map(judged_row).chain(made.always_zero.iter().map(zero)).collect();
    let failures = made.failures.iter().chain(&made.notes).map(|what| trouble(None, what, false));
    let too_few = made.too_few.iter().map(|what| trouble(None, what, strict));
    let too_few = too_few.chain(made.could_not_run.iter().map(|what| trouble(None, what, strict)));
    let missed = made.missed.iter().map(|what| trouble(None, what, true)).chain(too_few);
    let troubles = failures.chain(missed).chain(one_sided(&made.missing, &made.new, strict)).collect();
    let document = VerdictDocument::new(JudgingCommand::Compare, exit_code, rows, 0).with_troubles(troubles);
    VerdictDocument { false_discovery_rate: rate(&made.question), ..document }
}

/// Verdict of `ab` on `side`, its second side. Each of `troubles` is a line, and true if it makes `ab` fail.
pub fn of_pairs(
    side: &str,
    judged: &[JudgedFigure],
    question: &Question,
    troubles: Vec<(String, bool)>,
    exit_code: u8,
) -> VerdictDocument {
    let troubles = troubles.into_iter().map(|(what, fails)| trouble(None, what, fails)).collect();
    let row = |one: &JudgedFigure| VerdictRow { sub_experiment: side.to_owned(), ..judged_row(one) };
    let rows = judged.iter().map(row).collect();
    let document = VerdictDocument::new(JudgingCommand::Ab, exit_code, rows, 0).with_troubles(troubles);
    VerdictDocument { false_discovery_rate: rate(question), ..document }
}

pub fn of_history(changes: &[Change], series: usize, exit_code: u8) -> VerdictDocument {
    let row = |one: &Change| VerdictRow {
        old: finite(one.before),
        new: finite(one.after),
        ratio: finite(one.after / one.before),
        since: Some(one.since.clone()),
        until: one.until.clone(),
        ..VerdictRow::new(&one.address, one.verdict())
    };
    let changed: std::collections::HashSet<&FigureAddress> = changes.iter().map(|one| &one.address).collect();
    let unchanged = series.saturating_sub(changed.len()) as u64;
    VerdictDocument::new(JudgingCommand::History, exit_code, changes.iter().map(row).collect(), unchanged)
}
