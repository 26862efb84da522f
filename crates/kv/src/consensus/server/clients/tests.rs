use super::client::PIECE;
use super::telling::BEHIND_MAX;
use super::*;
use crate::consensus::keyspace::{Change, Item, KEYS_MAX};
use rhythm_net::testing::TestPort;
use std::collections::VecDeque;

/// Lines of statistics.
const STATS: usize = 20;
/// The length of every value.
const LONG: usize = 250_000;

/// A node that answers when it is told to, always the same.
struct Fake {
    now: Time,
    asked: VecDeque<Ticket>,
    value: Arc<[u8]>,
    has_room: bool,
}

impl Fake {
    fn new() -> Fake {
        Fake {
            now: Time::ZERO,
            asked: VecDeque::new(),
            value: vec![b'x'; LONG].into(),
            has_room: true,
        }
    }
}

impl Asks for Fake {
    fn has_room(&self) -> bool {
        self.has_room
    }

    fn now(&self) -> Time {
        self.now
    }

    fn length(&self, _: &Request) -> usize {
        LONG
    }

    fn ask(&mut self, ticket: Ticket, _: Request) {
        self.asked.push_back(ticket);
    }

    fn stats(&mut self) -> String {
        "STAT\r\n".repeat(STATS)
    }
}

/// Answers all that is asked, and what is asked behind it.
fn answer(clients: &mut Clients, port: &mut TestPort, node: &mut Fake) {
    let item = Item {
        flags: 0,
        value: Arc::clone(&node.value),
        revision: 1,
        lease: None,
    };
    while let Some(ticket) = node.asked.pop_front() {
        clients.answered(port, ticket, Answer::Item(Some(item.clone())), node);
    }
}

fn id(slot: u32) -> ConnectionId {
    ConnectionId::new(slot, 0)
}

#[test]
fn answers_that_wait_for_others_to_be_taken_are_counted() {
    const GETS: usize = 64;
    let mut port = TestPort::with(id(0), 0);
    let (mut clients, mut node) = (Clients::new(Arc::default()), Fake::new());
    clients.opened(&mut port, id(0), node.now);
    let gets = "get k\r\n".repeat(GETS);
    clients.received(&mut port, id(0), gets.as_bytes(), &mut node);
    let most = UNTAKEN_MAX.div_ceil(LONG);
    assert_eq!(
        node.asked.len(),
        most,
        "values of 1 MiB, and the rest of one"
    );
    answer(&mut clients, &mut port, &mut node);
    assert_eq!(clients.tickets, most as u64, "nothing more was asked");
    let most = UNTAKEN_MAX + LONG + gets.len() + 100;
    assert!(clients.table.get(id(0)).unwrap().holds() < most);
    // Who takes it is answered all.
    port.at(id(0)).room = usize::MAX;
    clients.writable(&mut port, id(0), &mut node);
    answer(&mut clients, &mut port, &mut node);
    let client = clients.table.get(id(0)).unwrap();
    assert_eq!((client.awaited, client.holds()), (0, 0));
    let said = format!("VALUE k 0 {LONG}\r\n{}\r\nEND\r\n", "x".repeat(LONG));
    assert!(port.at(id(0)).sent == said.repeat(GETS).as_bytes());
}

/// It is told so when it has taken what was said before.
#[test]
fn a_watch_tells_what_changes_before_the_client_has_taken_that_it_watches() {
    let mut port = TestPort::with(id(0), 0);
    let (mut clients, mut node) = (Clients::new(Arc::default()), Fake::new());
    clients.opened(&mut port, id(0), node.now);
    clients.received(&mut port, id(0), b"watchkeys a\r\n", &mut node);
    let begun = |node: &mut Fake| node.asked.pop_front().expect("it is asked");
    clients.answered(&mut port, begun(&mut node), Answer::Revision(5), &mut node);
    // A second one, while the client has not taken what is said of the first.
    clients.received(&mut port, id(0), b"watchkeys b\r\n", &mut node);
    clients.answered(&mut port, begun(&mut node), Answer::Revision(7), &mut node);
    let changes = [("b", 7), ("b", 8), ("a", 9), ("c", 10)];
    let changes = changes.map(|(key, revision)| change(key, revision));
    tell(&mut clients, &mut port, &mut node, &changes);
    port.at(id(0)).room = usize::MAX;
    clients.writable(&mut port, id(0), &mut node);
    let said = "WATCHING 5\r\nWATCHING 7\r\nCHANGED b 8 set\r\nCHANGED a 9 set\r\n";
    let sent = std::mem::take(&mut port.at(id(0)).sent);
    assert_eq!(String::from_utf8_lossy(&sent), said);
    tell(&mut clients, &mut port, &mut node, &[change("a", 11)]);
    assert_eq!(port.at(id(0)).sent, b"CHANGED a 11 set\r\n");
}

