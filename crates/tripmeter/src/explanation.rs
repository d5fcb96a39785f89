//! Reader of results of `tripmeter explain`.

use crate::error::CliError;
use std::path::Path;
use tripmeter_model::bounds::MOST_BYTES;
use tripmeter_model::explain::{Explanation, FILE, SCHEMA_VERSION};
use tripmeter_model::{exit, printable};

/// Explanation in a results folder. Fails if there is none, or it has another version.
pub fn read(folder: &Path) -> Result<Explanation, CliError> {
    let file = folder.join(FILE);
    let bytes = tripmeter_model::file::read(&file, MOST_BYTES).map_err(|error| {
        let text = format!("{error}; make one with `tripmeter explain -o DIR`");
        CliError::new(error.exit_code(), text)
    })?;
    let not_one = |error: &dyn std::fmt::Display| {
        CliError::new(exit::DATA, format!("'{}' is not an explanation: {error}", file.display()))
    };
    let text = String::from_utf8(bytes).map_err(|error| not_one(&error))?;
    let explanation: Explanation = serde_json::from_str(&printable::json(&text)).map_err(|error| not_one(&error))?;
    let version = &explanation.schema_version;
    if version.split('.').next() != SCHEMA_VERSION.split('.').next() {
        let text = format!("'{}' has schema version {version}, this program reads {SCHEMA_VERSION}", file.display());
        return Err(CliError::new(exit::DATA, text));
    }
    Ok(explanation)
}
