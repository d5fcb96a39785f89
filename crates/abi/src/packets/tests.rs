#![expect(unsafe_code, reason = "memory and calls as a host has them")]

use super::*;
use crate::Status;
use crate::os::{Io, Port};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Connection in memory: keeps packets apart, or delivers bytes in pieces of at most `piece`.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    packets: VecDeque<Vec<u8>>,
    /// Most bytes per call of a stream; 0 for packets.
    piece: usize,
    /// Error that every second call returns.
    hiccup: Option<i32>,
    calls: usize,
}

impl Wire {
    fn stream(piece: usize, hiccup: Option<i32>) -> Self {
        Self(Arc::new(Mutex::new(Inner { piece, hiccup, ..Inner::default() })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        act(&mut self.0.lock().unwrap())
    }

    fn edit(&self, act: impl FnOnce(&mut VecDeque<Vec<u8>>)) {
        self.with(|inner| act(&mut inner.packets));
    }
}

impl Inner {
    fn stumble(&mut self) -> std::result::Result<(), i32> {
        self.calls += 1;
        self.hiccup.filter(|_| self.calls % 2 == 1).map_or(Ok(()), Err)
    }
}

impl Port for Wire {
    fn send(&self, bytes: &[u8]) -> Io {
        self.with(|inner| {
            inner.stumble()?;
            let count = if inner.piece == 0 { bytes.len() } else { bytes.len().min(inner.piece) };
            inner.packets.push_back(bytes[..count].to_vec());
            Ok(count)
        })
    }

    fn receive(&self, room: &mut [u8]) -> Io {
        self.with(|inner| {
            inner.stumble()?;
            let Some(mut packet) = inner.packets.pop_front() else {
                return Err(libc::EAGAIN);
            };
            let most = if inner.piece == 0 { packet.len() } else { room.len() };
            while inner.piece != 0 && packet.len() < most && !inner.packets.is_empty() {
                packet.extend(inner.packets.pop_front().unwrap());
            }
            let count = packet.len().min(room.len());
            room[..count].copy_from_slice(&packet[..count]);
            if inner.piece != 0 && count < packet.len() {
                inner.packets.push_front(packet.split_off(count));
            }
            Ok(count)
        })
    }
}

impl Endpoint for Wire {
    fn address(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn connect(&mut self, _peer: &[u8], _deadline: Deadline) -> Result<()> {
        Ok(())
    }

    fn needs_farewell(&self) -> bool {
        self.with(|inner| inner.piece == 0)
    }

    fn has_arrived(&self) -> bool {
        // Otherwise a sender would receive its own packets.
        false
    }
}

const PACKET: usize = 64;
const CHUNK: usize = PACKET - PREFIX_BYTES;
const MOST: usize = 10 * CHUNK;

fn content(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(7) ^ (at >> 8) as u8 ^ seed.wrapping_mul(31)).collect()
}

fn send(link: &mut impl Link, length: usize, seed: u8) {
    let loan = link.loan(length, None).unwrap();
    assert_eq!(loan.data as usize % 64, 0);
    // SAFETY: an open loan of that length.
    unsafe { std::slice::from_raw_parts_mut(loan.data, length) }.copy_from_slice(&content(length, seed));
    assert!(link.publish(loan, u64::MAX).unwrap());
}

fn take(link: &mut impl Link) -> Option<Vec<u8>> {
    let message = link.take(0).unwrap()?;
    // SAFETY: a message that is held.
    let bytes = unsafe { std::slice::from_raw_parts(message.data, message.length) }.to_vec();
    assert_eq!(link.take(0).unwrap_err().status, Status::Failed, "one message is held");
    link.release(message);
    Some(bytes)
}

fn pair() -> (Wire, PacketLink<Wire>, PacketLink<Wire>) {
    let wire = Wire::default();
    let link = || PacketLink::new(wire.clone(), PACKET, MOST as u64).unwrap();
    let (sender, receiver) = (link(), link());
    (wire, sender, receiver)
}

fn sizes() -> impl Iterator<Item = usize> {
    let around = |bytes: usize| [bytes.saturating_sub(1), bytes, (bytes + 1).min(MOST)];
    (0..=10).flat_map(move |count| around(count * CHUNK)).chain(0..=200)
}

#[test]
fn packets_carry_every_size_in_the_fewest_sends() {
    let (wire, mut sender, mut receiver) = pair();
    for (seed, size) in sizes().enumerate() {
        let seed = seed as u8;
        send(&mut sender, size, seed);
        wire.edit(|packets| {
            assert_eq!(packets.len(), size.div_ceil(CHUNK).max(1));
            assert!(packets.iter().all(|packet| packet.len() <= PACKET));
        });
        // The loan's bytes are unchanged: those under the prefixes were restored. SAFETY: within the send buffer.
        let after = unsafe { std::slice::from_raw_parts(sender.loan(size, None).unwrap().data, size) };
        assert_eq!(after, content(size, seed));
        assert_eq!(take(&mut receiver), Some(content(size, seed)), "{size} bytes");
        assert_eq!(take(&mut receiver), None);
    }
}

#[test]
fn a_message_with_any_packet_lost_is_dropped_whole_and_the_next_is_right() {
    for packets in 1..=6 {
        let size = packets * CHUNK - 5;
        for lost in 0..packets {
            for next in [1, CHUNK, CHUNK + 1, size, MOST] {
                let (wire, mut sender, mut receiver) = pair();
                send(&mut sender, size, 1);
                wire.edit(|packets| drop(packets.remove(lost)));
                send(&mut sender, next, 2);
                assert_eq!(take(&mut receiver), Some(content(next, 2)), "{lost} of {packets} lost, then {next} bytes");
                assert_eq!(take(&mut receiver), None);
            }
        }
    }
}

#[test]
fn repeated_packets_are_ignored() {
    for packets in 2..=6 {
        let size = packets * CHUNK - 5;
        for repeated in 0..packets {
            for at in repeated..=packets {
                let (wire, mut sender, mut receiver) = pair();
                send(&mut sender, size, 1);
                wire.edit(|packets| packets.insert(at, packets[repeated].clone()));
                send(&mut sender, MOST, 2);
                assert_eq!(take(&mut receiver), Some(content(size, 1)), "{repeated} of {packets} again at {at}");
                assert_eq!(take(&mut receiver), Some(content(MOST, 2)));
                assert_eq!(take(&mut receiver), None);
            }
        }
    }
}

#[test]
fn a_whole_message_that_comes_twice_is_delivered_twice() {
    let (wire, mut sender, mut receiver) = pair();
    send(&mut sender, 10, 1);
    wire.edit(|packets| packets.push_back(packets[0].clone()));
    assert_eq!((take(&mut receiver), take(&mut receiver)), (Some(content(10, 1)), Some(content(10, 1))));
}

#[test]
fn packets_out_of_order_never_make_a_wrong_message() {
    for (first, second) in (0..5).flat_map(|first| (first + 1..5).map(move |second| (first, second))) {
        let (wire, mut sender, mut receiver) = pair();
        send(&mut sender, 5 * CHUNK, 1);
        wire.edit(|packets| packets.swap(first, second));
        send(&mut sender, 3 * CHUNK, 2);
        assert_eq!(take(&mut receiver), Some(content(3 * CHUNK, 2)), "{first} and {second} swapped");
    }
}

#[test]
fn damaged_and_foreign_packets_are_ignored() {
    let (wire, mut sender, mut receiver) = pair();
    let claim = |total: u32, offset: u32| {
        let mut bytes = Prefix { id: 9, total, offset, kind: DATA }.bytes().to_vec();
        bytes.extend([0xee; CHUNK]);
        bytes
    };
    send(&mut sender, 3 * CHUNK, 1);
    wire.edit(|packets| {
        packets.insert(1, vec![1; 5]);
        packets.insert(2, claim(MOST as u32 + 1, 0));
        packets.insert(2, claim(CHUNK as u32 - 1, 0));
        packets.insert(2, claim(u32::MAX, u32::MAX));
    });
    assert_eq!(take(&mut receiver), Some(content(3 * CHUNK, 1)));
}

#[test]
fn endless_useless_packets_do_not_hold_up_take() {
    let (wire, _sender, mut receiver) = pair();
    wire.edit(|packets| packets.extend(vec![vec![0; 3]; 1000]));
    assert_eq!(take(&mut receiver), None);
    assert!(wire.with(|inner| inner.packets.len()) > 900);
}

#[test]
fn packets_that_come_one_by_one_make_the_message() {
    let (wire, mut sender, mut receiver) = pair();
    send(&mut sender, MOST, 1);
    let mut held: Vec<_> = wire.with(|inner| inner.packets.drain(..).collect());
    let last = held.pop().unwrap();
    for packet in held {
        wire.edit(|packets| packets.push_back(packet));
        assert_eq!(take(&mut receiver), None);
    }
    wire.edit(|packets| packets.push_back(last));
    assert_eq!(take(&mut receiver), Some(content(MOST, 1)));
}

#[test]
fn a_farewell_closes() {
    let (_wire, mut sender, mut receiver) = pair();
    send(&mut sender, 10, 1);
    drop(sender);
    assert_eq!(take(&mut receiver), Some(content(10, 1)));
    for _ in 0..2 {
        assert_eq!(receiver.take(0).unwrap_err().status, Status::Closed);
    }
}

#[test]
fn interruptions_lose_nothing() {
    for errno in [libc::EAGAIN, libc::EINTR] {
        for piece in [0, 1, 7, 1000] {
            let wire = Wire::stream(piece, Some(errno));
            let case = format!("errno {errno}, piece {piece}");
            if piece == 0 {
                let link = || PacketLink::new(wire.clone(), PACKET, MOST as u64).unwrap();
                there(&mut link(), &mut link(), &case);
            } else {
                let link = || StreamLink::new(wire.clone(), Some(PACKET), MOST as u64).unwrap();
                there(&mut link(), &mut link(), &case);
            }
        }
    }
}

fn there(sender: &mut impl Link, receiver: &mut impl Link, case: &str) {
    for (seed, size) in [0, 1, CHUNK, MOST, 3 * CHUNK + 1, 2].into_iter().enumerate() {
        send(sender, size, seed as u8);
        let got = (0..10_000).find_map(|_| take(receiver));
        assert_eq!(got, Some(content(size, seed as u8)), "{size} bytes, {case}");
    }
}

#[test]
fn a_stream_keeps_messages_apart_in_any_pieces() {
    for piece in [1, 3, 15, 16, 17, 100, 100_000] {
        for packet in [None, Some(16), Some(PACKET)] {
            let wire = Wire::stream(piece, None);
            let link = || StreamLink::new(wire.clone(), packet, MOST as u64).unwrap();
            let (mut sender, mut receiver) = (link(), link());
            // A long message makes the receiver ask for more, so that the short ones arrive together.
            let sizes = [MOST, 0, 5, MOST, 1, 2, 3, 0, 0, MOST / 2, 40, MOST];
            for (seed, size) in sizes.into_iter().enumerate() {
                send(&mut sender, size, seed as u8);
            }
            for (seed, size) in sizes.into_iter().enumerate() {
                let got = take(&mut receiver);
                assert_eq!(got, Some(content(size, seed as u8)), "message {seed} of {size} bytes, piece {piece}");
            }
            assert_eq!(take(&mut receiver), None);
        }
    }
}

#[test]
fn a_stream_costs_one_send_and_one_receive_per_message_of_the_same_size() {
    let wire = Wire::stream(100_000, None);
    let link = || StreamLink::new(wire.clone(), None, MOST as u64).unwrap();
    let (mut sender, mut receiver) = (link(), link());
    for round in 0..10 {
        let before = wire.with(|inner| inner.calls);
        send(&mut sender, 100, round);
        assert!(take(&mut receiver).is_some());
        let calls = wire.with(|inner| inner.calls) - before;
        assert_eq!(calls, if round == 0 { 3 } else { 2 });
    }
}

#[test]
fn a_stream_out_of_step_is_an_error() {
    let wire = Wire::stream(1000, None);
    let mut receiver = StreamLink::new(wire.clone(), None, MOST as u64).unwrap();
    wire.edit(|packets| packets.push_back(vec![0xff; 100]));
    assert_eq!(receiver.take(0).unwrap_err().status, Status::Failed);
}

#[test]
fn messages_longer_than_announced_are_refused() {
    let (_wire, mut sender, _receiver) = pair();
    assert_eq!(sender.loan(MOST + 1, None).unwrap_err().status, Status::Limit);
    let two = [Vec::new(), Vec::new()];
    assert_eq!(sender.connect(&two, 0).unwrap_err().status, Status::Limit);
}
