//! A ring of nodes in one thread, from one seed: virtual time, a network that loses, repeats,
//! delays and reorders frames, nodes that die with all they had and come back empty, neighbors that
//! cannot hear each other for a while, or stand still for one, and leases that end. The nodes and
//! their stores are the real ones. In three seeds of ten frames go in pieces, as over Ethernet
//! (`streams.rs` has that by itself).
//!
//! `RING_SEEDS=10000 cargo test -p rhythm-kv --test ring_simulator` runs so many; `RING_FIRST`
//! says from where, and `RING_SEED=4711` replays one. What is checked of the histories stands in
//! `history.rs`; that it finds mistakes, in `sabotage.rs`.

mod burst;
mod catch_up;
mod chain;
mod cluster;
mod concurrent;
mod crowded;
mod cut_off;
mod deaf;
mod disputed;
mod flush;
mod handed;
mod history;
mod in_doubt;
mod late;
mod leases;
mod leave;
mod left_out;
mod missed;
mod network;
mod outage;
mod paused;
mod random;
mod refused;
mod sabotage;
mod sent_anew;
mod slow;
mod stall;
mod streams;
mod third;
mod together;
mod told;
mod world;

use sabotage::Sabotage;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_acknowledged_write_is_lost_and_all_replicas_become_the_same() {
    if let Some(seed) = number("RING_SEED") {
        println!("{:?}", world::run(seed, Sabotage::None));
        return;
    }
    let first = number("RING_FIRST").unwrap_or(0);
    let seeds = number("RING_SEEDS").unwrap_or(60);
    let mut all = world::Counts::default();
    for seed in first..first + seeds {
        match catch_unwind(AssertUnwindSafe(|| world::run(seed, Sabotage::None))) {
            Ok(counts) => all.add(&counts),
            Err(panic) => {
                println!("RING_SEED={seed} replays it");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{all:?}");
    // All that may happen did.
    assert!(
        all.acknowledged > 0 && all.reads > 0 && all.crashes > 0,
        "{all:?}"
    );
    assert!(
        all.forwarded > 0
            && all.partitions > 0
            && all.left > 0
            && all.unreached > 0
            && all.outages > 0
            && all.removed > 0
            && all.of_copies > 0
            && all.of_tails > 0
            && all.flushes > 0
            && all.of_neighbors > 0,
        "{all:?}"
    );
}

#[test]
fn streams_over_ethernet_bring_what_was_sent_in_order() {
    if let Some(seed) = number("RING_SEED") {
        streams::run(seed);
        return;
    }
    let first = number("RING_FIRST").unwrap_or(0);
    let mut all = streams::Counts::default();
    for seed in first..first + number("RING_SEEDS").unwrap_or(60) {
        let counts = catch_unwind(|| streams::run(seed)).unwrap_or_else(|panic| {
            println!("RING_SEED={seed} replays it");
            std::panic::resume_unwind(panic)
        });
        all.came += counts.came;
        all.lives += counts.lives;
        all.dropped += counts.dropped;
    }
    let (came, lives, dropped) = (all.came, all.lives, all.dropped);
    println!("{came} frames came, {dropped} did not, {lives} new lives");
    assert!(came > 0 && lives > 0);
}
