//! `rhythm reproduce rhythm`.

use super::against::{Against, print_changes};
use super::origin;
use crate::exits::wrong;
use crate::folder::Folder;
use crate::machine;
use crate::output::print_line;
use crate::progress;
use anyhow::{Context, Result, bail};
use rhythm_bench::emulate::mix14;
use rhythm_bench::load::Page;
use rhythm_bench::reproduce::{Effort, RhythmOptions, run_rhythm};
use rhythm_server::SiteSettings;
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

/// The evaluation of "Rhythm: Harnessing Data Parallel Hardware for Server Workloads", whose server
/// this is.
///
/// Instructions a request (Table 2), how alike requests are (Figure 2) and instructions between
/// system calls (section 2.3), counted by valgrind, where it is installed; throughput, latency at
/// rates of arrivals and efficiency of this machine's executors (Table 3), one core each; cohort
/// sizes and the parser (6.4). Reports of `rhythm bench device` add a GPU: Table 3, its latency
/// with the formation of cohorts, which is simulated, Figures 8, 9 and 10, what a bus carries
/// (6.1.1), how many cores match it (6.2), and queues (6.4); network and memory (6.3) are computed.
/// The paper's figures are beside ours, which are marked: measured, emulated, simulated, computed;
/// verdicts say where ours are the paper's, and which of its claims hold here. What is absent is
/// said, with what would measure it.
///
/// Writes report.md, report.json and the charts (SVG) into a folder. Takes some ten minutes, most
/// of them under valgrind; --quick half.
#[derive(Debug, clap::Parser)]
pub(super) struct Rhythm {
    /// The folder for charts and tables
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    out: PathBuf,

    /// Fewer requests, for a first look; instructions of the scalar executor alone
    #[arg(long)]
    quick: bool,

    /// The service; it must be Banking or one like it
    #[arg(long, value_name = "DIR", default_value = "services/banking")]
    service: PathBuf,

    /// Pages of which instructions and traces are counted; the paper's fourteen without it
    #[arg(long = "page", value_name = "PAGE", value_parser = crate::load::parse_page)]
    pages: Vec<Page>,

    /// A report that `rhythm bench device --layout all --json FILE` wrote, here or elsewhere; again
    /// for another card
    #[arg(long = "device-report", value_name = "FILE")]
    device_reports: Vec<PathBuf>,

    #[command(flatten)]
    against: Against,

    /// What a meter shows while the machine is idle
    #[arg(long, value_name = "WATTS", requires = "watts_load", value_parser = watts)]
    watts_idle: Option<f64>,

    /// What it shows while one core is loaded (`rhythm bench --device host`)
    #[arg(long, value_name = "WATTS", requires = "watts_idle", value_parser = watts)]
    watts_load: Option<f64>,

    /// What a loaded core counts for where nothing measures it: figures from it are marked computed
    #[arg(long, value_name = "WATTS", default_value = "10", value_parser = watts)]
    watts_core: f64,

    /// The valgrind to count with; without it what it counts is absent
    #[arg(long, value_name = "PROGRAM", default_value = "valgrind")]
    valgrind: PathBuf,
}

/// A number of watts that something can take.
fn watts(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(watts) if watts > 0.0 && watts <= 1e6 => Ok(watts),
        _ => Err("watts are a number between 0 and a million, such as 65 or 4.5".to_owned()),
    }
}

pub(super) fn run(args: Rhythm) -> Result<ExitCode> {
    let meter = args.watts_idle.zip(args.watts_load);
    if let Some((idle, load)) = meter
        && load <= idle
    {
        bail!(wrong(format_args!(
            "--watts-load {load} is not above --watts-idle {idle}: read the meter under load"
        )));
    }
    let unknown = |page: &&Page| mix14(**page) == 0.0;
    if let Some(page) = args.pages.iter().find(unknown) {
        bail!(wrong(format_args!(
            "--page {} is none of the fourteen pages of the paper",
            page.name()
        )));
    }
    let earlier = args.against.read()?;
    let program = env::current_exe().context("cannot find the rhythm program")?;
    let folder = Folder::read(&args.service)?;
    let service = folder.compile()?;
    let settings = SiteSettings::of(&service);
    let site = folder.into_site(service, settings)?;
    let options = RhythmOptions {
        machine: machine::describe(),
        commit: origin::commit(&program),
        command: origin::command(),
        program,
        service: args.service,
        valgrind: args.valgrind,
        pages: match args.pages.is_empty() {
            true => Page::ALL
                .into_iter()
                .filter(|page| mix14(*page) > 0.0)
                .collect(),
            false => args.pages,
        },
        device_reports: args.device_reports,
        watts: meter,
        watts_core: args.watts_core,
        effort: if args.quick {
            Effort::QUICK
        } else {
            Effort::FULL
        },
        out: args.out,
    };
    let report = run_rhythm(&site, &options, &mut progress::by_points())?;
    print_line(options.out.join("report.md").display())?;
    print_changes(&report.verdicts, earlier.as_ref())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_meter_has_two_figures_and_watts_are_watts() {
        let parse = |more: &[&str]| Rhythm::try_parse_from([&["rhythm"], more].concat());
        let both = parse(&["--watts-idle", "47", "--watts-load", "67"]).expect("both");
        assert_eq!(both.watts_idle.zip(both.watts_load), Some((47.0, 67.0)));
        assert!(parse(&["--watts-idle", "47"]).is_err());
        assert!(parse(&["--watts-core", "-1"]).is_err());
        assert!(parse(&["--watts-core", "NaN"]).is_err());
        assert_eq!(parse(&[]).expect("defaults").watts_core, 10.0);
    }
}
