//! `tripmeter selftest`: checks whether this program can be trusted on this machine.

mod bare;
mod bench;
mod campaign;
mod page;
mod truth;

pub use bare::bare;

use crate::args::SelftestArgs;
use crate::error::CliError;
use crate::signals::stop_on_signals;
use crate::{experiment, output};
use bench::Bench;
use campaign::outcome::PhaseOutcome;
use campaign::phase::Phase;
use campaign::{Campaign, SCHEMA_VERSION, cannot_create, check_folder};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tripmeter_engine::scratch::temporary_folder;
use tripmeter_model::exit;
use tripmeter_model::folder_handle::FolderHandle;

const FILE: &str = "selftest.json";
/// Time limit per kind of comparison in the quick form; the first of each kind is made in any case.
const QUICK_PHASE: Duration = Duration::from_secs(18);

pub fn selftest(args: &SelftestArgs) -> Result<u8, CliError> {
    let begin = Instant::now();
    let (program, stop) = (experiment::program()?, stop_on_signals()?);
    let temporary = match args.output {
        Some(_) => None,
        None => Some(
            temporary_folder("tripmeter-selftest-")
                .map_err(|error| CliError::new(exit::CANNOT_CREATE, error.to_string()))?,
        ),
    };
    let named = args.output.as_deref();
    let folder = named.or(temporary.as_ref().map(|folder| folder.path())).expect("one of both is there").to_path_buf();
    check_folder(&folder)?;
    let folder = FolderHandle::create(&folder).map_err(|error| cannot_create(&folder, &error))?;
    let bench = Bench { program, folder, stop, quiet: args.quiet };
    let phases = Phase::all(args.full, args.comparisons);
    let most = if args.full || args.comparisons.is_some() { None } else { Some(QUICK_PHASE) };
    let mut campaign = Campaign::open(&bench, args.seed, &phases)?;
    let truth = truth::truth(&bench)?;
    let overhead = bare::overhead(&bench)?;
    campaign.run(&bench, most)?;
    let outcomes: Vec<PhaseOutcome> = phases.iter().map(|phase| campaign.outcome(phase, args.full)).collect();
    let interrupted = bench.stopped();
    let (ended, environment) = tripmeter_engine::machine();
    let made = json!({
        "schema_version": SCHEMA_VERSION,
        "tripmeter_version": env!("CARGO_PKG_VERSION"),
        "status": if interrupted { "interrupted" } else { "complete" },
        "form": if args.full { "full" } else { "quick" },
        "seed": args.seed,
        "duration_s": begin.elapsed().as_secs_f64(),
        "ended": ended,
        "environment": environment,
        "truth": truth,
        "overhead": overhead,
        "comparisons": outcomes.iter().map(PhaseOutcome::json).collect::<Vec<_>>(),
    });
    bench.folder.write_json(FILE, &made)?;
    output::print(&if args.json { format!("{made:#}\n") } else { page::page(&made, named) })?;
    Ok(exit_code(&made, &outcomes, interrupted))
}

fn exit_code(made: &Value, outcomes: &[PhaseOutcome], interrupted: bool) -> u8 {
    let is_left_out = |one: &Value| one["left_out"].is_string();
    let is_good = |part: &Value| {
        let mut all = part.as_array().into_iter().flatten();
        all.all(|one| one["good"] == json!(true) || is_left_out(one))
    };
    let left_out = made["overhead"].as_array().into_iter().flatten().any(is_left_out);
    let good = is_good(&made["truth"]) && is_good(&made["overhead"]) && outcomes.iter().all(|one| one.good);
    match (interrupted, good) {
        (true, _) => exit::INTERRUPTED,
        (_, false) => exit::FINDING,
        _ if left_out || outcomes.iter().any(|one| one.failed > 0) => exit::PARTIAL,
        _ => exit::GOOD,
    }
}
