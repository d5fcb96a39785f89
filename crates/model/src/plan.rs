//! An experiment resolved: what will be run, exactly. Nothing starts before a whole plan stands.

use crate::experiment::TableKind;
use crate::transport::Transport;
use crate::{Pattern, Touch, Wait};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is kept of every sample, besides histograms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Raw {
    /// One row per sample.
    #[default]
    Csv,
    /// Nothing; memory is bounded whatever the number of samples.
    None,
}

/// Whether daemons may be started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Daemons {
    /// One that is not running is started and stopped.
    #[default]
    Start,
    /// One that is not running is an error.
    Require,
}

/// One transport under one pattern, over a list of payloads.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubExperiment {
    /// Its name, the stem of its files; unique in the plan.
    pub name: String,
    /// The title of its table.
    pub title: String,
    /// What is measured.
    pub transport: Transport,
    /// What is done.
    pub pattern: Pattern,
    /// How both sides wait.
    pub wait: Wait,
    /// What is done with the payload.
    pub touch: Touch,
    /// Payloads in bytes, in order.
    pub payloads: Vec<u64>,
    /// Round trips per payload.
    pub samples: u64,
    /// Round trips before those, not counted.
    pub warmup: u64,
    /// Most time that one payload may take, in nanoseconds.
    pub time_cap_ns: Option<u64>,
    /// True for one that was added to show the distance from the floor.
    pub added_as_floor: bool,
}

/// A whole experiment.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Name of the preset or file, or `flags`.
    pub source: String,
    /// The sub-experiments in the order written.
    pub sub_experiments: Vec<SubExperiment>,
    /// How often everything is repeated.
    pub rounds: u32,
    /// Seed of the random order of sub-experiments, used where there is more than one round.
    pub seed: u64,
    /// What is kept of every sample.
    pub raw: Raw,
    /// Whether daemons may be started.
    pub daemons: Daemons,
    /// After how many nanoseconds without an answer a message counts as lost.
    pub loss_timeout_ns: u64,
    /// The leader's processor; `None` leaves it to the kernel.
    pub leader_cpu: Option<usize>,
    /// The follower's processor.
    pub follower_cpu: Option<usize>,
    /// Tables printed at the end.
    #[schemars(skip)]
    #[serde(skip, default)]
    pub tables: Vec<TableKind>,
    /// Transports that were asked for but cannot run here, and why: one line each.
    pub left_out: Vec<String>,
    /// Those of them that were asked for by name, and not only by `*`.
    #[serde(default)]
    pub missing: Vec<String>,
}

impl Plan {
    /// Warm-up if none is asked for: 1,000 or a tenth of the samples, whichever is less.
    pub fn default_warmup(samples: u64) -> u64 {
        (samples / 10).min(1000)
    }
}
