//! Who a party is, by certificates: nodes and their monitor in TLS (1.3, RFC 8446) with each other,
//! both sides of which show one.
//!
//! ```text
//!   Authority    a key that signs, with the monitor's state; one-time tokens   authority.rs,
//!       |        that let a node have a certificate with its name              tokens.rs, token.rs
//!       v  over TLS, to whom the token's fingerprint says                      join.rs
//!   Identity     a party's certificate and key, which was made where it is     own.rs
//!       v
//!   Party        who it is: a name in the certificate, compared exactly        party.rs, verify.rs
//!
//!   Session      one connection without I/O, for servers on the loop           session.rs
//!   Wire         one connection with its socket, in TLS or plain               wire.rs
//! ```
//!
//! A greeting costs two signatures, and whoever comes may begin one: what bounds the time and the
//! number of strangers (`guests.rs`, a monitor's connections) counts until it is over.

mod authority;
mod error;
mod files;
pub mod join;
mod own;
mod party;
mod session;
#[cfg(test)]
mod tests;
mod token;
mod tokens;
mod verify;
mod wire;

pub use authority::{Authority, AuthorityError};
pub use error::TlsError;
pub use own::{Identity, IdentityError};
pub use party::Party;
pub(crate) use session::{Came, Session};
pub use token::{Fingerprint, Token};
pub use tokens::TokenError;
pub use wire::Sealing;
pub(crate) use wire::{ONLY_TLS, Wire, hear_out};
