//! Arguments of the commands that compare results with limits and with other results.

use super::experiment::ExperimentArgs;
use super::measure::{AllowedArgs, MeasuringArgs, PluginArgs};
use super::parsers::{text_path, words_of};
use super::plotting::PlottingArgs;
use super::sorting::SortArgs;
use clap::Args;
use std::path::PathBuf;
use tripmeter_analysis::flags::{ChangeArgs, FiguresArgs, Share, number_or_percent};

/// Check results against limits
#[derive(Args)]
#[command(after_help = "Example:
  tripmeter check results/2026-01-31_12-00-00 --limits limits.csv")]
#[command(after_long_help = "Examples:
  tripmeter check results/2026-01-31_12-00-00 --limits limits.csv
  tripmeter check results/2026-01-31_12-00-00 --limits limits.csv --all --strict
  tripmeter check results/2026-01-31_12-00-00/round-02 --limits limits.csv --json
  tripmeter check results/monday --limits limits.csv --family-wise clean_runs

Over several rounds the median counts; for losses, all messages. A figure with a
limit that was not measured fails. So does a sub-experiment that failed, was
interrupted, had damaged messages, failed its path proof, or missed a rate that
has no limit of its own. A percentile with too few samples for an upper bound is
inconclusive.

Exit codes: 0 all passed, 1 to 63 number of sub-experiments that failed (63 at
most), 64 wrong usage, 65 wrong data or nothing to check, 66 no such file.")]
pub struct CheckArgs {
    /// Results folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Limits, as `tripmeter limits` writes them
    #[arg(long, value_name = "FILE")]
    pub limits: PathBuf,
    /// Also fail inconclusive limits, and limits or sub-experiments that only one side has
    #[arg(long)]
    pub strict: bool,
    /// Loosen the limits so that at most 5 % of runs like those in DIR fail
    ///
    /// A limit at the 99th percentile fails 1 % of clean runs, so most runs exceed one of hundreds of limits. This
    /// needs 19 runs for each kind of figure that has limits.
    #[arg(long, value_name = "DIR")]
    pub family_wise: Option<PathBuf>,
    /// Do not fail on damaged messages
    #[arg(long)]
    pub allow_damage: bool,
    /// Print every limit
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub sorting: SortArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Make limits from many runs
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter limits results -o limits.csv
  tripmeter limits --runs 200 --of iceperf -o limits.csv")]
#[command(after_long_help = "Examples:
  tripmeter limits results -o limits.csv
  tripmeter limits results/monday results/tuesday --percentile 100
  tripmeter limits results --figures rtt_half_ns.p999,cpu_share
  tripmeter limits --runs 200 --of iceperf -o limits.csv

Each DIR is a results folder or a folder of results folders. Every round is a
run. A limit is the chosen percentile over the runs; for figures where higher is
better, the opposite percentile (1 for 99).

--runs makes the runs first, in a folder beside FILE or in --runs-dir. Finished
runs there are kept, so the same command continues after an interruption or a
kill.

Exit codes: 0 good, 64 wrong usage, 65 wrong data, 66 no such folder, 73 cannot
create, 75 a sub-experiment failed in some runs (limits are made from the
others), 130 interrupted.")]
pub struct LimitsArgs {
    /// Results folders, or folders of them
    #[arg(value_name = "DIR", required_unless_present = "runs", conflicts_with_all = ["runs", "of"])]
    pub folders: Vec<PathBuf>,
    /// The limits, - for standard output; a file that exists is replaced
    #[arg(short, long, value_name = "FILE", default_value = "limits.csv", value_parser = text_path())]
    pub output: PathBuf,
    /// Percentile of the runs, 0 to 100
    #[arg(long, value_name = "P", default_value_t = 99.0, allow_negative_numbers = true)]
    pub percentile: f64,
    #[command(flatten)]
    pub figures: FiguresArgs,
    /// Make this many runs first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,
    /// The experiment of these runs [default: quick]
    #[arg(long, value_name = "PRESET|FILE", requires = "runs")]
    pub of: Option<String>,
    /// Folder for these runs [default: FILE without its ending, plus `_runs`]
    #[arg(long, value_name = "DIR", requires = "runs", value_parser = text_path())]
    pub runs_dir: Option<PathBuf>,
    /// Also use runs with damaged messages
    #[arg(long)]
    pub allow_damage: bool,
    #[command(flatten)]
    pub sorting: SortArgs,
    /// Print no progress to standard error
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
    #[command(flatten)]
    pub plugins: PluginArgs,
}

impl LimitsArgs {
    pub fn experiment(&self) -> ExperimentArgs {
        let allowed = AllowedArgs { allow_damage: self.allow_damage, ..AllowedArgs::default() };
        ExperimentArgs { allowed, ..ExperimentArgs::written(self.of.as_deref().unwrap_or("quick"), &self.measuring) }
    }
}

/// Compare results with older ones
#[derive(Args)]
#[command(after_help = "Example:
  tripmeter compare results/monday results/tuesday")]
#[command(after_long_help = "Examples:
  tripmeter compare results/monday results/tuesday
  tripmeter compare results/monday results/tuesday --margin 5% --plots plots
  tripmeter compare results/monday results/tuesday --threshold 5% --all
  tripmeter compare results/monday results/tuesday --figures cpu_share --json

Method ranks, the default if both have 4 rounds or more, uses the figures of
each round; the ratio new / old has an exact confidence interval (Mann and
Whitney's). Regressed if it lies above 1 + margin, improved if below 1 - margin,
equivalent if between both, else inconclusive; for rates the other way round.
Losses are compared by the share of each round; a note names those that their
median does not show. Of the changes reported, at most 5 % are expected to be
false alarms. What changed on the machine between both measurements counts as a
change too; `tripmeter ab` avoids that.

Method threshold fails if new > old * (1 + threshold), for rates if
new < old / (1 + threshold). Over several rounds the median counts.

A figure that the new results lack fails. So does a missed rate, unless rates
are compared. Figures that only the new results have are named, and fail with
--strict, as does a percentile with too few samples.

Exit codes: 0 nothing failed or regressed, 1 something did, 64 wrong usage, 65
wrong data or nothing to compare, 66 no such folder, 73 cannot create, 75 rounds
failed (method ranks; the verdicts use the others).")]
pub struct CompareArgs {
    /// Results folder to compare with
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// Results folder to judge
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// Method ranks: ignore changes up to this share [default: 2%]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub margin: Option<Share>,
    /// Method threshold: allow this much increase [default: 10%]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, value_parser = threshold)]
    pub threshold: Option<f64>,
    /// How to judge [default: ranks if both have 4 rounds or more]
    #[arg(long, value_parser = words_of(&[("ranks", Method::Ranks), ("threshold", Method::Threshold)]))]
    pub method: Option<Method>,
    #[command(flatten)]
    pub figures: FiguresArgs,
    /// Also fail figures that only the new results have and, with method threshold, inconclusive ones
    #[arg(long)]
    pub strict: bool,
    /// Do not fail on damaged messages
    #[arg(long)]
    pub allow_damage: bool,
    /// Print every figure
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub sorting: SortArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Plot each figure over payloads into this folder
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

/// Method of `tripmeter compare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Compares the rounds of both sides by rank.
    Ranks,
    /// Compares each figure with the old one times 1 + threshold.
    Threshold,
}

/// Parses a share of 0 or more: `10%` or `0.1`.
fn threshold(text: &str) -> Result<f64, String> {
    let share = number_or_percent(text).filter(|share| share.is_finite() && *share >= 0.0);
    share.ok_or("expected a share of 0 or more, e.g. 10% or 0.1".to_owned())
}

/// Find steps and slow drifts over time
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter history results --plots plots
  tripmeter history results --fail-on-change --known 2026-01-31_12-00-00")]
#[command(after_long_help = "Examples:
  tripmeter history results
  tripmeter history results --limits limits.csv --plots plots --svg
  tripmeter history results --fail-on-change --known 2026-01-31_12-00-00

Experiments are the results folders in DIR, in the order of their start. Over
several rounds the median counts.

Steps are change points as found by Apache Otava (E-divisive, p 0.001), with at
least three experiments before and three after; slow drifts take at least ten
experiments. With fewer, a line says that none can be detected. Nothing is
compared across a change of the machine or its settings. With :SUB, a mark
applies to that sub-experiment only.

--plots draws each figure twice, with limits: <sub-experiment>/<figure>_by_run
over the experiments, with a line for each payload, and <figure>_by_payload over
payloads, with a line for each experiment.

Exit codes: 0 good, 1 a step or drift that is not marked as known (with
--fail-on-change), 64 wrong usage, 65 wrong data or no figures, 66 no such file,
73 cannot create.")]
pub struct HistoryArgs {
    /// Folder of results folders
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Limits to draw beside the results
    #[arg(long, value_name = "FILE")]
    pub limits: Option<PathBuf>,
    /// Plot each figure into this folder
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Write trends of all figures as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub changes: ChangeArgs,
    #[command(flatten)]
    pub figures: FiguresArgs,
    #[command(flatten)]
    pub sorting: SortArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Also use results with damaged messages
    #[arg(long)]
    pub allow_damage: bool,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}
