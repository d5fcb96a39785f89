//! `measurements_<name>.csv`: every sample of a sub-experiment, read in one pass.
//!
//! ```text
//! Sample,Payload [Bytes],Latency [us]
//! 1,16,2.05575
//! ```
//!
//! Columns are found by name, in any order; other columns and the values of `Sample` are ignored. Gzip, a byte-order
//! mark, CRLF, blank lines and quotes are accepted. A latency is a finite number, 0 or more, with a decimal point.
//! Every row ends with a line break, because a truncated number would look like a short one.

mod chunks;
mod collect;
mod fast;
mod row;
#[cfg(test)]
mod tests;

use crate::bytes::Bytes;
use chunks::{Chunks, FileRest};
use collect::{Collected, Collector, RangeMerger, Stopped};
pub use row::COLUMNS;
use row::RowLayout;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use tripmeter_model::file::FileError;

/// Bytes of a file that threads parse before their results are merged.
const WINDOW_BYTES: u64 = if cfg!(test) { 4 << 10 } else { 24 << 20 };
/// Size below which a file is read by one thread.
const SMALL_BYTES: u64 = if cfg!(test) { 1 } else { 1 << 20 };
/// Maximum number of samples that files read in parallel hold together; a larger payload locks the gate.
const UNGATED_SAMPLES: usize = 4 << 20;

/// Reader of raw files, several in parallel, in bounded memory.
///
/// If the rows of each payload are contiguous, it holds 8 bytes per sample of the largest payload and some 50 MiB.
/// Otherwise, and for a pipe or device, it holds all samples of a file.
#[derive(Debug)]
pub struct Reader {
    threads: usize,
    /// True if the user named the file, which may then be a pipe or a device.
    is_named: bool,
    /// Overrides [`WINDOW_BYTES`] and [`SMALL_BYTES`] in tests.
    window_bytes: Option<u64>,
    /// Locked while many samples of one payload are in memory.
    gate: Mutex<()>,
}

struct Pass<'a, F> {
    reader: &'a Reader,
    file: &'a Path,
    finish: &'a F,
    counts: &'a (dyn Fn(&Bytes) -> bool + Sync),
}

impl Reader {
    /// Reader that uses at most this many threads, over all files.
    pub fn new(threads: usize) -> Self {
        Self { threads: threads.max(1), is_named: false, window_bytes: None, gate: Mutex::new(()) }
    }

    /// Reads every plain file in windows of `bytes`, even with one thread, so that tests cover merging.
    pub fn in_windows(self, bytes: u64) -> Self {
        Self { window_bytes: Some(bytes), ..self }
    }

    /// Accepts a pipe or a device, because the user named the file; reading waits for it.
    pub fn of_named(self) -> Self {
        Self { is_named: true, ..self }
    }

    /// Reduces each payload's samples with `finish`: microseconds, in the order of the file.
    ///
    /// Payloads are returned in order of first appearance. If one of them is written as a float, all are. `threads` is
    /// the number for this file. `finish` may be called more than once for a payload. The last line may be cut off if
    /// `counts` is false for its payload; it is then ignored. Fails if the file cannot be read, or for the first
    /// invalid row.
    pub fn read<T: Send>(
        &self,
        file: &Path,
        threads: usize,
        counts: impl Fn(&Bytes) -> bool + Sync,
        finish: impl Fn(&Bytes, &mut [f64]) -> T + Sync,
    ) -> Result<Vec<(Bytes, T)>, FileError> {
        let pass = Pass { reader: self, file, finish: &finish, counts: &counts };
        let done = match pass.first(threads)? {
            Some(done) => done,
            None => pass.all_held(Chunks::open(file, self.is_named)?)?,
        };
        let float = done.iter().any(|(bytes, _)| !bytes.is_integer());
        let written = |bytes: Bytes| if float { bytes.as_float() } else { bytes };
        Ok(done.into_iter().map(|(bytes, made)| (written(bytes), made)).collect())
    }
}

