//! Errors of workers.

use crate::channel::NoMessage;
use crate::memory::OutOfMemory;
use thiserror::Error;
use tripmeter_model::cut_short::CutShort;

/// Reason why a worker ended early.
#[derive(Debug, Error)]
pub enum Error {
    /// Failure with its cause, in one line.
    #[error("{0}")]
    Failed(String),
    #[error("interrupted")]
    Interrupted,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn failed(what: &str, why: impl std::fmt::Display) -> Self {
        Error::Failed(format!("{what}: {why}"))
    }
}

impl From<&Error> for CutShort {
    fn from(error: &Error) -> Self {
        match error {
            Error::Failed(why) => Self::Broken(why.clone()),
            Error::Interrupted => Self::Interrupted,
        }
    }
}

impl From<OutOfMemory> for Error {
    fn from(error: OutOfMemory) -> Self {
        Error::Failed(error.to_string())
    }
}

impl From<NoMessage> for Error {
    fn from(error: NoMessage) -> Self {
        Error::Failed(match error {
            NoMessage::Closed => "the other side has gone".to_owned(),
            NoMessage::TimedOut => "the other side does not answer".to_owned(),
            NoMessage::Junk(junk) => junk.to_string(),
        })
    }
}
