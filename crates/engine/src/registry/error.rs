//! Reasons why a system cannot be used.

use std::path::PathBuf;
use thiserror::Error;
use tripmeter_model::exit;

/// Reason why a system cannot be used.
#[derive(Clone, Debug, Error)]
pub enum RegistryError {
    /// A plugin's file cannot be read.
    #[error("plugin '{}' cannot be read: {reason}; give the path of a shared library", file.display())]
    NoFile {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A plugin that is none, or not one for this program.
    #[error("{0}")]
    NotLoaded(String),
    /// A plugin's own library is missing.
    #[error("transport '{system}' needs the library '{library}', which the dynamic linker does not find{remedy}")]
    MissingLibrary {
        /// The system.
        system: String,
        /// The library that is not there.
        library: String,
        /// What to do.
        remedy: String,
    },
    /// A plugin that crashed, hung or ended on its own in the probing process.
    #[error(
        "transport '{transport}' {how} while it was asked to {phase}{words}; fix the plugin, bring its file back if that was cut off, or leave it out"
    )]
    Died {
        /// System or file.
        transport: String,
        /// What it did.
        how: String,
        /// What it was asked.
        phase: &'static str,
        /// The last line that it wrote, if any.
        words: String,
    },
    /// The probing process could not be started.
    #[error("cannot start '{}' to probe transport '{transport}': {reason}", program.display())]
    NoProber {
        /// System or file.
        transport: String,
        /// The program.
        program: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A name that no system has.
    #[error("unknown transport '{name}'{hint}; `tripmeter list` lists what there is")]
    Unknown {
        /// As written.
        name: String,
        /// ` (did you mean …?)`, or nothing.
        hint: String,
    },
    /// Known, but not here.
    #[error("transport '{system}' is not available: {reason}")]
    Missing {
        /// The system.
        system: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A plugin whose name is taken or not the one promised.
    #[error("plugin '{}' describes itself as system '{system}', {conflict}", file.display())]
    Name {
        /// The plugin.
        file: PathBuf,
        /// What it calls itself.
        system: String,
        /// What is wrong with that.
        conflict: String,
    },
    /// The transport itself said no.
    #[error(transparent)]
    Refused(#[from] tripmeter_abi::Error),
}

impl RegistryError {
    /// The exit code of its class.
    pub fn exit_code(&self) -> u8 {
        use tripmeter_abi::Status;
        match self {
            RegistryError::NoFile { .. } => exit::NO_INPUT,
            RegistryError::NotLoaded(_) | RegistryError::Name { .. } => exit::DATA,
            RegistryError::Unknown { .. } => exit::USAGE,
            RegistryError::NoProber { .. } => exit::SOFTWARE,
            RegistryError::Refused(error) if matches!(error.status, Status::Limit | Status::Invalid) => exit::USAGE,
            _ => exit::UNAVAILABLE,
        }
    }
}
