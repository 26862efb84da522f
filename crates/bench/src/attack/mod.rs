//! `rhythm bench attack`: what a server's other clients feel of an attack.
//!
//! Victims ask for a page and for a file, on a connection each that is kept, once a millisecond:
//! first while nothing else happens, then beside an attack, which one thread makes as fast as it
//! can for a while. What is reported is how much longer they wait.
//!
//! ```text
//!   victims   |--- quiet ---|--- beside ------------------|
//!   attack                  |--- as it does ---| it closes|
//! ```
//!
//! Every attack is bounded in connections and time, and servers of this machine alone are attacked.

mod attacks;
mod crowd;
mod report;
mod victim;

pub use attacks::{ATTACKS, Attack};
pub use report::{Felt, Row, Waits};

use crowd::Crowd;
use rhythm_net::resource::raise_open_files;
use rustix::thread::gettid;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io, thread};
use victim::{Phase, Victim};

/// How long victims are still asking when an attack has closed its connections.
const AFTERMATH: Duration = Duration::from_millis(200);
/// What a server has between an attack and the next.
const PAUSE: Duration = Duration::from_millis(500);
/// Real-time priorities; a server is given one between them.
const VICTIM_PRIORITY: u8 = 20;
const ATTACK_PRIORITY: u8 = 5;

/// Whom to attack, and how.
#[derive(Clone, Debug)]
pub struct AttackOptions {
    /// The server: one of this machine.
    pub server: SocketAddr,
    /// Its process, whose memory is looked at.
    pub pid: Option<u32>,
    /// For how long it is quiet before each attack, and for how long each is made.
    pub duration: Duration,
    /// Connections of each attack, in the place of its own number.
    pub connections: Option<usize>,
    /// Whether victims go before the attack wherever the system may choose, by real-time
    /// priorities; else they wait for the attack's thread as well.
    pub has_priorities: bool,
    /// What is asked for.
    pub aims: Aims,
}

/// What victims and attacks ask for: targets of requests.
#[derive(Clone, Debug)]
pub struct Aims {
    /// A page.
    pub page: String,
    /// A file.
    pub file: String,
    /// A page that takes a form with `userid` and `password`.
    pub sign_in: String,
    /// A page of megabytes, if there is one.
    pub big_page: Option<String>,
}

impl Default for Aims {
    /// Those of services/banking.
    fn default() -> Aims {
        Aims {
            page: "/bank/login.php".to_owned(),
            file: "/bank/static/logo.svg".to_owned(),
            sign_in: "/bank/login.php".to_owned(),
            big_page: None,
        }
    }
}

/// Why there is nothing to report.
#[derive(Debug, thiserror::Error)]
pub enum AttackError {
    /// Others' servers are not attacked.
    #[error("{0} may be another machine: servers on loopback addresses alone are attacked")]
    NotLocal(SocketAddr),
    /// The attack needs a page that was not named.
    #[error("{0} asks for a page of megabytes: name one with --big-page")]
    NoBigPage(&'static str),
    /// The server is not there.
    #[error("cannot connect to {0}")]
    Connect(SocketAddr, #[source] io::Error),
    /// It is not answered even while nothing else happens.
    #[error("{0} is not answered with status 200")]
    Unanswered(String, #[source] io::Error),
    /// What is said of a process cannot be read.
    #[error("cannot read the memory of process {0}")]
    Memory(u32, #[source] io::Error),
    /// Priorities cannot be had.
    #[error("no real-time priority: chrt (of util-linux) and the right to it are needed: {0}")]
    Priority(String),
    /// Threads cannot be had.
    #[error("cannot begin")]
    Begin(#[from] io::Error),
}

/// Makes one attack, and tells what others felt of it.
///
/// # Errors
///
/// [`AttackError`]. What goes wrong with the server later is in what is told.
pub fn run(attack: &'static Attack, options: &AttackOptions) -> Result<Row, AttackError> {
    if !options.server.ip().is_loopback() {
        return Err(AttackError::NotLocal(options.server));
    }
    if attack.needs_big_page && options.aims.big_page.is_none() {
        return Err(AttackError::NoBigPage(attack.name));
    }
    // Where it fails, so will connections beyond the limit.
    let _ = raise_open_files();
    let targets = [&options.aims.page, &options.aims.file];
    let victims = targets.map(|target| Victim::start(target, options));
    let victims: Vec<Victim> = victims.into_iter().collect::<Result<_, _>>()?;
    let memory = options.pid.map(Memory::watch).transpose()?;
    thread::sleep(options.duration);
    let are_well = victims.iter().all(Victim::is_well);
    let mut done = None;
    if are_well {
        victims.iter().for_each(|it| it.enter(Phase::Beside));
        done = Some(make(attack, options));
        thread::sleep(AFTERMATH);
    }
    let felt = victims.into_iter().map(Victim::stop);
    let felt = felt.collect::<Result<Vec<_>, _>>()?;
    let (actions, refused) = done.transpose()?.unwrap_or_default();
    let peak_bytes = memory.map(|memory| memory.peak_bytes()).transpose()?;
    thread::sleep(PAUSE);
    Ok(Row {
        attack: attack.name,
        felt,
        actions,
        refused,
        peak_bytes,
    })
}

/// The attack, on a thread of its own. What it did, and how often it was not let in.
fn make(attack: &'static Attack, options: &AttackOptions) -> Result<(u64, u64), AttackError> {
    let options = options.clone();
    let thread = thread::Builder::new().name(attack.name.to_owned());
    let thread = thread.spawn(move || {
        if options.has_priorities {
            set_priority(ATTACK_PRIORITY)?;
        }
        let count = options.connections.unwrap_or(attack.connections).max(1);
        let until = Instant::now() + options.duration;
        let mut crowd = Crowd::new(options.server, count, until);
        (attack.make)(&mut crowd, &options.aims);
        Ok(crowd.disperse())
    })?;
    thread.join().expect("an attack does not panic")
}

/// Gives the calling thread a real-time priority.
fn set_priority(priority: u8) -> Result<(), AttackError> {
    let refused = |why: &dyn ToString| Err(AttackError::Priority(why.to_string()));
    let id = gettid().as_raw_nonzero().to_string();
    let arguments = ["--rr", "--pid", &priority.to_string(), &id];
    match Command::new("chrt").args(arguments).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => refused(&String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => refused(&error),
    }
}

/// The most memory that a process has had resident.
#[derive(Debug)]
struct Memory {
    pid: u32,
}

impl Memory {
    /// Has the system forget what was before: proc_pid_clear_refs(5), value 5.
    fn watch(pid: u32) -> Result<Memory, AttackError> {
        let forgotten = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        forgotten.map_err(|error| AttackError::Memory(pid, error))?;
        Ok(Memory { pid })
    }

    fn peak_bytes(&self) -> Result<u64, AttackError> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid));
        let status = status.map_err(|error| AttackError::Memory(self.pid, error))?;
        let line = (status.lines()).find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let unknown = || io::Error::other("no VmHWM");
        kib.map(|kib| kib * 1024)
            .ok_or_else(|| AttackError::Memory(self.pid, unknown()))
    }
}
