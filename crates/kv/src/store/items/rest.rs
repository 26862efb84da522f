//! Items that come to rest in a memory file, and are found there again.
//!
//! Which of the items in a segment is one that a key has, only the table knows. So before it ends,
//! all others are given an expiry that has passed; then what is in the segments says it all, and
//! the next table is made of that. Long values, which lie elsewhere, are written one behind the
//! other into the segments that are free, in the order of their items: as they count as segments
//! do, there is room for them.

use super::{AtomicBool, Hash, Items, Ordering, Reclaim};
use crate::store::memory_file::MemoryFile;
use crate::store::meta::{Rest, Unkept};
use crate::store::segments::{AtRest, GONE, Item};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::io;

/// No item has fewer bytes.
const ITEM_MIN: usize = 20;
/// How far ahead the buckets of items are loaded.
const AHEAD: usize = 8;

/// Why items are not left in the memory file.
#[derive(Debug, thiserror::Error)]
pub enum NotLeft {
    /// There is no such file.
    #[error("the store has no memory file")]
    NoFile,
    /// There are workers.
    #[error("the store is used still")]
    InUse,
    /// A thread ended in the midst of it.
    #[error("a thread failed while it was writing an item")]
    Unfinished,
    /// The system.
    #[error("what is beside it cannot be written: {0}")]
    System(#[from] io::Error),
}

/// What was found again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Found {
    pub(in crate::store) items: u64,
    /// With what they cost beside key and value.
    pub(in crate::store) bytes: u64,
}

/// An item of a segment: where it lies, and the units it takes.
struct Lying {
    location: u32,
    units: u32,
    hash: Hash,
}

impl Items {
    /// Nobody has a seat, or will have one. False: somebody has.
    pub(in crate::store) fn close(&self) -> bool {
        let take = |seat: &&AtomicBool| !seat.swap(true, Ordering::Acquire);
        let taken = self.seats.iter().take_while(take).count();
        let all = taken == self.seats.len();
        if !all {
            (self.seats[..taken].iter()).for_each(|seat| seat.store(false, Ordering::Release));
        }
        all
    }

    /// Leaves the items in the file; the second number are long values that found no room. They
    /// are [closed](Self::close), and of no use from then on.
    pub(in crate::store) fn rest(
        &self,
        reclaim: &Reclaim,
        file: &MemoryFile,
    ) -> Result<(Rest, u64), NotLeft> {
        let victim = reclaim.victim.as_ref().map(|victim| victim.segment);
        let segments = self.segments.at_rest(victim, &reclaim.destinations);
        let segments = segments.ok_or(NotLeft::Unfinished)?;
        let mut long = LongValues::new(self, file, &segments);
        let (mut rest, mut lost) = (Rest::default(), 0);
        let mut buffer = Vec::new();
        for of in segments {
            let items = self.lying(of).ok_or(NotLeft::Unfinished)?;
            for (at, lying) in items.iter().enumerate() {
                if let Some(next) = items.get(at + AHEAD) {
                    self.table.prefetch(next.hash);
                }
                match self.leave(lying, &mut long)? {
                    Some(true) => rest.items += 1,
                    Some(false) => lost += 1,
                    None => {}
                }
            }
            let (at, bytes) = self.place(of);
            let checksum = file.checksum(at, bytes, &mut buffer)?;
            rest.segments.push((of, checksum));
        }
        rest.long = long.sum();
        Ok((rest, lost))
    }

    /// Leaves an item: whether it stays. None: it was dead before.
    fn leave(&self, lying: &Lying, long: &mut LongValues<'_>) -> io::Result<Option<bool>> {
        // SAFETY: it was found to lie there, in a segment that nobody uses any more.
        let item = unsafe { self.segments.item(lying.location) };
        let mut locked = self.table.lock(lying.hash);
        let slot = locked.find(|location| location == lying.location);
        let is_live = slot.is_some() && item.expires() != GONE;
        let mut stays = is_live;
        if let Some(slot) = slot
            && !item.is_here()
        {
            locked.remove(slot);
            // SAFETY: it left the table just now, and as there are no seats, there are no guards.
            let large = unsafe { self.segments.leave_large(item) };
            if let Some(large) = large.filter(|_| is_live) {
                stays = long.write(&large)?;
            }
        }
        if !stays {
            item.set_expires(GONE);
        }
        Ok(is_live.then_some(stays))
    }

