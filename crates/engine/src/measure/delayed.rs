//! Link that delays every message, to check that a comparison detects a known slowdown.

use crate::clock::Clock;
use tripmeter_abi::{Link, Loan, Message, Result};

/// Link that spins before it sends a message. At the follower, this is between taking a message and answering it.
pub struct Delayed<'a, L, C> {
    pub link: &'a mut L,
    pub clock: C,
    /// Spin time, up to one clock reading longer.
    pub ticks: u64,
}

impl<L: Link, C: Clock + Send> Link for Delayed<'_, L, C> {
    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        self.link.connect(peers, timeout_ns)
    }

    fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan> {
        self.link.loan(length, in_reply_to)
    }

    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool> {
        let begin = self.clock.now();
        while self.clock.now().wrapping_sub(begin) < self.ticks {}
        self.link.publish(loan, timeout_ns)
    }

    fn discard(&mut self, loan: Loan) {
        self.link.discard(loan);
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        self.link.take(timeout_ns)
    }

    fn release(&mut self, message: Message) {
        self.link.release(message);
    }
}
