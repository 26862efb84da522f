//! What is known of each page of a region, and of each slot of the store.
//!
//! A slot is a page's place at donors. Processes that were forked share slots: a page that one
//! of them writes goes to another slot while somebody else needs what the first has. A slot has
//! its number as soon as its page is told to leave, so that a child that is forked meanwhile refers
//! to what is still on its way.

/// Where a page is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It reads as zeros, and takes no memory.
    #[default]
    Zero,
    /// In the process.
    Present,
    /// The helper was told to evict it.
    Leaving,
    /// In its slot.
    Absent,
    /// Asked of the donor.
    Fetching,
    /// The program says that it loses its content.
    Discarding,
}

/// No slot.
pub(super) const NO_SLOT: u32 = u32::MAX;

/// A page of a region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) state: State,
    /// Present: it may differ from its slot, which then has nothing of use.
    pub(super) dirty: bool,
    /// It has a place in a queue of its space.
    pub(super) queued: bool,
    /// Present: it was written since it came in, or came back soon after it had left.
    pub(super) referenced: bool,
    /// Zero or absent, in a child: it may be present all the same, as it was when the parent
    /// forked, since the parent's helper was about to drop it.
    pub(super) maybe: bool,
    /// Where it is at the donor.
    pub(super) slot: u32,
    /// How many evictions there were before its own.
    pub(super) evicted_at: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            state: State::Zero,
            dirty: false,
            queued: false,
            referenced: false,
            maybe: false,
            slot: NO_SLOT,
            evicted_at: 0,
        }
    }
}

const CHUNK: usize = 512;

/// The pages of a region; those that nobody touched take no memory.
#[derive(Debug)]
pub(super) struct Pages {
    chunks: Vec<Option<Box<[Page; CHUNK]>>>,
}

impl Pages {
    pub(super) fn new(count: usize) -> Self {
        let mut chunks = Vec::new();
        chunks.resize_with(count.div_ceil(CHUNK), || None);
        Self { chunks }
    }

    pub(super) fn count(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    pub(super) fn get(&self, page: u32) -> Page {
        let page = page as usize;
        let chunk = self.chunks.get(page / CHUNK).and_then(Option::as_ref);
        chunk.map_or_else(Page::default, |chunk| chunk[page % CHUNK])
    }

    /// The page, to be changed. It is one of the region.
    pub(super) fn at(&mut self, page: u32) -> &mut Page {
        let page = page as usize;
        let chunk = &mut self.chunks[page / CHUNK];
        let chunk = chunk.get_or_insert_with(|| Box::new([Page::default(); CHUNK]));
        &mut chunk[page % CHUNK]
    }

    /// Calls `see` with all pages that were ever touched.
    pub(super) fn each(&self, mut see: impl FnMut(u32, &Page)) {
        for (number, chunk) in self.chunks.iter().enumerate() {
            for (at, page) in chunk.iter().flat_map(|chunk| chunk.iter()).enumerate() {
                see((number * CHUNK + at) as u32, page);
            }
        }
    }

    /// Calls `change` on all pages from `first` up to `end` that were ever touched.
    pub(super) fn touched(&mut self, first: u32, end: u32, mut change: impl FnMut(u32, &mut Page)) {
        let (first, end) = (first as usize, end as usize);
        let chunks = self.chunks.iter_mut().enumerate();
        let first_chunk = first / CHUNK;
        let count = end.div_ceil(CHUNK).saturating_sub(first_chunk);
        for (number, chunk) in chunks.skip(first_chunk).take(count) {
            let Some(chunk) = chunk else { continue };
            for (at, page) in chunk.iter_mut().enumerate() {
                let index = number * CHUNK + at;
                if (first..end).contains(&index) {
                    change(index as u32, page);
                }
            }
        }
    }
}

/// What a slot has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing yet: its page is told to leave.
    #[default]
    Awaited,
    /// Zeros, of which the donor knows nothing.
    Zeros,
    /// A page that is on its way to the donor.
    Sent,
    /// A page that the donor has.
    Stored,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    users: u32,
    content: Content,
}

/// The slots of a store.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    limit: usize,
}

impl Slots {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            limit: limit.min(NO_SLOT as usize),
        }
    }

    /// A slot with one user, unless all are used.
    pub(super) fn take(&mut self) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < self.limit => {
                self.slots.push(Slot::default());
                (self.slots.len() - 1) as u32
            }
            None => return None,
        };
        self.slots[slot as usize] = Slot {
            users: 1,
            ..Slot::default()
        };
        Some(slot)
    }

    pub(super) fn share(&mut self, slot: u32) {
        self.slots[slot as usize].users += 1;
    }

    pub(super) fn users(&self, slot: u32) -> u32 {
        self.slots[slot as usize].users
    }

    /// One user less; true where it was the last, and the slot is free.
    pub(super) fn leave(&mut self, slot: u32) -> bool {
        let users = &mut self.slots[slot as usize].users;
        *users -= 1;
        if *users == 0 {
            self.free.push(slot);
        }
        *users == 0
    }

    pub(super) fn content(&self, slot: u32) -> Content {
        self.slots[slot as usize].content
    }

    pub(super) fn set(&mut self, slot: u32, content: Content) {
        self.slots[slot as usize].content = content;
    }

    /// Slots in use.
    pub(super) fn used(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untouched_pages_are_zeros_and_take_nothing() {
        let mut pages = Pages::new(1 << 24);
        assert_eq!(pages.get(u32::MAX).state, State::Zero);
        pages.at(1000).state = State::Present;
        pages.at(1100).state = State::Absent;
        let mut seen = Vec::new();
        pages.touched(1000, 1101, |index, page| {
            if page.state != State::Zero {
                seen.push(index);
            }
        });
        assert_eq!(seen, [1000, 1100]);
        assert_eq!(pages.chunks.iter().flatten().count(), 2);
    }

    #[test]
    fn a_slot_is_free_when_its_last_user_leaves() {
        let mut slots = Slots::new(2);
        let (first, second) = (slots.take().unwrap(), slots.take().unwrap());
        assert_eq!(slots.take(), None);
        slots.share(first);
        slots.set(first, Content::Stored);
        assert!(!slots.leave(first));
        assert_eq!(slots.take(), None);
        assert!(slots.leave(first));
        assert_eq!(slots.used(), 1);
        assert_eq!(slots.take(), Some(first));
        assert_eq!(slots.content(first), Content::Awaited);
        assert_eq!(slots.users(second), 1);
    }
}
