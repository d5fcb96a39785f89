//! Messages in packets and streams, between a link that sends and one that receives.
#![expect(unsafe_code, reason = "the C boundary")]

use crate::input::Input;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tripmeter_abi::os::{Deadline, Endpoint, Io, Port};
use tripmeter_abi::packets::{PacketLink, StreamLink};
use tripmeter_abi::{Link, Loan, Message, Result};
use tripmeter_engine::message::{HEADER, Header, Kind, TouchLimit, body_intact, header, write};

const MOST_PAYLOAD: usize = 300;
const PACKET: usize = 80;
const MOST_MESSAGES: usize = 6;

type SentPackets = Arc<Mutex<Vec<Vec<u8>>>>;

/// Endpoint that keeps sent packets and delivers prepared ones; `None` is a receive that finds nothing (EAGAIN).
#[derive(Default)]
struct Script {
    sent: SentPackets,
    received: RefCell<VecDeque<Option<Vec<u8>>>>,
    is_stream: bool,
}

impl Port for Script {
    fn send(&self, bytes: &[u8]) -> Io {
        self.sent.lock().expect("nobody panics").push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn receive(&self, room: &mut [u8]) -> Io {
        let mut received = self.received.borrow_mut();
        let Some(Some(mut piece)) = received.pop_front() else { return Err(libc::EAGAIN) };
        let count = piece.len().min(room.len());
        room[..count].copy_from_slice(&piece[..count]);
        // A packet is cut off, and a stream goes on.
        if self.is_stream && count < piece.len() {
            received.push_front(Some(piece.split_off(count)));
        }
        Ok(count)
    }
}

impl Endpoint for Script {
    fn address(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn connect(&mut self, _: &[u8], _: Deadline) -> Result<()> {
        Ok(())
    }

    fn has_arrived(&self) -> bool {
        !self.received.borrow().is_empty()
    }
}

pub(crate) fn packets(bytes: &[u8]) {
    let mut input = Input(bytes);
    match input.u8() % 5 {
        0 => shuffled(&mut input),
        1 => in_pieces(&mut input),
        2 => arbitrary(&mut input, false),
        3 => arbitrary(&mut input, true),
        _ => headers(input.0),
    }
}

fn packet_link(script: Script) -> PacketLink<Script> {
    PacketLink::new(script, PACKET, MOST_PAYLOAD as u64).expect("there is memory")
}

fn stream_link(script: Script) -> StreamLink<Script> {
    StreamLink::new(script, None, MOST_PAYLOAD as u64).expect("there is memory")
}

/// Every message is of one letter, and of a length that no other has.
fn send(link: &mut impl Link, input: &mut Input<'_>) -> Vec<(usize, u8)> {
    let count = 1 + input.u8() as usize % MOST_MESSAGES;
    (0..count)
        .map(|index| {
            let step = MOST_PAYLOAD / MOST_MESSAGES;
            let length = index * step + input.u8() as usize % step + 1;
            let letter = b'a' + index as u8;
            let loan = link.loan(length, None).expect("a loan");
            // SAFETY: a loan is writable for its length.
            unsafe { std::slice::from_raw_parts_mut(loan.data, length) }.fill(letter);
            assert_eq!(link.publish(loan, 0).ok(), Some(true));
            (length, letter)
        })
        .collect()
}

fn bytes_of(message: &Message) -> &[u8] {
    // SAFETY: a message is readable for its length until it is released.
    unsafe { std::slice::from_raw_parts(message.data, message.length) }
}

/// Packets that come twice, in another order or not at all make no message that was not sent.
fn shuffled(input: &mut Input<'_>) {
    let sent = SentPackets::default();
    let messages = send(&mut packet_link(Script { sent: sent.clone(), ..Script::default() }), input);
    let packets = std::mem::take(&mut *sent.lock().expect("nobody panics"));
    let mut order: Vec<usize> = (0..packets.len()).collect();
    for _ in 0..input.u8() % 8 {
        let (from, to) = (input.u8() as usize % order.len(), input.u8() as usize % order.len());
        match input.u8() % 3 {
            0 => order.swap(from, to),
            1 => order.insert(to, order[from]),
            _ if order.len() > 1 => drop(order.remove(from)),
            _ => {}
        }
    }
    let is_in_order = order.iter().copied().eq(0..packets.len());
    let received = order.iter().map(|index| Some(packets[*index].clone())).collect::<VecDeque<_>>();
    let pieces = order.len();
    let mut link = packet_link(Script { received: received.into(), ..Script::default() });
    let taken = take_all(&mut link, pieces, |bytes| {
        let found =
            messages.iter().any(|(length, letter)| bytes.len() == *length && bytes.iter().all(|one| one == letter));
        assert!(found, "a message of {} bytes was not sent", bytes.len());
    });
    assert!(!is_in_order || taken == messages.len(), "{taken} of {} messages were taken", messages.len());
}

/// A stream brings every message, in whatever pieces it comes.
fn in_pieces(input: &mut Input<'_>) {
    let sent = SentPackets::default();
    let messages = send(&mut stream_link(Script { sent: sent.clone(), ..Script::default() }), input);
    let stream = sent.lock().expect("nobody panics").concat();
    let (mut rest, mut received) = (stream.as_slice(), VecDeque::new());
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.len().min(input.u8() as usize));
        received.push_back((!piece.is_empty()).then(|| piece.to_vec()));
        rest = if piece.is_empty() && input.is_empty() { &[] } else { behind };
        if rest.is_empty() {
            received.push_back(Some(behind.to_vec()).filter(|behind| !behind.is_empty()));
        }
    }
    let (mut expected, pieces) = (messages.iter(), received.len());
    let mut link = stream_link(Script { received: received.into(), is_stream: true, ..Script::default() });
    let taken = take_all(&mut link, pieces, |bytes| {
        let (length, letter) = expected.next().expect("no more than were sent");
        assert!(bytes.len() == *length && bytes.iter().all(|one| one == letter), "another message");
    });
    assert_eq!(taken, messages.len());
}

