//! `tripmeter replay`: turns MCAP files into the schedule that the engine plays.
//!
//! Each file is read once, from start to end. Memory holds its largest record (a message or an attachment) and the
//! names of its channels. The schedule goes to a temporary folder, 16 bytes per message. Its messages are sorted by
//! time when it is played, so that several files become one.

mod compression;
mod error;
pub mod files;
mod scan;
mod schedule;
#[cfg(test)]
mod tests;
mod yaml;

use crate::error::CliError;
use crate::progress;
use compression::Unpacked;
use error::RecordingError;
use indicatif::ProgressBar;
use scan::ScanSizes;
use schedule::{Writer, messages_file};
use sha2::{Digest, Sha256};
use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use tempfile::TempDir;
use tripmeter_engine::os::ProcessIdentity;
use tripmeter_engine::replay::Entries;
use tripmeter_engine::resolve;
use tripmeter_engine::scratch::temporary_folder;
use tripmeter_model::experiment::{Experiment, WrittenRecording};
use tripmeter_model::recording::{RecordedFile, RecordedPart, Recording, ScheduleEntry};
use tripmeter_model::{exit, printable};

const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// A recording that was read. The folder of its schedule is removed when it is dropped.
#[derive(Debug)]
pub struct Opened {
    pub recording: Recording,
    _schedule: TempDir,
}

/// Recording that an experiment plays: read from its files, or made from its topics.
pub fn open(experiment: &Experiment, stop: &AtomicBool, quiet: bool) -> Result<Opened, CliError> {
    match &experiment.written_recording {
        Some(asked) if experiment.written_topics.is_empty() => of_files(asked, stop, quiet),
        _ => of_topics(resolve::of_topics(experiment)?),
    }
}

/// Writes the schedule of topics that each have a size and a rate.
pub fn of_topics(mut recording: Recording) -> Result<Opened, CliError> {
    let written = |recording: &mut Recording| {
        let schedule = fresh_folder()?;
        let mut file = messages_file(schedule.path())?;
        for (topic, of) in (0..).zip(&recording.topics) {
            let bytes = of.largest_bytes as u32;
            of.even_times_ns()
                .try_for_each(|time_ns| file.write_all(&ScheduleEntry { time_ns, topic, bytes }.to_bytes()))?;
        }
        file.flush()?;
        recording.schedule = schedule.path().to_path_buf();
        schedule::keep(recording)?;
        Ok(schedule)
    };
    let schedule = written(&mut recording).map_err(|error: io::Error| cannot_create(&error))?;
    Ok(Opened { recording, _schedule: schedule })
}

/// Reads the requested part of a recording, with a bar on a terminal unless `quiet`.
pub fn of_files(asked: &WrittenRecording, stop: &AtomicBool, quiet: bool) -> Result<Opened, CliError> {
    let (speed, part) = (asked.factor(), asked.part());
    check(speed, &part)?;
    let files = files::expanded(&asked.files)?;
    let sizes: Vec<Option<u64>> = files.iter().map(|file| size_of(file)).collect::<Result<_, _>>()?;
    let bar = progress::of_bytes(sizes.iter().flatten().sum(), quiet);
    let (schedule, mut writer) = scratch(&part)?;
    let mut read: Vec<RecordedFile> = Vec::new();
    for (file, bytes) in files.iter().zip(sizes) {
        let one = scanned(file, bytes, &mut writer, stop, &bar)?;
        if let Some(known) = read.iter().position(|known| known.sha256 == one.sha256) {
            let text = format!(
                "recordings '{}' and '{}' are the same; name one of them",
                file.display(),
                files[known].display()
            );
            return Err(CliError::new(exit::USAGE, text));
        }
        read.push(one);
    }
    bar.finish_and_clear();
    let told = |broken: RecordingError| broken.told(&asked.files[0], 0, 0);
    let (schedule, writer) = match part.has_times() {
        false => (schedule, writer),
        true => within(&schedule, writer).map_err(told)?,
    };
    let mut recording = writer.finish(speed).map_err(told)?;
    name(&mut recording, asked, read);
    recording.schedule = schedule.path().to_path_buf();
    schedule::keep(&recording).map_err(|error| cannot_create(&error))?;
    Ok(Opened { recording, _schedule: schedule })
}

/// Refuses a speed or times out of range.
fn check(speed: f64, part: &RecordedPart) -> Result<(), CliError> {
    let wrong = |text: String| Err(CliError::new(exit::USAGE, text));
    if !SPEEDS.contains(&speed) {
        return wrong(format!("a speed of {speed} is outside {} to {} (--speed)", SPEEDS.start(), SPEEDS.end()));
    }
    for (flag, seconds) in [("--from", part.from_s), ("--until", part.until_s)] {
        if let Some(seconds) = seconds.filter(|seconds| !(0.0..=LATEST_S).contains(seconds)) {
            return wrong(format!("{seconds} s is outside 0 to {LATEST_S} s ({flag})"));
        }
    }
    match (part.from_s.unwrap_or(0.0), part.until_s) {
        (from, Some(until)) if from >= until => wrong(format!(
            "the part from {from} s until {until} s of the recording is empty; it must end after its start (--from, --until)"
        )),
        _ => Ok(()),
    }
}

/// Latest second at which a part may begin or end: a thousand days.
const LATEST_S: f64 = 86_400_000.0;

