//! What all connections to one server have in common that we open: whom it must be, and how it is
//! asked to speak TLS.

use super::certificate::Certificate;
use super::trusted::{Anybody, Trusted};
use crate::port::Seal;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore};
use std::fmt;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the log is told at most why greetings with one server fail.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// How TLS begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// At once.
    AtOnce,
    /// When the server was asked for it with these bytes, and has answered with this one.
    Asked {
        /// What asks.
        request: &'static [u8],
        /// What agrees.
        agrees: u8,
    },
}

/// See the module's text.
pub struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    begins: Begins,
    /// When the log was told last.
    told: Mutex<Option<Instant>>,
}

impl Connector {
    /// For a server of this name (or address), which must show a certificate for it that one of the
    /// trusted signed, and is shown ours if it asks. `protocols` are those spoken, by their names
    /// for ALPN (RFC 7301), if it is to be told.
    ///
    /// # Errors
    /// The name is none, in words.
    pub fn new(
        name: &str,
        trusted: &Trusted,
        own: Option<&Certificate>,
        protocols: &[&[u8]],
        begins: Begins,
    ) -> Result<Connector, String> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("{name} is no name that a certificate can be for"))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(trusted.0.clone());
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let resolver = SingleCertAndKey::from(own.key.clone());
                builder.with_client_cert_resolver(Arc::new(resolver))
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Connector {
            config: Arc::new(config),
            name,
            begins,
            told: Mutex::new(None),
        })
    }

    /// For whoever answers there, whatever certificate it shows: to measure and try things, never
    /// to tell anybody a secret.
    ///
    /// # Errors
    /// The name is none, in words.
    pub fn unchecked(name: &str, protocols: &[&[u8]]) -> Result<Connector, String> {
        let nobody = Trusted(Arc::new(RootCertStore::empty()));
        let mut connector = Connector::new(name, &nobody, None, protocols, Begins::AtOnce)?;
        let config = Arc::make_mut(&mut connector.config);
        let anybody = Arc::new(Anybody(aws_lc_rs::default_provider()));
        config.dangerous().set_certificate_verifier(anybody);
        Ok(connector)
    }

    /// What one connection begins with; none where the system has no random numbers.
    pub(super) fn begin(&self) -> Option<ClientConnection> {
        ClientConnection::new(self.config.clone(), self.name.clone()).ok()
    }

    /// For a [`Peer`](crate::Peer).
    pub fn seal(self: &Arc<Connector>) -> Seal {
        Seal::with(self.clone())
    }

    pub(super) fn begins(&self) -> Begins {
        self.begins
    }

    /// Tells the log why a connection failed, unless it was told of late; and says what kind of
    /// failure it is.
    pub(super) fn failed(&self, why: &Failure) -> ErrorKind {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|at| at.elapsed() >= TOLD_EVERY) {
            *told = Some(Instant::now());
            let server = self.name.to_str();
            tracing::warn!(server = &*server, %why, "TLS with a server failed");
        }
        match why {
            why if why.is_of_certificate() => ErrorKind::PermissionDenied,
            Failure::Tls(_) | Failure::NoRandomNumbers => ErrorKind::InvalidData,
            Failure::Refused => ErrorKind::Unsupported,
        }
    }
}

/// Why TLS with a server failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// What rustls says.
    #[error("{}", in_words(.0))]
    Tls(rustls::Error),
    /// It was asked to speak TLS, and did not agree.
    #[error("it does not speak TLS")]
    Refused,
    /// The system has none.
    #[error("the system has no random numbers")]
    NoRandomNumbers,
}

/// What rustls says. That nobody who is trusted has signed a certificate it says in as many ways as
/// there are for that not to be: a key of another kind, say, of one of the same name.
fn in_words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer
            | CertificateError::BadSignature
            | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
        ) => "invalid peer certificate: no authority that is trusted has signed it".to_owned(),
        other => other.to_string(),
    }
}

impl Failure {
    /// Whether the server showed a certificate that is not believed.
    #[must_use]
    pub fn is_of_certificate(&self) -> bool {
        matches!(self, Failure::Tls(rustls::Error::InvalidCertificate(_)))
    }
}

// Nothing of a key is shown.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("name", &self.name)
            .field("begins", &self.begins)
            .finish_non_exhaustive()
    }
}
