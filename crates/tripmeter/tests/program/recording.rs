//! `tripmeter replay`: plays every message of a recording once, with its size and at its time.

use crate::common::figures::{count, counts, followers, times, times_at};
use crate::common::samples::{received_ns, sample_rows};
use crate::common::{Finished, Tripmeter, allowed_cpus, alone, at_once, folder, is_nightly, manifest};
use mcap::records::MessageHeader;
use mcap::{Compression, WriteOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Counts, Manifest, RunStatus};
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::samples::SampleRow;
use tripmeter_model::trial::Trial;

const START_NS: u64 = 1_700_000_000_000_000_000;
/// Size of the largest message of [`drive`].
const LARGEST: u64 = 60_001;
/// Number of messages of the preceding path proof.
const PROOF: u64 = 32;
const WARMUP: u64 = 5;

/// Topic, nanoseconds after the start, bytes.
pub type Message = (String, u64, u64);

pub fn write(folder: &Path, compression: Option<Compression>, messages: &[Message]) -> PathBuf {
    write_as("drive.mcap", folder, WriteOptions::new().compression(compression).chunk_size(Some(1 << 16)), messages)
}

fn write_as(name: &str, folder: &Path, options: WriteOptions, messages: &[Message]) -> PathBuf {
    let file = folder.join(name);
    let options = options.compression_threads(0);
    let mut writer = options.create(std::fs::File::create_new(&file).unwrap()).unwrap();
    let mut channels: BTreeMap<&str, u16> = BTreeMap::new();
    let nothing = BTreeMap::new();
    for (sequence, (topic, offset_ns, bytes)) in (0..).zip(messages) {
        let new = || writer.add_channel(0, topic, "cdr", &nothing).unwrap();
        let channel_id = *channels.entry(topic).or_insert_with(new);
        let log_time = START_NS + offset_ns;
        let header = MessageHeader { channel_id, sequence, log_time, publish_time: log_time };
        writer.write_to_known_channel(&header, &vec![7; *bytes as usize]).unwrap();
    }
    writer.finish().unwrap();
    file
}

/// A quarter of a second of four topics: fast with jitter, large messages of two sizes, bursts of tiny messages, and a
/// single message.
pub fn drive() -> Vec<Message> {
    let mut random = fastrand::Rng::with_seed(3);
    let mut messages = Vec::new();
    for index in 0..100 {
        messages.push(("/imu".to_owned(), index * 2_500_000 + random.u64(..400_000), 300 + index % 40));
    }
    messages.extend((0..8).map(|index| ("/camera".to_owned(), 1_000_001 + index * 31_000_003, LARGEST - index % 2)));
    messages.extend((0..24).map(|index| ("/switch".to_owned(), 500_000 + index / 6 * 50_000_000 + index % 6, index)));
    messages.push(("/map".to_owned(), 123_456_789, 20_000));
    messages.sort_by_key(|message| message.1);
    messages
}

#[derive(Debug, PartialEq)]
struct Row {
    bytes: u64,
    topic: usize,
    sequence: u64,
    status: String,
    intended_ns: u64,
    actual_ns: u64,
    received_ns: Option<u64>,
    /// Only of calls with one-way latency.
    requested_ns: Option<u64>,
}

fn rows(folder: &Path, name: &str) -> Vec<Row> {
    let recording = manifest(folder).plan.recording.unwrap();
    let is_call = manifest(folder).plan.sub_experiments.iter().any(|plan| plan.name == name && plan.workload.is_call());
    let index = |stream: &str| {
        let topic = stream.strip_prefix("topic=").unwrap();
        recording.topics.iter().position(|recorded| recorded.name == topic).unwrap()
    };
    let row = |row: SampleRow| Row {
        bytes: row.payload_bytes,
        topic: index(&row.stream),
        sequence: row.sequence,
        status: row.status.clone(),
        intended_ns: row.intended_ns.unwrap(),
        actual_ns: row.sent_ns.unwrap(),
        received_ns: if is_call { row.answered_ns } else { received_ns(&row) },
        requested_ns: received_ns(&row).filter(|_| is_call),
    };
    sample_rows(folder, name).into_iter().map(row).collect()
}

