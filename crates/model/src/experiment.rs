//! An experiment as written: in a TOML file, in a preset, or by flags, which override the file.

use crate::plan::{Daemons, Raw};
use crate::recording::Recording;
use crate::rpc::Mode;
use crate::{Pattern, Touch, Wait};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which tables are printed at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// iceperf's two columns for each technology.
    Iceperf,
    /// eCAL's table: payloads against sub-experiments.
    Ecal,
    /// AimRT's tables of its channel and RPC back ends and of its logger.
    Aimrt,
    /// One table of everything.
    All,
}

/// Another number of samples for large payloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplesAbove {
    /// For payloads larger than this, as [`crate::payload::parse_list`] reads one.
    pub payload: String,
    /// Round trips per payload.
    pub samples: u64,
}

/// What can be said for the whole experiment and again for one sub-experiment. What is missing has its default.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// What is done; default `pingpong`.
    pub pattern: Option<Pattern>,
    /// Payloads as [`crate::payload::parse_list`] reads them; default `1k..4M`.
    pub payloads: Option<String>,
    /// Round trips per payload; default 10,000.
    pub samples: Option<u64>,
    /// Other numbers for payloads above some sizes; the largest size below a payload counts.
    pub samples_above: Option<Vec<SamplesAbove>>,
    /// Round trips before those, not counted; default 1,000 or a tenth of the samples, whichever is less.
    pub warmup: Option<u64>,
    /// Most time that one payload may take, in seconds; default no limit.
    pub time_cap_s: Option<f64>,
    /// Whether the follower's arrivals are noted as well, for latency one way; default false.
    pub one_way: Option<bool>,
    /// Followers that every message is sent to; default 1.
    pub followers: Option<u32>,
    /// How both sides wait; default the first that the transport can do of poll, block, callback.
    pub wait: Option<Wait>,
    /// What is done with the payload; default `none`.
    pub touch: Option<Touch>,
    /// Under `throughput`: longest time of a trial, in seconds; default 1, or none if `samples` says how many messages.
    pub duration_s: Option<f64>,
    /// Under `throughput`: messages per second, or `max`; a list makes a trial of each; default `max`. Under `channel`:
    /// messages per second of each publisher on each topic; default 1000. Under `rpc` with `fixed-freq`: calls per second of each client;
    /// default 1000.
    pub rate: Option<String>,
    /// Under `throughput`: search for the highest rate with no more loss than this, e.g. `0` or `0.5%`.
    pub loss_bound: Option<String>,
    /// Under `throughput`: messages per burst; a list makes a trial of each.
    pub demand: Option<String>,
    /// Under `throughput`: milliseconds from the begin of one burst to the next; a list makes a trial of each; default 5.
    pub recovery_ms: Option<String>,
    /// Under `channel`: topics, each with a publishing thread of its own; default 1.
    pub topics: Option<u32>,
    /// Under `channel` with one topic: its publishers, each with a thread of its own; default 1.
    pub publishers: Option<u32>,
    /// Under `rpc`: when a client makes its next call; default `bench`.
    pub mode: Option<Mode>,
    /// Under `rpc`: clients that work beside each other, e.g. `4`; a list makes a sub-experiment of each; default 1.
    pub clients: Option<String>,
}

impl Common {
    /// `self` where it says something, else `other`.
    pub fn or(&self, other: &Common) -> Common {
        Common {
            pattern: self.pattern.or(other.pattern),
            payloads: self.payloads.clone().or_else(|| other.payloads.clone()),
            samples: self.samples.or(other.samples),
            samples_above: self.samples_above.clone().or_else(|| other.samples_above.clone()),
            warmup: self.warmup.or(other.warmup),
            time_cap_s: self.time_cap_s.or(other.time_cap_s),
            one_way: self.one_way.or(other.one_way),
            followers: self.followers.or(other.followers),
            wait: self.wait.or(other.wait),
            touch: self.touch.or(other.touch),
            duration_s: self.duration_s.or(other.duration_s),
            rate: self.rate.clone().or_else(|| other.rate.clone()),
            loss_bound: self.loss_bound.clone().or_else(|| other.loss_bound.clone()),
            demand: self.demand.clone().or_else(|| other.demand.clone()),
            recovery_ms: self.recovery_ms.clone().or_else(|| other.recovery_ms.clone()),
            topics: self.topics.or(other.topics),
            publishers: self.publishers.or(other.publishers),
            mode: self.mode.or(other.mode),
            clients: self.clients.clone().or_else(|| other.clients.clone()),
        }
    }
}

