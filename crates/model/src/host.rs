//! Two hosts beside each other, as `tripmeter doctor --to` finds them.

use crate::audit::Audit;
use crate::manifest::{Environment, Network};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A system on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemLook {
    /// The version of its transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What that drives, with its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_version: Option<String>,
    /// Why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What was found of a machine.
#[derive(Clone, Debug, Serialize)]
pub struct MachineLook {
    /// What it calls itself.
    pub name: String,
    /// What it says of itself.
    pub environment: Environment,
    /// What disturbs measuring there.
    pub audit: Audit,
    /// Its systems, by name.
    pub systems: BTreeMap<String, SystemLook>,
}

/// What was found of another host, and of the way there.
#[derive(Clone, Debug, Serialize)]
pub struct HostLook {
    /// As ssh takes it.
    pub to: String,
    /// The machine.
    #[serde(flatten)]
    pub machine: MachineLook,
    /// The interface here that messages to it would go over.
    pub here: Network,
    /// The interface there.
    pub there: Network,
    /// Its time of day, where it is known.
    pub clock: Option<ClockOffset>,
    /// Why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_problem: Option<String>,
}

/// How far a time of day is from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockOffset {
    /// Time of day there less that here, in nanoseconds.
    pub offset_ns: i64,
    /// It is off by no more than this: half of the shortest round trip, in nanoseconds.
    pub error_ns: u64,
}
