//! Flags of commands that give verdicts.

use crate::history::{History, KnownMark};
use clap::Args;
use std::str::FromStr;
use tripmeter_stats::change_points::StepOptions;

/// Share from 0 to below 1, written as `2%` or `0.02`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = number_or_percent(text).filter(|share| (0.0..1.0).contains(share));
        share.map(Self).ok_or("write a share from 0 to below 1, e.g. 2% or 0.02".to_owned())
    }
}

/// Parses `0.02` or `2%` as 0.02; `None` if it is neither.
pub fn number_or_percent(text: &str) -> Option<f64> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    number.parse::<f64>().ok().map(|number| number / unit)
}

/// Flags that select the judged figures.
#[derive(Args, Clone, Debug, Default)]
pub struct FiguresArgs {
    /// Figures [default: p50, p99, loss_share and rates]
    ///
    /// Each is FIGURE[.STATISTIC] with the names of metrics.csv, such as rtt_half_ns.p999 or cpu_share, or a statistic
    /// of the usual latency, such as p99 or median. Values are over all messages, and for the last of several
    /// followers; without these, for each stream that has the figure.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub figures: Vec<String>,
}

/// Flags for steps and drifts: smallest size, and known ones.
#[derive(Args, Clone, Debug)]
pub struct ChangeArgs {
    /// End with 1 if there is a step or drift that is not known
    #[arg(long)]
    pub fail_on_change: bool,
    /// Mark the first experiment after a step as known
    #[arg(long, value_name = "NAME[:SUB]")]
    pub known: Vec<String>,
    /// Mark drifts up to this experiment as known
    #[arg(long, value_name = "NAME[:SUB]")]
    pub known_drift: Vec<String>,
    /// Smallest step or drift
    #[arg(long, value_name = "SHARE", default_value = "5%", allow_hyphen_values = true)]
    pub min_change: Share,
}

impl ChangeArgs {
    /// Marks of known steps, and marks of known drifts.
    ///
    /// # Errors
    /// One line, if a mark names no experiment in `history`.
    pub fn marks(&self, history: &History) -> Result<[Vec<KnownMark>; 2], String> {
        for (names, flag) in [(&self.known, "--known"), (&self.known_drift, "--known-drift")] {
            if let Some(name) = names.iter().find(|name| !history.has(&KnownMark::parse(name))) {
                let what = format!("no experiment '{name}' has figures");
                return Err(format!("{what}; use the name of its folder ({flag})"));
            }
        }
        Ok([&self.known, &self.known_drift].map(|names| names.iter().map(|name| KnownMark::parse(name)).collect()))
    }

    /// Criteria for steps and drifts.
    pub fn options(&self) -> StepOptions {
        StepOptions { min_change: self.min_change.0, ..StepOptions::default() }
    }
}
