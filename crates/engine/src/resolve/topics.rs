//! Topics with a size and a rate each. They make a recording without a file.

use super::error::Problem;
use super::load;
use std::collections::HashSet;
use tripmeter_model::bounds::MOST_SAID_BYTES;
use tripmeter_model::experiment::{Experiment, WrittenTopic};
use tripmeter_model::payload::parse_size;
use tripmeter_model::recording::{MOST_MESSAGES, MOST_TOPICS, RecordedTopic, Recording};

/// Default time for which topics are published, in seconds.
const DEFAULT_S: f64 = 10.0;
/// Fewest messages of a topic: a single message has no rate.
const FEWEST: f64 = 2.0;

/// Makes a recording of the topics of an experiment. All of its messages are due within the experiment's duration.
pub fn of_topics(experiment: &Experiment) -> Result<Recording, Problem> {
    if experiment.written_recording.is_some() {
        return Err(Problem::RecordingAndTopics);
    }
    let seconds = experiment.duration_s.unwrap_or(DEFAULT_S);
    load::duration(seconds)?;
    let mut own = experiment.sub_experiments.iter().filter_map(|entry| entry.duration_s);
    if let Some(own) = own.find(|own| *own != seconds) {
        return Err(Problem::DurationOfTopics(own));
    }
    let topics = &experiment.written_topics;
    if topics.len() > MOST_TOPICS {
        return Err(Problem::NamedTopics(topics.len()));
    }
    check_names(topics.iter().map(|topic| topic.name.as_str()))?;
    let spread = |(index, topic): (usize, &WrittenTopic)| {
        let of_topic = |problem| Problem::OfTopic { topic: topic.name.clone(), problem: Box::new(problem) };
        one(topic, seconds, index as f64 / topics.len() as f64).map_err(of_topic)
    };
    let recording = Recording::of_topics(topics.iter().enumerate().map(spread).collect::<Result<_, _>>()?);
    match recording.messages {
        messages if messages > MOST_MESSAGES => Err(Problem::MessagesOfTopics { messages, seconds }),
        _ => Ok(recording),
    }
}

/// Topic with one message in each whole period of `seconds`, the first after the share `phase` of a period.
fn one(topic: &WrittenTopic, seconds: f64, phase: f64) -> Result<RecordedTopic, Problem> {
    let bytes = parse_size(&topic.size)?;
    let hz = load::timed_rate(
        topic.rate.trim(),
        "--topic NAME:SIZE:RATE takes a plain number of messages per second, from 0.001 to 1e6",
    )?;
    // The product of decimal numbers may be just below a whole number.
    let messages = (seconds * hz + 1e-6).floor();
    if messages < FEWEST {
        return Err(Problem::FewOfTopic { hz, seconds });
    }
    let due_ns = |periods: f64| (periods * 1e9 / hz).round() as u64;
    Ok(RecordedTopic::even(&topic.name, bytes, messages as u64, due_ns(phase)..=due_ns(phase + messages - 1.0)))
}

fn check_names<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), Problem> {
    let mut seen = HashSet::new();
    names.try_for_each(|name| {
        let is_name = (1..=MOST_SAID_BYTES).contains(&name.len()) && !name.contains(char::is_control);
        match is_name && seen.insert(name) {
            true => Ok(()),
            false if is_name => Err(Problem::TopicTwice(name.to_owned())),
            false => Err(Problem::TopicName { name: name.escape_debug().take(40).collect(), bytes: name.len() }),
        }
    })
}

