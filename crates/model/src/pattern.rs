//! Table of patterns, which are named workloads, with their properties.

use crate::figure::Figure;
use crate::pace::{LoadKind, OfferedLoad};
use crate::workload::{Reply, Topology, Workload};
use strum::Display;
use tripmeter_abi::Pattern;

/// Pattern of an experiment that does not name one.
pub const DEFAULT_PATTERN: Pattern = Pattern::Ping;

/// Facts of a pattern.
#[derive(Debug)]
pub struct PatternFacts {
    /// Pattern, whose name is also that of its command.
    pub pattern: Pattern,
    /// Measured quantity, with the command for it: `calls (call)`.
    pub what: &'static str,
    /// Latencies that the first screen shows, one table each.
    pub latencies: &'static [ShownLatency],
    /// Workloads that the pattern allows; the first is that of the command without flags.
    pub allowed: &'static [AllowedWorkload],
    /// Default payloads, samples and warm-up.
    pub defaults: Defaults,
    /// Largest number of followers that receive a message.
    pub most_followers: u32,
    /// True if followers may be on other hosts.
    pub crosses_hosts: bool,
    /// True if one set of CPUs may be given for both sides (`--cpus`).
    pub takes_cpu_set: bool,
    /// True if the default wait is `block`: at a fixed rate, polling mostly finds nothing, and clients share CPUs.
    pub blocks: bool,
}

/// Latency with its title.
#[derive(Debug)]
pub struct ShownLatency {
    /// Title, e.g. `one way, since due`.
    pub title: &'static str,
    /// Figure of this latency, depending on the offered load.
    pub figure: fn(OfferedLoad) -> Figure,
}

/// Workload that a pattern allows.
#[derive(Debug)]
pub struct AllowedWorkload {
    /// Kind of reply.
    pub reply: Reply,
    /// Condition that ends a trial.
    pub end: TrialEnd,
    /// Kinds of offered loads that are allowed.
    pub loads: &'static [LoadKind],
    /// Axes whose number may exceed 1.
    pub axes: &'static [Axis],
    /// Warm-up messages.
    pub warm_up: WarmUpPlan,
    /// True if an answer names its request to the transport.
    pub names_request: bool,
    /// True if a polling leader spins until a message is due: a wake-up takes about 50 us, five periods at 100 kHz.
    pub spins: bool,
    /// Heading of the histogram file, if there is one.
    pub histograms: Option<&'static str>,
}

/// Warm-up messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WarmUpPlan {
    /// Sent by the trial itself, whose counts include them.
    Inside,
    /// Sent before each trial at its load.
    AtLoad,
    /// Sent once for all trials of a payload.
    Once {
        /// Messages per second of each link.
        hz: f64,
    },
}

/// Condition that ends a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialEnd {
    /// A number of samples.
    Samples,
    /// Number of messages or time, whichever is reached first.
    Bounds,
    /// End of the recording.
    Recording,
}

/// One of the numbers of a [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub enum Axis {
    /// [`Topology::topics`].
    Topics,
    /// [`Topology::publishers`].
    Publishers,
    /// [`Topology::clients`].
    Clients,
    /// [`Topology::followers`].
    Followers,
}

/// Default payloads, samples and warm-up of a pattern.
#[derive(Debug)]
pub struct Defaults {
    /// Payloads, in the syntax of `--payloads`.
    pub payloads: &'static str,
    /// Samples per payload, if their number ends a trial.
    pub samples: u64,
    /// Warm-up messages of a trial that ends after some messages or a time; others depend on the number of samples.
    pub warmup: u64,
}

const DEFAULTS: Defaults = Defaults { payloads: "1k..4M", samples: 10_000, warmup: 100 };
const TIMED: &[LoadKind] = &[LoadKind::Rate, LoadKind::Burst];
const RECORDED: &[LoadKind] = &[LoadKind::Recorded];

/// Headline figure of calls. At a rate, latency counts from the due time, so that late calls show.
pub fn latency_of_calls(load: OfferedLoad) -> Figure {
    if load == OfferedLoad::Closed { Figure::ServiceRtt } else { Figure::ResponseRtt }
}

/// The given figure at a rate; in a closed loop another one, which is not measured there, so that nothing is shown.
fn unless_closed(load: OfferedLoad, figure: Figure) -> Figure {
    if load == OfferedLoad::Closed { Figure::ResponseRtt } else { figure }
}

const fn shown(title: &'static str, figure: fn(OfferedLoad) -> Figure) -> ShownLatency {
    ShownLatency { title, figure }
}

const fn allowed(reply: Reply, loads: &'static [LoadKind], axes: &'static [Axis]) -> AllowedWorkload {
    let histograms = match reply {
        Reply::Answer => "Round trips",
        Reply::Call => "Round trips (rtt) of the calls",
        Reply::Nothing => "One-way latencies",
        Reply::Lines => "Calls",
    };
    let warm_up = match reply {
        Reply::Answer | Reply::Lines => WarmUpPlan::Inside,
        Reply::Call | Reply::Nothing => WarmUpPlan::AtLoad,
    };
    AllowedWorkload {
        reply,
        end: TrialEnd::Samples,
        loads,
        axes,
        warm_up,
        names_request: false,
        spins: false,
        histograms: Some(histograms),
    }
}

