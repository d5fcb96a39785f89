//! Folders that one command at a time may write to.

use crate::error::CliError;
use std::fs::File;
use std::path::Path;
use tripmeter_engine::os::lock_file;
use tripmeter_engine::results::LOCK;
use tripmeter_model::exit;
use tripmeter_model::file::to_lock;
use tripmeter_model::folder_handle::FolderHandle;

/// A folder locked by this command; the kernel releases it after a kill.
pub struct CommandFolder {
    pub folder: FolderHandle,
    _lock: File,
}

impl CommandFolder {
    /// Creates the folder and locks it. Fails like [`lock`].
    pub fn take(folder: &Path, user: &str, flag: &str) -> Result<Self, CliError> {
        let folder = FolderHandle::create(folder).map_err(|error| unusable(folder, &error))?;
        let lock = lock(&folder, user, flag)?;
        Ok(Self { folder, _lock: lock })
    }
}

fn unusable(folder: &Path, error: &std::io::Error) -> CliError {
    CliError::new(exit::CANNOT_CREATE, format!("folder '{}' cannot be used: {error}", folder.display()))
}

/// Locks the folder until the file is dropped. Fails if the folder cannot be used, or another process has locked it.
/// The error calls that process "another `user`", and suggests `flag` for another folder.
pub fn lock(folder: &FolderHandle, user: &str, flag: &str) -> Result<File, CliError> {
    let failed = |error| unusable(folder.path(), &error);
    let file = to_lock(&folder.at(LOCK)?).map_err(failed)?;
    match lock_file(&file, true).map_err(failed)? {
        true => Ok(file),
        false => {
            let folder = folder.path().display();
            let text = format!("another {user} is using '{folder}'; wait for it, or name another folder with {flag}");
            Err(CliError::new(exit::CANNOT_CREATE, text))
        }
    }
}
