use crate::message;
use crate::proof::Observer;
use tripmeter_abi::{Link, Loan, Message, Result};

/// Link that shows its messages to an observer. It is off in measurements, where it costs nothing.
pub struct Tap<'a, L, const ON: bool> {
    link: &'a mut L,
    observer: Option<&'a mut Observer>,
}

impl<'a, L: Link> Tap<'a, L, false> {
    pub fn off(link: &'a mut L) -> Self {
        Self { link, observer: None }
    }
}

impl<'a, L: Link> Tap<'a, L, true> {
    /// Link that shows the address of every message sent or received.
    pub fn on(link: &'a mut L, observer: &'a mut Observer) -> Self {
        Self { link, observer: Some(observer) }
    }
}

impl<L: Link, const ON: bool> Tap<'_, L, ON> {
    /// Shows a received message to the observer; [`Link::take`] does so by itself.
    #[inline(always)]
    pub fn seen(&mut self, message: &Message) {
        if ON
            && let Some(observer) = &mut self.observer
            && let Some(header) = message::header(message)
        {
            observer.received(header.sequence, message.data, message.length);
        }
    }
}

impl<L: Link, const ON: bool> Link for Tap<'_, L, ON> {
    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        self.link.connect(peers, timeout_ns)
    }

    #[inline(always)]
    fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan> {
        self.link.loan(length, in_reply_to)
    }

    #[inline(always)]
    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool> {
        if ON && let Some(observer) = &mut self.observer {
            let written = Message { data: loan.data, length: loan.length, token: loan.token };
            if let Some(header) = message::header(&written) {
                observer.sent(header.sequence, loan.data, loan.length);
            }
        }
        self.link.publish(loan, timeout_ns)
    }

    fn discard(&mut self, loan: Loan) {
        self.link.discard(loan);
    }

    #[inline(always)]
    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let taken = self.link.take(timeout_ns)?;
        if ON && let Some(message) = &taken {
            self.seen(message);
        }
        Ok(taken)
    }

    #[inline(always)]
    fn release(&mut self, message: Message) {
        self.link.release(message);
    }
}