const fn recorded(reply: Reply, axes: &'static [Axis]) -> AllowedWorkload {
    AllowedWorkload {
        end: TrialEnd::Recording,
        warm_up: WarmUpPlan::Once { hz: 10.0 },
        ..allowed(reply, RECORDED, axes)
    }
}

/// Every pattern, in the order of [`Pattern::ALL`].
pub static PATTERNS: [PatternFacts; 5] = [
    PatternFacts {
        pattern: Pattern::Ping,
        what: "round trips (`ping`)",
        latencies: &[
            shown("half a round trip", |_| Figure::RttHalf),
            shown("round trip, since due", |_| Figure::ResponseRtt),
            shown("round trip, since sent", |load| unless_closed(load, Figure::ServiceRtt)),
            // In a closed loop, one way is shown beside the round trip.
            shown("one way, since sent", |load| unless_closed(load, Figure::OneWay)),
        ],
        allowed: &[
            allowed(Reply::Answer, &[LoadKind::Closed], &[Axis::Followers]),
            AllowedWorkload {
                spins: true,
                ..allowed(Reply::Call, &[LoadKind::Closed, LoadKind::Rate, LoadKind::Burst], &[Axis::Clients])
            },
        ],
        defaults: DEFAULTS,
        most_followers: 64,
        crosses_hosts: true,
        takes_cpu_set: false,
        blocks: false,
    },
    PatternFacts {
        pattern: Pattern::Publish,
        what: "messages published at a rate",
        latencies: &[shown("one way, since due", |_| Figure::Response)],
        allowed: &[
            allowed(Reply::Nothing, TIMED, &[Axis::Topics, Axis::Publishers, Axis::Followers]),
            recorded(Reply::Nothing, &[Axis::Topics, Axis::Followers]),
        ],
        defaults: DEFAULTS,
        most_followers: 512,
        crosses_hosts: true,
        takes_cpu_set: true,
        blocks: true,
    },
    PatternFacts {
        pattern: Pattern::Call,
        what: "calls (`call`)",
        latencies: &[shown("calls", latency_of_calls), shown("one way, since sent", |_| Figure::OneWay)],
        allowed: &[
            AllowedWorkload {
                names_request: true,
                ..allowed(Reply::Call, &[LoadKind::Closed, LoadKind::Rate, LoadKind::Burst], &[Axis::Clients])
            },
            AllowedWorkload { names_request: true, ..recorded(Reply::Call, &[Axis::Clients]) },
        ],
        defaults: DEFAULTS,
        most_followers: 64,
        crosses_hosts: true,
        takes_cpu_set: true,
        blocks: true,
    },
    PatternFacts {
        pattern: Pattern::Throughput,
        what: "throughput",
        latencies: &[shown("one way, since sent", |_| Figure::OneWay)],
        allowed: &[AllowedWorkload {
            end: TrialEnd::Bounds,
            warm_up: WarmUpPlan::Once { hz: 10_000.0 },
            histograms: None,
            ..allowed(
                Reply::Nothing,
                &[LoadKind::Max, LoadKind::Rate, LoadKind::Burst, LoadKind::Search],
                &[Axis::Topics, Axis::Publishers, Axis::Followers],
            )
        }],
        defaults: DEFAULTS,
        most_followers: 64,
        crosses_hosts: true,
        takes_cpu_set: false,
        blocks: false,
    },
    PatternFacts {
        pattern: Pattern::Log,
        what: "calls of a logger (`log`)",
        latencies: &[shown("calls of loggers", |_| Figure::Call)],
        allowed: &[allowed(Reply::Lines, &[LoadKind::Closed], &[])],
        // Values of AimRT's benchmark of its loggers.
        defaults: Defaults { payloads: "32..8k", samples: 100_000, ..DEFAULTS },
        most_followers: 64,
        crosses_hosts: false,
        takes_cpu_set: true,
        blocks: false,
    },
];

/// Facts of a pattern.
pub fn facts(pattern: Pattern) -> &'static PatternFacts {
    PATTERNS.iter().find(|facts| facts.pattern == pattern).expect("the table has every pattern")
}

impl Axis {
    /// All axes.
    pub const ALL: [Self; 4] = [Axis::Topics, Axis::Publishers, Axis::Clients, Axis::Followers];

    /// Number of this axis in a topology.
    pub fn number(self, topology: &Topology) -> u32 {
        match self {
            Axis::Topics => topology.topics,
            Axis::Publishers => topology.publishers,
            Axis::Clients => topology.clients,
            Axis::Followers => topology.followers,
        }
    }
}

impl PartialEq for PatternFacts {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}

