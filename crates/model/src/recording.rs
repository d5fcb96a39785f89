//! A recording whose messages are replayed, and its schedule: size and time of each message. Topics with a size and a
//! rate each are a recording without a file.
//!
//! The schedule of an hour has millions of messages. It is a folder with two files: `topics.json` contains the
//! [`Recording`], `messages` a [`ScheduleEntry`] of 16 bytes per message, in the order of the recording.

use crate::count::{self, saturating_sum};
use crate::payload::HEADER_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use strum::Display;

/// Most messages of a recording: the leader needs up to 90 bytes of memory for each.
pub const MOST_MESSAGES: u64 = 1 << 24;
/// Most topics with messages: each has a thread on both sides.
pub const MOST_TOPICS: usize = 4096;
/// Longest recorded time from first to last message: 30 days.
pub const LONGEST_NS: u64 = 30 * 86_400 * 1_000_000_000;

/// Kind of messages that replace those of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum Played {
    /// Messages read from files.
    #[strum(serialize = "a recording")]
    Recording,
    /// Topics with a size and a rate each.
    #[strum(serialize = "topics with sizes and rates (--topic)")]
    Topics,
}

/// Contents of a recording, with its playback options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// Name of its file, without the folder; for several files the name of their folder or of the first. Missing for
    /// topics with a size and a rate each.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// Size of the file, or of all its files, in bytes.
    #[serde(default, skip_serializing_if = "count::is_zero")]
    pub file_bytes: u64,
    /// SHA-256 of the file, in hexadecimal; for several files, of a text with their sorted SHA-256s, one per line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
    /// Files of the recording, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<RecordedFile>,
    /// Part that is played.
    #[serde(default, skip_serializing_if = "RecordedPart::is_all")]
    pub part: RecordedPart,
    /// Playback speed, as a multiple of the recorded one.
    pub speed: f64,
    /// Log time of the first message, in nanoseconds since the recorder's epoch (usually 1970).
    pub start_ns: u64,
    /// Recorded time from the first message to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Number of messages of all topics.
    pub messages: u64,
    /// Number of topics without messages, which are not among `topics`.
    pub silent_topics: u64,
    /// Topics with messages, in the order of their first message in the file.
    pub topics: Vec<RecordedTopic>,
    /// Folder of the schedule.
    #[schemars(skip)]
    #[serde(skip)]
    pub schedule: PathBuf,
}

/// File of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedFile {
    /// Name of the file, without the folder.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// Part of a recording that is played.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedPart {
    /// Names of the topics; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// Start, in seconds after the first message of the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_s: Option<f64>,
    /// End, exclusive, in seconds after the first message of the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
}

/// Topic of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedTopic {
    /// Name of the topic.
    pub name: String,
    /// Number of messages.
    pub messages: u64,
    /// Bytes of all its messages, as recorded.
    pub bytes: u64,
    /// Bytes of the smallest message, as recorded.
    pub smallest_bytes: u64,
    /// Bytes of the largest message, as recorded.
    pub largest_bytes: u64,
    /// Number of messages smaller than Tripmeter's header, which are padded to its size.
    pub padded: u64,
    /// Bytes of all its messages, as sent.
    pub sent_bytes: u64,
    /// Recorded time from the first message of the recording to the first of this topic, in nanoseconds.
    pub first_ns: u64,
    /// Recorded time from the first message of the recording to the last of this topic, in nanoseconds.
    pub last_ns: u64,
}

impl Recording {
    /// Topics whose messages have one size and one period each.
    pub fn of_topics(topics: Vec<RecordedTopic>) -> Self {
        Self {
            speed: 1.0,
            duration_ns: topics.iter().map(|topic| topic.last_ns).max().unwrap_or(0),
            messages: saturating_sum(topics.iter().map(|topic| topic.messages)),
            topics,
            ..Self::default()
        }
    }

    /// True if it was read from a file.
    pub fn has_file(&self) -> bool {
        !self.file.is_empty()
    }

    /// Due time of a message that was recorded `offset_ns` after the first, in nanoseconds after the first.
    pub fn due_ns(&self, offset_ns: u64) -> u64 {
        (offset_ns as f64 / self.speed).round() as u64
    }

