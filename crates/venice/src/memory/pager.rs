//! The pager: one thread that answers the page faults of a program and of what it forks.
//!
//! A fault is answered with zeros, with a page that is still on its way out, or with one that the
//! donor is asked for (`faults.rs`); several are asked for at a time, and pages ahead where faults
//! go in steps (`streams.rs`). Pages leave ahead of need (`evict.rs`): the helper thread in the
//! program is told which, protects those that may differ from what the donor has, copies them into
//! a buffer, drops them and says so. Until then whoever touches them waits; a write is never lost,
//! since it waits for the page to be back. `events.rs` has forks, and ranges that the program
//! drops. All state is this thread's; what it may not do now (the kernel refuses while a fork is
//! under way, a page is just leaving, there is no room) it does at a later turn.

mod events;
mod evict;
mod faults;

use super::borrower::{Borrower, Lost};
use super::figures::Figures;
use super::orders::{self, ORDER_PAGES, Received, Request};
use super::pages::{Content, NO_SLOT, Pages, Slots, State};
use super::space::{Library, Space};
use super::uffd::{Event, PAGE, Uffd};
use super::wire::Answer;
use faults::Fault;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// Parts of the buffer, each as large as one order's pages.
const PLACES: usize = 8;
/// How often the pager looks after itself where nothing happens.
const TICK: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// How often it looks after what tells nothing: a donor that is silent, a child without a helper.
const LOOKED: Duration = Duration::from_millis(900);

/// A page's bytes.
type Bytes = Box<[u8; PAGE]>;
/// Names a space, for as long as the pager runs.
type SpaceId = u32;

/// What a pager is to do.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Pages that a process has here at most.
    pub(super) local: usize,
    /// Pages that the donor has.
    pub(super) remote: usize,
    /// How often the figures are told, if at all.
    pub(super) told: Option<Duration>,
}

/// All memory there is: processes, and what of theirs is away or on its way.
#[derive(Debug)]
struct Memory {
    spaces: HashMap<SpaceId, Space>,
    slots: Slots,
    /// Pages that are sent and not confirmed, by slot, with the id of the last request.
    in_flight: HashMap<u32, (u64, Bytes)>,
    /// Requests to write, and their slots.
    writes: HashMap<u64, u32>,
    /// Requests to read, and for which page.
    fetches: HashMap<u64, (SpaceId, u32)>,
    /// Pages that have come and could not be put where they belong, with their request's id.
    again: Vec<(SpaceId, u32, u64, Bytes)>,
    figures: Figures,
    limit: usize,
}

/// A child that says that it is there.
#[derive(Debug)]
struct Forked {
    process: u32,
    library: Library,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pager {
    borrower: Borrower,
    memory: Memory,
    limits: Limits,
    /// The program, until its library has said so.
    program: Option<Library>,
    region_bytes: u64,
    forked: Vec<Forked>,
    /// Sockets of processes that are gone, by which a child may still say that it is there.
    orphaned: Vec<OwnedFd>,
    next_space: SpaceId,
    deferred: Vec<(SpaceId, Fault)>,
    buffer: File,
    places: Vec<usize>,
    events: Vec<Event>,
    /// When the pager last looked after what tells nothing.
    looked: Instant,
}

impl Pager {
    /// A pager for a program whose library is at the other ends of these sockets.
    ///
    /// # Errors
    /// Where there is no memory for its buffer.
    pub(super) fn new(
        borrower: Borrower,
        limits: Limits,
        region_bytes: u64,
        orders: OwnedFd,
        requests: OwnedFd,
    ) -> io::Result<Self> {
        let buffer = rustix::fs::memfd_create("rhythm-venice", MemfdFlags::CLOEXEC)?;
        let buffer = File::from(buffer);
        buffer.set_len((PLACES * ORDER_PAGES * PAGE) as u64)?;
        Ok(Self {
            borrower,
            memory: Memory {
                spaces: HashMap::new(),
                slots: Slots::new(limits.remote),
                in_flight: HashMap::new(),
                writes: HashMap::new(),
                fetches: HashMap::new(),
                again: Vec::new(),
                figures: Figures::default(),
                limit: limits.local,
            },
            limits,
            program: Some(Library {
                orders,
                requests,
                helper: None,
            }),
            region_bytes,
            forked: Vec::new(),
            orphaned: Vec::new(),
            next_space: 0,
            deferred: Vec::new(),
            buffer,
            places: (0..PLACES).collect(),
            events: Vec::new(),
            looked: Instant::now(),
        })
    }

