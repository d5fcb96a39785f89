//! Error texts from several libraries.

use std::net::SocketAddr;
use tripmeter_abi::Error;

/// Error and its sources, in one line.
pub fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

/// Prefix of rustls for an alert of the peer.
const ALERT: &str = "received fatal alert: ";

/// Error of a leader whose greeting failed with `error`, and whose connection `ended` for this reason.
pub fn refused(to: SocketAddr, error: &Error, ended: Option<&String>) -> Error {
    let text = error.to_string();
    let why = ended.filter(|why| !text.contains(why.as_str())).map_or(text.clone(), |why| format!("{text}: {why}"));
    // In TLS 1.3 only the certificate can be refused after a client has finished its handshake.
    match why.split_once(ALERT) {
        Some((_, alert)) => {
            let alert = alert.split(':').next().unwrap_or(alert);
            Error::failed(format!("{to} refused the leader's certificate, or that it has none: {ALERT}{alert}"))
        }
        None => Error::failed(format!("{to} refused the leader: {why}")),
    }
}
