//! Link with a clock reading around each call, for the passes that break down a latency. No measurement uses it.

use super::notes::{ArrivalLog, NEVER};
use super::stamps::Stamps;
use crate::clock::Clock;
use crate::message;
use tripmeter_abi::{Link, Loan, Message, Result};

/// Ticks at which one side handled a message; [`NEVER`] where it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallStamps {
    /// Start of the call that gets a buffer for its message.
    pub prepare: u64,
    /// Start of its send call.
    pub send: u64,
    /// Return of its send call.
    pub sent: u64,
    /// Start of the receive call that returned the other side's message; [`NEVER`] under wait `callback`.
    pub take: u64,
    /// Return of that call.
    pub taken: u64,
}

/// Stamps of one side, for messages from number `first` on, in memory written once before (no page faults).
pub struct StampLog<'m> {
    first: u64,
    prepare: &'m mut [u64],
    send: &'m mut [u64],
    sent: &'m mut [u64],
    take: &'m mut [u64],
    taken: &'m mut [u64],
}

/// Number of logs in a [`StampLog`].
pub const STAMPS: usize = 5;

impl<'m> StampLog<'m> {
    /// Stamps of messages from number `first` on, kept in `logs`; `None` unless there are [`STAMPS`] logs.
    pub fn new(first: u64, logs: Vec<ArrivalLog<'m>>) -> Option<Self> {
        let logs: [ArrivalLog<'m>; STAMPS] = logs.try_into().ok()?;
        let [prepare, send, sent, take, taken] = logs.map(|log| log.ticks);
        Some(Self { first, prepare, send, sent, take, taken })
    }

    fn place(&self, sequence: u64) -> Option<usize> {
        let place = sequence.wrapping_sub(self.first) as usize;
        (place < self.taken.len()).then_some(place)
    }

    pub fn calls(&self, sequence: u64) -> Option<CallStamps> {
        let place = self.place(sequence)?;
        Some(CallStamps {
            prepare: self.prepare[place],
            send: self.send[place],
            sent: self.sent[place],
            take: self.take[place],
            taken: self.taken[place],
        })
    }

    /// Notes when a message was taken outside of a receive call.
    pub fn called_back(&mut self, sequence: u64, taken: u64) {
        if let Some(place) = self.place(sequence) {
            self.taken[place] = taken;
        }
    }

    /// Moves the log of [`CallStamps::taken`] out, for messages that come outside of a receive call.
    pub fn called_back_log<C>(&mut self, clock: C) -> CallbackStamps<'m, C> {
        CallbackStamps { clock, first: self.first, taken: std::mem::take(&mut self.taken) }
    }
}

/// Stamps of messages that come to a callback. Messages taken by a call need none: the call is stamped.
pub struct CallbackStamps<'m, C> {
    clock: C,
    first: u64,
    taken: &'m mut [u64],
}

impl<C> CallbackStamps<'_, C> {
    pub fn none(clock: C) -> Self {
        Self { clock, first: 0, taken: &mut [] }
    }
}

impl<C: Clock> Stamps for CallbackStamps<'_, C> {
    type At = u64;

    #[inline(always)]
    fn stamp(&self) -> u64 {
        if self.taken.is_empty() { NEVER } else { self.clock.now() }
    }

    #[inline(always)]
    fn arrived(&mut self, sequence: u64, at: u64) {
        if let Some(taken) = self.taken.get_mut(sequence.wrapping_sub(self.first) as usize)
            && *taken == NEVER
        {
            *taken = at;
        }
    }
}

/// Link that reads the clock around each send and receive call, and keeps the stamps by message number.
pub struct Stamped<'a, 'm, L, C> {
    link: &'a mut L,
    clock: C,
    log: &'a mut StampLog<'m>,
    prepare: u64,
}

impl<'a, 'm, L, C> Stamped<'a, 'm, L, C> {
    pub fn new(link: &'a mut L, clock: C, log: &'a mut StampLog<'m>) -> Self {
        Self { link, clock, log, prepare: NEVER }
    }
}