    /// Looks after the program until it and all that it forked are gone.
    ///
    /// # Errors
    /// [`Lost`]: the donor is gone, and the processes were ended.
    pub(super) fn run(&mut self) -> Result<(), Lost> {
        let mut told = Instant::now();
        while self.program.is_some() || !self.memory.spaces.is_empty() {
            let now = Instant::now();
            if let Err(lost) = self.turn() {
                let why = format!(
                    "rhythm venice: memory of this program is lost, with loan {} of donor {}: \
                     {lost}\n",
                    self.borrower.loan(),
                    self.borrower.donor(),
                );
                self.end_all(&why);
                return Err(lost);
            }
            if let Some(every) = self.limits.told
                && now.duration_since(told) >= every
            {
                told = now;
                tracing::info!("{}", self.figures());
            }
        }
        Ok(())
    }

    /// What was counted so far.
    pub(super) fn figures(&self) -> &Figures {
        &self.memory.figures
    }

    fn turn(&mut self) -> Result<(), Lost> {
        let mut ready = self.wait()?;
        let now = Instant::now();
        if now.duration_since(self.looked) >= LOOKED {
            self.looked = now;
            ready.donor = true;
            let spaces = self.memory.spaces.iter();
            let silent = spaces.filter(|(_, space)| space.library.is_none());
            ready.faults.extend(silent.map(|(id, _)| *id));
        }
        for id in &ready.faults {
            self.read_events(*id, now);
        }
        // What the donor is asked for leaves before anything else is done.
        self.borrower.flush()?;
        for id in &ready.orders {
            self.read_answers(*id, now);
        }
        for id in &ready.requests {
            self.read_requests(*id);
        }
        if ready.orphaned {
            self.read_orphaned();
        }
        if ready.program {
            self.meet_program();
        }
        if ready.donor {
            let memory = &mut self.memory;
            self.borrower
                .receive(now, |id, answer| memory.answered(id, answer))?;
        }
        self.memory.bring_again();
        self.discard_where_possible();
        for (id, fault) in std::mem::take(&mut self.deferred) {
            if !self.try_fault(id, &fault) {
                self.deferred.push((id, fault));
            }
        }
        self.evict_where_due(now);
        self.borrower.flush()
    }

    /// Waits for something to happen.
    fn wait(&self) -> Result<Ready, Lost> {
        /// What a descriptor is.
        #[derive(Clone, Copy)]
        enum Which {
            Donor,
            Program,
            Orphaned,
            Faults(SpaceId),
            Orders(SpaceId),
            Requests(SpaceId),
        }
        let input = PollFlags::IN;
        let mut polled = Vec::with_capacity(2 + 3 * self.memory.spaces.len());
        let mut which = Vec::with_capacity(polled.capacity());
        let donor = if self.borrower.is_behind() {
            input | PollFlags::OUT
        } else {
            input
        };
        polled.push(PollFd::new(&self.borrower, donor));
        which.push(Which::Donor);
        if let Some(program) = &self.program {
            polled.push(PollFd::new(&program.requests, input));
            which.push(Which::Program);
        }
        for socket in &self.orphaned {
            polled.push(PollFd::new(socket, input));
            which.push(Which::Orphaned);
        }
        for (id, space) in &self.memory.spaces {
            polled.push(PollFd::new(&space.uffd, input));
            which.push(Which::Faults(*id));
            if let Some(library) = &space.library {
                polled.push(PollFd::new(&library.orders, input));
                which.push(Which::Orders(*id));
                polled.push(PollFd::new(&library.requests, input));
                which.push(Which::Requests(*id));
            }
        }
        let mut ready = Ready::default();
        match poll(&mut polled, Some(&TICK)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(ready),
            Err(error) => return Err(Lost::Io(error.into())),
        }
        for (polled, which) in polled.iter().zip(which) {
            if polled.revents().is_empty() {
                continue;
            }
            match which {
                Which::Donor => ready.donor = true,
                Which::Program => ready.program = true,
                Which::Orphaned => ready.orphaned = true,
                Which::Faults(id) => ready.faults.push(id),
                Which::Orders(id) => ready.orders.push(id),
                Which::Requests(id) => ready.requests.push(id),
            }
        }
        Ok(ready)
    }

