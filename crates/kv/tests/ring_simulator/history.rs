//! What is known of each key, and what a read of it may find.
//!
//! A key has one client, who writes it in one order. So a read may find the last write that was
//! acknowledged, or one sent after it that was not (yet); one of which nobody knows what became of
//! it may come about for a while, and behind whatever was asked before that is over, though it be
//! answered later. Where writes may be lost (no acknowledgments of replicas, or more
//! nodes died at a time than copies allow), a read may find any value that was ever written.

use std::collections::{BTreeMap, BTreeSet};

/// How long after it is given up a command may still be executed, in microseconds: frames are under
/// way for a time.
const FLOATS: u64 = 2_000_000;

/// The number of a write; its value is made of it. 0 is that there is nothing, at first.
pub(crate) type Write = u64;

#[derive(Debug, Default)]
pub(crate) struct History {
    /// What may be there, by number: greater ones came later.
    possible: BTreeSet<Write>,
    /// Given up, and until when they may come about.
    floating: Vec<(Write, u64)>,
    ever: BTreeSet<Write>,
    /// Writes that say that there is nothing.
    deletes: BTreeSet<Write>,
    acknowledged: Write,
    /// The last read: who served it, and the write it found.
    seen: Option<((u64, u8), Write)>,
    /// The last that was read or answered at each node that has a copy, and whose copy it was.
    seen_at: BTreeMap<usize, ((u64, u8), Write)>,
}

impl History {
    pub(crate) fn new() -> History {
        History {
            possible: BTreeSet::from([0]),
            ever: BTreeSet::from([0]),
            deletes: BTreeSet::from([0]),
            ..History::default()
        }
    }

    pub(crate) fn sent(&mut self, write: Write, is_delete: bool) {
        self.possible.insert(write);
        self.ever.insert(write);
        if is_delete {
            self.deletes.insert(write);
        }
    }

    /// A write is known to be there, by the answer to what was asked then.
    pub(crate) fn acknowledged(&mut self, write: Write, asked: u64) {
        // What came about late is there until something else is known to be.
        (self.floating).retain(|(float, until)| *until > asked || *float == write);
        self.acknowledged = self.acknowledged.max(write);
        let (acknowledged, floating) = (self.acknowledged, &self.floating);
        self.possible.retain(|other| {
            *other >= acknowledged || floating.iter().any(|(float, _)| float == other)
        });
    }

    /// It was not done, and will not be.
    pub(crate) fn not_done(&mut self, write: Write) {
        for writes in [&mut self.possible, &mut self.ever, &mut self.deletes] {
            writes.remove(&write);
        }
    }

    pub(crate) fn given_up(&mut self, write: Write, now: u64) {
        self.floating.push((write, now + FLOATS));
    }

    /// From now on anything that was ever written may be there.
    pub(crate) fn lose(&mut self) {
        self.possible = self.ever.clone();
        self.acknowledged = 0;
        self.seen = None;
        self.seen_at.clear();
    }

    /// A read, served under this claim, found this (0: nothing). What is wrong with it.
    pub(crate) fn read(&mut self, found: Option<Write>, claim: (u64, u8)) -> Result<(), String> {
        self.read_late(found)?;
        if let (Some(write), Some((before, last))) = (found, self.seen)
            && before == claim
            && write < last
            && !self.floating.iter().any(|(float, _)| *float == write)
        {
            return Err(format!("found {write} after {last}, {self:?}"));
        }
        if let Some(write) = found {
            self.seen = Some((claim, write));
        }
        Ok(())
    }

    /// A read of a node's copy of what is served under this claim found this. Where `is_acked`, a
    /// write that was acknowledged is in all copies that are read; else they may be behind.
    pub(crate) fn read_copy(
        &mut self,
        found: Option<Write>,
        (node, claim): (usize, (u64, u8)),
        is_acked: bool,
    ) -> Result<(), String> {
        if is_acked {
            self.read_late(found)?;
        }
        let Some(write) = found else {
            return Ok(());
        };
        if !self.ever.contains(&write) || self.deletes.contains(&write) {
            return Err(format!("found {write}, which was never written"));
        }
        if let Some((before, last)) = self.seen_at.get(&node)
            && *before == claim
            && write < *last
            && !self.floating.iter().any(|(float, _)| *float == write)
        {
            return Err(format!("found {write} after {last} at {node}, {self:?}"));
        }
        self.seen_at.insert(node, (claim, write));
        Ok(())
    }

    /// A write was answered at a node that may have a copy of what is served under this claim.
    pub(crate) fn answered_at(&mut self, node: usize, claim: (u64, u8), write: Write) {
        let seen = self.seen_at.entry(node).or_insert((claim, write));
        if seen.0 != claim || seen.1 < write {
            *seen = (claim, write);
        }
    }

    /// A read that was under way for a while: by whom it was served is not known.
    pub(crate) fn read_late(&self, found: Option<Write>) -> Result<(), String> {
        let is_possible = match found {
            Some(write) => self.possible.contains(&write) && !self.deletes.contains(&write),
            None => self.possible.intersection(&self.deletes).next().is_some(),
        };
        match is_possible {
            true => Ok(()),
            false => Err(format!("found {found:?}, {self:?}")),
        }
    }
}
