//! What a monitor's connections have in common in TLS: what it shows, and who may join.

use crate::identity::{Authority, AuthorityError, IdentityError, Session, TlsError, TokenError};
use crate::secret::ProbeKey;
use crate::wire::Join;
use rustls::ServerConfig;
use std::sync::Arc;

/// For how many days a node's certificate is good.
const NODE_DAYS: u32 = 2 * 365;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Guard {
    authority: Authority,
    config: Arc<ServerConfig>,
}

impl Guard {
    /// Of an authority.
    ///
    /// # Errors
    /// It makes no certificate for the monitor itself.
    pub(super) fn new(authority: Authority) -> Result<Guard, AuthorityError> {
        let config = authority.monitor()?.server(true);
        let wrong = |error: IdentityError| AuthorityError::Certificate(error.to_string());
        Ok(Guard {
            config: config.map_err(wrong)?,
            authority,
        })
    }

    /// What nodes prove link tests by.
    pub(super) fn probe_key(&self) -> ProbeKey {
        self.authority.probe_key()
    }

    /// Of who has just connected.
    pub(super) fn session(&self) -> Result<Session, TlsError> {
        Session::accept(&self.config)
    }

    /// Somebody has a token, and asks for a certificate: what it has.
    ///
    /// # Errors
    /// The token is no good, or what it asks for, or the authority cannot sign.
    pub(super) fn join(&self, secret: &[u8; 16], request: &[u8]) -> Result<Join, AuthorityError> {
        let (node, certificate) = self.authority.redeem(secret, request, NODE_DAYS)?;
        tracing::info!(%node, "a node has joined");
        let authority = self.authority.pem().to_owned();
        Ok(Join::Has {
            certificate,
            authority,
        })
    }
}

/// What who does not join is told: nothing of the monitor's own files.
pub(super) fn not(error: &AuthorityError) -> Join {
    let why = match error {
        AuthorityError::Token(TokenError::NotKnown | TokenError::Expired)
        | AuthorityError::Request(_) => error.to_string(),
        _ => "it cannot sign now; its own log says why".to_owned(),
    };
    Join::Not { why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_stranger_is_told_nothing_of_the_monitors_files() {
        let told = |error| match not(&error) {
            Join::Not { why } => why,
            _ => String::new(),
        };
        let secret = || io::Error::other("/var/lib/venice/authority/tokens/1f is no token");
        let said = told(AuthorityError::Token(TokenError::System(secret())));
        assert!(said.contains("log") && !said.contains("/var"), "{said}");
        let said = told(AuthorityError::System("/var/lib".into(), secret()));
        assert!(!said.contains("/var"), "{said}");
        let said = told(AuthorityError::Token(TokenError::Expired));
        assert!(said.contains("has expired"), "{said}");
    }
}
