//! Flushes that this node heard of, and how far they are (`flush.rs`).
//!
//! What is said at one node comes in its order, whichever way round it comes first: each passes it
//! on in that order. So of each node the last that was heard is known, and no more: all before it
//! were heard, too, or go with it. Of another life of the node it is new if that life comes later,
//! or is the one that is there: a clock that was set back makes it look like an earlier one.

use super::super::wire::Flush;
use super::peer::life;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The last flush of those said at one node, as long as not all have said it.
#[derive(Debug)]
struct Open {
    flush: Flush,
    /// The nodes that have not, a bit each.
    unheard: u64,
    /// Keys that came of these since, and of which of them each came last.
    came: HashMap<Vec<u8>, usize>,
}

/// Flushes that this node heard of.
#[derive(Debug)]
pub(super) struct Flushes {
    /// The session with which this life of the node began, and how many were said here.
    life: u64,
    count: u32,
    /// Of each node, the life and the number of the last that was heard.
    heard: Vec<(u64, u32)>,
    /// By whose flushes, up to which this node has heard of them by who had, and nobody said it.
    early: BTreeMap<u8, (u64, u32)>,
    /// By node, and by whose flushes: the last of these that it heard before all that comes of it.
    since: BTreeMap<(usize, u8), (u64, u32)>,
    /// One of each node's, at most.
    open: Vec<Open>,
    /// Keys that are gone here as soon as this node has read what came.
    gone: BTreeSet<Vec<u8>>,
    /// The batch with which all others know of the last that this node said.
    batch: u64,
    /// The second in which one is to be said here.
    due: Option<u32>,
}

impl Flushes {
    pub(super) fn new(nodes: usize, life: u64) -> Flushes {
        Flushes {
            life,
            count: 0,
            heard: vec![(0, 0); nodes],
            early: BTreeMap::new(),
            since: BTreeMap::new(),
            open: Vec::new(),
            gone: BTreeSet::new(),
            batch: 0,
            due: None,
        }
    }

    /// A key comes of who serves it.
    pub(super) fn came(&mut self, server: usize, key: &[u8]) {
        self.gone.remove(key);
        for open in &mut self.open {
            if open.unheard & 1 << server == 0 {
                // What another wrote of it before is written over.
                open.came.remove(key);
            } else if let Some(last) = open.came.get_mut(key) {
                *last = server;
            } else {
                open.came.insert(key.to_vec(), server);
            }
        }
    }

    /// A node is gone: what it wrote stays as it is here.
    pub(super) fn lose(&mut self, node: usize) {
        self.since.retain(|(of, _), _| *of != node);
        for open in &mut self.open {
            open.unheard &= !(1 << node);
            open.came.retain(|_, server| *server != node);
        }
        self.open.retain(|open| open.unheard != 0);
    }

    /// Takes the keys out of a range that came of whoever served it, and wait for what he says: he
    /// does not serve it any more, and another may have written them since.
    pub(super) fn take(&mut self, is_of_it: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let came = self.open.iter_mut();
        let is_of_it = &is_of_it;
        let taken = came.flat_map(|open| open.came.extract_if(move |key, _| is_of_it(key)));
        taken.map(|(key, _)| key).collect()
    }

    /// These are gone here, unless they come anew before that is done.
    pub(super) fn drop_soon(&mut self, keys: Vec<Vec<u8>>) {
        self.gone.extend(keys);
    }

    pub(super) fn take_gone(&mut self) -> BTreeSet<Vec<u8>> {
        std::mem::take(&mut self.gone)
    }

    /// The last of each node's that was heard here.
    pub(super) fn heard(&self) -> impl Iterator<Item = Flush> {
        let heard = self.heard.iter().enumerate();
        let heard = heard.filter(|(_, (_, number))| *number > 0);
        heard.map(|(by, &(life, number))| Flush {
            by: by as u8,
            life,
            number,
        })
    }

