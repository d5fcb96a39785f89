//! An experiment as written: in a TOML file, in a preset, or by flags, which override the file.

use crate::plan::{Daemons, Raw};
use crate::{Pattern, Touch, Wait};
use serde::{Deserialize, Serialize};

/// Which tables are printed at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// iceperf's two columns for each technology.
    Iceperf,
    /// One table of everything.
    All,
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
    /// Round trips before those, not counted; default 1,000 or a tenth of the samples, whichever is less.
    pub warmup: Option<u64>,
    /// Most time that one payload may take, in seconds; default no limit.
    pub time_cap_s: Option<f64>,
    /// How both sides wait; default the first that the transport can do of poll, block, callback.
    pub wait: Option<Wait>,
    /// What is done with the payload; default `none`.
    pub touch: Option<Touch>,
}

impl Common {
    /// `self` where it says something, else `other`.
    pub fn or(&self, other: &Common) -> Common {
        Common {
            pattern: self.pattern.or(other.pattern),
            payloads: self.payloads.clone().or_else(|| other.payloads.clone()),
            samples: self.samples.or(other.samples),
            warmup: self.warmup.or(other.warmup),
            time_cap_s: self.time_cap_s.or(other.time_cap_s),
            wait: self.wait.or(other.wait),
            touch: self.touch.or(other.touch),
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
    /// See [`Common::warmup`].
    pub warmup: Option<u64>,
    /// See [`Common::time_cap_s`].
    pub time_cap_s: Option<f64>,
    /// See [`Common::wait`].
    pub wait: Option<Wait>,
    /// See [`Common::touch`].
    pub touch: Option<Touch>,
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
            warmup: None,
            time_cap_s: None,
            wait: None,
            touch: None,
        }
    }

    /// What it says of its own.
    pub fn common(&self) -> Common {
        Common {
            pattern: self.pattern,
            payloads: self.payloads.clone(),
            samples: self.samples,
            warmup: self.warmup,
            time_cap_s: self.time_cap_s,
            wait: self.wait,
            touch: self.touch,
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
    /// See [`Common::warmup`].
    pub warmup: Option<u64>,
    /// See [`Common::time_cap_s`].
    pub time_cap_s: Option<f64>,
    /// See [`Common::wait`].
    pub wait: Option<Wait>,
    /// See [`Common::touch`].
    pub touch: Option<Touch>,
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
    /// After how many seconds without an answer a message counts as lost; default 1.
    pub loss_timeout_s: Option<f64>,
    /// The leader's processor.
    pub leader_cpu: Option<usize>,
    /// The follower's processor.
    pub follower_cpu: Option<usize>,
    /// Tables printed at the end; default `["all"]`.
    pub tables: Option<Vec<TableKind>>,
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
            warmup: self.warmup,
            time_cap_s: self.time_cap_s,
            wait: self.wait,
            touch: self.touch,
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
