//! Files of a recording, found from the files and folders that the user names.

use super::compression::{check_format, format_in_metadata};
use super::yaml;
use crate::error::CliError;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use tripmeter_model::exit;
use tripmeter_model::file;

/// Extensions of recordings; those after the first [`READ`] are refused, with the command that converts them to MCAP.
const ENDS: [&str; 5] = [".mcap", ".mcap.zstd", ".mcap.gz", ".db3", ".bag"];
const READ: usize = 3;
/// File of rosbag2 that lists the files of a bag.
const METADATA: &str = "metadata.yaml";
const MOST_METADATA_BYTES: u64 = 16 << 20;
const MOST_FILES: usize = 10_000;

/// True if a command-line word names a recording: by its extension, or as a folder with rosbag2 metadata.
pub fn is_recording(word: &str) -> bool {
    // A plain NAME is a transport, even if there is such a folder; './NAME' and 'NAME/' are folders.
    let may_be_folder = word.starts_with(['.', '/']) || word.ends_with('/');
    ENDS.iter().any(|end| word.ends_with(end)) || (may_be_folder && Path::new(word).join(METADATA).is_file())
}

/// Files to read, in order; a folder stands for its files. Fails if a folder cannot be read or has no recording, or
/// there are too many files.
pub fn expanded(named: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut all = Vec::new();
    for path in named {
        match path.is_dir() {
            true => all.extend(of_folder(path)?),
            false => all.push(path.clone()),
        }
    }
    if all.len() > MOST_FILES {
        let text = format!("the recording has {} files; at most {MOST_FILES} can be played as one", all.len());
        return Err(CliError::new(exit::DATA, text));
    }
    Ok(all)
}

/// Files listed in rosbag2's metadata, or else all recordings in the folder by name.
fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let metadata = folder.join(METADATA);
    if metadata.is_file() {
        let text = file::read(&metadata, MOST_METADATA_BYTES)?;
        let text = String::from_utf8_lossy(&text);
        if let Some(format) = format_in_metadata(&text) {
            check_format(&format).map_err(|error| error.told(folder, 0, 0))?;
        }
        // Old versions put the folder's name in front. A file elsewhere does not belong to the bag.
        let name = |path: &&str| Path::new(path).file_name().map(|name| folder.join(name));
        let files: Vec<PathBuf> =
            yaml::list(&text, "relative_file_paths").unwrap_or_default().iter().filter_map(name).collect();
        if files.is_empty() {
            let text =
                format!("'{}' does not name a file (relative_file_paths); name the .mcap files", metadata.display());
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
    // Parts are numbered without leading zeros: `drive_10.mcap` comes after `drive_9.mcap`.
    files.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    if files.is_empty() {
        return Err(cannot(&"it is a folder without metadata.yaml and without a file .mcap, .mcap.zstd or .mcap.gz"));
    }
    Ok(files)
}
