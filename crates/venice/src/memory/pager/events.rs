//! What processes do to their memory: they fork, drop ranges, and end.

use super::state::{Fault, Forked, Pager, SpaceId};
use crate::memory::orders::{self, Received, Request};
use crate::memory::pages::{NO_SLOT, Page, State};
use crate::memory::space::{Discard, Library, Space};
use crate::memory::uffd::{Event, PAGE, Uffd};
use rhythm_net::clock;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// Pages that the donor is told of when they are not needed any more, at least.
const FREED_MIN: usize = 16;
/// How long a process may go on whose helper is gone.
const ENDING: Duration = Duration::from_secs(5);
/// Children that have said that they are there and were not met yet, at most.
const FORKED_MAX: usize = 1024;

impl Pager {
    /// Reads what happened in a process, and answers its faults.
    pub(super) fn read_events(&mut self, id: SpaceId, now: Instant) {
        let Some(space) = self.memory.spaces.get(&id) else {
            return;
        };
        let mut events = std::mem::take(&mut self.events);
        let read = space.uffd.read(&mut events);
        // A child without the library tells in no other way that it is gone.
        if space.library.is_none() && events.is_empty() && space.is_gone() {
            self.memory.remove(id);
        } else if let Err(error) = read {
            self.cannot_read(&error);
        }
        for event in events.drain(..) {
            match event {
                Event::Fault {
                    address,
                    write,
                    protected,
                    thread,
                } => {
                    let space = self.memory.spaces.get(&id);
                    let Some(page) = space.and_then(|space| space.page_at(address)) else {
                        continue;
                    };
                    let fault = Fault {
                        page,
                        byte: (address % PAGE as u64) as u32,
                        write,
                        protected,
                        thread,
                        since: now,
                    };
                    if !protected && page != 0 {
                        self.memory.figures.faults += 1;
                    }
                    if !self.try_fault(id, &fault) {
                        self.defer(id, fault);
                    }
                }
                Event::Fork(uffd) => self.forks(id, uffd),
            }
        }
        self.events = events;
    }

    /// The kernel tells of no fault: where there is no descriptor for a child's, who forks waits.
    fn cannot_read(&mut self, error: &io::Error) {
        if self.untold.line(clock::monotonic()).is_some() {
            warn!("a page fault or a fork waits: {error}; is there a limit (ulimit -n)?");
        }
        // It is tried again at once.
        std::thread::sleep(Duration::from_millis(1));
    }

    /// Puts a fault off. A thread whose wait a signal ends tells of it again and again.
    fn defer(&mut self, id: SpaceId, fault: Fault) {
        let known = self.deferred.iter_mut().find(|(space, known)| {
            *space == id
                && (known.page, known.protected) == (fault.page, fault.protected)
                // A child's first page tells by its byte which child it is.
                && (fault.page != 0 || known.byte == fault.byte)
        });
        match known {
            Some((_, known)) => known.write |= fault.write,
            None => self.deferred.push((id, fault)),
        }
    }

    fn forks(&mut self, id: SpaceId, uffd: Uffd) {
        let memory = &mut self.memory;
        let Some(space) = memory.spaces.get(&id) else {
            return;
        };
        let child: Space = space.fork(uffd, &mut memory.slots);
        memory.figures.forks += 1;
        memory.spaces.insert(self.next_space, child);
        self.next_space += 1;
    }

    /// A child touches its first page, to tell which of the processes it is.
    pub(super) fn attach(&mut self, id: SpaceId, fault: &Fault) -> bool {
        let Some(space) = self.memory.spaces.get_mut(&id) else {
            return true;
        };
        let copied = space.uffd.copy(space.region, &[0; PAGE], false);
        match copied.error {
            Some(Errno::AGAIN) => return false,
            // It is gone, and what came of it may be another's by now.
            Some(Errno::SRCH) => return true,
            _ => {}
        }
        let found = self.forked.iter().position(|it| it.byte == fault.byte);
        let Some(found) = found.filter(|_| space.library.is_none()) else {
            // It reads where nothing is for it to read.
            return true;
        };
        let library = self.forked.remove(found).library;
        let attached = orders::attach(
            library.orders.as_fd(),
            space.uffd.as_fd(),
            self.buffer.as_fd(),
        );
        if let Err(error) = attached {
            debug!("a child is gone: {error}");
        }
        space.library = Some(library);
        true
    }

    /// Reads what a process's helper did.
    pub(super) fn read_answers(&mut self, id: SpaceId, now: Instant) {
        loop {
            let Some(library) = self
                .memory
                .spaces
                .get_mut(&id)
                .and_then(|it| it.library.as_mut())
            else {
                return;
            };
            match orders::receive_answer(library.orders.as_fd()) {
                Received::Message(answer) => {
                    library.helper = Some(answer.thread);
                    if answer.evicted {
                        self.evicted(id, &answer, now);
                    }
                }
                Received::Nothing => return,
                Received::End => {
                    self.helper_gone(id, now);
                    return;
                }
                Received::Nonsense => {
                    warn!("the program's library does not say what it should");
                    return;
                }
            }
        }
    }

