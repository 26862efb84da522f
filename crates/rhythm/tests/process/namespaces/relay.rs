//! A bad network between nodes: a thread that passes on what they send each other, late, and some
//! of it not at all.
//!
//! Ethernet frames go from one link to another, as by a switch that knows nodes by the names in
//! them; one in a hundred is dropped, and each has a delay of its own, so they come out of order.
//! Of TCP it passes on bytes, some of them much later, as what was lost and is sent again.

use rhythm_net::workers::{self, Entrance, Worker, WorkerOptions, Workers};
use rhythm_net::{
    Accepted, ConnectionId, Datagram, DatagramId, DatagramSocket, DriverOptions, Ended, Flushed,
    Handler, Link, ListenOptions, Listener, Outgoing, Peer, Port, Role, Time,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

/// The backbone's (`rhythm_kv::ring::ether`), and where it says who is to get a piece.
const ETHER_TYPE: u16 = 0x88b5;
const TO: usize = 4;
/// The longest that something is late, in microseconds; and what is lost of TCP.
const LATE: u64 = 300;
const AGAIN: Duration = Duration::from_millis(20);

/// Something under way.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Frame(usize),
    Bytes(ConnectionId),
}

/// When it comes, its number, what it is, and its bytes.
type Late = (Time, u64, What, Vec<u8>);

/// One side of a connection that is passed on.
struct Side {
    other: ConnectionId,
    out: Outgoing,
    /// When the last of what is under way to it comes.
    last: Time,
}

struct Relay {
    random: u64,
    /// Where connections lead, by the role at which they came.
    nodes: Vec<Peer>,
    links: Vec<Link>,
    sides: HashMap<ConnectionId, Side>,
    late: BinaryHeap<Reverse<Late>>,
    count: u64,
}

/// Begins to pass on what comes at the first of each pair of addresses to the second, and frames
/// between the links of these interfaces, each of which leads to one node.
pub(crate) fn start(pairs: &[(SocketAddr, SocketAddr)], interfaces: &[String]) -> Workers<()> {
    let listeners = pairs.iter().enumerate().map(|(node, (at, _))| {
        let listener = Listener::bind(*at, &ListenOptions::default()).expect("it is ours");
        Entrance::listeners(Role(node as u32), vec![listener])
    });
    let mut links = Vec::new();
    let sockets = interfaces.iter().enumerate().map(|(node, interface)| {
        let (socket, link) = DatagramSocket::link(interface, ETHER_TYPE).expect("it is ours");
        links.push(link);
        Entrance::datagrams(Role(node as u32), vec![socket])
    });
    let entrances = listeners.chain(sockets).collect();
    let nodes: Vec<Peer> = pairs.iter().map(|(_, to)| Peer::tcp("node", *to)).collect();
    let options = WorkerOptions {
        name: "relay",
        driver: DriverOptions {
            outgoing_max: 64,
            ..DriverOptions::default()
        },
        ..WorkerOptions::default()
    };
    let make = move |_: workers::WorkerThread<'_, ()>| {
        Ok::<_, Infallible>(Relay {
            random: 1,
            nodes: nodes.clone(),
            links: links.clone(),
            sides: HashMap::new(),
            late: BinaryHeap::new(),
            count: 0,
        })
    };
    workers::start(&options, entrances, make).expect("a thread")
}

impl Relay {
    fn below(&mut self, end: u64) -> u64 {
        let more = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d);
        self.random = more.wrapping_add(1);
        (self.random >> 33) % end
    }

    fn push(&mut self, at: Time, what: What, bytes: &[u8]) {
        self.count += 1;
        self.late
            .push(Reverse((at, self.count, what, bytes.to_vec())));
    }

    fn part(&mut self, port: &mut dyn Port, id: ConnectionId) {
        if let Some(side) = self.sides.remove(&id) {
            self.sides.remove(&side.other);
            port.abort(id);
            port.abort(side.other);
        }
    }
}

impl Handler for Relay {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        let from = accepted.connection;
        let Ok(to) = port.connect(&self.nodes[accepted.role.0 as usize]) else {
            return port.abort(from);
        };
        for (id, other) in [(from, to), (to, from)] {
            let out = Outgoing::default();
            let last = now;
            self.sides.insert(id, Side { other, out, last });
        }
    }

    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.writable(port, id, now);
    }

    fn received(&mut self, _: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        let again = if self.below(100) == 0 {
            AGAIN
        } else {
            Duration::ZERO
        };
        let at = now + Duration::from_micros(self.below(LATE)) + again;
        let Some(to) = self.sides.get(&id).map(|side| side.other) else {
            return;
        };
        if let Some(side) = self.sides.get_mut(&to) {
            side.last = side.last.max(at);
            let at = side.last;
            self.push(at, What::Bytes(to), bytes);
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) {
        if let Some(side) = self.sides.get_mut(&id)
            && side.out.writable(port, id) == Flushed::Gone
        {
            self.part(port, id);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, _: Ended, _: Time) {
        self.part(port, id);
    }

    fn datagrams(&mut self, _: &mut dyn Port, _: DatagramId, frames: &[Datagram<'_>], now: Time) {
        for frame in frames {
            let to = frame.bytes.get(TO).map(|to| usize::from(*to));
            if let Some(to) = to.filter(|to| *to < self.links.len())
                && self.below(100) > 0
            {
                let at = now + Duration::from_micros(self.below(LATE));
                self.push(at, What::Frame(to), frame.bytes);
            }
        }
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        while let Some(Reverse((at, ..))) = self.late.peek()
            && *at <= now
            && let Some(Reverse((_, _, what, bytes))) = self.late.pop()
        {
            match what {
                What::Frame(to) => {
                    let id = DatagramId {
                        index: to as u32,
                        role: Role(to as u32),
                    };
                    // What finds no room is lost, as much is.
                    port.send_datagrams(id, &[Datagram::new(self.links[to].everybody, &bytes)]);
                }
                What::Bytes(id) => {
                    if let Some(side) = self.sides.get_mut(&id)
                        && side.out.send(port, id, &bytes) == Flushed::Gone
                    {
                        self.part(port, id);
                    }
                }
            }
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.late.peek().map(|Reverse((at, ..))| *at)
    }
}

impl Worker for Relay {
    type Command = ();

    fn obey(&mut self, _: &mut dyn Port, (): (), _: Time) {}
}
