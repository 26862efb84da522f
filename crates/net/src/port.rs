//! What a driver and the code it drives know of each other: events go in through [`Handler`],
//! effects come out through [`Port`].
//!
//! Nothing here names a system call. A driver on real sockets is in [`crate::driver`]; a simulator
//! implements [`Port`] over virtual sockets and a virtual clock, and the handler cannot tell the
//! difference.
//!
//! One *turn* of a driver is: wait; report everything that became ready (`opened`, `received`,
//! `ended`, `writable`, `connected`, `datagrams`, `notified`, in any order); `tick` if the time
//! asked for has come, and all is told of that came before it; `idle` once. A handler may use the
//! port in any of these calls, and a port never calls the handler back from inside one of its own.

use crate::slab::Key;
use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::{Add, AddAssign};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a turn is to be at most, where there is more to do than that: who comes meanwhile waits
/// for its end. A driver leaves what else it has to tell of for the next, and so may a handler with
/// what it has to do.
pub const TURN_MAX: Duration = Duration::from_micros(250);

/// A moment on a monotonic clock, in nanoseconds since a fixed but unspecified origin.
///
/// Our own type rather than [`std::time::Instant`], because a simulator must be able to make one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin of the clock: never later than any reading of it.
    pub const ZERO: Time = Time(0);
    /// Later than any reading of the clock.
    pub const NEVER: Time = Time(u64::MAX);

    /// The moment `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Saturates at [`Time::NEVER`] (584 years).
    fn add(self, duration: Duration) -> Time {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// The calendar's time, for what people read (`Date`, logs, expiry of cookies); it may jump, so
/// nothing is measured with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallClock {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub unix_seconds: u64,
}

/// Names one connection for as long as it lives: the [`Key`] of its place in the driver's [`Slab`].
///
/// [`Slab`]: crate::Slab
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(Key);

impl ConnectionId {
    /// The id of the connection in `slot` at its `generation`, of which 31 bits count.
    pub const fn new(slot: u32, generation: u32) -> ConnectionId {
        ConnectionId(Key::new(slot, generation))
    }

    /// The slot: small and dense, at most as many as there were connections at one time, so it can
    /// index an array of the handler's.
    pub const fn slot(self) -> u32 {
        self.0.slot()
    }

    /// Which of the slot's connections this is.
    pub const fn generation(self) -> u32 {
        self.0.generation()
    }

    /// Both parts in one number whose highest bit is 0.
    pub const fn as_u64(self) -> u64 {
        self.0.as_u64()
    }

    /// The inverse of [`ConnectionId::as_u64`]; the highest bit is ignored.
    pub(crate) const fn from_u64(bits: u64) -> ConnectionId {
        ConnectionId(Key::from_u64(bits))
    }

    /// The key in the driver's table.
    pub(crate) const fn key(self) -> Key {
        self.0
    }
}

impl From<Key> for ConnectionId {
    fn from(key: Key) -> ConnectionId {
        ConnectionId(key)
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}.{}", self.slot(), self.generation())
    }
}

/// What a listener is for: a number chosen by whoever gives it to the driver, so that one handler
/// can serve several (the public, administrators).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Role(pub u32);

/// Names one of a driver's wakers; the number is chosen by whoever asks for the waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u32);

impl Token {
    /// The waker of a worker's [`Inbox`](crate::workers::Inbox); no other may have this number.
    pub const COMMANDS: Token = Token(u32::MAX);
}

/// A connection that a client opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its name from now on.
    pub connection: ConnectionId,
    /// What the listener is for at which it arrived.
    pub role: Role,
    /// Where the client is.
    pub peer: Client,
}

/// Where a client is. It is shown without its port, which says nothing to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// At a TCP port.
    At(SocketAddr),
    /// At a Unix socket of ours. Clients have no address there; most often it is one, a proxy, that
    /// speaks for all of its own.
    Unix,
}

impl Client {
    /// Its address, if it has one.
    pub fn address(self) -> Option<IpAddr> {
        match self {
            Client::At(address) => Some(address.ip()),
            Client::Unix => None,
        }
    }
}

impl From<SocketAddr> for Client {
    fn from(address: SocketAddr) -> Client {
        Client::At(address)
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // At a listener for both families those of IPv4 have addresses of IPv6.
            Client::At(address) => address.ip().to_canonical().fmt(f),
            Client::Unix => f.write_str("unix"),
        }
    }
}