    /// A process ends, most likely. Until it has, a thread of it that is in the kernel, or who
    /// shares its memory otherwise, is to read no zeros.
    fn helper_gone(&mut self, id: SpaceId, now: Instant) {
        self.leave_behind(id);
        let Some(space) = self.memory.spaces.get_mut(&id) else {
            return;
        };
        // A child that it forked last may not have said yet that it is there.
        self.orphaned
            .extend(space.library.take().map(|library| library.requests));
        space.killed_at = Some(now + ENDING);
        if space.is_gone() {
            self.memory.remove(id);
        }
    }

    /// Reads what children of processes say that are gone.
    pub(super) fn read_orphaned(&mut self) {
        let mut kept = Vec::new();
        for socket in std::mem::take(&mut self.orphaned) {
            loop {
                match orders::receive_request(socket.as_fd()) {
                    Received::Message(Request::Forked { orders, requests }) => {
                        self.note_forked(orders, requests);
                    }
                    Received::Message(_) | Received::Nonsense => {}
                    Received::Nothing => {
                        kept.push(socket);
                        break;
                    }
                    Received::End => break,
                }
            }
        }
        self.orphaned = kept;
    }

    /// Tells a child which byte of its first page it is to touch: one that no other will. (A
    /// thread's number is not enough: another has it in another namespace.) Who looks through
    /// memory begins with a page's first byte.
    fn note_forked(&mut self, orders: OwnedFd, requests: OwnedFd) {
        // Some were gone before they did.
        let is_gone = |it: &Forked| {
            let received = orders::receive_answer(it.library.orders.as_fd());
            matches!(received, Received::End)
        };
        self.forked.retain(|it| !is_gone(it));
        if self.forked.len() == FORKED_MAX {
            self.forked.remove(0);
        }
        let is_free = |byte: &u32| self.forked.iter().all(|it| it.byte != *byte);
        let byte = (1..PAGE as u32).find(is_free).unwrap_or(1);
        orders::answer_request(requests.as_fd(), byte);
        self.forked.push(Forked {
            byte,
            library: Library {
                orders,
                requests,
                helper: None,
            },
        });
    }

    /// Reads what a process's threads say.
    pub(super) fn read_requests(&mut self, id: SpaceId) {
        loop {
            let Some(space) = self.memory.spaces.get_mut(&id) else {
                return;
            };
            let Some(library) = &space.library else {
                return;
            };
            match orders::receive_request(library.requests.as_fd()) {
                Received::Message(Request::Discard { address, bytes }) => {
                    space.discard = Some(space.pages_of(address, bytes));
                }
                Received::Message(Request::Discarded { address, bytes }) => {
                    let range = space.pages_of(address, bytes);
                    space.pages.touched(range.first, range.end, |_, page| {
                        if page.state == State::Discarding {
                            *page = Page {
                                queued: page.queued,
                                ..Page::default()
                            };
                        }
                    });
                    // Who waited for a page of the donor's when it was dropped.
                    let _ = space.uffd.wake(address, bytes);
                }
                Received::Message(Request::Forked { orders, requests }) => {
                    self.note_forked(orders, requests);
                }
                Received::Message(Request::Hello { .. }) | Received::Nonsense => {
                    warn!("the program's library does not say what it should");
                    return;
                }
                // The orders' socket tells when it is gone.
                Received::Nothing | Received::End => return,
            }
        }
    }

    /// Lets go on who drops a range of which no page is just leaving.
    pub(super) fn discard_where_possible(&mut self) {
        let ids: Vec<SpaceId> = self.memory.spaces.keys().copied().collect();
        for id in ids {
            let Some(space) = self.memory.spaces.get_mut(&id) else {
                continue;
            };
            let Some(Discard { first, end }) = space.discard else {
                continue;
            };
            let within = |page: &u32| (first..end).contains(page);
            let batches = space.batches.iter().flat_map(|batch| &batch.pages);
            if batches.into_iter().any(|(page, _)| within(page)) {
                continue;
            }
            space.discard = None;
            let mut slots = Vec::new();
            let mut resident = 0;
            let fetching = &mut space.fetching;
            space.pages.touched(first, end, |index, page| {
                match page.state {
                    State::Present => resident += 1,
                    State::Fetching => {
                        resident += 1;
                        fetching.remove(&index);
                    }
                    State::Zero if !page.maybe => return,
                    _ => {}
                }
                if page.slot != NO_SLOT {
                    slots.push(page.slot);
                }
                *page = Page {
                    state: State::Discarding,
                    queued: page.queued,
                    ..Page::default()
                };
            });
            space.resident -= resident;
            if let Some(library) = &space.library {
                orders::answer_request(library.requests.as_fd(), 0);
            }
            slots.retain(|slot| self.memory.leave_slot(*slot));
            self.free_slots(slots);
        }
    }

    /// Has the donor give back memory of slots that nobody uses, where they lie together.
    fn free_slots(&mut self, mut slots: Vec<u32>) {
        slots.sort_unstable();
        for run in slots.chunk_by(|slot, next| slot + 1 == *next) {
            if run.len() >= FREED_MIN {
                self.memory.store.free(run[0], run.len(), Instant::now());
            }
        }
    }
}
