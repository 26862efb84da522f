//! A monitor and its agents in one thread, from one seed: virtual time, connections that are slow,
//! cut, or broken without a word, datagrams that are lost, nodes that die and come again, a monitor
//! that dies at the worst moment, donors that need their memory themselves, and borrowers that want
//! the same. Monitor and agents are the real ones; what lends is a model of a memory.
//!
//! `VENICE_SEEDS=10000 cargo test -p rhythm-venice --test simulator` runs so many; `VENICE_FIRST`
//! says from where, and `VENICE_SEED=4711` replays one. What holds is in `check.rs`.

mod acts;
mod borrowers;
mod check;
mod counts;
mod events;
mod faults;
mod network;
mod shelf;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn nothing_is_given_twice_and_all_comes_back() {
    if let Some(seed) = number("VENICE_SEED") {
        println!("{:?}", world::run(seed));
        return;
    }
    let first = number("VENICE_FIRST").unwrap_or(0);
    let seeds = number("VENICE_SEEDS").unwrap_or(40);
    let mut all = counts::Counts::default();
    for seed in first..first + seeds {
        match catch_unwind(AssertUnwindSafe(|| world::run(seed))) {
            Ok(counts) => all.add(&counts),
            Err(panic) => {
                println!("VENICE_SEED={seed} replays it");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{all:?}");
    // All that may happen did.
    let happened = [
        all.lent,
        all.not_lent,
        all.broken,
        all.given_back,
        all.reclaimed,
        all.refused_by_donor,
        all.node_deaths,
        all.monitor_deaths,
        all.between,
        all.cuts,
        all.silent,
    ];
    assert!(happened.iter().all(|count| *count > 0), "{all:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(
        format!("{:?}", world::run(7)),
        format!("{:?}", world::run(7))
    );
}
