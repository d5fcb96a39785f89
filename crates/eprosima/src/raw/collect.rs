//! Groups rows by payload.

use super::chunks::{ChunkError, Chunks};
use super::fast::RowShape;
use super::row::{self, RowError, RowLayout};
use crate::bytes::Bytes;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tripmeter_model::file::FileError;

/// Maximum number of samples held, 8 bytes each: twice the maximum of one payload in an experiment.
const MOST_SAMPLES: usize = if cfg!(test) { 1 << 20 } else { 200_000_000 };
const TOO_MANY: &str = "exceeds the maximum of samples held at a time (200000000)";

/// Maximum number of payloads of a file: an experiment has some dozens.
const MOST_PAYLOADS: usize = if cfg!(test) { 1000 } else { 100_000 };
const TOO_MANY_PAYLOADS: &str = "begins more payloads than a file may have (100000)";

/// Maximum number of samples whose memory is kept for the next payload.
const SPARE_SAMPLES: usize = 1 << 20;

thread_local! {
    /// Memory of the previous payload, for the next one.
    static SPARE: Cell<Vec<f64>> = const { Cell::new(Vec::new()) };
}

/// Reason why a file or range was not read to its end. Lines count from 1 within the range.
#[derive(Debug)]
pub enum Stop {
    Scattered,
    Row(u64, RowError),
    Chunk(u64, ChunkError),
    /// Line at which more samples would be held than allowed.
    TooMany(u64),
    /// Line at which a file has more payloads than allowed.
    TooManyPayloads(u64),
}

/// A [`Stop`] whose file is known.
#[derive(Debug)]
pub enum Stopped {
    Scattered,
    Wrong(FileError),
}

impl From<FileError> for Stopped {
    fn from(error: FileError) -> Self {
        Self::Wrong(error)
    }
}

impl Stop {
    /// Adds the file to the error; `lines` lines of it precede the range.
    pub fn at(self, file: &Path, lines: u64) -> Stopped {
        Stopped::Wrong(match self {
            Stop::Scattered => return Stopped::Scattered,
            Stop::Row(line, error) => match error.column {
                Some(column) => FileError::wrong_value(file, lines + line, column, &error.value, error.what),
                None => FileError::wrong_line(file, lines + line, &error.value, error.what),
            },
            Stop::TooMany(line) => FileError::wrong_line(file, lines + line, "", TOO_MANY),
            Stop::TooManyPayloads(line) => FileError::wrong_line(file, lines + line, "", TOO_MANY_PAYLOADS),
            Stop::Chunk(_, ChunkError::Io(error)) => FileError::reading(file, &error),
            Stop::Chunk(line, ChunkError::LineTooLong) => {
                FileError::wrong_line(file, lines + line, "", "is too long for a row")
            }
        })
    }
}

pub struct PayloadSamples {
    /// Position in the order of first appearance, if all payloads are held.
    place: usize,
    bytes: Bytes,
    /// Text of the payload in its last rows.
    text: String,
    latencies_us: Vec<f64>,
}

/// Payloads read from a file or a range of it.
pub struct Collected<T> {
    /// First payload, if an earlier range may have more of it.
    head: Option<PayloadSamples>,
    /// Payloads between first and last.
    pub done: Vec<(Bytes, T)>,
    /// Last payload, if a later range may have more of it and it is not the first.
    tail: Option<PayloadSamples>,
    pub lines: u64,
    pub stop: Option<Stop>,
}

pub struct Collector<'a, T, F> {
    finish: &'a F,
    counts: &'a (dyn Fn(&Bytes) -> bool + Sync),
    gate: Option<(&'a Mutex<()>, usize)>,
    held_all: bool,
    open_ended: bool,
    most: usize,
    head: Option<PayloadSamples>,
    /// Unfinished payloads; new rows belong to the last one.
    open: Vec<PayloadSamples>,
    /// Index in `open` by payload key.
    places: HashMap<u64, usize>,
    done: Vec<(Bytes, T)>,
    /// Payload keys in `done`.
    known: HashSet<u64>,
    lines: u64,
}