/// One entry of `[[sub_experiment]]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubExperimentFile {
    /// A transport, as [`crate::transport::Selector`] reads it; `*` makes several of it.
    pub transport: String,
    /// Its name, the stem of its files; default made of transport, wait and touch.
    pub name: Option<String>,
    /// The title of its table; default the transport.
    pub title: Option<String>,
    /// What it does.
    pub pattern: Option<Pattern>,
    /// See [`Common::payloads`].
    pub payloads: Option<String>,
    /// See [`Common::samples`].
    pub samples: Option<u64>,
    /// See [`Common::samples_above`].
    pub samples_above: Option<Vec<SamplesAbove>>,
    /// See [`Common::warmup`].
    pub warmup: Option<u64>,
    /// See [`Common::time_cap_s`].
    pub time_cap_s: Option<f64>,
    /// See [`Common::one_way`].
    pub one_way: Option<bool>,
    /// See [`Common::followers`].
    pub followers: Option<u32>,
    /// See [`Common::wait`].
    pub wait: Option<Wait>,
    /// See [`Common::touch`].
    pub touch: Option<Touch>,
    /// See [`Common::duration_s`].
    pub duration_s: Option<f64>,
    /// See [`Common::rate`].
    pub rate: Option<String>,
    /// See [`Common::loss_bound`].
    pub loss_bound: Option<String>,
    /// See [`Common::demand`].
    pub demand: Option<String>,
    /// See [`Common::recovery_ms`].
    pub recovery_ms: Option<String>,
    /// See [`Common::topics`].
    pub topics: Option<u32>,
    /// See [`Common::publishers`].
    pub publishers: Option<u32>,
    /// See [`Common::mode`].
    pub mode: Option<Mode>,
    /// See [`Common::clients`].
    pub clients: Option<String>,
}

impl SubExperimentFile {
    /// An entry that says its transport only.
    pub fn of(transport: &str) -> Self {
        Self {
            transport: transport.to_owned(),
            name: None,
            title: None,
            pattern: None,
            payloads: None,
            samples: None,
            samples_above: None,
            warmup: None,
            time_cap_s: None,
            one_way: None,
            followers: None,
            wait: None,
            touch: None,
            duration_s: None,
            rate: None,
            loss_bound: None,
            demand: None,
            recovery_ms: None,
            topics: None,
            publishers: None,
            mode: None,
            clients: None,
        }
    }

    /// What it says of its own.
    pub fn common(&self) -> Common {
        Common {
            pattern: self.pattern,
            payloads: self.payloads.clone(),
            samples: self.samples,
            samples_above: self.samples_above.clone(),
            warmup: self.warmup,
            time_cap_s: self.time_cap_s,
            one_way: self.one_way,
            followers: self.followers,
            wait: self.wait,
            touch: self.touch,
            duration_s: self.duration_s,
            rate: self.rate.clone(),
            loss_bound: self.loss_bound.clone(),
            demand: self.demand.clone(),
            recovery_ms: self.recovery_ms.clone(),
            topics: self.topics,
            publishers: self.publishers,
            mode: self.mode,
            clients: self.clients.clone(),
        }
    }
}

