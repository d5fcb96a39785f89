//! Attempts at a payload before the last one, which counts.

use super::error::RunError;
use super::state::Run;
use crate::results::ResultsError;
use tripmeter_model::manifest::PayloadResult;

/// Earlier attempts at the current payload.
#[derive(Default)]
pub(super) struct EarlierAttempts {
    /// True if the payload is measured again; its earlier attempts are in the latest cell.
    again: bool,
    /// Cell of the previous attempt, while its written results are replaced.
    replaced: Option<PayloadResult>,
    /// Bytes of `trials.jsonl` before its last line.
    trials_bytes: u64,
}

impl EarlierAttempts {
    /// Moves the earlier attempts from the results into a measured cell. With `again`, the cell is itself an earlier
    /// attempt, as another one follows.
    pub(super) fn join(&mut self, cell: &mut PayloadResult, cells: &mut Vec<PayloadResult>, again: bool) {
        let replaced = if std::mem::replace(&mut self.again, again) { cells.pop() } else { self.replaced.take() };
        cell.earlier_attempts = replaced.map_or_else(Vec::new, |mut before| {
            let mut earlier = std::mem::take(&mut before.earlier_attempts);
            earlier.push(before);
            earlier
        });
    }

    /// Removes the previous attempt's results: the payload has none until the next attempt is complete.
    pub(super) fn replace(&mut self, run: &mut Run<'_>) -> Result<(), ResultsError> {
        if std::mem::take(&mut self.again) {
            self.replaced = run.current().cells.pop();
        }
        run.results.cut_trials(self.trials_bytes)
    }

    /// Writes the results of the last payload, with its figures unless it is measured again.
    pub(super) fn append(&mut self, run: &mut Run<'_>, again: bool) -> Result<(), RunError> {
        let result = run.manifest.sub_experiments.last();
        let Some((result, cell)) = result.and_then(|result| Some((result, result.cells.last()?))) else {
            return Ok(());
        };
        let begun = run.results.trials_bytes().map(|bytes| self.trials_bytes = bytes);
        let written = begun.and_then(|()| run.results.append_payload(result, cell, !again));
        if written.is_err() {
            // The unwritten attempt does not count, so the previous one counts again.
            self.again = false;
            let unwritten = run.current().cells.pop();
            self.replaced = unwritten.and_then(|mut cell| {
                let mut earlier = std::mem::take(&mut cell.earlier_attempts);
                let before = earlier.pop()?;
                Some(PayloadResult { earlier_attempts: earlier, ..before })
            });
        }
        Ok(written?)
    }

    /// Restores the previous attempt if its replacement did not complete, as there are no other figures. If its rows
    /// have been moved, a resumed run measures the payload again.
    pub(super) fn end(&mut self, run: &mut Run<'_>) -> Result<(), RunError> {
        let is_unwritten = self.again || self.replaced.is_some();
        let replaced = self.replaced.take().map(|cell| PayloadResult { unfinished: true, ..cell });
        run.current().cells.extend(replaced);
        if is_unwritten { self.append(run, false) } else { Ok(()) }
    }
}
