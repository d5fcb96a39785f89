//! Arguments of the measuring commands: `run`, a command per pattern, and `follow`. [`super::experiment`] holds the
//! requests made from them.

use super::parsers::{text_path, words, words_of};
use super::sorting::SortArgs;
use super::workload::WorkloadArgs;
use clap::{Arg, Args, Id, Subcommand};
use std::path::PathBuf;
use std::str::FromStr;
use tripmeter_model::interference::{BackgroundLoad, Sched};
use tripmeter_model::plan::{Daemons, Raw, Streams};
use tripmeter_model::{Pattern, Touch, Wait};

const CODES: &str = "Exit codes: 0 good, 1 refused by --strict, 64 wrong usage, 65 wrong data, 66 no
such file, 69 something is missing, 70 our fault, 73 cannot create, 75 the
results are partial: some sub-experiments failed, a payload has no message at an
offered load, messages were damaged (unless --allow-damage) or all were lost
(unless --allow-loss), or a named transport is missing; 130 interrupted.";

/// Formats examples for the help.
macro_rules! examples {
    ($($line:literal)+) => { concat!("Examples:\n", $("  ", $line, "\n",)+) };
}

fn with_codes(examples: &str) -> String {
    format!("{examples}\n{CODES}")
}

/// Flags of [`MeasuringArgs`], and more. `no_spin` is left out, as it concerns the machine's audit.
pub fn measuring_and(more: &[&'static str]) -> Vec<Id> {
    let all = MeasuringArgs::augment_args(clap::Command::new(""));
    let measuring = all.get_arguments().map(|argument| argument.get_id().clone()).filter(|id| id != "no_spin");
    measuring.chain(more.iter().map(|id| Id::from(*id))).collect()
}

/// Flags that must be repeated to resume a run, which would otherwise log in to hosts that somebody else chose.
const GIVEN_AGAIN: [&str; 4] = ["to", "push", "interface", "to_interface"];

/// Flags that a resumed run takes from its plan.
fn of_a_plan() -> Vec<Id> {
    let mut flags =
        measuring_and(&["experiment", "only", "rounds", "repeat_for", "no_floor", "profile", "print", "output"]);
    flags.retain(|flag| !GIVEN_AGAIN.contains(&flag.as_str()));
    flags
}

/// Run an experiment: a preset or a file [default: quick]
#[derive(Args)]
#[command(after_help = examples!("tripmeter run" "tripmeter run iceperf -n 1000" "tripmeter run mine.toml --rounds 5"))]
#[command(after_long_help = with_codes(examples!(
    "tripmeter run                                every system here, in about a minute"
    "tripmeter run iceperf -n 1000"
    "tripmeter run iceperf --only iceoryx,uds"
    "tripmeter run ecal --print > mine.toml"
    "tripmeter run mine.toml --rounds 5 -o results/mine"
    "tripmeter run --resume results/mine          what is missing in it"
)))]
pub struct RunArgs {
    /// The experiment; see `tripmeter list presets`
    #[arg(value_name = "PRESET|FILE")]
    pub experiment: Option<String>,
    /// Measure only these transports
    ///
    /// Sub-experiments of these transports are kept. Transports that have none are measured with the experiment's
    /// settings.
    #[arg(long, value_name = "LIST")]
    pub only: Vec<String>,
    /// Measure what is missing in a results folder
    ///
    /// This continues a run that was killed or interrupted, or in which a sub-experiment failed. The plan stays the
    /// same; finished payloads are not measured again. For safety, repeat the flags for other hosts, and each setting
    /// that names a file or a host (--to, --push, --setting). Somebody else may have made the folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = of_a_plan())]
    pub resume: Option<PathBuf>,
    /// Recording of the resumed results of `tripmeter replay`; repeat it for several files
    #[arg(long, value_name = "FILE", requires = "resume", hide_short_help = true)]
    pub recording: Vec<PathBuf>,
    /// Setting of the resumed results that names a file or a host; repeat it for each
    #[arg(long, value_name = "SYSTEM?NAME=VALUE", requires = "resume", hide_short_help = true)]
    pub setting: Vec<String>,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
    #[command(flatten)]
    pub running: RunningArgs,
}

