//! `transport.toml`: properties of a transport that are known without its library.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tripmeter_abi::Names;

/// Contents of the file, which is beside the sources of each transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sidecar {
    /// Name of the system.
    pub system: String,
    /// One-line description.
    pub summary: String,
    /// Other names, e.g. from a published benchmark.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Debian packages that it needs.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Python packages that it needs, each pinned as `name==version`; `tripmeter install SYSTEM` installs them.
    #[serde(default)]
    pub python_packages: Vec<String>,
    /// Python packages without a wheel, which are built during installation.
    #[serde(default)]
    pub python_sources: Vec<String>,
    /// Environment variables that usually affect programs of this system, but have no effect here.
    #[serde(default)]
    pub ignores_environment: Vec<String>,
    /// Settings whose values name a file or a host, as the plugin declares them.
    #[serde(default)]
    pub names_outside: BTreeMap<String, Names>,
    /// Ways in which other users can access the system during a measurement, because it cannot prevent this.
    #[serde(default)]
    pub open_to_others: Vec<String>,
    /// Our Debian package that contains it; empty if none does.
    #[serde(default)]
    pub deb: String,
    /// Command that builds it; empty if it is built in.
    #[serde(default)]
    pub build: String,
    /// Language that it is written in.
    pub language: String,
}

impl Sidecar {
    /// Parses the text of the file.
    ///
    /// # Errors
    /// Text of the error, with line and column.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }
}
