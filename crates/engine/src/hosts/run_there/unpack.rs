//! Archive from another host, unpacked within limits.

use std::cell::Cell;
use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};
use tar::{Archive, EntryType};
use tripmeter_model::folder::is_fetched;
use tripmeter_model::printable::line;

/// Largest size of the headers and names between two entries, in bytes.
const MOST_HEADER_BYTES: u64 = 1 << 20;
const MOST_PARTS: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchiveLimits {
    pub bytes: u64,
    pub entries: u64,
}

impl ArchiveLimits {
    /// Limits for results: a thousand times a usual folder.
    pub const USUAL: Self = Self { bytes: 16 << 30, entries: 100_000 };
}

/// Archive with a budget of bytes that may be read.
struct MeteredArchive<'a, R> {
    archive: R,
    left: &'a Cell<u64>,
}

impl<R: Read> Read for MeteredArchive<'_, R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let most = room.len().min(usize::try_from(self.left.get()).unwrap_or(usize::MAX));
        if most == 0 && !room.is_empty() {
            return Err(io::Error::other(format!("a name or header has more than {MOST_HEADER_BYTES} bytes")));
        }
        let bytes = self.archive.read(&mut room[..most])?;
        self.left.set(self.left.get() - bytes as u64);
        Ok(bytes)
    }
}

/// Unpacks the files and folders of results into a new folder. Other files are skipped: a browser would treat a web
/// page from another host as one of this folder.
///
/// # Errors
/// If the archive is damaged, exceeds the limits, has links or devices, or has a path out of the folder.
pub(crate) fn unpack(archive: impl Read, into: &Path, limits: ArchiveLimits) -> io::Result<()> {
    std::fs::create_dir_all(into)?;
    let left = Cell::new(MOST_HEADER_BYTES);
    let mut archive = Archive::new(MeteredArchive { archive, left: &left });
    archive.set_preserve_permissions(false);
    archive.set_unpack_xattrs(false);
    let (mut entries, mut bytes) = (0, 0_u64);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let refused = |why: &str| Err(io::Error::other(format!("'{}' {why}", shown(&path))));
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return refused("leads out of the folder");
        }
        if path.components().count() > MOST_PARTS {
            return refused(&format!("is nested in more than {MOST_PARTS} folders"));
        }
        if ![EntryType::Regular, EntryType::Directory].contains(&entry.header().entry_type()) {
            return refused("is neither a file nor a folder");
        }
        entries += 1;
        bytes = bytes.saturating_add(entry.size());
        if entries > limits.entries {
            return refused(&format!("exceeds the limit of {} files and folders", limits.entries));
        }
        if bytes > limits.bytes {
            let all = format!("brings the total to {bytes} bytes (limit {})", limits.bytes);
            return refused(&format!("{all}; keep fewer samples (--raw none), or measure less at once"));
        }
        if !is_fetched(&path, entry.header().entry_type() == EntryType::Directory) {
            // The unread rest of an entry is skipped on the way to the next.
            left.set(entry.size().saturating_add(MOST_HEADER_BYTES));
            continue;
        }
        left.set(entry.size());
        if !entry.unpack_in(into)? {
            return refused("leads out of the folder");
        }
        if entry.header().entry_type() == EntryType::Directory {
            // A folder without write permission could not be removed.
            fs::set_permissions(into.join(&path), Permissions::from_mode(0o700))?;
        }
        left.set(MOST_HEADER_BYTES);
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    const MOST_LETTERS: usize = 200;
    line(&path.to_string_lossy().chars().take(MOST_LETTERS).collect::<String>()).into_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Archive with one entry. `tar` itself refuses to write some names.
    pub fn archive(path: &str, kind: EntryType) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_size(if kind == EntryType::Regular { 2 } else { 0 });
        header.set_mode(0o644);
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, &b"hi"[..if kind == EntryType::Regular { 2 } else { 0 }]).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn files_are_unpacked_and_what_climbs_or_links_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("into");
        unpack(&archive("./samples/b.csv", EntryType::Regular)[..], &into, ArchiveLimits::USUAL).unwrap();
        assert_eq!(std::fs::read(into.join("samples/b.csv")).unwrap(), b"hi");
        for (path, kind, why) in [
            ("../out", EntryType::Regular, "leads out"),
            ("a/../../out", EntryType::Regular, "leads out"),
            ("/out", EntryType::Regular, "leads out"),
            ("link", EntryType::Symlink, "neither a file nor a folder"),
            ("link", EntryType::Link, "neither a file nor a folder"),
            ("pipe", EntryType::Fifo, "neither a file nor a folder"),
        ] {
            let error = unpack(&archive(path, kind)[..], &into, ArchiveLimits::USUAL).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(path), "{path}: {error}");
        }
        assert!(!folder.path().join("out").exists());
    }

    #[test]
    fn what_is_no_data_of_results_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = tar::Builder::new(Vec::new());
        let data = ["manifest.json", "round-01/samples/a.csv", "measurements_a.csv", "logs/a.leader.strace", "ab.json"];
        let others = [
            "index.html",
            "report.html",
            "plots/a.svg",
            "samples/index.html",
            "round-01/report.html",
            "measurements_a.html",
            "manifest.json/a.csv",
            "README",
            ".measuring",
        ];
        for name in others.into_iter().chain(data) {
            let mut header = tar::Header::new_gnu();
            // Larger than a header may be.
            let content = vec![b'x'; 3 << 20];
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, &content[..]).unwrap();
        }
        unpack(&builder.into_inner().unwrap()[..], folder.path(), ArchiveLimits::USUAL).unwrap();
        assert!(data.iter().all(|name| folder.path().join(name).is_file()));
        assert!(!others.iter().any(|name| folder.path().join(name).exists()));
    }

    #[test]
    fn an_archive_of_more_than_its_limits_is_refused_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |archive: &[u8], limits| {
            let into = tempfile::tempdir_in(folder.path()).unwrap();
            let error = unpack(archive, into.path(), limits).unwrap_err().to_string();
            (error, std::fs::read_dir(into.path()).unwrap().count())
        };
        let two = |limits| {
            let mut builder = tar::Builder::new(Vec::new());
            for name in ["metrics.csv", "trials.jsonl"] {
                let mut header = tar::Header::new_gnu();
                header.set_size(3);
                header.set_mode(0o644);
                builder.append_data(&mut header, name, &b"abc"[..]).unwrap();
            }
            refused(&builder.into_inner().unwrap(), limits)
        };
        let (error, left) = two(ArchiveLimits { bytes: 5, entries: 9 });
        assert!(
            left == 1 && error.starts_with("'trials.jsonl' brings the total to 6 bytes (limit 5); keep fewer"),
            "{error}"
        );
        let (error, left) = two(ArchiveLimits { bytes: 9, entries: 1 });
        assert!(left == 1 && error == "'trials.jsonl' exceeds the limit of 1 files and folders", "{error}");
        // A name without end, which would be held in memory.
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::GNULongName);
        header.set_size(1 << 40);
        header.set_cksum();
        let endless = header.as_bytes().chain(io::repeat(b'x'));
        let error = unpack(endless, folder.path(), ArchiveLimits::USUAL).unwrap_err().to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
        let deep = refused(&archive(&"a/".repeat(17), EntryType::Directory), ArchiveLimits::USUAL);
        assert!(deep.1 == 0 && deep.0.ends_with("is nested in more than 16 folders"), "{deep:?}");
    }
}
