//! TLS with backends: whom they must be, and who we are to them.
//!
//! A kind that speaks it says so by its `url`, and has these keys beside. The server's certificate
//! is always checked, by its name: a connection that anybody in between could read is none that was
//! asked for.

use super::files::read_regular;
use super::http_client::UrlPlace;
use rhythm_engine::kind::BackendKey;
use rhythm_engine::settings::{BackendConfig, Setting};
use rhythm_net::tls::{Begins, Certificate, Connector, Trusted};
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

/// Most bytes that a connection takes more by it: a record each way, and what its greeting takes.
pub(super) const CONNECTION_BYTES: usize = 64 << 10;

/// What connectors were made of, so that a reload which changes nothing of it finds the one that
/// there is, with the tickets that it has.
struct Made {
    config: BackendConfig,
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
    let keys = [TRUSTED, CERTIFICATE, KEY].map(|key| key.name);
    if !speaks_tls {
        return match keys.iter().find(|key| !config.text(key).is_empty()) {
            Some(key) => Err(format!("`{key}` is of no use: `url` does not ask for TLS")),
            None => Ok(None),
        };
    }
    let UrlPlace::Port { host, .. } = place else {
        return Err("TLS is not spoken at a Unix socket".to_owned());
    };
    let [trusted, certificate, key] = keys.map(|key| read(config, key));
    let files = [trusted?, certificate?, key?];
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |made: &Made| made.config == *config && made.files == files;
    if let Some(known) = made.iter().find(|made| is_it(made)) {
        return Ok(Some(known.connector.clone()));
    }
    let trusted = match &files[0] {
        Some(pem) => Trusted::from_pem(pem).map_err(|why| format!("`{}`: {why}", keys[0]))?,
        None => Trusted::of_system()
            .map_err(|why| format!("{why}; or name the server's in `{}`", keys[0]))?,
    };
    let own = match (&files[1], &files[2]) {
        (None, None) => None,
        (Some(chain), Some(key)) => Some(
            Certificate::from_pem(chain, key)
                .map_err(|why| format!("`{}` and `{}`: {why}", keys[1], keys[2]))?,
        ),
        _ => return Err(format!("`{}` and `{}` go together", keys[1], keys[2])),
    };
    let connector = Connector::new(host, &trusted, own.as_ref(), protocols, begins)?;
    let connector = Arc::new(connector);
    made.retain(|made| made.config != *config);
    made.push(Made {
        config: config.clone(),
        files,
        connector: connector.clone(),
    });
    Ok(Some(connector))
}

/// What is in the file that a backend's table names under this key, if it does.
fn read(config: &BackendConfig, key: &str) -> Result<Option<Vec<u8>>, String> {
    let file = config.text(key);
    if file.is_empty() {
        return Ok(None);
    }
    let path = config.folder.join(file);
    let read = read_regular(&path, FILE_MAX);
    read.map(Some)
        .map_err(|why| format!("cannot read `{key}`, {}: {why}", path.display()))
}
