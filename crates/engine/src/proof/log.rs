//! Path proof under pattern `log`: lines really went to a file or through the pipe, as the operating system sees both.
//!
//! | Evidence | Says |
//! |---|---|
//! | target of the lines: a regular file, or the very FIFO that the host made | file or pipe |
//! | its size, and the bytes read from it by another process | that the lines are there |
//! | `wchar` of the logging process | that this process wrote as much, by `write` |
//! | a descriptor of the process on it, open for writing | the holder; shown, not judged: it may be opened for each line |

use super::observations::amount;
use super::sys::Counters;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use strum::Display;
use tripmeter_abi::Path as Claim;
use tripmeter_model::log::Lines;
use tripmeter_model::manifest::{Counts, PathProof, Verdict};

#[derive(Clone, Copy, Debug)]
pub struct LogProbe {
    /// Claimed target of the lines.
    pub claim: Claim,
    pub lossy: bool,
    pub calls: u64,
    pub payload_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Number of descriptors open for writing.
    Open(usize),
    No,
    Unknown,
}

impl Held {
    pub fn by_this_process(file: &Path) -> Self {
        let Some(object) = identity(file) else { return Held::No };
        let Ok(descriptors) = fs::read_dir("/proc/self/fd") else { return Held::Unknown };
        let is_it = |entry: &fs::DirEntry| identity(&entry.path()) == Some(object) && is_for_writing(entry);
        match descriptors.flatten().filter(is_it).count() {
            0 => Held::No,
            count => Held::Open(count),
        }
    }

    pub fn is_open(self) -> bool {
        matches!(self, Held::Open(_))
    }
}

/// Device and inode of a file; follows links.
fn identity(file: &Path) -> Option<(u64, u64)> {
    fs::metadata(file).ok().map(|found| (found.dev(), found.ino()))
}

/// # Source
/// proc_pid_fd(5): the owner's permissions of the link say what the descriptor is for.
fn is_for_writing(descriptor: &fs::DirEntry) -> bool {
    descriptor.metadata().is_ok_and(|link| link.mode() & 0o200 != 0)
}

#[derive(Debug)]
pub struct LogObserver {
    file: PathBuf,
    /// Device and inode of the file at this path before the logger was opened.
    before: Option<(u64, u64)>,
    counters: Counters,
}

#[derive(Clone, Debug)]
pub struct LogSeen {
    kind: FileKind,
    /// True if the file is the one from before the logger was opened.
    is_same: bool,
    size: u64,
    /// Bytes that the logging process wrote by `write`.
    written_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
enum FileKind {
    #[strum(serialize = "a regular file")]
    Regular,
    #[strum(serialize = "a FIFO")]
    Fifo,
    #[strum(serialize = "neither file nor FIFO")]
    Other,
    #[strum(serialize = "nothing")]
    Missing,
}

impl LogObserver {
    /// Must be called before the logger is opened.
    pub fn start(file: &Path) -> Self {
        Self { file: file.to_owned(), before: identity(file), counters: Counters::now(None) }
    }

