//! `rhythm rpo`: chooses between all hardware threads and one a core for a server.

mod options;
pub(crate) mod own;
mod status;

use crate::exits::NOTHING_TO_GAIN;
use crate::logs;
use crate::output::{complain, print, print_line};
use anyhow::{Context, Result, ensure};
use options::Options;
use rhythm_engine::settings::LogFormat;
use rhythm_net::signal::{self, Signal};
use rhythm_net::{ListenOptions, Listener};
use rhythm_rpo::classifier::{derive, log};
use rhythm_rpo::cpus::CpuSet;
use rhythm_rpo::daemon::{self, Claim, Hardware, Lock, Parts, PutBack, State, Status};
use rhythm_rpo::probe::{Probed, probe};
use rhythm_rpo::switcher::Switcher;
use rhythm_rpo::topology::{SYSFS, Topology};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most bytes of a line of an access log: more than servers take as a request's.
const LINE_MAX: u64 = 64 << 10;

/// Choose between all hardware threads and one a core for a server, by the requests that it is
/// asked.
///
/// It watches requests arrive and finish, and gives the server the set of CPUs that answers them
/// sooner. When it ends, however it ends, the server has all its CPUs again. It ends with 3 where
/// there is nothing to gain, such as on a machine without simultaneous multithreading.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    tool: Option<Tool>,

    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// What a running controller does, and why
    Status {
        /// Its admin listener
        #[arg(value_name = "ADDR:PORT")]
        admin: SocketAddr,
    },
    /// Watch for a while and say what it would do; nothing is switched
    Advise {
        #[command(flatten)]
        options: Box<Options>,

        /// For how many seconds
        #[arg(long, value_name = "NUM", default_value_t = 60)]
        seconds: u64,
    },
    /// What this machine allows, each way of switching timed on processes of its own
    Probe {
        /// Processes that keep the CPUs busy meanwhile
        #[arg(long, value_name = "NUM", default_value_t = 50)]
        #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
        processes: u16,

        /// How many times each way is tried
        #[arg(long, value_name = "NUM", default_value_t = 100)]
        #[arg(value_parser = clap::value_parser!(u16).range(1..=10000))]
        rounds: u16,
    },
    /// Make classes of two access logs: what is more frequent in one than in the other
    Classify {
        /// The log of a mix that is faster with all threads
        #[arg(value_name = "LOG_A")]
        all_threads: PathBuf,

        /// The log of one that is faster with one a core
        #[arg(value_name = "LOG_B")]
        one_per_core: PathBuf,

        /// What the logs are compared by
        #[arg(long, value_name = "WHAT", default_value = "frequency")]
        by: By,
    },
    /// Put back what a controller left that was killed
    Restore {
        /// Where it kept that
        #[arg(value_name = "FILE")]
        state: PathBuf,

        /// Nothing is to be done where no controller kept anything there
        #[arg(long)]
        if_kept: bool,
    },
    /// Wait for a controller to end, and put back what it left: it starts this itself
    #[command(hide = true)]
    Guard {
        #[arg(value_name = "FILE")]
        state: PathBuf,
    },
}

