//! `tripmeter compare` of folders with several rounds: their runs against each other.

use super::compare::{DIFFERENT, is_unread, same_kind, unread};
use super::show;
use crate::args::CompareArgs;
use crate::error::CliError;
use crate::summaries::{differences, figures, machine};
use crate::{output, verdicts};
use serde_json::json;
use std::path::Path;
use tripmeter_model::Pattern;
use tripmeter_model::bytes::Bytes;
use tripmeter_model::exit;
use tripmeter_model::manifest::{Manifest, PayloadResult, SubExperimentResult};
use tripmeter_model::payload::display_size;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::summary::Summary;
use tripmeter_report::RunsComparison;
use tripmeter_stats::losses::gone;
use tripmeter_stats::pairs::{self, trouble};
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::{ComparedFigure, Question, Runs, compare};
use tripmeter_stats::shift::fewest_runs;
use tripmeter_stats::timed;

/// Changes up to this share are none if nothing is said; and what is said to be seen or not.
const MARGIN: f64 = 0.02;
const EFFECT: f64 = 0.1;
const POWER: f64 = 0.95;

/// Compares what both folders have, run by run.
pub fn compare_runs(args: &CompareArgs) -> Result<u8, CliError> {
    let margin = args.margin.map_or(MARGIN, |margin| margin.0);
    let given = [
        (args.fail_threshold.is_some(), "--fail-threshold"),
        (args.plots_directory.is_some(), "--plots-directory"),
        (args.print_summaries, "--print-summaries"),
    ];
    if let Some((_, flag)) = given.iter().find(|(is_given, _)| *is_given) {
        let text = format!("{flag} is of --method threshold, for one round; name a round's folder, or leave it out");
        return Err(CliError::new(exit::USAGE, text));
    }
    let folders = [args.reference.as_path(), args.results.as_path()];
    let manifests = [measured(folders[0])?, measured(folders[1])?];
    let question = Question { layout: Layout::Independent, margin, control: verdicts::CONTROL, power: POWER };
    let planned = |side: usize| &manifests[side].plan.sub_experiments;
    let planned_as = |side: usize, name: &str| planned(side).iter().find(|sub| sub.name == name);
    let names = |side: usize| planned(side).iter().flat_map(names_of).collect::<Vec<_>>();
    let lacking = |side: usize| -> Vec<String> {
        let own = names(side);
        names(1 - side).into_iter().filter(|name| !own.contains(name)).collect()
    };
    let mut runs = Vec::new();
    for one in planned(0) {
        if let Some(other) = planned_as(1, &one.name) {
            runs.extend(runs_of(&manifests, [one, other], args)?);
        }
    }
    let mut unread = planned(0).iter().filter(|one| is_unread(one)).map(|one| unread(&one.name));
    if runs.is_empty() {
        if let Some(why) = unread.next() {
            return Err(CliError::new(exit::DATA, format!("nothing to compare: {why}")));
        }
        let [reference, results] = folders.map(Path::display);
        let text =
            format!("nothing to compare: '{reference}' and '{results}' have no payload in common that was answered");
        return Err(CliError::new(exit::DATA, text));
    }
    unread.for_each(|why| output::say(&format!("note: {why}")));
    let comparisons = compare(&runs, &question)
        .map_err(|error| CliError::new(exit::DATA, format!("the runs cannot be compared: {error}")))?;
    let allowed = args.allow_damage;
    let failures =
        [failures(&manifests[0], "reference", allowed), failures(&manifests[1], "results", allowed)].concat();
    let effect = EFFECT.max(2.0 * margin);
    let made = RunsComparison { question, effect, comparisons, failures, missing: lacking(1), new: lacking(0) };
    note_machines(&manifests);
    output::print(&match args.json {
        true => as_json(&made, args.strict),
        false => output::text(&tripmeter_report::runs_comparison(&made, args.strict)),
    })?;
    Ok(match made.passed(args.strict) {
        _ if !made.failures.is_empty() => exit::PARTIAL,
        true => exit::GOOD,
        false => DIFFERENT,
    })
}

