//! TLS: an authority made for the run, and the certificate that it issued to both ends, which verify each other.

use crate::reason::reason;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use std::fmt::Display;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client};
use tripmeter_abi::{Error, NodeOptions, Result, UnauthorizedPeer};

/// Only name in a certificate, whatever the address: trust is in the run's authority.
const NAME: &str = "tripmeter";

/// Time for which data of a refused peer is read.
const HEARING_TIME: Duration = Duration::from_millis(200);

/// Files in the run's folder, in DER.
const AUTHORITY: &str = "authority.der";
const CERTIFICATE: &str = "certificate.der";
const KEY: &str = "key.der";

/// Connects to the follower at `to`.
pub async fn connect(tls: &TlsConnector, stream: TcpStream, to: SocketAddr) -> Result<client::TlsStream<TcpStream>> {
    let name = ServerName::try_from(NAME).expect("a name of letters");
    let stream = tls.connect(name, stream).await;
    stream.map_err(|error| Error::failed(format!("TLS with {to} failed: {}", reason(&error))))
}

/// Accepts a leader. After refusing one, it reads on for a moment before it closes the connection. TCP resets a
/// connection that is closed with unread data, and then the leader does not receive the reason.
pub async fn accept(tls: &TlsAcceptor, stream: TcpStream) -> Result<TlsStream<TcpStream>> {
    let (error, mut refused) = match tls.accept(stream).into_fallible().await {
        Ok(stream) => return Ok(stream),
        Err(refused) => refused,
    };
    let hear = async {
        let _ = refused.shutdown().await;
        let mut rest = [0; 1024];
        while refused.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
    };
    // A time-out does not matter here.
    let _ = tokio::time::timeout(HEARING_TIME, hear).await;
    Err(Error::failed(format!("TLS with the leader failed: {}", reason(&error))))
}

/// Trusted authority and own certificate. Both ends share one certificate: a second would not change the measurement.
pub struct Credentials {
    authority: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Credentials of the run, made by the first end that needs them. An unauthorized peer gets its own, or `None` for
/// no security.
pub fn credentials(options: &NodeOptions) -> Result<Option<Credentials>> {
    let folder = options.agreed_folder();
    match options.unauthorized_peer {
        None => Credentials::of_run(&folder).map(Some),
        Some(UnauthorizedPeer::Plain) => Ok(None),
        // It trusts the true follower, so that the follower must refuse.
        Some(UnauthorizedPeer::Foreign) => {
            Ok(Some(Credentials { authority: read(&folder.join(AUTHORITY))?, ..Credentials::make()? }))
        }
    }
}

impl Credentials {
    fn make() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "tripmeter authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(params, key()?).map_err(failed("making an authority"))?;
        let mut params = CertificateParams::new([NAME.to_owned()]).map_err(failed("naming a certificate"))?;
        params.distinguished_name.push(DnType::CommonName, NAME);
        let key = key()?;
        let certificate = params.signed_by(&key, &authority).map_err(failed("making a certificate"))?;
        Ok(Self {
            authority: authority.der().to_vec(),
            certificate: certificate.der().to_vec(),
            key: key.serialized_der().to_vec(),
        })
    }

    /// Reads the credentials, or makes and writes them.
    fn of_run(folder: &Path) -> Result<Self> {
        let at = |what: &str, path: &Path, error| Error::os(&format!("{what} '{}'", path.display()), error);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| at("making the folder", folder, error))?;
        let lock = folder.join("lock");
        let turn = File::create(&lock).map_err(|error| at("opening", &lock, error))?;
        turn.lock().map_err(|error| at("locking", &lock, error))?;
        let [authority, certificate, key] = [AUTHORITY, CERTIFICATE, KEY].map(|name| folder.join(name));
        if authority.exists() {
            return Ok(Self { authority: read(&authority)?, certificate: read(&certificate)?, key: read(&key)? });
        }
        let made = Self::make()?;
        // The authority is last: where it exists, all files do.
        for (path, bytes) in [(key, &made.key), (certificate, &made.certificate), (authority, &made.authority)] {
            write(&path, bytes).map_err(|error| at("writing", &path, error))?;
        }
        Ok(made)
    }

    fn roots(&self) -> Result<Arc<RootCertStore>> {
        let mut roots = RootCertStore::empty();
        let added = roots.add(CertificateDer::from(self.authority.clone()));
        added.map_err(failed("trusting the run's authority"))?;
        Ok(Arc::new(roots))
    }

    fn own(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let certificate = CertificateDer::from(self.certificate.clone());
        (vec![certificate], PrivatePkcs8KeyDer::from(self.key.clone()).into())
    }

    /// Connector of the leader for `protocol`.
    pub fn connector(&self, protocol: &str) -> Result<TlsConnector> {
        let (certificates, key) = self.own();
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(failed("choosing a version of TLS"))?
            .with_root_certificates(self.roots()?)
            .with_client_auth_cert(certificates, key)
            .map_err(failed("using the run's certificate"))?;
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Ok(Arc::new(config).into())
    }

    /// Acceptor of the follower, which refuses a leader without a certificate of the run's authority.
    pub fn acceptor(&self, protocol: &str) -> Result<TlsAcceptor> {
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots()?, provider());
        let (certificates, key) = self.own();
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(failed("choosing a version of TLS"))?
            .with_client_cert_verifier(verifier.build().map_err(failed("trusting the run's authority"))?)
            .with_single_cert(certificates, key)
            .map_err(failed("using the run's certificate"))?;
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Ok(Arc::new(config).into())
    }
}

fn key() -> Result<KeyPair> {
    KeyPair::generate().map_err(failed("making a key"))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::os(&format!("reading '{}'", path.display()), error))
}

/// Writes a file that only this user can read.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(bytes)
}

fn failed<E: Display>(what: &str) -> impl FnOnce(E) -> Error {
    move |error| Error::failed(format!("TLS: {what} failed: {error}"))
}