/// Expected rows without measured values, by topic in the order of their first message.
fn expected(messages: &[Message], speed: f64) -> Vec<(u64, usize, u64, u64)> {
    let mut topics: Vec<&str> = Vec::new();
    messages.iter().for_each(|(topic, ..)| {
        if !topics.contains(&topic.as_str()) {
            topics.push(topic);
        }
    });
    let start_ns = messages.iter().map(|message| message.1).min().unwrap();
    let rows = topics.iter().enumerate().flat_map(|(index, topic)| {
        let of = messages.iter().filter(move |message| message.0 == **topic);
        of.zip(1..).map(move |((_, offset_ns, bytes), sequence)| {
            let intended_ns = ((offset_ns - start_ns) as f64 / speed).round() as u64;
            (*bytes.max(&16), index, sequence, intended_ns)
        })
    });
    rows.collect()
}

/// Flags with which no message is late on a busy machine, and nothing is measured again.
const STEADY: [&str; 4] = ["--attempts", "1", "--loss-timeout", "15"];

fn play(recording: &Path, output: &Path, flags: &[&str]) -> Finished {
    let words = ["replay", "-q", "--wide", recording.to_str().unwrap(), "-o", output.to_str().unwrap()];
    Tripmeter::new(words.iter().chain(flags)).run()
}

fn trial<'a>(manifest: &'a Manifest, name: &str) -> &'a Trial {
    let result = crate::common::result(manifest, name);
    assert_eq!((result.status, result.cells.len()), (RunStatus::Complete, 1), "{name}: {:?}", result.error);
    let [trial] = &result.cells[0].trials[..] else { panic!("{name}: not one trial") };
    trial
}

/// Number of messages of each topic of [`drive`], in the order of the first.
const TOPICS: [(&str, u64); 4] = [("/imu", 100), ("/switch", 24), ("/camera", 8), ("/map", 1)];

/// Checks figures and audit of each topic of [`drive`], all of whose messages came.
fn check_topics(trial: &Trial, [response, service]: [Figure; 2]) {
    assert_eq!(trial.streams().filter(|stream| stream.topic.is_some()).count(), TOPICS.len());
    for (name, sent) in TOPICS {
        let topic = Stream::topic(name);
        assert_eq!(trial.counts(&topic), Counts { sent, received: sent, ..Counts::default() }, "{name}");
        let [responses, services] = [response, service].map(|of| times_at(trial, &topic, of).unwrap());
        assert_eq!(responses.samples, sent, "{name}");
        assert!(responses.mean >= services.mean && services.min > 0.0, "{name}: {responses:?}, {services:?}");
        let of_topic = trial.series().filter(|(stream, ..)| **stream == topic);
        let audited: Vec<(Figure, u64)> = of_topic.map(|(_, figure, series)| (figure, series.samples)).collect();
        // Fewer than 100 messages are not audited.
        let expected = [(response, sent), (service, sent)];
        assert_eq!(audited, if sent >= 100 { &expected[..] } else { &[] }, "{name}");
    }
}

