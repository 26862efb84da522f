//! Whose certificates are believed, of the servers that we connect to.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fmt;
use std::sync::Arc;

/// Authorities whose signature makes a certificate one of the server's that it names.
#[derive(Clone)]
pub struct Trusted(pub(super) Arc<RootCertStore>);

impl Trusted {
    /// Those of PEM: an authority's own certificates, or one that signs itself.
    ///
    /// # Errors
    /// There is none, or one that cannot be read.
    pub fn from_pem(pem: &[u8]) -> Result<Trusted, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let added = certificate.map(|certificate| roots.add(certificate));
            match added {
                Ok(Ok(())) => {}
                Ok(Err(why)) => return Err(why.to_string()),
                Err(_) => return Err("a certificate in it cannot be read".to_owned()),
            }
        }
        match roots.is_empty() {
            true => Err(
                "there is no certificate in it: PEM is expected, `-----BEGIN CERTIFICATE-----`"
                    .to_owned(),
            ),
            false => Ok(Trusted(Arc::new(roots))),
        }
    }

    /// Those that the system has. It reads files.
    ///
    /// # Errors
    /// It has none.
    pub fn of_system() -> Result<Trusted, String> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        // Systems have some that are too old to be read: whom they signed is not believed.
        let (added, _) = roots.add_parsable_certificates(found.certs);
        match added {
            0 => Err(
                "the system has no certificates of authorities (Debian: the package \
                 ca-certificates)"
                    .to_owned(),
            ),
            _ => Ok(Trusted(Arc::new(roots))),
        }
    }
}

impl fmt::Debug for Trusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} authorities", self.0.len())
    }
}
