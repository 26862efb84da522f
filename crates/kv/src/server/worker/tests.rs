mod ending;
mod told;
mod turns;

use super::super::orders::{Forward, RingOrder, Told};
use super::*;
use crate::class::{Class, Classes};
use crate::ring::{Placement, Road, Scheme, View};
use crate::shared::{Settings, Start};
use crate::store::{Store, StoreOptions};
use rhythm_net::testing::TestPort;
use rhythm_net::{Role, WorkerOptions, Workers, workers};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A worker, without a driver.
struct Alone {
    worker: Worker,
    port: TestPort,
    now: Time,
}

impl Alone {
    fn new(memory: usize) -> Alone {
        Alone::made(memory, None, Settings::default())
    }

    /// One whose writes are announced there.
    fn in_ring(memory: usize, view: Arc<View>) -> Alone {
        Alone::made(memory, Some(view), Settings::default())
    }

    fn made(memory: usize, view: Option<Arc<View>>, settings: Settings) -> Alone {
        let options = StoreOptions {
            memory,
            item_max: settings.item_max as usize,
            ..StoreOptions::default()
        };
        let store = Arc::new(Store::new(options).expect("memory"));
        let settings = Settings {
            threads: 1,
            ..settings
        };
        let of_worker = store.worker().expect("the first");
        let held_most = settings.buffers_max;
        let mut shared = Shared::new(settings, store, Start::new(Time::ZERO, 0), |_| {});
        shared.ring = view;
        Alone {
            worker: Worker::new(Arc::new(shared), 0, of_worker, held_most, Time::ZERO),
            port: TestPort::default(),
            now: Time::ZERO,
        }
    }

    /// A connection that takes so many bytes.
    fn connect(&mut self, slot: u32, room: usize) -> ConnectionId {
        let connection = ConnectionId::new(slot, 0);
        self.port.accept(connection);
        self.port.at(connection).room = room;
        let accepted = Accepted {
            connection,
            role: Role::default(),
            peer: rhythm_net::Client::At(SocketAddr::from(([127, 0, 0, 1], 1))),
        };
        self.worker.opened(&mut self.port, accepted, self.now);
        connection
    }

    /// One turn of the loop, in which a connection sends something; what it is answered.
    fn turn(&mut self, id: ConnectionId, bytes: &[u8]) -> Vec<u8> {
        self.now += Duration::from_millis(1);
        let (worker, port) = (&mut self.worker, &mut self.port);
        worker.received(port, id, bytes, self.now);
        worker.tick(port, self.now);
        worker.idle(port, self.now);
        worker.turn_ended(self.now);
        let connection = port.connections.get_mut(&id);
        connection.map_or_else(Vec::new, |one| std::mem::take(&mut one.sent))
    }
}

/// Each of them has a value that is no item's any more when the next has come.
#[test]
fn values_that_slow_readers_have_not_taken_leave_room_for_others() {
    const LONG: usize = 900_000;
    let mut alone = Alone::new(32 << 20);
    let writer = alone.connect(0, usize::MAX);
    for round in 1..100 {
        let set = format!("set a 0 0 {LONG}\r\n{}\r\n", "x".repeat(LONG));
        let said = alone.turn(writer, set.as_bytes());
        assert_eq!(String::from_utf8_lossy(&said), "STORED\r\n", "{round}");
        let slow = alone.connect(round, 0);
        alone.turn(slow, b"get a\r\n");
        assert!(alone.port.connections.contains_key(&slow), "{round}");
    }
    let dropped = alone.port.aborted.len();
    assert!((50..99).contains(&dropped), "{dropped}");
}

/// The thread of a ring to which nothing is done.
struct Deaf;

impl Handler for Deaf {}

impl rhythm_net::Worker for Deaf {
    type Command = RingOrder;
}

