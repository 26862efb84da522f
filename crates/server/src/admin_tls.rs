//! TLS at the admin listener: the certificate that it shows, and whose certificates it asks for.

use crate::backend::read_regular;
use rhythm_net::tls::{Acceptor, Certificate, Trusted};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files that settings name for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminTls {
    /// Its certificate (PEM), and those between it and one that clients know.
    pub certificate: Option<PathBuf>,
    /// The certificate's key (PEM).
    pub key: Option<PathBuf>,
    /// The certificates (PEM) of those who have signed its clients'.
    pub client_ca: Option<PathBuf>,
}

/// Most bytes of one of these files.
const FILE_MAX: u64 = 1 << 20;

/// What is spoken over it, by its name for ALPN.
const PROTOCOLS: &[&[u8]] = &[b"http/1.1"];

impl AdminTls {
    /// What its connections begin with, and the certificate that it shows; none, where they speak
    /// no TLS.
    ///
    /// # Errors
    /// What is wrong with the files or settings, in words.
    pub(crate) fn acceptor(&self) -> Result<Option<(Arc<Acceptor>, Certificate)>, String> {
        let Some((certificate, clients)) = self.read()? else {
            return Ok(None);
        };
        let certificates = std::slice::from_ref(&certificate);
        let acceptor = match &clients {
            Some(clients) => Acceptor::mutual(certificates, clients, PROTOCOLS),
            None => Acceptor::new(certificates, PROTOCOLS),
        };
        acceptor.map(|acceptor| Some((Arc::new(acceptor), certificate)))
    }

    /// Has what was [made](AdminTls::acceptor) go by the files as they are now, and gives the
    /// certificate that it shows since.
    ///
    /// # Errors
    /// What is wrong with them, in words; then it stays as it was.
    pub(crate) fn renew(&self, acceptor: &Acceptor) -> Result<Option<Certificate>, String> {
        let Some((certificate, clients)) = self.read()? else {
            return Ok(None);
        };
        acceptor.renew(std::slice::from_ref(&certificate), clients.as_ref())?;
        Ok(Some(certificate))
    }

    fn read(&self) -> Result<Option<(Certificate, Option<Trusted>)>, String> {
        let (chain, key) = match (&self.certificate, &self.key) {
            (Some(chain), Some(key)) => (chain, key),
            (Some(_), None) => return Err("its key is missing: say `admin_key`, too".to_owned()),
            (None, Some(_)) => {
                return Err(
                    "there is `admin_key` and no certificate: say `admin_certificate`, too"
                        .to_owned(),
                );
            }
            (None, None) if self.client_ca.is_some() => {
                return Err(
                    "`admin_client_ca` asks clients for certificates, which needs TLS: say \
                            `admin_certificate` and `admin_key`, too"
                        .to_owned(),
                );
            }
            (None, None) => return Ok(None),
        };
        let certificate = Certificate::from_pem(
            &bytes_of("admin_certificate", chain)?,
            &bytes_of("admin_key", key)?,
        );
        let files = || format!("{} with {}", chain.display(), key.display());
        let certificate = certificate.map_err(|why| format!("{}: {why}", files()))?;
        let clients = self.client_ca.as_deref().map(|path| {
            let trusted = Trusted::from_pem(&bytes_of("admin_client_ca", path)?);
            trusted.map_err(|why| format!("{}: {why}", path.display()))
        });
        Ok(Some((certificate, clients.transpose()?)))
    }
}

/// What is in the file that a setting names.
fn bytes_of(setting: &str, path: &Path) -> Result<Vec<u8>, String> {
    read_regular(path, FILE_MAX).map_err(|why| {
        let path = path.display();
        format!("cannot read `{setting}`, {path}: {why}; the path begins at the current folder")
    })
}
