//! Nodes of a keyspace in one thread, from one seed: virtual time, a network that loses, repeats,
//! delays and reorders frames, neighbors that do not hear each other, nodes that stand still, or
//! die at any write with what they had not synced, disks that are full, fail in a sync, or damage
//! what was synced, clients that leave before they are answered, nodes
//! that are told to end, or replaced by others of their name without what they had written, and
//! with another clock; and networks on which every frame takes long. The nodes are the real ones.
//!
//! `CONSENSUS_SEEDS=10000 cargo test -p rhythm-kv --test consensus_simulator` runs so many;
//! `CONSENSUS_FIRST` says from where, and `CONSENSUS_SEED=4711` replays one. What is checked:
//! every key's history is linearizable (`history.rs`), no lease ends whose holder gave a sign of
//! life in time, all nodes tell of the same changes, and are the same when all is quiet. That it
//! finds mistakes stands in `sabotage.rs`.

mod clients;
mod disk;
mod history;
#[path = "../ring_simulator/random.rs"]
mod random;
mod sabotage;
mod unwanted;
mod world;

use sabotage::Sabotage;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// In so many runs everything happens that may happen.
const ENOUGH: u64 = 200;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_history_is_linearizable_and_all_nodes_agree() {
    if let Some(seed) = number("CONSENSUS_SEED") {
        println!("{:?}", world::run(seed, Sabotage::None));
        return;
    }
    let first = number("CONSENSUS_FIRST").unwrap_or(0);
    let seeds = number("CONSENSUS_SEEDS").unwrap_or(ENOUGH);
    let mut all = world::Counts::default();
    for seed in first..first + seeds {
        match catch_unwind(AssertUnwindSafe(|| world::run(seed, Sabotage::None))) {
            Ok(counts) => all.add(&counts),
            Err(panic) => {
                println!("CONSENSUS_SEED={seed} replays it");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{all:?}");
    if seeds < ENOUGH {
        return;
    }
    // All that may happen did.
    let world::Counts {
        changed,
        read,
        perhaps,
        nothing,
        crashes,
        torn,
        leaders,
        snapshots,
        leases_ended,
        disk_full,
        left,
        replaced,
        slow,
        unsynced,
        damaged,
        gone,
    } = all;
    for count in [
        changed,
        read,
        perhaps,
        nothing,
        crashes,
        torn,
        leaders,
        snapshots,
        leases_ended,
        disk_full,
        left,
        replaced,
        slow,
        unsynced,
        damaged,
        gone,
    ] {
        assert!(count > 0, "{all:?}");
    }
}

#[test]
fn no_lease_ends_because_all_stood_still() {
    for seed in 0..300 {
        let holds = world::holds_a_lease_over_a_standstill(seed);
        assert!(holds, "seed {seed}: the lease ended");
    }
}

#[test]
fn who_is_told_to_end_leaves_no_gap_and_who_dies_a_short_one() {
    let longest = |dies| {
        let gaps = (0..300).map(|seed| world::without_leader(seed, dies));
        gaps.max().unwrap_or_default()
    };
    let (told, died) = (longest(false), longest(true));
    println!("without leader at most {told:?} (told to end), {died:?} (died)");
    // One heartbeat of 100 ms; and the patience of followers, chosen anew where votes were split.
    assert!(told <= Duration::from_millis(100), "{told:?}");
    assert!(died <= Duration::from_secs(4), "{died:?}");
}
