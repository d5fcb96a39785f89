//! Repeats a payload whose core-to-core probe changed: it was measured under two conditions, or under a bad one.
//!
//! The probe alone decides, never a figure, and the last attempt counts. So nothing is chosen by its result.

use super::{Error, Result};
use crate::files::Files;
use crate::files::discarded::Discarded;
use crate::results::ResultsError;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{ModeChange, PayloadResult};

pub(super) struct Attempts {
    folder: PathBuf,
    files: Discarded,
    /// Number of this attempt, from 1.
    number: u32,
    /// True if another attempt will follow.
    again: bool,
    /// Start of the payload, and of this attempt.
    begun: [Instant; 2],
    /// True if the result files still have the previous attempt.
    is_written: bool,
}

/// Error of a file in the results folder, with the remedy.
pub(super) fn not_written(folder: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |error| Error::Failed(ResultsError::unfinished(folder.to_path_buf(), error).to_string())
}

impl Attempts {
    pub(super) fn new(folder: &FolderHandle, name: &str) -> std::io::Result<Self> {
        let files = Discarded::find(folder, name)?;
        let folder = folder.path().to_path_buf();
        Ok(Self { folder, files, number: 1, again: false, begun: [Instant::now(); 2], is_written: false })
    }

    pub(super) fn begin(&mut self) -> Result<()> {
        self.files.begin().map_err(not_written(&self.folder))?;
        (self.number, self.again, self.is_written, self.begun) = (1, false, false, [Instant::now(); 2]);
        Ok(())
    }

    /// Begins the next attempt if the payload must be measured again, and returns true then.
    pub(super) fn next(&mut self) -> bool {
        if !std::mem::take(&mut self.again) {
            return false;
        }
        (self.number, self.is_written, self.begun[1]) = (self.number + 1, true, Instant::now());
        true
    }

    /// Remaining time of the cap for this attempt, in nanoseconds.
    pub(super) fn left_of(&self, cap_ns: Option<u64>) -> Option<u64> {
        let spent = self.begun[1].duration_since(self.begun[0]).as_nanos() as u64;
        cap_ns.map(|cap| cap.saturating_sub(spent).max(1))
    }

    pub(super) fn is_written(&self) -> bool {
        self.is_written
    }

    /// Moves the previous attempt's results out of the way. Must be called before results of this one are written.
    pub(super) fn make_room(&mut self, output: &mut Files) -> Result<()> {
        if std::mem::take(&mut self.is_written) {
            self.files.discard(self.number - 1).map_err(not_written(&self.folder))?;
            output.forget_latest();
        }
        Ok(())
    }

    /// Decides if a written cell must be measured again, and notes the cause in it. With `has_core_to_core`, a missing
    /// answer to one of its probes is such a cause.
    pub(super) fn judge(
        &mut self,
        cell: &mut PayloadResult,
        has_core_to_core: bool,
        ending: Option<&Error>,
        bounds: Bounds,
    ) -> bool {
        let probes = [cell.core_to_core_ns.before, cell.core_to_core_ns.after];
        let is_broken = matches!(ending, Some(Error::Failed(_)));
        let unanswered = has_core_to_core && !is_broken && probes.iter().any(Option::is_none);
        cell.core_to_core_changed = if unanswered { Some(ModeChange::NoAnswer) } else { cell.core_to_core_ns.change() };
        let [payload, attempt] = self.begun.map(|begun| begun.elapsed());
        let has_time = bounds.time_cap.is_none_or(|cap| payload + attempt <= cap);
        self.again =
            cell.core_to_core_changed.is_some() && ending.is_none() && has_time && self.number < bounds.attempts;
        self.again
    }
}

#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Time cap of all attempts together.
    pub time_cap: Option<Duration>,
    pub attempts: u32,
}
