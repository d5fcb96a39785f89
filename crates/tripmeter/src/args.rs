//! The command line as typed.

mod ab;
mod doctor;
pub mod plotting;
mod process;
mod selftest;
mod verdicts;

pub use ab::AbArgs;
pub use doctor::DoctorArgs;
pub use process::ProcessArgs;
pub use selftest::{BareArgs, SelftestArgs};
pub use verdicts::{CheckArgs, CompareArgs, HistoryArgs, JobArgs, Method, PruneArgs, RequirementsArgs};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::str::FromStr;
use tripmeter_model::experiment::Mode;
use tripmeter_model::experiment::TableKind;
use tripmeter_model::plan::{Daemons, Raw, Streams};
use tripmeter_model::{Pattern, Touch, Wait};

/// Measures message paths: how long a message takes from one program to another, over every way there is here.
#[derive(Parser)]
#[command(name = "tripmeter", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Examples:
  tripmeter run                        every system here, in about a minute
  tripmeter run --preset iceperf       the benchmark of iceoryx
  tripmeter transports                 what can be measured here, and what is missing
  tripmeter doctor                     what of this machine disturbs measuring")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Run(RunArgs),
    Ab(AbArgs),
    Leader(LeaderArgs),
    Follower(FollowerArgs),
    Transports(TransportsArgs),
    Doctor(DoctorArgs),
    Selftest(SelftestArgs),
    Setup(SetupArgs),
    Presets(PresetsArgs),
    Table(TableArgs),
    Plot(plotting::PlotArgs),
    CompareSubexperiments(plotting::CompareSubexperimentsArgs),
    Process(ProcessArgs),
    Check(CheckArgs),
    Requirements(RequirementsArgs),
    Compare(CompareArgs),
    History(HistoryArgs),
    Prune(PruneArgs),
    Job(JobArgs),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Bare(BareArgs),
    #[command(hide = true)]
    Worker,
    #[command(hide = true)]
    DescribePlugin {
        file: PathBuf,
    },
}

