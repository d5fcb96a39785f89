//! Due times of messages: at a rate, in bursts, or as in a recording, which is read here.

use crate::clock::Timebase;
use crate::measure::publish::{Bursts, Schedule, Timetable};
use crate::memory::{OutOfMemory, reserved};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use tripmeter_model::pace::{Burst, OfferedLoad};
use tripmeter_model::recording::{RecordedTopic, Recording, ScheduleEntry, sent_bytes};

/// Recording with the schedule of its messages, 12 bytes each.
pub struct Replay {
    pub recording: Recording,
    topics: Vec<Messages>,
    ticks_per_ns: f64,
}

#[derive(Default)]
struct Messages {
    /// Due times, in ticks after the first message of the recording.
    due: Vec<u64>,
    /// Size of each message as sent, in bytes.
    bytes: Vec<u32>,
}

/// Due times of the messages of one topic: the recorded times divided by the speed.
#[derive(Clone, Copy, Debug)]
pub struct RecordedTimes<'r> {
    /// Due time of the first message of the recording, in ticks.
    begin: u64,
    due: &'r [u64],
    bytes: &'r [u32],
    period: f64,
}

/// Due times and lengths of the messages of one topic, publisher or client.
#[derive(Clone, Copy, Debug)]
pub enum Times<'r> {
    /// Closed loop: each message is due as soon as the previous one has ended.
    Closed(Schedule),
    Even(Schedule),
    Bursts(Bursts),
    Recorded(RecordedTimes<'r>),
}

impl Times<'_> {
    /// Due times of a link under a load other than a recording; the first message of all links is due at `begin`. At a
    /// rate, links are spread evenly over a period; bursts begin together.
    pub fn for_load(load: OfferedLoad, timebase: &Timebase, begin: u64, link: usize, links: usize) -> Self {
        let ticks = timebase.ticks_per_ns() * load.gap_ns();
        match load {
            OfferedLoad::Burst(Burst { size, .. }) => Times::Bursts(Bursts { first: begin, size, gap: ticks }),
            OfferedLoad::Rate { .. } => {
                let first = begin + (ticks * link as f64 / links as f64) as u64;
                Times::Even(Schedule { first, period: ticks })
            }
            _ => Times::Closed(Schedule { first: begin, period: 0.0 }),
        }
    }
}

/// Evaluates `$value` for the variant of `$times`.
macro_rules! with_times {
    ($times:expr, $of:ident => $value:expr) => {
        match $times {
            Times::Closed($of) | Times::Even($of) => $value,
            Times::Bursts($of) => $value,
            Times::Recorded($of) => $value,
        }
    };
}

impl Timetable for Times<'_> {
    const HAS_LENGTHS: bool = true;

    fn due(&self, index: usize) -> u64 {
        with_times!(self, times => Timetable::due(times, index))
    }

    fn length(&self, index: usize, usual: usize) -> usize {
        with_times!(self, times => times.length(index, usual))
    }

    fn period(&self) -> f64 {
        with_times!(self, times => times.period())
    }

    fn gap(&self) -> f64 {
        with_times!(self, times => times.gap())
    }

    fn elapsed(&self, messages: usize, last: u64) -> f64 {
        with_times!(self, times => times.elapsed(messages, last))
    }
}

impl Timetable for RecordedTimes<'_> {
    const HAS_LENGTHS: bool = true;

    #[inline(always)]
    fn due(&self, index: usize) -> u64 {
        self.begin + self.due[index]
    }

    #[inline(always)]
    fn length(&self, index: usize, _: usize) -> usize {
        self.bytes[index] as usize
    }

    fn period(&self) -> f64 {
        self.period
    }
}

impl Replay {
    pub fn load(folder: &Path, timebase: &Timebase) -> Result<Self, String> {
        let (topics, messages) = Recording::files(folder);
        let cannot = |file: &Path, error: &dyn std::fmt::Display| format!("schedule '{}': {error}", file.display());
        let text = std::fs::read(&topics).map_err(|error| cannot(&topics, &error))?;
        let recording: Recording = serde_json::from_slice(&text).map_err(|error| cannot(&topics, &error))?;
        let file = File::open(&messages).map_err(|error| cannot(&messages, &error))?;
        Self::from_entries(recording, Entries::new(file), timebase).map_err(|error| cannot(&messages, &error))
    }