/// Commands that measure a pattern.
#[derive(Subcommand)]
pub enum PatternCommand {
    /// Measure round trips
    #[command(after_help = examples!("tripmeter ping uds tcp --payloads 1k,64k" "tripmeter ping 'uds/*' --wait block"))]
    #[command(after_long_help = with_codes(examples!(
        "tripmeter ping uds tcp --payloads 1k..4M"
        "tripmeter ping 'uds/*' --wait block -o results/sockets"
        "tripmeter ping 'mq?packet=4096' --json"
        "tripmeter ping fastdds/udp --profile mine.xml"
        "tripmeter ping uds tcp --payloads 1k --rate 10,1000 -n 200"
        "tripmeter ping shm --followers 3 --payloads 1k,64k"
        "tripmeter ping uds tcp --clients 1,4"
        "tripmeter ping iceoryx --rendezvous         with `tripmeter follow` in another terminal"
    )))]
    Ping(PatternArgs),
    /// Measure one-way latency at a fixed rate
    #[command(mut_arg("duration", |duration| duration.requires("topic").hide_short_help(true)))]
    #[command(after_help = examples!("tripmeter publish uds shm --topics 4 --rate 1000" "tripmeter publish shm --followers 8"))]
    #[command(after_long_help = with_codes(examples!(
        "tripmeter publish uds shm --payloads 1k --topics 4 -n 5000"
        "tripmeter publish tcp --rate 100,1000,10000 --wait block"
        "tripmeter publish uds udp --publishers 4 --rate 250"
        "tripmeter publish shm --followers 8 --rate 20"
        "tripmeter publish uds --topic /camera:2M:30 --topic /imu:200:500"
    )))]
    Publish(PatternArgs),
    /// Measure calls: a request and its answer
    #[command(after_help = examples!("tripmeter call uds tcp --clients 1,4,8" "tripmeter call grpc --rate 1000"))]
    #[command(after_long_help = with_codes(examples!(
        "tripmeter call uds tcp --payloads 1k --clients 1,4,8"
        "tripmeter call grpc http --rate 1000 --clients 4"
        "tripmeter call uds --demand 4 --recovery 5"
    )))]
    Call(PatternArgs),
    /// Measure messages per second, and what is lost
    #[command(after_help = examples!("tripmeter throughput uds shm" "tripmeter throughput udp --loss-bound 0.5%"))]
    #[command(after_long_help = with_codes(examples!(
        "tripmeter throughput uds shm --payloads 1k,64k"
        "tripmeter throughput udp --loss-bound 0.5% --duration 2"
        "tripmeter throughput tcp --rate 1000,max"
        "tripmeter throughput tcp --demand 100,1000 --recovery 5,10"
        "tripmeter throughput uds tcp --topics 4"
    )))]
    Throughput(PatternArgs),
    /// Measure the calls of a logger, and count its lines
    #[command(alias = "logger", mut_args = |argument| hidden(argument, &["touch"]))]
    #[command(after_help = examples!("tripmeter log" "tripmeter log spdlog 'write/*' --payloads 32..8k"))]
    #[command(after_long_help = with_codes(examples!(
        "tripmeter log"
        "tripmeter log spdlog 'write/*' --payloads 32..8k -n 1000"
    )))]
    Log(PatternArgs),
}

/// Arguments of a command that measures a pattern.
#[derive(Args)]
pub struct PatternArgs {
    #[command(flatten)]
    pub transports: TransportArgs,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Confine both processes to these CPUs, e.g. 0-2; the kernel chooses among them
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, hide_short_help = true)]
    pub cpus: Option<String>,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
    #[command(flatten)]
    pub running: RunningArgs,
}

impl PatternCommand {
    pub fn parts(&self) -> (Pattern, &PatternArgs) {
        match self {
            Self::Ping(args) => (Pattern::Ping, args),
            Self::Publish(args) => (Pattern::Publish, args),
            Self::Call(args) => (Pattern::Call, args),
            Self::Throughput(args) => (Pattern::Throughput, args),
            Self::Log(args) => (Pattern::Log, args),
        }
    }
}

/// Hides flags that do not apply to a command; if given, they are refused with the reason.
pub fn hidden(argument: Arg, flags: &[&str]) -> Arg {
    let is_hidden = flags.contains(&argument.get_id().as_str());
    if is_hidden { argument.hide(true) } else { argument }
}

