//! A payload whose hand-over probe changed is measured again: it was measured under two conditions, or under a bad one.
//!
//! What decides is the probe alone, never a figure, and the last attempt counts, so that nothing is chosen by its result.

use super::{Error, Result};
use crate::files::Files;
use crate::files::discarded::Discarded;
use crate::results::ResultsError;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{ModeChange, PayloadResult};

/// The attempts at the payload that is measured.
pub(super) struct Attempts {
    /// Of the results.
    folder: PathBuf,
    files: Discarded,
    /// Of this attempt, from 1.
    number: u32,
    /// Whether another one is to follow.
    again: bool,
    /// When the payload was begun, and when this attempt was.
    begun: [Instant; 2],
    /// Whether what was written of the attempt before is still in the files that count.
    is_written: bool,
}

/// The error of a file in the folder of results, and what to do.
pub(super) fn not_written(folder: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |error| Error::Failed(ResultsError::unfinished(folder.to_path_buf(), error).to_string())
}

impl Attempts {
    /// For the files of that name, which have been created.
    pub(super) fn new(folder: &FolderHandle, name: &str) -> std::io::Result<Self> {
        let files = Discarded::of(folder, name)?;
        let folder = folder.path().to_path_buf();
        Ok(Self { folder, files, number: 1, again: false, begun: [Instant::now(); 2], is_written: false })
    }

    /// A payload begins.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.files.begin().map_err(not_written(&self.folder))?;
        (self.number, self.again, self.is_written, self.begun) = (1, false, false, [Instant::now(); 2]);
        Ok(())
    }

    /// Whether the payload is to be measured again; if so, that attempt begins now.
    pub(super) fn next(&mut self) -> bool {
        if !std::mem::take(&mut self.again) {
            return false;
        }
        (self.number, self.is_written, self.begun[1]) = (self.number + 1, true, Instant::now());
        true
    }

    /// What of the time cap is left for this attempt, in nanoseconds.
    pub(super) fn left_of(&self, cap_ns: Option<u64>) -> Option<u64> {
        let spent = self.begun[1].duration_since(self.begun[0]).as_nanos() as u64;
        cap_ns.map(|cap| cap.saturating_sub(spent).max(1))
    }

    /// What was written of the attempt before is still in the files that count.
    pub(super) fn is_written(&self) -> bool {
        self.is_written
    }

    /// Moves what was written of the attempt before out of the way; to be called before anything is written of this one.
    pub(super) fn make_room(&mut self, output: &mut Files) -> Result<()> {
        if std::mem::take(&mut self.is_written) {
            self.files.discard(self.number - 1).map_err(not_written(&self.folder))?;
            output.forget_latest();
        }
        Ok(())
    }

    /// Decides whether a cell that is measured and written is to be measured again, and says in it why. `has_handover`: it
    /// has probes, both of which were to be answered.
    pub(super) fn judge(
        &mut self,
        cell: &mut PayloadResult,
        has_handover: bool,
        ending: Option<&Error>,
        bounds: Bounds,
    ) -> bool {
        let probes = [cell.handover_ns.before, cell.handover_ns.after];
        let is_broken = matches!(ending, Some(Error::Failed(_)));
        let unanswered = has_handover && !is_broken && probes.iter().any(Option::is_none);
        cell.handover_changed = if unanswered { Some(ModeChange::NoAnswer) } else { cell.handover_ns.change() };
        let [payload, attempt] = self.begun.map(|begun| begun.elapsed());
        let has_time = bounds.time_cap.is_none_or(|cap| payload + attempt <= cap);
        self.again = cell.handover_changed.is_some() && ending.is_none() && has_time && self.number < bounds.attempts;
        self.again
    }
}

/// Of the attempts at a payload.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Of all together.
    pub time_cap: Option<Duration>,
    /// Most of them.
    pub attempts: u32,
}