#[test]
fn every_message_arrives_once_with_its_size_at_its_time_by_the_speed() {
    let _alone = alone();
    let (recorded, messages) = (folder(), drive());
    let file = write(recorded.path(), Some(Compression::Zstd), &messages);
    let cases = [("inmem", "poll", "1"), ("inmem", "block", "0.5"), ("inmem", "callback", "3"), ("uds", "block", "2")];
    let check = |transport: &str, wait: &str, speed: &str| {
        let output = folder();
        let flags = [transport, "--wait", wait, "--speed", speed, "--touch", "full", "--no-floor"];
        play(&file, output.path(), &[&flags[..], &STEADY].concat()).with(exit::GOOD).clean();
        let manifest = manifest(output.path());
        let name = manifest.sub_experiments[0].name.clone();
        assert!(name.ends_with("_publish_recording"), "{name}");
        let rows = rows(output.path(), &name);
        let found: Vec<_> = rows.iter().map(|row| (row.bytes, row.topic, row.sequence, row.intended_ns)).collect();
        assert_eq!(found, expected(&messages, speed.parse().unwrap()), "{transport} {wait}");
        for row in &rows {
            let received = row.received_ns.unwrap();
            assert!(row.status == "ok" && row.intended_ns <= row.actual_ns && row.actual_ns <= received, "{row:?}");
        }
        let trial = trial(&manifest, &name);
        let all = messages.len() as u64;
        assert_eq!(counts(trial), Counts { sent: all, received: all, ..Counts::default() });
        check_topics(trial, [Figure::Response, Figure::Service]);
        let recording = manifest.plan.recording.as_ref().unwrap();
        let planned: Vec<_> = recording.topics.iter().map(|topic| (topic.name.as_str(), topic.messages)).collect();
        assert_eq!(planned, TOPICS);
        assert_eq!((recording.file.as_str(), recording.messages, recording.sha256.len()), ("drive.mcap", all, 64));
        assert_eq!((recording.speed, recording.topics[1].padded), (speed.parse().unwrap(), 16));
    };
    at_once(&cases, |(transport, wait, speed)| check(transport, wait, speed));
}

#[test]
fn under_rpc_each_topic_is_a_client_and_each_message_a_call() {
    let _alone = alone();
    let (recorded, messages) = (folder(), drive());
    let file = write(recorded.path(), Some(Compression::Zstd), &messages);
    let check = |transport: &str, wait: &str| {
        let output = folder();
        let flags = [transport, "--wait", wait, "--as-calls", "--touch", "full", "--no-floor", "--one-way"];
        let finished = play(&file, output.path(), &[&flags[..], &STEADY].concat()).with(exit::GOOD).clean();
        assert!(finished.stdout.contains("response rtt"), "{}", finished.stdout);
        let manifest = manifest(output.path());
        let result = &manifest.sub_experiments[0];
        assert!(result.name.ends_with("_call_recording"), "{}", result.name);
        let rows = rows(output.path(), &result.name);
        let found: Vec<_> = rows.iter().map(|row| (row.bytes, row.topic, row.sequence, row.intended_ns)).collect();
        assert_eq!(found, expected(&messages, 1.0), "{transport} {wait}");
        for pair in rows.windows(2).filter(|pair| pair[0].topic == pair[1].topic) {
            assert!(pair[0].received_ns.unwrap() <= pair[1].actual_ns, "one call at a time: {pair:?}");
        }
        let [trial] = &result.cells[0].trials[..] else { panic!("not one trial") };
        let all = messages.len() as u64;
        assert_eq!((result.cells[0].samples_planned, trial.load), (all, OfferedLoad::Recorded));
        assert_eq!(counts(trial), Counts { sent: all, received: all, ..Counts::default() });
        let one_way = times(trial, Figure::OneWay).unwrap();
        assert_eq!((one_way.samples, count(trial, Figure::OneWayMissing)), (all, 0), "{transport} {wait}");
        for row in &rows {
            let requested_ns = row.requested_ns.unwrap();
            assert!(row.actual_ns <= requested_ns && Some(requested_ns) <= row.received_ns, "{row:?}");
        }
        let figures = std::fs::read_to_string(output.path().join("metrics.csv")).unwrap();
        for figure in ["all,one_way_ns,n,133", "topic=/imu,service_rtt_ns,n,100", "topic=/map,received,value,1"] {
            assert!(figures.contains(&format!(",recorded,{figure},")), "{figure} {figures}");
        }
        check_topics(trial, [Figure::ResponseRtt, Figure::ServiceRtt]);
    };
    at_once(&[("inmem", "poll"), ("inmem", "callback"), ("uds", "block")], |(transport, wait)| check(transport, wait));
}

