//! Messages over systems that limit the bytes per send, and over byte streams.
//!
//! [`PacketLink`] splits a message into packets, each with a prefix of 16 bytes; [`StreamLink`] puts this prefix before
//! each message. Neither copies. The prefix temporarily overwrites the bytes before the packet's part of the message,
//! which are restored after the send. In the same way, a packet is received directly at its place in the message. A
//! message in one packet costs one send and one receive.
#![expect(unsafe_code, reason = "the C boundary")]

mod buffer;
#[cfg(test)]
mod full_tests;
mod prefix;
mod state;
mod stream;
#[cfg(test)]
mod tests;

pub use prefix::PREFIX_BYTES;
pub use stream::StreamLink;

use crate::os::{Deadline, Endpoint, Patience, number_or};
use crate::{Link, Loan, Message, Names, NodeOptions, Result, Setting};
use buffer::Buffer;
use prefix::{DATA, FAREWELL, Prefix, head};
use state::{State, nothing_received, only_peer, peer_gone, sent_short, too_long};
use std::ptr;

/// Largest message, in bytes, with packets of this size. Packets of several publishers are not reassembled: each of
/// their messages must fit in one packet.
pub fn largest_message(options: &NodeOptions, packet: usize) -> u64 {
    if options.has_publishers() { (packet - PREFIX_BYTES) as u64 } else { MOST_PAYLOAD_BYTES }
}

/// Largest message of either link, in bytes: the prefix has 32 bits for the length.
pub const MOST_PAYLOAD_BYTES: u64 = u32::MAX as u64;

/// Smallest value of setting `packet`.
pub const LEAST_PACKET_BYTES: u64 = 64;

/// Longest time that a dropped link waits for room to send its last packet, which tells the peer that it is gone.
const FAREWELL_NS: u64 = 100_000_000;

/// Description of the setting `packet`, for all users of this module.
pub fn packet_setting() -> Setting {
    let summary = "most bytes per system send, prefix of 16 bytes included; 4096 is what iceperf sends";
    Setting::new("packet", "native", "native | bytes, 64 and more", summary, Names::Nothing)
}

/// Value of setting `packet`; `None` for `native`.
///
/// # Errors
/// `Invalid` if it is not a number, `Limit` beyond `most`.
pub fn packet_bytes(options: &NodeOptions, most: u64) -> Result<Option<usize>> {
    Ok(number_or(options, "packet", "native", LEAST_PACKET_BYTES..=most)?.map(|bytes| bytes as usize))
}

/// Message whose packets are arriving: its first `filled` bytes are complete; 0 if there is none.
#[derive(Clone, Copy, Default)]
struct Partial {
    id: u32,
    total: u32,
    filled: usize,
}

/// Link over an endpoint that preserves packet boundaries.
///
/// A message with packets missing or out of order is dropped whole; repeated packets are ignored. A single-packet
/// message that arrives twice is delivered twice, and the host counts it. Each message of several publishers is one
/// packet ([`largest_message`]). A message that is partly sent at its time-out counts as not sent.
pub struct PacketLink<E: Endpoint> {
    endpoint: E,
    state: State,
    /// Payload bytes per packet.
    chunk: usize,
    capacity: usize,
    next_id: u32,
    partial: Partial,
    /// Length of a message that was assembled during a send.
    ready: Option<u32>,
    /// Most packets that one call of `take` receives without a complete message.
    packets_at_most: usize,
    send: Buffer,
    receive: Buffer,
}

impl<E: Endpoint> PacketLink<E> {
    /// Link whose packets have at most `packet_bytes` bytes, prefix included.
    ///
    /// # Errors
    /// `Limit` if there is not enough memory.
    ///
    /// # Panics
    /// If a packet has room for its prefix only.
    pub fn new(endpoint: E, packet_bytes: usize, max_payload_bytes: u64) -> Result<Self> {
        assert!(packet_bytes > PREFIX_BYTES);
        let (chunk, capacity) = (packet_bytes - PREFIX_BYTES, max_payload_bytes as usize);
        Ok(Self {
            endpoint,
            state: State::Ready,
            chunk,
            capacity,
            next_id: 0,
            partial: Partial::default(),
            ready: None,
            packets_at_most: capacity.div_ceil(chunk) + 16,
            send: Buffer::new(capacity)?,
            // A whole packet fits after any part of a message.
            receive: Buffer::new(capacity + chunk)?,
        })
    }

    #[inline]
    fn send_packet(&mut self, prefix: Prefix, length: usize, patience: &mut Patience) -> Result<bool> {
        let at = prefix.offset as usize;
        let saved = std::mem::replace(head(self.send.window(at, length)), prefix.bytes());
        let sent = loop {
            let window = self.send.window(at, length);
            match self.endpoint.send(window) {
                Ok(count) if count == window.len() => break Ok(true),
                Ok(count) => break Err(sent_short(count, window.len())),
                Err(errno) => match patience.again(errno) {
                    Ok(true) if patience.has_looked() => self.receive_ahead(),
                    Ok(true) => {}
                    other => break other,
                },
            }
        };
        *head(self.send.window(at, length)) = saved;
        sent
    }

    /// Receives while a packet finds no room: the peer may be sending too, and receives only after its own send.
    #[cold]
    fn receive_ahead(&mut self) {
        if self.state == State::Ready && self.ready.is_none() {
            // An error recurs when a message is taken.
            self.ready = self.assemble::<true>().unwrap_or(None);
        }
    }

