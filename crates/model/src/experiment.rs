//! An experiment as written: in a TOML file, in a preset, or by flags, which override the file.

use crate::interference::{BackgroundLoad, Sched};
use crate::kept::{Raw, Streams};
pub use crate::mode::Mode;
use crate::plan::Daemons;
use crate::recording::{RecordedPart, Recording};
pub use crate::table_kind::TableKind;
use crate::toml_text::from_toml;
use crate::{Pattern, Touch, Wait};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Another number of samples for large payloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenSamplesAbove {
    /// For payloads larger than this, as [`crate::payload::parse_list`] reads one.
    pub payload: String,
    /// Round trips per payload.
    pub samples: u64,
}

/// A recording as an experiment names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenRecording {
    /// MCAP files, or folders of them, that are played as one; a single one is written without a list.
    #[serde(rename = "file", deserialize_with = "one_or_several", serialize_with = "as_one_or_several")]
    pub files: Vec<PathBuf>,
    /// How many times faster it is played, 0.001 to 1000; default 1.
    pub speed: Option<f64>,
    /// Topics that are played; default all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// Seconds of the recording before the part that is played; default 0.
    pub from_s: Option<f64>,
    /// Seconds of the recording at which that part ends; default all.
    pub until_s: Option<f64>,
}

impl WrittenRecording {
    /// How many times faster it is played.
    pub fn factor(&self) -> f64 {
        self.speed.unwrap_or(1.0)
    }

    /// Part that is played.
    pub fn part(&self) -> RecordedPart {
        RecordedPart { topics: self.topics.clone(), from_s: self.from_s, until_s: self.until_s }
    }
}

/// A value, or a list of them.
#[derive(Deserialize)]
#[serde(untagged, expecting = "not the path of a recording, or a list of such paths")]
enum OneOrSeveral {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    match OneOrSeveral::deserialize(deserializer)? {
        OneOrSeveral::One(one) => Ok(vec![one]),
        OneOrSeveral::Several(several) if several.is_empty() => {
            Err(serde::de::Error::custom("the list of recordings is empty; name one"))
        }
        OneOrSeveral::Several(several) => Ok(several),
    }
}

fn as_one_or_several<S: Serializer>(files: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    match files {
        [one] => one.serialize(serializer),
        several => several.serialize(serializer),
    }
}