#[test]
fn what_is_lost_of_a_topic_is_lost_there() {
    let _alone = alone();
    let (recorded, output, messages) = (folder(), folder(), drive());
    let file = write(recorded.path(), Some(Compression::Lz4), &messages);
    // The link of the first topic proves the path.
    let first = PROOF + WARMUP;
    let transport = format!("inmem?lose={},{}&duplicate={}", first + 7, first + 100, first + 30);
    let warmup = WARMUP.to_string();
    // Faults are injected into the first attempt only.
    let flags = [&transport, "--warmup", &warmup, "--no-floor", "--raw", "none", "--attempts", "1"];
    let flags = [&flags[..], &["--loss-timeout", "4"]].concat();
    let finished = play(&file, output.path(), &flags).with(exit::GOOD).clean();
    assert!(finished.unwrapped().contains("topic '/imu': 2 lost, 1 duplicated"), "{}", finished.stdout);
    let manifest = manifest(output.path());
    let trial = trial(&manifest, &manifest.sub_experiments[0].name);
    let imu = Counts { sent: 100, received: 98, lost: 2, duplicated: 1, ..Counts::default() };
    let of = |name| trial.counts(&Stream::topic(name));
    assert_eq!((of("/imu"), of("/switch").lost), (imu, 0));
    assert_eq!((counts(trial).sent, counts(trial).lost), (messages.len() as u64, 2));
}

/// One-way messages of the path proof go to all followers.
#[test]
fn what_one_of_several_followers_lacks_of_a_recording_is_lost_there_and_in_all() {
    let _alone = alone();
    let (recorded, output, messages) = (folder(), folder(), drive());
    let file = write(recorded.path(), Some(Compression::Lz4), &messages);
    let first = PROOF + WARMUP;
    let transport = format!("inmem?at=1&lose={},{}", first + 7, first + 100);
    let warmup = WARMUP.to_string();
    let flags = [&transport, "--wait", "block", "--followers", "3", "--warmup", &warmup, "--no-floor"];
    let flags = [&flags[..], &["--attempts", "1", "--loss-timeout", "4"]].concat();
    let finished = play(&file, output.path(), &flags).with(exit::GOOD).clean();
    let manifest = manifest(output.path());
    let name = &manifest.sub_experiments[0].name;
    let trial = trial(&manifest, name);
    let all = messages.len() as u64;
    let without = |lost| Counts { sent: all, received: all - lost, lost, ..Counts::default() };
    let followers = followers(trial);
    assert_eq!(followers, [0, 1, 2].map(Stream::follower));
    for (at, lost) in followers.iter().zip([0, 2, 0]) {
        let service = times_at(trial, at, Figure::Service).unwrap();
        assert_eq!((trial.counts(at), service.samples), (without(lost), all - lost), "{at}");
    }
    assert_eq!((counts(trial), times(trial, Figure::Service).unwrap().samples), (without(2), all - 2));
    let lost_of = |name| trial.count(&Stream::topic(name), Figure::Lost);
    assert_eq!((lost_of("/imu"), lost_of("/switch")), (2, 0));
    let lost = rows(output.path(), name).into_iter().filter(|row| row.status == "lost");
    assert_eq!(lost.map(|row| (row.topic, row.sequence)).collect::<Vec<_>>(), [(0, 7), (0, 100)]);
    for of in ["service to 0", "service to 2", "to follower 1: 2 lost"] {
        assert!(finished.unwrapped().contains(of), "{}", finished.stdout);
    }
}

#[test]
fn the_table_has_a_row_for_each_topic_of_each_transport_and_the_floor() {
    let _alone = alone();
    let (recorded, output) = (folder(), folder());
    let file = write(recorded.path(), None, &drive());
    let finished =
        play(&file, output.path(), &[&["uds,tcp", "--speed", "4"], &STEADY[..]].concat()).with(exit::GOOD).clean();
    let text = &finished.stdout;
    assert!(text.starts_with("Recording drive.mcap, speed 4: 133 messages on 4 topics, 0.24"), "{text}");
    assert!(finished.unwrapped().contains("recording: 16 messages are smaller than our header"), "{text}");
    for transport in ["uds/", "tcp/", "shm/"] {
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with(transport))
            .map(|line| line.split_whitespace().collect())
            .collect();
        let found: Vec<(&str, &str)> = rows.iter().map(|row| (row[3], row[4])).collect();
        let expected = [("/imu", "100"), ("/switch", "24"), ("/camera", "8"), ("/map", "1"), ("(all)", "133")];
        assert_eq!(found, expected, "{text}");
    }
    let again = Tripmeter::new(["show", output.path().to_str().unwrap(), "--wide"]).run().with(exit::GOOD);
    assert_eq!(again.stdout, *text);
}