    /// Length of the next message, once complete; with `AHEAD`, only from packets that have already arrived.
    #[inline]
    fn assemble<const AHEAD: bool>(&mut self) -> Result<Option<u32>> {
        for _ in 0..self.packets_at_most {
            if AHEAD && !self.endpoint.has_arrived() {
                return Ok(None);
            }
            let partial = self.partial;
            let window = self.receive.window(partial.filled, self.chunk);
            let saved = *head(window);
            let received = self.endpoint.receive(window);
            let prefix = Prefix::read(head(window));
            *head(window) = saved;
            let got = match received {
                Ok(got) => got,
                Err(errno) => return nothing_received(errno),
            };
            let chunk = got.saturating_sub(PREFIX_BYTES);
            let continues = partial.filled == 0 || (prefix.id, prefix.total) == (partial.id, partial.total);
            let in_place = prefix.offset as usize == partial.filled && got >= PREFIX_BYTES;
            if !(continues && in_place && self.fits(prefix, chunk)) {
                match self.sort_out(prefix, got)? {
                    None => continue,
                    whole => return Ok(whole),
                }
            }
            let filled = partial.filled + chunk;
            if filled == prefix.total as usize {
                self.partial.filled = 0;
                return Ok(Some(prefix.total));
            }
            self.partial = Partial { id: prefix.id, total: prefix.total, filled };
        }
        Ok(None)
    }

    /// Handles a packet that does not continue the message in progress; `None` if it yields no message.
    #[cold]
    fn sort_out(&mut self, prefix: Prefix, got: usize) -> Result<Option<u32>> {
        if got == 0 || prefix.kind == FAREWELL {
            self.state = State::Closed;
            return Err(peer_gone());
        }
        let partial = self.partial;
        let (offset, chunk) = (prefix.offset as usize, got.saturating_sub(PREFIX_BYTES));
        let damaged = got < PREFIX_BYTES || !self.fits(prefix, chunk);
        let repeated = partial.filled > offset && (prefix.id, prefix.total) == (partial.id, partial.total);
        if damaged || repeated {
            return Ok(None);
        }
        self.partial.filled = 0;
        if offset != 0 {
            return Ok(None);
        }
        // The end of the previous message was lost, and this one was received after its first part.
        let payload = self.receive.payload();
        // SAFETY: both ranges lie in the buffer: the packet was received there.
        unsafe { ptr::copy(payload.add(partial.filled), payload, chunk) };
        if chunk == prefix.total as usize {
            return Ok(Some(prefix.total));
        }
        self.partial = Partial { id: prefix.id, total: prefix.total, filled: chunk };
        Ok(None)
    }

    #[inline]
    fn fits(&self, prefix: Prefix, chunk: usize) -> bool {
        let total = prefix.total as usize;
        total <= self.capacity && prefix.offset as usize + chunk <= total && prefix.kind == DATA
    }
}

impl<E: Endpoint> Link for PacketLink<E> {
    fn address(&mut self) -> Result<Vec<u8>> {
        self.endpoint.address()
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        match peers {
            [_, _, ..] => self.endpoint.hear_publishers(peers),
            _ => self.endpoint.connect(only_peer(peers)?, Deadline::after(timeout_ns)),
        }
    }

    #[inline]
    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        if length > self.capacity {
            return Err(too_long(length, self.capacity));
        }
        Ok(Loan { data: self.send.payload(), length, token: ptr::null_mut() })
    }

    #[inline]
    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let mut patience = Patience::new(timeout_ns);
        let mut offset = 0;
        loop {
            let chunk = self.chunk.min(loan.length - offset);
            let prefix = Prefix { id, total: loan.length as u32, offset: offset as u32, kind: DATA };
            if !self.send_packet(prefix, chunk, &mut patience)? {
                // The peer discards the part that was sent.
                return Ok(false);
            }
            offset += chunk;
            if offset == loan.length {
                return Ok(true);
            }
            patience.renew();
        }
    }

    #[inline]
    fn discard(&mut self, _loan: Loan) {}

    #[inline]
    fn take(&mut self, _timeout_ns: u64) -> Result<Option<Message>> {
        if self.state != State::Ready {
            return Err(self.state.refuse_take());
        }
        let whole = match self.ready.take() {
            None => self.assemble::<false>()?,
            whole => whole,
        };
        let Some(total) = whole else { return Ok(None) };
        self.state = State::Held;
        Ok(Some(Message { data: self.receive.payload(), length: total as usize, token: ptr::null_mut() }))
    }

    #[inline]
    fn release(&mut self, _message: Message) {
        self.state = State::Ready;
    }
}

impl<E: Endpoint> Drop for PacketLink<E> {
    fn drop(&mut self) {
        if !self.endpoint.needs_farewell() || self.state == State::Closed {
            return;
        }
        self.endpoint.stop_blocking();
        let farewell = Prefix { id: self.next_id, total: 0, offset: 0, kind: FAREWELL }.bytes();
        let deadline = Deadline::after(FAREWELL_NS);
        // The queue may be full of messages for the peer. A peer that is gone needs no farewell.
        while self.endpoint.send(&farewell) == Err(libc::EAGAIN) && deadline.nap() {}
    }
}
