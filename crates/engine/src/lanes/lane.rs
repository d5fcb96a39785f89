//! Loops over a link, or over all links of a node, and what they are given and return.

use super::round_trips::RoundTrips;
use crate::clock::Timebase;
use crate::log_check::LogText;
use crate::measure::callback::Inbox;
use crate::measure::calls::{Called, Made};
use crate::measure::notes::ArrivalLog;
use crate::measure::publish::{Sending, Sleep};
use crate::measure::sampling::SampledTimes;
use crate::measure::stamped::StampLog;
use crate::measure::stream::{Even, Extent, Paused};
use crate::measure::trips::StoredSamples;
use crate::measure::{Failure, LoopEnd, Shared};
use crate::message::TouchLimit;
use crate::proof::Observer;
use crate::replay::Times;
use crate::wire::Arrived;
use tripmeter_abi::{Link, Wait};

/// What a loop runs in.
#[derive(Clone, Copy)]
pub struct LoopSetting<'a> {
    /// The clock of its stamps.
    pub timebase: Timebase,
    /// What it does with payloads.
    pub touch: TouchLimit,
    /// How it waits.
    pub wait: Wait,
    /// How long a message is waited for, and may be kept waiting.
    pub loss_timeout_ns: u64,
    /// The link's messages under wait `callback`.
    pub inbox: &'a Inbox,
    /// What may end it.
    pub shared: &'a Shared,
}

/// A link, and every loop over it.
pub trait Lane: Send {
    /// The link itself, to connect it.
    fn link(&mut self) -> &mut dyn Link;

    /// A batch of round trips: stores the ticks of each until `samples` is full or the clock passes `deadline`. With an
    /// observer, which sees every message, all bytes are touched.
    fn round_trips(
        &mut self,
        setting: LoopSetting<'_>,
        trips: &mut RoundTrips,
        samples: &mut [u64],
        deadline: u64,
        observer: Option<&mut Observer>,
    ) -> StoredSamples;

    /// The same with a clock reading around each call of the link, and payloads not touched; nothing with several followers.
    fn stamped_trips(
        &mut self,
        setting: LoopSetting<'_>,
        trips: &mut RoundTrips,
        samples: &mut [u64],
        deadline: u64,
        stamps: &mut StampLog<'_>,
    ) -> StoredSamples;

    /// Takes answers that still come after the last round trip.
    ///
    /// # Errors
    /// If the transport fails.
    fn drain(&mut self, setting: LoopSetting<'_>, trips: &mut RoundTrips) -> std::result::Result<(), Failure>;

    /// The calls of one client, each when it is due.
    fn call(&mut self, setting: LoopSetting<'_>, calls: Calls<'_>, made: &mut Made) -> Ended<Called>;

    /// The messages of one topic or publisher, each when it is due; stores when each was sent.
    fn publish_due(&mut self, setting: LoopSetting<'_>, plan: Publication<'_>, sent: &mut [u64]) -> Ended<Published>;

    /// A batch of messages in bursts. With an observer, which sees every message, all bytes are touched.
    ///
    /// # Errors
    /// If the transport fails, or takes no messages any more.
    fn stream(
        &mut self,
        setting: LoopSetting<'_>,
        flow: &mut Flow,
        extent: Extent,
        observer: Option<&mut Observer>,
    ) -> std::result::Result<LoopEnd, Failure>;

    /// A batch of calls of a logger; stores the ticks of each. Returns how many were made.
    ///
    /// # Errors
    /// If the logger fails, or takes no lines any more.
    fn log(
        &mut self,
        setting: LoopSetting<'_>,
        log: &mut Logging<'_>,
        samples: &mut [u64],
        deadline: u64,
    ) -> std::result::Result<(usize, LoopEnd), Failure>;

    /// Answers messages until the leader has sent all; calls `listening` once no message can get lost. With an observer, which sees
    /// every message, all bytes are touched.
    ///
    /// # Errors
    /// If the transport fails.
    fn answer(
        &mut self,
        setting: LoopSetting<'_>,
        answers: Answering<'_>,
        observer: Option<&mut Observer>,
        listening: &mut dyn FnMut(),
    ) -> std::result::Result<(), Failure>;

    /// Counts messages from number `first` on until the leader has sent all; else as [`Lane::answer`]. The arrivals of
    /// those that are sampled are kept, if there is a log for them, but not with an observer.
    ///
    /// # Errors
    /// If the transport fails.
    fn count(
        &mut self,
        setting: LoopSetting<'_>,
        first: u64,
        kept: Option<ArrivalLog<'_>>,
        observer: Option<&mut Observer>,
        listening: &mut dyn FnMut(),
    ) -> std::result::Result<Arrived, Failure>;

    /// The same, and keeps every arrival.
    fn receive(
        &mut self,
        setting: LoopSetting<'_>,
        receiving: Receiving<'_>,
        listening: &mut dyn FnMut(),
    ) -> Ended<Received>;
}

/// Loops over all links of a node, by wait `poll`.
pub trait Turns: Send {
    /// Answers requests until the leader has sent all. `kept` is as in [`Answering`], for each link, or empty.
    ///
    /// # Errors
    /// If the transport fails.
    fn answer(
        &mut self,
        setting: LoopSetting<'_>,
        kept: Vec<(u64, ArrivalLog<'_>)>,
    ) -> std::result::Result<(), Failure>;

    /// Keeps every arrival until the leader has sent all; something to receive for each link.
    fn receive<'a>(&mut self, setting: LoopSetting<'a>, receiving: Vec<Receiving<'a>>) -> Ended<Vec<Received>>;
}

/// What a loop has done, and why it could not go on, if so.
pub type Ended<R> = (R, std::result::Result<(), Failure>);

/// What one client calls.
#[derive(Clone, Copy)]
pub struct Calls<'a> {
    /// When each call is due, and how long its request is.
    pub times: Times<'a>,
    /// How it waits for that.
    pub rest: Sleep,
    /// Bytes of each request, unless the times tell them.
    pub length: usize,
    /// Number of the latest call made.
    pub sequence: u64,
    /// No call is begun from that tick on.
    pub deadline: u64,
    /// What watchers see.
    pub sending: &'a Sending,
    /// Called once nothing is left but to take what still comes.
    pub draining: &'a (dyn Fn() + Sync),
}

/// What is published on one topic, or by one publisher.
#[derive(Clone, Copy)]
pub struct Publication<'a> {
    /// When each message is due, and how long it is.
    pub times: Times<'a>,
    /// How it waits for that.
    pub rest: Sleep,
    /// Bytes of each message, unless the times tell them.
    pub length: usize,
    /// Number of the latest message sent.
    pub sequence: u64,
    /// Which of several publishers of one topic it is; else 0.
    pub publisher: u32,
    /// No message is sent that is due from that tick on.
    pub deadline: u64,
    /// What watchers see.
    pub sending: &'a Sending,
}

