//! Reader of an MCAP file, record by record.

use super::compression::{WITHOUT, ZSTD_MAGIC, check_format, format_of_messages, is_cdr, unpacked_bytes};
use super::error::RecordingError;
use super::schedule::Writer;
use mcap::records::Record;
use mcap::records::op::{CHANNEL, MESSAGE, METADATA};
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader, LinearReaderOptions};
use mcap::{MAGIC, McapError, parse_record};
use std::collections::HashMap;
use std::io::{Read, Write};
use tripmeter_model::bounds::MOST_SAID_BYTES;
use tripmeter_model::payload::LARGEST_BYTES;

const READ_BYTES: usize = 1 << 20;
/// Maximum unpacked bytes per byte of a chunk: zstd keeps a run of 128 KiB in 4 bytes, lz4 packs less.
const MOST_UNPACKED: u64 = 1 << 15;
/// Size of the largest record: the largest payload, with its header.
const LARGEST_RECORD: usize = LARGEST_BYTES as usize + (1 << 16);

/// Maximum total length of topic names: 65,536 channels with names of usual length.
const MOST_TOPIC_BYTES: usize = 16 << 20;

#[derive(Clone, Copy, Debug)]
pub struct ScanSizes {
    pub read_bytes: usize,
    pub record_bytes: usize,
}

impl ScanSizes {
    /// Limits for a file of known or unknown size: no record is larger than the whole file unpacked.
    pub fn of_file(bytes: Option<u64>) -> Self {
        let unpacked = bytes.map_or(u64::MAX, |bytes| bytes.saturating_mul(MOST_UNPACKED));
        let record_bytes = usize::try_from(unpacked).unwrap_or(usize::MAX).min(LARGEST_RECORD);
        Self { read_bytes: READ_BYTES, record_bytes }
    }
}

/// Reads a recording to its end mark, and passes every message to the writer.
pub fn scan<W: Write>(source: &mut impl Read, sizes: ScanSizes, writer: &mut Writer<W>) -> Result<(), RecordingError> {
    check_begin(source)?;
    // The file's checksum starts at the magic bytes.
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
            LinearReadEvent::Record { opcode: METADATA, data } => {
                if let Some(format) = compressed_messages(data) {
                    check_format(&format)?;
                    if channels.took_compressed {
                        return Err(RecordingError::Wrong(format!(
                            "declares compression of each message by zstd only after the messages, which are not \
                             `cdr`; {WITHOUT}"
                        )));
                    }
                    channels.are_compressed = true;
                }
            }
            LinearReadEvent::Record { .. } => {}
        }
    }
    writer.knows(channels.topics.into_values().map(|channel| channel.topic));
    Ok(())
}

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
    let wrong = |text: &str| Err(RecordingError::Wrong(format!("is not an MCAP file {text}")));
    match &begin[..filled] {
        begin if begin == MAGIC => Ok(()),
        begin if begin.starts_with(b"SQLite ") => {
            wrong("but an SQLite database of an older rosbag2; convert it with `mcap convert FILE.db3 FILE.mcap`")
        }
        begin if begin.starts_with(b"#ROSBAG") => {
            wrong("but a bag of ROS 1; convert it with `mcap convert FILE.bag FILE.mcap`")
        }
        begin => wrong(&format!("(it begins with \"{}\")", begin.escape_ascii())),
    }
}

/// Text at the head of a record, preceded by its length; `None` if it is longer than the rest. The library would
/// allocate as many bytes as the length says.
fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk()?;
    let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = behind;
    Some(text)
}

/// Number of texts in a channel record; `None` if one is missing or longer than the record.
///
/// # Source
/// The MCAP specification, `Channel`: two ids, topic, encoding, and a map of texts, each preceded by its length.
fn texts_of_channel(record: &[u8]) -> Option<usize> {
    const IDS_BYTES: usize = 4;
    let mut rest = record.get(IDS_BYTES..)?;
    let [_topic, _encoding, mut metadata] = [text(&mut rest)?, text(&mut rest)?, text(&mut rest)?];
    let mut texts = 2;
    // Otherwise the length of a missing value would be read from the bytes that follow.
    while !metadata.is_empty() {
        let _pair = [text(&mut metadata)?, text(&mut metadata)?];
        texts += 2;
    }
    Some(texts)
}

