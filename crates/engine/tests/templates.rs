//! Page bytes: scalar = host = MiniJinja, over templates made at random and over the sample
//! service.
//!
//! The templates are made, not only their data: each seed gives another page, compiled, run for a
//! cohort of made-up lanes by both executors, and rendered lane by lane by MiniJinja itself.

#[path = "templates/generate.rs"]
mod generate;
mod page_common;

use page_common::compare;
use rhythm_engine::compile::compile;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::conformance::{self, LANES};
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::source::Sources;
use rhythm_protocol::scan::Level;
use std::path::Path;
use std::sync::Arc;

/// A service of one page made from a seed.
fn made_sources(seed: u64) -> Sources {
    let page = generate::HEADER.to_owned() + &generate::template(seed);
    let files = [
        ("service.toml", generate::SERVICE),
        ("pages/made.html", &page),
        ("templates/partial.html", generate::PARTIAL),
        ("templates/layout.html", generate::LAYOUT),
        ("templates/macros.html", generate::MACROS),
    ];
    Sources {
        files: files
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into(),
        ..Sources::default()
    }
}

#[test]
fn scalar_equals_host_equals_minijinja_over_made_templates() {
    let mut compiled = 0;
    let mut compared = 0;
    let seeds = 1500;
    let mut refusals = Vec::new();
    for seed in 0..seeds {
        let sources = made_sources(seed);
        let service = match compile(&sources, conformance::BESIM) {
            Ok(service) => Arc::new(service),
            Err(mistakes) => {
                refusals.push(mistakes[0].to_string());
                continue;
            }
        };
        compiled += 1;
        let lanes = compare(
            &mut ScalarExecutor::default(),
            &sources,
            &service,
            0,
            7,
            seed,
        );
        let lanes =
            lanes.unwrap_or_else(|why| panic!("{why}\n{}", sources.files["pages/made.html"]));
        assert_eq!(
            lanes.out_of_range, 0,
            "seed {seed}: the templates made here index nothing"
        );
        compared += lanes.equal;
        let mut host = HostExecutor::new(LaneLimits::default(), Level::detect());
        for lanes in [1, 2, 7, 300] {
            let lanes = if lanes == 300 && seed % 10 > 0 {
                33
            } else {
                lanes
            };
            conformance::check(&mut host, &service, 0, lanes, seed, LaneLimits::default()).unwrap();
        }
    }
    assert!(
        compiled * 10 > seeds * 8,
        "only {compiled} of {seeds} compiled; refused: {:#?}",
        &refusals[..20]
    );
    assert!(
        compared > 4 * compiled as usize,
        "only {compared} lanes of {compiled} pages were compared"
    );
}

/// The files of a sample service.
fn sample(name: &str) -> Sources {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../services")
        .join(name);
    let mut sources = Sources::default();
    let mut add = |path: &Path, name: String| {
        sources
            .files
            .insert(name, std::fs::read_to_string(path).unwrap());
    };
    add(&root.join("service.toml"), "service.toml".to_owned());
    for folder in ["pages", "templates"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap());
            add(&path, name);
        }
    }
    sources
}

#[test]
fn banking_passes_the_conformance_suite() {
    let service = Arc::new(
        compile(&sample("banking"), conformance::BESIM).unwrap_or_else(|m| panic!("{m:#?}")),
    );
    assert_eq!(service.pages.len(), 17, "sixteen pages and the login form");
    let mut host = HostExecutor::new(LaneLimits::default(), Level::detect());
    for page in 0..service.pages.len() {
        for lanes in LANES {
            conformance::check(&mut host, &service, page, lanes, 7, LaneLimits::default()).unwrap();
        }
    }
}
