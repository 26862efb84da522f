//! The driver on real sockets: an event loop on epoll.
//!
//! One turn, with what it costs a connection that sends a request and gets an answer:
//!
//! ```text
//! 1. tell epoll which interests changed      (none)
//! 2. epoll_wait until something is ready     (shared by all that are ready)
//! 3. for each ready connection: recv once    1 system call
//! 4. tick, if its time has come and all is told that came before it
//! 5. idle: the handler works and sends       1 system call
//! 6. turn_ended, told the time from which the next turn's waiting counts
//! ```
//!
//! Where some wait who are patient, or to be let in, some are told of and let in before step 4.
//! Step 5 comes before that, too, and after each few of them.
//!
//! A connection is received from once per turn, which keeps a fast sender from starving the others:
//! what does not fit the buffer is told of again in the next turn. When telling of connections has
//! taken as long as a turn may, the rest of them are told of in the next, before those that become
//! ready meanwhile. Interest is edge-triggered,
//! which spares the kernel a second look at each ready socket; `sockets` says what is owed for it.
//!
//! `ready.rs` is step 3 for a socket, `accept.rs` lets clients in, `patient.rs` says who is
//! patient, `heard.rs` up to when all is told, `alarm.rs` ends a long wait, and `coarse.rs` waits
//! where the kernel is an old one.

mod accept;
mod alarm;
mod coarse;
mod heard;
mod patient;
mod ready;

use crate::clock::{monotonic, timespec_until};
use crate::driver::addresses::Addresses;
use crate::driver::datagram::{BATCH_MAX, DatagramSocket};
use crate::driver::listener::Listener;
use crate::driver::places::Places;
use crate::driver::sockets::{Sockets, kind};
use crate::driver::waker::Waker;
use crate::port::{ConnectionId, DatagramId, Ended, Handler, Port, Role, TURN_MAX, Time, Token};
use crate::pulse::Pulse;
use crate::sparse::Sparse;
use alarm::Alarm;
use heard::Heard;
use patient::{Patient, SLICE, share};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Where more wait after so many were let in, they are a crowd.
const CROWD: usize = 48;
/// What keeps clients waiting is said this often at most.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// The bounds of a driver.
#[derive(Clone, Debug)]
pub struct DriverOptions {
    /// Accepted connections open at one time, those being closed included. At the bound, clients
    /// wait in the listeners' queues, unless [`Handler::crowded`] makes room.
    pub connections_max: usize,
    /// Where those of all drivers of the process are counted and bounded, if anywhere: each is an
    /// open file. At that bound clients wait in the same way.
    pub places: Option<Arc<Places>>,
    /// What helps where all of them are in use, for the log.
    pub crowded_cure: &'static str,
    /// Where the connections of each address are counted and bounded, if anywhere. Clients beyond
    /// are turned away.
    pub addresses: Option<Arc<Addresses>>,
    /// Outgoing connections open at one time.
    pub outgoing_max: usize,
    /// For how long what is sent on an outgoing TCP connection may be without acknowledgment, or a
    /// peer not be there or take nothing, before the connection fails; none: as long as the system
    /// tries, some minutes.
    pub unacknowledged_max: Option<Duration>,
    /// The receive buffer, shared by all connections: the most that `received` brings at once, in
    /// bytes.
    pub receive_bytes: usize,
    /// The longest datagram that is received whole, in bytes; a driver with datagram sockets has a
    /// buffer for 64 of these.
    pub datagram_bytes: usize,
    /// For how long a closed connection's input is read and dropped, while its peer takes in what
    /// was sent.
    pub linger: Duration,
    /// For how long after something came the thread looks for more before it sleeps. It is woken
    /// by nobody then, which takes longer than an answer may, and the core does nothing else.
    pub busy_poll: Duration,
}

