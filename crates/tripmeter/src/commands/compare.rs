//! `tripmeter compare`: compares results with older ones.

use crate::args::{CompareArgs, Method};
use crate::error::CliError;
use crate::plotting::{PictureJob, create_folder, draw_all};
use crate::results::{listed, open, selection};
use crate::{output, verdicts};
use serde_json::{Value, json};
use std::path::Path;
use tripmeter_analysis::comparison::{ByRuns, ByThreshold, ComparedFigure};
use tripmeter_analysis::results::{differences, differences_of_plans};
use tripmeter_analysis::{JudgedResults, Selection};
use tripmeter_model::address::FigureAddress;
use tripmeter_model::exit;
use tripmeter_model::group::alike;
use tripmeter_model::verdict::JudgedFolder;
use tripmeter_report::document::Document;
use tripmeter_report::plots::Options;
use tripmeter_report::plots::addresses::{FigurePlot, LineRole, PlotLine};
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::Question;
use tripmeter_stats::shift::fewest_runs;

/// Default limit on the growth of a figure.
const THRESHOLD: f64 = 0.1;
/// Defaults: largest change that is ignored, and the change that is detected with probability `POWER`.
const MARGIN: f64 = 0.02;
const EFFECT: f64 = 0.1;
const POWER: f64 = 0.95;

pub fn compare(args: &CompareArgs) -> Result<u8, CliError> {
    args.sorting.refuse_with_json(args.json)?;
    let [old, new] = [open(&args.old, args.allow_damage)?, open(&args.new, args.allow_damage)?];
    let selection = selection(&args.figures.figures, &[&old, &new])?;
    let fewest = fewest_runs(verdicts::RATE);
    let rounds = [&old, &new].map(|side| side.manifest.plan.rounds);
    let have_rounds = rounds.iter().all(|rounds| u64::from(*rounds) >= fewest);
    if args.method.is_none() && !have_rounds && rounds.iter().any(|rounds| *rounds > 1) {
        let text = format!(
            "note: {} and {} rounds are too few for a confidence interval, which needs {fewest} on each side; method \
             threshold is used",
            rounds[0], rounds[1]
        );
        output::say(&text);
    }
    let method = args.method.unwrap_or(if have_rounds { Method::Ranks } else { Method::Threshold });
    let code = match method {
        Method::Ranks => by_ranks(args, [&old, &new], &selection)?,
        Method::Threshold => by_threshold(args, [&old, &new], &selection)?,
    };
    if let Some(folder) = &args.plots {
        draw(folder, [&old, &new], &selection, args.plotting.options())?;
    }
    Ok(code)
}

fn note_differences([old, new]: [&JudgedResults; 2]) {
    for plan in &old.manifest.plan.sub_experiments {
        let Some(other) = new.plan(&plan.name) else { continue };
        for (what, one, other) in differences_of_plans(plan, other) {
            let name = &plan.name;
            output::say(&format!(
                "note: '{name}' was measured with {what} {one} in the reference, {other} in the results"
            ));
        }
    }
    for [what, one, other] in differences(&old.machine(), &new.machine()) {
        output::say(&format!("note: {what} {one} in the reference, {other} in the results"));
    }
}

fn sorted(args: &CompareArgs, mut document: Document) -> Result<String, CliError> {
    args.sorting.apply([&mut document])?;
    Ok(output::text(&document))
}

fn judged(args: &CompareArgs, [_, new]: [&JudgedResults; 2]) -> Vec<JudgedFolder> {
    vec![verdicts::judged_folder(&args.new, &new.manifest)]
}

/// Error for sides without a common figure; it names the figures that each side has.
fn nothing(args: &CompareArgs, [missing, new]: [&[String]; 2]) -> CliError {
    let [old, new] = [(&args.old, missing), (&args.new, new)].map(|(folder, own)| {
        let has = if own.is_empty() { "no others".to_owned() } else { listed(own) };
        format!("'{}' has {has}", folder.display())
    });
    CliError::new(exit::DATA, format!("nothing to compare: the two results have no figure in common; {old}, {new}"))
}

fn by_threshold(args: &CompareArgs, sides: [&JudgedResults; 2], selection: &Selection) -> Result<u8, CliError> {
    if args.margin.is_some() {
        let text = "--margin requires --method ranks, which needs more rounds; use --threshold";
        return Err(CliError::new(exit::USAGE, text));
    }
    let threshold = args.threshold.unwrap_or(THRESHOLD);
    note_differences(sides);
    let made = ByThreshold::new(sides, selection, threshold);
    if made.is_empty() {
        return Err(nothing(args, [&made.missing, &made.new]));
    }
    let code = if made.passed(args.strict) { exit::GOOD } else { exit::FINDING };
    output::print(&match args.json {
        true => {
            let verdict = verdicts::of_threshold(&made, args.strict, code).with_judged(judged(args, sides));
            format!("{:#}\n", verdicts::with_fields(&verdict, threshold_json(&made, args.strict, threshold)))
        }
        false => sorted(args, tripmeter_report::by_threshold(&made, threshold, args.all, args.strict))?,
    })?;
    Ok(code)
}

