//! The conformance suite on the kernels, run by the emulation: every byte equals the reference's,
//! in every layout and whatever the order in which threads run.

mod common;

use common::{ORDERS, banking, emulated, executor};
use rhythm_besim::Bank;
use rhythm_engine::cohort::Cohort;
use rhythm_engine::compile::compile;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::conformance::{BESIM, check, check_with_backend, make_service};
use rhythm_engine::program::{PageProgram, Type};
use rhythm_engine::source::Sources;
use rhythm_engine_cuda::besim::answer_queries;
use rhythm_engine_cuda::executor::{CudaExecutor, Options};
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder};
use rhythm_engine_cuda::layout::Layout;
use std::sync::Arc;

const LIMITS: LaneLimits = LaneLimits {
    body_bytes_max: 8 << 20,
    text_bytes_max: 1 << 20,
    turns_max: 1 << 17,
};

/// One and two lanes, less than a warp, a warp and a lane, eight warps.
const LANES: &[usize] = if SANITIZED {
    &[1, 7, 33]
} else {
    &[1, 2, 7, 33, 256]
};

/// Under the sanitizers everything takes many times as long, and what they look for shows in few
/// lanes.
const SANITIZED: bool = cfg!(emulation_sanitized);

/// The orders that all of a layout's cohorts run in; pages of other cohorts take turns.
fn orders(layout: Layout) -> &'static [LaneOrder] {
    if SANITIZED {
        one_order(layout as usize)
    } else {
        &ORDERS
    }
}

fn one_order(turn: usize) -> &'static [LaneOrder] {
    &ORDERS[turn % ORDERS.len()..][..1]
}

/// It was the device that did it, and not the host in its place.
fn assert_on_device(executor: &CudaExecutor, on_host: u64) {
    assert_eq!(executor.lost(), None);
    let statistics = executor.statistics();
    assert!(
        statistics.lanes > 0 && statistics.on_host <= on_host,
        "{statistics:?}"
    );
}

fn every_page(layout: Layout) {
    let service = banking();
    for &order in orders(layout) {
        let mut executor = emulated(order, layout, LIMITS);
        for page in 0..service.pages.len() {
            for &lanes in LANES {
                let seed = 11 + lanes as u64;
                check(&mut executor, &service, page, lanes, seed, LIMITS)
                    .unwrap_or_else(|difference| panic!("{layout}, {order:?}: {difference}"));
            }
        }
        assert_on_device(&executor, 0);
    }
}

#[test]
fn every_page_transposed() {
    every_page(Layout::A);
}

#[test]
fn every_page_in_columns() {
    every_page(Layout::C);
}

#[test]
fn every_page_in_rows() {
    every_page(Layout::Row);
}

#[test]
fn every_page_as_runs() {
    every_page(Layout::Runs);
}

#[test]
fn every_page_with_the_backend_on_the_device() {
    let service = banking();
    let bank = Bank::new(100_000);
    let backend =
        |program: &PageProgram, cohort: &mut Cohort| answer_queries(&bank, program, cohort);
    for layout in [Layout::B, Layout::C, Layout::Row, Layout::Runs] {
        // Layout B is only here; the others have run in all orders with the backend on the host.
        let in_all = layout == Layout::B && !SANITIZED;
        for (turn, &order) in ORDERS.iter().enumerate() {
            let options = Options {
                layout,
                besim_users: Some(100_000),
                ..Options::default()
            };
            let mut executor = executor(Emulated::new(order), options);
            for page in 0..service.pages.len() {
                for &lanes in LANES {
                    if page % ORDERS.len() != turn && !in_all {
                        continue;
                    }
                    check_with_backend(&mut executor, &service, page, lanes, 5, LIMITS, &backend)
                        .unwrap_or_else(|difference| panic!("{layout}, {order:?}: {difference}"));
                }
            }
            assert_on_device(&executor, 0);
        }
    }
}

/// A page of two calls whose last stage shows what both answered.
const TWO_CALLS: &str = r#"+++
route = "GET /both"

[params]
user = { in = "query", type = "int" }

[[step]]
call    = "besim"
request = "1&9&{{ user % 500 + 500 }}"
row     = "profile(street, city, state, zip, email, phone)"

[[step]]
call    = "besim"
request = "1&2&{{ user % 500 + 500 }}"
rows    = "accounts(account, kind, balance)"
+++
{{ profile.status }} {{ profile.street }}, {{ profile.email }}: {{ accounts.status }}
{% for a in accounts %}{{ a.account }} {{ a.balance }} of {{ profile.city }}
{% endfor %}{{ profile.phone }}
"#;

