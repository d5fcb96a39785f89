//! Wire format, see `tripmeter.proto`, and the stream below it.

use bytes::Bytes;
use std::io::{IoSlice, Result as Io};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;
use tonic_prost::ProstCodec;
use tripmeter_web::ByteStream;
use tripmeter_web::reason::reason;

pub(crate) const UNARY: &str = "/tripmeter.Transport/Unary";
pub(crate) const STREAM: &str = "/tripmeter.Transport/Stream";

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Payload {
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
}

pub(crate) type Codec = ProstCodec<Payload, Payload>;

pub(crate) struct Stream {
    inner: Box<dyn ByteStream>,
    ended: Arc<OnceLock<String>>,
}

impl Stream {
    pub(crate) fn new(stream: impl ByteStream) -> Self {
        Self { inner: Box::new(stream), ended: Arc::default() }
    }

    /// Reason that reading failed, which tonic does not tell.
    pub(crate) fn ended(&self) -> Arc<OnceLock<String>> {
        self.ended.clone()
    }
}

impl Connected for Stream {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<Io<()>> {
        let read = Pin::new(&mut self.inner).poll_read(context, room);
        if let Poll::Ready(Err(error)) = &read {
            let _ = self.ended.set(reason(error));
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Io<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Io<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Io<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Io<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
