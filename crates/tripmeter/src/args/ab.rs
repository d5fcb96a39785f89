//! Arguments of `tripmeter ab`.

use super::measure::{MeasuringArgs, OutputArgs};
use super::workload::WorkloadArgs;
use crate::error::CliError;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, value_parser};
use std::path::PathBuf;
use tripmeter_analysis::flags::{FiguresArgs, Share};
use tripmeter_model::experiment::{Common, WrittenRecording};
use tripmeter_model::pace::LoadKind;
use tripmeter_model::pattern::{Axis, PatternFacts, facts};
use tripmeter_model::secret::secret;
use tripmeter_model::{Pattern, exit};

/// Measure two sides in pairs, and judge whether B is slower than A
#[derive(Args)]
#[command(mut_arg("output", |output| output.help("Results folder; an unfinished run in it is resumed")))]
#[command(after_help = "Examples:
  tripmeter ab uds 'uds?packet=4096'
  tripmeter ab uds tcp --effect 5% --budget 1200 -o results/uds-tcp")]
#[command(after_long_help = "Examples:
  tripmeter ab uds 'uds?packet=4096'
  tripmeter ab uds/stream tcp --payloads 1k..64k --wait block --margin 5%
  tripmeter ab uds tcp --effect 5% --budget 1200 -o results/uds-tcp
  tripmeter ab uds --rounds 10
  tripmeter ab zenoh ecal --pattern publish --rate 100 --followers 3
  tripmeter ab uds tcp --pattern call --clients 4 --figures service_rtt_ns.p999
  tripmeter ab iceoryx --transports-a build/old --transports-b build/new
  tripmeter ab zeromq --env-b LD_LIBRARY_PATH=/opt/zmq-4.3.5

Each round measures both sides once, in fresh processes and random order. Only
the ratios B / A of each pair of runs count, for each payload: of the median and
the 99th percentile of the latency, or of the rate of throughput. The verdict
follows from the confidence interval of the ratio: regressed if it lies above
1 + margin, improved if below 1 - margin, equivalent if between both, else
inconclusive. Of the changes reported, at most 5 % are expected to be false
alarms, however many payloads there are. Without --rounds, at least 10 rounds
show how much the figures differ from run to run; more follow until --effect
would be detected in every figure, or the budget is spent.

The results folder is that of `tripmeter run` with rounds (sub-experiments `a`
and `b`), plus `ab.json`, which is rewritten after each round. After a kill, the
same command with -o DIR continues.

Exit codes: 0 nothing regressed, 1 something did, 64 wrong usage, 65 wrong
data, 66 no such file, 69 something is missing, 70 our fault, 73 cannot create,
75 a side failed in some rounds (the verdicts use the others), 130
interrupted.")]
pub struct AbArgs {
    #[command(flatten)]
    pub sides: SidesArgs,
    #[command(flatten)]
    pub workload: AbWorkloadArgs,
    #[command(flatten)]
    pub figures: FiguresArgs,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
    /// Ignore changes up to this share
    #[arg(long, value_name = "SHARE", default_value = "2%", allow_hyphen_values = true)]
    pub margin: Share,
    /// Detect a change of this share; it must exceed the margin
    #[arg(long, value_name = "SHARE", default_value = "10%", allow_hyphen_values = true)]
    pub effect: Share,
    /// Probability of detecting it, at least 50%
    #[arg(long, value_name = "SHARE", default_value = "95%", allow_hyphen_values = true)]
    pub power: Share,
    /// Measure exactly N rounds
    #[arg(long, value_name = "N", conflicts_with = "budget", allow_negative_numbers = true)]
    pub rounds: Option<u32>,
    /// Start no new round after this time
    ///
    /// The minimum number of rounds for a verdict is measured in any case.
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0, allow_negative_numbers = true)]
    pub budget: f64,
    #[command(flatten)]
    pub output: OutputArgs,
    /// Print confidence intervals of A and B below their figures
    ///
    /// This widens the table from 80 to up to 88 columns.
    #[arg(long)]
    pub intervals: bool,
    /// Show progress, results so far and the load of the machine full screen; q ends the run
    #[arg(long, conflicts_with = "quiet")]
    pub live: bool,
}

/// The two sides.
#[derive(Args, Default)]
pub struct SidesArgs {
    /// The reference: `SYSTEM[/VARIANT][?KEY=VALUE&...]`
    #[arg(value_name = "A")]
    pub a: String,
    /// The transport to judge [default: A]
    #[arg(value_name = "B")]
    pub b: Option<String>,
    /// Folder with A's plugin
    ///
    /// It is searched before the usual folders, and must contain A's plugin.
    #[arg(long, value_name = "DIR")]
    pub transports_a: Option<PathBuf>,
    /// Folder with B's plugin
    #[arg(long, value_name = "DIR")]
    pub transports_b: Option<PathBuf>,
    /// Environment of A's processes; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = variable)]
    pub env_a: Vec<(String, String)>,
    /// Environment of B's processes; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = variable)]
    pub env_b: Vec<(String, String)>,
}