    /// Duration as played, in nanoseconds.
    pub fn played_ns(&self) -> u64 {
        self.due_ns(self.duration_ns)
    }

    /// Topic with the largest message; `None` without topics.
    pub fn largest(&self) -> Option<&RecordedTopic> {
        self.topics.iter().max_by_key(|topic| topic.largest_bytes)
    }

    /// Mean time between the messages of a topic, as played, in nanoseconds. For a single message it is the duration of
    /// the recording; simultaneous messages share one second.
    pub fn period_ns(&self, topic: &RecordedTopic) -> f64 {
        const SECOND_NS: f64 = 1e9;
        let gaps = topic.messages.saturating_sub(1);
        let span = (topic.last_ns - topic.first_ns) as f64;
        let period = if gaps > 0 { span / gaps as f64 } else { self.duration_ns as f64 };
        let period = if period > 0.0 { period } else { SECOND_NS / topic.messages.max(1) as f64 };
        period / self.speed
    }

    /// Paths of the two files in a schedule folder: topics and messages.
    pub fn files(schedule: &Path) -> (PathBuf, PathBuf) {
        (schedule.join("topics.json"), schedule.join("messages"))
    }
}

impl RecordedPart {
    /// True for the whole recording.
    pub fn is_all(&self) -> bool {
        self.topics.is_empty() && !self.has_times()
    }

    /// True if a start or an end is set.
    pub fn has_times(&self) -> bool {
        self.from_s.is_some() || self.until_s.is_some()
    }

    /// Times in nanoseconds after the first message of the recording; the end is exclusive.
    pub fn times_ns(&self) -> Range<u64> {
        let ns = |seconds: f64| (seconds * 1e9).round() as u64;
        self.from_s.map_or(0, ns)..self.until_s.map_or(u64::MAX, ns)
    }
}

impl fmt::Display for RecordedPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topics = match &self.topics[..] {
            [] => None,
            [one] => Some(format!("topic '{one}'")),
            several => Some(format!("{} topics chosen", several.len())),
        };
        let from = self.from_s.map(|seconds| format!("from {seconds} s"));
        let until = self.until_s.map(|seconds| format!("until {seconds} s"));
        let parts: Vec<String> = [topics, from, until].into_iter().flatten().collect();
        formatter.write_str(&parts.join(", "))
    }
}

impl RecordedTopic {
    /// Topic with `messages` messages of `bytes` bytes at equal distances, the first and the last at `times_ns`.
    pub fn even(name: &str, bytes: u64, messages: u64, times_ns: RangeInclusive<u64>) -> Self {
        let all_bytes = bytes.saturating_mul(messages);
        Self {
            name: name.to_owned(),
            messages,
            bytes: all_bytes,
            smallest_bytes: bytes,
            largest_bytes: bytes,
            padded: 0,
            sent_bytes: all_bytes,
            first_ns: *times_ns.start(),
            last_ns: *times_ns.end(),
        }
    }

    /// Times of its messages if they are [`even`](Self::even), in nanoseconds after the first message of the recording.
    pub fn even_times_ns(&self) -> impl Iterator<Item = u64> {
        let gaps = u128::from(self.messages.saturating_sub(1).max(1));
        let span = u128::from(self.last_ns - self.first_ns);
        (0..self.messages).map(move |index| self.first_ns + ((span * u128::from(index) + gaps / 2) / gaps) as u64)
    }

    /// Bytes of its largest message as sent.
    pub fn largest_sent_bytes(&self) -> u64 {
        sent_bytes(self.largest_bytes)
    }

    /// Mean bytes of a message as sent.
    pub fn mean_sent_bytes(&self) -> f64 {
        self.sent_bytes as f64 / self.messages.max(1) as f64
    }
}

/// Bytes sent for a message of `recorded` bytes: at least the size of Tripmeter's header.
pub fn sent_bytes(recorded: u64) -> u64 {
    recorded.max(HEADER_BYTES)
}

/// Message in the schedule file: three little-endian numbers in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleEntry {
    /// Log time, in nanoseconds.
    pub time_ns: u64,
    /// Index of its topic.
    pub topic: u32,
    /// Bytes as recorded.
    pub bytes: u32,
}

impl ScheduleEntry {
    /// Size of an entry in the file, in bytes.
    pub const BYTES: usize = 16;

