//! The pager: one thread that answers the page faults of a program and of what it forks.
//!
//! A fault is answered with zeros, with a page that is still on its way out, or with one that a
//! donor is asked for (`faults.rs`; `store.rs` knows which); several are asked for at a time, and
//! pages ahead where faults go in steps (`streams.rs`). Pages leave ahead of need (`evict.rs`): the
//! helper thread in the program is told which, protects those that may differ from what the donor
//! has, copies them into a buffer, drops them and says so. Until then whoever touches them waits; a
//! write is never lost, since it waits for the page to be back. `events.rs` has forks, and ranges
//! that the program drops. All state is this thread's; what it may not do now (the kernel refuses
//! while a fork is under way, a page is just leaving, there is no room) it does at a later turn.

mod events;
mod evict;
mod faults;
mod state;

use super::figures::Figures;
use super::orders::{self, Received, Request};
use super::pages::Pages;
use super::space::Space;
use super::store::Gone;
use super::uffd::{PAGE, Uffd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use state::SpaceId;
pub(super) use state::{Limits, Pager};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// How often the pager looks after itself where nothing happens.
const TICK: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// And where a process just ends.
const ENDING: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// And where a donor is filled, a part of a second's bytes at a time.
const FILLING: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// How long it is waited for word of why memory is gone, when all that is left is to say so.
const WHY_HEARD: Duration = Duration::from_millis(500);

/// How often it looks after what tells nothing: a donor that is silent, a child without a helper.
const LOOKED: Duration = Duration::from_millis(900);

impl Pager {
    /// Looks after the program until it and all that it forked are gone.
    ///
    /// # Errors
    /// [`Gone`]: memory is lost, and the processes were ended.
    pub(super) fn run(&mut self) -> Result<(), Gone> {
        let mut told = Instant::now();
        while self.program.is_some() || !self.memory.spaces.is_empty() {
            let now = Instant::now();
            if let Err(mut gone) = self.turn() {
                self.memory.store.hear_why(&mut gone, WHY_HEARD);
                self.end_all(&format!(
                    "rhythm venice: memory of this program is lost, with {gone}\n"
                ));
                return Err(gone);
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

    fn turn(&mut self) -> Result<(), Gone> {
        let mut ready = self.wait();
        let now = Instant::now();
        let is_due = now.duration_since(self.looked) >= LOOKED;
        if is_due {
            self.looked = now;
            ready.store = true;
            if let Some(shown) = &self.limits.shown {
                shown.show(self.memory.seen(&self.limits));
            }
        }
        let spaces = self.memory.spaces.iter_mut();
        for (id, space) in spaces.filter(|(_, space)| space.library.is_none()) {
            if is_due || space.killed_at.is_some() {
                ready.faults.push(*id);
            }
            space.kill_where_due(now);
        }
        for id in &ready.faults {
            self.read_events(*id, now);
        }
        // What donors are asked for leaves before anything else is done.
        self.memory.store.flush();
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
        if ready.bell {
            self.memory.store.hear(now);
            ready.store = true;
        }
        if ready.store || self.memory.store.is_due() {
            for event in self.memory.store.receive(now)? {
                self.memory.came(event);
            }
            self.memory.store.look(now);
            self.memory.figures.donors = self.memory.store.counts();
        }
        self.memory.bring_again();
        self.discard_where_possible();
        for (id, fault) in std::mem::take(&mut self.deferred) {
            if !self.try_fault(id, &fault) {
                self.deferred.push((id, fault));
            }
        }
        self.evict_where_due(now);
        self.memory.store.flush();
        Ok(())
    }

    /// Waits for something to happen.
    fn wait(&self) -> Ready {
        /// What a descriptor is.
        #[derive(Clone, Copy)]
        enum Which {
            Store,
            Bell,
            Program,
            Orphaned,
            Faults(SpaceId),
            Orders(SpaceId),
            Requests(SpaceId),
        }
        let input = PollFlags::IN;
        let mut polled = Vec::with_capacity(4 + 3 * self.memory.spaces.len());
        let mut which = Vec::with_capacity(polled.capacity());
        for (descriptor, flags) in self.memory.store.waits() {
            polled.push(PollFd::from_borrowed_fd(descriptor, flags));
            which.push(Which::Store);
        }
        polled.push(PollFd::from_borrowed_fd(self.memory.store.bell(), input));
        which.push(Which::Bell);
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
        let mut spaces = self.memory.spaces.values();
        let ends = spaces.any(|space| space.library.is_none() && space.killed_at.is_some());
        let soon = match self.memory.store.is_filling() {
            true => {
                ready.store = true;
                FILLING
            }
            false => TICK,
        };
        match poll(&mut polled, Some(if ends { &ENDING } else { &soon })) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                // No memory for it, most likely; it is tried again.
                warn!("cannot wait for anything: {error}");
                std::thread::sleep(Duration::from_millis(10));
                return ready;
            }
        }
        for (polled, which) in polled.iter().zip(which) {
            if polled.revents().is_empty() {
                continue;
            }
            match which {
                Which::Store => ready.store = true,
                Which::Bell => ready.bell = true,
                Which::Program => ready.program = true,
                Which::Orphaned => ready.orphaned = true,
                Which::Faults(id) => ready.faults.push(id),
                Which::Orders(id) => ready.orders.push(id),
                Which::Requests(id) => ready.requests.push(id),
            }
        }
        ready
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
                orders::answer_request(program.requests.as_fd(), 0);
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
    /// that nobody reads zeros. A process that takes long is waited for only where it has no helper
    /// that has its userfaultfd open, too.
    fn end_all(&mut self, why: &str) {
        let patience = Instant::now() + Duration::from_secs(10);
        while !self.memory.spaces.is_empty() {
            let now = Instant::now();
            let ids: Vec<SpaceId> = self.memory.spaces.keys().copied().collect();
            for id in ids {
                // What is forked just now is to end, too.
                self.read_events(id, now);
                self.read_answers(id, now);
                if let Some(space) = self.memory.spaces.get_mut(&id) {
                    space.end(why);
                    space.kill_where_due(now);
                }
            }
            let mut spaces = self.memory.spaces.values();
            if now > patience && spaces.all(|space| space.library.is_some()) {
                warn!("{} processes do not end", self.memory.spaces.len());
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What can be read now.
#[derive(Debug, Default)]
struct Ready {
    store: bool,
    bell: bool,
    program: bool,
    orphaned: bool,
    faults: Vec<SpaceId>,
    orders: Vec<SpaceId>,
    requests: Vec<SpaceId>,
}
