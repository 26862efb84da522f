//! Pages that leave.

use super::state::{PLACE_BYTES, PLACES, Pager, SpaceId};
use crate::memory::orders::{self, Answer, ORDER_PAGES};
use crate::memory::pages::{Content, NO_SLOT, State};
use crate::memory::space::Batch;
use crate::memory::uffd::PAGE;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use tracing::error;

/// Orders that a helper has at a time.
const BATCHES_MAX: usize = 2;
/// Pages that are sent and not confirmed, at most, when an order is given.
const IN_FLIGHT_MAX: usize = 1024;
/// How long no part of the buffer is free before there is one more.
const SHORT: Duration = Duration::from_millis(200);
/// So many orders in a row, each without effect, and a process cannot be helped.
const STUCK_MAX: u32 = 1000;

impl Pager {
    /// Gives orders where a process has more here than it should, so that who needs a page finds
    /// room.
    pub(super) fn evict_where_due(&mut self, now: Instant) {
        let limit = self.memory.limit;
        let ids: Vec<SpaceId> = self.memory.spaces.keys().copied().collect();
        for id in ids {
            while self.memory.store.in_flight_count() < IN_FLIGHT_MAX {
                let Some(space) = self.memory.spaces.get(&id) else {
                    break;
                };
                let can = space.discard.is_none()
                    && space.batches.len() < BATCHES_MAX
                    && space.library.as_ref().is_some_and(|it| it.helper.is_some());
                let most = &mut self.memory.figures.present_most;
                *most = (*most).max(space.resident as u64);
                let leaving: usize = space.batches.iter().map(|batch| batch.pages.len()).sum();
                let mark = limit - (limit / 16).clamp(1, 256);
                let excess = (space.resident - leaving).saturating_sub(mark);
                if !can || excess == 0 {
                    break;
                }
                let Some(place) = self.place(now) else {
                    break;
                };
                let count = excess.max(limit / 16).clamp(1, ORDER_PAGES);
                if !self.order(id, place, count) {
                    break;
                }
            }
        }
    }

    /// A part of the buffer. Where all have been taken for a while, there is one more: processes
    /// that are stopped keep theirs, and others are to go on.
    fn place(&mut self, now: Instant) -> Option<usize> {
        if let Some(place) = self.places.pop() {
            self.short_since = None;
            return Some(place);
        }
        let since = *self.short_since.get_or_insert(now);
        let most = PLACES + BATCHES_MAX * self.memory.spaces.len();
        if now.duration_since(since) < SHORT || self.places_made >= most {
            return None;
        }
        let place = self.places_made;
        let grown = self.buffer.set_len(((place + 1) * PLACE_BYTES) as u64);
        if let Err(error) = grown {
            error!("the buffer cannot grow: {error}");
            return None;
        }
        self.short_since = None;
        self.places_made += 1;
        Some(place)
    }

    /// Tells a helper to evict pages. False where there are none that can leave now.
    fn order(&mut self, id: SpaceId, place: usize, count: usize) -> bool {
        let limit = self.memory.limit;
        let Some(space) = self.memory.spaces.get_mut(&id) else {
            self.places.push(place);
            return false;
        };
        let mut victims = space.victims(count, limit);
        let mut without_slot = Vec::new();
        victims.retain(|&(page, dirty)| {
            let entry = space.pages.at(page);
            if dirty {
                let own = entry.slot != NO_SLOT && self.memory.slots.users(entry.slot) == 1;
                if !own {
                    if entry.slot != NO_SLOT {
                        self.memory.slots.leave(entry.slot);
                        entry.slot = NO_SLOT;
                    }
                    let Some(slot) = self.memory.slots.take() else {
                        without_slot.push(page);
                        return false;
                    };
                    entry.slot = slot;
                }
                self.memory.store.forget(entry.slot);
                self.memory.slots.set(entry.slot, Content::Awaited);
            }
            entry.state = State::Leaving;
            true
        });
        let is_full = !without_slot.is_empty();
        for page in without_slot {
            space.came(page, true, false);
        }
        if victims.is_empty() {
            self.places.push(place);
            if is_full && space.resident >= limit && space.batches.is_empty() {
                space.stuck += 1;
                // All pages were looked at, and none is the donor's as it is.
                if space.stuck as usize * count > 2 * space.resident + count {
                    space.end(
                        "rhythm venice: this program uses more memory than --local and --remote \
                         have together: give it more\n",
                    );
                    space.stuck = 0;
                    return false;
                }
                return true;
            }
            return false;
        }
        if let Some(library) = &space.library {
            let pages = victims
                .iter()
                .map(|&(page, dirty)| (space.address(page), dirty));
            let offset = (place * PLACE_BYTES) as u64;
            // Where this fails, the process is gone, as its socket will tell.
            let _ = orders::evict(library.orders.as_fd(), offset, pages);
        }
        space.batches.push_back(Batch {
            pages: victims,
            place,
        });
        true
    }