#[test]
fn what_is_for_a_range_without_room_waits_and_what_is_for_others_does_not() {
    let options = WorkerOptions::default();
    let make = |_: workers::WorkerThread<'_, RingOrder>| Ok::<_, String>(Deaf);
    let backbone: Workers<RingOrder> = workers::start(&options, Vec::new(), make).expect("one");
    let placement = Placement::new([1, 2].map(|port| ("host", port)));
    let key_of = |range| {
        let mut keys = (0..).map(|number| format!("key{number}"));
        let key = keys.find(|key| placement.range(key.as_bytes()) == range);
        key.expect("there are keys of both")
    };
    let [well, ill] = [0, 1].map(key_of);
    let view = Arc::new(View::new(placement.clone(), 0));
    let inbox = backbone.inboxes()[0].clone();
    let mut alone = Alone::new(1 << 20);
    let ring = Ring::new(
        Arc::clone(&view),
        inbox,
        0,
        (Scheme::Ring, Classes::NONE),
        alone.now,
    );
    alone.worker.ring = Some(ring);
    view.set_route(0, Some(0));
    view.set_route(1, Some(1));
    view.set_crowded(1 << 1);
    let asks = |alone: &Alone, id| {
        let client = alone.worker.clients.get(id).expect("it is there");
        (client.waits_for_room, client.held.is_empty())
    };
    // What is well is answered, and what is ill waits, with all that is not parted from it.
    let ids = [0, 1, 2, 3].map(|slot| alone.connect(slot, usize::MAX));
    let get = |keys: &str| format!("get {keys}\r\n");
    let value = format!("VALUE {well} 0 1\r\nx\r\n");
    let set = format!("set {well} 0 0 1\r\nx\r\n");
    for (id, asked, answer) in [
        (ids[1], get(&format!("{well} {ill}")), &*value),
        (ids[2], get(&format!("{ill} {well}")), ""),
        // Keys before a mistake.
        (
            ids[3],
            format!("gat 1 {well} {ill} {}\r\n", "x".repeat(251)),
            "",
        ),
    ] {
        let said = alone.turn(id, format!("{set}{asked}").as_bytes());
        let said = String::from_utf8_lossy(&said);
        assert_eq!(said, format!("STORED\r\n{answer}"), "{asked}");
        assert_eq!(asks(&alone, id), (true, true), "{asked}");
    }
    let found = format!("{value}END\r\n");
    assert_eq!(alone.turn(ids[0], get(&well).as_bytes()), found.as_bytes());
    // There is room again.
    view.set_crowded(0);
    alone.now += Duration::from_millis(10);
    alone.turn(ids[0], b"");
    assert_eq!(
        [1, 2, 3].map(|at| asks(&alone, ids[at])),
        [(false, false); 3]
    );
    // And none for writes: whoever reads goes on.
    view.set_full(1 << 0);
    assert_eq!(alone.turn(ids[0], get(&well).as_bytes()), found.as_bytes());
    alone.turn(ids[0], format!("delete {well}\r\n").as_bytes());
    assert_eq!(asks(&alone, ids[0]), (true, true));
    backbone.stop();
    backbone.join().expect("it is told to");
}

/// Nobody waits for them, nor for what comes of them.
#[test]
fn writes_that_the_rings_thread_does_not_take_wait_and_reads_do_not() {
    let options = WorkerOptions::default();
    let make = |_: workers::WorkerThread<'_, RingOrder>| Ok::<_, String>(Deaf);
    let backbone: Workers<RingOrder> = workers::start(&options, Vec::new(), make).expect("one");
    let view = Arc::new(View::new(Placement::whole(), 0).with_workers(1));
    view.set_route(0, Some(0));
    let inbox = backbone.inboxes()[0].clone();
    let mut alone = Alone::in_ring(1 << 20, Arc::clone(&view));
    let how = (Scheme::Ring, Classes::NONE);
    let ring = Ring::new(Arc::clone(&view), inbox, 0, how, alone.now);
    alone.worker.ring = Some(ring);
    let [one, other] = [0, 1].map(|slot| alone.connect(slot, usize::MAX));
    let key = "k".repeat(200);
    let sets = format!("set {key} 0 0 1 noreply\r\nx\r\n").repeat(500);
    let waits = |alone: &Alone| {
        let client = alone.worker.clients.get(one).expect("it is there");
        client.waits_for_room
    };
    let mut turns = 0;
    while !waits(&alone) {
        turns += 1;
        assert!(turns < 50, "they wait at last");
        assert_eq!(alone.turn(one, sets.as_bytes()), b"");
    }
    let found = format!("VALUE {key} 0 1\r\nx\r\nEND\r\n");
    let get = format!("get {key}\r\n");
    assert_eq!(alone.turn(other, get.as_bytes()), found.as_bytes());
    // It takes one of the turns.
    let mut written = crate::ring::Written::default();
    (0..500).for_each(|_| written.key(key.as_bytes()));
    view.takes(&written);
    alone.now += Duration::from_millis(10);
    alone.turn(other, b"");
    assert!(!waits(&alone), "it goes on");
    backbone.stop();
    backbone.join().expect("it is told to");
}

