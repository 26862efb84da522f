//! A donor of accelerators: mailboxes for who has its key, or that of a loan that someone grants.
//!
//! A connection has a mailbox and a thread (`donor/serve.rs`), which executes its jobs when it has
//! an accelerator: so as many jobs run at once as there are accelerators, and a connection has one
//! job at a time. Connections are bounded, and so is the memory of all mailboxes together; who
//! comes when there is none is refused with a reason. Who has shown no key makes way for others.

mod listen;
mod loans;
mod options;
mod serve;
mod shared;
mod socket;

use super::request::Kind;
use super::units::Sharing;
use crate::identity::{Identity, Wire};
use crate::loan::{LoanId, LoanKey};
pub use loans::NoAccelerator;
pub use options::Options;
use rhythm_net::{SocketFile, listen_at};
use rustls::ServerConfig;
use shared::Shared;
use socket::Socket;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Accelerators of this machine, lent until dropped.
#[derive(Debug)]
pub struct Accelerators {
    shared: Arc<Shared>,
    address: SocketAddr,
    is_sealed: bool,
    local: Option<(PathBuf, SocketFile)>,
}

impl Accelerators {
    /// Listens for borrowers.
    ///
    /// # Errors
    /// What the system says of the address.
    pub fn start(options: &Options) -> io::Result<Self> {
        Self::listen(options, None)
    }

    /// As [`start`](Self::start), over TCP in TLS: borrowers must show a certificate of a node of
    /// the same authority, beside the key, and are shown this one.
    ///
    /// # Errors
    /// What the system says of the address, or that the identity cannot be used.
    pub fn start_sealed(options: &Options, identity: &Identity) -> io::Result<Self> {
        let config = identity.server(false).map_err(io::Error::other)?;
        Self::listen(options, Some(config))
    }

    fn listen(options: &Options, sealing: Option<Arc<ServerConfig>>) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen)?;
        let address = listener.local_addr()?;
        let is_sealed = sealing.is_some();
        let shared = Arc::new(Shared::new(options));
        listen::start(Arc::clone(&shared), "accelerators", move || {
            let (stream, _) = listener.accept()?;
            Ok(match &sealing {
                None => Socket::Tcp(Wire::Plain(stream)),
                Some(config) => Socket::Sealing(stream, Arc::clone(config)),
            })
        })?;
        Ok(Self {
            shared,
            address,
            is_sealed,
            local: None,
        })
    }

    /// Where borrowers connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether borrowers of other machines reach it in TLS alone.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Has a loan from now on, which who shows `key` may use: of a kind, in turn with others or
    /// alone. Whoever grants loans sees to it that there are accelerators for them, and room for
    /// who shares.
    ///
    /// # Errors
    /// [`NoAccelerator`]: there is none of that kind, or such a loan already.
    pub fn grant(
        &self,
        loan: LoanId,
        of: (Kind, Sharing),
        key: LoanKey,
    ) -> Result<(), NoAccelerator> {
        self.shared.grant(loan, of, key)
    }

    /// Ends a loan: its connections are closed, and nobody has another by it. A job that is done
    /// at this moment is done to its end, for nobody. False where there is no such loan.
    pub fn revoke(&self, loan: LoanId) -> bool {
        self.shared.revoke(loan)
    }

    /// The loans there are.
    pub fn lent(&self) -> Vec<(LoanId, Kind, Sharing)> {
        self.shared.lent()
    }

    /// Has borrowers of this machine connect to a Unix socket, too, by which they share memory with
    /// the donor instead of a connection. The socket's folder says who may; it is removed when this
    /// is dropped.
    ///
    /// # Errors
    /// What the system says of the path; one at which somebody listens is left alone.
    pub fn listen_locally(&mut self, path: &Path) -> io::Result<()> {
        let (listener, file) = listen_at(path).map_err(io::Error::other)?;
        self.local = Some((path.to_owned(), file));
        listen::start(Arc::clone(&self.shared), "accelerators-local", move || {
            Ok(Socket::Local(listener.accept()?.0))
        })
    }

    /// Borrowers there are now.
    pub fn borrowers(&self) -> usize {
        self.shared.guests.count()
    }
}

impl Drop for Accelerators {
    /// Ends all connections.
    fn drop(&mut self) {
        self.shared.close();
        // Has the listeners' threads look.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if let Some((path, _)) = &self.local {
            let _ = UnixStream::connect(path);
        }
    }
}