/// The manifest of a folder with enough rounds.
fn measured(folder: &Path) -> Result<Manifest, CliError> {
    let manifest = show::read(folder)?;
    let (rounds, fewest) = (manifest.plan.rounds, fewest_runs(verdicts::RATE));
    if u64::from(rounds) >= fewest {
        return Ok(manifest);
    }
    let text = format!(
        "'{}' has too few rounds: {rounds}, and an interval at 95 % needs {fewest} of either side; measure more \
         (--rounds), or compare by --method threshold",
        folder.display()
    );
    Err(CliError::new(exit::DATA, text))
}

/// The runs of a sub-experiment that both sides have, payload by payload.
fn runs_of(manifests: &[Manifest; 2], plans: [&SubExperiment; 2], args: &CompareArgs) -> Result<Vec<Runs>, CliError> {
    same_kind(plans, args)?;
    let name = &plans[0].name;
    let sorted = plans.map(|plan| {
        let mut payloads = plan.payloads.clone();
        payloads.sort_unstable();
        payloads
    });
    if sorted[0] != sorted[1] {
        let [reference, results] =
            sorted.map(|payloads| payloads.into_iter().map(display_size).collect::<Vec<_>>().join(","));
        let text = format!(
            "'{name}' cannot be compared: its payloads are {reference} in '{}', {results} in '{}'; measure the same \
             (--payloads)",
            args.reference.display(),
            args.results.display()
        );
        return Err(CliError::new(exit::DATA, text));
    }
    if plans[0].pattern == Pattern::Log || timed::is_of(plans[0]) {
        return Ok(timed_runs(manifests, plans));
    }
    let runs =
        |&bytes: &u64| half_trips(name, bytes, manifests.each_ref().map(|manifest| cells_of(manifest, name, bytes)));
    Ok(plans[0].payloads.iter().filter_map(runs).collect())
}

/// What was answered at one payload, in the rounds that count.
fn cells_of<'a>(manifest: &'a Manifest, name: &str, bytes: u64) -> Vec<&'a PayloadResult> {
    let results = manifest.sub_experiments.iter().filter(|one| one.name == name && trouble(one).is_none());
    let cells = results.flat_map(|one| &one.cells);
    cells.filter(|cell| cell.payload_bytes == bytes && pairs::half_trips(cell).is_some()).collect()
}

/// The runs of half round trips at one payload, if both sides have any; the share delivered where a message was lost.
fn half_trips(name: &str, bytes: u64, sides: [Vec<&PayloadResult>; 2]) -> Option<Runs> {
    if sides.iter().any(Vec::is_empty) {
        return None;
    }
    let figures = |side: &Vec<&PayloadResult>| side.iter().filter_map(|cell| pairs::half_trips(cell)).collect();
    let mut runs = Runs::of(name, bytes, &sides.each_ref().map(figures));
    if sides.iter().flatten().any(|cell| gone(&cell.counts()).0 > 0) {
        let delivered = |cell: &&PayloadResult| {
            let (gone, sent) = gone(&cell.counts());
            100.0 * (1.0 - gone as f64 / sent.max(1) as f64)
        };
        runs.figures
            .push((ComparedFigure::Delivered, sides.each_ref().map(|side| side.iter().map(delivered).collect())));
    }
    Some(runs)
}

