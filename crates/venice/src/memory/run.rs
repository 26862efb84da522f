//! Runs a program with memory of a donor.
//!
//! A small library (preload/) is loaded into it, from a file in memory: its large mappings come
//! from a region whose page faults this process answers, as the pager (`pager.rs`).

use super::borrower::{Borrower, Lost};
use super::figures::Figures;
use super::observed::{NotTold, Shown};
use super::pager::{Limits, Pager};
use super::program::{self, ProgramError};
use super::store::{Gone, Keeping, Store};
use super::stripes::{Stripes, slots_each};
use super::supply::{self, Held, Names, NoDonor, Source, Supply};
use super::uffd::{self, PAGE};
use rhythm_net::signal::{self, Signal, SignalWatch};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{
    Pid, PidfdFlags, Resource, Signal as Number, getrlimit, pidfd_open, pidfd_send_signal,
    setrlimit,
};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use thiserror::Error;
use tracing::{info, warn};

/// The library that is loaded into programs.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
/// Addresses of a region are multiples of this.
const REGION_UNIT: u64 = 2 << 20;
/// The least that a process may have here.
const LOCAL_BYTES_MIN: u64 = 1 << 20;

/// Pages leave by a file in memory, which is to become as long as this.
const FILE_BYTES_MIN: u64 = 16 << 20;

/// What a program is run with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether two donors have each page, so that one may be lost.
    pub mirror: bool,
    /// Over how many donors, or pairs of such, pages are spread: at least one.
    pub stripes: u8,
    /// With so many bytes a second, at most, another donor is filled where one was lost.
    pub refill: u64,
    /// Bytes of its large mappings that a process has here at most.
    pub local: u64,
    /// Bytes that are asked for, of all stripes together.
    pub remote: u64,
    /// Bytes of a mapping that is large.
    pub threshold: u64,
    /// How often the figures are logged, if at all.
    pub told: Option<Duration>,
    /// Where they are told over HTTP, if anywhere.
    pub admin: Option<SocketAddr>,
    /// More names by which that may be asked.
    pub admin_hosts: Vec<String>,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status, or 128 and the number of the signal that ended it.
    pub code: u8,
    /// What was counted.
    pub figures: Figures,
    /// Memory was lost, and the program ended for that.
    pub lost: Option<Gone>,
}

/// Why a program was not run.
#[derive(Debug, Error)]
pub enum RunError {
    /// This program cannot be.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The kernel does not let page faults be answered.
    #[error(
        "userfaultfd is refused: {0}. It needs Linux 5.19 or later with CONFIG_USERFAULTFD, and \
         root (CAP_SYS_PTRACE, which following forks needs); containers often forbid it by seccomp"
    )]
    Faults(io::Error),
    /// There is no /proc, by which the loader finds the library.
    #[error("/proc/self/fd is not there: mount /proc, by which the program finds its library")]
    NoProc,
    /// More is asked for than this can do, or less than is of use.
    #[error("{0}")]
    Bounds(String),
    /// The donor does not lend.
    #[error("donor {donor} does not lend: {lost}")]
    Donor {
        /// Which.
        donor: SocketAddr,
        /// Why.
        lost: Lost,
    },
    /// Nobody lends.
    #[error("{0}")]
    NotLent(String),
    /// One lends, and no other.
    #[error("there is no second donor to mirror at: {0}")]
    NoMirror(Box<RunError>),
    /// The program could not be started.
    #[error("{program} cannot be started: {error}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// Figures cannot be told where they are to be.
    #[error(transparent)]
    NotTold(#[from] NotTold),
    /// The system refuses something that the pager needs.
    #[error("the pager cannot be set up: {0}")]
    Pager(#[from] io::Error),
}

impl From<Errno> for RunError {
    fn from(error: Errno) -> Self {
        Self::Pager(error.into())
    }
}

/// Whether the kernel lets page faults of this user's programs be answered, those of what they fork
/// included.
///
/// # Errors
/// What the kernel says in place of that.
pub fn faults() -> io::Result<()> {
    uffd::probe()
}

/// Runs a program until it and all that it forked have ended.
///
/// # Errors
/// [`RunError`], before the program runs.
pub fn run(
    options: &Options,
    supply: Box<dyn Supply>,
    program: &OsStr,
    arguments: &[OsString],
) -> Result<Ended, RunError> {
    let path = program::find(program)?;
    faults().map_err(RunError::Faults)?;
    if !std::path::Path::new("/proc/self/fd").is_dir() {
        return Err(RunError::NoProc);
    }
    let region = region_bytes(options)?;
    let shown = Shown::default();
    let admin = options
        .admin
        .map(|at| shown.tell_at(at, options.admin_hosts.clone()))
        .transpose()?;
    if let Some(admin) = &admin {
        info!(address = %admin.address(), "figures are told over HTTP");
    }
    let store = stripes(options, supply)?;
    let (orders, its_orders) = pair()?;
    let (requests, its_requests) = pair()?;
    let limits = Limits {
        local: (options.local / PAGE as u64) as usize,
        remote: (options.remote / PAGE as u64) as usize,
        told: options.told,
        shown: admin.is_some().then_some(shown),
    };
    let mut pager = Pager::new(store, limits, region, orders, requests)?;

    let library = File::from(rustix::fs::memfd_create("venice.so", MemfdFlags::empty())?);
    (&library).write_all(LIBRARY)?;
    let mut preload = OsString::from(format!("/proc/self/fd/{}", library.as_raw_fd()));
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let settings = format!(
        "{},{},{},{region},{}",
        its_orders.as_raw_fd(),
        its_requests.as_raw_fd(),
        library.as_raw_fd(),
        options.threshold,
    );
    let mut child = Command::new(&path)
        .args(arguments)
        .env("LD_PRELOAD", preload)
        .env("RHYTHM_VENICE", settings)
        .spawn()
        .map_err(|error| RunError::Start {
            program: path.display().to_string(),
            error,
        })?;
    drop((its_orders, its_requests, library));
    // Each process takes three descriptors here.
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, files) {
        warn!("this process is to do with few descriptors: {error}");
    }
    let watch = watch_signals(child.id());
    let lost = pager.run().err();
    if lost.is_none() && !ends(&mut child)? {
        // Of an ended one, or where that may not be looked at, nobody knows.
        let other = std::fs::read_link(format!("/proc/{}/exe", child.id()));
        let other = other.map_or("another program".to_owned(), |it| it.display().to_string());
        warn!(
            "{} has executed {other}, all of whose memory is here: give that one to run",
            path.display()
        );
    }
    let status = child.wait()?;
    drop(watch);
    if let Some(admin) = admin {
        admin.stop();
    }
    Ok(Ended {
        code: code(status),
        figures: pager.figures().clone(),
        lost,
    })
}

