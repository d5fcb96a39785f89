//! Pattern `channel`: messages published at a fixed rate, in bursts, or as they were recorded, and when they arrived.

use crate::figure::Figure;
use crate::manifest::{Bounds, Counts};
use crate::pace::{Burst, OfferedLoad};
use crate::series::Series;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts, latencies and cost of the messages of one offered load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelTrial {
    /// Messages per second that were to be sent on each topic, of several publishers by each; of bursts the mean.
    pub offered_hz: f64,
    /// The bursts that they were to be sent in, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// Messages per second that were sent on each topic, or by each publisher, by the mean of all.
    pub achieved_hz: f64,
    /// Messages per second that the slowest topic or publisher sent.
    pub slowest_hz: f64,
    /// A topic or publisher took more than 1 % and one period, of bursts one gap, longer for its messages than the rate
    /// allows: the figures are not of the rate that was offered.
    pub rate_missed: bool,
    /// Messages that were sent more than a whole period, of bursts a whole gap, after they were to be.
    pub behind: u64,
    /// How often the transport refused a message because it was full (back-pressure); such a message was sent later.
    pub refused: u64,
    /// What happened to the messages of all topics or publishers, without the warm-up. `received` came in time and intact,
    /// `late` later than the loss time-out after they were sent.
    pub counts: Counts,
    /// Messages that came before they were sent, by the clock; they are in `received`, and in no figure.
    pub before_sent: u64,
    /// From when a message was to be sent to its arrival; received messages only.
    pub response_ns: Option<Latency>,
    /// From when a message was sent to its arrival; received messages only.
    pub service_ns: Option<Latency>,
    /// From when a message was to be sent to when it was sent; all messages sent.
    pub lateness_ns: Option<Latency>,
    /// Intervals of the quantiles of `response_ns` within this run; absent where samples were not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_within_run_ns: Option<LatencyBounds>,
    /// Intervals of the quantiles of `service_ns` within this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_within_run_ns: Option<LatencyBounds>,
    /// Intervals of the quantiles of `lateness_ns` within this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_within_run_ns: Option<LatencyBounds>,
    /// Audit of the response times of the first topic, or publisher, in the order of their sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_series: Option<Series>,
    /// Audit of the service times of the first topic, or publisher, in the order of their sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_series: Option<Series>,
    /// From when the first message was to be sent until the last was, in nanoseconds.
    pub duration_ns: u64,
    /// Why it ended before all messages were sent, if so.
    pub cut_short: Option<String>,
    /// Cost of the publishing process; if both sides are threads of one process, the cost of that process.
    pub publisher: Used,
    /// Cost of the subscribing processes, together; absent if both sides are threads of one process.
    pub subscriber: Option<Used>,
    /// The topics of a recording, by index; empty otherwise. The rates above are then means over the topics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<TopicTrial>,
    /// The publishers of a topic, by index; empty if there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub publishers: Vec<PublisherTrial>,
    /// The followers, by index; empty if there is one. In the figures above, a message has come when the last follower has
    /// it: its latencies end there, and a message that any follower lacks is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followers: Vec<FollowerTrial>,
}

/// How many followers are shown one by one: in tables, in figures over rounds and in the evidence of the path.
pub const SHOWN_FOLLOWERS: usize = 16;

/// Counts and latencies of the messages to one of several followers. Figures are defined as in [`ChannelTrial`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FollowerTrial {
    /// Its index, from 0.
    pub follower: u32,
    /// Counts of the messages on their way to it.
    pub counts: Counts,
    /// From when a message was to be sent to its arrival here.
    pub response_ns: Option<Latency>,
    /// From when a message was sent to its arrival here.
    pub service_ns: Option<Latency>,
}

/// Rate and counts of one of several publishers of a topic. Figures are defined as in [`ChannelTrial`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublisherTrial {
    /// Its index, from 0.
    pub publisher: u32,
    /// Messages per second that it sent.
    pub achieved_hz: f64,
    /// It took more than 1 % and one period longer for its messages than the rate allows.
    pub rate_missed: bool,
    /// What happened to its messages. One whose header came damaged is nobody's: it is lost here, and damaged in the counts
    /// of all.
    pub counts: Counts,
}

/// Rates, counts and latencies of one topic of a recording. Figures are defined as in [`ChannelTrial`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopicTrial {
    /// Its name in the recording.
    pub name: String,
    /// Mean bytes of its messages as sent.
    pub mean_bytes: f64,
    /// Bytes of the largest as sent.
    pub largest_bytes: u64,
    /// Messages per second as recorded, times the speed: by the mean time between them.
    pub offered_hz: f64,
    /// Messages per second that were sent.
    pub achieved_hz: f64,
    /// It took more than 1 % and one mean period longer than recorded.
    pub rate_missed: bool,
    /// Messages that were sent more than a mean period late.
    pub behind: u64,
    /// What happened to its messages.
    pub counts: Counts,
    /// Messages that came before they were sent, by the clock.
    pub before_sent: u64,
    /// From when a message was to be sent to its arrival.
    pub response_ns: Option<Latency>,
    /// From when a message was sent to its arrival.
    pub service_ns: Option<Latency>,
    /// From when a message was to be sent to when it was sent.
    pub lateness_ns: Option<Latency>,
    /// Intervals of the quantiles of `response_ns` within this run; absent where samples were not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_within_run_ns: Option<LatencyBounds>,
    /// Intervals of the quantiles of `service_ns` within this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_within_run_ns: Option<LatencyBounds>,
    /// Intervals of the quantiles of `lateness_ns` within this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_within_run_ns: Option<LatencyBounds>,
    /// Audit of the response times, in the order of their sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_series: Option<Series>,
    /// Audit of the service times, in the order of their sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_series: Option<Series>,
}

