//! Machines of a network, as namespaces of this one. Each is there for as long as a process in it,
//! so that nothing is left, whatever ends this program.

use super::lab::Lab;
use super::unmade::Unmade;
use crate::reproduce::children::{Process, output};
use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a namespace may take to be there, and a command in it.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// A machine: it is gone when this is dropped.
#[derive(Debug)]
pub(super) struct Machine {
    holder: Process,
}

impl Machine {
    /// One with nothing but its loopback device.
    pub(super) fn new() -> Result<Machine, Unmade> {
        let lacking = |why: &str| {
            Unmade::Lacking(format!(
                "network namespaces need root and the program unshare: {why}"
            ))
        };
        let mut command = Command::new("unshare");
        command.args(["--net", "sleep", "infinity"]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let holder = Process::start(&mut command).map_err(|error| lacking(&error.to_string()))?;
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
        let mut machine = Machine { holder };
        let (own, start) = (of("self"), Instant::now());
        while of(&machine.id().to_string()) == own {
            if !matches!(machine.holder.0.try_wait(), Ok(None)) {
                return Err(lacking("unshare --net is refused"));
            }
            if start.elapsed() > PATIENCE {
                return Err(lacking("unshare --net does not end"));
            }
            thread::sleep(LOOK);
        }
        machine.does("ip link set lo up")?;
        Ok(machine)
    }

    fn id(&self) -> u32 {
        self.holder.0.id()
    }

    /// A command of this machine's.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.id()));
        command.arg("--").arg(program);
        command
    }

    /// Has it do something: the words of a command.
    pub(super) fn does(&self, words: &str) -> Result<(), Unmade> {
        let mut parts = words.split(' ');
        let mut command = self.command(parts.next().unwrap_or_default());
        let done = output(command.args(parts).stdin(Stdio::null()), PATIENCE);
        let why = match done {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        Err(Unmade::Lacking(format!(
            "`{words}` in a network namespace: {why}"
        )))
    }

    /// A wire to another: the names of its ends, and their addresses.
    pub(super) fn wire(
        &self,
        (name, address): (&str, &str),
        other: &Machine,
        (its_name, its_address): (&str, &str),
    ) -> Result<(), Unmade> {
        let id = other.id();
        self.does(&format!(
            "ip link add name {name} type veth peer name {its_name} netns {id}"
        ))?;
        let ends = [(self, name, address), (other, its_name, its_address)];
        for (machine, name, address) in ends {
            machine.does(&format!("ip address add {address} dev {name}"))?;
            machine.does(&format!("ip link set {name} up"))?;
        }
        Ok(())
    }

    /// Has it send packets on that are for others.
    pub(super) fn routes(&self) -> Result<(), Unmade> {
        // Which namespace's it is depends on who writes it.
        let mut command = self.command("sh");
        command.args(["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
        let done = output(command.stdin(Stdio::null()), PATIENCE);
        let done = done.map_err(Unmade::of("ip_forward"))?;
        let refused = || Unmade::Lacking("packets are not sent on: ip_forward is refused".into());
        done.status.success().then_some(()).ok_or_else(refused)
    }

    /// `rhythm` with these words, on this machine.
    pub(super) fn rhythm(&self, lab: &Lab<'_>, words: &[&str]) -> Command {
        let mut command = self.command(&lab.options.program);
        command.args(words);
        command
    }
}
