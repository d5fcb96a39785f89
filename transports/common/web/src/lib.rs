//! Shared parts of the transports over HTTP: tokio's threads, order of answers, and TLS. Not a transport itself.

pub mod acceptor;
pub mod call_task;
pub mod driver;
pub mod host;
pub mod order;
pub mod reason;
pub mod tls;

use std::net::SocketAddr;
use tripmeter_abi::NodeOptions;

/// Any free port of the address that this end is bound to.
pub fn own(options: &NodeOptions) -> SocketAddr {
    (options.address(), 0).into()
}

/// Address as a peer receives it.
pub fn to_peer(address: SocketAddr) -> Vec<u8> {
    address.to_string().into_bytes()
}