/// The thread of a ring that notes the tickets that it gets, which have writes, and which commands
/// it is to execute itself.
struct Noting(std::sync::mpsc::Sender<(u64, bool, Vec<u64>)>);

impl Handler for Noting {}

impl rhythm_net::Worker for Noting {
    type Command = RingOrder;

    fn obey(&mut self, _: &mut dyn Port, order: RingOrder, _: Time) {
        if let RingOrder::Turn {
            ticket,
            written,
            forwards,
            ..
        } = order
        {
            let here = |of: &Forward| (of.road == Road::HERE).then_some(of.number);
            let here = forwards.iter().filter_map(here).collect();
            // Who asks may be gone at the end.
            let _ = self.0.send((ticket, !written.is_empty(), here));
        }
    }
}

/// A worker whose ring notes what it is told.
struct Noted {
    alone: Alone,
    view: Arc<View>,
    backbone: Workers<RingOrder>,
    heard: std::sync::mpsc::Receiver<(u64, bool, Vec<u64>)>,
}

fn noted(scheme: Scheme, is_acked: bool) -> Noted {
    let all = if is_acked {
        Classes::ALL
    } else {
        Classes::NONE
    };
    noted_with(scheme, all)
}

/// What such commands write is confirmed before it is answered.
fn noted_with(scheme: Scheme, acked: Classes) -> Noted {
    let (said, heard) = std::sync::mpsc::channel();
    let options = WorkerOptions::default();
    let make = move |_: workers::WorkerThread<'_, RingOrder>| Ok::<_, String>(Noting(said.clone()));
    let backbone: Workers<RingOrder> = workers::start(&options, Vec::new(), make).expect("one");
    let view = Arc::new(View::new(Placement::whole(), 0).with_workers(1));
    view.set_route(0, Some(0));
    let mut alone = Alone::in_ring(1 << 20, Arc::clone(&view));
    let inbox = backbone.inboxes()[0].clone();
    let how = (scheme, acked);
    let ring = Ring::new(Arc::clone(&view), inbox, 0, how, Time::from_nanos(100));
    alone.worker.ring = Some(ring);
    Noted {
        alone,
        view,
        backbone,
        heard,
    }
}

/// Others wait for the ticket, whatever comes of the command.
#[test]
fn what_a_worker_of_a_chain_announces_it_hands_over() {
    let Noted {
        mut alone,
        view,
        backbone,
        heard,
    } = noted(Scheme::Chain, true);
    let next = || {
        let heard = heard.recv_timeout(Duration::from_secs(10));
        heard.map(|(ticket, writes, _)| (ticket, writes))
    };
    assert_eq!(next(), Ok((100, false)), "it begins");
    let id = alone.connect(0, usize::MAX);
    for (command, ticket, writes, announces) in [
        ("set k 0 0 1\r\nx\r\n", 101, true, true),
        ("gets k\r\n", 102, false, false),
        ("cas k 0 0 1 99 noreply\r\ny\r\n", 103, false, true),
        ("flush_all noreply\r\n", 104, false, false),
    ] {
        alone.turn(id, command.as_bytes());
        assert_eq!(next(), Ok((ticket, writes)), "{command}");
        let wrote = view.wrote().next().expect("there is one");
        assert_eq!(wrote.number == ticket, announces, "{command}");
    }
    backbone.stop();
    backbone.join().expect("it is told to");
}

