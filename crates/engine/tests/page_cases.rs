//! Cases of the page language, each a text file in `page_cases/`: the files of a service, and what
//! is to come of them.
//!
//! A case is sections that begin with `=== NAME`. Files of the service come first (`pages/x.html`,
//! `service.toml` where the usual one does not do, which has `missing` where there is a
//! `pages/missing.html`), those of static/ as `static NAME`, those that are not used or cannot be
//! read as `other PATH` and `unread PATH`; then `errors`, what the compiler says of them; or
//! `program x`, the listing of a page. Pages that compile are run over made-up lanes by every
//! executor and compared with MiniJinja. `UPDATE_CASES=1` writes what comes of a case into its
//! file.

mod page_common;

use page_common::compare;
use rhythm_engine::compile::compile;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::conformance;
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::kind::{Asks, BackendKind, Command, KeepsSessions, SessionWord, Verb};
use rhythm_engine::settings::{Mistake, Outside};
use rhythm_engine::source::Sources;
use rhythm_protocol::scan::Level;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The usual service.toml, but for how a missing session is answered.
const SERVICE: &str = "\
[backend.besim]
kind = \"besim\"
";
/// That, where there is such a page.
const MISSING: &str = "\
[session]
missing = { page = \"missing.html\", with = { message = \"Sign in.\" } }
";

/// How one of them keeps sessions.
const KEEPS_SESSIONS: KeepsSessions = {
    use SessionWord::{Is, Key, Record, Seconds};
    KeepsSessions {
        look_up: &[Is("GET"), Key, Seconds],
        begin: &[Is("SET"), Key, Record],
        change: &[Is("SET"), Key, Record],
        end: &[Is("DEL"), Key],
        seconds_max: 20 * 24 * 60 * 60,
    }
};

/// BeSim, and kinds whose calls are in SQL, the words of a command, verbs, and over HTTP.
fn kinds() -> Vec<BackendKind> {
    let kind = |name, asks| BackendKind {
        name,
        keys: &[],
        asks,
        check: |_| None,
        check_backend: |_| None,
        keeps_sessions: None,
    };
    let command = Asks::Command(Command {
        key: "command",
        reads: &["GET", "OBJECT FREQ"],
        merges: &["GET"],
    });
    let verb = |key, beside, reads| Verb { key, beside, reads };
    let verbs = [
        verb("get", &[][..], true),
        verb("set", &[("value", None), ("ttl", Some("0"))], false),
    ];
    let verbs = Asks::Verbs(Box::leak(Box::new(verbs)));
    let others = [
        kind("sql", Asks::Sql),
        kind("words", command),
        kind("verbs", verbs),
        kind("http", Asks::Http),
        BackendKind {
            check_backend: |_| None,
            keeps_sessions: Some(KEEPS_SESSIONS),
            ..kind("keeps", command)
        },
    ];
    [conformance::BESIM, &others].concat()
}

/// A case's sections, in order.
fn sections(text: &str) -> Vec<(String, String)> {
    let mut sections: Vec<(String, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(name) = line.strip_prefix("=== ") {
            sections.push((name.trim_end().to_owned(), String::new()));
        } else if let Some((_, body)) = sections.last_mut() {
            body.push_str(line);
        }
    }
    sections
}

fn check(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut sources = Sources {
        outside: Outside {
            first_line: |path| match path.to_str() {
                Some("secret") => Ok("the secret of all that this serves".to_owned()),
                _ => Ok("short".to_owned()),
            },
            ..Outside::default()
        },
        ..Sources::default()
    };
    let mut results = Vec::new();
    for (name, body) in sections(&text) {
        if let Some(file) = name.strip_prefix("static ") {
            sources.static_files.insert(file.to_owned());
        } else if let Some(file) = name.strip_prefix("other ") {
            sources.others.insert(file.to_owned());
        } else if let Some(file) = name.strip_prefix("unread ") {
            let why = Mistake::new("cannot read it", "save it as UTF-8");
            sources.unread.insert(file.to_owned(), why);
        } else if name.contains('.') {
            sources.files.insert(name, body);
        } else {
            results.push((name, body));
        }
    }
    let has_missing = sources.files.contains_key("pages/missing.html");
    let usual = [if has_missing { MISSING } else { "" }, SERVICE].concat();
    sources
        .files
        .entry("service.toml".to_owned())
        .or_insert(usual);

    let mut found = Vec::new();
    match compile(&sources, &kinds()) {
        Err(diagnostics) => {
            let text: String = diagnostics
                .iter()
                .map(|diagnostic| format!("{diagnostic}\n"))
                .collect();
            found.push(("errors".to_owned(), text));
        }
        Ok(service) => {
            let service = Arc::new(service);
            if !service.warnings.is_empty() {
                let text = service
                    .warnings
                    .iter()
                    .map(|warning| format!("{warning}\n"))
                    .collect();
                found.push(("warnings".to_owned(), text));
            }
            for (name, _) in &results {
                let Some(name) = name.strip_prefix("program ") else {
                    continue;
                };
                let page = service.pages.iter().find(|page| page.name == name);
                let page = page.ok_or_else(|| format!("there is no page {name}"))?;
                found.push((format!("program {name}"), service.listing(page).to_string()));
            }
            for page in 0..service.pages.len() {
                for seed in 0..10 {
                    let mut scalar = ScalarExecutor::new(LaneLimits::default());
                    let compared = compare(&mut scalar, &sources, &service, page, 40, seed)?;
                    if compared.equal == 0 && seed == 0 {
                        return Err(format!("all lanes of {} fail", service.pages[page].name));
                    }
                    let mut host = HostExecutor::new(LaneLimits::default(), Level::detect());
                    compare(&mut host, &sources, &service, page, 40, seed)?;
                }
            }
        }
    }
    if found == results {
        return Ok(());
    }
    if std::env::var_os("UPDATE_CASES").is_some() {
        let mut updated: String = String::new();
        for (name, body) in sections(&text) {
            if name.contains('.') || name.starts_with("static ") {
                updated += &format!("=== {name}\n{body}");
            }
        }
        for (name, body) in found {
            updated += &format!("=== {name}\n{body}");
        }
        return fs::write(path, updated).map_err(|error| error.to_string());
    }
    let found: String = found
        .iter()
        .map(|(name, body)| format!("=== {name}\n{body}"))
        .collect();
    Err(format!(
        "what comes of it is not as written. It is\n{found}"
    ))
}

#[test]
fn every_case() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page_cases");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the cases are there")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let mut failed = 0;
    for path in paths {
        if let Err(reason) = check(&path) {
            eprintln!("--- {}: {reason}", path.display());
            failed += 1;
        }
    }
    assert_eq!(failed, 0, "cases fail");
}
