//! File `samples/<name>.csv`, with a row for each message, call or round trip.

use crate::clock::Timebase;
use crate::delivery::Delivery;
use crate::measure::stamps::{MISSING, TripRow};
use std::fs::File;
use std::io::{self, Write};
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::metric::Stream;
use tripmeter_model::samples::{HEADER, SAMPLES};

/// Number of rows written by one system call.
const ROWS_AT_ONCE: usize = 1 << 18;

pub(super) struct SamplesFile {
    pub file: File,
    pub round: u32,
}

impl SamplesFile {
    /// Creates the file with its header, or opens it if `is_resumed`.
    pub fn begin(folder: &FolderHandle, name: &str, round: u32, is_resumed: bool) -> io::Result<Self> {
        let folder = folder.enter(SAMPLES)?;
        let path = folder.at(&format!("{name}.csv"))?;
        let (mut file, bytes) = super::discarded::begin(&path, is_resumed)?;
        if bytes == 0 {
            writeln!(file, "{}", HEADER.join(","))?;
        }
        Ok(Self { file, round })
    }
}

/// Time stamps of one row, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SampleStamps {
    pub intended: Option<u64>,
    pub sent: u64,
    pub received: Option<u64>,
    pub answered: Option<u64>,
}

pub(crate) struct Rows<'a> {
    pub(super) file: Option<&'a mut SamplesFile>,
    pub(super) trial: u32,
    pub(super) timebase: Timebase,
    pub payload_bytes: u64,
    pub(super) begin: u64,
    pub(super) text: Vec<u8>,
    pub(super) count: usize,
    pub(super) written: io::Result<()>,
}

impl Rows<'_> {
    /// Adds a row; `index` counts from 0. Receive times are the rounded send time plus the latency, so that latencies
    /// stay exact to the nanosecond.
    pub fn add(&mut self, stream: &str, index: u64, status: &str, stamps: SampleStamps) {
        let Some(file) = &self.file else { return };
        let ns = |ticks: u64| self.timebase.to_ns(ticks.saturating_sub(self.begin));
        let sent = ns(stamps.sent);
        let intended = Field(stamps.intended.map(ns));
        // With two clocks, a message may seem to arrive before it was sent, and even before the trial began.
        let after = |ticks: Option<u64>| {
            let since_sent = |ticks: u64| self.timebase.to_signed_ns(ticks.wrapping_sub(stamps.sent) as i64);
            Field(ticks.map(|ticks| sent as i64 + since_sent(ticks)))
        };
        let (received, answered) = (after(stamps.received), after(stamps.answered));
        let (round, trial, payload, sequence) = (file.round, self.trial, self.payload_bytes, index + 1);
        let row = writeln!(
            self.text,
            "{round},{trial},{payload},{stream},{sequence},{status},{intended},{sent},{received},{answered}"
        );
        self.count += 1;
        if row.is_err() || self.count.is_multiple_of(ROWS_AT_ONCE) {
            self.write();
        }
    }

    pub fn add_delivery(&mut self, stream: &str, index: usize, delivery: &Delivery, is_call: bool, is_timed: bool) {
        let Delivery { intended, actual, arrived, requested, status } = *delivery;
        let intended = is_timed.then_some(intended);
        let (received, answered) = if is_call { (requested, arrived) } else { (arrived, None) };
        let status = if is_call { status.of_call() } else { status.into() };
        self.add(stream, index as u64, status, SampleStamps { intended, sent: actual, received, answered });
    }

    /// Adds round trips of the durations `trips`, in ticks; each begins where the one before ended. `latencies` are
    /// one-way latencies, if known. `first` is the sequence number of the first message.
    pub fn add_trips(&mut self, rows: &[TripRow], trips: &[u64], latencies: Option<&[i64]>, first: u64) {
        if self.file.is_none() {
            // Without a file, round trips may have been discarded.
            return;
        }
        for (index, row) in rows.iter().enumerate() {
            let end = rows.get(index + 1).map_or(trips.len(), |next| next.first_sample);
            let mut sent = row.began;
            for (sample, sequence) in (row.first_sample..end).zip(row.sequence..) {
                let latency = latencies.and_then(|all| all.get(sample)).filter(|ticks| **ticks != MISSING);
                let answered = sent + trips[sample];
                let received = latency.map(|ticks| sent.saturating_add_signed(*ticks));
                let stamps = SampleStamps { intended: None, sent, received, answered: Some(answered) };
                self.add("all", sequence.saturating_sub(first), "ok", stamps);
                sent = answered;
            }
        }
    }

    /// Writes complete rows by one system call, so that a killed process leaves no partial row.
    fn write(&mut self) {
        if let Some(file) = &mut self.file
            && self.written.is_ok()
        {
            self.written = file.file.write_all(&self.text);
        }
        self.text.clear();
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.write();
        self.written
    }
}

/// Field of a CSV file, empty for `None`.
struct Field<T>(Option<T>);

impl<T: std::fmt::Display> std::fmt::Display for Field<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.as_ref().map_or(Ok(()), |number| number.fmt(formatter))
    }
}

/// Quotes a stream as a field of a CSV file, if necessary.
pub(crate) fn field(stream: &Stream) -> String {
    let text = stream.to_string();
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}
