//! Arguments of the commands that draw.

use clap::Args;
use std::path::PathBuf;
use tripmeter_report::plots::{Format, Options};

/// How plots are drawn; the same for all commands.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Plots")]
pub struct PlottingArgs {
    /// Draw plots as SVG instead of PNG
    #[arg(long)]
    pub svg: bool,
    /// Draw latencies on a logarithmic axis
    #[arg(long)]
    pub log: bool,
}

impl PlottingArgs {
    /// The options of every picture.
    pub fn options(self) -> Options {
        Options { format: if self.svg { Format::Svg } else { Format::Png }, log: self.log, ..Options::default() }
    }
}

/// Plot averages of patterns channel, rpc and log, as AimRT publishes them
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter plot results/2026-01-31_12-00-00
  tripmeter plot results/monday results/tuesday -p plots --svg --log

Draws, for the patterns that were measured and each way of measuring, with a line for each transport:
  channel_latency_by_size...     average latency one way (service time) over payloads
  channel_latency_by_topics...   the same over numbers of topics
  rpc_latency_by_size...         average round trip (service time) over payloads
  rpc_latency_by_clients...      the same over numbers of clients
  rpc_qps_by_size...             calls per second in a closed loop over payloads
  log_latency_by_size            average time of a call of the logger over payloads (logarithmic)
A plot needs two payloads, or two numbers of topics or clients. Of several rounds it shows medians, from
six on with their intervals. Of several folders each line says which is its. `tripmeter run` draws the same
into `plots` in its results folder where the table `aimrt` is printed.

Exit codes: 0 good, 64 wrong usage, 65 wrong data or nothing to plot, 66 no such folder, 73 cannot create.")]
pub struct PlotArgs {
    /// Results folders
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Where plots go; the folder is created if it is not there [default: `plots` in the results folder, if it is one]
    #[arg(short, long, value_name = "DIR", alias = "plots_directory")]
    pub plots_directory: Option<PathBuf>,
    #[command(flatten)]
    pub plotting: PlottingArgs,
}
