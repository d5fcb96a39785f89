//! A file, or a range of it, as chunks of whole lines.

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use tripmeter_model::file::{self, FileError, GZIP_MAGIC, UTF8_BOM};

/// Bytes read at once: they stay in a CPU's cache until they are parsed.
const CHUNK_BYTES: usize = 256 << 10;
/// Longest line.
const LINE_BYTES: usize = 1 << 20;

/// What is read from.
enum ByteSource {
    /// A regular file, from an offset on.
    Plain(Arc<File>, u64),
    /// A regular file that is compressed.
    Gzip(Box<dyn Read>),
    /// A pipe or device, decompressed if need be.
    Stream(Box<dyn Read>),
}

/// Chunks of whole lines.
pub struct Chunks {
    source: ByteSource,
    /// Of the file when it was opened.
    size: u64,
    buffer: Vec<u8>,
    /// The part of the buffer that was read and not yet given away.
    unread: Range<usize>,
    /// Bytes of lines that may still be given away; a line that begins within them is given whole.
    left: u64,
    ended: bool,
}

/// The rest of a plain file, for [`Chunks::range`].
pub struct FileRest {
    file: Arc<File>,
    /// Where the first line begins.
    pub start: u64,
    size: u64,
}

/// Why there is no next chunk.
#[derive(Debug)]
pub enum ChunkError {
    /// It cannot be read on.
    Io(io::Error),
    /// A line is longer than any row.
    LineTooLong,
}

impl Chunks {
    /// Opens a whole file; a byte-order mark is skipped. It may be a pipe or a device if `is_named` by the user.
    pub fn open(name: &Path, is_named: bool) -> Result<Self, FileError> {
        let failed = |error| FileError::reading(name, &error);
        let mut file = if is_named { file::open_named(name)? } else { file::open(name)? };
        let metadata = file.metadata().map_err(failed)?;
        let mut magic = [0; 2];
        let source = if metadata.is_file() {
            let read = file.read_at(&mut magic, 0).map_err(failed)?;
            match magic[..read] == GZIP_MAGIC {
                true => ByteSource::Gzip(Box::new(MultiGzDecoder::new(file))),
                false => ByteSource::Plain(Arc::new(file), 0),
            }
        } else {
            let read = read_full(&mut file, &mut magic).map_err(failed)?;
            let all = Cursor::new(magic[..read].to_vec()).chain(file);
            match magic[..read] == GZIP_MAGIC {
                true => ByteSource::Stream(Box::new(MultiGzDecoder::new(all))),
                false => ByteSource::Stream(Box::new(all)),
            }
        };
        let mut chunks = Self::of(source, metadata.len(), u64::MAX);
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
        !matches!(self.source, ByteSource::Stream(_))
    }

    /// Size of a regular file that is not compressed.
    pub fn plain_size(&self) -> Option<u64> {
        matches!(self.source, ByteSource::Plain(..)).then_some(self.size)
    }

    /// The lines that were not given away; `None` if it is no plain file.
    pub fn into_rest(self) -> Option<FileRest> {
        match self.source {
            ByteSource::Plain(file, at) => {
                Some(FileRest { file, start: at - self.unread.len() as u64, size: self.size })
            }
            _ => None,
        }
    }

    fn of(source: ByteSource, size: u64, left: u64) -> Self {
        Self { source, size, buffer: Vec::new(), unread: 0..0, left, ended: false }
    }

    /// The lines that begin in a range of the bytes of the file.
    pub fn range(rest: &FileRest, bytes: Range<u64>) -> Result<Self, ChunkError> {
        let from = |start: u64| Self::of(ByteSource::Plain(rest.file.clone(), start), rest.size, bytes.end - start);
        if bytes.start <= rest.start {
            return Ok(from(bytes.start));
        }
        // From the byte before, so that a line that begins with the range is seen.
        let mut chunks = from(bytes.start - 1);
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
            let beyond = unread.get(last..).and_then(|tail| memchr::memchr(b'\n', tail)).map(|found| last + found);
            if let Some(found) = beyond.or_else(|| memchr::memrchr(b'\n', unread)) {
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
        &self.buffer[given]
    }

    fn unread_text(&self) -> &[u8] {
        &self.buffer[self.unread.clone()]
    }

    /// Reads on, behind what is unread.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.buffer.is_empty() {
            self.buffer = vec![0; CHUNK_BYTES];
        } else if self.unread.end == self.buffer.len() {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        let free = &mut self.buffer[self.unread.end..];
        let read = match &mut self.source {
            ByteSource::Plain(file, at) => {
                let read = file.read_at(free, *at)?;
                *at += read as u64;
                if read == 0 && *at < self.size {
                    return Err(io::Error::other("it became shorter meanwhile"));
                }
                read
            }
            ByteSource::Gzip(reader) | ByteSource::Stream(reader) => read_full(reader, free)?,
        };
        self.unread.end += read;
        self.ended = read == 0;
        Ok(())
    }
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