/// Publish a recording again, with its times and sizes
#[derive(Args)]
#[command(mut_args = |argument| hidden(argument, &["payloads", "samples"]))]
#[command(mut_arg("one-way", |one_way| one_way.requires("as_calls")))]
#[command(mut_arg("followers", |followers| followers.conflicts_with("as_calls")))]
#[command(after_help = examples!("tripmeter replay drive.mcap uds shm" "tripmeter replay drive.mcap grpc --as-calls"))]
#[command(after_long_help = with_codes(examples!(
    "tripmeter replay drive.mcap uds shm"
    "tripmeter replay drive.mcap ros2/shm --speed 2"
    "tripmeter replay drive/ zenoh --topics /imu,/camera --from 10 --until 20"
    "tripmeter replay drive.mcap grpc --as-calls"
)))]
pub struct ReplayArgs {
    /// The recording, in MCAP as ROS 2 and Foxglove write it
    ///
    /// A file .mcap, .mcap.zstd or .mcap.gz, or a folder of rosbag2. Further words with these endings are files too;
    /// several files are played as one, in the order of their messages' times.
    #[arg(value_name = "FILE.mcap|FOLDER")]
    pub recording: PathBuf,
    /// Play N times faster [default: 1]
    ///
    /// From 0.001 to 1000.
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    pub speed: Option<f64>,
    /// Play only these topics: /imu,/camera
    // Its identifier is not that of the flag of the workload, which is a number.
    #[arg(long = "topics", id = "played", value_name = "LIST", value_delimiter = ',')]
    pub topics: Vec<String>,
    /// Start this many seconds after the first message [default: 0]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub from: Option<f64>,
    /// Stop this many seconds after the first message [default: the end]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub until: Option<f64>,
    /// Send each message as a call; each topic is a client
    #[arg(long)]
    pub as_calls: bool,
    #[command(flatten)]
    pub common: PatternArgs,
}

/// Answer a measuring command that waits with --rendezvous
#[derive(Args)]
#[command(after_help = examples!("tripmeter follow" "tripmeter follow --rendezvous=lab --timeout 600"))]
#[command(after_long_help = "Examples:
  tripmeter follow                     in one terminal,
  tripmeter ping uds --rendezvous      in another, in either order
  tripmeter follow --rendezvous=lab --timeout 600

The follower takes its settings from the leader, and ends when the leader's
experiment is over.

Exit codes: 0 good, 64 wrong usage, 69 no leader came, 70 our fault, 130
interrupted.")]
pub struct FollowArgs {
    /// Name at which leader and follower meet
    #[arg(long = "rendezvous", value_name = "NAME", default_value = "default")]
    pub name: String,
    /// Seconds to wait for a leader
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u32,
    #[command(flatten)]
    pub plugins: PluginArgs,
}

/// Which transports are measured.
#[derive(Args, Clone, Default)]
pub struct TransportArgs {
    /// `SYSTEM[/VARIANT][?KEY=VALUE&...]` [default: all here]
    ///
    /// `tripmeter list` lists them. `uds/*` stands for every variant of a system, `*` for every system here.
    #[arg(value_name = "TRANSPORT")]
    pub names: Vec<String>,
}

/// Other hosts.
#[derive(Args, Clone, Default)]
pub struct HostsArgs {
    /// Run a follower on another host, named as for ssh; repeat it for several
    ///
    /// The control channel uses `ssh` without a password prompt, so keys or ~/.ssh/config must suffice. The same
    /// tripmeter must be installed there.
    #[arg(long, value_name = "[USER@]HOST", hide_short_help = true)]
    pub to: Vec<String>,
    /// Address or interface here that the hosts reach [default: as ssh]
    #[arg(long, value_name = "ADDRESS|NAME", requires = "to", hide_short_help = true)]
    pub interface: Option<String>,
    /// Address or interface there: one for all hosts, or one for each [default: as ssh]
    #[arg(long, value_name = "ADDRESS|NAME", requires = "to", hide_short_help = true)]
    pub to_interface: Vec<String>,
    /// Copy this program and the needed plugins to a cache folder there, if missing
    #[arg(long, requires = "to", hide_short_help = true)]
    pub push: bool,
    /// Largest clock error, in microseconds, at which one-way latencies are reported [default: 100]
    #[arg(long, value_name = "US", requires = "to", allow_negative_numbers = true, hide_short_help = true)]
    pub max_clock_error: Option<f64>,
}

