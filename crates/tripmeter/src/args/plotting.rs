use clap::Args;
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
    pub fn options(self) -> Options {
        Options { format: if self.svg { Format::Svg } else { Format::Png }, log: self.log, ..Options::default() }
    }
}