/// Compression format of single messages, if a metadata record states it.
///
/// # Source
/// The MCAP specification, `Metadata`: name, and a map of texts, each preceded by its length.
fn compressed_messages(record: &[u8]) -> Option<String> {
    let mut rest = record;
    let (name, mut pairs) = (text(&mut rest)?, text(&mut rest)?);
    while !pairs.is_empty() {
        let (key, value) = (text(&mut pairs)?, text(&mut pairs)?);
        if let Some(format) = format_of_messages(name, key, value) {
            return Some(format);
        }
    }
    None
}

#[derive(Default)]
struct Channels {
    topics: HashMap<u16, KnownChannel>,
    /// Total length of all topic names.
    bytes: usize,
    /// True if the metadata says that messages are zstd, whatever their encoding.
    are_compressed: bool,
    /// True if a message that begins like a zstd frame was taken unchanged.
    took_compressed: bool,
}

struct KnownChannel {
    topic: String,
    /// True if messages that begin like a zstd frame are compressed.
    is_cdr: bool,
}

fn note<W: Write>(record: &Record<'_>, channels: &mut Channels, writer: &mut Writer<W>) -> Result<(), RecordingError> {
    let damaged = |what: String| Err(RecordingError::Wrong(format!("is damaged: {what}")));
    match record {
        Record::Channel(channel) if channel.topic.len() > MOST_SAID_BYTES => {
            let (id, bytes) = (channel.id, channel.topic.len());
            let what =
                format!("cannot be played: the topic name of channel {id} has {bytes} bytes (limit {MOST_SAID_BYTES})");
            return Err(RecordingError::Wrong(what));
        }
        Record::Channel(channel) => match channels.topics.get(&channel.id) {
            None => {
                channels.bytes += channel.topic.len();
                if channels.bytes > MOST_TOPIC_BYTES {
                    let text = format!("cannot be played: its topic names have more than {MOST_TOPIC_BYTES} bytes");
                    return Err(RecordingError::Wrong(text));
                }
                let (topic, is_cdr) = (channel.topic.clone(), is_cdr(&channel.message_encoding));
                channels.topics.insert(channel.id, KnownChannel { topic, is_cdr });
            }
            Some(KnownChannel { topic, .. }) if *topic == channel.topic => {}
            Some(KnownChannel { topic, .. }) => {
                return damaged(format!("channel {} has two topics, '{topic}' and '{}'", channel.id, channel.topic));
            }
        },
        Record::Message { header, data } => {
            let Some(KnownChannel { topic, is_cdr }) = channels.topics.get(&header.channel_id) else {
                let (message, channel) = (writer.seen() + 1, header.channel_id);
                return damaged(format!("message {message} has channel {channel}, which is unknown"));
            };
            let may_be_compressed = *is_cdr || channels.are_compressed;
            channels.took_compressed |= !may_be_compressed && data.starts_with(&ZSTD_MAGIC);
            let unpacked = if may_be_compressed { unpacked_bytes(data) } else { Ok(None) };
            let bytes = unpacked.map_err(|why| {
                let message = writer.seen() + 1;
                RecordingError::Wrong(format!(
                    "has messages compressed by zstd, but message {message}, on topic '{topic}', {why}; {WITHOUT}"
                ))
            })?;
            writer.add(topic, header.log_time, bytes.unwrap_or(data.len() as u64))?;
        }
        _ => {}
    }
    Ok(())
}

/// Error of the library as one line; `most` is the maximum size of a record.
fn broken(error: &McapError, most: usize) -> RecordingError {
    match error {
        McapError::UnexpectedEof => RecordingError::CutOff,
        McapError::UnsupportedCompression(name) => RecordingError::Wrong(format!(
            "has chunks compressed by '{}', but only lz4 and zstd can be read; rewrite it with one of those",
            name.escape_default()
        )),
        McapError::RecordTooLarge { len, .. } => RecordingError::Wrong(format!(
            "has a record of {len} bytes (limit {most}), or is damaged; `mcap doctor` tells which"
        )),
        error => {
            // Messages of the library may have several lines.
            let text = error.to_string();
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            RecordingError::Wrong(format!("is damaged: {line}; `mcap doctor` says more"))
        }
    }
}
