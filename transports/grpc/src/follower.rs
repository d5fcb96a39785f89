//! The follower's end: the service, over one connection.

use crate::settings::Settings;
use crate::wire::{Codec, Payload, STREAM, Stream, UNARY};
use bytes::Bytes;
use std::convert::Infallible;
use std::net::TcpListener as Listener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Sender, UnboundedSender, channel};
use tokio::sync::{Notify, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use tripmeter_abi::{Error, NodeOptions, Result, os};
use tripmeter_web::acceptor::{self, Acceptor};
use tripmeter_web::host::RequestSink;
use tripmeter_web::order::Arrived;
use tripmeter_web::reason::reason;
use tripmeter_web::tls::accept;
use tripmeter_web::{own, to_peer};

pub(crate) struct Opened {
    pub messages: Streaming<Payload>,
    pub answers: Sender<std::result::Result<Payload, Status>>,
}

/// Destination of requests. The acceptor has none: its peers get answers to greetings, and empty streams.
#[derive(Clone)]
pub(crate) struct Handler {
    /// Destination of messages, with the number of their call; `None` for a stream.
    pub requests: Option<RequestSink<Bytes>>,
    pub opened: UnboundedSender<Opened>,
    pub greeted: Arc<Notify>,
    pub queued: usize,
    pub next: Arc<AtomicU64>,
}

impl Handler {
    async fn unary(
        handler: Option<Self>,
        number: u64,
        request: Request<Payload>,
    ) -> std::result::Result<Response<Payload>, Status> {
        let data = request.into_inner().data;
        match handler {
            Some(handler) if data.is_empty() => handler.greeted.notify_one(),
            None if data.is_empty() => {}
            None => return Err(Status::permission_denied("this run has its leader")),
            Some(handler) => {
                let (answer, answered) = oneshot::channel();
                if let Some(requests) = handler.requests {
                    requests.put(number, Arrived { body: data, answer });
                }
                let data = answered.await.unwrap_or_default();
                return Ok(Response::new(Payload { data }));
            }
        }
        Ok(Response::new(Payload::default()))
    }

    async fn stream(
        handler: Option<Self>,
        request: Request<Streaming<Payload>>,
    ) -> std::result::Result<Response<ReceiverStream<std::result::Result<Payload, Status>>>, Status> {
        let (answers, out) = channel(handler.as_ref().map_or(1, |handler| handler.queued));
        // Peers of the acceptor get a stream that ends at once.
        if let Some(handler) = handler {
            let _ = handler.opened.send(Opened { messages: request.into_inner(), answers });
        }
        Ok(Response::new(ReceiverStream::new(out)))
    }
}

async fn dispatch(handler: Option<Handler>, number: u64, request: http::Request<Body>) -> http::Response<Body> {
    let mut server = Grpc::new(Codec::default()).max_decoding_message_size(usize::MAX);
    match request.uri().path() {
        UNARY => {
            server.unary(tower::service_fn(|request| Handler::unary(handler.clone(), number, request)), request).await
        }
        STREAM => {
            server.streaming(tower::service_fn(|request| Handler::stream(handler.clone(), request)), request).await
        }
        _ => Status::unimplemented("no such method").into_http(),
    }
}

/// Serves one connection, over TLS if there is an acceptor; returns once calls may arrive.
async fn serve(
    stream: TcpStream,
    tls: Option<&TlsAcceptor>,
    settings: &Settings,
    handler: Option<Handler>,
) -> Result<()> {
    stream.set_nodelay(settings.nodelay).map_err(|error| Error::os("setting TCP_NODELAY", error))?;
    let stream = match tls {
        None => Stream::new(stream),
        Some(tls) => Stream::new(accept(tls, stream).await?),
    };
    let service = tower::service_fn(move |request| {
        let handler = handler.clone();
        // Numbered before the first await, so that numbers follow the order of calls.
        let number = handler.as_ref().map_or(0, |handler| handler.next.fetch_add(1, Relaxed));
        async move { Ok::<_, Infallible>(dispatch(handler, number, request).await) }
    });
    let served = Server::builder()
        .initial_stream_window_size(settings.stream_window)
        .initial_connection_window_size(settings.connection_window)
        .serve_with_incoming(service, tokio_stream::once(Ok::<_, std::io::Error>(stream)))
        .await;
    served.map_err(|error| Error::failed(format!("serving the leader failed: {}", reason(&error))))
}

pub(crate) struct Called {
    listener: Listener,
    tls: Option<TlsAcceptor>,
    settings: Settings,
}

impl Called {
    pub(crate) fn open(options: &NodeOptions, settings: Settings, tls: Option<TlsAcceptor>) -> Result<Self> {
        let at = own(options);
        let listener = Listener::bind(at);
        let listener =
            listener.map_err(|error| Error::os(&format!("listening at a free port of {}", at.ip()), error))?;
        listener.set_nonblocking(true).map_err(|error| Error::os("preparing the listener", error))?;
        Ok(Self { listener, tls, settings })
    }

    pub(crate) fn address(&self) -> Result<Vec<u8>> {
        let address = self.listener.local_addr().map_err(|error| Error::os("asking for a socket's address", error))?;
        Ok(to_peer(address))
    }

    /// Serves the leader after its greeting. With TLS, an acceptor then serves further peers.
    pub(crate) async fn connect(self, peer: &[u8], handler: Handler) -> Result<Option<Acceptor>> {
        let leader = os::of_peer(peer)?;
        let failed = |error| Error::os("accepting the leader", error);
        let after = self.listener.try_clone().map_err(failed)?;
        let listener = TcpListener::from_std(self.listener).map_err(failed)?;
        let stream = acceptor::accept(&listener, leader).await?;
        let greeted = handler.greeted.clone();
        serve(stream, self.tls.as_ref(), &self.settings, Some(handler)).await?;
        greeted.notified().await;
        let (tls, settings) = (self.tls, self.settings);
        // Answers the greetings of accepted peers.
        let greet = move |stream| {
            let tls = tls.clone();
            async move { drop(serve(stream, tls.as_ref(), &settings, None).await) }
        };
        settings.tls.then(|| Acceptor::start(after, "grpc-accept", greet)).transpose()
    }
}
