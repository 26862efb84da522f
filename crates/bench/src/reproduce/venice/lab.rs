//! Where programs are run: here alone, or with most of their memory at a donor. The donor and what
//! brings pages are commands of `rhythm venice`, processes of their own.

use super::benched::Row;
use super::options::VeniceOptions;
use super::ready::ready;
use super::unmade::Unmade;
use crate::reproduce::children::{Folder, Process};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

/// Who is not done by then never will be.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Who has not said its first line by then never will, nor the rest of what it says.
const SAYS_PATIENCE: Duration = Duration::from_secs(120);
/// What `rhythm venice run` says where the system does not let it answer page faults.
const REFUSED: &str = "userfaultfd is refused";
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
    /// Why memory of others cannot be had here, if it cannot; found out once.
    refused: OnceCell<Option<String>>,
    /// What `rhythm venice bench` has measured, by its parts.
    pub(super) benched: RefCell<BTreeMap<&'static str, Rc<[Row]>>>,
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
    /// Whether some of it is at a donor.
    pub(super) fn is_remote(self) -> bool {
        self != Memory::Here
    }

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
    /// What `rhythm venice run` told of its pages, if that ran it.
    paged: Option<Paged>,
}

/// What became of a program's pages.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Paged {
    faults: u64,
    /// Those whose page came of the donor.
    fetched: u64,
}

/// A program that runs; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    process: Process,
    name: String,
    began: Instant,
    output: PathBuf,
    errors: PathBuf,
}

impl<'a> Lab<'a> {
    pub(super) fn new(options: &'a VeniceOptions, folder: Folder) -> Lab<'a> {
        Lab {
            options,
            folder,
            files: Cell::new(0),
            refused: OnceCell::new(),
            benched: RefCell::default(),
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
            began: Instant::now(),
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
        let (process, address) = self.lender(command)?;
        // Whoever may not have memory of others is told so before a program is run for a while, and
        // figures are left out then: they have not failed.
        match self.refused.get_or_init(|| self.refused(address)) {
            Some(why) if why.contains(REFUSED) => Err(Unmade::Lacking(why.clone())),
            Some(why) => Err(Unmade::Failed(why.clone())),
            None => Ok((process, address)),
        }
    }

    /// Why a program that does nothing has no memory of this donor, if it has none.
    fn refused(&self, donor: SocketAddr) -> Option<String> {
        let memory = Memory::remote(donor, 0, 75);
        let tried = self.run("true", self.with(memory, Path::new("true"), &[]));
        tried.err().map(|why| why.to_string())
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
            ready(output, SAYS_PATIENCE).map_err(Unmade::of(&program))?;
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
        let mut text = Vec::new();
        let Some(mut output) = process.0.stdout.take() else {
            return Ok(String::new());
        };
        let of = || Unmade::of("a program's output");
        let mut part = [0; 4096];
        loop {
            ready(&output, SAYS_PATIENCE).map_err(of())?;
            match output.read(&mut part).map_err(of())? {
                0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
                length => text.extend(&part[..length]),
            }
        }
    }
}

impl Running {
    /// Waits until it has ended.
    pub(super) fn ended(mut self) -> Result<Ended, Unmade> {
        let status = loop {
            match self.status()? {
                Some(status) => break status,
                None => thread::sleep(LOOK),
            }
        };
        if !status.success() {
            let (name, said) = (&self.name, self.said());
            return Err(Unmade::Failed(format!(
                "{name} ended with {status}: {said}"
            )));
        }
        let errors = fs::read_to_string(&self.errors).unwrap_or_default();
        let output = fs::read_to_string(&self.output);
        Ok(Ended {
            output: output.map_err(Unmade::of(self.output.display()))?,
            paged: paged(&errors),
        })
    }

    /// Whether it is over.
    ///
    /// # Errors
    /// It will never be.
    pub(super) fn has_ended(&mut self) -> Result<bool, Unmade> {
        self.status().map(|status| status.is_some())
    }

    /// How it ended, if it has.
    fn status(&mut self) -> Result<Option<ExitStatus>, Unmade> {
        let status = self.process.0.try_wait();
        match status.map_err(Unmade::of(&self.name))? {
            None if self.began.elapsed() > PATIENCE => {
                let (name, waited) = (&self.name, PATIENCE.as_secs());
                Err(Unmade::Failed(format!(
                    "{name} has not ended for {waited} s"
                )))
            }
            status => Ok(status),
        }
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

impl Ended {
    /// Page faults of a program that was run so: none that were answered from elsewhere where all
    /// of its memory was here.
    ///
    /// # Errors
    /// Its memory was to be remote, and nothing of it ever came of the donor: what was measured is
    /// something else.
    pub(super) fn faults(&self, memory: Memory) -> Result<u64, Unmade> {
        match (memory.is_remote(), self.paged) {
            (false, _) => Ok(0),
            (
                true,
                Some(Paged {
                    faults,
                    fetched: 1..,
                }),
            ) => Ok(faults),
            (true, paged) => Err(Unmade::Failed(format!(
                "none of its pages came of the donor, where most were to be ({})",
                match paged {
                    Some(paged) => format!("{} faults", paged.faults),
                    None => "`rhythm venice run` told of no faults".to_owned(),
                }
            ))),
        }
    }
}

/// What `rhythm venice run` tells at the end: `270519 faults (2168 first touches, 250000 of
/// the donor, ...`.
fn paged(errors: &str) -> Option<Paged> {
    let mut lines = errors.lines().rev();
    lines.find_map(|line| {
        let line = line.strip_prefix("rhythm venice: ")?;
        let (faults, rest) = line.split_once(" faults (")?;
        let (_, rest) = rest.split_once(" first touches, ")?;
        let (fetched, _) = rest.split_once(" of the donor")?;
        let (faults, fetched) = (faults.parse().ok()?, fetched.parse().ok()?);
        Some(Paged { faults, fetched })
    })
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
        let text = "x\nrhythm venice: 270519 faults (2168 first touches, 250000 of the donor, 7.1 \
            % of the others met here); 7 pages fetched ahead\n";
        let (faults, fetched) = (270_519, 250_000);
        assert_eq!(paged(text), Some(Paged { faults, fetched }));
        assert_eq!(paged("nothing\n"), None);
    }

    #[test]
    fn memory_that_was_never_remote_is_no_figure() {
        let donor = SocketAddr::from(([127, 0, 0, 1], 7));
        let remote = Memory::remote(donor, 400 << 20, 75);
        let of = |paged: Option<Paged>| {
            let output = String::new();
            let faults = Ended { output, paged }.faults(remote);
            faults.map_err(|why| why.to_string())
        };
        let (faults, fetched) = (9, 5);
        assert_eq!(of(Some(Paged { faults, fetched })), Ok(9));
        for paged in [None, Some(Paged { faults, fetched: 0 })] {
            assert!(
                of(paged).is_err_and(|why| why.contains("came of the donor")),
                "{paged:?}"
            );
        }
    }
}
