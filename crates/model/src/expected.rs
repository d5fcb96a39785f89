//! Fewest rows in files of samples, computed from figures. A power loss or an interrupted copy may lose rows.

use crate::delivery::DeliveryStatus;
use crate::figure::{Figure, Statistic};
use crate::file::FileError;
use crate::manifest::{Manifest, PayloadResult, SubExperimentResult};
use crate::metric::Stream;
use crate::pace::OfferedLoad;
use crate::samples::SampleRow;
use crate::trial::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const OF_ROWS: [Figure; 7] = [
    Figure::RttHalf,
    Figure::Call,
    Figure::Response,
    Figure::Service,
    Figure::ResponseRtt,
    Figure::ServiceRtt,
    Figure::OneWay,
];

/// Number of samples that a trial has of a figure, over all streams or at the last of several followers.
fn samples_of(trial: &Trial, figure: Figure) -> u64 {
    let streams = [Stream::all(), Stream::last()];
    let counts = streams.iter().filter_map(|stream| trial.get(stream, figure, Statistic::N));
    counts.map(|found| found.value as u64).max().unwrap_or(0)
}

/// Number of round trips of a payload in eProsima's file.
pub fn round_trips(cell: &PayloadResult) -> u64 {
    cell.trials.iter().map(|trial| samples_of(trial, Figure::RttHalf)).sum()
}

impl Manifest {
    /// First round whose files of samples are kept; older rounds have none.
    pub fn first_round_with_samples(&self) -> u32 {
        let newest = || self.sub_experiments.iter().map(|result| result.round).max().unwrap_or(0);
        self.plan.keep_samples.map_or(1, |rounds| newest().saturating_add(1).saturating_sub(rounds))
    }
}

/// Counts the rows with times in `samples/<name>.csv`, for the trials of a sub-experiment in one round.
#[derive(Clone, Debug)]
pub struct ExpectedRows {
    round: u32,
    trials: BTreeSet<u32>,
    missing: BTreeMap<u32, u64>,
}

impl ExpectedRows {
    /// Expects the rows of all trials of these payloads.
    pub fn from_cells(round: u32, cells: &[PayloadResult]) -> Self {
        Self::of_trials(round, cells.iter().flat_map(|cell| &cell.trials))
    }

    /// Expects the rows of the finished payloads of a result.
    pub fn of_result(result: &SubExperimentResult) -> Self {
        let cells = result.cells.iter().filter(|cell| !cell.unfinished);
        Self::of_trials(result.round, cells.flat_map(|cell| &cell.trials))
    }

    /// Expects the rows of these trials.
    pub fn of_trials<'a>(round: u32, trials: impl Iterator<Item = &'a Trial>) -> Self {
        let mut expected = Self { round, trials: BTreeSet::new(), missing: BTreeMap::new() };
        for trial in trials {
            expected.trials.insert(trial.number);
            // Searches keep no rows.
            let is_search = matches!(trial.load, OfferedLoad::Search { .. });
            let rows = OF_ROWS.iter().map(|figure| samples_of(trial, *figure)).max();
            if let Some(rows) = rows.filter(|rows| *rows > 0 && !is_search) {
                expected.missing.insert(trial.number, rows);
            }
        }
        expected
    }

    /// True if no row is missing any more.
    pub fn are_there(&self) -> bool {
        self.missing.is_empty()
    }

    /// True if rows of this trial are expected.
    pub fn has(&self, trial: u32) -> bool {
        self.trials.contains(&trial)
    }

    /// Counts a row; true if it belongs to an expected trial.
    pub fn add(&mut self, row: &SampleRow) -> bool {
        if row.round != self.round || !self.has(row.trial) {
            return false;
        }
        let is_in_figures = DeliveryStatus::RECEIVED.iter().any(|status| row.status == <&str>::from(status));
        let has_come = is_in_figures && (row.received_ns.is_some() || row.answered_ns.is_some());
        if let Some(rows) = self.missing.get_mut(&row.trial).filter(|_| has_come) {
            *rows -= 1;
            if *rows == 0 {
                self.missing.remove(&row.trial);
            }
        }
        true
    }

    /// Checks that no row is missing, after the last row of `file` or if there is no file.
    ///
    /// # Errors
    /// Number of missing rows by trial, if any.
    pub fn check(&self, file: &Path) -> Result<(), FileError> {
        let missing = self.missing.iter().map(|(trial, rows)| format!("{rows} of trial {trial}")).collect::<Vec<_>>();
        if missing.is_empty() { Ok(()) } else { Err(lacking(file, "samples", &missing)) }
    }
}

/// Error for a file that lacks `what` of finished payloads; names at most 10 missing ones.
pub fn lacking(file: &Path, what: &str, missing: &[String]) -> FileError {
    const MOST: usize = 10;
    let more = match missing.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let how = if file.symlink_metadata().is_ok() { "was cut off or damaged" } else { "is not there" };
    let missing = missing[..missing.len().min(MOST)].join(", ") + &more;
    let text = format!(
        "lacks {what} of finished payloads: {missing}; it {how}; restore it, or measure again in another folder"
    );
    FileError::wrong(file, text)
}
