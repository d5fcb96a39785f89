use super::parsers::words_of;
use clap::{Args, Subcommand};

/// iceperf's benchmark, with iceperf's flags
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter iceperf follower                                in one terminal,
  tripmeter iceperf leader -n 100000 -t iceoryx-cpp-api     in another

`tripmeter run iceperf` measures the same and starts both sides itself.")]
pub struct IceperfArgs {
    #[command(subcommand)]
    pub command: IceperfCommand,
}

#[derive(Subcommand)]
pub enum IceperfCommand {
    Leader(IceperfLeaderArgs),
    Follower(IceperfFollowerArgs),
}

/// Measure with a follower started by hand
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter iceperf follower                                in one terminal,
  tripmeter iceperf leader -n 100000 -t iceoryx-cpp-api     in another

It is `tripmeter run iceperf --rendezvous`, with the exit codes of `tripmeter
run`.")]
pub struct IceperfLeaderArgs {
    /// Round trips per payload
    #[arg(short = 'n', long = "number-of-samples", value_name = "N", default_value_t = 10_000)]
    pub samples: u64,
    /// The technology
    #[arg(short = 't', long, default_value = "all", value_parser = words_of(&[("all", Technology::All),
        ("iceoryx-cpp-api", Technology::IceoryxCpp), ("iceoryx-c-api", Technology::IceoryxC),
        ("posix-message-queue", Technology::MessageQueue), ("unix-domain-socket", Technology::UnixDomainSocket)]))]
    pub technology: Technology,
    /// The benchmark; iceperf has none for throughput
    #[arg(short = 'b', long, default_value = "all", value_parser = words_of(&[("all", Benchmark::All),
        ("latency", Benchmark::Latency), ("throughput", Benchmark::Throughput)]))]
    pub benchmark: Benchmark,
}

/// Answer an iceperf leader
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter iceperf follower")]
pub struct IceperfFollowerArgs {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technology {
    All,
    IceoryxCpp,
    IceoryxC,
    MessageQueue,
    UnixDomainSocket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    All,
    Latency,
    Throughput,
}
