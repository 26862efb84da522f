//! What a pager knows, and what becomes of it where that is no question of time.

use crate::memory::borrower::{Borrower, Lost};
use crate::memory::figures::Figures;
use crate::memory::orders::ORDER_PAGES;
use crate::memory::pages::{Content, NO_SLOT, Slots, State};
use crate::memory::space::{Library, Space};
use crate::memory::uffd::{Event, PAGE};
use crate::memory::wire::Answer;
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

/// A page's bytes.
pub(super) type Bytes = Box<[u8; PAGE]>;
/// Names a space, for as long as the pager runs.
pub(super) type SpaceId = u32;

/// What a pager is to do.
#[derive(Clone, Debug)]
pub(in crate::memory) struct Limits {
    /// Pages that a process has here at most.
    pub(in crate::memory) local: usize,
    /// Pages that the donor has.
    pub(in crate::memory) remote: usize,
    /// How often the figures are told, if at all.
    pub(in crate::memory) told: Option<Duration>,
}

/// All memory there is: processes, and what of theirs is away or on its way.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) spaces: HashMap<SpaceId, Space>,
    pub(super) slots: Slots,
    /// Pages that are sent and not confirmed, by slot, with the id of the last request.
    pub(super) in_flight: HashMap<u32, (u64, Bytes)>,
    /// Requests to write, and their slots.
    pub(super) writes: HashMap<u64, u32>,
    /// Requests to read: for which page, and the checksum of what it has.
    pub(super) fetches: HashMap<u64, (SpaceId, u32, u32)>,
    /// Pages that have come and could not be put where they belong, with their request's id.
    pub(super) again: Vec<(SpaceId, u32, u64, Bytes)>,
    pub(super) figures: Figures,
    pub(super) limit: usize,
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
    pub(super) borrower: Borrower,
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
        borrower: Borrower,
        limits: Limits,
        region_bytes: u64,
        orders: OwnedFd,
        requests: OwnedFd,
    ) -> io::Result<Self> {
        let buffer = rustix::fs::memfd_create("rhythm-venice", MemfdFlags::CLOEXEC)?;
        let buffer = File::from(buffer);
        buffer.set_len((PLACES * PLACE_BYTES) as u64)?;
        Ok(Self {
            borrower,
            memory: Memory {
                spaces: HashMap::new(),
                slots: Slots::new(limits.remote),
                in_flight: HashMap::new(),
                writes: HashMap::new(),
                fetches: HashMap::new(),
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
    /// The donor has answered.
    ///
    /// # Errors
    /// [`Lost::Damaged`].
    pub(super) fn answered(&mut self, id: u64, answer: &Answer<'_>) -> Result<(), Lost> {
        if let Some(slot) = self.writes.remove(&id) {
            if self
                .in_flight
                .get(&slot)
                .is_some_and(|(last, _)| *last == id)
            {
                self.in_flight.remove(&slot);
                self.slots.set(slot, Content::Stored);
            }
        } else if let (Some((space, page, sum)), Answer::Data(bytes)) =
            (self.fetches.remove(&id), answer)
            && let Ok(bytes) = <&[u8; PAGE]>::try_from(*bytes)
        {
            if crc32fast::hash(bytes) != sum {
                return Err(Lost::Damaged);
            }
            if !self.bring(space, page, id, bytes) {
                self.again.push((space, page, id, Box::new(*bytes)));
            }
        }
        Ok(())
    }

    /// A page is no longer a slot's user; true where nobody is.
    pub(super) fn leave_slot(&mut self, slot: u32) -> bool {
        let is_free = slot != NO_SLOT && self.slots.leave(slot);
        if is_free {
            self.in_flight.remove(&slot);
        }
        is_free
    }

    pub(super) fn bring_again(&mut self) {
        for (space, page, id, bytes) in std::mem::take(&mut self.again) {
            if !self.bring(space, page, id, &bytes[..]) {
                self.again.push((space, page, id, bytes));
            }
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
