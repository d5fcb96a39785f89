//! A file, or a range of it, as chunks of whole lines.

use super::mapped::Mapped;
use crate::file::{self, FileError, GZIP_MAGIC, UTF8_BOM};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes read at once: they stay in a processor's cache until they are parsed.
const CHUNK_BYTES: usize = 256 << 10;
/// Longest line.
const LINE_BYTES: usize = 1 << 20;

/// What is read from.
enum Source<'a> {
    /// A regular file, from an offset on.
    Plain(File, u64),
    Range(&'a File, u64),
    /// A regular file that is compressed.
    Gzip(Box<dyn Read>),
    /// A pipe or device, decompressed if need be.
    Stream(Box<dyn Read>),
}

/// Chunks of whole lines.
pub struct Chunks<'a> {
    source: Source<'a>,
    size: u64,
    buffer: Vec<u8>,
    /// What takes the place of the buffer.
    mapped: Option<Mapped>,
    /// The part of the buffer that was read and not yet given away.
    unread: std::ops::Range<usize>,
    /// Bytes of lines that may still be given away; a line that begins within them is given whole.
    left: u64,
    ended: bool,
}

/// Why there is no next chunk.
#[derive(Debug)]
pub enum ChunkError {
    /// It cannot be read on.
    Io(io::Error),
    /// A line is longer than any row.
    LineTooLong,
}

impl Chunks<'static> {
    /// Opens a whole file; a byte-order mark is skipped. It may be a pipe or a device if `is_named` by the user.
    pub fn open(name: &Path, is_named: bool) -> Result<Self, FileError> {
        let failed = |error| FileError::reading(name, &error);
        let mut file = if is_named { file::open_named(name)? } else { file::open(name)? };
        let metadata = file.metadata().map_err(failed)?;
        let mut magic = [0; 2];
        let source = if metadata.is_file() {
            let read = file.read_at(&mut magic, 0).map_err(failed)?;
            match magic[..read] == GZIP_MAGIC {
                true => Source::Gzip(Box::new(MultiGzDecoder::new(file))),
                false => Source::Plain(file, 0),
            }
        } else {
            let read = read_full(&mut file, &mut magic).map_err(failed)?;
            let all = Cursor::new(magic[..read].to_vec()).chain(file);
            match magic[..read] == GZIP_MAGIC {
                true => Source::Stream(Box::new(MultiGzDecoder::new(all))),
                false => Source::Stream(Box::new(all)),
            }
        };
        let mut chunks = Self::of(source, u64::MAX);
        chunks.size = metadata.len();
        while chunks.unread.len() < UTF8_BOM.len() && !chunks.ended {
            chunks.fill().map_err(failed)?;
        }
        if chunks.unread_text().starts_with(&UTF8_BOM) {
            chunks.unread.start += UTF8_BOM.len();
        }
        Ok(chunks)
    }

    /// Whether it can be opened again.
    pub fn regular(&self) -> bool {
        !matches!(self.source, Source::Stream(_))
    }

    /// Size of a regular file that is not compressed.
    pub fn plain_size(&self) -> Option<u64> {
        matches!(self.source, Source::Plain(..)).then_some(self.size)
    }

    /// The file, and the offset of the first line that was not given away; `None` if it is no plain file.
    pub fn into_file(self) -> Option<(File, u64)> {
        match self.source {
            Source::Plain(file, at) => Some((file, at - self.unread.len() as u64)),
            _ => None,
        }
    }
}

impl<'a> Chunks<'a> {
    fn of(source: Source<'a>, left: u64) -> Self {
        Self { source, size: 0, buffer: Vec::new(), mapped: None, unread: 0..0, left, ended: false }
    }

    /// The lines of a file that begin in `start..end`; at `rows_start` a line is known to begin.
    pub fn range(file: &'a File, start: u64, end: u64, rows_start: u64) -> Result<Self, ChunkError> {
        if start <= rows_start {
            return Ok(Self::of(Source::Range(file, start), end - start));
        }
        // From the byte before, so that a line that begins at `start` is seen to.
        let mut chunks = Self::of(Source::Range(file, start - 1), end - start + 1);
        chunks.line()?;
        Ok(chunks)
    }