/// The other end of a connection that we begin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Where it is.
    pub address: PeerAddress,
    /// Who it is to be: what a certificate must say, and what logs call it. A driver makes nothing
    /// of it; a [layer](crate::layer) may.
    pub name: Arc<str>,
    /// How what goes there is sealed, for a layer that knows how. Where nobody seals it no
    /// connection is begun: nothing that is to be sealed goes out as it is.
    pub seal: Option<Seal>,
}

/// What a layer seals the bytes of a connection with: its own to make something of.
#[derive(Clone)]
pub struct Seal(Arc<dyn Any + Send + Sync>);

impl Seal {
    /// With this.
    pub fn with<T: Send + Sync + 'static>(by: Arc<T>) -> Seal {
        Seal(by)
    }

    /// What it is, if it is of this type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.clone().downcast().ok()
    }
}

impl PartialEq for Seal {
    /// Whether it is the same one.
    fn eq(&self, other: &Seal) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Seal {}

impl Hash for Seal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).cast::<()>().hash(state);
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(..)")
    }
}

/// Where a peer is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerAddress {
    /// At a TCP port.
    Tcp(SocketAddr),
    /// On this machine, at a socket of the file system.
    Unix(Arc<Path>),
    /// In this process, at a [`LocalListener`](crate::LocalListener) of this name.
    Local(Arc<[u8]>),
}

impl Peer {
    /// A peer at a TCP port.
    pub fn tcp(name: impl Into<Arc<str>>, address: SocketAddr) -> Peer {
        Peer {
            address: PeerAddress::Tcp(address),
            name: name.into(),
            seal: None,
        }
    }

    /// A peer at a Unix socket of this path, whose name is the path.
    pub fn unix(path: &Path) -> Peer {
        Peer {
            address: PeerAddress::Unix(path.into()),
            name: path.to_string_lossy().into(),
            seal: None,
        }
    }

    /// The same one, to which what goes there is sealed so.
    #[must_use]
    pub fn sealed(mut self, seal: Option<Seal>) -> Peer {
        self.seal = seal;
        self
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            PeerAddress::Tcp(address) if *self.name == address.ip().to_string() => {
                write!(f, "{address}")
            }
            PeerAddress::Tcp(address) => write!(f, "{} ({address})", self.name),
            PeerAddress::Unix(path) => write!(f, "{}", path.display()),
            PeerAddress::Local(_) => f.write_str(&self.name),
        }
    }
}

/// One datagram, received or to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Who sent it, or is to get it.
    pub peer: SocketAddr,
    /// What is in it.
    pub bytes: &'a [u8],
    /// Received: more was in it than the driver takes
    /// ([`datagram_bytes`](crate::DriverOptions::datagram_bytes)), and is lost.
    pub is_truncated: bool,
}

impl<'a> Datagram<'a> {
    /// A datagram to be sent.
    pub const fn new(peer: SocketAddr, bytes: &'a [u8]) -> Datagram<'a> {
        Datagram {
            peer,
            bytes,
            is_truncated: false,
        }
    }

    /// Room for one.
    pub(crate) const NONE: Datagram<'static> =
        Datagram::new(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), &[]);
}

/// Names one of a driver's datagram sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DatagramId {
    /// Which, in the order in which they were given to the driver.
    pub index: u32,
    /// What it is for.
    pub role: Role,
}

/// How a connection's input ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The peer will send nothing more, but may still read: answers owed can be sent, and the
    /// handler must close.
    PeerFinished,
    /// The connection failed (reset, timed out, refused) and is gone: its id names nothing any
    /// more.
    Failed(io::ErrorKind),
}

/// What became of bytes to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// That many bytes were taken, from the first on. If fewer than were given, the socket is full:
    /// `writable` follows when it is not. Or else a connection that we began has failed: `ended`
    /// follows, behind what its peer said before, which may be an answer.
    Taken(usize),
    /// The connection is gone, or was when called: its id names nothing any more, and no `ended`
    /// follows.
    Gone,
}

