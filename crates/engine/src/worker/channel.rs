//! One payload under pattern `channel`, measured by the leader: rate after rate, with a publishing thread for each topic.

use super::cell::MANY_SAMPLES;
use super::crew::{Crew, Window, look_ns};
use super::leader::{Leader, Output, Session};
use super::load::{LONGEST_TAKING, SIGN_OF_LIFE};
use super::{Error, Result, arrivals_file};
use crate::clock::Clock;
use crate::control::{FromFollower, FromLeader, ToFollower, WRITING};
use crate::measure::arrivals::Arrived;
use crate::measure::notes;
use crate::measure::publish::{Publisher, Schedule, Sending, Sleep};
use crate::measure::{End, Failure, Watch};
use crate::message::TouchKind;
use crate::passage::{Kept, Tally, Topic};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tripmeter_abi::{Link, Wait};
use tripmeter_model::channel::{ChannelTrial, Flow, Used};
use tripmeter_model::manifest::{Cell, Counts, Handovers};
use tripmeter_model::plan::Raw;

/// Without raw samples, stamps of so many messages are kept at a time; more are sent in pieces.
const MOST_STAMPS: u64 = 1 << 22;
/// From the start of the publishing threads until the first message is due, besides what each thread needs.
const START_NS: u64 = 5_000_000;
/// What each publishing thread needs to be woken.
const WAKE_NS: u64 = 50_000;

/// What is sent in one piece.
#[derive(Clone, Copy)]
struct Piece {
    payload_bytes: u64,
    /// Of each topic.
    messages: u64,
    /// Of a topic, in ticks.
    period: f64,
    /// When the time of the payload is over, in ticks.
    capped: u64,
}

impl Piece {
    /// Of one of so many topics, if the first message is due at `begin`: they are spread evenly over a period.
    fn schedule(&self, begin: u64, topic: usize, topics: usize) -> Schedule {
        let first = begin + (self.period * topic as f64 / topics as f64) as u64;
        Schedule { first, period: self.period }
    }
}

/// What the publishing threads have done.
struct Published {
    /// When the first message was due, in ticks.
    begin: u64,
    used: Used,
    /// Of each topic: messages sent, how it ended, and refusals.
    ended: Vec<(usize, End, u64)>,
}

/// What came of it.
struct Sent {
    topics: Vec<Topic>,
    arrived: Vec<Arrived>,
    refused: u64,
    end: End,
    /// When the first message was due, in ticks.
    begin: u64,
    publisher: Used,
    subscriber: Used,
}

impl Leader {
    /// Measures one payload: every rate, one after the other.
    pub(super) fn measure_channel<L: Link, C: Clock + Copy, T: TouchKind>(
        &mut self,
        session: &mut Session<'_, L, C>,
        payload_bytes: u64,
    ) -> Result<()> {
        let plan = &self.job.sub_experiment;
        let Some(flow) = plan.channel.clone() else {
            return Err(Error::Failed("the plan does not say what to publish".to_owned()));
        };
        let (warmup, messages, base) = (plan.warmup, plan.samples_of(payload_bytes), self.job.timebase);
        let capped = self.attempts.left_of(plan.time_cap_ns).map_or(u64::MAX, |cap| base.now() + base.to_ticks(cap));
        self.phase(&format!("measure {payload_bytes} bytes"));
        self.report(&FromLeader::CellStarted { payload_bytes });
        // The rows of each piece are written at once.
        self.make_room()?;
        let before = self.handover(session)?;
        let begun = Instant::now();
        let mut trials = Vec::new();
        for rate_hz in &flow.rates_hz {
            if self.shared.stop.load(Relaxed) || base.now() >= capped {
                break;
            }
            let period = base.ticks_per_ns() * 1e9 / rate_hz;
            if warmup > 0 {
                self.publish::<L, C, T>(session, Piece { payload_bytes, messages: warmup, period, capped })?;
            }
            let piece = Piece { payload_bytes, messages, period, capped };
            trials.push(self.trial_of::<L, C, T>(session, piece, *rate_hz)?);
        }
        let after = self.handover(session)?;
        let stopped = self.shared.stop.swap(false, Relaxed);
        let duration_ns = begun.elapsed().as_nanos() as u64;
        let handover_ns = Handovers { before, after };
        let cell = self.channel_cell(payload_bytes, session.packet_bytes, &flow, trials, duration_ns, stopped);
        self.finish_cell(Cell { handover_ns, ..cell }, stopped)
    }

