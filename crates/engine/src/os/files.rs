#![expect(unsafe_code, reason = "system calls")]

use super::process::user_id;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Flag of open(2) that refuses a link at the end of the path.
pub(crate) const NO_LINK: i32 = OFlags::NOFOLLOW.bits() as i32;
/// Flag of open(2) that does not wait, for example for a writer to a FIFO.
pub(crate) const NO_WAIT: i32 = OFlags::NONBLOCK.bits() as i32;
/// Flag of open(2) that gives access only to metadata.
pub(crate) const ONLY_A_PATH: i32 = OFlags::PATH.bits() as i32;
/// Mode bit of a folder whose entries only their owners can remove or rename.
const STICKY: u32 = Mode::SVTX.bits();
/// Flag of open(2) that refuses anything but a folder.
pub(crate) const FOLDER: i32 = OFlags::DIRECTORY.bits() as i32;

pub fn raise_file_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // A limit that cannot be raised stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

pub fn file_size_limit() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Takes or changes a lock on a file without waiting. False if another process holds a conflicting lock.
pub fn lock_file(file: &File, exclusive: bool) -> io::Result<bool> {
    // The standard library calls flock(2) on Linux, which converts a lock that is already held.
    match if exclusive { file.try_lock() } else { file.try_lock_shared() } {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Takes an exclusive lock, independent of [`lock_file`], without waiting. False if it is held. It ends when the file
/// is closed.
pub fn lock_file_to_start(file: &File) -> io::Result<bool> {
    // The standard library has only flock(2), which [`lock_file`] uses. Locks of rustix belong to the process, and end
    // when any descriptor of the file is closed.
    // SAFETY: all-zero is a valid lock description: the whole file, no process.
    let mut whole: libc::flock = unsafe { std::mem::zeroed() };
    whole.l_type = libc::F_WRLCK as libc::c_short;
    whole.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open and writable, and the description is valid.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &whole) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    let is_held = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES));
    if is_held { Ok(false) } else { Err(error) }
}

/// Total and free bytes of the file system of a folder; `None` if there is no such folder.
pub fn space(folder: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some((found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail))
}

/// Creates a FIFO that only this user can use.
pub fn make_fifo(file: &Path) -> io::Result<()> {
    Ok(rustix::fs::mkfifoat(CWD, file, Mode::RUSR | Mode::WUSR)?)
}

pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// User ID that stands for all users without an ID in this user namespace.
///
/// # Source
/// `/proc/sys/kernel/overflowuid`, by default.
const UNKNOWN_USER: u32 = 65534;

/// Reason not to treat a file or folder beside a program as a part of it: somebody can change it who could not replace
/// the program. `None` if it belongs to this user, to root, or to someone who can replace the program.
///
/// Both paths must have no links ([`fs::canonicalize`]), so that what is checked is what is used later.
pub fn stranger_at(path: &Path, program: &Path) -> io::Result<Option<String>> {
    let user = user_id();
    // Places where the program can be replaced. In a sticky folder such as /tmp, only the owner of an entry can. A
    // running program may have been replaced already.
    let places = program.ancestors().filter_map(|place| fs::symlink_metadata(place).ok());
    let places: Vec<_> = places.filter(|found| !found.is_dir() || found.mode() & STICKY == 0).collect();
    let is_owner = |owner| owner != UNKNOWN_USER && places.iter().any(|found| found.uid() == owner);
    let is_group = |group| places.iter().any(|found| found.gid() == group && found.mode() & 0o020 != 0);
    let is_everybodys = places.iter().any(|found| found.mode() & 0o002 != 0);
    // Whoever can write a folder above both can replace the program.
    for (depth, place) in path.ancestors().take_while(|place| !program.starts_with(place)).enumerate() {
        let found = fs::symlink_metadata(place)?;
        let (owner, group, mode) = (found.uid(), found.gid(), found.mode());
        let is_kept = depth > 0 && mode & STICKY != 0;
        // By convention, a group whose ID equals this user's has no other members.
        let is_of_group = mode & 0o020 != 0 && !is_group(group) && (owner, group) != (user, user);
        let why = if owner != user && owner != 0 && !is_owner(owner) {
            format!("belongs to user {owner}")
        } else if (is_of_group || (mode & 0o002 != 0 && !is_everybodys)) && !is_kept {
            format!("has mode {:o}: others can write it", mode & 0o7777)
        } else {
            continue;
        };
        return Ok(Some(format!("'{}' {why}", place.display())));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn what_others_can_have_put_beside_a_program_is_a_strangers() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (home, folder, below) = (place.join("bin"), place.join("transports"), place.join("transports/below"));
        let program = home.join("program");
        fs::create_dir(&home).unwrap();
        fs::write(&program, "").unwrap();
        assert!(stranger_at(&folder, &program).is_err());
        fs::create_dir_all(&below).unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let are_strangers = || [&folder, &below].map(|path| stranger_at(path, &program).unwrap().is_some());
        // Group or others may write, if they may write the program or its folder.
        let user = user_id();
        let is_private = fs::metadata(&folder).is_ok_and(|found| (found.uid(), found.gid()) == (user, user));
        for (of_home, of_program, mode, expected) in [
            (0o755, 0o755, 0o755, false),
            (0o755, 0o755, 0o775, !is_private),
            (0o755, 0o755, 0o777, true),
            (0o755, 0o755, 0o757, true),
            (0o755, 0o775, 0o775, false),
            (0o775, 0o755, 0o775, false),
            (0o755, 0o775, 0o777, true),
            (0o777, 0o755, 0o777, false),
            (0o1777, 0o755, 0o777, true),
        ] {
            set(&program, of_program);
            set(&home, of_home);
            set(&folder, mode);
            assert_eq!(are_strangers(), [expected; 2], "{of_home:o} {of_program:o} {mode:o}");
        }
        // In a sticky folder, only the entry itself counts.
        set(&folder, 0o1777);
        assert_eq!(are_strangers(), [true, false]);
        set(&folder, 0o755);
        // Only root can give a folder away. The program's owner may put files beside it.
        if chown(&folder, Some(12345), None).is_ok() && user != 12345 {
            let told = format!("'{}' belongs to user 12345", folder.display());
            let found = [&folder, &below].map(|path| stranger_at(path, &program).unwrap());
            assert_eq!(found, [Some(told.clone()), Some(told)]);
            // A sticky folder's owner cannot replace the program.
            for (owner, mode, expected) in [(12345, 0o1777, true), (12345, 0o755, false), (UNKNOWN_USER, 0o755, true)] {
                [&home, &folder].iter().for_each(|path| chown(path, Some(owner), None).unwrap());
                set(&home, mode);
                assert_eq!(are_strangers(), [expected; 2], "{owner} {mode:o}");
            }
        }
    }
}
