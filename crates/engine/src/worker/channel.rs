//! One payload under pattern `channel`, measured by the leader: load after load, with a publishing thread for each topic,
//! or for each publisher of the one topic.

use super::Result;
use super::leader::{Leader, Session};
use super::replay::{PlayedTopic, pace_of};
use super::trials::Tallied;
use crate::delivery::Kept;
use tripmeter_model::channel::{ChannelTrial, TopicTrial};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::rpc::Pace;

impl Leader {
    /// Measures one payload: every offered load, one after the other, or a recording.
    pub(super) fn measure_channel(&mut self, session: &mut Session<'_>, payload_bytes: u64) -> Result<()> {
        let planned = &self.job.sub_experiment.workload;
        let measured = if planned.is_recorded() {
            self.play(session, payload_bytes, Self::publish_all, published)?
        } else {
            let loads = planned.loads.clone();
            self.trials(session, payload_bytes, &loads, Self::publish_all, trial)?
        };
        let of = |trial: &ChannelTrial| (trial.counts, trial.cut_short.clone());
        self.report_trials(session, payload_bytes, measured, of, |cell, trials| cell.channel = trials)
    }
}

/// Of a recording without its pace.
fn trial(tallied: Tallied, load: OfferedLoad) -> ChannelTrial {
    let Tallied { mut tally, publishers, followers, refused, duration_ns, cut_short, own, others, .. } = tallied;
    let Kept { achieved_hz, slowest_hz, rate_missed } = tally.kept();
    let [response_series, service_series] = tally.series(0);
    ChannelTrial {
        offered_hz: load.hz().unwrap_or_default(),
        burst: load.burst(),
        achieved_hz,
        slowest_hz,
        rate_missed,
        behind: tally.behind,
        refused,
        counts: tally.counts(),
        before_sent: tally.before_sent,
        response_ns: tally.response.latency(),
        service_ns: tally.service.latency(),
        lateness_ns: tally.lateness.latency(),
        response_within_run_ns: tally.response.bounds(),
        service_within_run_ns: tally.service.bounds(),
        lateness_within_run_ns: tally.lateness.bounds(),
        response_series,
        service_series,
        duration_ns,
        cut_short,
        publisher: own,
        subscriber: others,
        topics: Vec::new(),
        publishers: if publishers > 1 { tally.publishers() } else { Vec::new() },
        followers,
    }
}

/// The trial of a recording that was published. Its topics are counted one after the other, not in the order of time; each
/// has an audit of its own.
fn published(all: Tallied, topics: Vec<PlayedTopic>) -> ChannelTrial {
    let Pace { offered_hz, achieved_hz, slowest_hz, rate_missed, behind, .. } = pace_of(&topics);
    let topics = topics.into_iter().map(published_topic).collect();
    let trial = trial(all, OfferedLoad::Recorded);
    ChannelTrial { offered_hz, achieved_hz, slowest_hz, rate_missed, behind, topics, ..trial }
}

fn published_topic(topic: PlayedTopic) -> TopicTrial {
    let PlayedTopic { recorded, pace, mut tally, .. } = topic;
    let [response_series, service_series] = tally.series(0);
    TopicTrial {
        mean_bytes: recorded.mean_sent_bytes(),
        largest_bytes: recorded.largest_sent_bytes(),
        name: recorded.name,
        offered_hz: pace.offered_hz,
        achieved_hz: pace.achieved_hz,
        rate_missed: pace.rate_missed,
        behind: pace.behind,
        counts: tally.counts(),
        before_sent: tally.before_sent,
        response_ns: tally.response.latency(),
        service_ns: tally.service.latency(),
        lateness_ns: tally.lateness.latency(),
        response_within_run_ns: tally.response.bounds(),
        service_within_run_ns: tally.service.bounds(),
        lateness_within_run_ns: tally.lateness.bounds(),
        response_series,
        service_series,
    }
}
