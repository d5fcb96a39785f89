//! The files of a recording that is named by files and folders.

use super::compression::{check_format, format_in_metadata};
use super::yaml;
use crate::error::CliError;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use tripmeter_model::exit;
use tripmeter_model::file;

/// Ends of the names of recordings, and of files that are refused with the command that makes MCAP of them.
const ENDS: [&str; 5] = [".mcap", ".mcap.zstd", ".mcap.gz", ".db3", ".bag"];
/// How many of those are read.
const READ: usize = 3;
/// File of rosbag2 that names the files of a bag.
const METADATA: &str = "metadata.yaml";
/// Most bytes of it.
const MOST_METADATA_BYTES: u64 = 16 << 20;
/// Most files of a recording.
const MOST_FILES: usize = 10_000;

/// True if a word of a command line names a recording: by its end, or as a folder with metadata of rosbag2.
pub fn is_recording(word: &str) -> bool {
    // A transport's name never leads to a folder that happens to be here; './NAME' and 'NAME/' do.
    let may_be_folder = word.starts_with(['.', '/']) || word.ends_with('/');
    ENDS.iter().any(|end| word.ends_with(end)) || (may_be_folder && Path::new(word).join(METADATA).is_file())
}

/// The files that are read, in this order: those of a folder take its place.
///
/// # Errors
/// If a folder cannot be read or has no recording, or there are too many files.
pub fn expanded(named: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut all = Vec::new();
    for path in named {
        match path.is_dir() {
            true => all.extend(of_folder(path)?),
            false => all.push(path.clone()),
        }
    }
    if all.len() > MOST_FILES {
        let text =
            format!("the recording has {} files, more than {MOST_FILES}, the most that are played as one", all.len());
        return Err(CliError::new(exit::DATA, text));
    }
    Ok(all)
}

/// The files that rosbag2's metadata names, or all recordings in the folder by name.
fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let metadata = folder.join(METADATA);
    if metadata.is_file() {
        let text = file::read(&metadata, MOST_METADATA_BYTES)?;
        let text = String::from_utf8_lossy(&text);
        if let Some(format) = format_in_metadata(&text) {
            check_format(&format).map_err(|error| error.told(folder, 0, 0))?;
        }
        // An old version puts the name of the folder in front; a file elsewhere is none of the bag.
        let name = |path: &&str| Path::new(path).file_name().map(|name| folder.join(name));
        let files: Vec<PathBuf> =
            yaml::list(&text, "relative_file_paths").unwrap_or_default().iter().filter_map(name).collect();
        if files.is_empty() {
            let text = format!("'{}' names no file (relative_file_paths); name the .mcap files", metadata.display());
            return Err(CliError::new(exit::DATA, text));
        }
        return Ok(files);
    }
    let cannot = |error: &dyn std::fmt::Display| {
        CliError::new(exit::NO_INPUT, format!("recording '{}' cannot be read: {error}", folder.display()))
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| cannot(&error))? {
        let path = entry.map_err(|error| cannot(&error))?.path();
        let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        if ENDS[..READ].iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
    // Parts are numbered without zeros in front: `drive_10.mcap` comes after `drive_9.mcap`.
    files.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    if files.is_empty() {
        return Err(cannot(&"it is a folder without metadata.yaml and without a file .mcap, .mcap.zstd or .mcap.gz"));
    }
    Ok(files)
}
