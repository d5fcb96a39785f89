use crate::message::{self, Header, Kind, TouchLimit};
use crate::numbers::{Numbers, Place};
use crate::wire::Arrived;
use tripmeter_abi::Message;

/// Counter of a stream of numbered messages. Its memory grows with the number of missing messages.
#[derive(Debug)]
pub struct Arrivals {
    pub counts: Arrived,
    /// Publisher of the stream, 0 if there is only one.
    publisher: u32,
    numbers: Numbers,
}

/// Class of a message, by its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// Intact, with a higher number than all messages before.
    InOrder(u64),
    /// Intact, but after a message with a higher number.
    Overtaken(u64),
    Again(u64),
    /// Its touched payload differs from what was written.
    Damaged(u64),
    Unreadable,
    /// From an earlier stream.
    Earlier,
}

impl Arrivals {
    pub fn new(first: u64) -> Self {
        Self::for_publisher(first, 0)
    }

    pub fn for_publisher(first: u64, publisher: u32) -> Self {
        Self { counts: Arrived::default(), publisher, numbers: Numbers::new(first) }
    }

    /// Counts a message and returns its class.
    #[inline(always)]
    pub fn count(&mut self, message: &Message, touch: TouchLimit) -> Came {
        let next = self.numbers.next();
        let expected =
            message::header(message) == Some(Header::from_sender(next, Kind::Ping, message.length, self.publisher));
        if expected && message::body_intact(message, next, touch) {
            self.counts.received += 1;
            Came::InOrder(self.numbers.advance())
        } else {
            self.stray(message, touch)
        }
    }

    /// True if no message up to `last` is missing.
    pub fn is_complete(&self, last: u64) -> bool {
        self.missing(last) == 0
    }

    /// Number of messages up to `last`, minus all arrivals that were intact, damaged or unreadable.
    pub fn missing(&self, last: u64) -> u64 {
        (last + 1).saturating_sub(self.numbers.first()).saturating_sub(self.counts.received + self.counts.damaged)
    }

    /// True if message `last`, or a later one, has come.
    pub fn is_past(&self, last: u64) -> bool {
        self.numbers.next() > last
    }

    #[cold]
    #[inline(never)]
    fn stray(&mut self, message: &Message, touch: TouchLimit) -> Came {
        let is_ours = |header: &Header| header.intact_of(message.length) == Some((Kind::Ping, self.publisher));
        let header = message::header(message).filter(is_ours);
        let Some(Header { sequence, .. }) = header else {
            self.counts.damaged += 1;
            return Came::Unreadable;
        };
        let place = self.numbers.add(sequence);
        match place {
            Place::Earlier => {
                self.counts.earlier += 1;
                return Came::Earlier;
            }
            Place::Again => {
                self.counts.duplicated += 1;
                return Came::Again(sequence);
            }
            Place::Ahead | Place::Overtaken => {}
        }
        if !message::body_intact(message, sequence, touch) {
            self.counts.damaged += 1;
            return Came::Damaged(sequence);
        }
        self.counts.received += 1;
        if place == Place::Ahead {
            return Came::InOrder(sequence);
        }
        self.counts.reordered += 1;
        Came::Overtaken(sequence)
    }
}

#[cfg(test)]
mod tests {
    #![expect(unsafe_code, reason = "memory as a transport lends it")]

    use super::*;
    use crate::message::write;
    use std::ptr::null_mut;
    use tripmeter_abi::Loan;

    fn came(sequences: &[u64]) -> Arrivals {
        let mut arrivals = Arrivals::new(11);
        for sequence in sequences {
            let header = Header::new(*sequence, Kind::Ping, 16);
            arrivals
                .count(&Message { data: (&raw const header).cast(), length: 16, token: null_mut() }, TouchLimit::NONE);
        }
        arrivals
    }

    fn counts(sequences: &[u64]) -> (u64, u64, u64, u64) {
        let Arrived { received, duplicated, reordered, earlier, .. } = came(sequences).counts;
        (received, duplicated, reordered, earlier)
    }

    #[test]
    fn each_number_counts_once_in_whatever_order() {
        assert_eq!(counts(&[11, 12, 13]), (3, 0, 0, 0));
        assert_eq!(counts(&[11, 13, 12, 14]), (4, 0, 1, 0));
        assert_eq!(counts(&[11, 11, 12, 11, 12]), (2, 3, 0, 0));
        assert_eq!(counts(&[20, 15, 11, 19, 15, 20]), (4, 2, 3, 0));
        assert_eq!(counts(&[3, 10, 11, 12]), (2, 0, 0, 2));
        // An invented number stays the highest, but does not complete the stream.
        assert_eq!(counts(&[11, u64::MAX, u64::MAX, 12, u64::MAX - 1, 12]), (5, 1, 2, 0));
    }

    #[test]
    fn sums_are_of_every_count_and_the_latest_of_both() {
        let one = Arrived { received: 2, duplicated: 3, reordered: 5, damaged: 7, earlier: 11, latest: Some(13) };
        let mut sum = one;
        sum.add(&Arrived { received: 20, duplicated: 30, reordered: 50, damaged: 70, earlier: 110, latest: Some(4) });
        let expected =
            Arrived { received: 22, duplicated: 33, reordered: 55, damaged: 77, earlier: 121, latest: Some(13) };
        assert_eq!(sum, expected);
        sum = Arrived::default();
        sum.add(&one);
        assert_eq!(sum, one);
    }

    #[test]
    fn the_end_is_known_by_count_and_by_number() {
        let arrivals = came(&[11, 12, 14]);
        assert!(arrivals.is_past(14) && !arrivals.is_complete(14) && !arrivals.is_past(15));
        assert!(came(&[11, 12, 14, 13]).is_complete(14));
        assert!(came(&[]).is_complete(10), "a stream of nothing");
    }

    #[test]
    fn damage_is_one_count_and_no_reception() {
        let mut words = [0_u64; 4];
        let data = words.as_mut_ptr().cast::<u8>();
        let mut arrivals = Arrivals::new(1);
        for (sequence, flipped) in [(1, None), (2, Some(3)), (3, Some(20)), (4, None), (3, None)] {
            write(
                &Loan { data, length: 32, token: null_mut() },
                Header::new(sequence, Kind::Ping, 32),
                TouchLimit::FULL,
            );
            if let Some(at) = flipped {
                // SAFETY: inside the 32 bytes.
                unsafe { *data.add(at) ^= 1 };
            }
            arrivals.count(&Message { data, length: 32, token: null_mut() }, TouchLimit::FULL);
        }
        let Arrived { received, damaged, duplicated, .. } = arrivals.counts;
        // Message 3 comes again, intact. Which of messages 1 to 4 had the damaged header is unknown.
        assert_eq!((received, damaged, duplicated), (2, 2, 1));
        assert!(arrivals.is_complete(4));
    }
}
