//! Programs under valgrind: `callgrind` counts their instructions and system calls, `lackey` tells
//! the superblocks that they execute, in order. Both execute our own program, which marks where a
//! request begins and ends.

use crate::reproduce::children::Process;
use crate::reproduce::error::ReproduceError;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The line that stands before a request's superblocks, among those of valgrind.
pub const BEGIN: &[u8] = b"rhythm: begin\n";
/// The line behind them.
pub const END: &[u8] = b"rhythm: end\n";
/// Superblocks of a request that are kept at most; longer ones are refused, since what merges them
/// takes time and memory.
const BLOCKS_MAX: usize = 1 << 20;
/// Bytes of a child's last words that are told.
const SAID_MAX: usize = 2000;

/// Has a server serve; it can ask whether that still runs.
pub(super) type Load<'a> = dyn FnMut(&mut dyn FnMut() -> bool) -> Result<(), ReproduceError> + 'a;

/// valgrind, and what it executes.
#[derive(Clone, Debug)]
pub(super) struct Valgrind {
    valgrind: PathBuf,
    /// Our program.
    program: PathBuf,
    service: PathBuf,
    /// Where it leaves its counts, for a while.
    folder: PathBuf,
}

/// What a program executed, whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) instructions: u64,
    pub(super) system_calls: u64,
}

impl Counts {
    /// What it executed beyond another run.
    pub(super) fn beyond(self, less: Counts) -> Counts {
        Counts {
            instructions: self.instructions.saturating_sub(less.instructions),
            system_calls: self.system_calls.saturating_sub(less.system_calls),
        }
    }
}

impl Valgrind {
    /// Of this program of ours.
    ///
    /// # Errors
    /// What is the matter with valgrind, for people.
    pub(super) fn new(
        valgrind: &Path,
        program: &Path,
        service: &Path,
        folder: &Path,
    ) -> Result<Valgrind, String> {
        let valgrind = crate::reproduce::program_at(valgrind)?;
        Ok(Valgrind {
            valgrind,
            program: program.to_owned(),
            service: service.to_owned(),
            folder: folder.to_owned(),
        })
    }

    fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(&self.valgrind);
        command.arg(format!("--tool={tool}"));
        // It knows no AVX-512, nor do the counts hold for what has it.
        command.env("RHYTHM_SIMD", "avx2");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn counting(&self) -> (Command, PathBuf) {
        let counts = self.folder.join("counts");
        let mut command = self.command("callgrind");
        command.arg("--collect-systime=yes");
        command.arg(format!("--callgrind-out-file={}", counts.display()));
        (command, counts)
    }

    /// What `rhythm bench replay` with these arguments executes.
    pub(super) fn replay(&self, arguments: &[String]) -> Result<Counts, ReproduceError> {
        let (mut command, counts) = self.counting();
        command.arg(&self.program).args(["bench", "replay"]);
        command.arg("--service").arg(&self.service).args(arguments);
        let (log, stderr) = self.log()?;
        let mut child = self.start(command.stderr(stderr))?;
        self.until_end(&mut child, &log)?;
        read_counts(&counts)
    }

    /// What `rhythm serve` on this address executes from its start to its end; `load` has it
    /// serve, and can ask whether it still runs.
    pub(super) fn serve(
        &self,
        address: &str,
        load: &mut Load<'_>,
    ) -> Result<Counts, ReproduceError> {
        let (mut command, counts) = self.counting();
        command.arg(&self.program).arg("serve").arg(&self.service);
        // Another server of this machine may have the admin listener's port.
        command.args(["--no-admin", "--workers", "1", "--device", "scalar"]);
        command.args(["--listen", address]);
        let (log, stderr) = self.log()?;
        let mut child = self.start(command.stderr(stderr))?;
        let mut runs = || matches!(child.0.try_wait(), Ok(None));
        load(&mut runs)?;
        if !runs() {
            return Err(said(&log));
        }
        let pid = rustix::process::Pid::from_child(&child.0);
        // Who has ended already is found out below.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        self.until_end(&mut child, &log)?;
        read_counts(&counts)
    }

    /// A file for what a child says.
    fn log(&self) -> Result<(PathBuf, File), ReproduceError> {
        let log = self.folder.join("log");
        let file = File::create(&log).map_err(ReproduceError::file(&log))?;
        Ok((log, file))
    }

    fn start(&self, command: &mut Command) -> Result<Process, ReproduceError> {
        Process::start(command).map_err(ReproduceError::file(&self.valgrind))
    }

    /// Waits for a child, which must end well.
    fn until_end(&self, child: &mut Process, log: &Path) -> Result<(), ReproduceError> {
        let status = child.0.wait();
        match status.map_err(ReproduceError::file(&self.valgrind))? {
            status if status.success() => Ok(()),
            _ => Err(said(log)),
        }
    }

