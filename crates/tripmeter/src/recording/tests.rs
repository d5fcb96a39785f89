//! Recordings made with the library's writer: read back as written, or refused with the reason.

use super::compression::unpacked_bytes;
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
    // Out of order, as a recorder with several threads may write it.
    ("/imu", 0, 330),
    ("/camera", 33_000_020, 71_000),
    ("/switch", 6_000_000, 0),
];

/// MCAP file with an additional topic without messages, and two channels of one topic.
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

fn asked(files: &[&Path]) -> WrittenRecording {
    let files = files.iter().map(|file| file.to_path_buf()).collect();
    WrittenRecording { files, speed: None, topics: Vec::new(), from_s: None, until_s: None }
}

fn opened(asked: &WrittenRecording) -> Result<Opened, CliError> {
    of_files(asked, &AtomicBool::new(false), true)
}

fn open_bytes(bytes: &[u8], speed: f64) -> Result<Opened, CliError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("drive.mcap");
    std::fs::write(&file, bytes).unwrap();
    opened(&WrittenRecording { speed: Some(speed), ..asked(&[&file]) })
}

/// Topic, nanoseconds after [`START_NS`], and bytes of every message played.
fn played(recording: &Recording) -> Vec<(&str, u64, u32)> {
    let entries = std::fs::read(Recording::files(&recording.schedule).1).unwrap();
    let entries = entries.as_chunks().0.iter().map(|entry| ScheduleEntry::from_bytes(*entry));
    let name = |topic: u32| recording.topics[topic as usize].name.as_str();
    entries.map(|entry| (name(entry.topic), entry.time_ns - START_NS, entry.bytes)).collect()
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
    is_refused(b"topic,time\n", &["is not an MCAP file", "topic,ti"]);
    is_refused(b"abc", &["is not an MCAP file", "\"abc\""]);
    is_refused(b"SQLite format 3\0rest", &["SQLite", "mcap convert FILE.db3 FILE.mcap"]);
    is_refused(b"#ROSBAG V2.0\nrest", &["ROS 1", "mcap convert"]);
    is_refused(&mcap::MAGIC[..5], &["is cut off", "5 bytes"]);
    is_refused(mcap::MAGIC, &["is cut off", "0 messages"]);
    is_refused(&written(plain(), &[]), &["has no messages to play (1 topic)"]);
    let missing = opened(&asked(&[Path::new("/nowhere/x.mcap")])).unwrap_err();
    assert_eq!(missing.code, exit::NO_INPUT);
    let folder = opened(&asked(&[Path::new("/")])).unwrap_err();
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
    let long = &*format!("/{}", "x".repeat(4096)).leak();
    is_refused(&written(plain(), &[(long, 0, 20)]), &["the topic name of channel", "has 4097 bytes (limit 4096)"]);
}

#[test]
fn an_interruption_ends_the_reading() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.mcap");
    std::fs::write(&file, written(plain(), &MESSAGES)).unwrap();
    let error = of_files(&asked(&[&file]), &AtomicBool::new(true), true).unwrap_err();
    assert_eq!(error.code, exit::INTERRUPTED, "{error}");
}

