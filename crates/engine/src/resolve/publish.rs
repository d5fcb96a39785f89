//! Workloads of pattern `publish`, and of recordings.

use super::call::MOST_CLIENTS;
use super::error::Problem;
use super::{load, topology};
use tripmeter_abi::Pattern;
use tripmeter_model::experiment::Common;
use tripmeter_model::pace::LoadKind;
use tripmeter_model::pattern::{Axis, facts};
use tripmeter_model::recording::{Played, Recording};
use tripmeter_model::workload::{Recorded, Workload};

pub(super) fn workload(common: &Common) -> Result<Workload, Problem> {
    let (topics, publishers) = topology::streams(common)?;
    Ok(Workload::publications(load::timed(common)?, topics, publishers))
}

/// Default number of warm-up messages of each topic before a recording.
const RECORDING_WARMUP: u64 = 3;

/// Checks that no setting conflicts with a recording, which fixes messages and times. Returns its pattern.
pub fn fits_recording(common: &Common, played: Played) -> Result<Pattern, Problem> {
    let pattern = common.pattern.unwrap_or(Pattern::Publish);
    if !facts(pattern).has_load(LoadKind::Recorded) {
        return Err(Problem::RecordingPattern { played, pattern });
    }
    let [sizes, times, extent] = match played {
        Played::Recording => [
            "messages have their recorded sizes",
            "messages are sent at their recorded times (--speed changes the speed)",
            "every message of it is sent once (--time-cap ends it early)",
        ],
        Played::Topics => [
            "each has its size (--topic NAME:SIZE:RATE)",
            "each has its rate (--topic NAME:SIZE:RATE)",
            "they are published for a time (--duration)",
        ],
    };
    let has_duration = common.duration_s.is_some() && played == Played::Recording;
    let given = [
        ("payloads (--payloads)", common.payloads.is_some(), sizes),
        ("rate (--rate)", common.rate.is_some(), times),
        ("topics (--topics)", common.topics.is_some(), "each topic has a name"),
        ("publishers (--publishers)", common.publishers.is_some(), "each topic has one"),
        ("clients (--clients)", common.clients.is_some(), "each topic is a client"),
        ("mode (--mode)", common.mode.is_some(), times),
        ("samples (-n)", common.samples.is_some(), extent),
        ("samples_above", common.samples_above.is_some(), extent),
        ("duration_s (--duration)", has_duration, extent),
        ("demand (--demand)", common.demand.is_some(), times),
        ("recovery_ms (--recovery)", common.recovery_ms.is_some(), times),
        ("loss_bound (--loss-bound)", common.loss_bound.is_some(), times),
    ];
    let taken = given.into_iter().find(|(_, is_given, _)| *is_given);
    taken.map_or(Ok(pattern), |(what, _, why)| Err(Problem::RecordingSays { what, played, why }))
}

/// Adds the settings that a recording fixes.
pub(super) fn with_recording(common: &Common, recording: &Recording) -> Result<Common, Problem> {
    let pattern = fits_recording(common, if recording.has_file() { Played::Recording } else { Played::Topics })?;
    if facts(pattern).has_axis(Axis::Clients) && recording.topics.len() > MOST_CLIENTS as usize {
        return Err(Problem::RecordingClients { topics: recording.topics.len(), most: MOST_CLIENTS });
    }
    let largest = recording.largest().map_or(0, |topic| topic.largest_sent_bytes());
    Ok(Common {
        pattern: Some(pattern),
        payloads: Some(largest.to_string()),
        samples: Some(recording.messages.max(1)),
        warmup: common.warmup.or(Some(RECORDING_WARMUP)),
        duration_s: None,
        ..common.clone()
    })
}

