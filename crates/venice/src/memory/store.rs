//! What has left a program: slots of a page each, at one donor or at several.
//!
//! ```text
//!   pager --- write, read, free by slot ---> Store ---> Replica ---> Borrower ---> donor
//!     ^                                       | |  \---> Replica ---> Borrower ---> another
//!     +------- events: stored, a page --------+ +-----> Line: a thread finds donors (supply.rs)
//! ```
//!
//! Each replica is to have every slot. A page is sent to all, and its bytes are kept here until
//! all that live have it (`places.rs` knows who has what, and the checksum of it). It is asked of
//! the one that has the least to answer. A donor that dies, or gives back other bytes, is left out
//! then, and what it was asked for is asked of another; memory is lost where no other has it
//! (`remove.rs`). In place of one that is gone, or that wants its memory back, another is sought
//! (`seek.rs`), and filled beside what goes on (`fill.rs`).

mod budget;
mod fill;
mod places;
mod remove;
mod replica;
mod seek;
mod state;

use super::borrower::{Borrower, Lost};
use super::supply::{Held, Line};
use super::uffd::PAGE;
use super::wire::{Answer, Request};
use budget::Budget;
use places::Places;
use replica::{Asked, offset};
use rustix::event::PollFlags;
use state::{Read, Seeking};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

pub(super) use replica::Bytes;

pub(super) use state::{Counts, Donor, Event, Gone, Keeping, Store, Whose};

impl Store {
    /// A store at these donors, and what finds others.
    pub(super) fn new(
        keeping: Keeping,
        donors: Vec<(Borrower, Held)>,
        line: Line,
        now: Instant,
    ) -> Self {
        let mut store = Self {
            keeping,
            replicas: Vec::new(),
            places: Places::default(),
            in_flight: HashMap::new(),
            reads: HashMap::new(),
            last_ticket: 0,
            last_replica: 0,
            events: Vec::new(),
            seeking: Seeking {
                line,
                is_asked: false,
                again_at: now,
                not_found: None,
            },
            budget: Budget::new(now),
            counts: Counts::default(),
        };
        for (borrower, held) in donors {
            store.join(borrower, held, false, now);
        }
        store
    }

    /// A page leaves into a slot.
    pub(super) fn write(&mut self, slot: u32, bytes: &Bytes, now: Instant) {
        let version = self.places.written(slot, crc32fast::hash(bytes));
        for replica in &mut self.replicas {
            replica.write(slot, version, bytes, now);
        }
        self.in_flight.insert(slot, Arc::new(*bytes));
    }

    /// A page that is not everywhere yet.
    pub(super) fn in_flight(&self, slot: u32) -> Option<Arc<Bytes>> {
        self.in_flight.get(&slot).cloned()
    }

    /// How many such there are; as many, at least, as wait to be sent to one donor: a page that
    /// leaves again and again counts each time where one is slow.
    pub(super) fn in_flight_count(&self) -> usize {
        let unsent = self.replicas.iter().map(|it| it.borrower.unsent() / PAGE);
        self.in_flight.len().max(unsent.max().unwrap_or(0))
    }

    /// Asks for the page of a slot; the ticket that comes back with it.
    pub(super) fn read(&mut self, slot: u32, whose: Whose, now: Instant) -> u64 {
        let place = self.places.get(slot);
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let read = Read {
            slot,
            version: place.version,
            sum: place.sum,
            whose,
        };
        self.reads.insert(ticket, read);
        self.ask_for(ticket, slot, now);
        ticket
    }

    /// What a slot has is not needed any more.
    pub(super) fn forget(&mut self, slot: u32) {
        self.in_flight.remove(&slot);
        self.places.forget(slot);
    }

    /// Has the donors give back memory of slots that were forgotten.
    pub(super) fn free(&mut self, first: u32, count: usize, now: Instant) {
        let free = Request::Free {
            offset: offset(first),
            length: (count * PAGE) as u64,
        };
        for replica in &mut self.replicas {
            replica.ask(&free, Asked::Free, now);
        }
    }

    /// Sends what the connections take now. What fails is looked at by
    /// [`receive`](Self::receive).
    pub(super) fn flush(&mut self) {
        for replica in &mut self.replicas {
            if replica.failed.is_none() {
                replica.failed = replica.borrower.flush().err();
            }
        }
    }

    /// Whether a connection failed, or a page is everywhere since another donor is gone.
    pub(super) fn is_due(&self) -> bool {
        !self.events.is_empty() || self.replicas.iter().any(|it| it.failed.is_some())
    }

    /// What has come.
    ///
    /// # Errors
    /// [`Gone`].
    pub(super) fn receive(&mut self, now: Instant) -> Result<Vec<Event>, Gone> {
        let all = self.all();
        let (mut failed, mut copies) = (Vec::new(), Vec::new());
        let Self {
            replicas,
            places,
            in_flight,
            reads,
            events,
            ..
        } = self;
        for replica in replicas.iter_mut() {
            let (bit, asked, filled) = (replica.bit, &mut replica.asked, &mut replica.fill);
            let take = |_, answer: &Answer<'_>| {
                let Some(what) = asked.pop_front() else {
                    return Err(Lost::Unasked);
                };
                let page = match answer {
                    Answer::Data(bytes) => <&Bytes>::try_from(*bytes).ok(),
                    _ => None,
                };
                match (what, page) {
                    (Asked::Write { slot, version }, None) => {
                        let has = places.confirm(slot, version, bit);
                        if has == Some(all) && in_flight.remove(&slot).is_some() {
                            events.push(Event::Stored(slot));
                        }
                    }
                    (Asked::Copied { slot, version }, None) => {
                        places.confirm(slot, version, bit);
                        if let Some(fill) = filled {
                            fill.outstanding -= 1;
                        }
                    }
                    (Asked::Free, None) => {}
                    (Asked::Read(ticket), Some(bytes)) => {
                        let Some(read) = reads.get(&ticket).copied() else {
                            return Ok(());
                        };
                        if crc32fast::hash(bytes) != read.sum {
                            asked.push_front(what);
                            return Err(Lost::Damaged);
                        }
                        reads.remove(&ticket);
                        events.push(Event::Page(ticket, read.whose, Box::new(*bytes)));
                    }
                    (Asked::Copy(copy), Some(bytes)) => {
                        if crc32fast::hash(bytes) != copy.sum {
                            asked.push_front(what);
                            return Err(Lost::Damaged);
                        }
                        copies.push((copy, Box::new(*bytes)));
                    }
                    _ => return Err(Lost::Unasked),
                }
                Ok(())
            };
            let received = match replica.failed.take() {
                Some(lost) => Err(lost),
                None => replica.borrower.receive(now, take),
            };
            if let Err(lost) = received {
                failed.push((replica.number, lost));
            }
        }
        for (copy, bytes) in copies {
            self.copied(&copy, &bytes, now);
        }
        for (number, lost) in failed {
            self.died(number, lost, now)?;
        }
        self.leave_out_silent(now)?;
        Ok(std::mem::take(&mut self.events))
    }

    /// Looks after itself: donors are sought, filled, and given back. Due after
    /// [`receive`](Self::receive), and often while [`is_filling`](Self::is_filling).
    pub(super) fn look(&mut self, now: Instant) {
        self.seek(now);
        self.fill(now);
        self.give_back(now);
    }

    /// What to wait for, and for what of it.
    pub(super) fn waits(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.replicas.iter().map(|replica| {
            let out = match replica.borrower.is_behind() {
                true => PollFlags::OUT,
                false => PollFlags::empty(),
            };
            (replica.borrower.as_fd(), PollFlags::IN | out)
        })
    }
}
