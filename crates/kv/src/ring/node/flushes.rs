//! Flushes that this node heard of, and how far they are (`flush.rs`).

use super::super::wire::Flush;
use std::collections::VecDeque;

/// Flushes that are remembered, and that are under way, at most.
const KNOWN_MAX: usize = 64;

/// A flush that not all have said.
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
    known: VecDeque<Flush>,
    open: VecDeque<Open>,
}

impl Flushes {
    pub(super) fn new(life: u64) -> Flushes {
        Flushes {
            life,
            count: 0,
            known: VecDeque::new(),
            open: VecDeque::new(),
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
    pub(super) fn next(&mut self, me: usize, seconds: u32) -> Flush {
        self.count += 1;
        Flush {
            by: me as u8,
            life: self.life,
            number: self.count,
            seconds,
        }
    }

    pub(super) fn knows(&self, flush: Flush) -> bool {
        self.known.contains(&flush)
    }

    /// A flush is said; these others are to say it, too.
    pub(super) fn begin(&mut self, flush: Flush, unheard: u64) {
        self.known.push_back(flush);
        // What items have left is reckoned by each node's clock: they do not go at one moment.
        if unheard != 0 && flush.seconds == 0 {
            let came = Vec::new();
            self.open.push_back(Open {
                flush,
                unheard,
                came,
            });
        }
        self.known
            .drain(..self.known.len().saturating_sub(KNOWN_MAX));
        self.open.drain(..self.open.len().saturating_sub(KNOWN_MAX));
    }

    /// A node says a flush that is known: the keys that came of it before.
    pub(super) fn said(&mut self, flush: Flush, by: usize) -> Vec<Vec<u8>> {
        let Some(open) = self.open.iter_mut().find(|open| open.flush == flush) else {
            return Vec::new();
        };
        open.unheard &= !(1 << by);
        let of_it = open.came.extract_if(.., |(server, _)| *server == by);
        let keys = of_it.map(|(_, key)| key).collect();
        self.open.retain(|open| open.unheard != 0);
        keys
    }
}