#[test]
fn a_thousand_topics_with_few_messages() {
    const TOPICS: u64 = 1000;
    let _alone = alone();
    let (recorded, output) = (folder(), folder());
    let messages: Vec<Message> =
        (0..3 * TOPICS).map(|index| (format!("/topic/{}", index % TOPICS), index * 300_000, 40 + index % 3)).collect();
    let file = write(recorded.path(), Some(Compression::Zstd), &messages);
    let flags = [if is_nightly() { "uds,shm" } else { "uds" }, "--no-floor", "--warmup", "1"];
    play(&file, output.path(), &[&flags[..], &STEADY].concat()).with(exit::GOOD).clean();
    let manifest = manifest(output.path());
    for result in &manifest.sub_experiments {
        let trial = trial(&manifest, &result.name);
        let received =
            trial.streams().filter(|stream| stream.topic.is_some()).map(|topic| trial.counts(topic).received);
        assert_eq!(received.collect::<Vec<_>>(), [3; TOPICS as usize], "{}", result.name);
        assert_eq!(counts(trial).received, 3 * TOPICS, "{}", result.name);
    }
}

#[test]
fn a_recording_that_cannot_be_kept_up_with_is_said_to_be_missed() {
    let _alone = alone();
    let (recorded, output) = (folder(), folder());
    let messages: Vec<Message> = (0..300).map(|index| ("/lidar".to_owned(), index * 1000, 1 << 20)).collect();
    let file = write(recorded.path(), Some(Compression::Zstd), &messages);
    let finished = play(&file, output.path(), &[&["uds", "--no-floor"], &STEADY[..]].concat()).with(exit::GOOD).clean();
    assert!(
        finished.unwrapped().contains("RATE MISSED on 1 of 1 topics; the worst is '/lidar'"),
        "{}",
        finished.stdout
    );
    let manifest = manifest(output.path());
    let trial = trial(&manifest, &manifest.sub_experiments[0].name);
    let lidar = Stream::topic("/lidar");
    assert!(trial.rate_missed && trial.count(&lidar, Figure::Behind) > 0, "{trial:?}");
    let [achieved_hz, offered_hz] =
        [Figure::AchievedRate, Figure::OfferedRate].map(|of| trial.value(&lidar, of).unwrap());
    assert!(achieved_hz < offered_hz / 2.0, "{trial:?}");
}

#[test]
fn a_time_cap_ends_it_and_a_stop_keeps_what_was_played() {
    let _alone = alone();
    let (recorded, output) = (folder(), folder());
    let messages: Vec<Message> = (0..1000).map(|index| ("/slow".to_owned(), index * 100_000_000, 64)).collect();
    let file = write(recorded.path(), None, &messages);
    let flags = ["uds", "--no-floor", "--warmup", "0", "--time-cap", "1"];
    let finished = play(&file, output.path(), &[&flags[..], &STEADY].concat()).with(exit::GOOD).clean();
    assert!(finished.unwrapped().contains(": time cap"), "{}", finished.stdout);
    let manifest = manifest(output.path());
    let trial = trial(&manifest, &manifest.sub_experiments[0].name);
    let Counts { sent, received, .. } = counts(trial);
    assert!((1..1000).contains(&sent) && sent == received, "{trial:?}");
}

#[test]
fn a_printed_replay_is_an_experiment_that_plays_the_recording() {
    let (recorded, output) = (folder(), folder());
    let file = write(recorded.path(), Some(Compression::Zstd), &drive());
    let printed = play(&file, output.path(), &["uds", "--speed", "2", "--print"]).with(exit::GOOD);
    let experiment = recorded.path().join("replay.toml");
    std::fs::write(&experiment, &printed.stdout).unwrap();
    let results = output.path().join("results");
    let words = ["run", "-q", experiment.to_str().unwrap(), "-o", results.to_str().unwrap()];
    Tripmeter::new(words.iter().chain(&STEADY)).run().with(exit::GOOD);
    let found = manifest(&results).plan.recording.unwrap();
    assert_eq!((found.speed, found.messages), (2.0, drive().len() as u64), "{}", printed.stdout);
}

