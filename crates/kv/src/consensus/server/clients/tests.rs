use super::*;
use crate::consensus::keyspace::Item;
use rhythm_net::testing::TestPort;
use std::collections::VecDeque;

/// The length of every value.
const LONG: usize = 250_000;

/// A node that answers when it is told to, always the same.
struct Fake {
    now: Time,
    asked: VecDeque<Ticket>,
    value: Arc<[u8]>,
}

impl Fake {
    fn new() -> Fake {
        Fake {
            now: Time::ZERO,
            asked: VecDeque::new(),
            value: vec![b'x'; LONG].into(),
        }
    }
}

impl Asks for Fake {
    fn has_room(&self) -> bool {
        true
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
        String::new()
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
    clients.opened(&mut port, id(0));
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
    assert!(clients.table.get(id(0)).unwrap().holds() < UNTAKEN_MAX + LONG + 100);
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
    clients.opened(&mut port, id(0));
    clients.received(&mut port, id(0), b"watchkeys a\r\n", &mut node);
    let begun = |node: &mut Fake| node.asked.pop_front().expect("it is asked");
    clients.answered(&mut port, begun(&mut node), Answer::Revision(5), &mut node);
    // A second one, while the client has not taken what is said of the first.
    clients.received(&mut port, id(0), b"watchkeys b\r\n", &mut node);
    clients.answered(&mut port, begun(&mut node), Answer::Revision(7), &mut node);
    let change = |key: &[u8], revision| Change {
        key: key.into(),
        revision,
        is_deleted: false,
    };
    let changes = [(&b"b"[..], 7), (b"b", 8), (b"a", 9), (b"c", 10)];
    let changes = changes.map(|(key, revision)| change(key, revision));
    clients.changed(&mut port, &changes);
    port.at(id(0)).room = usize::MAX;
    clients.writable(&mut port, id(0), &mut node);
    let said = "WATCHING 5\r\nWATCHING 7\r\nCHANGED b 8 set\r\nCHANGED a 9 set\r\n";
    let sent = std::mem::take(&mut port.at(id(0)).sent);
    assert_eq!(String::from_utf8_lossy(&sent), said);
    clients.changed(&mut port, &[change(b"a", 11)]);
    assert_eq!(port.at(id(0)).sent, b"CHANGED a 11 set\r\n");
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
        clients.opened(&mut port, id(slot));
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
