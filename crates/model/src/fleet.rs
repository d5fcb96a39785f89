//! Fleets: hosts that one command runs on (`HOSTS.toml`), and their progress (`fleet.json`).

use crate::folder::REPORT;
use crate::name::is_name;
use crate::secret::has_password;
use crate::toml_text::{from_toml, one_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Name of the file in the folder of a fleet.
pub const FILE: &str = "fleet.json";
/// Version of that file.
pub const SCHEMA_VERSION: &str = "1.0";
/// Separator of the names of two hosts in the name of their results folder.
const BETWEEN: &str = "--";

/// Contents of the file of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostsFile {
    /// Hosts, each with its own name.
    pub hosts: Vec<FleetHost>,
}

/// A host of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetHost {
    /// Name in tables and folders: letters, digits and `_.=-`.
    pub name: String,
    /// Destination for ssh from here; default: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<String>,
    /// Destination for ssh from the other hosts; default: that from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Address or interface for the messages; default: that of ssh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

impl FleetHost {
    /// Destination for ssh from here.
    pub fn ssh(&self) -> &str {
        self.ssh.as_deref().unwrap_or(&self.name)
    }

    /// Destination for ssh from the other hosts.
    pub fn to(&self) -> &str {
        self.to.as_deref().unwrap_or(self.ssh())
    }
}

impl HostsFile {
    /// Parses the text of the file.
    ///
    /// # Errors
    /// Cause and place, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Self = from_toml(text).map_err(|error| one_line(&error))?;
        let (mut names, mut destinations) = (BTreeSet::new(), BTreeSet::new());
        for host in &file.hosts {
            let name = &host.name;
            let is_file = [FILE, REPORT].contains(&name.as_str());
            if !is_name(name) || name.contains(BETWEEN) || is_file {
                let rule = "1 to 100 letters, digits and '_.=-', without '--' and without '.' or '-' in front";
                return Err(format!("host '{name}': a folder has this name: use {rule}"));
            }
            if !names.insert(name) {
                return Err(format!("host '{name}' occurs twice; give each host its own name"));
            }
            if !destinations.insert(host.ssh()) {
                return Err(format!(
                    "host '{name}': '{}' is also the ssh destination of another host; remove one",
                    host.ssh()
                ));
            }
            if [host.ssh(), host.to()].into_iter().any(has_password) {
                return Err(format!(
                    "host '{name}' has a password, which the results would record; let ssh log in with a key"
                ));
            }
            let empty = [("ssh", &host.ssh), ("to", &host.to), ("interface", &host.interface)];
            if let Some((key, _)) = empty.into_iter().find(|(_, value)| value.as_deref() == Some("")) {
                return Err(format!("host '{name}': '{key}' is empty; remove it or set it"));
            }
        }
        if file.hosts.is_empty() {
            return Err("there are no hosts; write [[hosts]] and name = \"HOST\" for each".to_owned());
        }
        Ok(file)
    }
}

/// Selection of hosts, or of pairs of hosts, to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FleetMode {
    /// Every host by itself.
    Hosts,
    /// Every pair of hosts.
    Pairs,
    /// One host with every other host.
    Star,
}

/// One command on one host, with or without a follower on another host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetJob {
    /// Name of the host that runs the command.
    pub from: String,
    /// Name of the follower's host, if it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Progress of the job.
    pub state: FleetState,
    /// Exit code of the command on its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Reason that there are no results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Progress of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FleetState {
    /// Not tried yet.
    Waiting,
    /// Measured; the results folder is on this host.
    Measured,
    /// Tried without results.
    Failed,
}

impl FleetJob {
    fn new(from: &FleetHost, to: Option<&FleetHost>) -> Self {
        let (from, to) = (from.name.clone(), to.map(|to| to.name.clone()));
        Self { from, to, state: FleetState::Waiting, exit_code: None, problem: None }
    }

    /// Name of its results folder: `a`, `a--b`.
    pub fn name(&self) -> String {
        [Some(self.from.as_str()), self.to.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(BETWEEN)
    }

    /// Names of its hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        [Some(self.from.as_str()), self.to.as_deref()].into_iter().flatten()
    }

    /// True if both jobs have the same hosts.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.from, &self.to) == (&other.from, &other.to)
    }
}