impl<'a, T, F: Fn(&Bytes, &mut [f64]) -> T> Collector<'a, T, F> {
    /// Finishes a payload when the next one begins, or at the end. The last line of a payload that does not count may
    /// be cut off.
    pub fn new(finish: &'a F, counts: &'a (dyn Fn(&Bytes) -> bool + Sync)) -> Self {
        Self {
            finish,
            counts,
            gate: None,
            held_all: false,
            open_ended: false,
            most: MOST_SAMPLES,
            head: None,
            open: Vec::new(),
            places: HashMap::new(),
            done: Vec::new(),
            known: HashSet::new(),
            lines: 0,
        }
    }

    /// Finishes all payloads at the end.
    pub fn holding_all(self) -> Self {
        Self { held_all: true, ..self }
    }

    /// Leaves the first and the last payload unfinished.
    pub fn open_ended(self) -> Self {
        Self { open_ended: true, ..self }
    }

    /// Locks the gate while a payload has more than this many samples.
    pub fn gated(self, gate: &'a Mutex<()>, samples: usize) -> Self {
        Self { gate: Some((gate, samples)), ..self }
    }

    pub fn read(mut self, layout: &RowLayout, chunks: Result<Chunks, ChunkError>) -> Collected<T> {
        let stop = match chunks {
            Ok(chunks) => self.rows(layout, chunks).err(),
            Err(error) => Some(Stop::Chunk(1, error)),
        };
        let mut tail = self.open.pop();
        if self.head.is_none() {
            self.head = tail.take();
        }
        Collected { head: self.head, done: self.done, tail, lines: self.lines, stop }
    }

    fn rows(&mut self, layout: &RowLayout, mut chunks: Chunks) -> Result<(), Stop> {
        let mut passed: Option<MutexGuard<'_, ()>> = None;
        let mut shape = None;
        loop {
            let chunk = chunks.lines().map_err(|error| Stop::Chunk(self.lines + 1, error))?;
            if chunk.is_empty() {
                break;
            }
            let payloads = self.done.len();
            self.chunk(layout, chunk, &mut shape)?;
            if self.open.iter().map(|held| held.latencies_us.len()).sum::<usize>() > self.most {
                return Err(Stop::TooMany(self.lines));
            }
            if self.done.len() > payloads {
                passed = None;
            }
            if let (Some((gate, samples)), None) = (self.gate, &passed)
                && self.open.last().is_some_and(|held| held.latencies_us.len() > samples)
            {
                passed = Some(gate.lock().unwrap_or_else(PoisonError::into_inner));
            }
        }
        let cut = chunks.unended();
        layout.unended(cut).or_else(|error| match self.counts_of_cut(layout, cut) {
            true => Err(Stop::Row(self.lines + 1, error)),
            false => Ok(()),
        })?;
        if !self.open_ended {
            let mut open = std::mem::take(&mut self.open);
            open.sort_by_key(|held| held.place);
            open.into_iter().for_each(|held| self.complete(held));
        }
        Ok(())
    }

    /// True if the payload of a truncated line counts. If it is cut off too, the payload of the row before decides.
    fn counts_of_cut(&self, layout: &RowLayout, line: &[u8]) -> bool {
        let own = row::payload_of_cut(layout, line);
        own.as_ref().or(self.open.last().map(|held| &held.bytes)).is_none_or(self.counts)
    }

    fn chunk(&mut self, layout: &RowLayout, mut rest: &[u8], shape: &mut Option<RowShape>) -> Result<(), Stop> {
        while !rest.is_empty() {
            if let (Some(shape), Some(held)) = (&shape, self.open.last_mut()) {
                let (bytes, rows) = shape.rows(rest, &mut held.latencies_us);
                self.lines += rows;
                rest = &rest[bytes..];
            }
            let Some(end) = memchr::memchr(b'\n', rest) else { break };
            let (line, after) = rest.split_at(end + 1);
            self.lines += 1;
            let row = layout.row(line).map_err(|error| Stop::Row(self.lines, error))?;
            if let Some(row) = row {
                self.change(&row.payload)?;
                self.open.last_mut().expect("a payload was begun").latencies_us.push(row.latency_us);
                *shape = if layout.usual() { RowShape::from_line(line) } else { None };
            }
            rest = after;
        }
        Ok(())
    }

