//! What one client or datagram may have of a turn.

use super::super::work::WORK_MAX;
use super::*;
use crate::wire::udp::{self, FRAME};

/// `stats` of a connection that one turn executes.
const STATS_MAX: usize = 64;

impl Alone {
    /// A turn in which a datagram comes; the bytes that it is answered, frames and all.
    fn datagram(&mut self, commands: &[u8]) -> u64 {
        self.datagrams(commands, 1);
        self.end_turn()
    }

    /// So many of them come.
    fn datagrams(&mut self, commands: &[u8], count: usize) {
        let socket = DatagramId {
            index: 0,
            role: Role::default(),
        };
        let whole = [b"\0\0\0\0\0\x01\0\0", commands].concat();
        let datagram = Datagram::new(SocketAddr::from(([127, 0, 0, 1], 1)), &whole);
        let datagrams = vec![datagram; count];
        (self.worker).datagrams(&mut self.port, socket, &datagrams, self.now);
    }

    /// A turn ends; the bytes that were answered then.
    fn end_turn(&mut self) -> u64 {
        let written = |alone: &Alone| alone.worker.shared.total(Counter::BytesWritten);
        let before = written(self);
        self.worker.idle(&mut self.port, self.now);
        self.worker.turn_ended(self.now);
        written(self) - before
    }

    /// Stores a value.
    fn set(&mut self, id: ConnectionId, key: &str, value: &str) {
        let set = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
        assert_eq!(self.turn(id, set.as_bytes()), b"STORED\r\n");
    }

    /// Notes so many keys with prefixes as long as they can be.
    fn note_prefixes(&self, count: usize) {
        let prefixes = &self.worker.shared.prefixes;
        prefixes.turn(true);
        for number in 0..count {
            prefixes.stored(format!("{number:0240}:k").as_bytes());
        }
    }

    fn count_of(&self, counter: Counter) -> u64 {
        self.worker.shared.total(counter)
    }
}

/// How often this was said.
fn times(said: &[u8], what: &str) -> usize {
    String::from_utf8_lossy(said).matches(what).count()
}

/// A short command may be about a long value.
#[test]
fn a_turn_makes_and_sends_no_more_of_long_values_than_so_much_for_a_connection() {
    const COMMANDS: usize = 60;
    let padded = |number: &str, length: usize| number.to_owned() + &" ".repeat(length);
    for (value, command) in [
        ("x".repeat(1_000_000), "append k 0 0 1 noreply\r\ny\r\n"),
        ("x".repeat(1_000_000), "prepend k 0 0 1 noreply\r\ny\r\n"),
        ("x".repeat(1_000_000), "ms k 1 MA q\r\ny\r\n"),
        ("x".repeat(100_000), "append k 0 0 1 noreply\r\ny\r\n"),
        (padded("1", 500_000), "incr k 1 noreply\r\n"),
        (padded("1", 100_000), "incr k 1 noreply\r\n"),
        // Which it looks through, and leaves as it is.
        (padded("", 500_000), "incr k 1 noreply\r\n"),
        ("x".repeat(1_000_000), "get k\r\n"),
        ("x".repeat(100_000), "mg k v\r\n"),
        ("x".repeat(100), "append k 0 0 1 noreply\r\ny\r\n"),
    ] {
        let mut alone = Alone::new(64 << 20);
        let client = alone.connect(0, usize::MAX);
        alone.set(client, "k", &value);
        let most = WORK_MAX / value.len() + 2;
        let mut asked = format!("{command}mn\r\n").repeat(COMMANDS).into_bytes();
        let (mut done, mut turns) = (0, 0);
        while done < COMMANDS {
            let said = alone.turn(client, &std::mem::take(&mut asked));
            let now = times(&said, "MN\r\n");
            assert!((1..=most).contains(&now), "{now} of {command:?}");
            done += now;
            turns += 1;
        }
        assert_eq!(alone.count_of(Counter::Yields), turns - 1, "{command:?}");
        assert_eq!(alone.count_of(Counter::Stalls), 0);
    }
}