/// What the first call answered lies where it did when the second one has been answered, too.
#[test]
fn every_call_has_its_own_answers_on_the_device() {
    let mut sources = Sources::default();
    let toml = "[service]\nname = \"two\"\n[backend.besim]\nkind = \"besim\"\nusers = 1000\n";
    let files = [("service.toml", toml), ("pages/both.html", TWO_CALLS)];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    sources.files.extend(files);
    let service = Arc::new(compile(&sources, BESIM).expect("it compiles"));
    let bank = Bank::new(1000);
    let backend =
        |program: &PageProgram, cohort: &mut Cohort| answer_queries(&bank, program, cohort);
    for layout in [Layout::B, Layout::C, Layout::Row, Layout::Runs] {
        for order in ORDERS {
            let options = Options {
                layout,
                besim_users: Some(1000),
                ..Options::default()
            };
            let mut executor = executor(Emulated::new(order), options);
            for &lanes in LANES {
                check_with_backend(&mut executor, &service, 0, lanes, 5, LIMITS, &backend)
                    .unwrap_or_else(|difference| panic!("{layout}, {order:?}: {difference}"));
            }
            assert_on_device(&executor, 0);
        }
    }
}

/// A page whose loops have filters, and whose bodies read what these come to.
const KEPT: &str = r#"+++
route = "GET /kept"

[params]
user = { in = "query", type = "int" }

[[step]]
call    = "besim"
request = "1&2&{{ user % 500 + 500 }}"
rows    = "accounts(account, kind, balance)"
+++
{% for a in accounts if a.account != a.kind %}{{ a.account }}{{ ", " if not loop.last }}
{%- for b in accounts if b.account == a.account or b.kind %} {{ loop.revindex }} of
{{ loop.length }}: {{ b.balance }}{% endfor %} {{ loop.revindex0 }} of {{ loop.length }}
{% endfor %}
"#;

#[test]
fn loops_with_filters_know_their_length_to_their_end() {
    let mut sources = Sources::default();
    let toml = "[service]\nname = \"kept\"\n[backend.besim]\nkind = \"besim\"\n";
    let files = [("service.toml", toml), ("pages/kept.html", KEPT)];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    sources.files.extend(files);
    let service = Arc::new(compile(&sources, BESIM).expect("it compiles"));
    for layout in Layout::ALL {
        let mut executor = emulated(ORDERS[0], *layout, LIMITS);
        for seed in 0..4 {
            check(&mut executor, &service, 0, 33, seed, LIMITS)
                .unwrap_or_else(|difference| panic!("{layout}: {difference}"));
        }
        assert_on_device(&executor, 0);
    }
}

/// `spare`: registers of every stage that nothing uses.
fn programs(seeds: std::ops::Range<u64>, limits: LaneLimits, spare: usize) {
    for (layout, order) in Layout::ALL.iter().zip(ORDERS.iter().cycle()) {
        let mut executor = emulated(*order, *layout, limits);
        for seed in seeds.clone() {
            let mut service = make_service(seed);
            let pages = &mut Arc::get_mut(&mut service).expect("nobody else's").pages;
            for stage in pages.iter_mut().flat_map(|page| &mut page.stages) {
                stage.registers.extend(vec![Type::Int; spare]);
            }
            for lanes in [1, 7, 33, if SANITIZED { 40 } else { 100 }] {
                check(&mut executor, &service, 0, lanes, seed, limits)
                    .unwrap_or_else(|difference| panic!("{layout}, {order:?}: {difference}"));
            }
        }
        // Floats to a power are the host's, as are stages that choose or format; both are few.
        let statistics = executor.statistics();
        assert_on_device(&executor, statistics.lanes / 4);
    }
}

#[test]
fn any_program() {
    programs(if SANITIZED { 0..12 } else { 0..60 }, LIMITS, 0);
}

/// Shared memory has room for 191 registers.
#[test]
fn any_program_with_its_registers_in_global_memory() {
    programs(if SANITIZED { 0..4 } else { 0..20 }, LIMITS, 200);
}

#[test]
fn any_program_at_every_limit() {
    let limits = LaneLimits {
        body_bytes_max: 700,
        text_bytes_max: 200,
        turns_max: 9,
    };
    programs(if SANITIZED { 300..312 } else { 300..360 }, limits, 0);
}

/// More lanes than the threads that add up their sizes.
#[test]
fn large_cohorts() {
    let service = make_service(905);
    let each = Layout::ALL.iter().map(|layout| (*layout, 600));
    for (layout, lanes) in each.chain([(Layout::Runs, 4096)]) {
        for &order in orders(layout) {
            let lanes = if SANITIZED { lanes / 2 } else { lanes };
            let mut executor = emulated(order, layout, LIMITS);
            check(&mut executor, &service, 0, lanes, 905, LIMITS)
                .unwrap_or_else(|difference| panic!("{layout}, {order:?}: {difference}"));
            assert_on_device(&executor, 0);
        }
    }
}