    /// Must be called after the logger has closed its file.
    pub fn finish(self) -> LogSeen {
        let written_bytes = Counters::now(None).since(&self.counters).written_bytes;
        let found = fs::symlink_metadata(&self.file).ok();
        let kind = found.as_ref().map_or(FileKind::Missing, |found| match found.file_type() {
            kind if kind.is_file() => FileKind::Regular,
            kind if kind.is_fifo() => FileKind::Fifo,
            _ => FileKind::Other,
        });
        let is_same = self.before.is_some() && identity(&self.file) == self.before;
        LogSeen { kind, is_same, size: found.map_or(0, |found| found.len()), written_bytes }
    }
}

/// Judges a claim by this observation, and by the lines that another process has read.
pub fn judge_log(probe: &LogProbe, seen: &LogSeen, held: Held, counts: &Counts, lines: &Lines) -> PathProof {
    let (verdict, finding) = verdict(probe, seen, counts, lines);
    let written = seen.written_bytes.map_or("unknown".to_owned(), amount);
    let held = match held {
        Held::Open(count) => format!("{count} descriptors of it open on that for writing"),
        Held::No => "no descriptor of it was open on that".to_owned(),
        Held::Unknown => "its descriptors cannot be read".to_owned(),
    };
    let seen = format!(
        "{} with {} of {} lines intact, {} read by another process; {written} by write calls of the logging process, {held}",
        seen.kind,
        counts.received,
        probe.calls,
        amount(lines.bytes)
    );
    let evidence = match verdict {
        Verdict::Proven => format!("{finding}; {seen}"),
        Verdict::Failed => format!("{} was claimed, but {finding}; seen: {seen}", probe.claim),
        Verdict::NotVisible => format!("{} was claimed; {finding}; seen: {seen}", probe.claim),
    };
    PathProof::new(probe.claim, verdict, evidence)
}

fn verdict(probe: &LogProbe, seen: &LogSeen, counts: &Counts, lines: &Lines) -> (Verdict, String) {
    let failed = |why: String| (Verdict::Failed, why);
    let wanted = if probe.claim == Claim::Pipe { FileKind::Fifo } else { FileKind::Regular };
    if seen.kind != wanted {
        return failed(format!("where lines were to go there is {}", seen.kind));
    }
    if probe.claim == Claim::Pipe && !seen.is_same {
        return failed("the pipe is not the one that is being read".to_owned());
    }
    let came = format!("only {} of {} lines came there intact", counts.received, probe.calls);
    match counts.received {
        received if received == probe.calls => {}
        received if probe.lossy && received >= probe.calls.div_ceil(2) => {}
        // Lost lines cannot be told from lines that went elsewhere.
        1.. if probe.lossy => return (Verdict::NotVisible, format!("{came}, and it may lose some")),
        _ => return failed(came),
    }
    if probe.claim == Claim::File && seen.size != lines.bytes {
        return failed(format!("its size of {} is not the {} read", amount(seen.size), amount(lines.bytes)));
    }
    let least = counts.received * probe.payload_bytes;
    match seen.written_bytes {
        None => (Verdict::NotVisible, "the counters of the logging process cannot be read".to_owned()),
        Some(written) if written < least => {
            let why = format!("the logging process wrote {} itself, less than the lines", amount(written));
            (Verdict::NotVisible, why)
        }
        Some(_) if probe.claim == Claim::Pipe => (Verdict::Proven, "the lines went through the pipe".to_owned()),
        Some(_) => (Verdict::Proven, format!("the file grew by {}", amount(seen.size))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const PROBE: LogProbe = LogProbe { claim: Claim::File, lossy: false, calls: 64, payload_bytes: 1024 };
    const ALL: Counts = Counts { sent: 64, received: 64, lost: 0, late: 0, duplicated: 0, reordered: 0, damaged: 0 };
    const LINES: Lines = Lines { written: 64, bytes: 64 * 1025, shortest_prefix_bytes: 0, longest_prefix_bytes: 0 };

    fn seen(kind: FileKind) -> LogSeen {
        let size = if kind == FileKind::Regular { LINES.bytes } else { 0 };
        LogSeen { kind, is_same: kind == FileKind::Fifo, size, written_bytes: Some(70_000) }
    }

    fn found(probe: &LogProbe, seen: &LogSeen, counts: &Counts) -> (Verdict, String) {
        let proof = judge_log(probe, seen, Held::Open(1), counts, &LINES);
        (proof.verdict, proof.evidence)
    }

    #[test]
    fn lines_in_the_file_or_through_the_pipe_are_proof() {
        let pipe = LogProbe { claim: Claim::Pipe, ..PROBE };
        assert_eq!(found(&PROBE, &seen(FileKind::Regular), &ALL).0, Verdict::Proven);
        assert_eq!(found(&pipe, &seen(FileKind::Fifo), &ALL).0, Verdict::Proven);
        let some = Counts { received: 40, lost: 24, ..ALL };
        assert_eq!(found(&LogProbe { lossy: true, ..PROBE }, &seen(FileKind::Regular), &some).0, Verdict::Proven);
    }

    #[test]
    fn every_lie_is_found_out() {
        let pipe = LogProbe { claim: Claim::Pipe, ..PROBE };
        let none = Counts { received: 0, lost: 64, ..ALL };
        let grown = LogSeen { size: 1 << 20, ..seen(FileKind::Regular) };
        for (probe, seen, counts, words) in [
            (&PROBE, seen(FileKind::Missing), &none, "there is nothing"),
            (&PROBE, seen(FileKind::Fifo), &ALL, "there is a FIFO"),
            (&pipe, seen(FileKind::Regular), &none, "there is a regular file"),
            (&pipe, LogSeen { is_same: false, ..seen(FileKind::Fifo) }, &none, "not the one that is being read"),
            (&PROBE, seen(FileKind::Regular), &Counts { received: 63, lost: 1, ..ALL }, "only 63 of 64 lines"),
            (&PROBE, grown, &ALL, "is not the"),
        ] {
            let (verdict, evidence) = found(probe, &seen, counts);
            assert_eq!(verdict, Verdict::Failed, "{evidence}");
            assert!(evidence.contains(words) && evidence.contains("was claimed, but"), "{evidence}");
        }
        let few = Counts { received: 20, lost: 44, ..ALL };
        let (verdict, evidence) = found(&LogProbe { lossy: true, ..PROBE }, &seen(FileKind::Regular), &few);
        assert_eq!(verdict, Verdict::NotVisible, "{evidence}");
        for written_bytes in [None, Some(1000)] {
            let (verdict, evidence) = found(&PROBE, &LogSeen { written_bytes, ..seen(FileKind::Regular) }, &ALL);
            assert_eq!(verdict, Verdict::NotVisible, "{evidence}");
        }
    }

    #[test]
    fn what_this_process_holds_and_writes_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        assert_eq!(Held::by_this_process(&file), Held::No);
        let observer = LogObserver::start(&file);
        let mut opened = fs::File::create(&file).unwrap();
        let reading = fs::File::open(&file).unwrap();
        assert_eq!(Held::by_this_process(&file), Held::Open(1));
        opened.write_all(&[b'x'; 5000]).unwrap();
        drop((opened, reading));
        assert!(!Held::by_this_process(&file).is_open());
        let seen = observer.finish();
        assert_eq!((seen.kind, seen.size, seen.is_same), (FileKind::Regular, 5000, false));
        assert!(seen.written_bytes.is_none_or(|bytes| bytes >= 5000));
        let fifo = folder.path().join("fifo");
        crate::os::make_fifo(&fifo).unwrap();
        let seen = LogObserver::start(&fifo).finish();
        assert_eq!((seen.kind, seen.is_same), (FileKind::Fifo, true));
    }
}
