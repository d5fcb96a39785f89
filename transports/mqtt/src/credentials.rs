//! Credentials of a run: its clients' password for the broker, and with TLS an authority with certificates for both.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tripmeter_abi::{Error, Result, Status, UnauthorizedPeer};

pub(crate) const AUTHORITY: &str = "authority.pem";
pub(crate) const BROKER_CERTIFICATE: &str = "broker.pem";
pub(crate) const BROKER_KEY: &str = "broker.key";
const CLIENT_CERTIFICATE: &str = "client.pem";
const CLIENT_KEY: &str = "client.key";
const PASSWORD: &str = "password";
pub(crate) const USER: &str = "tripmeter";

/// Folder of the broker's own files; clients' files are in the folder that is copied to other hosts.
pub(crate) fn folder(scratch: &Path) -> PathBuf {
    scratch.join("mqtt")
}

/// Error of another class than that of a refused unauthorized peer.
fn failed<E: Display>(what: &str) -> impl FnOnce(E) -> Error {
    move |error| Error::new(Status::Unavailable, format!("{what}: {error}"))
}

/// Writes a random password for the run to both folders, and returns it. Fails if a file cannot be written.
pub(crate) fn write_password(folders: [&Path; 2]) -> Result<String> {
    let written = || {
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let password: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        for folder in folders {
            let mut options = File::options();
            let file = options.write(true).create(true).truncate(true).mode(0o600).open(folder.join(PASSWORD));
            file?.write_all(password.as_bytes())?;
        }
        Ok(password)
    };
    written().map_err(failed::<std::io::Error>("the password of the run"))
}

/// The run's password; `None` if the broker is not the run's own.
pub(crate) fn password(folder: &Path) -> Option<String> {
    fs::read_to_string(folder.join(PASSWORD)).ok()
}

struct Identity {
    certificate: String,
    key: String,
}

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> std::result::Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "tripmeter authority");
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// Issues an identity with this name, which may be an address.
    fn issue(&self, name: &str) -> std::result::Result<Identity, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.0)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

/// Makes an authority, and identities for the broker at `ip`, in `folder`, and for its clients, in `agreed`. Fails
/// if a file cannot be written.
pub(crate) fn write(folder: &Path, agreed: &Path, ip: IpAddr) -> Result<()> {
    let made = || {
        let authority = Authority::new()?;
        Ok((authority.issue(&ip.to_string())?, authority.issue("tripmeter")?, authority.0.pem()))
    };
    let (broker, client, authority) = made().map_err(failed::<rcgen::Error>("making certificates"))?;
    for (place, name, text) in [
        (folder, AUTHORITY, &authority),
        (folder, BROKER_CERTIFICATE, &broker.certificate),
        (folder, BROKER_KEY, &broker.key),
        (agreed, AUTHORITY, &authority),
        (agreed, CLIENT_CERTIFICATE, &client.certificate),
        (agreed, CLIENT_KEY, &client.key),
    ] {
        let file = place.join(name);
        fs::write(&file, text).map_err(failed(&file.display().to_string()))?;
    }
    Ok(())
}

/// Identity and trusted authority of a client. An unauthorized peer trusts the run's authority, but has another
/// one's identity. Fails if the leader's files are missing.
pub(crate) fn client(folder: &Path, unauthorized_peer: Option<UnauthorizedPeer>) -> Result<Arc<ClientConfig>> {
    let read = |name: &str| {
        let file = folder.join(name);
        fs::read_to_string(&file).map_err(failed(&file.display().to_string()))
    };
    let identity = match unauthorized_peer {
        Some(_) => Authority::new()
            .and_then(|authority| authority.issue("tripmeter"))
            .map_err(failed("making certificates"))?,
        None => Identity { certificate: read(CLIENT_CERTIFICATE)?, key: read(CLIENT_KEY)? },
    };
    configuration(&read(AUTHORITY)?, &identity)
}

fn configuration(authority: &str, identity: &Identity) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).map_err(failed(AUTHORITY))?;
    roots.add(authority).map_err(failed(AUTHORITY))?;
    let own = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).map_err(failed(CLIENT_CERTIFICATE))?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(failed(CLIENT_KEY))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed("TLS"))?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![own], key)
        .map_err(failed(CLIENT_CERTIFICATE))?;
    Ok(Arc::new(config))
}
