//! Mistakes that can be planted, each of which some seed finds.

use crate::world;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Of so many seeds one has to find it.
const SEEDS: u64 = 200;

/// What nodes, or what they stand on, do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// Nothing.
    None,
    /// Disks say that they have what they may forget.
    DisksLie,
    /// A node begins anew now and then, with nothing, and nobody sees to that.
    Forgets,
    /// It reads what it has, and asks nobody whether that is old.
    ReadsAlone,
    /// It says that nothing was done where it may have been.
    DeniesAll,
    /// It does what it is asked twice.
    DoesTwice,
    /// It answers signs of life, and tells nobody of them.
    DropsRenewals,
}

/// Some seed finds this mistake, and finds it again.
fn is_found(sabotage: Sabotage) {
    let fails = |seed, sabotage| {
        let run = || world::run(seed, sabotage);
        catch_unwind(AssertUnwindSafe(run)).is_err()
    };
    let found = (0..SEEDS).find(|seed| fails(*seed, sabotage));
    let Some(seed) = found else {
        panic!("{sabotage:?} is not found");
    };
    println!("{sabotage:?} is found by seed {seed}");
    assert!(fails(seed, sabotage), "seed {seed} does not replay");
    assert!(!fails(seed, Sabotage::None), "seed {seed} fails by itself");
}

#[test]
fn disks_that_lie_are_found() {
    is_found(Sabotage::DisksLie);
}

#[test]
fn a_node_that_forgets_is_found() {
    is_found(Sabotage::Forgets);
}

#[test]
fn reads_that_ask_nobody_are_found() {
    is_found(Sabotage::ReadsAlone);
}

#[test]
fn what_was_done_and_is_denied_is_found() {
    is_found(Sabotage::DeniesAll);
}

#[test]
fn what_is_done_twice_is_found() {
    is_found(Sabotage::DoesTwice);
}

#[test]
fn signs_of_life_that_nobody_hears_of_are_found() {
    is_found(Sabotage::DropsRenewals);
}
