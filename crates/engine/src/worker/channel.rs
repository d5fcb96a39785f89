//! One payload under pattern `channel`, measured by the leader: rate after rate, with a publishing thread for each topic,
//! or for each publisher of the one topic.

use super::conduct::Conducted;
use super::crew::{Crew, look_ns};
use super::leader::{Leader, Session};
use super::trials::{Piece, Sent, Tallied, end_of};
use super::{Error, Result, arrivals_file};
use crate::clock::Clock;
use crate::control::ToFollower;
use crate::measure::arrivals::Arrived;
use crate::measure::notes;
use crate::measure::publish::{Publisher, Sending, Sleep};
use crate::measure::{End, Watch};
use crate::message::TouchKind;
use crate::passage::{Kept, Topic};
use tripmeter_abi::Link;
use tripmeter_model::channel::{ChannelTrial, Used};

/// What the publishing threads have done.
struct Published {
    /// When the first message was due, in ticks.
    begin: u64,
    used: Used,
    /// Of each topic: messages sent, how it ended, and refusals.
    ended: Vec<(usize, End, u64)>,
}

impl Leader {
    /// Measures one payload: every rate, one after the other.
    pub(super) fn measure_channel<L: Link, C: Clock + Copy, T: TouchKind>(
        &mut self,
        session: &mut Session<'_, L, C>,
        payload_bytes: u64,
    ) -> Result<()> {
        let Some(flow) = &self.job.sub_experiment.channel else {
            return Err(Error::Failed("the plan does not say what to publish".to_owned()));
        };
        if flow.recorded.is_some() {
            return self.measure_recording::<L, C, T>(session, payload_bytes);
        }
        let rates_hz: Vec<Option<f64>> = flow.rates_hz.iter().copied().map(Some).collect();
        let measured = self.trials(session, payload_bytes, &rates_hz, Self::publish::<L, C, T>, trial)?;
        let of = |trial: &ChannelTrial| (trial.counts, trial.cut_short.clone());
        self.report_trials(session, payload_bytes, measured, of, |cell, trials| cell.channel = trials)
    }

    /// Publishes on all topics, or by all publishers; the follower notes what comes.
    fn publish<L: Link, C: Clock + Copy, T: TouchKind>(
        &mut self,
        session: &mut Session<'_, L, C>,
        piece: Piece,
    ) -> Result<Sent> {
        let topics = 1 + session.others.len();
        let has_publishers = self.job.sub_experiment.publishers() > 1;
        let first = session.sequence + 1;
        let (crew, sending) = (&Crew::new(topics), Sending::of(topics));
        // Written, not merely reserved, so that no page fault falls into the measured window.
        let mut sent = vec![vec![u64::MAX; piece.messages as usize]; topics];
        let (clock, timeout_ns, sequence) = (session.clock, session.loss_timeout.0, session.sequence);
        let rest = Sleep { ticks_per_ns: self.job.timebase.ticks_per_ns(), longest_ns: look_ns(topics) };
        let links = std::iter::once(&mut *session.link).chain(session.others.iter_mut());
        let places = crew.shared.iter().zip(&sending);
        let works = links.zip(&mut sent).zip(places).enumerate().map(|(topic, ((link, sent), (shared, sending)))| {
            move |begin: u64| {
                let (mut link, length) = (Watch::off(link), piece.payload_bytes as usize);
                let (link, schedule, refused) = (&mut link, piece.schedule(begin, topic, topics), 0);
                let mut publisher = Publisher {
                    link,
                    clock,
                    rest,
                    schedule,
                    length,
                    sequence,
                    publisher: if has_publishers { topic as u32 } else { 0 },
                    shared,
                    sending,
                    timeout_ns,
                    refused,
                };
                let ended = publisher.run::<T>(sent, piece.capped)?;
                Ok((ended.0, ended.1, publisher.refused))
            }
        });
        let ready = ToFollower::Receive { first, messages: vec![piece.messages; topics] };
        let Conducted { begin, used, ended } = self.conduct(crew, &sending, &ready, works.collect())?;
        let ended = ended.into_iter().map(|ended| ended.unwrap_or((0, End::Stopped, 0))).collect();
        let published = Published { begin, used, ended };
        for (sent, (count, ..)) in sent.iter_mut().zip(&published.ended) {
            sent.truncate(*count);
        }
        let last: Vec<u64> = published.ended.iter().map(|(count, ..)| sequence + *count as u64).collect();
        session.sequence = last.iter().copied().max().unwrap_or(sequence);
        let received = self.hear_received(last)?;
        self.gather(piece, sent, published, received)
    }

    /// Puts together what was sent and what came of it.
    fn gather(
        &self,
        piece: Piece,
        sent: Vec<Vec<u64>>,
        published: Published,
        (arrived, others): (Vec<Arrived>, Used),
    ) -> Result<Sent> {
        let Published { begin, used: own, ended } = published;
        let count = sent.len();
        let file = arrivals_file(&self.job.scratch_dir, 0);
        let bytes = std::fs::read(&file).map_err(|error| Error::of(&format!("file '{}'", file.display()), error))?;
        let noted = notes::from_bytes(&bytes, &vec![piece.messages; count])
            .ok_or_else(|| Error::Failed(format!("file '{}' is not of these messages", file.display())))?;
        let until = sent.iter().filter_map(|sent| sent.last()).copied().max().unwrap_or(begin);
        let topics = sent.into_iter().zip(noted).enumerate().map(|(topic, (sent, (arrived, marks)))| Topic {
            schedule: Some(piece.schedule(begin, topic, count)),
            sent,
            arrived,
            marks,
        });
        let refused = ended.iter().map(|(.., refused)| refused).sum();
        let end = end_of(ended.iter().map(|(_, end, _)| *end));
        Ok(Sent { topics: topics.collect(), arrived, late: 0, refused, end, begin, until, own, others })
    }
}

fn trial(tallied: Tallied, rate_hz: Option<f64>) -> ChannelTrial {
    let Tallied { mut tally, publishers, refused, duration_ns, cut_short, own, others, .. } = tallied;
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
        response_within_run_ns: tally.response.within_run(),
        service_within_run_ns: tally.service.within_run(),
        lateness_within_run_ns: tally.lateness.within_run(),
        response_series,
        service_series,
        duration_ns,
        cut_short,
        publisher: own,
        subscriber: others,
        topics: Vec::new(),
        publishers: if publishers > 1 { tally.publishers() } else { Vec::new() },
    }
}
