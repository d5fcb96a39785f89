//! Parsers of external input, for fuzzing without sockets, hosts and processes.

use crate::files::{head_of_log, line_of_log};
use crate::hosts::{ArchiveLimits, Connection, FromHost, Hello, ToHost, next_line, unpack};
use crate::os::ProcessIdentity;
use crate::received::BoundedMessage;
use crate::wire::{FromFollower, FromLeader, ToFollower, ToWorker};
use crate::{audit, channel, hosts, proof, system_calls};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::io::{self, Cursor};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Parses lines of a control channel as every kind of message, and checks that parsed messages survive a round trip.
pub fn control_messages(bytes: &[u8]) {
    let mut source = Cursor::new(bytes);
    while let Ok(Some(line)) = channel::receive_line(&mut source) {
        comes_back::<ToWorker>(&line);
        comes_back::<FromLeader>(&line);
        comes_back::<ToFollower>(&line);
        comes_back::<FromFollower>(&line);
        comes_back::<Hello>(&line);
        comes_back::<ToHost>(&line);
        comes_back::<FromHost>(&line);
    }
}

fn comes_back<T: BoundedMessage + Serialize>(line: &[u8]) {
    let Ok(message) = channel::parse::<T>(line) else { return };
    let written = serde_json::to_vec(&message).expect("a message is written");
    let again: T = channel::parse(&written).expect("a message that was written is read");
    let again = serde_json::to_vec(&again).expect("a message is written");
    assert_eq!(written, again, "a message changes on its way");
}

/// Unpacks an archive from another host, within limits.
pub fn archive(bytes: &[u8], into: &Path, most_bytes: u64, most_entries: u64) -> io::Result<()> {
    unpack(bytes, into, ArchiveLimits { bytes: most_bytes, entries: most_entries })
}

/// Passes a text to every parser of output of the kernel or of system programs.
pub fn system_texts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    audit::read_by_all(&text);
    proof::read_by_all(&text);
    hosts::read_by_all(&text);
    let _ = (Connection::parse(&text), ProcessIdentity::parse_prefix(&text));
    for line in text.lines() {
        let _ = system_calls::parse(line);
    }
    let mut source = Cursor::new(bytes);
    while let Ok(Some(line)) = next_line(&mut source) {
        assert!(!line.chars().any(char::is_control), "a terminal would act on {line:?}");
    }
}

/// Histogram log with one histogram, as the engine writes it.
pub fn histogram_log(comment: &str, tag: &str, of: &Histogram<u64>, begin: Duration) -> io::Result<Vec<u8>> {
    let line = line_of_log(tag, of, begin, Duration::from_secs(1))?;
    Ok([head_of_log(comment, SystemTime::UNIX_EPOCH)?, line].concat())
}
