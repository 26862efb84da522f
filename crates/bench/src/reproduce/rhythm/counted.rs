//! What valgrind counts: instructions a request (Table 2), how alike requests are (Figure 2), and
//! instructions between system calls (section 2.3).

use super::options::RhythmOptions;
use super::paper;
use super::similarity::Similarity;
use super::valgrind::Valgrind;
use crate::load::{self, Banking, LoadOptions};
use crate::reproduce::error::ReproduceError;
use crate::reproduce::free_port;
use crate::reproduce::section::{Section, cell, column, ours, value};
use rhythm_rpo::report::Kind::{Computed, Counted, Measured};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Lanes of the host executor's cohorts.
const COHORT: usize = 256;
/// Requests that are merged, of a page.
const TRACES: usize = 5;
/// How long a server under valgrind may take to serve.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether it does.
const LOOK: Duration = Duration::from_millis(100);
/// Users of the server whose system calls are counted.
const USERS: usize = 16;

const COLUMNS: [rhythm_rpo::report::Column; 3] = [
    column("instructions, scalar", Counted),
    column("instructions, host, cohorts of 256", Counted),
    column("times fewer", Computed),
];
const TABLE_2: (&str, &str) = ("Table 2", "instructions a request");
const FIGURE_2: (&str, &str) = ("Figure 2", "similarity of requests for one page");
const SECTION_2_3: (&str, &str) = ("Section 2.3", "instructions between system calls");

/// The three without figures, where there is no valgrind.
pub(super) fn absent(why: &str) -> Vec<Section> {
    let absent = |(number, title)| {
        let mut section = Section::new(number, title, &[]);
        section.note(format!(
            "Absent: {why}. Install valgrind (Debian: apt-get install valgrind), or name another \
             with --valgrind PROGRAM"
        ));
        section
    };
    [TABLE_2, FIGURE_2, SECTION_2_3].map(absent).into()
}

/// The pages of the paper's table that are counted.
fn papers_pages(options: &RhythmOptions) -> impl Iterator<Item = &'static paper::PaperPage> {
    let pages = paper::PAGES.iter();
    pages.filter(|paper| options.pages.contains(&paper.page))
}

/// Section 2.3 without figures, where the server does not serve under valgrind: the rest stands.
///
/// # Errors
/// Whatever else it is.
pub(super) fn not_counted(why: ReproduceError) -> Result<Section, ReproduceError> {
    let ReproduceError::Profiler(why) = why else {
        return Err(why);
    };
    let mut section = Section::new(SECTION_2_3.0, SECTION_2_3.1, &[]);
    section.note(format!(
        "Absent: the server does not serve under this valgrind ({why}); another one is named by \
         --valgrind PROGRAM"
    ));
    Ok(section)
}

/// Table 2: what requests execute beyond a run that executes none of them.
pub(super) fn table_2(
    valgrind: &Valgrind,
    options: &RhythmOptions,
    tell: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    let users = options.effort.instructions;
    let mut section = Section::new(TABLE_2.0, TABLE_2.1, &COLUMNS).by(
        "valgrind --tool=callgrind rhythm bench replay --page PAGE --requests 0, then without \
         --requests: what the two differ by; --device host --cohort-size 256 --users 256",
    );
    for paper in papers_pages(options) {
        let page = paper.page.name();
        tell(&format!("instructions of {page}"));
        let count = |device: &str, cohort: usize, users: usize| {
            let run = |requests: usize| {
                let numbers = [
                    ("--cohort-size", cohort),
                    ("--users", users),
                    ("--requests", requests),
                ];
                let numbers = numbers.map(|(flag, number)| [flag.to_owned(), number.to_string()]);
                let words = ["--page", page, "--device", device].map(str::to_owned);
                valgrind.replay(&[&words[..], &numbers.concat()].concat())
            };
            let counted = run(users)?.beyond(run(0)?).instructions;
            Ok::<_, ReproduceError>(counted as f64 / users as f64)
        };
        let scalar = count("scalar", 1, users)?;
        let counts_host = options.effort.counts_host;
        let host = counts_host
            .then(|| count("host", COHORT, COHORT))
            .transpose()?;
        let cells = vec![
            cell(paper.instructions, scalar),
            ours(host),
            ours(host.map(|host| scalar / host)),
        ];
        section.row(page, cells);
    }
    let mean = |column: usize| {
        let rows = &section.table.rows;
        paper::mean(|paper| {
            let row = rows.iter().find(|row| row.name == paper.page.name())?;
            value(&row.cells[column])
        })
    };
    let (scalar, host) = (mean(0), mean(1));
    let fewer = scalar.zip(host).map(|(scalar, host)| scalar / host);
    let cells = vec![
        cell(paper::INSTRUCTIONS_MEAN, scalar),
        ours(host),
        ours(fewer),
    ];
    section.row("average of the mix", cells);
    if !options.effort.counts_host {
        section.note("Absent: the host executor's, which --quick leaves out");
    }
    section.note(format!(
        "Of {users} requests of as many users (host: {COHORT}), one at a time for scalar; all that \
         the server does in user space, without its sockets. With AVX2, since valgrind has no \
         AVX-512. The paper's is a C server, of 100 random requests"
    ));
    section.charts = vec!["table-2.svg"];
    Ok(section)
}

