//! Session of a node: one endpoint, and no other peers.

use crate::segments;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tripmeter_abi::{Error, NodeOptions, Result, Role, Status};
use zenoh::{Config, Session, Wait};

/// Longest silence of a new connection. Closing waits for it, and the host gives a leader 6 s to close.
const ACCEPT_TIMEOUT_MS: &str = "3000";
/// Most silent connections; beyond them zenoh refuses the next one, even a follower's. Its own limit is 100.
const MOST_SILENT: u32 = 4096;

/// Session that the leader opens to listen, and the follower once it knows the address.
#[derive(Clone)]
pub(crate) struct Meeting {
    options: Arc<NodeOptions>,
    session: Arc<Mutex<Option<Session>>>,
}

impl Meeting {
    pub(crate) fn new(options: &NodeOptions) -> Result<Self> {
        zenoh::init_log_from_env_or("error");
        let meeting = Self { options: Arc::new(options.clone()), session: Arc::default() };
        if options.role == Role::Leader {
            let endpoint = match options.variant.as_str() {
                "unix" => format!("unixsock-stream/{}", socket(options)?),
                "udp" => format!("udp/{}", SocketAddr::from((options.address(), 0))),
                _ => format!("tcp/{}", SocketAddr::from((options.address(), 0))),
            };
            meeting.open("listen", &endpoint)?;
        }
        Ok(meeting)
    }

    /// Address at which the leader listens.
    pub(crate) fn address(&self) -> Result<Vec<u8>> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(session) = session.as_ref() else { return Ok(Vec::new()) };
        let locators = session.info().locators().wait();
        let own = locators.first().ok_or_else(|| Error::failed("zenoh listens nowhere"))?;
        Ok(own.to_string().into_bytes())
    }

    /// The session; the follower first connects to `peer`.
    pub(crate) fn session(&self, peer: &[u8]) -> Result<Session> {
        if let Some(session) = &*self.session.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(session.clone());
        }
        let peer = std::str::from_utf8(peer).map_err(failed("reading the leader's address"))?;
        self.open("connect", peer)
    }

    /// Opens a session with one endpoint, to listen at or to connect to.
    fn open(&self, verb: &str, endpoint: &str) -> Result<Session> {
        let mut config = Config::default();
        let is_shared = self.options.variant == "shm";
        let shared = is_shared.to_string();
        let endpoints = format!("[{endpoint:?}]");
        let none = "[]".to_owned();
        // All followers may connect at once, among strangers that stay silent.
        let pending = self.options.follower_count.max(MOST_SILENT).to_string();
        let (listen, connect) = if verb == "listen" { (&endpoints, &none) } else { (&none, &endpoints) };
        for (key, value) in [
            ("mode", "\"peer\""),
            ("listen/endpoints", listen),
            ("connect/endpoints", connect),
            ("connect/timeout_ms", "10000"),
            ("connect/exit_on_failure", "true"),
            ("transport/unicast/accept_pending", &pending),
            ("transport/unicast/accept_timeout", ACCEPT_TIMEOUT_MS),
            ("scouting/multicast/enabled", "false"),
            ("scouting/gossip/enabled", "false"),
            // Otherwise large messages would use shared memory on any link.
            ("transport/shared_memory/enabled", &shared),
            ("transport/shared_memory/transport_optimization/enabled", "false"),
        ] {
            config.insert_json5(key, value).map_err(failed(&format!("setting {key} to {value}")))?;
        }
        let open = || zenoh::open(config).wait().map_err(failed(&format!("trying to {verb} {endpoint}")));
        let session = if is_shared { segments::make(&self.options.scratch_dir, open)? } else { open()? };
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
        Ok(session)
    }

    pub(crate) fn note_segments(&self) -> Result<()> {
        segments::note(&self.options.scratch_dir)
    }
}

/// Path of a socket below the scratch folder; the kernel limits its length.
fn socket(options: &NodeOptions) -> Result<String> {
    const LONGEST: usize = 107;
    let path = options.scratch_dir.join("zenoh").display().to_string();
    if path.len() > LONGEST {
        let message = format!("socket path of {} bytes, {LONGEST} at most; set TMPDIR to a shorter folder", path.len());
        return Err(Error::new(Status::Limit, message));
    }
    Ok(path)
}

/// Bytes that a socket's receive buffer always holds: the kernel charges up to twice the bytes of a datagram.
pub(crate) fn udp_payload_bytes() -> Result<u64> {
    const FILE: &str = "/proc/sys/net/core/rmem_default";
    let text = std::fs::read_to_string(FILE).map_err(|error| Error::os(FILE, error))?;
    let buffer: u64 = text.trim().parse().map_err(failed(FILE))?;
    Ok(buffer / 4)
}

pub(crate) fn failed<E: Display>(what: &str) -> impl FnOnce(E) -> Error {
    move |error| Error::failed(format!("{what}: {error}"))
}
