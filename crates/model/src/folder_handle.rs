//! A folder that is opened once: its files stay in it, even if the folder is renamed or replaced.

use crate::bounds::MOST_BYTES;
use crate::file::{FileError, FolderGone, write_synced, write_whole};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DESCRIPTORS: &str = "/proc/self/fd";

/// An open folder. Its files are opened relative to it, and only while it has its name.
#[derive(Clone, Debug)]
pub struct FolderHandle {
    /// Path for messages.
    path: PathBuf,
    opened: Arc<File>,
    /// Parent folder, if it is open, too.
    parent: Option<Arc<FolderHandle>>,
}

/// Identity of a folder, with which another process can open it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FolderIdentity {
    /// Path.
    pub path: PathBuf,
    device: u64,
    inode: u64,
}

impl FolderIdentity {
    /// Opens the folder.
    ///
    /// # Errors
    /// If the path now leads elsewhere.
    pub fn open(&self) -> io::Result<FolderHandle> {
        let path = &self.path;
        let (opened, now) = match FolderHandle::open(path).and_then(|folder| Ok((folder.identity()?, folder))) {
            Ok((identity, opened)) => (Some(opened), (identity.device, identity.inode)),
            Err(_) => (None, (0, 0)),
        };
        let is_same = now == (self.device, self.inode);
        opened.filter(|_| is_same).ok_or_else(|| FolderGone::new(path, None, path.symlink_metadata().ok()).into())
    }
}

impl FolderHandle {
    /// Opens an existing folder; fails if it is missing, or a link.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), opened: opened(path)?, parent: None })
    }

    /// Opens an existing folder that the user names, which may be a link.
    pub fn open_named(path: &Path) -> io::Result<Self> {
        Self::open(&path.canonicalize()?)
    }

    /// Opens a folder; creates it and its parents if they are missing. Follows links in its path only at this time.
    ///
    /// # Errors
    /// If it can neither be created nor opened.
    pub fn create(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Self::open_named(path)
    }

    /// Opens a folder in this one.
    ///
    /// # Errors
    /// If there is no such folder, or this one was renamed or removed.
    pub fn inside(&self, name: &str) -> io::Result<Self> {
        let (path, opened) = (self.path.join(name), opened(&self.at(name)?)?);
        Ok(Self { path, opened, parent: Some(Arc::new(self.clone())) })
    }

    /// [`FolderHandle::inside`], but creates a missing folder.
    ///
    /// # Errors
    /// If it can neither be created nor opened.
    pub fn enter(&self, name: &str) -> io::Result<Self> {
        match fs::create_dir(self.at(name)?) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => self.inside(name),
        }
    }

    /// Path for messages and for reading; another folder may have it now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the folder still has its path.
    ///
    /// # Errors
    /// If it was renamed, removed or replaced.
    pub fn check(&self) -> Result<(), FolderGone> {
        self.parent.as_ref().map_or(Ok(()), |parent| parent.check())?;
        let named = self.path.symlink_metadata();
        let of = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        match (&named, self.opened.metadata()) {
            (Ok(named), Ok(opened)) if named.is_dir() && of(named) == of(&opened) => Ok(()),
            // The path cannot be read, e.g. on an unreachable file server, but the open folder remains valid.
            (Err(error), _) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(()),
            _ => Err(FolderGone::new(&self.path, fs::read_link(self.descriptor()).ok(), named.ok())),
        }
    }

    /// Path of a file in the folder, for this process only; valid even if the folder is renamed. Fails as
    /// [`FolderHandle::check`].
    pub fn at(&self, name: &str) -> Result<PathBuf, FolderGone> {
        self.check()?;
        Ok(self.descriptor().join(name))
    }

    /// [`FolderHandle::at`] for processes that this one starts.
    ///
    /// # Errors
    /// As [`FolderHandle::check`], or if `/proc` is not available.
    pub fn at_for_children(&self, name: &str) -> io::Result<PathBuf> {
        self.check()?;
        let process = fs::read_link("/proc/self")?;
        Ok(Path::new("/proc").join(process).join("fd").join(self.number()).join(name))
    }

    /// Replaces paths from [`FolderHandle::at`] in a text by the folder's path, for messages.
    pub fn shown(&self, text: &str) -> String {
        let short = self.descriptor().display().to_string();
        let long = self.at_for_children("").map(|path| path.display().to_string());
        let (long, path) = (long.unwrap_or_else(|_| short.clone()), self.path.display().to_string());
        // Longer descriptor numbers may begin with this one.
        let named = |text: &str, by: &str| text.replace(&format!("{by}/"), &format!("{path}/"));
        let text = named(&named(text, long.trim_end_matches('/')), &short);
        if text.ends_with(&short) { text.replace(&short, &path) } else { text }
    }

    /// Writes a file of this folder by [`write_whole`].
    ///
    /// # Errors
    /// As [`FolderHandle::check`], or if it cannot be written.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<(), FileError> {
        write_whole(&self.at(name)?, contents).map_err(|error| self.named(name, error))
    }

    /// [`FolderHandle::write`], with its errors, by [`write_synced`].
    pub fn write_synced(&self, name: &str, contents: &[u8]) -> Result<(), FileError> {
        write_synced(&self.at(name)?, contents).map_err(|error| self.named(name, error))
    }

    /// [`FolderHandle::write`] for JSON, with a line break at its end.
    ///
    /// # Errors
    /// As [`FolderHandle::write`], or if it exceeds [`MOST_BYTES`], which no reader accepts.
    pub fn write_json(&self, name: &str, what: &impl Serialize) -> Result<(), FileError> {
        let not_writable = |why, kind| FileError::NotWritable { file: self.path.join(name), why, kind };
        let mut text = serde_json::to_string_pretty(what)
            .map_err(|error| not_writable(error.to_string(), ErrorKind::InvalidData))?;
        text.push('\n');
        if text.len() as u64 > MOST_BYTES {
            let why = format!("it would have {} bytes (limit {MOST_BYTES}); measure less at once", text.len());
            return Err(not_writable(why, ErrorKind::FileTooLarge));
        }
        self.write(name, text.as_bytes())
    }

    fn named(&self, name: &str, error: FileError) -> FileError {
        match error {
            FileError::NotWritable { why, kind, .. } => {
                FileError::NotWritable { file: self.path.join(name), why, kind }
            }
            error => error,
        }
    }

    /// Identity with which another process can open the folder.
    ///
    /// # Errors
    /// If its metadata cannot be read.
    pub fn identity(&self) -> io::Result<FolderIdentity> {
        let metadata = self.opened.metadata()?;
        Ok(FolderIdentity { path: self.path.clone(), device: metadata.dev(), inode: metadata.ino() })
    }

    fn descriptor(&self) -> PathBuf {
        Path::new(DESCRIPTORS).join(self.number())
    }

    fn number(&self) -> String {
        self.opened.as_raw_fd().to_string()
    }
}

