use super::keeper::{Kept, Record};
use super::policy::{ByDistance, ByDistanceAndLoad};
use super::*;
use crate::resource::{Kind, Share};
use crate::secret::Prover;
use crate::wire::{Register, TurnedAway, VERSION};
use std::sync::{Arc, Mutex};

mod kinds;
mod waiting;

/// Keeps in memory; has no room, or fails, where it is told so.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<(State, bool, bool)>>);

impl Keeper for Memory {
    fn keep(&mut self, records: &[Record]) -> Result<Vec<LoanId>, NotKept> {
        let mut kept = self.0.lock().expect("one thread");
        if kept.2 {
            return Err(std::io::Error::other("the disk is gone").into());
        }
        let mut refused = Vec::new();
        for record in records {
            match record {
                Record::Begun(Kept { loan, .. }) | Record::Stands(loan) if kept.1 => {
                    refused.push(*loan);
                }
                record => assert!(kept.0.take(record)),
            }
        }
        Ok(refused)
    }

    fn has_room(&mut self) -> bool {
        !self.0.lock().expect("one thread").1
    }
}

fn at(millis: u64) -> Now {
    let at = Time::ZERO + Duration::from_millis(millis);
    Now {
        at,
        unix_seconds: 7,
    }
}

fn secret() -> Secret {
    Secret::of(b"0123456789abcdef")
}

fn monitor(keeper: &Memory) -> Monitor<Memory> {
    let mut count = 0;
    let numbers = Box::new(move || {
        count += 1;
        [count; 32]
    });
    let state = keeper.0.lock().expect("one thread").0.clone();
    let settings = Settings::default();
    let keeper = (keeper.clone(), &state);
    Monitor::new(
        settings,
        secret(),
        Box::new(ByDistance),
        keeper,
        numbers,
        at(0).at,
    )
}

/// What is sent on a connection, and whether it is closed.
fn sent(monitor: &mut Monitor<Memory>, connection: u64) -> (Vec<Message>, bool) {
    let effects = monitor.flush().expect("it is kept");
    let closes = effects.contains(&Effect::Close(connection));
    let sent = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send(to, message) if to == connection => Some(message),
        _ => None,
    });
    (sent.collect(), closes)
}

/// Greets, and shows a proof with this secret.
fn greet(monitor: &mut Monitor<Memory>, connection: u64, secret: &Secret) {
    monitor.opened(connection, at(0));
    let (version, nonce) = (VERSION, [9; 32]);
    monitor.received(connection, Message::Hello { version, nonce }, at(0));
    let (said, _) = sent(monitor, connection);
    let [
        Message::Challenge {
            nonce: theirs,
            proof,
        },
    ] = &said[..]
    else {
        panic!("{said:?}");
    };
    let parts: &[&[u8]] = &[&nonce, theirs];
    assert!(self::secret().is_proven(Prover::Monitor, parts, proof));
    let proof = secret.prove(Prover::Agent, parts);
    monitor.received(connection, Message::Proof { proof }, at(0));
}

/// A hundred bytes of memory, of which so many are idle.
fn offer(idle: u64) -> Offer {
    Offer {
        kind: Kind::Memory,
        size: 100,
        idle,
    }
}

fn register(name: &str, incarnation: u64) -> Message {
    Message::Register(Register {
        name: name.parse().expect("a name"),
        incarnation,
        place: String::new(),
        probe: ([127, 0, 0, 1], 1).into(),
        offers: vec![offer(100)],
        lent: Vec::new(),
        borrowed: Vec::new(),
    })
}

fn node(monitor: &mut Monitor<Memory>, connection: u64, name: &str) {
    greet(monitor, connection, &secret());
    monitor.received(connection, register(name, 1), at(0));
    let (said, closes) = sent(monitor, connection);
    assert_eq!(
        (said, closes),
        (vec![Message::Registered { heartbeat_ms: 1000 }], false)
    );
}

