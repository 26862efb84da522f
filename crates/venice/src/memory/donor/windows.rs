//! A borrower's connection that speaks the channels' protocol: windows on loans, read and written
//! to the byte.

use super::connection::{enter, leave};
use super::loans::{Loan, lock};
use super::places::Place;
use crate::channel::broken::Lost;
use crate::channel::frame::MAGIC;
use crate::channel::serve::{self, Act, Loans, Map};
use crate::channel::transport::Transport;
use crate::channel::transport::tcp::Tcp;
use crate::channel::windows;
use crate::identity::Wire;
use crate::memory::mapping::Mapping;
use crate::memory::wire::Hello;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

impl serve::Memory for Mapping {
    fn get(&self, offset: u64, length: usize) -> Option<&[u8]> {
        self.get(offset, length)
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> bool {
        self.put(offset, bytes)
    }

    fn free(&mut self, offset: u64, length: u64) -> bool {
        self.free(offset, length)
    }
}

/// Whether what a connection begins with is of the channels. It is left there.
pub(super) fn are_asked_for(wire: &mut Wire, until: Instant) -> bool {
    let mut begins = [0; MAGIC.len()];
    while wire.wait_until(Some(until)).is_ok() {
        match wire.peek(&mut begins) {
            Ok(0) | Err(_) => return false,
            Ok(bytes) if begins[..bytes] != MAGIC[..bytes] => return false,
            Ok(bytes) if bytes == MAGIC.len() => return true,
            // Some of it only, which comes once in a long time.
            Ok(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
    false
}

pub(super) fn serve_tcp(wire: Wire, place: &Place, until: Instant) {
    let peer = wire.socket().peer_addr();
    let peer = peer.map_or_else(|_| "a borrower".to_owned(), |peer| peer.to_string());
    let Ok(copy) = wire.socket().try_clone() else {
        return;
    };
    if let Ok(transport) = Tcp::over(wire) {
        serve(transport, copy.as_fd(), place, &peer, until);
    }
}

/// Serves a connection until it ends, or has shown no key by then. `socket` is what ends it when it
/// is shut down.
pub(super) fn serve(
    transport: impl Transport,
    socket: BorrowedFd<'_>,
    place: &Place,
    peer: &str,
    until: Instant,
) {
    let mut used = Used {
        place,
        socket,
        loans: Vec::new(),
    };
    if let Err(Lost::Broken(broken)) = windows::serve(transport, &mut used, until) {
        place.refused(peer, &broken);
    }
    for (loan, number) in &used.loans {
        leave(loan, *number, place, peer);
    }
}

/// The loans of a connection.
struct Used<'a> {
    place: &'a Place,
    socket: BorrowedFd<'a>,
    loans: Vec<(Arc<Loan>, u64)>,
}

impl Loans for Used<'_> {
    fn map(&mut self, map: &Map) -> Result<(usize, u64), String> {
        let hello = Hello {
            loan: map.loan,
            key: map.key.clone(),
            session: map.session,
            bytes: map.bytes,
        };
        let entered = enter(&hello, self.socket, self.place)?;
        let bytes = entered.0.bytes;
        self.loans.push(entered);
        Ok((self.loans.len() - 1, bytes))
    }

    fn access(&mut self, number: usize, act: Act<'_>) -> Result<bool, String> {
        let Some((loan, _)) = self.loans.get(number) else {
            return Err("there is no such loan".into());
        };
        let mut state = lock(&loan.state);
        match state.memory.as_mut() {
            Some(memory) => Ok(act(memory)),
            None => Err(format!("loan {} is taken back", loan.id)),
        }
    }

    fn is_used(&self) -> bool {
        !self.loans.is_empty()
    }
}