fn opened(path: &Path) -> io::Result<Arc<File>> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    File::options().read(true).custom_flags(flags).open(path).map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    type Way = (&'static str, fn(&Path, &Path));

    /// Ways in which a folder loses its name, each with a part of the error.
    const WAYS: [Way; 5] = [
        ("was removed", |folder, _| fs::remove_dir_all(folder).unwrap()),
        ("was renamed to", |folder, away| fs::rename(folder, away).unwrap()),
        ("another folder has its name", |folder, away| {
            fs::rename(folder, away).unwrap();
            fs::rename(folder.with_file_name("other"), folder).unwrap();
        }),
        ("a link has its name", |folder, away| {
            fs::rename(folder, away).unwrap();
            symlink("other", folder).unwrap();
        }),
        ("a link has its name", |folder, away| {
            fs::rename(folder, away).unwrap();
            symlink(away, folder).unwrap();
        }),
    ];

    #[test]
    fn nothing_is_written_to_what_takes_the_name_of_a_folder() {
        for (what, change) in WAYS {
            let place = tempfile::tempdir().unwrap();
            let [path, other, away] = ["results", "other", "away"].map(|name| place.path().join(name));
            fs::create_dir_all(other.join("round")).unwrap();
            fs::write(other.join("x"), "finished").unwrap();
            let folder = FolderHandle::create(&path).unwrap();
            let round = folder.enter("round").unwrap();
            folder.write("x", b"ours").unwrap();
            let (at, identity) = (round.at("y").unwrap(), folder.identity().unwrap());
            assert!(identity.open().is_ok() && round.enter("in").is_ok());
            change(&path, &away);
            for error in [
                folder.write("x", b"again").unwrap_err().to_string(),
                folder.write_synced("x", b"again").unwrap_err().to_string(),
                round.at("x").unwrap_err().to_string(),
                round.enter("x").unwrap_err().to_string(),
                folder.inside("round").unwrap_err().to_string(),
            ] {
                assert!(error.contains(what) && error.contains(path.to_str().unwrap()), "{what}: {error}");
            }
            assert!(identity.open().unwrap_err().to_string().contains(path.to_str().unwrap()), "{what}");
            // An earlier path leads to the folder that was opened, or nowhere.
            assert_eq!((fs::write(at, "late").is_ok(), away.join("round/y").exists()), (away.exists(), away.exists()));
            let theirs = if other.exists() { &other } else { &path };
            assert_eq!(fs::read(theirs.join("x")).unwrap(), b"finished", "{what}");
            assert_eq!(fs::read_dir(theirs).unwrap().count(), 2, "{what}");
            assert_eq!(fs::read_dir(theirs.join("round")).unwrap().count(), 0, "{what}");
        }
    }

    #[test]
    fn children_and_people_have_paths_of_their_own() {
        let place = tempfile::tempdir().unwrap();
        let folder = FolderHandle::create(&place.path().join("a")).unwrap();
        let there = folder.at_for_children("x").unwrap();
        let copied = std::process::Command::new("cp").args(["/proc/version".as_ref(), there.as_os_str()]).status();
        assert!(copied.unwrap().success() && folder.path().join("x").is_file());
        let path = folder.path().join("x").display().to_string();
        for at in [there, folder.at("x").unwrap()] {
            assert_eq!(folder.shown(&format!("'{}' is full", at.display())), format!("'{path}' is full"));
        }
    }

    #[test]
    fn a_link_is_no_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = FolderHandle::create(place.path()).unwrap();
        symlink("/tmp", place.path().join("link")).unwrap();
        assert!(folder.enter("link").is_err() && folder.inside("link").is_err());
        assert!(FolderHandle::open(&place.path().join("link")).is_err());
        fs::write(place.path().join("file"), "").unwrap();
        assert!(folder.enter("file").is_err());
    }
}
