//! The connections of one driver, and what a handler does to them: [`Port`] on real sockets.
//!
//! A connection lies in a slot of a table; its [`ConnectionId`] is also what epoll hands back when
//! it is ready. Interest in events is not changed at once: a connection whose interest may have
//! changed is noted, and before the next wait the noted ones are brought up to date, so that a
//! pause and resume, or a full socket that empties, within one turn costs no system call.
//!
//! Connections are told of by edges: epoll says when more has come, not that something is still
//! there, which spares it a look at each connection in each turn. Where an edge was used up and
//! something may be left (a full buffer, an end behind bytes, urgent data between them, a pause),
//! the connection is [rearmed](Sockets::rearm): telling epoll its interest again makes it look.

use crate::clock::{self, CachedWall};
use crate::driver::addresses::Place;
use crate::driver::datagram::DatagramSocket;
use crate::driver::listener;
use crate::driver::places::Taken;
use crate::port::{
    ConnectionId, Datagram, DatagramId, Peer, PeerAddress, Port, Sent, Time, WallClock,
};
use crate::slab::Slab;
use crate::timer::TimerWheel;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, sockopt,
};
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// What the driver does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Begun by us, not yet answered.
    Connecting,
    /// In use by the handler.
    Open,
    /// Closed by the handler: its output is ended, its input is dropped until it ends or the time
    /// is up.
    Closing,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) state: State,
    /// Begun by us rather than accepted.
    outgoing: bool,
    /// Where clients' addresses are counted, and where all clients of the process are.
    _places: (Option<Place>, Option<Taken>),
    /// A client that was let in, of which nothing was read yet.
    pub(crate) is_new: bool,
    /// A client to whom nothing was sent since it was let in, or since its last input, or nothing
    /// that [answers](Port::unanswered) it.
    pub(crate) is_unanswered: bool,
    /// What epoll has listed it for while it waits in the line of the patient.
    pub(crate) untold: EventFlags,
    /// The handler wants no input now.
    pub(crate) paused: bool,
    /// The peer has finished sending.
    pub(crate) input_ended: bool,
    /// A send was not taken whole.
    pub(crate) wants_write: bool,
    /// How it has failed, where what the peer said before is still to be read.
    pub(crate) error: Option<Errno>,
    /// It is in [`Sockets::changed`].
    noted: bool,
    /// Epoll is to look at it again.
    rearmed: bool,
    /// The interest that epoll knows of.
    registered: EventFlags,
}

impl Connection {
    /// Begun by us rather than accepted.
    pub(crate) fn is_ours(&self) -> bool {
        self.outgoing
    }

    /// Receives what there is, up to the buffer's length: 0 bytes where the input has ended.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let (length, _) = retry(|| net::recv(&self.socket, &mut *buffer, RecvFlags::empty()))?;
        Ok(length)
    }

    /// It has failed, of this if that is known: whether that is told only behind what there is to
    /// be read. So it is for who waits for an answer, which may lie there whole though its peer is
    /// gone.
    pub(crate) fn outlasts(&mut self, errno: Option<Errno>) -> bool {
        // A pipe is broken by a peer that has finished, of whose input nothing is lost.
        let error = errno.filter(|errno| *errno != Errno::PIPE).or(self.error);
        let is_left = self.outgoing
            && !self.input_ended
            && (self.look()).is_ok_and(|length| length > 0 || error.is_none());
        if is_left {
            self.error = error;
        }
        is_left
    }

    /// How many bytes can be read, 1 at most, or 0 where the input has ended; none is taken.
    fn look(&self) -> Result<usize, Errno> {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let (length, _) = retry(|| net::recv(&self.socket, &mut [0; 1], flags))?;
        Ok(length)
    }

    /// Epoll knows that no input is wanted, so it will look once some is.
    pub(crate) fn is_known_paused(&self) -> bool {
        !self.registered.contains(EventFlags::IN)
    }

    /// The interest that epoll should know of. Failures are told regardless.
    fn interest(&self) -> EventFlags {
        // Urgent data (RFC 6093) is nobody's here, but a `recv` stops before it.
        let input = EventFlags::IN | EventFlags::RDHUP | EventFlags::PRI;
        let mut interest = EventFlags::ET;
        match self.state {
            State::Connecting => interest |= EventFlags::OUT,
            State::Open => {
                interest.set(input, !self.paused && !self.input_ended);
                interest.set(EventFlags::OUT, self.wants_write);
            }
            State::Closing => interest |= input,
        }
        interest
    }
}