/// Sends slices one after the other by `send`, up to the first that is not taken whole: what
/// [`Port::send_vectored`] is where nothing better is at hand.
pub fn send_each(slices: &[io::IoSlice<'_>], mut send: impl FnMut(&[u8]) -> Sent) -> Sent {
    let mut taken = 0;
    for slice in slices {
        match send(slice) {
            Sent::Taken(n) => {
                taken += n;
                if n < slice.len() {
                    break;
                }
            }
            Sent::Gone => return Sent::Gone,
        }
    }
    Sent::Taken(taken)
}

/// What a handler can do to the world.
///
/// An id that names nothing (any more) is never an error: it is ignored, or [`Sent::Gone`].
pub trait Port {
    /// Sends what the socket takes now.
    ///
    /// Nothing is kept for later: the handler holds what was not taken until `writable`. Before
    /// `connected`, nothing is taken.
    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) -> Sent;

    /// Sends several slices as if they were one; for few and long ones.
    fn send_vectored(&mut self, connection: ConnectionId, slices: &[io::IoSlice<'_>]) -> Sent {
        send_each(slices, |slice| self.send(connection, slice))
    }

    /// Ends the connection once the peer has what was sent: the id names nothing from now on.
    ///
    /// The driver finishes sending, then reads and drops the peer's input for a bounded time, so
    /// that input we never read does not make the kernel reset the connection and take the answer
    /// with it (RFC 9112 section 9.6).
    fn close(&mut self, connection: ConnectionId);

    /// Drops the connection at once, with all that was not yet delivered: the id names nothing from
    /// now on.
    fn abort(&mut self, connection: ConnectionId);

    /// Stops `received` for this connection, so that the peer is slowed down to our pace. A failure
    /// is still told at once, unless we began the connection and its peer has said something
    /// before; that, and that the peer has finished, is told after `resume`.
    fn pause(&mut self, connection: ConnectionId);

    /// Takes up reading again.
    fn resume(&mut self, connection: ConnectionId);

    /// What was sent to a client was not its answer, or not to all that came of it: it is in the
    /// midst of a request, and what comes next is told of after those who are answered.
    ///
    /// Unless told so, a driver takes whatever is sent for an answer to all that came before.
    fn unanswered(&mut self, connection: ConnectionId) {
        let _ = connection;
    }

    /// Whether something came on a connection, or it ended, that its handler was not told of yet:
    /// on one that was kept, nothing that lies there is an answer to what is asked next. A port
    /// that cannot look says no.
    fn has_news(&mut self, connection: ConnectionId) -> bool {
        let _ = connection;
        false
    }

    /// Begins a connection to `peer`; `connected` or `ended` follows.
    ///
    /// # Errors
    ///
    /// When it fails at once: `QuotaExceeded` where this side has no more, whoever the peer is: as
    /// many outgoing connections as allowed are open, or files, ports or memory are used up;
    /// `Unsupported` where what goes there is to be sealed and nobody here does; else what the
    /// system said.
    fn connect(&mut self, peer: &Peer) -> io::Result<ConnectionId>;

    /// Sends what the socket takes now, and returns how many of the datagrams that were; the others
    /// are dropped, as the network may drop any: one that cannot be sent (too long, no way to its
    /// peer) by itself, those that a full socket has no room for from there on.
    ///
    /// A port without datagram sockets, like that of a test, takes none.
    fn send_datagrams(&mut self, socket: DatagramId, datagrams: &[Datagram<'_>]) -> usize {
        let _ = (socket, datagrams);
        0
    }

    /// Leaves what comes to a datagram socket in the system's queue, which drops what it has no
    /// room for, until it is [taken up again](Port::resume_datagrams).
    ///
    /// A port without datagram sockets has nothing to leave.
    fn pause_datagrams(&mut self, socket: DatagramId) {
        let _ = socket;
    }

    /// Takes up receiving again.
    fn resume_datagrams(&mut self, socket: DatagramId) {
        let _ = socket;
    }

    /// Takes no more clients: those already waiting are still `opened`, then the listeners are
    /// closed. Datagrams still come.
    fn stop_accepting(&mut self);

    /// The calendar's time, at most a second old.
    fn wall_clock(&self) -> WallClock;

    /// The time now, in the midst of an event that came at this one: for those who measure what
    /// they do in it, and end it when it has taken long. A port without a clock, as tests have it,
    /// says that no time has passed.
    fn clock(&self, event: Time) -> Time {
        event
    }
}

/// What a driver drives. Every `now` is the time at which the driver learned of the event.
///
/// A handler leaves out what it has no use for: without them clients are turned away, a connection
/// whose peer has finished is closed, and everything else is ignored.
pub trait Handler {
    /// A client opened a connection. A handler that does not want it closes or aborts it, as one
    /// does that has no clients.
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        let _ = now;
        port.abort(accepted.connection);
    }

    /// A client waits for which there is no room: a handler may close connections that can be
    /// missed. What it closes now does not linger. As in [`Handler::tick`], all is told of that
    /// came until `now`.
    fn crowded(&mut self, port: &mut dyn Port, now: Time) {
        let _ = (port, now);
    }

    /// After [`Port::stop_accepting`]: all who waited are in, and the listeners are closed. A
    /// handler that finishes before resets those who wait still.
    fn listeners_closed(&mut self) {}

    /// Bytes arrived, at least one. They lie in the driver's own buffer and are valid for this call
    /// only.
    fn received(&mut self, port: &mut dyn Port, connection: ConnectionId, bytes: &[u8], now: Time) {
        let _ = (port, connection, bytes, now);
    }

    /// The input ended. Either way is told once per connection at most, `Failed` last, and nothing
    /// after the handler closed or aborted it.
    fn ended(&mut self, port: &mut dyn Port, connection: ConnectionId, how: Ended, now: Time) {
        let _ = now;
        if how == Ended::PeerFinished {
            port.close(connection);
        }
    }

    /// After a send that was not taken whole: the socket takes bytes again.
    fn writable(&mut self, port: &mut dyn Port, connection: ConnectionId, now: Time) {
        let _ = (port, connection, now);
    }

    /// A connection begun with [`Port::connect`] stands.
    fn connected(&mut self, port: &mut dyn Port, connection: ConnectionId, now: Time) {
        let _ = (port, connection, now);
    }

    /// Datagrams arrived at a socket, at least one: what one system call brought. They lie in the
    /// driver's own buffer and are valid for this call only.
    fn datagrams(
        &mut self,
        port: &mut dyn Port,
        socket: DatagramId,
        datagrams: &[Datagram<'_>],
        now: Time,
    ) {
        let _ = (port, socket, datagrams, now);
    }

    /// Somebody used the waker registered under `token`, once or more since last told.
    fn notified(&mut self, port: &mut dyn Port, token: Token, now: Time) {
        let _ = (port, token, now);
    }

    /// The time asked for by [`Handler::wake_at`] has come. All is told of that came until `now`,
    /// which may lie before the time of other calls: so where the driver is late, nobody is taken
    /// for late whose bytes, or whose connection, were there in time.
    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        let _ = (port, now);
    }

    /// There is no more input for now: the moment to start work on what was collected. At least
    /// once in a turn; before its end, where others follow who are to wait for these.
    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        let _ = (port, now);
    }

    /// The turn is over, with all that [`Handler::idle`] did in it: what the time is by now.
    fn turn_ended(&mut self, now: Time) {
        let _ = now;
    }

    /// When to be woken at the latest, if nothing happens before. Asked before each wait; a time
    /// that has passed means at once.
    fn wake_at(&self) -> Option<Time> {
        None
    }

    /// Whether the driver is to leave its loop. Asked after each turn.
    fn finished(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestPort;

    #[test]
    fn a_peer_that_is_named_by_its_address_is_shown_once() {
        let shown = |name: &str, at: &str| Peer::tcp(name, at.parse().unwrap()).to_string();
        assert_eq!(shown("bank", "10.0.0.1:81"), "bank (10.0.0.1:81)");
        assert_eq!(shown("10.0.0.1", "10.0.0.1:81"), "10.0.0.1:81");
        assert_eq!(shown("::1", "[::1]:81"), "[::1]:81");
    }

    #[test]
    fn a_client_is_shown_by_the_address_that_it_has() {
        let shown = |at: &str| Client::At(at.parse().unwrap()).to_string();
        assert_eq!(shown("192.0.2.7:80"), "192.0.2.7");
        assert_eq!(shown("[::ffff:192.0.2.7]:80"), "192.0.2.7");
        assert_eq!(shown("[2001:db8::7]:80"), "2001:db8::7");
        assert_eq!(Client::Unix.to_string(), "unix");
    }

    #[test]
    fn time_saturates_at_both_ends() {
        let early = Time::from_nanos(5);
        assert_eq!(early.since(Time::from_nanos(9)), Duration::ZERO);
        assert_eq!(early + Duration::MAX, Time::NEVER);
        assert_eq!(
            (early + Duration::from_nanos(4)).since(early),
            Duration::from_nanos(4)
        );
    }

    #[test]
    fn sending_slices_stops_where_the_socket_is_full() {
        let slices = [
            io::IoSlice::new(b"abc"),
            io::IoSlice::new(b"de"),
            io::IoSlice::new(b"f"),
        ];
        let id = ConnectionId::new(0, 0);
        for (room, taken) in [(9, 6), (6, 6), (4, 4), (3, 3), (0, 0)] {
            let mut port = TestPort::with(id, room);
            assert_eq!(port.send_vectored(id, &slices), Sent::Taken(taken));
            assert_eq!(port.at(id).sent, b"abcdef"[..taken]);
        }
    }
}
