//! The whole pipeline on the device, against the server: for the same requests the same answers,
//! byte by byte, whatever the layout.

mod common;

use common::{ORDERS, banking};
use rhythm_bench::emulate::{Users, Witness};
use rhythm_bench::load::Page;
use rhythm_besim::Bank;
use rhythm_engine::device::LaneLimits;
use rhythm_engine_cuda::abi::Outcome;
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder};
use rhythm_engine_cuda::gpu::{Kernel, SharedGpu, Stopwatch};
use rhythm_engine_cuda::layout::Layout;
use rhythm_engine_cuda::resident::{Answer, Resident, ResidentOptions, Trace};
use rhythm_server::{Site, SiteSettings, Statics};
use std::sync::Arc;

const USERS: u32 = 100_000;

/// Pages whose answers are made on the device: all but the check images, which are files.
fn pages() -> impl Iterator<Item = Page> {
    Page::ALL
        .into_iter()
        .filter(|page| *page != Page::CheckDetailImage)
}

fn options(layout: Layout, cohort: usize) -> ResidentOptions {
    ResidentOptions {
        layout,
        cohort,
        in_flight: 2,
        parsers: 1,
        transposes: layout == Layout::B,
        limits: LaneLimits::default(),
        sessions: 1 << 14,
        idle_timeout_ms: 3_600_000,
        users: USERS,
        now: 0,
    }
}

struct Device {
    resident: Resident,
    users: Users,
}

impl Device {
    fn new(gpu: &rhythm_engine_cuda::gpu::SharedGpu, options: ResidentOptions) -> Device {
        let mut dice = rhythm_engine::device::conformance::Dice::new(3);
        let resident =
            Resident::new(gpu, &banking(), options, move || dice.roll()).expect("there is room");
        let users = Users::new(options.cohort, Bank::new(USERS));
        Device { resident, users }
    }

    /// A cohort of the page, one request of each user.
    fn answers(&mut self, page: Page) -> Vec<Answer> {
        self.prepare(page);
        let mut answers = self.resident.answers(0).expect("they come");
        answers.sort_by_key(|answer| answer.request);
        answers
    }

    /// Gets ready for requests of the page, one of each user.
    fn prepare(&mut self, page: Page) -> Trace {
        let service = banking();
        let index = service
            .pages
            .iter()
            .position(|known| known.name == page.name())
            .expect("it is there");
        let trace = self
            .resident
            .load(&self.users.requests(page))
            .expect("there is room");
        self.resident
            .prepare(index, &trace)
            .expect("it can be prepared");
        trace
    }

    fn log_in(&mut self) {
        for answer in self.answers(Page::Login) {
            assert!(
                self.users.logged_in(answer.request as usize, &answer.bytes),
                "{answer:?}"
            );
        }
    }
}

fn witness(users: usize) -> Witness {
    let service = banking();
    let mut settings = SiteSettings::of(&service);
    // A device that answers by itself sends pages as they are.
    settings.gzip.pages = false;
    let statics = Statics::new(&service.config.statics.mount, Vec::new());
    let site = Arc::new(Site::new(service.clone(), statics, settings).expect("it can be served"));
    Witness::new(&site, users).expect("so many sessions find room")
}

fn compare(layout: Layout, order: LaneOrder, cohort: usize) {
    let mut witness = witness(cohort);
    let gpu = Emulated::new(order);
    let mut device = Device::new(&gpu, options(layout, cohort));
    device.log_in();
    for page in pages() {
        let expected = witness.answers(page);
        let answers = device.answers(page);
        assert_eq!(answers.len(), cohort, "{layout} {}", page.name());
        for (answer, expected) in answers.iter().zip(&expected) {
            let compared = answer.compare(expected);
            assert_eq!(compared, Ok(()), "{layout} {}", page.name());
        }
    }
}

#[test]
fn answers_are_the_servers_in_every_layout() {
    for (layout, order) in Layout::ALL.iter().zip(ORDERS.iter().cycle()) {
        compare(*layout, *order, 70);
    }
}

#[test]
fn a_single_request() {
    compare(Layout::Row, LaneOrder::Ascending, 1);
}

#[test]
fn fewer_requests_than_lanes() {
    for (layout, order) in Layout::ALL.iter().zip(ORDERS.iter().cycle()) {
        let gpu = Emulated::new(*order);
        // Two tiles of lanes without a request.
        let mut device = Device::new(&gpu, options(*layout, 70));
        device.users = Users::new(5, Bank::new(USERS));
        device.log_in();
        let answers = device.answers(Page::AccountSummary);
        assert_eq!(answers.len(), 5, "{layout}");
        for answer in answers {
            assert_eq!(answer.outcome, Outcome::Finished, "{layout}");
        }
        assert_eq!(device.resident.finished().ok(), Some(5), "{layout}");
    }
}

