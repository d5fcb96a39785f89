//! Results folders that are judged: one, one of its rounds, or many.

use crate::commands::show;
use crate::database::Contents;
use crate::error::CliError;
use crate::output;
use std::path::{Path, PathBuf};
use tripmeter_analysis::{JudgedResults, MetricTable, Selection};
use tripmeter_model::folder::{MANIFEST, REPORT};
use tripmeter_model::{exit, printable};

/// Ends the name of a run's folder until the run is finished.
pub const UNFINISHED: &str = ".unfinished";
/// How many names a note lists.
const NAMES_IN_A_NOTE: usize = 5;

/// A results folder among others.
#[derive(Clone, Debug)]
pub struct NamedFolder {
    /// Its last part, for people.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Reads a results folder, or a round of one, which is its folder `round-NN`.
///
/// # Errors
/// If it has no manifest, or one that is wrong.
pub fn open(path: &Path, allows_damage: bool) -> Result<JudgedResults, CliError> {
    // However it is spelled: as `.`, or by a link.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let last = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match (round_of(&last), real.parent()) {
        (Some(round), Some(parent)) if !is_results(path) && is_results(parent) => {
            Ok(JudgedResults { manifest: show::read(parent)?, allows_damage }.of_round(round))
        }
        _ => Ok(JudgedResults { manifest: show::read(path)?, allows_damage }),
    }
}

/// The same, if anything of it can be judged: it is not measured any more.
pub fn open_finished(folder: &NamedFolder, allows_damage: bool) -> Result<Option<JudgedResults>, CliError> {
    let results = open(&folder.path, allows_damage)?;
    if results.is_running() {
        output::say(&format!("note: left out: '{}' is being measured, or was killed", folder.name));
        return Ok(None);
    }
    Ok(Some(results))
}

/// Whether a folder has a manifest; also one that cannot be read, or is a link.
pub fn is_results(folder: &Path) -> bool {
    folder.join(MANIFEST).symlink_metadata().is_ok()
}

/// The number of a round's folder: `round-02`.
fn round_of(name: &str) -> Option<u32> {
    name.strip_prefix("round-")?.parse().ok().filter(|round| *round > 0)
}

/// Each results folder, and the results folders in other folders, oldest first. One note names what else is in them.
///
/// # Errors
/// If one is no folder, or has no results folder in it.
pub fn folders_in(folders: &[PathBuf]) -> Result<Vec<NamedFolder>, CliError> {
    let mut found = Vec::new();
    for folder in folders {
        if is_results(folder) || folder.parent().is_some_and(is_results) {
            found.push(NamedFolder { name: crate::database::last_part(folder), path: folder.clone() });
        } else {
            found.extend(of_database(folder)?);
        }
    }
    Ok(found)
}

fn of_database(folder: &Path) -> Result<Vec<NamedFolder>, CliError> {
    let contents = Contents::read(folder)?;
    let is_hidden = |name: &str| name.starts_with('.') || name.ends_with(UNFINISHED);
    let (ours, others): (Vec<String>, Vec<String>) =
        contents.folders.into_iter().filter(|name| !is_hidden(name)).partition(|name| is_results(&folder.join(name)));
    if ours.is_empty() {
        let text = format!("'{}' is no results folder, and holds none", folder.display());
        return Err(CliError::new(exit::DATA, text));
    }
    let files = contents.others.into_iter().filter(|name| !is_hidden(name) && name != REPORT);
    let strays: Vec<String> = files.chain(others).map(|name| format!("'{}'", printable::line(&name))).collect();
    if !strays.is_empty() {
        output::say(&format!("note: ignored in '{}': {}", folder.display(), listed(&strays)));
    }
    let named = |name: String| NamedFolder { path: folder.join(&name), name: printable::line(&name).into_owned() };
    Ok(ours.into_iter().map(named).collect())
}

/// The first few names, and how many more there are.
pub fn listed(names: &[String]) -> String {
    let more = match names.len().saturating_sub(NAMES_IN_A_NOTE) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names[..names.len().min(NAMES_IN_A_NOTE)].join(", ") + &more
}

/// The figures that were asked for, which these results must have together.
///
/// # Errors
/// If there is no such figure, or it cannot be judged.
pub fn selection(names: &[String], results: &[&JudgedResults]) -> Result<Selection, CliError> {
    let tables: Vec<MetricTable> = results.iter().map(|results| results.table()).collect();
    let selection = Selection::named(names, &tables.iter().collect::<Vec<_>>());
    selection.map_err(|why| CliError::new(exit::USAGE, format!("{why} (--figures)")))
}

/// Notes of what is not trusted, and left out.
pub fn note_left_out(name: &str, results: &JudgedResults) {
    for line in results.left_out() {
        output::say(&format!("note: left out of '{name}': {line}"));
    }
}
