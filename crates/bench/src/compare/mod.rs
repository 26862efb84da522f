//! `rhythm bench compare`: servers that give the same pages, compared.
//!
//! What is compared is data: a case names servers, pages, connections, and what is no difference
//! between pages (cases/*.toml); how each server is started stands in cases/peers.toml.
//!
//! ```text
//!   case --> servers: started on the first processor, with a database beside where there is one
//!              |
//!              +--> every page fetched from each and compared with the first server's
//!              |
//!              +--> runs, alternating, the load on the last processor --> report
//!                     |                                                     |
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
pub use report::{Absent, CaseReport, CompareReport, Measured, Point, Run, ServerReport, Spread};
pub use table::markdown;

use crate::reproduce::{Folder, Processors, ReproduceProgress};
use case::{Entry, Peer};
use database::Database;
use measure::Measurer;
use names::Names;
use servers::{Running, Starter};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compares the servers of the cases, one case after the other; `progress` is called before each
/// run.
///
/// # Errors
/// A case cannot be measured: the first server does not start, or a server's page is another one.
/// Wrong answers while it is measured are in the report.
pub fn run(
    options: &CompareOptions,
    cases: &[Case],
    progress: &mut dyn FnMut(ReproduceProgress<'_>),
) -> Result<CompareReport, CompareError> {
    let processors = Processors::here();
    processors.of_load();
    let mut report = CompareReport::new(options, where_all_runs(&processors));
    for case in cases {
        let measured = compare(options, case, &processors, progress)?;
        report.cases.push(measured);
    }
    Ok(report)
}

/// Writes a report into a folder, which is made where it is missing: `compare.md`, `compare.json`,
/// and a chart for each case.
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
    for case in &report.cases {
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

fn compare(
    options: &CompareOptions,
    case: &Case,
    processors: &Processors,
    progress: &mut dyn FnMut(ReproduceProgress<'_>),
) -> Result<CaseReport, CompareError> {
    let mut names = Names::default();
    names.set("rhythm", options.program.display());
    names.set("root", options.root.display());
    names.set("peers", options.peers.display());
    let mut report = CaseReport::new(case);
    let wanted = wanted(options, case, &names, &mut report)?;
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
        Some(filled) => Some(Database::start(filled, &names, processors)?),
        None => None,
    };
    if let Some(database) = &database {
        names.set("database", database.url());
        report.database = database::version();
    }
    let starter = Starter {
        case,
        names: &names,
        processors,
        certificate: certificate.clone(),
    };
    let mut servers: Vec<Running> = Vec::new();
    for (entry, _) in &wanted {
        let first = servers.first();
        let running = starter.start(entry, first.map(|first| &first.pages[..]))?;
        if let Some(first) = first {
            servers::compare(first, &running)?;
        }
        servers.push(running);
    }
    let servers_of = wanted.iter().map(|(entry, peer)| ServerReport {
        name: entry.name.clone(),
        about: peer.about.clone(),
        version: version::of(peer, &names, &options.root),
    });
    report.servers = servers_of.collect();
    let measurer = Measurer {
        options,
        case,
        servers: &servers,
        database: database.as_ref().map(|database| database.process.0.id()),
        processors: processors.ends(),
        certificate,
    };
    for page in 0..case.page.len() {
        for connections in connections {
            let point = measurer.point(page, *connections, &mut tell)?;
            report.points.push(point);
        }
    }
    Ok(report)
}

/// The servers of a case that are wanted, and here; of the others that are wanted, the report says
/// why they are not.
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
    let made = Command::new(program)
        .args(["cert", "self-signed"])
        .arg(folder)
        .output();
    let made = made.map_err(|why| failed(why.to_string()))?;
    if !made.status.success() {
        return Err(failed(servers::tail(&String::from_utf8_lossy(
            &made.stderr,
        ))));
    }
    let certificate = folder.join("cert.pem");
    names.set("certificate", certificate.display());
    names.set("key", folder.join("key.pem").display());
    Ok(certificate)
}
