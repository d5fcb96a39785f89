//! The follower's end of a connection of HTTP/1.1 or HTTP/2.

use crate::buffer_pool::{Arrival, BufferPool};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::{Notify, oneshot};
use tripmeter_abi::Result;
use tripmeter_web::ByteStream;
use tripmeter_web::host::RequestSink;
use tripmeter_web::opening::Service;
use tripmeter_web::order::Arrived;
use tripmeter_web::server::CallService;
use tripmeter_web::settings::WebSettings;

pub(crate) struct Handler {
    requests: RequestSink<Result<Arrival>>,
    buffers: BufferPool,
    greeted: Arc<Notify>,
    next: Cell<u64>,
}

impl Handler {
    /// Answers a request. Messages are numbered before anything is awaited, so that numbers follow their order.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Full<Bytes>>> + Send + use<> {
        let (requests, buffers, greeted) = (self.requests.clone(), self.buffers.clone(), self.greeted.clone());
        let number = self.next.get();
        self.next.set(number + 1);
        async move {
            if request.method() == Method::GET {
                greeted.notify_one();
                return empty();
            }
            let (answer, answered) = oneshot::channel();
            let body = buffers.gather(request.into_body()).await;
            requests.put(number, Arrived { body, answer });
            answered.await.map_or_else(|_| empty(), |body| Response::new(Full::new(body)))
        }
    }
}

fn empty() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

impl Service for Handler {
    const ACCEPTOR: &str = "http-accept";

    async fn serve(handler: Option<Self>, stream: impl ByteStream, settings: &WebSettings) -> Result<()> {
        match handler {
            Some(handler) => spawn(stream, settings, move |request| handler.answer(request)),
            None => spawn(stream, settings, |_| async { empty() }),
        }
        Ok(())
    }
}

impl CallService for Handler {
    type Request = Result<Arrival>;

    fn new(requests: RequestSink<Result<Arrival>>, greeted: Arc<Notify>, settings: &WebSettings) -> Self {
        let buffers = BufferPool::new(settings.max_payload_bytes as usize);
        Self { requests, buffers, greeted, next: Cell::new(0) }
    }
}

/// Serves a stream by `answer`.
fn spawn<A, F>(stream: impl ByteStream, settings: &WebSettings, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let stream = TokioIo::new(stream);
    let service = service_fn(move |request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    // Whichever way a connection ends, its service is dropped, which notifies the host.
    if settings.is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(settings.stream_window);
        builder.initial_connection_window_size(settings.connection_window);
        tokio::spawn(builder.serve_connection(stream, service));
    } else {
        tokio::spawn(http1::Builder::new().serve_connection(stream, service));
    }
}