/// Its connections are gone with it, and what they wrote is here.
#[test]
fn what_a_worker_wrote_before_it_panicked_is_handed_over() {
    for (scheme, is_acked) in [(Scheme::Ring, false), (Scheme::Chain, true)] {
        let Noted {
            mut alone,
            backbone,
            heard,
            ..
        } = noted(scheme, is_acked);
        let [one, gone] = [0, 1].map(|slot| alone.connect(slot, usize::MAX));
        let (worker, port) = (&mut alone.worker, &mut alone.port);
        let set = b"set a 0 0 1 noreply\r\nx\r\n";
        worker.received(port, one, set, alone.now);
        worker.received(port, gone, b"version\r\n", alone.now);
        // What has it panics when that is answered.
        port.at(gone).open = false;
        let turn = AssertUnwindSafe(|| alone.worker.idle(&mut alone.port, alone.now));
        assert!(catch_unwind(turn).is_err());
        drop(alone);
        let first = || heard.recv_timeout(Duration::from_secs(10)).ok();
        let first = std::iter::from_fn(first).find(|(_, has_writes, _)| *has_writes);
        assert!(first.is_some(), "{scheme:?}");
        backbone.stop();
        backbone.join().expect("it is told to");
        assert!(
            !heard.try_iter().any(|(_, has_writes, _)| has_writes),
            "{scheme:?}"
        );
    }
}

/// The last node may not have it yet, and would be asked.
#[test]
fn a_connection_of_a_chain_finds_what_it_wrote_without_an_answer() {
    let Noted {
        mut alone,
        backbone,
        heard,
        ..
    } = noted(Scheme::Chain, true);
    let next = || {
        let heard = heard.recv_timeout(Duration::from_secs(10));
        heard.map(|(ticket, ..)| ticket).expect("it is handed over")
    };
    let tell = |alone: &mut Alone, told| {
        let order = Order::Ring(told);
        rhythm_net::Worker::obey(&mut alone.worker, &mut alone.port, order, alone.now);
    };
    next();
    let id = alone.connect(0, usize::MAX);
    let asks = |alone: &Alone| alone.worker.clients.get(id).map(|of| of.held.asks());
    alone.turn(id, b"set k 0 0 1 noreply\r\nx\r\n");
    let wrote = next();
    assert_eq!(alone.turn(id, b"get k\r\n"), b"");
    assert_eq!(asks(&alone), Some(false), "it is read here");
    tell(
        &mut alone,
        Told {
            released: Some(next()),
            ..Told::default()
        },
    );
    assert_eq!(alone.turn(id, b""), b"VALUE k 0 1\r\nx\r\nEND\r\n");
    alone.turn(id, b"get k\r\n");
    assert_eq!(asks(&alone), Some(true), "all have it");
    // Where nobody knows what became of it, nobody ever did.
    let other = alone.connect(1, usize::MAX);
    next();
    alone.turn(other, b"set k 0 0 1 noreply\r\ny\r\n");
    let lost = next();
    assert!(lost > wrote);
    tell(
        &mut alone,
        Told {
            broken: vec![lost],
            ..Told::default()
        },
    );
    let client = alone.worker.clients.get(other).expect("it is there");
    assert!(client.held.is_empty());
    backbone.stop();
    backbone.join().expect("it is told to");
}

