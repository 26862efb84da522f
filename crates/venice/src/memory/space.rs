//! One process whose pages are looked after.

use super::orders::{self, ORDER_PAGES};
use super::owners;
use super::pages::{NO_SLOT, Page, Pages, Slots, State};
use super::streams::Streams;
use super::uffd::{PAGE, Uffd};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use tracing::warn;

/// How long who was killed has, before that is tried again.
const KILLED: Duration = Duration::from_secs(1);

/// The library in the process.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) orders: OwnedFd,
    pub(super) requests: OwnedFd,
    /// The helper's thread, once it has said so.
    pub(super) helper: Option<u32>,
}

/// Pages that the helper was told to evict.
#[derive(Debug)]
pub(super) struct Batch {
    /// Which, and whether each is put into the buffer.
    pub(super) pages: Vec<(u32, bool)>,
    /// Which part of the buffer they have.
    pub(super) place: usize,
}

/// A page that was asked of the donor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetch {
    /// What the store gave for it.
    pub(super) ticket: u64,
    /// Somebody waits for it, and since when.
    pub(super) awaited: Option<Instant>,
    /// Somebody waits to write it.
    pub(super) write: bool,
}

/// A range whose content the program drops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discard {
    pub(super) first: u32,
    pub(super) end: u32,
}

/// A process: where each of its pages is, and in which order they came.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) uffd: Uffd,
    /// None in a child that has not said yet that it is there, or never will, and in a process
    /// whose helper is gone.
    pub(super) library: Option<Library>,
    /// It is to end, and has no helper that would do that: when it is killed.
    pub(super) killed_at: Option<Instant>,
    /// Its helper was told to end it.
    pub(super) is_ended: bool,
    pub(super) region: u64,
    pub(super) pages: Pages,
    /// Pages that came in for the first time, or again after long, the oldest first.
    pub(super) recent: VecDeque<u32>,
    /// Pages that came back soon after they had left.
    pub(super) kept: VecDeque<u32>,
    /// Pages that are present, leaving or fetched.
    pub(super) resident: usize,
    pub(super) batches: VecDeque<Batch>,
    pub(super) fetching: HashMap<u32, Fetch>,
    /// One that waits for pages that are just leaving.
    pub(super) discard: Option<Discard>,
    pub(super) streams: Streams,
    pub(super) evictions: u32,
    /// Batches in a row of which nothing left.
    pub(super) stuck: u32,
}

impl Space {
    pub(super) fn new(uffd: Uffd, region: u64, pages: Pages) -> Self {
        Self {
            uffd,
            library: None,
            killed_at: None,
            is_ended: false,
            region,
            pages,
            recent: VecDeque::new(),
            kept: VecDeque::new(),
            resident: 0,
            batches: VecDeque::new(),
            fetching: HashMap::new(),
            discard: None,
            streams: Streams::default(),
            evictions: 0,
            stuck: 0,
        }
    }

    pub(super) fn address(&self, page: u32) -> u64 {
        self.region + u64::from(page) * PAGE as u64
    }

    /// The page at an address; none where it is not of the region.
    pub(super) fn page_at(&self, address: u64) -> Option<u32> {
        let page = address.checked_sub(self.region)? / PAGE as u64;
        (page < self.pages.count().into()).then_some(page as u32)
    }

    /// The pages of a range of addresses, as far as they are of the region.
    pub(super) fn pages_of(&self, address: u64, bytes: u64) -> Discard {
        let count = u64::from(self.pages.count());
        let first = address.saturating_sub(self.region) / PAGE as u64;
        let end = address.saturating_add(bytes).saturating_sub(self.region);
        Discard {
            first: first.min(count) as u32,
            end: end.div_ceil(PAGE as u64).min(count) as u32,
        }
    }

    /// Takes note that a page is present that is counted as resident already.
    pub(super) fn came(&mut self, page: u32, dirty: bool, kept: bool) {
        let entry = self.pages.at(page);
        entry.state = State::Present;
        entry.dirty = dirty;
        entry.referenced = false;
        entry.maybe = false;
        if !entry.queued {
            entry.queued = true;
            if kept {
                self.kept.push_back(page);
            } else {
                self.recent.push_back(page);
            }
        }
    }

    /// Whether a page that comes back left so lately that a little more room would have kept it
    /// (the refault distance, as of Linux's workingset.c).
    pub(super) fn left_lately(&self, page: &Page, limit: usize) -> bool {
        (self.evictions.wrapping_sub(page.evicted_at) as usize) < limit
    }

