//! Arguments of `tripmeter process`.

use super::plotting::PlottingArgs;
use clap::Args;
use std::path::PathBuf;

/// Make summaries and plots of samples: one file, or every measurements_*.csv of results folders
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter process results/2026-01-31_12-00-00
  tripmeter process results/2026-01-31_12-00-00 -p plots --log
  tripmeter process -c measurements_x.csv -o measurements_x_summary.csv -p plots

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