/// Checks the recording of a plan, if it has topics instead of a file: remaking its schedule must give the same.
pub(super) fn check(recording: &Recording) -> Result<(), Problem> {
    let topics = &recording.topics;
    check_names(topics.iter().map(|topic| topic.name.as_str()))?;
    let again = |topic: &RecordedTopic| {
        let RecordedTopic { name, messages, largest_bytes, first_ns, last_ns, .. } = topic;
        RecordedTopic::even(name, *largest_bytes, *messages, *first_ns..=*last_ns)
    };
    let is_spread = |topic: &RecordedTopic| {
        parse_size(&topic.largest_bytes.to_string()).is_ok()
            && topic.first_ns <= topic.last_ns
            && *topic == again(topic)
    };
    let made = Recording { schedule: recording.schedule.clone(), ..Recording::of_topics(topics.clone()) };
    if topics.iter().all(is_spread) && *recording == made { Ok(()) } else { Err(Problem::NotTheRecording) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::experiment::{SubExperimentFile, WrittenRecording};

    fn asked(topics: &[(&str, &str, &str)], duration_s: Option<f64>) -> Experiment {
        let written = |(name, size, rate): &(&str, &str, &str)| WrittenTopic {
            name: (*name).to_owned(),
            size: (*size).to_owned(),
            rate: (*rate).to_owned(),
        };
        Experiment { written_topics: topics.iter().map(written).collect(), duration_s, ..Experiment::default() }
    }

    fn refused(topics: &[(&str, &str, &str)], duration_s: Option<f64>) -> String {
        of_topics(&asked(topics, duration_s)).unwrap_err().to_string()
    }

    #[test]
    fn each_topic_has_the_messages_of_its_rate_and_begins_within_its_first_period() {
        let made = of_topics(&asked(&[("/camera", "2M", "30"), ("/imu", "200", "500"), ("/map", "1k", "0.2")], None));
        let made = made.unwrap();
        let found: Vec<_> = made.topics.iter().map(|one| (one.messages, one.largest_bytes, one.first_ns)).collect();
        assert_eq!(found, [(300, 2 << 20, 0), (5000, 200, 666_667), (2, 1024, 3_333_333_333)]);
        assert_eq!((made.messages, made.speed, made.start_ns, made.silent_topics), (5302, 1.0, 0, 0));
        for (topic, hz) in made.topics.iter().zip([30.0, 500.0, 0.2]) {
            assert!((1e9 / made.period_ns(topic) / hz - 1.0).abs() < 1e-8, "{topic:?}");
            assert!(topic.last_ns < 10_000_000_000 && topic.bytes == topic.messages * topic.largest_bytes, "{topic:?}");
        }
        check(&made).unwrap();
        let counts = |seconds, rate| of_topics(&asked(&[("a", "16", rate)], Some(seconds))).unwrap().messages;
        assert_eq!([counts(0.29, "100"), counts(0.7, "10"), counts(2.5, "1")], [29, 7, 2]);
    }

    #[test]
    fn what_cannot_be_published_is_refused_with_value_and_limit() {
        let (good, one) = (("a", "1k", "10"), |name, size, rate| refused(&[(name, size, rate)], None));
        for (error, parts) in [
            (one("", "1k", "10"), ["''", "1 to 4096 bytes"]),
            (one("a\u{7}b", "1k", "10"), ["'a\\u{7}b'", "no control characters"]),
            (one(&"x".repeat(4097), "1k", "10"), ["4097 bytes", "1 to 4096 bytes"]),
            (one("a", "15", "10"), ["topic 'a'", "15 bytes"]),
            (one("a", "2G", "10"), ["topic 'a'", "1073741824 bytes"]),
            (one("a", "1x", "10"), ["topic 'a'", "'1x' is not a size"]),
            (one("a", "1k", "max"), ["topic 'a'", "'max':"]),
            (one("a", "1k", "0"), ["'0':", "0.001 to 1e6"]),
            (one("a", "1k", "2e6"), ["'2e6':", "--topic"]),
            (one("a", "1k", "0.19"), ["topic 'a'", "--duration"]),
            (refused(&[good, good], None), ["topic 'a'", "twice"]),
            (refused(&[good], Some(0.0)), ["0 s", "--duration"]),
            (refused(&[good], Some(f64::NAN)), ["NaN s", "--duration"]),
            (refused(&[("a", "1k", "1e6"), ("b", "1k", "1e6")], None), ["20000000 messages", "16777216"]),
        ] {
            assert!(parts.iter().all(|part| error.contains(part)), "{parts:?}: {error}");
        }
        let names: Vec<String> = (0..=MOST_TOPICS).map(|index| index.to_string()).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), "16", "1")).collect();
        assert!(refused(&many, None).contains("4097"));
        let mut both = asked(&[good], None);
        let files = vec!["x.mcap".into()];
        both.written_recording =
            Some(WrittenRecording { files, speed: None, topics: Vec::new(), from_s: None, until_s: None });
        assert!(of_topics(&both).unwrap_err().to_string().contains("--topic"));
        let mut own = asked(&[good], Some(2.0));
        own.sub_experiments =
            vec![SubExperimentFile { duration_s: Some(3.0), ..SubExperimentFile::for_transport("uds") }];
        assert!(of_topics(&own).unwrap_err().to_string().contains("3 s"));
    }

    #[test]
    fn a_plan_whose_schedule_would_be_another_is_refused() {
        let made = of_topics(&asked(&[("a", "1k", "10"), ("b", "64", "20")], None)).unwrap();
        let changes: [fn(&mut Recording); 10] = [
            |plan| plan.messages += 1,
            |plan| plan.duration_ns -= 1,
            |plan| plan.speed = 2.0,
            |plan| plan.start_ns = 1,
            |plan| plan.topics[1].name = "a".to_owned(),
            |plan| plan.topics[0].messages = u64::MAX,
            |plan| plan.topics[0].largest_bytes = 1 << 31,
            |plan| plan.topics[0].first_ns = plan.topics[0].last_ns + 1,
            |plan| plan.topics[0].padded = 1,
            |plan| plan.sha256 = "0".repeat(64),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut changed = made.clone();
            change(&mut changed);
            assert!(check(&changed).is_err(), "{index}");
        }
    }
}
