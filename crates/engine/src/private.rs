//! Private folder where processes of one user meet. Nobody else can enter or replace it.

use crate::os;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Largest number of retries if another run removes the empty folder while it is used.
const RETRIES: u32 = 100;

/// Open folder, so that renaming it has no effect. Dropping it removes the folder once it is empty.
#[derive(Debug)]
pub struct Private {
    folder: File,
    path: PathBuf,
}

impl Private {
    /// Opens `tripmeter` in `$XDG_RUNTIME_DIR`, or a folder of this user in the system's temporary folder.
    pub fn open() -> io::Result<Self> {
        Self::open_in(&runtime_folder(std::env::var_os("XDG_RUNTIME_DIR")), &std::env::temp_dir())
    }

    fn open_in(runtime: &Path, place: &Path) -> io::Result<Self> {
        match runtime.is_absolute() && own_folder(runtime).is_ok() {
            true => Self::make(runtime.join("tripmeter")),
            false => Self::below(place),
        }
    }

    /// Calls `work` with the folder; retries if another run has just removed it.
    pub fn with<T>(mut work: impl FnMut(Self) -> io::Result<T>) -> io::Result<T> {
        let mut attempt = || Self::open().and_then(&mut work);
        let mut result = attempt();
        for _ in 0..RETRIES {
            if !result.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                break;
            }
            result = attempt();
        }
        result
    }

    /// Opens the user's folder in `place`, where others may write, too. If somebody else has taken the usual name, an
    /// unpredictable one is used. All processes use the oldest such folder as long as it exists.
    fn below(place: &Path) -> io::Result<Self> {
        let name = format!("tripmeter-{}", os::user_id());
        let prefix = format!("{name}-private-");
        let oldest = || {
            let entries = fs::read_dir(place)?.flatten();
            let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
            let own = named.map(|entry| entry.path()).filter_map(|path| Some((own_folder(&path).ok()?, path)));
            // Some file systems have no creation time; then names are compared.
            let born = own.map(|(folder, path)| Ok((folder.metadata()?.created().ok(), path)));
            Ok::<_, io::Error>(born.collect::<io::Result<Vec<_>>>()?.into_iter().min().map(|(_, path)| path))
        };
        let mut taken = ErrorKind::NotFound.into();
        if oldest()?.is_none() {
            match Self::make(place.join(&name)) {
                Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::PermissionDenied) => {
                    taken = error;
                }
                // Other errors, such as the folder's removal by another run, do not mean that the name is taken.
                made => return made,
            }
            let mode = fs::Permissions::from_mode(0o700);
            // The folder is opened below, unless an older one exists.
            let _ = tempfile::Builder::new().prefix(&prefix).permissions(mode).tempdir_in(place)?.keep();
        }
        oldest()?.map_or(Err(taken), Self::make)
    }

    fn make(path: PathBuf) -> io::Result<Self> {
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Ok(Self { folder: own_folder(&path)?, path })
    }

    /// Locks the folder until the returned file is closed. `None` if another process holds the lock.
    pub fn lock(&self) -> io::Result<Option<File>> {
        let folder = File::open(self.at("."))?;
        Ok(os::lock_file(&folder, true)?.then_some(folder))
    }

    /// Path of a file in the folder, independent of the folder's name; valid while `self` lives.
    pub fn at(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.folder.as_raw_fd()))
    }

    pub fn shown(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens or creates a file of this user, to read and write.
    pub fn file(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.custom_flags(os::NO_LINK | os::NO_WAIT).open(self.at(name))?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a file")) }
    }

    pub fn names(&self) -> Vec<String> {
        os::names_in(&self.at("."))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // The call fails, as intended, if the folder is not empty.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Runtime folder of the user: from the variable, or else the system's default. So processes without the variable, for
/// example under `sudo` or `cron`, use the same folder.
fn runtime_folder(variable: Option<OsString>) -> PathBuf {
    variable.map_or_else(|| PathBuf::from(format!("/run/user/{}", os::user_id())), PathBuf::from)
}

/// Opens a folder of this user that nobody else can enter.
fn own_folder(path: &Path) -> io::Result<File> {
    let wrong = |what: &str| {
        let text = format!("'{}' {what}; remove it, or set XDG_RUNTIME_DIR to a folder of yours", path.display());
        Err(io::Error::new(ErrorKind::PermissionDenied, text))
    };
    let flags = os::FOLDER | os::NO_LINK;
    let folder = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOTDIR | Errno::LOOP)) => {
            return wrong("is not a folder");
        }
        folder => folder?,
    };
    let found = folder.metadata()?;
    if found.uid() != os::user_id() {
        return wrong(&format!("belongs to user {}", found.uid()));
    }
    if found.mode() & 0o077 != 0 {
        return wrong(&format!("has mode {:o}: others can enter it", found.mode() & 0o777));
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn name() -> String {
        format!("tripmeter-{}", os::user_id())
    }

    #[test]
    fn it_is_the_same_for_all_and_goes_when_it_is_empty() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (Private::below(place.path()).unwrap(), Private::below(place.path()).unwrap());
        first.file("lease").unwrap();
        assert!(second.at("lease").exists());
        let path = place.path().join(name());
        assert_eq!((second.shown("lease"), first.names()), (path.join("lease"), vec!["lease".to_owned()]));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        drop(first);
        assert!(path.exists());
        fs::remove_file(second.at("lease")).unwrap();
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn it_is_in_the_runtime_folder_if_that_is_of_this_user_alone() {
        let (runtime, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let shown = |runtime: &Path| Private::open_in(runtime, place.path()).unwrap().shown("lease");
        assert_eq!(runtime_folder(Some(runtime.path().into())), runtime.path());
        assert_eq!(runtime_folder(None), Path::new(&format!("/run/user/{}", os::user_id())));
        let set_mode = |mode| fs::set_permissions(runtime.path(), fs::Permissions::from_mode(mode)).unwrap();
        set_mode(0o700);
        assert_eq!(shown(runtime.path()), runtime.path().join("tripmeter/lease"));
        set_mode(0o755);
        let below = place.path().join(name()).join("lease");
        let others = [runtime.path(), Path::new(""), Path::new("relative"), &place.path().join("missing")].map(shown);
        assert!(others.iter().all(|other| *other == below), "{others:?}");
    }

    #[test]
    fn a_folder_that_goes_meanwhile_is_made_again_and_no_other() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(name());
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = fs::remove_dir(&path);
                }
            });
            for _ in 0..2000 {
                match Private::below(place.path()) {
                    Ok(private) => assert_eq!(private.path, path),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                }
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn what_stands_in_its_place_is_left_and_does_not_block() {
        let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open = place.path().join(name());
        let make_open = |path: &Path| {
            fs::create_dir(path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        };
        let make_link = |path: &Path| symlink(elsewhere.path(), path).unwrap();
        let make_file = |path: &Path| fs::write(path, "x").unwrap();
        let makes: [&dyn Fn(&Path); 3] = [&make_open, &make_link, &make_file];
        for make in makes {
            make(&open);
            let (first, second) = (Private::below(place.path()).unwrap(), Private::below(place.path()).unwrap());
            first.file("lease").unwrap();
            assert!(second.at("lease").exists() && fs::read_dir(elsewhere.path()).unwrap().next().is_none());
            fs::remove_file(first.at("lease")).unwrap();
            drop((first, second));
            let third = Private::below(place.path()).unwrap();
            third.file("lease").unwrap();
            let _ = fs::remove_dir(&open).or_else(|_| fs::remove_file(&open));
            assert!(Private::below(place.path()).unwrap().at("lease").exists(), "others still use the other folder");
            make(&open);
            fs::remove_file(third.at("lease")).unwrap();
            drop(third);
            let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert_eq!(left, std::slice::from_ref(&open));
            let _ = fs::remove_dir(&open).or_else(|_| fs::remove_file(&open));
        }
    }

    #[test]
    fn a_link_or_a_pipe_in_it_is_not_opened() {
        let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let private = Private::below(place.path()).unwrap();
        symlink(elsewhere.path().join("made"), private.at("link")).unwrap();
        os::make_fifo(&private.at("pipe")).unwrap();
        assert!(private.file("link").is_err() && private.file("pipe").is_err());
        assert!(!elsewhere.path().join("made").exists());
    }
}