/// How a message is measured, whatever the pattern.
#[derive(Args, Clone, Default)]
pub struct MeasuringArgs {
    /// Payloads: 1k,64k,4M or 1k..4M; k = 1024 bytes
    ///
    /// A range doubles from its first size to its last.
    #[arg(long, value_name = "LIST")]
    pub payloads: Option<String>,
    /// Samples per payload
    ///
    /// That is, round trips, messages per topic, or calls per client.
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    pub samples: Option<u64>,
    /// Wait by poll, block or callback
    #[arg(long, hide_possible_values = true, value_parser = words::<Wait>(&["poll", "block", "callback"]))]
    pub wait: Option<Wait>,
    /// Write and read none, the first cache line or all of the payload after the 16-byte header
    #[arg(long, value_parser = words::<Touch>(&["none", "header", "full"]), hide_short_help = true)]
    pub touch: Option<Touch>,
    #[command(flatten)]
    pub interference: InterferenceArgs,
    /// Uncounted messages before the samples [default: 1000 or a tenth of the samples, whichever is less]
    #[arg(long, value_name = "N", allow_negative_numbers = true, hide_short_help = true)]
    pub warmup: Option<u64>,
    /// Time limit of each payload in seconds; the warm-up may use a fifth of it
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, hide_short_help = true)]
    pub time_cap: Option<f64>,
    /// Seconds without an answer after which a message is lost or a call times out [default: 1; calls: 3]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, hide_short_help = true)]
    pub loss_timeout: Option<f64>,
    #[command(flatten)]
    pub pinning: PinningArgs,
    /// Attempts at a payload if the core-to-core latency changes meanwhile: 1 to 3 [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true, hide_short_help = true)]
    pub attempts: Option<u32>,
    /// Skip the hiccup checks before and after, which keep all CPUs busy for 0.2 to 1 s
    #[arg(long, hide_short_help = true)]
    pub no_spin: bool,
    /// Seed of the random order
    #[arg(long, value_name = "N", allow_negative_numbers = true, hide_short_help = true)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub kept: KeptArgs,
    /// Start daemons that are not running (and stop them afterwards), or require that they run
    #[arg(long, value_parser = words_of(&[("start", Daemons::Start), ("require", Daemons::Require)]), hide_short_help = true)]
    pub daemons: Option<Daemons>,
    #[command(flatten)]
    pub hosts: HostsArgs,
}

/// Scheduling, and load beside the measurement.
#[derive(Args, Clone, Default)]
pub struct InterferenceArgs {
    /// Scheduling of both processes: normal (other) or real time (fifo:1 to fifo:98) [default: other]
    #[arg(long, value_name = "CLASS", hide_short_help = true)]
    pub sched: Option<Sched>,
    /// Load beside the measurement: cpu:N (N busy threads), memory, network, several by comma; or none
    ///
    /// Each --background makes its own sub-experiment: `--background none --background cpu:1` compares load and rest.
    #[arg(long, alias = "load", value_name = "LIST", hide_short_help = true)]
    pub background: Vec<BackgroundLoad>,
}

/// A CPU for each side.
#[derive(Args, Clone, Default)]
pub struct PinningArgs {
    /// The leader's CPU, or `none` to leave it to the kernel [default: apart from the follower's]
    #[arg(long, value_name = "CPU", hide_short_help = true)]
    pub leader_cpu: Option<Cpu>,
    /// The CPU of the followers, or `none`
    #[arg(long, value_name = "CPU", hide_short_help = true)]
    pub follower_cpu: Option<Cpu>,
}

/// Samples and figures that results keep.
#[derive(Args, Clone, Default)]
pub struct KeptArgs {
    /// Formats of the files with all samples: samples, parquet, eprosima (round trips only), several by comma; or none
    /// [default: samples]
    #[arg(long, value_name = "LIST", hide_short_help = true)]
    pub raw: Option<Raw>,
    /// Keep samples of only the newest N rounds; figures and histograms of all rounds are kept
    #[arg(long, value_name = "ROUNDS", allow_negative_numbers = true, hide_short_help = true)]
    pub keep_samples: Option<u32>,
    /// Topics and clients that get their own figures: few (the first 16 and the slowest) or all [default: few]
    #[arg(long, value_parser = words_of(&[("few", Streams::Few), ("all", Streams::All)]), hide_short_help = true)]
    pub streams: Option<Streams>,
}

