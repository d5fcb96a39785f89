//! Memory for messages to be sent: blocks of the heap, each used again once the client has let go of it.

use bytes::Bytes;
use std::sync::Arc;
use tripmeter_abi::{Error, Result, Status};

/// Blocks of one size; there are as many as messages are under way at once.
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
    /// For messages of that many bytes at most.
    pub(crate) fn new(block_bytes: u64) -> Self {
        let mut blocks = Self { blocks: Vec::new(), block_bytes: block_bytes as usize, lent: None };
        blocks.add();
        blocks
    }

    fn add(&mut self) {
        // Written, so that the pages are there before the first message.
        self.blocks.push(Arc::new(Block(vec![1; self.block_bytes.div_ceil(8).max(1)])));
    }

    fn free(&mut self) -> Option<(Arc<Block>, *mut u8)> {
        self.blocks.iter_mut().find_map(|block| {
            let data = Arc::get_mut(block)?.0.as_mut_ptr();
            Some((block.clone(), data.cast()))
        })
    }

    /// Writable memory of that many bytes, aligned to 8.
    pub(crate) fn lend(&mut self, length: usize) -> Result<*mut u8> {
        self.lent = None;
        if length > self.block_bytes {
            let text = format!("message of {length} bytes, {} at most", self.block_bytes);
            return Err(Error::new(Status::Limit, text));
        }
        let found = self.free().or_else(|| {
            self.add();
            self.free()
        });
        let (block, data) = found.ok_or_else(|| Error::failed("a new block is in use"))?;
        self.lent = Some(Lent { block, length });
        Ok(data)
    }

    /// What was lent, without a copy.
    pub(crate) fn give(&mut self) -> Result<Bytes> {
        self.lent.take().map(Bytes::from_owner).ok_or_else(|| Error::failed("nothing is on loan"))
    }

    /// Forgets what was lent.
    pub(crate) fn discard(&mut self) {
        self.lent = None;
    }
}
