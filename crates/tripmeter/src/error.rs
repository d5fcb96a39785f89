use std::fmt;
use tripmeter_engine::registry::RegistryError;
use tripmeter_engine::resolve::PlanError;
use tripmeter_model::file::{FileError, FolderGone};

/// What ends a command: one line for people, and the exit code of its class.
#[derive(Debug)]
pub struct CliError {
    pub code: u8,
    message: String,
}

impl CliError {
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<PlanError> for CliError {
    fn from(error: PlanError) -> Self {
        Self::new(error.exit_code(), error.to_string())
    }
}

impl From<FileError> for CliError {
    fn from(error: FileError) -> Self {
        Self::new(error.exit_code(), error.to_string())
    }
}

impl From<FolderGone> for CliError {
    fn from(error: FolderGone) -> Self {
        FileError::from(error).into()
    }
}

impl From<RegistryError> for CliError {
    fn from(error: RegistryError) -> Self {
        Self::new(error.exit_code(), error.to_string())
    }
}

impl From<tripmeter_engine::RunError> for CliError {
    fn from(error: tripmeter_engine::RunError) -> Self {
        Self::new(error.exit_code(), error.to_string())
    }
}