/// The thread of the ring does it: until it has, the store is as it was.
#[test]
fn what_follows_a_flush_on_its_connection_waits_until_it_is_done() {
    for (flush, said) in [
        ("flush_all\r\n", "OK\r\n"),
        ("flush_all noreply\r\n", ""),
        ("flush_all 9\r\n", "OK\r\n"),
    ] {
        let Noted {
            mut alone,
            view,
            backbone,
            heard,
        } = noted(Scheme::Ring, false);
        view.set_crowded(u64::MAX);
        let [one, other] = [0, 1].map(|slot| alone.connect(slot, usize::MAX));
        let set = |value| format!("set k 0 0 1\r\n{value}\r\n");
        let found = |value| format!("VALUE k 0 1\r\n{value}\r\nEND\r\n").into_bytes();
        let sent = alone.turn(one, format!("{}{flush}{}", set(1), set(2)).as_bytes());
        assert_eq!(sent, b"STORED\r\n");
        // Whether it came with the flush or behind it.
        assert_eq!(alone.turn(one, b"get k\r\n"), b"");
        assert_eq!(alone.turn(other, b"get k\r\n"), found(1));
        let next = heard.recv_timeout(Duration::from_secs(10));
        let (_, writes, here) = next.expect("it is handed over at once");
        assert!(writes, "what came before it comes with it");
        let told = Told {
            answers: vec![(here[0], Ok(said.as_bytes().to_vec()))],
            ..Told::default()
        };
        let order = Order::Ring(told);
        rhythm_net::Worker::obey(&mut alone.worker, &mut alone.port, order, alone.now);
        alone.turn(other, b"");
        let sent = std::mem::take(&mut alone.port.at(one).sent);
        let all = [said.as_bytes(), b"STORED\r\n", &found(2)].concat();
        assert_eq!(
            String::from_utf8_lossy(&sent),
            String::from_utf8_lossy(&all)
        );
        backbone.stop();
        backbone.join().expect("it is told to");
    }
}

#[test]
fn commands_are_answered_at_once_or_when_they_are_confirmed_as_is_said_of_each() {
    let acked = !Classes::NONE.with(Class::Touch);
    let Noted {
        mut alone,
        backbone,
        heard,
        ..
    } = noted_with(Scheme::Ring, acked);
    let told = |alone: &mut Alone, ticket| {
        let released = Some(ticket);
        let order = Order::Ring(Told {
            released,
            ..Told::default()
        });
        rhythm_net::Worker::obey(&mut alone.worker, &mut alone.port, order, alone.now);
    };
    let sent = |alone: &mut Alone, id| {
        let sent = std::mem::take(&mut alone.port.at(id).sent);
        String::from_utf8(sent).expect("a text")
    };
    let [one, other] = [0, 1].map(|slot| alone.connect(slot, usize::MAX));
    let set = "set k 0 0 1\r\nx\r\n";
    assert_eq!(alone.turn(one, set.as_bytes()), b"");
    let next = || {
        heard
            .recv_timeout(Duration::from_secs(10))
            .expect("it is handed over")
    };
    let (ticket, ..) = next();
    // Another's is answered, and its own in the order of its connection.
    assert_eq!(alone.turn(other, b"touch k 9\r\n"), b"TOUCHED\r\n");
    assert_eq!(alone.turn(one, b"touch k 9\r\n"), b"");
    told(&mut alone, ticket);
    assert_eq!(sent(&mut alone, one), "STORED\r\nTOUCHED\r\n");
    // What comes together waits together, and so does what is behind a write without an answer.
    let both = format!("touch k 9\r\n{set}get k\r\n");
    let quiet = "set q 0 0 1 noreply\r\nx\r\n";
    assert_eq!(
        alone.turn(one, format!("{quiet}touch k 9\r\n").as_bytes()),
        b""
    );
    let (ticket, ..) = next();
    told(&mut alone, ticket);
    assert_eq!(sent(&mut alone, one), "TOUCHED\r\n");
    assert_eq!(alone.turn(one, both.as_bytes()), b"");
    let (ticket, ..) = next();
    told(&mut alone, ticket);
    let found = "VALUE k 0 1\r\nx\r\nEND\r\n";
    let said = format!("TOUCHED\r\nSTORED\r\n{found}");
    assert_eq!(sent(&mut alone, one), said);
    let figures = &alone.worker.shared.all_figures()[0];
    assert!(figures.for_copies.sum() > 0);
    backbone.stop();
    backbone.join().expect("it is told to");
}
