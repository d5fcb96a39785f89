//! Variant `log`: a logger that writes each line immediately, with faults by the number of the call.

use crate::faults::{Faults, direction_of};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::time::Duration;
use tripmeter_abi::{Error, Link, Loan, Message, NodeOptions, Result, Role, Status};

/// Digits at the start of a text, which `damage` hits; `damage_body` hits the last byte.
const DAMAGED_DIGIT: usize = 15;

pub struct LogLink {
    file: File,
    line: Vec<u8>,
    faults: Faults,
    calls: u64,
    /// Line that is held back until the next was written.
    held: Option<Vec<u8>>,
}

impl LogLink {
    pub(crate) fn open(options: &NodeOptions, [faults, _]: [Faults; 2]) -> Result<Self> {
        debug_assert_eq!(direction_of(Role::Leader), 0);
        let path = options.log_file();
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|error| Error::new(Status::Failed, format!("'{}': {error}", path.display())))?;
        Ok(Self { file, line: vec![0; options.max_payload_bytes as usize + 1], faults, calls: 0, held: None })
    }

    fn log(&mut self, length: usize) -> io::Result<()> {
        self.calls += 1;
        let (number, faults) = (self.calls, &self.faults);
        let line = &mut self.line[..=length];
        line[length] = b'\n';
        for (picks, at) in [(&faults.damage, DAMAGED_DIGIT), (&faults.damage_body, length - 1)] {
            if picks.contains(number) {
                line[at] = b'!';
            }
        }
        if faults.lose.contains(number) {
            return Ok(());
        }
        sleep(faults.stall_ns(number) + faults.delay_ns);
        if faults.reorder.contains(number) && self.held.is_none() {
            self.held = Some(line.to_vec());
            return Ok(());
        }
        self.file.write_all(line)?;
        if faults.duplicate.contains(number) {
            self.file.write_all(line)?;
        }
        if let Some(held) = self.held.take() {
            self.file.write_all(&held)?;
        }
        sleep(faults.stall_sender_ns(number));
        Ok(())
    }
}

fn sleep(ns: u64) {
    if ns > 0 {
        std::thread::sleep(Duration::from_nanos(ns));
    }
}

impl Drop for LogLink {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            // A line that cannot be written counts as missing.
            let _ = self.file.write_all(&held);
        }
    }
}

impl Link for LogLink {
    fn connect(&mut self, _: &[Vec<u8>], _: u64) -> Result<()> {
        Ok(())
    }

    fn loan(&mut self, length: usize, _: Option<&Message>) -> Result<Loan> {
        if length >= self.line.len() || length <= DAMAGED_DIGIT {
            let text = format!("a text of {length} bytes is not of 16 to {} bytes", self.line.len() - 1);
            return Err(Error::new(Status::Limit, text));
        }
        Ok(Loan { data: self.line.as_mut_ptr(), length, token: std::ptr::null_mut() })
    }

    fn publish(&mut self, loan: Loan, _: u64) -> Result<bool> {
        let logged = self.log(loan.length);
        logged.map(|()| true).map_err(|error| Error::new(Status::Failed, format!("write to the log: {error}")))
    }

    fn discard(&mut self, _: Loan) {}

    fn take(&mut self, _: u64) -> Result<Option<Message>> {
        Err(Error::new(Status::Invalid, "a logger receives nothing".to_owned()))
    }

    fn release(&mut self, _: Message) {}
}
