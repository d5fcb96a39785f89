//! One payload under pattern `channel`, measured by the leader: rate after rate, with a publishing thread for each topic,
//! or for each publisher of the one topic.

use super::leader::{Leader, Session};
use super::trials::{Batch, Sent, Tallied};
use super::workload::{PublishedTopics, TopicPlan, Workload};
use super::{Error, Result};
use crate::delivery::Kept;
use crate::replay::Times;
use tripmeter_model::channel::ChannelTrial;

impl Leader {
    /// Measures one payload: every rate, one after the other.
    pub(super) fn measure_channel(&mut self, session: &mut Session<'_>, payload_bytes: u64) -> Result<()> {
        let Some(flow) = &self.job.sub_experiment.channel else {
            return Err(Error::Failed("the plan does not say what to publish".to_owned()));
        };
        if flow.recorded.is_some() {
            return self.measure_recording(session, payload_bytes);
        }
        let rates_hz: Vec<Option<f64>> = flow.rates_hz.iter().copied().map(Some).collect();
        let measured = self.trials(session, payload_bytes, &rates_hz, Self::publish, trial)?;
        let of = |trial: &ChannelTrial| (trial.counts, trial.cut_short.clone());
        self.report_trials(session, payload_bytes, measured, of, |cell, trials| cell.channel = trials)
    }

    /// Publishes on all topics, or by all publishers; the followers note what comes.
    fn publish(&mut self, session: &mut Session<'_>, batch: Batch) -> Result<Sent> {
        let count = session.lanes.len();
        let topic = |index| TopicPlan {
            messages: batch.messages,
            length: batch.payload_bytes as usize,
            publisher: if batch.has_publishers { index } else { 0 },
        };
        let times = move |begin, index| Times::Even(batch.schedule(begin, index, count));
        let topics = (0..count as u32).map(topic).collect();
        let workload = Workload { topics, times: &times, capped: batch.capped };
        let published = self.publish_all(session, &workload)?;
        let PublishedTopics { delivered, followers, refused, end, broken, begin, until, own, others } = published;
        Ok(Sent { delivered, followers, late: 0, refused, end, broken, begin, until, own, others })
    }
}

fn trial(tallied: Tallied, rate_hz: Option<f64>) -> ChannelTrial {
    let Tallied { mut tally, publishers, followers, refused, duration_ns, cut_short, own, others, .. } = tallied;
    let Kept { achieved_hz, slowest_hz, rate_missed } = tally.kept();
    let [response_series, service_series] = tally.series(0);
    ChannelTrial {
        offered_hz: rate_hz.unwrap_or_default(),
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