#[test]
fn who_does_not_greet_as_agents_do_is_turned_away() {
    let mut monitor = monitor(&Memory::default());
    greet(&mut monitor, 1, &Secret::of(b"0123456789abcdee"));
    let away = |why| (vec![Message::Away(why)], true);
    assert_eq!(sent(&mut monitor, 1), away(TurnedAway::Secret));
    monitor.opened(2, at(0));
    let hello = Message::Hello {
        version: VERSION + 1,
        nonce: [0; 32],
    };
    monitor.received(2, hello, at(0));
    assert_eq!(sent(&mut monitor, 2), away(TurnedAway::Version));
    // Who says who it is before it has shown the secret.
    monitor.opened(3, at(0));
    assert_eq!(monitor.message_max(3), SMALL_MAX);
    monitor.received(3, register("a", 1), at(0));
    assert_eq!(sent(&mut monitor, 3), (vec![], true));
    // Who says nothing.
    monitor.opened(4, at(0));
    assert_eq!(monitor.wake_at(), Some(at(5000).at));
    monitor.tick(at(5000));
    assert_eq!(sent(&mut monitor, 4), (vec![], true));
    assert_eq!((monitor.nodes().count(), monitor.wake_at()), (0, None));
    assert_eq!(monitor.figures().strangers, 2);
}

#[test]
fn a_name_is_one_node_s_until_it_is_gone() {
    let mut monitor = monitor(&Memory::default());
    node(&mut monitor, 1, "a");
    greet(&mut monitor, 2, &secret());
    monitor.received(2, register("a", 2), at(0));
    let away = (vec![Message::Away(TurnedAway::NameTaken)], true);
    assert_eq!(sent(&mut monitor, 2), away);
    // The same agent on a new connection takes the place of its old one.
    greet(&mut monitor, 3, &secret());
    monitor.received(3, register("a", 1), at(0));
    let effects = monitor.flush().expect("it is kept");
    assert!(effects.contains(&Effect::Close(1)), "{effects:?}");
    // A new one, when the old one's connection is over.
    monitor.closed(3, at(0));
    greet(&mut monitor, 4, &secret());
    monitor.received(4, register("a", 2), at(0));
    assert!(!sent(&mut monitor, 4).1);
    assert_eq!(monitor.nodes().count(), 1);
}

#[test]
fn nothing_is_asked_of_a_donor_that_is_not_kept() {
    let memory = Memory::default();
    let mut monitor = monitor(&memory);
    node(&mut monitor, 1, "a");
    node(&mut monitor, 2, "b");
    let borrow = |request| Message::Borrow {
        request,
        share: Share::memory(10),
        apart: Vec::new(),
    };
    memory.0.lock().expect("one thread").1 = true;
    monitor.received(1, borrow(1), at(1));
    let no_disk = Message::NotLent {
        request: 1,
        why: crate::wire::NotLent::NoDisk,
    };
    assert_eq!(sent(&mut monitor, 1).0, [no_disk]);
    memory.0.lock().expect("one thread").1 = false;
    memory.0.lock().expect("one thread").2 = true;
    monitor.received(1, borrow(2), at(1));
    assert!(monitor.flush().is_err());
    memory.0.lock().expect("one thread").2 = false;
    let (said, _) = sent(&mut monitor, 2);
    assert!(
        matches!(
            said[..],
            [Message::Grant {
                share: Share { amount: 10, .. },
                ..
            }]
        ),
        "{said:?}"
    );
    assert_eq!(memory.0.lock().expect("one thread").0.loans.len(), 1);
}

