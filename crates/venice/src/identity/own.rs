//! A party's own certificate and key, with the authority that it believes.

use super::error::TlsError;
use super::party::Party;
use super::verify::Expected;
use crate::name::NodeName;
use rhythm_net::files::{NotPrivate, open_private, open_regular};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, version};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The files of an identity's folder.
pub(super) const CERTIFICATE: &str = "certificate.pem";
pub(super) const KEY: &str = "key.pem";
pub(super) const AUTHORITY: &str = "authority.pem";
/// Bytes of such a file at most.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// What is left of a certificate's time when its owner is to be told.
const SOON: Duration = Duration::from_secs(30 * 86_400);

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file of it.
    #[error(
        "{0}: {1}; `rhythm venice join` makes an identity, with a token of the monitor \
         (rhythm venice token)"
    )]
    System(PathBuf, io::Error),
    /// Others may read its key.
    #[error("{0}: others than its owner can read the key; say chmod 600 {0}")]
    Readable(PathBuf),
    /// What is in them.
    #[error("the identity cannot be used: {0}")]
    Unusable(String),
    /// It is over.
    #[error(
        "the certificate of {0} has expired: join again, with a new token (rhythm venice token)"
    )]
    Expired(Party),
}

/// See the head of this file.
#[derive(Clone)]
pub struct Identity {
    party: Party,
    /// Until when, in seconds since 1970.
    until: u64,
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

/// Certificates of PEM; nothing where there is none, or one that cannot be read.
pub(super) fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    all.ok().filter(|all| !all.is_empty())
}

/// With these, and TLS 1.3 alone: all parties are this program.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn unusable(error: impl fmt::Display) -> IdentityError {
    IdentityError::Unusable(error.to_string())
}

impl Identity {
    /// The identity in a folder, as `rhythm venice join` makes it.
    ///
    /// # Errors
    /// There is none that is good.
    pub fn open(folder: &Path) -> Result<Identity, IdentityError> {
        let read = |name: &str, is_private: bool| {
            let path = folder.join(name);
            let failed = |error| IdentityError::System(path.clone(), error);
            let file = match is_private {
                false => open_regular(&path).map_err(failed)?,
                true => open_private(&path).map_err(|error| match error {
                    NotPrivate::System(error) => failed(error),
                    NotPrivate::Shared => IdentityError::Readable(path.clone()),
                })?,
            };
            let mut text = String::new();
            let mut file = file.take(FILE_BYTES_MAX);
            file.read_to_string(&mut text).map_err(failed)?;
            Ok(text)
        };
        let identity = Identity::of_pem(
            &read(CERTIFICATE, false)?,
            &read(KEY, true)?,
            &read(AUTHORITY, false)?,
        )?;
        match identity.left() {
            Duration::ZERO => Err(IdentityError::Expired(identity.party)),
            _ => Ok(identity),
        }
    }

    /// Of these, as PEM.
    pub(super) fn of_pem(
        certificate: &str,
        key: &str,
        authority: &str,
    ) -> Result<Identity, IdentityError> {
        let none = |what: &str| unusable(format!("there is no certificate in {what}"));
        let mut chain = certificates(certificate).ok_or_else(|| none(CERTIFICATE))?;
        let authorities = certificates(authority).ok_or_else(|| none(AUTHORITY))?;
        let party = Party::of(&chain[0]);
        let party = party.ok_or_else(|| unusable("its certificate names no node"))?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&chain[0]).map_err(unusable)?;
        let until = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone()).map_err(unusable)?;
        }
        // Who joins compares the authority with the token.
        chain.extend(authorities);
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let key = key.map_err(|_| unusable(format!("there is no key in {KEY}")))?;
        let identity = Identity {
            party,
            until,
            chain,
            key: Arc::new(key),
            roots: Arc::new(roots),
            provider: provider(),
        };
        // Whether they are one another's is seen now, not when the first one comes.
        identity.server(true)?;
        Ok(identity)
    }

    /// Whose it is.
    pub fn party(&self) -> &Party {
        &self.party
    }

    /// The node that it is of.
    ///
    /// # Errors
    /// It is a monitor's.
    pub fn node(&self) -> Result<&NodeName, IdentityError> {
        match &self.party {
            Party::Node(name) => Ok(name),
            Party::Monitor => Err(unusable("it is a monitor's, not a node's")),
        }
    }

    /// For how long its certificate is good from now on.
    pub fn left(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Duration::from_secs(self.until).saturating_sub(now.unwrap_or_default())
    }

    /// Whether its owner should see to a new one.
    pub fn expires_soon(&self) -> bool {
        self.left() < SOON
    }

    /// What connections of others begin with. They must show a certificate of a node, or, where
    /// strangers may join, none.
    pub(crate) fn server(&self, may_join: bool) -> Result<Arc<ServerConfig>, IdentityError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(
            Arc::clone(&self.roots),
            Arc::clone(&self.provider),
        );
        let verifier = match may_join {
            true => verifier.allow_unauthenticated(),
            false => verifier,
        };
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(unusable)?
            .with_client_cert_verifier(verifier.build().map_err(unusable)?)
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(unusable)?;
        // Connections are few and long: each shows its certificates anew.
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// What a connection to a party begins with.
    pub(crate) fn client(&self, expected: Party) -> Result<Arc<ClientConfig>, TlsError> {
        let expected = Expected::party(expected, &self.roots, &self.provider);
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(expected))
            .with_client_auth_cert(self.chain[..1].to_vec(), self.key.clone_key())?;
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Arc::new(config))
    }
}

// Nothing of its key is shown.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({}, ..)", self.party)
    }
}
