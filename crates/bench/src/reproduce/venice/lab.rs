//! Where programs are run: here alone, or with most of their memory at a donor. The donor and what
//! brings pages are commands of `rhythm venice`, processes of their own.

use super::options::VeniceOptions;
use super::unmade::Unmade;
use crate::reproduce::children::{Folder, Process};
use std::cell::Cell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Who is not done by then never will be.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(5);
/// Memory that a program is to have at the donor, for each byte of its data: what it frees and
/// takes again lies in between.
const ROOM: u64 = 3;
const ROOM_MIN: u64 = 64 << 20;
/// The least that a program may have here.
const LOCAL_MIN: u64 = 1 << 20;

/// What all runs have.
pub(super) struct Lab<'a> {
    pub(super) options: &'a VeniceOptions,
    pub(super) folder: Folder,
    files: Cell<usize>,
}

/// Where a program's memory is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Memory {
    /// All of it here; `rhythm venice` has no part in it.
    Here,
    /// At a donor, but for so many bytes.
    Remote {
        donor: SocketAddr,
        local: u64,
        remote: u64,
    },
}

impl Memory {
    /// Of data of so many bytes, so many percent at this donor.
    pub(super) fn remote(donor: SocketAddr, bytes: u64, percent: u64) -> Memory {
        Memory::Remote {
            donor,
            local: (bytes / 100 * (100 - percent)).max(LOCAL_MIN),
            remote: bytes * ROOM + ROOM_MIN,
        }
    }
}

/// A program that ended as it should.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) output: String,
    /// Page faults that were answered from elsewhere.
    pub(super) faults: u64,
}

/// A program that runs; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    process: Process,
    name: String,
    output: PathBuf,
    errors: PathBuf,
}

impl<'a> Lab<'a> {
    pub(super) fn new(options: &'a VeniceOptions, folder: Folder) -> Lab<'a> {
        Lab {
            options,
            folder,
            files: Cell::new(0),
        }
    }

    /// A file that nobody has used.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        let number = self.files.get();
        self.files.set(number + 1);
        self.folder.path().join(format!("{number}-{name}"))
    }

    /// The secret of all donors and borrowers; the first donor makes it.
    pub(super) fn key(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    /// `rhythm` with these words.
    pub(super) fn rhythm(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.options.program);
        command.args(words);
        command
    }

    /// A program, to be run with its memory there.
    pub(super) fn with(&self, memory: Memory, program: &Path, words: &[OsString]) -> Command {
        let Memory::Remote {
            donor,
            local,
            remote,
        } = memory
        else {
            let mut command = Command::new(program);
            command.args(words);
            return command;
        };
        let mut command = self.rhythm(&["venice", "run", "--donor", &donor.to_string()]);
        command.args([
            "--local",
            &local.to_string(),
            "--remote",
            &remote.to_string(),
        ]);
        command.arg("--plain-network");
        command.arg("--key-file").arg(self.key()).arg("--");
        command.arg(program).args(words);
        command
    }

    /// Starts it. What it says is left in files.
    pub(super) fn start(&self, name: &str, mut command: Command) -> Result<Running, Unmade> {
        let [output, errors] = ["output", "errors"].map(|of| self.file(&format!("{name}.{of}")));
        let file = |path: &Path| File::create(path).map_err(Unmade::of(path.display()));
        let program = Path::new(command.get_program()).display().to_string();
        command.stdin(Stdio::null());
        command.stdout(file(&output)?).stderr(file(&errors)?);
        let process = Process::start(&mut command)
            .map_err(|error| Unmade::Lacking(format!("{program} cannot be started: {error}")))?;
        Ok(Running {
            process,
            name: name.to_owned(),
            output,
            errors,
        })
    }

    /// Runs it to its end.
    pub(super) fn run(&self, name: &str, command: Command) -> Result<Ended, Unmade> {
        self.start(name, command)?.ended()
    }

    /// A donor with so much memory.
    pub(super) fn donor(&self, bytes: u64) -> Result<(Process, SocketAddr), Unmade> {
        let mut command = self.rhythm(&["venice", "lend", "--listen", "127.0.0.1:0"]);
        command.args(["--memory", &bytes.to_string(), "--key-file"]);
        command.arg(self.key());
        self.lender(command)
    }

