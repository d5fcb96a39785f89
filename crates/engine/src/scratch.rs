//! Files and shared memory that a run creates outside its results folder, and their removal, even after a kill.
//!
//! Each name begins with the identity of the process that owns it. So the files of a dead owner are found by name, and
//! nothing else is ever removed.

use crate::os::{self, ProcessIdentity};
use std::cell::LazyCell;
use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SHARED_MEMORY: &str = "/dev/shm";
/// Folders where systems create files outside the scratch folder; some use /tmp whatever TMPDIR is.
const PLACES: [&str; 2] = [SHARED_MEMORY, "/tmp"];
/// File in a scratch folder with names of message queues, one a line: queues cannot be listed everywhere.
const QUEUES: &str = "queues";
/// File in a scratch folder that lists System V queues, which have no names, as lines `ID CTIME`.
const SYSTEM_V_QUEUES: &str = "sysv-queues";
/// File in a scratch folder that lists shared memory named by the system itself, as lines `INODE NAME`.
const FOREIGN: &str = "shared-memory";
/// Longest part of a list that is read, in bytes.
const MOST_LIST_BYTES: u64 = 1 << 20;

/// Scratch folder of a run. Dropping it removes it, and everything named after it.
#[derive(Debug)]
pub struct ScratchFolder {
    identity: ProcessIdentity,
    folder: PathBuf,
    parts: u32,
}

/// Part of a scratch folder for one sub-experiment.
#[derive(Clone, Debug)]
pub struct Part {
    pub run_id: String,
    pub folder: PathBuf,
}

const SOCKET_PATH_BYTES: usize = 107;
/// Bytes of a socket's path that are reserved for its name inside the scratch folder.
const NAME_BYTES: usize = 32;

/// Identity of this process and a random number: at most 48 characters, as the contract with transports requires.
/// Without the number, others could read the identity in `/proc`, and take its names first.
pub fn fresh_run_id() -> String {
    // The hash is keyed by random numbers of the kernel.
    let random = RandomState::new().hash_one(0) as u32;
    format!("{}-{random:08x}", ProcessIdentity::own())
}

/// Creates a temporary folder for this user only; dropping it removes it.
pub fn temporary_folder(prefix: &str) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(prefix).permissions(fs::Permissions::from_mode(0o700)).tempdir()
}

impl ScratchFolder {
    /// Creates a scratch folder for this user only. Its name is random, so that nobody else can take it first.
    pub fn create() -> io::Result<Self> {
        // Workers have another working directory.
        let (identity, place) = (ProcessIdentity::own(), std::path::absolute(std::env::temp_dir())?);
        let folder = place.join(fresh_run_id());
        let (bytes, most) = (folder.as_os_str().len(), SOCKET_PATH_BYTES - NAME_BYTES);
        if bytes > most {
            return Err(io::Error::other(format!(
                "its path is too long for sockets: {bytes} bytes with our folder's name (limit {most})"
            )));
        }
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self { identity, folder, parts: 0 })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn part(&mut self) -> io::Result<Part> {
        self.parts += 1;
        let part = Part { run_id: fresh_run_id(), folder: self.folder.join(self.parts.to_string()) };
        fs::DirBuilder::new().mode(0o700).create(&part.folder)?;
        Ok(part)
    }
}

impl Part {
    /// Revokes the access of other users to the shared memory of this part, which a system may open to everybody.
    /// Returns true if any was open.
    pub fn close(&self) -> bool {
        let mut was_open = false;
        let listed = list(&self.folder.join(FOREIGN));
        let listed = listed.lines().filter_map(|line| foreign(line, true));
        let names = os::names_in(Path::new(SHARED_MEMORY));
        let named = names.iter().filter(|name| self.names(name)).map(|name| Path::new(SHARED_MEMORY).join(name));
        for path in listed.chain(named) {
            // An error means that the file has gone.
            was_open |= close_to_others(&path).unwrap_or(false);
        }
        was_open
    }

