//! TLS with backends, and with servers that are proxied to: whom they must be, and who we are to
//! them.
//!
//! A kind that speaks it says so by its `url`, and has these keys beside; so has a route that is
//! proxied. The server's certificate
//! is always checked, by its name: a connection that anybody in between could read is none that was
//! asked for.

use super::files::read_regular;
use super::http_client::{BackendUrl, UrlPlace};
use rhythm_engine::kind::BackendKey;
use rhythm_engine::settings::{BackendConfig, Setting};
use rhythm_net::Seal;
use rhythm_net::tls::{Begins, Certificate, Connector, Trusted};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A key that names a file.
const fn file(name: &'static str, about: &'static str) -> BackendKey {
    BackendKey {
        name,
        about,
        default: Setting::Text(""),
        check: |_| true,
        wrong: "",
        hint: "",
    }
}

/// Of which authorities.
pub(super) const TRUSTED: BackendKey = file(
    "tls_ca",
    "a file with the certificates (PEM) of those who may have signed the server's, in place of the \
     system's: of an authority of one's own, or the server's own where it signs itself",
);
/// Who we are.
pub(super) const CERTIFICATE: BackendKey = file(
    "tls_certificate",
    "a file with the certificate (PEM) that is shown to a server that asks for one",
);
/// That we are.
pub(super) const KEY: BackendKey = file("tls_key", "a file with its private key (PEM)");

/// Most bytes of one of these files: the system's list of authorities has a quarter of it.
const FILE_MAX: u64 = 1 << 20;

/// Most bytes that a connection takes more by it: a record that comes, two that go, and what its
/// greeting takes.
pub(crate) const CONNECTION_BYTES: usize = 80 << 10;

/// Who asks for TLS, and by which files.
#[derive(Clone, PartialEq)]
struct Terms {
    /// The backend's name, or where the proxy's server is.
    asked: String,
    host: String,
    /// What [`TRUSTED`], [`CERTIFICATE`] and [`KEY`] name, each empty where it is not there.
    files: [PathBuf; 3],
    /// The names for ALPN of what is spoken.
    protocols: Vec<Vec<u8>>,
    begins: Begins,
}

/// What connectors were made of, so that a reload which changes nothing of it finds the one that
/// there is, with the tickets that it has.
struct Made {
    terms: Terms,
    files: [Option<Vec<u8>>; 3],
    connector: Arc<Connector>,
}

static MADE: Mutex<Vec<Made>> = Mutex::new(Vec::new());

/// What a backend's connections begin with that speak TLS; nothing where they do not. It reads
/// files.
///
/// # Errors
/// What is wrong with its table, in words.
pub(super) fn connector(
    config: &BackendConfig,
    speaks_tls: bool,
    place: &UrlPlace,
    protocols: &[&[u8]],
    begins: Begins,
) -> Result<Option<Arc<Connector>>, String> {
    let files = KEYS.map(|key| config.text(key));
    match host_of(speaks_tls, place, files, "url")? {
        None => Ok(None),
        Some(host) => made(Terms {
            asked: config.name.clone(),
            host: host.to_owned(),
            files: files.map(|file| within(&config.folder, file)),
            protocols: protocols.iter().map(|name| name.to_vec()).collect(),
            begins,
        })
        .map(Some),
    }
}

/// What connections to a server that is proxied to are sealed with, where it speaks TLS: `files`
/// are those of the route's `tls_ca`, `tls_certificate` and `tls_key`, relative to this folder. It
/// reads them.
///
/// # Errors
/// What is wrong with them, in words.
pub fn seal_of(url: &BackendUrl, folder: &Path, files: [&str; 3]) -> Result<Option<Seal>, String> {
    let connector = connector_of(url, folder, files, "to")?;
    Ok(connector.map(|connector| connector.seal()))
}

/// As [`seal_of`]: whom the server at a URL must be that a setting of this name has.
///
/// # Errors
/// What is wrong with the files, in words.
pub(crate) fn connector_of(
    url: &BackendUrl,
    folder: &Path,
    files: [&str; 3],
    named: &str,
) -> Result<Option<Arc<Connector>>, String> {
    match host_of(url.speaks_tls, &url.place, files, named)? {
        None => Ok(None),
        Some(host) => made(Terms {
            asked: url.authority.clone(),
            host: host.to_owned(),
            files: files.map(|file| within(folder, file)),
            protocols: vec![b"http/1.1".to_vec()],
            begins: Begins::AtOnce,
        })
        .map(Some),
    }
}

/// The names of the keys of files.
const KEYS: [&str; 3] = [TRUSTED.name, CERTIFICATE.name, KEY.name];

/// Whom a server must be, if it speaks TLS; `named` is the key of its URL.
fn host_of<'a>(
    speaks_tls: bool,
    place: &'a UrlPlace,
    files: [&str; 3],
    named: &str,
) -> Result<Option<&'a str>, String> {
    let file = KEYS.iter().zip(files).find(|(_, file)| !file.is_empty());
    match (speaks_tls, file, place) {
        (false, Some((key, _)), _) => Err(format!(
            "`{key}` is of no use: `{named}` does not ask for TLS"
        )),
        (false, None, _) => Ok(None),
        (true, _, UrlPlace::Port { host, .. }) => Ok(Some(host)),
        (true, _, UrlPlace::Socket(_)) => Err("TLS is not spoken at a Unix socket".to_owned()),
    }
}

/// Where a file is that was named so, if one was.
fn within(folder: &Path, file: &str) -> PathBuf {
    match file {
        "" => PathBuf::new(),
        file => folder.join(file),
    }
}

/// The connector for these terms, made anew where they, or what is in their files, have changed.
fn made(terms: Terms) -> Result<Arc<Connector>, String> {
    let [trusted, certificate, key] = [0, 1, 2].map(|at| read(KEYS[at], &terms.files[at]));
    let files = [trusted?, certificate?, key?];
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |made: &Made| made.terms == terms && made.files == files;
    if let Some(known) = made.iter().find(|made| is_it(made)) {
        return Ok(known.connector.clone());
    }
    let trusted = match &files[0] {
        Some(pem) => Trusted::from_pem(pem).map_err(|why| format!("`{}`: {why}", KEYS[0]))?,
        None => Trusted::of_system()
            .map_err(|why| format!("{why}; or name the server's in `{}`", KEYS[0]))?,
    };
    let own = match (&files[1], &files[2]) {
        (None, None) => None,
        (Some(chain), Some(key)) => Some(
            Certificate::from_pem(chain, key)
                .map_err(|why| format!("`{}` and `{}`: {why}", KEYS[1], KEYS[2]))?,
        ),
        _ => return Err(format!("`{}` and `{}` go together", KEYS[1], KEYS[2])),
    };
    let protocols: Vec<&[u8]> = terms.protocols.iter().map(Vec::as_slice).collect();
    let (host, begins) = (&terms.host, terms.begins);
    let connector = Arc::new(Connector::new(
        host,
        &trusted,
        own.as_ref(),
        &protocols,
        begins,
    )?);
    made.retain(|made| made.terms != terms);
    made.push(Made {
        terms,
        files,
        connector: connector.clone(),
    });
    Ok(connector)
}

/// What is in the file that this key names, if it names one.
fn read(key: &str, path: &Path) -> Result<Option<Vec<u8>>, String> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let read = read_regular(path, FILE_MAX);
    read.map(Some)
        .map_err(|why| format!("cannot read `{key}`, {}: {why}", path.display()))
}
