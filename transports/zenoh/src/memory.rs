//! Memory in which a message is written before zenoh gets it.
#![expect(unsafe_code, reason = "memory that is lent or shared")]

use crate::segments;
use crate::session::failed;
use bytes::Bytes;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use tripmeter_abi::blocks::Blocks;
use tripmeter_abi::{Error, NodeOptions, Pattern, Result};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::shm::{
    AllocAlignment, GarbageCollect, OwnedShmBuf, PosixShmProviderBackend, ShmProvider, ShmProviderBuilder, ZShmMut,
};

pub(crate) trait Memory: Send {
    /// Lends writable memory of `length` bytes, aligned to 8.
    fn lend(&mut self, length: usize) -> Result<*mut u8>;
    fn give(&mut self) -> Option<ZBytes>;
    fn discard(&mut self);
}

pub(crate) struct Heap(Blocks);

impl Heap {
    pub(crate) fn new(options: &NodeOptions) -> Self {
        Self(Blocks::new(options.max_payload_bytes))
    }
}

impl Memory for Heap {
    fn lend(&mut self, length: usize) -> Result<*mut u8> {
        self.0.lend(length).map(|loan| loan.data)
    }

    fn give(&mut self) -> Option<ZBytes> {
        self.0.give().ok().map(|lent| Bytes::from_owner(lent).into())
    }

    fn discard(&mut self) {
        self.0.discard();
    }
}

pub(crate) struct Shared {
    provider: ShmProvider<PosixShmProviderBackend>,
    lent: Option<ZShmMut>,
}

/// Longest wait for a chunk that the peer still holds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Chunks of a sender: one being written, the others in flight.
fn chunks(pattern: Pattern) -> u64 {
    match pattern {
        Pattern::Publish | Pattern::Throughput => 16,
        _ => 4,
    }
}

impl Shared {
    pub(crate) fn new(options: &NodeOptions) -> Result<Self> {
        let bytes = options.max_payload_bytes.next_multiple_of(4096) * chunks(options.pattern);
        let layout = (bytes as usize, AllocAlignment::ALIGN_8_BYTES);
        segments::make(&options.scratch_dir, || Self::make(layout))
    }

    fn make(layout: (usize, AllocAlignment)) -> Result<Self> {
        let provider = ShmProviderBuilder::default_backend(layout).wait();
        let provider = provider.map_err(failed("making a shared-memory provider"))?;
        let mut shared = Self { provider, lent: None };
        // The first chunk makes zenoh create all segments that it needs.
        shared.lend(1)?;
        shared.discard();
        Ok(shared)
    }
}

impl Memory for Shared {
    fn lend(&mut self, length: usize) -> Result<*mut u8> {
        self.lent = None;
        let mut begin = None;
        loop {
            // The size of an aligned chunk must be a multiple of the alignment.
            let layout = (length.next_multiple_of(8), AllocAlignment::ALIGN_8_BYTES);
            match self.provider.alloc(layout).with_policy::<GarbageCollect>().wait() {
                Ok(mut chunk) => {
                    let size = NonZeroUsize::new(length).ok_or_else(|| Error::failed("message of 0 bytes"))?;
                    chunk.try_resize(size).ok_or_else(|| Error::failed("zenoh does not shorten a chunk"))?;
                    let data = AsMut::<[u8]>::as_mut(&mut chunk).as_mut_ptr();
                    self.lent = Some(chunk);
                    return Ok(data);
                }
                Err(error) if begin.get_or_insert_with(Instant::now).elapsed() > PATIENCE => {
                    return Err(Error::failed(format!("no chunk of {length} bytes within {PATIENCE:?}: {error:?}")));
                }
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    fn give(&mut self) -> Option<ZBytes> {
        self.lent.take().map(ZBytes::from)
    }

    fn discard(&mut self) {
        self.lent = None;
    }
}

/// Most bytes of zenoh's own tables, in shared memory and in locked memory.
const TABLES_BYTES: u64 = 4 << 20;

/// Most bytes that this process may lock; `None` without limit. Tested by locking, as capabilities count in the
/// first user namespace only.
fn lockable_bytes() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is writable.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    if !known || limit.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    let more = usize::try_from(limit.rlim_cur).ok()?.checked_add(4096)?;
    // SAFETY: a new mapping, which is removed again; it is never accessed, so it takes no memory.
    let may_lock_more = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let place = libc::mmap(std::ptr::null_mut(), more, libc::PROT_READ, flags, -1, 0);
        let locked = place != libc::MAP_FAILED && libc::mlock2(place, more, libc::MLOCK_ONFAULT) == 0;
        if place != libc::MAP_FAILED {
            libc::munmap(place, more);
        }
        locked
    };
    (!may_lock_more).then_some(limit.rlim_cur)
}

/// Largest message, in bytes, for which all chunks of both directions fit into free shared and lockable memory: zenoh
/// locks all of it. Fails if the system does not report the free space.
pub(crate) fn largest_payload_bytes(options: &NodeOptions) -> Result<u64> {
    let chunks = 2 * chunks(options.pattern) * u64::from(options.link_count.max(1));
    // The sender maps one share, each peer that answers another.
    let mapped = chunks / 2 * (1 + u64::from(options.follower_count.max(1)));
    let lockable = lockable_bytes().map_or(u64::MAX, |bytes| bytes.saturating_sub(TABLES_BYTES) / mapped);
    Ok((segments::free_bytes()?.saturating_sub(TABLES_BYTES) / chunks).min(lockable) / 4096 * 4096)
}
