//! A node joins: it makes a key, which never leaves its folder, and has the monitor's authority
//! sign for it. Whoever answers must be the monitor of the authority that the token names, before
//! the token's secret is told.

use super::error::TlsError;
use super::files;
use super::own::{self, AUTHORITY, CERTIFICATE, Identity, IdentityError, KEY};
use super::session::Session;
use super::token::{Fingerprint, Token};
use super::verify::Expected;
use super::wire::Wire;
use crate::wire::{self, JOIN_MAX, Join};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::client::Resumption;
use rustls::{ClientConfig, version};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long all of it may take.
const WITHIN: Duration = Duration::from_secs(10);

/// Why a node has not joined.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// There is an identity in the folder already.
    #[error(
        "{0} is there already, and is not overwritten: name another folder, or remove it and join \
         again with a new token"
    )]
    There(PathBuf),
    /// A file cannot be made.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// The monitor.
    #[error("the monitor at {0} is not reached: {1}")]
    Monitor(SocketAddr, io::Error),
    /// It speaks no TLS.
    #[error(
        "what is at {0} does not speak TLS, in which alone a machine joins. A monitor that was \
         started with --key-file needs no joining: start this machine's agent with that file \
         (rhythm venice agent --key-file FILE), or the monitor without it. Else see that {0} is \
         its --listen"
    )]
    NotTls(SocketAddr),
    /// It says no.
    #[error("the monitor refuses: {0}")]
    Refused(String),
    /// What it says is no use.
    #[error("the monitor's answer is no use: {0}")]
    Answer(String),
    /// No key can be made.
    #[error("no key can be made: {0}")]
    Key(String),
}

/// Joins, and writes what comes of it into a folder, which is made where there is none.
///
/// # Errors
/// [`JoinError`]: then the folder has nothing new.
pub fn join(monitor: SocketAddr, token: &Token, folder: &Path) -> Result<Identity, JoinError> {
    let joined = files::as_owner(folder, || {
        let mut made = Vec::new();
        let joined = join_into(monitor, token, folder, &mut made);
        if joined.is_err() {
            // What another has made meanwhile is that one's.
            for path in made {
                let _ = fs::remove_file(path);
            }
        }
        joined
    });
    joined.map_err(|error| JoinError::File(folder.to_owned(), error))?
}

/// Joins; notes the files that were made.
fn join_into(
    monitor: SocketAddr,
    token: &Token,
    folder: &Path,
    made: &mut Vec<PathBuf>,
) -> Result<Identity, JoinError> {
    let all = [KEY, AUTHORITY, CERTIFICATE].map(|name| folder.join(name));
    if let Some(there) = all.iter().find(|path| path.exists()) {
        return Err(JoinError::There(there.clone()));
    }
    files::folder(folder).map_err(|error| JoinError::File(folder.to_owned(), error))?;
    let [key_path, authority_path, certificate_path] = all;
    let mut write = |path: PathBuf, mode, text: &str| match files::write_new(&path, mode, text) {
        Ok(()) => {
            made.push(path);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(JoinError::There(path)),
        Err(error) => Err(JoinError::File(path, error)),
    };
    let key = KeyPair::generate().map_err(|error| JoinError::Key(error.to_string()))?;
    let key_pem = key.serialize_pem();
    // Before the token is used: a disk may be full.
    write(key_path, 0o600, &key_pem)?;
    let (certificate, authority) = ask(monitor, token, &key)?;
    let useless = |error: IdentityError| JoinError::Answer(error.to_string());
    let identity = Identity::of_pem(&certificate, &key_pem, &authority).map_err(useless)?;
    identity.node().map_err(useless)?;
    write(authority_path, 0o644, &authority)?;
    write(certificate_path, 0o644, &certificate)?;
    Ok(identity)
}

/// A certificate for the key, and its authority's, as PEM.
fn ask(monitor: SocketAddr, token: &Token, key: &KeyPair) -> Result<(String, String), JoinError> {
    let until = Instant::now() + WITHIN;
    let broken = |error: io::Error| JoinError::Monitor(monitor, error);
    let config = config(token.authority).map_err(|error| broken(error.into()))?;
    let session = Session::connect_by(config).map_err(|error| broken(error.into()))?;
    let socket = TcpStream::connect_timeout(&monitor, WITHIN).map_err(broken)?;
    let mut wire = Wire::greet(socket, session, until).map_err(|error| {
        let why = error.get_ref().and_then(|why| why.downcast_ref());
        match why {
            Some(TlsError::Closed | TlsError::NotTls) => JoinError::NotTls(monitor),
            _ => broken(error),
        }
    })?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(key);
    let request = request.map_err(|error| JoinError::Key(error.to_string()))?;
    let asks = Join::Ask {
        secret: token.secret,
        request: request.der().to_vec(),
    };
    let mut bytes = Vec::new();
    wire::put(&asks, &mut bytes);
    wire.write_all(&bytes)
        .and_then(|()| wire.flush())
        .map_err(broken)?;
    match answer(&mut wire, until).map_err(broken)? {
        Join::Has {
            certificate,
            authority,
        } => {
            let its = own::certificates(&authority);
            match its.is_some_and(|its| Fingerprint::of(&its[0]) == token.authority) {
                true => Ok((certificate, authority)),
                false => Err(JoinError::Answer(
                    "its authority is not the token's".to_owned(),
                )),
            }
        }
        Join::Not { why } => Err(JoinError::Refused(why)),
        Join::Ask { .. } => Err(JoinError::Answer("it asks".to_owned())),
    }
}

fn config(authority: Fingerprint) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = own::provider();
    let expected = Expected::monitor_of(authority, Arc::clone(&provider));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(expected))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}

fn answer(wire: &mut Wire, until: Instant) -> io::Result<Join> {
    let mut came = Vec::new();
    let mut part = [0; 4096];
    loop {
        match wire::first::<Join>(&came, JOIN_MAX) {
            Ok(Some((answer, _))) => return Ok(answer),
            Ok(None) => {}
            Err(garbage) => return Err(io::Error::other(garbage)),
        }
        wire.wait_until(Some(until))?;
        match wire.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => came.extend_from_slice(&part[..read]),
        }
    }
}