    /// Who lends, when it says where.
    pub(super) fn lender(&self, command: Command) -> Result<(Process, SocketAddr), Unmade> {
        let (process, line) = self.says(command)?;
        let address = line.split_once(" on ").and_then(|(_, rest)| {
            let address = rest.split_once(", key")?.0;
            address.parse().ok()
        });
        let other = || Unmade::Failed(format!("rhythm venice says where it lends by {line:?}"));
        address.map(|address| (process, address)).ok_or_else(other)
    }

    /// Starts one that goes on when it has said a line.
    pub(super) fn says(&self, mut command: Command) -> Result<(Process, String), Unmade> {
        let errors = self.file("errors");
        let file = File::create(&errors).map_err(Unmade::of(errors.display()))?;
        let program = format!("{command:?}");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file);
        let mut process = Process::start(&mut command).map_err(Unmade::of(&program))?;
        let mut line = Vec::new();
        // A byte at a time: what follows is another's to read.
        while let Some(output) = &mut process.0.stdout
            && line.last() != Some(&b'\n')
        {
            let mut byte = [0];
            match output.read(&mut byte).map_err(Unmade::of(&program))? {
                0 => break,
                _ => line.push(byte[0]),
            }
        }
        match line.last() {
            Some(b'\n') => Ok((process, String::from_utf8_lossy(&line).trim().to_owned())),
            _ => Err(Unmade::Failed(format!(
                "{program} ended: {}",
                said(&errors)
            ))),
        }
    }

    /// What one says until it ends, after its first line.
    pub(super) fn rest(&self, mut process: Process) -> Result<String, Unmade> {
        let mut text = String::new();
        if let Some(mut output) = process.0.stdout.take() {
            output
                .read_to_string(&mut text)
                .map_err(Unmade::of("a program's output"))?;
        }
        Ok(text)
    }
}

impl Running {
    /// Waits until it has ended.
    pub(super) fn ended(mut self) -> Result<Ended, Unmade> {
        let start = Instant::now();
        let failed = |what: String| Unmade::Failed(what);
        let status: ExitStatus = loop {
            match self.process.0.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if start.elapsed() > PATIENCE => {
                    let waited = PATIENCE.as_secs();
                    return Err(failed(format!(
                        "{} has not ended for {waited} s",
                        self.name
                    )));
                }
                Ok(None) => thread::sleep(LOOK),
                Err(error) => return Err(Unmade::of(&self.name)(error)),
            }
        };
        if !status.success() {
            let said = self.said();
            return Err(failed(format!("{} ended with {status}: {said}", self.name)));
        }
        let errors = fs::read_to_string(&self.errors).unwrap_or_default();
        let output = fs::read_to_string(&self.output);
        Ok(Ended {
            output: output.map_err(Unmade::of(self.output.display()))?,
            faults: faults(&errors).unwrap_or(0),
        })
    }

    /// Whether it is over.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.process.0.try_wait(), Ok(None))
    }

    /// The last that it said.
    pub(super) fn said(&self) -> String {
        said(&self.errors)
    }

    pub(super) fn id(&self) -> u32 {
        self.process.0.id()
    }
}

fn said(errors: &Path) -> String {
    let text = fs::read_to_string(errors).unwrap_or_default();
    text.trim_end().lines().next_back().unwrap_or("").to_owned()
}

/// What `rhythm venice run` tells at the end.
fn faults(errors: &str) -> Option<u64> {
    let lines = errors
        .lines()
        .filter_map(|line| line.strip_prefix("rhythm venice: "));
    lines
        .filter_map(|line| line.split_once(" faults (")?.0.parse().ok())
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_are_remote_and_faults_are_read() {
        let donor = SocketAddr::from(([127, 0, 0, 1], 7));
        let Memory::Remote { local, remote, .. } = Memory::remote(donor, 400 << 20, 75) else {
            panic!("it is remote");
        };
        assert!(
            (100_u64 << 20).abs_diff(local) < 1000 && remote > 400 << 20,
            "{local}"
        );
        let text = "x\nrhythm venice: 270519 faults (2168 first touches)\n";
        assert_eq!(faults(text), Some(270_519));
        assert_eq!(faults("nothing\n"), None);
    }
}
