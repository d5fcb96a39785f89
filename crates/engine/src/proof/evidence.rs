//! What one side saw of itself.

use super::interface::InterfaceBytes;
use super::peer::Ends;
use super::sys::Object;
use serde::{Deserialize, Serialize};
use tripmeter_abi::Path;

/// What one side saw of itself during the proof phase; sent to the leader as JSON.
///
/// An absent value could not be read here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Evidence {
    pub(super) process_id: u32,
    /// Bytes by `read` and `write`, of the whole process, without the observer's own.
    pub(super) read_bytes: Option<u64>,
    pub(super) written_bytes: Option<u64>,
    /// Bytes over the loopback, of the whole namespace.
    pub(super) loopback_bytes: Option<u64>,
    /// Bytes over the interfaces, if the other side is on another host.
    #[serde(default)]
    pub(super) interface: Option<InterfaceBytes>,
    /// UDP datagrams received, of the whole namespace.
    pub(super) udp_datagrams: Option<u64>,
    pub(super) channels: Option<Vec<EvidenceChannel>>,
    /// Whether the message queues of System V could be listed, which have no descriptors.
    pub(super) has_listed_queues: bool,
    /// Whether the side looked where the first message waits.
    pub(super) looked_for_parked: bool,
    pub(super) shared: Option<Vec<SharedObject>>,
    pub(super) sent: Vec<Address>,
    pub(super) received: Vec<Address>,
    /// Messages sent, with or without an address kept.
    pub(super) sent_messages: u64,
    /// The same of those received.
    pub(super) received_messages: u64,
}

impl Evidence {
    /// So many messages came.
    pub fn has_received(&self, messages: u64) -> bool {
        self.received_messages >= messages
    }

    /// Both ends of the TCP connection that carried the most.
    pub(super) fn busiest_tcp(&self) -> Option<&Ends> {
        let connections = self.channels.as_ref()?.iter().filter(|channel| channel.path == Path::Tcp);
        let bytes = |channel: &&EvidenceChannel| channel.sent_bytes.unwrap_or(0) + channel.received_bytes.unwrap_or(0);
        connections.max_by_key(bytes)?.ends.as_ref()
    }
}

/// A descriptor that the transport opened, or a queue of System V that it used, and that can carry messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EvidenceChannel {
    pub path: Path,
    pub object: Object,
    /// Bytes over this TCP connection; how far this file's position moved.
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    /// Bytes that waited here while the first message did.
    pub parked_bytes: u64,
    /// Of a TCP connection that bytes went over.
    pub ends: Option<Ends>,
}

/// An object that the transport mapped as shared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SharedObject {
    pub object: Object,
    pub name: String,
    pub bytes: u64,
    pub is_writable: bool,
    /// Bytes that this process touched, in whole pages.
    pub touched_bytes: Option<u64>,
}

/// Where one message lay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Address {
    pub sequence: u64,
    pub address: u64,
    pub place: AddressPlace,
}

/// What an address is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AddressPlace {
    /// Offset in an object mapped as shared.
    Shared(Object, u64),
    /// Memory of this process alone.
    Private,
    /// No mapping, or not one for all of its length.
    Unmapped,
}
