use super::*;

/// A keyspace, and the number of the next batch for it.
#[derive(Default)]
struct Driven {
    keyspace: Keyspace,
    changes: Vec<Change>,
    number: u64,
}

impl Driven {
    fn run(&mut self, command: Command) -> Outcome {
        self.number += 1;
        let batch = Batch {
            origin: 1,
            number: (1, self.number),
            commands: vec![command],
        };
        let outcomes = self.keyspace.execute(batch, &mut self.changes);
        outcomes.expect("a new batch")[0]
    }

    fn store(&mut self, mode: Mode, key: &str, value: &[u8], cas: u64) -> Outcome {
        self.store_in(mode, key, value, cas, None)
    }

    fn store_in(
        &mut self,
        mode: Mode,
        key: &str,
        value: &[u8],
        cas: u64,
        lease: Option<u64>,
    ) -> Outcome {
        self.run(Command::Store {
            mode,
            key: key.into(),
            flags: 5,
            value: value.to_vec(),
            cas,
            lease,
        })
    }

    fn value(&self, key: &str) -> Option<&[u8]> {
        self.keyspace
            .get(key.as_bytes())
            .map(|item| &item.value[..])
    }
}

#[test]
fn values_are_stored_when_the_mode_allows() {
    let mut it = Driven::default();
    for mode in [Mode::Replace, Mode::Append, Mode::Prepend] {
        assert_eq!(it.store(mode, "k", b"x", 0), Outcome::NotStored);
    }
    assert_eq!(it.store(Mode::Cas, "k", b"x", 1), Outcome::NotFound);
    assert_eq!(it.store(Mode::Add, "k", b"1", 0), Outcome::Stored(1));
    assert_eq!(it.store(Mode::Add, "k", b"2", 0), Outcome::NotStored);
    assert_eq!(it.store(Mode::Cas, "k", b"2", 7), Outcome::Exists);
    assert_eq!(it.store(Mode::Cas, "k", b"2", 1), Outcome::Stored(2));
    assert_eq!(it.store(Mode::Append, "k", b"3", 0), Outcome::Stored(3));
    assert_eq!(it.store(Mode::Append, "k", b"4", 2), Outcome::Exists);
    assert_eq!(it.store(Mode::Prepend, "k", b"0", 2), Outcome::Exists);
    assert_eq!(it.store(Mode::Prepend, "k", b"1", 3), Outcome::Stored(4));
    assert_eq!(it.value("k"), Some(&b"123"[..]));
    let (key, delta) = (b"k".to_vec(), 200);
    let up = Command::Arithmetic {
        key: key.clone(),
        up: true,
        delta,
    };
    assert_eq!(it.run(up), Outcome::Number(323, 5));
    let down = Command::Arithmetic {
        key: key.clone(),
        up: false,
        delta: 400,
    };
    assert_eq!(it.run(down.clone()), Outcome::Number(0, 6));
    assert_eq!(it.store(Mode::Replace, "k", b"x", 0), Outcome::Stored(7));
    assert_eq!(it.run(down), Outcome::NotANumber);
    let delete = |cas| Command::Delete {
        key: key.clone(),
        cas,
    };
    assert_eq!(it.run(delete(Some(6))), Outcome::Exists);
    assert_eq!(it.run(delete(Some(7))), Outcome::Deleted);
    assert_eq!(it.run(delete(None)), Outcome::NotFound);
    assert!(it.keyspace.is_empty() && it.keyspace.bytes() == 0);
    let last = it.changes.last().expect("eight changes");
    assert!(last.is_deleted && last.revision == 8 && it.changes.len() == 8);
}

#[test]
fn a_batch_counts_once_and_none_that_its_node_gave_up() {
    let mut keyspace = Keyspace::default();
    let batch = |number| Batch {
        origin: 1,
        number,
        commands: vec![Command::Open { ttl: 1 }],
    };
    let mut execute = |number| keyspace.execute(batch(number), &mut Vec::new()).is_some();
    assert!(execute((1, 2)) && !execute((1, 2)) && !execute((1, 1)));
    assert!(execute((2, 1)) && !execute((1, 3)) && execute((2, 2)));
}