/// Run an experiment: a file, a preset, or the transports given; without any of these, the preset `quick`
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter run
  tripmeter run --preset iceperf -n 1000
  tripmeter run --preset iceperf -t iceoryx-cpp-api,iceoryx-c-api
  tripmeter run -t uds/*,tcp --payloads 1k,64k --wait block -o results/sockets
  tripmeter run -t 'mq?packet=4096' --payloads 1k..4M --json
  tripmeter run -t fastdds/udp --profile mine.xml
  tripmeter run experiment.toml --rounds 5
  tripmeter run -t shm --followers 3 --payloads 1k,64k
  tripmeter run -t uds,tcp --payloads 1k --rate 10,1000 -n 200
  tripmeter run -t uds,shm --pattern throughput --payloads 1k,64k
  tripmeter run -t udp --pattern throughput --loss-bound 0.5% --duration 2
  tripmeter run -t tcp --pattern throughput --demand 100,1000 --recovery 5,10
  tripmeter run -t uds,shm --pattern channel --payloads 1k --topics 4 -n 5000
  tripmeter run -t tcp --pattern channel --payloads 1k --rate 100,1000,10000 --wait block
  tripmeter run -t uds,udp --pattern channel --payloads 1k --publishers 4 --rate 250
  tripmeter run --from-recording drive.mcap -t uds,shm --speed 2
  tripmeter run -t 'write/*,spdlog/*,tracing/*' --pattern log
  tripmeter run -t uds,tcp --pattern rpc --payloads 1k --clients 1,4,8
  tripmeter run -t uds --pattern rpc --mode fixed-freq --rate 1000 --clients 4

Exit codes: 0 good, 1 refused by --strict, 64 wrong usage, 65 wrong data, 66 no such file,
69 something is missing, 70 our fault, 73 cannot create, 75 some sub-experiments failed, messages
came damaged (unless --allow-damage) or none came (unless --allow-loss), or a transport that was
named is missing (the rest is there; what `*` leaves out is told and is no failure),
130 interrupted.")]
pub struct RunArgs {
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    /// Start nothing where an audit as `tripmeter doctor` makes it warns or fails; the exit code is 1 then
    #[arg(long, conflicts_with = "no_spin")]
    pub strict: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub plugins: PluginArgs,
}

/// Run an experiment with a follower that is started by hand in another terminal, before or after
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter leader -t iceoryx          in one terminal,
  tripmeter follower                   in another, in either order

The flags are those of `tripmeter run`; the follower takes its settings from the leader.")]
pub struct LeaderArgs {
    #[command(flatten)]
    pub rendezvous: RendezvousArgs,
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    /// Seconds to wait for a follower
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u32,
    /// Start nothing where an audit as `tripmeter doctor` makes it warns or fails; the exit code is 1 then
    #[arg(long, conflicts_with = "no_spin")]
    pub strict: bool,
    #[command(flatten)]
    pub plugins: PluginArgs,
}

/// Answer a leader that is started by hand in another terminal, before or after
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter follower
  tripmeter follower --rendezvous lab --timeout 600")]
pub struct FollowerArgs {
    #[command(flatten)]
    pub rendezvous: RendezvousArgs,
    #[command(flatten)]
    pub plugins: PluginArgs,
    /// Seconds to wait for a leader
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u32,
}

#[derive(Args)]
pub struct RendezvousArgs {
    /// Where leader and follower meet; pairs with different names do not disturb each other
    #[arg(long = "rendezvous", value_name = "NAME", default_value = "default")]
    pub name: String,
}

#[derive(Args, Clone, Default)]
pub struct ExperimentArgs {
    /// An experiment; `tripmeter presets iceperf` prints an example
    #[arg(value_name = "FILE.toml", conflicts_with = "preset")]
    pub file: Option<PathBuf>,
    /// An experiment that ships with tripmeter; `tripmeter presets` lists them
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Transports, as `SYSTEM[/VARIANT][?KEY=VALUE&...]`; `*` is every system, uds/* every variant. With a file or preset:
    /// keeps its sub-experiments of these, and adds the others
    #[arg(short, long, value_name = "LIST")]
    pub transports: Vec<String>,
    /// A profile in the system's own format, for every transport that has a setting `profile`
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
    /// What is done
    #[arg(long, value_parser = words::<Pattern>(&["pingpong", "channel", "rpc", "throughput", "log"]))]
    pub pattern: Option<Pattern>,
    /// Note the follower's arrivals as well, for latency one way (`one_way`); under `throughput` this costs a clock reading
    /// a message at both sides
    #[arg(long)]
    pub one_way: bool,
    /// Followers that every message is sent to, up to 64, under `channel` 512; latency to each of several, and to the last
    /// [default: 1]
    #[arg(long, value_name = "N")]
    pub followers: Option<u32>,
    /// Under `throughput`: longest time of a trial [default: 1, or none with -n]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub duration: Option<f64>,
    /// Under `throughput`: messages per second, or max; several make a trial of each [default: max]; under
    /// `channel`: messages per second on each topic; under `rpc`: calls per second of each
    /// client [default: 1000]; under `pingpong`: round trips per second, timed from when each was to be sent (response
    /// time) and from when it was (service time) [default: one after the other]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub rate: Option<String>,
    /// Under `throughput`: search for the highest rate with no more loss than this: 0, 0.5%
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub loss_bound: Option<String>,
    /// Messages, calls or round trips per burst; several make a trial of each, after the rates. Under `channel`,
    /// `rpc` and `pingpong` all of a burst are due when it begins, and the bursts of all topics or clients begin together
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub demand: Option<String>,
    /// Milliseconds from the begin of a burst to the begin of the next [default: 5]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub recovery: Option<String>,
    /// Under `channel`: topics, each with a link and a publishing thread of its own [default: 1]
    #[arg(long, value_name = "N")]
    pub topics: Option<u32>,
    /// Under `channel`: publishers of one topic, each with a link and a publishing thread of its own, at --rate each, and
    /// one subscriber [default: 1]
    #[arg(long, value_name = "N")]
    pub publishers: Option<u32>,
    /// Publish what was recorded in an MCAP file, as ROS 2 and Foxglove write it, under pattern `channel`: a topic for each
    /// of its topics, messages of the same sizes at the same times; with `--pattern rpc` they are calls, and each topic is a
    /// client
    #[arg(long, value_name = "FILE.mcap")]
    pub from_recording: Option<PathBuf>,
    /// Play the recording so many times faster than it was recorded, 0.001 to 1000 [default: 1]
    #[arg(long, value_name = "FACTOR", requires = "from_recording", allow_negative_numbers = true)]
    pub speed: Option<f64>,
    /// Under `channel`, `rpc` and `log`: the processors that both processes are confined to, as 0-2; the kernel chooses
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub cpus: Option<String>,
    /// Under `rpc`: when a client makes its next call: as soon as it is answered, or at a fixed rate or in bursts
    /// [default: bench, or fixed-freq with --rate or --demand]
    #[arg(long, value_parser = words_of(&[("bench", Mode::Bench), ("fixed-freq", Mode::FixedFreq)]))]
    pub mode: Option<Mode>,
    /// Under `rpc`: clients that call beside each other, each with a link and a thread of its own; several numbers make a
    /// sub-experiment of each [default: 1]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub clients: Option<String>,
    /// How often everything is repeated, with fresh processes and in random order
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub rounds: Option<u32>,
    /// Do not measure the floor, our own shared memory, beside the others
    #[arg(long)]
    pub no_floor: bool,
    #[command(flatten)]
    pub allowed: AllowedArgs,
}

/// What is no failure of a run.
#[derive(Args, Clone, Copy, Default)]
pub struct AllowedArgs {
    /// That nothing came of what was sent is no failure: the exit code says nothing of it
    #[arg(long)]
    pub allow_loss: bool,
    /// That messages came damaged is no failure: the exit code says nothing of it, and no results are left out for it
    #[arg(long)]
    pub allow_damage: bool,
}

/// How round trips are measured, whatever the experiment.
#[derive(Args, Clone, Default)]
pub struct MeasuringArgs {
    /// Payloads in bytes: 1k,64k,4M or 1k..4M (doubling); k = 1024
    #[arg(long, value_name = "LIST")]
    pub payloads: Option<String>,
    /// Round trips per payload; under `channel` messages per topic, and under `rpc` calls per client, at each
    /// payload and rate; under `log` calls of the logger [default there: 100000]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    pub samples: Option<u64>,
    /// How both sides wait
    #[arg(long, value_parser = words::<Wait>(&["poll", "block", "callback"]))]
    pub wait: Option<Wait>,
    /// What is done with the payload behind the 16-byte header: nothing, its first cache line, or all of it
    #[arg(long, value_parser = words::<Touch>(&["none", "header", "full"]))]
    pub touch: Option<Touch>,
    /// Round trips before those, not counted [default: 1000 or a tenth of the samples, whichever is less]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub warmup: Option<u64>,
    /// Most time that one payload may take
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub time_cap: Option<f64>,
    /// Time without an answer after which a message counts as lost, or a call as timed out [default: 1, of calls 3]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub loss_timeout: Option<f64>,
    /// The leader's processor, or `none` to leave it to the kernel [default: apart from the follower's]
    #[arg(long, value_name = "CPU")]
    pub leader_cpu: Option<Cpu>,
    /// The follower's processor, or `none`; of several followers all have it
    #[arg(long, value_name = "CPU")]
    pub follower_cpu: Option<Cpu>,
    /// Most times that a payload is measured whose hand-over probe changes: 1 to 3 [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub attempts: Option<u32>,
    /// Do not look for hiccups before and after, which keeps all processors busy for 0.2 to 1 s
    #[arg(long)]
    pub no_spin: bool,
    /// Seed of the random order
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Files of every sample, besides histograms: samples, eprosima, parquet, several by comma; or none [default: samples]
    #[arg(long, value_name = "LIST")]
    pub raw: Option<Raw>,
    /// Keep figures of all topics or clients, not of the first 16 and the slowest
    #[arg(long, hide_short_help = true, value_parser = words_of(&[("few", Streams::Few), ("all", Streams::All)]))]
    pub streams: Option<Streams>,
    /// Start daemons that are not running (and stop them), or require that they run
    #[arg(long, value_parser = words_of(&[("start", Daemons::Start), ("require", Daemons::Require)]))]
    pub daemons: Option<Daemons>,
}

/// Where results go and what is said.
#[derive(Args)]
pub struct OutputArgs {
    /// The results folder; by default `results/<date and time>`
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print the manifest as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub shown: ShownArgs,
}

/// How much the first screen shows.
#[derive(Args, Clone, Copy, Default)]
#[command(next_help_heading = "First screen")]
pub struct ShownArgs {
    /// Print a table of every figure in its place, one line for each payload
    #[arg(long)]
    pub wide: bool,
    /// Print intervals at 95 % below the figures of the first screen
    #[arg(long)]
    pub intervals: bool,
    /// Print every note, not one line for each kind
    #[arg(long)]
    pub notes: bool,
    /// Print what the columns mean
    #[arg(long)]
    pub legend: bool,
}

#[derive(Args, Default)]
pub struct PluginArgs {
    /// A transport of your own: a shared library built against tripmeter_transport.h; may be repeated
    #[arg(long, value_name = "FILE")]
    pub plugin: Vec<PathBuf>,
}

/// List what can be measured here: versions, variants, limits, and what is missing
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter transports
  tripmeter transports uds iceoryx
  tripmeter transports --json | jq '.[].system'

Plugins tripmeter_<system>.so are found in the folders of the variable TRIPMETER_TRANSPORTS (with
colons between them), in `transports` beside this program and beside its folder, and in
$XDG_DATA_HOME/tripmeter/transports. Of the latter three those are left out, and
named, that somebody else can write.")]
pub struct TransportsArgs {
    /// Systems to list; all of them if none is named
    #[arg(value_name = "SYSTEM")]
    pub systems: Vec<String>,
    /// Print everything known as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub plugins: PluginArgs,
}

/// Install what a system needs from the Python package index, for this user, in a folder of tripmeter's own
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter setup ecal
  tripmeter setup --all

It makes a Python virtual environment with pinned packages in $XDG_DATA_HOME/tripmeter/python/SYSTEM
(or ~/.local/share/tripmeter/python/SYSTEM), and prints that folder. What is there already is left
alone; what was interrupted is made anew. To undo it, remove the folder. Needs python3 with its
module venv (Debian: python3-venv) and the package index.

Exit codes: 0 good, 64 wrong usage, 69 Python, its module venv or the network is missing, 73 cannot
create.")]
pub struct SetupArgs {
    /// Systems, as `tripmeter transports` names them
    #[arg(value_name = "SYSTEM", required_unless_present = "all", conflicts_with = "all")]
    pub systems: Vec<String>,
    /// All systems that need something from there
    #[arg(long)]
    pub all: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// List the experiments that ship with tripmeter, or print one
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter presets
  tripmeter presets iceperf > mine.toml")]
pub struct PresetsArgs {
    /// The preset to print
    pub name: Option<String>,
}

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Columns of text.
    Text,
    /// A Markdown table.
    Markdown,
    /// Numbers in the units of their figures, with their intervals and marks.
    Json,
    /// The same, one row each.
    Csv,
}

/// Print the tables of results folders again
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter table results/2026-01-31_12-00-00
  tripmeter table results/2026-01-31_12-00-00 --wide
  tripmeter table results/* --tables iceperf
  tripmeter table results/2026-01-31_12-00-00 --tables figures --format csv
  tripmeter table results/a results/b --tables ecal

The table `ecal` takes its columns from all folders given, and says which is whose.

With several folders or tables, --format json prints one array of objects with
`folder`, `table` and `blocks`. Text and markdown have a heading for each folder.
--format csv is of one table of one folder, or of `figures` of several folders,
which has a column `folder` then.")]
pub struct TableArgs {
    /// Results folders
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Which tables [default: those of the run's preset, else screen]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        value_parser = words_of(&[("iceperf", TableKind::Iceperf), ("ecal", TableKind::Ecal), ("aimrt", TableKind::Aimrt),
            ("screen", TableKind::Screen), ("all", TableKind::All), ("figures", TableKind::Figures)]))]
    pub tables: Vec<TableKind>,
    /// How tables are written [default: text; aimrt: markdown]
    #[arg(long, value_name = "FORMAT",
        value_parser = words_of(&[("text", TableFormat::Text), ("markdown", TableFormat::Markdown),
            ("json", TableFormat::Json), ("csv", TableFormat::Csv)]))]
    pub format: Option<TableFormat>,
    #[command(flatten)]
    pub shown: ShownArgs,
}

/// Print the completions of a shell
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter completions bash > ~/.local/share/bash-completion/completions/tripmeter")]
pub struct CompletionsArgs {
    pub shell: clap_complete::Shell,
}

/// A processor, or none in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    Any,
    Number(usize),
}

impl FromStr for Cpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Cpu::Any),
            _ => text.parse().map(Cpu::Number).map_err(|_| "write the number of a processor, or none".to_owned()),
        }
    }
}

/// A share from 0 to below 1, written as `2%` or `0.02`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
        match number.parse::<f64>().map(|number| number / unit) {
            Ok(share) if (0.0..1.0).contains(&share) => Ok(Self(share)),
            _ => Err("write a share from 0 to below 1, as 2% or 0.02".to_owned()),
        }
    }
}

/// A parser of these words, which are all words of `T`.
fn words<T: FromStr + Clone + Send + Sync + 'static>(
    words: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words)
        .map(|word| T::from_str(&word).unwrap_or_else(|_| unreachable!("'{word}' is a word of the type")))
}

/// A parser of these words.
fn words_of<T: Copy + Send + Sync + 'static>(pairs: &'static [(&'static str, T)]) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(pairs.iter().map(|(word, _)| *word)).map(|word| {
        let pair = pairs.iter().find(|(other, _)| *other == word);
        pair.expect("only these words are let through").1
    })
}
