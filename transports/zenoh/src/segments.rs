//! The shared memory that zenoh makes for us, which has random names: noted, so that the host can remove it after a kill, and
//! made while no other process of ours tidies up.
#![expect(unsafe_code, reason = "memory that is lent or shared")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};
use tripmeter_abi::{Error, Result, panicked};

const PLACE: &str = "/dev/shm";

/// As long as this is there, no other process of ours makes shared memory of zenoh's or ends.
///
/// Every process that uses zenoh's shared memory removes, when it begins and when it ends, all of it that nobody has locked:
/// also what another process has made and is about to lock. Whoever opens that later, in vain, loses every message.
pub(crate) struct Turn(Option<File>);

impl Turn {
    /// Waits for it, but not long: whoever has it may hang.
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

    /// Keeps it until the process has ended.
    pub(crate) fn keep(mut self) {
        std::mem::forget(self.0.take());
    }
}

/// Bytes that are free for shared memory.
///
/// # Errors
/// If the system does not tell.
pub(crate) fn free_bytes() -> Result<u64> {
    // SAFETY: all fields of the block are numbers, for which zero is a value.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is NUL-terminated and the block is writable.
    if unsafe { libc::statvfs(c"/dev/shm".as_ptr(), &raw mut found) } != 0 {
        return Err(Error::last_os("asking for the free space of /dev/shm"));
    }
    Ok(found.f_bavail * found.f_frsize)
}

/// What `work` makes, in a turn; noted before the peers have connected, which they may never do. What zenoh could only make
/// in part has a name, and nobody maps it: zenoh removes it.
///
/// # Errors
/// If it fails, with the space that is left; also if zenoh panics, as it does without space for its tables.
pub(crate) fn make<T>(scratch: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let turn = Turn::wait();
    let made = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::failed(panicked("while it made shared memory, zenoh", &*panic))))
        .map_err(|error| {
            let free = free_bytes().map_or_else(|_| "?".to_owned(), |bytes| bytes.to_string());
            Error::new(error.status, format!("{}: {free} bytes are free in {PLACE}", error.message))
        });
    // Out of turn it could be what another process is about to lock.
    if made.is_err() && turn.0.is_some() {
        zenoh::shm::cleanup_orphaned_shm_segments();
    }
    // What another process has removed is found when the peers have connected.
    let _ = note(scratch);
    made
}

/// What `line` of maps maps of zenoh's, and whether its name is gone.
fn mapped(line: &str) -> Option<(String, bool)> {
    let (front, name) = line.split_once("/dev/shm/")?;
    let inode = front.split_whitespace().nth(4)?;
    let (name, is_gone) = name.strip_suffix(" (deleted)").map_or((name, false), |name| (name, true));
    name.ends_with(".zenoh").then(|| (format!("{inode} {name}"), is_gone))
}

/// Adds what this process maps of zenoh's to the file `shared-memory` in the scratch folder, as lines `INODE NAME`.
///
/// It is connected to its peer only, so all that it maps is its own or its peer's. What is noted twice does no harm.
///
/// # Errors
/// If some of it was removed by another process, so that peers cannot open it.
pub(crate) fn note(scratch: &Path) -> Result<()> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let (gone, found): (BTreeSet<_>, BTreeSet<_>) = maps.lines().filter_map(mapped).partition(|(_, is_gone)| *is_gone);
    let text: String = found.iter().map(|(line, _)| format!("{line}\n")).collect();
    if let Ok(mut file) = File::options().create(true).append(true).open(scratch.join("shared-memory")) {
        // Without the note nothing is lost but tidiness after a kill.
        let _ = file.write_all(text.as_bytes());
    }
    gone.first().map_or(Ok(()), |(line, _)| {
        let name = line.split_once(' ').map_or("", |(_, name)| name);
        Err(Error::failed(format!(
            "another process that uses zenoh removed {PLACE}/{name} of this one as left over; try again, or end that process"
        )))
    })
}
