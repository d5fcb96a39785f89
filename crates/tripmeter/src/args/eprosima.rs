//! Arguments of `tripmeter eprosima`: the flags of eProsima's scripts, with their spelling.

use super::measure::PluginArgs;
use super::plotting::PlottingArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Do what eProsima's latency scripts do, on the same files
#[derive(Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = "Examples:
  tripmeter eprosima process results/2026-01-31_12-00-00
  tripmeter eprosima check -r requirements.csv -e results/2026-01-31_12-00-00")]
pub struct EprosimaArgs {
    #[command(subcommand)]
    pub command: EprosimaCommand,
}

#[derive(Subcommand)]
pub enum EprosimaCommand {
    Process(ProcessArgs),
    Check(EprosimaCheckArgs),
    Compare(EprosimaCompareArgs),
    CompareSubexperiments(CompareSubexperimentsArgs),
    DetermineRequirements(DetermineRequirementsArgs),
    History(EprosimaHistoryArgs),
    Job(JobArgs),
    Prune(PruneArgs),
}

/// Make summaries and plots of samples
///
/// Of one file, or of every `measurements_<name>.csv` in results folders and their folders round-NN. There,
/// `measurements_<name>_summary.csv` is written beside it; one that exists is replaced. Files of LatencyTest are read as
/// well as ours, also compressed by gzip. Plots are `histogram_<payload>` and `series_<payload>`; of a folder, they go into a
/// folder `measurements_<name>` for each file. Files are written whole or not at all.
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter eprosima process results/2026-01-31_12-00-00 -p plots
  tripmeter eprosima process -c samples.csv -o summary.csv -p plots

