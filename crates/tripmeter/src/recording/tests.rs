//! Recordings made with the library's writer: read back as written, and refused with the reason where they are bad.

use super::*;
use mcap::records::MessageHeader;
use mcap::{Compression, WriteOptions};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tripmeter_model::recording::{MOST_TOPICS, ScheduleEntry};

const START_NS: u64 = 1_700_000_000_000_000_000;

/// Topic, nanoseconds after the start, bytes.
type Message = (&'static str, u64, usize);

const MESSAGES: [Message; 7] = [
    ("/imu", 10, 324),
    ("/camera", 20, 70_000),
    ("/imu", 5_000_010, 320),
    ("/switch", 6_000_000, 5),
    // As a recorder that has several threads may write it.
    ("/imu", 0, 330),
    ("/camera", 33_000_020, 71_000),
    ("/switch", 6_000_000, 0),
];

/// With a topic that has no message, and two channels of one topic.
fn written(options: WriteOptions, messages: &[Message]) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut writer = options.create(&mut file).unwrap();
    let nothing = BTreeMap::new();
    writer.add_channel(0, "/silent", "cdr", &nothing).unwrap();
    let mut channels: BTreeMap<&str, u16> = BTreeMap::new();
    for (index, &(topic, offset_ns, bytes)) in messages.iter().enumerate() {
        let channel_id =
            *channels.entry(topic).or_insert_with(|| writer.add_channel(0, topic, "cdr", &nothing).unwrap());
        let channel_id = match index {
            2 => writer.add_channel(0, topic, "json", &nothing).unwrap(),
            _ => channel_id,
        };
        let time = START_NS + offset_ns;
        let header = MessageHeader { channel_id, sequence: index as u32, log_time: time, publish_time: 7 };
        writer.write_to_known_channel(&header, &vec![index as u8; bytes]).unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    file.into_inner()
}

fn plain() -> WriteOptions {
    WriteOptions::new().compression(None).compression_threads(0)
}

/// Every kind of file that a recorder writes.
fn kinds() -> Vec<WriteOptions> {
    let chunked = |compression| plain().compression(compression).chunk_size(Some(1000));
    let [none, lz4, zstd] = [None, Some(Compression::Lz4), Some(Compression::Zstd)].map(chunked);
    let whole = plain().compression(Some(Compression::Zstd)).chunk_size(None);
    let unindexed = lz4.clone().emit_summary_records(false).emit_summary_offsets(false).emit_message_indexes(false);
    let without_sums = none.clone().calculate_chunk_crcs(false).calculate_data_section_crc(false);
    vec![plain().use_chunks(false), none, lz4, zstd, whole, unindexed, without_sums]
}

fn open_bytes(bytes: &[u8], speed: f64) -> Result<Opened, CliError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("drive.mcap");
    std::fs::write(&file, bytes).unwrap();
    open(&file, speed, &AtomicBool::new(false), true)
}

fn refused(bytes: &[u8]) -> (u8, String) {
    let error = open_bytes(bytes, 1.0).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("recording '") && text.contains("drive.mcap'") && !text.contains('\n'), "{text}");
    (error.code, text)
}

#[track_caller]
fn is_refused(bytes: &[u8], parts: &[&str]) {
    let (code, text) = refused(bytes);
    assert_eq!(code, exit::DATA, "{text}");
    assert!(parts.iter().all(|part| text.contains(part)), "{parts:?}: {text}");
}

#[test]
fn every_kind_of_file_has_the_topics_sizes_and_times_that_were_written() {
    for options in kinds() {
        let kind = format!("{options:?}");
        let bytes = written(options, &MESSAGES);
        let opened = open_bytes(&bytes, 2.0).unwrap();
        let recording = &opened.recording;
        let extent = (recording.messages, recording.silent_topics, recording.start_ns, recording.duration_ns);
        assert_eq!(extent, (7, 1, START_NS, 33_000_020), "{kind}");
        assert_eq!((recording.file.as_str(), recording.file_bytes), ("drive.mcap", bytes.len() as u64));
        let topics: Vec<_> = recording
            .topics
            .iter()
            .map(|topic| (topic.name.as_str(), topic.messages, topic.bytes, topic.sent_bytes, topic.padded))
            .collect();
        let expected = [("/imu", 3, 974, 974, 0), ("/camera", 2, 141_000, 141_000, 0), ("/switch", 2, 5, 32, 2)];
        assert_eq!(topics, expected, "{kind}");
        let imu = &recording.topics[0];
        assert_eq!((imu.smallest_bytes, imu.largest_bytes, imu.first_ns, imu.last_ns), (320, 330, 0, 5_000_010));
        let entries = std::fs::read(Recording::files(&recording.schedule).1).unwrap();
        let entries: Vec<ScheduleEntry> =
            entries.as_chunks().0.iter().map(|entry| ScheduleEntry::from_bytes(*entry)).collect();
        let expected = MESSAGES.iter().map(|&(name, offset_ns, bytes)| {
            let topic = recording.topics.iter().position(|topic| topic.name == name).unwrap() as u32;
            ScheduleEntry { time_ns: START_NS + offset_ns, topic, bytes: bytes as u32 }
        });
        assert_eq!(entries, expected.collect::<Vec<_>>(), "{kind}");
    }
}

#[test]
fn the_hash_is_that_of_the_whole_file_and_the_schedule_goes_with_its_owner() {
    let mut bytes = written(plain(), &MESSAGES);
    bytes.extend_from_slice(b"appended");
    let opened = open_bytes(&bytes, 1.0).unwrap();
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((&opened.recording.sha256, opened.recording.file_bytes), (&digest, bytes.len() as u64));
    let schedule = opened.recording.schedule.clone();
    assert!(schedule.is_dir());
    drop(opened);
    assert!(!schedule.exists());
}

