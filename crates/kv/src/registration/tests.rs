//! A node's way to its place, and what becomes of it, over an etcd in memory.

use super::joining::{Joining, RegistrationError};
use super::keys::{create, leave_key, numbers, place_key};
use super::node::{News, Registration};
use super::removal::Removal;
use crate::ring::{Lease, Member, NODES_MAX};
use rhythm_etcd::EtcdError;
use rhythm_etcd::testing::{Fate, Memory};
use rhythm_net::Time;
use std::time::Duration;

pub(super) const NAME: &str = "node";
/// Seconds that a lease lasts.
pub(super) const SECONDS: u64 = 1;

pub(super) fn me() -> Member {
    Member {
        name: NAME.to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 11211,
        backbone: ([127, 0, 0, 1], 11311).into(),
        place: "127.0.0.1:11311".to_owned(),
    }
}

fn joining(memory: &Memory) -> Joining<Memory> {
    Joining::new(memory.clone(), me(), SECONDS)
}

/// A node that is registered at once.
pub(super) fn joined(memory: &Memory) -> Registration<Memory> {
    let joined = joining(memory).step(memory.now()).expect("etcd answers");
    joined.expect("it is the only one")
}

fn step(node: &mut Registration<Memory>, memory: &Memory) -> Result<News, EtcdError> {
    node.step(&|| memory.now()).map(|(news, _)| news)
}

/// Another process of the node's name, and its lease.
fn other(memory: &Memory) -> i64 {
    let lease = memory.with(|model| model.grant(60, Duration::ZERO));
    assert!(create(&mut memory.clone(), 7, &me(), lease).expect("it answers"));
    lease
}

/// The lease of a key.
fn lease_of(memory: &Memory, key: &str) -> Option<i64> {
    memory.with(|model| model.keys().get(key).map(|entry| entry.lease))
}

/// The lease of this node's key.
fn of_key(memory: &Memory) -> Option<i64> {
    let number = numbers(NAME).next().expect("it has one");
    lease_of(memory, &place_key(number))
}

fn end(memory: &Memory, lease: i64) {
    memory.with(|model| model.revoke(lease));
}

fn has_none(news: &Result<News, EtcdError>) -> bool {
    matches!(news, Ok(News::Lease(lease)) if lease.until == Time::ZERO)
}

fn has_one(news: &Result<News, EtcdError>) -> bool {
    matches!(news, Ok(News::Lease(lease)) if lease.until > Time::ZERO)
}

#[test]
fn what_was_done_and_not_answered_is_no_other_node() {
    // What it was told in an earlier life is removed first.
    for fate in [Fate::Twice, Fate::Unanswered] {
        let memory = Memory::default();
        memory.fates(&[Fate::Done, fate]);
        let mut joining = joining(&memory);
        let first = joining.step(memory.now());
        assert_eq!(first.is_err(), matches!(fate, Fate::Unanswered));
        let joined = first.or_else(|_| joining.step(memory.now()));
        let node = joined.expect("etcd answers").expect("it is there");
        assert_eq!(of_key(&memory), Some(node.lease.number));
        assert_eq!(node.members.len(), 1);
    }
    let memory = Memory::default();
    let mut node = joined(&memory);
    // Its lease ends, and it comes back as slowly.
    for fate in [Fate::Twice, Fate::Unanswered] {
        end(&memory, node.lease.number);
        memory.fates(&[fate]);
        let before = node.lease.number;
        // It has another, and registers for that; where no server says that it was done, it is
        // found to be.
        assert!(has_none(&step(&mut node, &memory)));
        while step(&mut node, &memory).is_err() {}
        assert_ne!(node.lease.number, before);
        assert!(has_one(&step(&mut node, &memory)));
        assert_eq!(of_key(&memory), Some(node.lease.number), "{fate:?}");
    }
    // One that has its place is another.
    let mut other = node.clone();
    end(&memory, node.lease.number);
    assert!(has_none(&step(&mut other, &memory)));
    assert!(has_one(&step(&mut other, &memory)));
    assert!(has_none(&step(&mut node, &memory)));
    assert!(matches!(step(&mut node, &memory), Ok(News::Replaced)));
}

