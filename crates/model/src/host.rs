//! Hosts and the network paths between them, as found by `tripmeter doctor --to`.

use crate::audit::Audit;
use crate::manifest::{Environment, Network};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Availability of a system on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemLook {
    /// Version of its transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Library or kernel that the transport drives, with its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_version: Option<String>,
    /// Reason that the system cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Properties of a machine.
#[derive(Clone, Debug, Serialize)]
pub struct MachineLook {
    /// Host name.
    pub name: String,
    /// Environment, as the machine reports it.
    pub environment: Environment,
    /// Audit of the machine.
    pub audit: Audit,
    /// Systems by name.
    pub systems: BTreeMap<String, SystemLook>,
}

/// Properties of another host, and of the network path to it.
#[derive(Clone, Debug, Serialize)]
pub struct HostLook {
    /// Destination for ssh.
    pub to: String,
    /// Properties of its machine.
    #[serde(flatten)]
    pub machine: MachineLook,
    /// Interface of this host that messages to it would use.
    pub here: Network,
    /// Interface of that host.
    pub there: Network,
    /// Offset of its clock, if known.
    pub clock: Option<ClockOffset>,
    /// Reason that the offset is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_problem: Option<String>,
}

/// Offset of another host's clock (time of day).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockOffset {
    /// Time of day on that host minus that on this host, in nanoseconds.
    pub offset_ns: i64,
    /// Largest error of the offset, in nanoseconds: half of the shortest round trip.
    pub error_ns: u64,
}
