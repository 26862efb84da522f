//! Whether who answers is whom a connection is for.

use super::party::Party;
use super::token::Fingerprint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use std::sync::Arc;

/// By whose word.
#[derive(Debug)]
enum Believed {
    /// Of these authorities.
    Of(Arc<RootCertStore>),
    /// Of one that shows itself, and has this fingerprint.
    Pinned(Fingerprint),
}

/// Who is to answer.
#[derive(Debug)]
pub(super) struct Expected {
    party: Party,
    by: Believed,
    provider: Arc<CryptoProvider>,
}

/// Another party.
#[derive(Debug, thiserror::Error)]
#[error("it is of {}, and {expected} was to answer there", .found.as_ref().map_or_else(
    || "nobody that is known here".to_owned(), ToString::to_string))]
struct Another {
    expected: Party,
    found: Option<Party>,
}

/// No chain leads to the token's authority.
#[derive(Debug, thiserror::Error)]
#[error("it is not of the authority that the token names: is the address the monitor's?")]
struct NotPinned;

fn other(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    CertificateError::Other(OtherError(Arc::new(error))).into()
}

impl Expected {
    /// A party that one of these authorities has signed for.
    pub(super) fn party(
        party: Party,
        roots: &Arc<RootCertStore>,
        provider: &Arc<CryptoProvider>,
    ) -> Expected {
        Expected {
            party,
            by: Believed::Of(Arc::clone(roots)),
            provider: Arc::clone(provider),
        }
    }

    /// The monitor of the authority that has this fingerprint.
    pub(super) fn monitor_of(authority: Fingerprint, provider: Arc<CryptoProvider>) -> Expected {
        Expected {
            party: Party::Monitor,
            by: Believed::Pinned(authority),
            provider,
        }
    }
}

impl ServerCertVerifier for Expected {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let pinned;
        let roots = match &self.by {
            Believed::Of(roots) => &**roots,
            Believed::Pinned(fingerprint) => {
                let shown = chain.iter().find(|it| Fingerprint::of(it) == *fingerprint);
                let shown = shown.ok_or_else(|| other(NotPinned))?;
                let mut roots = RootCertStore::empty();
                roots.add(shown.clone().into_owned())?;
                pinned = roots;
                &pinned
            }
        };
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        // The authority is known: nothing is between it and a party.
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, &[], now, algorithms)?;
        match Party::of(certificate) {
            Some(party) if party == self.party => Ok(ServerCertVerified::assertion()),
            found => Err(other(Another {
                expected: self.party.clone(),
                found,
            })),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
