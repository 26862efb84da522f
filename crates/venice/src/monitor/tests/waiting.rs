//! What is waited for: room, donors, and what comes back.

use super::lend::ASKED_AT_ONCE;
use super::*;
use crate::wire::{NODE_LOANS_MAX, NotLent};

/// Of what a donor is asked.
fn asked(monitor: &mut Monitor<Memory>, donor: u64) -> LoanId {
    let (said, _) = sent(monitor, donor);
    let grant = said.iter().find_map(|message| match message {
        Message::Grant { loan, .. } => Some(*loan),
        _ => None,
    });
    grant.unwrap_or_else(|| panic!("it is asked for nothing: {said:?}"))
}

fn granted(loan: LoanId) -> Message {
    Message::Granted {
        loan,
        address: ([127, 0, 0, 1], 2).into(),
        is_sealed: false,
    }
}

fn not_lent(request: u64, why: NotLent) -> Message {
    Message::NotLent { request, why }
}

#[test]
fn what_there_is_no_room_for_is_told_to_nobody_and_undone() {
    let memory = Memory::default();
    let is_full = |is_full: bool| memory.0.lock().expect("one thread").1 = is_full;
    let mut monitor = monitor(&memory);
    node(&mut monitor, 1, "a");
    node(&mut monitor, 2, "b");
    let free = |monitor: &Monitor<Memory>| {
        let name = "b".parse().expect("a name");
        monitor
            .rrt()
            .get(&name, Kind::Memory)
            .map(rrt::Resource::free)
    };
    // It is seen when the donor is about to be asked.
    monitor.received(1, borrow(1, 60), at(1));
    is_full(true);
    let effects = monitor.flush().expect("it goes on");
    assert_eq!(effects, [Effect::Send(1, not_lent(1, NotLent::NoDisk))]);
    assert_eq!((monitor.rat().count(), free(&monitor)), (0, Some(100)));
    // Or when it has lent.
    is_full(false);
    monitor.received(1, borrow(2, 60), at(1));
    let loan = asked(&mut monitor, 2);
    monitor.received(2, granted(loan), at(1));
    is_full(true);
    let effects = monitor.flush().expect("it goes on");
    let revoke = Effect::Send(2, Message::Revoke { loan });
    assert_eq!(
        effects,
        [Effect::Send(1, not_lent(2, NotLent::NoDisk)), revoke]
    );
    let why = Reason::GivenBack;
    monitor.received(2, Message::Revoked { loan, why }, at(1));
    monitor.flush().expect("it goes on");
    assert_eq!((monitor.rat().count(), free(&monitor)), (0, Some(100)));
    assert!(memory.0.lock().expect("one thread").0.loans.is_empty());
    // Nobody is asked before there is room again.
    monitor.received(1, borrow(3, 60), at(2));
    assert_eq!(sent(&mut monitor, 1).0, [not_lent(3, NotLent::NoDisk)]);
    is_full(false);
    monitor.received(1, borrow(4, 60), at(3));
    asked(&mut monitor, 2);
}

#[test]
fn a_donor_has_its_time_from_when_it_is_asked() {
    let mut monitor = monitor(&Memory::default());
    node(&mut monitor, 1, "a");
    node(&mut monitor, 2, "b");
    monitor.received(1, borrow(1, 60), at(1));
    let loan = asked(&mut monitor, 2);
    monitor.waited(Duration::from_secs(3), at(3001).at);
    monitor.tick(at(3002));
    monitor.received(2, granted(loan), at(3002));
    let (said, _) = sent(&mut monitor, 1);
    assert!(matches!(said[..], [.., Message::Lent { .. }]), "{said:?}");
    monitor.received(1, borrow(2, 10), at(3002));
    let loan = asked(&mut monitor, 2);
    monitor.tick(at(5002));
    assert!(sent(&mut monitor, 2).0.contains(&Message::Revoke { loan }));
}

/// A monitor whose donor, 2, was asked for all it has, and not waited for any more; 3 waits for
/// that.
fn waits_for_what_comes_back() -> (Monitor<Memory>, LoanId) {
    let mut monitor = monitor(&Memory::default());
    for (connection, name) in [(1, "a"), (2, "b"), (3, "c")] {
        node(&mut monitor, connection, name);
    }
    // No other has anything.
    let quiet = |monitor: &mut Monitor<Memory>, millis| {
        for connection in 1..=3 {
            monitor.received(connection, heartbeat(0), at(millis));
        }
    };
    quiet(&mut monitor, 4000);
    monitor.received(2, heartbeat(100), at(4000));
    monitor.received(1, borrow(1, 100), at(4000));
    let loan = asked(&mut monitor, 2);
    monitor.tick(at(6000));
    quiet(&mut monitor, 6000);
    let (said, _) = sent(&mut monitor, 2);
    assert!(said.contains(&Message::Revoke { loan }), "{said:?}");
    monitor.received(3, borrow(1, 100), at(6001));
    assert_eq!(monitor.flush().expect("it is kept"), []);
    (monitor, loan)
}