#[test]
fn others_are_answered_between_the_turns_of_one_who_asks_for_much() {
    let mut alone = Alone::new(64 << 20);
    let [much, other] = [0, 1].map(|slot| alone.connect(slot, usize::MAX));
    alone.set(much, "k", &"x".repeat(1_000_000));
    let appends = "append k 0 0 1 noreply\r\ny\r\n".repeat(1000);
    alone.turn(much, format!("{appends}mn\r\n").as_bytes());
    let mut turns = 0;
    while alone.port.at(much).sent.is_empty() {
        assert_eq!(alone.turn(other, b"mn\r\n"), b"MN\r\n");
        turns += 1;
        assert!(turns < 1000, "it is answered when all is done");
    }
    assert!(turns > 300, "{turns}");
    assert_eq!(alone.turn(much, b"mg k s\r\n"), b"MN\r\nHD s1001000\r\n");
}

/// Each of so many connections asks for much again and again.
fn who_append(alone: &mut Alone, count: u32) -> Vec<ConnectionId> {
    let value = "x".repeat(1_000_000);
    let ids: Vec<_> = (0..count)
        .map(|slot| alone.connect(slot, usize::MAX))
        .collect();
    for (key, id) in ids.iter().enumerate() {
        alone.set(*id, &format!("k{key}"), &value);
    }
    for (key, id) in ids.iter().enumerate() {
        let appends = format!("append k{key} 0 0 1 noreply\r\ny\r\n").repeat(100);
        let (worker, port) = (&mut alone.worker, &mut alone.port);
        worker.received(port, *id, appends.as_bytes(), alone.now);
    }
    ids
}

#[test]
fn a_turn_does_so_much_for_all_connections_together_and_they_take_turns() {
    const MANY: u32 = 40;
    let mut alone = Alone::new(128 << 20);
    let ids = who_append(&mut alone, MANY);
    let other = alone.connect(MANY, usize::MAX);
    let appended = |alone: &Alone, key: usize| {
        let (store, key) = (alone.worker.shared.store.clone(), format!("k{key}"));
        let mut reader = store.worker().expect("a place");
        let (hash, pinned) = (store.hash(key.as_bytes()), reader.pin());
        let item = pinned.get(hash, key.as_bytes(), 1).expect("it is there");
        item.value().len() - 1_000_000
    };
    let mut before = vec![0; ids.len()];
    // Who asks for much is known when he had it once.
    (0..MANY).for_each(|_| assert!(alone.end_turn() < 1 << 20));
    for turn in 0..100 {
        let done = |alone: &Alone| -> Vec<usize> {
            let keys = 0..ids.len();
            keys.map(|key| appended(alone, key)).collect()
        };
        let was = done(&alone);
        // Who asks for little is answered in each, and who asks for more is not before others.
        let (worker, port) = (&mut alone.worker, &mut alone.port);
        worker.received(port, ids[0], b"append k0 0 0 1 noreply\r\ny\r\n", alone.now);
        assert_eq!(alone.turn(other, b"mn\r\n"), b"MN\r\n", "{turn}");
        let is = done(&alone);
        let in_turn: usize = is.iter().zip(&was).map(|(is, was)| is - was).sum();
        assert!(
            (1..=2 * WORK_MAX / 1_000_000 + 4).contains(&in_turn),
            "{in_turn}"
        );
        before = is;
    }
    let (least, most) = (before.iter().min(), before.iter().max());
    let (least, most) = (*least.expect("some"), *most.expect("some"));
    assert!(least > 0 && most <= least + 8, "{least} to {most}");
}

