//! Arguments of `tripmeter eprosima`.

use super::plotting::PlottingArgs;
use super::{CheckArgs, CompareArgs, ExperimentArgs, HistoryArgs, MeasuringArgs, PluginArgs, RequirementsArgs};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Work on eProsima's latency files as its scripts do
#[derive(Args)]
#[command(arg_required_else_help = true)]
pub struct EprosimaArgs {
    #[command(subcommand)]
    pub command: EprosimaCommand,
}

#[derive(Subcommand)]
pub enum EprosimaCommand {
    Process(ProcessArgs),
    Check(CheckArgs),
    Compare(CompareArgs),
    CompareSubexperiments(CompareSubexperimentsArgs),
    DetermineRequirements(RequirementsArgs),
    History(HistoryArgs),
    Job(JobArgs),
    Prune(PruneArgs),
}

/// Make summaries and plots of samples: one file, or every measurements_*.csv of results folders
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter eprosima process results/2026-01-31_12-00-00
  tripmeter eprosima process results/2026-01-31_12-00-00 -p plots --log
  tripmeter eprosima process -c measurements_x.csv -o measurements_x_summary.csv -p plots

In a folder, and in its folders round-NN, measurements_<name>_summary.csv is written beside every
measurements_<name>.csv; one that is there is replaced. Files of eProsima's LatencyTest are read as
well as ours, also compressed by gzip. Plots are histogram_<payload> and series_<payload>; of a
folder, they go into a folder measurements_<name> for each file. Files are written whole or not at all.

Exit codes: 0 good, 64 wrong usage, 65 wrong data, 66 no such file or nothing to process, 73 cannot create.")]
pub struct ProcessArgs {
    /// Results folders
    #[arg(value_name = "DIR", required_unless_present = "raw_csv", conflicts_with_all = ["raw_csv", "output_csv"])]
    pub folders: Vec<PathBuf>,
    /// Samples: a CSV file with the columns `Payload [Bytes]` and `Latency [us]`
    #[arg(short = 'c', long, value_name = "RAW", alias = "raw_csv", requires = "output_csv")]
    pub raw_csv: Option<PathBuf>,
    /// The summary to write
    #[arg(short, long, value_name = "SUMMARY", alias = "output_csv", requires = "raw_csv")]
    pub output_csv: Option<PathBuf>,
    /// Draw a histogram and a series of each payload into this folder, which is created if it is not there
    #[arg(short, long, value_name = "DIR", alias = "plots_directory")]
    pub plots_directory: Option<PathBuf>,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

/// Plot sub-experiments side by side: Min, Median, Max and 99% over the payloads
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter eprosima compare-subexperiments -e results/2026-01-31_12-00-00/*_summary.csv -p plots
  tripmeter eprosima compare-subexperiments -p plots --svg --log -e measurements_uds_summary.csv measurements_tcp_summary.csv

Writes comparison_min, comparison_median, comparison_max and comparison_99 as .png or .svg. The name
of a sub-experiment is its file's: measurements_<name>_summary.csv, as `tripmeter eprosima process` writes it.

Exit codes: 0 good, 64 wrong usage, 65 wrong data or nothing to plot, 66 no such file, 73 cannot create.")]
pub struct CompareSubexperimentsArgs {
    /// Summaries of sub-experiments, in the order of the legend
    #[arg(short = 'e', long, value_name = "SUMMARY", alias = "subexperiment_summaries", required = true, num_args = 1..)]
    pub subexperiment_summaries: Vec<PathBuf>,
    /// Where plots go; the folder is created if it is not there
    #[arg(short, long, value_name = "DIR", alias = "plots_directory")]
    pub plots_directory: PathBuf,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

/// Remove old experiments from a folder of results folders
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter eprosima prune -r results --dry-run
  tripmeter eprosima prune -r results -n 5 -s 2026-01-31_12-00-00:2026-02-28_12-00-00

Keeps the N newest experiments, by date and time in their names, and those named by -s besides. Only
folders named by date and time are counted and removed, with finished results in them; all else is left
alone, and said.

Exit codes: 0 good, 64 wrong usage, 66 no such folder, 73 cannot remove.")]
pub struct PruneArgs {
    /// Folder of results folders
    #[arg(short, long, value_name = "DIR", alias = "results_db", alias = "results_directory")]
    pub results_db: PathBuf,
    /// How many of the newest experiments are kept
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = at_least_one)]
    pub number: usize,
    /// Experiments to keep however old, with colons between them; may be repeated
    #[arg(short = 's', long, value_name = "NAMES")]
    pub keep: Vec<String>,
    /// Only say what would be removed
    #[arg(long, alias = "dry_run")]
    pub dry_run: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("that would remove everything; 1 is the least".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("write a number of experiments".to_owned()),
    }
}

/// Run an experiment into a results database, process it, check it and renew the history
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter eprosima job -r requirements.csv -d latency_results_db
  tripmeter eprosima job iceperf -n 1000 -r requirements.csv --depth 10

Does in turn what run, process, compare-subexperiments, check, prune (with --depth only) and history do. The
database holds experiments_results/<date_time>/ with its plots, and history_plots/.

Exit codes: those of `check`; if nothing failed there, 75 if some sub-experiments failed to run.")]
pub struct JobArgs {
    /// The database; created if it is not there
    #[arg(short, long, value_name = "DIR", default_value = "latency_results_db")]
    pub database: PathBuf,
    /// Keep only the N newest experiments, the new one in any case; without it, nothing is removed
    #[arg(short = 'D', long, value_name = "N", value_parser = at_least_one)]
    pub depth: Option<usize>,
    /// Limits, as `tripmeter requirements` writes them
    #[arg(short, long, value_name = "FILE", default_value = "requirements.csv")]
    pub requirements: PathBuf,
    /// Name of the experiment in the database [default: date and time]
    #[arg(short, long, value_name = "NAME")]
    pub label: Option<String>,
    /// Sub-experiments without requirements fail, and requirements without a sub-experiment
    #[arg(long)]
    pub strict: bool,
    /// Print the checks as JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// The experiment: a preset or a file
    #[arg(value_name = "PRESET|FILE", default_value = "fastrtps")]
    pub of: String,
    #[command(flatten)]
    pub measuring: MeasuringArgs,
    #[command(flatten)]
    pub plugins: PluginArgs,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

impl JobArgs {
    /// What is run.
    pub fn experiment(&self) -> ExperimentArgs {
        ExperimentArgs::written(&self.of, &self.measuring)
    }
}
