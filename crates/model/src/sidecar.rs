//! `transport.toml`: what is known of a transport before, and even without, its library.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tripmeter_abi::Names;

/// The file beside every transport's sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sidecar {
    /// The system.
    pub system: String,
    /// One line for people.
    pub summary: String,
    /// Other names, e.g. from a published benchmark.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Debian packages it needs.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Python packages it needs, each pinned as `name==version`; `tripmeter install SYSTEM` installs them.
    #[serde(default)]
    pub python_packages: Vec<String>,
    /// Names of the packages that have no wheel: they are built where they are installed.
    #[serde(default)]
    pub python_sources: Vec<String>,
    /// Variables of the environment that programs of this system usually heed and that have no effect here.
    #[serde(default)]
    pub ignores_environment: Vec<String>,
    /// Settings whose values name a file or a host, as the plugin declares them.
    #[serde(default)]
    pub names_outside: BTreeMap<String, Names>,
    /// What others can reach while it is measured, because the system does not allow to close it.
    #[serde(default)]
    pub open_to_others: Vec<String>,
    /// The Debian package of ours that has it built; empty if none has.
    #[serde(default)]
    pub deb: String,
    /// The command that builds it, empty if it is built in.
    #[serde(default)]
    pub build: String,
    /// The language it is written in.
    pub language: String,
}

impl Sidecar {
    /// Reads the file's text.
    ///
    /// # Errors
    /// What is wrong, with line and column.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }
}
