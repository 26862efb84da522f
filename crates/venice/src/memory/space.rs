//! One process whose pages are looked after.

use super::orders::{self, ORDER_PAGES};
use super::pages::{NO_SLOT, Page, Pages, Slots, State};
use super::streams::Streams;
use super::uffd::{PAGE, Uffd};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// The library in the process.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) orders: OwnedFd,
    pub(super) requests: OwnedFd,
    /// The helper's thread, once it has said so.
    pub(super) helper: Option<u32>,
}

/// Pages that the helper was told to evict.
#[derive(Debug)]
pub(super) struct Batch {
    /// Which, and whether each is put into the buffer.
    pub(super) pages: Vec<(u32, bool)>,
    /// Which part of the buffer they have.
    pub(super) place: usize,
}

/// A page that was asked of the donor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetch {
    /// The request's id.
    pub(super) id: u64,
    /// Somebody waits for it, and since when.
    pub(super) awaited: Option<Instant>,
    /// Somebody waits to write it.
    pub(super) write: bool,
}

/// A range whose content the program drops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discard {
    pub(super) first: u32,
    pub(super) end: u32,
}

/// A process: where each of its pages is, and in which order they came.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) uffd: Uffd,
    /// None in a child that has not said yet that it is there, or never will.
    pub(super) library: Option<Library>,
    pub(super) region: u64,
    pub(super) pages: Pages,
    /// Pages that came in for the first time, or again after long, the oldest first.
    pub(super) recent: VecDeque<u32>,
    /// Pages that came back soon after they had left.
    pub(super) kept: VecDeque<u32>,
    /// Pages that are present, leaving or fetched.
    pub(super) resident: usize,
    pub(super) batches: VecDeque<Batch>,
    pub(super) fetching: HashMap<u32, Fetch>,
    /// One that waits for pages that are just leaving.
    pub(super) discard: Option<Discard>,
    pub(super) streams: Streams,
    pub(super) evictions: u32,
    /// Batches in a row of which nothing left.
    pub(super) stuck: u32,
}

impl Space {
    pub(super) fn new(uffd: Uffd, region: u64, pages: Pages) -> Self {
        Self {
            uffd,
            library: None,
            region,
            pages,
            recent: VecDeque::new(),
            kept: VecDeque::new(),
            resident: 0,
            batches: VecDeque::new(),
            fetching: HashMap::new(),
            discard: None,
            streams: Streams::default(),
            evictions: 0,
            stuck: 0,
        }
    }

    pub(super) fn address(&self, page: u32) -> u64 {
        self.region + u64::from(page) * PAGE as u64
    }

    /// The page at an address; none where it is not of the region.
    pub(super) fn page_at(&self, address: u64) -> Option<u32> {
        let page = address.checked_sub(self.region)? / PAGE as u64;
        (page < self.pages.count().into()).then_some(page as u32)
    }

    /// The pages of a range of addresses, as far as they are of the region.
    pub(super) fn pages_of(&self, address: u64, bytes: u64) -> Discard {
        let count = u64::from(self.pages.count());
        let first = address.saturating_sub(self.region) / PAGE as u64;
        let end = address.saturating_add(bytes).saturating_sub(self.region);
        Discard {
            first: first.min(count) as u32,
            end: end.div_ceil(PAGE as u64).min(count) as u32,
        }
    }

    /// Takes note that a page is present that is counted as resident already.
    pub(super) fn came(&mut self, page: u32, dirty: bool, kept: bool) {
        let entry = self.pages.at(page);
        entry.state = State::Present;
        entry.dirty = dirty;
        entry.referenced = false;
        entry.maybe = false;
        if !entry.queued {
            entry.queued = true;
            if kept {
                self.kept.push_back(page);
            } else {
                self.recent.push_back(page);
            }
        }
    }

    /// Whether a page that comes back left so lately that a little more room would have kept it
    /// (the refault distance, as of Linux's workingset.c).
    pub(super) fn left_lately(&self, page: &Page, limit: usize) -> bool {
        (self.evictions.wrapping_sub(page.evicted_at) as usize) < limit
    }

    /// Pages to evict, at most `count`, the ones that came first. A page that was written since it
    /// came, and those that came back soon, get a second chance.
    pub(super) fn victims(&mut self, count: usize, limit: usize) -> Vec<(u32, bool)> {
        let count = count.min(ORDER_PAGES);
        let mut victims = Vec::with_capacity(count);
        let mut looks = 4 * count + 16;
        while victims.len() < count && looks > 0 {
            looks -= 1;
            let from_kept = self.kept.len() > limit * 3 / 4 || self.recent.is_empty();
            let queue = if from_kept {
                &mut self.kept
            } else {
                &mut self.recent
            };
            let Some(page) = queue.pop_front() else { break };
            let entry = self.pages.at(page);
            if entry.state != State::Present {
                entry.queued = false;
            } else if entry.referenced {
                entry.referenced = false;
                queue.push_back(page);
            } else {
                entry.queued = false;
                victims.push((page, entry.dirty));
            }
        }
        victims.sort_unstable();
        victims
    }

    /// What a child has that is forked now: its pages, with the slots that they share.
    pub(super) fn fork(&self, uffd: Uffd, slots: &mut Slots) -> Self {
        let mut child = Self::new(uffd, self.region, Pages::new(self.pages.count() as usize));
        child.evictions = self.evictions;
        let mut resident = 0;
        self.pages.each(|index, page| {
            let mut entry = Page {
                queued: false,
                referenced: false,
                ..*page
            };
            match page.state {
                State::Present if page.dirty => entry.slot = NO_SLOT,
                State::Present | State::Zero | State::Absent => {}
                State::Fetching => entry.state = State::Absent,
                State::Leaving => {
                    entry.state = match entry.slot {
                        NO_SLOT => State::Zero,
                        _ => State::Absent,
                    };
                    entry.dirty = false;
                    entry.maybe = true;
                }
                State::Discarding => {
                    entry.state = State::Zero;
                    entry.slot = NO_SLOT;
                    entry.maybe = true;
                }
            }
            if entry.state == State::Zero && !entry.maybe {
                return;
            }
            if entry.slot != NO_SLOT {
                slots.share(entry.slot);
            }
            if entry.state == State::Present {
                resident += 1;
                entry.queued = true;
            }
            *child.pages.at(index) = entry;
        });
        child.resident = resident;
        // In the order in which they came to the parent.
        let is_present = |page: &&u32| self.pages.get(**page).state == State::Present;
        child.recent = self.recent.iter().filter(is_present).copied().collect();
        child.kept = self.kept.iter().filter(is_present).copied().collect();
        child
    }

    /// Ends the process.
    pub(super) fn end(&self, why: &str) {
        if let Some(library) = &self.library {
            orders::end(library.orders.as_fd(), why);
        }
    }
}
