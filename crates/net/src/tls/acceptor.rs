//! What all connections of a server have in common: its certificates, whose of clients it asks for,
//! and the keys of tickets.

use super::certificate::Certificate;
use super::trusted::Trusted;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ProducesTickets, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Tickets of TLS 1.3 that a client is given: browsers open several connections.
const TICKETS: usize = 2;

/// See the module's text. All workers share one.
#[derive(Debug)]
pub struct Acceptor {
    provider: Arc<CryptoProvider>,
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
        Acceptor::with(certificates, None, protocols)
    }

    /// As [`Acceptor::new`], for clients who show a certificate of their own that one of the
    /// trusted signed: others are refused as they greet.
    ///
    /// # Errors
    /// As of [`Acceptor::new`], or there are none that are trusted.
    pub fn mutual(
        certificates: &[Certificate],
        clients: &Trusted,
        protocols: &[&[u8]],
    ) -> Result<Acceptor, String> {
        Acceptor::with(certificates, Some(clients), protocols)
    }

    fn with(
        certificates: &[Certificate],
        clients: Option<&Trusted>,
        protocols: &[&[u8]],
    ) -> Result<Acceptor, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let clients = clients_of(&provider, clients)?;
        let protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let config = config(&provider, tickets()?, certificates, clients, protocols)?;
        Ok(Acceptor {
            config: RwLock::new(Arc::new(config)),
            provider,
        })
    }

    /// Shows these certificates from now on. Connections that there are stay as they are, and who
    /// has a ticket goes on with it. It is for acceptors that ask clients for none: see
    /// [`Acceptor::renew`].
    ///
    /// # Errors
    /// As of [`Acceptor::new`]; then the others are kept.
    pub fn replace(&self, certificates: &[Certificate]) -> Result<(), String> {
        let nobody = WebPkiClientVerifier::no_client_auth();
        self.change(self.config().ticketer.clone(), certificates, nobody)
    }

    /// As [`Acceptor::replace`], where clients are asked for a certificate, or are not, by what is
    /// known now. Who has a ticket begins anew: by it would be let in whom nobody trusts any more.
    ///
    /// # Errors
    /// As of [`Acceptor::mutual`]; then all is kept as it was.
    pub fn renew(
        &self,
        certificates: &[Certificate],
        clients: Option<&Trusted>,
    ) -> Result<(), String> {
        let clients = clients_of(&self.provider, clients)?;
        self.change(tickets()?, certificates, clients)
    }

    fn change(
        &self,
        tickets: Arc<dyn ProducesTickets>,
        certificates: &[Certificate],
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<(), String> {
        let protocols = self.config().alpn_protocols.clone();
        let config = config(&self.provider, tickets, certificates, clients, protocols)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        Ok(())
    }

    /// What a connection begins with now.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        config.clone()
    }
}

fn tickets() -> Result<Arc<dyn ProducesTickets>, String> {
    Ticketer::new().map_err(|error| error.to_string())
}

/// What looks at clients' certificates.
fn clients_of(
    provider: &Arc<CryptoProvider>,
    clients: Option<&Trusted>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let Some(clients) = clients else {
        return Ok(WebPkiClientVerifier::no_client_auth());
    };
    let roots = clients.0.clone();
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
    (verifier.build()).map_err(|error| error.to_string())
}

fn config(
    provider: &Arc<CryptoProvider>,
    tickets: Arc<dyn ProducesTickets>,
    certificates: &[Certificate],
    clients: Arc<dyn ClientCertVerifier>,
    protocols: Vec<Vec<u8>>,
) -> Result<ServerConfig, String> {
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = builder
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(ByName::new(certificates)));
    config.ticketer = tickets;
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
