//! Follower's loop under `ping` and `call`.

use super::setting::LoopSetting;
use super::stamps::Stamps;
use super::{Failure, Shared, TAKE_TIMEOUT_NS};
use crate::message::{self, Header, Kind, TouchLimit};
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::{Link, Message};

/// Answers every message, by `poll` or `block`, until [`Shared::stop`] is set or the leader has gone.
#[inline(never)]
pub fn run<L: Link>(link: &mut L, setting: LoopSetting<'_>, stamps: &mut impl Stamps) -> Result<(), Failure> {
    let LoopSetting { shared, loss_timeout_ns, touch, .. } = setting;
    while step(link, loss_timeout_ns, touch, stamps)? || !is_over(shared) {}
    Ok(())
}

/// Answers the messages of several links in turns, by `poll`, until [`Shared::stop`] is set or the leader has gone. Each
/// link has its own stamps.
#[inline(never)]
pub fn take_turns<L: Link, S: Stamps>(
    links: &mut [L],
    setting: LoopSetting<'_>,
    stamps: &mut [S],
) -> Result<(), Failure> {
    let LoopSetting { shared, loss_timeout_ns, touch, .. } = setting;
    let mut is_busy = true;
    while is_busy || !is_over(shared) {
        is_busy = false;
        for (link, stamps) in links.iter_mut().zip(&mut *stamps) {
            is_busy |= step(link, loss_timeout_ns, touch, stamps)?;
        }
    }
    Ok(())
}

fn is_over(shared: &Shared) -> bool {
    shared.stop.load(Relaxed) || shared.peer_gone.load(Relaxed)
}

/// Answers the next message; false if there was none.
#[inline(always)]
fn step<L: Link>(link: &mut L, timeout_ns: u64, touch: TouchLimit, stamps: &mut impl Stamps) -> Result<bool, Failure> {
    let Some(message) = link.take(timeout_ns.min(TAKE_TIMEOUT_NS))? else { return Ok(false) };
    let answered = answer(link, &message, timeout_ns, touch, stamps);
    link.release(message);
    answered.map(|()| true)
}

/// Sends a message of the same size back. A full transport may delay it for `timeout_ns`.
///
/// A message with an intact header gets a valid answer. A damaged header goes back unchanged, so that the leader counts
/// it; one of several followers reports the damage instead. A message too short for a header is not answered.
#[inline(always)]
pub fn answer<L: Link, S: Stamps>(
    link: &mut L,
    message: &Message,
    timeout_ns: u64,
    touch: TouchLimit,
    stamps: &mut S,
) -> Result<(), Failure> {
    let Some(header) = message::header(message) else { return Ok(()) };
    let at = stamps.stamp();
    let reply = if header == Header::new(header.sequence, Kind::Ping, message.length) {
        stamps.arrived(header.sequence, at);
        let intact = message::body_intact(message, header.sequence, touch);
        let kind = if intact { Kind::Pong } else { Kind::PongToDamaged };
        Header::from_sender(header.sequence, kind, message.length, stamps.follower().unwrap_or(0))
    } else if let Some(follower) = stamps.follower() {
        Header::from_sender(header.sequence, Kind::PongToUnreadable, message.length, follower)
    } else {
        header
    };
    let loan = link.loan(message.length, S::REPLIES.then_some(message))?;
    message::write(&loan, reply, touch);
    // The leader counts an answer that could not be sent in time as lost.
    link.publish(loan, timeout_ns)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(unsafe_code, reason = "memory as a transport lends it")]

    use super::*;
    use std::ptr::null_mut;
    use tripmeter_abi::{Loan, Result};

    const LENGTH: usize = 64;

    struct Kept([u64; LENGTH / 8]);

    impl Link for Kept {
        fn connect(&mut self, _: &[Vec<u8>], _: u64) -> Result<()> {
            Ok(())
        }

        fn loan(&mut self, length: usize, _: Option<&Message>) -> Result<Loan> {
            Ok(Loan { data: self.0.as_mut_ptr().cast(), length, token: null_mut() })
        }

        fn publish(&mut self, _: Loan, _: u64) -> Result<bool> {
            Ok(true)
        }

        fn discard(&mut self, _: Loan) {}

        fn take(&mut self, _: u64) -> Result<Option<Message>> {
            Ok(None)
        }

        fn release(&mut self, _: Message) {}
    }

    /// Stamps that damage each message as soon as it comes.
    struct Damaging(*mut u8);

    impl Stamps for Damaging {
        type At = ();

        fn stamp(&self) {
            // SAFETY: the message's own buffer, which nobody else reads meanwhile.
            unsafe { *self.0 ^= 1 };
        }

        fn arrived(&mut self, sequence: u64, (): ()) {
            assert_eq!(sequence, 7);
        }
    }

    #[derive(Default)]
    struct Numbers(Vec<u64>);

    impl Stamps for Numbers {
        type At = ();

        fn stamp(&self) {}

        fn arrived(&mut self, sequence: u64, (): ()) {
            self.0.push(sequence);
        }
    }

    #[test]
    fn a_header_that_cannot_be_read_is_no_arrival() {
        let (mut link, mut ping, mut stamps) = (Kept([0; LENGTH / 8]), [0_u64; LENGTH / 8], Numbers::default());
        let data = ping.as_mut_ptr().cast::<u8>();
        let received = Message { data, length: LENGTH, token: null_mut() };
        for (byte, expected) in [(None, &[7][..]), (Some(0), &[7]), (Some(9), &[7]), (None, &[7, 7])] {
            let loan = Loan { data, length: LENGTH, token: null_mut() };
            message::write(&loan, Header::new(7, Kind::Ping, LENGTH), TouchLimit::FULL);
            if let Some(byte) = byte {
                // SAFETY: inside the header, which has 16 bytes.
                unsafe { *data.add(byte) ^= 1 };
            }
            answer(&mut link, &received, 0, TouchLimit::FULL, &mut stamps).unwrap();
            assert_eq!(stamps.0, expected, "{byte:?}");
        }
    }

    #[test]
    fn a_message_is_stamped_before_it_is_verified() {
        let (mut link, mut ping) = (Kept([0; LENGTH / 8]), [0_u64; LENGTH / 8]);
        let data = ping.as_mut_ptr().cast::<u8>();
        message::write(
            &Loan { data, length: LENGTH, token: null_mut() },
            Header::new(7, Kind::Ping, LENGTH),
            TouchLimit::FULL,
        );
        let received = Message { data, length: LENGTH, token: null_mut() };
        // SAFETY: inside the message, behind its header.
        let mut stamps = Damaging(unsafe { data.add(LENGTH - 1) });
        answer(&mut link, &received, 0, TouchLimit::FULL, &mut stamps).unwrap();
        let answered = Message { data: link.0.as_ptr().cast(), length: LENGTH, token: null_mut() };
        let header = message::header(&answered).and_then(|header| header.intact(LENGTH));
        assert_eq!(header, Some(Kind::PongToDamaged));
    }
}
