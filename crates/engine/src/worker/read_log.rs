//! Reader under pattern `log`, in the follower's process: it opens no transport, but reads and checks the lines that the
//! leader's logger writes.

use super::follower::{Follower, IDLE_TIMEOUT};
use super::{Error, Result};
use crate::channel::NoMessage;
use crate::log_check::LineCheck;
use crate::os;
use crate::wire::{Begin, FromFollower, Report, TaskReply, ToFollower};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes read at a time.
const PIECE: usize = 1 << 18;
/// Longest wait at an empty pipe before the leader's messages are checked.
const PIPE_LOOK: Duration = Duration::from_millis(50);
/// Longest time that a pipe still has a writer after the logger has closed it.
const LONGEST_DRAINING: Duration = Duration::from_secs(30);

impl Follower {
    /// Reads the logged lines, file after file, until the leader ends.
    pub(super) fn read_logs(&mut self) -> Result<()> {
        self.pin(true)?;
        loop {
            match self.recv(IDLE_TIMEOUT) {
                Ok(ToFollower::Begin(Begin { task, payload_bytes, most, .. })) => {
                    let TaskReply::Lines { is_pipe } = task.reply else {
                        return Err(Error::Failed("the leader asked a reader of lines for messages".to_owned()));
                    };
                    let check = LineCheck::new(payload_bytes as usize, most.first().copied().unwrap_or(0));
                    let (check, calls) = if is_pipe { self.read_pipe(check)? } else { self.read_file(check)? };
                    self.report(Report { log: Some(check.finish(calls)), ..Report::default() })?;
                }
                Ok(ToFollower::Bye) => return Ok(()),
                Ok(_) => return Err(Error::Failed("the leader's messages are out of order".to_owned())),
                // A logger may take hours; a leader that has gone is noticed.
                Err(NoMessage::TimedOut) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads the pipe while it is written.
    fn read_pipe(&mut self, mut check: LineCheck) -> Result<(LineCheck, u64)> {
        let file = self.setup().options.log_file();
        let failed = |error| Error::failed(&format!("pipe '{}'", file.display()), error);
        let pipe = OpenOptions::new().read(true).custom_flags(os::NO_WAIT).open(&file);
        let mut pipe = pipe.map_err(failed)?;
        let mut piece = vec![0; PIECE];
        self.send(&FromFollower::Ready)?;
        let mut closed = None;
        loop {
            let nobody_writes = match pipe.read(&mut piece) {
                Ok(0) => true,
                Ok(count) => {
                    check.feed(&piece[..count]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => false,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            match closed {
                Some((calls, _)) if nobody_writes => return Ok((check, calls)),
                Some((_, when)) if Instant::elapsed(&when) > LONGEST_DRAINING => {
                    let seconds = LONGEST_DRAINING.as_secs();
                    let why = format!("the logger has closed it, but it still has a writer after {seconds} s");
                    return Err(Error::failed(&format!("pipe '{}'", file.display()), why));
                }
                Some(_) => std::thread::sleep(Duration::from_millis(1)),
                // Nobody writes before the logger has opened it, and after it has closed it.
                None if nobody_writes => closed = self.is_closed(Duration::from_millis(5))?,
                None => {
                    os::wait_readable(&[&pipe], PIPE_LOOK).map_err(failed)?;
                    closed = self.is_closed(Duration::ZERO)?;
                }
            }
        }
    }

    /// Reads the file once it is written.
    fn read_file(&mut self, mut check: LineCheck) -> Result<(LineCheck, u64)> {
        self.send(&FromFollower::Ready)?;
        let calls = loop {
            if let Some((calls, _)) = self.is_closed(IDLE_TIMEOUT)? {
                break calls;
            }
        };
        let file = self.setup().options.log_file();
        read_whole(&file, &mut check).map_err(|error| Error::failed(&format!("file '{}'", file.display()), error))?;
        Ok((check, calls))
    }

    /// Number of calls, and arrival of the leader's message that the logger has closed its file or pipe, if it came.
    fn is_closed(&mut self, time: Duration) -> Result<Option<(u64, Instant)>> {
        match self.recv(time) {
            Ok(ToFollower::End { last }) => Ok(Some((last.first().copied().unwrap_or(0), Instant::now()))),
            Ok(_) => Err(Error::Failed("the leader's messages are out of order".to_owned())),
            Err(NoMessage::TimedOut) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reads a whole file. A missing file has no lines, which the leader judges.
fn read_whole(file: &Path, check: &mut LineCheck) -> std::io::Result<()> {
    let mut opened = match OpenOptions::new().read(true).custom_flags(os::NO_WAIT).open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut piece = vec![0; PIECE];
    loop {
        match File::read(&mut opened, &mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => check.feed(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
