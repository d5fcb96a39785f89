use super::experiment::ExperimentArgs;
use super::measure::{MeasuringArgs, OutputArgs, hidden};
use super::parsers::size;
use clap::{Arg, Args};
use std::path::PathBuf;

/// Split the time of a message: calls, transit, wake-up, kernel
#[derive(Args)]
#[command(mut_args = meant)]
#[command(after_help = "Examples:
  tripmeter explain uds shm
  tripmeter explain zenoh ecal --payload 64k
  tripmeter explain tcp --wait block -n 20000")]
#[command(after_long_help = "Examples:
  tripmeter explain uds shm
  tripmeter explain zenoh ecal --payload 64k
  tripmeter explain tcp --wait block -n 20000
  tripmeter explain --from results/2026-01-31_12-00-00

Each transport is measured in several passes with fresh processes: undisturbed,
with each byte touched, with time stamps around each call, with counters, and
twice under strace. Only the first pass gives a latency; the others show what it
consists of. docs/explain.md describes each part.

Exit codes: 0 good, 64 wrong usage, 65 wrong data, 66 no such folder, 69
something is missing, 70 our fault, 73 cannot create, 75 a pass failed or
messages were damaged, 130 interrupted.")]
pub struct ExplainArgs {
    /// `SYSTEM[/VARIANT][?KEY=VALUE&...]`; `uds/*`: each variant
    ///
    /// `tripmeter list` lists them.
    #[arg(value_name = "TRANSPORT", required_unless_present = "from")]
    pub names: Vec<String>,
    /// Size of the messages: 64k, 2M [default: 1k]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub payload: Option<u64>,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
    /// Do not measure the floor (our own shared memory)
    #[arg(long)]
    pub no_floor: bool,
    /// Show the results in this folder instead of measuring
    #[arg(long, value_name = "DIR", conflicts_with_all = ["names", "output", "payload"])]
    pub from: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Adapts the help of measuring flags.
fn meant(argument: Arg) -> Arg {
    match argument.get_id().as_str() {
        "samples" => argument.help("Round trips of each pass [default: 10000]").long_help(None::<&str>),
        "wait" => argument.help("How the counted and traced passes wait: poll, block, callback"),
        "time_cap" => argument.help("Longest time of one pass [default: 10]"),
        "json" => argument.help("Print explain.json instead of tables"),
        _ => hidden(argument, &["payloads", "touch", "attempts", "raw", "keep_samples", "streams", "seed"]),
    }
}

/// Default message size in bytes.
const PAYLOAD: u64 = 1024;
/// Default number of round trips per pass.
const SAMPLES: u64 = 10_000;
/// Default time limit of a pass, in seconds.
const TIME_CAP_S: f64 = 10.0;

impl ExplainArgs {
    /// Round trips of each transport, from which the passes are derived.
    pub fn experiment(&self) -> ExperimentArgs {
        let measuring = MeasuringArgs {
            payloads: Some(self.payload.unwrap_or(PAYLOAD).to_string()),
            samples: Some(self.measuring.samples.unwrap_or(SAMPLES)),
            time_cap: Some(self.measuring.time_cap.unwrap_or(TIME_CAP_S)),
            attempts: Some(1),
            ..self.measuring.clone()
        };
        ExperimentArgs {
            transports: self.names.clone(),
            measuring,
            no_floor: self.no_floor,
            ..ExperimentArgs::default()
        }
    }
}