impl<L: Link, C: Clock> Link for Stamped<'_, '_, L, C> {
    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        self.link.connect(peers, timeout_ns)
    }

    #[inline(always)]
    fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan> {
        self.prepare = self.clock.now();
        self.link.loan(length, in_reply_to)
    }

    #[inline(always)]
    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool> {
        let written = Message { data: loan.data, length: loan.length, token: loan.token };
        let sequence = message::header(&written).map_or(0, |header| header.sequence);
        let send = self.clock.now();
        let published = self.link.publish(loan, timeout_ns);
        let sent = self.clock.now();
        let place = sequence.wrapping_sub(self.log.first) as usize;
        if let Some(kept) = self.log.sent.get_mut(place) {
            *kept = sent;
            (self.log.prepare[place], self.log.send[place]) = (self.prepare, send);
        }
        published
    }

    fn discard(&mut self, loan: Loan) {
        self.link.discard(loan);
    }

    #[inline(always)]
    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let take = self.clock.now();
        let message = self.link.take(timeout_ns)?;
        if let Some(message) = &message {
            let taken = self.clock.now();
            let sequence = message::header(message).map_or(0, |header| header.sequence);
            // The first arrival counts.
            if let Some(place) = self.log.place(sequence).filter(|place| self.log.taken[*place] == NEVER) {
                (self.log.take[place], self.log.taken[place]) = (take, taken);
            }
        }
        Ok(message)
    }

    #[inline(always)]
    fn release(&mut self, message: Message) {
        self.link.release(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Header, Kind, TouchLimit};
    use std::ptr::null_mut;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;

    const LENGTH: usize = 16;

    struct Slow<'a> {
        clock: &'a AtomicU64,
        data: [u64; LENGTH / 8],
        is_there: bool,
    }

    impl Slow<'_> {
        fn take_time(&self, time: u64) {
            self.clock.fetch_add(time, Relaxed);
        }
    }

    impl Link for Slow<'_> {
        fn connect(&mut self, _: &[Vec<u8>], _: u64) -> Result<()> {
            Ok(())
        }

        fn loan(&mut self, length: usize, _: Option<&Message>) -> Result<Loan> {
            self.take_time(3);
            Ok(Loan { data: self.data.as_mut_ptr().cast(), length, token: null_mut() })
        }

        fn publish(&mut self, _: Loan, _: u64) -> Result<bool> {
            self.take_time(20);
            Ok(true)
        }

        fn discard(&mut self, _: Loan) {}

        fn take(&mut self, _: u64) -> Result<Option<Message>> {
            self.take_time(100);
            self.is_there = !self.is_there;
            let message = || Message { data: self.data.as_ptr().cast(), length: LENGTH, token: null_mut() };
            Ok(self.is_there.then(message))
        }

        fn release(&mut self, _: Message) {
            self.take_time(1000);
        }
    }

    struct Shown<'a>(&'a AtomicU64);

    impl Clock for Shown<'_> {
        fn now(&self) -> u64 {
            self.0.load(Relaxed)
        }
    }

    #[test]
    fn each_call_is_stamped_by_the_number_of_its_message_and_looks_in_vain_are_not() {
        let clock = AtomicU64::new(1);
        let mut columns = [[NEVER; 3]; STAMPS];
        let logs = columns.iter_mut().map(|ticks| ArrivalLog { ticks, marks: &mut [] }).collect();
        let mut log = StampLog::new(7, logs).unwrap();
        let mut inner = Slow { clock: &clock, data: [0; LENGTH / 8], is_there: true };
        let mut link = Stamped::new(&mut inner, Shown(&clock), &mut log);
        for sequence in [8, 99] {
            let loan = link.loan(LENGTH, None).unwrap();
            message::write(&loan, Header::new(sequence, Kind::Ping, LENGTH), TouchLimit::NONE);
            assert!(link.publish(loan, 0).unwrap());
            assert!(link.take(0).unwrap().is_none());
            let message = link.take(0).unwrap().unwrap();
            link.release(message);
        }
        let expected = CallStamps { prepare: 1, send: 4, sent: 24, take: 124, taken: 224 };
        assert_eq!((log.calls(8), log.calls(10)), (Some(expected), None));
        let never = CallStamps { prepare: NEVER, send: NEVER, sent: NEVER, take: NEVER, taken: NEVER };
        assert_eq!((log.calls(7), log.calls(9)), (Some(never), Some(never)), "others are not stamped");
        log.called_back(9, 5);
        assert_eq!(log.calls(9).map(|calls| calls.taken), Some(5));
        let mut come = log.called_back_log(Shown(&clock));
        for sequence in [7, 8, 99] {
            let at = come.stamp();
            come.arrived(sequence, at);
        }
        assert_eq!((columns[4], CallbackStamps::none(Shown(&clock)).stamp()), ([2447, 224, 5], NEVER));
    }
}