/// The figures of one distribution of latencies, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Messages.
    pub samples: u64,
    /// Smallest.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Half of the samples are below.
    pub median: f64,
    /// 90 % are below.
    pub p90: f64,
    /// 99 % are below.
    pub p99: f64,
    /// 99.9 % are below.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

/// Intervals at 95 % of the quantiles of one run, by counting its samples; as [`crate::manifest::WithinRun`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyBounds {
    /// Of the median.
    pub median: Bounds,
    /// Of the 90th percentile.
    pub p90: Bounds,
    /// Of the 99th percentile.
    pub p99: Bounds,
    /// Of the 99.9th percentile.
    pub p999: Bounds,
}

impl Latency {
    /// Every figure less `ns`.
    pub fn less(&self, ns: f64) -> Latency {
        let Latency { samples, min, mean, median, p90, p99, p999, max } = *self;
        let [min, mean, median, p90, p99, p999, max] =
            [min, mean, median, p90, p99, p999, max].map(|figure| figure - ns);
        Latency { samples, min, mean, median, p90, p99, p999, max }
    }
}

/// Cost of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Used {
    /// In this time, in nanoseconds.
    pub window_ns: u64,
    /// Processor time, user and system, in nanoseconds.
    pub cpu_time_ns: u64,
    /// How often a processor was given up.
    pub voluntary_switches: u64,
    /// How often a processor was taken away.
    pub involuntary_switches: u64,
    /// Page faults, served from memory or from a disk.
    #[serde(default)]
    pub page_faults: u64,
    /// Most memory that the process has had so far (`VmHWM`), in bytes: with our own buffers of samples.
    pub peak_memory_bytes: u64,
}

impl Used {
    /// Processor time in per cent of one core.
    pub fn cpu_percent(&self) -> f64 {
        self.cpu_time_ns as f64 * 100.0 / self.window_ns.max(1) as f64
    }

    /// Its figures, of one trial.
    pub fn figures(&self) -> impl Iterator<Item = (Figure, f64)> {
        [
            (Figure::Window, self.window_ns),
            (Figure::CpuTime, self.cpu_time_ns),
            (Figure::VoluntarySwitches, self.voluntary_switches),
            (Figure::InvoluntarySwitches, self.involuntary_switches),
            (Figure::PageFaults, self.page_faults),
            (Figure::PeakMemory, self.peak_memory_bytes),
        ]
        .map(|(figure, value)| (figure, value as f64))
        .into_iter()
    }

    /// Context switches of either kind per second.
    pub fn switches_hz(&self) -> f64 {
        self.voluntary_switches.saturating_add(self.involuntary_switches) as f64 * 1e9 / self.window_ns.max(1) as f64
    }
}

impl Used {
    /// Sum of the cost of two processes at the same time. Memory, part of which may be shared, is the larger of both.
    pub fn beside(self, other: Self) -> Self {
        let window_ns = self.window_ns.max(other.window_ns);
        let mut both = self;
        both += other;
        Self { window_ns, ..both }
    }
}

impl std::ops::AddAssign for Used {
    fn add_assign(&mut self, other: Used) {
        self.window_ns += other.window_ns;
        self.cpu_time_ns += other.cpu_time_ns;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.page_faults += other.page_faults;
        self.peak_memory_bytes = self.peak_memory_bytes.max(other.peak_memory_bytes);
    }
}

/// Status of a message in `channel_<name>.csv`, or of a call in `rpc_<name>.csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// Came in time and intact.
    Ok,
    /// Came in time and intact, after a later message.
    Reordered,
    /// Came in time and intact, and then again.
    Duplicated,
    /// Came later than the loss time-out after it was sent.
    Late,
    /// Its touched payload was not what was written.
    Damaged,
    /// Never came, or with a header that nobody can read.
    Lost,
}

impl DeliveryStatus {
    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            DeliveryStatus::Ok => "ok",
            DeliveryStatus::Reordered => "reordered",
            DeliveryStatus::Duplicated => "duplicated",
            DeliveryStatus::Late => "late",
            DeliveryStatus::Damaged => "damaged",
            DeliveryStatus::Lost => "lost",
        }
    }

    /// The word in the file of calls, which fail where messages come damaged, and time out where messages get lost.
    pub fn of_call(self) -> &'static str {
        match self {
            DeliveryStatus::Damaged => "failed",
            DeliveryStatus::Lost | DeliveryStatus::Late => "timed_out",
            other => other.as_str(),
        }
    }

    /// It came in time and intact, so that its latencies count.
    pub fn is_received(self) -> bool {
        matches!(self, DeliveryStatus::Ok | DeliveryStatus::Reordered | DeliveryStatus::Duplicated)
    }
}

impl ChannelTrial {
    /// How messages were offered.
    pub fn load(&self) -> OfferedLoad {
        match self.burst {
            _ if !self.topics.is_empty() => OfferedLoad::Recorded,
            Some(burst) => OfferedLoad::Burst(burst),
            None => OfferedLoad::Rate { hz: self.offered_hz },
        }
    }

    /// Whether no message came at all, or none of one of its topics or publishers, or none to one of its followers.
    pub fn is_all_lost(&self) -> bool {
        let topics = self.topics.iter().map(|topic| topic.counts);
        let publishers = self.publishers.iter().map(|publisher| publisher.counts);
        let followers = self.followers.iter().map(|follower| follower.counts);
        [self.counts].into_iter().chain(topics).chain(publishers).chain(followers).any(|counts| counts.is_all_lost())
    }

    /// Share of the messages sent that did not come in time and intact, from 0 to 1.
    pub fn loss(&self) -> f64 {
        let Counts { sent, lost, late, damaged, .. } = self.counts;
        (lost + late + damaged) as f64 / sent.max(1) as f64
    }
}