    /// Finds the items again that were left in the file, as far as they are `valid`: for items
    /// that nobody uses yet, and that are of no use where it fails.
    pub(in crate::store) fn find_again(
        &self,
        rest: &Rest,
        file: &MemoryFile,
        is_valid: impl Fn(&Item<'_>) -> bool,
    ) -> Result<Found, Unkept> {
        let damaged = || Unkept::Damaged("its items");
        let segments: Vec<AtRest> = rest.segments.iter().map(|(of, _)| *of).collect();
        if !self.segments.are_possible(&segments) {
            return Err(damaged());
        }
        self.make_slots(rest.items, &segments);
        let mut long = LongValues::new(self, file, &segments);
        let mut found = Found::default();
        let mut buffer = Vec::new();
        for (of, checksum) in &rest.segments {
            let (at, bytes) = self.place(*of);
            if file.checksum(at, bytes, &mut buffer)? != *checksum {
                return Err(damaged());
            }
            // What they hold is noted as they are found; what is dead, at the end.
            self.segments.take_up(*of);
            let items = self.lying(*of).ok_or_else(damaged)?;
            let mut dead = 0;
            for (at, lying) in items.iter().enumerate() {
                if let Some(next) = items.get(at + AHEAD) {
                    self.table.prefetch(next.hash);
                }
                match self.put_back(lying, &mut long, rest.long.0, &is_valid)? {
                    Some(bytes) => {
                        found.items += 1;
                        found.bytes += bytes;
                    }
                    None => dead += lying.units,
                }
            }
            self.segments.add_dead(*of, dead);
        }
        if long.sum() != rest.long {
            return Err(damaged());
        }
        self.segments.begin_with(&segments);
        Ok(found)
    }

    /// Puts an item into the table, and tells its bytes. None: it is not valid.
    fn put_back(
        &self,
        lying: &Lying,
        long: &mut LongValues<'_>,
        long_bytes: u64,
        is_valid: &impl Fn(&Item<'_>) -> bool,
    ) -> Result<Option<u64>, Unkept> {
        // SAFETY: it was found to lie there, in a segment that nobody uses yet.
        let item = unsafe { self.segments.item(lying.location) };
        if item.expires() == GONE {
            return Ok(None);
        }
        let mut locked = self.table.lock(lying.hash);
        let is_there = locked.find(|other| {
            // SAFETY: it was put into the table before.
            unsafe { self.segments.item(other) }.key() == item.key()
        });
        let is_long = !item.is_here();
        if is_there.is_some() || is_long && item.large_left() as u64 > long_bytes - long.at {
            return Err(Unkept::Damaged("its items"));
        }
        // With slots made for all there is one, but for keys that somebody chose.
        let slot = is_valid(&item).then(|| locked.vacancy(self)).flatten();
        let Some(slot) = slot else {
            if is_long {
                long.pass(item.large_left())?;
            }
            return Ok(None);
        };
        if is_long {
            let fill = |bytes: &mut [u8]| long.read(bytes);
            // SAFETY: nobody uses its segment, and it was left without.
            if !unsafe { self.segments.put_back_large(item, fill) }? {
                return Err(Unkept::Memory);
            }
        }
        locked.fill(slot, lying.location);
        self.segments.note(lying.location, item);
        Ok(Some(item.size() as u64))
    }

    /// What lies in a segment that nobody uses; none where it cannot be items.
    fn lying(&self, of: AtRest) -> Option<Vec<Lying>> {
        let (mut at, end) = self.segments.locations(of);
        let mut all = Vec::new();
        while at < end {
            // SAFETY: there are no seats yet, or none any more, so the segment is nobody's.
            let (item, units) = unsafe { self.segments.item_left(at, end) }?;
            all.push(Lying {
                location: at,
                units,
                hash: self.secret.hash(item.key()),
            });
            at += units;
        }
        Some(all)
    }

    /// Where the items of a segment are in the heap, and how many bytes of it they are.
    fn place(&self, of: AtRest) -> (usize, usize) {
        let (start, end) = self.segments.locations(of);
        let unit = self.segments.layout().unit;
        ((start as usize) << unit, ((end - start) as usize) << unit)
    }

    /// Makes the table as large as it would be with so many items, if they can be in there.
    fn make_slots(&self, items: u64, segments: &[AtRest]) {
        let units = segments.iter().map(|of| u64::from(of.used)).sum::<u64>();
        let most = items.min(units / u64::from(self.segments.units(ITEM_MIN)));
        while self.table.slots() * 3 < most * 4 && self.table.grow(self) {}
    }
}

/// The bytes of all long values, one behind the other, in the segments that are free.
struct LongValues<'f> {
    file: &'f MemoryFile,
    free: Vec<u32>,
    segment_bytes: usize,
    at: u64,
    sum: SipHasher13,
}

impl<'f> LongValues<'f> {
    fn new(items: &Items, file: &'f MemoryFile, used: &[AtRest]) -> LongValues<'f> {
        LongValues {
            file,
            free: items.segments.beside(used),
            segment_bytes: items.segments.layout().segment_bytes(),
            at: 0,
            sum: SipHasher13::new_with_keys(0x6c6f_6e67_2076_616c, 0x7565_7320_6865_7265),
        }
    }

    /// How many bytes there are, and their checksum.
    fn sum(&self) -> (u64, u64) {
        (self.at, self.sum.finish())
    }

    /// Where what comes next lies in the heap, and how many bytes may be there.
    fn place(&self) -> Option<(usize, usize)> {
        let at = usize::try_from(self.at).ok()?;
        let (segment, within) = (at / self.segment_bytes, at % self.segment_bytes);
        let start = *self.free.get(segment)? as usize * self.segment_bytes;
        Some((start + within, self.segment_bytes - within))
    }

    /// Writes one. False: there is no room.
    fn write(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let room = (self.free.len() * self.segment_bytes) as u64 - self.at;
        if bytes.len() as u64 > room {
            return Ok(false);
        }
        let mut left = bytes;
        while let Some((at, most)) = self.place().filter(|_| !left.is_empty()) {
            let (piece, rest) = left.split_at(most.min(left.len()));
            self.file.write(at, piece)?;
            self.at += piece.len() as u64;
            left = rest;
        }
        self.sum.write(bytes);
        Ok(true)
    }

    /// Reads the next one.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut left = &mut *bytes;
        while !left.is_empty() {
            let (at, most) = self.place().ok_or(io::ErrorKind::UnexpectedEof)?;
            let (piece, rest) = left.split_at_mut(most.min(left.len()));
            self.file.read(at, piece)?;
            self.at += piece.len() as u64;
            left = rest;
        }
        self.sum.write(bytes);
        Ok(())
    }

    /// Passes over the next one.
    fn pass(&mut self, length: usize) -> io::Result<()> {
        let mut piece = [0; 4096];
        let mut left = length;
        while left > 0 {
            let now = left.min(piece.len());
            self.read(&mut piece[..now])?;
            left -= now;
        }
        Ok(())
    }
}
