//! `publish --topic`: topics with a size and a rate each, a recording without a file.

use crate::ab::{ab, is_judged, list, made};
use crate::common::figures::{counts, followers};
use crate::common::samples::sample_rows;
use crate::common::{Finished, Tripmeter, alone, folder, manifest};
use crate::large::as_if_killed;
use std::path::Path;
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::Stream;

/// Name, size in bytes, messages per second, and messages in a second.
const TOPICS: [(&str, u64, f64, u64); 3] =
    [("/camera", 20 << 10, 30.0, 30), ("/imu", 200, 250.0, 250), ("a:b, \"c\"", 16, 2.5, 2)];
const NAMED: [&str; 8] =
    ["--topic", "/camera:20k:30", "--topic", "/imu:200:250", "--topic", "a:b, \"c\":16:2.5", "--duration", "1"];
/// Flags with which no message is late on a busy machine, and nothing is measured again.
const STEADY: [&str; 7] = ["--wait", "block", "--no-floor", "--attempts", "1", "--loss-timeout", "15"];

fn publish(output: &Path, flags: &[&str]) -> Finished {
    let words = ["publish", "inmem", "-q", "-o", output.to_str().unwrap()];
    Tripmeter::new(words.iter().chain(flags)).run()
}

#[test]
fn each_topic_has_its_size_its_rate_and_its_figures() {
    let _alone = alone();
    let output = folder();
    let flags = [&NAMED[..], &STEADY, &["--touch", "full", "--wide"]].concat();
    let finished = publish(output.path(), &flags).with(exit::GOOD).clean();
    let text = &finished.stdout;
    assert!(text.starts_with("Topics with sizes and rates: 282 messages on 3 topics, 0.99"), "{text}");
    let manifest = manifest(output.path());
    let result = &manifest.sub_experiments[0];
    assert!(result.name.ends_with("_publish_topics"), "{}", result.name);
    let trial = &result.cells[0].trials[0];
    assert_eq!(counts(trial), Counts { sent: 282, received: 282, ..Counts::default() });
    let (metrics, rows) =
        (std::fs::read_to_string(output.path().join("metrics.csv")).unwrap(), sample_rows(output.path(), &result.name));
    for (index, (name, bytes, hz, messages)) in TOPICS.into_iter().enumerate() {
        let topic = Stream::topic(name);
        assert_eq!(trial.counts(&topic), Counts { sent: messages, received: messages, ..Counts::default() }, "{name}");
        let offered = trial.value(&topic, Figure::OfferedRate).unwrap();
        assert!((offered / hz - 1.0).abs() < 1e-6, "{name}: {offered}");
        let due: Vec<_> = rows.iter().filter(|row| row.stream == topic.to_string()).collect();
        assert_eq!(due.len() as u64, messages, "{name}");
        for (at, row) in due.iter().enumerate() {
            let planned_ns = (at as f64 + index as f64 / TOPICS.len() as f64) * 1e9 / hz;
            assert!((row.intended_ns.unwrap() as f64 - planned_ns).abs() <= 1.0, "{row:?}");
            assert_eq!((row.payload_bytes, row.status.as_str()), (bytes, "ok"));
        }
    }
    for figure in ["topic=/camera,sent,value,30,", "topic=/imu,offered_rate_hz,value,250,"] {
        assert!(metrics.contains(&format!(",recorded,{figure}")), "{figure}: {metrics}");
    }
    let written = std::fs::read_to_string(output.path().join("manifest.json")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    let recording = written["plan"]["recording"].as_object().unwrap();
    assert!(["file", "file_bytes", "sha256"].iter().all(|key| !recording.contains_key(*key)), "{recording:?}");
    let report = std::fs::read_to_string(output.path().join("report.html")).unwrap();
    assert!(report.contains(", 3 topics, 1 round.") && report.contains("on all topics?"), "no head in the report");
    let choose = ["choose", "--from", output.path().to_str().unwrap()];
    Tripmeter::new(choose).run().with(exit::DATA).one_line(&["topics of several sizes"]);
}

#[test]
fn several_followers_have_every_message_of_each_topic() {
    let _alone = alone();
    let output = folder();
    publish(output.path(), &[&NAMED[..], &STEADY, &["--followers", "2"]].concat()).with(exit::GOOD).clean();
    let manifest = manifest(output.path());
    let trial = &manifest.sub_experiments[0].cells[0].trials[0];
    assert_eq!(followers(trial), [0, 1].map(Stream::follower));
    assert!(followers(trial).iter().all(|one| trial.counts(one).received == 282), "{trial:?}");
}

#[test]
fn printed_topics_are_an_experiment_with_the_same_plan() {
    let _alone = alone();
    let output = folder();
    let [own, printed] = ["own", "printed"].map(|name| output.path().join(name));
    publish(&own, &[&NAMED[..], &STEADY].concat()).with(exit::GOOD).clean();
    let text = publish(&own, &[&NAMED[..], &STEADY, &["--print"]].concat()).with(exit::GOOD).stdout;
    assert!(text.contains("[[topic]]\nname = \"/camera\"\nsize = \"20k\"\nrate = \"30\"\n"), "{text}");
    let experiment = output.path().join("topics.toml");
    std::fs::write(&experiment, &text).unwrap();
    let words = ["run", "-q", experiment.to_str().unwrap(), "-o", printed.to_str().unwrap()];
    Tripmeter::new(words).run().with(exit::GOOD).clean();
    let plans = [own, printed].map(|folder| manifest(&folder).plan);
    assert_eq!(plans[0].recording, plans[1].recording);
    let subs = plans.map(|plan| serde_json::to_value(plan.sub_experiments).unwrap());
    assert_eq!(subs[0], subs[1]);
}

#[test]
fn results_are_resumed_by_their_plan_alone_which_must_be_of_topics() {
    let _alone = alone();
    let output = folder();
    publish(output.path(), &[&NAMED[..], &STEADY].concat()).with(exit::GOOD).clean();
    let before = manifest(output.path());
    let resume = |more: &[&str]| {
        let words = ["run", "-q", "--resume", output.path().to_str().unwrap()];
        Tripmeter::new(words.iter().chain(more)).run()
    };
    as_if_killed(output.path(), |line| !line.contains("\"round\":1,"), |_| {});
    resume(&["--recording", "x.mcap"]).with(exit::USAGE).one_line(&["not made from a recording", "leave it out"]);
    resume(&[]).with(exit::GOOD).clean();
    let again = manifest(output.path());
    assert_eq!((&again.plan.recording, again.resumptions.len()), (&before.plan.recording, 1));
    assert_eq!(counts(&again.sub_experiments[0].cells[0].trials[0]).received, 282);
    as_if_killed(
        output.path(),
        |line| !line.contains("\"round\":1,"),
        |made| made["plan"]["recording"]["topics"][0]["messages"] = 10_000_000_u64.into(),
    );
    resume(&[]).with(exit::DATA).one_line(&["cannot be resumed", "plan.recording"]);
}

#[test]
fn both_sides_of_ab_publish_the_same_topics() {
    let _alone = alone();
    let place = folder();
    let words = ["inmem", "uds", "--pattern", "publish", "--topic", "/a:1k:100", "--topic", "/b:64:200"];
    let few = ["--duration", "0.2", "--wait", "block", "--attempts", "1", "--loss-timeout", "15", "--rounds", "6"];
    let done = ab(&place, &[&words[..], &few, &["-q", "-o", "r"]].concat()).run();
    assert!(is_judged(&done), "{done:?}");
    assert_eq!(list(&made(&place.path().join("r")), "comparisons").len(), 2);
    assert_eq!(manifest(&place.path().join("r")).plan.recording.unwrap().messages, 60);
    let refused = |words: &[&str], parts: &[&str]| {
        ab(&place, &[words, &["-o", "x"]].concat()).run().with(exit::USAGE).one_line(parts);
    };
    refused(&["uds", "--topic", "/a:1k:100"], &["--topic requires --pattern publish"]);
    refused(
        &["uds", "--pattern", "publish", "--topic", "/a:1k:100", "--recording", "x.mcap"],
        &["--recording requires"],
    );
}

#[test]
fn what_cannot_be_published_is_refused_in_one_line_before_anything_starts() {
    let output = folder();
    let results = output.path().join("results");
    let refused = |flags: &[&str], parts: &[&str]| {
        for more in [&[][..], &["--print"]] {
            publish(&results, &[flags, more].concat()).with(exit::USAGE).one_line(parts).clean();
        }
    };
    for (flag, value) in [
        ("--payloads", "1k"),
        ("--rate", "10"),
        ("--topics", "2"),
        ("--publishers", "2"),
        ("-n", "5"),
        ("--demand", "4"),
    ] {
        refused(&["--topic", "/a:1k:10", flag, value], &[flag, "(--topic) exclude each other", "leave"]);
    }
    refused(&["--topic", "/a:1k"], &["NAME:SIZE:RATE"]);
    refused(&["--topic", "/a:1x:10"], &["topic '/a'", "'1x' is not a size"]);
    refused(&["--topic", "/a:1k:max"], &["topic '/a'", "'max'", "0.001 to 1e6"]);
    refused(&["--topic", "/a:1k:10", "--topic", "/a:2k:10"], &["topic '/a' is named twice"]);
    refused(&["--topic", ":1k:10"], &["1 to 4096 bytes"]);
    refused(&["--topic", "/a:1k:0.1"], &["topic '/a'", "in 10 s", "--duration"]);
    refused(&["--topic", "/a:1k:10", "--duration", "90000"], &["90000 s", "86400 s (--duration)"]);
    refused(&["--duration", "1"], &["--topic"]);
    let experiment = output.path().join("topics.toml");
    let topic = "[[topic]]\nname = \"/a\"\nsize = \"1k\"\nrate = \"10\"\n";
    let uds = "[[sub_experiment]]\ntransport = \"uds\"\n";
    for (text, part) in [
        (format!("[recording]\nfile = \"x.mcap\"\n{topic}{uds}"), "exclude each other"),
        (format!("{topic}{uds}duration_s = 3\n"), "duration_s of its own, 3 s"),
        (format!("{topic}{uds}pattern = \"ping\"\n"), "not 'ping'"),
        (format!("rate = \"5\"\n{topic}{uds}"), "rate (--rate)"),
        (format!("{topic}speed = 2\n{uds}"), "speed"),
    ] {
        std::fs::write(&experiment, text).unwrap();
        let words = ["run", "-q", experiment.to_str().unwrap(), "-o", results.to_str().unwrap()];
        let named = format!("experiment '{}': ", experiment.display());
        Tripmeter::new(words).run().with(exit::DATA).one_line(&[&named, part]).clean();
    }
}
