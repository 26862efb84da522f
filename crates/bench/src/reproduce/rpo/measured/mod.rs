//! `rhythm reproduce rpo --measured`: the paper's experiments with a real server, TPC-W in PHP on
//! Apache with PostgreSQL (crates/bench/peers/php-bookstore), and `rhythm rpo` beside it.
//!
//! ```text
//!   load --pages--> shop: Apache with mod_rpo, or without; PostgreSQL
//!                    |  ^
//!               ring |  | CPUs
//!                    v  |
//!              controller (rhythm rpo)       watch: the batches of what came, from the same ring
//! ```
//!
//! `plan` says what is measured, and what takes turns; `tables` are the paper's.

mod controller;
mod cpus;
mod plan;
mod rounds;
mod shop;
mod tables;
mod watch;

pub use plan::MeasuredEffort;

use super::super::error::ReproduceError;
use super::super::files::write;
use super::super::progress::ReproduceProgress;
use super::super::section::Section;
use super::super::table::wrapped;
use crate::load::{self, Bookstore, LoadOptions};
use controller::Controller;
use cpus::Cpus;
use plan::{Case, Way};
use rounds::{Measured, Slice};
use serde::Serialize;
use shop::{Parts, Shop};
use std::fmt::Write as _;
use std::path::PathBuf;
use watch::Watch;

/// Processes of an Apache beside those that serve the users.
const SPARE: usize = 8;

/// How the paper's experiments are made.
#[derive(Clone, Debug)]
pub struct MeasuredOptions {
    /// This program, whose `rpo` is the controller.
    pub program: PathBuf,
    /// The repository, which has the shop.
    pub root: PathBuf,
    /// How much is measured.
    pub effort: MeasuredEffort,
    /// Where tables go; made if it is not there.
    pub out: PathBuf,
    /// The machine, which the report tells.
    pub machine: String,
    /// The commit of the program and its version, which the report tells.
    pub commit: String,
    /// The command line, which the report tells.
    pub command: String,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredReport {
    machine: String,
    commit: String,
    command: String,
    cpus: String,
    /// Why the settings are not the paper's, if they are not.
    no_smt: Option<String>,
    rounds: usize,
    seconds: f64,
    users: usize,
    /// The paper's tables.
    pub sections: Vec<Section>,
    measured: Vec<Measured>,
    /// Pages that were wrong or did not come, and what must never be in the database.
    pub failed: Vec<String>,
}

/// Measures all, and writes tables (rpo-measured.md) and data (rpo-measured.json) into the folder;
/// `progress` is called at each slice.
///
/// # Errors
/// Something is not installed, a server does not start, or the folder cannot be written.
pub fn run_measured(
    options: &MeasuredOptions,
    progress: &mut dyn FnMut(ReproduceProgress<'_>),
) -> Result<MeasuredReport, ReproduceError> {
    // Before it takes its time.
    std::fs::create_dir_all(&options.out).map_err(ReproduceError::file(&options.out))?;
    let cpus = Cpus::here()?;
    let users = plan::users(cpus.all.len());
    cpus.on(&cpus.all);
    let shop = Shop::start(&Parts {
        program: &options.program,
        root: &options.root,
        processes: users + SPARE,
    })?;
    let mut lab = Lab {
        options,
        cpus: &cpus,
        shop: &shop,
        failed: Vec::new(),
    };
    let groups = plan::groups();
    let (mut done, of) = (0, groups.iter().flatten().count() * options.effort.rounds);
    let mut measured = Vec::new();
    for group in groups {
        let mut all: Vec<Measured> = (group.into_iter())
            .map(|case| Measured {
                case,
                slices: Vec::new(),
            })
            .collect();
        for _ in 0..options.effort.rounds {
            for one in &mut all {
                let what = format!("{}, {}", plan::workload(one.case.mix), one.case.way);
                progress(ReproduceProgress {
                    done,
                    of,
                    what: &what,
                });
                one.slices.push(lab.slice(&one.case)?);
                done += 1;
            }
        }
        measured.append(&mut all);
    }
    let mut failed = lab.failed;
    failed.extend(shop.wrong()?);
    let report = MeasuredReport {
        machine: options.machine.clone(),
        commit: options.commit.clone(),
        command: options.command.clone(),
        cpus: cpus.tell(),
        no_smt: cpus.no_smt.clone(),
        rounds: options.effort.rounds,
        seconds: options.effort.duration.as_secs_f64(),
        users,
        sections: tables::all(&measured, cpus.no_smt.is_none()),
        measured,
        failed,
    };
    let data = serde_json::to_string_pretty(&report)? + "\n";
    let files = vec![
        ("rpo-measured.md", report.markdown()),
        ("rpo-measured.json", data),
    ];
    write(files, &options.out)?;
    Ok(report)
}

/// What measures.
struct Lab<'a> {
    options: &'a MeasuredOptions,
    cpus: &'a Cpus,
    shop: &'a Shop,
    failed: Vec<String>,
}

impl Lab<'_> {
    /// Loads the shop in one way for a while.
    fn slice(&mut self, case: &Case) -> Result<Slice, ReproduceError> {
        let controller = match case.way {
            Way::Untold | Way::Told => None,
            way => {
                let is_beside = way == Way::Beside;
                let cpus = if is_beside {
                    &self.cpus.fewer
                } else {
                    &self.cpus.load
                };
                self.cpus.on(cpus);
                let program = &self.options.program;
                Some(Controller::start(program, self.shop, self.cpus, way)?)
            }
        };
        self.cpus.on(&self.cpus.load);
        let watch = match case.way {
            Way::Rpo(_) => Some(Watch::start(&self.shop.ring())?),
            _ => None,
        };
        let options = LoadOptions {
            url: self.shop.url(case.way != Way::Untold),
            sessions: case.users(self.cpus.all.len()),
            duration: self.options.effort.duration,
            warmup: self.options.effort.warmup,
            think: plan::THINK,
            ..LoadOptions::default()
        };
        let users = Bookstore {
            mix: case.mix,
            ..Bookstore::default()
        };
        let loaded = load::run(options, users, &mut |_| ())?;
        let did = controller.as_ref().map(Controller::did).transpose()?;
        let seen = watch.map(Watch::end).transpose()?;
        if !loaded.passed() {
            let errors: Vec<&String> = loaded.errors.keys().collect();
            let reasons = loaded.failures.iter().map(|failure| &failure.reason);
            let all: Vec<&str> = errors
                .into_iter()
                .chain(reasons)
                .map(|why| &why[..])
                .collect();
            let (mix, way) = (plan::workload(case.mix), case.way);
            self.failed
                .push(format!("{mix}, {way}: {}", all.join("; ")));
        }
        Ok(Slice {
            pages: loaded.pages,
            pages_per_s: loaded.pages_per_s,
            mean_ms: loaded.latency.mean / 1e3,
            p99_ms: loaded.latency.p99 / 1e3,
            did,
            seen,
        })
    }
}