impl Default for DriverOptions {
    fn default() -> DriverOptions {
        DriverOptions {
            connections_max: 16_384,
            places: None,
            crowded_cure: "see who keeps them open",
            addresses: None,
            outgoing_max: 1_024,
            unacknowledged_max: None,
            receive_bytes: 64 * 1024,
            // What an Ethernet frame brings at most, and some.
            datagram_bytes: 2048,
            linger: Duration::from_secs(2),
            busy_poll: Duration::ZERO,
        }
    }
}

/// Ready sockets taken from the kernel in one turn; if there are more, the kernel starts with them
/// in the next.
const EVENTS_MAX: usize = 1024;
/// One in so many events the clock is read, to see how long the turn is.
const CLOCK_EVERY: usize = 4;
/// Buffers of input read from each closing connection when the loop ends.
const RESTS_MAX: usize = 16;
/// What is told of by epoll beside connections: this bit, which no connection's id has, one for
/// what it is (none for a listener), and its index.
const NOT_A_CONNECTION: u64 = 1 << 63;
const WAKER: u64 = 1 << 62;
const DATAGRAMS: u64 = 1 << 61;
const ALARM: u64 = 1 << 60;

/// What a datagram socket is told of by.
fn datagrams_at(index: usize) -> EventData {
    EventData::new_u64(NOT_A_CONNECTION | DATAGRAMS | index as u64)
}

/// An event loop with its connections, listeners and wakers. One thread drives it.
pub struct Driver {
    sockets: Sockets,
    /// `None` once closed.
    listeners: Vec<Option<(Listener, Role)>>,
    /// Whether epoll tells of clients.
    accepting: bool,
    /// Not before this is a client accepted.
    accept_after: Time,
    /// While there is no place, not before this is room asked for.
    crowded_until: Time,
    /// Clients let in while, without a break, more waited than a turn lets in.
    crowd: usize,
    /// Warnings of what keeps clients waiting.
    warnings: Sparse,
    /// The handler was told that the listeners are closed.
    told_closed: bool,
    connections_max: usize,
    places: Option<Arc<Places>>,
    crowded_cure: &'static str,
    addresses: Option<Arc<Addresses>>,
    wakers: Vec<(Token, Waker)>,
    buffer: Box<[u8]>,
    /// The roles of the datagram sockets.
    datagram_roles: Vec<Role>,
    datagram_bytes: usize,
    /// For one batch; empty as long as there is no datagram socket.
    datagram_buffer: Box<[u8]>,
    /// Listeners and datagram sockets that stay for every handler: the first so many.
    kept: (usize, usize),
    /// What [`DriverOptions::busy_poll`] says, and until when that is.
    busy_poll: Duration,
    busy_until: Time,
    /// What ends a wait that would last.
    alarm: Alarm,
    /// Whether waits are in whole milliseconds, since the kernel knows no others.
    is_coarse: bool,
    /// What time-outs are compared with.
    heard: Heard,
    patient: Patient,
    /// Where others see whether the loop turns.
    pulse: Pulse,
    /// The listeners at which clients wait.
    ready_listeners: Vec<u32>,
}

impl Driver {
    /// A driver without listeners.
    ///
    /// # Errors
    ///
    /// When there are too many open files.
    pub fn new(options: &DriverOptions) -> io::Result<Driver> {
        let (outgoing_max, lasts) = (options.outgoing_max, options.unacknowledged_max);
        let sockets = Sockets::new(outgoing_max, lasts, options.linger, monotonic())?;
        let alarm = Alarm::new()?;
        let data = EventData::new_u64(NOT_A_CONNECTION | ALARM);
        epoll::add(&sockets.epoll, &alarm, data, EventFlags::IN)?;
        Ok(Driver {
            sockets,
            listeners: Vec::new(),
            accepting: true,
            accept_after: Time::ZERO,
            crowd: 0,
            crowded_until: Time::ZERO,
            warnings: Sparse::every(WARN_EVERY),
            told_closed: false,
            connections_max: options.connections_max,
            places: options.places.clone(),
            crowded_cure: options.crowded_cure,
            addresses: options.addresses.clone(),
            wakers: Vec::new(),
            buffer: vec![0; options.receive_bytes.max(1)].into_boxed_slice(),
            datagram_roles: Vec::new(),
            datagram_bytes: options.datagram_bytes.max(1),
            datagram_buffer: Box::default(),
            kept: (0, 0),
            busy_poll: options.busy_poll,
            busy_until: Time::ZERO,
            alarm,
            is_coarse: false,
            heard: Heard::default(),
            patient: Patient::default(),
            pulse: Pulse::default(),
            ready_listeners: Vec::new(),
        })
    }

