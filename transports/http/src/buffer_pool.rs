//! Reassembly of messages that arrive in pieces.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};
use tripmeter_abi::{Error, Message, Result};
use tripmeter_web::host::Body;
use tripmeter_web::reason::reason;

/// Buffers for messages that arrive in pieces, reused once their message is released.
#[derive(Clone)]
pub(crate) struct BufferPool {
    free: Arc<Mutex<Vec<Vec<u8>>>>,
    most_bytes: usize,
}

impl BufferPool {
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { free: Arc::default(), most_bytes }
    }

    fn with_free<T>(&self, work: impl FnOnce(&mut Vec<Vec<u8>>) -> T) -> T {
        work(&mut self.free.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take(&self) -> Buffer {
        let bytes = self.with_free(Vec::pop).unwrap_or_else(|| Vec::with_capacity(self.most_bytes));
        Buffer { bytes, buffers: self.clone() }
    }

    /// Gathers a whole body. Fails if it is cut off or too long.
    pub(crate) async fn gather(&self, mut body: Incoming) -> Result<Arrival> {
        let mut whole = Bytes::new();
        let mut gathered: Option<Buffer> = None;
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Error::closed(format!("a message broke off: {}", reason(&error))))?;
            let Ok(piece) = frame.into_data() else { continue };
            length += piece.len();
            if length > self.most_bytes {
                return Err(Error::failed(format!("message of over {} bytes, the most expected", self.most_bytes)));
            }
            match &mut gathered {
                None if whole.is_empty() => whole = piece,
                None => {
                    let mut joined = self.take();
                    joined.bytes.extend_from_slice(&whole);
                    joined.bytes.extend_from_slice(&piece);
                    gathered = Some(joined);
                }
                Some(joined) => joined.bytes.extend_from_slice(&piece),
            }
            if body.is_end_stream() {
                break;
            }
        }
        Ok(gathered.map_or(Arrival::Whole(whole), Arrival::Joined))
    }
}

/// Buffer in use; returns to the pool when dropped.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    buffers: BufferPool,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        self.buffers.with_free(|free| free.push(bytes));
    }
}

pub(crate) enum Arrival {
    /// In one piece, in hyper's buffer.
    Whole(Bytes),
    /// In several pieces, joined.
    Joined(Buffer),
}

impl Body for Arrival {
    fn message(&self) -> Result<Message> {
        let bytes: &[u8] = match self {
            Self::Whole(bytes) => bytes,
            Self::Joined(buffer) => &buffer.bytes,
        };
        Ok(Message { data: bytes.as_ptr(), length: bytes.len(), token: null_mut() })
    }
}
