//! Mistakes that can be planted, each of which some seed finds.

use crate::network;
use crate::world;
use rhythm_kv::ring::wire::{self, Message, Messages};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Of so many seeds one has to find it.
const SEEDS: u64 = 200;

/// What nodes, or their workers, do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// Nothing.
    None,
    /// A worker answers what it wrote before copies have it, though these are waited for.
    AnswersAtOnce,
    /// It tells clients that what nobody knows the end of is done.
    HidesLosses,
    /// It reads whatever it has, whoever serves that.
    ReadsAnyCopy,
    /// It does not hand over some of what it wrote.
    ForgetsWrites,
    /// It says that all before a fence is handed over, which is under way.
    FencesAtOnce,
    /// A node does not tell others that they get no more of a range.
    LosesLeaves,
    /// It does not tell them what was deleted.
    LosesDrops,
    /// It says that it has all that it is sent before it has.
    CompletesAtOnce,
}

/// What a node says in place of these frames.
pub(crate) fn said(sabotage: Sabotage, frames: Vec<u8>) -> Vec<u8> {
    let is_lost = |message: &Message<'_>| match sabotage {
        Sabotage::LosesLeaves => matches!(message, Message::Leave(_)),
        Sabotage::LosesDrops => matches!(message, Message::Drop(..)),
        _ => false,
    };
    let completes = sabotage == Sabotage::CompletesAtOnce;
    if !completes && ![Sabotage::LosesLeaves, Sabotage::LosesDrops].contains(&sabotage) {
        return frames;
    }
    let mut out = Vec::new();
    for frame in network::frames(&frames) {
        let (mut head, said) = wire::read(&frame).expect("frames of ours");
        if completes {
            head.complete = u64::MAX >> (64 - head.claims.len().max(1));
        }
        let (mut messages, mut kept) = (Messages::new(said), Vec::new());
        for message in messages.by_ref().filter(|message| !is_lost(message)) {
            message.write(&mut kept);
        }
        // What a node was told is in the place of messages.
        let kept = if messages.is_at_end() {
            &kept[..]
        } else {
            said
        };
        wire::write(&head, kept, &mut out);
    }
    out
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
fn writes_that_are_answered_before_copies_have_them_are_found() {
    is_found(Sabotage::AnswersAtOnce);
}

#[test]
fn losses_that_are_told_as_done_are_found() {
    is_found(Sabotage::HidesLosses);
}

#[test]
fn reads_of_what_others_serve_are_found() {
    is_found(Sabotage::ReadsAnyCopy);
}

#[test]
fn writes_that_are_not_handed_over_are_found() {
    is_found(Sabotage::ForgetsWrites);
}

#[test]
fn fences_that_hold_nothing_back_are_found() {
    is_found(Sabotage::FencesAtOnce);
}

#[test]
fn who_is_not_told_that_he_gets_no_more_is_found() {
    is_found(Sabotage::LosesLeaves);
}

#[test]
fn deletions_that_are_not_told_are_found() {
    is_found(Sabotage::LosesDrops);
}

#[test]
fn copies_that_are_not_complete_are_found() {
    is_found(Sabotage::CompletesAtOnce);
}
