//! `tripmeter choose`: ranks transports for a workload.

use super::{report, show};
use crate::args::{AllowedArgs, ChooseArgs};
use crate::error::CliError;
use crate::measurement::{Prepared, exit_code};
use crate::progress::ProgressView;
use crate::{experiment, output};
use std::time::Instant;
use tripmeter_engine::Followers;
use tripmeter_engine::resolve::check_rounds;
use tripmeter_model::exit;
use tripmeter_model::experiment::Experiment;
use tripmeter_model::figure::Statistic;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{Manifest, RunStatus};
use tripmeter_model::plan::Plan;
use tripmeter_report::render;
use tripmeter_report::{Choice, Wish, counted};
use tripmeter_stats::rounds::ALPHA;
use tripmeter_stats::shift::fewest_pairs;

/// Seconds that processes, path proof and probes add to the messages of a sub-experiment.
const START_S: f64 = 2.0;
const FEWEST: u64 = 20;

pub fn choose(args: &ChooseArgs) -> Result<u8, CliError> {
    if args.measuring.payloads.is_some() {
        return Err(CliError::new(exit::USAGE, "--payloads does not apply here; give one size with --payload"));
    }
    if args.measuring.interference.background.len() > 1 {
        return Err(CliError::new(exit::USAGE, "choose compares transports under one load; give --background once"));
    }
    if let Some(folder) = &args.from {
        let manifest = show::read(folder)?;
        return tell(args, &manifest, None).map(|found| code(&manifest, found));
    }
    if !(args.budget > 0.0 && args.budget <= 1e7) {
        let text = format!("--budget {} s must be above 0 and at most 10000000 s", args.budget);
        return Err(CliError::new(exit::USAGE, text));
    }
    let samples = args.measuring.samples.unwrap_or(wanted(args.by));
    let mut asked = args.experiment(samples);
    // The default number of rounds depends on the number of transports; it is least for two.
    asked.rounds = args.rounds.or(Some(fewest_rounds(2)));
    // Quiet, because the ranking lists the transports that are left out.
    let mut prepared = Prepared::new(&asked, &args.output.plugins, true)?;
    let rounds = args.rounds.unwrap_or(fewest_rounds(prepared.plan.sub_experiments.len()));
    (asked.rounds, prepared.plan.rounds) = (Some(rounds), rounds);
    check_rounds(&prepared.plan)?;
    let affordable = affordable(args, &prepared.plan, samples)?;
    if args.print {
        asked.measuring.samples = Some(affordable);
        let registry = experiment::registry(&args.output.plugins, &experiment::program()?)?;
        let nothing = |_: &Experiment| Err(CliError::new(exit::USAGE, "a workload of flags has no recording"));
        output::print(&experiment::text(&asked, &registry, nothing)?)?;
        return Ok(exit::GOOD);
    }
    for sub in &mut prepared.plan.sub_experiments {
        sub.samples = affordable;
        sub.warmup = args.measuring.warmup.unwrap_or(Plan::default_warmup(affordable));
    }
    let (begin, planned) = (Instant::now(), prepared.plan.rounds);
    let mut rounds = |manifest: &Manifest| {
        let done = manifest.sub_experiments.iter().map(|result| result.round).max().unwrap_or(0);
        rounds_within(args.budget, begin.elapsed().as_secs_f64(), done, planned)
    };
    let shown = ProgressView::from_flags(args.output.quiet, false);
    let (manifest, folder) =
        prepared.run_while(args.output.folder.as_deref().into(), Followers::Local, shown, &mut rounds)?;
    if manifest.plan.rounds < planned && !args.output.quiet {
        let (rounds, budget) = (manifest.plan.rounds, args.budget);
        output::say(&format!(
            "stopped after {rounds} of {planned} rounds: another would exceed the budget of {budget} s (--budget)"
        ));
    }
    let found = tell(args, &show::printable(&manifest), Some(&folder))?;
    output::print_folder(&args.output, folder.path())?;
    Ok(code(&manifest, found))
}

/// Exit code of `choose`: that of the ranking, `found`, unless something was not measured.
fn code(manifest: &Manifest, found: u8) -> u8 {
    let is_measured = manifest.sub_experiments.iter().flat_map(|one| &one.cells).any(|cell| !cell.trials.is_empty());
    let is_whole = manifest.sub_experiments.iter().all(|one| one.status == RunStatus::Complete);
    match found {
        _ if manifest.status == RunStatus::Interrupted => exit::INTERRUPTED,
        _ if !is_measured => exit_code(manifest, AllowedArgs::default()),
        exit::GOOD if !is_whole || !manifest.plan.missing.is_empty() => exit::PARTIAL,
        found => found,
    }
}