/// Else what is left is parsed again in each turn, from its beginning.
#[test]
fn of_many_commands_about_long_values_not_many_more_are_parsed_than_executed() {
    let mut alone = Alone::new(64 << 20);
    let client = alone.connect(0, usize::MAX);
    let parsed_next = |alone: &Alone| {
        alone
            .worker
            .clients
            .get(client)
            .expect("it is there")
            .commands_max
    };
    alone.set(client, "k", &"x".repeat(1_000_000));
    assert_eq!(parsed_next(&alone), PART_COMMANDS);
    let appends = "append k 0 0 1 noreply\r\ny\r\n".repeat(1000);
    alone.turn(client, appends.as_bytes());
    for _ in 0..10 {
        assert!(parsed_next(&alone) < 20, "{}", parsed_next(&alone));
        alone.turn(client, b"");
    }
    // And soon as many as ever, where they are short.
    let short = alone.connect(1, usize::MAX);
    alone.set(short, "s", &"x".repeat(1_000_000));
    let mixed = "append s 0 0 1 noreply\r\ny\r\n".repeat(4) + &"mn\r\n".repeat(9000);
    let (mut answers, mut turns) = (times(&alone.turn(short, mixed.as_bytes()), "MN"), 1);
    while answers < 9000 {
        answers += times(&alone.turn(short, b""), "MN");
        turns += 1;
        assert!(turns < 16, "{answers} of 9000");
    }
}

#[test]
fn who_asks_again_for_what_takes_long_comes_behind_those_who_wait_for_it() {
    const CLIENTS: u32 = 8;
    let mut alone = Alone::new(1 << 20);
    alone.note_prefixes(10_000);
    let ask = b"stats detail dump\r\n";
    let ids: Vec<_> = (0..CLIENTS)
        .map(|slot| alone.connect(slot, usize::MAX))
        .collect();
    let mut answered = [0; CLIENTS as usize];
    for id in &ids {
        (alone.worker).received(&mut alone.port, *id, ask, alone.now);
    }
    for _ in 0..4 * CLIENTS {
        alone.end_turn();
        for (id, answered) in ids.iter().zip(&mut answered) {
            if !std::mem::take(&mut alone.port.at(*id).sent).is_empty() {
                *answered += 1;
                (alone.worker).received(&mut alone.port, *id, ask, alone.now);
            }
        }
    }
    let (least, most) = (answered.iter().min(), answered.iter().max());
    assert!(least >= Some(&3) && most <= Some(&5), "{answered:?}");
}

#[test]
fn datagrams_have_so_much_of_a_turn_together_and_all_are_answered_in_the_end() {
    const MIB: u64 = 1 << 20;
    let mut alone = Alone::new(64 << 20);
    let client = alone.connect(0, usize::MAX);
    alone.set(client, "a", &"x".repeat(900_000));
    let get = b"get a a a a\r\n";
    let each = alone.datagram(get);
    assert!(each > MIB, "{each}");
    alone.datagrams(get, 60);
    let mut all = 0;
    for turn in 1.. {
        assert!(turn <= 61, "each turn has one");
        // What comes meanwhile is behind them, and with the system.
        if turn == 1 {
            alone.datagrams(b"mn\r\n", 4);
        }
        let (worker, port) = (&mut alone.worker, &mut alone.port);
        worker.received(port, client, b"mn\r\n", alone.now);
        let written = alone.end_turn();
        assert_eq!(std::mem::take(&mut alone.port.at(client).sent), b"MN\r\n");
        assert!(written <= 3 * MIB, "{written}");
        all += written;
        let waits = alone.worker.wake_at() == Some(Time::ZERO);
        assert_eq!(!alone.port.paused_datagrams.is_empty(), waits, "{turn}");
        if !waits {
            break;
        }
    }
    let few = (FRAME + 4) as u64;
    // And what the connection was answered.
    let said = 4 * 61;
    assert!(
        (60 * each + 4 * few..=60 * each + 4 * few + said).contains(&all),
        "{all}"
    );
}

