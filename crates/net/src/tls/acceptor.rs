//! What all connections of a server have in common: its certificates, and the keys of tickets.

use super::certificate::Certificate;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::server::{ClientHello, ProducesTickets, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Tickets of TLS 1.3 that a client is given: browsers open several connections.
const TICKETS: usize = 2;

/// See the module's text. All workers share one.
#[derive(Debug)]
pub struct Acceptor {
    provider: Arc<CryptoProvider>,
    /// Kept when the certificates are replaced: who has a ticket goes on with it.
    tickets: Arc<dyn ProducesTickets>,
    config: RwLock<Arc<ServerConfig>>,
}

impl Acceptor {
    /// One that shows these certificates, by the name that a client asks for; the first where it
    /// asks for none, or for one that none is for. `protocols` are those spoken over TLS, by their
    /// names for ALPN (RFC 7301).
    ///
    /// # Errors
    /// When the system has no random numbers, in words.
    pub fn new(certificates: &[Certificate], protocols: &[&[u8]]) -> Result<Acceptor, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let tickets = Ticketer::new().map_err(|error| error.to_string())?;
        let protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let config = config(&provider, &tickets, certificates, protocols)?;
        Ok(Acceptor {
            config: RwLock::new(Arc::new(config)),
            provider,
            tickets,
        })
    }

    /// Shows these certificates from now on. Connections that there are stay as they are.
    ///
    /// # Errors
    /// As of [`Acceptor::new`]; then the others are kept.
    pub fn replace(&self, certificates: &[Certificate]) -> Result<(), String> {
        let protocols = self.config().alpn_protocols.clone();
        let config = config(&self.provider, &self.tickets, certificates, protocols)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        Ok(())
    }

    /// What a connection begins with now.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        config.clone()
    }
}

fn config(
    provider: &Arc<CryptoProvider>,
    tickets: &Arc<dyn ProducesTickets>,
    certificates: &[Certificate],
    protocols: Vec<Vec<u8>>,
) -> Result<ServerConfig, String> {
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = builder
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ByName::new(certificates)));
    config.ticketer = tickets.clone();
    config.send_tls13_tickets = TICKETS;
    config.alpn_protocols = protocols;
    Ok(config)
}

/// Certificates by the names that they are for.
#[derive(Debug)]
struct ByName {
    /// A name, or what is behind `*.`.
    whole: HashMap<String, Arc<CertifiedKey>>,
    below: HashMap<String, Arc<CertifiedKey>>,
    first: Option<Arc<CertifiedKey>>,
}

impl ByName {
    fn new(certificates: &[Certificate]) -> ByName {
        let (mut whole, mut below) = (HashMap::new(), HashMap::new());
        for certificate in certificates {
            for name in certificate.names() {
                let (names, name) = match name.strip_prefix("*.") {
                    Some(name) => (&mut below, name),
                    None => (&mut whole, &name[..]),
                };
                let before = names.entry(name.to_owned());
                before.or_insert_with(|| certificate.key.clone());
            }
        }
        ByName {
            whole,
            below,
            first: certificates.first().map(|first| first.key.clone()),
        }
    }

    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let name = name.to_lowercase();
        let below = || self.below.get(name.split_once('.')?.1);
        self.whole.get(&name).or_else(below)
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let found = hello.server_name().and_then(|name| self.find(name));
        found.or(self.first.as_ref()).cloned()
    }
}