#[test]
fn what_cannot_be_played_is_refused_in_one_line_before_anything_starts() {
    let (recorded, output) = (folder(), folder());
    let file = write(recorded.path(), Some(Compression::Zstd), &drive());
    let other = |name: &str, bytes: &[u8]| {
        let file = recorded.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        file
    };
    let whole = std::fs::read(&file).unwrap();
    let unchunked = write_as("unchunked.mcap", recorded.path(), WriteOptions::new().use_chunks(false), &drive());
    let mut changed = std::fs::read(&unchunked).unwrap();
    // The bytes of all messages are 7.
    let body = changed.windows(100).position(|bytes| bytes.iter().all(|byte| *byte == 7)).unwrap();
    changed[body] = 8;
    let refused = |file: &Path, flags: &[&str], code: u8, parts: &[&str]| {
        play(file, output.path(), flags).with(code).one_line(parts).clean();
    };
    let uds = ["uds"];
    refused(&other("empty.mcap", b""), &uds, exit::DATA, &["'", "empty.mcap' is empty: 0 bytes"]);
    refused(&other("text.mcap", b"hello, world\n"), &uds, exit::DATA, &["is not an MCAP file", "hello, w"]);
    let cut = other("cut.mcap", &whole[..whole.len() / 2]);
    refused(&cut, &uds, exit::DATA, &["is cut off", &format!("{} bytes", whole.len() / 2), "mcap recover"]);
    refused(&other("changed.mcap", &changed), &uds, exit::DATA, &["is damaged", "Data section CRC"]);
    refused(&recorded.path().join("none.mcap"), &uds, exit::NO_INPUT, &["none.mcap' cannot be read"]);
    for (flag, value) in [("--payloads", "1k"), ("-n", "5")] {
        refused(&file, &["uds", flag, value], exit::USAGE, &[flag, "recording exclude each other", "leave"]);
    }
    for (flag, value) in [("--rate", "10"), ("--publishers", "2"), ("--duration", "1")] {
        refused(&file, &["uds", flag, value], exit::USAGE, &["unexpected argument", flag]);
    }
    let rpc = ["uds", "--as-calls"];
    let many: Vec<Message> = (0..257).map(|index| (format!("/{index}"), index, 64)).collect();
    let crowded = folder();
    let clients = write(crowded.path(), None, &many);
    refused(&clients, &rpc, exit::USAGE, &["257 topics", "at most 256", "--as-calls"]);
    refused(&file, &["uds", "--print", "-n", "5"], exit::USAGE, &["-n", "recording exclude each other"]);
    refused(&file, &["uds", "--speed", "0"], exit::USAGE, &["a speed of 0", "0.001 to 1000"]);
    let topics = ["uds", "--topics", "/imu,/camara"];
    refused(&file, &topics, exit::USAGE, &["has no topic '/camara' (did you mean '/camera'?)", "/imu", "--topics"]);
    refused(&file, &["uds", "--from", "3", "--until", "2"], exit::USAGE, &["from 3 s until 2 s", "--from, --until"]);
    refused(
        &file,
        &["uds", "--from", "60"],
        exit::USAGE,
        &["no message in the chosen part", "from 60 s", "133 messages"],
    );
    let twice = file.to_str().unwrap();
    refused(&file, &["uds", twice], exit::USAGE, &["are the same", "name one of them"]);
    let database = other("drive.db3", b"SQLite format 3\0");
    refused(&database, &uds, exit::DATA, &["an SQLite database", "mcap convert FILE.db3 FILE.mcap"]);
    refused(&other("drive.bag", b"#ROSBAG V2.0\n"), &uds, exit::DATA, &["a bag of ROS 1", "mcap convert"]);
    let long = folder();
    let named = write(long.path(), Some(Compression::Zstd), &[("x".repeat(4097), 0, 64)]);
    refused(&named, &uds, exit::DATA, &["topic name of channel 1", "4097 bytes", "4096"]);
    let large = folder();
    let huge = write(large.path(), Some(Compression::Zstd), &[("/huge".to_owned(), 0, 64 << 20)]);
    refused(&huge, &["shm?depth=1024"], exit::USAGE, &["'/huge'", &(64_u64 << 20).to_string(), "shared memory"]);
}