impl MeasuredReport {
    /// As Markdown.
    fn markdown(&self) -> String {
        let mut text = String::from("# RPO: the paper's tables, measured\n\n");
        // Writing to a text cannot fail.
        let _ = writeln!(text, "- Machine: {}", self.machine);
        let _ = writeln!(text, "- CPUs: {}", self.cpus);
        let _ = writeln!(text, "- Commit: {}", self.commit);
        let _ = writeln!(text, "- Command: `{}`", self.command);
        let _ = writeln!(
            text,
            "- TPC-W in PHP on Apache (prefork), with PostgreSQL; {} users, of whom each thinks \
             {} s between pages; settings take turns, {} times {} s each",
            self.users,
            plan::THINK.as_secs_f64(),
            self.rounds,
            self.seconds
        );
        let right = match self.failed.is_empty() {
            true => "none was wrong, and neither is the database",
            false => "NOT ALL IS RIGHT: see the end",
        };
        let _ = writeln!(text, "- Every page was checked; {right}\n");
        text.push_str(
            "Figures are means over the rounds, with 95 % confidence intervals where there are \
             several. The paper's machine had four cores of two threads at 1.6 GHz, MySQL, and \
             sessions that arrive; ours has users who stay. R is the mean time of a page, X how \
             many there are a second.\n",
        );
        if let Some(why) = &self.no_smt {
            let _ = writeln!(
                text,
                "\n**The settings are not the paper's**: {why}. All CPUs stand against half of \
                 them in their place, which exercises the switching and says nothing of hardware \
                 threads; so the paper's response times do not stand beside ours in the first \
                 table. What is told of batches and of costs does not depend on it."
            );
        }
        for section in &self.sections {
            section.write(&mut text);
        }
        if !self.failed.is_empty() {
            text.push_str("\n## Not right\n\n");
        }
        for failed in &self.failed {
            let _ = writeln!(text, "- {failed}");
        }
        text.lines().map(wrapped).collect()
    }
}
