//! `rhythm bench compare`: servers that give the same pages, compared.
//!
//! What is compared is data: a case names servers, pages, connections, and what is no difference
//! between pages (cases/*.toml); how each server is started stands in cases/peers.toml.
//!
//! ```text
//!   case --> servers: started on the first processor, with a database beside where there is one;
//!              |      who serves behind them has a processor of its own where there are three
//!              |
//!              +--> every page fetched from each and compared with the first server's
//!              |
//!              +--> runs, alternating, the load on the last processor --> report, after each
//!                     |                                                     | point
//!                     every answer compared with what was fetched           +--> Markdown, JSON,
//!                                                                                a chart a case
//! ```
//!
//! The load is [`crate::load`]'s, which is always there, speaks TLS, compares every answer and says
//! what it takes itself: a general load generator does none of the last two. Where the load's
//! processor is full before the server's is, the report says so.

mod case;
mod chart;
mod database;
mod equal;
mod error;
mod fetch;
mod machine;
mod measure;
mod names;
mod options;
mod report;
mod servers;
mod table;
mod version;

pub use case::{Case, cases};
pub use error::CompareError;
pub use options::CompareOptions;
pub use report::{
    Absent, CaseReport, CompareReport, Measured, Point, Run, ServerReport, Spread, Upstream,
};
pub use table::markdown;

use crate::reproduce::{Folder, Processors, ReproduceProgress, output, tail};
use case::{Entry, Peer};
use measure::Measurer;
use names::Names;
use rhythm_net::resource::raise_open_files;
use servers::{Running, Starter};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The server of this number is behind the others.
const BEHIND: usize = 1;
/// A certificate is made by then.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compares the servers of the cases, one case after the other, and writes what is known into the
/// folder `out` after each point; `progress` is called before each run.
///
/// # Errors
/// Before anything is measured: a case cannot be, or the folder not be written. What goes wrong
/// with a case later is in its report, and the others are measured all the same.
pub fn run(
    options: &CompareOptions,
    cases: &[Case],
    out: &Path,
    progress: &mut dyn FnMut(ReproduceProgress<'_>),
) -> Result<CompareReport, CompareError> {
    // Servers that do not raise it themselves have what this process has, too: all that it may.
    let _ = raise_open_files();
    let processors = Processors::here();
    processors.of_load();
    let mut report = CompareReport::new(options, where_all_runs(&processors));
    let mut names = Names::default();
    names.set("rhythm", options.program.display());
    names.set("root", options.root.display());
    names.set("peers", options.peers.display());
    let mut known = BTreeSet::new();
    if let Some(twice) = cases.iter().find(|case| !known.insert(&case.name)) {
        return Err(CompareError::Twice(twice.name.clone()));
    }
    let mut all = Vec::new();
    for case in cases {
        let mut of_case = CaseReport::new(case);
        let wanted = wanted(options, case, &names, &mut of_case)?;
        let services = options.root.join("services");
        if case.needs_root() && !services.is_dir() {
            return Err(CompareError::Root(services));
        }
        all.push((case, wanted, of_case));
    }
    write(&report, out)?;
    for (case, wanted, of_case) in all {
        report.cases.push(of_case);
        let comparison = Comparison {
            options,
            case,
            wanted,
            names: names.clone(),
            processors: &processors,
        };
        let measured = comparison.run(progress, &mut |change| {
            if let Some(case) = report.cases.last_mut() {
                change(case);
            }
            // Where it cannot be written any more, whoever writes it at the end is told.
            let _ = write(&report, out);
        });
        if let (Err(error), Some(case)) = (measured, report.cases.last_mut()) {
            case.error = Some(chain(&error));
            let _ = write(&report, out);
        }
    }
    Ok(report)
}

/// An error with all that it comes from, in a line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Writes a report into a folder, which is made where it is missing: `compare.md`, `compare.json`,
/// and a chart for each case of which something was measured.
///
/// # Errors
/// The folder cannot be written.
pub fn write(report: &CompareReport, out: &Path) -> Result<(), CompareError> {
    std::fs::create_dir_all(out).map_err(CompareError::file(out))?;
    let json = serde_json::to_string_pretty(report)? + "\n";
    let mut files = vec![
        ("compare.md".to_owned(), markdown(report)),
        ("compare.json".to_owned(), json),
    ];
    for case in report.cases.iter().filter(|case| !case.points.is_empty()) {
        files.push((format!("{}.svg", case.name), chart::draw(case)?));
    }
    for (name, text) in files {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(CompareError::file(&path))?;
    }
    Ok(())
}

fn where_all_runs(processors: &Processors) -> String {
    match processors.ends() {
        Some([server, load]) if server != load => {
            format!("servers (and their database) on processor {server}, the load on {load}")
        }
        _ => "servers and load share one processor: rates are of both".to_owned(),
    }
}

/// What becomes known of a case.
type Change<'a> = dyn Fn(&mut CaseReport) + 'a;

/// A case that is measured.
struct Comparison<'a> {
    options: &'a CompareOptions,
    case: &'a Case,
    wanted: Vec<(&'a Entry, &'a Peer)>,
    names: Names,
    processors: &'a Processors,
}