Exit codes: 0 good, 64 wrong usage, 65 wrong data, 66 no such file or nothing to
process, 73 cannot create.")]
pub struct ProcessArgs {
    /// Results folders
    #[arg(value_name = "DIR", required_unless_present = "raw_csv", conflicts_with_all = ["raw_csv", "output_csv"])]
    pub folders: Vec<PathBuf>,
    /// Samples: columns `Payload [Bytes]` and `Latency [us]`
    #[arg(short = 'c', long = "raw_csv", value_name = "RAW", requires = "output_csv")]
    pub raw_csv: Option<PathBuf>,
    /// Summary to write
    #[arg(short, long = "output_csv", value_name = "SUMMARY", requires = "raw_csv")]
    pub output_csv: Option<PathBuf>,
    /// Folder for plots [default: no plots]
    #[arg(short, long = "plots_directory", value_name = "DIR")]
    pub plots_directory: Option<PathBuf>,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

/// Check an experiment against requirements
///
/// Writes `checks_<name>.csv` into the experiment's folder, and makes summaries that are missing there first. A check passes
/// if the figure is not above its limit, and fails if its payload was not measured.
#[derive(Args)]
#[command(override_usage = "tripmeter eprosima check [OPTIONS] -r FILE -e DIR")]
#[command(after_help = "Examples:
  tripmeter eprosima check -r requirements.csv -e results/2026-01-31_12-00-00
  tripmeter eprosima check -r requirements.csv -e results -p plots -P

Exit codes: 0 all passed, 1 to 63 number of sub-experiments that failed (63 at
most), 64 wrong usage, 65 wrong data or nothing to check, 66 no such file,
73 cannot create.")]
pub struct EprosimaCheckArgs {
    /// Limits, as `determine-requirements` writes them
    #[arg(short, long, value_name = "FILE")]
    pub requirements: PathBuf,
    /// The experiment
    #[arg(short, long = "experiment_directory", value_name = "DIR")]
    pub experiment_directory: PathBuf,
    /// Folder for plots [default: no plots]
    #[arg(short, long = "plots_directory", value_name = "DIR")]
    pub plots_directory: Option<PathBuf>,
    /// Print every check
    #[arg(short = 'P', long = "print_summaries")]
    pub print_summaries: bool,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

/// Compare an experiment with a reference
///
/// Fails if result > reference * (1 + threshold) for Min, Median, Max or 99% of a payload, or if a payload or a
/// sub-experiment of the reference was not measured. Summaries that are missing are made first. With -p, writes
/// `<name>_comparison.csv` and plots there.
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter eprosima compare -R results/old -r results/new -p plots
  tripmeter eprosima compare -R results/old -r results/new -t 0.05

Exit codes: 0 no comparison failed, 1 some did, 64 wrong usage, 65 wrong data or
nothing to compare, 66 no such file, 73 cannot create.")]
pub struct EprosimaCompareArgs {
    /// Experiment to compare with
    #[arg(short = 'R', long, value_name = "DIR")]
    pub reference: PathBuf,
    /// Experiment to judge
    #[arg(short, long, value_name = "DIR")]
    pub results: PathBuf,
    /// Folder for comparison files and plots [default: none]
    #[arg(short, long = "plots_directory", value_name = "DIR")]
    pub plots_directory: Option<PathBuf>,
    /// Increase that passes, as a share of the reference
    #[arg(
        short = 't',
        long = "fail_threshold",
        value_name = "SHARE",
        default_value_t = 0.1,
        allow_negative_numbers = true
    )]
    pub fail_threshold: f64,
    /// Print the summaries of both sides
    #[arg(short = 'P', long = "print_summaries")]
    pub print_summaries: bool,
    /// Print every comparison, and the files as they are written
    #[arg(short, long)]
    pub debug: bool,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

/// Plot sub-experiments side by side over the payloads
///
/// Writes comparison_min, comparison_median, comparison_max and comparison_99. The name of a sub-experiment is its file's:
/// `measurements_<name>_summary.csv`.
#[derive(Args)]
#[command(override_usage = "tripmeter eprosima compare-subexperiments [OPTIONS] -p DIR -e SUMMARY...")]
#[command(after_help = "Examples:
  tripmeter eprosima compare-subexperiments -p plots -e results/*_summary.csv
  tripmeter eprosima compare-subexperiments -p plots --log -e a.csv b.csv

Exit codes: 0 good, 64 wrong usage, 65 wrong data or nothing to plot, 66 no such
file, 73 cannot create.")]
pub struct CompareSubexperimentsArgs {
    /// Summaries, in the order of the legend
    #[arg(short = 'e', long = "subexperiment_summaries", value_name = "SUMMARY", required = true, num_args = 1..)]
    pub subexperiment_summaries: Vec<PathBuf>,
    /// Folder for plots
    #[arg(short, long = "plots_directory", value_name = "DIR")]
    pub plots_directory: PathBuf,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

/// Make requirements from many runs
///
/// The limit is the 99th percentile over the runs of each run's Median, 99% and Max. A run is a results folder with
/// summaries, or else samples; each round of one counts as a run.
#[derive(Args)]
#[command(override_usage = "tripmeter eprosima determine-requirements [OPTIONS] -e DIR")]
#[command(after_help = "Examples:
  tripmeter eprosima determine-requirements -e runs -o requirements.csv

Exit codes: 0 good, 64 wrong usage, 65 wrong data, 66 no such file, 73 cannot
create.")]
pub struct DetermineRequirementsArgs {
    /// Folder of results folders
    #[arg(short, long = "experiments_results", value_name = "DIR")]
    pub experiments_results: PathBuf,
    /// Requirements to write; a file that exists is replaced
    #[arg(short, long = "output_file", value_name = "FILE", default_value = "latency_requirements.csv")]
    pub output_file: PathBuf,
}

/// Plot how experiments developed over time
///
/// Experiments are the folders in DIR, by date and time in their names; those named otherwise come last. Makes
/// `<name>/history_{Min,Median,Max,99}` over payloads, a line for each experiment, the same over experiments as
/// `history_{Min,Median,Max,99}_by_date`, and `<name>/<payload>_bytes_{Median,Max,99}` over experiments, with the requirement.
#[derive(Args)]
#[command(override_usage = "tripmeter eprosima history [OPTIONS] -e DIR -p DIR")]
#[command(after_help = "Examples:
  tripmeter eprosima history -r requirements.csv -e results -p history_plots

Exit codes: 0 good, 64 wrong usage, 65 wrong data or nothing to plot, 66 no such
file, 73 cannot create.")]
pub struct EprosimaHistoryArgs {
    /// Limits to draw beside the results
    #[arg(short, long, value_name = "FILE")]
    pub requirements: Option<PathBuf>,
    /// Folder of results folders
    #[arg(short, long = "experiments_results", value_name = "DIR")]
    pub experiments_results: PathBuf,
    /// Folder for plots
    #[arg(short, long = "plots_directory", value_name = "DIR")]
    pub plots_directory: PathBuf,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

/// Measure into a database, check, and update its history
///
/// Runs an experiment, and does what process, compare-subexperiments, check, prune (with -D) and history do. The database
/// holds `experiments_results/<date_time>/` with its plots, and history_plots/.
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter eprosima job -r requirements.csv -d latency_results_db
  tripmeter eprosima job mine.toml -r requirements.csv -D 10

Exit codes: those of `check`; if it passes, 75 if some sub-experiments could not
be run.")]
pub struct JobArgs {
    /// Experiment, which must measure round trips
    #[arg(value_name = "PRESET|FILE", default_value = "fastrtps")]
    pub experiment: String,
    /// Database; created if missing
    #[arg(short, value_name = "DIR", default_value = "latency_results_db")]
    pub database: PathBuf,
    /// Keep only the N newest experiments [default: all]
    #[arg(short = 'D', value_name = "N", value_parser = at_least_one)]
    pub depth: Option<usize>,
    /// Limits, as `determine-requirements` writes them
    #[arg(short, value_name = "FILE", default_value = "requirements.csv")]
    pub requirements: PathBuf,
    /// Name of the experiment in the database [default: date and time]
    #[arg(short, value_name = "NAME")]
    pub label: Option<String>,
    /// Print no progress to standard error
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub plugins: PluginArgs,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}

/// Remove old experiments from a database
///
/// Keeps the N newest experiments, by date and time in their names, and those given by -s. Only folders named by date
/// and time, with finished results, are counted and removed; others are listed and left alone.
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter eprosima prune -r results --dry-run
  tripmeter eprosima prune -r results -n 5 -s 2026-01-31_12-00-00

Exit codes: 0 good, 64 wrong usage, 66 no such folder, 73 cannot remove.")]
pub struct PruneArgs {
    /// Folder of results folders
    #[arg(short, value_name = "DIR")]
    pub results_db: PathBuf,
    /// Newest experiments to keep
    #[arg(short, value_name = "N", default_value_t = 10, value_parser = at_least_one)]
    pub number: usize,
    /// Experiments to keep however old, with colons between them
    #[arg(short = 's', value_name = "NAMES")]
    pub keep: Vec<String>,
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("0 would remove everything; the minimum is 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("expected a number of experiments".to_owned()),
    }
}