fn change(key: &str, revision: u64) -> Change {
    Change {
        key: key.into(),
        revision,
        is_deleted: false,
    }
}

/// Tells of changes in as many turns as it takes.
fn tell(clients: &mut Clients, port: &mut TestPort, node: &mut Fake, changes: &[Change]) -> usize {
    clients.changed(changes);
    for turns in 1.. {
        clients.tell(port, node);
        clients.resume(port, node);
        if !clients.has_more_to_tell() {
            return turns;
        }
    }
    unreachable!("it ends")
}

/// Clients that watch these prefixes, and take so many bytes.
fn watching(count: u32, prefixes: &[&str], room: usize) -> (Clients, TestPort, Fake) {
    let (mut clients, mut node) = (Clients::new(Arc::default()), Fake::new());
    let mut port = TestPort::default();
    for slot in 0..count {
        port.accept(id(slot));
        clients.opened(&mut port, id(slot), node.now);
        for prefix in prefixes {
            let watch = format!("watchkeys {prefix}\r\n");
            clients.received(&mut port, id(slot), watch.as_bytes(), &mut node);
            let ticket = node.asked.pop_front().expect("it is asked");
            clients.answered(&mut port, ticket, Answer::Revision(0), &mut node);
        }
        let at = port.at(id(slot));
        at.sent.clear();
        at.room = room;
    }
    (clients, port, node)
}

/// As where a lease ends that has all keys.
#[test]
fn who_takes_what_it_is_told_hears_all_of_a_large_turn() {
    const CLIENTS: u32 = 20;
    let (mut clients, mut port, mut node) = watching(CLIENTS, &["key"], 1000);
    let key = "key".repeat(80);
    let changes: Vec<_> = (1..=KEYS_MAX as u64)
        .map(|revision| change(&key, revision))
        .collect();
    tell(&mut clients, &mut port, &mut node, &changes);
    for slot in 0..CLIENTS {
        let client = clients.table.get(id(slot)).expect("it was not dropped");
        assert!(client.holds() < PIECE + 1000, "{}", client.holds());
        let (mut all, mut turns) = (Vec::new(), 0);
        while clients.table.get(id(slot)).unwrap().holds() > 0 {
            port.at(id(slot)).room = 3 << 20;
            clients.writable(&mut port, id(slot), &mut node);
            all.append(&mut port.at(id(slot)).sent);
            tell(&mut clients, &mut port, &mut node, &[]);
            turns += 1;
        }
        assert!(turns > 3);
        let wanted = (1..=KEYS_MAX).map(|revision| format!("CHANGED {key} {revision} set\r\n"));
        assert!(all == wanted.collect::<String>().as_bytes());
    }
    assert_eq!(clients.backlog.bytes(), 0);
}

#[test]
fn who_is_too_far_behind_with_what_it_watches_is_dropped_and_others_are_not() {
    let (mut clients, mut port, mut node) = watching(2, &[""], 0);
    port.at(id(1)).room = usize::MAX;
    let (key, mut revision) = ("k".repeat(250), 0);
    while clients.table.get(id(0)).is_some() {
        assert!(revision * 250 < BEHIND_MAX as u64, "it holds too much");
        let changes: Vec<_> = (1..10_000)
            .map(|more| change(&key, revision + more))
            .collect();
        revision += changes.len() as u64;
        tell(&mut clients, &mut port, &mut node, &changes);
        assert!(clients.backlog.bytes() <= BEHIND_MAX);
    }
    assert!(revision * 350 > BEHIND_MAX as u64, "it was patient");
    assert!(clients.table.get(id(1)).is_some());
    assert_eq!(clients.backlog.bytes(), 0);
    assert_eq!(clients.figures.gave_way.get(), 1);
}