impl Comparison<'_> {
    /// Measures it; `known` is called with each part of its report.
    fn run(
        self,
        progress: &mut dyn FnMut(ReproduceProgress<'_>),
        known: &mut dyn FnMut(&Change<'_>),
    ) -> Result<(), CompareError> {
        let Comparison {
            options,
            case,
            wanted,
            mut names,
            processors,
        } = self;
        let connections = match options.connections.is_empty() {
            true => &case.connections,
            false => &options.connections,
        };
        let runs = case.page.len() * connections.len() * options.rounds * wanted.len();
        let (mut done, of) = (0, runs + 1);
        let mut tell = |what: &str| {
            let what = &format!("{}: {what}", case.name);
            progress(ReproduceProgress { done, of, what });
            done += 1;
        };
        tell("servers start, and their pages are compared");
        let folder = Folder::new()?;
        let certificate = match case.tls {
            true => Some(certificate(&options.program, folder.path(), &mut names)?),
            false => None,
        };
        let database = match &case.database {
            Some(filled) => Some(database::start(filled, &names, processors)?),
            None => None,
        };
        if let Some((_, url)) = &database {
            names.set("database", url);
            let version = crate::reproduce::postgres::version();
            known(&|report| report.database.clone_from(&version));
        }
        let mut starter = Starter {
            case,
            names: names.clone(),
            processors,
            on: BEHIND,
            certificate: certificate.clone(),
        };
        let told = |entry: &Entry, peer: &Peer| ServerReport {
            name: entry.name.clone(),
            about: peer.about.clone(),
            version: version::of(peer, &names, &options.root),
        };
        // It ends when this does.
        let mut behind = None;
        if let Some((entry, peer)) = case.behind() {
            let running = starter.start(&entry, None)?;
            starter.names.set("upstream", running.address);
            let processor = processors.number_of(BEHIND);
            let upstream = Upstream {
                server: told(&entry, peer),
                processor,
                is_beside_servers: processor == processors.number_of(0),
            };
            known(&|report| report.upstream = Some(upstream.clone()));
            behind = Some((running, upstream));
        }
        starter.on = 0;
        let mut servers: Vec<Running> = Vec::new();
        for (entry, _) in &wanted {
            let first = servers.first();
            let running = starter.start(entry, first.map(|first| &first.pages[..]))?;
            if let Some(first) = first {
                servers::compare(first, &running)?;
            }
            servers.push(running);
        }
        let servers_of = wanted.iter().map(|(entry, peer)| told(entry, peer));
        let servers_of: Vec<ServerReport> = servers_of.collect();
        known(&|report| report.servers.clone_from(&servers_of));
        let mut measurer = Measurer {
            options,
            case,
            servers: &mut servers,
            database: database.as_ref().map(|(it, _)| it.process.0.id()),
            beside: behind
                .as_ref()
                .filter(|(_, upstream)| upstream.is_beside_servers)
                .map(|(running, _)| running.process.0.id()),
            processors: processors.ends(),
            certificate,
        };
        for page in 0..case.page.len() {
            for connections in connections {
                let point = measurer.point(page, *connections, &mut tell)?;
                known(&|report| report.points.push(point.clone()));
            }
        }
        Ok(())
    }
}

/// The servers of a case that are wanted, and here; of the others that are wanted, the report says
/// why they are not. Without the first, or who serves behind all, there is nothing to measure.
fn wanted<'a>(
    options: &CompareOptions,
    case: &'a Case,
    names: &Names,
    report: &mut CaseReport,
) -> Result<Vec<(&'a Entry, &'a Peer)>, CompareError> {
    let of_case = |why: String| CompareError::Case {
        case: case.name.clone(),
        why,
    };
    let entries = &case.server;
    let has = |name: &&String| entries.iter().any(|entry| entry.name == **name);
    if let Some(unknown) = options.only.iter().find(|name| !has(name)) {
        let known: Vec<&str> = entries.iter().map(|entry| &entry.name[..]).collect();
        let known = known.join("; ");
        return Err(of_case(format!(
            "there is no server {unknown}: there are {known}"
        )));
    }
    if let Some((entry, peer)) = case.behind()
        && let Some(why) = servers::absence(peer, names)
    {
        let name = entry.name;
        return Err(of_case(format!(
            "{name}, which serves behind the others, is not here: {why}"
        )));
    }
    let mut wanted = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        if number > 0 && !options.only.is_empty() && !options.only.contains(&entry.name) {
            continue;
        }
        let peer = case.peer_of(entry).map_err(of_case)?;
        let name = entry.name.clone();
        match servers::absence(peer, names) {
            None => wanted.push((entry, peer)),
            Some(why) if number == 0 => return Err(CompareError::NoFirst { server: name, why }),
            Some(why) => report.absent.push(Absent { name, why }),
        }
    }
    Ok(wanted)
}

