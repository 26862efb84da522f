//! What a monitor's connections have in common in TLS: what it shows, and who may join.

use crate::identity::{Authority, AuthorityError, IdentityError, Session, TlsError};
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
    pub(super) fn probe_key(&self) -> [u8; 32] {
        self.authority.probe_key()
    }

    /// Of who has just connected.
    pub(super) fn session(&self) -> Result<Session, TlsError> {
        Session::accept(&self.config)
    }

    /// Somebody has a token, and asks for a certificate.
    pub(super) fn join(&self, secret: &[u8; 16], request: &[u8]) -> Join {
        match self.authority.redeem(secret, request, NODE_DAYS) {
            Ok((node, certificate)) => {
                tracing::info!(%node, "a node has joined");
                let authority = self.authority.pem().to_owned();
                Join::Has {
                    certificate,
                    authority,
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a node does not join");
                let why = error.to_string();
                Join::Not { why }
            }
        }
    }
}
