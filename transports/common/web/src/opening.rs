//! Sockets of a link before it is connected, at free ports that peers learn by the control channel.

use crate::ByteStream;
use crate::acceptor::{Acceptor, accept};
use crate::call_task::Connection;
use crate::settings::WebSettings;
use crate::tls;
use std::net::{SocketAddr, TcpListener as Listener};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tripmeter_abi::{Error, NodeOptions, Result, os};

/// Error of a link that is not connected, or is connected again.
#[cold]
pub fn unconnected() -> Error {
    Error::failed("nobody is connected, or somebody is already")
}

fn first(peers: &[Vec<u8>]) -> Result<SocketAddr> {
    os::of_peer(peers.first().map_or(&[], Vec::as_slice))
}

/// Socket of either end.
pub enum Opening {
    /// Socket of the leader.
    Leader(Caller),
    /// Socket of the follower.
    Follower(Called),
}

impl Opening {
    /// Address for the peer.
    pub fn address(&self) -> Result<Vec<u8>> {
        match self {
            Self::Leader(caller) => caller.address(),
            Self::Follower(called) => called.address(),
        }
    }
}

fn to_peer(address: std::io::Result<SocketAddr>) -> Result<Vec<u8>> {
    let address = address.map_err(|error| Error::os("asking for a socket's address", error))?;
    Ok(address.to_string().into_bytes())
}

fn set_nodelay(stream: &TcpStream, settings: &WebSettings) -> Result<()> {
    stream.set_nodelay(settings.nodelay).map_err(|error| Error::os("setting TCP_NODELAY", error))
}

/// Socket of a leader, bound to a port.
pub struct Caller {
    socket: TcpSocket,
    tls: Option<TlsConnector>,
    settings: WebSettings,
}

impl Caller {
    pub(crate) fn open(options: &NodeOptions, settings: WebSettings, tls: Option<TlsConnector>) -> Result<Self> {
        let at = (options.address(), 0).into();
        let socket = if options.address().is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.map_err(|error| Error::os("making a TCP socket", error))?;
        socket.bind(at).map_err(|error| Error::os(&format!("binding a TCP socket to {at}"), error))?;
        Ok(Self { socket, tls, settings })
    }

    pub(crate) fn address(&self) -> Result<Vec<u8>> {
        to_peer(self.socket.local_addr())
    }

    /// Connects to the follower, over TLS if there is a connector.
    pub async fn connect<C: Connection>(self, peers: &[Vec<u8>]) -> Result<C> {
        let to = first(peers)?;
        let stream = self.socket.connect(to).await;
        let stream = stream.map_err(|error| Error::os(&format!("connecting to the follower at {to}"), error))?;
        set_nodelay(&stream, &self.settings)?;
        match self.tls {
            None => C::open(stream, to, self.settings).await,
            Some(tls) => C::open(tls::connect(&tls, stream, to).await?, to, self.settings).await,
        }
    }
}

/// Handler of the requests of one connection.
pub trait Service: Sized + Send + 'static {
    /// Name of the thread that serves further peers.
    const ACCEPTOR: &str;

    /// Serves a connection; returns once requests may arrive. Without a handler, only greetings are answered.
    fn serve(
        handler: Option<Self>,
        stream: impl ByteStream,
        settings: &WebSettings,
    ) -> impl Future<Output = Result<()>> + Send;
}

async fn serve<S: Service>(
    handler: Option<S>,
    stream: TcpStream,
    tls: Option<&TlsAcceptor>,
    settings: &WebSettings,
) -> Result<()> {
    set_nodelay(&stream, settings)?;
    match tls {
        None => S::serve(handler, stream, settings).await,
        Some(tls) => S::serve(handler, tls::accept(tls, stream).await?, settings).await,
    }
}

/// Listener of a follower.
pub struct Called {
    listener: Listener,
    tls: Option<TlsAcceptor>,
    settings: WebSettings,
}

impl Called {
    pub(crate) fn open(options: &NodeOptions, settings: WebSettings, tls: Option<TlsAcceptor>) -> Result<Self> {
        let at = options.address();
        let listener = Listener::bind((at, 0));
        let listener = listener.map_err(|error| Error::os(&format!("listening at a free port of {at}"), error))?;
        listener.set_nonblocking(true).map_err(|error| Error::os("preparing the listener", error))?;
        Ok(Self { listener, tls, settings })
    }

    pub(crate) fn address(&self) -> Result<Vec<u8>> {
        to_peer(self.listener.local_addr())
    }

    /// Serves the leader until its greeting, of which the handler notifies. With TLS, an acceptor then serves further
    /// peers.
    pub async fn connect<S: Service>(
        self,
        peers: &[Vec<u8>],
        handler: impl FnOnce(Arc<Notify>) -> S,
    ) -> Result<Option<Acceptor>> {
        let Self { listener, tls, settings } = self;
        let leader = first(peers)?;
        let failed = |error| Error::os("preparing the listener", error);
        let after = listener.try_clone().map_err(failed)?;
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        let stream = accept(&listener, leader).await?;
        let greeted = Arc::new(Notify::new());
        serve(Some(handler(greeted.clone())), stream, tls.as_ref(), &settings).await?;
        greeted.notified().await;
        let greet = move |stream| {
            let tls = tls.clone();
            async move { drop(serve(None::<S>, stream, tls.as_ref(), &settings).await) }
        };
        settings.tls.then(|| Acceptor::start(after, S::ACCEPTOR, greet)).transpose()
    }
}
