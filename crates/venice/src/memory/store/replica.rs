//! One donor's part of a store, and what it was asked.

use crate::memory::borrower::{Borrower, Lost};
use crate::memory::supply::Held;
use crate::memory::uffd::PAGE;
use crate::memory::wire::Request;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A page's bytes.
pub(in crate::memory) type Bytes = [u8; PAGE];

/// Where in a loan a slot is.
pub(super) fn offset(slot: u32) -> u64 {
    u64::from(slot) * PAGE as u64
}

/// What a request was for; they are answered in their order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    /// A page left.
    Write { slot: u32, version: u32 },
    /// Slots are free.
    Free,
    /// A page is wanted, by a ticket.
    Read(u64),
    /// A page is wanted by another replica.
    Copy(Copy),
    /// It came from another replica.
    Copied { slot: u32, version: u32 },
}

/// How far a donor is filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// The next slot.
    pub(super) next: u32,
    /// Pages that are asked of others, or on their way to it.
    pub(super) outstanding: usize,
    pub(super) since: Instant,
    /// Pages that were asked of others.
    pub(super) copied: u64,
}

/// A page that goes from one replica to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) slot: u32,
    pub(super) version: u32,
    pub(super) sum: u32,
    /// The number of who is to have it.
    pub(super) to: u64,
}

/// A donor wants its memory back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaves {
    /// How long it has said to wait, and since when.
    pub(super) within: Duration,
    pub(super) since: Instant,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Replica {
    /// Tells it from all others that were ever there.
    pub(super) number: u64,
    /// Tells it from the others that are there now.
    pub(super) bit: u8,
    pub(super) borrower: Borrower,
    /// What gives the loan back when it is dropped, behind the connection.
    pub(super) _held: Held,
    pub(super) asked: VecDeque<Asked>,
    /// It does not have everything yet.
    pub(super) fill: Option<Fill>,
    pub(super) leaves: Option<Leaves>,
    /// Its loan is over, as was heard.
    pub(super) broken: Option<String>,
    /// Its connection failed.
    pub(super) failed: Option<Lost>,
}

impl Replica {
    pub(super) fn ask(&mut self, request: &Request<'_>, asked: Asked, now: Instant) {
        self.borrower.ask(request, now);
        self.asked.push_back(asked);
    }

    pub(super) fn write(&mut self, slot: u32, version: u32, bytes: &Bytes, now: Instant) {
        self.put(slot, bytes, Asked::Write { slot, version }, now);
    }

    pub(super) fn put(&mut self, slot: u32, bytes: &Bytes, asked: Asked, now: Instant) {
        let offset = offset(slot);
        self.ask(&Request::Write { offset, bytes }, asked, now);
    }

    pub(super) fn read(&mut self, slot: u32, asked: Asked, now: Instant) {
        let read = Request::Read {
            offset: offset(slot),
            length: PAGE as u32,
        };
        self.ask(&read, asked, now);
    }

    /// It has everything, and may keep it.
    pub(super) fn is_sound(&self) -> bool {
        self.fill.is_none() && self.leaves.is_none() && self.broken.is_none()
    }
}
