//! The leader's end of a connection of HTTP/1.1 or HTTP/2.

use crate::buffer_pool::{Arrival, BufferPool};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1 as client1, http2 as client2};
use hyper::header::{HOST as HOST_HEADER, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tripmeter_abi::{Error, Result};
use tripmeter_web::ByteStream;
use tripmeter_web::call_task::{Call, Connection};
use tripmeter_web::reason::{reason, refused};
use tripmeter_web::settings::WebSettings;

type Content = Full<Bytes>;

pub(crate) struct Requests {
    sender: Sender,
    uri: Uri,
    host: Option<HeaderValue>,
    buffers: BufferPool,
    /// Reason that the connection ended, which a failed request does not always tell.
    ended: Arc<OnceLock<String>>,
}

enum Sender {
    Http1(client1::SendRequest<Content>),
    Http2(client2::SendRequest<Content>),
}

impl Requests {
    async fn handshake(stream: impl ByteStream, to: SocketAddr, settings: &WebSettings) -> Result<Self> {
        let failed = |error: hyper::Error| Error::failed(format!("no HTTP with {to}: {}", reason(&error)));
        let stream = TokioIo::new(stream);
        let ended = Arc::new(OnceLock::new());
        let sender = if settings.is_http2 {
            let mut builder = client2::Builder::new(TokioExecutor::new());
            builder.initial_stream_window_size(settings.stream_window);
            builder.initial_connection_window_size(settings.connection_window);
            let (sender, connection) = builder.handshake(stream).await.map_err(failed)?;
            tokio::spawn(keep(connection, ended.clone()));
            Sender::Http2(sender)
        } else {
            let (sender, connection) = client1::handshake(stream).await.map_err(failed)?;
            tokio::spawn(keep(connection, ended.clone()));
            Sender::Http1(sender)
        };
        // HTTP/2 has scheme and host in the URI, HTTP/1.1 the host in a header.
        let (uri, host) = match sender {
            Sender::Http1(_) => ("/".to_owned(), Some(to.to_string())),
            Sender::Http2(_) => (format!("http://{to}/"), None),
        };
        let invalid = |error: &dyn std::error::Error| Error::failed(format!("address {to}: {error}"));
        let uri = uri.parse().map_err(|error: hyper::http::uri::InvalidUri| invalid(&error))?;
        let host = host.map(HeaderValue::try_from).transpose().map_err(|error| invalid(&error))?;
        let buffers = BufferPool::new(settings.max_payload_bytes as usize);
        Ok(Self { sender, uri, host, buffers, ended })
    }

    fn send(&mut self, method: Method, body: Bytes) -> Call<Arrival> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        if let Some(host) = &self.host {
            request.headers_mut().insert(HOST_HEADER, host.clone());
        }
        match &mut self.sender {
            Sender::Http1(sender) => Box::pin(answer(sender.send_request(request), self.buffers.clone())),
            Sender::Http2(sender) => Box::pin(answer(sender.send_request(request), self.buffers.clone())),
        }
    }
}

impl Connection for Requests {
    type Answer = Arrival;

    const IS_LAZY: bool = false;

    async fn open(stream: impl ByteStream, to: SocketAddr, settings: WebSettings) -> Result<Self> {
        let mut requests = Self::handshake(stream, to, &settings).await?;
        // Only the answer shows that the follower accepted this end's certificate.
        let greeted = requests.send(Method::GET, Bytes::new()).await;
        greeted.map_err(|error| refused(to, &error, requests.ended.get()))?;
        Ok(requests)
    }

    fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_ready(),
            Sender::Http2(sender) => sender.is_ready(),
        }
    }

    fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let ready = match &mut self.sender {
            Sender::Http1(sender) => sender.poll_ready(context),
            Sender::Http2(sender) => sender.poll_ready(context),
        };
        ready.map_err(|error| gone(&error))
    }

    #[inline]
    fn call(&mut self, body: Bytes) -> Call<Arrival> {
        self.send(Method::POST, body)
    }
}

/// Waits for the end of a connection, and stores the reason.
async fn keep(connection: impl Future<Output = hyper::Result<()>>, ended: Arc<OnceLock<String>>) {
    if let Err(error) = connection.await {
        let _ = ended.set(reason(&error));
    }
}

async fn answer(
    sent: impl Future<Output = hyper::Result<Response<Incoming>>>,
    buffers: BufferPool,
) -> Result<Option<Arrival>> {
    let response = sent.await.map_err(|error| gone(&error))?;
    match response.status() {
        StatusCode::OK => buffers.gather(response.into_body()).await.map(Some),
        StatusCode::NO_CONTENT => Ok(None),
        other => Err(Error::failed(format!("the follower answers {other}"))),
    }
}

#[cold]
fn gone(error: &hyper::Error) -> Error {
    Error::closed(format!("the connection to the follower has ended: {}", reason(error)))
}
