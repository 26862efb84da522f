//! What segments are used for, as it is told to who watches the store.

use super::Segments;
use std::sync::atomic::Ordering;

/// How many segments there are of which kind, and how full the sealed ones are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occupancy {
    /// Bytes of a segment.
    pub(crate) segment_bytes: u64,
    /// Segments that items are written into, or taken out of, now.
    pub(crate) open: u32,
    /// Full ones.
    pub(crate) sealed: u32,
    /// Ones without items, which readers may still look at.
    pub(crate) retired: u32,
    /// Ones that may be opened.
    pub(crate) free: u32,
    /// Bytes in sealed segments of items that the table refers to ...
    pub(crate) live_bytes: u64,
    /// ... and of items that were replaced, dropped or moved.
    pub(crate) dead_bytes: u64,
    /// Bytes of long values, which lie elsewhere.
    pub(crate) large_bytes: u64,
}

impl Segments {
    /// What they are used for now. Others go on meanwhile, so it is not of one moment.
    pub(in crate::store) fn occupancy(&self) -> Occupancy {
        let pool = self.pool();
        let (used, retired) = (pool.used(), pool.retired());
        let free = pool.available(self.allowed());
        // There may be tens of thousands: they are looked at without the lock.
        let sealed: Vec<u32> = pool.sealed_ones().collect();
        drop(pool);
        let bytes = |units: u32| u64::from(units) << self.unit;
        let (mut live_bytes, mut dead_bytes) = (0, 0);
        for &index in &sealed {
            let segment = &self.segments[index as usize];
            let used = segment.used();
            let dead = segment.dead().min(used);
            live_bytes += bytes(used - dead);
            dead_bytes += bytes(dead);
        }
        let sealed = sealed.len() as u32;
        Occupancy {
            segment_bytes: self.segment_bytes() as u64,
            open: used - sealed - retired,
            sealed,
            retired,
            free,
            live_bytes,
            dead_bytes,
            large_bytes: self.large.load(Ordering::Relaxed) as u64,
        }
    }
}
