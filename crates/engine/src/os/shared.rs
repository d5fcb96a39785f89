//! Memory that processes share.
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

/// Location and identity of a memory file, for other processes of this user. The identity is checked, as PIDs differ
/// between namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFile {
    pid: u32,
    descriptor: i32,
    device: u64,
    inode: u64,
}

impl MemoryFile {
    fn from_file(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        let (pid, descriptor) = (std::process::id(), file.as_raw_fd());
        Ok(Self { pid, descriptor, device: found.dev(), inode: found.ino() })
    }

    fn is(&self, found: &Metadata) -> bool {
        (found.dev(), found.ino()) == (self.device, self.inode)
    }

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

/// Creates a memory file of sealed size, so that its mappings stay valid.
fn memory_file(name: &str, bytes: u64) -> io::Result<File> {
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.set_len(bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Checks that a memory file has a sealed size of at least `bytes`.
fn check_size(file: &File, bytes: u64) -> io::Result<()> {
    if !fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
        return Err(io::Error::other("it is not a memory file of fixed size"));
    }
    if file.metadata()?.len() < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Memory that two processes use in turn. It outlives the process that wrote it.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    map: MmapMut,
    file: File,
    place: MemoryFile,
}

impl SharedMemory {
    /// Creates memory of zeros.
    pub fn create(bytes: u64) -> io::Result<Self> {
        // The kernel does not limit memory files: it would kill processes before it refused one.
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

    /// Maps bytes of another process's memory.
    pub fn open(place: MemoryFile, bytes: Range<u64>) -> io::Result<Self> {
        let file = place.open()?;
        check_size(&file, bytes.end)?;
        Self::map(file, bytes, true)
    }

    fn map(file: File, bytes: Range<u64>, is_there: bool) -> io::Result<Self> {
        let room = usize::try_from(bytes.end.saturating_sub(bytes.start)).map_err(io::Error::other)?;
        if room == 0 {
            return Ok(Self { map: MmapMut::map_anon(PAGE)?, place: MemoryFile::from_file(&file)?, file });
        }
        let mut options = MmapOptions::new();
        options.offset(bytes.start).len(room);
        if is_there {
            options.populate();
        }
        // SAFETY: the file's seals keep its size, and only one process uses the memory at a time.
        let map = unsafe { options.map_mut(&file)? };
        Ok(Self { map, place: MemoryFile::from_file(&file)?, file })
    }

    pub fn place(&self) -> MemoryFile {
        self.place
    }

    /// Mapped bytes; the first one is at the start of a page.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

#[derive(Debug)]
pub(crate) struct SharedPage {
    map: MmapRaw,
    pub file: File,
    place: MemoryFile,
}

impl SharedPage {
    /// Creates a page of zeros.
    pub fn create() -> io::Result<Self> {
        Self::map(memory_file("tripmeter-core-to-core", PAGE as u64)?)
    }

    /// Maps the page of another process.
    pub fn open(place: MemoryFile) -> io::Result<Self> {
        Self::map(place.open()?)
    }

    pub fn place(&self) -> MemoryFile {
        self.place
    }

    pub fn map(file: File) -> io::Result<Self> {
        check_size(&file, PAGE as u64)?;
        Ok(Self {
            map: MmapOptions::new().len(PAGE).populate().map_raw(&file)?,
            place: MemoryFile::from_file(&file)?,
            file,
        })
    }

    pub fn words(&self) -> &[AtomicU64; PAGE / size_of::<AtomicU64>()] {
        // SAFETY: the mapping is valid, aligned and as large as that for as long as `self` lives, and any bytes are words.
        unsafe { &*self.map.as_ptr().cast() }
    }
}

/// Flushes the CPUs' address translations. CPUs mark a page as touched only on a new translation, and clearing the
/// marks keeps old ones. Unmapping many pages makes the kernel flush all.
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
        // The descriptor of a file as another namespace might have it.
        let private = tempfile::tempfile().unwrap();
        private.set_len(PAGE as u64).unwrap();
        for wrong in [
            MemoryFile { descriptor: private.as_raw_fd(), ..place },
            MemoryFile { inode: place.inode + 1, ..place },
            MemoryFile::from_file(&private).unwrap(),
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