    fn names(&self, name: &str) -> bool {
        begins_with(name, &self.run_id)
    }

    /// Removes the folder, and everything named after it.
    pub fn remove(&self) {
        remove(&self.folder, |name| self.names(name));
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        remove(&self.folder, |name| {
            ProcessIdentity::parse_prefix(name).is_some_and(|(owner, _)| owner == self.identity)
        });
    }
}

/// Removes everything that dead processes of this user left behind; returns the names.
pub fn remove_leftovers() -> Vec<String> {
    let owner = |name: &str| ProcessIdentity::parse_prefix(name).map(|(owner, _)| owner);
    let is_left = |name: &str| owner(name).is_some_and(|owner| owner.is_dead());
    let place = std::env::temp_dir();
    let is_folder = |name: &String| is_own(&place.join(name)).is_some_and(|found| found.is_dir());
    let mut removed = os::names_in(&place);
    removed.retain(|name| is_left(name) && is_folder(name));
    removed.iter().for_each(|folder| remove_listed(&place.join(folder), is_left, false));
    for folder in &removed {
        remove_own(&place.join(folder));
    }
    // In the list, a folder stands for all names of its owner.
    let others = remove_names(is_left).into_iter().filter(|name| removed.iter().all(|one| owner(one) != owner(name)));
    let others: Vec<String> = others.collect();
    removed.extend(others);
    removed
}

/// Revokes the access of other users to a file of this user; returns true if there was any.
fn close_to_others(path: &Path) -> io::Result<bool> {
    // Checked and changed by descriptor, because somebody else may take the name. `O_PATH` works even if the owner may
    // not read the file.
    let file = fs::File::options().read(true).custom_flags(os::NO_LINK | os::ONLY_A_PATH).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != os::user_id() || found.mode() & 0o077 == 0 {
        return Ok(false);
    }
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::set_permissions(opened, fs::Permissions::from_mode(found.mode() & 0o700))?;
    Ok(true)
}

