//! A connection of HTTP/1.1 or HTTP/2, with or without TLS.

use crate::buffer_pool::{Arrival, BufferPool};
use crate::settings::Settings;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1 as client1, http2 as client2};
use hyper::header::{HOST as HOST_HEADER, HeaderValue};
use hyper::server::conn::{http1 as server1, http2 as server2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tripmeter_abi::{Error, Result};
use tripmeter_web::call_task::Call;
use tripmeter_web::reason::{reason, refused};
use tripmeter_web::tls::{accept, name};

pub(crate) type Content = Full<Bytes>;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for T {}

pub(crate) type Answer = Call<Arrival>;

pub(crate) struct Requests {
    sender: Sender,
    uri: Uri,
    host: Option<HeaderValue>,
    /// Reason that the connection ended, which a failed request does not always tell.
    ended: Arc<OnceLock<String>>,
}

enum Sender {
    Http1(client1::SendRequest<Content>),
    Http2(client2::SendRequest<Content>),
}

impl Requests {
    /// Starts HTTP, over TLS if there is a connector.
    pub(crate) async fn over(stream: TcpStream, tls: Option<TlsConnector>, settings: &Settings) -> Result<Self> {
        let to = stream.peer_addr().map_err(|error| Error::os("asking for the follower's address", error))?;
        stream.set_nodelay(settings.nodelay).map_err(|error| Error::os("setting TCP_NODELAY", error))?;
        match tls {
            None => Self::handshake(stream, to, settings).await,
            Some(tls) => {
                let stream = tls.connect(name(), stream).await;
                let stream =
                    stream.map_err(|error| Error::failed(format!("TLS with {to} failed: {}", reason(&error))))?;
                Self::handshake(stream, to, settings).await
            }
        }
    }

    async fn handshake(stream: impl Stream, to: SocketAddr, settings: &Settings) -> Result<Self> {
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
        Ok(Self { sender, uri, host, ended })
    }

    /// Error of a leader that the follower refused.
    pub(crate) fn refused(&self, to: SocketAddr, error: &Error) -> Error {
        refused(to, error, self.ended.get())
    }

    /// Starts a request; its answer is gathered in one of `buffers`.
    pub(crate) fn send(&mut self, method: Method, body: Bytes, buffers: BufferPool) -> Answer {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        if let Some(host) = &self.host {
            request.headers_mut().insert(HOST_HEADER, host.clone());
        }
        match &mut self.sender {
            Sender::Http1(sender) => Box::pin(answer(sender.send_request(request), buffers)),
            Sender::Http2(sender) => Box::pin(answer(sender.send_request(request), buffers)),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_ready(),
            Sender::Http2(sender) => sender.is_ready(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let ready = match &mut self.sender {
            Sender::Http1(sender) => sender.poll_ready(context),
            Sender::Http2(sender) => sender.poll_ready(context),
        };
        ready.map_err(|error| gone(&error))
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

/// Serves a stream by `answer`, over TLS if there is an acceptor; returns once requests may arrive.
pub(crate) async fn serve<A, F>(
    stream: TcpStream,
    tls: Option<&TlsAcceptor>,
    settings: &Settings,
    answer: A,
) -> Result<()>
where
    A: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response<Content>> + Send + 'static,
{
    stream.set_nodelay(settings.nodelay).map_err(|error| Error::os("setting TCP_NODELAY", error))?;
    match tls {
        None => spawn(stream, settings, answer),
        Some(tls) => spawn(accept(tls, stream).await?, settings, answer),
    }
    Ok(())
}

fn spawn<A, F>(stream: impl Stream, settings: &Settings, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response<Content>> + Send + 'static,
{
    let stream = TokioIo::new(stream);
    let service = service_fn(move |request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    // Whichever way a connection ends, its service is dropped, which notifies the host.
    if settings.is_http2 {
        let mut builder = server2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(settings.stream_window);
        builder.initial_connection_window_size(settings.connection_window);
        tokio::spawn(builder.serve_connection(stream, service));
    } else {
        tokio::spawn(server1::Builder::new().serve_connection(stream, service));
    }
}
