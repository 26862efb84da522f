//! A monitor and its agents in one thread, from one seed: virtual time, connections that are slow,
//! cut, or broken without a word, datagrams that are lost, nodes that die and come again, a monitor
//! that dies at the worst moment, donors that need their memory themselves, and borrowers that want
//! the same. There is one monitor with a disk, or there are two that share their state in etcd, are
//! stopped for a while, and are not answered in time, or told that there is no room, or that they
//! have a lease by one who leads etcd no more. Monitors and agents are the real ones; what lends is
//! a model of a memory and accelerators, and etcd one of keys and leases.
//!
//! `VENICE_SEEDS=10000 cargo test -p rhythm-venice --test simulator` runs so many; `VENICE_FIRST`
//! says from where, and `VENICE_SEED=4711` replays one. What holds is in `check.rs`.

mod acts;
mod borrowers;
mod check;
mod counts;
mod etcd;
mod events;
mod faults;
mod monitors;
mod network;
mod shelf;
mod world;

use counts::Counts;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::Mode;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs seeds; what happened in all of them.
fn run(mode: impl Fn(u64) -> Mode) -> Counts {
    if let Some(seed) = number("VENICE_SEED") {
        return world::run(seed, mode(seed));
    }
    let first = number("VENICE_FIRST").unwrap_or(0);
    let seeds = number("VENICE_SEEDS").unwrap_or(40);
    let mut all = Counts::default();
    for seed in first..first + seeds {
        match catch_unwind(AssertUnwindSafe(|| world::run(seed, mode(seed)))) {
            Ok(counts) => all.add(&counts),
            Err(panic) => {
                println!("VENICE_SEED={seed} replays it");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{all:?}");
    all
}

/// Whether all that may happen did, where more than one seed was run.
fn happened(counts: &[u64]) -> bool {
    number("VENICE_SEED").is_some() || counts.iter().all(|count| *count > 0)
}

#[test]
fn nothing_is_given_twice_and_all_comes_back() {
    let all = run(|seed| match seed % 2 {
        0 => Mode::Folder,
        _ => Mode::Etcd,
    });
    let counts = [
        all.lent,
        all.accelerators,
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
        all.elected,
        all.deposed,
        all.stopped,
        all.stopped_between,
        all.unanswered,
        all.late,
        all.fenced,
        all.full,
        all.in_vain,
    ];
    assert!(happened(&counts), "{all:?}");
}

#[test]
fn no_loan_is_lost_with_the_monitor_that_led() {
    let all = run(|_| Mode::OnlyMonitors);
    let counts = [
        all.lent,
        all.monitor_deaths,
        all.between,
        all.elected,
        all.deposed,
        all.stopped,
        all.stopped_between,
        all.unanswered,
        all.late,
        all.fenced,
        all.full,
        all.in_vain,
    ];
    assert!(happened(&counts), "{all:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for mode in [Mode::Folder, Mode::Etcd] {
        let [one, other] = [(); 2].map(|()| format!("{:?}", world::run(7, mode)));
        assert_eq!(one, other);
    }
}