    /// The next line with its line break, which only the last line may lack; empty at the end.
    pub fn line(&mut self) -> Result<&[u8], ChunkError> {
        let mut searched = 0;
        loop {
            let unread = self.unread_text();
            if let Some(found) = memchr::memchr(b'\n', &unread[searched..]) {
                return Ok(self.give(searched + found + 1));
            }
            searched = unread.len();
            if self.ended {
                return Ok(self.give(searched));
            }
            if searched >= LINE_BYTES {
                return Err(ChunkError::LineTooLong);
            }
            self.fill().map_err(ChunkError::Io)?;
        }
    }

    /// The next lines, whole ones; empty at the end. What comes after the last line break is [`Self::unended`].
    pub fn lines(&mut self) -> Result<&[u8], ChunkError> {
        loop {
            if self.left == 0 {
                return Ok(&[]);
            }
            let unread = self.unread_text();
            // The first line break after which no line of ours begins, or else the last one.
            let last = usize::try_from(self.left - 1).unwrap_or(usize::MAX);
            let found = |text: &[u8]| {
                let beyond = text.get(last..).and_then(|tail| memchr::memchr(b'\n', tail)).map(|found| last + found);
                beyond.or_else(|| memchr::memrchr(b'\n', text))
            };
            // Of a mapped file there is more than is wanted at once.
            let few = unread.get(..LINE_BYTES).and_then(found);
            if let Some(found) = few.or_else(|| found(unread)) {
                return Ok(self.give(found + 1));
            }
            if self.ended {
                return Ok(&[]);
            }
            if unread.len() >= LINE_BYTES {
                return Err(ChunkError::LineTooLong);
            }
            self.fill().map_err(ChunkError::Io)?;
        }
    }

    /// What stands after the last line break, if that is a line of ours.
    pub fn unended(&self) -> &[u8] {
        if self.left == 0 { &[] } else { self.unread_text() }
    }

    fn give(&mut self, length: usize) -> &[u8] {
        let given = self.unread.start..self.unread.start + length;
        self.unread.start = given.end;
        self.left = self.left.saturating_sub(length as u64);
        &self.text()[given]
    }

    /// Fails if what was given away is not what the file had.
    pub fn check(&self) -> io::Result<()> {
        match (&self.mapped, &self.source) {
            (Some(mapped), Source::Plain(file, _)) => mapped.check(file),
            (Some(mapped), Source::Range(file, _)) => mapped.check(file),
            _ => Ok(()),
        }
    }

    fn text(&self) -> &[u8] {
        self.mapped.as_ref().map_or(&self.buffer, Mapped::bytes)
    }

    fn unread_text(&self) -> &[u8] {
        &self.text()[self.unread.clone()]
    }

    /// Reads on, behind what is unread.
    fn fill(&mut self) -> io::Result<()> {
        if self.map_on() {
            return Ok(());
        }
        if self.mapped.is_some() {
            self.buffer = self.unread_text().to_vec();
            self.check()?;
            self.mapped = None;
        } else {
            self.buffer.copy_within(self.unread.clone(), 0);
        }
        self.unread = 0..self.unread.len();
        if self.buffer.is_empty() {
            self.buffer = vec![0; CHUNK_BYTES];
        } else if self.unread.end == self.buffer.len() {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        let free = &mut self.buffer[self.unread.end..];
        let read = match &mut self.source {
            Source::Plain(file, at) => read_at(file, free, at)?,
            Source::Range(file, at) => read_at(file, free, at)?,
            Source::Gzip(reader) | Source::Stream(reader) => read_full(reader, free)?,
        };
        self.unread.end += read;
        self.ended = read == 0;
        Ok(())
    }

    /// Goes on to the next piece of a file that can be mapped; false if there is none.
    fn map_on(&mut self) -> bool {
        let (file, at) = match &mut self.source {
            Source::Plain(file, at) => (&*file, at),
            Source::Range(file, at) => (*file, at),
            Source::Gzip(_) | Source::Stream(_) => return false,
        };
        if self.mapped.is_none() && self.buffer.is_empty() {
            let Some((mapped, from)) = Mapped::of(file, *at) else { return false };
            (self.mapped, self.unread) = (Some(mapped), from..from);
        }
        let Some(mapped) = &mut self.mapped else { return false };
        let more = mapped.grow(self.unread.start);
        *at += (mapped.bytes().len() - self.unread.end) as u64;
        self.unread.end = mapped.bytes().len();
        more
    }
}

fn read_at(file: &File, buffer: &mut [u8], at: &mut u64) -> io::Result<usize> {
    let read = file.read_at(buffer, *at)?;
    *at += read as u64;
    Ok(read)
}

/// Reads until the buffer is full or nothing is left.
fn read_full(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
