//! Compression of whole recordings and of single messages; rosbag2 writes both. The MCAP library handles compressed
//! chunks.

use super::error::RecordingError;
use super::yaml;
use flate2::read::MultiGzDecoder;
use std::cell::Cell;
use std::io::{self, BufRead, ErrorKind, Read};
use zstd::stream::read::Decoder;
use zstd::zstd_safe::{find_frame_compressed_size, get_frame_content_size};

/// First bytes of a zstd frame. No CDR message begins with them: its second byte is the encoding, at most 0x0b.
pub const ZSTD_MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Unpacked bytes that are always allowed: the size of the largest message.
const FREE_BYTES: u64 = 1 << 30;
/// Unpacked bytes allowed in addition, per byte of the file.
const MOST_RATIO: u64 = 1024;

/// Key of the YAML in rosbag2's metadata record.
const METADATA_KEY: &[u8] = b"serialized_metadata";
/// Name of rosbag2's metadata record.
const METADATA_NAME: &[u8] = b"rosbag2";

/// Reader that unpacks zstd and gzip, and limits the unpacked bytes in proportion to those read.
pub struct Unpacked<'a> {
    inner: Box<dyn Read + 'a>,
    is_packed: bool,
    unpacked: u64,
    packed: &'a Cell<u64>,
}

impl<'a> Unpacked<'a> {
    /// Detects the compression from the first bytes; `packed` counts the bytes read of the file. Fails if they cannot
    /// be read.
    pub fn detect(mut source: impl BufRead + 'a, packed: &'a Cell<u64>) -> io::Result<Self> {
        let mut head = [0; ZSTD_MAGIC.len()];
        let mut filled = 0;
        while filled < head.len() {
            match source.read(&mut head[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        let whole = io::Cursor::new(head).take(filled as u64).chain(source);
        let (inner, is_packed): (Box<dyn Read + 'a>, bool) = match &head[..filled] {
            head if *head == ZSTD_MAGIC => (Box::new(Decoder::with_buffer(whole)?), true),
            head if head.starts_with(&GZIP_MAGIC) => (Box::new(MultiGzDecoder::new(whole)), true),
            _ => (Box::new(whole), false),
        };
        Ok(Self { inner, is_packed, unpacked: 0, packed })
    }

    pub fn is_packed(&self) -> bool {
        self.is_packed
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer);
        if !self.is_packed {
            return read;
        }
        let count = read.map_err(told)?;
        self.unpacked += count as u64;
        let packed = self.packed.get();
        if self.unpacked > FREE_BYTES.saturating_add(packed.saturating_mul(MOST_RATIO)) {
            return Err(io::Error::other(RecordingError::Wrong(format!(
                "unpacks to more than the limit of {FREE_BYTES} bytes and {MOST_RATIO} times the {packed} bytes read \
                 so far; if that is expected, unpack it first (`unzstd`, `gunzip`)"
            ))));
        }
        Ok(count)
    }
}

/// Converts an error of the decoder to an error of the recording; errors from reading the file are kept.
fn told(error: io::Error) -> io::Error {
    let is_of_the_file =
        error.raw_os_error().is_some() || error.get_ref().is_some_and(|inner| inner.is::<RecordingError>());
    match error.kind() {
        _ if is_of_the_file => error,
        ErrorKind::Interrupted => error,
        ErrorKind::UnexpectedEof => io::Error::other(RecordingError::CutOff),
        _ => io::Error::other(RecordingError::Wrong(format!("is damaged, or cannot be unpacked: {error}"))),
    }
}

/// Unpacked size of a message of zstd frames; `None` if it is not compressed. Fails if a frame is damaged or lacks its
/// size. The error is a sentence without its subject.
pub fn unpacked_bytes(message: &[u8]) -> Result<Option<u64>, &'static str> {
    if !message.starts_with(&ZSTD_MAGIC) {
        return Ok(None);
    }
    let (mut bytes, mut rest) = (0_u64, message);
    while !rest.is_empty() {
        let unpacked = get_frame_content_size(rest).map_err(|_| "is cut off")?;
        bytes = bytes.saturating_add(unpacked.ok_or("does not state its unpacked size")?);
        let packed = find_frame_compressed_size(rest).map_err(|_| "is cut off")?;
        rest = rest.get(packed..).ok_or("is cut off")?;
    }
    Ok(Some(bytes))
}

/// Compression format of single messages, from a metadata record.
///
/// # Source
/// rosbag2_storage_mcap: record `rosbag2` with the YAML of `metadata.yaml` as `serialized_metadata`.
pub fn format_of_messages(name: &[u8], key: &[u8], value: &[u8]) -> Option<String> {
    if name != METADATA_NAME || key != METADATA_KEY {
        return None;
    }
    format_in_metadata(str::from_utf8(value).ok()?)
}

/// Like [`format_of_messages`], from the text of a `metadata.yaml`.
pub fn format_in_metadata(text: &str) -> Option<String> {
    let is_of_messages = yaml::scalar(text, "compression_mode")?.eq_ignore_ascii_case("message");
    is_of_messages.then(|| yaml::scalar(text, "compression_format").unwrap_or_default().to_owned())
}

/// True for channels whose zstd messages count as compressed, even without metadata that says so.
pub fn is_cdr(encoding: &str) -> bool {
    encoding == "cdr"
}

pub fn check_format(format: &str) -> Result<(), RecordingError> {
    if format == "zstd" {
        return Ok(());
    }
    Err(RecordingError::Wrong(format!(
        "has messages that are each compressed by '{}', but only zstd can be read; {WITHOUT}",
        format.escape_default()
    )))
}

/// Advice on how to convert a bag with compressed messages.
pub const WITHOUT: &str = "rewrite it without message compression: `ros2 bag convert`, with an output that has no \
                           compression_mode";