    /// A helper has done what it was told.
    pub(super) fn evicted(&mut self, id: SpaceId, answer: &Answer, now: Instant) {
        let Some(space) = self.memory.spaces.get_mut(&id) else {
            return;
        };
        let Some(batch) = space.batches.pop_front() else {
            return;
        };
        let read = self.copied(&batch);
        let Ok(bytes) = read.inspect_err(|error| error!("the buffer cannot be read: {error}"))
        else {
            if let Some(space) = self.memory.spaces.get_mut(&id) {
                space.end("rhythm venice: pages of this program are lost in the pager\n");
            }
            return;
        };
        let mut copies = bytes.chunks_exact(PAGE);
        let mut left = 0;
        for (number, &(page, dirty)) in batch.pages.iter().enumerate() {
            let copy = if dirty { copies.next() } else { None };
            if answer.done >> number & 1 == 0 {
                self.stays(id, page, dirty);
            } else {
                left += 1;
                self.left(id, page, copy, now);
            }
        }
        let Some(space) = self.memory.spaces.get_mut(&id) else {
            return;
        };
        space.stuck = if left > 0 { 0 } else { space.stuck + 1 };
        if space.stuck > STUCK_MAX {
            error!("no page of the program can be evicted");
            space.end("rhythm venice: no page of this program can be evicted: is all locked?\n");
            space.stuck = 0;
        }
    }

    /// What a helper copied of a batch, whose part of the buffer is free then.
    fn copied(&mut self, batch: &Batch) -> io::Result<Vec<u8>> {
        self.places.push(batch.place);
        let dirty = batch.pages.iter().filter(|(_, dirty)| *dirty).count();
        let mut bytes = vec![0; dirty * PAGE];
        let offset = (batch.place * PLACE_BYTES) as u64;
        self.buffer.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// A process is gone that was evicting pages. A child that was forked meanwhile may need them:
    /// where it has not got one, the helper had dropped it, and had copied it before.
    pub(super) fn leave_behind(&mut self, id: SpaceId) {
        while let Some(batch) = self
            .memory
            .spaces
            .get_mut(&id)
            .and_then(|space| space.batches.pop_front())
        {
            let Ok(bytes) = self.copied(&batch) else {
                continue;
            };
            let dirty = batch.pages.iter().filter(|(_, dirty)| *dirty);
            for (&(page, _), copy) in dirty.zip(bytes.chunks_exact(PAGE)) {
                let slot = self
                    .memory
                    .spaces
                    .get(&id)
                    .map(|space| space.pages.get(page).slot);
                let is_shared =
                    slot.is_some_and(|slot| slot != NO_SLOT && self.memory.slots.users(slot) > 1);
                if is_shared {
                    self.left(id, page, Some(copy), Instant::now());
                }
            }
        }
    }

    /// A page has left, with what was copied of it where the donor may have it otherwise.
    fn left(&mut self, id: SpaceId, page: u32, copy: Option<&[u8]>, now: Instant) {
        let memory = &mut self.memory;
        let Some(space) = memory.spaces.get_mut(&id) else {
            return;
        };
        space.resident -= 1;
        space.evictions = space.evictions.wrapping_add(1);
        memory.figures.evictions += 1;
        let evicted_at = space.evictions;
        let entry = space.pages.at(page);
        entry.evicted_at = evicted_at;
        entry.dirty = false;
        let slot = entry.slot;
        if slot == NO_SLOT {
            entry.state = State::Zero;
            return;
        }
        entry.state = State::Absent;
        let Some(copy) = copy.and_then(|copy| <&[u8; PAGE]>::try_from(copy).ok()) else {
            return;
        };
        if copy.iter().all(|byte| *byte == 0) {
            memory.figures.zeros += 1;
            if memory.slots.users(slot) == 1 {
                entry.state = State::Zero;
                memory.forget_slot(id, page);
            } else {
                memory.slots.set(slot, Content::Zeros);
            }
            return;
        }
        memory.figures.sent += 1;
        memory.store.write(slot, copy, now);
        memory.slots.set(slot, Content::Sent);
    }

    /// A page could not be evicted. Children that were forked since it was told to have it, too.
    fn stays(&mut self, id: SpaceId, page: u32, dirty: bool) {
        let Some(space) = self.memory.spaces.get_mut(&id) else {
            return;
        };
        space.came(page, dirty, false);
        let slot = space.pages.get(page).slot;
        if !dirty || slot == NO_SLOT {
            return;
        }
        let mut users = vec![id];
        for (other, space) in &mut self.memory.spaces {
            let entry = space.pages.get(page);
            if *other != id && entry.slot == slot && entry.state == State::Absent {
                space.resident += 1;
                space.came(page, true, false);
                users.push(*other);
            }
        }
        for user in users {
            self.memory.forget_slot(user, page);
        }
    }
}