    /// Builds the schedule from messages in any order; messages with equal times keep their order.
    ///
    /// # Errors
    /// If they do not match the recording, or cannot be read.
    pub fn from_entries(
        recording: Recording,
        entries: impl Iterator<Item = io::Result<ScheduleEntry>>,
        timebase: &Timebase,
    ) -> io::Result<Self> {
        let ticks_per_ns = timebase.ticks_per_ns();
        let with_room = |topic: &RecordedTopic| -> Result<Messages, OutOfMemory> {
            let (due, bytes) = (reserved(topic.messages, "due times")?, reserved(topic.messages, "lengths")?);
            Ok(Messages { due, bytes })
        };
        let topics: Result<Vec<Messages>, _> = recording.topics.iter().map(with_room).collect();
        let mut topics = topics.map_err(io::Error::other)?;
        let stranger = || io::Error::other("it does not belong to the recording");
        for entry in entries {
            let ScheduleEntry { time_ns, topic, bytes } = entry?;
            let messages = topics.get_mut(topic as usize).ok_or_else(stranger)?;
            let offset_ns = time_ns.checked_sub(recording.start_ns).ok_or_else(stranger)?;
            messages.due.push((recording.due_ns(offset_ns) as f64 * ticks_per_ns).round() as u64);
            messages.bytes.push(sent_bytes(bytes.into()) as u32);
        }
        let counts = topics.iter().map(|messages| messages.due.len() as u64);
        if !counts.eq(recording.topics.iter().map(|topic| topic.messages)) {
            return Err(stranger());
        }
        topics.iter_mut().for_each(Messages::sort);
        Ok(Self { recording, topics, ticks_per_ns })
    }

    /// Due times of one topic, if the first message of the recording is due at `begin`.
    pub fn times(&self, topic: usize, begin: u64) -> RecordedTimes<'_> {
        let Messages { due, bytes } = &self.topics[topic];
        let period = self.recording.period_ns(&self.recording.topics[topic]) * self.ticks_per_ns;
        RecordedTimes { begin, due, bytes, period }
    }
}

impl Messages {
    /// Sorts by time. A recorder writes messages on arrival, which is nearly always in order.
    fn sort(&mut self) {
        if self.due.is_sorted() {
            return;
        }
        let mut pairs: Vec<(u64, u32)> = self.due.iter().copied().zip(self.bytes.iter().copied()).collect();
        pairs.sort_by_key(|pair| pair.0);
        for (index, (due, bytes)) in pairs.into_iter().enumerate() {
            (self.due[index], self.bytes[index]) = (due, bytes);
        }
    }
}

pub struct Entries<R>(R);

impl Entries<BufReader<File>> {
    pub fn new(file: File) -> Self {
        Self(BufReader::with_capacity(1 << 20, file))
    }
}

impl<R: Read> Iterator for Entries<R> {
    type Item = io::Result<ScheduleEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut entry = [0; ScheduleEntry::BYTES];
        let mut filled = 0;
        while filled < entry.len() {
            match self.0.read(&mut entry[filled..]) {
                Ok(0) if filled == 0 => return None,
                Ok(0) => return Some(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(ScheduleEntry::from_bytes(entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_NS: u64 = 1_700_000_000_000_000_000;

    fn recording(speed: f64, counts: &[u64]) -> Recording {
        let topic = |messages: &u64| RecordedTopic { messages: *messages, last_ns: 3000, ..RecordedTopic::default() };
        Recording {
            speed,
            start_ns: START_NS,
            duration_ns: 3000,
            messages: counts.iter().sum(),
            topics: counts.iter().map(topic).collect(),
            ..Recording::default()
        }
    }

    fn entry(offset_ns: u64, topic: u32, bytes: u32) -> ScheduleEntry {
        ScheduleEntry { time_ns: START_NS + offset_ns, topic, bytes }
    }

    fn rows(replay: &Replay, topic: usize) -> Vec<(u64, usize)> {
        let times = replay.times(topic, 7);
        (0..times.due.len()).map(|index| (times.due(index), times.length(index, 0))).collect()
    }

    #[test]
    fn messages_are_due_as_recorded_by_the_speed_and_in_order_of_their_times() {
        let entries = [entry(2000, 0, 300), entry(0, 1, 3), entry(1001, 0, 200), entry(2000, 0, 100), entry(9, 1, 17)];
        let replay =
            Replay::from_entries(recording(2.0, &[3, 2]), entries.into_iter().map(Ok), &Timebase::NANOSECONDS).unwrap();
        assert_eq!(rows(&replay, 0), [(7 + 501, 200), (7 + 1000, 300), (7 + 1000, 100)]);
        assert_eq!(rows(&replay, 1), [(7, 16), (7 + 5, 17)], "one is smaller than our header");
        assert_eq!(replay.times(0, 0).period(), 750.0);
    }

    #[test]
    fn a_schedule_is_read_from_its_folder_and_one_that_is_wrong_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (topics, messages) = Recording::files(folder.path());
        let load = || Replay::load(folder.path(), &Timebase::NANOSECONDS);
        assert!(load().err().unwrap().contains("topics.json"));
        std::fs::write(&topics, serde_json::to_string(&recording(1.0, &[1])).unwrap()).unwrap();
        assert!(load().err().unwrap().contains("messages"));
        let good = entry(5, 0, 99).to_bytes();
        std::fs::write(&messages, good).unwrap();
        assert_eq!(rows(&load().unwrap(), 0), [(12, 99)]);
        for wrong in [&good[..15], &[good, good].concat(), &entry(5, 1, 99).to_bytes(), &[0; 16], &[]] {
            std::fs::write(&messages, wrong).unwrap();
            assert!(load().is_err(), "{wrong:?}");
        }
    }
}
