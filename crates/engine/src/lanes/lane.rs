//! Loops over one link or all links of a node, with their parameters and results.

use super::round_trips::RoundTrips;
use crate::log_check::LogText;
use crate::measure::calls::{CallPlan, Called, Made};
use crate::measure::notes::ArrivalLog;
use crate::measure::publish::{PublicationPlan, Sleep};
use crate::measure::sampling::SampledTimes;
use crate::measure::setting::LoopSetting;
use crate::measure::stamped::StampLog;
use crate::measure::stream::{Even, Extent, Paused};
use crate::measure::trips::StoredSamples;
use crate::measure::{Failure, LoopEnd, Shared};
use crate::proof::Observer;
use crate::replay::Times;
use crate::wire::Arrived;
use tripmeter_abi::Link;

/// Link with all loops over it.
pub trait Lane: Send {
    fn link(&mut self) -> &mut dyn Link;

    /// Makes a batch of round trips, and stores the ticks of each until `samples` is full or the clock passes `deadline`.
    /// With an observer, which sees every message, all bytes are touched.
    fn round_trips(
        &mut self,
        setting: LoopSetting<'_>,
        trips: &mut RoundTrips,
        samples: &mut [u64],
        deadline: u64,
        observer: Option<&mut Observer>,
    ) -> StoredSamples;

    /// Makes round trips with a clock reading around each call of the link, and without touching payloads. Stores nothing
    /// with several followers.
    fn stamped_trips(
        &mut self,
        setting: LoopSetting<'_>,
        trips: &mut RoundTrips,
        samples: &mut [u64],
        deadline: u64,
        stamps: &mut StampLog<'_>,
    ) -> StoredSamples;

