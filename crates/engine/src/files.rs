//! Files of one sub-experiment, written trial by trial.

pub mod discarded;
mod head;
mod histograms;
pub mod rest;
pub(crate) mod rotate;
mod samples;
pub mod whole;

pub(crate) use histograms::{head as head_of_log, line as line_of_log};
pub(crate) use samples::{Rows, SampleStamps, field};

use crate::clock::Timebase;
use crate::delivery::Tally;
use crate::wire::Job;
use hdrhistogram::Histogram;
use histograms::HistogramLog;
use samples::SamplesFile;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;
use tripmeter_eprosima::measurements::{MeasurementsWriter, file_name};
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::Raw;

pub struct Files {
    samples: Option<SamplesFile>,
    measurements: Option<MeasurementsWriter>,
    histograms: Option<HistogramLog>,
    trials: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct Lengths([u64; 3]);

impl Files {
    /// Creates the files that the job asks for, or opens them if it has finished payloads. Never overwrites a file.
    pub(crate) fn for_job(job: &Job, folder: &FolderHandle) -> io::Result<Self> {
        let workload = &job.sub_experiment.workload;
        let has_rows = !workload.is_saturating() || job.sub_experiment.one_way;
        let kind = job.sub_experiment.allowed().and_then(|allowed| allowed.histograms);
        let raw = Raw {
            samples: job.raw.has_rows() && has_rows,
            eprosima: job.raw.eprosima && workload.is_round_trips(),
            parquet: false,
        };
        let files = Self::begin(folder, &job.sub_experiment.name, job.round, raw, kind, !job.done.payloads.is_empty())?;
        Ok(Self { trials: job.done.trials, ..files })
    }

    /// Creates the files that `raw` asks for, and a histogram log of `what`, if given.
    pub fn create(folder: &FolderHandle, name: &str, round: u32, raw: Raw, what: Option<&str>) -> io::Result<Self> {
        Self::begin(folder, name, round, raw, what, false)
    }

    /// Creates the files; opens those that exist if `is_resumed`.
    fn begin(
        folder: &FolderHandle,
        name: &str,
        round: u32,
        raw: Raw,
        what: Option<&str>,
        is_resumed: bool,
    ) -> io::Result<Self> {
        let measurements = || match discarded::begin(&folder.at(&file_name(name))?, is_resumed)? {
            (csv, 0) => MeasurementsWriter::begin(csv),
            (csv, _) => MeasurementsWriter::resume(csv),
        };
        let log = |what| {
            let comment = format!("{what} of {name} in ns; tagged by payload, and by the kind of time and the load");
            HistogramLog::begin(folder, name, &comment, is_resumed)
        };
        Ok(Self {
            samples: raw.has_rows().then(|| SamplesFile::begin(folder, name, round, is_resumed)).transpose()?,
            measurements: raw.eprosima.then(measurements).transpose()?,
            histograms: what.map(log).transpose()?,
            trials: 0,
        })
    }

    /// Counts a trial whose rows are written, and returns its number.
    pub fn next_trial(&mut self) -> u32 {
        self.trials += 1;
        self.trials
    }

    pub(crate) fn rows(&mut self, timebase: Timebase, payload_bytes: u64, begin: u64) -> Rows<'_> {
        let (file, trial, text) = (self.samples.as_mut(), self.trials + 1, Vec::new());
        Rows { file, trial, timebase, payload_bytes, begin, text, count: 0, written: Ok(()) }
    }

    fn files(&self) -> [Option<&File>; 3] {
        [
            self.samples.as_ref().map(|samples| &samples.file),
            self.measurements.as_ref().map(|measurements| &measurements.csv),
            self.histograms.as_ref().map(|histograms| &histograms.file),
        ]
    }

    pub(crate) fn lengths(&self) -> io::Result<Lengths> {
        let mut lengths = [0; 3];
        for (length, file) in lengths.iter_mut().zip(self.files()) {
            *length = file.map_or(Ok(0), |file| file.metadata().map(|metadata| metadata.len()))?;
        }
        Ok(Lengths(lengths))
    }

    /// Truncates the files to these lengths: half a trial is worse than none.
    pub(crate) fn cut(&self, lengths: Lengths) {
        for (length, file) in lengths.0.into_iter().zip(self.files()) {
            // The error that led here matters more than a failed truncation.
            let _ = file.map_or(Ok(()), |file| file.set_len(length));
        }
    }

    /// Appends the histograms of a payload under their tags, and its round trips in nanoseconds to eProsima's file.
    /// After the return, nothing is lost even if the process is killed.
    pub(crate) fn append_payload<'a>(
        &mut self,
        payload_bytes: u64,
        rtt_ns: impl Iterator<Item = u64>,
        histograms: impl IntoIterator<Item = (String, &'a Histogram<u64>)>,
        duration: Duration,
    ) -> io::Result<()> {
        if let Some(measurements) = &mut self.measurements {
            measurements.append(payload_bytes, rtt_ns)?;
        }
        histograms.into_iter().try_for_each(|(tag, histogram)| self.append_histogram(&tag, histogram, duration))
    }

    fn append_histogram(&mut self, tag: &str, histogram: &Histogram<u64>, duration: Duration) -> io::Result<()> {
        self.histograms.as_mut().map_or(Ok(()), |log| log.append(tag, histogram, duration))
    }

    /// Appends the histograms of a trial or of a part of a recording.
    pub(crate) fn append_times(&mut self, has_response: bool, name: &str, tally: &Tally, ns: u64) -> io::Result<()> {
        let of = [
            ("response", tally.response.histogram().filter(|_| has_response)),
            ("service", tally.service.histogram()),
            ("one_way", tally.one_way.histogram()),
        ];
        of.into_iter().filter_map(|(time, histogram)| Some((time, histogram?))).try_for_each(|(time, histogram)| {
            self.append_histogram(&format!("{time}_{name}"), histogram, Duration::from_nanos(ns))
        })
    }

    /// Notes that the rows of the latest payload in eProsima's file were set aside, to use their row numbers again.
    pub fn forget_latest(&mut self) {
        if let Some(measurements) = &mut self.measurements {
            measurements.forget_latest();
        }
    }
}

/// Part of a histogram's tag for payload and load.
pub(crate) fn tag(payload_bytes: u64, load: OfferedLoad) -> String {
    format!("{payload_bytes}{}", load.suffix().trim_end_matches("hz"))
}

/// True for a folder, but not for a link to one: files behind a link are not ours.
pub(crate) fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|there| there.is_dir())
}

/// True if the path is a folder, whose files may be cut and removed; an error for a link or a file.
fn has_folder(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        there => match there?.is_dir() {
            true => Ok(true),
            false => Err(io::Error::other(format!("'{}' is a link or a file, and should be a folder", path.display()))),
        },
    }
}

#[cfg(test)]
mod tests;
