//! `tripmeter replay`: from an MCAP file to the schedule that the engine plays.
//!
//! The file is read once, from begin to end. Memory holds its largest record (a message or an attachment) and the names of
//! its channels. The schedule goes to a temporary folder, 16 bytes per message.

mod scan;
mod schedule;
#[cfg(test)]
mod tests;

use crate::error::CliError;
use crate::progress;
use scan::{RecordingError, ScanSizes};
use schedule::Writer;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use tempfile::TempDir;
use tripmeter_engine::os::ProcessIdentity;
use tripmeter_engine::scratch::temporary_folder;
use tripmeter_model::exit;
use tripmeter_model::recording::Recording;

/// Speeds that can be asked for.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// A recording that was read. The folder of its schedule is removed with it.
#[derive(Debug)]
pub struct Opened {
    pub recording: Recording,
    _schedule: TempDir,
}

/// Reads the recording in a file, with a bar on a terminal unless `quiet`.
pub fn open(file: &Path, speed: f64, stop: &AtomicBool, quiet: bool) -> Result<Opened, CliError> {
    if !SPEEDS.contains(&speed) {
        let text = format!("a speed of {speed} is outside {} to {} (--speed)", SPEEDS.start(), SPEEDS.end());
        return Err(CliError::new(exit::USAGE, text));
    }
    let unreadable = |error: &dyn std::fmt::Display| {
        CliError::new(exit::NO_INPUT, format!("recording '{}' cannot be read: {error}", file.display()))
    };
    let opened = tripmeter_model::file::open(file)?;
    let metadata = opened.metadata().map_err(|error| unreadable(&error))?;
    if metadata.is_dir() {
        return Err(unreadable(&"it is a folder; give the .mcap file in it"));
    }
    let bar = progress::of_bytes(metadata.len(), quiet);
    let mut source = HashedReader { inner: bar.wrap_read(opened), hash: Sha256::new(), bytes: 0, stop };
    let (schedule, mut writer) = scratch()?;
    let sizes = ScanSizes::of_file(metadata.is_file().then_some(metadata.len()));
    let scanned =
        scan::scan(&mut source, sizes, &mut writer).and_then(|()| Ok(io::copy(&mut source, &mut io::sink())?));
    bar.finish_and_clear();
    scanned.map_err(|broken| broken.told(file, source.bytes, writer.messages()))?;
    let digest = source.hash.finalize();
    let mut recording = writer.finish(speed).map_err(|broken| broken.told(file, source.bytes, 0))?;
    recording.file = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    recording.file_bytes = source.bytes;
    recording.sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    recording.schedule = schedule.path().to_path_buf();
    schedule::keep(&recording).map_err(|error| cannot_create(&error))?;
    Ok(Opened { recording, _schedule: schedule })
}

/// An empty folder, named so that a later run removes what this process, if killed, leaves.
fn scratch() -> Result<(TempDir, Writer<BufWriter<File>>), CliError> {
    let prefix = format!("{}-recording", ProcessIdentity::own());
    let folder = temporary_folder(&prefix).map_err(|error| cannot_create(&error))?;
    let writer = Writer::create(folder.path()).map_err(|error| cannot_create(&error))?;
    Ok((folder, writer))
}

fn cannot_create(error: &io::Error) -> CliError {
    let text = format!("the schedule of the recording cannot be written: {error}; set TMPDIR to a folder with room");
    CliError::new(exit::CANNOT_CREATE, text)
}

/// What is read, hashed on the way, until the user asks to stop.
struct HashedReader<'a, R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
    stop: &'a AtomicBool,
}

impl<R: Read> Read for HashedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Relaxed) {
            return Err(io::Error::other(RecordingError::Interrupted));
        }
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

impl RecordingError {
    /// One line for people, with the file, after so many bytes and messages of it.
    fn told(self, file: &Path, bytes: u64, messages: u64) -> CliError {
        let place = format!("recording '{}'", file.display());
        match self {
            RecordingError::Interrupted => {
                CliError::new(exit::INTERRUPTED, format!("{place}: interrupted while reading it"))
            }
            RecordingError::Unreadable(error) => {
                CliError::new(exit::NO_INPUT, format!("{place} cannot be read: {error}"))
            }
            RecordingError::Unwritable(error) => cannot_create(&error),
            RecordingError::CutOff if bytes == 0 => CliError::new(exit::DATA, format!("{place} is empty: 0 bytes")),
            RecordingError::CutOff => CliError::new(
                exit::DATA,
                format!(
                    "{place} is cut off: it ends after {bytes} bytes and {messages} messages, before its end mark; \
                     `mcap recover` makes a whole file of what is there"
                ),
            ),
            RecordingError::Wrong(why) => CliError::new(exit::DATA, format!("{place} {why}")),
        }
    }
}
