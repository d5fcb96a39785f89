//! What both ends of an ssh connection say: one JSON value per line.

use crate::channel::Versions;
use crate::os::interfaces;
use crate::received::{BoundedMessage, cut_text};
use crate::wire::{ClockAddress, FromFollower};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use tripmeter_model::audit::Audit;
use tripmeter_model::bounds::said;
use tripmeter_model::host::SystemLook;
use tripmeter_model::manifest::{Environment, Network};
use tripmeter_model::plan::SubExperiment;

/// First words of the program that ssh has started. The shell there may have said something before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub versions: Versions,
    /// What the machine calls itself.
    pub name: String,
    /// Both ends of the ssh connection; none if the server does not tell.
    pub connection: Option<Connection>,
    /// Addresses of its interfaces, by their names.
    pub interfaces: Vec<(String, IpAddr)>,
}

/// Both ends of the ssh connection, as the host that was reached sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Connection {
    /// Of the host that measures.
    pub from: SocketAddr,
    /// Of the host that was reached.
    pub to: SocketAddr,
}

impl Connection {
    /// Of `SSH_CONNECTION`: address and port of the client, then of the server.
    pub fn parse(text: &str) -> Option<Self> {
        let [from, from_port, to, to_port] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
        // A link-local address has its interface behind a `%`, which the other host does not know.
        let end = |address: &str, port: &str| Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?));
        Some(Self { from: end(from, from_port)?, to: end(to, to_port)? })
    }
}

impl Hello {
    /// Of this program.
    pub fn own() -> Self {
        let connection = std::env::var("SSH_CONNECTION").ok();
        Self {
            versions: Versions::own(),
            name: std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned(),
            connection: connection.as_deref().and_then(Connection::parse),
            interfaces: interfaces(),
        }
    }
}

impl BoundedMessage for Hello {
    fn within_bounds(self) -> Result<Self, String> {
        said(self)
    }
}

/// From the host that measures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToHost {
    /// What is going to be measured; answered with [`FromHost::Prepared`].
    Prepare {
        /// All of it.
        plans: Vec<SubExperiment>,
        /// The address that data will go to.
        address: IpAddr,
    },
    /// Start a follower, once.
    Start {
        /// The address that it listens at.
        address: IpAddr,
        /// Its CPU, if the plan names none.
        cpu: Option<usize>,
    },
    /// Which systems are there; answered with [`FromHost::Systems`].
    List,
    /// Answer for the time of day at this address, once; said with [`FromHost::Clock`].
    Clock {
        /// The address.
        address: IpAddr,
        /// Its epoch, in nanoseconds since 1970.
        epoch_ns: u64,
    },
    /// A line of the control channel.
    Control(String),
    /// A sign of life.
    Alive,
}

/// From the host of a follower.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FromHost {
    /// What it has found.
    Prepared(Box<HostFindings>),
    /// Every system.
    Systems(BTreeMap<String, SystemLook>),
    /// Where its time of day is asked for.
    Clock(ClockAddress),
    /// A line of the control channel.
    Control(String),
    /// The follower's last word; it has ended.
    Ended(Option<FromFollower>),
    /// It cannot go on; one line.
    Failed(String),
    /// A sign of life.
    Alive,
}

impl BoundedMessage for ToHost {}

impl BoundedMessage for FromHost {
    fn within_bounds(self) -> Result<Self, String> {
        Ok(match self {
            Self::Prepared(findings) => Self::Prepared(said(findings)?),
            Self::Systems(systems) => Self::Systems(said(systems)?),
            Self::Ended(word) => Self::Ended(word.map(BoundedMessage::within_bounds).transpose()?),
            Self::Failed(why) => Self::Failed(cut_text(why)),
            // A line of the control channel is read where it goes to.
            message @ (Self::Clock(_) | Self::Control(_) | Self::Alive) => message,
        })
    }
}

/// What a host says of itself before anything is measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HostFindings {
    /// What the machine says of itself.
    pub environment: Environment,
    /// What disturbs measuring there.
    pub audit: Audit,
    /// The interface that has the address.
    pub network: Network,
    /// The CPU of a follower, if the plan names none.
    pub cpu: Option<usize>,
    /// Of each system: versions of transport and of what it drives, or why it cannot be used there.
    pub systems: BTreeMap<String, Result<(String, String), String>>,
    /// Of sub-experiments, by name: why one cannot be measured there.
    pub problems: BTreeMap<String, String>,
}