    /// All others know of what was said here, when they have this batch.
    pub(super) fn batch(&self) -> u64 {
        self.batch
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

    /// The nodes that said it, or one behind it, a bit each, where this life of the node at which
    /// it was said is there: what was said in others of its lives was before.
    pub(super) fn said_by(&self, flush: Flush, present: u64) -> u64 {
        let of_it = self.since.iter().filter(|((_, by), _)| *by == flush.by);
        let has_said = of_it.filter(|(_, last)| {
            let is_of_another = life(last.0) != life(flush.life);
            **last >= place(flush) && !(is_of_another && life(flush.life) == present)
        });
        has_said.fold(0, |set, ((node, _), _)| set | 1 << node)
    }

    /// Whether a node is yet to say one that this node said: then it drops all that it has when it
    /// hears of it, and what came of it since stays here.
    pub(super) fn is_unheard_by(&self, node: usize) -> bool {
        self.open.iter().any(|open| open.unheard & 1 << node != 0)
    }

    /// Whether this node has heard of a flush of which another has not said that it did: it may
    /// yet, or have missed it. `present` tells which life of the node at which one was said is
    /// there.
    pub(super) fn is_ahead_of(&self, node: usize, present: impl Fn(Flush) -> u64) -> bool {
        (self.heard()).any(|flush| self.said_by(flush, present(flush)) & 1 << node == 0)
    }

    /// Whether this node took a flush for heard that was not said, and another says it now, who had
    /// not heard.
    pub(super) fn is_early(&self, flush: Flush, present: u64, from: usize) -> bool {
        let early = self.early.get(&flush.by);
        let is_early = early.is_some_and(|last| place(flush) <= *last);
        is_early && self.said_by(flush, present) & 1 << from == 0
    }

    /// One that was not said here counts as heard. Others are told so with a batch.
    pub(super) fn take_for_heard(&mut self, flush: Flush, batch: u64) {
        self.batch = batch;
        self.heard[usize::from(flush.by)] = place(flush);
        self.early.insert(flush.by, place(flush));
    }

    /// A new flush is said with a batch; these others, a bit each, are to say it, too.
    pub(super) fn begin(&mut self, flush: Flush, unheard: u64, batch: u64) {
        self.take_for_heard(flush, batch);
        self.early.remove(&flush.by);
        match self.open.iter_mut().find(|open| open.flush.by == flush.by) {
            // Keys that came before the one before it go with it, too.
            Some(open) => (open.flush, open.unheard) = (flush, unheard),
            None => self.open.push(Open {
                flush,
                unheard,
                came: HashMap::new(),
            }),
        }
        self.open.retain(|open| open.unheard != 0);
    }

    /// How many keys are noted of what came.
    #[cfg(test)]
    pub(super) fn noted(&self) -> usize {
        self.open.iter().map(|open| open.came.len()).sum()
    }

    #[cfg(test)]
    pub(super) fn is_under_way(&self) -> bool {
        !self.open.is_empty()
    }

    /// A node says a flush, or that it heard of it before. Where it is known, or is one before one
    /// that is: the keys that came of it before.
    pub(super) fn said(&mut self, flush: Flush, by: usize) -> Vec<Vec<u8>> {
        let since = self.since.entry((by, flush.by)).or_default();
        // Of another life it is the later one, however that looks.
        let is_of_another = life(since.0) != life(flush.life);
        if is_of_another || *since < place(flush) {
            *since = place(flush);
        }
        let Some(open) = (self.open.iter_mut()).find(|open| open.flush.by == flush.by) else {
            return Vec::new();
        };
        if flush.life == open.flush.life && flush.number >= open.flush.number {
            open.unheard &= !(1 << by);
        }
        let of_it = open.came.extract_if(|_, server| *server == by);
        let keys = of_it.map(|(key, _)| key).collect();
        self.open.retain(|open| open.unheard != 0);
        keys
    }
}

/// Its place among those that are said at its node: in which life, and the how manieth there.
fn place(flush: Flush) -> (u64, u32) {
    (flush.life, flush.number)
}
