//! Arguments of the commands that compare results with limits and with other results. Their flags are those of eProsima's
//! scripts, with hyphens or underscores.

use super::plotting::PlottingArgs;
use super::{ExperimentArgs, MeasuringArgs, PluginArgs, Share};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Check an experiment against requirements; the exit code is the number of sub-experiments that fail
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter check -r requirements.csv -e results/2026-01-31_12-00-00
  tripmeter check -r requirements.csv -e results/2026-01-31_12-00-00 -p plots --print-summaries
  tripmeter check -r requirements.csv -e results/2026-01-31_12-00-00 --json --strict
  tripmeter check -r requirements.csv -e results/2026-01-31_12-00-00 --family-wise clean_runs

Writes checks_<name>.csv into the experiment's folder. The folder is one of `tripmeter run`, whose
summaries are made first if they are not there, or holds files measurements_<name>_summary.csv.
A check passes if the figure is not above its limit; one of a payload that was not measured fails. Of
patterns channel, rpc and log the columns Mean, 99.9% and Loss [%] have limits, too, and Rate [/s]
and QPS [/s] have lower ones. Limits of another kind of latency than was measured are refused.

Exit codes: 0 all passed, 1 to 63 number of sub-experiments that failed (63 at most), 64 and up
errors: 64 wrong usage, 65 wrong data or nothing to check, 66 no such file, 73 cannot create.")]
pub struct CheckArgs {
    /// Limits, as `tripmeter requirements` writes them
    #[arg(short, long, value_name = "FILE")]
    pub requirements: PathBuf,
    /// The experiment
    #[arg(short, long, value_name = "DIR", alias = "experiment_directory")]
    pub experiment_directory: PathBuf,
    /// Where plots go; none are made without
    #[arg(short, long, value_name = "DIR", alias = "plots_directory")]
    pub plots_directory: Option<PathBuf>,
    /// Print every check, not only a line for each sub-experiment
    #[arg(short = 'P', long, alias = "print_summaries")]
    pub print_summaries: bool,
    /// Sub-experiments without requirements fail, and requirements without a sub-experiment
    #[arg(long)]
    pub strict: bool,
    /// Loosen the limits so that of runs like those in DIR at most 5 % fail anywhere; needs 59 of them
    #[arg(long, value_name = "DIR")]
    pub family_wise: Option<PathBuf>,
    /// That messages came damaged is no failure
    #[arg(long)]
    pub allow_damage: bool,
    /// Print every check as JSON instead of a table
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

/// Make requirements from many runs: a high percentile of each run's Median, 99% and Max
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter requirements -e runs -o requirements.csv
  tripmeter requirements --runs 200 --preset iceperf -o requirements.csv
  tripmeter requirements --runs 100 --preset aimrt-channel -o limits.csv
  tripmeter requirements --runs 5 -t uds,tcp --payloads 16..16k -n 1000 -o requirements.csv

With -e, reads the results folders in a folder: their summaries, or else their samples; of patterns
channel and rpc their manifests. The rounds of a results folder count as runs. Of patterns channel, rpc
and log there are limits of Mean, 99.9% and Loss [%], and the least Rate [/s] and QPS [/s], too.
With --runs, makes the runs first, in a folder beside FILE or the one named by -r. What is finished
there is not run again: the same command continues after an interruption or a kill.

Exit codes: 0 good, 64 wrong usage, 65 wrong data, 66 no such file, 73 cannot create, 75 a
sub-experiment failed in some runs (the requirements are made from the others), 130 interrupted.")]
pub struct RequirementsArgs {
    /// Folder of results folders
    #[arg(short, long, value_name = "DIR", alias = "experiments_results", required_unless_present = "runs")]
    pub experiments_results: Option<PathBuf>,
    /// The requirements; a file that exists is replaced
    #[arg(
        short,
        long = "output-file",
        value_name = "FILE",
        alias = "output_file",
        default_value = "latency_requirements.csv"
    )]
    pub output_file: PathBuf,
    /// Which percentile of the runs, 0 to 100
    #[arg(long, value_name = "P", default_value_t = 99.0, allow_negative_numbers = true)]
    pub percentile: f64,
    /// Make this many runs of an experiment first
    #[arg(long, value_name = "N", conflicts_with = "experiments_results",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,
    /// Where --runs keeps its runs [default: FILE without its ending, and `_runs`]
    #[arg(short, long, value_name = "DIR", alias = "runs_directory", requires = "runs")]
    pub runs_directory: Option<PathBuf>,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// The experiment: a preset or a file [default: quick]
    #[arg(value_name = "PRESET|FILE")]
    pub of: Option<String>,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
    #[command(flatten)]
    pub plugins: PluginArgs,
}

/// Compare an experiment with a reference
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter compare -R results/2026-01-31_12-00-00 -r results/2026-02-28_12-00-00
  tripmeter compare -R reference -r result -p plots --fail-threshold 0.05 --json
  tripmeter compare -R ten-rounds -r ten-others --margin 5%