/// Times and sizes sent, which must not depend on the order of the files.
fn sent(output: &Path) -> Vec<(u64, usize, u64, u64)> {
    let name = manifest(output).sub_experiments[0].name.clone();
    rows(output, &name).iter().map(|row| (row.bytes, row.topic, row.sequence, row.intended_ns)).collect()
}

/// A bag of two files, one of them packed by rosbag2, is played as one: by files, by folder and by experiment file. Its
/// results are resumed with all files.
#[test]
fn a_bag_of_several_files_is_played_as_one() {
    let _alone = alone();
    let (bag, output, messages) = (folder(), folder(), drive());
    let options = || WriteOptions::new().compression(None);
    // Parts may overlap in time.
    let (first, second): (Vec<Message>, Vec<Message>) = messages.iter().cloned().partition(|one| one.0 != "/camera");
    let first = write_as("drive_0.mcap", bag.path(), options(), &first);
    let second = write_as("drive_1.mcap", bag.path(), options(), &second);
    let packed = bag.path().join("drive_1.mcap.zstd");
    let bytes = zstd::stream::encode_all(&std::fs::read(&second).unwrap()[..], 1).unwrap();
    std::fs::write(&packed, bytes).unwrap();
    std::fs::remove_file(second).unwrap();
    let [first, second] = [&first, &packed].map(|file| file.to_str().unwrap());
    let steady = [&["uds", "--no-floor"], &STEADY[..]].concat();
    let by_files = output.path().join("files");
    play(Path::new(first), &by_files, &[&[second], &steady[..]].concat()).with(exit::GOOD).clean();
    let by_folder = output.path().join("folder");
    play(bag.path(), &by_folder, &steady).with(exit::GOOD).clean();
    assert_eq!(sent(&by_files), sent(&by_folder));
    let recording = manifest(&by_files).plan.recording.unwrap();
    assert_eq!((recording.messages, recording.files.len()), (messages.len() as u64, 2));
    let mut sizes: Vec<u64> = sent(&by_files).iter().map(|row| row.0).collect();
    let mut expected: Vec<u64> = messages.iter().map(|message| message.2.max(16)).collect();
    sizes.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sizes, expected);
    let experiment = output.path().join("bag.toml");
    let text = format!("[recording]\nfile = [\"{first}\", \"{second}\"]\ntopics = [\"/camera\"]\nuntil_s = 0.1\n");
    std::fs::write(&experiment, text + "[[sub_experiment]]\ntransport = \"uds\"\n").unwrap();
    let by_text = output.path().join("text");
    let words = ["run", "-q", experiment.to_str().unwrap(), "--no-floor", "-o", by_text.to_str().unwrap()];
    Tripmeter::new(words.iter().chain(&STEADY)).run().with(exit::GOOD).clean();
    assert_eq!(manifest(&by_text).plan.recording.unwrap().messages, 4);
    let resume = |files: &[&str]| {
        let named = files.iter().flat_map(|file| ["--recording", file]);
        Tripmeter::new(["run", "-q", "--resume", by_text.to_str().unwrap()].into_iter().chain(named)).run()
    };
    resume(&[second, first]).with(exit::GOOD).clean();
    resume(&[first]).with(exit::USAGE).one_line(&["has no topic '/camera'"]);
    resume(&[]).with(exit::USAGE).one_line(&["--recording FILE; once for each file"]);
}

