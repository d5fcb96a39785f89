//! Capacity of the kernel queues that messages wait in; it may be less than a transport requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const MOST: usize = 64;

/// Queues of one kind and capacity that one side had open when its links were connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelQueues {
    /// Side that had the queues open.
    pub side: QueueSide,
    /// Kind of queue, with the unit of its capacity.
    pub kind: QueueKind,
    /// Capacity of each queue, as reported by the kernel.
    pub capacity: u64,
    /// Number of queues.
    pub count: u32,
}

/// Side of a sub-experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueSide {
    /// The leader.
    Leader,
    /// All followers.
    Follower,
}

/// Kind of a kernel queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueKind {
    /// Capacity of a pipe, in bytes.
    PipeBytes,
    /// Capacity of a POSIX message queue, in messages.
    QueueMessages,
    /// Capacity of a Unix socket that is not connected, in datagrams from all senders.
    SharedDatagrams,
    /// `SO_SNDBUF` of a socket, in bytes, including the kernel's overhead.
    SendBufferBytes,
    /// `SO_RCVBUF` of a socket, in bytes, including the kernel's overhead.
    ReceiveBufferBytes,
}

impl KernelQueues {
    /// Merges entries that differ only in their count.
    pub fn joined(all: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut counts: BTreeMap<(QueueSide, QueueKind, u64), u32> = BTreeMap::new();
        for one in all {
            let count = counts.entry((one.side, one.kind, one.capacity)).or_default();
            *count = count.saturating_add(one.count);
        }
        let joined = |((side, kind, capacity), count)| Self { side, kind, capacity, count };
        counts.into_iter().take(MOST).map(joined).collect()
    }
}