/// Least number of rounds for which the ratios between `transports` transports have confidence intervals.
fn fewest_rounds(transports: usize) -> u32 {
    fewest_pairs(ALPHA / transports.saturating_sub(1).max(1) as f64) as u32
}

/// Messages per round, enough that a percentile is not just the maximum.
fn wanted(by: Statistic) -> u64 {
    match by {
        Statistic::P999 => 4000,
        Statistic::P50 => 100,
        _ => 400,
    }
}

/// Messages per round within the budget, at most `wanted`; prints how long they take. Fails if the budget allows too
/// few, or fewer than requested.
fn affordable(args: &ChooseArgs, plan: &Plan, wanted: u64) -> Result<u64, CliError> {
    let rate = args.rate.expect("clap requires a rate to measure at");
    let runs = plan.sub_experiments.len() as f64 * f64::from(plan.rounds);
    let transports = counted(plan.sub_experiments.len(), "transport");
    let warmup = |samples| args.measuring.warmup.unwrap_or(Plan::default_warmup(samples));
    let cap_s =
        plan.sub_experiments.iter().filter_map(|sub| sub.time_cap_ns).max().map_or(f64::MAX, |cap| cap as f64 / 1e9);
    let seconds = |samples: u64| runs * (START_S + ((samples + warmup(samples)) as f64 / rate).min(cap_s));
    let fewest = if args.measuring.samples.is_some() { wanted } else { FEWEST.min(wanted) };
    if seconds(fewest) > args.budget {
        let text = format!(
            "{} in {} rounds of {fewest} messages at {rate} /s take about {:.0} s, but the budget is {} s; raise \
             --budget, name fewer transports, or use fewer --rounds",
            transports,
            plan.rounds,
            seconds(fewest),
            args.budget
        );
        return Err(CliError::new(exit::USAGE, text));
    }
    let (mut low, mut high) = (fewest, wanted);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if seconds(middle) > args.budget { high = middle - 1 } else { low = middle }
    }
    if !args.output.quiet {
        let less = if low < wanted { format!(" (limited by --budget; {wanted} are better)") } else { String::new() };
        output::say(&format!(
            "estimate: {} in {} of {low} messages{less} at {rate} /s: about {:.0} s",
            transports,
            counted(plan.rounds as usize, "round"),
            seconds(low)
        ));
    }
    Ok(low)
}

/// Total number of rounds: those planned, or those done if one more would exceed the budget.
fn rounds_within(budget_s: f64, spent_s: f64, done: u32, planned: u32) -> u32 {
    let next_s = spent_s / f64::from(done.max(1));
    if done > 0 && spent_s + next_s > budget_s { done } else { planned }
}

/// Prints the ranking of earlier or new results; if `measured`, also writes its page to the folder.
fn tell(args: &ChooseArgs, manifest: &Manifest, measured: Option<&FolderHandle>) -> Result<u8, CliError> {
    let wish = Wish {
        by: args.by,
        max_latency_ns: args.max_latency,
        max_cpu: args.max_cpu,
        max_loss: args.max_loss.0,
        payload_bytes: args.payload,
        rate_hz: args.rate,
        followers: args.subscribers,
    };
    let Choice { mut document, has_answer } =
        tripmeter_report::choose(manifest, &wish).map_err(|why| CliError::new(exit::DATA, why))?;
    match measured {
        Some(_) => args.output.sorting.apply_or_say([&mut document]),
        None => args.output.sorting.apply([&mut document])?,
    }
    if let Some(folder) = measured.filter(|_| !args.output.no_report) {
        report::of_document(&document, "choose", folder, args.output.quiet)?;
    }
    match args.output.json {
        true => output::print(&format!("{:#}\n", render::json(&document)))?,
        false => output::print_document(&document)?,
    }
    Ok(if has_answer { exit::GOOD } else { exit::FINDING })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_transports_need_more_rounds() {
        assert_eq!([0, 2, 3, 10, 100].map(fewest_rounds), [6, 6, 7, 9, 12]);
    }

    #[test]
    fn a_round_that_would_not_end_within_the_budget_is_not_begun() {
        assert_eq!(rounds_within(80.0, 0.0, 0, 6), 6);
        assert_eq!(rounds_within(80.0, 60.0, 5, 6), 6);
        assert_eq!(rounds_within(80.0, 70.0, 5, 6), 5);
        assert_eq!(rounds_within(80.0, 100.0, 1, 6), 1, "the first round is always whole");
    }
}