/// Where pages are to go: to one donor, or to two, and that as often as there are stripes.
fn stripes(options: &Options, mut supply: Box<dyn Supply>) -> Result<Stripes, RunError> {
    let keeping = Keeping {
        copies: if options.mirror { 2 } else { 1 },
        refill: options.refill.max(PAGE as u64),
    };
    let (page, count) = (PAGE as u64, u64::from(options.stripes));
    let bytes = slots_each(options.remote / page, count) * page;
    let mut source = Source::new()?;
    supply.listen(source.notices());
    let mut all = Vec::new();
    let mut stores = Vec::new();
    for number in 0..options.stripes as usize {
        let mut donors: Vec<(Borrower, Held)> = Vec::new();
        for _ in 0..keeping.copies {
            let apart: Vec<Names> = donors.iter().map(|(it, _)| it.names()).collect();
            let (borrower, held) = another(&*supply, bytes, &apart, &all)?;
            all.push(borrower.names());
            donors.push((borrower, held));
        }
        let line = source.line(number);
        stores.push(Store::new(keeping, donors, line, Instant::now()));
    }
    source.start(supply, bytes)?;
    Ok(Stripes::new(stores, source))
}

/// A donor that is none of these for sure, and none of all others where that can be.
fn another(
    supply: &dyn Supply,
    bytes: u64,
    apart: &[Names],
    all: &[Names],
) -> Result<(Borrower, Held), RunError> {
    let mut found = supply::connect(supply, bytes, all);
    if found.is_err() && apart.len() < all.len() {
        found = supply::connect(supply, bytes, apart);
    }
    found.map_err(|why| {
        let error = match why {
            NoDonor::NotLent(why) => RunError::NotLent(why),
            NoDonor::Lost(donor, lost) => RunError::Donor { donor, lost },
        };
        match apart.is_empty() {
            true => error,
            false => RunError::NoMirror(Box::new(error)),
        }
    })
}

/// Whether a program ends within a moment.
fn ends(child: &mut Child) -> io::Result<bool> {
    for _ in 0..20 {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(false)
}

/// Has signals go to the program. Where that cannot be, it is told, and the program runs.
fn watch_signals(process: u32) -> Option<SignalWatch> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw)?;
    let watch = pidfd_open(process, PidfdFlags::empty())
        .map_err(io::Error::from)
        .and_then(|process| signal::watch(move |signal| pass_on(&process, signal)));
    watch
        .inspect_err(|error| warn!("signals are not passed on to the program: {error}"))
        .ok()
}

/// A signal to this process is for the program; one from the terminal it gets anyway.
fn pass_on(process: &OwnedFd, signal: Signal) {
    let number = match signal {
        Signal::Terminate => Number::TERM,
        Signal::Interrupt if is_in_front() => return,
        Signal::Interrupt => Number::INT,
        Signal::Reload => Number::HUP,
        Signal::User1 => Number::USR1,
    };
    // It may have ended.
    let _ = pidfd_send_signal(process, number);
}

/// Whether a terminal sends its interrupts to this process and its children.
fn is_in_front() -> bool {
    rustix::termios::tcgetpgrp(io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

fn code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Addresses for what the program maps: allocators map much more than they use.
fn region_bytes(options: &Options) -> Result<u64, RunError> {
    let bounds = |what: &str| RunError::Bounds(what.to_owned());
    if options.local < LOCAL_BYTES_MIN {
        return Err(bounds(
            "less than 1 MiB of local memory is of no use: give more",
        ));
    }
    if options.remote < PAGE as u64 {
        return Err(bounds(
            "the donor is to lend a page at least: give more remote memory",
        ));
    }
    if getrlimit(Resource::Fsize)
        .current
        .is_some_and(|most| most < FILE_BYTES_MIN)
    {
        return Err(bounds(
            "pages leave by a file in memory, and files are limited to less than 16 MiB \
             (ulimit -f): raise that",
        ));
    }
    let used = options.local.saturating_add(options.remote);
    let bytes = used.saturating_mul(8).saturating_add(1 << 30) / REGION_UNIT * REGION_UNIT;
    if options.stripes == 0 {
        return Err(bounds("pages are to be somewhere: give one stripe or more"));
    }
    // Pages are counted in 32 bits.
    if bytes / PAGE as u64 > u64::from(u32::MAX) {
        return Err(bounds(
            "more than 2 TiB of memory is not for one program: give less",
        ));
    }
    Ok(bytes)
}

/// Two sockets that keep messages apart: ours, and the program's.
fn pair() -> Result<(OwnedFd, OwnedFd), RunError> {
    let (ours, its) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::empty(),
        None,
    )?;
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
    Ok((ours, its))
}