/// What two logs are compared by.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum By {
    /// How frequent each class is
    Frequency,
    /// How frequent the classes with short answers are, against those with long ones
    Size,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.tool {
        None => control(args.options.read()?),
        Some(Tool::Status { admin }) => {
            print(status::ask(admin)?)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Tool::Advise { options, seconds }) => {
            advise(&options.read()?, Duration::from_secs(seconds))
        }
        Some(Tool::Probe { processes, rounds }) => show_probe(processes.into(), rounds.into()),
        Some(Tool::Classify {
            all_threads,
            one_per_core,
            by,
        }) => classify(&all_threads, &one_per_core, by),
        Some(Tool::Restore { state, if_kept }) => {
            let put_back = match State::find(&state) {
                Err(daemon::StateError::Unknown(_)) if if_kept => PutBack::default(),
                found => found?.put_back()?,
            };
            complain_of(&put_back);
            print_line(format_args!("{} put back", put_back.count))?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Tool::Guard { state }) => {
            // What ends a group of processes is not for this one.
            let _ignored = signal::watch(|_| ()).context("cannot watch for signals")?;
            let put_back = daemon::guard(&state, std::io::stdin().lock())?;
            complain_of(&put_back);
            if put_back.count > 0 {
                complain("rhythm rpo: the controller is gone; the server has all its CPUs again");
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Says which CPUs a server did not get back, if there are any.
fn complain_of(put_back: &PutBack) {
    for left_out in &put_back.left_out {
        complain(format_args!("rhythm rpo: {left_out}"));
    }
}

/// Ends with what signals say.
fn ending() -> Result<(signal::SignalWatch, Arc<AtomicBool>)> {
    let is_ending = Arc::new(AtomicBool::new(false));
    let by_signal = Arc::clone(&is_ending);
    let watch = signal::watch(move |signal| {
        if matches!(signal, Signal::Terminate | Signal::Interrupt) {
            by_signal.store(true, Ordering::Relaxed);
        }
    });
    Ok((watch.context("cannot watch for signals")?, is_ending))
}

/// Where a controller tells of itself, which a flag says.
fn listen(flag: &'static str, at: SocketAddr) -> Result<Listener> {
    Listener::bind(at, &ListenOptions::default()).context(flag)
}

fn nothing_to_gain(why: &str) -> ExitCode {
    complain(format_args!("rhythm rpo: {why}"));
    ExitCode::from(NOTHING_TO_GAIN)
}

fn control(options: Options) -> Result<ExitCode> {
    options.check(options.is_dry())?;
    let (_watch, is_ending) = ending()?;
    logs::start(LogFormat::Text)?;
    let is_dry = options.is_dry();
    let (mut state, mut claim) = (None, None::<Claim>);
    if !is_dry {
        let path = options.state()?;
        let own = State::take(&path)?;
        // Before anything else, which may fail; what is found next is only then what the server
        // really had.
        warn_of(&own.put_back()?);
        let mut locks = Locks::take(&options, &path)?;
        claim = Some(Box::new(move || Ok(locks.renew()?)));
        let mut guardian = Command::new(std::env::current_exe().context("this program")?);
        guardian.args(["rpo", "guard"]).arg(path);
        state = Some((own, guardian));
    }
    let switcher = options.switcher(is_dry)?;
    let fewer = match options.fewer(switcher.full())? {
        Ok(fewer) => fewer,
        Err(why) => return Ok(nothing_to_gain(&why)),
    };
    tracing::info!(by = switcher.name(), all = %switcher.full(), fewer = %fewer, "rpo controls");
    let mut parts = parts(&options, switcher, fewer, state)?;
    parts.claim = claim;
    let text = daemon::run(parts, &is_ending)?;
    tracing::info!("ended; the server has all its CPUs\n{text}");
    Ok(ExitCode::SUCCESS)
}

/// Keeps other controllers from the server, by each of its names.
struct Locks {
    options: Options,
    folder: PathBuf,
    state: PathBuf,
    held: Vec<(String, Lock)>,
}

impl Locks {
    fn take(options: &Options, state: &Path) -> Result<Locks> {
        let absolute = std::path::absolute(state).context("--state")?;
        let beside = || absolute.parent().map(Path::to_owned);
        let folder = daemon::shared_folder().or_else(beside);
        let mut locks = Locks {
            options: options.clone(),
            folder: folder.context("--state: the path of a file")?,
            state: absolute,
            held: Vec::new(),
        };
        locks.renew()?;
        Ok(locks)
    }

    /// Takes those of the names that the server has now, and puts back what a controller of it left
    /// that was killed and had another state file. Those of names that it had before are let go.
    fn renew(&mut self) -> Result<()> {
        let names = self.options.server()?;
        for what in &names {
            if self.held.iter().any(|(held, _)| held == what) {
                continue;
            }
            let (mut lock, left) = Lock::take(&self.folder, what, &self.state)?;
            if let Some(left) = left {
                match State::put_back_left(&left) {
                    // Whoever takes such a file puts back what is in it first.
                    Err(daemon::StateError::Held(_)) => tracing::warn!(
                        "a controller of this server was killed; what it left was in {}, which \
                         another has by now and has put back",
                        left.display()
                    ),
                    put_back => warn_of(&put_back.with_context(|| {
                        format!(
                            "a controller of this server was killed, and what it left is in {}",
                            left.display()
                        )
                    })?),
                }
                lock.own()?;
            }
            self.held.push((what.clone(), lock));
        }
        let all = std::mem::take(&mut self.held).into_iter();
        let (held, former): (Vec<_>, Vec<_>) = all.partition(|(what, _)| names.contains(what));
        self.held = held;
        former.into_iter().for_each(|(_, lock)| lock.release());
        Ok(())
    }
}

/// Says what was put back of a controller that was killed, if anything was.
fn warn_of(put_back: &PutBack) {
    let count = put_back.count;
    if count > 0 {
        tracing::warn!(count, "a controller was killed; what it left was put back");
    }
    for left_out in &put_back.left_out {
        tracing::warn!("{left_out}");
    }
}

/// Chooses by the topology as it is then.
pub(crate) fn one_per_core() -> daemon::Choose {
    Box::new(|possible| {
        let topology = Topology::read(Path::new(SYSFS)).ok()?;
        let is_some = topology.nothing_to_choose(possible).is_none();
        is_some.then(|| topology.one_per_core(possible))
    })
}

/// What a controller is made of.
fn parts(
    options: &Options,
    switcher: Box<dyn Switcher>,
    fewer: CpuSet,
    state: Option<(State, Command)>,
) -> Result<Parts> {
    let classifier = options.classifier()?;
    let hardware = Hardware::open(switcher.full());
    let hardware = hardware.inspect_err(|error| tracing::debug!("CPUs count nothing: {error}"));
    Ok(Parts {
        hardware: hardware.ok(),
        policy: options.policy(&classifier, state.is_none())?,
        switcher,
        fewer,
        choose: (!options.names_fewer()).then(one_per_core),
        classifier,
        rings: options.rings().to_vec(),
        counting: Vec::new(),
        only_watches: state.is_none(),
        told: Status::default(),
        datagrams: options.sockets()?,
        state,
        claim: None,
        admin: match options.admin {
            Some(at) => Some((listen("--admin", at)?, options.admin_hosts.clone())),
            None => None,
        },
    })
}

fn advise(options: &Options, time: Duration) -> Result<ExitCode> {
    let switcher = options.switcher(true)?;
    // A machine where nothing is to be gained needs nobody who tells of requests to be told so.
    let fewer = match options.fewer(switcher.full())? {
        Ok(fewer) => fewer,
        Err(why) => return Ok(nothing_to_gain(&why)),
    };
    options.check(true)?;
    let (_watch, is_ending) = ending()?;
    let by_time = Arc::clone(&is_ending);
    std::thread::spawn(move || {
        std::thread::sleep(time);
        by_time.store(true, Ordering::Relaxed);
    });
    let parts = parts(options, switcher, fewer, None)?;
    print(daemon::run(parts, &is_ending)?)?;
    Ok(ExitCode::SUCCESS)
}

fn show_probe(processes: usize, rounds: usize) -> Result<ExitCode> {
    let topology = Topology::read(Path::new(SYSFS))?;
    let all = topology.all_threads();
    print_line(format_args!(
        "{} CPUs online ({all}), {} cores, {} packages{}",
        all.len(),
        topology.cores.len(),
        topology.packages(),
        match topology.kinds()[..] {
            [] | [_] => String::new(),
            ref kinds => format!(", hybrid: {}", kinds.join(", ")),
        }
    ))?;
    let control = topology.smt_control.as_deref().unwrap_or("not there");
    print_line(format_args!("smt/control: {control}"))?;
    let why = topology.nothing_to_choose(&all);
    if let Some(why) = &why {
        print_line(why)?;
        print_line("each way is timed with the first CPU against all")?;
    }
    let fewer = |full: &CpuSet| match why {
        Some(_) => full.iter().take(1).collect(),
        None => topology.one_per_core(full),
    };
    print_line(format_args!(
        "median and p99 of {rounds} switches of {processes} busy processes:"
    ))?;
    // What is made for it is removed, also where it is interrupted.
    let (_watch, is_ending) = ending()?;
    let probed = probe(processes, rounds, &fewer, &is_ending);
    ensure!(!is_ending.load(Ordering::Relaxed), "it was interrupted");
    for Probed { way, cost } in probed {
        match cost {
            Ok(cost) => print_line(format_args!(
                "  {way:<18} to fewer {}, to all {}",
                cost.shrink, cost.grow
            ))?,
            Err(error) => print_line(format_args!("  {way:<18} cannot be used: {error}"))?,
        }
    }
    Ok(match why {
        Some(_) => ExitCode::from(NOTHING_TO_GAIN),
        None => ExitCode::SUCCESS,
    })
}

/// The lines of a log, as long as it can be read; of a longer one what a line may have.
fn lines(mut log: impl BufRead, read: &mut io::Result<()>) -> impl Iterator<Item = String> {
    let mut next = move || -> io::Result<Option<String>> {
        let mut line = Vec::new();
        log.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
        if !line.is_empty() && !line.ends_with(b"\n") {
            log.skip_until(b'\n')?;
        }
        let text = String::from_utf8_lossy(&line);
        Ok((!line.is_empty()).then(|| text.trim_end().to_owned()))
    };
    std::iter::from_fn(move || {
        next().unwrap_or_else(|error| {
            *read = Err(error);
            None
        })
    })
}

/// Prints classes as a file for `--config` has them.
fn classify(all_threads: &Path, one_per_core: &Path, by: By) -> Result<ExitCode> {
    let mut classifier = rhythm_rpo::classifier::Classifier::default();
    let mut counted = |path: &Path| -> Result<log::Counts> {
        let cannot = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        let mut read = Ok(());
        let lines = lines(BufReader::new(file), &mut read);
        let counts = log::count(lines, &mut classifier);
        read.with_context(cannot)?;
        ensure!(
            counts.total() > 0,
            "{}: no line of an access log",
            path.display()
        );
        if counts.unreadable > 0 {
            complain(format_args!(
                "rhythm: warning: {}: {} lines are none of an access log",
                path.display(),
                counts.unreadable
            ));
        }
        Ok(counts)
    };
    let (all, one) = (counted(all_threads)?, counted(one_per_core)?);
    let (rule, who): (derive::Rule, _) = match by {
        By::Frequency => (derive::by_frequency, "no class has"),
        By::Size => (derive::by_size, "neither short answers nor long ones have"),
    };
    let tables = derive::tables(&all, &one, rule);
    if tables.is_empty() {
        complain(format_args!(
            "rhythm: {who} another share in one log than in the other, so there is no class to \
             print"
        ));
    }
    print(tables)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_any_length_are_read_one_at_a_time() {
        let long = "x".repeat(3 * LINE_MAX as usize);
        let log = format!("a\n{long}\n\nb\r\nc");
        let mut read = Ok(());
        let lines: Vec<String> = lines(log.as_bytes(), &mut read).collect();
        assert!(read.is_ok());
        let lengths: Vec<usize> = lines.iter().map(String::len).collect();
        assert_eq!(lengths, [1, LINE_MAX as usize, 0, 1, 1]);
        assert_eq!(lines[3..], ["b", "c"]);
    }
}
