//! The reading of an MCAP file, record by record.

use super::schedule::Writer;
use mcap::records::Record;
use mcap::records::op::{CHANNEL, MESSAGE};
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader, LinearReaderOptions};
use mcap::{MAGIC, McapError, parse_record};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use thiserror::Error;
use tripmeter_model::manifest::MOST_TEXT_BYTES;
use tripmeter_model::payload::LARGEST_BYTES;

/// Bytes of one read of a file.
const READ_BYTES: usize = 1 << 20;
/// Most bytes that one of a chunk becomes: zstd keeps a run of 128 KiB in 4 bytes, lz4 packs less.
const MOST_UNPACKED: u64 = 1 << 15;
/// Largest record: that of the largest payload, with what stands before it.
const LARGEST_RECORD: usize = LARGEST_BYTES as usize + (1 << 16);

/// Most bytes of all topics: of 65,536 channels, each with a name of the usual kind.
const MOST_TOPIC_BYTES: usize = 16 << 20;

/// Why a recording cannot be used.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// By the user.
    #[error("interrupted")]
    Interrupted,
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(io::Error),
    /// The schedule cannot be written.
    #[error("{0}")]
    Unwritable(io::Error),
    /// It ends before its end mark.
    #[error("cut off")]
    CutOff,
    /// A sentence that goes on from the name of the file.
    #[error("{0}")]
    Wrong(String),
}

impl From<io::Error> for RecordingError {
    fn from(error: io::Error) -> Self {
        match error.downcast::<RecordingError>() {
            Ok(broken) => broken,
            Err(error) => RecordingError::Unreadable(error),
        }
    }
}

/// How much memory reading takes.
#[derive(Clone, Copy, Debug)]
pub struct ScanSizes {
    /// Bytes of one read.
    pub read_bytes: usize,
    /// Most bytes of a record.
    pub record_bytes: usize,
}

impl ScanSizes {
    /// For a file of so many bytes, or of an unknown number of them: no record of it is larger than all of it unpacked.
    pub fn of_file(bytes: Option<u64>) -> Self {
        let unpacked = bytes.map_or(u64::MAX, |bytes| bytes.saturating_mul(MOST_UNPACKED));
        let record_bytes = usize::try_from(unpacked).unwrap_or(usize::MAX).min(LARGEST_RECORD);
        Self { read_bytes: READ_BYTES, record_bytes }
    }
}

/// Reads a recording to its end mark, and gives the writer every message.
pub fn scan<W: Write>(source: &mut impl Read, sizes: ScanSizes, writer: &mut Writer<W>) -> Result<(), RecordingError> {
    check_begin(source)?;
    // Its checksum begins there.
    let source = &mut Read::chain(MAGIC, source);
    let options = LinearReaderOptions::default()
        .with_validate_chunk_crcs(true)
        .with_validate_data_section_crc(true)
        .with_validate_summary_section_crc(true)
        .with_record_length_limit(sizes.record_bytes);
    let mut reader = LinearReader::new_with_options(options);
    let mut channels = Channels::default();
    while let Some(event) = reader.next_event() {
        match event.map_err(|error| broken(&error, sizes.record_bytes))? {
            LinearReadEvent::ReadRequest(_) => {
                let count = source.read(reader.insert(sizes.read_bytes))?;
                reader.notify_read(count);
            }
            LinearReadEvent::Record { opcode: CHANNEL, data } if texts_of_channel(data).is_none() => {
                return Err(RecordingError::Wrong(
                    "is damaged: a text of a channel is missing, or longer than its record".to_owned(),
                ));
            }
            LinearReadEvent::Record { opcode: opcode @ (CHANNEL | MESSAGE), data } => {
                let record = parse_record(opcode, data).map_err(|error| broken(&error, sizes.record_bytes))?;
                note(&record, &mut channels, writer)?;
            }
            LinearReadEvent::Record { .. } => {}
        }
    }
    writer.silent(channels.topics.values());
    Ok(())
}