    /// Takes clients from `listener` from now on; [`Accepted`](crate::port::Accepted) says for
    /// which `role`.
    ///
    /// # Errors
    ///
    /// When the system has no memory for it.
    pub fn add_listener(&mut self, listener: Listener, role: Role) -> io::Result<()> {
        let index = self.listeners.len() as u32;
        let interest = if self.accepting {
            EventFlags::IN
        } else {
            EventFlags::empty()
        };
        epoll::add(
            &self.sockets.epoll,
            &listener,
            EventData::new_u64(NOT_A_CONNECTION | u64::from(index)),
            interest,
        )?;
        self.listeners.push(Some((listener, role)));
        Ok(())
    }

    /// Takes the datagrams that come to `socket` from now on; the id, with `role` in it, is what
    /// they come with and are sent by.
    ///
    /// # Errors
    ///
    /// When the system has no memory for it.
    pub(crate) fn add_datagrams(
        &mut self,
        socket: DatagramSocket,
        role: Role,
    ) -> io::Result<DatagramId> {
        let index = self.sockets.datagrams.len() as u32;
        let data = datagrams_at(index as usize);
        epoll::add(&self.sockets.epoll, &socket, data, EventFlags::IN)?;
        self.sockets.datagrams.push(socket);
        self.datagram_roles.push(role);
        if self.datagram_buffer.is_empty() {
            self.datagram_buffer = vec![0; BATCH_MAX * self.datagram_bytes].into_boxed_slice();
        }
        Ok(DatagramId { index, role })
    }

    /// A waker which makes this driver call [`Handler::notified`] with `token`.
    ///
    /// # Errors
    ///
    /// When there are too many open files.
    pub fn waker(&mut self, token: Token) -> io::Result<Waker> {
        assert_ne!(token, Token::COMMANDS, "kept for inboxes");
        let waker = Waker::new()?;
        self.add_waker(token, &waker)?;
        Ok(waker)
    }

    /// Has a waker made elsewhere wake this driver.
    pub(crate) fn add_waker(&mut self, token: Token, waker: &Waker) -> io::Result<()> {
        let data = NOT_A_CONNECTION | WAKER | self.wakers.len() as u64;
        epoll::add(
            &self.sockets.epoll,
            waker,
            EventData::new_u64(data),
            EventFlags::IN,
        )?;
        self.wakers.push((token, waker.clone()));
        Ok(())
    }

    /// Has the loop's turns be seen there.
    pub(crate) fn beat(&mut self, pulse: &Pulse) {
        self.pulse = pulse.clone();
    }

    /// What was added until now stays when the driver [begins anew](Driver::begin_anew).
    pub(crate) fn keep(&mut self) {
        self.kept = (self.listeners.len(), self.datagram_roles.len());
    }

