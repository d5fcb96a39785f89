//! Internet addresses as peers exchange them, e.g. `127.0.0.1:4711`.

use crate::{Error, Result, Status};
use std::net::SocketAddr;

/// Text of an address for a peer.
pub fn to_peer(address: SocketAddr) -> Vec<u8> {
    address.to_string().into_bytes()
}

/// Parses an address from a peer.
///
/// # Errors
/// `Invalid` if it is not an address with a port.
pub fn of_peer(told: &[u8]) -> Result<SocketAddr> {
    let parsed = std::str::from_utf8(told).ok().and_then(|text| text.parse().ok());
    parsed.filter(|address: &SocketAddr| address.port() != 0).ok_or_else(|| {
        let text = told.escape_ascii();
        Error::new(Status::Invalid, format!("a peer's address must look like 127.0.0.1:4711, not '{text}'"))
    })
}
