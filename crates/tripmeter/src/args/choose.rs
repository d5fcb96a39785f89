use super::experiment::ExperimentArgs;
use super::measure::{MeasuringArgs, OutputArgs, TransportArgs, hidden, measuring_and};
use super::parsers::{size, words_of};
use super::workload::WorkloadArgs;
use clap::Args;
use std::path::PathBuf;
use tripmeter_analysis::flags::Share;
use tripmeter_model::Pattern;
use tripmeter_model::experiment::Common;
use tripmeter_model::figure::Statistic;

/// Rank the transports here for a workload, and check limits
#[derive(Args)]
#[command(mut_args = |argument| hidden(argument, &["payloads"]))]
#[command(after_help = "Examples:
  tripmeter choose --payload 2M --rate 30 --subscribers 3
  tripmeter choose --payload 1k --rate 1000 --max-latency 5ms --max-cpu 20")]
#[command(after_long_help = "Examples:
  tripmeter choose --payload 2M --rate 30 --subscribers 3
  tripmeter choose --payload 1k --rate 1000 --max-latency 5ms --max-cpu 20
  tripmeter choose --payload 64k --rate 100 --by p50 zenoh ecal iceoryx
  tripmeter choose --from results/2026-01-31_12-00-00 --payload 64k

Measures as `tripmeter publish` does, in rounds of random order. The ranking is
by one-way latency, from when a message was due until the last subscriber has
it. Transports without a measurable difference share a rank: their ratio, taken
round by round, has a confidence interval that includes 1. Limits are checked on
medians over rounds (with --by max, on the largest value). A limit inside the
confidence interval of a figure is undecided. The results are those of an
ordinary run: --print prints the experiment, and `tripmeter run` runs it. --from
uses results of messages published at a rate on one topic, and lists the rest.

Exit codes: 0 a transport meets the limits, 1 none is known to, 64 wrong usage,
65 wrong data, 66 no such folder, 69 something is missing, 70 our fault, 73
cannot create, 75 something was not measured (the answer is for the others), 130
interrupted.")]
pub struct ChooseArgs {
    #[command(flatten)]
    pub transports: TransportArgs,
    /// Size of the messages: 64k, 2M; k = 1024 bytes
    #[arg(long, value_name = "SIZE", required_unless_present = "from", value_parser = size)]
    pub payload: Option<u64>,
    /// Messages per second
    #[arg(long, value_name = "HZ", required_unless_present = "from", allow_negative_numbers = true, value_parser = rate)]
    pub rate: Option<f64>,
    /// Subscribers, up to 512 [default: 1]
    #[arg(long, value_name = "N")]
    pub subscribers: Option<u32>,
    /// Rank by this statistic of the latency
    #[arg(long, default_value = "p99", value_parser = words_of(&STATISTICS))]
    pub by: Statistic,
    /// Limit for that statistic of the latency: 500us, 5ms, 1s
    #[arg(long, value_name = "TIME", value_parser = duration_ns)]
    pub max_latency: Option<f64>,
    /// Limit for the CPU time of all processes, in per cent of one CPU
    #[arg(long, value_name = "PERCENT", value_parser = per_cent)]
    pub max_cpu: Option<f64>,
    /// Limit for the share of lost messages
    #[arg(long, value_name = "SHARE", default_value = "0%", allow_hyphen_values = true)]
    pub max_loss: Share,
    /// Rank the results in this folder instead of measuring
    #[arg(long, value_name = "DIR", conflicts_with_all = measuring_and(&["names", "print", "output", "rounds", "budget"]))]
    pub from: Option<PathBuf>,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
    /// Number of rounds, each of which repeats everything [default: 6 for two transports, 9 for ten]
    ///
    /// Fewer than 6 give no confidence intervals; many transports need more.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub rounds: Option<u32>,
    /// Limit for the whole measurement, in seconds
    ///
    /// If the measurement would take longer, fewer messages are sent. If the minimum takes too long, nothing is
    /// measured.
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0, allow_negative_numbers = true)]
    pub budget: f64,
    /// Print the experiment file and exit
    #[arg(long)]
    pub print: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

const STATISTICS: [(&str, Statistic); 4] =
    [("p50", Statistic::P50), ("p99", Statistic::P99), ("p999", Statistic::P999), ("max", Statistic::Max)];

impl ChooseArgs {
    /// Experiment of the workload over the transports; `samples` is the number of messages per round.
    pub fn experiment(&self, samples: u64) -> ExperimentArgs {
        let payloads = self.payload.map(|bytes| bytes.to_string());
        let rate = self.rate.map(|rate| rate.to_string());
        let (pattern, followers) = (Some(Pattern::Publish), self.subscribers);
        let common = Common { pattern, rate, followers, ..Common::default() };
        ExperimentArgs {
            transports: self.transports.names.clone(),
            workload: WorkloadArgs { common, ..WorkloadArgs::default() },
            measuring: MeasuringArgs { payloads, samples: Some(samples), ..self.measuring.clone() },
            rounds: self.rounds,
            no_floor: true,
            ..ExperimentArgs::default()
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let hz = text.parse::<f64>().ok().filter(|hz| hz.is_finite() && *hz > 0.0);
    hz.ok_or("expected messages per second, e.g. 30".to_owned())
}

/// Parses a time with unit, e.g. `5ms`, to nanoseconds.
fn duration_ns(text: &str) -> Result<f64, String> {
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let of = |(unit, ns): &(&str, f64)| text.strip_suffix(unit)?.trim_end().parse::<f64>().ok().map(|value| value * ns);
    let ns = units.iter().find_map(of).filter(|ns| ns.is_finite() && *ns > 0.0);
    ns.ok_or("expected a time with a unit, e.g. 500us, 5ms or 1s".to_owned())
}

/// Parses `20` or `20%` as 0.2; above 1 for several CPUs.
fn per_cent(text: &str) -> Result<f64, String> {
    let value = text.trim_end_matches('%').trim_end().parse::<f64>().ok();
    let share = value.filter(|value| value.is_finite() && *value > 0.0).map(|value| value / 100.0);
    share.ok_or("expected a percentage of one CPU, e.g. 20".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_shares_are_read_with_their_units() {
        assert_eq!(["5ms", "500us", "1.5 s", "80ns"].map(|text| duration_ns(text).unwrap()), [5e6, 5e5, 1.5e9, 80.0]);
        assert_eq!(["20", "20%", "150 %"].map(|text| per_cent(text).unwrap()), [0.2, 0.2, 1.5]);
        assert!(["5", "ms", "-1ms", "0s"].iter().all(|text| duration_ns(text).is_err()));
        assert!(["", "%", "-1", "0"].iter().all(|text| per_cent(text).is_err()));
    }
}