Method runs, the usual one where both folders have several rounds: of each round only its median
and its 99th percentile count, and the ratio of the results to the reference has an exact interval
(Mann and Whitney's): regressed if it lies above 1 + margin, improved if below 1 - margin,
equivalent if between both, else inconclusive. Of patterns channel, rpc and log the mean, the
99.9th percentile, the maximum, the share delivered and the rate count, too. Of all changes called at most 5 % are expected to be
wrong. What differed between the times of both folders counts as a change; `tripmeter ab` has no
such times.

Method threshold: fails if result > reference * (1 + threshold) for Min, Median, Max or 99% of any
payload, or if one of the reference was not measured; of patterns channel, rpc and log for Mean, 99.9%
and Loss, too, and if Rate or QPS < reference / (1 + threshold). Each rate and time of these is by
itself (NAME@service_1000hz); response and service times, round trips and halves of them are never
compared with each other. Sub-experiments and payloads that only the
results have are named, and fail with --strict. Folders are those of `tripmeter run`, whose summaries
are made first if they are not there, or hold files measurements_<name>_summary.csv.
With -p, writes <name>_comparison.csv and plots there.

Exit codes: 0 no comparison failed or regressed, 1 some did, 64 wrong usage, 65 wrong data, nothing to
compare, or payloads or latencies of different kinds, 66 no such file, 73 cannot create, 75 rounds
failed (method runs; the verdicts are of the others).")]
pub struct CompareArgs {
    /// The experiment to compare with
    #[arg(short = 'R', long, value_name = "DIR")]
    pub reference: PathBuf,
    /// The experiment to judge
    #[arg(short, long, value_name = "DIR")]
    pub results: PathBuf,
    /// Where comparison files and plots go; none are made without
    #[arg(short, long, value_name = "DIR", alias = "plots_directory")]
    pub plots_directory: Option<PathBuf>,
    /// Method threshold: how much more than the reference is let pass: 0.1 is 10 % [default: 0.1]
    #[arg(short = 't', long, value_name = "SHARE", alias = "fail_threshold", allow_negative_numbers = true)]
    pub fail_threshold: Option<f64>,
    /// Method runs: changes up to this share are none [default: 2%]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub margin: Option<Share>,
    /// How it is judged [default: runs if both have several rounds, else threshold]
    #[arg(long, value_enum)]
    pub method: Option<Method>,
    /// Print the summaries of both sides
    #[arg(short = 'P', long, alias = "print_summaries")]
    pub print_summaries: bool,
    /// Print every comparison, and the files as they are written
    #[arg(short, long)]
    pub debug: bool,
    /// What only the results have fails too
    #[arg(long)]
    pub strict: bool,
    /// That messages came damaged is no failure
    #[arg(long)]
    pub allow_damage: bool,
    /// Print every comparison as JSON instead of a table
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

/// How `tripmeter compare` judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Each figure against that of the reference times 1 + threshold
    Threshold,
    /// The runs of both sides against each other, by their ranks
    Runs,
}

/// Plot how experiments developed over time, beside their requirements
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter history -r requirements.csv -e results -p history_plots
  tripmeter history -e results -p history_plots --svg
  tripmeter history -e results --fail-on-change --known 2026-01-31_12-00-00

Experiments are the folders in DIR, by date and time in their names; those named otherwise come last.
Makes <name>/history_{Min,Median,Max,99}.png over payloads, a line for each experiment, the same over
experiments, a line for each payload, as history_{Min,Median,Max,99}_by_date.png, and
<name>/<payload>_bytes_{Median,Max,99}.png over experiments, with the requirement.

Of patterns channel, rpc and log there are plots of Mean, 99.9, Loss, Rate and QPS, too.

With --fail-on-change, looks for changes of the median and the 99th percentile of each payload (of
those patterns also of Mean, 99.9%, Rate and QPS), of --min-change or more: steps, which are change
points as Apache Otava finds them (E-divisive, p 0.001) with three experiments after them at least,
and slow drifts over ten experiments or more. The median of an experiment's rounds counts. Nothing
is compared across a change of processor or kernel. With :SUB a mark is of that sub-experiment only.

Exit codes: 0 good, 1 a step or drift that is not marked as known, 64 wrong usage, 65 wrong data or nothing to
plot, 66 no such file, 73 cannot create.")]
pub struct HistoryArgs {
    /// Limits to draw beside the results
    #[arg(short, long, value_name = "FILE")]
    pub requirements: Option<PathBuf>,
    /// Folder of results folders
    #[arg(short, long, value_name = "DIR", alias = "experiments_results")]
    pub experiments_results: PathBuf,
    /// Where plots go
    #[arg(short, long, value_name = "DIR", alias = "plots_directory", required_unless_present = "fail_on_change")]
    pub plots_directory: Option<PathBuf>,
    /// Tell steps and slow drifts, and end with exit code 1 if there are some
    #[arg(long)]
    pub fail_on_change: bool,
    /// The first experiment after a step that is known; may be repeated
    #[arg(long, value_name = "NAME[:SUB]", requires = "fail_on_change")]
    pub known: Vec<String>,
    /// Drifts up to this experiment are known; may be repeated
    #[arg(long, value_name = "NAME[:SUB]", requires = "fail_on_change")]
    pub known_drift: Vec<String>,
    /// The smallest step or drift
    #[arg(long, value_name = "SHARE", default_value = "5%", allow_hyphen_values = true)]
    pub min_change: Share,
    /// What has damaged messages is not left out
    #[arg(long)]
    pub allow_damage: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

impl RequirementsArgs {
    /// What is run.
    pub fn experiment(&self) -> ExperimentArgs {
        ExperimentArgs::written(self.of.as_deref().unwrap_or("quick"), &self.measuring)
    }
}
