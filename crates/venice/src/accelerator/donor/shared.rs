//! What a donor's connections have in common.

use super::options::Options;
use super::socket::Socket;
use crate::accelerator::mailbox::{CAPACITY_MAX, Layout, Mailbox};
use crate::accelerator::request::Kind;
use crate::accelerator::units::{Member, Sharing, Units};
use crate::loan::LoanKey;
use rustix::net::{Shutdown, shutdown};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a connection takes besides its mailbox, at most: messages and frames each way.
const CONNECTION_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Shared {
    key: LoanKey,
    units: Vec<Arc<Units>>,
    /// Bytes of mailboxes: of all, and those in use.
    memory: u64,
    used: Mutex<u64>,
    connections_max: usize,
    /// Sockets, to be shut down at the end.
    sockets: Mutex<Sockets>,
    closing: AtomicBool,
}

#[derive(Debug, Default)]
struct Sockets {
    open: HashMap<u64, OwnedFd>,
    next: u64,
}

/// What a poisoned lock guards is whole: nothing panics between its parts.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(options: &Options) -> Self {
        let units = options.accelerators.iter();
        Self {
            key: options.key.clone(),
            units: units
                .map(|(kind, count)| Units::new(*kind, *count))
                .collect(),
            memory: options.memory,
            used: Mutex::default(),
            connections_max: options.connections,
            sockets: Mutex::default(),
            closing: AtomicBool::new(false),
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Ends what there is, and what comes.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        for socket in lock(&self.sockets).open.values() {
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    pub(super) fn connections(&self) -> usize {
        lock(&self.sockets).open.len()
    }

    /// Notes a connection, until what is returned is dropped; none where there are too many.
    ///
    /// # Errors
    /// The system has no descriptor for it.
    pub(super) fn open(self: &Arc<Self>, socket: &Socket) -> io::Result<Option<Opened>> {
        let copy = socket.copy()?;
        let mut sockets = lock(&self.sockets);
        if sockets.open.len() >= self.connections_max || self.is_closing() {
            return Ok(None);
        }
        let number = sockets.next;
        sockets.next += 1;
        sockets.open.insert(number, copy);
        let shared = Arc::clone(self);
        Ok(Some(Opened { shared, number }))
    }

    /// A mailbox for a borrower, and its part in the accelerators.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn enter(
        self: &Arc<Self>,
        kind: u64,
        capacity: u64,
        key: &LoanKey,
        sharing: Sharing,
    ) -> Result<Entered, String> {
        if !self.key.is_same(key) {
            return Err("the key is another than this donor's".into());
        }
        let Some(units) = self.units.iter().find(|units| units.kind.number() == kind) else {
            let offered: Vec<_> = self.units.iter().map(|u| u.kind.to_string()).collect();
            let wanted = Kind::of(kind).map_or_else(|| kind.to_string(), |kind| kind.to_string());
            let offered = offered.join(",");
            return Err(format!(
                "there is no accelerator for {wanted} here, but {offered}"
            ));
        };
        let layout = Layout::new(capacity).ok_or_else(|| {
            format!("a mailbox for inputs of {capacity} bytes: 1 to {CAPACITY_MAX} are allowed")
        })?;
        let lease = self.lease(layout.bytes() as u64 + CONNECTION_BYTES)?;
        let member = units.join(sharing)?;
        Ok(Entered {
            mailbox: Mailbox::new(layout),
            member,
            _lease: lease,
        })
    }

    fn lease(self: &Arc<Self>, bytes: u64) -> Result<Lease, String> {
        let mut used = lock(&self.used);
        let left = self.memory - *used;
        if bytes > left {
            return Err(format!(
                "a mailbox takes {bytes} bytes, and {left} of {} are left: try later, or have a \
                 smaller one",
                self.memory
            ));
        }
        *used += bytes;
        let shared = Arc::clone(self);
        Ok(Lease { shared, bytes })
    }
}

/// A connection that is noted.
#[derive(Debug)]
pub(super) struct Opened {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Opened {
    fn drop(&mut self) {
        lock(&self.shared.sockets).open.remove(&self.number);
    }
}

/// Bytes that are in use.
#[derive(Debug)]
struct Lease {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        *lock(&self.shared.used) -= self.bytes;
    }
}

/// A borrower's mailbox, and its part in the accelerators. The former is zeroed before its memory
/// counts as free.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) mailbox: Mailbox,
    pub(super) member: Member,
    _lease: Lease,
}
