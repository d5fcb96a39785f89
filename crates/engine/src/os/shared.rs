//! Pages of memory.

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

const PAGE: usize = 4096;

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