/// Declares what can be said for the whole experiment and again for one sub-experiment, once for all types that have it:
/// serde can flatten one into the others, but then TOML errors lose line and column.
macro_rules! with_common_fields {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)+) => {
        /// What can be said for the whole experiment and again for one sub-experiment. What is missing has its default.
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Common {
            $($(#[$doc])* pub $field: Option<$type>,)+
        }

        /// One entry of `[[sub_experiment]]`.
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct SubExperimentFile {
            /// A transport, as [`crate::transport::Selector`] reads it; `*` makes several of it.
            pub transport: String,
            /// Its name, the stem of its files; default made of transport, wait and touch.
            pub name: Option<String>,
            /// The title of its table; default the transport.
            pub title: Option<String>,
            $($(#[$doc])* pub $field: Option<$type>,)+
        }

        /// A whole experiment as written.
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Experiment {
            /// One line for people.
            pub summary: Option<String>,
            $($(#[$doc])* pub $field: Option<$type>,)+
            /// How often everything is repeated, with fresh processes; default 1.
            pub rounds: Option<u32>,
            /// Repeat everything for so many seconds, in place of a number of rounds.
            pub for_s: Option<f64>,
            /// Seed of the random order; default from the clock.
            pub seed: Option<u64>,
            /// What is kept of every sample, e.g. `["samples", "eprosima"]` or `["none"]`; default `["samples"]`.
            pub raw: Option<Raw>,
            /// Newest rounds whose files of samples are kept; default all.
            pub keep_samples: Option<u32>,
            /// Which streams have figures of their own where topics or clients are many; default `few`.
            pub streams: Option<Streams>,
            /// Whether the floor is measured beside each; default true.
            pub floor: Option<bool>,
            /// Whether daemons may be started; default `start`.
            pub daemons: Option<Daemons>,
            /// Most times that a payload is measured whose hand-over probe changes, 1 to 3; default 3.
            pub attempts: Option<u32>,
            /// After how many seconds without an answer a message counts as lost; default 1, of calls (`rpc`) 3.
            pub loss_timeout_s: Option<f64>,
            /// The leader's CPU.
            pub leader_cpu: Option<usize>,
            /// The follower's CPU.
            pub follower_cpu: Option<usize>,
            /// Under `channel` and `rpc`: the CPUs that both processes are confined to, as `0-2`.
            pub cpus: Option<String>,
            /// Whether it makes no sense on one host, and must be told another one; default false.
            pub between_hosts: Option<bool>,
            /// Other hosts as ssh takes them, e.g. `["user@host"]`: a follower runs on each; default on this host.
            pub to: Option<Vec<String>>,
            /// The address or the name of the interface here that those hosts reach; default that of ssh.
            pub interface: Option<String>,
            /// The same there: one for all hosts, or one for each; default that of ssh.
            pub to_interface: Option<Vec<String>>,
            /// Latencies one way between hosts have no figures if their clocks may be further apart, in microseconds; default 100.
            pub max_clock_error_us: Option<f64>,
            /// Tables printed at the end; default `["screen"]`.
            pub tables: Option<Vec<TableKind>>,
            /// Settings of every transport that has them and does not say otherwise.
            #[serde(default)]
            pub settings: BTreeMap<String, String>,
            /// Under `channel`, its default then, and `rpc`: the recording whose messages are published or called.
            #[serde(rename = "recording")]
            pub written_recording: Option<WrittenRecording>,
            /// That recording, once it was read.
            #[serde(skip)]
            pub recording: Option<Recording>,
            /// What is measured.
            #[serde(default, rename = "sub_experiment")]
            pub sub_experiments: Vec<SubExperimentFile>,
        }

        impl Common {
            /// `self` where it says something, else `other`.
            pub fn or(&self, other: &Common) -> Common {
                Common { $($field: self.$field.as_ref().or(other.$field.as_ref()).cloned(),)+ }
            }
        }

        impl SubExperimentFile {
            /// What it says of its own.
            pub fn common(&self) -> Common {
                Common { $($field: self.$field.as_ref().cloned(),)+ }
            }
        }

        impl Experiment {
            /// What it says for all sub-experiments.
            pub fn common(&self) -> Common {
                Common { $($field: self.$field.as_ref().cloned(),)+ }
            }

            /// Replaces what it and its sub-experiments say by what `flags` say.
            pub fn override_with(&mut self, flags: &Common) {
                $(if flags.$field.is_some() {
                    self.$field.clone_from(&flags.$field);
                    self.sub_experiments.iter_mut().for_each(|entry| entry.$field.clone_from(&flags.$field));
                })+
            }
        }
    };
}

with_common_fields! {
    /// What is done; default `pingpong`.
    pattern: Pattern,
    /// Payloads as [`crate::payload::parse_list`] reads them; default `1k..4M`.
    payloads: String,
    /// Round trips per payload; default 10,000.
    samples: u64,
    /// Other numbers for payloads above some sizes; the largest size below a payload counts.
    samples_above: Vec<WrittenSamplesAbove>,
    /// Round trips before those, not counted; default 1,000 or a tenth of the samples, whichever is less.
    warmup: u64,
    /// Most time that one payload may take, in seconds; default no limit.
    time_cap_s: f64,
    /// Whether the follower's arrivals are noted as well, for latency one way; default false.
    one_way: bool,
    /// Followers that every message is sent to; default 1.
    followers: u32,
    /// How both sides wait; default the first that the transport can do of poll, block, callback.
    wait: Wait,
    /// What is done with the payload; default `none`.
    touch: Touch,
    /// Under `throughput`: longest time of a trial, in seconds; default 1, or none if `samples` says how many messages.
    duration_s: f64,
    /// Under `throughput`: messages per second, or `max`; a list makes a trial of each; default `max`. Under `channel`:
    /// messages per second of each publisher on each topic, under `rpc` calls per second of each client; default 1000.
    /// Under `pingpong`: round trips per second.
    rate: String,
    /// Under `throughput`: search for the highest rate with no more loss than this, e.g. `0` or `0.5%`.
    loss_bound: String,
    /// Messages, calls or round trips per burst; a list makes a trial of each, after the rates.
    demand: String,
    /// Milliseconds from the begin of one burst to the next; a list makes a trial of each; default 5.
    recovery_ms: String,
    /// Under `channel`: topics, each with a publishing thread of its own; default 1.
    topics: u32,
    /// Under `channel` with one topic: its publishers, each with a thread of its own; default 1.
    publishers: u32,
    /// Under `rpc`: when a client makes its next call; default `bench`, or `fixed-freq` with a rate or bursts.
    mode: Mode,
    /// Under `rpc`: clients that work beside each other, e.g. `4`; a list makes a sub-experiment of each; default 1.
    clients: String,
    /// How both processes are scheduled while they measure; default `other`.
    sched: Sched,
    /// What disturbs the measurement, e.g. `["none", "cpu:1,memory"]`; each makes a sub-experiment; default none.
    load: Vec<BackgroundLoad>,
}

impl SubExperimentFile {
    /// An entry that says its transport only.
    pub fn of(transport: &str) -> Self {
        Self { transport: transport.to_owned(), ..Self::default() }
    }
}

impl Experiment {
    /// Reads a TOML file's text.
    ///
    /// # Errors
    /// What is wrong and where: line, column and the line itself, as the TOML library draws it.
    pub fn parse(text: &str) -> Result<Self, String> {
        from_toml(text)
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
        assert!(error.contains("line 2, column 1") && error.contains("\nthere is no key 'sample'"), "{error}");
        let error = Experiment::parse("samples = -1\n").unwrap_err();
        let what = "'samples': found -1, expected a whole number of 0 or more";
        assert!(error.contains("line 1, column 11") && error.contains(what), "{error}");
    }

    #[test]
    fn a_sub_experiment_overrides_the_experiment() {
        let text = "samples = 10\nwait = \"block\"\n[[sub_experiment]]\ntransport = \"uds\"\nwait = \"poll\"\n";
        let file = Experiment::parse(text).unwrap();
        let common = file.sub_experiments[0].common().or(&file.common());
        assert_eq!((common.samples, common.wait), (Some(10), Some(Wait::Poll)));
    }
}
