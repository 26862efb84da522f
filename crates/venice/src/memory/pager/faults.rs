//! Faults, answered.

use super::state::{Fault, Memory, Pager, SpaceId};
use crate::memory::pages::{Content, NO_SLOT, State};
use crate::memory::space::Fetch;
use crate::memory::store::Whose;
use crate::memory::streams::Ahead;
use crate::memory::uffd::PAGE;
use rustix::io::Errno;
use std::time::Instant;
use tracing::error;

/// Pages of zeros that are brought in at once, at most.
const ZEROS: usize = 32;
/// What a page reads as that nobody wrote.
static ZERO_PAGES: [u8; ZEROS * PAGE] = [0; ZEROS * PAGE];

impl Pager {
    /// Answers a fault, or begins to; false where that has to wait.
    pub(super) fn try_fault(&mut self, id: SpaceId, fault: &Fault) -> bool {
        if fault.page == 0 {
            return self.attach(id, fault);
        }
        let Some(space) = self.memory.spaces.get_mut(&id) else {
            return true;
        };
        let entry = space.pages.get(fault.page);
        let address = space.address(fault.page);
        if fault.protected {
            return match entry.state {
                State::Leaving | State::Discarding => false,
                State::Present => {
                    let result = space.uffd.unprotect(address);
                    if result.is_ok() {
                        let entry = space.pages.at(fault.page);
                        entry.dirty = true;
                        entry.referenced = true;
                        self.memory.figures.written += 1;
                    }
                    result != Err(Errno::AGAIN)
                }
                // It has left since, and the thread will tell again; or, in a child, it is here
                // all the same, since its parent's helper dropped it just after the fork. Waking
                // alone would have that thread come back for ever.
                _ => space.uffd.unprotect(address) != Err(Errno::AGAIN),
            };
        }
        let helper = space.library.as_ref().and_then(|library| library.helper);
        match entry.state {
            State::Discarding => false,
            // Its page was dropped behind our back before it was told to evict it.
            // Who writes it meanwhile waits.
            State::Leaving if helper == Some(fault.thread) => self.put_zeros(id, fault, true),
            State::Leaving => false,
            // Another fault has brought it in, or it was dropped behind our back.
            State::Present => self.put_zeros(id, fault, false),
            State::Zero => {
                let ahead = space.streams.fault(fault.page);
                self.first_touch(id, fault, ahead)
            }
            State::Fetching => {
                if let Some(fetch) = space.fetching.get_mut(&fault.page) {
                    if fetch.awaited.is_none() {
                        self.memory.figures.awaited += 1;
                        fetch.awaited = Some(fault.since);
                    }
                    fetch.write |= fault.write;
                }
                true
            }
            State::Absent => self.memory.has_room(id) && self.return_page(id, fault),
        }
    }

    /// Puts zeros where nothing is; where something is, that stays.
    fn put_zeros(&mut self, id: SpaceId, fault: &Fault, protected: bool) -> bool {
        let Some(space) = self.memory.spaces.get_mut(&id) else {
            return true;
        };
        let address = space.address(fault.page);
        match space
            .uffd
            .copy(address, &ZERO_PAGES[..PAGE], protected)
            .error
        {
            None => {
                space.pages.at(fault.page).dirty = true;
                true
            }
            // It is there, or something else is.
            Some(Errno::EXIST | Errno::NOENT) => {
                space.uffd.wake(address, PAGE as u64) != Err(Errno::AGAIN)
            }
            Some(error) => error != Errno::AGAIN,
        }
    }

    fn first_touch(&mut self, id: SpaceId, fault: &Fault, ahead: Ahead) -> bool {
        if !self.memory.has_room(id) {
            return false;
        }
        let limit = self.memory.limit;
        let Some(space) = self.memory.spaces.get_mut(&id) else {
            return true;
        };
        let room = limit.saturating_sub(space.resident) / 2;
        let wanted = if ahead.step == 1 {
            (ahead.count as usize + 1).min(ZEROS).min(room).max(1)
        } else {
            1
        };
        let is_zero = |page: &u32| {
            let entry = space.pages.get(*page);
            *page < space.pages.count() && entry.state == State::Zero && !entry.maybe
        };
        let more = (fault.page + 1..)
            .take(wanted - 1)
            .take_while(is_zero)
            .count();
        let address = space.address(fault.page);
        let zeros = &ZERO_PAGES[..(more + 1) * PAGE];
        let mut copied = space.uffd.copy(address, zeros, !fault.write);
        if copied.error == Some(Errno::NOENT) && more > 0 {
            // Not all within one mapping.
            copied = space.uffd.copy(address, &zeros[..PAGE], !fault.write);
        }
        for page in (fault.page..).take(copied.pages) {
            space.came(page, fault.write, false);
        }
        space.resident += copied.pages;
        match copied.error {
            _ if copied.pages > 0 => {}
            Some(Errno::AGAIN) => return false,
            Some(Errno::EXIST) => {
                space.came(fault.page, true, false);
                space.resident += 1;
                return space.uffd.wake(address, PAGE as u64) != Err(Errno::AGAIN);
            }
            error => return self.memory.cannot(id, fault.page, error),
        }
        self.memory.figures.first_touches += 1;
        self.memory.figures.times.add(fault.since.elapsed());
        true
    }

