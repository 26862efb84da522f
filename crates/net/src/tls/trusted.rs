//! Whose certificates are believed, of the servers that we connect to.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
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

/// Believes any certificate, of which the server must have the key all the same.
#[derive(Debug)]
pub(super) struct Anybody(pub(super) CryptoProvider);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for Trusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} authorities", self.0.len())
    }
}
