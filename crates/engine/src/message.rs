//! Content of every message, and its verification.
//!
//! The first 16 bytes are the header; the rest is touched as the plan asks. All of it is a function of the sequence
//! number, so that the receiver needs no copy to compare with.
#![expect(unsafe_code, reason = "memory that a transport lent")]

use tripmeter_abi::payload::{fill, verify};
use tripmeter_abi::{Loan, Message};
use tripmeter_model::Touch;
use tripmeter_model::payload::HEADER_BYTES;

pub const HEADER: usize = HEADER_BYTES as usize;
/// Bytes touched under [`Touch::Header`], header included: one cache line.
const LINE: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    Ping = 1,
    Pong = 2,
    /// Answer to a message whose touched payload was damaged.
    PongToDamaged = 3,
    /// Answer of one of several followers to a message with a damaged header; its sequence number is meaningless.
    PongToUnreadable = 4,
}

/// Bits of the kind; the bits above hold the index of the sending follower or publisher.
const KIND_BITS: u32 = 8;

/// Header: sequence number, kind with the sender's index, and a check over these and the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// Sequence number, counted from 1 within a sub-experiment.
    pub sequence: u64,
    check: u32,
    kind: u32,
}

const _: () = assert!(size_of::<Header>() == HEADER);

impl Header {
    #[inline(always)]
    pub fn new(sequence: u64, kind: Kind, length: usize) -> Self {
        Self::from_sender(sequence, kind, length, 0)
    }

    /// Header from the follower or publisher of index `from`.
    #[inline(always)]
    pub fn from_sender(sequence: u64, kind: Kind, length: usize, from: u32) -> Self {
        let kind = kind as u32 | from << KIND_BITS;
        Self { sequence, check: seal(sequence, kind, length), kind }
    }

    /// Kind, if the header is intact, fits this length, and comes from the only follower.
    pub fn intact(&self, length: usize) -> Option<Kind> {
        let (kind, follower) = self.intact_of(length)?;
        (follower == 0 && kind != Kind::PongToUnreadable).then_some(kind)
    }

    /// Kind and index of the sender, if the header is intact and fits this length.
    pub fn intact_of(&self, length: usize) -> Option<(Kind, u32)> {
        const KINDS: [Kind; 4] = [Kind::Ping, Kind::Pong, Kind::PongToDamaged, Kind::PongToUnreadable];
        let (kind, follower) = (self.kind & ((1 << KIND_BITS) - 1), self.kind >> KIND_BITS);
        let kind = KINDS.into_iter().find(|known| *known as u32 == kind)?;
        (self.check == seal(self.sequence, self.kind, length)).then_some((kind, follower))
    }
}

#[inline(always)]
fn seal(sequence: u64, kind: u32, length: usize) -> u32 {
    let mixed = (sequence ^ (length as u64).rotate_left(32) ^ u64::from(kind).rotate_left(20))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) as u32
}

/// Largest number of bytes after the header that are written and verified. It expresses [`Touch`] as a bound, so that
/// one loop serves all of its values.
#[derive(Clone, Copy, Debug)]
pub struct TouchLimit(usize);

impl TouchLimit {
    pub const NONE: Self = Self(0);
    pub const HEADER: Self = Self(LINE - HEADER);
    pub const FULL: Self = Self(usize::MAX);

    /// Touched bytes after the header, for a message of at least 16 bytes.
    #[inline(always)]
    fn touched(self, length: usize) -> usize {
        (length - HEADER).min(self.0)
    }
}

impl From<Touch> for TouchLimit {
    fn from(touch: Touch) -> Self {
        match touch {
            Touch::None => Self::NONE,
            Touch::Header => Self::HEADER,
            Touch::Full => Self::FULL,
        }
    }
}

#[inline(always)]
pub fn write(loan: &Loan, header: Header, touch: TouchLimit) {
    debug_assert!(loan.length >= HEADER);
    // SAFETY: a loan is writable for its length, which the plan keeps at 16 or more, and aligned to 8 bytes.
    unsafe { loan.data.cast::<Header>().write(header) };
    let touched = touch.touched(loan.length);
    if touched > 0 {
        // SAFETY: `touched` is at most the loan's length less the header.
        fill(unsafe { std::slice::from_raw_parts_mut(loan.data.add(HEADER), touched) }, header.sequence);
    }
}

