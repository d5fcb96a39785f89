//! Registry of figures: one line each, with name, unit, direction of improvement and fold.

use serde::Serialize;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// Unit of a value, also in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Events per second.
    Hz,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerS,
    /// A number of events.
    Count,
    /// A share of one, e.g. of one CPU.
    Share,
}

impl Unit {
    /// Text in column headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Hz => "/s",
            Unit::Bytes => "bytes",
            Unit::BytesPerS => "bytes/s",
            Unit::Count => "n",
            Unit::Share => "share",
        }
    }
}

/// Direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither: a fact that is not judged.
    Neither,
}

/// Rule that combines the values of several rounds into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fold {
    /// Median of the rounds.
    Median,
    /// Sum of the rounds.
    Sum,
    /// Largest of the rounds.
    Max,
}

macro_rules! figures {
    ($($name:ident = $id:literal, $unit:ident, $better:ident, $fold:ident, $help:literal;)+) => {
        /// A figure of a trial. Latencies have several statistics each; all others have one value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Display, EnumString)]
        #[strum(parse_err_ty = String, parse_err_fn = no_figure)]
        pub enum Figure {
            $(#[doc = $help] #[serde(rename = $id)] #[strum(serialize = $id)] $name,)+
        }

        impl Figure {
            /// Every figure, in the order of the registry.
            pub const ALL: &[Figure] = &[$(Figure::$name),+];

            /// Name in files and flags; ends with the unit if there is one.
            pub fn id(self) -> &'static str {
                match self { $(Figure::$name => $id,)+ }
            }

            /// Unit of its values.
            pub fn unit(self) -> Unit {
                match self { $(Figure::$name => Unit::$unit,)+ }
            }

            /// Direction of improvement.
            pub fn better(self) -> Better {
                match self { $(Figure::$name => Better::$better,)+ }
            }

            /// Rule that combines several rounds.
            pub fn fold(self) -> Fold {
                match self { $(Figure::$name => Fold::$fold,)+ }
            }

            /// One-line description.
            pub fn help(self) -> &'static str {
                match self { $(Figure::$name => $help,)+ }
            }
        }
    };
}

