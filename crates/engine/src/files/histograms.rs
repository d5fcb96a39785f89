//! `histograms/<name>.hlog`: a histogram log.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tripmeter_model::folder::HISTOGRAMS;
use tripmeter_model::folder_handle::FolderHandle;

pub(super) struct HistogramLog {
    pub file: File,
    started: SystemTime,
}

impl HistogramLog {
    /// Creates the log, or opens it if `is_resumed`.
    pub fn begin(folder: &FolderHandle, name: &str, comment: &str, is_resumed: bool) -> io::Result<Self> {
        let folder = folder.enter(HISTOGRAMS)?;
        let path = folder.at(&format!("{name}.hlog"))?;
        let (mut file, bytes) = super::discarded::begin(&path, is_resumed)?;
        if bytes > 0 {
            return Ok(Self { file, started: start_of(&path)?.unwrap_or_else(SystemTime::now) });
        }
        let started = SystemTime::now();
        file.write_all(&head(comment, started)?)?;
        Ok(Self { file, started })
    }

    /// Appends a histogram of the last `duration`.
    pub fn append(&mut self, tag: &str, histogram: &Histogram<u64>, duration: Duration) -> io::Result<()> {
        let begin = self.started.elapsed().unwrap_or_default().saturating_sub(duration);
        self.file.write_all(&line(tag, histogram, begin, duration)?)
    }
}

fn start_of(log: &Path) -> io::Result<Option<SystemTime>> {
    let text = super::head::head(log)?;
    let seconds = text.lines().find_map(|line| line.strip_prefix("#[StartTime: ")?.split(' ').next()?.parse().ok());
    let since = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Ok(since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since)))
}

pub(crate) fn head(comment: &str, started: SystemTime) -> io::Result<Vec<u8>> {
    let (mut text, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    IntervalLogWriterBuilder::new()
        .add_comment(comment)
        .with_start_time(started)
        .with_base_time(started)
        .begin_log_with(&mut text, &mut serializer)?;
    let mut text = [b"#[Histogram log format version 1.3]\n".as_slice(), &text].concat();
    let legend = "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
    text.extend_from_slice(legend.as_bytes());
    Ok(text)
}

pub(crate) fn line(tag: &str, of: &Histogram<u64>, begin: Duration, duration: Duration) -> io::Result<Vec<u8>> {
    let (mut text, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut log = IntervalLogWriterBuilder::new().begin_log_with(&mut text, &mut serializer)?;
    log.write_histogram(of, begin, duration, Tag::new(tag)).map_err(io::Error::other)?;
    Ok(text)
}