fn by_ranks(args: &CompareArgs, sides: [&JudgedResults; 2], selection: &Selection) -> Result<u8, CliError> {
    if args.threshold.is_some() {
        let text = "--threshold requires --method threshold; add it, or use --margin";
        return Err(CliError::new(exit::USAGE, text));
    }
    let fewest = fewest_runs(verdicts::RATE);
    for (folder, side) in [&args.old, &args.new].into_iter().zip(sides) {
        let rounds = side.manifest.plan.rounds;
        if u64::from(rounds) < fewest {
            let text = format!(
                "'{}' has too few rounds ({rounds}): a 95 % interval needs {fewest} on each side; measure more (--rounds), \
                 or use --method threshold",
                folder.display()
            );
            return Err(CliError::new(exit::DATA, text));
        }
    }
    note_differences(sides);
    let margin = args.margin.map_or(MARGIN, |margin| margin.0);
    let question = Question { layout: Layout::Independent, margin, control: verdicts::CONTROL, power: POWER };
    let made = ByRuns::new(sides, selection, question)
        .map_err(|error| CliError::new(exit::DATA, format!("the runs cannot be compared: {error}")))?;
    if made.is_empty() {
        return Err(nothing(args, [&made.missing, &made.new]));
    }
    let code = match made.passed(args.strict) {
        _ if !made.failures.is_empty() => exit::PARTIAL,
        true => exit::GOOD,
        false => exit::FINDING,
    };
    output::print(&match args.json {
        true => {
            let verdict = verdicts::of_ranks(&made, args.strict, code).with_judged(judged(args, sides));
            format!("{:#}\n", verdicts::with_fields(&verdict, ranks_json(&made, args.strict)))
        }
        false => sorted(args, tripmeter_report::by_runs(&made, EFFECT.max(2.0 * margin), args.strict))?,
    })?;
    Ok(code)
}

/// Plots each figure of both sides over the payloads.
fn draw(folder: &Path, sides: [&JudgedResults; 2], selection: &Selection, options: Options) -> Result<(), CliError> {
    create_folder(folder)?;
    let figures = sides.map(|side| selection.select(&side.table()));
    let of_both = figures.iter().flatten().map(|one| one.address.clone());
    let drawn = alike(of_both, FigureAddress::is_same_but_for_payload);
    let jobs = drawn.iter().map(|group| -> PictureJob<'_> {
        let address = &group[0];
        let mut payloads: Vec<u64> = group.iter().map(|address| address.payload_bytes).collect();
        payloads.sort_unstable();
        payloads.dedup();
        let line = |(name, side): (&str, usize)| {
            let value = |&payload_bytes: &u64| {
                let wanted = FigureAddress { payload_bytes, ..address.clone() };
                figures[side].iter().find(|one| one.address == wanted).map_or(f64::NAN, |one| one.value)
            };
            let values = payloads.iter().map(value).collect();
            PlotLine { name: name.to_owned(), values, role: LineRole::Measured }
        };
        let lines = [("reference", 0), ("result", 1)].map(line);
        Box::new(move || {
            let subject = FigurePlot { address, title: "Comparison of", suffix: "comparison" };
            subject.over_payloads(&payloads, &lines, &options)
        })
    });
    draw_all(folder, jobs.collect()).map(|_| ())
}

fn threshold_json(made: &ByThreshold, strict: bool, threshold: f64) -> Value {
    let row = |one: &ComparedFigure| {
        let mut value = verdicts::address_json(&one.address);
        value["reference"] = json!(one.reference);
        value["result"] = json!(one.result);
        value["increase_share"] = json!(one.increase());
        value["outcome"] = json!(one.outcome);
        value
    };
    let subs = made.both.iter().map(|one| {
        json!({
            "name": one.name,
            "passed": one.passed(strict),
            "distrust": one.distrust,
            "notes": one.notes,
            "comparisons": one.compared.iter().map(row).collect::<Vec<_>>(),
        })
    });
    json!({
        "passed": made.passed(strict),
        "method": "threshold",
        "threshold": threshold,
        "sub_experiments": subs.collect::<Vec<_>>(),
        "missing_in_results": made.missing,
        "only_in_results": made.new,
    })
}

fn ranks_json(made: &ByRuns, strict: bool) -> Value {
    json!({
        "passed": made.passed(strict),
        "method": "ranks",
        "question": verdicts::question_json(&made.question),
        "comparisons": made.judgements.iter().map(verdicts::judgement_json).collect::<Vec<_>>(),
        "failures": made.failures,
        "always_zero": made.always_zero.iter().map(verdicts::address_json).collect::<Vec<_>>(),
        "missing_in_results": made.missing,
        "only_in_results": made.new,
    })
}