impl<T: Send, F: Fn(&Bytes, &mut [f64]) -> T + Sync> Pass<'_, F> {
    /// Reads the file once; `None` if the rows of a payload are not contiguous.
    fn first(&self, threads: usize) -> Result<Option<Vec<(Bytes, T)>>, FileError> {
        let chunks = Chunks::open(self.file, self.reader.is_named)?;
        if !chunks.regular() {
            return self.all_held(chunks).map(Some);
        }
        let outcome = match chunks.plain_size() {
            Some(size) if self.reader.window_bytes.is_some() || threads > 1 && size >= SMALL_BYTES => {
                self.windows(chunks, size, threads)
            }
            _ => self.one(chunks),
        };
        match outcome {
            Ok(done) => Ok(Some(done)),
            Err(Stopped::Scattered) => Ok(None),
            Err(Stopped::Wrong(error)) => Err(error),
        }
    }

    /// Reads with one thread, holding all samples to the end.
    fn all_held(&self, chunks: Chunks) -> Result<Vec<(Bytes, T)>, FileError> {
        let collector = Collector::new(self.finish, self.counts).holding_all();
        match self.whole(chunks, collector) {
            Ok(done) => Ok(done),
            Err(Stopped::Wrong(error)) => Err(error),
            Err(Stopped::Scattered) => unreachable!("all is held"),
        }
    }

    /// Reads with one thread, holding one payload at a time.
    fn one(&self, chunks: Chunks) -> Result<Vec<(Bytes, T)>, Stopped> {
        let limit = UNGATED_SAMPLES / self.reader.threads;
        self.whole(chunks, Collector::new(self.finish, self.counts).gated(&self.reader.gate, limit))
    }

    fn whole(&self, mut chunks: Chunks, collector: Collector<'_, T, F>) -> Result<Vec<(Bytes, T)>, Stopped> {
        let layout = RowLayout::read(self.file, &mut chunks)?;
        let collected = collector.read(&layout, Ok(chunks));
        collected.stop.map_or(Ok(collected.done), |stop| Err(stop.at(self.file, layout.header_lines)))
    }

    /// Reads with several threads, each of which reads a range of the current window.
    fn windows(&self, mut chunks: Chunks, size: u64, threads: usize) -> Result<Vec<(Bytes, T)>, Stopped> {
        let layout = RowLayout::read(self.file, &mut chunks)?;
        let rows = chunks.into_rest().expect("only plain files are split");
        let window_bytes = self.reader.window_bytes.unwrap_or(WINDOW_BYTES);
        let mut start = rows.start;
        let mut merged = RangeMerger::new(self.finish, &self.reader.gate, UNGATED_SAMPLES / self.reader.threads);
        let mut lines = layout.header_lines;
        while start < size {
            let end = size.min(start + window_bytes);
            for collected in self.window(&rows, &layout, start..end, threads) {
                if let Some(stop) = collected.stop {
                    return Err(stop.at(self.file, lines));
                }
                lines += collected.lines;
                merged.add(collected)?;
            }
            start = end;
        }
        merged.finished()
    }

    fn window(&self, rows: &FileRest, layout: &RowLayout, bytes: Range<u64>, threads: usize) -> Vec<Collected<T>> {
        let step = (bytes.end - bytes.start).div_ceil(threads as u64).max(1);
        let starts: Vec<u64> = (bytes.start..bytes.end).step_by(step as usize).collect();
        let range = |start: u64| {
            let chunks = Chunks::range(rows, start..bytes.end.min(start + step));
            Collector::new(self.finish, self.counts).open_ended().read(layout, chunks)
        };
        thread::scope(|scope| {
            let others: Vec<_> = starts[1..].iter().map(|&start| scope.spawn(move || range(start))).collect();
            let mine = range(starts[0]);
            let others =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            std::iter::once(mine).chain(others).collect()
        })
    }
}
