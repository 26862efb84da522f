//! The donor of a NIC: an interface for each borrower, whose frames the kernel sends on.
//!
//! Either it routes: the interface has the donor's address, and a route to the borrower's; or it is
//! a port of a bridge, which has the real interface as another, as in the paper. A thread a
//! borrower relays (`donor/lender.rs`); borrowers are bounded, and so is what each can have waiting
//! here.

mod lender;
mod listen;
mod onward;

use super::error::NicError;
use super::masquerade::Masquerade;
use super::stop::Stop;
use super::tap::Tap;
use crate::guests::Guests;
use crate::identity::Identity;
use lender::{Lender, NAMES};
use listen::{Bound, Listeners};
use onward::look_at;
pub use onward::{Onward, Options};
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Borrowers at a time.
const BORROWERS_MAX: usize = 64;

/// A NIC that is lent until this is dropped. All that was made for it is gone then.
#[derive(Debug)]
pub struct Donor {
    listeners: Listeners,
    _masquerade: Option<Masquerade>,
}

impl Donor {
    /// Looks whether it can be lent, and listens for borrowers over TCP; at a Unix socket, too, if
    /// there is a path: borrowers of this machine share memory with the donor then.
    ///
    /// # Errors
    /// [`NicError`].
    pub fn start(
        options: Options,
        address: SocketAddr,
        socket: Option<&Path>,
    ) -> Result<Self, NicError> {
        Self::listen(options, address, socket, None)
    }

    /// As [`start`](Self::start), over TCP in TLS: borrowers must show a certificate of a node of
    /// the same authority, beside the key, and are shown this one.
    ///
    /// # Errors
    /// [`NicError`].
    pub fn start_sealed(
        options: Options,
        address: SocketAddr,
        socket: Option<&Path>,
        identity: &Identity,
    ) -> Result<Self, NicError> {
        let config = identity.server(false);
        let config = config.map_err(|error| NicError::System {
            what: "the identity cannot be used".to_owned(),
            error: io::Error::other(error),
        })?;
        Self::listen(options, address, socket, Some(config))
    }

    fn listen(
        options: Options,
        address: SocketAddr,
        socket: Option<&Path>,
        sealing: Option<Arc<ServerConfig>>,
    ) -> Result<Self, NicError> {
        let mtu = look_at(&options.onward)?;
        // Whether interfaces can be made is said here, not to the first borrower.
        drop(Tap::make(NAMES, options.offload)?);
        // Before the rule, which bears the address that nobody else listens at.
        let bound = Bound::new(address, socket)?;
        let masquerade = match &options.onward {
            Onward::Route {
                interface,
                address,
                masquerade: true,
            } => Some(Masquerade::start(*address, interface, bound.address())?),
            _ => None,
        };
        let system = |error| NicError::System {
            what: format!("cannot listen on {address}"),
            error,
        };
        let lender = Lender {
            guests: Guests::new(BORROWERS_MAX),
            options,
            mtu,
            stop: Stop::new().map_err(system)?,
            lent: Mutex::default(),
            refused: Mutex::default(),
        };
        Ok(Self {
            listeners: bound.serve(Arc::new(lender), sealing)?,
            _masquerade: masquerade,
        })
    }

    /// Where borrowers connect to.
    pub fn address(&self) -> SocketAddr {
        self.listeners.address()
    }
}