/// What both sides do, with the flags of the command of each pattern.
#[derive(Args, Clone, Default)]
#[command(mut_arg("clients", |clients| clients.value_name("N").value_parser(value_parser!(u32).map(|n| n.to_string()))))]
pub struct AbWorkloadArgs {
    /// Command whose workload both sides run [default: ping]
    #[arg(long = "pattern", value_name = "COMMAND", value_parser = command())]
    pub command: Option<AbCommand>,
    #[command(flatten)]
    pub flags: WorkloadArgs,
    /// Recording for `replay`: a file or folder; several play as one
    #[arg(long, value_name = "FILE.mcap", hide_short_help = true)]
    pub recording: Vec<PathBuf>,
    /// Play N times faster
    #[arg(long, value_name = "FACTOR", requires = "recording", allow_negative_numbers = true, hide_short_help = true)]
    pub speed: Option<f64>,
    /// Play the recording from this second
    #[arg(long, value_name = "SECONDS", requires = "recording", allow_negative_numbers = true, hide_short_help = true)]
    pub from: Option<f64>,
    /// Play the recording until this second
    #[arg(long, value_name = "SECONDS", requires = "recording", allow_negative_numbers = true, hide_short_help = true)]
    pub until: Option<f64>,
}

/// Command whose workload both sides run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbCommand {
    /// Command with the name of its pattern.
    Pattern(Pattern),
    /// `replay`, which plays a recording.
    Replay,
}

impl AbCommand {
    fn pattern(self) -> Option<Pattern> {
        if let Self::Pattern(pattern) = self { Some(pattern) } else { None }
    }

    /// True if the command can play topics from a recording or from `--topic`.
    pub fn plays_topics(self) -> bool {
        let has_both = |facts: &PatternFacts| facts.has_axis(Axis::Topics) && facts.has_load(LoadKind::Recorded);
        self.pattern().is_none_or(|pattern| has_both(facts(pattern)))
    }
}

/// Commands that `--pattern` takes, with their names in older files.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("ping", &["pingpong"]),
    ("publish", &["channel"]),
    ("call", &["rpc"]),
    ("throughput", &[]),
    ("replay", &[]),
    ("log", &["logger"]),
];

fn command() -> impl TypedValueParser<Value = AbCommand> {
    let words = COMMANDS.iter().map(|(word, old)| PossibleValue::new(*word).aliases(*old));
    PossibleValuesParser::new(words).map(|typed| {
        let is_typed = |(word, old): &&(&str, &[&str])| *word == typed || old.contains(&typed.as_str());
        let (word, _) = COMMANDS.iter().find(is_typed).expect("only these words are let through");
        word.parse().map_or(AbCommand::Replay, AbCommand::Pattern)
    })
}

impl AbWorkloadArgs {
    /// Workload from the flags. Flags that the command lacks are refused later, when the plan is made.
    pub fn workload(&self) -> WorkloadArgs {
        // Without `--pattern`: the default pattern, or the one of the recording.
        let common = Common { pattern: self.command.and_then(AbCommand::pattern), ..self.flags.common.clone() };
        WorkloadArgs { common, ..self.flags.clone() }
    }

    pub fn recording(&self) -> Option<WrittenRecording> {
        let Self { speed, from: from_s, until: until_s, .. } = *self;
        let files = self.recording.clone();
        let recording = WrittenRecording { files, speed, topics: Vec::new(), from_s, until_s };
        (!recording.files.is_empty()).then_some(recording)
    }
}

/// Parses `KEY=VALUE`. Secrets are refused later, because this parser's error would print them.
fn variable(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or("expected KEY=VALUE, e.g. LANG=C")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl AbArgs {
    /// Refuses secrets in the environments of both sides, because results record these. Fails if there are any.
    pub fn refuse_secrets(&self) -> Result<(), CliError> {
        let sides = [("--env-a", &self.sides.env_a), ("--env-b", &self.sides.env_b)];
        let mut all = sides.into_iter().flat_map(|(flag, side)| side.iter().map(move |one| (flag, one)));
        all.try_for_each(|(flag, (key, value))| match secret(key, value) {
            Some(why) => {
                let text = format!(
                    "{flag} {key}: {why}; export it before you start tripmeter: its processes inherit it, and no file \
                     records it"
                );
                Err(CliError::new(exit::USAGE, text))
            }
            None => Ok(()),
        })
    }
}
