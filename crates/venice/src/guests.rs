//! Who is connected to a donor: so many at a time, and among them strangers, who have shown no key
//! yet, or have no loan. These keep nobody out: where all places are taken, the one that came first
//! makes way.

use crate::loan::LoanId;
use rhythm_net::clock;
use rhythm_net::sparse::Sparse;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many are told at a time that there is no room.
const REFUSED_MAX: usize = 16;

/// All of a donor's.
#[derive(Debug)]
pub(crate) struct Guests {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// By their numbers, of which later ones are higher.
    here: BTreeMap<u64, (OwnedFd, Who)>,
    next: u64,
    /// Of lines about those who come and go: anybody can connect.
    lines: Sparse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Stranger,
    Borrower,
    /// Of a loan that may end before it leaves.
    BorrowerBy(LoanId),
    /// There is no room for it; it is to be told so.
    Refused,
}

impl State {
    fn count(&self, of: Who) -> usize {
        self.here.values().filter(|(_, who)| *who == of).count()
    }

    fn borrowers(&self) -> usize {
        let who = self.here.values().map(|(_, who)| who);
        who.filter(|who| matches!(who, Who::Borrower | Who::BorrowerBy(_)))
            .count()
    }

    /// Closes the connection that came first of those.
    fn close_first(&mut self, of: Who) {
        let first = self.here.iter().find(|(_, (_, who))| *who == of);
        let first = first.map(|(number, _)| *number);
        if let Some((socket, _)) = first.and_then(|number| self.here.remove(&number)) {
            // One that is over already has closed it itself.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }
}

impl Guests {
    /// For so many connections at a time.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(Self { most, state })
    }

    /// What a poisoned lock guards is whole: nothing panics between its parts.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a connection, until what is returned is dropped.
    ///
    /// # Errors
    /// The system has no descriptor for it.
    pub(crate) fn come(self: &Arc<Self>, socket: BorrowedFd<'_>) -> io::Result<Guest> {
        let copy = socket.try_clone_to_owned()?;
        let mut state = self.lock();
        let borrowers = state.borrowers();
        let (who, most) = match state.is_closed || borrowers >= self.most {
            true => (Who::Refused, REFUSED_MAX),
            false => (Who::Stranger, self.most - borrowers),
        };
        if state.count(who) >= most {
            state.close_first(who);
        }
        let number = state.next;
        state.next += 1;
        state.here.insert(number, (copy, who));
        let guests = Arc::clone(self);
        let is_refused = who == Who::Refused;
        Ok(Guest {
            guests,
            number,
            is_refused,
        })
    }

    /// A line about somebody who is refused, where there are not too many.
    pub(crate) fn refused(&self, peer: &str, why: &dyn fmt::Display) {
        self.tell(format_args!("{peer} is refused: {why}"));
    }

    fn tell(&self, line: fmt::Arguments<'_>) {
        let left_out = self.lock().lines.line(clock::monotonic());
        if let Some(left_out) = left_out {
            tracing::info!(left_out, "{line}");
        }
    }

    /// Closes the connections of a loan.
    pub(crate) fn close_of(&self, loan: LoanId) {
        let state = self.lock();
        let all = state.here.values();
        for (socket, _) in all.filter(|(_, who)| *who == Who::BorrowerBy(loan)) {
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// Whether a loan has a connection.
    pub(crate) fn has(&self, loan: LoanId) -> bool {
        self.lock().count(Who::BorrowerBy(loan)) > 0
    }

    /// Closes all connections; who comes from now on is refused.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        for (socket, _) in state.here.values() {
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// How many there are, without those for whom there is no room.
    pub(crate) fn count(&self) -> usize {
        let state = self.lock();
        state.here.len() - state.count(Who::Refused)
    }
}

/// A connection that is noted.
#[derive(Debug)]
pub(crate) struct Guest {
    guests: Arc<Guests>,
    number: u64,
    /// There is no room for it: it is to be told so, and no more.
    pub(crate) is_refused: bool,
}

impl Guest {
    /// It has shown the key, and makes way for nobody.
    pub(crate) fn stay(&self) {
        self.is(Who::Borrower);
    }

    /// Likewise, with the key of a loan.
    pub(crate) fn stay_by(&self, loan: LoanId) {
        self.is(Who::BorrowerBy(loan));
    }

    fn is(&self, what: Who) {
        // Where it is gone, it has made way, and its connection is closed.
        if let Some((_, who)) = self.guests.lock().here.get_mut(&self.number) {
            *who = what;
        }
    }

    /// A line about its being refused, where there are not too many.
    pub(crate) fn refused(&self, peer: &str, why: &dyn fmt::Display) {
        self.guests.refused(peer, why);
    }

    /// Likewise about its being gone.
    pub(crate) fn gone(&self, peer: &str, why: &dyn fmt::Display) {
        self.guests.tell(format_args!("{peer} is gone: {why}"));
    }

    /// Its other end has closed the connection, or it has made way.
    pub(crate) fn is_gone(&self) -> bool {
        let state = self.guests.lock();
        let Some((socket, _)) = state.here.get(&self.number) else {
            return true;
        };
        let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
        // Where it is disturbed, nobody knows yet.
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|gone| gone > 0)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.guests.lock().here.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn strangers_make_way_and_borrowers_stay() {
        let guests = Guests::new(3);
        let mut all = Vec::new();
        let mut come = |stays: bool| {
            let (mut theirs, ours) = UnixStream::pair().unwrap();
            let guest = guests.come(ours.as_fd()).unwrap();
            if stays {
                guest.stay();
            }
            theirs.set_nonblocking(true).unwrap();
            let is_refused = guest.is_refused;
            all.push((guest, ours));
            (is_refused, move || theirs.read(&mut [0]).is_err())
        };
        let (_, mut first_is_open) = come(true);
        let (_, mut second_is_open) = come(false);
        let (_, mut third_is_open) = come(false);
        assert!(second_is_open());
        // The stranger that came first makes way, then the next.
        let (is_refused, mut fourth_is_open) = come(true);
        assert!(!is_refused && !second_is_open() && third_is_open());
        let (is_refused, mut fifth_is_open) = come(true);
        assert!(!is_refused && !third_is_open() && fifth_is_open());
        assert_eq!(guests.count(), 3);
        // Where there are borrowers alone, nobody comes in, and few wait to be told.
        let (is_refused, mut sixth_is_open) = come(false);
        assert!(is_refused && guests.count() == 3);
        for _ in 0..REFUSED_MAX {
            assert!(sixth_is_open());
            let _ = come(false);
        }
        assert!(!sixth_is_open() && first_is_open() && fourth_is_open());
        // A borrower leaves, and somebody else has its place, until that goes, too.
        drop(all.remove(0));
        let (theirs, ours) = UnixStream::pair().unwrap();
        let guest = guests.come(ours.as_fd()).unwrap();
        assert!(!guest.is_refused && !guest.is_gone());
        drop(theirs);
        assert!(guest.is_gone());
        guests.close();
        assert!(!fourth_is_open() && !fifth_is_open());
    }
}
