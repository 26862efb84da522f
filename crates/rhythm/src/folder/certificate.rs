//! The certificate that a service shows to clients that speak TLS.

use super::regular::Found;
use anyhow::{Context, Result, anyhow, bail};
use rhythm_engine::settings::{Origin, ServiceConfig};
use rhythm_net::tls::Certificate;
use std::fmt;
use std::path::{Path, PathBuf};

/// Certificates and keys are far shorter.
const BYTES_MAX: u64 = 1 << 20;

/// Reads the certificate that the settings of a service in this folder name, if they name one.
///
/// # Errors
/// It cannot be read, or is no use.
pub(super) fn read(folder: &Path, config: &ServiceConfig) -> Result<Option<Certificate>> {
    let (chain, key) = match (&config.tls.certificate, &config.tls.key) {
        (None, None) => return Ok(None),
        (Some(chain), Some(key)) => (chain, key),
        (Some(_), None) => bail!("[tls] has a `certificate` and no `key`: say both{FLAGS}"),
        (None, Some(_)) => bail!("[tls] has a `key` and no `certificate`: say both{FLAGS}"),
    };
    let chain = Named::new(folder, config, "certificate", chain);
    let key = Named::new(folder, config, "key", key);
    let certificate = Certificate::from_pem(&chain.read()?, &key.read()?);
    (certificate.map(Some)).with_context(|| format!("{chain} with {key}"))
}

/// By which what is missing may be said, too.
const FLAGS: &str = " (--tls-certificate, --tls-key)";

/// A file that a setting names.
struct Named {
    /// What has named it.
    by: String,
    path: PathBuf,
    /// Where its path begins.
    begins: &'static str,
}

impl Named {
    fn new(folder: &Path, config: &ServiceConfig, key: &str, path: &Path) -> Named {
        match config.origin("tls", key) {
            // Such a path is from where it was typed.
            Origin::Flag => Named {
                by: format!("--tls-{key}"),
                path: path.to_owned(),
                begins: "the current folder",
            },
            Origin::File | Origin::Default => Named {
                by: format!("`{key}` of [tls]"),
                path: folder.join(path),
                begins: "the service's folder",
            },
        }
    }

    fn read(&self) -> Result<Vec<u8>> {
        let read = || -> Result<Vec<u8>> {
            let bytes = Found::find(&self.path)?.open()?.read_all(BYTES_MAX);
            bytes.with_context(|| format!("cannot read {}", self.path.display()))
        };
        read().map_err(|why| {
            let cure = match self.path.exists() {
                true => "it is to be a file that this user may read".to_owned(),
                false => format!(
                    "the path begins at {}, and `rhythm cert self-signed tls` makes a certificate \
                     and its key to try TLS, tls/cert.pem and tls/key.pem",
                    self.begins
                ),
            };
            anyhow!("{}: {why:#}; {cure}", self.by)
        })
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.by, self.path.display())
    }
}