figures! {
    RttHalf = "rtt_half_ns", Ns, Lower, Median, "half of a round trip, which published tables call latency";
    OneWay = "one_way_ns", Ns, Lower, Median, "from send to arrival at the follower, by one clock or two compared clocks";
    Response = "response_ns", Ns, Lower, Median, "from the due time of a message to its arrival";
    Service = "service_ns", Ns, Lower, Median, "from the send time of a message to its arrival";
    ResponseRtt = "response_rtt_ns", Ns, Lower, Median, "from the due time of a request to its answer";
    ServiceRtt = "service_rtt_ns", Ns, Lower, Median, "from the send time of a request to its answer";
    Lateness = "lateness_ns", Ns, Lower, Median, "from the due time of a message to its send time";
    Call = "call_ns", Ns, Lower, Median, "from a call of a logger to its return";
    CoreToCore = "core_to_core_ns", Ns, Neither, Median, "round trip of one cache line between the two CPUs";
    MessageBytes = "message_bytes", Bytes, Neither, Median, "size of the messages as sent, where they differ";
    Sent = "sent", Count, Neither, Sum, "messages sent, or calls made";
    Received = "received", Count, Neither, Sum, "messages that arrived in time and intact, or calls that succeeded";
    Lost = "lost", Count, Lower, Sum, "messages that never arrived";
    Late = "late", Count, Lower, Sum, "messages that arrived after the loss time-out";
    Duplicated = "duplicated", Count, Lower, Sum, "messages that arrived again";
    Reordered = "reordered", Count, Lower, Sum, "messages that arrived after a later one";
    Damaged = "damaged", Count, Lower, Sum, "messages that arrived damaged";
    TimedOut = "timed_out", Count, Lower, Sum, "calls without an answer in time";
    Failed = "failed", Count, Lower, Sum, "calls that ended with an error or a damaged answer";
    Refused = "refused", Count, Lower, Sum, "times that the transport was full and refused a message";
    Behind = "behind", Count, Lower, Sum, "messages sent more than one period late";
    BeforeSent = "before_sent", Count, Lower, Sum, "messages that arrived before they were sent, by the clock";
    ClockError = "clock_error_ns", Ns, Lower, Max, "error of the offset between the clocks of two hosts";
    OneWayMissing = "one_way_missing", Count, Neither, Sum, "samples whose arrival at the follower was not recorded";
    OneWayTimed = "one_way_timed", Count, Neither, Sum, "messages sent whose one-way latency was to be measured";
    RateMissed = "rate_missed", Count, Lower, Sum, "1 for a trial that missed its rate";
    CutShort = "cut_short", Count, Lower, Sum, "1 for a trial that ended early";
    OfferedRate = "offered_rate_hz", Hz, Neither, Median, "messages per second that each stream should send";
    AchievedRate = "achieved_rate_hz", Hz, Higher, Median, "messages per second that each stream sent";
    SlowestRate = "slowest_rate_hz", Hz, Higher, Median, "messages per second of the slowest stream";
    PublishedRate = "published_rate_hz", Hz, Higher, Median, "messages sent per second while publishing";
    ReceivedRate = "received_rate_hz", Hz, Higher, Median, "messages received per second: the throughput";
    ReceivedBytes = "received_bytes_per_s", BytesPerS, Higher, Median, "payload bytes received per second";
    Completed = "completed_rate_hz", Hz, Higher, Median, "calls per second that succeeded";
    Publication = "sending_ns", Ns, Neither, Median, "from before the first message until after the last was sent";
    Subscription = "receiving_ns", Ns, Neither, Median, "from before the first message until the last had arrived";
    Duration = "duration_ns", Ns, Neither, Median, "duration of the trial";
    Flush = "flush_ns", Ns, Lower, Median, "from the last call until the logger had written everything";
    Window = "cost_window_ns", Ns, Neither, Median, "time in which the cost of a process was measured";
    CpuTime = "cpu_time_ns", Ns, Lower, Median, "CPU time of a process, user and system";
    KernelTime = "kernel_time_ns", Ns, Lower, Median, "CPU time of a process in the kernel, where the kernel accounts it exactly";
    CpuPeak = "cpu_peak_share", Share, Lower, Max, "highest CPU time in 100 ms, as a share of one CPU";
    VoluntarySwitches = "voluntary_switches", Count, Lower, Median, "times that a process gave up its CPU";
    InvoluntarySwitches = "involuntary_switches", Count, Lower, Median, "times that a process lost its CPU";
    PageFaults = "page_faults", Count, Lower, Median, "page faults of a process, from memory or a disk";
    PeakMemory = "peak_memory_bytes", Bytes, Lower, Max, "peak memory of a process so far, including our samples";
    PartPrepare = "part_prepare_ns", Ns, Neither, Median, "part of the time per message: a buffer and its header are prepared";
    PartSend = "part_send_ns", Ns, Neither, Median, "part of the time per message: a side is in the send call";
    PartWay = "part_way_ns", Ns, Neither, Median, "part of the time per message: neither side sends or receives";
    PartReceive = "part_receive_ns", Ns, Neither, Median, "part of the time per message: a side is in the receive call";
    PartOwn = "part_own_ns", Ns, Neither, Median, "part of the time per message: Tripmeter checks and answers it";
    SendCall = "send_call_ns", Ns, Neither, Median, "duration of a send call";
    ReceiveCall = "receive_call_ns", Ns, Neither, Median, "duration of a receive call that returned a message, without the wait";
    SentToReceived = "sent_to_received_ns", Ns, Neither, Median, "from the return of the send call to that of the receive call";
    Cycles = "cycles", Count, Neither, Median, "CPU cycles of a process";
    Instructions = "instructions", Count, Neither, Median, "CPU instructions of a process";
    LinesWritten = "lines", Count, Neither, Sum, "lines that a logger wrote, damaged ones included";
    LinesBytes = "lines_bytes", Bytes, Neither, Sum, "bytes of these lines, line breaks included";
    ShortestPrefix = "shortest_prefix_bytes", Bytes, Neither, Median, "fewest bytes before the text of a line";
    LongestPrefix = "longest_prefix_bytes", Bytes, Neither, Max, "most bytes before the text of a line";
    LoadCpu = "load_cpu_share", Share, Neither, Median, "CPU time of our load beside the measurement, as a share of one CPU";
    LoadMemory = "load_memory_bytes_per_s", BytesPerS, Neither, Median, "bytes that our load copied in memory, per second";
    LoadNetwork = "load_network_bytes_per_s", BytesPerS, Neither, Median, "bytes that our load received over loopback, per second";
    // From here on, figures are derived.
    LossShare = "loss_share", Share, Lower, Median, "share of messages or calls that did not arrive in time and intact";
    DeliveredShare = "delivered_share", Share, Higher, Median, "1 minus loss_share";
    CpuShare = "cpu_share", Share, Lower, Median, "CPU time of a process, as a share of one CPU";
    KernelShare = "kernel_share", Share, Lower, Median, "kernel_time_ns as a share of one CPU, where the kernel accounts it exactly";
    CpuPerMessage = "cpu_per_message_ns", Ns, Lower, Median, "CPU time of a process per message or call";
    SwitchesRate = "switches_hz", Hz, Lower, Median, "context switches of a process per second, of either kind";
    FaultsPerMessage = "faults_per_message", Count, Lower, Median, "page faults of a process per message or call";
}