    /// Makes the driver ready for another handler: resets every connection and forgets the wakers,
    /// the listeners and datagram sockets but for those to keep.
    pub(crate) fn begin_anew(&mut self) {
        for (listener, _) in self.listeners.drain(self.kept.0..).flatten() {
            let removed = epoll::delete(&self.sockets.epoll, &listener);
            debug_assert_eq!(removed, Ok(()), "it was added");
        }
        self.sockets.datagrams.truncate(self.kept.1);
        self.datagram_roles.truncate(self.kept.1);
        for socket in &mut self.sockets.datagrams {
            socket.is_paused = false;
        }
        self.sockets.abort_all();
        self.patient.forget();
        self.told_closed = false;
        for (_, waker) in self.wakers.drain(..) {
            // Others may hold it, which keeps its file open: closing ours would not take it out.
            let removed = epoll::delete(&self.sockets.epoll, &waker);
            debug_assert_eq!(removed, Ok(()), "it was added");
        }
    }

    /// The port, for what a handler does before the first event (such as connecting to backends).
    pub fn port(&mut self) -> &mut dyn Port {
        &mut self.sockets
    }

    /// Drives `handler` on the calling thread until it has finished.
    ///
    /// # Errors
    ///
    /// When waiting fails, which it has no reason to.
    pub fn run(&mut self, handler: &mut dyn Handler) -> io::Result<()> {
        // By default the kernel may wake a waiting thread 50 us late to save power: as long as a
        // cohort may be asked to wait. Where it cannot be changed the delays are so much longer.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000));
        let mut events = Vec::with_capacity(EVENTS_MAX);
        self.sockets.now = monotonic();
        while !handler.finished() {
            self.turn(handler, &mut events)?;
        }
        self.read_the_rest();
        Ok(())
    }

    /// Input that nobody read would make the kernel reset a connection when its socket goes, and
    /// take the last answer with it.
    fn read_the_rest(&mut self) {
        for connection in self.sockets.closing() {
            (0..RESTS_MAX).all(|_| matches!(connection.receive(&mut self.buffer), Ok(1..)));
        }
    }

    /// One turn of the loop, as drawn above; `events` is room for what is ready.
    fn turn(&mut self, handler: &mut dyn Handler, events: &mut Vec<Event>) -> io::Result<()> {
        let now = self.sockets.now;
        self.sockets.apply_changes(|sockets, id, errno| {
            handler.ended(sockets, id, Ended::Failed(kind(errno)), now)
        });
        self.listen_or_not()?;
        self.receive_or_not()?;
        let wake_at = handler.wake_at();
        self.pulse.waits();
        self.wait(wake_at, events)?;
        let began = self.sockets.now;
        self.pulse.turns(began);
        let (mut left, mut told, mut is_long) = (0, 0, false);
        for index in 0..events.len() {
            let Event { data, flags, .. } = events[index];
            let data = data.u64();
            if data & NOT_A_CONNECTION == 0 {
                let id = ConnectionId::from_u64(data);
                if !is_long {
                    if self.ready(handler, id, flags, true) {
                        told += 1;
                        is_long = told % CLOCK_EVERY == 0 && monotonic().since(began) >= TURN_MAX;
                    }
                } else if !self.lines_up(id, flags) {
                    events[left] = events[index];
                    left += 1;
                }
            } else if data & DATAGRAMS != 0 {
                self.receive_datagrams(handler, data as u32);
                told += 1;
            } else if data & ALARM != 0 {
                self.alarm.rang();
                told += 1;
            } else if data & WAKER == 0 {
                self.ready_listeners.push(data as u32);
            } else {
                let (token, waker) = &self.wakers[data as u32 as usize];
                waker.clear();
                let token = *token;
                handler.notified(&mut self.sockets, token, began);
                told += 1;
            }
        }
        self.heard.told(events.len() - left, left);
        events.truncate(left);
        if self.patient.since().is_some() || !self.ready_listeners.is_empty() {
            // Whose answers are due does not wait for these, and what else there is to do is not
            // their doing.
            self.sockets.now = monotonic();
            self.idle(handler);
            self.sockets.now = monotonic();
            let until = self.sockets.now + share(self.sockets.now.since(began));
            self.tell_of_the_patient(handler, until);
            if handler.finished() {
                self.ready_listeners.clear();
                self.end_turn(handler);
                return Ok(());
            }
            self.let_in(handler, until);
        }
        // Reading has taken its time, and what follows compares deadlines.
        self.sockets.now = monotonic();
        self.sockets.expire_lingering();
        let heard = self.heard_until();
        if handler.wake_at().is_some_and(|at| at <= heard) {
            handler.tick(&mut self.sockets, heard);
        }
        self.idle(handler);
        self.end_turn(handler);
        Ok(())
    }