    /// The program's library says that it is there, or the program is gone.
    fn meet_program(&mut self) {
        let Some(program) = self.program.take() else {
            return;
        };
        match orders::receive_request(program.requests.as_fd()) {
            Received::Message(Request::Hello {
                region,
                bytes,
                uffd,
            }) if bytes == self.region_bytes => {
                let pages = Pages::new((bytes / PAGE as u64) as usize);
                let mut space = Space::new(Uffd::from(uffd), region, pages);
                orders::answer_request(program.requests.as_fd());
                let attached = orders::attach(
                    program.orders.as_fd(),
                    space.uffd.as_fd(),
                    self.buffer.as_fd(),
                );
                if let Err(error) = attached {
                    debug!("the program is gone: {error}");
                    return;
                }
                space.library = Some(program);
                self.memory.spaces.insert(self.next_space, space);
                self.next_space += 1;
            }
            Received::Message(_) | Received::Nonsense => {
                warn!("the program's library does not say what it should");
            }
            Received::Nothing => self.program = Some(program),
            Received::End => {}
        }
    }

    /// Ends all processes, and waits until they are gone: the userfaultfds are open until then, so
    /// that nobody reads zeros.
    fn end_all(&mut self, why: &str) {
        for space in self.memory.spaces.values() {
            space.end(why);
        }
        let patience = Instant::now() + Duration::from_secs(10);
        while !self.memory.spaces.is_empty() && Instant::now() < patience {
            let gone = |space: &Space| match &space.library {
                Some(library) => loop {
                    match orders::receive_answer(library.orders.as_fd()) {
                        Received::End => break true,
                        Received::Nothing => break false,
                        Received::Message(_) | Received::Nonsense => {}
                    }
                },
                None => space.uffd.unprotect(space.region) == Err(Errno::SRCH),
            };
            self.memory.spaces.retain(|_, space| !gone(space));
            std::thread::sleep(Duration::from_millis(5));
        }
        if !self.memory.spaces.is_empty() {
            warn!("{} processes do not end", self.memory.spaces.len());
        }
    }
}

/// What can be read now.
#[derive(Debug, Default)]
struct Ready {
    donor: bool,
    program: bool,
    orphaned: bool,
    faults: Vec<SpaceId>,
    orders: Vec<SpaceId>,
    requests: Vec<SpaceId>,
}

impl Memory {
    /// The donor has answered.
    fn answered(&mut self, id: u64, answer: &Answer<'_>) {
        if let Some(slot) = self.writes.remove(&id) {
            if self
                .in_flight
                .get(&slot)
                .is_some_and(|(last, _)| *last == id)
            {
                self.in_flight.remove(&slot);
                self.slots.set(slot, Content::Stored);
            }
        } else if let (Some((space, page)), Answer::Data(bytes)) =
            (self.fetches.remove(&id), answer)
            && let Ok(bytes) = <&[u8; PAGE]>::try_from(*bytes)
            && !self.bring(space, page, id, bytes)
        {
            self.again.push((space, page, id, Box::new(*bytes)));
        }
    }

    /// A page is no longer a slot's user; true where nobody is.
    fn leave_slot(&mut self, slot: u32) -> bool {
        let is_free = slot != NO_SLOT && self.slots.leave(slot);
        if is_free {
            self.in_flight.remove(&slot);
        }
        is_free
    }

    fn bring_again(&mut self) {
        for (space, page, id, bytes) in std::mem::take(&mut self.again) {
            if !self.bring(space, page, id, &bytes[..]) {
                self.again.push((space, page, id, bytes));
            }
        }
    }

    /// Forgets a process that is gone; what is left of it is its sockets.
    fn remove(&mut self, id: SpaceId) -> Option<Library> {
        let space = self.spaces.remove(&id)?;
        let mut slots = HashSet::new();
        space.pages.each(|_, page| {
            if page.slot != NO_SLOT && page.state != State::Discarding {
                slots.insert(page.slot);
            }
        });
        for slot in slots {
            self.leave_slot(slot);
        }
        debug!("a process is gone; {} slots are in use", self.slots.used());
        space.library
    }
}