/// The runs of a sub-experiment of pattern `channel`, `rpc` or `log`, time by time and payload by payload.
fn timed_runs(manifests: &[Manifest; 2], plans: [&SubExperiment; 2]) -> Vec<Runs> {
    let sides = [0, 1].map(|side| {
        let results = manifests[side].sub_experiments.iter().filter(|one| one.name == plans[side].name);
        let counting = results.filter(|one| trouble(one).is_none());
        counting.flat_map(|result| summaries_of(plans[side], result)).collect::<Vec<(String, Summary)>>()
    });
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in &sides[0] {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let runs = |name: &String, &payload_bytes: &u64| {
        let bytes = Bytes::from(payload_bytes);
        let rows = sides.each_ref().map(|side| {
            let own = side.iter().filter(|(other, _)| other == name);
            own.filter_map(|(_, summary)| summary.row(&bytes).cloned()).collect::<Vec<_>>()
        });
        (!rows.iter().any(Vec::is_empty)).then(|| Runs::of_rows(name, payload_bytes, &rows))
    };
    names.iter().flat_map(|name| plans[0].payloads.iter().filter_map(|bytes| runs(name, bytes))).collect()
}

/// The names that the figures of a sub-experiment have.
fn names_of(plan: &SubExperiment) -> Vec<String> {
    match timed::is_of(plan) {
        true => timed::summaries(plan, None).into_iter().map(|(name, _)| name).collect(),
        false => vec![plan.name.clone()],
    }
}

/// The summaries of one round.
fn summaries_of(plan: &SubExperiment, result: &SubExperimentResult) -> Vec<(String, Summary)> {
    match timed::is_of(plan) {
        true => timed::summaries(plan, Some(result)),
        false => vec![(plan.name.clone(), figures(result))],
    }
}

/// Rounds of a side that do not count, and payloads of others that have no latency, for people.
fn failures(manifest: &Manifest, side: &str, allows_damage: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (round, plan) in
        (1..=manifest.plan.rounds).flat_map(|round| manifest.plan.sub_experiments.iter().map(move |plan| (round, plan)))
    {
        let place = format!("round {round} of the {side}");
        let made = manifest.sub_experiments.iter().find(|one| one.name == plan.name && one.round == round);
        match made.map(|one| (one, trouble(one))) {
            None => lines.push(format!("{}, {place}: it was not run", plan.name)),
            Some((_, Some(why))) => lines.push(format!("{}, {place}: {why}", plan.name)),
            Some((one, None)) if one.damaged() > 0 && !allows_damage => {
                let (name, damaged) = (&plan.name, one.damaged());
                lines.push(format!("{name}, {place}: {damaged} messages came damaged (--allow-damage)"));
            }
            Some((one, None)) => lines.extend(silent(plan, one).into_iter().map(|(name, bytes)| {
                format!("{name} at {}, {place}: no message was answered or arrived", display_size(bytes))
            })),
        }
    }
    lines
}

/// The payloads of a round without a latency, by the names that their figures have.
fn silent(plan: &SubExperiment, result: &SubExperimentResult) -> Vec<(String, u64)> {
    let has_row = |summary: &Summary, bytes: u64| summary.row(&Bytes::from(bytes)).is_some();
    let lacking = |(name, summary): (String, Summary)| {
        let payloads = plan.payloads.iter().copied().filter(move |bytes| !has_row(&summary, *bytes));
        payloads.map(move |bytes| (name.clone(), bytes)).collect::<Vec<_>>()
    };
    // Under throughput there are none.
    let summaries = if plan.pattern == Pattern::Throughput { Vec::new() } else { summaries_of(plan, result) };
    summaries.into_iter().flat_map(lacking).collect()
}

/// Says so where what was measured on is not the same.
fn note_machines([reference, results]: &[Manifest; 2]) {
    for [what, one, other] in differences(&machine(reference), &machine(results)) {
        output::say(&format!("note: {what} {one} in the reference, {other} in the results"));
    }
}

fn as_json(made: &RunsComparison, strict: bool) -> String {
    let comparison = |one| {
        let mut value = verdicts::comparison_json(one);
        value["name"] = json!(one.name);
        value
    };
    let value = json!({
        "passed": made.passed(strict),
        "method": "runs",
        "latency": if made.has_timed() { None } else { Some("rtt_half") },
        "question": verdicts::question_json(&made.question),
        "comparisons": made.comparisons.iter().map(comparison).collect::<Vec<_>>(),
        "failures": made.failures,
        "missing_in_results": made.missing,
        "only_in_results": made.new,
    });
    serde_json::to_string_pretty(&value).expect("it is plain data") + "\n"
}