/// True if a name begins with `prefix` and no further digit.
fn begins_with(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Removes all names with `is_ours` from [`PLACES`], and returns them.
fn remove_names(is_ours: impl Fn(&str) -> bool) -> Vec<String> {
    let mut removed = Vec::new();
    for place in PLACES.map(Path::new) {
        for name in os::names_in(place).into_iter().filter(|name| is_ours(name)) {
            if remove_own(&place.join(&name)) {
                removed.push(name);
            }
        }
    }
    removed
}

/// Removes a scratch folder, the queues and shared memory that it lists, and all names with `is_ours`.
fn remove(folder: &Path, is_ours: impl Fn(&str) -> bool) {
    remove_listed(folder, &is_ours, true);
    remove_names(is_ours);
    remove_own(folder);
}

/// Removes the message queues and shared memory that a scratch folder lists. `is_now` is true at the end of the run
/// that owns the folder.
fn remove_listed(folder: &Path, is_ours: impl Fn(&str) -> bool, is_now: bool) {
    for part in [folder.to_path_buf()].into_iter().chain(os::names_in(folder).iter().map(|name| folder.join(name))) {
        if is_own(&part).is_none_or(|found| !found.is_dir()) {
            continue;
        }
        for queue in list(&part.join(QUEUES)).lines().filter(|queue| queue.strip_prefix('/').is_some_and(&is_ours)) {
            os::unlink_queue(queue);
        }
        list(&part.join(SYSTEM_V_QUEUES)).lines().for_each(os::remove_queue);
        let listed = list(&part.join(FOREIGN));
        // Our processes have ended: if memory with an `own` name is still mapped, a later process created it.
        let mapped = LazyCell::new(|| os::mapped_below(Path::new(SHARED_MEMORY)));
        let is_taken = |line: &str, path: &PathBuf| line.starts_with("own ") && mapped.contains(path);
        for line in listed.lines() {
            if let Some(path) = foreign(line, is_now).filter(|path| !is_taken(line, path)) {
                remove_own(&path);
            }
        }
    }
}

/// Text of a list in a scratch folder, up to its limit; empty unless it is a file of this user.
fn list(file: &Path) -> String {
    let mut text = String::new();
    let opened = OpenOptions::new().read(true).custom_flags(os::NO_LINK | os::NO_WAIT).open(file);
    if let Ok(opened) = opened
        && opened.metadata().is_ok_and(|found| found.is_file() && found.uid() == os::user_id())
    {
        // An unreadable file has no names.
        let _ = opened.take(MOST_LIST_BYTES).read_to_string(&mut text);
    }
    text
}

/// Path of the shared memory in a line `INODE NAME`, unless the name now belongs to another object. A name in a line
/// `own NAME` belongs to the run until its end (`is_now`), whatever its inode is.
fn foreign(line: &str, is_now: bool) -> Option<PathBuf> {
    let (inode, name) = line.split_once(' ').filter(|(_, name)| !name.contains('/') && !name.starts_with('.'))?;
    let path = Path::new(SHARED_MEMORY).join(name);
    let is_it = is_own(&path)
        .is_some_and(|found| found.is_file() && (found.ino().to_string() == inode || is_now && inode == "own"));
    is_it.then_some(path)
}

/// Metadata of a file of this user; links are not followed.
fn is_own(path: &Path) -> Option<fs::Metadata> {
    fs::symlink_metadata(path).ok().filter(|found| found.uid() == os::user_id())
}

/// Removes a file or folder of this user; returns false if it belongs to somebody else. A failed removal is ignored:
/// another process removed it.
fn remove_own(path: &Path) -> bool {
    let Some(found) = is_own(path) else { return false };
    let _ = if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn parts_and_what_is_named_after_them_go_and_nothing_else_does() {
        let mut scratch = ScratchFolder::create().unwrap();
        let (first, second) = (scratch.part().unwrap(), scratch.part().unwrap());
        let shared = |name: &str| Path::new(SHARED_MEMORY).join(name);
        let (ours, other) = (shared(&format!("{}-x", first.run_id)), shared(&format!("{}0-x", first.run_id)));
        fs::write(&ours, "x").unwrap();
        fs::write(&other, "x").unwrap();
        // Shared memory with a foreign name is identified by its inode.
        let foreign =
            ["noted", "replaced", "again"].map(|name| shared(&format!("foreign-{}-{name}", std::process::id())));
        foreign.iter().for_each(|path| fs::write(path, "x").unwrap());
        let inode = fs::metadata(&foreign[0]).unwrap().ino();
        let lines = foreign.each_ref().map(|path| format!("{inode} {}\n", path.file_name().unwrap().display()));
        let own = format!("own {}\n", foreign[2].file_name().unwrap().display());
        assert_eq!(
            (super::foreign(own.trim(), false), super::foreign(own.trim(), true)),
            (None, Some(foreign[2].clone()))
        );
        // An `own` name that a process has mapped.
        let mapped = shared(&format!("foreign-{}-mapped", std::process::id()));
        fs::write(&mapped, "x").unwrap();
        let opened = fs::File::options().read(true).write(true).open(&mapped).unwrap();
        let memory = memmap2::MmapOptions::new().len(1).map_raw(&opened).unwrap();
        let own = own + &format!("own {}\n", mapped.file_name().unwrap().display());
        fs::write(first.folder.join(FOREIGN), lines.concat() + &own).unwrap();
        let all = [&ours, &other, &foreign[0], &foreign[1]];
        all.iter().for_each(|path| fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap());
        // The owner may not read the file, but may change its mode.
        fs::set_permissions(&foreign[0], fs::Permissions::from_mode(0o266)).unwrap();
        assert!(first.close() && !first.close(), "what is closed is not open any more");
        let modes = all.map(|path| fs::metadata(path).unwrap().mode() & 0o777);
        assert_eq!(modes, [0o600, 0o666, 0o200, 0o666], "only what is of the part is closed");
        first.remove();
        assert!(!ours.exists() && !first.folder.exists());
        assert!(!foreign[0].exists() && foreign[1].exists() && !foreign[2].exists() && mapped.exists());
        drop(memory);
        [&foreign[1], &mapped].iter().for_each(|path| fs::remove_file(path).unwrap());
        assert!(other.exists() && second.folder.exists());
        let folder = scratch.folder().to_path_buf();
        drop(scratch);
        assert!(!other.exists() && !folder.exists());
    }

    #[test]
    fn names_that_can_be_taken_first_are_not_used() {
        // Others read the identity in /proc, and the name of the scratch folder in the temporary folder.
        let taken = std::env::temp_dir().join(ProcessIdentity::own().to_string());
        fs::create_dir(&taken).unwrap();
        let scratch = ScratchFolder::create();
        fs::remove_dir(&taken).unwrap();
        let mut scratch = scratch.unwrap();
        let folder = scratch.folder().file_name().unwrap().to_str().unwrap().to_owned();
        let (first, second) = (scratch.part().unwrap().run_id, scratch.part().unwrap().run_id);
        assert!(first != second && !first.starts_with(&folder), "{folder}: {first}, {second}");
        assert!(first.len() <= 48, "{first}");
    }

    #[test]
    fn only_dead_owners_leave_leftovers() {
        let own = ProcessIdentity::own().to_string();
        let dead = own.rsplit_once('-').map(|(front, _)| format!("{front}-1-9-left")).unwrap();
        // A child is the living owner: this process's names are removed when one of its scratch folders is dropped.
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let alive = ProcessIdentity::from_pid(child.id()).map(|identity| format!("{identity}-9-alive"));
        let [dead_file, alive_file] = [&dead, alive.as_ref().unwrap()].map(|name| Path::new(SHARED_MEMORY).join(name));
        fs::write(&alive_file, "x").unwrap();
        // Another process may remove the file first, so that its call returns the name instead.
        let start = Instant::now();
        let is_ours = std::iter::repeat_with(|| {
            fs::write(&dead_file, "x").unwrap();
            remove_leftovers().contains(&dead)
        });
        let is_removed = is_ours.take_while(|_| start.elapsed() < Duration::from_secs(60)).any(|is_ours| is_ours);
        let is_kept = alive_file.exists();
        child.kill().unwrap();
        child.wait().unwrap();
        let _ = fs::remove_file(alive_file);
        assert!(is_removed && !dead_file.exists() && is_kept);
    }

    #[test]
    fn nobody_else_enters_a_temporary_folder() {
        // The default umask would let others read it.
        let folder = temporary_folder("tripmeter-test").unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
    }

    /// Name whose owner is dead, and that no other test uses.
    fn dead(name: &str) -> String {
        let own = ProcessIdentity::own().to_string();
        own.rsplit_once('-').map(|(front, _)| format!("{front}-1-{name}")).unwrap()
    }

    #[test]
    fn lists_that_are_no_files_or_endless_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        os::make_fifo(&folder.path().join("pipe")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("link")).unwrap();
        let long = folder.path().join("long");
        fs::File::create(&long).unwrap().set_len(MOST_LIST_BYTES * 1000).unwrap();
        let bytes = ["pipe", "link", "missing", "long"].map(|name| list(&folder.path().join(name)).len() as u64);
        assert_eq!(bytes, [0, 0, 0, MOST_LIST_BYTES]);
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("kept"), "x").unwrap();
        let shared = |name: &str| Path::new(SHARED_MEMORY).join(name);
        let link = shared(&dead("link"));
        std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
        remove_leftovers();
        assert!(fs::symlink_metadata(&link).is_err() && elsewhere.path().join("kept").exists());
    }
}
