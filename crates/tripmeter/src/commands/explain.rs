//! `tripmeter explain`: breaks down the time of a message.

use super::{report, show};
use crate::args::ExplainArgs;
use crate::error::CliError;
use crate::explanation::read;
use crate::measurement::{Prepared, exit_code};
use crate::output;
use crate::progress::ProgressView;
use std::collections::BTreeMap;
use std::path::Path;
use tripmeter_analysis::explain::{TracedCalls, explain as put_together};
use tripmeter_engine::os::CpuCounters;
use tripmeter_engine::{Followers, system_calls};
use tripmeter_model::explain::{ExplainedTransport, Explanation, FILE};
use tripmeter_model::folder::LOGS;
use tripmeter_model::plan::{Instrument, Plan, SubExperiment};
use tripmeter_model::{Touch, Wait, exit};
use tripmeter_report::document::{Block, Cell, Document, Missing};
use tripmeter_report::small_queues;

/// Maximum number of round trips in the shorter traced pass; the longer one has three times as many.
const TRACED: u64 = 500;

pub fn explain(args: &ExplainArgs) -> Result<u8, CliError> {
    args.output.sorting.refuse_with_json(args.output.json)?;
    if let Some(folder) = &args.from {
        print(&read(folder)?, args)?;
        return Ok(exit::GOOD);
    }
    refuse(args)?;
    if !args.measuring.hosts.to.is_empty() {
        let text = "explain traces both sides of a message on one host; leave --to out";
        return Err(CliError::new(exit::USAGE, text));
    }
    let mut prepared = Prepared::new(&args.experiment(), &args.output.plugins, args.output.quiet)?;
    let no_system_calls = system_calls::check().err();
    let passes: Vec<SubExperiment> = prepared
        .plan
        .sub_experiments
        .iter()
        .flat_map(|sub| passes(sub, &waits(&prepared, sub), no_system_calls.is_none()))
        .collect();
    prepared.plan.sub_experiments = passes;
    let shown = ProgressView::from_flags(args.output.quiet, false);
    let (manifest, folder) = prepared.run_into(args.output.folder.as_deref().into(), Followers::Local, shown)?;
    // Without the folder, no worker has written a trace.
    let traces = folder.inside(LOGS).and_then(|logs| Ok((logs.at("")?, logs)));
    let traced = traced(&prepared.plan, traces.as_ref().ok().map(|(at, _)| at.as_path()));
    traces.iter().for_each(|(_, logs)| system_calls::remove_traces(&prepared.plan, logs));
    let counters = CpuCounters::check();
    let mut explanation = Explanation {
        no_system_calls,
        are_counters_without_kernel: counters == Ok(false),
        no_counters: counters.clone().err(),
        ..put_together(&show::printable(&manifest), &traced)
    };
    if counters.is_ok() {
        explanation.transports.iter_mut().for_each(note_uncounted);
    }
    for transport in &mut explanation.transports {
        note_shared_cpus(transport, &manifest.plan);
        let small = small_queues(&manifest, &transport.transport);
        transport.notes.extend(small.map(|what| format!("{}: {what}", transport.transport)));
    }
    folder.write_json(FILE, &explanation)?;
    print(&explanation, args)?;
    if !args.output.no_report {
        report::of_explanation(&explanation, &folder, args.output.quiet)?;
    }
    output::print_folder(&args.output, folder.path())?;
    Ok(exit_code(&manifest, prepared.allowed))
}

fn refuse(args: &ExplainArgs) -> Result<(), CliError> {
    let refused = |what: &str| Err(CliError::new(exit::USAGE, format!("{what} does not apply here")));
    match &args.measuring {
        measuring if measuring.payloads.is_some() => {
            Err(CliError::new(exit::USAGE, "--payloads does not apply here; give one size with --payload"))
        }
        measuring if measuring.touch.is_some() => refused("--touch"),
        measuring if !measuring.interference.background.is_empty() => refused("--background"),
        measuring if measuring.kept.raw.is_some() => refused("--raw"),
        measuring if measuring.attempts.is_some() => refused("--attempts"),
        measuring if measuring.kept.streams.is_some() => refused("--streams"),
        measuring if measuring.seed.is_some() => refused("--seed"),
        _ => Ok(()),
    }
}

/// Adds a note if a transport's cycles are missing although this machine can count them.
fn note_uncounted(transport: &mut ExplainedTransport) {
    if transport.cost.is_some_and(|cost| cost.cycles.is_none()) {
        let why = "no cycles and instructions: its processes could not count them; see logs/ in the results folder";
        transport.missing.push(format!("{}: {why}", transport.transport));
    }
}

