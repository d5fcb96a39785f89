//! Errors of several libraries.

use std::net::SocketAddr;
use tripmeter_abi::Error;

/// An error and what it comes from, in one line.
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

/// What rustls says of an alert of the other side.
const ALERT: &str = "received fatal alert: ";

/// The follower did not let the leader in: the greeting failed with `error`, and the connection `ended` for this reason.
pub fn refused(to: SocketAddr, error: &Error, ended: Option<&String>) -> Error {
    let text = error.to_string();
    let why = ended.filter(|why| !text.contains(why.as_str())).map_or(text.clone(), |why| format!("{text}: {why}"));
    // In TLS 1.3 the certificate is all that a client can be refused for once it has finished its handshake.
    match why.split_once(ALERT) {
        Some((_, alert)) => {
            let alert = alert.split(':').next().unwrap_or(alert);
            Error::failed(format!("{to} refused the leader's certificate, or that it has none: {ALERT}{alert}"))
        }
        None => Error::failed(format!("{to} refused the leader: {why}")),
    }
}