#[test]
fn what_is_no_recording_is_refused_with_what_it_is() {
    is_refused(b"", &["is empty: 0 bytes"]);
    is_refused(b"topic,time\n", &["is no MCAP file", "topic,ti"]);
    is_refused(b"abc", &["is no MCAP file", "\"abc\""]);
    is_refused(b"SQLite format 3\0rest", &["SQLite", "ros2 bag convert"]);
    is_refused(b"#ROSBAG V2.0\nrest", &["ROS 1", "mcap convert"]);
    is_refused(&mcap::MAGIC[..5], &["is cut off", "5 bytes"]);
    is_refused(mcap::MAGIC, &["is cut off", "0 messages"]);
    is_refused(&written(plain(), &[]), &["has no messages (1 topic)"]);
    let missing = open(Path::new("/nowhere/x.mcap"), 1.0, &AtomicBool::new(false), true).unwrap_err();
    assert_eq!(missing.code, exit::NO_INPUT);
    let folder = open(Path::new("/"), 1.0, &AtomicBool::new(false), true).unwrap_err();
    assert!(folder.code == exit::NO_INPUT && folder.to_string().contains("it is a folder"), "{folder}");
}

#[test]
fn a_recording_that_is_cut_off_anywhere_is_refused() {
    for options in kinds() {
        let bytes = written(options, &MESSAGES[..4]);
        for length in (1..bytes.len()).step_by(997).chain([bytes.len() - 1]) {
            is_refused(&bytes[..length], &["is cut off", &format!("after {length} bytes"), "mcap recover"]);
        }
    }
}

#[test]
fn damage_is_noticed_by_the_sum_of_a_chunk_and_by_that_of_all_data() {
    let chunked = plain().chunk_size(Some(1000));
    for alone in [chunked.clone().calculate_data_section_crc(false), chunked.calculate_chunk_crcs(false)] {
        let mut bytes = written(alone, &MESSAGES);
        let at = bytes.windows(100).position(|window| window == [1; 100]).unwrap();
        bytes[at + 50] = 9;
        is_refused(&bytes, &["is damaged", "CRC"]);
    }
}

#[test]
fn errors_of_speeds_and_limits_name_value_and_limit() {
    let bytes = written(plain(), &MESSAGES);
    for speed in [0.0, -1.0, 1e-4, 1001.0, f64::NAN, f64::INFINITY] {
        let error = open_bytes(&bytes, speed).unwrap_err();
        assert!(error.code == exit::USAGE && error.to_string().contains("0.001 to 1000 (--speed)"), "{error}");
    }
    is_refused(&written(plain(), &[("/a", 0, 1), ("/b", 31 * 86_400_000_000_000, 1)]), &["31.0 days", "30", "'/b'"]);
    let names: Vec<&'static str> = (0..=MOST_TOPICS).map(|topic| &*format!("/{topic}").leak()).collect();
    let many: Vec<Message> = names.iter().map(|name| (*name, 0, 20)).collect();
    is_refused(&written(plain(), &many), &["4096 topics"]);
    assert_eq!(open_bytes(&written(plain(), &many[1..]), 1.0).unwrap().recording.topics.len(), MOST_TOPICS);
    let long = |topic: usize| &*format!("/{topic}/{}", "x".repeat(60_000)).leak();
    let many: Vec<Message> = (0..300).map(|topic| (long(topic), 0, 20)).collect();
    is_refused(&written(plain(), &many), &["topics have more than 16777216 bytes"]);
}

#[test]
fn an_interruption_ends_the_reading() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.mcap");
    std::fs::write(&file, written(plain(), &MESSAGES)).unwrap();
    let error = open(&file, 1.0, &AtomicBool::new(true), true).unwrap_err();
    assert_eq!(error.code, exit::INTERRUPTED, "{error}");
}

/// Whatever a file holds, it is read or refused in one line.
#[test]
fn damaged_bytes_and_random_bytes_never_panic() {
    let mut random = fastrand::Rng::with_seed(11);
    let files: Vec<Vec<u8>> = kinds().into_iter().map(|options| written(options, &MESSAGES[2..5])).collect();
    let read = |bytes: &[u8]| {
        let outcome = catch_unwind(AssertUnwindSafe(|| open_bytes(bytes, 1.0)));
        let shown = || bytes.iter().take(4000).map(|byte| format!("{byte:02x}")).collect::<String>();
        let outcome = outcome.unwrap_or_else(|_| panic!("panicked at {}", shown()));
        if let Err(error) = outcome {
            assert!(!error.to_string().contains('\n') && error.code == exit::DATA, "{error}");
        }
    };
    for _ in 0..1500 {
        let mut bytes = files[random.usize(..files.len())].clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes[at] ^= 1 << random.u8(..8),
                2 => bytes.truncate(at + 1),
                _ => {
                    let end = (at + 8).min(bytes.len());
                    let word = [u64::MAX, 0, 1 << 31, random.u64(..)][random.usize(..4)].to_le_bytes();
                    bytes[at..end].copy_from_slice(&word[..end - at]);
                }
            }
        }
        read(&bytes);
    }
    for _ in 0..300 {
        let noise: Vec<u8> = (0..random.usize(..600)).map(|_| random.u8(..)).collect();
        read(&noise);
        read(&[mcap::MAGIC, &noise].concat());
    }
}