    /// Pages to evict, at most `count`, the ones that came first. A page that was written since it
    /// came, and those that came back soon, get a second chance.
    pub(super) fn victims(&mut self, count: usize, limit: usize) -> Vec<(u32, bool)> {
        let count = count.min(ORDER_PAGES);
        let mut victims = Vec::with_capacity(count);
        let mut looks = 4 * count + 16;
        while victims.len() < count && looks > 0 {
            looks -= 1;
            let from_kept = self.kept.len() > limit * 3 / 4 || self.recent.is_empty();
            let queue = if from_kept {
                &mut self.kept
            } else {
                &mut self.recent
            };
            let Some(page) = queue.pop_front() else { break };
            let entry = self.pages.at(page);
            if entry.state != State::Present {
                entry.queued = false;
            } else if entry.referenced {
                entry.referenced = false;
                queue.push_back(page);
            } else {
                entry.queued = false;
                victims.push((page, entry.dirty));
            }
        }
        victims.sort_unstable();
        victims
    }

    /// What a child has that is forked now: its pages, with the slots that they share.
    pub(super) fn fork(&self, uffd: Uffd, slots: &mut Slots) -> Self {
        let mut child = Self::new(uffd, self.region, Pages::new(self.pages.count() as usize));
        child.evictions = self.evictions;
        let mut resident = 0;
        self.pages.each(|index, page| {
            let mut entry = Page {
                queued: false,
                referenced: false,
                ..*page
            };
            match page.state {
                State::Present if page.dirty => entry.slot = NO_SLOT,
                State::Present | State::Zero | State::Absent => {}
                State::Fetching => entry.state = State::Absent,
                State::Leaving => {
                    entry.state = match entry.slot {
                        NO_SLOT => State::Zero,
                        _ => State::Absent,
                    };
                    entry.dirty = false;
                    entry.maybe = true;
                }
                State::Discarding => {
                    entry.state = State::Zero;
                    entry.slot = NO_SLOT;
                    entry.maybe = true;
                }
            }
            if entry.state == State::Zero && !entry.maybe {
                return;
            }
            if entry.slot != NO_SLOT {
                slots.share(entry.slot);
            }
            if entry.state == State::Present {
                resident += 1;
                entry.queued = true;
            }
            *child.pages.at(index) = entry;
        });
        child.resident = resident;
        // In the order in which they came to the parent.
        let is_present = |page: &&u32| self.pages.get(**page).state == State::Present;
        child.recent = self.recent.iter().filter(is_present).copied().collect();
        child.kept = self.kept.iter().filter(is_present).copied().collect();
        child
    }

    /// Whether nobody has this memory any more.
    pub(super) fn is_gone(&self) -> bool {
        self.uffd.unprotect(self.region) == Err(Errno::SRCH)
    }

    /// Ends the process: by its helper, or, where it has none,
    /// [`kill_where_due`](Self::kill_where_due) does.
    pub(super) fn end(&mut self, why: &str) {
        match &self.library {
            Some(library) if !self.is_ended => {
                // A helper that has so much to read already is told when this is called again.
                self.is_ended = orders::end(library.orders.as_fd(), why).is_ok();
            }
            Some(_) => {}
            None => {
                self.killed_at.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Kills who has this memory, where it is time for that.
    pub(super) fn kill_where_due(&mut self, now: Instant) {
        if self.library.is_some() || self.killed_at.is_none_or(|at| at > now) {
            return;
        }
        self.killed_at = Some(now + KILLED);
        match owners::find(&self.uffd, self.region) {
            Ok(processes) => {
                let count = processes.len();
                warn!("{count} processes are killed that have no thread to end them");
                for process in processes {
                    // It may have ended.
                    let _ = pidfd_send_signal(process, Signal::KILL);
                }
            }
            Err(error) => warn!("a process is not found that is to end: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
    use rustix::net::{recv, send, socketpair};
    use std::fs::File;

    #[test]
    fn a_helper_is_told_once_and_not_waited_for() {
        let pair = || {
            let (family, flags) = (AddressFamily::UNIX, SocketFlags::empty());
            socketpair(family, SocketType::SEQPACKET, flags, None).unwrap()
        };
        let ((orders, helper), (requests, _threads)) = (pair(), pair());
        let full = orders.try_clone().unwrap();
        while send(&full, &[0; 5], SendFlags::DONTWAIT).is_ok() {}
        let uffd = OwnedFd::from(File::open("/dev/null").unwrap());
        let mut space = Space::new(uffd.into(), 0, Pages::new(1));
        space.library = Some(Library {
            orders,
            requests,
            helper: None,
        });
        let take = || {
            let mut part = [0; 64];
            recv(&helper, &mut part, RecvFlags::DONTWAIT).map(|(bytes, _)| bytes)
        };
        space.end("why");
        while take().is_ok_and(|bytes| bytes == 5) {}
        assert!(!space.is_ended, "there was no room");
        space.end("why");
        space.end("why");
        assert_eq!(take(), Ok(16 + 3));
        assert_eq!(take(), Err(Errno::AGAIN));
    }
}
