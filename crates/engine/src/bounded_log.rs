//! Log of the processes of a run. Its size is bounded: it keeps the first and the last bytes.
//!
//! Processes write to the file themselves, so the bound costs the measurement nothing. The supervisor cuts the file
//! when it wakes, about once a second, and more often while the file is too long.

use crate::last_line::last_words;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tripmeter_model::file::append;
use tripmeter_model::folder_handle::FolderHandle;

/// Bytes kept at the beginning, and as many at the end.
const KEPT_BYTES: u64 = 512 << 10;
/// Largest size of the file after a process group has ended.
pub(crate) const MOST_BYTES: u64 = 2 << 20;
/// Texts around the number of bytes that were cut.
const LINE_BEGIN: &str = "\n[tripmeter: at least ";
const LINE_END: &str = " bytes left out here; a log keeps its first and last 512 KiB]\n";

/// Log that processes append to. Dropping it cuts it to its largest size.
#[derive(Debug)]
pub(crate) struct BoundedLog {
    file: File,
    path: PathBuf,
    /// Offset at which the output of these processes begins.
    start: u64,
}

impl BoundedLog {
    pub(crate) fn open(folder: &FolderHandle, name: &str) -> io::Result<Self> {
        let file = append(&folder.at(name)?)?;
        let start = file.metadata()?.len();
        Ok(Self { file, path: folder.path().join(name), start })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length() == 0
    }

    /// Last line that these processes wrote, as returned by [`last_words`].
    pub(crate) fn last_words(&self, skipped: &[String]) -> String {
        self.file.try_clone().map_or_else(|_| String::new(), |mut file| last_words(&mut file, self.start, skipped))
    }

    /// Cuts the middle out of a log that is too long. Returns true if the log was too long.
    pub(crate) fn bound(&mut self) -> bool {
        let length = self.length();
        if length <= MOST_BYTES {
            return false;
        }
        // A failed cut is no reason to end a run.
        let _ = self.cut(length);
        true
    }

    fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        let (before, line_bytes) = self.left_out()?;
        let mut end = vec![0; KEPT_BYTES as usize];
        self.file.read_exact_at(&mut end, length - KEPT_BYTES)?;
        // Bytes written between here and the cut are lost, but counted.
        let left_out = before.saturating_add(self.length()).saturating_sub(line_bytes + 2 * KEPT_BYTES);
        self.file.set_len(KEPT_BYTES)?;
        self.file.write_all(&[line(left_out).as_bytes(), &end].concat())?;
        self.start = self.length().saturating_sub(length.saturating_sub(self.start));
        Ok(())
    }

    /// Bytes cut before, and the length of the line that reports them.
    fn left_out(&self) -> io::Result<(u64, u64)> {
        let mut there = [0; 128];
        let read = self.file.read_at(&mut there, KEPT_BYTES)?;
        let text = String::from_utf8_lossy(&there[..read]);
        let number = text.strip_prefix(LINE_BEGIN).and_then(|rest| rest.split_once(LINE_END)?.0.parse().ok());
        Ok(number.map_or((0, 0), |left_out| (left_out, line(left_out).len() as u64)))
    }
}

impl Drop for BoundedLog {
    fn drop(&mut self) {
        self.bound();
    }
}

/// Line that replaces the cut bytes.
fn line(bytes: u64) -> String {
    format!("{LINE_BEGIN}{bytes}{LINE_END}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn log(place: &Path) -> BoundedLog {
        BoundedLog::open(&FolderHandle::open(place).unwrap(), "x.log").unwrap()
    }

    #[test]
    fn the_first_and_the_last_are_kept_and_the_rest_is_counted() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("x.log");
        let mut written = 0;
        // Several runs append to one log, as when a sub-experiment is resumed.
        for run in 0..3 {
            let mut log = log(place.path());
            for part in 0..40 {
                let text = format!("{run} {part} {}\n", "x".repeat(100_000));
                log.file().write_all(text.as_bytes()).unwrap();
                written += text.len() as u64;
                log.bound();
                assert!(fs::metadata(&file).unwrap().len() <= MOST_BYTES + text.len() as u64);
            }
            log.file().write_all(format!("last words of {run}\n").as_bytes()).unwrap();
            written += 16;
            assert_eq!(log.last_words(&[]), format!(": \"last words of {run}\""));
        }
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("0 0 xx") && text.ends_with("last words of 2\n"));
        assert_eq!(text.matches("left out here").count(), 1);
        let (left_out, line_bytes) = log(place.path()).left_out().unwrap();
        assert_eq!(text.len() as u64 - line_bytes + left_out, written);
        assert!(text.len() as u64 <= MOST_BYTES);
    }

    #[test]
    fn a_short_log_stays_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let mut log = log(place.path());
        assert!(log.is_empty() && log.last_words(&[]).is_empty());
        log.file().write_all(&vec![b'x'; MOST_BYTES as usize]).unwrap();
        assert!(!log.bound() && !log.is_empty());
        log.file().write_all(b"\n").unwrap();
        assert!(log.bound() && !log.bound());
    }
}
