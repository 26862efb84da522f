//! What a pager knows, and what becomes of it where that is no question of time.

use crate::memory::figures::Figures;
use crate::memory::observed::Shown;
use crate::memory::orders::ORDER_PAGES;
use crate::memory::pages::{Content, NO_SLOT, Slots, State};
use crate::memory::panels::Seen;
use crate::memory::space::{Library, Space};
use crate::memory::store::{Bytes, Event as Stored, Whose};
use crate::memory::stripes::Stripes;
use crate::memory::uffd::{Event, PAGE};
use rhythm_net::sparse::Sparse;
use rustix::fs::MemfdFlags;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tracing::debug;

/// Parts of the buffer, each as large as one order's pages.
pub(super) const PLACES: usize = 8;
/// Bytes of a part.
pub(super) const PLACE_BYTES: usize = ORDER_PAGES * PAGE;

/// A thread waits.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) page: u32,
    /// Which of the page's.
    pub(super) byte: u32,
    pub(super) write: bool,
    pub(super) protected: bool,
    pub(super) thread: u32,
    pub(super) since: Instant,
}

/// Names a space, for as long as the pager runs.
pub(super) type SpaceId = u32;

/// What a pager is to do.
#[derive(Clone, Debug)]
pub(in crate::memory) struct Limits {
    /// Pages that a process has here at most.
    pub(in crate::memory) local: usize,
    /// Pages that each donor has.
    pub(in crate::memory) remote: usize,
    /// How often the figures are told, if at all.
    pub(in crate::memory) told: Option<Duration>,
    /// Where they are shown, if anywhere.
    pub(in crate::memory) shown: Option<Shown>,
}

/// All memory there is: processes, and what of theirs is away or on its way.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) spaces: HashMap<SpaceId, Space>,
    pub(super) slots: Slots,
    pub(super) store: Stripes,
    /// Pages that have come and could not be put where they belong, with their tickets.
    pub(super) again: Vec<(Whose, u64, Box<Bytes>)>,
    pub(super) figures: Figures,
    pub(super) limit: usize,
}

impl Memory {
    /// What is told of it.
    pub(super) fn seen(&self, limits: &Limits) -> Seen {
        Seen {
            figures: self.figures.clone(),
            processes: self.spaces.len(),
            here: self.spaces.values().map(|space| space.resident).sum(),
            local: limits.local,
            away: self.slots.used(),
            remote: limits.remote,
            donors: self.store.donors().collect(),
            not_found: self.store.not_found().cloned(),
        }
    }
}

/// A child that says that it is there.
#[derive(Debug)]
pub(super) struct Forked {
    /// The byte of its first page that it touches next, and no other child.
    pub(super) byte: u32,
    pub(super) library: Library,
}

/// See the module above.
#[derive(Debug)]
pub(in crate::memory) struct Pager {
    pub(super) memory: Memory,
    pub(super) limits: Limits,
    /// The program, until its library has said so.
    pub(super) program: Option<Library>,
    pub(super) region_bytes: u64,
    pub(super) forked: Vec<Forked>,
    /// Sockets of processes that are gone, by which a child may still say that it is there.
    pub(super) orphaned: Vec<OwnedFd>,
    pub(super) next_space: SpaceId,
    pub(super) deferred: Vec<(SpaceId, Fault)>,
    pub(super) buffer: File,
    /// Parts of the buffer that no order has.
    pub(super) places: Vec<usize>,
    /// How many parts there are, and since when none was free.
    pub(super) places_made: usize,
    pub(super) short_since: Option<Instant>,
    pub(super) events: Vec<Event>,
    /// Of lines about faults that cannot be read.
    pub(super) untold: Sparse,
    /// When the pager last looked after what tells nothing.
    pub(super) looked: Instant,
}

impl Pager {
    /// A pager for a program whose library is at the other ends of these sockets.
    ///
    /// # Errors
    /// Where there is no memory for its buffer.
    pub(in crate::memory) fn new(
        store: Stripes,
        limits: Limits,
        region_bytes: u64,
        orders: OwnedFd,
        requests: OwnedFd,
    ) -> io::Result<Self> {
        let buffer = rustix::fs::memfd_create("rhythm-venice", MemfdFlags::CLOEXEC)?;
        let buffer = File::from(buffer);
        buffer.set_len((PLACES * PLACE_BYTES) as u64)?;
        Ok(Self {
            memory: Memory {
                spaces: HashMap::new(),
                slots: Slots::new(limits.remote),
                store,
                again: Vec::new(),
                figures: Figures::default(),
                limit: limits.local,
            },
            limits,
            program: Some(Library {
                orders,
                requests,
                helper: None,
            }),
            region_bytes,
            forked: Vec::new(),
            orphaned: Vec::new(),
            next_space: 0,
            deferred: Vec::new(),
            buffer,
            places: (0..PLACES).collect(),
            places_made: PLACES,
            short_since: None,
            events: Vec::new(),
            untold: Sparse::every(Duration::from_secs(10)),
            looked: Instant::now(),
        })
    }
}

impl Memory {
    /// Something has come of what the store was asked.
    pub(super) fn came(&mut self, event: Stored) {
        match event {
            Stored::Stored(slot) => {
                // Unless it was used for another page since.
                let is_sent = self.slots.content(slot) == Content::Sent;
                if is_sent && self.store.in_flight(slot).is_none() {
                    self.slots.set(slot, Content::Stored);
                }
            }
            Stored::Page(ticket, whose, bytes) => self.bring_or_keep(whose, ticket, bytes),
        }
    }

    fn bring_or_keep(&mut self, whose: Whose, ticket: u64, bytes: Box<Bytes>) {
        if !self.bring(whose, ticket, &bytes[..]) {
            self.again.push((whose, ticket, bytes));
        }
    }

    /// A page is no longer a slot's user; true where nobody is.
    pub(super) fn leave_slot(&mut self, slot: u32) -> bool {
        let is_free = slot != NO_SLOT && self.slots.leave(slot);
        if is_free {
            self.store.forget(slot);
        }
        is_free
    }

    pub(super) fn bring_again(&mut self) {
        for (whose, ticket, bytes) in std::mem::take(&mut self.again) {
            self.bring_or_keep(whose, ticket, bytes);
        }
    }

    /// Forgets a process that is gone.
    pub(super) fn remove(&mut self, id: SpaceId) {
        let Some(space) = self.spaces.remove(&id) else {
            return;
        };
        let mut slots = HashSet::new();
        space.pages.each(|_, page| {
            if page.slot != NO_SLOT && page.state != State::Discarding {
                slots.insert(page.slot);
            }
        });
        for slot in slots {
            self.leave_slot(slot);
        }
        debug!("a process is gone; {} slots are in use", self.slots.used());
    }
}
