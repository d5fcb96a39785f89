//! The command line as typed.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::str::FromStr;
use tripmeter_model::experiment::TableKind;
use tripmeter_model::plan::{Daemons, Raw};
use tripmeter_model::{Pattern, Touch, Wait};

/// Measures message paths: how long a message takes from one program to another, over every way there is here.
#[derive(Parser)]
#[command(name = "tripmeter", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Examples:
  tripmeter run                        every system here, in about a minute
  tripmeter run --preset iceperf       the benchmark of iceoryx
  tripmeter transports                 what can be measured here, and what is missing")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Run(RunArgs),
    Leader(LeaderArgs),
    Follower(FollowerArgs),
    Transports(TransportsArgs),
    Presets(PresetsArgs),
    Table(TableArgs),
    Completions(CompletionsArgs),
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
  tripmeter run experiment.toml --rounds 5

Exit codes: 0 good, 64 wrong usage, 65 wrong data, 66 no such file, 69 something is missing,
70 our fault, 73 cannot create, 75 some sub-experiments failed or were left out (the rest is there),
130 interrupted.")]
pub struct RunArgs {
    #[command(flatten)]
    pub experiment: ExperimentArgs,
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
    /// Seconds to wait for a follower
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u32,
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

#[derive(Args)]
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
    /// Payloads in bytes: 1k,64k,4M or 1k..4M (doubling); k = 1024
    #[arg(long, value_name = "LIST")]
    pub payloads: Option<String>,
    /// Round trips per payload
    #[arg(short = 'n', long, value_name = "N")]
    pub samples: Option<u64>,
    /// What is done
    #[arg(long, value_parser = words::<Pattern>(&["pingpong", "channel", "rpc", "throughput", "log"]))]
    pub pattern: Option<Pattern>,
    /// How both sides wait
    #[arg(long, value_parser = words::<Wait>(&["poll", "block", "callback"]))]
    pub wait: Option<Wait>,
    /// What is done with the payload behind the 16-byte header: nothing, its first cache line, or all of it
    #[arg(long, value_parser = words::<Touch>(&["none", "header", "full"]))]
    pub touch: Option<Touch>,
    /// Round trips before those, not counted [default: 1000 or a tenth of the samples, whichever is less]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// Most time that one payload may take
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub time_cap: Option<f64>,
    /// Time without an answer after which a message counts as lost [default: 1]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub loss_timeout: Option<f64>,
    /// The leader's processor, or `none` to leave it to the kernel [default: apart from the follower's]
    #[arg(long, value_name = "CPU")]
    pub leader_cpu: Option<Cpu>,
    /// The follower's processor, or `none`
    #[arg(long, value_name = "CPU")]
    pub follower_cpu: Option<Cpu>,
    /// How often everything is repeated, with fresh processes and in random order
    #[arg(long, value_name = "N")]
    pub rounds: Option<u32>,
    /// The results folder; by default `results/<date and time>`
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Seed of the random order
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// What is kept of every sample, besides histograms
    #[arg(long, value_parser = words_of(&[("csv", Raw::Csv), ("none", Raw::None)]))]
    pub raw: Option<Raw>,
    /// Do not measure the floor, our own shared memory, beside the others
    #[arg(long)]
    pub no_floor: bool,
    /// Start daemons that are not running (and stop them), or require that they run
    #[arg(long, value_parser = words_of(&[("start", Daemons::Start), ("require", Daemons::Require)]))]
    pub daemons: Option<Daemons>,
    /// Print the manifest as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Args)]
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
$XDG_DATA_HOME/tripmeter/transports.")]
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

/// List the experiments that ship with tripmeter, or print one
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter presets
  tripmeter presets iceperf > mine.toml")]
pub struct PresetsArgs {
    /// The preset to print
    pub name: Option<String>,
}

/// Print the tables of results folders again
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter table results/2026-01-31_12-00-00
  tripmeter table results/* --tables iceperf")]
pub struct TableArgs {
    /// Results folders
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Which tables [default: those of the run's preset, else all]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        value_parser = words_of(&[("iceperf", TableKind::Iceperf), ("all", TableKind::All)]))]
    pub tables: Vec<TableKind>,
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
