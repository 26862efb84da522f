//! A certificate with its key, as a server shows it.

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::sync::Arc;

/// Why a certificate and a key are no use.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CertificateError {
    /// The file of certificates has none, or one that cannot be read.
    #[error("there is no certificate in it: PEM is expected, `-----BEGIN CERTIFICATE-----`")]
    NoCertificate,
    /// The file of keys has none, or one that cannot be read.
    #[error(
        "there is no private key in it: PEM is expected, such as `-----BEGIN PRIVATE KEY-----`"
    )]
    NoKey,
    /// Each is where the other should be.
    #[error("there is a private key in it, and a certificate where the key should be: swap them")]
    Swapped,
    /// The first certificate is there, and cannot be used.
    #[error("its first certificate cannot be read: {0} (X.509 of version 3 is expected)")]
    Unreadable(String),
    /// The key is encrypted.
    #[error(
        "its private key is encrypted: `openssl pkey` decrypts it, into a file that nobody else \
         reads"
    )]
    Encrypted,
    /// The key is of a kind that is not supported.
    #[error("its private key cannot be used: {0}")]
    Unsupported(String),
    /// They are not one another's.
    #[error("the private key is not the certificate's")]
    NotItsKey,
}

/// See the module's text.
#[derive(Clone)]
pub struct Certificate {
    pub(super) key: Arc<CertifiedKey>,
    names: Vec<String>,
    valid: [i64; 2],
}

impl Certificate {
    /// From PEM: the server's own certificate, those between it and one that clients know, and the
    /// key. A certificate for addresses alone names no server; it is taken for one that is shown
    /// where no other is asked for.
    ///
    /// # Errors
    /// Why they are no use.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Certificate, CertificateError> {
        let certificates: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(chain).collect();
        let no_certificate = || {
            let is_key = PrivateKeyDer::from_pem_slice(chain).is_ok();
            match is_key && CertificateDer::from_pem_slice(key).is_ok() {
                true => CertificateError::Swapped,
                false => CertificateError::NoCertificate,
            }
        };
        let chain = certificates.map_err(|_| no_certificate())?;
        let first = chain.first().ok_or_else(no_certificate)?;
        let names = names_of(first)?;
        let valid = dates_of(first)?;
        let is_encrypted = || {
            let text = String::from_utf8_lossy(key);
            text.contains("ENCRYPTED")
        };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| match is_encrypted() {
            true => CertificateError::Encrypted,
            false => CertificateError::NoKey,
        })?;
        let provider = aws_lc_rs::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => CertificateError::NotItsKey,
            other => CertificateError::Unsupported(other.to_string()),
        })?;
        Ok(Certificate {
            key: Arc::new(key),
            names,
            valid,
        })
    }

    /// The names that it is for, as it has them: `*.example.com` is all one level below.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// From when until when it is good, in seconds since 1970.
    pub fn valid(&self) -> [i64; 2] {
        self.valid
    }
}

// Nothing of its key is shown.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

fn names_of(certificate: &CertificateDer<'_>) -> Result<Vec<String>, CertificateError> {
    let parsed = webpki::EndEntityCert::try_from(certificate);
    let parsed = parsed.map_err(|why| CertificateError::Unreadable(format!("{why:?}")))?;
    Ok(parsed.valid_dns_names().map(str::to_lowercase).collect())
}

fn dates_of(certificate: &CertificateDer<'_>) -> Result<[i64; 2], CertificateError> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|why| CertificateError::Unreadable(why.to_string()))?;
    let validity = parsed.validity();
    Ok([validity.not_before, validity.not_after].map(|date| date.timestamp()))
}
