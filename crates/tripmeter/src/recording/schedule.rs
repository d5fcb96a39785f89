//! The writing of a schedule while its recording is read, and what is known of it in the end.

use super::scan::RecordingError;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tripmeter_model::counted;
use tripmeter_model::payload::{HEADER_BYTES, LARGEST_BYTES};
use tripmeter_model::recording::{
    LONGEST_NS, MOST_MESSAGES, MOST_TOPICS, RecordedTopic, Recording, ScheduleEntry, sent_bytes,
};

/// Writes the file of messages, and counts by topic.
pub struct Writer<W> {
    file: W,
    /// Index of each topic.
    indices: HashMap<String, u32>,
    /// With absolute log times until the end.
    topics: Vec<RecordedTopic>,
    messages: u64,
    silent_topics: u64,
}

impl Writer<BufWriter<File>> {
    /// Into a folder.
    pub fn create(folder: &Path) -> io::Result<Self> {
        Ok(Self::new(BufWriter::with_capacity(1 << 20, File::create_new(Recording::files(folder).1)?)))
    }
}

impl<W: Write> Writer<W> {
    /// Into a file.
    pub fn new(file: W) -> Self {
        Self { file, indices: HashMap::new(), topics: Vec::new(), messages: 0, silent_topics: 0 }
    }

    /// Messages so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Adds a message.
    pub fn add(&mut self, topic: &str, time_ns: u64, bytes: u64) -> Result<(), RecordingError> {
        if self.messages == MOST_MESSAGES {
            return Err(RecordingError::Wrong(format!(
                "has more than {MOST_MESSAGES} messages, the most that can be played; cut a part out of it (`mcap filter`)"
            )));
        }
        if bytes > LARGEST_BYTES {
            return Err(RecordingError::Wrong(format!(
                "has a message of {bytes} bytes on topic '{topic}', larger than {LARGEST_BYTES} bytes, the most that can \
                 be sent; leave the topic out of it (`mcap filter`)"
            )));
        }
        let index = self.index_of(topic, time_ns, bytes)?;
        let of = &mut self.topics[index as usize];
        of.messages += 1;
        of.bytes += bytes;
        of.sent_bytes += sent_bytes(bytes);
        of.padded += u64::from(bytes < HEADER_BYTES);
        (of.smallest_bytes, of.largest_bytes) = (of.smallest_bytes.min(bytes), of.largest_bytes.max(bytes));
        (of.first_ns, of.last_ns) = (of.first_ns.min(time_ns), of.last_ns.max(time_ns));
        self.messages += 1;
        let entry = ScheduleEntry { time_ns, topic: index, bytes: bytes as u32 };
        self.file.write_all(&entry.to_bytes()).map_err(RecordingError::Unwritable)
    }

    /// The index of a topic, which is new if this is its first message.
    fn index_of(&mut self, topic: &str, time_ns: u64, bytes: u64) -> Result<u32, RecordingError> {
        if let Some(index) = self.indices.get(topic) {
            return Ok(*index);
        }
        let index = self.topics.len();
        if index == MOST_TOPICS {
            return Err(RecordingError::Wrong(format!(
                "has messages on more than {MOST_TOPICS} topics, the most that can be played, as each needs a thread on \
                 both sides; leave some out of it (`mcap filter`)"
            )));
        }
        self.indices.insert(topic.to_owned(), index as u32);
        let name = topic.to_owned();
        let (first_ns, last_ns) = (time_ns, time_ns);
        self.topics.push(RecordedTopic { name, first_ns, last_ns, smallest_bytes: bytes, ..RecordedTopic::default() });
        Ok(index as u32)
    }

    /// Counts the known topics that have no message.
    pub fn silent<'a>(&mut self, known: impl Iterator<Item = &'a String>) {
        let silent: HashSet<&String> = known.filter(|topic| !self.indices.contains_key(*topic)).collect();
        self.silent_topics = silent.len() as u64;
    }

    /// What was written; file, size, hash and schedule are not known here.
    pub fn finish(mut self, speed: f64) -> Result<Recording, RecordingError> {
        self.file.flush().map_err(RecordingError::Unwritable)?;
        let first = self.topics.iter().min_by_key(|topic| topic.first_ns);
        let last = self.topics.iter().max_by_key(|topic| topic.last_ns);
        let (Some(first), Some(last)) = (first, last) else {
            let topics = counted(self.silent_topics as usize, "topic");
            return Err(RecordingError::Wrong(format!("has no messages ({topics}): there is nothing to play")));
        };
        let (start_ns, duration_ns) = (first.first_ns, last.last_ns - first.first_ns);
        if duration_ns > LONGEST_NS {
            let [days, limit] = [duration_ns, LONGEST_NS].map(|ns| ns as f64 / 86_400e9);
            return Err(RecordingError::Wrong(format!(
                "lasts {days:.1} days, more than {limit}, the most that can be played: from {start_ns} ns (topic '{}') to \
                 {} ns (topic '{}'); its log times may be of two clocks",
                first.name, last.last_ns, last.name
            )));
        }
        for topic in &mut self.topics {
            (topic.first_ns, topic.last_ns) = (topic.first_ns - start_ns, topic.last_ns - start_ns);
        }
        let Self { topics, messages, silent_topics, .. } = self;
        let (file, file_bytes, sha256, schedule) = (String::new(), 0, String::new(), PathBuf::new());
        Ok(Recording {
            file,
            file_bytes,
            sha256,
            speed,
            start_ns,
            duration_ns,
            messages,
            silent_topics,
            topics,
            schedule,
        })
    }
}

/// Writes the file of topics.
pub fn keep(recording: &Recording) -> io::Result<()> {
    let file = BufWriter::new(File::create_new(Recording::files(&recording.schedule).0)?);
    serde_json::to_writer(file, recording).map_err(io::Error::other)
}
