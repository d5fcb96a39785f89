//! Messages over a byte stream.

use super::buffer::Buffer;
use super::prefix::{DATA, PREFIX_BYTES, Prefix, head};
use super::state::{State, nothing_received, only_peer, peer_gone, sent_in_part, too_long};
use crate::os::{Deadline, Endpoint, Patience};
use crate::{Error, Link, Loan, Message, Result};
use std::ptr;

/// Link over an endpoint that carries bytes without boundaries.
///
/// A receive requests as many bytes as the last message had. If all messages have one size, each costs one call, which
/// reads no bytes of the next message. After a longer message, surplus bytes are kept and delivered first.
pub struct StreamLink<E: Endpoint> {
    stream: ByteStream<E>,
    packet: usize,
    next_id: u32,
    send: Buffer,
}

/// Both directions of the stream, and received bytes.
struct ByteStream<E: Endpoint> {
    endpoint: E,
    state: State,
    capacity: usize,
    /// Length of the last message, in bytes.
    expected: usize,
    /// Number of bytes of the next message that are in place, prefix included.
    filled: usize,
    /// Range of the bytes received beyond the last message, counted from its prefix; usually empty.
    surplus: std::ops::Range<usize>,
    receive: Buffer,
}

impl<E: Endpoint> StreamLink<E> {
    /// Link that sends at most `packet_bytes` bytes at a time; without a limit if `None`.
    ///
    /// # Errors
    /// `Limit` if there is not enough memory.
    pub fn new(endpoint: E, packet_bytes: Option<usize>, max_payload_bytes: u64) -> Result<Self> {
        let capacity = max_payload_bytes as usize;
        let receive = Buffer::new(capacity)?;
        Ok(Self {
            stream: ByteStream {
                endpoint,
                state: State::Ready,
                capacity,
                expected: 0,
                filled: 0,
                surplus: 0..0,
                receive,
            },
            packet: packet_bytes.unwrap_or(usize::MAX),
            next_id: 0,
            send: Buffer::new(capacity)?,
        })
    }
}

impl<E: Endpoint> ByteStream<E> {
    /// Sends as much as the peer accepts, with less than the time-out between two parts; returns the bytes sent.
    #[inline]
    fn send(&mut self, bytes: &[u8], packet: usize, timeout_ns: u64) -> Result<usize> {
        let mut patience = Patience::new(timeout_ns);
        let mut sent = 0;
        while sent < bytes.len() {
            let end = sent.saturating_add(packet).min(bytes.len());
            match self.endpoint.send(&bytes[sent..end]) {
                Ok(count) => {
                    sent += count;
                    patience.renew();
                }
                Err(errno) => {
                    if !patience.again(errno)? {
                        break;
                    }
                    if patience.has_looked() {
                        self.receive_ahead()?;
                    }
                }
            }
        }
        Ok(sent)
    }

    /// Receives while a message finds no room: the peer may be sending too, and receives only after its own send.
    #[cold]
    fn receive_ahead(&mut self) -> Result<()> {
        if self.state != State::Ready {
            return Ok(());
        }
        if !self.surplus.is_empty() {
            self.use_surplus()?;
        }
        let room = &mut self.receive.window(0, self.capacity)[self.filled..];
        if self.surplus.is_empty() && !room.is_empty() && self.endpoint.has_arrived() {
            // An end or an error recurs when a message is taken.
            self.filled += self.endpoint.receive(room).unwrap_or(0);
        }
        Ok(())
    }

    /// Size of the next message, prefix included; of the prefix alone until it is complete.
    #[inline]
    fn wanted(&mut self) -> Result<usize> {
        if self.filled < PREFIX_BYTES {
            return Ok(PREFIX_BYTES);
        }
        let prefix = Prefix::read(head(self.receive.window(0, 0)));
        if prefix.total as usize > self.capacity || prefix.kind != DATA {
            return Err(damaged(prefix.total, self.capacity));
        }
        Ok(PREFIX_BYTES + prefix.total as usize)
    }

    #[cold]
    fn use_surplus(&mut self) -> Result<()> {
        // First its prefix, which gives the length of the rest.
        for _ in 0..2 {
            let count = self.surplus.len().min(self.wanted()? - self.filled);
            let base = self.receive.window(0, self.capacity);
            base.copy_within(self.surplus.start..self.surplus.start + count, self.filled);
            self.filled += count;
            self.surplus.start += count;
        }
        Ok(())
    }

    #[inline]
    fn deliver(&mut self, bytes: usize) -> Message {
        if self.filled > bytes {
            self.surplus = bytes..self.filled;
        }
        self.filled = 0;
        self.expected = bytes - PREFIX_BYTES;
        self.state = State::Held;
        Message { data: self.receive.payload(), length: self.expected, token: ptr::null_mut() }
    }

    #[inline]
    fn take(&mut self) -> Result<Option<Message>> {
        if self.state != State::Ready {
            return Err(self.state.refuse_take());
        }
        if !self.surplus.is_empty() {
            self.use_surplus()?;
        }
        // Every turn but the last receives at least one byte of a message of bounded length.
        loop {
            let wanted = self.wanted()?;
            if self.filled >= wanted && self.filled >= PREFIX_BYTES {
                return Ok(Some(self.deliver(wanted)));
            }
            let ask = if self.filled < PREFIX_BYTES { PREFIX_BYTES + self.expected } else { wanted };
            let room = &mut self.receive.window(0, self.capacity)[self.filled..ask];
            match self.endpoint.receive(room) {
                Ok(0) => {
                    self.state = State::Closed;
                    return Err(peer_gone());
                }
                Ok(got) => self.filled += got,
                Err(errno) => return nothing_received(errno),
            }
        }
    }
}

#[cold]
fn damaged(total: u32, capacity: usize) -> Error {
    Error::failed(format!("the stream is out of step: a message of {total} bytes, {capacity} at most were announced"))
}

impl<E: Endpoint> Link for StreamLink<E> {
    fn address(&mut self) -> Result<Vec<u8>> {
        self.stream.endpoint.address()
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        self.stream.endpoint.connect(only_peer(peers)?, Deadline::after(timeout_ns))
    }

    #[inline]
    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        if length > self.stream.capacity {
            return Err(too_long(length, self.stream.capacity));
        }
        Ok(Loan { data: self.send.payload(), length, token: ptr::null_mut() })
    }

    #[inline]
    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let window = self.send.window(0, loan.length);
        *head(window) = Prefix { id, total: loan.length as u32, offset: 0, kind: DATA }.bytes();
        let sent = self.stream.send(window, self.packet, timeout_ns)?;
        match sent {
            0 => Ok(false),
            _ if sent == window.len() => Ok(true),
            _ => Err(sent_in_part(sent.saturating_sub(PREFIX_BYTES), loan.length, timeout_ns)),
        }
    }

    #[inline]
    fn discard(&mut self, _loan: Loan) {}

    #[inline]
    fn take(&mut self, _timeout_ns: u64) -> Result<Option<Message>> {
        self.stream.take()
    }

    #[inline]
    fn release(&mut self, _message: Message) {
        self.stream.state = State::Ready;
    }
}
