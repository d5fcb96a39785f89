use serde::{Deserialize, Serialize};

/// Table that is printed at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// Table of iceperf: two columns for each technology.
    Iceperf,
    /// Table of eCAL: payloads in rows, sub-experiments in columns.
    Ecal,
    /// Tables of AimRT: its channel and RPC back ends, and its logger.
    Aimrt,
    /// First screen: main results in 80 columns.
    Screen,
    /// One table with all results.
    All,
    /// Every figure by its address.
    Figures,
}
