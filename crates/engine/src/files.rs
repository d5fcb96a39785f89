//! The files of one sub-experiment, written payload by payload.

pub mod discarded;
mod log;
mod stamps;
mod trials;

pub use log::{LOG_HEADER, append_log_row};
pub use stamps::{StampFiles, StampKind};
pub use trials::{TRIALS_HEADER, TrialFile};

use crate::record::RecordedSamples;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// First line of `measurements_<name>.csv`.
///
/// # Source
/// The latency test specification of eProsima's Fast RTPS.
pub const CSV_HEADER: &str = "Sample,Payload [Bytes],Latency [us]";

/// Rows written by one system call.
const ROWS_AT_ONCE: usize = 1 << 20;

/// `measurements_<name>.csv` and `measurements_<name>.hlog` of a running sub-experiment.
pub struct Files {
    csv: Option<File>,
    samples: u64,
    /// Of the latest payload.
    latest: u64,
    /// A latency is the time measured divided by that.
    parts: u64,
    histograms: HistogramLog,
}

impl Files {
    /// Creates both; the CSV only where raw samples are kept.
    ///
    /// # Errors
    /// If a file cannot be created or written; one that exists is not overwritten.
    pub fn create(folder: &Path, name: &str, raw: bool) -> io::Result<Self> {
        Self::of(folder, name, raw, 2, "Round trips")
    }

    /// The same for calls of a logger, whose latency is not half of what was measured.
    ///
    /// # Errors
    /// As [`Files::create`].
    pub fn of_calls(folder: &Path, name: &str, raw: bool) -> io::Result<Self> {
        Self::of(folder, name, raw, 1, "Calls")
    }

    fn of(folder: &Path, name: &str, raw: bool, parts: u64, what: &str) -> io::Result<Self> {
        let create = |ending: &str| discarded::create(&folder.join(format!("measurements_{name}.{ending}")));
        let mut csv = if raw { Some(create("csv")?) } else { None };
        if let Some(csv) = &mut csv {
            writeln!(csv, "{CSV_HEADER}")?;
        }
        let comment = format!("{what} of {name} in ns; one line per payload, tagged payload_<bytes>");
        let histograms = HistogramLog::begin(create("hlog")?, &comment)?;
        Ok(Self { csv, samples: 0, latest: 0, parts, histograms })
    }

    /// Appends a finished payload, with the histograms of `others` under their tags. When it returns, a killed process loses nothing of it.
    ///
    /// # Errors
    /// If a file cannot be written, e.g. on a full disk.
    pub fn append(
        &mut self,
        payload_bytes: u64,
        recorded: &RecordedSamples,
        others: &[(String, Histogram<u64>)],
        duration: Duration,
    ) -> io::Result<()> {
        let lengths = [self.csv.as_ref().map_or(Ok(0), length)?, length(&self.histograms.file)?];
        let appended = self
            .append_rows(payload_bytes, recorded)
            .and_then(|()| {
                self.histograms.append(&format!("payload_{payload_bytes}"), &recorded.times.histogram, duration)
            })
            .and_then(|()| others.iter().try_for_each(|(tag, other)| self.histograms.append(tag, other, duration)));
        if appended.is_err() {
            // Half a payload is worse than none; that it cannot be cut off is the lesser error.
            let _ = self.csv.as_ref().map_or(Ok(()), |csv| csv.set_len(lengths[0]));
            let _ = self.histograms.file.set_len(lengths[1]);
        }
        appended
    }

    /// The rows of the latest payload have been set aside; those that follow have their numbers.
    pub fn forget_latest(&mut self) {
        self.samples -= std::mem::take(&mut self.latest);
    }

    fn append_rows(&mut self, payload_bytes: u64, recorded: &RecordedSamples) -> io::Result<()> {
        self.latest = 0;
        let Some(csv) = &mut self.csv else { return Ok(()) };
        // Whole rows in one system call, so that a killed process leaves no row cut off.
        for rows in recorded.rtt_ns.chunks(ROWS_AT_ONCE) {
            let mut text = Vec::with_capacity(rows.len() * 24);
            for rtt_ns in rows {
                (self.samples, self.latest) = (self.samples + 1, self.latest + 1);
                // In whole nanoseconds, halves rounded up.
                let ns = rtt_ns.div_ceil(self.parts);
                writeln!(text, "{},{payload_bytes},{}.{:03}", self.samples, ns / 1000, ns % 1000)?;
            }
            csv.write_all(&text)?;
        }
        Ok(())
    }
}

/// A histogram log.
struct HistogramLog {
    file: File,
    started: SystemTime,
}

