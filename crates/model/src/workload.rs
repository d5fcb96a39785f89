//! Workload of a sub-experiment: messages of each payload, and their replies. A pattern is a named workload.

use crate::mode::Mode;
use crate::pace::OfferedLoad;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Messages that are sent at each payload, and their replies. Without any field: round trips in a closed loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Offered loads of each stream, one trial per load, in this order. A single closed loop for round trips, loggers,
    /// and calls that follow each other.
    #[serde(default = "closed", skip_serializing_if = "is_closed")]
    pub loads: Vec<OfferedLoad>,
    /// Reply to each message.
    #[serde(default, skip_serializing_if = "Reply::is_answer")]
    pub reply: Reply,
    /// Numbers of topics, publishers, clients and followers.
    #[serde(flatten)]
    pub topology: Topology,
    /// Time-out of a call, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ns: Option<u64>,
    /// Most messages of a saturating trial, whose number of samples is not fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_messages: Option<u64>,
    /// Longest time of a saturating trial, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// Extent of the plan's recording, if the load is `recorded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
}

/// Reply to each message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// An answer to each message: a round trip.
    #[default]
    Answer,
    /// An answer, none in time, or a failure: a call. Round trips at a rate are calls, too.
    Call,
    /// No reply: followers record or count the messages.
    Nothing,
    /// No reply: a logger writes lines to a file or pipe.
    Lines,
}

/// Numbers of topics, publishers, clients and followers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// Number of topics, each with its own link and publishing thread.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub topics: u32,
    /// Number of publishers on a single topic, each with its own link and thread; 1 if there are several topics.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub publishers: u32,
    /// Number of clients, each with its own link, and with its own thread on both sides.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub clients: u32,
    /// Number of followers that receive every message.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub followers: u32,
}

/// Size and duration of a recording, as played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recorded {
    /// Number of messages of all topics.
    pub messages: u64,
    /// Time from the first due time to the last, in nanoseconds.
    pub duration_ns: u64,
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

fn closed() -> Vec<OfferedLoad> {
    vec![OfferedLoad::Closed]
}

fn is_closed(loads: &[OfferedLoad]) -> bool {
    loads == [OfferedLoad::Closed]
}

impl Default for Topology {
    fn default() -> Self {
        Self { topics: 1, publishers: 1, clients: 1, followers: 1 }
    }
}

impl Default for Workload {
    fn default() -> Self {
        Self::new(Reply::Answer, closed(), Topology::default())
    }
}

impl Reply {
    fn is_answer(&self) -> bool {
        *self == Reply::Answer
    }
}

impl Workload {
    fn new(reply: Reply, loads: Vec<OfferedLoad>, topology: Topology) -> Self {
        Self { loads, reply, topology, timeout_ns: None, most_messages: None, duration_ns: None, recorded: None }
    }

    /// Calls of parallel clients, each of which gets these loads.
    pub fn calls(loads: Vec<OfferedLoad>, clients: u32, timeout_ns: u64) -> Self {
        let topology = Topology { clients, ..Topology::default() };
        Self { timeout_ns: Some(timeout_ns), ..Self::new(Reply::Call, loads, topology) }
    }

    /// Calls of clients in a closed loop.
    pub fn closed_calls(clients: u32, timeout_ns: u64) -> Self {
        Self::calls(closed(), clients, timeout_ns)
    }

    /// Messages of `publishers` publishers on each of `topics` topics; arrivals are recorded.
    pub fn publications(loads: Vec<OfferedLoad>, topics: u32, publishers: u32) -> Self {
        Self::new(Reply::Nothing, loads, Topology { topics, publishers, ..Topology::default() })
    }

    /// Messages up to a number or a duration, at least one of which is given; arrivals are counted.
    pub fn saturating(loads: Vec<OfferedLoad>, most_messages: Option<u64>, duration_ns: Option<u64>) -> Self {
        Self { most_messages, duration_ns, ..Self::new(Reply::Nothing, loads, Topology::default()) }
    }

    /// Lines of a logger.
    pub fn lines() -> Self {
        Self::new(Reply::Lines, closed(), Topology::default())
    }

    /// This workload with the messages of a recording; each recorded topic becomes a topic, or a client for calls.
    #[must_use]
    pub fn playing(self, recorded: Recorded, topics: u32) -> Self {
        let (topics, clients) = if self.is_call() { (1, topics) } else { (topics, 1) };
        let topology = Topology { topics, clients, publishers: 1, ..self.topology };
        Self { loads: vec![OfferedLoad::Recorded], recorded: Some(recorded), topology, ..self }
    }

    /// True for round trips in a closed loop.
    pub fn is_round_trips(&self) -> bool {
        self.reply == Reply::Answer
    }

    /// True for calls, including round trips at a rate.
    pub fn is_call(&self) -> bool {
        self.reply == Reply::Call
    }

    /// True for lines of a logger.
    pub fn is_log(&self) -> bool {
        self.reply == Reply::Lines
    }

