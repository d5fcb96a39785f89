//! `tripmeter eprosima prune`: removes old results folders, and nothing else.

use crate::args::PruneArgs;
use crate::commands::show;
use crate::database::{Began, Contents, last_part};
use crate::error::CliError;
use crate::output;
use crate::results::is_results;
use std::path::Path;
use tripmeter_model::exit;
use tripmeter_model::manifest::RunStatus;
use tripmeter_model::printable::line;
use tripmeter_report::counted;

pub fn prune(args: &PruneArgs) -> Result<u8, CliError> {
    let named = named(args)?;
    let told = remove_old(&args.results_db, args.number, &named, args.dry_run)?;
    output::print(&told)?;
    Ok(exit::GOOD)
}

/// Names given by `-s`. Each must exist, because a mistyped name would let its folder be removed.
fn named(args: &PruneArgs) -> Result<Vec<String>, CliError> {
    let given = args.keep.iter().flat_map(|list| list.split(':')).filter(|name| !name.is_empty());
    given
        .map(|given| {
            let name = last_part(Path::new(given));
            if args.results_db.join(&name).is_dir() {
                return Ok(name);
            }
            let text = format!("'{given}' (-s) is not in '{}'; nothing was removed", args.results_db.display());
            Err(CliError::new(exit::NO_INPUT, text))
        })
        .collect()
}

/// Removes all experiments except the `number` newest and the named ones. Returns a report, in lines.
///
/// # Source
/// Does what `remove_old_executions.bash` in eProsima's benchmarking is for, without its code.
pub fn remove_old(database: &Path, number: usize, named: &[String], dry_run: bool) -> Result<String, CliError> {
    let contents = Contents::read(database)?;
    let mut told = String::new();
    let mut left_alone = |name: &str, why: &str| told += &format!("left alone: '{}': {}\n", line(name), line(why));
    let mut experiments: Vec<&String> = Vec::new();
    for name in &contents.folders {
        let why = match Began::of_name(name) {
            Some(_) => is_finished_experiment(&database.join(name)).err(),
            None => Some("not named by date and time".to_owned()),
        };
        match why {
            None => experiments.push(name),
            Some(why) if !named.contains(name) => left_alone(name, &why),
            Some(_) => {}
        }
    }
    contents.others.iter().for_each(|name| left_alone(name, "not a folder"));
    let old = &experiments[..experiments.len().saturating_sub(number)];
    let old: Vec<_> = old.iter().filter(|name| !named.contains(name)).collect();
    for name in &old {
        let folder = database.join(name);
        if !dry_run {
            std::fs::remove_dir_all(&folder).map_err(|error| {
                let text = format!("{told}folder '{}' cannot be removed: {error}", folder.display());
                CliError::new(exit::CANNOT_CREATE, text)
            })?;
        }
        let verb = if dry_run { "would remove" } else { "removed" };
        told += &format!("{verb}: {}\n", line(&folder.display().to_string()));
    }
    let verb = if dry_run { "would be removed" } else { "removed" };
    let (removed, all) = (old.len(), experiments.len());
    told += &format!("{removed} {verb}, {} kept of {}\n", all - removed, counted(all, "experiment"));
    Ok(told)
}

/// Checks that a folder holds results that nobody is writing.
fn is_finished_experiment(folder: &Path) -> Result<(), String> {
    if is_results(folder) {
        return match show::read(folder) {
            Ok(manifest) if manifest.status == RunStatus::Running => Err("it is in progress or was killed".to_owned()),
            Ok(manifest) if manifest.sub_experiments.iter().all(|result| result.cells.is_empty()) => {
                Err("it has no measurements".to_owned())
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
    }
    let contents = Contents::read(folder).map_err(|error| error.to_string())?;
    let is_result = |name: &String| name.starts_with("measurements_") && name.ends_with(".csv");
    if contents.others.iter().any(is_result) { Ok(()) } else { Err("it has no results".to_owned()) }
}
