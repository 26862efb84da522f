//! The simulator: the whole pipeline, driven from one seed.
//!
//! The pipeline does no I/O and reads no clock, so here it gets virtual sockets and virtual time:
//! clients with good and bad manners, a network that splits, delays and resets, backends and
//! devices that are slow or fail. Every answer is compared with the reference's; what is not
//! answered needs a reason; and in the end nothing may be left.
//!
//! - `SIMULATOR_SEEDS=10000 cargo test --release --test simulator` runs that many seeds;
//! - `SIMULATOR_SEED=7 cargo test --test simulator -- seeds --nocapture` runs one and prints what
//!   happens.
//!
//! [`world`] has time and sockets, [`clients`] those who ask, [`requests`] what they ask,
//! [`reference`] what the answers must be, [`judge`] whether they are, [`backends`],
//! [`besim_server`], [`devices`] and [`device_server`] the faults, [`remote_device`] the link to
//! the last, [`hosts`] a host among the routes, [`disks`] the disk of long files, [`config`] how
//! much of each, and [`run`] puts them together.
#![forbid(unsafe_code)]

mod answers;
mod backends;
mod besim_server;
mod clients;
mod config;
mod device_server;
mod devices;
mod disks;
mod hosts;
mod judge;
mod manners;
mod reference;
mod remote_device;
mod requests;
mod run;
mod world;

use backends::BackendSabotage;
use besim_server::ServerSabotage;
use devices::DeviceSabotage;
use disks::DiskSabotage;
use reference::Reference;
use run::{Outcome, Sabotages, run};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::Sabotage;

/// Comes before what all that happened in some seeds is hashed to.
const DIGEST: &str = "digest";

/// What is met in any fifty seeds, beside all pages.
const SEEN: [&str; 24] = [
    "waited for memory",
    "200",
    "206",
    "303",
    "304",
    "400",
    "404",
    "405",
    "408",
    "431",
    "502",
    "503",
    "504",
    "host",
    "gzip",
    "files read meanwhile",
    "files that fail",
    "stragglers",
    "far stages",
    "stages begun anew",
    "stages lost",
    "gave way",
    "long passes",
    "a stall",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn seeds() {
    let mut reference = Reference::load();
    if let Some(seed) = number("SIMULATOR_SEED") {
        let outcome = run(seed, Sabotages::default(), &mut reference, true);
        assert_eq!(outcome.failure, None, "seed {seed}");
        return;
    }
    let first = number("SIMULATOR_FIRST").unwrap_or(0);
    let count = number("SIMULATOR_SEEDS").unwrap_or(50);
    let (mut pages, mut others, mut errors, mut dropped, mut failures) = (0, 0, 0, 0, 0);
    let mut digest = 0_u64;
    let mut seen = BTreeSet::new();
    for seed in first..first + count {
        // A panic is told of with its seed.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            run(seed, Sabotages::default(), &mut reference, false)
        }));
        let outcome = outcome.unwrap_or_else(|_| Outcome {
            failure: Some("a panic".to_owned()),
            ..Outcome::default()
        });
        if let Some(why) = outcome.failure {
            failures += 1;
            println!(
                "{why}\nTo see it happen:\n\
                 SIMULATOR_SEED={seed} cargo test --test simulator -- seeds --nocapture\n"
            );
            assert!(failures < 10, "that is enough");
        }
        digest = digest.rotate_left(1) ^ outcome.hash;
        pages += outcome.pages;
        others += outcome.others;
        errors += outcome.errors;
        dropped += outcome.dropped;
        seen.extend(outcome.seen);
    }
    println!(
        "{count} seeds: {pages} pages, {others} other answers, {errors} honest errors, {dropped} \
        dropped; {DIGEST} {digest:016x}"
    );
    assert_eq!(failures, 0, "seeds failed");
    if count >= 50 {
        let all = reference.services[0]
            .pages
            .iter()
            .map(|page| page.name.as_str());
        let missing: Vec<&str> = all
            .chain(SEEN)
            .filter(|name| !seen.contains(*name))
            .collect();
        assert!(missing.is_empty(), "the seeds do not reach {missing:?}");
    }
}

