//! Writer of a schedule while its recording is read.

use super::error::RecordingError;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use tripmeter_engine::suggest::did_you_mean;
use tripmeter_model::counted;
use tripmeter_model::payload::{HEADER_BYTES, LARGEST_BYTES};
use tripmeter_model::recording::{
    LONGEST_NS, MOST_MESSAGES, MOST_TOPICS, RecordedPart, RecordedTopic, Recording, ScheduleEntry, sent_bytes,
};

const SHOWN_TOPICS: usize = 10;

/// Writer of the message file; it counts messages per topic.
pub struct Writer<W> {
    file: W,
    part: RecordedPart,
    /// Requested topics; all if empty.
    chosen: HashSet<String>,
    /// Requested times, counted from the first message.
    times_ns: Range<u64>,
    /// Earliest log time seen.
    begin_ns: Option<u64>,
    /// Messages seen, of all topics.
    seen: u64,
    /// Topics of all files.
    known: BTreeSet<String>,
    indices: HashMap<String, u32>,
    /// Topics with messages; their log times are absolute until [`finish`](Self::finish).
    topics: Vec<RecordedTopic>,
    messages: u64,
}

impl Writer<BufWriter<File>> {
    pub fn create(folder: &Path, part: &RecordedPart) -> io::Result<Self> {
        Ok(Self::new(messages_file(folder)?, part))
    }
}

pub fn messages_file(folder: &Path) -> io::Result<BufWriter<File>> {
    Ok(BufWriter::with_capacity(1 << 20, File::create_new(Recording::files(folder).1)?))
}

impl<W: Write> Writer<W> {
    /// Writer that keeps only the given part.
    pub fn new(file: W, part: &RecordedPart) -> Self {
        Self {
            file,
            chosen: part.topics.iter().cloned().collect(),
            times_ns: part.times_ns(),
            part: part.clone(),
            begin_ns: None,
            seen: 0,
            known: BTreeSet::new(),
            indices: HashMap::new(),
            topics: Vec::new(),
            messages: 0,
        }
    }

    /// Messages added so far, inside the requested part or not.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Adds a message. A message before the part is written as well: times count from the earliest message, which may
    /// still follow.
    pub fn add(&mut self, topic: &str, time_ns: u64, bytes: u64) -> Result<(), RecordingError> {
        self.seen += 1;
        let begin_ns = self.begin_ns.map_or(time_ns, |begin_ns| begin_ns.min(time_ns));
        self.begin_ns = Some(begin_ns);
        let is_over = time_ns - begin_ns >= self.times_ns.end;
        if is_over || !(self.chosen.is_empty() || self.chosen.contains(topic)) {
            return Ok(());
        }
        self.write(topic, time_ns, bytes)
    }