impl PatternFacts {
    /// Name of the pattern, as in commands and files.
    pub fn word(&self) -> &'static str {
        self.pattern.as_str()
    }

    /// True if its messages are lines of a logger, which no other process answers or receives.
    pub fn is_log(&self) -> bool {
        self.allowed.iter().all(|allowed| allowed.reply == Reply::Lines)
    }

    /// Allowed workload that matches this one, whatever its loads; `None` if the pattern does not allow it.
    pub fn allowed_as(&self, workload: &Workload) -> Option<&'static AllowedWorkload> {
        self.allowed.iter().find(|allowed| allowed.fits(workload))
    }

    /// True if any allowed workload has the axis, so that the command has its flag.
    pub fn has_axis(&self, axis: Axis) -> bool {
        self.allowed.iter().any(|allowed| allowed.axes.contains(&axis))
    }

    /// True if any allowed workload has loads of this kind.
    pub fn has_load(&self, kind: LoadKind) -> bool {
        self.allowed.iter().any(|allowed| allowed.loads.contains(&kind))
    }
}

impl AllowedWorkload {
    fn fits(&self, workload: &Workload) -> bool {
        let end = match (workload.is_recorded(), workload.is_saturating()) {
            (true, true) => return false,
            (true, false) => TrialEnd::Recording,
            (false, true) => TrialEnd::Bounds,
            (false, false) => TrialEnd::Samples,
        };
        let is_allowed = |axis: &Axis| axis.number(&workload.topology) == 1 || self.axes.contains(axis);
        self.reply == workload.reply && self.end == end && Axis::ALL.iter().all(is_allowed)
    }

    /// True if the kind of the load is allowed.
    pub fn allows(&self, load: &OfferedLoad) -> bool {
        self.loads.contains(&LoadKind::from(load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Burst;
    use crate::workload::Recorded;

    #[test]
    fn every_pattern_is_described_once() {
        assert_eq!(&PATTERNS.each_ref().map(|facts| facts.pattern)[..], Pattern::ALL);
        for facts in &PATTERNS {
            assert!(!facts.allowed.is_empty() && std::ptr::eq(self::facts(facts.pattern), facts));
        }
    }

    fn allowing(workload: &Workload) -> String {
        let allowing = PATTERNS.iter().filter(|facts| facts.allowed_as(workload).is_some());
        allowing.map(|facts| facts.pattern.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_workload_belongs_to_the_patterns_whose_reply_end_and_axes_it_has() {
        let (rate, recorded) = (vec![OfferedLoad::Rate { hz: 1.0 }], Recorded { messages: 3, duration_ns: 5 });
        let publications = |topics, publishers| Workload::publications(rate.clone(), topics, publishers);
        let calls = |clients| Workload::calls(rate.clone(), clients, 1);
        let to = |workload: Workload, followers| Workload {
            topology: Topology { followers, ..workload.topology },
            ..workload
        };
        let stream = Workload::saturating(vec![OfferedLoad::Max], None, Some(1));
        for (workload, patterns) in [
            (Workload::default(), "ping"),
            (to(Workload::default(), 3), "ping"),
            (calls(1), "ping call"),
            (calls(2), "ping call"),
            (to(calls(1), 2), ""),
            (publications(1, 1), "publish"),
            (publications(2, 1), "publish"),
            (publications(1, 2), "publish"),
            (to(publications(1, 1), 2), "publish"),
            (publications(1, 1).playing(recorded, 4), "publish"),
            (calls(1).playing(recorded, 4), "call"),
            (stream.clone(), "throughput"),
            (to(stream.clone(), 2), "throughput"),
            (stream.clone().playing(recorded, 1), ""),
            (Workload { reply: Reply::Lines, ..stream }, ""),
            (Workload::lines(), "log"),
            (to(Workload::lines(), 2), ""),
        ] {
            assert_eq!(allowing(&workload), patterns, "{workload:?}");
        }
    }

    #[test]
    fn loads_and_axes_are_those_of_the_flags_of_a_command() {
        let having = |has: &dyn Fn(&PatternFacts) -> bool| {
            let having = PATTERNS.iter().filter(|facts| has(facts));
            having.map(|facts| facts.pattern.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(having(&|facts| facts.has_load(LoadKind::Rate)), "ping publish call throughput");
        assert_eq!(having(&|facts| facts.has_load(LoadKind::Search)), "throughput");
        assert_eq!(having(&|facts| facts.has_load(LoadKind::Recorded)), "publish call");
        assert_eq!(having(&|facts| facts.has_axis(Axis::Topics)), "publish throughput");
        assert_eq!(having(&|facts| facts.has_axis(Axis::Publishers)), "publish throughput");
        assert_eq!(having(&|facts| facts.has_axis(Axis::Clients)), "ping call");
        assert_eq!(having(&|facts| facts.has_axis(Axis::Followers)), "ping publish throughput");
        let burst = OfferedLoad::Burst(Burst { size: 2, gap_ns: 1 });
        let allows = |pattern, workload: &Workload| facts(pattern).allowed_as(workload).unwrap().allows(&burst);
        assert!(allows(Pattern::Call, &Workload::closed_calls(1, 1)) && !allows(Pattern::Log, &Workload::lines()));
    }
}
