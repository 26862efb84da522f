//! `rhythm serve --rpo`: the controller for the server of this process, on a thread of its own.
//!
//! ```text
//! workers ──count──▶ figures of pages ──read, each 10 ms──▶ controller ──▶ workers' threads moved
//! ```
//!
//! What workers count for /metrics is read: that costs requests nothing. A worker whose core is
//! taken away goes on serving its connections on those that are left. What is switched ends with
//! the process, so nothing has to be put back by others.

use super::options::learning;
use anyhow::{Context, Result, ensure};
use rhythm_rpo::classifier::Classifier;
use rhythm_rpo::collector::{Counting, Totals};
use rhythm_rpo::cpus::CpuSet;
use rhythm_rpo::daemon::{self, Parts, Status};
use rhythm_rpo::policy::{Fixed, Learned, Policy, Watching};
use rhythm_rpo::setting::Setting;
use rhythm_rpo::switcher::{Dry, Restore, SwitchError, Switcher};
use rhythm_rpo::topology::{SYSFS, Topology};
use rhythm_server::Control;
use rhythm_server::observe::metrics::{Metrics, PageTotals};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How it chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum How {
    /// Learns what each setting does to which pages
    Learned,
    /// The same, but moves nothing: says what it would do
    Advise,
    /// One a core, always
    OnePerCore,
}

/// What `rhythm serve` is told of it.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Choosing between hardware threads")]
pub(crate) struct OwnArgs {
    /// Choose between all hardware threads and one a core for the workers, by the pages that are
    /// asked for (docs/rpo.md)
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "learned")]
    rpo: Option<How>,

    /// The CPUs in place of one thread a core, by hand [default: from the machine's topology]
    #[arg(long, value_name = "LIST", requires = "rpo")]
    rpo_fewer_cpus: Option<String>,

    /// The latency objective: nothing is tried while answers take longer than this in the mean, in
    /// milliseconds [default: none]
    #[arg(long, value_name = "MS", requires = "rpo")]
    rpo_objective: Option<NonZeroU32>,

    /// Tell what the controller does at this address, for `rhythm rpo status`
    #[arg(long, value_name = "ADDR:PORT", requires = "rpo")]
    rpo_admin: Option<SocketAddr>,
}