    fn write(&mut self, topic: &str, time_ns: u64, bytes: u64) -> Result<(), RecordingError> {
        if self.messages == MOST_MESSAGES {
            return Err(RecordingError::Wrong(format!(
                "has more than {MOST_MESSAGES} messages, the limit; choose a part of it (--topics, --until), or cut \
                 one out (`mcap filter`)"
            )));
        }
        if bytes > LARGEST_BYTES {
            return Err(RecordingError::Wrong(format!(
                "has a message of {bytes} bytes on topic '{topic}', above the limit of {LARGEST_BYTES} bytes; choose \
                 other topics (--topics)"
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

    /// Index of a topic, which is added with its first message.
    fn index_of(&mut self, topic: &str, time_ns: u64, bytes: u64) -> Result<u32, RecordingError> {
        if let Some(index) = self.indices.get(topic) {
            return Ok(*index);
        }
        let index = self.topics.len();
        if index == MOST_TOPICS {
            return Err(RecordingError::Wrong(format!(
                "has messages on more than {MOST_TOPICS} topics, the limit, as each needs a thread on both sides; \
                 choose some (--topics)"
            )));
        }
        self.indices.insert(topic.to_owned(), index as u32);
        let name = topic.to_owned();
        let (first_ns, last_ns) = (time_ns, time_ns);
        self.topics.push(RecordedTopic { name, first_ns, last_ns, smallest_bytes: bytes, ..RecordedTopic::default() });
        Ok(index as u32)
    }

    pub fn knows(&mut self, topics: impl Iterator<Item = String>) {
        self.known.extend(topics);
    }

    pub fn flushed(mut self) -> Result<Self, RecordingError> {
        self.file.flush().map_err(RecordingError::Unwritable)?;
        Ok(self)
    }

    /// Copies the messages within the part's times to another file.
    pub fn within<V: Write>(
        self,
        written: impl Iterator<Item = io::Result<ScheduleEntry>>,
        file: V,
    ) -> Result<Writer<V>, RecordingError> {
        let mut part = Writer { known: self.known, begin_ns: self.begin_ns, ..Writer::new(file, &self.part) };
        let begin_ns = self.begin_ns.unwrap_or(0);
        for entry in written {
            let ScheduleEntry { time_ns, topic, bytes } = entry.map_err(RecordingError::Unwritable)?;
            let topic = self.topics.get(topic as usize).map_or("", |topic| topic.name.as_str());
            if self.times_ns.contains(&time_ns.saturating_sub(begin_ns)) {
                part.write(topic, time_ns, bytes.into())?;
            }
        }
        part.seen = self.seen;
        Ok(part)
    }

    /// Error for a part without messages.
    fn nothing(&self) -> RecordingError {
        let topics = counted(self.known.len(), "topic");
        match self.part.is_all() {
            true => RecordingError::Wrong(format!("has no messages to play ({topics})")),
            false => RecordingError::Part(format!(
                "has no message in the chosen part ({}), of {} on {topics}; choose another (--topics, --from, --until)",
                self.part,
                counted(self.seen as usize, "message")
            )),
        }
    }

    /// Fails if a requested topic is not in the recording.
    fn check_topics(&self) -> Result<(), RecordingError> {
        let mut asked = self.part.topics.iter();
        let Some(missing) = asked.find(|topic| !self.known.contains(*topic)) else { return Ok(()) };
        let near = did_you_mean(missing, self.known.iter().map(String::as_str));
        let names: Vec<&str> = self.known.iter().take(SHOWN_TOPICS).map(String::as_str).collect();
        let more = self.known.len().saturating_sub(SHOWN_TOPICS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Err(RecordingError::Part(format!(
            "has no topic '{missing}'{near}; its topics are {}{more} (--topics)",
            names.join(", ")
        )))
    }

    /// Describes what was written, without file, size, hash and schedule, which are not known here.
    pub fn finish(mut self, speed: f64) -> Result<Recording, RecordingError> {
        self.file.flush().map_err(RecordingError::Unwritable)?;
        self.check_topics()?;
        let first = self.topics.iter().min_by_key(|topic| topic.first_ns);
        let last = self.topics.iter().max_by_key(|topic| topic.last_ns);
        let (Some(first), Some(last)) = (first, last) else { return Err(self.nothing()) };
        let (start_ns, duration_ns) = (first.first_ns, last.last_ns - first.first_ns);
        if duration_ns > LONGEST_NS {
            let [days, limit] = [duration_ns, LONGEST_NS].map(|ns| ns as f64 / 86_400e9);
            return Err(RecordingError::Wrong(format!(
                "lasts {days:.1} days, above the limit of {limit}: from {start_ns} ns (topic '{}') to {} ns (topic \
                 '{}'); its log times may come from two clocks",
                first.name, last.last_ns, last.name
            )));
        }
        for topic in &mut self.topics {
            (topic.first_ns, topic.last_ns) = (topic.first_ns - start_ns, topic.last_ns - start_ns);
        }
        let is_asked = |topic: &&String| self.chosen.is_empty() || self.chosen.contains(*topic);
        let silent = self.known.iter().filter(is_asked).filter(|topic| !self.indices.contains_key(*topic)).count();
        let Self { part, topics, messages, .. } = self;
        let silent_topics = silent as u64;
        let known = Recording { part, speed, start_ns, duration_ns, messages, silent_topics, ..Recording::default() };
        Ok(Recording { topics, ..known })
    }
}

pub fn keep(recording: &Recording) -> io::Result<()> {
    let file = BufWriter::new(File::create_new(Recording::files(&recording.schedule).0)?);
    serde_json::to_writer(file, recording).map_err(io::Error::other)
}