fn note_shared_cpus(transport: &mut ExplainedTransport, plan: &Plan) {
    let is_of = |sub: &&SubExperiment| sub.transport.to_string() == transport.transport;
    let polls = plan.sub_experiments.iter().filter(is_of).find(|sub| plan.polls_on_shared_cpu(sub));
    if let Some(why) = polls.and_then(|sub| plan.shared_cpus(sub)) {
        transport.notes.push(format!("{} under poll: {why}", transport.transport));
        return;
    }
    let would = |sub: &SubExperiment| plan.polls_on_shared_cpu(&SubExperiment { wait: Wait::Poll, ..sub.clone() });
    if plan.sub_experiments.iter().find(is_of).is_some_and(would) {
        let text = "leader and follower share a CPU, so poll was not measured; wake-up and block-poll are missing";
        transport.notes.push(format!("{}: {text}", transport.transport));
    }
}

/// Waits to examine: first that of the sub-experiment, then `poll` and `block` if supported. `poll` is left out if both
/// sides share a CPU, because it would show the scheduler.
fn waits(prepared: &Prepared, sub: &SubExperiment) -> Vec<Wait> {
    let mut waits = vec![sub.wait];
    let entry = prepared.registry.get(&sub.transport.system).ok();
    let description = entry.and_then(|entry| entry.describe().ok());
    let variant = description.and_then(|description| description.variant(&sub.transport.variant));
    let others = variant.map(|variant| variant.waits.clone()).unwrap_or_default();
    let can_poll = !prepared.plan.polls_on_shared_cpu(&SubExperiment { wait: Wait::Poll, ..sub.clone() });
    let is_looked_at = |wait: &Wait| *wait == Wait::Block || (*wait == Wait::Poll && can_poll);
    waits.extend(others.into_iter().filter(|wait| *wait != sub.wait && is_looked_at(wait)));
    waits
}

/// Passes of a transport. Those under strace come first, so that their files are complete at the end.
fn passes(sub: &SubExperiment, waits: &[Wait], is_traced: bool) -> Vec<SubExperiment> {
    let own_wait = format!("_{}", sub.wait);
    let stem = sub.name.strip_suffix(&own_wait).unwrap_or(&sub.name);
    let pass = |suffix: &str, instrument| SubExperiment {
        name: format!("{stem}_{suffix}"),
        title: format!("{} {}", sub.transport, suffix.replace('_', " ")),
        touch: Touch::None,
        instrument,
        ..sub.clone()
    };
    let mut passes = Vec::new();
    if !sub.added_as_floor {
        let few = sub.samples.min(TRACED);
        for (suffix, samples) in [("few_calls", few), ("many_calls", 3 * few)] {
            let traced = pass(suffix, Some(Instrument::SystemCalls));
            passes.extend(is_traced.then_some(SubExperiment { samples, warmup: few / 10, ..traced }));
        }
        passes.push(pass("counted", Some(Instrument::Counters)));
        passes.push(SubExperiment { touch: Touch::Full, ..pass("touched", None) });
    }
    for wait in waits {
        passes.push(SubExperiment { wait: *wait, ..pass(wait.as_str(), None) });
        passes.push(SubExperiment { wait: *wait, ..pass(&format!("{wait}_stamped"), Some(Instrument::Stamps)) });
    }
    passes
}

fn traced(plan: &Plan, logs: Option<&Path>) -> BTreeMap<String, Result<TracedCalls, String>> {
    let is_traced = |sub: &&SubExperiment| sub.instrument == Some(Instrument::SystemCalls);
    let of = |sub: &SubExperiment| {
        let mut sum: Option<TracedCalls> = None;
        for worker in ["leader", "follower"] {
            // If both sides are one process, there is one trace.
            let file = logs.map(|logs| system_calls::trace_file(logs, &sub.name, worker));
            let Some(Ok(counts)) = file.map(|file| system_calls::read(&file)) else { continue };
            let all = sum.get_or_insert_default();
            counts.into_iter().for_each(|(name, count)| all.entry(name).or_default().add(count));
        }
        (sub.name.clone(), sum.ok_or("strace wrote no trace".to_owned()))
    };
    plan.sub_experiments.iter().filter(is_traced).map(of).collect()
}

fn print(explanation: &Explanation, args: &ExplainArgs) -> Result<(), CliError> {
    if args.output.json {
        let text = serde_json::to_string_pretty(explanation).expect("it has no maps but of text");
        return output::print(&format!("{text}\n"));
    }
    let mut document = tripmeter_report::explain(explanation);
    if args.output.sorting.sort.is_some() {
        name_every_row(&mut document);
    }
    match args.from {
        Some(_) => args.output.sorting.apply([&mut document])?,
        None => args.output.sorting.apply_or_say([&mut document]),
    }
    output::print_document(&document)
}

/// Repeats names that stand only in the first of several rows, because sorting separates the rows.
fn name_every_row(document: &mut Document) {
    for block in &mut document.blocks {
        let Block::Table(table) = block else { continue };
        let mut name = None;
        for cell in table.rows.iter_mut().filter_map(|(_, cells)| cells.first_mut()) {
            match (&*cell, &name) {
                (Cell::Missing(Missing::NotOfThisRow), Some(name)) => *cell = Cell::clone(name),
                _ => name = Some(cell.clone()),
            }
        }
    }
}
