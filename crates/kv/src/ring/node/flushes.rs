//! Flushes that this node heard of, and how far they are (`flush.rs`).
//!
//! What is said at one node comes in its order, whichever way round it comes first: each passes it
//! on in that order. So of each node the last that was heard is known, and no more: all before it
//! were heard, too, or go with it. Of another life of the node it is new if that life comes later,
//! or is the one that is there: a clock that was set back makes it look like an earlier one.

use super::super::wire::Flush;
use super::life;

/// The last flush of those said at one node, as long as not all have said it.
#[derive(Debug)]
struct Open {
    flush: Flush,
    /// The nodes that have not, a bit each.
    unheard: u64,
    /// Keys that came of these since.
    came: Vec<(usize, Vec<u8>)>,
}

/// Flushes that this node heard of.
#[derive(Debug)]
pub(super) struct Flushes {
    /// The session with which this life of the node began, and how many were said here.
    life: u64,
    count: u32,
    /// Of each node, the life and the number of the last that was heard.
    heard: Vec<(u64, u32)>,
    /// One of each node's, at most.
    open: Vec<Open>,
    /// The second in which one is to be said here.
    due: Option<u32>,
}

impl Flushes {
    pub(super) fn new(nodes: usize, life: u64) -> Flushes {
        Flushes {
            life,
            count: 0,
            heard: vec![(0, 0); nodes],
            open: Vec::new(),
            due: None,
        }
    }

    /// A key comes of who serves it.
    pub(super) fn came(&mut self, server: usize, key: &[u8]) {
        for open in &mut self.open {
            if open.unheard & 1 << server != 0 {
                open.came.push((server, key.to_vec()));
            }
        }
    }

    /// A node is gone: what it wrote stays as it is here.
    pub(super) fn lose(&mut self, node: usize) {
        for open in &mut self.open {
            open.unheard &= !(1 << node);
        }
        self.open.retain(|open| open.unheard != 0);
    }

    /// A client of this node's says one.
    pub(super) fn next(&mut self, me: usize) -> Flush {
        self.count += 1;
        Flush {
            by: me as u8,
            life: self.life,
            number: self.count,
        }
    }

    /// One is to be said here in a second, and none that was to be said before; or none at all.
    pub(super) fn set_due(&mut self, second: Option<u32>) {
        self.due = second;
    }

    pub(super) fn is_due(&self, second: u32) -> bool {
        self.due.is_some_and(|due| due <= second)
    }

    /// Whether one is new, where this life of the node that said it is there (0: none is known).
    pub(super) fn is_new(&self, flush: Flush, present: u64) -> bool {
        let Some(last) = self.heard.get(usize::from(flush.by)) else {
            return false;
        };
        let is_of_another = life(flush.life) != life(last.0);
        *last < place(flush) || is_of_another && life(flush.life) == present
    }

    /// A new flush is said; these others are to say it, too.
    pub(super) fn begin(&mut self, flush: Flush, unheard: u64) {
        self.heard[usize::from(flush.by)] = place(flush);
        match self.open.iter_mut().find(|open| open.flush.by == flush.by) {
            // Keys that came before the one before it go with it, too.
            Some(open) => (open.flush, open.unheard) = (flush, unheard),
            None => self.open.push(Open {
                flush,
                unheard,
                came: Vec::new(),
            }),
        }
        self.open.retain(|open| open.unheard != 0);
    }

    /// A node says a flush that is known, or one before it: the keys that came of it before.
    pub(super) fn said(&mut self, flush: Flush, by: usize) -> Vec<Vec<u8>> {
        let Some(open) = (self.open.iter_mut()).find(|open| open.flush.by == flush.by) else {
            return Vec::new();
        };
        if flush.life == open.flush.life && flush.number >= open.flush.number {
            open.unheard &= !(1 << by);
        }
        let of_it = open.came.extract_if(.., |(server, _)| *server == by);
        let keys = of_it.map(|(_, key)| key).collect();
        self.open.retain(|open| open.unheard != 0);
        keys
    }
}

/// Its place among those that are said at its node: in which life, and the how manieth there.
fn place(flush: Flush) -> (u64, u32) {
    (flush.life, flush.number)
}
