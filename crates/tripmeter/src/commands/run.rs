//! `tripmeter run`, the command of each pattern, and followers started by hand.

use super::resume;
use crate::args::{ExperimentArgs, FollowArgs, PluginArgs, RunArgs, RunningArgs};
use crate::error::CliError;
use crate::measurement::{Measurement, measure};
use crate::signals::stop_on_signals;
use crate::{experiment, output, recording};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tripmeter_engine::{Followers, RunError, by_hand};
use tripmeter_model::exit;

pub fn run_or_resume(args: &RunArgs) -> Result<u8, CliError> {
    match &args.resume {
        Some(folder) => resume::resume(folder, args, followers(&args.running)?),
        None => run(&args.experiment(), &args.running),
    }
}

fn followers(args: &RunningArgs) -> Result<Followers, CliError> {
    let Some(name) = &args.rendezvous else { return Ok(Followers::Local) };
    let wait = Duration::from_secs(args.rendezvous_timeout.into());
    Ok(Followers::ByHand { rendezvous: rendezvous(name)?, wait })
}

pub fn run(experiment: &ExperimentArgs, args: &RunningArgs) -> Result<u8, CliError> {
    let followers = followers(args)?;
    if args.print {
        output::print(&text(experiment, args)?)?;
        return Ok(exit::GOOD);
    }
    let (output, is_live, shown) = (&args.output, args.live, args.shown);
    measure(&Measurement { experiment, output, is_live, shown, followers, is_strict: args.strict })
}

/// Resolves the experiment and returns it as the text of a file.
fn text(experiment: &ExperimentArgs, args: &RunningArgs) -> Result<String, CliError> {
    let registry = experiment::registry(&args.output.plugins, &experiment::program()?)?;
    let mut opened = None;
    experiment::text(experiment, &registry, |asked| {
        let read = recording::open(asked, &*stop_on_signals()?, args.output.quiet)?;
        Ok(opened.insert(read).recording.clone())
    })
}

pub fn follow(args: &FollowArgs) -> Result<u8, CliError> {
    let stop = stop_on_signals()?;
    let name = rendezvous(&args.name)?;
    let program = experiment::program()?;
    let registry = experiment::registry(&args.plugins, &program)?;
    let plugins = registry.plugins();
    let timeout = Duration::from_secs(args.timeout.into());
    let place = by_hand::rendezvous(&name).map_err(RunError::from)?;
    output::say(&format!("waiting for a leader at '{}'", place.display()));
    let mut told = BTreeSet::new();
    let mut watch = |system: &str| {
        let ignores = registry.get(system).ok().and_then(|entry| entry.ignores(&BTreeMap::new()));
        ignores.filter(|note| told.insert(note.clone())).iter().for_each(|note| output::say(note));
    };
    by_hand::follow(&program, &plugins, &name, timeout, &stop, &mut watch).map_err(RunError::from)?;
    Ok(exit::GOOD)
}

/// Runs `tripmeter remote`, which ssh starts on the host of a follower.
pub fn remote() -> Result<u8, CliError> {
    let program = experiment::program()?;
    let registry = experiment::registry(&PluginArgs::default(), &program)?;
    Ok(tripmeter_engine::hosts::serve(&registry, &program))
}

fn rendezvous(name: &str) -> Result<String, CliError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if (1..=40).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(name.to_owned());
    }
    Err(CliError::new(exit::USAGE, format!("rendezvous '{name}' must have 1 to 40 letters, digits, '_' or '-'")))
}
