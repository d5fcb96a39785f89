use super::long_text::LongText;
use crate::by_hand::MeetError;
use crate::hosts::HostError;
use crate::results::ResultsError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;
use tripmeter_model::audit::Finding;
use tripmeter_model::exit;
use tripmeter_model::file::FileError;

/// Reason why a plan could not be run at all.
#[derive(Debug, Error)]
pub enum RunError {
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error(transparent)]
    Meet(#[from] MeetError),
    /// Host of a follower missing, or not as it must be.
    #[error(transparent)]
    Host(#[from] HostError),
    /// No place for sockets and other temporary files.
    #[error("temporary folder '{}' cannot be used: {}; set TMPDIR to another", .0.display(), .1)]
    Scratch(PathBuf, io::Error),
    #[error(transparent)]
    LongText(#[from] LongText),
    /// Manifest that readers would refuse.
    #[error(
        "the results would have {0}, which no reader accepts; measure less at once, or leave out the host that reports \
         so much"
    )]
    TooLarge(String),
    /// Damaged or missing file of a resumed run.
    #[error(transparent)]
    Damaged(#[from] FileError),
    /// Machine that disturbs measuring, in a strict run.
    #[error("this machine is refused by --strict: {}; see `tripmeter doctor`, or leave --strict out", listed(.0))]
    Unfit(Vec<Finding>),
    /// Run that was begun on another machine, and cannot be resumed here.
    #[error(
        "the rounds so far were measured on another machine, or before this one changed: {what} was '{before}', now \
         '{now}'; start again in another folder (-o)"
    )]
    OtherMachine {
        /// Property that differs.
        what: &'static str,
        before: String,
        now: String,
    },
}

fn listed(findings: &[Finding]) -> String {
    let one = |finding: &Finding| {
        let Finding { check, level, value, limit, .. } = finding;
        format!("{level} {check}: {value} ({limit})")
    };
    findings.iter().map(one).collect::<Vec<_>>().join(" | ")
}

impl RunError {
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Results(_) | RunError::Scratch(..) => exit::CANNOT_CREATE,
            RunError::Meet(MeetError::Interrupted) => exit::INTERRUPTED,
            RunError::Meet(_) => exit::UNAVAILABLE,
            RunError::Host(error) => error.exit_code(),
            RunError::Damaged(error) => error.exit_code(),
            RunError::Unfit(_) => exit::FINDING,
            RunError::OtherMachine { .. } | RunError::LongText(_) | RunError::TooLarge(_) => exit::DATA,
        }
    }
}