#[test]
fn a_lease_that_ends_before_the_place_is_free_is_another() {
    let memory = Memory::default();
    let other = other(&memory);
    let mut joining = joining(&memory);
    assert!(joining.step(memory.now()).expect("it waits").is_none());
    let first = memory.with(|model| model.leases().find(|lease| *lease != other));
    let first = first.expect("it has one");
    memory.pass(Duration::from_millis(500));
    assert!(joining.step(memory.now()).expect("it waits").is_none());
    assert!(
        memory.with(|model| model.leases().any(|lease| lease == first)),
        "it is renewed"
    );
    [first, other].iter().for_each(|lease| end(&memory, *lease));
    memory.pass(Duration::from_millis(500));
    let node = joining.step(memory.now()).expect("etcd answers");
    let node = node.expect("the other one is gone");
    assert_ne!(node.lease.number, first);
    assert_eq!(of_key(&memory), Some(node.lease.number));
}

#[test]
fn who_finds_no_place_says_why() {
    let memory = Memory::default();
    let other = other(&memory);
    let mut waits = joining(&memory);
    let error = loop {
        memory.pass(Duration::from_millis(200));
        memory.with(|model| model.renew(other, Duration::ZERO));
        match waits.step(memory.now()) {
            Ok(joined) => assert!(joined.is_none() && memory.now().since(Time::ZERO).as_secs() < 9),
            Err(error) => break error,
        }
    };
    let RegistrationError::NameTaken { name, at } = &error else {
        panic!("{error}");
    };
    assert_eq!((&**name, &**at), (NAME, "127.0.0.1:11211"));
    assert!(
        memory.now().since(Time::ZERO).as_secs() >= 8,
        "three leases, and more"
    );
    end(&memory, other);
    let mut store = memory.clone();
    let lease = memory.with(|model| model.grant(60, Duration::ZERO));
    for number in 0..NODES_MAX {
        let name = format!("node-{number}");
        let at = 1 + number as u16;
        let member = Member {
            name,
            port: at,
            backbone: ([127, 0, 0, 1], at).into(),
            ..me()
        };
        assert!(create(&mut store, number, &member, lease).expect("it answers"));
    }
    let full = joining(&memory).step(memory.now());
    let full = full.map(|joined| joined.is_some());
    assert!(
        matches!(full, Err(RegistrationError::RingFull { .. })),
        "{full:?}"
    );
}

/// Clients, or nodes, would find one of the two there.
#[test]
fn who_has_an_address_of_anothers_waits_for_that_one_and_says_which() {
    for (is_client, flag, at) in [
        (true, "--client", "127.0.0.1:11211"),
        (false, "--backbone", "127.0.0.1:11311"),
    ] {
        let memory = Memory::default();
        let mut other = Member {
            name: "other".to_owned(),
            ..me()
        };
        match is_client {
            true => other.backbone.set_port(1),
            false => other.port = 1,
        }
        let lease = memory.with(|model| model.grant(60, Duration::ZERO));
        assert!(create(&mut memory.clone(), 7, &other, lease).expect("it answers"));
        let mut waits = joining(&memory);
        assert!(waits.step(memory.now()).expect("it waits").is_none());
        let why = waits.waits_for.clone().expect("it says why");
        let expected = format!("node other, which has {flag} {at}, too, to end");
        assert!(why.starts_with(&expected), "{why}");
        assert_eq!(of_key(&memory), None, "others are told nothing of it");
        let error = loop {
            memory.pass(Duration::from_millis(200));
            memory.with(|model| model.renew(lease, Duration::ZERO));
            if let Err(error) = waits.step(memory.now()) {
                break error.to_string();
            }
        };
        let expected = format!("{flag} {at} is that of another node, other, which is registered");
        assert!(error.starts_with(&expected), "{error}");
        // Where it had died, its lease is over by then.
        let mut waits = joining(&memory);
        assert!(waits.step(memory.now()).expect("it waits").is_none());
        end(&memory, lease);
        assert!(waits.step(memory.now()).expect("it answers").is_some());
    }
}