#[test]
fn a_loan_apart_from_others_is_of_another_donor() {
    let mut monitor = monitor(&Memory::default());
    for (connection, name) in [(1, "a"), (2, "b"), (3, "c")] {
        node(&mut monitor, connection, name);
    }
    let borrow = |request, apart| Message::Borrow {
        request,
        share: Share::memory(10),
        apart,
    };
    let granted = |monitor: &mut Monitor<Memory>, donor| {
        let (said, _) = sent(monitor, donor);
        let [Message::Grant { loan, .. }] = said[..] else {
            panic!("{said:?}");
        };
        let address = ([127, 0, 0, 1], 2).into();
        monitor.received(
            donor,
            Message::Granted {
                loan,
                address,
                is_sealed: false,
            },
            at(1),
        );
        loan
    };
    monitor.received(1, borrow(1, Vec::new()), at(1));
    let first = granted(&mut monitor, 2);
    // The nearest is as near, and has as much, but has the first.
    monitor.received(1, borrow(2, vec![first]), at(1));
    let second = granted(&mut monitor, 3);
    // All who are on their way at its start have come.
    for connection in 1..=3 {
        monitor.received(connection, heartbeat(100), at(4000));
    }
    monitor.tick(at(5000));
    sent(&mut monitor, 1);
    monitor.received(1, borrow(3, vec![first, second]), at(5000));
    let most = Share::memory(0);
    let why = crate::wire::NotLent::NoRoom { most };
    let not_lent = Message::NotLent { request: 3, why };
    assert_eq!(sent(&mut monitor, 1).0, [not_lent]);
    // The loans of others say nothing, nor such that there are not.
    monitor.received(3, borrow(1, vec![first, LoanId(99)]), at(5000));
    assert!(matches!(
        sent(&mut monitor, 1).0[..],
        [Message::Grant { .. }]
    ));
}

#[test]
fn a_node_says_nothing_about_the_loans_of_others() {
    let mut monitor = monitor(&Memory::default());
    for (connection, name) in [(1, "a"), (2, "b"), (3, "c")] {
        node(&mut monitor, connection, name);
    }
    monitor.received(
        1,
        Message::Borrow {
            request: 1,
            share: Share::memory(10),
            apart: Vec::new(),
        },
        at(1),
    );
    let (said, _) = sent(&mut monitor, 2);
    let [Message::Grant { loan, .. }] = said[..] else {
        panic!("{said:?}");
    };
    let address = ([127, 0, 0, 1], 2).into();
    let is_sealed = false;
    let granted = Message::Granted {
        loan,
        address,
        is_sealed,
    };
    monitor.received(3, granted.clone(), at(1));
    assert_eq!(sent(&mut monitor, 3).0, [Message::Revoke { loan }]);
    monitor.received(2, granted, at(1));
    assert!(matches!(
        sent(&mut monitor, 1).0[..],
        [Message::Lent { request: 1, .. }]
    ));
    for other in [
        Message::GiveBack { loan },
        Message::Revoked {
            loan,
            why: Reason::GivenBack,
        },
        Message::Reclaiming { loan, within_ms: 1 },
        Message::NoRoom { loan, idle: 0 },
    ] {
        monitor.received(3, other, at(1));
    }
    assert!(monitor.rat().get(loan).is_some_and(Loan::is_live));
    assert_eq!(monitor.flush().expect("it is kept"), []);
    // Silence is death; the borrower is told.
    monitor.received(
        1,
        Message::Heartbeat {
            offers: vec![offer(0)],
            links: vec![],
        },
        at(3000),
    );
    monitor.tick(at(5001));
    let why = Reason::DonorGone;
    let (said, _) = sent(&mut monitor, 1);
    assert!(said.contains(&Message::Broken { loan, why }), "{said:?}");
    assert_eq!(monitor.rat().count(), 0);
}

fn heartbeat(idle: u64) -> Message {
    let links = Vec::new();
    let offers = vec![offer(idle)];
    Message::Heartbeat { offers, links }
}

/// A node wants so much.
fn borrow(request: u64, bytes: u64) -> Message {
    Message::Borrow {
        request,
        share: Share::memory(bytes),
        apart: Vec::new(),
    }
}