/// Whatever comes, at most as many bytes as were announced are handed out.
fn arbitrary(input: &mut Input<'_>, is_stream: bool) {
    let mut received = VecDeque::new();
    while !input.is_empty() {
        let length = input.u8() as usize;
        let piece = input.bytes(length).to_vec();
        received.push_back((length != 255).then_some(piece));
    }
    let pieces = received.len();
    let script = Script { received: received.into(), is_stream, ..Script::default() };
    let check = |bytes: &[u8]| assert!(bytes.len() <= MOST_PAYLOAD);
    if is_stream {
        take_all(&mut stream_link(script), pieces, check)
    } else {
        take_all(&mut packet_link(script), pieces, check)
    };
}

/// Each of so many pieces may end a call of `take`, and each may have several messages.
fn take_all(link: &mut impl Link, pieces: usize, mut check: impl FnMut(&[u8])) -> usize {
    let mut taken = 0;
    for _ in 0..2 * pieces + MOST_MESSAGES + 1 {
        match link.take(0) {
            Ok(Some(message)) => {
                check(bytes_of(&message));
                link.release(message);
                taken += 1;
            }
            Ok(None) => {}
            Err(_) => break,
        }
    }
    taken
}

/// A header is intact only as it was written.
fn headers(bytes: &[u8]) {
    let message = Message { data: bytes.as_ptr(), length: bytes.len(), token: std::ptr::null_mut() };
    let Some(found) = header(&message) else { return };
    let _ = (
        body_intact(&message, found.sequence, TouchLimit::NONE),
        body_intact(&message, found.sequence, TouchLimit::HEADER),
    );
    let is_whole = body_intact(&message, found.sequence, TouchLimit::FULL);
    let Some((kind, from)) = found.intact_of(bytes.len()) else { return };
    let written = Header::from_sender(found.sequence, kind, bytes.len(), from);
    assert_eq!(written, found, "an intact header is not one that was written");
    assert!(kind == Kind::PongToUnreadable || from != 0 || found.intact(bytes.len()) == Some(kind));
    let mut room = vec![0_u64; bytes.len().div_ceil(8)];
    let loan = Loan { data: room.as_mut_ptr().cast(), length: bytes.len(), token: std::ptr::null_mut() };
    write(&loan, written, TouchLimit::FULL);
    // SAFETY: the words hold as many bytes.
    let again = unsafe { std::slice::from_raw_parts(loan.data, loan.length) };
    assert!(!is_whole || again[HEADER..] == bytes[HEADER..], "an intact message is not one that was written");
}
