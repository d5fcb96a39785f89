//! Membership of one link in iceoryx2: node, names and limits.
#![expect(unsafe_code, reason = "memory that is lent or shared")]

use iceoryx2::port::{BackpressureAction, BackpressureInfo};
use iceoryx2::prelude::{Config, FileName, Node, NodeBuilder, Path, SemanticString, ServiceName, SignalHandlingMode};
use std::fmt::Debug;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tripmeter_abi::{Error, NodeOptions, Pattern, Result, Role, Status, Wait};

/// Single-threaded services of iceoryx2: no lock in any call.
pub(crate) type Ipc = iceoryx2::prelude::ipc::Service;

/// Most unreleased messages, by the contract of a transport.
pub(crate) const HELD: usize = 2;
/// Upper bound of iceoryx2's header before a payload.
const CHUNK_HEADER_BYTES: u64 = 256;
const LARGEST_PAYLOAD_BYTES: u64 = 1 << 30;
const SHARED_MEMORY: &str = "/dev/shm";
/// Longest path of a Unix socket, without its final NUL.
const LONGEST_SOCKET_PATH: usize = 107;
/// Longest name of an event's socket after the prefix: 39 digits, and `.event`.
const LONGEST_SOCKET_NAME: usize = 45;

const TO_FOLLOWER: &str = "to-follower";

pub(crate) struct Session {
    node: Node<Ipc>,
    prefix: String,
    name: String,
    pub(crate) role: Role,
    pub(crate) pattern: Pattern,
    pub(crate) max_payload_bytes: usize,
    pub(crate) followers: usize,
    /// Publishers of one topic.
    pub(crate) publishers: usize,
    // Dropped last: the node's files are reached through this descriptor.
    _scratch: File,
}

impl Session {
    /// Joins iceoryx2 in isolation: files below `scratch_dir`, shared memory named after `run_id`.
    pub(crate) fn open(options: &NodeOptions, link_index: u32) -> Result<Self> {
        let what = format!("opening '{}'", options.scratch_dir.display());
        let scratch = File::open(&options.scratch_dir).map_err(|error| Error::os(&what, error))?;
        // iceoryx2 keeps Unix sockets there, whose paths are limited; the descriptor makes them short wherever the
        // folder is.
        let root = format!("/proc/self/fd/{}", scratch.as_raw_fd());
        let prefix = format!("{}-", options.run_id);
        let socket_bytes = root.len() + 1 + prefix.len() + LONGEST_SOCKET_NAME;
        if options.wait == Wait::Block && socket_bytes > LONGEST_SOCKET_PATH {
            let message = format!("socket path of {socket_bytes} bytes, {LONGEST_SOCKET_PATH} at most; use wait poll");
            return Err(Error::new(Status::Limit, message));
        }
        let mut config = Config::default();
        let root = Path::new(root.as_bytes()).map_err(failed("naming the root path"))?;
        config.global.set_root_path(&root);
        config.global.prefix = FileName::new(prefix.as_bytes()).map_err(failed("naming the prefix"))?;
        let node = NodeBuilder::new()
            .config(&config)
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<Ipc>()
            .map_err(failed("creating the node"))?;
        Ok(Self {
            node,
            prefix,
            name: format!("{}/{}", options.run_id, options.topic_of(link_index)),
            role: options.role,
            pattern: options.pattern,
            max_payload_bytes: usize::try_from(options.max_payload_bytes).map_err(failed("sizing the payload"))?,
            followers: options.follower_count.max(1) as usize,
            publishers: options.publisher_count.max(1) as usize,
            _scratch: scratch,
        })
    }

    pub(crate) fn service(&self, name: &str) -> Result<iceoryx2::service::builder::Builder<Ipc>> {
        let name = ServiceName::new(&format!("{}/{name}", self.name)).map_err(failed("naming a service"))?;
        Ok(self.node.service_builder(&name))
    }

    /// Numbers of senders and receivers in a direction.
    pub(crate) fn ends(&self, direction: &str) -> [usize; 2] {
        let (ours, theirs) = (self.publishers, self.followers);
        if direction == TO_FOLLOWER { [ours, theirs] } else { [theirs, ours] }
    }

    pub(crate) fn peers(&self) -> usize {
        if self.role == Role::Leader { self.followers } else { self.publishers }
    }

    /// Directions in which this side sends and receives.
    pub(crate) fn directions(&self) -> [&'static str; 2] {
        match self.role {
            Role::Leader => [TO_FOLLOWER, "to-leader"],
            Role::Follower => ["to-leader", TO_FOLLOWER],
        }
    }
}

impl Drop for Session {
    /// Removes iceoryx2's counter of nodes, which no other run uses: the prefix is this run's.
    fn drop(&mut self) {
        let Ok(entries) = std::fs::read_dir(SHARED_MEMORY) else { return };
        for entry in entries.flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            if file.starts_with(&self.prefix) && file.ends_with(".global_mgmt") {
                // The peer may have removed it already.
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Most messages that wait at the receiver.
pub(crate) fn queue_length(pattern: Pattern) -> usize {
    match pattern {
        Pattern::Publish | Pattern::Throughput => 16,
        _ => HELD,
    }
}

/// Largest payload, in bytes, for which all chunks of both directions fit into the free shared memory. Fails if the
/// system does not report the free space.
pub(crate) fn largest_payload_bytes(options: &NodeOptions) -> Result<u64> {
    // SAFETY: all fields of the block are numbers, for which zero is a value.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is NUL-terminated and the block is writable.
    if unsafe { libc::statvfs(c"/dev/shm".as_ptr(), &mut found) } != 0 {
        return Err(Error::last_os("asking for the free space of /dev/shm"));
    }
    // Chunks that wait, are held, or are loaned; a request is kept for its response, which adds one.
    let ends = 2 * u64::from(options.follower_count.max(1)) * u64::from(options.link_count.max(1));
    let chunks = (queue_length(options.pattern) + HELD + 2) as u64 * ends;
    Ok((found.f_bavail * found.f_frsize / chunks).saturating_sub(CHUNK_HEADER_BYTES).min(LARGEST_PAYLOAD_BYTES))
}

pub(crate) fn failed<E: Debug>(what: &'static str) -> impl Fn(E) -> Error {
    move |error| Error::failed(format!("iceoryx2: {what} failed: {error:?}"))
}

#[cold]
pub(crate) fn peer_left() -> Error {
    Error::closed("iceoryx2: the peer has left the service")
}

pub(crate) fn await_peer(timeout_ns: u64, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
    let (start, timeout) = (Instant::now(), Duration::from_nanos(timeout_ns));
    while !ready()? {
        if start.elapsed() >= timeout {
            return Err(Error::failed(format!("iceoryx2: no peer within {} ms", timeout.as_millis())));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Time for which a sender retries when the receiver's queue is full.
#[derive(Clone)]
pub(crate) struct Patience(Arc<AtomicU64>);

impl Patience {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(0)))
    }

    pub(crate) fn set_ns(&self, timeout_ns: u64) {
        self.0.store(timeout_ns, Ordering::Relaxed);
    }

    /// Handler that iceoryx2 calls while a queue is full.
    pub(crate) fn handler(&self) -> impl Fn(&BackpressureInfo) -> BackpressureAction + Send + 'static {
        let timeout = self.0.clone();
        move |info| match info.elapsed_time < Duration::from_nanos(timeout.load(Ordering::Relaxed)) {
            true => BackpressureAction::Retry,
            false => BackpressureAction::DiscardData,
        }
    }
}