#[test]
fn who_comes_before_the_donors_is_not_refused_for_want_of_them() {
    let mut waits = monitor(&Memory::default());
    node(&mut waits, 1, "a");
    waits.received(1, borrow(1, 10), at(1));
    assert_eq!(waits.flush().expect("it is kept"), []);
    greet(&mut waits, 2, &secret());
    waits.received(2, register("b", 1), at(2));
    let (said, _) = sent(&mut waits, 2);
    assert!(
        matches!(
            said[..],
            [
                _,
                Message::Grant {
                    share: Share { amount: 10, .. },
                    ..
                }
            ]
        ),
        "{said:?}"
    );
    // Where none comes it is.
    let mut alone = monitor(&Memory::default());
    node(&mut alone, 1, "a");
    alone.received(1, borrow(1, 10), at(1));
    alone.received(1, heartbeat(100), at(4000));
    alone.tick(at(4999));
    let why = crate::wire::NotLent::NoRoom {
        most: Share::memory(0),
    };
    let not_lent = Message::NotLent { request: 1, why };
    let (said, _) = sent(&mut alone, 1);
    assert!(!said.contains(&not_lent), "{said:?}");
    alone.tick(at(5000));
    let (said, _) = sent(&mut alone, 1);
    assert!(said.contains(&not_lent), "{said:?}");
}

#[test]
fn loans_over_a_link_count_whoever_of_both_has_them() {
    let mut monitor = monitor(&Memory::default());
    monitor.policy = Box::new(ByDistanceAndLoad);
    for (connection, name) in [(1, "a"), (2, "b"), (3, "c")] {
        node(&mut monitor, connection, name);
    }
    // Only the first has anything: the second borrows of it.
    (2..=3).for_each(|it| monitor.received(it, heartbeat(0), at(1)));
    monitor.received(2, borrow(1, 10), at(1));
    let (said, _) = sent(&mut monitor, 1);
    assert!(matches!(said[..], [Message::Grant { .. }]), "{said:?}");
    // Both others have lent nothing, and have as much.
    (2..=3).for_each(|it| monitor.received(it, heartbeat(100), at(2)));
    monitor.received(1, borrow(1, 10), at(2));
    let (said, _) = sent(&mut monitor, 3);
    assert!(matches!(said[..], [_, Message::Grant { .. }]), "{said:?}");
}

#[test]
fn what_a_donor_has_back_is_lent_before_it_says_what_is_idle() {
    let mut monitor = monitor(&Memory::default());
    node(&mut monitor, 1, "a");
    node(&mut monitor, 2, "b");
    monitor.received(1, borrow(1, 100), at(1));
    let (said, _) = sent(&mut monitor, 2);
    let [Message::Grant { loan, .. }] = said[..] else {
        panic!("{said:?}");
    };
    let granted = Message::Granted {
        loan,
        address: ([127, 0, 0, 1], 2).into(),
        is_sealed: false,
    };
    monitor.received(2, granted, at(2));
    monitor.received(1, heartbeat(100), at(4000));
    monitor.received(2, heartbeat(0), at(4000));
    monitor.tick(at(5000));
    monitor.flush().expect("it is kept");
    // Nothing is idle, and nothing comes back.
    monitor.received(1, borrow(2, 100), at(5001));
    let why = crate::wire::NotLent::NoRoom {
        most: Share::memory(0),
    };
    let not_lent = Message::NotLent { request: 2, why };
    assert_eq!(sent(&mut monitor, 1).0, [not_lent]);
    // The next program comes as the first one's memory is on its way back.
    monitor.received(1, Message::GiveBack { loan }, at(5002));
    monitor.received(1, borrow(3, 100), at(5003));
    assert_eq!(sent(&mut monitor, 2).0, [Message::Revoke { loan }]);
    let why = Reason::GivenBack;
    monitor.received(2, Message::Revoked { loan, why }, at(5004));
    let (said, _) = sent(&mut monitor, 2);
    assert!(
        matches!(
            said[..],
            [Message::Grant {
                share: Share { amount: 100, .. },
                ..
            }]
        ),
        "{said:?}"
    );
    let name = "b".parse().expect("a name");
    assert_eq!(
        monitor
            .rrt()
            .get(&name, Kind::Memory)
            .map(rrt::Resource::free),
        Some(0)
    );
}