/// The first bytes of the file, which say what it is.
fn check_begin(source: &mut impl Read) -> Result<(), RecordingError> {
    let mut begin = [0; MAGIC.len()];
    let mut filled = 0;
    while filled < begin.len() {
        match source.read(&mut begin[filled..])? {
            0 if begin[..filled] == MAGIC[..filled] => return Err(RecordingError::CutOff),
            0 => break,
            count => filled += count,
        }
    }
    let wrong = |text: &str| Err(RecordingError::Wrong(format!("is no MCAP file {text}")));
    match &begin[..filled] {
        begin if begin == MAGIC => Ok(()),
        begin if begin.starts_with(b"SQLite ") => {
            wrong("but an SQLite database, as rosbag2 wrote them; `ros2 bag convert` makes MCAP of it")
        }
        begin if begin.starts_with(b"#ROSBAG") => wrong("but a bag of ROS 1; `mcap convert` makes MCAP of it"),
        begin => wrong(&format!("(it begins with \"{}\")", begin.escape_ascii())),
    }
}

/// The number of texts of a channel; `None` if one is missing or longer than the record. The library would take memory for as many
/// bytes as it says.
///
/// # Source
/// The MCAP specification, `Channel`: two ids, topic, encoding, and a map of texts, each with its length in front.
fn texts_of_channel(record: &[u8]) -> Option<usize> {
    const IDS_BYTES: usize = 4;
    fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let (length, behind) = rest.split_first_chunk()?;
        let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        *rest = behind;
        Some(text)
    }
    let mut rest = record.get(IDS_BYTES..)?;
    let [_topic, _encoding, mut metadata] = [text(&mut rest)?, text(&mut rest)?, text(&mut rest)?];
    let mut texts = 2;
    // A name without a value would have its length taken from what stands behind.
    while !metadata.is_empty() {
        let _pair = [text(&mut metadata)?, text(&mut metadata)?];
        texts += 2;
    }
    Some(texts)
}

/// Of each channel, its topic.
#[derive(Default)]
struct Channels {
    topics: HashMap<u16, String>,
    /// Of all topics.
    bytes: usize,
}

fn note<W: Write>(record: &Record<'_>, channels: &mut Channels, writer: &mut Writer<W>) -> Result<(), RecordingError> {
    let damaged = |what: String| Err(RecordingError::Wrong(format!("is damaged: {what}")));
    match record {
        Record::Channel(channel) if channel.topic.len() > MOST_TEXT_BYTES => {
            let (id, bytes) = (channel.id, channel.topic.len());
            let what =
                format!("cannot be played: the topic of channel {id} has {bytes} bytes, {MOST_TEXT_BYTES} at most");
            return Err(RecordingError::Wrong(what));
        }
        Record::Channel(channel) => match channels.topics.get(&channel.id) {
            None => {
                channels.bytes += channel.topic.len();
                if channels.bytes > MOST_TOPIC_BYTES {
                    let text = format!("cannot be played: its topics have more than {MOST_TOPIC_BYTES} bytes");
                    return Err(RecordingError::Wrong(text));
                }
                channels.topics.insert(channel.id, channel.topic.clone());
            }
            Some(topic) if *topic == channel.topic => {}
            Some(topic) => {
                return damaged(format!("channel {} is of topic '{topic}' and of '{}'", channel.id, channel.topic));
            }
        },
        Record::Message { header, data } => {
            let Some(topic) = channels.topics.get(&header.channel_id) else {
                let (message, channel) = (writer.messages() + 1, header.channel_id);
                return damaged(format!("message {message} is of channel {channel}, which is unknown"));
            };
            writer.add(topic, header.log_time, data.len() as u64)?;
        }
        _ => {}
    }
    Ok(())
}

/// What the library says, for people, where a record has so many bytes at most.
fn broken(error: &McapError, most: usize) -> RecordingError {
    match error {
        McapError::UnexpectedEof => RecordingError::CutOff,
        McapError::UnsupportedCompression(name) => RecordingError::Wrong(format!(
            "has chunks compressed by '{}', and only lz4 and zstd can be read; write it with one of those",
            name.escape_default()
        )),
        McapError::RecordTooLarge { len, .. } => RecordingError::Wrong(format!(
            "has a record of {len} bytes, more than {most}, the most that can be read of it, or is damaged; \
             `mcap doctor` tells which"
        )),
        error => {
            // Its texts may have several lines.
            let text = error.to_string();
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            RecordingError::Wrong(format!("is damaged: {line}; `mcap doctor` says more"))
        }
    }
}