/// What was published.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Messages.
    pub count: usize,
    /// Why it ended.
    pub end: LoopEnd,
    /// Times that the transport refused a message.
    pub refused: u64,
}

/// When the bursts of a stream are due.
pub enum Spaced {
    /// At once.
    Unspaced,
    /// At an even rate.
    Even(Even),
    /// A pause after the one before.
    Paused(Paused),
}

/// A stream of messages between two batches.
pub struct Flow {
    /// When bursts are due.
    pub spaced: Spaced,
    /// Bytes of each message.
    pub length: usize,
    /// Number of the latest message sent.
    pub sequence: u64,
    /// A wait of so many ticks or more is slept through.
    pub nap: u64,
    /// When the next burst is due.
    pub due: u64,
    /// When the latest burst was over.
    pub ended: u64,
    /// Times that the transport refused a message.
    pub refused: u64,
    /// When messages were sent, if that is kept.
    pub times: Option<SampledTimes>,
}

impl Flow {
    /// Nothing sent yet; waits are not slept through.
    pub fn new(spaced: Spaced, length: usize, sequence: u64) -> Self {
        Self { spaced, length, sequence, nap: u64::MAX, due: 0, ended: 0, refused: 0, times: None }
    }
}

/// The calls of a logger between two batches.
pub struct Logging<'a> {
    /// What is logged.
    pub text: &'a LogText,
    /// Bytes of each text.
    pub length: usize,
    /// Number of the latest line.
    pub sequence: u64,
    /// Times that the logger refused a line.
    pub refused: u64,
}

/// How messages are answered.
#[derive(Default)]
pub struct Answering<'a> {
    /// Answers name their request to the transport.
    pub names_request: bool,
    /// Which of several followers answers.
    pub follower: Option<u32>,
    /// Where arrivals are kept, of messages from that number on.
    pub kept: Option<(u64, ArrivalLog<'a>)>,
    /// How long it spins before each answer.
    pub delay_ns: u64,
    /// Where each call of the link is stamped, if it is; payloads are not touched then.
    pub stamps: Option<StampLog<'a>>,
}

/// What is received over one link.
pub struct Receiving<'a> {
    /// Number of the first message.
    pub first: u64,
    /// Where arrivals are kept: of the only stream, or of each publisher's.
    pub logs: Vec<ArrivalLog<'a>>,
    /// Streams are distinguished by their publishers.
    pub has_publishers: bool,
    /// Has the number of the last message of each stream.
    pub ends: &'a [Shared],
    /// How long one receive may sleep before it looks around.
    pub take_timeout_ns: u64,
}

/// What was received over one link.
pub struct Received {
    /// Counts of each stream.
    pub streams: Vec<Arrived>,
    /// Of several publishers: what was of none.
    pub nobodys: Option<Arrived>,
}
