//! Results folders to judge: a single one, one of its rounds, or many.

use crate::commands::show;
use crate::database::{Contents, last_part};
use crate::error::CliError;
use crate::output;
use std::path::{Path, PathBuf};
use tripmeter_analysis::{JudgedResults, MetricTable, Selection};
use tripmeter_model::file::FileError;
use tripmeter_model::folder::{MANIFEST, REPORT};
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::{exit, printable};

/// Suffix of a run's folder until the run is finished.
pub const UNFINISHED: &str = ".unfinished";
const NAMES_IN_A_NOTE: usize = 5;

/// Results folder, one of several.
#[derive(Clone, Debug)]
pub struct NamedFolder {
    /// Last part of its path, printable.
    pub name: String,
    pub path: PathBuf,
    /// True if the user named this folder itself, not a folder that contains it.
    pub is_named: bool,
}

/// Reads a results folder, or one of its rounds (`round-NN`). Fails if it has no manifest, or an invalid one.
pub fn open(path: &Path, allows_damage: bool) -> Result<JudgedResults, CliError> {
    let (folder, round) = with_manifest(path);
    let results = JudgedResults { manifest: show::read(&folder)?, allows_damage };
    Ok(match round {
        Some(round) => results.of_round(round),
        None => results,
    })
}

/// Folder with the manifest that a path belongs to, and the number of the round if the path is one of its rounds.
pub fn with_manifest(path: &Path) -> (PathBuf, Option<u32>) {
    // Resolves paths such as `.` and links.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let round = real.file_name().and_then(|name| round_of(&name.to_string_lossy()));
    match (round, real.parent()) {
        (Some(round), Some(parent)) if !is_results(path) && is_results(parent) => (parent.to_owned(), Some(round)),
        _ => (path.to_owned(), None),
    }
}

/// Reads a results folder. Returns `None`, with a note, if it is being measured, or if it cannot be read and the user
/// did not name it.
pub fn open_finished(folder: &NamedFolder, allows_damage: bool) -> Result<Option<JudgedResults>, CliError> {
    let results = match open(&folder.path, allows_damage) {
        Err(error) if !folder.is_named => {
            output::say(&format!("note: left out: '{}': {error}; move it away", folder.name));
            return Ok(None);
        }
        results => results?,
    };
    if results.is_running() {
        output::say(&format!("note: left out: '{}' is in progress or was killed", folder.name));
        return Ok(None);
    }
    Ok(Some(results))
}

/// Opens a results folder for writing files derived from its data. Fails if it does not exist.
pub fn opened(folder: &Path) -> Result<FolderHandle, CliError> {
    FolderHandle::open_named(folder).map_err(|error| FileError::reading(folder, &error).into())
}

/// Names of folders; equal names are replaced by their paths.
pub fn names(folders: &[PathBuf]) -> Vec<String> {
    let short: Vec<String> = folders.iter().map(|folder| last_part(folder)).collect();
    let is_twice = |name: &String| short.iter().filter(|other| *other == name).count() > 1;
    let name = |(folder, name): (&PathBuf, &String)| {
        if is_twice(name) { folder.display().to_string() } else { name.clone() }
    };
    folders.iter().zip(&short).map(name).collect()
}

/// True if a folder has a manifest, readable or not, or a link to one.
pub fn is_results(folder: &Path) -> bool {
    folder.join(MANIFEST).symlink_metadata().is_ok()
}

/// Number in the name of a round's folder: `round-02`.
pub fn round_of(name: &str) -> Option<u32> {
    name.strip_prefix("round-")?.parse().ok().filter(|round| *round > 0)
}

/// Results folders among `folders` and inside the others, oldest first. One note per folder names everything else in
/// it. Fails if a path is not a folder, or contains no results folder.
pub fn folders_in(folders: &[PathBuf]) -> Result<Vec<NamedFolder>, CliError> {
    let mut found = Vec::new();
    for folder in folders {
        if is_results(folder) || folder.parent().is_some_and(is_results) {
            found.push(NamedFolder { name: crate::database::last_part(folder), path: folder.clone(), is_named: true });
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
        let text = format!("'{}' is not a results folder, and contains none", folder.display());
        return Err(CliError::new(exit::DATA, text));
    }
    let files = contents.others.into_iter().filter(|name| !is_hidden(name) && name != REPORT);
    note_ignored(folder, files.chain(others));
    let named = |name: String| NamedFolder {
        path: folder.join(&name),
        name: printable::line(&name).into_owned(),
        is_named: false,
    };
    Ok(ours.into_iter().map(named).collect())
}

/// Prints one note on the names that are ignored in a folder.
pub fn note_ignored(folder: &Path, names: impl Iterator<Item = String>) {
    let names: Vec<String> = names.map(|name| format!("'{}'", printable::line(&name))).collect();
    if !names.is_empty() {
        output::say(&format!("note: ignored in '{}': {}", folder.display(), listed(&names)));
    }
}

pub fn listed(names: &[String]) -> String {
    let more = match names.len().saturating_sub(NAMES_IN_A_NOTE) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names[..names.len().min(NAMES_IN_A_NOTE)].join(", ") + &more
}

/// Requested figures; each must be in one of the results. Fails if there is no such figure, or it cannot be judged.
pub fn selection(names: &[String], results: &[&JudgedResults]) -> Result<Selection, CliError> {
    let tables: Vec<MetricTable> = results.iter().map(|results| results.table()).collect();
    let selection = Selection::named(names, &tables.iter().collect::<Vec<_>>());
    selection.map_err(|why| CliError::new(exit::USAGE, format!("{why} (--figures)")))
}

/// Prints a note per sub-experiment that is left out (untrusted or interrupted), or that a time cap ended.
pub fn note_left_out(name: &str, results: &JudgedResults) {
    results.reservations(name).iter().for_each(|line| output::say(&format!("note: {line}")));
}
