//! Tables that are printed at the end of a run.

use serde::{Deserialize, Serialize};

/// A table that is printed at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// iceperf's two columns for each technology.
    Iceperf,
    /// eCAL's table: payloads against sub-experiments.
    Ecal,
    /// AimRT's tables of its channel and RPC back ends and of its logger.
    Aimrt,
    /// The first screen: what most people want to know, in 80 columns.
    Screen,
    /// One table of everything.
    All,
    /// Every figure by its address.
    Figures,
}