/// Passes the whole loan to `write`.
#[inline(always)]
pub fn write_text(loan: &Loan, write: impl FnOnce(&mut [u8])) {
    // SAFETY: a loan is writable for its length.
    write(unsafe { std::slice::from_raw_parts_mut(loan.data, loan.length) });
}

#[inline(always)]
pub fn header(message: &Message) -> Option<Header> {
    if message.length < HEADER {
        return None;
    }
    // SAFETY: a message is readable for its length; alignment is not assumed.
    Some(unsafe { message.data.cast::<Header>().read_unaligned() })
}

/// True if the touched payload is what [`write()`] wrote for this sequence number.
#[inline(always)]
pub fn body_intact(message: &Message, sequence: u64, touch: TouchLimit) -> bool {
    let touched = touch.touched(message.length);
    // SAFETY: `touched` is at most the message's length less the header.
    touched == 0 || verify(unsafe { std::slice::from_raw_parts(message.data.add(HEADER), touched) }, sequence)
}

pub fn touched_bytes(touch: Touch, length: usize) -> usize {
    HEADER + TouchLimit::from(touch).touched(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    fn round_trip(bytes: &mut [u8], touch: TouchLimit) -> Message {
        let loan = Loan { data: bytes.as_mut_ptr(), length: bytes.len(), token: null_mut() };
        write(&loan, Header::new(7, Kind::Ping, bytes.len()), touch);
        Message { data: bytes.as_ptr(), length: bytes.len(), token: null_mut() }
    }

    fn room(length: usize) -> Vec<u64> {
        vec![0; length.div_ceil(8)]
    }

    fn bytes_of(words: &mut [u64], length: usize) -> &mut [u8] {
        // SAFETY: the words hold at least `length` bytes.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), length) }
    }

    #[test]
    fn every_flipped_bit_of_a_touched_message_is_noticed() {
        for length in [16, 17, 23, 24, 64, 65, 100] {
            let mut words = room(length);
            let bytes = bytes_of(&mut words, length);
            let message = round_trip(bytes, TouchLimit::FULL);
            assert_eq!(header(&message).unwrap().intact(length), Some(Kind::Ping));
            assert!(body_intact(&message, 7, TouchLimit::FULL));
            for bit in 0..length * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                let message = Message { data: bytes.as_ptr(), length, token: null_mut() };
                let header_good = header(&message).unwrap().intact(length).is_some();
                assert!(!header_good || !body_intact(&message, 7, TouchLimit::FULL), "bit {bit} of {length} bytes");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn touch_header_stops_at_the_first_cache_line() {
        let mut words = room(100);
        let bytes = bytes_of(&mut words, 100);
        round_trip(bytes, TouchLimit::HEADER);
        assert!(bytes[16..64].iter().any(|byte| *byte != 0) && bytes[64..].iter().all(|byte| *byte == 0));
        assert_eq!(touched_bytes(Touch::Header, 100), 64);
        assert_eq!(touched_bytes(Touch::Header, 32), 32);
        assert_eq!((touched_bytes(Touch::None, 100), touched_bytes(Touch::Full, 100)), (16, 100));
    }

    #[test]
    fn a_header_is_of_one_sequence_kind_and_length() {
        let header = Header::new(3, Kind::Pong, 1024);
        assert_eq!(header.intact(1024), Some(Kind::Pong));
        assert_eq!(header.intact(1025), None);
        assert_ne!(header, Header::new(3, Kind::Ping, 1024));
        assert_ne!(header, Header::new(4, Kind::Pong, 1024));
    }

    #[test]
    fn an_answer_says_which_follower_it_is_of() {
        let header = Header::from_sender(3, Kind::Pong, 1024, 63);
        assert_eq!(header.intact_of(1024), Some((Kind::Pong, 63)));
        assert_eq!((header.intact(1024), header.intact_of(1025)), (None, None));
        assert_eq!(Header::from_sender(3, Kind::Pong, 1024, 0), Header::new(3, Kind::Pong, 1024));
    }
}
