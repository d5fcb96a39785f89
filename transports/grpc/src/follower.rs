//! The follower's end: the service, over one connection.

use crate::wire::{Codec, Payload, STREAM, Stream, UNARY};
use bytes::Bytes;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::mpsc::{Sender, UnboundedSender, channel, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use tripmeter_abi::{Error, Result};
use tripmeter_web::ByteStream;
use tripmeter_web::host::RequestSink;
use tripmeter_web::opening::Service;
use tripmeter_web::order::Arrived;
use tripmeter_web::reason::reason;
use tripmeter_web::server::CallService;
use tripmeter_web::settings::WebSettings;

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

impl Service for Handler {
    const ACCEPTOR: &str = "grpc-accept";

    async fn serve(handler: Option<Self>, stream: impl ByteStream, settings: &WebSettings) -> Result<()> {
        let service = tower::service_fn(move |request| {
            let handler = handler.clone();
            // Numbered before the first await, so that numbers follow the order of calls.
            let number = handler.as_ref().map_or(0, |handler| handler.next.fetch_add(1, Relaxed));
            async move { Ok::<_, Infallible>(dispatch(handler, number, request).await) }
        });
        let served = Server::builder()
            .initial_stream_window_size(settings.stream_window)
            .initial_connection_window_size(settings.connection_window)
            .serve_with_incoming(service, tokio_stream::once(Ok::<_, std::io::Error>(Stream::new(stream))))
            .await;
        served.map_err(|error| Error::failed(format!("serving the leader failed: {}", reason(&error))))
    }
}

impl CallService for Handler {
    type Request = Bytes;

    fn new(requests: RequestSink<Bytes>, greeted: Arc<Notify>, settings: &WebSettings) -> Self {
        let (opened, _) = unbounded_channel();
        Self { requests: Some(requests), opened, greeted, queued: settings.in_flight, next: Arc::default() }
    }
}
