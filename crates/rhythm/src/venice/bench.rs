//! `rhythm venice bench`: what remote memory costs here, beside the least that it could.

use crate::load::write_json;
use crate::machine;
use crate::output::{complain, print_line};
use anyhow::{Context, Result};
use clap::builder::RangedU64ValueParser;
use rhythm_venice::bench::{self, Options, Part, Report};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure remote memory, channels and accelerators on this machine, beside the least they could
/// cost.
///
/// Another process is the donor. First the floors: a copy of a page, a bare question for one over
/// each transport, a bare stream of bytes, and page faults that the barest userfaultfd handler
/// answers, one at a time and without evicting anything. Beside them what `rhythm venice run` does
/// with a program of which a sixteenth is here, and memory by the library (RemoteMemory). Then the
/// three channels by size, with the adaptive choice beside the best of them (the paper's Figure
/// 17), and messages whose credits go as messages or by CRMA (Figure 18). At last jobs by
/// accelerators of the donor, shared and exclusive, beside the same jobs done here, and several
/// accelerators at once (Figure 16a, of which the paper's text says: almost linear). Both processes
/// share this machine's processors, so no more than these can work at once. And two programs whose
/// data is remote, by each channel, also with a relay on the way (Figures 5 and 6).
///
/// What is compared takes turns, and a figure is the median of the rounds; the ratio behind it is
/// the median of each round's. On a machine that does something else meanwhile, only the ratios
/// mean something. Faults need root.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Turns of each
    #[arg(long, value_name = "N", default_value_t = 15)]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    rounds: usize,

    /// Pages of the program whose faults are measured: 4 KiB each
    #[arg(long, value_name = "N", default_value_t = 4096)]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(512..=65536))]
    pages: usize,

    /// Measure this alone; may be given several times
    #[arg(long, value_name = "PART")]
    only: Vec<Named>,

    /// Write the figures to this file as JSON, with machine and command; "-" is standard output,
    /// which has no table then
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Be the other process, which standard input tells what to do
    #[arg(long, hide = true, conflicts_with = "touch")]
    peer: bool,

    /// Be the program whose faults are measured
    #[arg(long, hide = true, value_name = "PAGES")]
    touch: Option<usize>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Named {
    /// Page faults and scans, and their floors
    Faults,
    /// The channels by size
    Channels,
    /// Credits by messages and by CRMA
    Credits,
    /// Jobs by accelerators of a donor
    Accelerators,
    /// PageRank and transactions whose data is remote, by channel, and a relay on the way
    Programs,
}

/// What is written as JSON.
#[derive(Debug, Serialize)]
struct Written<'a> {
    machine: String,
    command: String,
    #[serde(flatten)]
    report: &'a Report,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    if args.peer {
        bench::serve()?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(pages) = args.touch {
        print_line(serde_json::to_string(&bench::touch(pages))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = Options {
        program: std::env::current_exe().context("this program is not found (/proc)")?,
        rounds: args.rounds,
        pages: args.pages,
        parts: args
            .only
            .iter()
            .map(|named| match named {
                Named::Faults => Part::Faults,
                Named::Channels => Part::Channels,
                Named::Credits => Part::Credits,
                Named::Accelerators => Part::Accelerators,
                Named::Programs => Part::Programs,
            })
            .collect(),
    };
    let (machine, command) = (machine::describe(), command());
    let has_table = args
        .json
        .as_deref()
        .is_none_or(|path| path.as_os_str() != "-");
    let mut printed = Ok(());
    if has_table {
        print_line(format_args!("{command}\n{machine}\n"))?;
    }
    let report = bench::run(&options, &mut |row| {
        if has_table && printed.is_ok() {
            printed = print_line(row);
        }
    })?;
    printed?;
    for missing in &report.not_measured {
        complain(format_args!("not measured: {missing}"));
    }
    let written = Written {
        machine,
        command,
        report: &report,
    };
    write_json(args.json.as_deref(), &written)?;
    Ok(match report.not_measured.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// As it was called, by the name of the program alone.
fn command() -> String {
    let arguments = std::env::args().skip(1);
    std::iter::once("rhythm".to_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}
