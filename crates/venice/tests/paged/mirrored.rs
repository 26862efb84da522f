//! Programs whose pages two donors have: one of these dies, and nothing with it.
//!
//! Donors are killed `RHYTHM_KILLS` times, 3 unless that says otherwise.

use super::{Ended, MIB, NEVER, donor, is_possible, paged, program, program_of, wait_until_gone};
use rhythm_venice::loan::LoanKey;
use rhythm_venice::memory::donor::Donor;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// What donors that the example `borrow` starts have.
const KEY: LoanKey = LoanKey([7; 32]);

pub(super) fn kills() -> u32 {
    let kills = std::env::var("RHYTHM_KILLS").ok();
    kills.map_or(3, |kills| kills.parse().expect("a number"))
}

fn a_while() {
    thread::sleep(Duration::from_millis(fastrand::u64(..400)));
}

/// A program that writes and checks its memory, of which a fourth is here.
pub(super) struct Busy(pub(super) Ended);

impl Busy {
    /// Starts it, and waits until all its memory is filled.
    pub(super) fn start(donors: &str) -> Self {
        let mut child = paged(donors, 4 * MIB, 64 * MIB, program(), &["busy", "16"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        // Byte by byte: what follows is for who waits for the end.
        let output = child.stdout.as_mut().expect("it is a pipe");
        let mut line = [0; 6];
        output.read_exact(&mut line).expect("a line");
        assert_eq!(&line, b"ready\n");
        Self(Ended(child))
    }

    /// Has it end, and check all its memory before: what is said then.
    pub(super) fn end(mut self) -> String {
        drop(self.0.0.stdin.take());
        let status = self.0.wait();
        let said = self.said();
        assert!(status.success(), "{status}: {said}");
        said
    }

    pub(super) fn said(&mut self) -> String {
        let mut said = String::new();
        let errors = self.0.0.stderr.as_mut().expect("it is a pipe");
        errors.read_to_string(&mut said).expect("text");
        said
    }
}

#[test]
fn nothing_is_lost_with_one_of_two_donors() {
    if !is_possible() {
        return;
    }
    for round in 0..kills() {
        let mut donors = vec![donor(64 * MIB), donor(64 * MIB)];
        let busy = Busy::start(&format!("{},{}", donors[0].1, donors[1].1));
        a_while();
        let (dead, _) = donors.remove(round as usize % 2);
        dead.kill();
        a_while();
        let said = busy.end();
        assert!(said.contains("1 donors lost"), "round {round}: {said}");
    }
}

#[test]
fn what_the_only_donor_had_is_lost_and_never_read_otherwise() {
    if !is_possible() {
        return;
    }
    for round in 0..kills() {
        let (donor, address) = donor(64 * MIB);
        let mut busy = Busy::start(&address);
        a_while();
        donor.kill();
        let status = busy.0.wait();
        let said = busy.said();
        assert_eq!(status.code(), Some(128 + 7), "round {round}: {said}");
        let line = format!("of donor {address}: ");
        assert!(said.contains(&line), "round {round}: {said}");
    }
}

#[test]
fn pages_are_spread_over_donors_and_each_of_them_is_needed() {
    if !is_possible() {
        return;
    }
    let donors = [(); 3].map(|()| here());
    let names = [0, 1, 2].map(|at: usize| donors[at].1.clone());
    let mut busy = Busy::start(&names.join("+"));
    let used = [0, 1, 2].map(|at: usize| used(&donors[at].0));
    // Twelve mebibytes and more are away, in extents of one.
    assert!(
        used.iter().all(|used| (3 * MIB..6 * MIB).contains(used)),
        "{used:?}"
    );
    let [first, second, third] = donors;
    drop(second);
    let status = busy.0.wait();
    let said = busy.said();
    assert_eq!(status.code(), Some(128 + 7), "{said}");
    assert!(said.contains(&format!("of donor {}: ", names[1])), "{said}");
    drop((first, third));
}

#[test]
fn stripes_are_mirrored_each_by_itself() {
    if !is_possible() {
        return;
    }
    let donors = [(); 4].map(|()| here());
    let names = [0, 1, 2, 3].map(|at: usize| donors[at].1.clone());
    let [a, b, c, d] = &names;
    let busy = Busy::start(&format!("{a},{b}+{c},{d}"));
    let used = [0, 1, 2, 3].map(|at: usize| used(&donors[at].0));
    assert!(
        used.iter().all(|used| (5 * MIB..9 * MIB).contains(used)),
        "{used:?}"
    );
    let [first, second, third, fourth] = donors;
    // One of each.
    drop((first, fourth));
    a_while();
    let said = busy.end();
    assert!(said.contains("2 donors lost"), "{said}");
    drop((second, third));
}

/// A donor in this process, of which is known how much it has.
fn here() -> (Donor, String) {
    let donor = Donor::start((Ipv4Addr::LOCALHOST, 0).into(), 64 * MIB).expect("a donor");
    donor.offer(KEY);
    let address = donor.addresses()[0].to_string();
    (donor, address)
}

fn used(donor: &Donor) -> u64 {
    donor.lent().iter().map(|(_, _, used)| used).sum()
}

#[test]
fn another_donor_is_filled_in_place_of_one_that_died() {
    if !is_possible() {
        return;
    }
    let (first, one) = donor(64 * MIB);
    let ((second, other), (third, spare)) = (here(), here());
    let busy = Busy::start(&format!("{one},{other},{spare}"));
    assert_eq!(used(&third), 0);
    first.kill();
    let start = Instant::now();
    while used(&third) < 11 * MIB || used(&third) < used(&second) {
        assert!(start.elapsed() < NEVER, "it is not filled");
        thread::sleep(Duration::from_millis(20));
    }
    // The last pages are confirmed.
    thread::sleep(Duration::from_secs(1));
    drop(second);
    a_while();
    let said = busy.end();
    assert!(said.contains("2 donors lost"), "{said}");
}

#[test]
fn a_donor_that_hangs_is_done_without() {
    if !is_possible() {
        return;
    }
    let ((first, one), (second, other)) = (donor(64 * MIB), donor(64 * MIB));
    let mut busy = Busy::start(&format!("{one},{other}"));
    kill_process(Pid::from_child(&first.0), Signal::STOP).expect("it is there");
    let start = Instant::now();
    // It cannot end before it has all that it waits for.
    drop(busy.0.0.stdin.take());
    let status = busy.0.wait();
    let said = busy.said();
    assert!(status.success(), "{said}");
    assert!(start.elapsed() < Duration::from_secs(20), "{said}");
    assert!(said.contains("1 donors lost"), "{said}");
    drop(second);
}

#[test]
fn a_program_ends_with_the_second_of_its_donors() {
    if !is_possible() {
        return;
    }
    let ((first, one), (second, other)) = (donor(64 * MIB), donor(64 * MIB));
    let donors = format!("{one},{other}");
    let mut command = paged(&donors, 2 * MIB, 64 * MIB, program(), &["spin", "16"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut pager = Ended(child.expect("it runs"));
    let mut output = BufReader::new(pager.0.stdout.take().expect("it is a pipe"));
    output.read_line(&mut String::new()).expect("a line");
    let process = program_of(&pager);
    first.kill();
    thread::sleep(Duration::from_millis(300));
    assert!(pager.0.try_wait().expect("it is ours").is_none());
    second.kill();
    wait_until_gone(process);
    assert_eq!(pager.wait().code(), Some(128 + 7));
}
