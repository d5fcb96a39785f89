//! Options of nodes and links.

use crate::{Callback, Error, Pattern, Result, Status, UnauthorizedPeer, Wait};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// Subfolder of the scratch folder for files that the leader writes for all processes.
pub const AGREED_FOLDER: &str = "agreed";

/// Role of a process in a sub-experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends and records.
    Leader,
    /// Answers.
    Follower,
}

/// Options of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeOptions {
    /// Role of this process.
    pub role: Role,
    /// Pattern of the messages.
    pub pattern: Pattern,
    /// Wait strategy of this side.
    pub wait: Wait,
    /// Name of the variant.
    pub variant: String,
    /// All settings of the description, defaults included.
    pub settings: BTreeMap<String, String>,
    /// Id that is unique on this host; prefix of every name created outside `scratch_dir`.
    pub run_id: String,
    /// Folder for sockets, FIFOs and generated files; removed by the host.
    pub scratch_dir: PathBuf,
    /// Largest message that will be loaned, in bytes.
    pub max_payload_bytes: u64,
    /// Number of links that will be opened.
    pub link_count: u32,
    /// Number of the leader's links that publish on one topic; the follower's only link receives from all. 1 unless the
    /// variant declares [`publishers`](crate::Variant::publishers).
    #[serde(default = "one")]
    pub publisher_count: u32,
    /// Number of followers.
    pub follower_count: u32,
    /// Index of the follower, from 0; 0 for the leader.
    pub follower_index: u32,
    /// Unauthorized peer to imitate, using the domain, topic and addresses of a true node.
    #[serde(default)]
    pub unauthorized_peer: Option<UnauthorizedPeer>,
    /// Interface address that peers on another host reach; `None` if all are on this host.
    #[serde(default)]
    pub local_address: Option<IpAddr>,
}

fn one() -> u32 {
    1
}

impl NodeOptions {
    /// True if several links of the leader publish on one topic.
    pub fn has_publishers(&self) -> bool {
        self.publisher_count > 1
    }

    /// Index for the topic name of a link; links that publish on one topic share it.
    pub fn topic_of(&self, link: u32) -> u32 {
        if self.has_publishers() { 0 } else { link }
    }

    /// Address to listen at: that of the requested interface, or the loopback.
    pub fn address(&self) -> IpAddr {
        self.local_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Value of a setting; empty only if the host has not filled in a default.
    pub fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    /// Folder for files from the leader to the followers. Followers on other hosts get copies, without subfolders,
    /// before their nodes open.
    pub fn agreed_folder(&self) -> PathBuf {
        self.scratch_dir.join(AGREED_FOLDER)
    }

    /// Destination of lines under pattern `log`: a file that the logger creates, or an existing FIFO with a reader.
    pub fn log_file(&self) -> PathBuf {
        self.scratch_dir.join("log")
    }

    /// Value of an on/off setting; `preset` if it is not given.
    ///
    /// # Errors
    /// [`Status::Invalid`] if it is neither on nor off.
    pub fn is_on(&self, name: &str, preset: bool) -> Result<bool> {
        match self.setting(name) {
            "" => Ok(preset),
            "on" => Ok(true),
            "off" => Ok(false),
            other => Err(Error::new(Status::Invalid, format!("setting '{name}={other}' is neither on nor off"))),
        }
    }

    /// Value of a setting that is a whole number within `range`.
    ///
    /// # Errors
    /// [`Status::Invalid`] if it is not a whole number, [`Status::Limit`] outside the range.
    pub fn number(&self, name: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64> {
        let text = self.setting(name);
        let value: u64 = text
            .parse()
            .map_err(|_| Error::new(Status::Invalid, format!("setting '{name}={text}' is not a whole number")))?;
        if range.contains(&value) {
            return Ok(value);
        }
        let (low, high) = (range.start(), range.end());
        Err(Error::new(Status::Limit, format!("setting '{name}={value}' is outside {low} to {high}")))
    }
}

/// Options of a link.
#[derive(Clone, Copy)]
pub struct LinkOptions {
    /// Index of the topic, client or publisher, from 0.
    pub index: u32,
    /// Function to call for each message; only with wait `callback`.
    pub callback: Option<Callback>,
}
