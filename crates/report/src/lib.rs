//! Views of results: pure functions from figures to text and pictures. They measure, read and write nothing.
//!
//! | View | Shows |
//! |---|---|
//! | [`screen()`] | the first screen: the best first, at most 80 columns |
//! | [`iceperf()`] | iceperf's two columns for each sub-experiment |
//! | [`ecal()`] | eCAL's table: payloads against sub-experiments, of one or several experiments |
//! | [`aimrt()`] | the columns of AimRT's channel and RPC benchmarks |
//! | [`all()`] | one table of everything |
//! | [`figures()`] | every figure with its address, over all rounds |
//! | [`ab()`] | two sides that were measured in pairs |
//! | [`audit()`], [`side_by_side()`] | machine settings that disturb measurements; two hosts side by side |
//! | [`eprosima`] | checks and comparisons of eProsima's scripts |
//! | [`limit_checks()`], [`limits()`] | an experiment against limits; the limits |
//! | [`by_threshold()`], [`by_runs()`] | an experiment against a reference, by a threshold or by a test over runs |
//! | [`choose()`] | transports for one workload: a ranking, and those that fail the limits |
//! | [`fleet()`], [`fleet_page()`] | one command on many hosts: every figure over all hosts or pairs |
//! | [`explain()`] | where the time of a message goes, transport by transport |
//! | [`trends()`] | figures over time as a page of charts |
//! | [`changes()`] | steps and slow drifts in the history of figures |
//! | [`page()`] | the report: question, answer, and a chart for each question that the figures allow |
//! | [`export`] | results and verdicts in the formats of other programs |
//! | [`plots`] | pictures, as PNG or SVG |
//!
//! A view makes a [`document`], and [`render`] makes text, Markdown, CSV, JSON and HTML of it.
//!
//! Tables end with a line break.
#![forbid(unsafe_code)]

mod ab;
mod aimrt;
mod aimrt_log;
mod all;
mod assets;
mod audit;
mod cell_text;
mod changes;
mod choose;
mod compared;
mod curves;
pub mod document;
mod ecal;
pub mod eprosima;
mod explain;
pub mod export;
mod fastest;
mod figures;
#[cfg(test)]
mod fixture;
mod fleet;
mod floors;
mod hosts;
mod html;
mod iceperf;
mod labels;
mod limit_checks;
mod markup;
mod measured;
mod merged;
mod notes;
mod number;
mod page;
mod pairs;
pub mod plots;
mod queues;
pub mod render;
mod results;
mod run_notes;
mod screen;
mod series;
mod side_by_side;
mod sorting;
mod tables;
mod trends;
mod values;
mod verdicts;

pub use ab::{Ab, ab};
pub use aimrt::aimrt;
pub use all::{all, interval_legend};
pub use audit::{audit, audit_checks};
pub use changes::changes;
pub use choose::{Choice, Wish, choose};
pub use compared::{by_runs, by_threshold};
pub use ecal::ecal;
pub use explain::explain;
pub use figures::figures;
pub use fleet::{FleetFigure, FleetResults, fleet, fleet_figures, fleet_page};
pub use iceperf::iceperf;
pub use limit_checks::{limit_checks, limits};
pub use markup::markdown_words;
pub use number::counted;
pub use page::{PageChecks, PageInput, SampledTrial, page, page_of};
pub use pairs::AskedPairs;
pub use queues::small_queues;
pub use results::NamedResults;
pub use screen::screen;
pub use side_by_side::side_by_side;
pub use sorting::{Sort, sortable};
pub use trends::{Trends, trends};
pub use verdicts::percent;

/// System whose transport is the floor, against which all others are shown.
pub const FLOOR: &str = "shm";