#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) epoll: OwnedFd,
    connections: Slab<Connection>,
    /// By the index of their ids.
    pub(crate) datagrams: Vec<DatagramSocket>,
    /// Connections whose interest may differ from what epoll knows.
    changed: Vec<ConnectionId>,
    /// Until when a closing connection's input is dropped, by slot.
    lingering: TimerWheel,
    linger: Duration,
    /// Connections that were accepted, closing ones included.
    pub(crate) accepted: usize,
    outgoing: usize,
    outgoing_max: usize,
    unacknowledged_max: Option<Duration>,
    /// Places are needed: what is closed does not linger.
    pub(crate) is_crowded: bool,
    pub(crate) stop_accepting: bool,
    pub(crate) now: Time,
    pub(crate) wall: CachedWall,
}

impl Sockets {
    /// Outgoing connections, so many at one time, fail without acknowledgment for so long, and who
    /// is closed to lingers for so long.
    pub(crate) fn new(
        outgoing_max: usize,
        unacknowledged_max: Option<Duration>,
        linger: Duration,
        now: Time,
    ) -> io::Result<Sockets> {
        Ok(Sockets {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Slab::new(),
            datagrams: Vec::new(),
            changed: Vec::new(),
            lingering: TimerWheel::new(now),
            linger,
            accepted: 0,
            outgoing: 0,
            outgoing_max,
            unacknowledged_max,
            is_crowded: false,
            stop_accepting: false,
            now,
            wall: CachedWall::new(),
        })
    }

    /// How many sockets epoll may tell of, listeners aside.
    pub(crate) fn len(&self) -> usize {
        self.connections.len() + self.datagrams.len()
    }

    /// Whether there is such a connection.
    pub(crate) fn has(&self, id: ConnectionId) -> bool {
        self.connections.get(id.key()).is_some()
    }

    pub(crate) fn get(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(id.key())
    }

    /// The connection as the handler knows it: one it closed is gone for it.
    fn get_for_handler(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.get(id)
            .filter(|connection| connection.state != State::Closing)
    }

    /// Takes in a socket that was accepted.
    pub(crate) fn insert_accepted(
        &mut self,
        socket: OwnedFd,
        places: (Option<Place>, Option<Taken>),
    ) -> io::Result<ConnectionId> {
        let id = self.insert(socket, State::Open, false, places)?;
        self.accepted += 1;
        Ok(id)
    }

    fn insert(
        &mut self,
        socket: OwnedFd,
        state: State,
        outgoing: bool,
        places: (Option<Place>, Option<Taken>),
    ) -> io::Result<ConnectionId> {
        let id = ConnectionId::from(self.connections.next_key());
        let mut connection = Connection {
            socket,
            state,
            outgoing,
            _places: places,
            is_new: !outgoing,
            is_unanswered: !outgoing,
            untold: EventFlags::empty(),
            paused: false,
            input_ended: false,
            wants_write: false,
            error: None,
            noted: false,
            rearmed: false,
            registered: EventFlags::empty(),
        };
        connection.registered = connection.interest();
        epoll::add(
            &self.epoll,
            &connection.socket,
            EventData::new_u64(id.as_u64()),
            connection.registered,
        )?;
        let key = self.connections.insert(connection);
        debug_assert_eq!(key, id.key(), "the id that epoll was told");
        Ok(id)
    }

    /// Closes the socket, which also takes it out of epoll, and frees the slot.
    pub(crate) fn remove(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.remove(id.key()) else {
            debug_assert!(false, "{id:?} is removed once");
            return;
        };
        let count = if connection.outgoing {
            &mut self.outgoing
        } else {
            &mut self.accepted
        };
        *count -= 1;
        if connection.state == State::Closing {
            self.lingering.clear(id.slot());
        }
    }

    /// Has the interest in `id` compared with what epoll knows before the next wait.
    pub(crate) fn note_change(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get(id)
            && !std::mem::replace(&mut connection.noted, true)
        {
            self.changed.push(id);
        }
    }

    /// Has epoll look at a connection again before the next wait.
    pub(crate) fn rearm(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get(id) {
            connection.rearmed = true;
            self.note_change(id);
        }
    }

    /// Tells epoll what has changed; passes the connections it does not take (for want of memory),
    /// which are gone, to `failed`.
    pub(crate) fn apply_changes(
        &mut self,
        mut failed: impl FnMut(&mut Sockets, ConnectionId, Errno),
    ) {
        // What `failed` does may note further changes: they are appended and come up in this loop.
        let mut done = 0;
        while let Some(&id) = self.changed.get(done) {
            done += 1;
            let Some(connection) = self.connections.get_mut(id.key()) else {
                continue;
            };
            connection.noted = false;
            let interest = connection.interest();
            let is_rearmed = std::mem::take(&mut connection.rearmed);
            if interest == connection.registered && !is_rearmed {
                continue;
            }
            connection.registered = interest;
            if let Err(errno) = epoll::modify(
                &self.epoll,
                &connection.socket,
                EventData::new_u64(id.as_u64()),
                interest,
            ) {
                self.remove(id);
                failed(self, id, errno);
            }
        }
        self.changed.clear();
    }

