//! The certificate that a service shows to clients that speak TLS.

use super::regular::Found;
use anyhow::{Context, Result, bail};
use rhythm_engine::settings::{Origin, ServiceConfig};
use rhythm_net::tls::Certificate;
use std::path::Path;

/// Certificates and keys are far shorter.
const BYTES_MAX: u64 = 1 << 20;

/// Reads the certificate that the settings of a service in this folder name, if they name one.
///
/// # Errors
/// It cannot be read, or is no use.
pub(super) fn read(folder: &Path, config: &ServiceConfig) -> Result<Option<Certificate>> {
    // A flag's path is from where it was typed.
    let path = |key, path: &Path| match config.origin("tls", key) {
        Origin::Flag => path.to_owned(),
        Origin::File | Origin::Default => folder.join(path),
    };
    let (chain, key) = match (&config.tls.certificate, &config.tls.key) {
        (None, None) => return Ok(None),
        (Some(chain), Some(key)) => (path("certificate", chain), path("key", key)),
        (Some(_), None) => bail!("[tls] has a `certificate` and no `key`: say both"),
        (None, Some(_)) => bail!("[tls] has a `key` and no `certificate`: say both"),
    };
    let read = |path: &Path| {
        let bytes = Found::find(path)?.open()?.read_all(BYTES_MAX);
        bytes.with_context(|| format!("cannot read {}", path.display()))
    };
    let certificate = Certificate::from_pem(&read(&chain)?, &read(&key)?);
    let files = || format!("[tls]: {} with {}", chain.display(), key.display());
    certificate.map(Some).with_context(files)
}