/// Else a node that tells many of much is not heard of by the others meanwhile.
#[test]
fn a_turn_tells_no_more_than_so_much() {
    let prefixes = ["", "k", "ke", "key"];
    let (mut clients, mut port, mut node) = watching(200, &prefixes, usize::MAX);
    let changes: Vec<_> = (1..=1000).map(|revision| change("key", revision)).collect();
    let turns = tell(&mut clients, &mut port, &mut node, &changes);
    assert!((4..=6).contains(&turns), "{turns}");
    let told: Vec<u8> = (1..=1000)
        .flat_map(|revision| format!("CHANGED key {revision} set\r\n").into_bytes())
        .collect();
    assert!((0..200).all(|slot| port.at(id(slot)).sent == told));
}

#[test]
fn what_is_as_long_as_a_command_may_be_and_is_none_ends_the_connection() {
    let (mut clients, mut node) = (Clients::new(Arc::default()), Fake::new());
    let mut port = TestPort::with(id(0), usize::MAX);
    clients.opened(&mut port, id(0), node.now);
    let mut line = b"get k ".to_vec();
    line.resize(COMMAND_MAX - 1, b' ');
    clients.received(&mut port, id(0), &line, &mut node);
    assert!(clients.table.get(id(0)).is_some());
    // Whatever the node has to do.
    node.has_room = false;
    clients.received(&mut port, id(0), b" ", &mut node);
    assert!(clients.is_empty() && port.aborted.len() == 1);
}

#[test]
fn what_fills_the_room_for_answers_and_is_taken_is_gone_on_with() {
    const ASKED: usize = 20_000;
    let (mut clients, mut node) = (Clients::new(Arc::default()), Fake::new());
    let mut port = TestPort::with(id(0), usize::MAX);
    clients.opened(&mut port, id(0), node.now);
    let stats = "stats\r\n".repeat(ASKED);
    clients.received(&mut port, id(0), stats.as_bytes(), &mut node);
    let said = node.stats().len() * ASKED;
    assert!(said > 2 * UNTAKEN_MAX && stats.len() < COMMAND_MAX);
    assert_eq!(port.at(id(0)).sent.len(), said);
}

#[test]
fn that_there_was_no_room_once_is_not_held_against_what_comes_later() {
    let (mut clients, mut node) = (Clients::new(Arc::default()), Fake::new());
    let mut port = TestPort::with(id(0), usize::MAX);
    clients.opened(&mut port, id(0), node.now);
    node.has_room = false;
    clients.received(&mut port, id(0), b"get k\r\n", &mut node);
    node.now = Time::ZERO + PATIENCE;
    clients.resume(&mut port, &mut node);
    let said = "SERVER_ERROR most nodes are out of reach, nothing was done\r\n";
    assert_eq!(port.at(id(0)).sent, said.as_bytes());
    // Long after, for a moment.
    node.now += 10 * PATIENCE;
    clients.received(&mut port, id(0), b"get k\r\n", &mut node);
    assert_eq!(port.at(id(0)).sent, said.as_bytes());
    node.has_room = true;
    node.now += PATIENCE;
    clients.received(&mut port, id(0), b"get k\r\n", &mut node);
    assert_eq!(
        (port.at(id(0)).sent.len(), node.asked.len()),
        (said.len(), 2)
    );
}

