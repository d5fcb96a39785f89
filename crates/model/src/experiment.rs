//! An experiment as written in a TOML file, a preset or flags, which override the file.

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

/// Number of samples for payloads above a size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenSamplesAbove {
    /// Size above which this number applies, e.g. `64k`; parsed by [`crate::payload::parse_list`].
    pub payload: String,
    /// Round trips per payload.
    pub samples: u64,
}

/// Recording, as written in an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenRecording {
    /// MCAP files, or folders of them, that are played as one recording; a single one may be written without a list.
    #[serde(rename = "file", deserialize_with = "one_or_several", serialize_with = "as_one_or_several")]
    pub files: Vec<PathBuf>,
    /// Playback speed, 0.001 to 1000 times the recorded one; default 1.
    pub speed: Option<f64>,
    /// Topics that are played; default all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// Start of the part that is played, in seconds of the recording; default 0.
    pub from_s: Option<f64>,
    /// End of that part, in seconds of the recording; default its end.
    pub until_s: Option<f64>,
}

/// Topic with its own size and rate, as written in an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenTopic {
    /// Name, unique in the experiment.
    pub name: String,
    /// Size of its messages, e.g. `1k`; parsed by [`crate::payload::parse_size`].
    pub size: String,
    /// Messages per second.
    pub rate: String,
}

impl WrittenRecording {
    /// Playback speed, as a multiple of the recorded one.
    pub fn factor(&self) -> f64 {
        self.speed.unwrap_or(1.0)
    }

    /// Part that is played.
    pub fn part(&self) -> RecordedPart {
        RecordedPart { topics: self.topics.clone(), from_s: self.from_s, until_s: self.until_s }
    }
}

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

