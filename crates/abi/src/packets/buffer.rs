//! Message buffers with room before the payload for a packet's prefix.
#![expect(unsafe_code, reason = "the C boundary")]

use super::prefix::PREFIX_BYTES;
use crate::{Error, Result, Status};
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

/// Bytes before the payload, for the prefix; 64 keep the payload aligned to a cache line.
const ROOM_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;

/// Page-aligned memory for one message, with the payload at byte 64.
pub(super) struct Buffer {
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned, and only reached through the buffer or pointers handed out under the link's contract.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Buffer for `payload_bytes`, faulted in and filled with varying bytes.
    pub fn new(payload_bytes: usize) -> Result<Self> {
        let refused = || {
            let text = format!("no memory for a message buffer of {payload_bytes} bytes; use smaller payloads");
            Error::new(Status::Limit, text)
        };
        let bytes = payload_bytes.checked_add(ROOM_BYTES + PAGE_BYTES).ok_or_else(refused)?;
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).map_err(|_| refused())?;
        // SAFETY: the layout's size is not zero.
        let memory = NonNull::new(unsafe { alloc(layout) }).ok_or_else(refused)?;
        for at in 0..bytes {
            let value = (at as u32).wrapping_mul(0x9e37_79b1) >> 24;
            // SAFETY: within the allocation.
            unsafe { memory.add(at).write(value as u8) };
        }
        Ok(Self { memory, layout })
    }

    #[inline]
    pub fn payload(&self) -> *mut u8 {
        // SAFETY: the allocation has more bytes than the room.
        unsafe { self.memory.as_ptr().add(ROOM_BYTES) }
    }

    /// Returns `length` payload bytes from `at` on, and the 16 bytes before them.
    #[inline]
    pub fn window(&mut self, at: usize, length: usize) -> &mut [u8] {
        let from = ROOM_BYTES - PREFIX_BYTES + at;
        let bytes = PREFIX_BYTES + length;
        assert!(from + bytes <= self.layout.size());
        // SAFETY: within the allocation, initialised, and borrowed with the buffer.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(from), bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}
