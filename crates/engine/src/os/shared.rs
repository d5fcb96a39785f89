//! Pages of memory.

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use procfs::{Current, Meminfo};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

pub(crate) const PAGE: usize = 4096;

/// Memory that two processes have, one after the other: what one has written in it stays if that one is killed.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    map: MmapMut,
    file: File,
}

impl SharedMemory {
    /// So many bytes of zeros.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn create(bytes: u64) -> io::Result<Self> {
        let file = File::from(memfd_create("tripmeter-arrivals", MemfdFlags::CLOEXEC)?);
        file.set_len(bytes)?;
        let created = Self::map(file, 0..bytes, false)?;
        // A memory file has no limit of its own: the kernel would end processes before it said no.
        let available = Meminfo::current().ok().and_then(|memory| memory.mem_available).unwrap_or(u64::MAX);
        if bytes > available {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        if bytes > 0 {
            fallocate(&created.file, FallocateFlags::empty(), 0, bytes)?;
        }
        Ok(created)
    }

    /// Bytes of the memory at that path.
    ///
    /// # Errors
    /// If its owner has gone, or it has fewer.
    pub fn open(path: &Path, bytes: Range<u64>) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() < bytes.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::map(file, bytes, true)
    }

    fn map(file: File, bytes: Range<u64>, is_there: bool) -> io::Result<Self> {
        let room = usize::try_from(bytes.end.saturating_sub(bytes.start)).map_err(io::Error::other)?;
        if room == 0 {
            return Ok(Self { map: MmapMut::map_anon(PAGE)?, file });
        }
        let mut options = MmapOptions::new();
        options.offset(bytes.start).len(room);
        if is_there {
            options.populate();
        }
        // SAFETY: the file is memory that no process shortens, and whoever has it writes while the other does nothing with it.
        let map = unsafe { options.map_mut(&file)? };
        Ok(Self { map, file })
    }

    /// Where a process of the same user finds it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Its bytes; the first is at the begin of a page.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

/// One page that several processes have mapped.
#[derive(Debug)]
pub(crate) struct SharedPage {
    map: MmapRaw,
    /// The memory file that has it.
    pub file: File,
}

impl SharedPage {
    /// A new page, of zeros.
    ///
    /// # Errors
    /// If the kernel has no memory file for us.
    pub fn create() -> io::Result<Self> {
        let file = File::from(memfd_create("tripmeter-handover", MemfdFlags::CLOEXEC)?);
        file.set_len(PAGE as u64)?;
        Self::map(file)
    }

    /// The page of a memory file that has one.
    ///
    /// # Errors
    /// If it cannot be mapped.
    pub fn map(file: File) -> io::Result<Self> {
        Ok(Self { map: MmapOptions::new().len(PAGE).populate().map_raw(&file)?, file })
    }

    /// Its words.
    pub fn words(&self) -> &[AtomicU64; PAGE / size_of::<AtomicU64>()] {
        // SAFETY: the mapping is valid, aligned and as large as that for as long as `self` lives, and any bytes are words.
        unsafe { &*self.map.as_ptr().cast() }
    }
}

/// Makes the processors look every page up again. They note a touch only then, and the kernel leaves what they remember
/// when it forgets the notes. Unmapping more pages than it cares to name one by one makes it drop everything.
pub(crate) fn forget_translations() {
    let Ok(mut memory) = MmapMut::map_anon(1 << 20) else { return };
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    std::hint::black_box(&memory);
}
