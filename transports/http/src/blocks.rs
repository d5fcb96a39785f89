//! Where a message is written before the library gets it, without a copy.

use bytes::Bytes;
use std::ptr::null_mut;
use std::sync::Arc;
use tripmeter_abi::{Error, Loan, Result, Status};

/// Blocks of the heap, each used again once the library has let go of it.
pub(crate) struct Blocks {
    blocks: Vec<Arc<Block>>,
    block_bytes: usize,
    lent: Option<Lent>,
}

struct Block(Vec<u64>);

/// The front of a block.
struct Lent {
    block: Arc<Block>,
    length: usize,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: a block is at least `length` bytes long, and any bytes are good ones.
        unsafe { std::slice::from_raw_parts(self.block.0.as_ptr().cast(), self.length) }
    }
}

impl Blocks {
    /// Blocks of so many bytes; the first is there.
    pub(crate) fn new(block_bytes: usize) -> Self {
        let mut blocks = Self { blocks: Vec::new(), block_bytes, lent: None };
        blocks.add();
        blocks
    }

    fn add(&mut self) {
        // Written, so that the pages are there before the first message.
        self.blocks.push(Arc::new(Block(vec![1; self.block_bytes.div_ceil(8).max(1)])));
    }

    fn free(&mut self, length: usize) -> Option<(Lent, *mut u8)> {
        self.blocks.iter_mut().find_map(|block| {
            let data = Arc::get_mut(block)?.0.as_mut_ptr().cast();
            Some((Lent { block: block.clone(), length }, data))
        })
    }

    /// Writable memory of that many bytes, aligned to 8.
    pub(crate) fn lend(&mut self, length: usize) -> Result<Loan> {
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

    /// What was lent.
    pub(crate) fn give(&mut self) -> Result<Bytes> {
        let lent = self.lent.take().ok_or_else(|| Error::failed("nothing is on loan"))?;
        Ok(Bytes::from_owner(lent))
    }

    /// Forgets what was lent.
    pub(crate) fn discard(&mut self) {
        self.lent = None;
    }
}