    /// Resets every connection that the handler has not closed.
    pub(crate) fn abort_all(&mut self) {
        let keys: Vec<_> = self.connections.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.abort(key.into()));
    }

    /// Drops the closing connections whose time is up.
    pub(crate) fn expire_lingering(&mut self) {
        let mut expired = Vec::new();
        self.lingering.expire(self.now, |slot| expired.push(slot));
        for slot in expired {
            let key = self.connections.key_at(slot);
            debug_assert!(key.is_some(), "a connection that is gone has no timer");
            if let Some(key) = key {
                self.remove(key.into());
            }
        }
    }

    /// Drops the closing connections that have lingered for a while, whose places are needed.
    pub(crate) fn cut_lingering(&mut self) {
        let late = self.now + self.linger.saturating_sub(LINGER_MIN);
        let closing = (self.connections.iter()).filter(|(_, it)| it.state == State::Closing);
        let old = closing.filter(|(key, _)| {
            let deadline = self.lingering.deadline(key.slot());
            deadline.is_none_or(|deadline| deadline <= late)
        });
        let old: Vec<_> = old.map(|(key, _)| key).collect();
        old.into_iter().for_each(|key| self.remove(key.into()));
    }

    /// The closing connections, whose input is still dropped.
    pub(crate) fn closing(&self) -> impl Iterator<Item = &Connection> {
        let all = self.connections.iter().map(|(_, connection)| connection);
        all.filter(|connection| connection.state == State::Closing)
    }

    /// When [`Sockets::expire_lingering`] has something to do next.
    pub(crate) fn lingering_until(&self) -> Option<Time> {
        self.lingering.wake_at()
    }

    /// What became of sending `length` bytes.
    fn sent(&mut self, id: ConnectionId, result: Result<usize, Errno>, length: usize) -> Sent {
        let taken = match result {
            Ok(taken) => taken,
            Err(Errno::AGAIN) => 0,
            Err(errno) => return self.not_sent(id, errno),
        };
        if taken < length
            && let Some(connection) = self.get(id)
        {
            connection.wants_write = true;
            self.note_change(id);
        }
        Sent::Taken(taken)
    }

    /// A send has failed.
    fn not_sent(&mut self, id: ConnectionId, errno: Errno) -> Sent {
        let Some(connection) = self.get(id) else {
            return Sent::Gone;
        };
        if connection.outlasts(Some(errno)) {
            connection.wants_write = false;
            self.rearm(id);
            return Sent::Taken(0);
        }
        self.remove(id);
        Sent::Gone
    }

    /// What epoll is to know before the next wait.
    fn set_datagrams_paused(&mut self, id: DatagramId, is_paused: bool) {
        let socket = self.datagrams.get_mut(id.index as usize);
        debug_assert!(socket.is_some(), "{id:?} is not of this driver");
        if let Some(socket) = socket {
            socket.is_paused = is_paused;
        }
    }

    fn set_paused(&mut self, id: ConnectionId, paused: bool) {
        if let Some(connection) = self.get_for_handler(id)
            && connection.paused != paused
        {
            connection.paused = paused;
            self.note_change(id);
        }
    }
}

impl Port for Sockets {
    fn send(&mut self, id: ConnectionId, bytes: &[u8]) -> Sent {
        let Some(connection) = self.get_for_handler(id) else {
            return Sent::Gone;
        };
        if connection.state == State::Connecting {
            return Sent::Taken(0);
        }
        connection.is_unanswered = false;
        let result = retry(|| net::send(&connection.socket, bytes, SendFlags::NOSIGNAL));
        if result == Ok(bytes.len()) {
            return Sent::Taken(bytes.len());
        }
        self.sent(id, result, bytes.len())
    }