/// A certificate for this machine alone, that nobody but this run believes.
fn certificate(program: &Path, folder: &Path, names: &mut Names) -> Result<PathBuf, CompareError> {
    let failed = CompareError::Certificate;
    let mut command = Command::new(program);
    command.args(["cert", "self-signed"]).arg(folder);
    let made = output(command.stdin(Stdio::null()), PATIENCE);
    let made = made.map_err(|why| failed(why.to_string()))?;
    if !made.status.success() {
        return Err(failed(tail(&String::from_utf8_lossy(&made.stderr))));
    }
    let certificate = folder.join("cert.pem");
    names.set("certificate", certificate.display());
    names.set("key", folder.join("key.pem").display());
    Ok(certificate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_to_serve_behind_the_others_and_is_not_here_is_told_with_what_helps() {
        let text = r#"
            about = "a test"
            connections = [1]
            upstream = "absent"
            [[page]]
            name = "page"
            target = "/"
            [[server]]
            peer = "proxy"
            name = "one"
            [peer.absent]
            about = "what nobody has"
            command = ["rhythm-test-of-what-nobody-has"]
            install = "make it"
        "#;
        let case = Case::parse("own", text).expect("it makes sense");
        let mut names = Names::default();
        names.set("rhythm", "/bin/sh");
        let mut report = CaseReport::new(&case);
        let error = wanted(&CompareOptions::default(), &case, &names, &mut report);
        let error = error.expect_err("nobody is behind").to_string();
        let due = "own: absent, which serves behind the others, is not here: there is no \
                   rhythm-test-of-what-nobody-has: make it";
        assert_eq!(error, due);
    }
}
