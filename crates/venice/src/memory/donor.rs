//! A donor: memory of this machine that borrowers read and write over connections.
//!
//! A loan is a mapping of its own and a key. Who shows both uses it; a second borrower of a loan is
//! refused while the first has connections. When the last of these is gone, the loan's memory is
//! zeroed and given back to the kernel: what a borrower wrote nobody else ever reads. A thread a
//! connection executes requests in their order (`connection.rs`; `windows.rs` for those of the
//! channels, over TCP or, by `local.rs`, memory that is shared); connections are bounded, and a
//! borrower that does not take its answers is not read from, so what is in memory for it is bounded
//! too.
//!
//! Besides loans that someone grants there may be an offer: whoever has its key gets a loan of the
//! size it asks for, for as long as it is connected (`rhythm venice lend`).

mod connection;
mod loans;
mod local;
mod places;
mod plain;
mod windows;

use super::mapping::Mapping;
use crate::identity::{Identity, ONLY_TLS, Wire};
use crate::loan::{LoanId, LoanKey};
pub use loans::NoRoom;
use loans::{Shared, lock};
use local::Local;
use places::{HELLO_TIME, Place};
use rustls::ServerConfig;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tracing::warn;

/// A machine's memory, lent until dropped.
#[derive(Debug)]
pub struct Donor {
    shared: Arc<Shared>,
    address: SocketAddr,
    is_sealed: bool,
    local: Option<Local>,
}

impl Donor {
    /// Listens for borrowers, of loans with `memory` bytes together.
    ///
    /// # Errors
    /// What the system says of the address.
    pub fn start(listen: SocketAddr, memory: u64) -> io::Result<Self> {
        Self::listen(listen, memory, None)
    }

    /// As [`start`](Self::start), in TLS: borrowers must show a certificate of a node of the same
    /// authority, beside the key of their loan, and are shown this one.
    ///
    /// # Errors
    /// What the system says of the address, or that the identity cannot be used.
    pub fn start_sealed(listen: SocketAddr, memory: u64, identity: &Identity) -> io::Result<Self> {
        let config = identity.server(false).map_err(io::Error::other)?;
        Self::listen(listen, memory, Some(config))
    }

    fn listen(
        listen: SocketAddr,
        memory: u64,
        sealing: Option<Arc<ServerConfig>>,
    ) -> io::Result<Self> {
        let is_sealed = sealing.is_some();
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(memory));
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("donor".into())
            .spawn(move || accept(&listener, &of_thread, sealing.as_ref()))?;
        Ok(Self {
            shared,
            is_sealed,
            address,
            local: None,
        })
    }

    /// Where borrowers connect to.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    /// Whether borrowers of other machines reach it in TLS alone.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Has borrowers of this machine connect to a Unix socket, too, by which they get memory that
    /// both share instead of a connection. The socket's folder says who may; it is removed when
    /// the donor is dropped.
    ///
    /// # Errors
    /// What the system says of the path; one at which somebody listens is left alone.
    pub fn listen_locally(&mut self, path: &Path) -> io::Result<()> {
        self.local = Some(Local::start(path, &self.shared)?);
        Ok(())
    }

    /// Has a loan of `bytes` from now on, which who shows `key` may use. A loan that there is
    /// already is replaced, as by [`revoke`](Self::revoke).
    ///
    /// # Errors
    /// [`NoRoom`]: more is lent than may be.
    pub fn grant(&self, loan: LoanId, bytes: u64, key: LoanKey) -> Result<(), NoRoom> {
        self.revoke(loan);
        self.shared
            .add(&mut lock(&self.shared.loans), loan, bytes, key)?;
        Ok(())
    }

    /// Ends a loan: nobody reads or writes it when this returns, its borrower's connections are
    /// closed, and its memory is zeroed and given back; more than 64 MiB a moment later, and not
    /// lent anew before. False where there is no such loan.
    pub fn revoke(&self, loan: LoanId) -> bool {
        self.shared.revoke(loan)
    }

    /// Lets everybody who shows `key` have a loan, as large as is asked for and there is room,
    /// until its connections are closed.
    pub fn offer(&self, key: LoanKey) {
        lock(&self.shared.loans).offer = Some(key);
    }

    /// The loans that are over, with their bytes, whose memory is not zeroed yet.
    pub(crate) fn zeroing(&self) -> Vec<(LoanId, u64)> {
        lock(&self.shared.loans).zeroing()
    }

    /// The loans there are: each with its bytes, and how many of them are in use.
    pub fn lent(&self) -> Vec<(LoanId, u64, u64)> {
        let loans: Vec<_> = lock(&self.shared.loans).granted.values().cloned().collect();
        let mut lent: Vec<_> = loans
            .iter()
            .map(|loan| {
                let state = lock(&loan.state);
                let used = state.memory.as_ref().map_or(0, Mapping::used);
                (loan.id, loan.bytes, used)
            })
            .collect();
        lent.sort_unstable();
        lent
    }
}

impl Drop for Donor {
    /// Ends all loans.
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        let loans: Vec<_> = lock(&self.shared.loans).granted.keys().copied().collect();
        for loan in loans {
            self.shared.revoke(loan);
        }
        drop(self.local.take());
        // Has the listener's thread look.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, sealing: Option<&Arc<ServerConfig>>) {
    loop {
        let accepted = listener.accept();
        if shared.closing.load(Ordering::Acquire) {
            return;
        }
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // No descriptors, most likely: those there are will be fewer.
                warn!("cannot accept a connection: {error}");
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        let Some(place) = Place::take(shared, &stream) else {
            continue;
        };
        let sealing = sealing.cloned();
        let started = std::thread::Builder::new()
            .name("loan".into())
            .spawn(move || serve(stream, &place, sealing.as_ref()));
        if let Err(error) = started {
            // No threads, most likely, as above.
            warn!("cannot serve a connection: {error}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Serves a connection, which is to be in TLS where others are.
fn serve(stream: TcpStream, place: &Place, sealing: Option<&Arc<ServerConfig>>) {
    let until = Instant::now() + HELLO_TIME;
    let peer = stream.peer_addr();
    let peer = peer.map_or_else(|_| "a borrower".to_owned(), |peer| peer.to_string());
    let wire = match sealing {
        None => Ok(Wire::Plain(stream)),
        Some(_) if !Wire::begins_in_tls(&stream, until) => {
            plain::refuse(&stream);
            Err(io::Error::other(ONLY_TLS))
        }
        Some(config) => Wire::accept(stream, config, until),
    };
    match wire {
        Err(error) => place.refused(&peer, &error),
        Ok(mut wire) => match windows::are_asked_for(&mut wire, until) {
            true => windows::serve_tcp(wire, place, until),
            false => connection::serve(wire, place, until),
        },
    }
}
