//! What happens to borrowers of accelerators.

use super::cluster::Process;
use rhythm_venice::accelerator::borrower::{Accelerator, Error, Job, Sharing};
use rhythm_venice::accelerator::request::Kind;
use rhythm_venice::bench::{self, Options, Part};
use rhythm_venice::loan::LoanKey;
use rhythm_venice::remote::Place;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// A length with a large prime factor, so that a job takes a while.
const POINTS: usize = 262_139;

pub(crate) const ALL: [(&str, fn()); 2] = [
    (
        "a_donor_of_accelerators_that_is_killed_is_named",
        a_donor_of_accelerators_that_is_killed_is_named,
    ),
    (
        "the_benchmark_compares_accelerators",
        the_benchmark_compares_accelerators,
    ),
];

fn connect(donor: &str, sharing: Sharing) -> Result<Accelerator, Error> {
    let place = Place::Tcp(donor.parse().expect("an address"));
    let key = LoanKey([5; 32]);
    Accelerator::connect(&place, &key, Kind::Fft, sharing, POINTS * 8)
}

/// It is killed while jobs are done: one has it exclusively, or three share it.
fn a_donor_of_accelerators_that_is_killed_is_named() {
    for (sharing, borrowers) in [(Sharing::Exclusive, 1), (Sharing::Shared, 3)] {
        let donor = Process::start(&["accelerators", "5"]);
        let name = donor.said.clone();
        let (sender, events) = mpsc::channel();
        for _ in 0..borrowers {
            let (name, sender) = (name.clone(), sender.clone());
            thread::spawn(move || {
                let mut fft = connect(&name, sharing).expect("an accelerator");
                let points = vec![0; POINTS * 8];
                let inverse = false;
                let points = &points;
                // Until it is killed, which is in one of them.
                loop {
                    let done = fft.run(&Job::Transform { inverse, points });
                    if sender.send(done.map(|output| output.len())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let next = || events.recv_timeout(PATIENCE).expect("it goes on");
        for _ in 0..borrowers {
            assert_eq!(next().expect("it is done"), POINTS * 8);
        }
        donor.kill();
        let error = loop {
            if let Err(error) = next() {
                break error.to_string();
            }
        };
        let wanted = format!("the accelerator fft of {name} is lost");
        assert!(error.contains(&wanted), "{error}");
        let again = connect(&name, sharing).expect_err("nobody is there");
        assert!(again.to_string().contains(&wanted), "{again}");
    }
}

/// Its rows, with `VENICE_ROUNDS` turns of each.
fn the_benchmark_compares_accelerators() {
    let rounds = std::env::var("VENICE_ROUNDS").ok();
    let options = Options {
        program: std::env::current_exe().expect("this program"),
        rounds: rounds.map_or(1, |rounds| rounds.parse().expect("a number")),
        pages: 512,
        parts: vec![Part::Accelerators],
    };
    let mut told = 0;
    let report = bench::run(&options, &mut |row| {
        println!("{row}");
        told += 1;
    });
    let report = report.expect("it measures");
    assert_eq!(told, report.rows.len());
    assert!(report.not_measured.is_empty());
    // Two kinds, two transports, five sizes, three ways; two transports, five numbers of them.
    assert_eq!(report.rows.len(), 2 * 2 * 5 * 3 + 2 * 5);
    assert!(report.rows.iter().all(|row| row.median > 0.0));
    let firsts = report.rows.iter().filter(|row| row.ratio.is_none());
    assert_eq!(firsts.count(), 2 * 2 * 5 + 2);
}
