//! Why a connection in TLS does not come about, in words that say what helps.

use rustls::{AlertDescription, CertificateError, Error};
use std::io;

/// Why not.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TlsError {
    /// What came is no record.
    #[error("it does not speak TLS: give it an identity, too (rhythm venice join)")]
    NotTls,
    /// It closed the connection in the greeting: who does not speak TLS does so.
    #[error(
        "it closed the connection while TLS began: it has no identity (rhythm venice join), or \
         does not believe this one"
    )]
    Closed,
    /// Its certificate.
    #[error("its certificate is not believed: {0}")]
    NotBelieved(String),
    /// It said that this end's certificate is no good.
    #[error(
        "it does not believe this end's certificate ({0}): it is of another authority, or has \
         expired; join again with a token of that monitor (rhythm venice token)"
    )]
    Refused(String),
    /// Anything else.
    #[error("TLS fails: {0}")]
    Other(String),
}

impl From<Error> for TlsError {
    fn from(error: Error) -> TlsError {
        match error {
            Error::InvalidMessage(_) => TlsError::NotTls,
            Error::InvalidCertificate(why) => TlsError::NotBelieved(not_believed(&why)),
            Error::NoCertificatesPresented => TlsError::NotBelieved("it shows none".to_owned()),
            Error::AlertReceived(alert) if is_of_certificate(alert) => {
                TlsError::Refused(format!("{alert:?}"))
            }
            other => TlsError::Other(other.to_string()),
        }
    }
}

fn is_of_certificate(alert: AlertDescription) -> bool {
    use AlertDescription as Alert;
    matches!(
        alert,
        Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError
            | Alert::CertificateRequired
    )
}

fn not_believed(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "it is of another authority than this end's; have both join the same monitor (rhythm \
             venice token, rhythm venice join)"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired; join again (rhythm venice token, rhythm venice join)".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; compare the clocks of both machines".to_owned()
        }
        CertificateError::Other(other) => other.0.to_string(),
        other => other.to_string(),
    }
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> io::Error {
        let kind = match error {
            TlsError::NotTls | TlsError::Other(_) => io::ErrorKind::InvalidData,
            TlsError::Closed => io::ErrorKind::ConnectionAborted,
            TlsError::NotBelieved(_) | TlsError::Refused(_) => io::ErrorKind::PermissionDenied,
        };
        io::Error::new(kind, error)
    }
}
