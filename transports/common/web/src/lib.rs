//! Shared parts of the transports over HTTP: nodes, links, settings, tokio's threads, and TLS. Not a transport itself.

pub mod acceptor;
pub mod call_task;
mod client;
pub mod driver;
pub mod host;
pub mod node;
pub mod opening;
pub mod order;
pub mod reason;
pub mod server;
pub mod settings;
mod tls;

use tokio::io::{AsyncRead, AsyncWrite};

/// Connected socket, with or without TLS.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> ByteStream for T {}
