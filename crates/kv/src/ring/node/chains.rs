//! How far things are with chains (`chain.rs`).

use rhythm_net::Time;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// A write that is not known to be confirmed.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) batch: u64,
    /// At its head: it is confirmed when all links have this batch; none: when it has passed.
    pub(super) straight: Option<u64>,
    pub(super) key: Vec<u8>,
    pub(super) bytes: usize,
}

/// A range's chain, as a node knows it.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) view: u32,
    /// How many writes this node sent down the chain in this view, or had of it.
    pub(super) passes: u64,
    /// Who may read, as far as is known.
    pub(super) tail: Option<usize>,
    open: VecDeque<Open>,
    /// Bytes of these.
    bytes: usize,
    /// Keys of writes that were not known to be confirmed when another was the head.
    pub(super) before: BTreeSet<Vec<u8>>,
    /// The nodes behind the head, at the head; none: there is no chain.
    pub(super) nodes: Vec<u8>,
    /// When this batch has passed, the last of them may read.
    pub(super) begun: u64,
    /// The nodes that know who reads, a bit each.
    pub(super) told: u64,
    /// When something last passed, and when a chain may begin again.
    pub(super) moved_at: Time,
    pub(super) again_at: Time,
    /// How long that was after the last of which nothing came, and of which nodes that was.
    pub(super) pause: Duration,
    pub(super) tried: Vec<u8>,
    /// The batch with which all others know what they have of it, and that they may not read.
    pub(super) settled: u64,
    /// What is open is to be sent to whoever is to have it now.
    pub(super) is_new: bool,
}

impl Chain {
    pub(super) fn enter(&mut self, view: u32) {
        if view > self.view {
            (self.view, self.passes) = (view, 0);
        }
    }

    /// All up to this batch is confirmed.
    pub(super) fn forget_until(&mut self, batch: u64) {
        while let Some(open) = self.open.front()
            && open.batch <= batch
        {
            self.pop();
        }
    }

    /// Writes that are not known to be confirmed.
    pub(super) fn open(&self) -> &VecDeque<Open> {
        &self.open
    }

    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut Open> {
        self.open.iter_mut()
    }

    pub(super) fn push(&mut self, open: Open) {
        self.bytes += open.bytes;
        self.open.push_back(open);
    }

    /// The first of them is confirmed.
    pub(super) fn pop(&mut self) {
        if let Some(open) = self.open.pop_front() {
            self.bytes -= open.bytes;
        }
    }

    /// What is open of it, where it is known who has copies no more.
    pub(super) fn into_keys(self) -> BTreeSet<Vec<u8>> {
        let mut keys = self.before;
        keys.extend(self.open.into_iter().map(|open| open.key));
        keys.remove(&b""[..]);
        keys
    }

    /// Bytes of writes that this node sent down the chain and that have not passed.
    pub(super) fn bytes(&self) -> usize {
        match self.nodes.is_empty() {
            true => 0,
            false => self.bytes,
        }
    }
}
