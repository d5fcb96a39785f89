use serde::{Deserialize, Serialize};

/// Table that is printed at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// iceperf's two columns for each technology.
    Iceperf,
    /// eCAL's table: payloads against sub-experiments.
    Ecal,
    /// AimRT's tables of its channel and RPC back ends and of its logger.
    Aimrt,
    /// First screen: main results in 80 columns.
    Screen,
    /// One table of everything.
    All,
    /// Every figure by its address.
    Figures,
}
