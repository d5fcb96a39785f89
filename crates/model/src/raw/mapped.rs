//! A regular file in memory as the page cache has it, piece by piece: nothing is copied.
//!
//! Where it became shorter meanwhile, or the disk fails, the kernel sends a signal to the thread that reads there. It then
//! finds zeros, which are in no row, and is told with [`Mapped::check`].

use memmap2::{Advice, Mmap, MmapOptions, UncheckedAdvice};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

/// Bytes that are made readable at once; a multiple of the size of large pages too.
const PIECE: usize = if cfg!(test) { 64 << 10 } else { 2 << 20 };
/// Where a page begins of whatever size processors have, but for large ones.
const LARGEST_PAGE: usize = 64 << 10;

/// What is said of a file that cannot be read to the end that it had.
pub fn changed() -> io::Error {
    io::Error::other("it became shorter meanwhile, or its disk failed")
}

/// A regular file from some place on.
pub struct Mapped {
    map: Mmap,
    /// Another thread would not find zeros: it stays with this one.
    here: PhantomData<*const u8>,
    /// Where in the file it starts.
    at: u64,
    /// What is used: before it there is nothing more, behind it nothing yet.
    used: Range<usize>,
}

impl Mapped {
    /// Maps a file from the piece on that has its byte `from`; also returns where that byte is. `None` if there is none, or
    /// the file cannot be mapped.
    pub fn of(file: &File, from: u64) -> Option<(Self, usize)> {
        if !handled() || READ_HERE.get().is_some() {
            return None;
        }
        let at = from / PIECE as u64 * PIECE as u64;
        let size = file.metadata().ok().filter(|metadata| metadata.len() > from)?.len();
        let length = usize::try_from(size - at).ok()?;
        // SAFETY: what can no longer be read are zeros: see `on_bus_error`. Whoever else writes to the file may make other rows
        // of it, but not memory of ours.
        let map = unsafe { MmapOptions::new().offset(at).len(length).map_copy_read_only(file) }.ok()?;
        READ_HERE.set(Some(Read { start: map.as_ptr().addr(), length, failed: false }));
        Some((Self { map, here: PhantomData, at, used: 0..0 }, (from - at) as usize))
    }

    /// All up to the end of the last piece.
    pub fn bytes(&self) -> &[u8] {
        &self.map[..self.used.end]
    }

    /// Fails if what was read is not what the file had.
    pub fn check(&self, file: &File) -> io::Result<()> {
        let shorter = file.metadata()?.len() < self.at + self.map.len() as u64;
        // What the signal handler wrote is read after all that may have called it.
        compiler_fence(Ordering::SeqCst);
        if shorter || READ_HERE.get().is_some_and(|read| read.failed) {
            return Err(changed());
        }
        Ok(())
    }

    /// Adds the next piece; what is before `needed` is not used again. False at the end.
    pub fn grow(&mut self, needed: usize) -> bool {
        let before = self.used.start..needed / PIECE * PIECE;
        let next = self.used.end..self.map.len().min(self.used.end + PIECE);
        self.used = before.end..next.end;
        // If it is refused, pages go later, or come one by one.
        if !before.is_empty() {
            // SAFETY: it is a part of the mapping, which nobody writes to: it is read from the file anew.
            let _ = unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, before.start, before.len()) };
        }
        if !next.is_empty() {
            let _ = self.map.advise_range(Advice::PopulateRead, next.start, next.len());
        }
        !next.is_empty()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        READ_HERE.set(None);
    }
}

/// A mapping of a thread.
#[derive(Clone, Copy)]
struct Read {
    start: usize,
    length: usize,
    /// Whether a part of it could not be read.
    failed: bool,
}

thread_local! {
    /// The one mapping that this thread has; without a destructor, so that a signal handler may look at it.
    static READ_HERE: Cell<Option<Read>> = const { Cell::new(None) };
}

/// What was done about the signal before.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// Sees to it that reading a mapping goes on where the file ends; false if that is refused.
fn handled() -> bool {
    let install = || {
        // SAFETY: all zeros is a valid value: no flags, an empty set of signals.
        let (mut ours, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        ours.sa_sigaction = on_bus_error as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both are valid, and the handler has the signature that SA_SIGINFO asks for.
        (unsafe { libc::sigaction(libc::SIGBUS, &ours, &mut before) } == 0).then_some(before)
    };
    BEFORE.get_or_init(install).is_some()
}

/// Puts zeros in place of the rest of a mapping that cannot be read. For any other address, what was done before is done.
/// Only does what a signal handler may do: system calls, and looking at memory that is there.
extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes what is known of the signal.
    let address = unsafe { (*info).si_addr() }.addr();
    if let Some(read) = READ_HERE.get().filter(|read| (read.start..read.start + read.length).contains(&address)) {
        let from = address - (address - read.start) % LARGEST_PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let length = read.start + read.length - from;
        // SAFETY: it replaces only a part of this thread's mapping of a file.
        let zeros = unsafe { libc::mmap(from as *mut libc::c_void, length, libc::PROT_READ, flags, -1, 0) };
        if zeros != libc::MAP_FAILED {
            READ_HERE.set(Some(Read { failed: true, ..read }));
            return;
        }
    }
    if let Some(Some(before)) = BEFORE.get() {
        // SAFETY: it was the action for this signal before. The same instruction fails again, and it is taken.
        unsafe { libc::sigaction(libc::SIGBUS, before, null_mut()) };
    }
}
