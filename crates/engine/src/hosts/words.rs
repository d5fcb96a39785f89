//! Messages over an ssh connection: one JSON value per line.

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

/// Greeting from tripmeter on the host. The shell may print lines before it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub versions: Versions,
    pub name: String,
    /// Both ends of the ssh connection; `None` if the server does not report them.
    pub connection: Option<Connection>,
    /// Addresses of its interfaces, with their names.
    pub interfaces: Vec<(String, IpAddr)>,
}

/// Ends of the ssh connection, as the host that was reached sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Connection {
    /// End of the host that measures.
    pub from: SocketAddr,
    /// End of the host that was reached.
    pub to: SocketAddr,
}

impl Connection {
    /// Parses `SSH_CONNECTION`: address and port of the client, then of the server.
    pub fn parse(text: &str) -> Option<Self> {
        let [from, from_port, to, to_port] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
        // A link-local address ends with `%` and its interface, which the other host does not know.
        let end = |address: &str, port: &str| Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?));
        Some(Self { from: end(from, from_port)?, to: end(to, to_port)? })
    }
}

impl Hello {
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

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToHost {
    /// Prepare for these sub-experiments; answered with [`FromHost::Prepared`].
    Prepare {
        plans: Vec<SubExperiment>,
        /// Address on the host that messages will go to.
        address: IpAddr,
    },
    /// Start a follower; sent once.
    Start {
        address: IpAddr,
        /// CPU of the follower, if the plan names none.
        cpu: Option<usize>,
    },
    /// List all systems; answered with [`FromHost::Systems`].
    List,
    /// Serve the time of day at this address, once; answered with [`FromHost::Clock`].
    Clock {
        address: IpAddr,
        /// Epoch of the time of day, in nanoseconds since 1970.
        epoch_ns: u64,
    },
    Control(String),
    Alive,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FromHost {
    Prepared(Box<HostFindings>),
    Systems(BTreeMap<String, SystemLook>),
    /// Address of the server for the host's time of day.
    Clock(ClockAddress),
    Control(String),
    /// The follower has ended; its last message, if any.
    Ended(Option<FromFollower>),
    /// Reason why the host cannot go on, in one line.
    Failed(String),
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
            // Lines of the control channel are checked by their receiver.
            message @ (Self::Clock(_) | Self::Control(_) | Self::Alive) => message,
        })
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HostFindings {
    pub environment: Environment,
    pub audit: Audit,
    /// Network interface whose address the messages use.
    pub network: Network,
    /// CPU of the follower, if the plan names none.
    pub cpu: Option<usize>,
    /// Versions of each transport and of the system that it drives, or the reason why it cannot be used.
    pub systems: BTreeMap<String, Result<(String, String), String>>,
    /// Reasons why sub-experiments cannot be measured on the host, by name.
    pub problems: BTreeMap<String, String>,
}