/// What every measuring command but `ab` has.
#[derive(Args, Default)]
pub struct RunningArgs {
    /// Number of rounds (each repeats the whole experiment)
    ///
    /// Each round uses fresh processes and a random order.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub rounds: Option<u32>,
    /// Repeat everything for this time: 90s, 10m, 24h
    ///
    /// No round starts after this time. At most 10080 rounds and 100000 trials are made; short rounds are spaced out.
    #[arg(long = "for", id = "repeat_for", value_name = "TIME", value_parser = seconds, conflicts_with = "rounds",
        allow_hyphen_values = true, hide_short_help = true)]
    pub repeat_for: Option<f64>,
    /// Do not also measure the floor (our own shared memory)
    #[arg(long, hide_short_help = true)]
    pub no_floor: bool,
    /// Profile in the system's own format, for all transports with a setting `profile`
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub profile: Option<PathBuf>,
    #[command(flatten)]
    pub allowed: AllowedArgs,
    /// If `tripmeter doctor` warns or fails, measure nothing and exit with code 1
    #[arg(long, conflicts_with = "no_spin", hide_short_help = true)]
    pub strict: bool,
    /// Print the experiment file and exit
    ///
    /// `tripmeter run FILE` runs it.
    #[arg(long)]
    pub print: bool,
    /// Wait for a follower started by hand: `tripmeter follow`
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "default",
        conflicts_with = "to", hide_short_help = true)]
    pub rendezvous: Option<String>,
    /// Seconds to wait for that follower
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "rendezvous", hide_short_help = true)]
    pub rendezvous_timeout: u32,
    #[command(flatten)]
    pub output: OutputArgs,
    /// Show progress, results so far and the load of the machine full screen; q ends the run
    #[arg(long, conflicts_with = "quiet")]
    pub live: bool,
    #[command(flatten)]
    pub shown: ShownArgs,
}

/// Parses `90`, `90s`, `10m` or `24h` to seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) if text.ends_with('h') => (number, 3600.0),
        Some(number) if text.ends_with('m') => (number, 60.0),
        Some(number) => (number, 1.0),
        None => (text, 1.0),
    };
    let number: f64 = number.parse().map_err(|_| "expected a time, e.g. 90s, 10m or 24h".to_owned())?;
    Ok(number * unit)
}

/// Losses and damage that are not a failure of a run.
#[derive(Args, Clone, Copy, Default)]
pub struct AllowedArgs {
    /// Exit with code 0 even if all messages of a payload are lost
    #[arg(long, hide_short_help = true)]
    pub allow_loss: bool,
    /// Exit with code 0, and use the results, even if messages are damaged
    #[arg(long, hide_short_help = true)]
    pub allow_damage: bool,
}

/// Where the results of a measuring command go, and how it prints them.
#[derive(Args, Default)]
pub struct OutputArgs {
    /// Results folder [default: results/DATE_TIME]
    #[arg(id = "output", short, long, value_name = "DIR", value_parser = text_path())]
    pub folder: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Print no progress to standard error
    ///
    /// Without `-o` or `--json`, the last line on standard output names the results folder.
    #[arg(short, long)]
    pub quiet: bool,
    /// Do not write report.html into the results folder
    #[arg(long, hide_short_help = true)]
    pub no_report: bool,
    #[command(flatten)]
    pub sorting: SortArgs,
    #[command(flatten)]
    pub plugins: PluginArgs,
}

/// How much the first screen shows.
#[derive(Args, Clone, Copy, Default)]
#[command(next_help_heading = "First screen")]
pub struct ShownArgs {
    /// Print every figure, one line for each payload
    #[arg(long)]
    pub wide: bool,
    /// Print confidence intervals at 95 % below the figures
    #[arg(long)]
    pub intervals: bool,
    /// Print every note instead of one line per kind
    #[arg(long)]
    pub notes: bool,
    /// Print what the columns mean
    #[arg(long)]
    pub legend: bool,
}

/// Transports that do not come with the program.
#[derive(Args, Default)]
pub struct PluginArgs {
    /// Plugin with a transport, a shared library built against tripmeter_transport.h; may be repeated
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub plugin: Vec<PathBuf>,
}

/// A CPU, or any CPU.
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
            _ => text.parse().map(Cpu::Number).map_err(|_| "expected a CPU number, or none".to_owned()),
        }
    }
}
