//! A segment: memory that is written from its beginning to its end and taken back as a whole. This
//! is what is known of one; its bytes lie elsewhere.
//!
//! Several threads write into an open segment. Each takes room by one compare-exchange on the
//! state, which also counts it as a writer until it has written; so a segment that is sealed (no
//! longer open) and *quiet* (no writers) holds whole items from 0 to `used`.

use super::atomic::{AtomicU32, AtomicU64, Ordering};

/// See the head of this file. Sizes are in units of the heap.
pub(super) struct Segment {
    /// Units used (bits 0 to 31), writers (32 to 47), whether it is open (48).
    state: AtomicU64,
    /// Units of items that nothing refers to any more.
    dead: AtomicU32,
    /// When the last of its items expires; `u32::MAX`: never.
    expires: AtomicU32,
    /// Bytes that its items hold elsewhere: large values.
    elsewhere: AtomicU64,
    group: AtomicU32,
}

/// What died in a segment until now.
pub(super) struct Died {
    /// Units, those of the last item among them.
    pub(super) units: u32,
    /// It seems to have been the last one of a segment that is sealed.
    pub(super) is_all: bool,
}

const WRITER: u64 = 1 << 32;
const WRITERS: u64 = 0xffff << 32;
const OPEN: u64 = 1 << 48;

impl Segment {
    pub(super) fn new() -> Segment {
        Segment {
            state: AtomicU64::new(0),
            dead: AtomicU32::new(0),
            expires: AtomicU32::new(0),
            elsewhere: AtomicU64::new(0),
            group: AtomicU32::new(0),
        }
    }

    /// Opens it, empty, for items of a group; for who took it from the free ones.
    pub(super) fn open(&self, group: usize) {
        self.dead.store(0, Ordering::Relaxed);
        self.expires.store(0, Ordering::Relaxed);
        self.elsewhere.store(0, Ordering::Relaxed);
        self.group.store(group as u32, Ordering::Relaxed);
        self.state.store(OPEN, Ordering::Release);
    }

    /// Takes room for an item, which the caller then writes, and tells so by
    /// [`written`](Self::written). None: it is not open, or has not so much left of `capacity`.
    pub(super) fn take(&self, units: u32, capacity: u32) -> Option<u32> {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let used = state as u32;
            if state & OPEN == 0 || used + units > capacity {
                return None;
            }
            debug_assert!(state & WRITERS != WRITERS, "more writers than threads");
            let next = state + u64::from(units) + WRITER;
            match (self.state).compare_exchange(state, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(used),
                Err(now) => state = now,
            }
        }
    }

    /// An item has been written: it expires then (`u32::MAX`: never), and holds so many bytes
    /// elsewhere.
    pub(super) fn written(&self, expires: u32, elsewhere: u64) {
        self.note(expires, elsewhere);
        self.state.fetch_sub(WRITER, Ordering::Release);
    }

    /// Notes of an item when it expires, and what it holds elsewhere.
    pub(super) fn note(&self, expires: u32, elsewhere: u64) {
        if self.expires.load(Ordering::Relaxed) < expires {
            self.expires.fetch_max(expires, Ordering::Relaxed);
        }
        if elsewhere > 0 {
            self.elsewhere.fetch_add(elsewhere, Ordering::Relaxed);
        }
    }

    /// No more items.
    pub(super) fn seal(&self) {
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
    }

    /// The units used, if it is sealed and all items are written.
    pub(super) fn quiet(&self) -> Option<u32> {
        let state = self.state.load(Ordering::Acquire);
        (state & (OPEN | WRITERS) == 0).then_some(state as u32)
    }

    /// The units used, if all items are written; for who knows that nobody begins to write one.
    pub(super) fn whole(&self) -> Option<u32> {
        let state = self.state.load(Ordering::Acquire);
        (state & WRITERS == 0).then_some(state as u32)
    }

    /// Makes it one with so many units used; for who alone uses it.
    pub(super) fn restore(&self, group: usize, used: u32, is_open: bool) {
        self.open(group);
        let open = if is_open { OPEN } else { 0 };
        self.state.store(u64::from(used) | open, Ordering::Release);
    }

    /// Units used now.
    pub(super) fn used(&self) -> u32 {
        self.state.load(Ordering::Relaxed) as u32
    }

    /// Nothing refers to an item of so many units any more, which held so much elsewhere.
    pub(super) fn died(&self, units: u32, elsewhere: u64) -> Died {
        let dead = self.dead.fetch_add(units, Ordering::Release) + units;
        if elsewhere > 0 {
            self.elsewhere.fetch_sub(elsewhere, Ordering::Relaxed);
        }
        let state = self.state.load(Ordering::Relaxed);
        Died {
            units: dead,
            is_all: dead >= state as u32 && state & OPEN == 0,
        }
    }

    /// Units that nothing refers to.
    pub(super) fn dead(&self) -> u32 {
        self.dead.load(Ordering::Acquire)
    }

    /// When the last of its items expires.
    pub(super) fn expires(&self) -> u32 {
        self.expires.load(Ordering::Relaxed)
    }

    /// Bytes that its items hold elsewhere.
    pub(super) fn elsewhere(&self) -> u64 {
        self.elsewhere.load(Ordering::Relaxed)
    }

    /// The group whose items it has.
    pub(super) fn group(&self) -> usize {
        self.group.load(Ordering::Relaxed) as usize
    }
}
