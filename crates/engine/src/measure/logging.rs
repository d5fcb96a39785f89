//! Loop of pattern `log`: one call of the logger after the other, each between two clock readings.

use super::{Failure, LoopEnd, LoopSetting};
use crate::clock::Clock;
use crate::log_check::LogText;
use crate::message;
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::Link;

/// Lines logged so far.
pub struct Logging<'a> {
    pub text: &'a LogText,
    /// Bytes of every text, at least 16.
    pub length: usize,
    pub sequence: u64,
    pub refused: u64,
}

pub struct LogCaller<'a, 't, L, C> {
    pub link: &'a mut L,
    pub clock: C,
    pub setting: LoopSetting<'a>,
    pub log: &'a mut Logging<'t>,
}

impl<L: Link, C: Clock> LogCaller<'_, '_, L, C> {
    /// Logs a line for each place of `samples`, and stores the ticks of the call there. Ends early at the deadline, or if the
    /// user has asked to stop. Returns the number of lines.
    /// Fails if the logger fails or takes no more lines, or nobody is left to read them.
    #[inline(never)]
    pub fn run(&mut self, samples: &mut [u64], deadline: u64) -> Result<(usize, LoopEnd), Failure> {
        for (index, sample) in samples.iter_mut().enumerate() {
            if self.setting.shared.stop.load(Relaxed) {
                return Ok((index, LoopEnd::Stopped));
            }
            if self.setting.shared.peer_gone.load(Relaxed) {
                return Err(Failure::PeerGone);
            }
            let loan = self.link.loan(self.log.length, None)?;
            message::write_text(&loan, |bytes| self.log.text.write(self.log.sequence + 1, bytes));
            let begin = self.clock.now();
            let is_taken = self.link.publish(loan, self.setting.loss_timeout_ns)?;
            let mut end = self.clock.now();
            if !is_taken {
                if !self.again()? {
                    return Ok((index, self.setting.shared.early_end()));
                }
                end = self.clock.now();
            }
            *sample = end - begin;
            self.log.sequence += 1;
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
            self.log.refused += 1;
            if !self.setting.shared.after_refusal(count, self.setting.loss_timeout_ns, self.clock.now())? {
                break;
            }
            let loan = self.link.loan(self.log.length, None)?;
            message::write_text(&loan, |bytes| self.log.text.write(self.log.sequence + 1, bytes));
            if self.link.publish(loan, self.setting.loss_timeout_ns)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