/// The heading for all topics names no payload, and each topic has a row.
#[test]
fn figures_of_all_topics_stand_under_no_payload() {
    let _alone = alone();
    let (recorded, output) = (folder(), folder());
    let file = write(recorded.path(), None, &drive());
    let words = ["replay", file.to_str().unwrap(), "uds", "--no-floor", "-o", output.path().to_str().unwrap()];
    let finished = Tripmeter::new(words.iter().chain(&STEADY)).run().with(exit::GOOD);
    let text = &finished.stdout;
    let largest = tripmeter_model::payload::display_size(LARGEST);
    assert!(text.contains("all topics") && !text.contains(&largest), "{text}");
    for topic in TOPICS.iter().map(|topic| topic.0).chain(["(all)"]) {
        assert!(text.lines().any(|line| line.contains(&format!(" {topic} "))), "{topic}: {text}");
    }
    let report = std::fs::read_to_string(output.path().join("report.html")).unwrap();
    assert!(report.contains("on all topics?") && report.contains("steady on topic '/"), "no head in the report");
    for format in ["junit", "github", "bencher"] {
        let words = ["export", output.path().to_str().unwrap(), "--format", format];
        let exported = Tripmeter::new(words).run().with(exit::GOOD);
        let words: Vec<&str> = exported.stdout.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
        assert!(!words.contains(&largest.as_str()), "{format}: {}", exported.stdout);
    }
}

/// A file without extra settings plays the recording next to it. `--print` and `run` report the same errors and name
/// the file.
#[test]
fn an_experiment_file_is_resolved_with_its_recording_whether_it_is_run_or_printed() {
    let (recorded, output) = (folder(), folder());
    write(recorded.path(), None, &drive());
    std::fs::write(recorded.path().join("empty.mcap"), b"").unwrap();
    let experiment = recorded.path().join("replay.toml");
    let named = format!("experiment '{}': ", experiment.display());
    let run = |text: &str, flags: &[&str]| {
        std::fs::write(&experiment, text).unwrap();
        let results = output.path().join("results");
        let words = ["run", "-q", experiment.to_str().unwrap(), "-o", results.to_str().unwrap()];
        Tripmeter::new(words.iter().chain(flags)).run()
    };
    let uds = "[[sub_experiment]]\ntransport = \"uds\"\n";
    let drive = "[recording]\nfile = \"drive.mcap\"\n";
    let good = run(&format!("cpus = \"{}\"\n{drive}{uds}", allowed_cpus()), &["--print"]).with(exit::GOOD);
    let file = recorded.path().join("drive.mcap").canonicalize().unwrap();
    assert!(good.stdout.contains(&format!("file = \"{}\"", file.display())), "{}", good.stdout);
    let wrong = [
        (format!("one_way = true\n{drive}{uds}"), exit::DATA, "always measures one-way latency"),
        (format!("topics = 3\n{drive}{uds}"), exit::DATA, "topics (--topics) and a recording"),
        (format!("payloads = \"1k\"\n{drive}{uds}"), exit::DATA, "payloads (--payloads) and a recording"),
        (format!("mode = \"bench\"\n{drive}{uds}"), exit::DATA, "mode (--mode) and a recording"),
        (format!("{drive}{uds}pattern = \"ping\"\n"), exit::DATA, "not 'ping'"),
        (format!("{drive}speed = 5000\n{uds}"), exit::DATA, "a speed of 5000"),
        (format!("{drive}speed = nan\n{uds}"), exit::DATA, "a speed of NaN"),
        (format!("[recording]\nfile = \"empty.mcap\"\n{uds}"), exit::DATA, "empty.mcap' is empty"),
        (format!("[recording]\nfile = \"none.mcap\"\n{uds}"), exit::NO_INPUT, "none.mcap' cannot be read"),
    ];
    for (text, code, part) in &wrong {
        for flags in [&["--print"][..], &[]] {
            run(text, flags).with(*code).one_line(&[&named, part]).clean();
        }
    }
    // Errors from flags do not name the file.
    run(&format!("{drive}{uds}"), &["--print", "-n", "5"])
        .with(exit::USAGE)
        .one_line(&["samples (-n) and a recording"]);
    let file = recorded.path().join("empty.mcap");
    for flags in [&["uds", "--print"][..], &["uds"]] {
        play(&file, output.path(), flags).with(exit::DATA).one_line(&["is empty"]);
    }
    play(&recorded.path().join("drive.mcap"), output.path(), &["uds", "--speed", "nan", "--print"])
        .with(exit::USAGE)
        .one_line(&["a speed of NaN"]);
}