pub(super) fn playing(workload: Workload, recording: &Recording) -> Workload {
    let recorded = Recorded { messages: recording.messages, duration_ns: recording.played_ns() };
    workload.playing(recorded, recording.topics.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::topology::MOST_TOPICS;
    use super::*;
    use tripmeter_model::pace::OfferedLoad;

    fn published(rate: Option<&str>, topics: Option<u32>) -> Result<Workload, String> {
        let common = Common { rate: rate.map(str::to_owned), topics, ..Common::default() };
        workload(&common).map_err(|problem| problem.to_string())
    }

    #[test]
    fn one_topic_at_1_khz_is_the_default_and_lists_sweep() {
        let rate = |hz| OfferedLoad::Rate { hz };
        assert_eq!(published(None, None), Ok(Workload::publications(vec![rate(1000.0)], 1, 1)));
        let sweep = vec![rate(10.0), rate(2500.0)];
        assert_eq!(published(Some("10, 2.5e3"), Some(8)), Ok(Workload::publications(sweep, 8, 1)));
    }

    #[test]
    fn what_a_recording_says_is_not_said_again() {
        let refused = |common: Common| fits_recording(&common, Played::Recording).unwrap_err().to_string();
        let some = |text: &str| Some(text.to_owned());
        assert!(refused(Common { payloads: some("1k"), ..Common::default() }).contains("payloads (--payloads)"));
        let rate = refused(Common { rate: some("10"), ..Common::default() });
        assert!(rate.contains("rate (--rate)") && rate.contains("--speed"), "{rate}");
        assert!(refused(Common { topics: Some(2), ..Common::default() }).contains("topics (--topics)"));
        assert!(refused(Common { samples: Some(2), ..Common::default() }).contains("samples (-n)"));
        let pattern = refused(Common { pattern: Some(Pattern::Ping), ..Common::default() });
        assert!(pattern.contains("'ping'") && pattern.contains("choose one of these"), "{pattern}");
        let wait = Some(tripmeter_abi::Wait::Block);
        for pattern in [Pattern::Publish, Pattern::Call] {
            let common = Common { pattern: Some(pattern), wait, ..Common::default() };
            assert!(fits_recording(&common, Played::Recording).is_ok());
        }
        let clients = refused(Common { pattern: Some(Pattern::Call), clients: some("4"), ..Common::default() });
        assert!(clients.contains("clients (--clients)") && clients.contains("is a client"), "{clients}");
    }

    #[test]
    fn what_topics_with_sizes_and_rates_say_is_not_said_again() {
        let of = |common: &Common| fits_recording(common, Played::Topics).map_err(|problem| problem.to_string());
        let some = |text: &str| Some(text.to_owned());
        for (common, flag) in [
            (Common { payloads: some("1k"), ..Common::default() }, "--payloads"),
            (Common { rate: some("10"), ..Common::default() }, "--rate"),
            (Common { topics: Some(2), ..Common::default() }, "--topics"),
            (Common { publishers: Some(2), ..Common::default() }, "--publishers"),
            (Common { samples: Some(2), ..Common::default() }, "-n"),
        ] {
            let error = of(&common).unwrap_err();
            assert!(error.contains(flag) && error.contains("(--topic) exclude each other"), "{error}");
        }
        assert_eq!(
            of(&Common { duration_s: Some(3.0), followers: Some(2), ..Common::default() }),
            Ok(Pattern::Publish)
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_flag() {
        for rate in ["0", "max", "", "1,,2", "nan", "2e6", "10,10"] {
            assert!(published(Some(rate), None).unwrap_err().contains("--rate"), "{rate}");
        }
        for topics in [0, MOST_TOPICS + 1] {
            let error = published(None, Some(topics)).unwrap_err();
            assert!(error.contains(&topics.to_string()) && error.contains("--topics"), "{error}");
        }
        for (publishers, topics) in [(0, None), (MOST_TOPICS + 1, None), (2, Some(2))] {
            let common = Common { publishers: Some(publishers), topics, ..Common::default() };
            let error = workload(&common).unwrap_err().to_string();
            assert!(error.contains(&publishers.to_string()) && error.contains("--publishers"), "{error}");
        }
        let common = Common { publishers: Some(2), topics: Some(1), ..Common::default() };
        let workload = workload(&common).unwrap();
        assert_eq!((workload.publishers(), workload.links()), (2, 2));
    }
}
