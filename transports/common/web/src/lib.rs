//! What the transports over HTTP share: who runs tokio, which call is answered when, and TLS. No transport by itself.

pub mod acceptor;
pub mod call_task;
pub mod driver;
pub mod host;
pub mod order;
pub mod reason;
pub mod tls;

use std::net::{Ipv4Addr, SocketAddr};

/// A port of this host's own.
pub fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
