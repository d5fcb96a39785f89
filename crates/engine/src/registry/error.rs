use std::path::PathBuf;
use thiserror::Error;
use tripmeter_model::exit;

#[derive(Clone, Debug, Error)]
pub enum RegistryError {
    #[error("plugin '{}' cannot be read: {reason}; give the path of a shared library", file.display())]
    NoFile {
        file: PathBuf,
        /// Error of the system.
        reason: String,
    },
    #[error("{0}")]
    NotLoaded(String),
    #[error("transport '{system}' needs the library '{library}', which the dynamic linker cannot find{remedy}")]
    MissingLibrary {
        system: String,
        library: String,
        /// Advice, with its separator.
        remedy: String,
    },
    /// The plugin crashed, hung or exited in the probing process.
    #[error(
        "transport '{transport}' {how} while it was asked to {phase}{words}; fix the plugin, restore its file if that \
         was cut off, or leave it out"
    )]
    Died {
        /// System or file.
        transport: String,
        how: String,
        /// Request, after "while it was asked to".
        phase: &'static str,
        /// Last line of its output, if any.
        words: String,
    },
    #[error("cannot start '{}' to probe transport '{transport}': {reason}", program.display())]
    NoProber {
        /// System or file.
        transport: String,
        program: PathBuf,
        reason: String,
    },
    #[error("unknown transport '{name}'{hint}; `tripmeter list` lists all of them")]
    Unknown {
        name: String,
        /// ` (did you mean …?)`, or empty.
        hint: String,
    },
    #[error("transport '{system}' is not available: {reason}")]
    Missing {
        system: String,
        /// Reason, with the fix.
        reason: String,
    },
    #[error("plugin '{}' describes itself as system '{system}', {conflict}", file.display())]
    Name {
        file: PathBuf,
        system: String,
        /// Clause on what is wrong with the name.
        conflict: String,
    },
    #[error(transparent)]
    Refused(#[from] tripmeter_abi::Error),
}

impl RegistryError {
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
