//! `rhythm doctor`: what this machine gives a server, what it does not, and what that costs.
//!
//! Each probe reads what the system says of itself, changes nothing, and needs no rights: `probes`
//! has them. A finding is good, a remark (something works, but slower or less of it), or a problem
//! (a server would not start, or would soon be full), which says the cure.

mod probes;
mod system;

use crate::folder::so_many;
use crate::output;
use anyhow::Result;
use probes::{Finding, State};
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;
use system::System;

/// Say what this machine gives a server, and what is missing.
///
/// Kernel, CPUs and their instructions, SMT, memory, control groups, open files, backlog, ports,
/// huge pages, memory nodes, clock, counters, page faults, GPU: what was found, what that means,
/// and what helps. Nothing is changed. Exits with 1 where a server would not do.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What was found, in the order in which it is told.
#[derive(Serialize)]
struct Findings {
    version: &'static str,
    findings: Vec<Finding>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let findings = Findings {
        version: env!("CARGO_PKG_VERSION"),
        findings: probes::all(&System::this()),
    };
    match args.json {
        true => output::print_line(serde_json::to_string_pretty(&findings)?)?,
        false => output::print(&findings)?,
    }
    let is_problem = |finding: &Finding| finding.state == State::Problem;
    Ok(match findings.findings.iter().any(is_problem) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let state = match finding.state {
                State::Good => "",
                State::Remark => "remark",
                State::Problem => "PROBLEM",
            };
            writeln!(f, "{:18} {state:8} {}", finding.what, finding.found)?;
            for line in finding.means.iter().flat_map(|means| means.lines()) {
                writeln!(f, "{:27} {line}", "")?;
            }
        }
        let count = |state: State| {
            let findings = self.findings.iter();
            findings.filter(|finding| finding.state == state).count()
        };
        let (problems, remarks) = (count(State::Problem), count(State::Remark));
        let problems = so_many(problems, "problem");
        writeln!(f, "\n{problems}, {}", so_many(remarks, "remark"))
    }
}
