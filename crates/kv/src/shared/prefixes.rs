//! Counts by the prefix of keys: what is in front of the delimiter (`-D`, `stats detail`).
//!
//! Off unless asked for; then every command meets all others at one lock, as in memcached.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Prefixes that are counted; others, that come later, are not.
const PREFIXES_MAX: usize = 65_536;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// The counts of all prefixes.
#[derive(Debug)]
pub struct Prefixes {
    delimiter: u8,
    is_on: AtomicBool,
    counts: Mutex<HashMap<Arc<[u8]>, Counts>>,
}

impl Prefixes {
    /// Nothing is counted yet.
    pub fn new(delimiter: u8, is_on: bool) -> Prefixes {
        Prefixes {
            delimiter,
            is_on: AtomicBool::new(is_on),
            counts: Mutex::default(),
        }
    }

    /// Whether they are counted.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether they are counted from now on.
    pub fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }

    /// A key was fetched.
    #[inline]
    pub fn fetched(&self, key: &[u8], is_hit: bool) {
        self.count(key, |counts| {
            counts.gets += 1;
            counts.hits += u64::from(is_hit);
        });
    }

    /// A value was to be stored.
    #[inline]
    pub fn stored(&self, key: &[u8]) {
        self.count(key, |counts| counts.sets += 1);
    }

    /// An item was to be dropped.
    #[inline]
    pub(crate) fn deleted(&self, key: &[u8]) {
        self.count(key, |counts| counts.deletes += 1);
    }

    #[inline]
    fn count(&self, key: &[u8], count: impl FnOnce(&mut Counts)) {
        if self.is_on() {
            self.count_prefix(key, count);
        }
    }

    #[cold]
    fn count_prefix(&self, key: &[u8], count: impl FnOnce(&mut Counts)) {
        // As in memcached, a zero byte ends what is looked at.
        let is_end = |byte: &u8| *byte == self.delimiter || *byte == 0;
        let Some(length) = key.iter().position(is_end) else {
            return;
        };
        let prefix = match key[length] {
            byte if byte == self.delimiter => &key[..length],
            _ => return,
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = counts.get_mut(prefix) {
            count(counts);
        } else if counts.len() < PREFIXES_MAX {
            count(counts.entry(prefix.into()).or_default());
        }
    }

    /// Forgets all counts.
    pub fn clear(&self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clear();
    }

    /// What there is. Every command waits for the lock: nothing but copying is done under it.
    fn copy(&self) -> Vec<(Arc<[u8]>, Counts)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let all = counts.iter();
        all.map(|(prefix, counts)| (Arc::clone(prefix), *counts))
            .collect()
    }

    /// Appends a line for each prefix, in their order, and `END`.
    pub(crate) fn dump(&self, out: &mut Vec<u8>) {
        let mut sorted = self.copy();
        sorted.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (prefix, counts) in sorted {
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(&prefix);
            let Counts {
                gets,
                hits,
                sets,
                deletes,
            } = counts;
            let line = format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n");
            out.extend_from_slice(line.as_bytes());
        }
        out.extend_from_slice(b"END\r\n");
    }
}