#[test]
fn every_cohort_of_a_trace_has_room() {
    // Small cohorts, of which the first is rarely the one with the longest answer.
    const COHORT: usize = 4;
    const LOTS: usize = 8;
    for (layout, order) in Layout::ALL.iter().zip(ORDERS.iter().cycle()) {
        let mut witness = witness(COHORT * LOTS);
        let gpu = Emulated::new(*order);
        let mut device = Device::new(&gpu, options(*layout, COHORT));
        device.users = Users::new(COHORT * LOTS, Bank::new(USERS));
        for page in [Page::Login, Page::AccountSummary, Page::CheckDetailHtml] {
            let expected = witness.answers(page);
            let trace = device.prepare(page);
            for lot in 0..LOTS {
                let first = lot * COHORT;
                let answers = device.resident.ask(&trace, first).expect("they come");
                assert_eq!(answers.len(), COHORT, "{layout}");
                for answer in answers {
                    let user = first + answer.request as usize;
                    assert_eq!(answer.compare(&expected[user]), Ok(()), "{layout}");
                    if page == Page::Login {
                        device.users.logged_in(user, &answer.bytes);
                    }
                }
            }
        }
    }
}

#[test]
fn who_has_no_session_is_answered_alike_in_all_layouts() {
    let gpu = Emulated::new(LaneOrder::Ascending);
    for page in [Page::AccountSummary, Page::QuickPay] {
        // Nobody has logged in: these lanes are done before the backend is asked.
        let ask = |layout| Device::new(&gpu, options(layout, 33)).answers(page);
        let expected = ask(Layout::Row);
        for layout in [Layout::A, Layout::B, Layout::C, Layout::Runs] {
            assert_eq!(ask(layout), expected, "{layout}");
        }
    }
}

#[test]
fn requests_and_answers_cross_in_layout_a_alone() {
    for (layout, order) in Layout::ALL.iter().zip(ORDERS.iter().cycle()) {
        let gpu = Emulated::new(*order);
        let mut device = Device::new(&gpu, options(*layout, 33));
        device.log_in();
        let answers = device.answers(Page::AccountSummary);
        let longest = answers.iter().map(|answer| answer.bytes.len()).max();
        let [to_device, to_host] = device.resident.crossed_bytes();
        match layout {
            // A request and the backend's answer; a query and the whole answer.
            Layout::A => {
                assert!((200.0..2000.0).contains(&to_device), "{to_device}");
                assert!(to_host > longest.unwrap_or(0) as f64, "{to_host}");
            }
            _ => assert_eq!([to_device, to_host], [0.0; 2], "{layout}"),
        }
    }
}

#[test]
fn a_stopwatch_tells_of_each_launch_while_it_runs() {
    let gpu: SharedGpu = Emulated::new(LaneOrder::Ascending);
    let stopwatch = Stopwatch::new(&gpu);
    let timed: SharedGpu = stopwatch.clone();
    let mut device = Device::new(&timed, options(Layout::Row, 33));
    device.log_in();
    let trace = device.prepare(Page::AccountSummary);
    stopwatch.start();
    device.resident.run(&trace, 2).expect("they are run");
    let launches = stopwatch.stop().expect("all are done");
    let kernels: Vec<Kernel> = launches.iter().map(|(kernel, _)| *kernel).collect();
    let (first, second) = kernels.split_at(kernels.len() / 2);
    assert_eq!(first, second, "a cohort after the other");
    assert_eq!(first.first(), Some(&Kernel::Classify));
    assert_eq!(first.last(), Some(&Kernel::Row));
    assert!(launches.iter().all(|(_, took)| *took >= 0.0));
    // It does not run any more.
    device.resident.run(&trace, 1).expect("they are run");
    assert_eq!(stopwatch.stop(), Ok(Vec::new()));
    // And it keeps its marks for when it does again.
    let made = gpu.mark().expect("it is made").0;
    stopwatch.start();
    device.resident.run(&trace, 2).expect("they are run");
    assert_eq!(
        stopwatch.stop().map(|again| again.len()),
        Ok(launches.len())
    );
    assert_eq!(gpu.mark().map(|mark| mark.0), Ok(made + 1));
}
