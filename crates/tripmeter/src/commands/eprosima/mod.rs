//! `tripmeter eprosima`: eProsima's latency scripts, on the same files.

mod check;
mod compare;
mod compare_subexperiments;
mod determine_requirements;
mod folder;
mod history;
mod job;
mod process;
mod prune;

use crate::args::{EprosimaArgs, EprosimaCommand};
use crate::error::CliError;

pub fn eprosima(args: &EprosimaArgs) -> Result<u8, CliError> {
    match &args.command {
        EprosimaCommand::Process(args) => process::process(args),
        EprosimaCommand::Check(args) => check::check(args),
        EprosimaCommand::Compare(args) => compare::compare(args),
        EprosimaCommand::CompareSubexperiments(args) => compare_subexperiments::compare_subexperiments(args),
        EprosimaCommand::DetermineRequirements(args) => determine_requirements::determine_requirements(args),
        EprosimaCommand::History(args) => history::history(args),
        EprosimaCommand::Job(args) => job::job(args),
        EprosimaCommand::Prune(args) => prune::prune(args),
    }
}