    /// Bytes of this entry in the file.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let Self { time_ns, topic, bytes } = self;
        (u128::from(time_ns) | u128::from(topic) << 64 | u128::from(bytes) << 96).to_le_bytes()
    }

    /// Parses the bytes of an entry.
    pub fn from_bytes(entry: [u8; Self::BYTES]) -> Self {
        let whole = u128::from_le_bytes(entry);
        Self { time_ns: whole as u64, topic: (whole >> 64) as u32, bytes: (whole >> 96) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(speed: f64, topics: Vec<RecordedTopic>) -> Recording {
        let messages = topics.iter().map(|topic| topic.messages).sum();
        Recording { speed, duration_ns: 4_000_000_000, messages, topics, ..Recording::default() }
    }

    #[test]
    fn an_entry_is_16_bytes_and_comes_back() {
        let entry = ScheduleEntry { time_ns: 1_700_000_000_123_456_789, topic: 4095, bytes: 1 << 30 };
        let bytes = entry.to_bytes();
        assert_eq!((ScheduleEntry::from_bytes(bytes), &bytes[8..12]), (entry, 4095_u32.to_le_bytes().as_slice()));
    }

    #[test]
    fn speed_divides_times_and_periods() {
        let topic = |messages, first_ns, last_ns| RecordedTopic { messages, first_ns, last_ns, ..Default::default() };
        let half = recording(0.5, vec![topic(5, 0, 4_000_000_000), topic(1, 7, 7), topic(10, 3, 3)]);
        assert_eq!((half.due_ns(3), half.played_ns()), (6, 8_000_000_000));
        let periods: Vec<f64> = half.topics.iter().map(|topic| half.period_ns(topic)).collect();
        assert_eq!(periods, [2e9, 8e9, 2e8]);
        assert_eq!(recording(3.0, Vec::new()).due_ns(10), 3);
    }

    #[test]
    fn a_part_has_times_in_nanoseconds_and_words() {
        let part = RecordedPart { topics: vec!["/a".to_owned()], from_s: Some(0.5), until_s: Some(2.0) };
        assert_eq!(
            (part.times_ns(), part.to_string().as_str()),
            (500_000_000..2_000_000_000, "topic '/a', from 0.5 s, until 2 s")
        );
        let all = RecordedPart::default();
        assert!(all.is_all() && all.times_ns() == (0..u64::MAX) && serde_json::to_string(&all).unwrap() == "{}");
        // Files of older versions lack these fields.
        let mut old = serde_json::to_value(recording(1.0, Vec::new())).unwrap();
        assert!(old.get("part").is_none() && old.get("files").is_none());
        old["file"] = "x.mcap".into();
        assert_eq!(serde_json::from_value::<Recording>(old).unwrap().part, all);
    }

    #[test]
    fn even_messages_are_at_whole_multiples_of_the_period() {
        let topic = RecordedTopic::even("/camera", 1 << 20, 300, 5..=9_966_666_672);
        let times: Vec<u64> = topic.even_times_ns().collect();
        assert_eq!((times.len(), times[0], times[299]), (300, 5, 9_966_666_672));
        for (index, time) in times.iter().enumerate() {
            let multiple = 5.0 + index as f64 * 1e9 / 30.0;
            assert!((*time as f64 - multiple).abs() <= 1.0, "{index}: {time}");
        }
        assert_eq!(RecordedTopic::even("/map", 16, 1, 7..=7).even_times_ns().collect::<Vec<_>>(), [7]);
        let both = Recording::of_topics(vec![topic, RecordedTopic::even("/imu", 200, 2, 0..=10_000_000_000)]);
        assert_eq!((both.messages, both.duration_ns, both.has_file()), (302, 10_000_000_000, false));
        assert_eq!((1e9 / both.period_ns(&both.topics[0])).round(), 30.0);
        let text = serde_json::to_string(&both).unwrap();
        assert!(!text.contains("file") && !text.contains("sha256"), "{text}");
        assert_eq!(serde_json::from_str::<Recording>(&text).unwrap(), both);
    }

    #[test]
    fn small_messages_are_sent_with_our_header() {
        assert_eq!([0, 15, 16, 17].map(sent_bytes), [16, 16, 16, 17]);
    }
}
