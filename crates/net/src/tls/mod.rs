//! TLS (1.3, RFC 8446; 1.2, RFC 5246), of clients with us and of us with servers: rustls behind a
//! [`Codec`] of a [`Layer`](crate::Layer), so that neither the driver nor a handler knows of it.
//!
//! ```text
//!   Certificate   a chain and its key, from PEM; the names that it is for        certificate.rs
//!       v
//!   Acceptor      what all connections have in common, replaced as a whole       acceptor.rs
//!       v         by a reload: certificates by name (SNI), keys of tickets
//!   Connector     what all connections to a server have in common: whom it       connector.rs
//!       v         must be, by whose word (Trusted, trusted.rs), and who we are
//!   Tls           a worker's: which connections speak it                         codec.rs
//!       v
//!   TlsCodec      one connection: records in, bytes out, and back
//! ```
//!
//! A connection whose greeting is not over has sent no request: what bounds the time and the memory
//! of those, and how many of them a turn of the loop takes on, does so here, too.
//!
//! [`Codec`]: crate::Codec

mod acceptor;
mod certificate;
mod codec;
mod connector;
mod figures;
#[cfg(test)]
mod tests;
mod trusted;

pub use acceptor::Acceptor;
pub use certificate::{Certificate, CertificateError};
pub use codec::{CONNECTION_BYTES, Strangers, Tls, TlsCodec};
pub use connector::{Begins, Connector, Failure};
pub use figures::Figures;
pub use trusted::Trusted;