    fn send_vectored(&mut self, id: ConnectionId, slices: &[IoSlice<'_>]) -> Sent {
        let Some(connection) = self.get_for_handler(id) else {
            return Sent::Gone;
        };
        if connection.state == State::Connecting {
            return Sent::Taken(0);
        }
        connection.is_unanswered = false;
        // More slices than the kernel takes at once are left for `writable`, which then follows at
        // once: no edge would tell of the room that there still is.
        let slices_taken = &slices[..slices.len().min(IOV_MAX)];
        let mut no_control = SendAncillaryBuffer::default();
        let result = retry(|| {
            net::sendmsg(
                &connection.socket,
                slices_taken,
                &mut no_control,
                SendFlags::NOSIGNAL,
            )
        });
        if slices.len() > IOV_MAX {
            self.rearm(id);
        }
        self.sent(id, result, slices.iter().map(|slice| slice.len()).sum())
    }

    fn close(&mut self, id: ConnectionId) {
        let is_crowded = self.is_crowded;
        let Some(connection) = self.get_for_handler(id) else {
            return;
        };
        let lingers = !is_crowded
            && connection.state == State::Open
            && !connection.input_ended
            && net::shutdown(&connection.socket, Shutdown::Write).is_ok();
        if !lingers {
            return self.remove(id);
        }
        connection.state = State::Closing;
        self.note_change(id);
        self.lingering.set(id.slot(), self.now + self.linger);
    }

    fn abort(&mut self, id: ConnectionId) {
        let Some(connection) = self.get_for_handler(id) else {
            return;
        };
        // Lingering for no time makes the close a reset, which also frees what the kernel holds for
        // a peer that does not read.
        let _ = sockopt::set_socket_linger(&connection.socket, Some(Duration::ZERO));
        self.remove(id);
    }

    fn pause(&mut self, id: ConnectionId) {
        self.set_paused(id, true);
    }

    fn resume(&mut self, id: ConnectionId) {
        self.set_paused(id, false);
    }

    fn unanswered(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_for_handler(id) {
            connection.is_unanswered = !connection.is_ours();
        }
    }

    fn has_news(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.get_for_handler(id) else {
            return true;
        };
        connection.look() != Err(Errno::AGAIN)
    }

    fn connect(&mut self, peer: &Peer) -> io::Result<ConnectionId> {
        if peer.seal.is_some() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if self.outgoing >= self.outgoing_max {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let (socket, begun) = begin(&peer.address, self.unacknowledged_max).map_err(refusal)?;
        match begun {
            // Even a connection that stands at once is reported through epoll: a port never calls
            // the handler back.
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(errno) => return Err(refusal(errno)),
        }
        let id = (self.insert(socket, State::Connecting, true, (None, None)))
            .map_err(|error| io::Error::new(io::ErrorKind::QuotaExceeded, error))?;
        self.outgoing += 1;
        Ok(id)
    }

    fn send_datagrams(&mut self, id: DatagramId, datagrams: &[Datagram<'_>]) -> usize {
        let socket = self.datagrams.get_mut(id.index as usize);
        debug_assert!(socket.is_some(), "{id:?} is not of this driver");
        socket.map_or(0, |socket| socket.send(datagrams))
    }

    fn pause_datagrams(&mut self, id: DatagramId) {
        self.set_datagrams_paused(id, true);
    }

    fn resume_datagrams(&mut self, id: DatagramId) {
        self.set_datagrams_paused(id, false);
    }

    fn stop_accepting(&mut self) {
        self.stop_accepting = true;
    }

    fn clock(&self, event: Time) -> Time {
        clock::monotonic().max(event)
    }

    fn wall_clock(&self) -> WallClock {
        self.wall.value()
    }
}

/// Why no connection is begun: where nothing is left for it, that is nothing about its peer.
fn refusal(errno: Errno) -> io::Error {
    match errno {
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::ADDRNOTAVAIL => {
            io::Error::new(io::ErrorKind::QuotaExceeded, io::Error::from(errno))
        }
        errno => errno.into(),
    }
}

/// A socket on which a connection to this address is begun, and how that went so far.
fn begin(
    address: &PeerAddress,
    unacknowledged_max: Option<Duration>,
) -> Result<(OwnedFd, Result<(), Errno>), Errno> {
    match address {
        PeerAddress::Tcp(address) => {
            let socket = listener::socket(address, SocketType::STREAM)?;
            sockopt::set_tcp_nodelay(&socket, true)?;
            if let Some(most) = unacknowledged_max {
                sockopt::set_tcp_user_timeout(&socket, most.as_millis() as u32)?;
            }
            let begun = net::connect(&socket, address);
            Ok((socket, begun))
        }
        PeerAddress::Unix(path) => begin_unix(&SocketAddrUnix::new(&**path)?),
        PeerAddress::Local(name) => begin_unix(&SocketAddrUnix::new_abstract_name(name)?),
    }
}

fn begin_unix(address: &SocketAddrUnix) -> Result<(OwnedFd, Result<(), Errno>), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let begun = net::connect(&socket, address);
    Ok((socket, begun))
}

/// Where its place is needed, a closed connection's input is dropped for no longer.
const LINGER_MIN: Duration = Duration::from_millis(100);

/// The kernel's bound on slices in one call (UIO_MAXIOV).
const IOV_MAX: usize = 1024;

/// Repeats a call that a signal interrupted.
pub(crate) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// The kind of failure, as the handler is told.
pub(crate) fn kind(errno: Errno) -> io::ErrorKind {
    io::Error::from(errno).kind()
}