    /// True for messages without replies.
    pub fn is_one_way(&self) -> bool {
        self.reply == Reply::Nothing
    }

    /// True for messages whose arrivals are recorded, each with its due time.
    pub fn is_publication(&self) -> bool {
        self.is_one_way() && !self.is_saturating()
    }

    /// True for publications and calls: each message has its own times, and each load has latencies.
    pub fn is_timed(&self) -> bool {
        self.is_publication() || self.is_call()
    }

    /// True if trials end at a number of messages or a duration, not at a number of samples.
    pub fn is_saturating(&self) -> bool {
        self.most_messages.is_some() || self.duration_ns.is_some()
    }

    /// True for a single closed loop.
    pub fn is_closed(&self) -> bool {
        is_closed(&self.loads)
    }

    /// True if the messages are those of a recording.
    pub fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// True if some loads are bursts.
    pub fn has_bursts(&self) -> bool {
        self.loads.iter().any(|load| load.burst().is_some())
    }

    /// True if every message goes to several followers.
    pub fn is_fan_out(&self) -> bool {
        self.topology.followers > 1
    }

    /// Rule for the time of a client's next call.
    pub fn mode(&self) -> Mode {
        if self.is_closed() { Mode::Bench } else { Mode::FixedFreq }
    }

    /// Number of the leader's links: one per topic, publisher or client.
    pub fn links(&self) -> u32 {
        self.follower_links().saturating_mul(self.publishers())
    }

    /// Number of a follower's links; publishers of one topic share one.
    pub fn follower_links(&self) -> u32 {
        self.topology.topics.saturating_mul(self.topology.clients)
    }

    /// Number of polling loops in a leader: one for each link that waits for answers or sends as fast as possible.
    /// Publishers, which sleep between messages, count as one loop: a polling loop beside them would delay their
    /// wake-up.
    pub fn polling_loops(&self) -> u32 {
        if self.is_call() || self.is_saturating() { self.links() } else { 1 }
    }

    /// Number of publishers on a single topic.
    pub fn publishers(&self) -> u32 {
        self.topology.publishers
    }

    /// Number of followers that receive every message.
    pub fn followers(&self) -> u32 {
        self.topology.followers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(workload: &Workload) -> String {
        let text = serde_json::to_string(workload).unwrap();
        assert_eq!(serde_json::from_str::<Workload>(&text).unwrap(), *workload);
        text
    }

    #[test]
    fn a_workload_is_written_without_what_is_usual() {
        let rate = OfferedLoad::Rate { hz: 10.0 };
        assert_eq!(json(&Workload::default()), "{}");
        assert_eq!(json(&Workload::lines()), r#"{"reply":"lines"}"#);
        assert_eq!(json(&Workload::closed_calls(4, 7)), r#"{"reply":"call","clients":4,"timeout_ns":7}"#);
        let published = json(&Workload::publications(vec![rate], 8, 1));
        assert_eq!(published, r#"{"loads":[{"kind":"rate","rate_hz":10.0}],"reply":"nothing","topics":8}"#);
        let played = Workload::publications(vec![rate], 1, 1).playing(Recorded { messages: 3, duration_ns: 5 }, 2);
        let written =
            r#"{"loads":[{"kind":"recorded"}],"reply":"nothing","topics":2,"recorded":{"messages":3,"duration_ns":5}}"#;
        assert_eq!(json(&played), written);
    }

    #[test]
    fn a_workload_is_of_one_kind() {
        let rates = || vec![OfferedLoad::Rate { hz: 10.0 }];
        let kinds = |workload: Workload| {
            let timed = [workload.is_call(), workload.is_publication()];
            assert_eq!(workload.is_timed(), timed.contains(&true));
            [workload.is_round_trips(), timed[0], timed[1], workload.is_saturating()]
        };
        assert_eq!(kinds(Workload::default()), [true, false, false, false]);
        assert_eq!(kinds(Workload::calls(rates(), 1, 7)), [false, true, false, false]);
        assert_eq!(kinds(Workload::publications(rates(), 1, 1)), [false, false, true, false]);
        assert_eq!(kinds(Workload::saturating(rates(), Some(1), None)), [false, false, false, true]);
        assert_eq!(kinds(Workload::saturating(rates(), None, Some(1))), [false, false, false, true]);
        assert_eq!(kinds(Workload::lines()), [false; 4]);
    }

    #[test]
    fn several_publishers_share_the_link_of_a_follower() {
        let links = |workload: Workload| (workload.links(), workload.follower_links());
        assert_eq!(links(Workload::default()), (1, 1));
        assert_eq!(links(Workload::publications(Vec::new(), 1, 4)), (4, 1));
        assert_eq!(links(Workload::publications(Vec::new(), 4, 1)), (4, 4));
        assert_eq!(links(Workload::closed_calls(4, 7)), (4, 4));
        let called = Workload::closed_calls(1, 7).playing(Recorded { messages: 3, duration_ns: 5 }, 3);
        assert_eq!((links(called.clone()), called.topology.clients), ((3, 3), 3));
    }
}