/// File whose messages are zstd frames, as by rosbag2 in compression mode MESSAGE, with its metadata first or last.
fn with_compressed_messages(format: &str, encoding: &str, has_sizes: bool, is_first: bool) -> Vec<u8> {
    let yaml =
        format!("version: 9\nstorage_identifier: mcap\ncompression_format: {format}\ncompression_mode: MESSAGE\n");
    let metadata = BTreeMap::from([("serialized_metadata".to_owned(), yaml)]);
    let metadata = mcap::records::Metadata { name: "rosbag2".to_owned(), metadata };
    let mut file = Cursor::new(Vec::new());
    let mut writer = plain().create(&mut file).unwrap();
    if is_first {
        writer.write_metadata(&metadata).unwrap();
    }
    let channel_id = writer.add_channel(0, "/camera", encoding, &BTreeMap::new()).unwrap();
    for (sequence, bytes) in [(0, 50_000), (1, 300), (2, 0)] {
        let time = START_NS + u64::from(sequence);
        let header = MessageHeader { channel_id, sequence, log_time: time, publish_time: time };
        let mut packed = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        if has_sizes {
            packed.set_pledged_src_size(Some(bytes)).unwrap();
        }
        std::io::Write::write_all(&mut packed, &vec![0; bytes as usize]).unwrap();
        writer.write_to_known_channel(&header, &packed.finish().unwrap()).unwrap();
    }
    if !is_first {
        writer.write_metadata(&metadata).unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    file.into_inner()
}

#[test]
fn messages_that_are_compressed_one_by_one_have_their_sizes_unpacked() {
    for (encoding, is_first) in [("cdr", true), ("cdr", false), ("json", true)] {
        let opened = open_bytes(&with_compressed_messages("zstd", encoding, true, is_first), 1.0).unwrap();
        let sizes: Vec<u32> = played(&opened.recording).iter().map(|message| message.2).collect();
        assert_eq!(sizes, [50_000, 300, 0], "{encoding} {is_first}");
    }
    let behind = with_compressed_messages("zstd", "json", true, false);
    is_refused(&behind, &["declares compression of each message by zstd only after", "ros2 bag convert"]);
    is_refused(&with_compressed_messages("lz5", "cdr", true, true), &["each compressed by 'lz5'", "ros2 bag convert"]);
    let unsized_frames = with_compressed_messages("zstd", "cdr", false, true);
    is_refused(
        &unsized_frames,
        &["message 1, on topic '/camera', does not state its unpacked size", "ros2 bag convert"],
    );
}

#[test]
fn a_message_of_several_frames_has_the_size_of_all() {
    let frame = |size: usize| zstd::bulk::compress(&vec![0; size], 1).unwrap();
    let both = [frame(5000), frame(300)].concat();
    assert_eq!(unpacked_bytes(&both), Ok(Some(5300)));
    assert_eq!(unpacked_bytes(&both[..both.len() - 1]), Err("is cut off"));
    assert_eq!(unpacked_bytes(&[&both[..], b"and more"].concat()), Err("is cut off"));
    assert_eq!(unpacked_bytes(b"no frame"), Ok(None));
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 1).unwrap()
}

fn gzip_of(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, bytes).unwrap();
    packed.finish().unwrap()
}

#[test]
fn a_file_that_is_packed_as_a_whole_is_read_as_it_is_unpacked() {
    let bytes = written(plain(), &MESSAGES);
    let plain = open_bytes(&bytes, 1.0).unwrap();
    for packed in [zstd_of(&bytes), gzip_of(&bytes)] {
        let opened = open_bytes(&packed, 1.0).unwrap();
        assert_eq!(played(&opened.recording), played(&plain.recording));
        let digest: String = Sha256::digest(&packed).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((&opened.recording.sha256, opened.recording.file_bytes), (&digest, packed.len() as u64));
        is_refused(&packed[..packed.len() / 2], &["is cut off", &format!("after {} bytes", packed.len() / 2)]);
        let mut damaged = packed;
        damaged[6..30].fill(0xff);
        is_refused(&damaged, &["is damaged"]);
    }
    is_refused(&zstd_of(b"SQLite format 3\0rest"), &["SQLite"]);
}

#[test]
fn what_becomes_far_larger_than_its_file_is_refused() {
    let bomb = zstd_of(&vec![0; 1 << 20]).repeat(1100);
    let read = Cell::new(bomb.len() as u64 / 1100);
    let mut unpacked = Unpacked::detect(&bomb[..], &read).unwrap();
    let error = io::copy(&mut unpacked, &mut io::sink()).unwrap_err().to_string();
    assert!(error.contains("the limit of 1073741824 bytes and 1024 times") && error.contains("unzstd"), "{error}");
}

