//! `measurements_<name>.csv`: every sample of a sub-experiment, read in one pass.
//!
//! ```text
//! Sample,Payload [Bytes],Latency [us]
//! 1,16,2.05575
//! ```
//!
//! Columns are found by name and may stand in any order; others are ignored, and so are the values of `Sample`. Gzip, a
//! byte-order mark, CRLF, blank lines and quotes are understood. A latency is a finite number, 0 or more, with a decimal
//! point. Every row ends with a line break, because a number that was cut off would look like a short one.

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

/// Bytes of a file that its threads parse before what they found is put together.
const WINDOW_BYTES: u64 = if cfg!(test) { 4 << 10 } else { 24 << 20 };
/// A file below this is not worth a second thread.
const SMALL_BYTES: u64 = if cfg!(test) { 1 } else { 1 << 20 };
/// Samples of one payload that may be held, over all threads, before only one file at a time goes on with more.
const UNGATED_SAMPLES: usize = 4 << 20;

/// Reads raw files, several at once if need be, in bounded memory.
///
/// Where the rows of a payload are contiguous, 8 bytes are held for each sample of the largest payload, and some
/// 50 MiB more. Otherwise, and for what is no regular file, all samples of a file are held.
#[derive(Debug)]
pub struct Reader {
    threads: usize,
    /// Whether the user has named the file, which may then be a pipe or a device.
    is_named: bool,
    /// Instead of [`WINDOW_BYTES`], and for files of any size.
    window_bytes: Option<u64>,
    /// Held by whoever has many samples of one payload in memory.
    gate: Mutex<()>,
}

/// Reading one file with one function.
struct Pass<'a, F> {
    reader: &'a Reader,
    file: &'a Path,
    finish: &'a F,
    counts: &'a (dyn Fn(&Bytes) -> bool + Sync),
}

impl Reader {
    /// For so many threads altogether.
    pub fn new(threads: usize) -> Self {
        Self { threads: threads.max(1), is_named: false, window_bytes: None, gate: Mutex::new(()) }
    }

    /// Reads every plain file in windows of so many bytes, by one thread too: for tests of how they are put together.
    pub fn in_windows(self, bytes: u64) -> Self {
        Self { window_bytes: Some(bytes), ..self }
    }

    /// For a file that the user has named: it may be a pipe or a device, which are waited for.
    pub fn of_named(self) -> Self {
        Self { is_named: true, ..self }
    }

    /// Reduces each payload's samples, in microseconds and in the order of the file, to what `finish` makes of them. The
    /// payloads come in the order of their first appearance. If one payload of the file is written as a float, all are.
    ///
    /// `threads` are used for this file. `finish` may be called more than once for a payload. The last line of the file may
    /// be cut off if its payload does not count; it is left out then.
    ///
    /// # Errors
    /// If the file cannot be read; the first row that is wrong.
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
    /// `None` if the rows of a payload turn out not to be contiguous.
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

    /// Everything is held to the end.
    fn all_held(&self, chunks: Chunks) -> Result<Vec<(Bytes, T)>, FileError> {
        let collector = Collector::new(self.finish, self.counts).holding_all();
        match self.whole(chunks, collector) {
            Ok(done) => Ok(done),
            Err(Stopped::Wrong(error)) => Err(error),
            Err(Stopped::Scattered) => unreachable!("all is held"),
        }
    }

    /// By this thread alone; one payload is held at a time.
    fn one(&self, chunks: Chunks) -> Result<Vec<(Bytes, T)>, Stopped> {
        let limit = UNGATED_SAMPLES / self.reader.threads;
        self.whole(chunks, Collector::new(self.finish, self.counts).gated(&self.reader.gate, limit))
    }

    fn whole(&self, mut chunks: Chunks, collector: Collector<'_, T, F>) -> Result<Vec<(Bytes, T)>, Stopped> {
        let layout = RowLayout::of(self.file, &mut chunks)?;
        let collected = collector.read(&layout, Ok(chunks));
        collected.stop.map_or(Ok(collected.done), |stop| Err(stop.at(self.file, layout.header_lines)))
    }

    /// By several threads, each of which reads a range of the window that all of them are in.
    fn windows(&self, mut chunks: Chunks, size: u64, threads: usize) -> Result<Vec<(Bytes, T)>, Stopped> {
        let layout = RowLayout::of(self.file, &mut chunks)?;
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
