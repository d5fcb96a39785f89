//! The leader's end: a client of the follower's service.

use crate::wire::{Codec, Payload, STREAM, Stream, UNARY};
use bytes::Bytes;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use std::error::Error as _;
use std::net::SocketAddr;
use tokio::sync::mpsc::Receiver;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tripmeter_abi::{Error, Result};
use tripmeter_web::ByteStream;
use tripmeter_web::call_task::{Call, Connection};
use tripmeter_web::reason::{reason, refused};
use tripmeter_web::settings::WebSettings;

/// The follower's service.
pub(crate) struct Calls(pub Channel);

impl Connection for Calls {
    type Answer = Bytes;

    const IS_LAZY: bool = true;

    async fn open(stream: impl ByteStream, to: SocketAddr, settings: WebSettings) -> Result<Self> {
        let stream = Stream::new(stream);
        let ended = stream.ended();
        let failed = |error: tonic::transport::Error| Error::failed(format!("no gRPC with {to}: {}", reason(&error)));
        let endpoint = Endpoint::from_shared(format!("http://{to}")).map_err(failed)?;
        let endpoint = endpoint
            .initial_stream_window_size(settings.stream_window)
            .initial_connection_window_size(settings.connection_window);
        // There is one connection; tonic would open another when it ends.
        let mut stream = Some(TokioIo::new(stream));
        let connector = tower::service_fn(move |_| {
            let stream = stream.take();
            async move { stream.ok_or_else(|| std::io::Error::other("the connection has ended")) }
        });
        let channel = endpoint.connect_with_connector(connector).await.map_err(failed)?;
        let greeted = call(channel.clone(), Bytes::new()).await;
        greeted.map_err(|error| refused(to, &error, ended.get()))?;
        Ok(Self(channel))
    }

    #[inline]
    fn call(&mut self, data: Bytes) -> Call<Bytes> {
        Box::pin(call(self.0.clone(), data))
    }
}

fn client(channel: Channel) -> Grpc<Channel> {
    Grpc::new(channel).max_decoding_message_size(usize::MAX)
}

/// Calls the method `Unary`; `None` if the follower released the message without an answer.
async fn call(channel: Channel, data: Bytes) -> Result<Option<Bytes>> {
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