    /// Prepares for a row with the payload `text`.
    fn change(&mut self, text: &str) -> Result<(), Stop> {
        if self.open.last().is_some_and(|held| held.text == text) {
            return Ok(());
        }
        let bytes = row::payload(text).map_err(|error| Stop::Row(self.lines, error))?;
        if let Some(&at) = self.places.get(&bytes.key()) {
            let last = self.open.len() - 1;
            self.open.swap(at, last);
            self.places.insert(self.open[at].bytes.key(), at);
            self.places.insert(bytes.key(), last);
            let held = &mut self.open[last];
            text.clone_into(&mut held.text);
            if !bytes.is_integer() {
                held.bytes = bytes;
            }
            return Ok(());
        }
        // Payloads of several ranges are counted again when they are merged.
        let is_known = self.known.contains(&bytes.key()) || self.head.as_ref().is_some_and(|head| head.bytes == bytes);
        if !is_known && usize::from(self.head.is_some()) + self.open.len() + self.done.len() >= MOST_PAYLOADS {
            return Err(Stop::TooManyPayloads(self.lines));
        }
        if !self.held_all
            && let Some(held) = self.open.pop()
        {
            self.places.clear();
            self.complete(held);
        }
        // `complete` may have just made the payload before this one the head.
        if is_known || self.head.as_ref().is_some_and(|head| head.bytes == bytes) {
            return Err(Stop::Scattered);
        }
        let latencies_us = SPARE.take();
        self.places.insert(bytes.key(), self.open.len());
        self.open.push(PayloadSamples { place: self.open.len(), bytes, text: text.to_owned(), latencies_us });
        Ok(())
    }

    fn complete(&mut self, mut held: PayloadSamples) {
        if self.open_ended && self.head.is_none() {
            self.head = Some(held);
            return;
        }
        let made = (self.finish)(&held.bytes, &mut held.latencies_us);
        self.known.insert(held.bytes.key());
        self.done.push((held.bytes, made));
        if held.latencies_us.capacity() <= SPARE_SAMPLES {
            held.latencies_us.clear();
            SPARE.set(held.latencies_us);
        }
    }
}

/// Joins the payloads of consecutive ranges.
pub struct RangeMerger<'a, T, F> {
    finish: &'a F,
    gate: &'a Mutex<()>,
    ungated: usize,
    passed: Option<MutexGuard<'a, ()>>,
    open: Option<PayloadSamples>,
    done: Vec<(Bytes, T)>,
    /// Payload keys in `done`.
    known: HashSet<u64>,
}

impl<'a, T, F: Fn(&Bytes, &mut [f64]) -> T> RangeMerger<'a, T, F> {
    /// Locks the gate while a payload has more than `ungated` samples.
    pub fn new(finish: &'a F, gate: &'a Mutex<()>, ungated: usize) -> Self {
        Self { finish, gate, ungated, passed: None, open: None, done: Vec::new(), known: HashSet::new() }
    }

    pub fn add(&mut self, collected: Collected<T>) -> Result<(), Stopped> {
        if let Some(head) = collected.head {
            self.grow(head)?;
        }
        for (bytes, made) in collected.done {
            self.close()?;
            self.push(bytes, made)?;
        }
        collected.tail.map_or(Ok(()), |tail| self.grow(tail))
    }

    /// Returns all payloads, after the last range.
    pub fn finished(mut self) -> Result<Vec<(Bytes, T)>, Stopped> {
        self.close()?;
        Ok(self.done)
    }

    fn grow(&mut self, held: PayloadSamples) -> Result<(), Stopped> {
        match &mut self.open {
            Some(open) if open.bytes == held.bytes => {
                open.latencies_us.extend_from_slice(&held.latencies_us);
                if !held.bytes.is_integer() {
                    open.bytes = held.bytes;
                }
            }
            _ => {
                self.close()?;
                self.open = Some(held);
            }
        }
        let samples = self.open.as_ref().map_or(0, |open| open.latencies_us.len());
        if samples > self.ungated && self.passed.is_none() {
            self.passed = Some(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Stopped> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let made = (self.finish)(&open.bytes, &mut open.latencies_us);
        self.passed = None;
        self.push(open.bytes, made)
    }

    fn push(&mut self, bytes: Bytes, made: T) -> Result<(), Stopped> {
        // A file with too many payloads is read again by one thread, which finds the line.
        if self.done.len() >= MOST_PAYLOADS || !self.known.insert(bytes.key()) {
            return Err(Stopped::Scattered);
        }
        self.done.push((bytes, made));
        Ok(())
    }
}