    /// The superblocks of each of so many requests of these pages, each by itself, page by page.
    pub(super) fn traces(
        &self,
        pages: &[&str],
        requests: usize,
        mut each: impl FnMut(&str, Vec<u64>),
    ) -> Result<(), ReproduceError> {
        let mut command = self.command("lackey");
        command.args(["--basic-counts=no", "--trace-superblocks=yes"]);
        command
            .arg(&self.program)
            .args(["bench", "replay", "--mark"]);
        command.arg("--service").arg(&self.service);
        let requests = requests.to_string();
        command.args(["--users", &requests, "--requests", &requests]);
        command.args(pages.iter().flat_map(|page| ["--page", page]));
        let mut child = self.start(command.stderr(Stdio::piped()))?;
        let Some(stderr) = child.0.stderr.take() else {
            return Err(ended("it has no standard error"));
        };
        let mut said = String::new();
        let mut order = pages.iter().flat_map(|page| {
            [page; 1]
                .into_iter()
                .cycle()
                .take(requests.parse().unwrap_or(0))
        });
        read_traces(stderr, &mut said, &mut |trace| {
            if let Some(page) = order.next() {
                each(page, trace);
            }
        })?;
        let status = child
            .0
            .wait()
            .map_err(ReproduceError::file(&self.valgrind))?;
        match status.success() && order.next().is_none() {
            true => Ok(()),
            false => Err(ended(&said)),
        }
    }
}

/// Takes superblocks between the marks out of what lackey writes; of the rest, the end is kept.
fn read_traces(
    from: impl Read,
    said: &mut String,
    each: &mut dyn FnMut(Vec<u64>),
) -> Result<(), ReproduceError> {
    let mut from = BufReader::with_capacity(1 << 20, from);
    let mut line = Vec::new();
    let mut trace: Option<Vec<u64>> = None;
    loop {
        line.clear();
        // A line without end is not read into memory whole.
        let limit = SAID_MAX as u64;
        let read = from.by_ref().take(limit).read_until(b'\n', &mut line);
        match read.map_err(ReproduceError::file(Path::new("what valgrind writes")))? {
            0 => return Ok(()),
            _ if line == BEGIN => trace = Some(Vec::new()),
            _ if line == END => trace.take().into_iter().for_each(&mut *each),
            _ => match (block(&line), &mut trace) {
                (Some(_), Some(trace)) if trace.len() == BLOCKS_MAX => {
                    return Err(ended(&format!(
                        "a request of more than {BLOCKS_MAX} superblocks"
                    )));
                }
                (Some(block), Some(trace)) => trace.push(block),
                (Some(_), None) => {}
                (None, _) => {
                    said.push_str(&String::from_utf8_lossy(&line));
                    let mut from = said.len().saturating_sub(SAID_MAX);
                    while !said.is_char_boundary(from) {
                        from += 1;
                    }
                    said.drain(..from);
                }
            },
        }
    }
}

/// The address of `SB 04001a30`.
fn block(line: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(line.strip_prefix(b"SB ")?).ok()?;
    u64::from_str_radix(digits.trim_ascii(), 16).ok()
}

fn read_counts(path: &Path) -> Result<Counts, ReproduceError> {
    let text = fs::read_to_string(path).map_err(ReproduceError::file(path))?;
    let _ = fs::remove_file(path);
    counts(&text).ok_or_else(|| ended("its file of counts has none"))
}

/// `events: Ir sysCount ...` and `totals: 5 7 ...`, the latter possibly cut short by zeros.
fn counts(text: &str) -> Option<Counts> {
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let events: Vec<&str> = of("events:")?.split_whitespace().collect();
    let totals: Vec<&str> = of("totals:")?.split_whitespace().collect();
    let count = |event: &str| {
        let at = events.iter().position(|name| *name == event)?;
        totals.get(at).map_or(Some(0), |count| count.parse().ok())
    };
    Some(Counts {
        instructions: count("Ir")?,
        system_calls: count("sysCount")?,
    })
}

/// What a child said at last.
fn said(log: &Path) -> ReproduceError {
    ended(&fs::read_to_string(log).unwrap_or_default())
}

fn ended(said: &str) -> ReproduceError {
    let said = said.trim_end();
    let mut from = said.len().saturating_sub(SAID_MAX);
    while !said.is_char_boundary(from) {
        from += 1;
    }
    ReproduceError::Profiler(said[from..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks_between_marks_are_a_request() {
        let text = "==1== Lackey\nSB 01\nrhythm: begin\nSB 0a\nSB 0B\n==1== x\nrhythm: end\nSB 02\n\
                    rhythm: begin\nrhythm: end\n==1== the end\n";
        let (mut said, mut traces) = (String::new(), Vec::new());
        read_traces(text.as_bytes(), &mut said, &mut |trace| traces.push(trace)).expect("text");
        assert_eq!(traces, [vec![10, 11], vec![]]);
        assert!(said.ends_with("==1== the end\n"), "{said}");
    }

    #[test]
    fn counts_are_totals_and_those_that_are_missing_are_none() {
        let text = "version: 1\nevents: Ir sysCount sysTime\nfn=x\n1 2\ntotals: 500 7 20\n";
        let read = counts(text).expect("both");
        assert_eq!((read.instructions, read.system_calls), (500, 7));
        let less = counts("events: Ir sysCount\ntotals: 600\n").expect("both");
        assert_eq!(read.beyond(less).instructions, 0);
        assert_eq!(less.beyond(read).instructions, 100);
        assert_eq!(counts("events: Ir sysCount\n"), None);
        assert_eq!(counts("events: Ir\ntotals: 5\n"), None);
    }
}