/// Contents of `fleet.json`: requested measurements, and their progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: String,
    /// Selection of hosts or pairs.
    pub mode: FleetMode,
    /// Arguments of the command.
    pub command: Vec<String>,
    /// Text of the experiment file that the command names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    /// Hosts, in the order of the file of hosts.
    pub hosts: Vec<FleetHost>,
    /// Jobs, in the order of the hosts.
    pub jobs: Vec<FleetJob>,
}

/// Jobs of a mode, with hosts or pairs in the order of the file. Pairs are measured from their first host, and with
/// `both_ways` also from their second. `center` is the index of the host of a star.
pub fn jobs(hosts: &[FleetHost], mode: FleetMode, center: usize, both_ways: bool) -> Vec<FleetJob> {
    let pair = |(from, to): (usize, usize)| FleetJob::new(&hosts[from], Some(&hosts[to]));
    let both = |(from, to): (usize, usize)| [(from, to), (to, from)].into_iter().take(1 + usize::from(both_ways));
    let count = hosts.len();
    match mode {
        FleetMode::Hosts => hosts.iter().map(|host| FleetJob::new(host, None)).collect(),
        FleetMode::Pairs => {
            let pairs = (0..count).flat_map(|from| (from + 1..count).map(move |to| (from, to)));
            pairs.flat_map(both).map(pair).collect()
        }
        FleetMode::Star => {
            let others = (0..count).filter(|other| *other != center);
            others.flat_map(|other| both((center, other))).map(pair).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_in_a_file_of_hosts_is_one_line() {
        let host = |text: &str| HostsFile::parse(&format!("[[hosts]]\n{text}\n")).unwrap_err();
        for (text, part) in [
            ("name = \"a\"\naddress = \"x\"", "there is no key 'address'; known are 'name', 'ssh', 'to', 'interface'"),
            ("ssh = \"a\"", "the key 'name' is missing"),
            ("name = \"../a\"", "host '../a': a folder has this name: use 1 to 100 letters"),
            ("name = \"a--b\"", "without '--'"),
            ("name = \"report.html\"", "a folder has this name"),
            ("name = \"a\"\n[[hosts]]\nname = \"a\"", "host 'a' occurs twice"),
            ("name = \"a\"\nssh = \"\"", "host 'a': 'ssh' is empty"),
        ] {
            let error = host(text);
            assert!(error.contains(part) && !error.contains('\n'), "{text}: {error}");
        }
        assert!(HostsFile::parse("hosts = []").unwrap_err().contains("there are no hosts"));
        let password = HostsFile::parse("[[hosts]]\nname = \"a\"\nssh = \"u:hunter2@b\"").unwrap_err();
        assert!(password.contains("host 'a' has a password") && !password.contains("hunter2"), "{password}");
        assert!(HostsFile::parse("").unwrap_err().contains("'hosts' is missing"));
        let file = HostsFile::parse("[[hosts]]\nname = \"a\"\n[[hosts]]\nname = \"b\"\nssh = \"u@b\"").unwrap();
        assert_eq!(
            file.hosts.iter().map(|host| (host.ssh(), host.to())).collect::<Vec<_>>(),
            [("a", "a"), ("u@b", "u@b")]
        );
    }

    #[test]
    fn each_pair_is_measured_once_or_from_both_ends() {
        let file = HostsFile::parse("hosts = [{name = \"a\"}, {name = \"b\"}, {name = \"c\"}]").unwrap();
        let names = |mode, center, both_ways| -> Vec<String> {
            jobs(&file.hosts, mode, center, both_ways).iter().map(FleetJob::name).collect()
        };
        assert_eq!(names(FleetMode::Hosts, 0, false), ["a", "b", "c"]);
        assert_eq!(names(FleetMode::Pairs, 0, false), ["a--b", "a--c", "b--c"]);
        assert_eq!(names(FleetMode::Pairs, 0, true), ["a--b", "b--a", "a--c", "c--a", "b--c", "c--b"]);
        assert_eq!(names(FleetMode::Star, 1, false), ["b--a", "b--c"]);
        assert_eq!(names(FleetMode::Star, 1, true), ["b--a", "a--b", "b--c", "c--b"]);
    }
}
