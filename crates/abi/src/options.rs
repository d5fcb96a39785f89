//! What a node and a link are told.

use crate::{Callback, Error, Pattern, Result, Status, UnauthorizedPeer, Wait};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// Folder in a scratch folder for what the leader decides for all.
pub const AGREED_FOLDER: &str = "agreed";

/// Which half of a sub-experiment a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Drives and records.
    Leader,
    /// Answers.
    Follower,
}

/// Options of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeOptions {
    /// Which half this is.
    pub role: Role,
    /// What will be done.
    pub pattern: Pattern,
    /// How this side waits.
    pub wait: Wait,
    /// Name of the variant.
    pub variant: String,
    /// Every setting of the description, defaults filled in.
    pub settings: BTreeMap<String, String>,
    /// Unique on this host; every name created outside `scratch_dir` begins with it.
    pub run_id: String,
    /// For sockets, FIFOs and generated files; removed by the host.
    pub scratch_dir: PathBuf,
    /// The largest message that will be loaned, in bytes.
    pub max_payload_bytes: u64,
    /// Number of links that will be opened.
    pub link_count: u32,
    /// Links of the leader that publish on one topic, all of which the follower's only link takes from; 1 unless the variant
    /// declares [`publishers`](crate::Variant::publishers).
    #[serde(default = "one")]
    pub publisher_count: u32,
    /// Number of followers.
    pub follower_count: u32,
    /// 0-based; 0 for the leader.
    pub follower_index: u32,
    /// Behave as this unauthorized peer, against the domain, topic and addresses that a true node would use.
    #[serde(default)]
    pub unauthorized_peer: Option<UnauthorizedPeer>,
    /// Address of the interface that peers on another host reach; `None` if all are on this host.
    #[serde(default)]
    pub local_address: Option<IpAddr>,
}

fn one() -> u32 {
    1
}

impl NodeOptions {
    /// Several links of the leader publish on one topic.
    pub fn has_publishers(&self) -> bool {
        self.publisher_count > 1
    }

    /// The index that the names of a link's topic are made with: links that publish on one topic share one.
    pub fn topic_of(&self, link: u32) -> u32 {
        if self.has_publishers() { 0 } else { link }
    }

    /// The address that all that listens is bound to: of the interface asked for, or the loopback.
    pub fn address(&self) -> IpAddr {
        self.local_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// The value of a setting; the host fills in defaults, so that a missing one is empty.
    pub fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    /// Where the leader leaves what followers need, on other hosts too: its flat files are there before their nodes open.
    pub fn agreed_folder(&self) -> PathBuf {
        self.scratch_dir.join(AGREED_FOLDER)
    }

    /// Where lines go under pattern `log`: a file that the logger makes, or a FIFO that is there and is being read.
    pub fn log_file(&self) -> PathBuf {
        self.scratch_dir.join("log")
    }

    /// Whether a setting is `on`, and `preset` if it is not given.
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

    /// A whole number within `range`.
    ///
    /// # Errors
    /// [`Status::Invalid`] if it is no number, [`Status::Limit`] outside the range.
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
    /// 0-based number of the topic, client or publisher.
    pub index: u32,
    /// Called per message, with wait `callback`.
    pub callback: Option<Callback>,
}