/// Declares the fields of the whole experiment that a sub-experiment can override, once for all types that have them.
/// Flattening by serde would do the same, but TOML errors would lose line and column.
macro_rules! with_common_fields {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)+) => {
        /// Fields of the whole experiment that a sub-experiment can override; missing fields have their default.
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Common {
            $($(#[$doc])* pub $field: Option<$type>,)+
        }

        /// Entry of `[[sub_experiment]]`.
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct SubExperimentFile {
            /// Transport, e.g. `uds/datagram`, parsed by [`crate::transport::Selector`]; `*` selects several.
            pub transport: String,
            /// Name, also of its files; default made of transport, wait and touch.
            pub name: Option<String>,
            /// Title of its table; default the transport.
            pub title: Option<String>,
            $($(#[$doc])* pub $field: Option<$type>,)+
        }

        /// Experiment, as written in a file.
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Experiment {
            /// One-line description, shown in lists.
            pub summary: Option<String>,
            $($(#[$doc])* pub $field: Option<$type>,)+
            /// Number of rounds, each with fresh processes; default 1.
            pub rounds: Option<u32>,
            /// Duration in seconds for which rounds are repeated, in place of their number.
            pub for_s: Option<f64>,
            /// Seed of the random order; default from the clock.
            pub seed: Option<u64>,
            /// Files of samples to keep, e.g. `["samples", "eprosima"]` or `["none"]`; default `["samples"]`.
            pub raw: Option<Raw>,
            /// Number of newest rounds whose files of samples are kept; default all.
            pub keep_samples: Option<u32>,
            /// Streams that have their own figures if there are many topics or clients; default `few`.
            pub streams: Option<Streams>,
            /// True if the floor is measured beside each sub-experiment; default true.
            pub floor: Option<bool>,
            /// Policy for missing daemons: start them, or fail; default `start`.
            pub daemons: Option<Daemons>,
            /// Attempts per payload, 1 to 3, while the core-to-core probe changes; default 3.
            pub attempts: Option<u32>,
            /// Loss time-out in seconds: a message without an answer counts as lost; default 1, for calls (`call`) 3.
            pub loss_timeout_s: Option<f64>,
            /// CPU of the leader.
            pub leader_cpu: Option<usize>,
            /// CPU of the follower.
            pub follower_cpu: Option<usize>,
            /// CPUs that both processes may use under `publish` and `call`, e.g. `0-2`.
            pub cpus: Option<String>,
            /// True if the experiment makes sense only between hosts and needs `to`; default false.
            pub between_hosts: Option<bool>,
            /// Other hosts, each with a follower, as ssh destinations, e.g. `["user@host"]`; default this host.
            pub to: Option<Vec<String>>,
            /// Address or interface on this host that the other hosts reach; default that of ssh.
            pub interface: Option<String>,
            /// Address or interface on the other hosts, one for all or one for each; default that of ssh.
            pub to_interface: Option<Vec<String>>,
            /// Largest clock error, in microseconds, at which one-way latencies between hosts are reported; default
            /// 100.
            pub max_clock_error_us: Option<f64>,
            /// Tables printed at the end; default `["screen"]`.
            pub tables: Option<Vec<TableKind>>,
            /// Settings for all transports that have a setting of this name.
            #[serde(default)]
            pub settings: BTreeMap<String, String>,
            /// Recording whose messages are published (`publish`, the default pattern then) or called (`call`).
            #[serde(rename = "recording")]
            pub written_recording: Option<WrittenRecording>,
            /// Topics that are published instead of a recording, for `duration_s`; default 10 s.
            #[serde(default, rename = "topic", skip_serializing_if = "Vec::is_empty")]
            pub written_topics: Vec<WrittenTopic>,
            /// The recording, once read, or one made of the topics.
            #[serde(skip)]
            pub recording: Option<Recording>,
            /// Sub-experiments.
            #[serde(default, rename = "sub_experiment")]
            pub sub_experiments: Vec<SubExperimentFile>,
        }

        impl Common {
            /// Fields of `self`, replaced by those of `other` where missing.
            pub fn or(&self, other: &Common) -> Common {
                Common { $($field: self.$field.as_ref().or(other.$field.as_ref()).cloned(),)+ }
            }
        }

        impl SubExperimentFile {
            /// Common fields that this entry sets.
            pub fn common(&self) -> Common {
                Common { $($field: self.$field.as_ref().cloned(),)+ }
            }
        }

        impl Experiment {
            /// Common fields that the experiment sets for all sub-experiments.
            pub fn common(&self) -> Common {
                Common { $($field: self.$field.as_ref().cloned(),)+ }
            }

            /// Overrides the fields of the experiment and of its sub-experiments by `flags`.
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
    /// Pattern; default `ping`.
    pattern: Pattern,
    /// Payloads, parsed by [`crate::payload::parse_list`]; default `1k..4M`.
    payloads: String,
    /// Round trips per payload; default 10,000.
    samples: u64,
    /// Numbers of samples for payloads above given sizes; the largest size below a payload applies.
    samples_above: Vec<WrittenSamplesAbove>,
    /// Round trips of the warm-up, not counted; default 1,000 or a tenth of the samples, whichever is less.
    warmup: u64,
    /// Time limit per payload, in seconds; default none.
    time_cap_s: f64,
    /// True if arrivals at the follower are recorded as well, for one-way latency; default false.
    one_way: bool,
    /// Number of followers, each of which receives every message; default 1.
    followers: u32,
    /// Wait strategy of both sides; default the first of poll, block, callback that the transport supports.
    wait: Wait,
    /// Part of the payload that is written and verified; default `none`.
    touch: Touch,
    /// Longest duration of a trial under `throughput`, in seconds; default 1, or unlimited if `samples` is set.
    duration_s: f64,
    /// Rate per second. `throughput`: messages; a list makes one trial per rate; default `max`. `publish`: messages of
    /// each publisher on each topic; `call`: calls of each client; default 1000. `ping`: round trips.
    rate: String,
    /// Largest loss at which `throughput` searches for the highest rate, e.g. `0` or `0.5%`.
    loss_bound: String,
    /// Messages, calls or round trips per burst; a list makes one trial per size, after the rates.
    demand: String,
    /// Milliseconds from the start of one burst to the next; a list makes one trial per value; default 5.
    recovery_ms: String,
    /// Number of topics under `publish`, each with its own publishing thread; default 1.
    topics: u32,
    /// Number of publishers under `publish` with one topic, each with its own thread; default 1.
    publishers: u32,
    /// When a client makes its next call under `call`; default `bench`, or `fixed-freq` with a rate or bursts.
    mode: Mode,
    /// Number of parallel clients under `call`, e.g. `4`; a list makes one sub-experiment per number; default 1.
    clients: String,
    /// Scheduling of both processes while they measure; default `other`.
    sched: Sched,
    /// Background loads, e.g. `["none", "cpu:1,memory"]`; each makes a sub-experiment; default none.
    #[serde(alias = "load")]
    background: Vec<BackgroundLoad>,
}

impl SubExperimentFile {
    /// Entry that sets only the transport.
    pub fn for_transport(transport: &str) -> Self {
        Self { transport: transport.to_owned(), ..Self::default() }
    }
}

impl Experiment {
    /// True if it plays a recording, or topics with a size and a rate each.
    pub fn is_recorded(&self) -> bool {
        self.written_recording.is_some() || !self.written_topics.is_empty()
    }

    /// Parses the text of a TOML file.
    ///
    /// # Errors
    /// Cause and place: line, column and the quoted line, as shown by the TOML library.
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