#[test]
fn who_waits_for_what_comes_back_has_it_however_it_comes() {
    let (mut monitor, loan) = waits_for_what_comes_back();
    monitor.received(2, Message::NoRoom { loan, idle: 100 }, at(6002));
    asked(&mut monitor, 2);
}

#[test]
fn nobody_waits_for_a_donor_for_ever() {
    let (mut monitor, _) = waits_for_what_comes_back();
    let end = 6001 + 8000;
    for millis in (7000..end).step_by(1000) {
        (1..=3).for_each(|it| monitor.received(it, heartbeat(0), at(millis)));
    }
    let why = NotLent::NoRoom {
        most: Share::memory(0),
    };
    monitor.tick(at(end - 1));
    assert!(!sent(&mut monitor, 3).0.contains(&not_lent(1, why)));
    assert_eq!(monitor.wake_at(), Some(at(end).at));
    monitor.tick(at(end));
    assert_eq!(sent(&mut monitor, 3).0, [not_lent(1, why)]);
}

#[test]
fn a_donor_whose_connection_ended_is_asked_again_when_it_is_back() {
    let mut monitor = monitor(&Memory::default());
    node(&mut monitor, 1, "a");
    node(&mut monitor, 2, "b");
    monitor.received(1, heartbeat(0), at(5000));
    monitor.received(2, heartbeat(100), at(5000));
    monitor.tick(at(5000));
    monitor.received(1, borrow(1, 60), at(5000));
    let first = asked(&mut monitor, 2);
    monitor.closed(2, at(5001));
    assert_eq!(monitor.flush().expect("it is kept"), []);
    greet(&mut monitor, 3, &secret());
    monitor.received(3, register("b", 1), at(5002));
    assert_ne!(asked(&mut monitor, 3), first);
}

#[test]
fn who_waits_longest_waits_in_front_though_a_donor_was_asked_meanwhile() {
    let mut monitor = monitor(&Memory::default());
    for (connection, name) in [(1, "a"), (2, "b"), (3, "c")] {
        node(&mut monitor, connection, name);
    }
    [1, 3]
        .into_iter()
        .for_each(|it| monitor.received(it, heartbeat(0), at(1)));
    monitor.received(1, borrow(1, 100), at(1));
    let loan = asked(&mut monitor, 2);
    monitor.received(3, borrow(1, 100), at(2));
    monitor.received(2, Message::NoRoom { loan, idle: 0 }, at(3));
    greet(&mut monitor, 4, &secret());
    monitor.received(4, register("d", 1), at(4));
    let loan = asked(&mut monitor, 4);
    monitor.received(4, granted(loan), at(4));
    let (said, _) = sent(&mut monitor, 1);
    assert!(matches!(said[..], [Message::Lent { .. }]), "{said:?}");
}

/// A monitor of a node, 1, that wants so much so often, and another, 2, and no donor; and how many
/// of the requests were refused.
fn wants(request_count: u64, bytes: u64) -> (Monitor<Memory>, usize) {
    let mut monitor = monitor(&Memory::default());
    // Donors are on their way all the time.
    monitor.settled_at = Some(at(60_000).at);
    node(&mut monitor, 1, "a");
    node(&mut monitor, 2, "b");
    (1..=2).for_each(|it| monitor.received(it, heartbeat(0), at(1)));
    monitor.flush().expect("it is kept");
    for request in 0..request_count {
        monitor.received(1, borrow(request, bytes), at(2));
    }
    let (said, _) = sent(&mut monitor, 1);
    let too_many = |message: &Message| {
        let why = NotLent::TooMany;
        matches!(message, Message::NotLent { why: told, .. } if *told == why)
    };
    assert!(said.iter().all(too_many), "{said:?}");
    (monitor, said.len())
}

#[test]
fn who_wants_more_than_it_may_have_keeps_nobody_else_from_waiting() {
    let (mut monitor, refused) = wants(5000, 1);
    assert_eq!(refused, 5000 - NODE_LOANS_MAX);
    monitor.received(2, borrow(1, 1), at(3));
    assert_eq!(monitor.flush().expect("it is kept"), []);
    // With its connection its requests are gone, and it may wait again.
    monitor.closed(1, at(4));
    greet(&mut monitor, 3, &secret());
    monitor.received(3, register("a", 1), at(5));
    asked(&mut monitor, 3);
    monitor.received(3, borrow(1, 1), at(5));
    assert_eq!(monitor.flush().expect("it is kept"), []);
}

