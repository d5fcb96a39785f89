//! Evidence of one side.

use super::interface::InterfaceBytes;
use super::peer::Ends;
use super::sys::Object;
use serde::{Deserialize, Serialize};
use tripmeter_abi::Path;

/// Observations of one side about itself in the proof phase; sent to the leader as JSON. `None` if unreadable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Evidence {
    pub(super) process_id: u32,
    /// Bytes that the whole process read and wrote by `read` and `write`, without the observer's own.
    pub(super) read_bytes: Option<u64>,
    pub(super) written_bytes: Option<u64>,
    /// Bytes over the loopback interface in the whole network namespace.
    pub(super) loopback_bytes: Option<u64>,
    #[serde(default)]
    pub(super) interface: Option<InterfaceBytes>,
    /// UDP datagrams received in the whole network namespace.
    pub(super) udp_datagrams: Option<u64>,
    pub(super) channels: Option<Vec<EvidenceChannel>>,
    /// True if the System V message queues, which have no descriptors, could be listed.
    pub(super) has_listed_queues: bool,
    pub(super) looked_for_parked: bool,
    pub(super) shared: Option<Vec<SharedObject>>,
    pub(super) sent: Vec<Address>,
    pub(super) received: Vec<Address>,
    /// Messages sent; not all of their addresses may be kept.
    pub(super) sent_messages: u64,
    pub(super) received_messages: u64,
}

impl Evidence {
    pub fn has_received(&self, messages: u64) -> bool {
        self.received_messages >= messages
    }

    pub(super) fn busiest_tcp(&self) -> Option<&Ends> {
        let connections = self.channels.as_ref()?.iter().filter(|channel| channel.path == Path::Tcp);
        let bytes = |channel: &&EvidenceChannel| channel.sent_bytes.unwrap_or(0) + channel.received_bytes.unwrap_or(0);
        connections.max_by_key(bytes)?.ends.as_ref()
    }
}

/// Object that can carry messages: a descriptor that the transport opened, or a System V queue that it used.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EvidenceChannel {
    pub path: Path,
    pub object: Object,
    /// Bytes sent over this TCP connection, or change of this file's position.
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    /// Bytes seen waiting here while the first message waited.
    pub parked_bytes: u64,
    /// Ends of a TCP connection that carried bytes.
    pub ends: Option<Ends>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SharedObject {
    pub object: Object,
    pub name: String,
    pub bytes: u64,
    pub is_writable: bool,
    /// Bytes in pages that this process touched.
    pub touched_bytes: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Address {
    pub sequence: u64,
    pub address: u64,
    pub place: AddressPlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AddressPlace {
    Shared(Object, u64),
    Private,
    /// Address without a mapping, or without one for the whole length.
    Unmapped,
}