/// A whole experiment as written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// One line for people.
    pub summary: Option<String>,
    /// See [`Common::pattern`].
    pub pattern: Option<Pattern>,
    /// See [`Common::payloads`].
    pub payloads: Option<String>,
    /// See [`Common::samples`].
    pub samples: Option<u64>,
    /// See [`Common::samples_above`].
    pub samples_above: Option<Vec<SamplesAbove>>,
    /// See [`Common::warmup`].
    pub warmup: Option<u64>,
    /// See [`Common::time_cap_s`].
    pub time_cap_s: Option<f64>,
    /// See [`Common::one_way`].
    pub one_way: Option<bool>,
    /// See [`Common::followers`].
    pub followers: Option<u32>,
    /// See [`Common::wait`].
    pub wait: Option<Wait>,
    /// See [`Common::touch`].
    pub touch: Option<Touch>,
    /// See [`Common::duration_s`].
    pub duration_s: Option<f64>,
    /// See [`Common::rate`].
    pub rate: Option<String>,
    /// See [`Common::loss_bound`].
    pub loss_bound: Option<String>,
    /// See [`Common::demand`].
    pub demand: Option<String>,
    /// See [`Common::recovery_ms`].
    pub recovery_ms: Option<String>,
    /// See [`Common::topics`].
    pub topics: Option<u32>,
    /// See [`Common::publishers`].
    pub publishers: Option<u32>,
    /// See [`Common::mode`].
    pub mode: Option<Mode>,
    /// See [`Common::clients`].
    pub clients: Option<String>,
    /// How often everything is repeated, with fresh processes; default 1.
    pub rounds: Option<u32>,
    /// Seed of the random order; default from the clock.
    pub seed: Option<u64>,
    /// What is kept of every sample; default `csv`.
    pub raw: Option<Raw>,
    /// Whether the floor is measured beside each; default true.
    pub floor: Option<bool>,
    /// Whether daemons may be started; default `start`.
    pub daemons: Option<Daemons>,
    /// Most times that a payload is measured whose hand-over probe changes, 1 to 3; default 3.
    pub attempts: Option<u32>,
    /// After how many seconds without an answer a message counts as lost; default 1, of calls (`rpc`) 3.
    pub loss_timeout_s: Option<f64>,
    /// The leader's processor.
    pub leader_cpu: Option<usize>,
    /// The follower's processor.
    pub follower_cpu: Option<usize>,
    /// Under `channel` and `rpc`: the processors that both processes are confined to, as `0-2`.
    pub cpus: Option<String>,
    /// Tables printed at the end; default `["all"]`.
    pub tables: Option<Vec<TableKind>>,
    /// Settings of every transport that has them and does not say otherwise.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The recording whose messages are published, if one was read; no file names one.
    #[serde(skip)]
    pub recording: Option<Recording>,
    /// What is measured.
    #[serde(default, rename = "sub_experiment")]
    pub sub_experiments: Vec<SubExperimentFile>,
}

impl Experiment {
    /// Reads a TOML file's text.
    ///
    /// # Errors
    /// What is wrong and where: line, column and the line itself, as the TOML library draws it.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// What it says for all sub-experiments.
    pub fn common(&self) -> Common {
        Common {
            pattern: self.pattern,
            payloads: self.payloads.clone(),
            samples: self.samples,
            samples_above: self.samples_above.clone(),
            warmup: self.warmup,
            time_cap_s: self.time_cap_s,
            one_way: self.one_way,
            followers: self.followers,
            wait: self.wait,
            touch: self.touch,
            duration_s: self.duration_s,
            rate: self.rate.clone(),
            loss_bound: self.loss_bound.clone(),
            demand: self.demand.clone(),
            recovery_ms: self.recovery_ms.clone(),
            topics: self.topics,
            publishers: self.publishers,
            mode: self.mode,
            clients: self.clients.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_line_and_column_of_its_mistake() {
        let error = Experiment::parse("samples = 10\nwait = \"sometimes\"\n").unwrap_err();
        assert!(error.contains("line 2, column 8"), "{error}");
        let error = Experiment::parse("samples = 10\nsample = 10\n").unwrap_err();
        assert!(error.contains("line 2, column 1") && error.contains("unknown field"), "{error}");
    }

    #[test]
    fn a_sub_experiment_overrides_the_experiment() {
        let text = "samples = 10\nwait = \"block\"\n[[sub_experiment]]\ntransport = \"uds\"\nwait = \"poll\"\n";
        let file = Experiment::parse(text).unwrap();
        let common = file.sub_experiments[0].common().or(&file.common());
        assert_eq!((common.samples, common.wait), (Some(10), Some(Wait::Poll)));
    }
}