    /// One rate: all messages of a topic in one piece, or in several where only histograms are kept.
    fn trial_of<L: Link, C: Clock + Copy, T: TouchKind>(
        &mut self,
        session: &mut Session<'_, L, C>,
        piece: Piece,
        rate_hz: f64,
    ) -> Result<ChannelTrial> {
        let topics = 1 + session.others.len();
        let (base, raw) = (self.job.timebase, self.job.raw);
        let most = if raw == Raw::None { (MOST_STAMPS / topics as u64).max(1) } else { u64::MAX };
        let mut tally = Tally::new(base, raw, self.job.loss_timeout_ns, topics, piece.period);
        let (mut publisher, mut subscriber) = (Used::default(), Used::default());
        let (mut left, mut refused, mut duration_ns, mut end) = (piece.messages, 0, 0, End::Full);
        let lengths = self.channel_files(|files| files.lengths())?;
        while left > 0 && end == End::Full {
            self.phase(&format!("measure {} bytes", piece.payload_bytes));
            let messages = left.min(most);
            let sent = self.publish::<L, C, T>(session, Piece { messages, ..piece })?;
            left -= messages;
            (end, refused) = (sent.end, refused + sent.refused);
            let last = sent.topics.iter().filter_map(|topic| topic.sent.last()).max();
            duration_ns += base.to_ns(last.map_or(0, |last| last.saturating_sub(sent.begin)));
            add(&mut publisher, &sent.publisher);
            add(&mut subscriber, &sent.subscriber);
            if messages * topics as u64 > MANY_SAMPLES {
                self.phase(WRITING);
            }
            self.channel_files(|files| {
                let mut rows = files.rows(base, piece.payload_bytes, rate_hz, sent.begin);
                tally.add(&sent.topics, &sent.arrived, |topic, index, passage| rows.add(topic, index, passage));
                rows.finish().inspect_err(|_| files.cut(lengths))
            })?;
        }
        self.channel_files(|files| {
            let appended = files.append(piece.payload_bytes, rate_hz, &tally, duration_ns);
            appended.inspect_err(|_| files.cut(lengths))
        })?;
        let Kept { achieved_hz, slowest_hz, rate_missed } = tally.kept();
        Ok(ChannelTrial {
            offered_hz: rate_hz,
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
            response_series: tally.response.series(base.granularity_ns()),
            service_series: tally.service.series(base.granularity_ns()),
            duration_ns,
            cut_short: match end {
                End::Full => None,
                End::Stopped => Some("interrupted".to_owned()),
                End::Deadline => Some("time cap".to_owned()),
            },
            publisher,
            subscriber: (!self.is_same_process()).then_some(subscriber),
        })
    }

    fn channel_files<R>(
        &mut self,
        work: impl FnOnce(&mut crate::files::ChannelFiles) -> std::io::Result<R>,
    ) -> Result<R> {
        let Output::Channel(files) = &mut self.files else {
            return Err(Error::Failed("the files of another pattern were created".to_owned()));
        };
        work(files).map_err(|error| Error::of("results cannot be written", error))
    }