    /// Has the handler do what there is to do.
    fn idle(&mut self, handler: &mut dyn Handler) {
        let now = self.sockets.now;
        handler.idle(&mut self.sockets, now);
        if self.sockets.stop_accepting {
            self.close_listeners(handler);
        }
    }

    /// Takes note of the time, and tells it.
    fn end_turn(&mut self, handler: &mut dyn Handler) {
        self.sockets.now = monotonic();
        handler.turn_ended(self.sockets.now);
    }

    /// Has a connection that is ready wait in the line of the patient, if that is its place.
    fn lines_up(&mut self, id: ConnectionId, flags: EventFlags) -> bool {
        let listed = self.sockets.now;
        let connection = self.sockets.get(id);
        connection.is_some_and(|connection| self.patient.takes(connection, id, flags, listed))
    }

    /// Tells of the patient, as many as the turn has time for until then. What they cost is known
    /// when they are answered: the handler sees to that after each few of them.
    fn tell_of_the_patient(&mut self, handler: &mut dyn Handler, until: Time) {
        let mut told = 0;
        while !handler.finished()
            && (told < SLICE || monotonic() < until)
            && let Some(id) = self.patient.pop()
        {
            let Some(connection) = self.sockets.get(id) else {
                continue;
            };
            let flags = std::mem::take(&mut connection.untold);
            self.ready(handler, id, flags, false);
            told += 1;
            if told.is_multiple_of(SLICE) {
                self.sockets.now = monotonic();
                self.idle(handler);
            }
        }
        let sockets = &self.sockets;
        (self.patient).forget_gone(sockets.len(), |id| sockets.has(id));
    }

    /// Lets clients in, as many as the turn has time for until then.
    fn let_in(&mut self, handler: &mut dyn Handler, until: Time) {
        let mut ready = std::mem::take(&mut self.ready_listeners);
        for index in ready.drain(..) {
            let before = self.sockets.accepted;
            let is_full = !self.has_place();
            let are_all_in = self.accept(handler, index, until);
            let let_in = self.sockets.accepted.saturating_sub(before);
            self.crowd = match are_all_in {
                true => 0,
                false if is_full => CROWD,
                false => self.crowd.saturating_add(let_in),
            };
        }
        self.ready_listeners = ready;
    }

    /// All that came by then is told of.
    fn heard_until(&self) -> Time {
        let heard = self.heard.until();
        self.patient.since().map_or(heard, |since| since.min(heard))
    }