#[test]
fn who_does_not_come_after_all_leaves_nothing_in_etcd() {
    let memory = Memory::default();
    let node = joined(&memory);
    assert!(of_key(&memory).is_some());
    node.withdraw();
    assert_eq!(of_key(&memory), None);
    assert_eq!(memory.with(|model| model.leases().count()), 0);
}

/// Others have heard that it is not there, and take what it serves, whatever its lease says.
#[test]
fn a_node_whose_key_was_removed_has_no_lease_until_it_has_registered_anew() {
    let memory = Memory::default();
    let mut node = joined(&memory);
    let (before, revision) = (node.lease.number, node.lease.revision);
    assert!(has_one(&step(&mut node, &memory)));
    let number = numbers(NAME).next().expect("it has one");
    let mut store = memory.clone();
    rhythm_etcd::Store::delete(&mut store, &place_key(number)).expect("it answers");
    let without = Lease {
        until: Time::ZERO,
        number: before,
        revision,
    };
    let said = step(&mut node, &memory).map_err(|error| error.to_string());
    assert_eq!(said, Ok(News::Lease(without)));
    assert!(has_none(&step(&mut node, &memory)));
    assert!(has_one(&step(&mut node, &memory)));
    assert_ne!(node.lease.number, before);
    assert!(node.lease.revision > revision);
    assert_eq!(of_key(&memory), Some(node.lease.number));
    let leases = memory.with(|model| model.leases().collect::<Vec<_>>());
    assert_eq!(leases, [node.lease.number], "the other is ended");
}

/// Its successor ends the lease: this node writes no longer than that.
#[test]
fn what_a_deposed_leader_of_etcd_renewed_is_no_lease() {
    let memory = Memory::default();
    let mut node = joined(&memory);
    let until = node.lease.until;
    memory.elect();
    let mut said = Ok(News::Leave);
    while of_key(&memory).is_some() {
        said = step(&mut node, &memory);
        memory.pass(Duration::from_millis(100));
    }
    assert!(
        matches!(said, Ok(News::Lease(lease)) if lease.until == until),
        "{said:?}"
    );
    assert!(until < memory.now());
    // It hears that it was deposed, and the node of its lease.
    memory.depose();
    assert!(has_none(&step(&mut node, &memory)));
    assert!(has_one(&step(&mut node, &memory)));
}

#[test]
fn who_is_not_answered_has_its_lease_for_as_long_as_before() {
    let memory = Memory::default();
    let mut node = joined(&memory);
    let lease = node.lease;
    memory.be_silent(true);
    step(&mut node, &memory).expect_err("nobody answers");
    assert_eq!(node.lease, lease);
    memory.be_silent(false);
    memory.pass(Duration::from_millis(500));
    assert!(has_one(&step(&mut node, &memory)));
    assert!(node.lease.number == lease.number && node.lease.until > lease.until);
}

/// Somebody was asked to leave, and a second one of its name waits for it to be gone.
#[test]
fn who_waits_for_another_of_its_name_leaves_what_that_one_is_told() {
    let memory = Memory::default();
    let other = other(&memory);
    let mut store = memory.clone();
    let asked = Removal::ask(&mut store, NAME).expect("etcd answers");
    let asked = asked.expect("there is one");
    let mut second = joining(&memory);
    for _ in 0..3 {
        assert!(lease_of(&memory, &leave_key(NAME)).is_some_and(|lease| lease > 0));
        assert!(!asked.has_left(&mut store).expect("etcd answers"));
        assert!(second.step(memory.now()).expect("it waits").is_none());
        memory.pass(Duration::from_millis(200));
    }
    end(&memory, other);
    let second = second.step(memory.now()).expect("etcd answers");
    let second = second.expect("the first is gone");
    assert_eq!(lease_of(&memory, &leave_key(NAME)), None);
    // Here the next one came before that was seen.
    assert!(!asked.has_left(&mut store).expect("etcd answers"));
    end(&memory, second.lease.number);
    assert!(asked.has_left(&mut store).expect("etcd answers"));
    assert_eq!(
        memory.with(|model| model.leases().count()),
        0,
        "nobody is asked"
    );
    let asked = Removal::ask(&mut store, NAME).expect("etcd answers");
    assert!(asked.is_none());
}
