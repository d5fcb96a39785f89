//! The leader's end: a client of the follower's service.

use crate::settings::Settings;
use crate::wire::{Codec, Payload, STREAM, Stream, UNARY};
use bytes::Bytes;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use std::error::Error as _;
use std::net::SocketAddr;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc::Receiver;
use tokio_rustls::TlsConnector;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tripmeter_abi::{Error, NodeOptions, Result, os};
use tripmeter_web::reason::{reason, refused};
use tripmeter_web::tls::name;
use tripmeter_web::{own, to_peer};

/// Socket at a free port, which the follower learns by the control channel.
pub(crate) struct Caller {
    socket: TcpSocket,
    tls: Option<TlsConnector>,
    settings: Settings,
}

impl Caller {
    pub(crate) fn open(options: &NodeOptions, settings: Settings, tls: Option<TlsConnector>) -> Result<Self> {
        let at = own(options);
        let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.map_err(|error| Error::os("making a TCP socket", error))?;
        socket.bind(at).map_err(|error| Error::os(&format!("binding a TCP socket to {at}"), error))?;
        Ok(Self { socket, tls, settings })
    }

    pub(crate) fn address(&self) -> Result<Vec<u8>> {
        let address = self.socket.local_addr().map_err(|error| Error::os("asking for a socket's address", error))?;
        Ok(to_peer(address))
    }

    /// Connects to the follower, which must answer a greeting: only the answer shows that it accepted this end.
    pub(crate) async fn connect(self, peer: &[u8]) -> Result<Channel> {
        let to = os::of_peer(peer)?;
        let stream = self.socket.connect(to).await;
        let stream = stream.map_err(|error| Error::os(&format!("connecting to the follower at {to}"), error))?;
        stream.set_nodelay(self.settings.nodelay).map_err(|error| Error::os("setting TCP_NODELAY", error))?;
        let stream = secure(stream, self.tls, to).await?;
        let ended = stream.ended();
        let failed = |error: tonic::transport::Error| Error::failed(format!("no gRPC with {to}: {}", reason(&error)));
        let endpoint = Endpoint::from_shared(format!("http://{to}")).map_err(failed)?;
        let endpoint = endpoint
            .initial_stream_window_size(self.settings.stream_window)
            .initial_connection_window_size(self.settings.connection_window);
        // There is one connection; tonic would open another when it ends.
        let mut stream = Some(TokioIo::new(stream));
        let connector = tower::service_fn(move |_| {
            let stream = stream.take();
            async move { stream.ok_or_else(|| std::io::Error::other("the connection has ended")) }
        });
        let channel = endpoint.connect_with_connector(connector).await.map_err(failed)?;
        let greeted = call(channel.clone(), Bytes::new()).await;
        greeted.map_err(|error| refused(to, &error, ended.get()))?;
        Ok(channel)
    }
}

async fn secure(stream: TcpStream, tls: Option<TlsConnector>, to: SocketAddr) -> Result<Stream> {
    match tls {
        None => Ok(Stream::new(stream)),
        Some(tls) => {
            let stream = tls.connect(name(), stream).await;
            let stream = stream.map_err(|error| Error::failed(format!("TLS with {to} failed: {}", reason(&error))))?;
            Ok(Stream::new(stream))
        }
    }
}

fn client(channel: Channel) -> Grpc<Channel> {
    Grpc::new(channel).max_decoding_message_size(usize::MAX)
}

/// Calls the method `Unary`; `None` if the follower released the message without an answer.
pub(crate) async fn call(channel: Channel, data: Bytes) -> Result<Option<Bytes>> {
    let mut client = client(channel);
    client.ready().await.map_err(|error| Error::closed(format!("the follower is gone: {}", reason(&error))))?;
    let path = PathAndQuery::from_static(UNARY);
    let response = client.unary(Request::new(Payload { data }), path, Codec::default()).await;
    let data = response.map_err(|status| gone(&status))?.into_inner().data;
    Ok(Some(data).filter(|data| !data.is_empty()))
}

pub(crate) async fn stream(channel: Channel, out: Receiver<Payload>) -> Result<Streaming<Payload>> {
    let mut client = client(channel);
    client.ready().await.map_err(|error| Error::closed(format!("the follower is gone: {}", reason(&error))))?;
    let path = PathAndQuery::from_static(STREAM);
    let response = client.streaming(Request::new(ReceiverStream::new(out)), path, Codec::default()).await;
    Ok(response.map_err(|status| gone(&status))?.into_inner())
}

#[cold]
pub(crate) fn gone(status: &Status) -> Error {
    let why = status.source().map_or_else(|| status.message().to_owned(), reason);
    Error::closed(format!("the call has ended: {why}"))
}
