//! Folders that one command at a time writes to.

use crate::error::CliError;
use std::fs::{self, File};
use std::path::Path;
use tripmeter_engine::os::lock_file;
use tripmeter_engine::results::LOCK;
use tripmeter_model::exit;
use tripmeter_model::file::to_lock;

/// Creates the folder and keeps others from locking it until the file is dropped; a kill gives it back, too. `user` is who
/// else might use it, `flag` what names another folder.
///
/// # Errors
/// If the folder cannot be used, or somebody else has it.
pub fn lock(folder: &Path, user: &str, flag: &str) -> Result<File, CliError> {
    let failed =
        |error| CliError::new(exit::CANNOT_CREATE, format!("folder '{}' cannot be used: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    let file = to_lock(&folder.join(LOCK)).map_err(failed)?;
    match lock_file(&file, true).map_err(failed)? {
        true => Ok(file),
        false => {
            let folder = folder.display();
            let text = format!("another {user} uses '{folder}'; wait for it, or name another folder with {flag}");
            Err(CliError::new(exit::CANNOT_CREATE, text))
        }
    }
}
