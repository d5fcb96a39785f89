//! Heap blocks for messages that a library takes over without a copy.
#![expect(unsafe_code, reason = "the C boundary")]

use crate::{Error, Loan, Result, Status};
use std::ptr::null_mut;
use std::sync::Arc;

/// Pool of heap blocks, each reused once the library has released it; grows to the number of messages in flight.
pub struct Blocks {
    blocks: Vec<Arc<HeapBlock>>,
    block_bytes: usize,
    lent: Option<Lent>,
}

struct HeapBlock(Vec<u64>);

/// Message at the start of a block; its owner may keep it as long as it likes.
pub struct Lent {
    block: Arc<HeapBlock>,
    length: usize,
}

impl AsRef<[u8]> for Lent {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: a block is at least `length` bytes long, and any bytes are valid.
        unsafe { std::slice::from_raw_parts(self.block.0.as_ptr().cast(), self.length) }
    }
}

impl Blocks {
    /// Allocates the first block, for messages of at most `block_bytes`.
    pub fn new(block_bytes: u64) -> Self {
        let mut blocks = Self { blocks: Vec::new(), block_bytes: block_bytes as usize, lent: None };
        blocks.add();
        blocks
    }

    fn add(&mut self) {
        // Written, so that its pages are mapped before the first message.
        self.blocks.push(Arc::new(HeapBlock(vec![1; self.block_bytes.div_ceil(8).max(1)])));
    }

    #[inline]
    fn free(&mut self, length: usize) -> Option<(Lent, *mut u8)> {
        self.blocks.iter_mut().find_map(|block| {
            let data = Arc::get_mut(block)?.0.as_mut_ptr().cast();
            Some((Lent { block: block.clone(), length }, data))
        })
    }

    /// Lends writable memory of `length` bytes, aligned to 8.
    ///
    /// # Errors
    /// [`Status::Limit`] beyond the size of a block.
    #[inline]
    pub fn lend(&mut self, length: usize) -> Result<Loan> {
        self.lent = None;
        if length > self.block_bytes {
            let text = format!("message of {length} bytes, {} at most", self.block_bytes);
            return Err(Error::new(Status::Limit, text));
        }
        let found = self.free(length).or_else(|| {
            self.add();
            self.free(length)
        });
        let (lent, data) = found.ok_or_else(|| Error::failed("a new block is in use"))?;
        self.lent = Some(lent);
        Ok(Loan { data, length, token: null_mut() })
    }

    /// Returns the lent memory, to pass to the library.
    ///
    /// # Errors
    /// If nothing is lent.
    #[inline]
    pub fn give(&mut self) -> Result<Lent> {
        self.lent.take().ok_or_else(|| Error::failed("nothing is on loan"))
    }

    /// Takes the lent memory back.
    pub fn discard(&mut self) {
        self.lent = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_used_again_once_nobody_has_it() {
        let mut blocks = Blocks::new(20);
        let first = blocks.lend(20).unwrap().data;
        assert!(first.cast::<u64>().is_aligned());
        let given = blocks.give().unwrap();
        assert_eq!(given.as_ref(), [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        let second = blocks.lend(4).unwrap().data;
        assert_ne!(first, second, "the first one is still somebody's");
        blocks.discard();
        drop(given);
        assert_eq!(blocks.lend(1).unwrap().data, first);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let mut blocks = Blocks::new(16);
        assert_eq!(blocks.give().err().unwrap().message, "nothing is on loan");
        let error = blocks.lend(17).err().unwrap();
        assert_eq!((error.status, error.message.as_str()), (Status::Limit, "message of 17 bytes, 16 at most"));
    }
}
