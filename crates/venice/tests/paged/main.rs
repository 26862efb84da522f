//! Programs whose memory is partly a donor's: they find all as they left it, and where that cannot
//! be, they are ended.
//!
//! Answering page faults needs root; where it is refused, each test says so and passes.

mod liars;
mod mirrored;
mod reclaim;
mod redis;

use mirrored::Busy;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write, pipe};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Long enough to mean never: with it a test that would hang fails.
const NEVER: Duration = Duration::from_secs(240);
const MIB: u64 = 1 << 20;

/// The example `borrow`, which cargo builds beside tests.
fn borrow() -> PathBuf {
    let test = std::env::current_exe().expect("this test's path");
    let built = test.ancestors().nth(2).expect("deps/ lies in a folder");
    built.join("examples/borrow")
}

/// The program beside this (program.c and processes.c), compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = folder.join(format!("program-{}", std::process::id()));
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/paged");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-O1", "-pthread", "-o"])
            .arg(&path)
            .args(["program.c", "processes.c"].map(|source| sources.join(source)));
        assert!(compiler.status().expect("a C compiler").success());
        // Whoever else compiles it makes the same.
        let named = folder.join("program");
        std::fs::rename(&path, &named).expect("the folder is there");
        named
    })
}

/// A process that does not outlive its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Ended {
    fn kill(&self) {
        let process = Pid::from_child(&self.0);
        kill_process(process, Signal::KILL).expect("it is there");
    }

    fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("it is ours") {
                return status;
            }
            assert!(start.elapsed() < NEVER, "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A donor process, and where it lends.
fn donor(bytes: u64) -> (Ended, String) {
    let mut child = Command::new(borrow())
        .args(["lend", &bytes.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example is built");
    let mut address = String::new();
    let output = child.stdout.take().expect("it is a pipe");
    let read = BufReader::new(output).read_line(&mut address);
    assert!(read.expect("its address") > 0);
    (Ended(child), address.trim().to_owned())
}

fn paged(donor: &str, local: u64, remote: u64, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(borrow());
    command
        .args(["run", donor, &local.to_string(), &remote.to_string()])
        .arg(program)
        .args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether faults can be answered here; where not, it is said aloud.
fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let (_donor, address) = donor(MIB);
        let mut command = paged(&address, MIB, MIB, Path::new("true"), &[]);
        let output = command.output().expect("it runs");
        let said = text(&output.stderr);
        let refused = said.contains("userfaultfd is refused");
        assert!(refused || output.status.success(), "{said}");
        if refused {
            eprintln!("SKIPPED: {said}");
        }
        !refused
    })
}

/// Runs a mode of the program with a fourth of its memory here.
fn run(mode: &str, mebibytes: u64) -> Option<Output> {
    if !is_possible() {
        return None;
    }
    let (_donor, address) = donor(8 * mebibytes * MIB);
    let local = mebibytes * MIB / 4;
    let size = mebibytes.to_string();
    let mut command = paged(
        &address,
        local,
        4 * mebibytes * MIB,
        program(),
        &[mode, &size],
    );
    let output = command.output().expect("it runs");
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{mode}: {told}{said}");
    assert!(told.contains("all is as it was"), "{mode}: {told}{said}");
    assert!(
        !said.contains(" 0 evictions"),
        "{mode} had all of it here: {said}"
    );
    Some(output)
}

#[test]
fn what_threads_write_is_there_when_they_read_it() {
    let Some(output) = run("fill", 64) else {
        return;
    };
    let told = text(&output.stdout);
    let present = told
        .split_whitespace()
        .find_map(|word| word.parse::<u64>().ok())
        .expect("the kernel tells it in kB");
    // What is held here, a tenth, and what the program has besides.
    assert!(present < 16 * 1024 * 11 / 10 + 2048, "{told}");
}

#[test]
fn no_write_is_lost_while_pages_come_and_go() {
    run("churn", 16);
}

#[test]
fn children_keep_what_there_was_when_they_were_forked() {
    run("forks", 16);
}

#[test]
fn children_outlive_who_forked_them() {
    run("daemons", 16);
}

#[test]
fn children_in_namespaces_of_their_own_keep_what_is_theirs() {
    run("namespaces", 8);
}

#[test]
fn mappings_move_shrink_and_lose_content_as_ever() {
    run("mappings", 32);
}

#[test]
fn what_is_given_back_in_very_many_pieces_is_there_to_be_had() {
    run("holes", 300);
}

#[test]
fn what_is_mapped_over_pages_unsaid_is_left_alone() {
    run("strangers", 16);
}

#[test]
fn heaps_of_small_pieces_are_with_the_donor_too() {
    run("heap", 32);
}

#[test]
fn what_programs_do_that_think_they_are_alone_costs_them_nothing() {
    run("habits", 16);
}

#[test]
fn a_thread_goes_on_whose_page_is_dropped_while_it_waits() {
    run("drops", 16);
}

#[test]
fn processes_that_are_stopped_keep_nobody_from_going_on() {
    run("stopped", 8);
}

#[test]
fn who_shares_the_memory_of_a_program_that_ended_reads_no_zeros() {
    if let Some(output) = run("shares", 8) {
        let told = text(&output.stdout);
        assert!(!told.contains("not so"), "{told}");
    }
}

/// Starts the program, and waits until all its memory is filled.
fn spinning(address: &str, errors: Stdio) -> (Ended, Pid) {
    let mut child = paged(address, 4 * MIB, 64 * MIB, program(), &["spin", "16"])
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .expect("it runs");
    let mut line = String::new();
    let output = child.stdout.take().expect("it is a pipe");
    let child = Ended(child);
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let process = program_of(&child);
    (child, process)
}

/// The program that a pager looks after.
fn program_of(pager: &Ended) -> Pid {
    let children = format!("/proc/{0}/task/{0}/children", pager.0.id());
    let children = std::fs::read_to_string(children).expect("the kernel tells it");
    let process = children.trim().parse().expect("it has one child");
    Pid::from_raw(process).expect("a process")
}

fn is_there(process: Pid) -> bool {
    let status = format!("/proc/{}/stat", process.as_raw_nonzero());
    std::fs::read_to_string(status).is_ok_and(|status| !status.contains(") Z "))
}

fn wait_until_gone(process: Pid) {
    let start = Instant::now();
    while is_there(process) {
        assert!(start.elapsed() < NEVER, "the program goes on");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_program_ends_with_its_donor_and_says_whose_loan_it_was() {
    if !is_possible() {
        return;
    }
    let (donor, address) = donor(64 * MIB);
    let (mut pager, process) = spinning(&address, Stdio::piped());
    donor.kill();
    let status = pager.wait();
    assert_eq!(status.code(), Some(128 + 7), "{status}");
    assert!(!is_there(process));
    let mut said = String::new();
    let output = pager.0.stderr.as_mut().expect("it is a pipe");
    output.read_to_string(&mut said).expect("text");
    let line = said
        .lines()
        .find(|line| line.contains("memory of this program is lost"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains(&address) && line.contains("loan"), "{line}");
}

#[test]
fn a_child_without_the_library_ends_with_the_donor_too() {
    if !is_possible() {
        return;
    }
    let (donor, address) = donor(64 * MIB);
    let mut command = paged(&address, 2 * MIB, 64 * MIB, program(), &["silent", "16"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut pager = Ended(command.spawn().expect("it runs"));
    let mut output = BufReader::new(pager.0.stdout.take().expect("it is a pipe"));
    let mut told = String::new();
    output.read_line(&mut told).expect("a line");
    assert_eq!(told, "ready\n");
    donor.kill();
    // Until the child is gone, which has the other end.
    output.read_to_string(&mut told).expect("text");
    assert_eq!(told, "ready\n");
    assert_eq!(pager.wait().code(), Some(128 + 7));
}

#[test]
fn a_program_ends_with_its_pager() {
    if !is_possible() {
        return;
    }
    let (_donor, address) = donor(64 * MIB);
    let (mut pager, process) = spinning(&address, Stdio::piped());
    pager.kill();
    assert_eq!(pager.wait().signal(), Some(9));
    wait_until_gone(process);
    let mut said = String::new();
    let output = pager.0.stderr.as_mut().expect("it is a pipe");
    output.read_to_string(&mut said).expect("text");
    assert!(said.contains("the pager is gone"), "{said}");
}

#[test]
fn a_program_goes_on_that_was_stopped_with_its_pager_for_long() {
    if !is_possible() {
        return;
    }
    let (_donor, address) = donor(64 * MIB);
    let busy = Busy::start(&address);
    let processes = [Pid::from_child(&busy.0.0), program_of(&busy.0)];
    let signal = |signal| {
        for process in processes {
            kill_process(process, signal).expect("it is there");
        }
    };
    signal(Signal::STOP);
    // Longer than a donor may take to answer.
    thread::sleep(Duration::from_secs(33));
    signal(Signal::CONT);
    let said = busy.end();
    assert!(!said.contains("donors lost"), "{said}");
}

#[test]
fn a_program_ends_although_nobody_reads_why() {
    if !is_possible() {
        return;
    }
    let (_unread, errors) = pipe().expect("a pipe");
    let flags = fcntl_getfl(&errors).expect("they are told");
    fcntl_setfl(&errors, flags | OFlags::NONBLOCK).expect("they are set");
    while (&errors).write(&[b'-'; 4096]).is_ok() {}
    fcntl_setfl(&errors, flags).expect("they are set");
    let (donor, address) = donor(64 * MIB);
    let (_pager, process) = spinning(&address, errors.into());
    donor.kill();
    wait_until_gone(process);
}

#[test]
fn a_program_that_needs_more_than_there_is_ends_and_says_so() {
    if !is_possible() {
        return;
    }
    let (_donor, address) = donor(8 * MIB);
    let mut command = paged(&address, 4 * MIB, 8 * MIB, program(), &["fill", "32"]);
    let output = command.output().expect("it runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(128 + 7), "{said}");
    assert!(
        said.contains("more memory than --local and --remote"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_run_is_refused_before_it_runs() {
    if !is_possible() {
        return;
    }
    let (_donor, address) = donor(8 * MIB);
    let refusal = |local, remote, program: &str| {
        let output = paged(&address, local, remote, Path::new(program), &[]).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    assert!(refusal(MIB, MIB, "/nowhere").contains("NotFound"));
    assert!(refusal(MIB, 16 * MIB, "true").contains("not lent yet"));
    assert!(refusal(1, MIB, "true").contains("of no use"));
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f 100 && exec \"$0\" \"$@\""])
        .arg(borrow());
    command.args(["run", &address, "1048576", "1048576", "true"]);
    let said = text(&command.output().expect("it runs").stderr);
    assert!(said.contains("ulimit -f"), "{said}");
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = nobody.local_addr().expect("it has one").to_string();
    drop(nobody);
    let output = paged(&address, MIB, MIB, Path::new("true"), &[]).output();
    let output = output.expect("it runs");
    assert!(text(&output.stderr).contains("Donor"));
}
