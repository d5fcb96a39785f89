//! Both links when the system has no room for a whole message.
#![expect(unsafe_code, reason = "memory and calls as a host has them")]

use super::*;
use crate::os::{Io, Port};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;

const PACKET: usize = 64;
const ROOM: usize = 2 * PACKET;
const LENGTH: usize = 5 * PACKET;
/// Time limit, after which a test that hangs fails.
const LONGEST_NS: u64 = 10_000_000_000;

/// One direction: a queue of packets, or of single bytes of a stream, with room for [`ROOM`] bytes.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl Pipe {
    fn used(&self) -> usize {
        self.0.lock().unwrap().iter().map(Vec::len).sum()
    }

    fn fill(&self) {
        while self.used() + PACKET <= ROOM {
            thread::yield_now();
        }
    }
}

struct Ends {
    is_stream: bool,
    out: Pipe,
    back: Pipe,
}

impl Port for Ends {
    fn send(&self, bytes: &[u8]) -> Io {
        let left = ROOM - self.out.used();
        let count = if self.is_stream { bytes.len().min(left) } else { bytes.len() };
        if count == 0 || count > left {
            return Err(libc::EAGAIN);
        }
        let piece = if self.is_stream { 1 } else { count };
        self.out.0.lock().unwrap().extend(bytes[..count].chunks(piece).map(<[u8]>::to_vec));
        Ok(count)
    }

    fn receive(&self, room: &mut [u8]) -> Io {
        let mut queue = self.back.0.lock().unwrap();
        let mut count = 0;
        while let Some(piece) = queue.front().filter(|piece| count + piece.len() <= room.len()) {
            room[count..count + piece.len()].copy_from_slice(piece);
            count += piece.len();
            queue.pop_front();
            if !self.is_stream {
                break;
            }
        }
        if count == 0 { Err(libc::EAGAIN) } else { Ok(count) }
    }
}

impl Endpoint for Ends {
    fn address(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn connect(&mut self, _peer: &[u8], _deadline: Deadline) -> Result<()> {
        Ok(())
    }

    fn has_arrived(&self) -> bool {
        self.back.used() > 0
    }
}

type AnyLink = Box<dyn Link + Send>;

/// Leader, follower, and the direction from leader to follower.
fn pair(is_stream: bool) -> (AnyLink, AnyLink, Pipe) {
    let (there, back) = (Pipe::default(), Pipe::default());
    let link = |out: &Pipe, back: &Pipe| -> AnyLink {
        let ends = Ends { is_stream, out: out.clone(), back: back.clone() };
        match is_stream {
            true => Box::new(StreamLink::new(ends, None, LENGTH as u64).unwrap()),
            false => Box::new(PacketLink::new(ends, PACKET, LENGTH as u64).unwrap()),
        }
    };
    (link(&there, &back), link(&back, &there), there)
}

fn publish(link: &mut AnyLink, content: u8, timeout_ns: u64) -> bool {
    let loan = link.loan(LENGTH, None).unwrap();
    // SAFETY: an open loan of that length.
    unsafe { std::slice::from_raw_parts_mut(loan.data, LENGTH) }.fill(content);
    link.publish(loan, timeout_ns).unwrap()
}

fn content(message: &Message) -> u8 {
    // SAFETY: a message that is held.
    let bytes = unsafe { std::slice::from_raw_parts(message.data, message.length) };
    assert!(bytes.len() == LENGTH && bytes.iter().all(|byte| *byte == bytes[0]));
    bytes[0]
}

fn next(link: &mut AnyLink) -> Message {
    let deadline = Deadline::after(LONGEST_NS);
    loop {
        if let Some(message) = link.take(0).unwrap() {
            return message;
        }
        assert!(deadline.left().is_some(), "no message");
    }
}

fn take(link: &mut AnyLink) -> u8 {
    let message = next(link);
    let content = content(&message);
    link.release(message);
    content
}

#[test]
fn an_answer_that_was_given_up_and_the_next_message_pass_each_other() {
    for is_stream in [true, false] {
        let (mut leader, mut follower, there) = pair(is_stream);
        let follower = thread::spawn(move || {
            let held = next(&mut follower);
            // The leader sends the next one without waiting.
            there.fill();
            assert!(publish(&mut follower, content(&held) + 10, LONGEST_NS), "the answer has no room");
            follower.release(held);
            let second = take(&mut follower);
            assert!(publish(&mut follower, second + 10, LONGEST_NS));
        });
        assert!(publish(&mut leader, 1, LONGEST_NS));
        assert!(publish(&mut leader, 2, LONGEST_NS), "the next message has no room");
        assert_eq!([take(&mut leader), take(&mut leader)], [11, 12]);
        follower.join().unwrap();
    }
}

#[test]
fn a_message_of_which_packets_had_no_room_is_dropped() {
    let (mut leader, mut follower, _) = pair(false);
    assert!(!publish(&mut leader, 1, 0));
    let taker = thread::spawn(move || take(&mut follower));
    assert!(publish(&mut leader, 2, LONGEST_NS));
    assert_eq!(taker.join().unwrap(), 2);
}