    /// Brings in a page that left: from here, or the donor is asked.
    fn return_page(&mut self, id: SpaceId, fault: &Fault) -> bool {
        let Some(space) = self.memory.spaces.get_mut(&id) else {
            return true;
        };
        let slot = space.pages.get(fault.page).slot;
        match self.memory.slots.content(slot) {
            Content::Awaited => false,
            Content::Zeros => {
                let done = self.memory.put(id, fault, &ZERO_PAGES[..PAGE]);
                if done {
                    self.memory.figures.returned += 1;
                }
                done
            }
            Content::Sent => {
                let Some(bytes) = self.memory.store.in_flight(slot) else {
                    return false;
                };
                let done = self.memory.put(id, fault, &bytes[..]);
                if done {
                    self.memory.figures.returned += 1;
                }
                done
            }
            Content::Stored => {
                let ahead = space.streams.fault(fault.page);
                self.memory.figures.fetched += 1;
                self.fetch(id, fault.page, Some(fault));
                self.fetch_ahead(id, fault, ahead);
                true
            }
        }
    }

    fn fetch(&mut self, id: SpaceId, page: u32, fault: Option<&Fault>) {
        let Some(space) = self.memory.spaces.get_mut(&id) else {
            return;
        };
        let entry = space.pages.at(page);
        entry.state = State::Fetching;
        let slot = entry.slot;
        let ticket = self.memory.store.read(slot, (id, page), Instant::now());
        space.resident += 1;
        let fetch = Fetch {
            ticket,
            awaited: fault.map(|fault| fault.since),
            write: fault.is_some_and(|fault| fault.write),
        };
        space.fetching.insert(page, fetch);
    }

    fn fetch_ahead(&mut self, id: SpaceId, fault: &Fault, ahead: Ahead) {
        for number in 1..=ahead.count {
            let Some(space) = self.memory.spaces.get(&id) else {
                return;
            };
            // A little room is for those who wait.
            if space.resident + self.memory.limit / 64 + 1 >= self.memory.limit {
                return;
            }
            let page = i64::from(fault.page) + ahead.step * number;
            let Ok(page) = u32::try_from(page) else {
                return;
            };
            let entry = space.pages.get(page);
            let is_stored = page < space.pages.count()
                && entry.state == State::Absent
                && !entry.maybe
                && self.memory.slots.content(entry.slot) == Content::Stored;
            if is_stored {
                self.memory.figures.fetched_ahead += 1;
                self.fetch(id, page, None);
            }
        }
    }
}

impl Memory {
    /// Whether one more page may come in. A process whose pages cannot be evicted, since it has
    /// not said yet that it is there, is not held up.
    fn has_room(&self, id: SpaceId) -> bool {
        self.spaces
            .get(&id)
            .is_none_or(|space| space.resident < self.limit || space.library.is_none())
    }

    /// Puts a page in for one who waits.
    fn put(&mut self, id: SpaceId, fault: &Fault, bytes: &[u8]) -> bool {
        let limit = self.limit;
        let Some(space) = self.spaces.get_mut(&id) else {
            return true;
        };
        let address = space.address(fault.page);
        let entry = space.pages.get(fault.page);
        let dirty = match space.uffd.copy(address, bytes, !fault.write).error {
            None => fault.write,
            Some(Errno::AGAIN) => return false,
            Some(Errno::EXIST) => {
                if space.uffd.wake(address, PAGE as u64) == Err(Errno::AGAIN) {
                    return false;
                }
                true
            }
            error => return self.cannot(id, fault.page, error),
        };
        let kept = space.left_lately(&entry, limit);
        space.came(fault.page, dirty, kept);
        space.resident += 1;
        self.figures.times.add(fault.since.elapsed());
        true
    }

    /// Puts in a page that the donor was asked for; false where that has to wait.
    pub(super) fn bring(&mut self, (id, page): Whose, ticket: u64, bytes: &[u8]) -> bool {
        let limit = self.limit;
        let Some(space) = self.spaces.get_mut(&id) else {
            return true;
        };
        let Some(fetch) = space
            .fetching
            .get(&page)
            .copied()
            .filter(|fetch| fetch.ticket == ticket)
        else {
            return true;
        };
        let address = space.address(page);
        let dirty = match space.uffd.copy(address, bytes, !fetch.write).error {
            None => fetch.write,
            Some(Errno::AGAIN) => return false,
            Some(Errno::EXIST) => {
                if space.uffd.wake(address, PAGE as u64) == Err(Errno::AGAIN) {
                    return false;
                }
                true
            }
            Some(Errno::NOMEM) => return false,
            error => {
                space.fetching.remove(&page);
                space.resident -= 1;
                space.pages.at(page).state = State::Absent;
                return self.cannot(id, page, error);
            }
        };
        space.fetching.remove(&page);
        let entry = space.pages.get(page);
        let kept = space.left_lately(&entry, limit);
        space.came(page, dirty, kept);
        if let Some(since) = fetch.awaited {
            let time = since.elapsed();
            self.figures.times.add(time);
            self.figures.fetch_times.add(time);
        }
        true
    }

    /// A page cannot be put in. The process is gone, or something else is mapped there by now;
    /// anything else is not to be gone on with.
    fn cannot(&mut self, id: SpaceId, page: u32, error: Option<Errno>) -> bool {
        let Some(space) = self.spaces.get_mut(&id) else {
            return true;
        };
        match error {
            None | Some(Errno::SRCH | Errno::NOENT) => {
                let _ = space.uffd.wake(space.address(page), PAGE as u64);
            }
            Some(Errno::NOMEM) => return false,
            Some(other) => {
                error!("a page of the program cannot be brought in: {other}");
                space.end(&format!(
                    "rhythm venice: a page of this program cannot be brought in: {other}\n"
                ));
            }
        }
        true
    }

    /// Slots that others still wait for, and this page does not need.
    pub(super) fn forget_slot(&mut self, id: SpaceId, page: u32) {
        let Some(space) = self.spaces.get_mut(&id) else {
            return;
        };
        let slot = std::mem::replace(&mut space.pages.at(page).slot, NO_SLOT);
        self.leave_slot(slot);
    }
}
