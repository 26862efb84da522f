//! How a server ends, and what a thread knows that begins anew.

use super::*;

/// `stats` of a connection that one turn executes.
const STATS_MAX: usize = 64;

impl Alone {
    /// It is told to end within so long.
    fn end(&mut self, within: Duration) {
        (self.worker.shared.standing).end_at(self.now + within);
        rhythm_net::Worker::obey(&mut self.worker, &mut self.port, Order::End, self.now);
    }

    /// As after a panic: another worker takes its place.
    fn begin_anew(self) -> Alone {
        let Alone { worker, port, now } = self;
        let shared = Arc::clone(&worker.shared);
        drop(worker);
        let store = shared.store.worker().expect("its place is free");
        Alone {
            worker: Worker::new(shared, 0, store, 1 << 30, now),
            port,
            now,
        }
    }
}

#[test]
fn what_has_come_is_answered_before_it_ends() {
    const LONG: usize = 300_000;
    let mut alone = Alone::new(64 << 20);
    let [early, late, idle] = [0, 1, 2].map(|slot| alone.connect(slot, usize::MAX));
    let set = format!("set a 0 0 {LONG}\r\n{}\r\n", "x".repeat(LONG));
    assert_eq!(alone.turn(early, set.as_bytes()), b"STORED\r\n");
    let slow = alone.connect(3, 0);
    alone.turn(slow, &b"get a\r\n".repeat(20));
    let within = Duration::from_secs(2);
    alone.end(within);
    // As the loop has it: the order came first, and then what had come before it.
    assert_eq!(alone.turn(early, b"mn\r\n"), b"MN\r\n");
    assert_eq!(alone.turn(late, b"mn\r\n"), b"MN\r\n");
    assert!(!alone.worker.finished());
    assert_eq!(
        alone.worker.wake_at(),
        Some(Time::ZERO),
        "nobody is waited for"
    );
    let is_there = |alone: &Alone, id| alone.worker.clients.get(id).is_some();
    // More than one turn executes: the rest of it has come, too.
    let many = b"stats\r\n".repeat(STATS_MAX + 5);
    let ends = |sent: &[u8]| String::from_utf8_lossy(sent).matches("END\r\n").count();
    assert_eq!(ends(&alone.turn(late, &many)), STATS_MAX);
    assert!(!is_there(&alone, early) && !is_there(&alone, idle));
    alone.turn(early, b"");
    assert!(!is_there(&alone, late));
    let rest = std::mem::take(&mut alone.port.closed);
    assert_eq!(rest.iter().map(|one| ends(&one.sent)).sum::<usize>(), 5);
    // Who has not taken all has until then.
    assert!(is_there(&alone, slow) && !alone.worker.finished());
    assert!(
        alone.worker.wake_at() > Some(alone.now),
        "it waits for who is slow"
    );
    let mut taken = 0;
    while is_there(&alone, slow) {
        alone.port.at(slow).room = 1 << 20;
        let now = alone.now;
        alone.worker.writable(&mut alone.port, slow, now);
        alone.turn(idle, b"");
        let Some(connection) = alone.port.connections.get_mut(&slow) else {
            break;
        };
        taken += std::mem::take(&mut connection.sent).len();
        assert!(alone.now < Time::ZERO + within);
    }
    // What was sent last is on its way when it is closed.
    let closed = alone.port.closed.iter();
    taken += closed
        .map(|connection| connection.sent.len())
        .sum::<usize>();
    assert_eq!(taken, 20 * (18 + LONG + 7), "all that it asked for");
    assert!(alone.worker.finished());
}

/// Nothing of what they sent was read before.
#[test]
fn who_waits_for_a_place_when_it_ends_is_answered() {
    let settings = Settings {
        connections_max: 1,
        turn_away: false,
        ..Settings::default()
    };
    let mut alone = Alone::made(1 << 20, None, settings);
    let [first, second, third] = [0, 1, 2].map(|slot| alone.connect(slot, usize::MAX));
    assert_eq!(alone.turn(first, b"mn\r\n"), b"MN\r\n");
    alone.end(Duration::from_secs(2));
    let mut answered = 0;
    for _ in 0..20 {
        let is_in = |id: &ConnectionId| alone.worker.clients.get(*id).is_some();
        let came = [second, third].into_iter().find(is_in);
        assert_eq!(
            alone.worker.wake_at(),
            Some(Time::ZERO),
            "nobody is waited for"
        );
        // As the loop has it: what came while one waited comes in the turn behind.
        let said = match came {
            Some(id) => alone.turn(id, b"mn\r\n"),
            None => alone.turn(first, b""),
        };
        answered += usize::from(said == b"MN\r\n");
        if alone.worker.finished() {
            break;
        }
    }
    assert_eq!(answered, 2);
    assert!(alone.worker.finished() && alone.port.connections.is_empty());
}

#[test]
fn a_thread_that_begins_anew_knows_who_may_come_in_and_that_it_is_to_end() {
    let alone = Alone::new(1 << 20);
    let users: crate::wire::Users = vec![(b"user".to_vec(), b"secret".to_vec())];
    alone.worker.shared.standing.set_users(Arc::new(users));
    let mut alone = alone.begin_anew();
    let stranger = alone.connect(0, usize::MAX);
    let said = alone.turn(stranger, b"get a\r\n");
    assert_eq!(said, b"CLIENT_ERROR unauthenticated\r\n");
    let known = alone.turn(stranger, b"set x 0 0 11\r\nuser secret\r\n");
    assert_eq!(known, b"STORED\r\n");
    assert!(!alone.worker.finished());
    let until = alone.now + Duration::from_secs(2);
    alone.worker.shared.standing.end_at(until);
    let alone = alone.begin_anew();
    assert!(alone.worker.finished(), "its connections are gone");
}