/// A controller that runs.
pub(crate) struct Own {
    is_ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Own {
    /// Ends it: the workers have all their CPUs.
    pub(crate) fn end(self) {
        self.is_ending.store(true, Ordering::Relaxed);
        // What it failed at it has said.
        let _ = self.thread.join();
    }
}

/// Starts it for a server, if it is asked for and there is anything to gain.
///
/// # Errors
/// When what is said by hand is not what the workers can have.
pub(crate) fn start(
    args: &OwnArgs,
    control: Control,
    metrics: Arc<Metrics>,
) -> Result<Option<Own>> {
    let Some(how) = args.rpo else {
        return Ok(None);
    };
    let full: CpuSet = (control.cores().context("the workers' CPUs")?.into_iter()).collect();
    let fewer = match &args.rpo_fewer_cpus {
        Some(list) => {
            let fewer: CpuSet = list.parse().context("--rpo-fewer-cpus")?;
            ensure!(
                !fewer.is_empty() && fewer.is_subset(&full) && fewer != full,
                "--rpo-fewer-cpus {fewer}: the workers have the CPUs {full}; name some of them, \
                 not all"
            );
            fewer
        }
        None => {
            let topology = Topology::read(Path::new(SYSFS))?;
            if let Some(why) = topology.nothing_to_choose(&full) {
                tracing::warn!(
                    "--rpo: {why}; serving without it, and nothing listens at --rpo-admin \
                     (--rpo-fewer-cpus names CPUs by hand, to try it all the same)"
                );
                return Ok(None);
            }
            topology.one_per_core(&full)
        }
    };
    if how != How::OnePerCore {
        daemon::sees_load().context(
            "--rpo: /proc/stat, which tells how busy CPUs are, cannot be read. Where that is \
             because systemd shows the server processes alone, `systemctl edit rhythm` has it show \
             the rest: [Service], ProcSubset=all",
        )?;
    }
    let admin = match args.rpo_admin {
        Some(at) => Some((super::listen("--rpo-admin", at)?, Vec::new())),
        None => None,
    };
    tracing::info!(all = %full, fewer = %fewer, "rpo controls the workers");
    let policy: Box<dyn Policy + Send> = match how {
        How::Learned => Box::new(Learned::new(learning(args.rpo_objective))),
        How::Advise => Box::new(Watching::new(None)),
        How::OnePerCore => Box::new(Fixed::new(Setting::OnePerCore)),
    };
    let only_watches = how == How::Advise;
    let switcher: Box<dyn Switcher> = match only_watches {
        true => Box::new(Dry::new(full)),
        false => Box::new(Workers {
            control,
            given: full.clone(),
            full,
        }),
    };
    let told = Status::default();
    metrics.show_beside(Box::new(told.clone()));
    let parts = Parts {
        switcher,
        fewer,
        choose: (args.rpo_fewer_cpus.is_none()).then(super::one_per_core),
        classifier: Classifier::default(),
        policy,
        rings: Vec::new(),
        datagrams: Vec::new(),
        counting: vec![Box::new(Pages { metrics })],
        // The server is no one to watch everybody who runs on its CPUs.
        hardware: None,
        only_watches,
        told: told.clone(),
        state: None,
        claim: None,
        admin,
    };
    let is_ending = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_ending);
    let work = move || match daemon::run(parts, &told) {
        Ok(text) => tracing::info!("rpo ended\n{text}"),
        Err(error) => tracing::error!(
            "--rpo: {:#}; the workers keep the CPUs that they have",
            anyhow::Error::from(error)
        ),
    };
    let thread = thread::Builder::new().name("rpo".into()).spawn(work);
    Ok(Some(Own {
        is_ending,
        thread: thread.context("cannot start a thread")?,
    }))
}

/// The workers' threads.
struct Workers {
    control: Control,
    full: CpuSet,
    given: CpuSet,
}

impl Workers {
    fn system(source: std::io::Error) -> SwitchError {
        SwitchError::Unfit(format!("the workers cannot be moved: {source}"))
    }
}

impl Switcher for Workers {
    fn name(&self) -> String {
        format!(
            "the threads of {} workers of this server",
            self.control.workers()
        )
    }

    fn full(&self) -> &CpuSet {
        &self.full
    }

    fn set(&mut self, cpus: &CpuSet) -> Result<(), SwitchError> {
        // A worker whose own core is offline gets the others: it cannot be kept there.
        self.given = self.possible(cpus);
        let cores: Vec<usize> = self.given.iter().collect();
        self.control.run_on(&cores).map_err(Workers::system)
    }

    fn current(&mut self) -> Result<CpuSet, SwitchError> {
        if self.control.is_draining() {
            // One after the other ends.
            return Ok(self.given.clone());
        }
        let cores = self.control.cores().map_err(Workers::system)?;
        Ok(cores.into_iter().collect())
    }

    fn restores(&self) -> Vec<Restore> {
        Vec::new()
    }
}

/// What is counted of the server's pages.
struct Pages {
    metrics: Arc<Metrics>,
}

impl Counting for Pages {
    fn look(&mut self, each: &mut dyn FnMut(&str, Totals)) {
        let mut path = String::new();
        self.metrics.each_page(|site, name, totals| {
            // A page is a class: the first part of a path is what classes are made of.
            path.clear();
            path.push('/');
            if let Some(site) = site {
                path.push_str(site);
                path.push(':');
            }
            path.push_str(name);
            let PageTotals {
                requests,
                answers,
                failed,
                took_ns,
            } = totals;
            let totals = Totals {
                arrived: requests,
                completed: answers,
                failed,
                took: Duration::from_nanos(took_ns),
            };
            each(&path, totals);
        });
    }
}
