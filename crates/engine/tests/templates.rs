//! Page bytes: scalar = host = MiniJinja, over templates made at random and over the sample service.
//!
//! The templates are made, not only their data: each seed gives another page, compiled, run for a cohort of
//! made-up lanes by both executors, and rendered lane by lane by MiniJinja itself.

#[path = "templates/generate.rs"]
mod generate;

use rhythm_engine::cohort::{Cohort, LaneError, LaneState};
use rhythm_engine::device::conformance::{self, Dice, LANES};
use rhythm_engine::device::host::Host;
use rhythm_engine::device::scalar::Scalar;
use rhythm_engine::device::{Executor, LaneLimits, Work};
use rhythm_engine::page::reference;
use rhythm_engine::page::{Service, Sources, compile};
use rhythm_protocol::scan::Level;
use std::collections::BTreeSet;
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
        static_files: BTreeSet::new(),
    }
}

/// Runs a page on the reference executor from its first stage to its last.
fn run_page(service: &Arc<Service>, page: usize, lanes: usize, seed: u64) -> Box<Cohort> {
    let program = &service.pages[page];
    let mut executor = Scalar::default();
    let mut cohort = conformance::make_cohort(program, lanes, &mut Dice::new(seed));
    for stage in 0..program.stages.len() {
        let work = Work {
            service: Arc::clone(service),
            page,
            cohort,
            token: 0,
        };
        executor.submit(work).unwrap();
        let mut done = Vec::new();
        executor.poll(&mut done);
        cohort = done.remove(0).cohort;
        if stage < program.calls.len() {
            conformance::answer(
                program,
                stage,
                &mut cohort,
                &mut Dice::new(seed ^ stage as u64),
            );
        }
    }
    cohort
}

/// Compares what the scalar executor made of a page with what MiniJinja makes of it, and gives how many lanes were
/// compared.
fn compare_with_minijinja(
    sources: &Sources,
    service: &Arc<Service>,
    page: usize,
    lanes: usize,
    seed: u64,
) -> usize {
    let program = &service.pages[page];
    let cohort = run_page(service, page, lanes, seed);
    let mut compared = 0;
    for lane in 0..cohort.len() {
        let context = reference::lane_context(program, &cohort, lane);
        let expected = reference::render(sources, &format!("{}.html", program.name), &context);
        match (cohort.lanes[lane], expected) {
            (LaneState::Finished, Ok(expected)) => {
                let mut body = Vec::new();
                cohort.output.stitch(lane, &service.fragments, &mut body);
                // Lanes that make_cohort had finished before the first stage have no body.
                if body.is_empty() && !expected.is_empty() {
                    continue;
                }
                assert_eq!(
                    String::from_utf8_lossy(&body),
                    expected,
                    "seed {seed}, lane {lane} of {}:\n{}",
                    program.name,
                    sources.files["pages/made.html"],
                );
                compared += 1;
            }
            (LaneState::Finished, Err(error)) => {
                let mut body = Vec::new();
                cohort.output.stitch(lane, &service.fragments, &mut body);
                assert!(
                    body.is_empty(),
                    "seed {seed}, lane {lane}: MiniJinja fails with {error:#}, we answered\n{}\n{}",
                    String::from_utf8_lossy(&body),
                    sources.files["pages/made.html"],
                );
            }
            // MiniJinja's integers have 128 bits, ours 64 (docs/pages.md), and it has no limits.
            (
                LaneState::Failed(
                    LaneError::Overflow | LaneError::TooLarge | LaneError::TooManyTurns,
                ),
                _,
            ) => {}
            // The backend's fault, before the template began.
            (LaneState::Failed(LaneError::BadAnswer), _) => {}
            (LaneState::Failed(_), Err(_)) => compared += 1,
            (LaneState::Failed(error), Ok(expected)) => panic!(
                "seed {seed}, lane {lane}: failed with {error}, MiniJinja renders\n{expected}\n{}",
                sources.files["pages/made.html"]
            ),
            (LaneState::Active, _) => panic!("seed {seed}: lane {lane} is left over"),
        }
    }
    compared
}

#[test]
fn scalar_equals_host_equals_minijinja_over_made_templates() {
    let mut compiled = 0;
    let mut compared = 0;
    let seeds = 1500;
    let mut refusals = Vec::new();
    for seed in 0..seeds {
        let sources = made_sources(seed);
        let service = match compile(&sources) {
            Ok(service) => Arc::new(service),
            Err(mistakes) => {
                refusals.push(mistakes[0].to_string());
                continue;
            }
        };
        compiled += 1;
        compared += compare_with_minijinja(&sources, &service, 0, 7, seed);
        let mut host = Host::new(LaneLimits::default(), Level::detect());
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
    let service = Arc::new(compile(&sample("banking")).unwrap_or_else(|m| panic!("{m:#?}")));
    assert_eq!(service.pages.len(), 17, "sixteen pages and the login form");
    let mut host = Host::new(LaneLimits::default(), Level::detect());
    for page in 0..service.pages.len() {
        for lanes in LANES {
            conformance::check(&mut host, &service, page, lanes, 7, LaneLimits::default()).unwrap();
        }
    }
}