#[test]
fn several_files_and_a_folder_are_played_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["drive_0.mcap", "drive_1.mcap"].map(|name| folder.path().join(name));
    std::fs::write(&one, written(plain(), &MESSAGES[..4])).unwrap();
    std::fs::write(&other, zstd_of(&written(plain(), &MESSAGES[4..]))).unwrap();
    let whole = open_bytes(&written(plain(), &MESSAGES), 1.0).unwrap();
    let same = |asked: &WrittenRecording, file: &str| {
        let opened = opened(asked).unwrap();
        let recording = opened.recording.clone();
        assert_eq!((recording.file.as_str(), played(&recording)), (file, played(&whole.recording)));
        assert_eq!(recording.topics, whole.recording.topics);
        assert_eq!((recording.start_ns, recording.duration_ns, recording.silent_topics), (START_NS, 33_000_020, 1));
        let names: Vec<&str> = recording.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["drive_0.mcap", "drive_1.mcap"]);
        assert_eq!(recording.file_bytes, recording.files.iter().map(|file| file.bytes).sum::<u64>());
        recording
    };
    let named = same(&asked(&[&one, &other]), "drive_0.mcap and 1 more");
    let name = folder.path().file_name().unwrap().to_str().unwrap();
    let bag = same(&asked(&[folder.path()]), name);
    assert!(is_same(&named, &bag) && !is_same(&named, &whole.recording));
    let swapped = opened(&asked(&[&other, &one])).unwrap();
    assert!(is_same(&swapped.recording, &named), "the order of the names is not a part of it");
    let metadata = folder.path().join("metadata.yaml");
    let listed = |names: &str| {
        let text = format!("rosbag2_bagfile_information:\n  relative_file_paths:\n{names}  version: 5\n");
        std::fs::write(&metadata, text).unwrap();
        opened(&asked(&[folder.path()]))
    };
    // A bag's files are read only from its own folder.
    let bag = listed("    - bag/drive_0.mcap\n    - ../../drive_1.mcap\n").unwrap();
    assert!(is_same(&bag.recording, &named));
    for (names, part) in [("    - drive_2.mcap\n", "drive_2.mcap' cannot be read"), ("", "does not name a file")] {
        let error = listed(names).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let packed = listed("    - drive_0.mcap\n  compression_format: lz4\n  compression_mode: MESSAGE\n").unwrap_err();
    assert!(packed.to_string().contains("each compressed by 'lz4'"), "{packed}");
    let twice = opened(&asked(&[&one, &one])).unwrap_err();
    assert!(twice.code == exit::USAGE && twice.to_string().contains("name one of them"), "{twice}");
}

#[test]
fn a_part_of_a_recording_has_the_topics_and_the_seconds_that_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("drive.mcap");
    std::fs::write(&file, written(plain(), &MESSAGES)).unwrap();
    let part = |topics: &[&str], from_s: Option<f64>, until_s: Option<f64>| {
        let topics = topics.iter().map(|&topic| topic.to_owned()).collect();
        opened(&WrittenRecording { topics, from_s, until_s, ..asked(&[&file]) })
    };
    let found = |topics: &[&str], from_s, until_s| {
        let opened = part(topics, from_s, until_s).unwrap();
        let messages = played(&opened.recording).into_iter().map(|(topic, ns, _)| (topic.to_owned(), ns));
        (messages.collect::<Vec<_>>(), opened.recording.clone())
    };
    let of = |names: &[(&str, u64)]| names.iter().map(|&(name, ns)| (name.to_owned(), ns)).collect::<Vec<_>>();
    let (messages, recording) = found(&["/camera", "/silent"], None, None);
    assert_eq!(messages, of(&[("/camera", 20), ("/camera", 33_000_020)]));
    assert_eq!((recording.start_ns, recording.silent_topics, recording.messages), (START_NS + 20, 1, 2));
    // The earliest message follows others in the file. A part excludes its last second.
    let (messages, recording) = found(&[], Some(0.005), Some(0.033_000_02));
    assert_eq!(messages, of(&[("/imu", 5_000_010), ("/switch", 6_000_000), ("/switch", 6_000_000)]));
    assert_eq!((recording.start_ns, recording.duration_ns), (START_NS + 5_000_010, 999_990));
    assert_eq!(found(&["/imu"], None, Some(0.005)).0, of(&[("/imu", 10), ("/imu", 0)]));
    let refused = |topics: &[&str], from_s, until_s, parts: &[&str]| {
        let error = part(topics, from_s, until_s).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.code, exit::USAGE, "{text}");
        assert!(parts.iter().all(|part| text.contains(part)) && !text.contains('\n'), "{text}");
    };
    refused(&["/imv"], None, None, &["has no topic '/imv' (did you mean '/imu'?)", "/camera, /imu", "--topics"]);
    refused(&[], Some(2.0), Some(2.0), &["from 2 s until 2 s", "--until"]);
    refused(&[], Some(f64::NAN), None, &["NaN s", "--from"]);
    refused(&[], None, Some(-1.0), &["-1 s", "--until"]);
    refused(
        &["/imu"],
        Some(9.0),
        None,
        &["no message in the chosen part", "topic '/imu', from 9 s", "7 messages", "4 topics"],
    );
}

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
