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
mod state;

use super::borrower::Lost;
use super::figures::Figures;
use super::orders::{self, Received, Request};
use super::pages::Pages;
use super::space::Space;
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

/// How often it looks after what tells nothing: a donor that is silent, a child without a helper.
const LOOKED: Duration = Duration::from_millis(900);

impl Pager {
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
        let is_due = now.duration_since(self.looked) >= LOOKED;
        if is_due {
            self.looked = now;
            ready.donor = true;
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
        let mut spaces = self.memory.spaces.values();
        let ends = spaces.any(|space| space.library.is_none() && space.killed_at.is_some());
        match poll(&mut polled, Some(if ends { &ENDING } else { &TICK })) {
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
    donor: bool,
    program: bool,
    orphaned: bool,
    faults: Vec<SpaceId>,
    orders: Vec<SpaceId>,
    requests: Vec<SpaceId>,
}
