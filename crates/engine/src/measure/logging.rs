//! Loop of pattern `log`: one call of the logger after the other, each between two clock readings.

use super::{Failure, LoopEnd, Shared};
use crate::clock::Clock;
use crate::log_check::LogText;
use crate::message;
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::Link;

pub struct LogCaller<'a, L, C> {
    pub link: &'a mut L,
    pub clock: C,
    pub text: &'a LogText,
    /// Bytes of every text, at least 16.
    pub length: usize,
    pub sequence: u64,
    pub shared: &'a Shared,
    /// Longest time that the logger may delay one call.
    pub timeout_ns: u64,
    pub refused: u64,
}

impl<L: Link, C: Clock> LogCaller<'_, L, C> {
    /// Logs one line per place in `samples`, and stores the ticks that the call took there. Ends early at the deadline,
    /// or if the user has asked to stop. Returns the number of lines.
    /// Fails if the logger fails or takes no more lines, or the reader has gone.
    #[inline(never)]
    pub fn run(&mut self, samples: &mut [u64], deadline: u64) -> Result<(usize, LoopEnd), Failure> {
        for (index, sample) in samples.iter_mut().enumerate() {
            if self.shared.stop.load(Relaxed) {
                return Ok((index, LoopEnd::Stopped));
            }
            if self.shared.peer_gone.load(Relaxed) {
                return Err(Failure::PeerGone);
            }
            let loan = self.link.loan(self.length, None)?;
            message::write_text(&loan, |bytes| self.text.write(self.sequence + 1, bytes));
            let begin = self.clock.now();
            let is_taken = self.link.publish(loan, self.timeout_ns)?;
            let mut end = self.clock.now();
            if !is_taken {
                if !self.again()? {
                    return Ok((index, self.shared.early_end()));
                }
                end = self.clock.now();
            }
            *sample = end - begin;
            self.sequence += 1;
            if end >= deadline {
                return Ok((index + 1, LoopEnd::Deadline));
            }
        }
        Ok((samples.len(), LoopEnd::Full))
    }

    /// Retries a refused line. False if the user has asked to stop, or the time is over.
    #[cold]
    fn again(&mut self) -> Result<bool, Failure> {
        for count in 1.. {
            self.refused += 1;
            if !self.shared.after_refusal(count, self.timeout_ns, self.clock.now())? {
                break;
            }
            let loan = self.link.loan(self.length, None)?;
            message::write_text(&loan, |bytes| self.text.write(self.sequence + 1, bytes));
            if self.link.publish(loan, self.timeout_ns)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