#[test]
fn where_all_hold_too_much_those_give_way_that_have_not_moved_for_longest() {
    let (mut clients, mut node) = (Clients::new(Arc::default()), Fake::new());
    let mut port = TestPort {
        room: 0,
        ..TestPort::default()
    };
    let count = (HELD_MAX / UNTAKEN_MAX) as u32;
    for slot in 0..count {
        node.now = Time::from_nanos(1 + u64::from(slot));
        port.accept(id(slot));
        clients.opened(&mut port, id(slot), node.now);
        clients.received(
            &mut port,
            id(slot),
            "get k\r\n".repeat(9).as_bytes(),
            &mut node,
        );
        answer(&mut clients, &mut port, &mut node);
    }
    // The first of them moves, and takes nothing.
    node.now = Time::from_nanos(1 + u64::from(count));
    clients.received(&mut port, id(0), b"get k\r\n", &mut node);
    clients.relieve(&mut port);
    let held: usize = clients.table.iter().map(|(_, client)| client.holds()).sum();
    let one = clients.table.get(id(0)).expect("it moved").holds();
    assert!(held <= HELD_MAX && held + one > HELD_MAX, "{held}");
    let dropped = count - clients.table.len() as u32;
    assert!(dropped > 0 && port.aborted.len() == dropped as usize);
    assert!((1..=dropped).all(|slot| clients.table.get(id(slot)).is_none()));
    clients.relieve(&mut port);
    assert_eq!(clients.table.len() as u32, count - dropped);
}

#[test]
fn what_clients_have_sent_and_nobody_was_asked_yet_is_held_for_them_too() {
    let (mut clients, mut node) = (Clients::new(Arc::default()), Fake::new());
    let mut port = TestPort::default();
    let line = [b"get k", &vec![b' '; COMMAND_MAX - 6][..]].concat();
    for slot in 0..CLIENTS_MAX as u32 {
        node.now = Time::from_nanos(1 + u64::from(slot));
        port.accept(id(slot));
        clients.opened(&mut port, id(slot), node.now);
        clients.received(&mut port, id(slot), &line, &mut node);
        clients.relieve(&mut port);
    }
    let held: usize = clients.table.iter().map(|(_, client)| client.holds()).sum();
    assert!(
        (HELD_MAX - 2 * COMMAND_MAX..=HELD_MAX).contains(&held),
        "{held}"
    );
    let dropped = (CLIENTS_MAX - clients.table.len()) as u32;
    assert!(dropped > 0 && (0..dropped).all(|slot| clients.table.get(id(slot)).is_none()));
    assert_eq!(clients.figures.gave_way.get(), u64::from(dropped));
}

/// A value that was taken and waits for room at the node is no input any more.
#[test]
fn a_value_that_waits_for_room_is_held_for_its_client() {
    let (mut clients, mut node) = (Clients::new(Arc::default()), Fake::new());
    let mut port = TestPort::with(id(0), usize::MAX);
    clients.opened(&mut port, id(0), node.now);
    node.has_room = false;
    let set = format!("set k 0 0 {LONG}\r\n{}\r\n", "x".repeat(LONG));
    clients.received(&mut port, id(0), set.as_bytes(), &mut node);
    assert!(clients.table.get(id(0)).unwrap().holds() >= LONG);
}

#[test]
fn where_all_places_are_taken_who_stands_still_amid_a_command_makes_way() {
    let (mut clients, mut node) = (Clients::new(Arc::default()), Fake::new());
    let mut port = TestPort::default();
    let mut slots = 0..;
    let mut come = |clients: &mut Clients, port: &mut TestPort, node: &Fake| {
        let new = id(slots.next().expect("there are many"));
        port.accept(new);
        clients.opened(port, new, node.now);
        clients.table.get(new).is_some()
    };
    for _ in 0..CLIENTS_MAX {
        assert!(come(&mut clients, &mut port, &node));
    }
    // The first of these moves again, and one has said all, and waits for the answer.
    for (slot, at, said) in [
        (5, 10, "get"),
        (7, 20, "set k 0 0 9\r\nx"),
        (8, 1, "get k\r\n"),
        (5, 30, " k"),
    ] {
        node.now = Time::from_nanos(at);
        clients.received(&mut port, id(slot), said.as_bytes(), &mut node);
    }
    for gone in [7, 5] {
        assert!(come(&mut clients, &mut port, &node));
        assert!(clients.table.get(id(gone)).is_none());
        assert_eq!(clients.table.len(), CLIENTS_MAX);
    }
    assert!(
        !come(&mut clients, &mut port, &node),
        "no other is amid one"
    );
    assert_eq!(clients.figures.gave_way.get(), 2);
    assert_eq!(clients.figures.turned_away.get(), 1);
}