#[test]
fn a_seed_is_a_run() {
    let mut reference = Reference::load();
    for seed in 0..10 {
        let first = run(seed, Sabotages::default(), &mut reference, false);
        let second = run(seed, Sabotages::default(), &mut reference, false);
        assert_eq!(first, second, "seed {seed}");
    }
}

/// Memory lies elsewhere in each process, and its hash maps have an order of their own.
#[test]
fn a_seed_is_a_run_in_every_process() {
    let digests = [(), ()].map(|()| {
        let this = std::env::current_exe().expect("this program");
        let run = std::process::Command::new(this)
            .args(["seeds", "--exact", "--nocapture"])
            .env_remove("SIMULATOR_SEED")
            .envs([("SIMULATOR_FIRST", "0"), ("SIMULATOR_SEEDS", "40")])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        let digest = said.split_once(DIGEST).map(|(_, digest)| digest.trim());
        let digest = digest
            .and_then(|digest| digest.get(..16))
            .map(str::to_owned);
        digest.unwrap_or_else(|| panic!("nothing is said of the run: {said}"))
    });
    assert_eq!(digests[0], digests[1]);
}

/// Some seed finds this mistake, and finds it again.
fn is_found(sabotages: Sabotages) {
    let mut reference = Reference::load();
    for seed in 0..200 {
        let outcome = run(seed, sabotages, &mut reference, false);
        let without = || run(seed, Sabotages::default(), &mut Reference::load(), false).failure;
        if outcome.failure.is_some() && without().is_none() {
            let again = run(seed, sabotages, &mut reference, false);
            assert_eq!(outcome, again, "seed {seed} does not replay");
            return;
        }
    }
    panic!("{sabotages:?} is not found");
}

#[test]
fn lanes_that_are_swapped_are_found() {
    is_found(Sabotages {
        device: DeviceSabotage::SwapLanes,
        ..Sabotages::default()
    });
}

#[test]
fn a_changed_byte_is_found() {
    is_found(Sabotages {
        device: DeviceSabotage::ChangeByte,
        ..Sabotages::default()
    });
}

#[test]
fn a_forgotten_cohort_is_found() {
    is_found(Sabotages {
        device: DeviceSabotage::ForgetCohort,
        ..Sabotages::default()
    });
}

#[test]
fn rows_of_another_user_are_found() {
    is_found(Sabotages {
        backend: BackendSabotage::OtherUser,
        ..Sabotages::default()
    });
}

#[test]
fn answers_that_are_swapped_are_found() {
    is_found(Sabotages {
        backend: BackendSabotage::SwapAnswers,
        ..Sabotages::default()
    });
}

#[test]
fn a_forgotten_backend_request_is_found() {
    is_found(Sabotages {
        backend: BackendSabotage::ForgetRequest,
        ..Sabotages::default()
    });
}

#[test]
fn others_that_wait_for_a_call_that_hangs_are_found() {
    is_found(Sabotages {
        server: ServerSabotage::HoldOthers,
        ..Sabotages::default()
    });
}

#[test]
fn bytes_of_another_place_of_a_file_are_found() {
    is_found(Sabotages {
        disk: DiskSabotage::OtherPlace,
        ..Sabotages::default()
    });
}

#[test]
fn lost_bytes_are_found() {
    is_found(Sabotages {
        world: Sabotage::LoseBytes,
        ..Sabotages::default()
    });
}

#[test]
fn bytes_sent_twice_are_found() {
    is_found(Sabotages {
        world: Sabotage::RepeatBytes,
        ..Sabotages::default()
    });
}

#[test]
fn turns_that_grow_under_floods_are_found() {
    is_found(Sabotages {
        world: Sabotage::HideTurns,
        ..Sabotages::default()
    });
}

#[test]
fn a_forgotten_writable_is_found() {
    is_found(Sabotages {
        world: Sabotage::ForgetWritable,
        ..Sabotages::default()
    });
}

#[test]
fn time_outs_before_what_came_in_time_are_found() {
    is_found(Sabotages {
        world: Sabotage::HideLateness,
        ..Sabotages::default()
    });
}