fn size_of(file: &Path) -> Result<Option<u64>, CliError> {
    let metadata = fs::metadata(file).map_err(|error| unreadable(file, &error))?;
    Ok(metadata.is_file().then_some(metadata.len()))
}

fn unreadable(file: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::new(exit::NO_INPUT, format!("recording '{}' cannot be read: {error}", file.display()))
}

/// Passes every message of a file to the writer.
fn scanned(
    file: &Path,
    bytes: Option<u64>,
    writer: &mut Writer<BufWriter<File>>,
    stop: &AtomicBool,
    bar: &ProgressBar,
) -> Result<RecordedFile, CliError> {
    let (read, before) = (Cell::new(0), writer.seen());
    let opened = tripmeter_model::file::open(file)?;
    let mut source = HashedReader { inner: bar.wrap_read(opened), hash: Sha256::new(), bytes: &read, stop };
    let scan = |source: &mut HashedReader<'_, _>, writer: &mut Writer<_>| {
        let mut unpacked = Unpacked::detect(BufReader::with_capacity(1 << 16, source), &read)?;
        let sizes = ScanSizes::of_file(bytes.filter(|_| !unpacked.is_packed()));
        scan::scan(&mut unpacked, sizes, writer)
    };
    let scanned = scan(&mut source, writer).and_then(|()| Ok(io::copy(&mut source, &mut io::sink())?));
    scanned.map_err(|broken| {
        bar.finish_and_clear();
        broken.told(file, read.get(), writer.seen() - before)
    })?;
    let sha256 = hex(source.hash);
    Ok(RecordedFile { name: file_name(file), bytes: read.get(), sha256 })
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Last name of a path, or of its target, e.g. for `.`.
fn file_name(path: &Path) -> String {
    let whole = path.canonicalize();
    let name = path.file_name().or_else(|| whole.as_ref().ok()?.file_name());
    name.unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn name(recording: &mut Recording, asked: &WrittenRecording, read: Vec<RecordedFile>) {
    recording.file = file_name(&asked.files[0]);
    if asked.files.len() > 1 {
        recording.file += &format!(" and {} more", asked.files.len() - 1);
    }
    recording.file_bytes = read.iter().map(|one| one.bytes).sum();
    if let [one] = &read[..] {
        recording.sha256.clone_from(&one.sha256);
        return;
    }
    let mut hashes: Vec<&str> = read.iter().map(|one| one.sha256.as_str()).collect();
    hashes.sort_unstable();
    let lines: String = hashes.iter().map(|hash| format!("{hash}\n")).collect();
    recording.sha256 = hex(Sha256::new().chain_update(lines));
    recording.files = read;
}

/// Filters the messages in a folder by the requested times.
fn within(
    all: &TempDir,
    writer: Writer<BufWriter<File>>,
) -> Result<(TempDir, Writer<BufWriter<File>>), RecordingError> {
    let folder = fresh_folder().map_err(RecordingError::Unwritable)?;
    let file = messages_file(folder.path()).map_err(RecordingError::Unwritable)?;
    let flushed = writer.flushed()?;
    let written = File::open(Recording::files(all.path()).1).map_err(RecordingError::Unwritable)?;
    let writer = flushed.within(Entries::new(written), file)?;
    Ok((folder, writer))
}

pub fn is_same(recording: &Recording, before: &Recording) -> bool {
    recording.sha256 == before.sha256 && recording.part == before.part
}

/// Request to play an earlier recording again, with its settings, from the given files.
pub fn again(before: &Recording, files: &[PathBuf]) -> WrittenRecording {
    let RecordedPart { topics, from_s, until_s } = before.part.clone();
    WrittenRecording { files: files.to_vec(), speed: Some(before.speed), topics, from_s, until_s }
}

/// Empty folder, named so that a later run removes it if this process is killed.
fn fresh_folder() -> io::Result<TempDir> {
    temporary_folder(&format!("{}-recording", ProcessIdentity::own()))
}

fn scratch(part: &RecordedPart) -> Result<(TempDir, Writer<BufWriter<File>>), CliError> {
    let folder = fresh_folder().map_err(|error| cannot_create(&error))?;
    let writer = Writer::create(folder.path(), part).map_err(|error| cannot_create(&error))?;
    Ok((folder, writer))
}

fn cannot_create(error: &io::Error) -> CliError {
    let text = format!("the schedule of the messages cannot be written: {error}; set TMPDIR to a folder with room");
    CliError::new(exit::CANNOT_CREATE, text)
}

/// Reader that hashes and counts its data, until the user asks to stop.
struct HashedReader<'a, R> {
    inner: R,
    hash: Sha256,
    bytes: &'a Cell<u64>,
    stop: &'a AtomicBool,
}

impl<R: Read> Read for HashedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Relaxed) {
            return Err(io::Error::other(RecordingError::Interrupted));
        }
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.bytes.set(self.bytes.get() + count as u64);
        Ok(count)
    }
}

impl RecordingError {
    /// Error in one line, with the file, and the bytes and messages read before the error.
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
                    "{place} is cut off: it ends after {bytes} bytes and {messages} messages, without an end mark; \
                     `mcap recover` makes a complete file from what is there"
                ),
            ),
            RecordingError::Wrong(why) => {
                CliError::new(exit::DATA, printable::line(&format!("{place} {why}")).into_owned())
            }
            RecordingError::Part(why) => {
                CliError::new(exit::USAGE, printable::line(&format!("{place} {why}")).into_owned())
            }
        }
    }
}