    /// Waits for events, which join those that are left, but not beyond `wake_at` or a time of our
    /// own.
    fn wait(&mut self, wake_at: Option<Time>, events: &mut Vec<Event>) -> io::Result<()> {
        let accept_at = [self.accept_after, self.crowded_until].into_iter().max();
        let accept_at = accept_at.filter(|at| !self.accepting && *at > self.sockets.now);
        let until = [wake_at, self.sockets.lingering_until(), accept_at]
            .into_iter()
            .flatten()
            .min();
        let until = match events.is_empty() && self.patient.since().is_none() {
            true => until,
            // Of turns before: there is something to do.
            false => Some(Time::ZERO),
        };
        let mut asked = self.sockets.now;
        let is_due = until.is_some_and(|until| until <= asked);
        if !is_due && asked < self.busy_until {
            let until = until.map_or(self.busy_until, |until| until.min(self.busy_until));
            asked = self.look(until, events)?;
        }
        let mut has_looked = true;
        if events.is_empty() {
            let limit = match until {
                Some(until) if self.alarm.rings_by(until, asked)? => None,
                until => until.map(|until| timespec_until(until, asked)),
            };
            has_looked = self.ask(limit, events)?;
        }
        let mut ended = until;
        if let [Event { data, .. }] = events[..]
            && data.u64() == NOT_A_CONNECTION | ALARM
        {
            ended = Some(self.alarm.rang());
            events.clear();
        }
        let now = monotonic();
        self.sockets.now = now;
        self.sockets.wall.refresh(now);
        if !events.is_empty() {
            self.busy_until = now + self.busy_poll;
        }
        let (asked, unlisted) = match events.len() {
            // A process that is stopped, and let go on, comes from its wait without a look.
            0 if !has_looked => (asked, 0),
            // The last that it did was to look, when the time was up; this thread may have been
            // kept from its core since.
            0 => (ended.map_or(now, |ended| ended.max(asked).min(now)), 0),
            listed if listed < events.capacity() => (asked, 0),
            _ => {
                let others = self.listeners.len() + self.wakers.len();
                (asked, self.sockets.len() + others)
            }
        };
        self.heard.asked(asked, events.len(), unlisted);
        Ok(())
    }

    /// Looks until then, without sleeping, whether something is ready: when it looked last.
    fn look(&mut self, until: Time, events: &mut Vec<Event>) -> io::Result<Time> {
        loop {
            let asked = monotonic();
            if asked >= until {
                return Ok(asked);
            }
            self.ask(Some(Timespec::default()), events)?;
            if !events.is_empty() {
                return Ok(asked);
            }
            // The other hardware thread of the core, if there is one, may have it meanwhile.
            std::hint::spin_loop();
        }
    }

    /// Has the kernel tell what is ready, within so long. False: a signal ended that before.
    fn ask(&mut self, timeout: Option<Timespec>, events: &mut Vec<Event>) -> io::Result<bool> {
        let (epoll, timeout) = (&self.sockets.epoll, timeout.as_ref());
        let mut came = match self.is_coarse {
            false => epoll::wait(epoll, spare_capacity(events), timeout).map(|_| ()),
            true => Err(Errno::NOSYS),
        };
        // A sandbox that has not heard of a system call may forbid it: no other reason is there.
        if let Err(Errno::NOSYS | Errno::PERM) = came {
            self.is_coarse = true;
            came = coarse::wait(epoll.as_fd(), events, timeout);
        }
        match came {
            Ok(()) => Ok(true),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends when its time has come.
    struct Sleeper {
        until: Time,
        ticked_at: Option<Time>,
        notified: usize,
    }

    impl Handler for Sleeper {
        fn notified(&mut self, _: &mut dyn Port, _: Token, _: Time) {
            self.notified += 1;
        }

        fn tick(&mut self, _: &mut dyn Port, now: Time) {
            self.ticked_at = Some(now);
        }

        fn wake_at(&self) -> Option<Time> {
            self.ticked_at.is_none().then_some(self.until)
        }

        fn finished(&self) -> bool {
            self.ticked_at.is_some()
        }
    }

    #[test]
    fn a_driver_that_waits_in_milliseconds_hears_of_events_and_does_not_wake_up_early() {
        let mut driver = Driver::new(&DriverOptions::default()).expect("few files are open");
        driver.is_coarse = true;
        // Near enough that the wait itself has the limit, and far enough for an alarm.
        for sleep in [Duration::from_micros(300), Duration::from_millis(5)] {
            driver.waker(Token(7)).expect("few files are open").wake();
            let until = monotonic() + sleep;
            let mut sleeper = Sleeper {
                until,
                ticked_at: None,
                notified: 0,
            };
            driver.run(&mut sleeper).expect("it waits");
            assert_eq!(sleeper.notified, 1);
            assert!(sleeper.ticked_at.is_some_and(|at| at >= until));
        }
    }
}
