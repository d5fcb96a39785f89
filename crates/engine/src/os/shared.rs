//! Pages of memory.
#![expect(unsafe_code, reason = "system calls")]

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use procfs::{Current, Meminfo};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, memfd_create};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicU64;

pub(crate) const PAGE: usize = 4096;

/// Where another process of this user finds a memory file, and which one it is: a process number means another process in
/// another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFile {
    pid: u32,
    descriptor: i32,
    device: u64,
    inode: u64,
}

impl MemoryFile {
    /// This process's own.
    fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        let (pid, descriptor) = (std::process::id(), file.as_raw_fd());
        Ok(Self { pid, descriptor, device: found.dev(), inode: found.ino() })
    }

    fn is(&self, found: &Metadata) -> bool {
        (found.dev(), found.ino()) == (self.device, self.inode)
    }

    /// The file; nothing else is opened, whatever has its place here.
    fn open(&self) -> io::Result<File> {
        let path = format!("/proc/{}/fd/{}", self.pid, self.descriptor);
        let other = || {
            io::Error::other(format!(
                "'{path}' is not the leader's memory; leader and follower must see the same processes (PID namespace)"
            ))
        };
        match fs::metadata(&path) {
            Ok(found) if self.is(&found) => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Err(other()),
        }
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        if self.is(&file.metadata()?) { Ok(file) } else { Err(other()) }
    }
}

/// A memory file that keeps its size: what maps it can rely on it.
fn memory_file(name: &str, bytes: u64) -> io::Result<File> {
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.set_len(bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// # Errors
/// If it is no memory file of ours, or has fewer bytes.
fn check_size(file: &File, bytes: u64) -> io::Result<()> {
    if !fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
        return Err(io::Error::other("it is no memory file that keeps its size"));
    }
    if file.metadata()?.len() < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Memory that two processes have, one after the other: what one has written in it stays if that one is killed.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    map: MmapMut,
    file: File,
    place: MemoryFile,
}

impl SharedMemory {
    /// So many bytes of zeros.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn create(bytes: u64) -> io::Result<Self> {
        // A memory file has no limit of its own: the kernel would end processes before it said no.
        let available = Meminfo::current().ok().and_then(|memory| memory.mem_available).unwrap_or(u64::MAX);
        if bytes > available {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let created = Self::map(memory_file("tripmeter-arrivals", bytes)?, 0..bytes, false)?;
        if bytes > 0 {
            fallocate(&created.file, FallocateFlags::empty(), 0, bytes)?;
        }
        Ok(created)
    }

    /// Bytes of another process's memory.
    ///
    /// # Errors
    /// If its owner has gone or cannot be seen, or it has fewer.
    pub fn open(place: MemoryFile, bytes: Range<u64>) -> io::Result<Self> {
        let file = place.open()?;
        check_size(&file, bytes.end)?;
        Self::map(file, bytes, true)
    }

    fn map(file: File, bytes: Range<u64>, is_there: bool) -> io::Result<Self> {
        let room = usize::try_from(bytes.end.saturating_sub(bytes.start)).map_err(io::Error::other)?;
        if room == 0 {
            return Ok(Self { map: MmapMut::map_anon(PAGE)?, place: MemoryFile::of(&file)?, file });
        }
        let mut options = MmapOptions::new();
        options.offset(bytes.start).len(room);
        if is_there {
            options.populate();
        }
        // SAFETY: the file's seals keep its size, and whoever has it writes while the other does nothing with it.
        let map = unsafe { options.map_mut(&file)? };
        Ok(Self { map, place: MemoryFile::of(&file)?, file })
    }

    /// Where another process finds it.
    pub fn place(&self) -> MemoryFile {
        self.place
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
    place: MemoryFile,
}

impl SharedPage {
    /// A new page, of zeros.
    ///
    /// # Errors
    /// If the kernel has no memory file for us.
    pub fn create() -> io::Result<Self> {
        Self::map(memory_file("tripmeter-handover", PAGE as u64)?)
    }

    /// The page of another process.
    ///
    /// # Errors
    /// If its owner has gone or cannot be seen.
    pub fn open(place: MemoryFile) -> io::Result<Self> {
        Self::map(place.open()?)
    }

    /// Where another process finds it.
    pub fn place(&self) -> MemoryFile {
        self.place
    }

    /// The page of a memory file that has one.
    ///
    /// # Errors
    /// If it is none of ours, or cannot be mapped.
    pub fn map(file: File) -> io::Result<Self> {
        check_size(&file, PAGE as u64)?;
        Ok(Self { map: MmapOptions::new().len(PAGE).populate().map_raw(&file)?, place: MemoryFile::of(&file)?, file })
    }

    /// Its words.
    pub fn words(&self) -> &[AtomicU64; PAGE / size_of::<AtomicU64>()] {
        // SAFETY: the mapping is valid, aligned and as large as that for as long as `self` lives, and any bytes are words.
        unsafe { &*self.map.as_ptr().cast() }
    }
}

/// Makes the CPUs look every page up again. They note a touch only then, and the kernel leaves what they remember
/// when it forgets the notes. Unmapping more pages than it cares to name one by one makes it drop everything.
pub(crate) fn forget_translations() {
    let Ok(mut memory) = MmapMut::map_anon(1 << 20) else { return };
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    std::hint::black_box(&memory);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_memory_file_is_opened() {
        let page = SharedPage::create().unwrap();
        let place = page.place();
        let other = SharedPage::open(place).unwrap();
        other.words()[0].store(7, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(page.words()[0].load(std::sync::atomic::Ordering::Relaxed), 7);
        // What a process in another namespace has under that number.
        let private = tempfile::tempfile().unwrap();
        private.set_len(PAGE as u64).unwrap();
        for wrong in [
            MemoryFile { descriptor: private.as_raw_fd(), ..place },
            MemoryFile { inode: place.inode + 1, ..place },
            MemoryFile::of(&private).unwrap(),
        ] {
            assert!(SharedPage::open(wrong).is_err(), "{wrong:?}");
            assert!(SharedMemory::open(wrong, 0..PAGE as u64).is_err(), "{wrong:?}");
        }
        assert!(private.metadata().is_ok_and(|found| found.len() == PAGE as u64));
    }

    #[test]
    fn a_memory_file_keeps_its_size() {
        let memory = SharedMemory::create(100).unwrap();
        assert!(memory.file.set_len(10).is_err() && memory.file.set_len(1000).is_err());
        let place = memory.place();
        assert!(SharedMemory::open(place, 0..100).is_ok() && SharedMemory::open(place, 0..101).is_err());
    }
}