    /// Takes answers that still come after the last round trip.
    fn drain(&mut self, setting: LoopSetting<'_>, trips: &mut RoundTrips) -> std::result::Result<(), Failure>;

    /// Makes the calls of one client, each when it is due.
    fn call(&mut self, setting: LoopSetting<'_>, calls: Calls<'_>, made: &mut Made) -> Ended<Called>;

    /// Publishes the messages of one topic or publisher, each when it is due, and stores when each was sent.
    fn publish_due(&mut self, setting: LoopSetting<'_>, plan: Publication<'_>, sent: &mut [u64]) -> Ended<Published>;

    /// Sends a batch of messages in bursts. With an observer, which sees every message, all bytes are touched.
    /// Fails if the transport fails, or takes no more messages.
    fn stream(
        &mut self,
        setting: LoopSetting<'_>,
        flow: &mut Flow,
        extent: Extent,
        observer: Option<&mut Observer>,
    ) -> std::result::Result<LoopEnd, Failure>;

    /// Makes a batch of logger calls and stores the ticks of each. Returns the number of calls.
    /// Fails if the logger fails, or takes no more lines.
    fn log(
        &mut self,
        setting: LoopSetting<'_>,
        log: &mut Logging<'_>,
        samples: &mut [u64],
        deadline: u64,
    ) -> std::result::Result<(usize, LoopEnd), Failure>;

    /// Answers messages until the leader has sent all; calls `listening` once no message can get lost. With an observer,
    /// which sees every message, all bytes are touched.
    fn answer(
        &mut self,
        setting: LoopSetting<'_>,
        answers: Answering<'_>,
        observer: Option<&mut Observer>,
        listening: &mut dyn FnMut(),
    ) -> std::result::Result<(), Failure>;

    /// Counts messages from sequence number `first` on until the leader has sent all. `listening` and `observer` are as
    /// in [`Lane::answer`]. Arrivals of sampled messages are kept if there is a log, but not with an observer.
    fn count(
        &mut self,
        setting: LoopSetting<'_>,
        first: u64,
        kept: Option<ArrivalLog<'_>>,
        observer: Option<&mut Observer>,
        listening: &mut dyn FnMut(),
    ) -> std::result::Result<Arrived, Failure>;

    /// Counts the messages of one stream, or of several publishers, as [`Lane::count`] does.
    fn receive(
        &mut self,
        setting: LoopSetting<'_>,
        receiving: Receiving<'_>,
        listening: &mut dyn FnMut(),
    ) -> Ended<Received>;
}

/// Loops over all links of a node, with wait `poll`.
pub trait Turns: Send {
    /// Answers requests until the leader has sent all. `names_request` and `kept` are as in [`Answering`]; `kept` has
    /// an entry for each link, or is empty.
    fn answer(
        &mut self,
        setting: LoopSetting<'_>,
        names_request: bool,
        kept: Vec<(u64, ArrivalLog<'_>)>,
    ) -> std::result::Result<(), Failure>;

    /// Receives until the leader has sent all. `receiving` has an entry for each link, all with the same `keeps`.
    fn receive<'a>(&mut self, setting: LoopSetting<'a>, receiving: Vec<Receiving<'a>>) -> Ended<Vec<Received>>;
}

/// Result of a loop, and the failure that ended it, if any.
pub type Ended<R> = (R, std::result::Result<(), Failure>);

pub type Calls<'a> = CallPlan<'a, Times<'a>, Sleep>;

pub type Publication<'a> = PublicationPlan<'a, Times<'a>, Sleep>;

#[derive(Clone, Copy, Debug)]
pub struct Published {
    pub count: usize,
    pub end: LoopEnd,
    pub refused: u64,
}

/// Spacing of the bursts of a stream.
pub enum Spaced {
    Unspaced,
    Even(Even),
    Paused(Paused),
}

/// State of a stream between two batches.
pub struct Flow {
    pub spaced: Spaced,
    /// Bytes of each message.
    pub length: usize,
    /// Index of the publisher if a topic has several; otherwise 0.
    pub publisher: u32,
    pub sequence: u64,
    /// Shortest wait for which the sender sleeps, in ticks.
    pub nap: u64,
    /// Tick at which the next burst is due.
    pub due: u64,
    /// Tick at which the latest burst ended.
    pub ended: u64,
    pub refused: u64,
    pub times: Option<SampledTimes>,
}

impl Flow {
    /// Stream that has sent nothing and does not sleep.
    pub fn new(spaced: Spaced, length: usize, sequence: u64) -> Self {
        Self { spaced, length, publisher: 0, sequence, nap: u64::MAX, due: 0, ended: 0, refused: 0, times: None }
    }
}

pub struct Logging<'a> {
    pub text: &'a LogText,
    /// Bytes of each text.
    pub length: usize,
    pub sequence: u64,
    pub refused: u64,
}

#[derive(Default)]
pub struct Answering<'a> {
    /// True if answers name their request to the transport.
    pub names_request: bool,
    /// Index of this follower, if there are several.
    pub follower: Option<u32>,
    /// Sequence number of the first message whose arrival is kept, and the log.
    pub kept: Option<(u64, ArrivalLog<'a>)>,
    /// Time for which the follower spins before each answer.
    pub delay_ns: u64,
    /// Log of stamps around each call of the link, if wanted; payloads are then not touched.
    pub stamps: Option<StampLog<'a>>,
}

/// Selection of the arrivals that are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    Every,
    /// Arrivals of messages whose sequence number has a place in the log.
    Sampled,
    /// No arrivals: messages are only counted.
    Counts,
}

pub struct Receiving<'a> {
    pub first: u64,
    pub keeps: Keeps,
    /// Log of arrivals of the only stream, or of each publisher's; empty if messages are only counted.
    pub logs: Vec<ArrivalLog<'a>>,
    /// True if streams are distinguished by their publishers.
    pub has_publishers: bool,
    /// Sequence number of the last message of each stream, once known.
    pub ends: &'a [Shared],
    /// Timeout of one receive call, after which the flags are checked.
    pub take_timeout_ns: u64,
}

pub struct Received {
    pub streams: Vec<Arrived>,
    /// Counts of messages without a known publisher; `None` unless there are several publishers.
    pub nobodys: Option<Arrived>,
}
