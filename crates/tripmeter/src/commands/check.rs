//! `tripmeter check`: checks results against limits.

use crate::args::CheckArgs;
use crate::error::CliError;
use crate::output;
use crate::results::{folders_in, open, open_finished};
use crate::verdicts::{RATE, address_json, judged_folder, of_check, with_fields};
use serde_json::{Value, json};
use std::path::Path;
use tripmeter_analysis::JudgedResults;
use tripmeter_analysis::check::{CheckedLimit, Factors, LimitKind, ResultsCheck, is_added, kinds};
use tripmeter_model::exit;
use tripmeter_model::figure::Better;
use tripmeter_model::limits::FigureLimits;
use tripmeter_model::number::fixed;
use tripmeter_model::verdict::FigureVerdict;
use tripmeter_stats::conformal::fewest_runs;

pub fn check(args: &CheckArgs) -> Result<u8, CliError> {
    args.sorting.refuse_with_json(args.json)?;
    let mut limits = limits(&args.limits)?;
    if let Some(folder) = &args.family_wise {
        limits = loosened(&limits, folder, args.allow_damage)?;
    }
    let results = open(&args.folder, args.allow_damage)?;
    if results.is_running() {
        let folder = args.folder.display();
        output::say(&format!(
            "note: the run in '{folder}' is in progress or was killed; only its finished payloads are checked"
        ));
    }
    let checked = ResultsCheck::new(&limits, &results);
    if checked.checked.is_empty() {
        let (file, folder, names) = (args.limits.display(), args.folder.display(), checked.without_limits.join(", "));
        let text = format!("nothing to check: '{file}' has no limits for the sub-experiments in '{folder}': {names}");
        return Err(CliError::new(exit::DATA, text));
    }
    let code = exit_code(&checked, args.strict);
    output::print(&match args.json {
        true => {
            let judged = vec![judged_folder(&args.folder, &results.manifest)];
            let verdict = of_check(&checked, args.strict, code).with_judged(judged);
            format!("{:#}\n", with_fields(&verdict, as_json(&checked, args.strict)))
        }
        false => {
            let mut document = tripmeter_report::limit_checks(&checked, args.all, args.strict);
            args.sorting.apply([&mut document])?;
            output::text(&document)
        }
    })?;
    Ok(code)
}

/// Reads limits; fails if there are none.
pub fn limits(file: &Path) -> Result<FigureLimits, CliError> {
    let limits = FigureLimits::read(file)?;
    match limits.rows.is_empty() {
        true => Err(CliError::new(exit::DATA, format!("'{}' has a header, but no limits", file.display()))),
        false => Ok(limits),
    }
}

/// Loosens limits so that at most 5 % of runs like those in the folder break any; prints the factors.
fn loosened(limits: &FigureLimits, folder: &Path, allows_damage: bool) -> Result<FigureLimits, CliError> {
    let mut checks = Vec::new();
    for run in folders_in(&[folder.to_owned()])? {
        let Some(results) = open_finished(&run, allows_damage)? else { continue };
        for round in 1..=results.manifest.plan.rounds {
            match whole(limits, &results.of_round(round)) {
                Ok(check) => checks.push(check),
                Err(why) => output::say(&format!("note: left out: run '{}', round {round}: {why}", run.name)),
            }
        }
    }
    let Some(factors) = Factors::from_runs(&checks, limits, RATE) else {
        let (count, fewest) = (checks.len(), fewest_runs(RATE, kinds(limits).len()));
        let text =
            format!("'{}' has {count} complete runs, but --family-wise needs {fewest}; measure more", folder.display());
        return Err(CliError::new(exit::DATA, text));
    };
    output::say(&format!(
        "note: limits loosened: {}; at most 5 % of runs like the {} in '{}' fail any limit",
        loosenings(&factors, limits),
        checks.len(),
        folder.display()
    ));
    Ok(factors.applied(limits))
}

/// Checks a run; fails if it lacks anything that has limits.
fn whole(limits: &FigureLimits, results: &JudgedResults) -> Result<ResultsCheck, String> {
    let check = ResultsCheck::new(limits, results);
    let distrusted = check.checked.iter().find_map(|one| Some(format!("'{}': {}", one.name, one.distrust.as_ref()?)));
    match (distrusted, check.is_whole()) {
        (Some(why), _) => Err(why),
        (None, false) => Err("figures that have limits are missing".to_owned()),
        (None, true) => Ok(check),
    }
}

fn loosenings(factors: &Factors, limits: &FigureLimits) -> String {
    let is_lower = |kind: &LimitKind| kind.0.better() == Better::Higher;
    let listed = |is_one: &dyn Fn(&LimitKind) -> bool| {
        let own = factors.0.iter().filter(|(kind, _)| is_one(kind));
        own.map(|((figure, statistic), factor)| format!("{} ({figure}.{statistic})", fixed(*factor, 3)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let parts = [
        ("times", listed(&|kind| !is_added(*kind, limits) && !is_lower(kind))),
        ("plus", listed(&|kind| is_added(*kind, limits) && !is_lower(kind))),
        ("minus", listed(&|kind| is_added(*kind, limits) && is_lower(kind))),
        ("divided by", listed(&|kind| !is_added(*kind, limits) && is_lower(kind))),
    ];
    let parts = parts.iter().filter(|(_, list)| !list.is_empty()).map(|(word, list)| format!("{word} {list}"));
    parts.collect::<Vec<_>>().join(", ")
}

fn exit_code(checked: &ResultsCheck, strict: bool) -> u8 {
    const MOST: u8 = 63;
    u8::try_from(checked.failing(strict)).unwrap_or(MOST).min(MOST)
}

fn as_json(checked: &ResultsCheck, strict: bool) -> Value {
    let row = |row: &CheckedLimit| {
        let mut value = address_json(&row.limit.address);
        value["limit"] = json!(row.limit.limit);
        value["value"] = json!(row.value);
        value["beyond_share"] = json!(row.share_beyond());
        value["passed"] = json!(row.passed());
        value["inconclusive"] = json!(row.outcome() == FigureVerdict::Inconclusive);
        value["samples_needed"] = json!(row.needs);
        value
    };
    let subs = checked.checked.iter().map(|one| {
        json!({
            "name": one.name,
            "passed": one.passed(strict),
            "distrust": one.distrust,
            "notes": one.notes,
            "limits": one.rows.iter().map(row).collect::<Vec<_>>(),
        })
    });
    let (met, all) = checked.counts();
    json!({
        "passed": checked.failing(strict) == 0,
        "failing": checked.failing(strict),
        "limits_met": met,
        "limits": all,
        "sub_experiments": subs.collect::<Vec<_>>(),
        "without_limits": checked.without_limits,
        "not_measured": checked.not_measured,
    })
}