    /// Publishes on all topics; the follower notes what comes.
    fn publish<L: Link, C: Clock + Copy, T: TouchKind>(
        &mut self,
        session: &mut Session<'_, L, C>,
        piece: Piece,
    ) -> Result<Sent> {
        let topics = 1 + session.others.len();
        let first = session.sequence + 1;
        let base = self.job.timebase;
        let (crew, start) = (&Crew::new(topics), &AtomicU64::new(0));
        let sending: Vec<Sending> = (0..topics).map(|_| Sending::default()).collect();
        // Written, not merely reserved, so that no page fault falls into the measured window.
        let mut sent = vec![vec![u64::MAX; piece.messages as usize]; topics];
        let (clock, timeout_ns, sequence) = (session.clock, session.loss_timeout.0, session.sequence);
        let rest = Sleep { ticks_per_ns: base.ticks_per_ns(), longest_ns: look_ns(topics) };
        let links = std::iter::once(&mut *session.link).chain(session.others.iter_mut());
        let outcome = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (topic, (link, sent)) in links.zip(&mut sent).enumerate() {
                let (member, sending) = (crew.hire(), &sending[topic]);
                let publish = move || {
                    member.begin(topic);
                    let shared = &crew.shared[topic];
                    let Some(begin) = await_start(start, crew, topic) else { return Ok((0, End::Stopped, 0)) };
                    let (mut link, length) = (Watch::off(link), piece.payload_bytes as usize);
                    let (link, schedule, refused) = (&mut link, piece.schedule(begin, topic, topics), 0);
                    let mut publisher = Publisher {
                        link,
                        clock,
                        rest,
                        schedule,
                        length,
                        sequence,
                        shared,
                        sending,
                        timeout_ns,
                        refused,
                    };
                    let ended = publisher.run::<T>(sent, piece.capped).inspect_err(|_| crew.stop())?;
                    Ok((ended.0, ended.1, publisher.refused))
                };
                match Builder::new().name(format!("topic-{topic}")).spawn_scoped(scope, publish) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        crew.stop();
                        return Err(Error::of("a thread for each topic cannot be started", error));
                    }
                }
            }
            if let Err(error) = self.ask_ready(&ToFollower::Receive { first, messages: piece.messages }) {
                crew.stop();
                return Err(error);
            }
            let window = Window::open();
            let begin = base.now() + base.to_ticks(START_NS + WAKE_NS * topics as u64);
            start.store(begin, Release);
            threads.iter().for_each(|thread| thread.thread().unpark());
            self.conduct(crew, &sending);
            let used = window.close();
            let ended: Vec<std::result::Result<(usize, End, u64), Failure>> = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| Error::Failed("a publishing thread panicked".to_owned())))
                .collect::<Result<_>>()?;
            let ended: std::result::Result<Vec<_>, Failure> = ended.into_iter().collect();
            Ok(Published { begin, used, ended: ended.map_err(|failure| self.blame(failure))? })
        });
        let published = outcome?;
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
        (arrived, subscriber): (Vec<Arrived>, Used),
    ) -> Result<Sent> {
        let Published { begin, used: publisher, ended } = published;
        let count = sent.len();
        let file = arrivals_file(&self.job.scratch_dir, 0);
        let bytes = std::fs::read(&file).map_err(|error| Error::of(&format!("file '{}'", file.display()), error))?;
        let noted = notes::from_bytes(&bytes, count, piece.messages as usize)
            .ok_or_else(|| Error::Failed(format!("file '{}' is not of these messages", file.display())))?;
        let topics = sent.into_iter().zip(noted).enumerate().map(|(topic, (sent, (arrived, marks)))| Topic {
            schedule: piece.schedule(begin, topic, count),
            sent,
            arrived,
            marks,
        });
        let is = |wanted: End| ended.iter().any(|(_, end, _)| *end == wanted);
        Ok(Sent {
            topics: topics.collect(),
            arrived,
            refused: ended.iter().map(|(.., refused)| refused).sum(),
            end: [End::Stopped, End::Deadline].into_iter().find(|end| is(*end)).unwrap_or(End::Full),
            begin,
            publisher,
            subscriber,
        })
    }

    /// Looks after the publishing threads until all have ended.
    fn conduct(&mut self, crew: &Crew, sending: &[Sending]) {
        let by_signal = self.job.sub_experiment.wait == Wait::Block && self.shared.interrupt.load(Relaxed);
        let overdue = SIGN_OF_LIFE.min(Duration::from_nanos(self.job.loss_timeout_ns) / 2);
        let mut seen = vec![0; sending.len()];
        let (mut looked, mut told) = (Instant::now(), Instant::now());
        while crew.is_running() {
            std::thread::park_timeout(overdue);
            let stopped = self.shared.stop.load(Relaxed);
            if stopped {
                crew.stop();
            }
            if self.shared.peer_gone.load(Relaxed) {
                crew.orphan();
            }
            if told.elapsed() >= SIGN_OF_LIFE {
                self.report(&FromLeader::Progress { samples: 0 });
                told = Instant::now();
            }
            if looked.elapsed() < overdue && !stopped {
                continue;
            }
            looked = Instant::now();
            for (topic, (sending, seen)) in sending.iter().zip(&mut seen).enumerate() {
                let now = sending.0.load(Relaxed);
                if now != 0 && now == *seen {
                    crew.interrupt(topic, by_signal);
                }
                *seen = now;
            }
        }
    }

    /// Tells the follower how many messages there are of each topic, and hears what has come of them.
    fn hear_received(&mut self, last: Vec<u64>) -> Result<(Vec<Arrived>, Used)> {
        self.tell(&ToFollower::Sent { last })?;
        let deadline = Instant::now() + LONGEST_TAKING + Duration::from_nanos(self.job.loss_timeout_ns);
        loop {
            match self.hear_within(0, SIGN_OF_LIFE)? {
                Some(FromFollower::Received { arrived, used }) => return Ok((arrived, used)),
                Some(_) => return Err(Error::Failed("the follower's messages are out of order".to_owned())),
                None if Instant::now() > deadline => {
                    let seconds = LONGEST_TAKING.as_secs();
                    let why = format!("the follower was still taking messages {seconds} s after the last was sent");
                    return Err(Error::Failed(why));
                }
                None => self.report(&FromLeader::Progress { samples: 0 }),
            }
        }
    }

    fn channel_cell(
        &self,
        payload_bytes: u64,
        packet_bytes: u64,
        flow: &Flow,
        channel: Vec<ChannelTrial>,
        duration_ns: u64,
        stopped: bool,
    ) -> Cell {
        let plan = &self.job.sub_experiment;
        let planned = flow.rates_hz.len();
        let counts = channel.iter().map(|trial| trial.counts).fold(Counts::default(), |sum, counts| sum + counts);
        let cut_short = match (stopped, channel.len() < planned) {
            (true, _) => Some("interrupted".to_owned()),
            (false, true) => Some(format!("time cap: {} of {planned} rates", channel.len())),
            (false, false) => channel.iter().find_map(|trial| trial.cut_short.clone()),
        };
        Cell {
            payload_bytes,
            samples: counts.received,
            samples_planned: plan.samples_of(payload_bytes) * u64::from(flow.topics) * planned as u64,
            warmup: plan.warmup,
            cut_short,
            packet_bytes,
            counts,
            from_histogram: self.job.raw == Raw::None,
            duration_ns,
            channel,
            ..Cell::default()
        }
    }
}

/// Sleeps until all threads may start; `None` if they are not to.
fn await_start(start: &AtomicU64, crew: &Crew, topic: usize) -> Option<u64> {
    loop {
        match start.load(Acquire) {
            _ if crew.shared[topic].stop.load(Relaxed) => return None,
            0 => std::thread::park_timeout(Duration::from_secs(1)),
            begin => return Some(begin),
        }
    }
}

fn add(sum: &mut Used, used: &Used) {
    sum.window_ns += used.window_ns;
    sum.cpu_time_ns += used.cpu_time_ns;
    sum.voluntary_switches += used.voluntary_switches;
    sum.involuntary_switches += used.involuntary_switches;
    sum.peak_memory_bytes = sum.peak_memory_bytes.max(used.peak_memory_bytes);
}