#[test]
fn what_was_stored_in_a_lease_ends_with_it() {
    let mut it = Driven::default();
    let Outcome::Alive(lease) = it.run(Command::Open { ttl: 9 }) else {
        panic!("there is room");
    };
    let own = Some(lease);
    it.store_in(Mode::Set, "a", b"1", 0, own);
    it.store_in(Mode::Set, "b", b"1", 0, own);
    it.store_in(Mode::Set, "c", b"1", 0, own);
    // It is nobody's from now on; and what is appended stays whose it was.
    it.store(Mode::Set, "b", b"2", 0);
    it.store(Mode::Append, "c", b"2", 0);
    assert_eq!(it.run(Command::Renew { lease }), Outcome::Alive(lease));
    let end = |renewals| Command::End { lease, renewals };
    assert_eq!(it.run(end(Some(0))), Outcome::Exists, "there was a sign");
    assert_eq!(it.run(end(Some(1))), Outcome::Ended);
    assert_eq!((it.value("a"), it.value("c")), (None, None));
    assert_eq!(it.value("b"), Some(&b"2"[..]));
    assert_eq!(it.run(end(None)), Outcome::NotFound);
    assert_eq!(it.run(Command::Renew { lease }), Outcome::NotFound);
    let late = it.store_in(Mode::Set, "d", b"1", 0, own);
    assert_eq!((late, it.value("d")), (Outcome::LeaseOver, None));
}

#[test]
fn the_keys_of_a_lease_are_known_however_they_came_to_it() {
    let mut it = Driven::default();
    let [first, second] = [0; 2].map(|_| match it.run(Command::Open { ttl: 9 }) {
        Outcome::Alive(lease) => lease,
        refused => panic!("{refused:?}"),
    });
    for key in ["a", "b", "c", "d"] {
        it.store_in(Mode::Set, key, b"1", 0, Some(first));
    }
    it.store_in(Mode::Set, "b", b"2", 0, Some(second));
    it.store_in(Mode::Set, "c", b"2", 0, None);
    let (key, cas) = (b"d".to_vec(), None);
    it.run(Command::Delete { key, cas });
    let its = |it: &Driven, lease| {
        let keys = it.keyspace.of_lease.get(&lease);
        keys.map(|keys| keys.iter().cloned().collect::<Vec<_>>().concat())
    };
    assert_eq!(its(&it, first), Some(b"a".to_vec()));
    assert_eq!(its(&it, second), Some(b"b".to_vec()));
    it.keyspace = Keyspace::from_snapshot(&it.keyspace.snapshot()).expect("it is one");
    let end = |lease| Command::End {
        lease,
        renewals: None,
    };
    assert_eq!(it.run(end(first)), Outcome::Ended);
    assert_eq!((it.value("a"), it.value("b")), (None, Some(&b"2"[..])));
    assert_eq!(it.run(end(second)), Outcome::Ended);
    assert_eq!((it.value("b"), it.value("c")), (None, Some(&b"2"[..])));
    assert!(it.keyspace.of_lease.is_empty());
}

#[test]
fn there_is_room_for_so_much_and_no_more() {
    let mut it = Driven::default();
    let long = vec![b'x'; VALUE_MAX];
    assert_eq!(
        it.store(Mode::Set, "k", &[&long[..], b"x"].concat(), 0),
        Outcome::TooLong
    );
    let mut stored = 0;
    while let Outcome::Stored(_) = it.store(Mode::Set, &format!("{stored:06}"), &long, 0) {
        stored += 1;
    }
    assert_eq!(stored, BYTES_MAX / (VALUE_MAX + 6));
    assert_eq!(it.store(Mode::Set, "new", &long, 0), Outcome::Full);
    assert!(matches!(
        it.store(Mode::Set, "000000", b"", 0),
        Outcome::Stored(_)
    ));
    for key in 0..KEYS_MAX {
        it.store(Mode::Set, &format!("{key:06}"), b"", 0);
    }
    assert_eq!(it.keyspace.len(), KEYS_MAX);
    assert_eq!(it.store(Mode::Set, "new", b"", 0), Outcome::Full);
    assert_eq!(it.keyspace.bytes(), 6 * KEYS_MAX);
    for _ in 0..LEASES_MAX {
        assert!(matches!(
            it.run(Command::Open { ttl: 1 }),
            Outcome::Alive(_)
        ));
    }
    assert_eq!(it.run(Command::Open { ttl: 1 }), Outcome::Full);
}

#[test]
fn a_snapshot_is_all_of_it() {
    let mut it = Driven::default();
    let Outcome::Alive(lease) = it.run(Command::Open { ttl: 9 }) else {
        panic!("there is room");
    };
    it.run(Command::Renew { lease });
    it.store_in(Mode::Set, "a", b"1", 0, Some(lease));
    it.store(Mode::Set, "b", b"", 0);
    let bytes = it.keyspace.snapshot();
    assert_eq!(Keyspace::from_snapshot(&bytes), Some(it.keyspace));
    for cut in 0..bytes.len() {
        assert_eq!(Keyspace::from_snapshot(&bytes[..cut]), None, "{cut}");
    }
}