#[test]
fn commands_wait_for_others_turn_and_for_answers_to_be_taken_and_each_is_counted() {
    let mut alone = Alone::new(64 << 20);
    let [fast, slow] = [(0, usize::MAX), (1, 0)].map(|(slot, room)| alone.connect(slot, room));
    alone.turn(fast, &b"mn\r\n".repeat(10_000));
    let counts = |alone: &Alone| [Counter::Yields, Counter::Stalls].map(|of| alone.count_of(of));
    alone.turn(fast, b"");
    alone.turn(fast, b"");
    assert_eq!(counts(&alone), [2, 0]);
    alone.set(fast, "a", &"x".repeat(300_000));
    alone.turn(slow, &b"get a\r\n".repeat(9));
    assert_eq!(counts(&alone), [2, 1]);
    let told = String::from_utf8(alone.turn(fast, b"stats\r\n")).expect("a text");
    assert!(told.contains("STAT conn_yields 2\r\n"), "{told}");
}

#[test]
fn a_turn_executes_so_many_stats_in_either_protocol() {
    let mut alone = Alone::new(1 << 20);
    let mut stat = [0; 24];
    (stat[0], stat[1]) = (0x80, 0x10);
    // Who ends the packets of an answer is the one without a key.
    let is_end = |head: &[u8]| head == [0x81, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let binary = alone.connect(0, usize::MAX);
    let sent = alone.turn(binary, &stat.repeat(3 * STATS_MAX));
    assert_eq!(
        sent.windows(12).filter(|head| is_end(head)).count(),
        STATS_MAX
    );
    let text = alone.connect(1, usize::MAX);
    let sent = alone.turn(text, &b"stats\r\n".repeat(3 * STATS_MAX));
    let sent = String::from_utf8(sent).expect("a text");
    assert_eq!(sent.matches("END\r\n").count(), STATS_MAX);
}

#[test]
fn a_datagram_is_answered_so_much_and_no_more() {
    const LONG: usize = 100_000;
    let mut alone = Alone::new(64 << 20);
    let client = alone.connect(0, usize::MAX);
    let set = format!("set a 0 0 {LONG}\r\n{}\r\n", "x".repeat(LONG));
    assert_eq!(alone.turn(client, set.as_bytes()), b"STORED\r\n");
    let before = alone.worker.shared.total(Counter::BytesWritten);
    alone.datagram(&[b"get", &b" a".repeat(1000)[..], b"\r\n"].concat());
    let written = alone.worker.shared.total(Counter::BytesWritten) - before;
    assert!(
        (1 << 20..(1 << 20) + 2 * LONG as u64).contains(&written),
        "{written}"
    );
}

#[test]
fn a_datagram_is_answered_so_often_and_no_more_but_for_all_keys_of_a_line() {
    let mut alone = Alone::new(1 << 20);
    let client = alone.connect(0, usize::MAX);
    alone.set(client, "a", "x");
    let mistakes = alone.datagram(&[b'\n'; 65_000]);
    let each = FRAME + "ERROR\r\n".len();
    assert_eq!(mistakes, (datagram::ANSWERS_MAX * each) as u64);
    let found = "VALUE a 0 1\r\nx\r\n";
    let keys = 20_000;
    let gets = [b"get", &b" a".repeat(keys)[..], b"\r\n"].concat();
    let all = keys * (FRAME + found.len()) + "END\r\n".len();
    assert_eq!(alone.datagram(&gets), all as u64);
    // And what is not answered is done, up to more than one packet of the network has.
    let quiet = "append a 0 0 1 noreply\r\ny\r\n".repeat(2000);
    assert_eq!(alone.datagram(quiet.as_bytes()), 0);
    assert_eq!(alone.turn(client, b"mg a s\r\n"), b"HD s2001\r\n");
}

#[test]
fn a_datagram_has_no_more_of_long_values_made_than_so_much() {
    let mut alone = Alone::new(64 << 20);
    let client = alone.connect(0, usize::MAX);
    alone.set(client, "k", &"x".repeat(1_000_000));
    alone.datagram("append k 0 0 1 noreply\r\ny\r\n".repeat(1000).as_bytes());
    assert_eq!(alone.turn(client, b"mg k s\r\n"), b"HD s1000003\r\n");
}

/// Else it would be run with what has come by then, which is millions of commands.
#[test]
fn datagrams_of_a_turn_are_executed_as_soon_as_there_are_enough() {
    let mut alone = Alone::new(1 << 20);
    let socket = DatagramId {
        index: 0,
        role: Role::default(),
    };
    let whole = [&b"\0\0\0\0\0\x01\0\0"[..], &[b'\n'; 65_000]].concat();
    let datagram = Datagram::new(SocketAddr::from(([127, 0, 0, 1], 1)), &whole);
    let now = alone.now;
    (alone.worker).datagrams(&mut alone.port, socket, &[datagram; 64], now);
    alone.end_turn();
    while alone.worker.wake_at() == Some(Time::ZERO) {
        alone.end_turn();
    }
    assert!(alone.count_of(Counter::Cohorts) >= 12);
}

#[test]
fn statistics_of_many_prefixes_are_told_to_few_in_a_turn_and_to_all_in_the_end() {
    const CLIENTS: u32 = 20;
    let mut alone = Alone::new(1 << 20);
    alone.note_prefixes(10_000);
    for dump in [&b"stats detail dump\r\n"[..], &STAT_DUMP] {
        let ids: Vec<_> = (0..CLIENTS)
            .map(|slot| alone.connect(slot, usize::MAX))
            .collect();
        for id in &ids[1..] {
            (alone.worker).received(&mut alone.port, *id, dump, alone.now);
        }
        let mut asked = dump;
        let mut answers = Vec::new();
        for turn in 0.. {
            assert!(turn < CLIENTS, "all are answered");
            let mut sent = alone.turn(ids[0], std::mem::take(&mut asked)).len();
            for id in &ids[1..] {
                sent += std::mem::take(&mut alone.port.at(*id).sent).len();
            }
            answers.push(sent);
            if answers.iter().sum::<usize>() == answers[0] * CLIENTS as usize {
                break;
            }
        }
        assert!(answers[0] > 2 << 20, "one, and of many MiB");
        assert!(answers.iter().all(|sent| *sent <= answers[0]));
        for id in ids {
            alone
                .worker
                .ended(&mut alone.port, id, Ended::PeerFinished, alone.now);
        }
    }
}

/// The same question, as a packet.
const STAT_DUMP: [u8; 35] = {
    let mut packet = [0; 35];
    let key = b"detail dump";
    (packet[0], packet[1], packet[3], packet[11]) = (0x80, 0x10, 11, 11);
    let mut at = 0;
    while at < key.len() {
        packet[24 + at] = key[at];
        at += 1;
    }
    packet
};

#[test]
fn a_datagram_is_told_where_statistics_are_too_long_for_it() {
    let mut alone = Alone::new(1 << 20);
    alone.note_prefixes(10);
    assert!(alone.datagram(b"stats detail dump\r\n") > 2000);
    alone.note_prefixes(10_000);
    let said = alone.datagram(b"stats detail dump\r\n");
    let refused = "SERVER_ERROR too long for datagrams, ask over TCP\r\n";
    assert_eq!(said, (FRAME + refused.len()) as u64);
    assert_eq!(alone.datagram(&STAT_DUMP), FRAME as u64, "it is lost");
}

/// Who puts them together would take one for another.
#[test]
fn a_datagram_is_told_where_those_of_a_value_cannot_be_counted() {
    let settings = Settings {
        item_max: 128 << 20,
        ..Settings::default()
    };
    let mut alone = Alone::made(256 << 20, None, settings);
    let client = alone.connect(0, usize::MAX);
    alone.set(client, "a", &"x".repeat(udp::ANSWER_MAX));
    let refused = "SERVER_ERROR too long for datagrams, ask over TCP\r\n";
    assert_eq!(alone.datagram(b"get a\r\n"), (FRAME + refused.len()) as u64);
    assert_eq!(alone.turn(client, b"mg a s\r\n"), b"HD s91224720\r\n");
}