/// Figure 2: traces of superblocks, merged.
pub(super) fn figure_2(
    valgrind: &Valgrind,
    options: &RhythmOptions,
    tell: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    tell("traces of requests");
    let pages: Vec<&str> = papers_pages(options)
        .map(|paper| paper.page.name())
        .collect();
    let mut traces: Vec<(String, Vec<Vec<u64>>)> = Vec::new();
    let mut similar = Vec::new();
    valgrind.traces(&pages, TRACES, |page, trace| {
        if traces.last().is_none_or(|(of, _)| of != page) {
            traces.clear();
            traces.push((page.to_owned(), Vec::new()));
        }
        if let Some((page, of_page)) = traces.last_mut() {
            of_page.push(trace);
            if of_page.len() == TRACES {
                similar.push((page.clone(), Similarity::of(of_page)));
            }
        }
    })?;
    let mut section = Section::new(
        FIGURE_2.0,
        FIGURE_2.1,
        &[
            column("speedup, % of ideal", Counted),
            column("superblocks a request", Counted),
            column("superblocks merged", Counted),
        ],
    );
    for (page, of) in similar {
        let cells = vec![
            ours(of.of_ideal() * 100.0),
            ours(of.blocks as f64 / of.traces as f64),
            ours(of.merged as f64),
        ];
        section.row(page, cells);
    }
    section.note(format!(
        "{TRACES} requests of as many users a page, one at a time on the scalar executor, merged \
         by diff (Myers); 100 %: they take the same way. The paper shows bars without figures: \
         \"nearly linear speedup\" of basic blocks of PHP, 61 requests"
    ));
    section.charts = vec!["figure-2.svg"];
    Ok(section.by(
        "valgrind --tool=lackey --basic-counts=no --trace-superblocks=yes rhythm bench replay \
         --mark --users 5 --requests 5",
    ))
}

/// Section 2.3: a server behind sockets, with and without load.
pub(super) fn system_calls(
    valgrind: &Valgrind,
    options: &RhythmOptions,
    tell: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    tell("system calls");
    let run = |load: bool| {
        let address = free_address()?;
        let mut requests = 0;
        let counts = valgrind.serve(&address, &mut |runs| {
            // Where it has ended, what it said is told.
            if serves(&address, runs)? && load {
                let options = LoadOptions {
                    url: format!("http://{address}"),
                    sessions: USERS,
                    duration: options.effort.under_valgrind,
                    timeout: PATIENCE,
                    ..LoadOptions::default()
                };
                let report = load::run(options, Banking::default(), &mut |_| {})?;
                requests = report.requests;
                let (wrong, failed) = (report.invalid, report.errors.len());
                if report.requests == 0 || wrong > 0 || failed > 0 {
                    return Err(ReproduceError::Profiler(format!(
                        "{requests} requests were answered, {wrong} wrongly, and there were \
                         {failed} kinds of errors"
                    )));
                }
            }
            Ok(())
        })?;
        Ok::<_, ReproduceError>((counts, requests))
    };
    let (idle, _) = run(false)?;
    let (loaded, requests) = run(true)?;
    let of = loaded.beyond(idle);
    let (instructions, calls) = (of.instructions as f64, of.system_calls.max(1) as f64);
    let requests = requests.max(1) as f64;
    let mut section = Section::new(
        SECTION_2_3.0,
        SECTION_2_3.1,
        &[
            column("instructions between system calls", Measured),
            column("system calls a request", Measured),
            column("instructions a request", Measured),
        ],
    );
    let cells = vec![
        cell(paper::INSTRUCTIONS_A_SYSTEM_CALL, instructions / calls),
        ours(calls / requests),
        ours(instructions / requests),
    ];
    section.row(format!("rhythm serve, scalar, {USERS} users"), cells);
    section.note(
        "What a loaded server executed beyond one that was started and ended; files and images \
         that users ask for are requests, too. The paper's is PHP turned into C++",
    );
    Ok(section.by(
        "valgrind --tool=callgrind --collect-systime=yes rhythm serve services/banking --workers 1 \
         --device scalar, with rhythm load --sessions 16",
    ))
}

fn free_address() -> Result<String, ReproduceError> {
    let port = free_port().map_err(ReproduceError::file(Path::new("a free port")))?;
    Ok(format!("127.0.0.1:{port}"))
}

/// Waits until it serves; whether it does, and has not ended.
fn serves(address: &str, runs: &mut dyn FnMut() -> bool) -> Result<bool, ReproduceError> {
    let until = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        if !runs() {
            return Ok(false);
        }
        if Instant::now() > until {
            return Err(ReproduceError::Profiler(format!(
                "the server does not serve on {address} within {} s",
                PATIENCE.as_secs()
            )));
        }
        thread::sleep(LOOK);
    }
    Ok(true)
}
