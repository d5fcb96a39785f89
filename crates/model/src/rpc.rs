//! Pattern `rpc`: calls by clients that work beside each other, and when they were answered.

use crate::channel::{Latency, LatencyBounds, Used};
use crate::manifest::Counts;
use crate::pace::{Burst, OfferedLoad};
use crate::series::Series;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of the calls of one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcTrial {
    /// How well the rate was kept; absent under `bench`, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// What happened to the calls of all clients, without the warm-up.
    pub counts: CallCounts,
    /// Calls that succeeded, per second of `duration_ns`, of all clients together.
    pub qps: f64,
    /// Round trips from when a call was to be made until its answer was there; of those that succeeded. Absent under
    /// `bench`, where a call is to be made when the one before has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_rtt_ns: Option<Latency>,
    /// Round trips from when a call was made until its answer was there; of those that succeeded.
    pub service_rtt_ns: Option<Latency>,
    /// From when a call was to be made to when it was made; of all calls. Absent under `bench`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_ns: Option<Latency>,
    /// Intervals of the quantiles of `response_rtt_ns` within this run; absent where samples were not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_rtt_within_run_ns: Option<LatencyBounds>,
    /// Intervals of the quantiles of `service_rtt_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_rtt_within_run_ns: Option<LatencyBounds>,
    /// Intervals of the quantiles of `lateness_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_within_run_ns: Option<LatencyBounds>,
    /// From when a call was made until the request had come to the server, two readings of one clock; of calls that
    /// succeeded, of all clients. Absent unless it was asked for (`--one-way`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_ns: Option<Latency>,
    /// Intervals of its quantiles within this run; absent where samples were not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_within_run_ns: Option<LatencyBounds>,
    /// Calls that succeeded without a latency one way, as the arrival of their request was not noted.
    #[serde(default, skip_serializing_if = "crate::manifest::is_zero")]
    pub one_way_missing: u64,
    /// What the audit of the round trips of each client found; empty in older files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientSeries>,
    /// Of a recording: figures of each topic, which is a client. Rates of `pace` are then means over the
    /// topics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<TopicCalls>,
    /// From when the first call was to be made until the last one had ended, and at a fixed rate at least until the next
    /// would have been due, in nanoseconds.
    pub duration_ns: u64,
    /// Why it ended before all calls were made, if so.
    pub cut_short: Option<String>,
    /// What the clients' process used meanwhile; if both sides are threads of one process, what that used.
    pub client: Used,
    /// What the server's process used meanwhile; absent if it is the same process.
    pub server: Option<Used>,
}

/// What the audit of the round trips of one client found, in the order of its calls; absent below 100 of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientSeries {
    /// Its number, from 0.
    pub client: u32,
    /// Of the response times; absent under `bench`, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_series: Option<Series>,
    /// Of the service times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_series: Option<Series>,
}

/// Calls of one topic of a recording, made by the client of the same index; its figures are as in
/// [`RpcTrial`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopicCalls {
    /// Its name in the recording.
    pub name: String,
    /// Mean bytes of its requests.
    pub mean_bytes: f64,
    /// Bytes of the largest.
    pub largest_bytes: u64,
    /// Calls per second as recorded, times the speed: by the mean time between them. A call behind is more than that late.
    pub pace: Pace,
    /// What happened to its calls.
    pub counts: CallCounts,
    /// Round trips from when a call was to be made.
    pub response_rtt_ns: Option<Latency>,
    /// Round trips from when a call was made.
    pub service_rtt_ns: Option<Latency>,
    /// From when a call was to be made to when it was made.
    pub lateness_ns: Option<Latency>,
    /// Intervals of the quantiles of `response_rtt_ns` within this run; absent where samples were not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_rtt_within_run_ns: Option<LatencyBounds>,
    /// Intervals of the quantiles of `service_rtt_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_rtt_within_run_ns: Option<LatencyBounds>,
    /// Intervals of the quantiles of `lateness_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_within_run_ns: Option<LatencyBounds>,
}

/// How well the clients kept their rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pace {
    /// Calls per second that each client was to make; of bursts the mean.
    pub offered_hz: f64,
    /// The bursts that it was to make them in, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    /// Calls per second that each client made, by the mean of all.
    pub achieved_hz: f64,
    /// The same of the slowest client.
    pub slowest_hz: f64,
    /// A client took more than 1 % and one period, of bursts one gap, longer for its calls than the rate allows: the
    /// figures are not of the rate that was offered.
    pub rate_missed: bool,
    /// Calls that were made more than a whole period, of bursts a whole gap, after they were to be.
    pub behind: u64,
}

impl RpcTrial {
    /// How calls were offered.
    pub fn load(&self) -> OfferedLoad {
        match self.pace {
            _ if !self.topics.is_empty() => OfferedLoad::Recorded,
            None => OfferedLoad::Closed,
            Some(pace) => pace.burst.map_or(OfferedLoad::Rate { hz: pace.offered_hz }, OfferedLoad::Burst),
        }
    }
}

/// What happened to calls. Each made one succeeded, was not answered in time, or failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallCounts {
    /// Made by the clients.
    pub made: u64,
    /// Answered in time and intact.
    pub succeeded: u64,
    /// Not answered, or not even taken by the transport, within the time-out.
    pub timed_out: u64,
    /// Ended in time by an error of the transport, or by an answer whose header or touched payload was not what was
    /// written.
    pub failed: u64,
    /// Answers that came after the time-out or the failure of their call.
    pub late: u64,
    /// Answers that came again.
    pub duplicated: u64,
}

impl std::ops::Add for CallCounts {
    type Output = CallCounts;

    fn add(self, other: CallCounts) -> CallCounts {
        CallCounts {
            made: self.made + other.made,
            succeeded: self.succeeded + other.succeeded,
            timed_out: self.timed_out + other.timed_out,
            failed: self.failed + other.failed,
            late: self.late + other.late,
            duplicated: self.duplicated + other.duplicated,
        }
    }
}

/// Calls counted as messages: one that timed out is lost, one that failed is damaged.
impl From<CallCounts> for Counts {
    fn from(counts: CallCounts) -> Self {
        let CallCounts { made, succeeded, timed_out, failed, late, duplicated } = counts;
        let (sent, received, lost, damaged) = (made, succeeded, timed_out, failed);
        Counts { sent, received, lost, late, duplicated, reordered: 0, damaged }
    }
}

impl CallCounts {
    /// Calls that succeeded, per second of that time.
    pub fn per_second(&self, duration_ns: u64) -> f64 {
        self.succeeded as f64 * 1e9 / duration_ns.max(1) as f64
    }

    /// Calls of those made that did not succeed.
    pub fn loss(&self) -> f64 {
        (self.timed_out + self.failed) as f64 / self.made.max(1) as f64
    }
}