impl HistogramLog {
    /// Begins it in an empty file.
    fn begin(mut file: File, comment: &str) -> io::Result<Self> {
        let (mut text, started) = (Vec::new(), SystemTime::now());
        let mut serializer = V2DeflateSerializer::new();
        IntervalLogWriterBuilder::new()
            .add_comment(comment)
            .with_start_time(started)
            .with_base_time(started)
            .begin_log_with(&mut text, &mut serializer)?;
        let mut text = [b"#[Histogram log format version 1.3]\n".as_slice(), &text].concat();
        let legend = "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
        text.extend_from_slice(legend.as_bytes());
        file.write_all(&text)?;
        Ok(Self { file, started })
    }

    /// Adds a line of what was measured in the time that is just over.
    fn append(&mut self, tag: &str, histogram: &Histogram<u64>, duration: Duration) -> io::Result<()> {
        let begin = self.started.elapsed().unwrap_or_default().saturating_sub(duration);
        let mut text = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        let mut log = IntervalLogWriterBuilder::new().begin_log_with(&mut text, &mut serializer)?;
        log.write_histogram(histogram, begin, duration, Tag::new(tag)).map_err(io::Error::other)?;
        self.file.write_all(&text)
    }
}

fn length(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timebase;
    use crate::record::Recorder;
    use tripmeter_model::plan::Raw;

    fn recorded(samples: &[u64]) -> RecordedSamples {
        let mut recorder = Recorder::new(Timebase::NANOSECONDS, Raw::Csv, samples.len() as u64).unwrap();
        recorder.free().copy_from_slice(samples);
        recorder.advance(samples.len());
        recorder.finish()
    }

    #[test]
    fn samples_count_over_the_whole_file_and_latency_is_half_the_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::create(folder.path(), "uds_stream", true).unwrap();
        files.append(16, &recorded(&[2000, 4001]), &[], Duration::from_millis(1)).unwrap();
        files.append(32, &recorded(&[24_690_000]), &[], Duration::from_millis(1)).unwrap();
        let text = std::fs::read_to_string(folder.path().join("measurements_uds_stream.csv")).unwrap();
        assert_eq!(text, format!("{CSV_HEADER}\n1,16,1.000\n2,16,2.001\n3,32,12345.000\n"));
        assert!(Files::create(folder.path(), "uds_stream", true).is_err());
    }

    #[test]
    fn a_full_disk_is_an_error_and_leaves_nothing_of_the_payload() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::create(folder.path(), "x", true).unwrap();
        let before = length(&files.histograms.file).unwrap();
        files.csv = Some(File::options().append(true).open("/dev/full").unwrap());
        let error = files.append(16, &recorded(&[2000]), &[], Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(length(&files.histograms.file).unwrap(), before);
    }

    #[test]
    fn calls_are_written_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::of_calls(folder.path(), "x", true).unwrap();
        files.append(32, &recorded(&[2000, 4001]), &[], Duration::from_millis(1)).unwrap();
        let text = std::fs::read_to_string(folder.path().join("measurements_x.csv")).unwrap();
        assert_eq!(text, format!("{CSV_HEADER}\n1,32,2.000\n2,32,4.001\n"));
    }

    #[test]
    fn the_histogram_log_is_read_back_by_its_own_library() {
        use hdrhistogram::serialization::Deserializer;
        use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::create(folder.path(), "x", false).unwrap();
        files.append(16, &recorded(&[2000, 4001]), &[], Duration::from_millis(1)).unwrap();
        files.append(32, &recorded(&[5000]), &[], Duration::from_millis(1)).unwrap();
        let text = std::fs::read(folder.path().join("measurements_x.hlog")).unwrap();
        let entries: Vec<_> = IntervalLogIterator::new(&text).map(Result::unwrap).collect();
        let mut found = Vec::new();
        for entry in &entries {
            if let LogEntry::Interval(interval) = entry {
                let bytes = base64_decode(interval.encoded_histogram());
                let histogram: hdrhistogram::Histogram<u64> =
                    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                found.push((interval.tag().unwrap().as_str().to_owned(), histogram.len()));
            }
        }
        assert_eq!(found, [("payload_16".to_owned(), 2), ("payload_32".to_owned(), 1)]);
        assert_eq!(String::from_utf8(text).unwrap().matches("Histogram log format version").count(), 1);
    }

    fn base64_decode(text: &str) -> Vec<u8> {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut bits = text.bytes().filter(|byte| *byte != b'=').flat_map(|byte| {
            let value = LETTERS.iter().position(|letter| *letter == byte).unwrap();
            (0..6).rev().map(move |bit| (value >> bit) & 1)
        });
        let mut bytes = Vec::new();
        while let Some(first) = bits.next() {
            let rest: Vec<usize> = bits.by_ref().take(7).collect();
            if rest.len() == 7 {
                bytes.push(rest.iter().fold(first, |byte, bit| byte << 1 | bit) as u8);
            }
        }
        bytes
    }
}
