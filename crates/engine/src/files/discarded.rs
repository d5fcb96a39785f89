//! Files of discarded attempts. When a payload is measured again, its rows are moved to `attempts/`, if their file does
//! not number attempts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use tripmeter_eprosima::measurements::file_name;
use tripmeter_model::file::append;
use tripmeter_model::folder::{ATTEMPTS, HISTOGRAMS};
use tripmeter_model::folder_handle::FolderHandle;

/// Creates a file in append mode, so that its end can be cut off or moved.
pub(super) fn create(file: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create_new(true).open(file)
}

/// Creates a file like [`create`], or opens an existing one if `is_resumed`. Also returns its length.
pub(super) fn begin(file: &Path, is_resumed: bool) -> io::Result<(File, u64)> {
    if !is_resumed || file.symlink_metadata().is_err() {
        return Ok((create(file)?, 0));
    }
    let opened = append(file)?;
    let bytes = opened.metadata()?.len();
    Ok((opened, bytes))
}

/// File that grows payload by payload.
struct Growing {
    folder: FolderHandle,
    name: String,
    head: u64,
    /// Bytes before the payload that is being measured.
    begin: u64,
}

pub struct Discarded {
    files: Vec<Growing>,
}

impl Discarded {
    /// Finds the files of a sub-experiment, which must exist.
    pub fn find(folder: &FolderHandle, name: &str) -> io::Result<Self> {
        let histograms = folder.inside(HISTOGRAMS).ok().map(|folder| (folder, format!("{name}.hlog")));
        let mut files = Vec::new();
        for (folder, name) in [(folder.clone(), file_name(name))].into_iter().chain(histograms) {
            let file = folder.at(&name)?;
            if file.exists() {
                let (head, begin) = (super::head::head_bytes(&file)?, fs::metadata(&file)?.len());
                files.push(Growing { folder, name, head, begin });
            }
        }
        Ok(Self { files })
    }

    /// Stores the lengths of the files before a payload.
    pub fn begin(&mut self) -> io::Result<()> {
        for growing in &mut self.files {
            growing.begin = fs::metadata(growing.folder.at(&growing.name)?)?.len();
        }
        Ok(())
    }

    /// Moves the rows of the payload to separate files, named after the attempt, which counts from 1. If the process is
    /// killed while it moves them, rows may be in both files.
    pub fn discard(&self, attempt: u32) -> io::Result<()> {
        self.files.iter().try_for_each(|growing| growing.discard(attempt))
    }
}

impl Growing {
    fn discard(&self, attempt: u32) -> io::Result<()> {
        let mut source = append(&self.folder.at(&self.name)?)?;
        if source.metadata()?.len() == self.begin {
            return Ok(());
        }
        let (stem, ending) = self.name.rsplit_once('.').unwrap_or((&self.name, ""));
        let folder = self.folder.enter(ATTEMPTS)?;
        let target = folder.at(&format!("{stem}_attempt-{attempt}.{ending}"))?;
        let is_new = !target.exists();
        let mut target = append(&target)?;
        if is_new {
            io::copy(&mut (&source).take(self.head), &mut target)?;
        }
        source.seek(SeekFrom::Start(self.begin))?;
        io::copy(&mut source, &mut target)?;
        source.set_len(self.begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_end_of_a_file_moves_behind_a_copy_of_its_head() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("measurements_x.csv");
        let mut file = create(&path).unwrap();
        create(&folder.path().join("measurements_y_x.csv")).unwrap();
        writeln!(file, "Sample,head").unwrap();
        let mut discarded = Discarded::find(&FolderHandle::open(folder.path()).unwrap(), "x").unwrap();
        assert_eq!(discarded.files.len(), 1);
        let told = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        for (payload, attempts) in [("one", 2), ("two", 3)] {
            discarded.begin().unwrap();
            for attempt in 1..=attempts {
                if attempt > 1 {
                    discarded.discard(attempt - 1).unwrap();
                }
                writeln!(file, "{payload} {attempt}").unwrap();
            }
        }
        assert_eq!(told("measurements_x.csv"), "Sample,head\none 2\ntwo 3\n");
        assert_eq!(told("attempts/measurements_x_attempt-1.csv"), "Sample,head\none 1\ntwo 1\n");
        assert_eq!(told("attempts/measurements_x_attempt-2.csv"), "Sample,head\ntwo 2\n");
        assert!(create(&path).is_err(), "it is not overwritten");
    }

    #[test]
    fn nothing_is_moved_out_of_what_a_link_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let [path, private] = ["measurements_x.csv", "private"].map(|name| folder.path().join(name));
        create(&path).unwrap();
        let discarded = Discarded::find(&FolderHandle::open(folder.path()).unwrap(), "x").unwrap();
        fs::write(&private, "private").unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&private, &path).unwrap();
        assert!(discarded.discard(1).is_err());
        assert_eq!(fs::read_to_string(&private).unwrap(), "private");
    }
}
