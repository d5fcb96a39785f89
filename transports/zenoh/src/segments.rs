//! Shared memory of zenoh, which has random names. It is recorded, so that the host can remove it after a kill, and
//! created while no other process of ours removes leftovers.
#![expect(unsafe_code, reason = "memory that is lent or shared")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};
use tripmeter_abi::{Error, Result, panicked};

const PLACE: &str = "/dev/shm";

/// Lock that keeps other processes of ours from creating zenoh's shared memory, and from ending.
///
/// Every process that uses zenoh's shared memory removes, at start and end, all of it that nobody has locked. This
/// includes memory that another process has created and is about to lock. A peer that fails to open it loses every
/// message.
pub(crate) struct Turn(Option<File>);

impl Turn {
    /// Waits for the lock, at most 2 s: its holder may hang.
    pub(crate) fn wait() -> Self {
        const PATIENCE: Duration = Duration::from_secs(2);
        let begin = Instant::now();
        let Ok(folder) = File::open(PLACE) else { return Self(None) };
        while folder.try_lock().is_err() {
            if begin.elapsed() > PATIENCE {
                return Self(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Self(Some(folder))
    }

    /// Holds the lock until the process ends.
    pub(crate) fn keep(mut self) {
        std::mem::forget(self.0.take());
    }
}

/// Free bytes of shared memory. Fails if the system does not report them.
pub(crate) fn free_bytes() -> Result<u64> {
    // SAFETY: all fields of the block are numbers, for which zero is a value.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is NUL-terminated and the block is writable.
    if unsafe { libc::statvfs(c"/dev/shm".as_ptr(), &raw mut found) } != 0 {
        return Err(Error::last_os("asking for the free space of /dev/shm"));
    }
    Ok(found.f_bavail * found.f_frsize)
}

/// Creates shared memory by `work`, under the lock, and records it, before the peers connect, which may never
/// happen. zenoh removes parts that it could not complete, as nobody maps them. Fails with the space left; also if
/// zenoh panics, as it does without space for its tables.
pub(crate) fn make<T>(scratch: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let turn = Turn::wait();
    let made = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::failed(panicked("while it made shared memory, zenoh", &*panic))))
        .map_err(|error| {
            let free = free_bytes().map_or_else(|_| "?".to_owned(), |bytes| bytes.to_string());
            Error::new(error.status, format!("{}: {free} bytes are free in {PLACE}", error.message))
        });
    // Without the lock, the cleanup could remove memory that another process is about to lock.
    if made.is_err() && turn.0.is_some() {
        zenoh::shm::cleanup_orphaned_shm_segments();
    }
    // A removal by another process is found when the peers have connected.
    let _ = note(scratch);
    made
}

/// Inode and name of zenoh's memory in a line of maps, and true if its name was removed.
fn mapped(line: &str) -> Option<(String, bool)> {
    let (front, name) = line.split_once("/dev/shm/")?;
    let inode = front.split_whitespace().nth(4)?;
    let (name, is_gone) = name.strip_suffix(" (deleted)").map_or((name, false), |name| (name, true));
    name.ends_with(".zenoh").then(|| (format!("{inode} {name}"), is_gone))
}

/// Adds zenoh's memory that this process maps to the file `shared-memory` in the scratch folder, as lines `INODE NAME`.
///
/// All of it is this process's own or its only peer's; repeated lines do no harm. Fails if another process has removed
/// some, so that peers cannot open it.
pub(crate) fn note(scratch: &Path) -> Result<()> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let (gone, found): (BTreeSet<_>, BTreeSet<_>) = maps.lines().filter_map(mapped).partition(|(_, is_gone)| *is_gone);
    let text: String = found.iter().map(|(line, _)| format!("{line}\n")).collect();
    if let Ok(mut file) = File::options().create(true).append(true).open(scratch.join("shared-memory")) {
        // Without these lines, only the cleanup after a kill is incomplete.
        let _ = file.write_all(text.as_bytes());
    }
    gone.first().map_or(Ok(()), |(line, _)| {
        let name = line.split_once(' ').map_or("", |(_, name)| name);
        Err(Error::failed(format!(
            "another process that uses zenoh removed {PLACE}/{name} of this one as left over; try again, or end that process"
        )))
    })
}