impl Figure {
    /// Figures that summarise a trial, in order of preference: its headline is the first one that it has.
    pub const HEADLINES: [Figure; 8] = {
        use Figure::{Call, OneWay, ReceivedRate, Response, ResponseRtt, RttHalf, Service, ServiceRtt};
        [RttHalf, ResponseRtt, ServiceRtt, Response, Service, Call, ReceivedRate, OneWay]
    };

    /// Rule that combines several rounds of one statistic: a sum for numbers of samples, else [`Figure::fold`].
    pub fn fold_of(self, statistic: Statistic) -> Fold {
        if statistic == Statistic::N { Fold::Sum } else { self.fold() }
    }

    /// True if it is computed from other figures of a trial, and not stored.
    pub fn is_derived(self) -> bool {
        self >= Figure::LossShare
    }

    /// True if it depends on the clocks of both hosts, as do one-way latencies and figures that end with the latest
    /// arrival. Its intervals include [`Figure::ClockError`].
    pub fn has_two_clocks(self) -> bool {
        use Figure::{OneWay, ReceivedBytes, ReceivedRate, Response, Service, Subscription};
        matches!(self, OneWay | Response | Service | ReceivedRate | ReceivedBytes | Subscription)
    }

    /// True if it has statistics of samples rather than one value.
    pub fn has_samples(self) -> bool {
        use Figure::{Call, CoreToCore, Lateness, MessageBytes, OneWay, Response, ResponseRtt, RttHalf, Service};
        matches!(self, RttHalf | OneWay | Response | Service | ResponseRtt | Figure::ServiceRtt | Lateness | Call)
            || matches!(self, CoreToCore | MessageBytes)
    }
}

fn no_figure(text: &str) -> String {
    format!("there is no figure '{text}'")
}

fn no_statistic(text: &str) -> String {
    format!("there is no statistic '{text}'")
}

/// A statistic of a figure's samples.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, Display, EnumString, VariantArray,
)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = no_statistic)]
pub enum Statistic {
    /// Value of a figure without samples.
    Value,
    /// Number of samples.
    N,
    /// Smallest sample.
    Min,
    /// Arithmetic mean.
    Mean,
    /// Standard deviation, dividing by n.
    Stdev,
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// 99.99th percentile.
    P9999,
    /// Largest sample.
    Max,
}

impl Statistic {
    /// All statistics.
    pub const ALL: &[Statistic] = Self::VARIANTS;

    /// Name in files and flags.
    pub fn id(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_figure_is_found_by_its_name_which_ends_with_its_unit() {
        let ids: BTreeSet<_> = Figure::ALL.iter().map(|figure| figure.id()).collect();
        assert_eq!(ids.len(), Figure::ALL.len());
        for figure in Figure::ALL {
            assert_eq!(figure.id().parse(), Ok(*figure));
            let end = match figure.unit() {
                Unit::Ns => "_ns",
                Unit::Hz => "_hz",
                Unit::Bytes => "_bytes",
                Unit::BytesPerS => "_per_s",
                Unit::Share => "_share",
                Unit::Count => "",
            };
            assert!(figure.id().ends_with(end), "{figure}");
            assert!(!figure.help().ends_with('.') && figure.help().len() <= 80, "{figure}");
        }
        for statistic in Statistic::ALL {
            assert_eq!(statistic.id().parse(), Ok(*statistic));
        }
        assert!("latency".parse::<Figure>().is_err() && "p98".parse::<Statistic>().is_err());
    }
}
