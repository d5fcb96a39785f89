use super::table;
use crate::args::{ExperimentArgs, FollowerArgs, LeaderArgs, PluginArgs, RunArgs};
use crate::error::CliError;
use crate::experiment;
use crate::output;
use crate::progress::Progress;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tripmeter_engine::{Followers, RunError, RunOptions, by_hand};
use tripmeter_model::exit;
use tripmeter_model::manifest::{Manifest, Status, Verdict};

/// How long a measuring process may show no sign of life; it shows one per second.
const WATCHDOG: Duration = Duration::from_secs(20);

/// `tripmeter run`
pub fn run(args: &RunArgs) -> Result<u8, CliError> {
    measure(&args.experiment, &args.plugins, Followers::Local)
}

/// `tripmeter leader`
pub fn leader(args: &LeaderArgs) -> Result<u8, CliError> {
    let rendezvous = rendezvous(&args.rendezvous.name)?;
    let wait = Duration::from_secs(args.timeout.into());
    measure(&args.experiment, &args.plugins, Followers::ByHand { rendezvous, wait })
}

/// `tripmeter follower`
pub fn follower(args: &FollowerArgs) -> Result<u8, CliError> {
    let stop = stop_on_signals()?;
    let place = rendezvous(&args.rendezvous.name)?;
    let timeout = Duration::from_secs(args.timeout.into());
    output::say(&format!("waiting for a leader at '{}'", place.display()));
    by_hand::follow(&experiment::program()?, &place, timeout, &stop).map_err(RunError::from)?;
    Ok(exit::GOOD)
}

fn measure(args: &ExperimentArgs, plugins: &PluginArgs, followers: Followers) -> Result<u8, CliError> {
    let stop = stop_on_signals()?;
    let program = experiment::program()?;
    let registry = experiment::registry(plugins, &program)?;
    let plan = experiment::plan(args, &registry)?;
    if !args.quiet {
        plan.left_out.iter().for_each(|line| output::say(&format!("left out: {line}")));
    }
    let options = RunOptions { output: args.output.clone(), followers, stop, tripmeter: program, watchdog: WATCHDOG };
    let mut progress = Progress::new(&plan, args.quiet);
    let outcome = tripmeter_engine::run(&plan, &registry, &options, &mut |event| progress.watch(event));
    progress.end();
    let manifest = outcome?;
    let text = if args.json {
        serde_json::to_string_pretty(&manifest).expect("a manifest is plain data") + "\n"
    } else {
        table::text(&manifest, &plan.tables)
    };
    output::print(&text)?;
    Ok(exit_code(&manifest))
}

/// A flag that is set by Ctrl-C and its like; the engine then ends what runs and keeps what was measured.
fn stop_on_signals() -> Result<Arc<AtomicBool>, CliError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| CliError::new(exit::SOFTWARE, format!("cannot watch for signal {signal}: {error}")))?;
    }
    Ok(stop)
}

/// What a finished run means to a script.
fn exit_code(manifest: &Manifest) -> u8 {
    if manifest.status == Status::Interrupted {
        return exit::INTERRUPTED;
    }
    let failed = manifest.sub_experiments.iter().any(|result| {
        let proof_failed = result.path_proof.as_ref().is_some_and(|proof| proof.verdict == Verdict::Failed);
        result.status != Status::Complete || proof_failed
    });
    if failed || !manifest.plan.missing.is_empty() { exit::PARTIAL } else { exit::GOOD }
}

/// Where leader and follower of that name meet.
fn rendezvous(name: &str) -> Result<PathBuf, CliError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if (1..=40).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(by_hand::rendezvous(name));
    }
    Err(CliError::new(exit::USAGE, format!("rendezvous '{name}' is not of 1 to 40 letters, digits, '_' and '-'")))
}
