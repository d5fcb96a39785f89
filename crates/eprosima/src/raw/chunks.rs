//! A file, or a range of it, as chunks of whole lines.

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use tripmeter_model::file::{self, FileError, GZIP_MAGIC, UTF8_BOM};

/// Bytes per read: they stay in a CPU's cache until they are parsed.
const CHUNK_BYTES: usize = 256 << 10;
const LINE_BYTES: usize = 1 << 20;

enum ByteSource {
    /// A regular file, read from an offset.
    Plain(Arc<File>, u64),
    /// A compressed regular file.
    Gzip(Box<dyn Read>),
    /// A pipe or device, decompressed if needed.
    Stream(Box<dyn Read>),
}

/// Reader of whole lines.
pub struct Chunks {
    source: ByteSource,
    /// Size of the file when it was opened.
    size: u64,
    buffer: Vec<u8>,
    /// Part of the buffer that was read and not yet returned.
    unread: Range<usize>,
    /// Bytes of lines still to return; a line that begins within them is returned whole.
    left: u64,
    ended: bool,
}

/// Rest of a plain file, for [`Chunks::range`].
pub struct FileRest {
    file: Arc<File>,
    /// Offset of the first line.
    pub start: u64,
    size: u64,
}

#[derive(Debug)]
pub enum ChunkError {
    Io(io::Error),
    LineTooLong,
}

impl Chunks {
    /// Opens a whole file and skips a byte-order mark. A pipe or a device is accepted if `is_named` by the user.
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
        let mut chunks = Self::new(source, metadata.len(), u64::MAX);
        while chunks.unread.len() < UTF8_BOM.len() && !chunks.ended {
            chunks.fill().map_err(failed)?;
        }
        if chunks.unread_text().starts_with(&UTF8_BOM) {
            chunks.unread.start += UTF8_BOM.len();
        }
        Ok(chunks)
    }

    /// True if the file can be opened again.
    pub fn regular(&self) -> bool {
        !matches!(self.source, ByteSource::Stream(_))
    }

    /// Size of an uncompressed regular file.
    pub fn plain_size(&self) -> Option<u64> {
        matches!(self.source, ByteSource::Plain(..)).then_some(self.size)
    }

    /// Lines not yet returned; `None` unless the file is plain.
    pub fn into_rest(self) -> Option<FileRest> {
        match self.source {
            ByteSource::Plain(file, at) => {
                Some(FileRest { file, start: at - self.unread.len() as u64, size: self.size })
            }
            _ => None,
        }
    }

    fn new(source: ByteSource, size: u64, left: u64) -> Self {
        Self { source, size, buffer: Vec::new(), unread: 0..0, left, ended: false }
    }

    /// Lines that begin in a range of bytes of the file.
    pub fn range(rest: &FileRest, bytes: Range<u64>) -> Result<Self, ChunkError> {
        let from = |start: u64| Self::new(ByteSource::Plain(rest.file.clone(), start), rest.size, bytes.end - start);
        if bytes.start <= rest.start {
            return Ok(from(bytes.start));
        }
        // Starts one byte early, so that a line that begins with the range is found.
        let mut chunks = from(bytes.start - 1);
        chunks.line()?;
        Ok(chunks)
    }

    /// Next line with its line break, which only the last line may lack; empty at the end.
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

    /// Next whole lines; empty at the end. Text after the last line break is returned by [`Self::unended`].
    pub fn lines(&mut self) -> Result<&[u8], ChunkError> {
        loop {
            if self.left == 0 {
                return Ok(&[]);
            }
            let unread = self.unread_text();
            // The first line break after which no line of this range begins, or else the last one.
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

    /// Text after the last line break, if that line begins in this range.
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

    /// Reads more bytes after the unread ones.
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
                    return Err(io::Error::other("it became shorter while it was read"));
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
