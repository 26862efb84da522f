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
mod options;
mod priority;
mod report;
mod victim;

pub use attacks::{ATTACKS, Attack};
pub use options::{Aims, AttackError, AttackOptions};
pub use report::{Felt, Peak, Row, Waits};

use crowd::Crowd;
use rhythm_net::resource::raise_open_files;
use std::time::{Duration, Instant};
use std::{fs, io, thread};
use victim::{Phase, Victim};

/// How long victims are still asking when an attack has closed its connections.
const AFTERMATH: Duration = Duration::from_millis(200);
/// What a server has between an attack and the next.
const PAUSE: Duration = Duration::from_millis(500);
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
    let memory = options.pid.map(Memory::watch).transpose()?;
    let targets = [&options.aims.page, &options.aims.file];
    let victims = targets.map(|target| Victim::start(target, options));
    let victims: Vec<Victim> = victims.into_iter().collect::<Result<_, _>>()?;
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
    let peak = memory.map(|memory| memory.peak()).transpose()?;
    thread::sleep(PAUSE);
    Ok(Row {
        attack: attack.name,
        felt,
        actions,
        refused,
        peak,
    })
}

/// The attack, on a thread of its own. What it did, and how often it was not let in.
fn make(attack: &'static Attack, options: &AttackOptions) -> Result<(u64, u64), AttackError> {
    let options = options.clone();
    let thread = thread::Builder::new().name(attack.name.to_owned());
    let thread = thread.spawn(move || {
        let count = options.connections.unwrap_or(attack.connections).max(1);
        let until = Instant::now() + options.duration;
        let mut crowd = Crowd::new(options.server, count, until);
        (attack.make)(&mut crowd, &options.aims);
        crowd.disperse()
    })?;
    Ok(thread.join().expect("an attack does not panic"))
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

    fn peak(&self) -> Result<Peak, AttackError> {
        let status = match fs::read_to_string(format!("/proc/{}/status", self.pid)) {
            Ok(status) => status,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Peak::Gone),
            Err(error) => return Err(AttackError::Memory(self.pid, error)),
        };
        let line = (status.lines()).find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        // What has ended, and was not waited for, has no memory any more.
        Ok(kib.map_or(Peak::Gone, |kib| Peak::Bytes(kib * 1024)))
    }
}
