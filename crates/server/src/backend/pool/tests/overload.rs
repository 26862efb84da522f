//! More is asked than can be answered in time.

use super::super::*;
use super::world::*;
use rhythm_engine::cohort::LaneError;

/// One query at a time on each of two connections.
fn one_at_a_time() -> PoolOptions {
    PoolOptions {
        depth_max: 1,
        ..options()
    }
}

/// Answers all that lies at the other side.
fn answer_all(world: &mut World) -> usize {
    let all = world.take_all();
    for (id, queries) in &all {
        world.receive(*id, answer_ok(&queries[0]).as_bytes());
    }
    all.len()
}

#[test]
fn second_calls_go_before_first_ones() {
    let mut world = World::new(one_at_a_time());
    world.submit(0..6, true);
    world.connect_all();
    let [(one, first), (other, second)] = &world.take_all()[..] else {
        panic!("two are sent");
    };
    assert_eq!([first, second], [&["1&3&0"], &["1&3&1"]]);
    world.receive(*one, answer_ok("1&3&0").as_bytes());
    assert_eq!(world.take(*one, 9), ["1&3&2"]);
    // The request that is answered asks again, behind all others that have come.
    world.step = 1;
    world.submit(100..101, true);
    for (key, id, next) in [(1, other, 100), (2, one, 3), (100, other, 4)] {
        world.receive(*id, answer_ok(&format!("1&3&{key}")).as_bytes());
        assert_eq!(world.take(*id, 9), [format!("1&3&{next}")]);
    }
}

#[test]
fn what_cannot_be_answered_in_time_is_refused_at_once() {
    let mut world = World::new(one_at_a_time());
    world.submit(0..40, true);
    world.connect_all();
    for round in 1..=2 {
        world.pass(10 * MS);
        assert_eq!(
            world.told.len(),
            2 * (round - 1),
            "it is not known how many are answered"
        );
        assert_eq!(answer_all(&mut world), 2);
    }
    let mut refused = 0;
    for round in 3..=12 {
        world.pass(10 * MS);
        answer_all(&mut world);
        refused = world.told.len() - 2 * round;
    }
    // Two in ten milliseconds, and half of a hundred for those that wait.
    assert!((12..30).contains(&refused), "{refused} of 40 are refused");
    assert!(!world.backend.counts().circuit_open);
}

#[test]
fn a_crowd_after_others_that_were_slow_is_not_refused() {
    let mut world = World::new(one_at_a_time());
    world.submit(0..4, true);
    world.connect_all();
    for _ in 0..2 {
        world.pass(45 * MS);
        answer_all(&mut world);
    }
    let told = world.told.len();
    world.submit(10..50, true);
    world.connect_all();
    for _ in 0..40 {
        world.pass(MS);
        answer_all(&mut world);
    }
    world.assert_answered(10..50);
    assert_eq!(world.told.len(), told + 40);
}

#[test]
fn requests_for_which_work_was_done_are_not_refused() {
    let mut world = World::new(one_at_a_time());
    world.submit(0..8, true);
    world.connect_all();
    world.pass(10 * MS);
    answer_all(&mut world);
    world.step = 1;
    world.submit(10..30, true);
    world.step = 0;
    world.submit(30..32, true);
    for _ in 0..4 {
        world.pass(5 * MS);
        answer_all(&mut world);
    }
    world.assert_failed(30..32, LaneError::BackendRefused);
    for _ in 0..10 {
        world.pass(MS);
        answer_all(&mut world);
    }
    world.assert_answered(10..30);
}