#[test]
fn who_waits_is_asked_for_in_parts_and_before_who_comes_later() {
    let (mut monitor, _) = wants(1000, 80);
    greet(&mut monitor, 3, &secret());
    monitor.received(3, register("c", 1), at(3));
    asked(&mut monitor, 3);
    // There is room for this, and nobody else wants as little: but they are asked for first.
    monitor.received(2, borrow(7, 10), at(4));
    assert_eq!(monitor.flush().expect("it is kept"), []);
    // Something else comes meanwhile, for which all are asked for again.
    monitor.ask_again(at(4));
    let mut parts = 1;
    let mut lent_after = None;
    while monitor.wake_at().is_some_and(|at| at <= self::at(4).at) {
        monitor.tick(at(4));
        parts += 1;
        let (said, _) = sent(&mut monitor, 3);
        if said
            .iter()
            .any(|it| matches!(it, Message::Grant { share, .. } if share.amount == 10))
        {
            lent_after = Some(parts);
        }
    }
    let in_parts = 1000_usize.div_ceil(ASKED_AT_ONCE);
    assert_eq!(lent_after, Some(in_parts));
    assert!((2 * in_parts..2 * in_parts + 2).contains(&parts), "{parts}");
}

#[test]
fn what_was_waited_for_too_long_is_refused_in_parts_too() {
    let (mut monitor, _) = wants(1000, 80);
    let end = 2 + 8000;
    for millis in (1000..end).step_by(1000) {
        (1..=2).for_each(|it| monitor.received(it, heartbeat(0), at(millis)));
        monitor.tick(at(millis));
    }
    sent(&mut monitor, 1);
    let parts = 0..1000_usize.div_ceil(ASKED_AT_ONCE);
    let refused = parts.map(|_| {
        monitor.tick(at(end));
        sent(&mut monitor, 1).0.len()
    });
    let refused: Vec<usize> = refused.collect();
    assert_eq!(refused.iter().sum::<usize>(), 1000);
    assert!(refused.iter().all(|part| *part <= ASKED_AT_ONCE));
}

#[test]
fn who_is_silent_is_found_dead_though_the_monitor_waits_all_the_time() {
    let mut monitor = monitor(&Memory::default());
    node(&mut monitor, 1, "a");
    node(&mut monitor, 2, "b");
    monitor.received(1, borrow(1, 60), at(0));
    let loan = asked(&mut monitor, 2);
    let (mut revoked_at, mut dead_at) = (None, None);
    for millis in (300..20_000).step_by(301) {
        monitor.waited(Duration::from_millis(300), at(millis).at);
        monitor.received(1, heartbeat(0), at(millis));
        monitor.tick(at(millis));
        let is_told = sent(&mut monitor, 2).0.contains(&Message::Revoke { loan });
        revoked_at = revoked_at.or(is_told.then_some(millis));
        let is_dead = monitor.nodes().count() < 2;
        dead_at = dead_at.or(is_dead.then_some(millis));
    }
    assert!(revoked_at.is_none_or(|at| at < 6500), "{revoked_at:?}");
    assert!(dead_at.is_some_and(|at| at < 9500), "{dead_at:?}");
}

#[test]
fn nobody_is_dead_before_it_can_be_heard_behind_a_long_wait() {
    let mut monitor = monitor(&Memory::default());
    node(&mut monitor, 1, "a");
    node(&mut monitor, 2, "b");
    for end in [20_000, 40_000] {
        monitor.waited(Duration::from_secs(19), at(end).at);
        // The connection ended meanwhile; or another wait comes while it comes again.
        monitor.closed(2, at(end));
        monitor.tick(at(end + 1000));
        assert_eq!(monitor.nodes().count(), 2);
    }
    monitor.tick(at(43_000));
    assert_eq!(monitor.nodes().count(), 0);
}

#[test]
fn with_spares_who_is_gone_is_found_dead_soon_though_each_wait_is_long() {
    let mut monitor = monitor(&Memory::default());
    // As where the state is in etcd.
    monitor.settings.gone_after = monitor.settings.dead_after;
    node(&mut monitor, 1, "a");
    node(&mut monitor, 2, "b");
    monitor.closed(2, at(0));
    let mut dead_at = None;
    for millis in (1000..20_000).step_by(1001) {
        monitor.waited(Duration::from_secs(1), at(millis).at);
        monitor.received(1, heartbeat(0), at(millis));
        monitor.tick(at(millis));
        let is_dead = monitor.nodes().count() < 2;
        dead_at = dead_at.or(is_dead.then_some(millis));
    }
    assert!(dead_at.is_some_and(|at| at < 10_000), "{dead_at:?}");
}
