//! Answers that find no room in their cohort's memory beside the others: their lanes go through
//! the page's stages again, and nothing in what they answer tells.

mod common;

use common::flight::{Bell, Filling};
use common::wasteful::wasteful;
use common::{ORDERS, banking};
use rhythm_besim::Bank;
use rhythm_engine::cohort::{Arena, Budget, Cohort, LaneState, Pass, Share};
use rhythm_engine::device::conformance::{Dice, check_passes, make_cohort, make_service};
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, LaneLimits, Refusal, Work};
use rhythm_engine::program::Service;
use rhythm_engine_cuda::besim::answer_queries;
use rhythm_engine_cuda::executor::{CudaExecutor, Options};
use rhythm_engine_cuda::gpu::emulated::{Emulated, Options as Emulation};
use rhythm_engine_cuda::layout::Layout;
use std::rc::Rc;
use std::sync::Arc;

const LANES: usize = 40;

/// A page, what fills its cohorts and what answers their queries.
struct Case {
    service: Arc<Service>,
    page: usize,
    filling: Filling,
}

/// What the lanes of a cohort answer, and how often lanes were left out.
struct Outcome {
    answers: Vec<Option<Vec<u8>>>,
    passes: usize,
}

/// What is left of the memory that cohorts have in common while a stage is run.
const LEFT: usize = 24 << 10;

/// A cohort that has the rest of it.
struct Others {
    budget: Rc<Budget>,
    cohort: Cohort,
}

impl Others {
    fn new(budget: &Rc<Budget>) -> Others {
        Others {
            budget: budget.clone(),
            cohort: Cohort::of_share(&Share::new(budget), Arena::BYTES_MAX),
        }
    }

    fn take_all_but_little(&self) {
        let rest = self.budget.common() - self.budget.lent();
        assert!(self.cohort.arena.expects(rest - LEFT));
    }

    fn give_back(&mut self) {
        self.cohort.forget();
    }
}

impl Case {
    /// Runs a cohort to its end, beside others where there are any.
    fn run(
        &self,
        executor: &mut dyn Executor,
        mut cohort: Box<Cohort>,
        mut others: Option<Others>,
    ) -> Outcome {
        let mut outcome = Outcome {
            answers: vec![None; LANES],
            passes: 0,
        };
        loop {
            if let (Some(others), false) = (&others, cohort.is_between_passes()) {
                others.take_all_but_little();
            }
            let work = Work {
                service: self.service.clone(),
                page: self.page,
                cohort,
                token: 0,
            };
            executor.submit(work).expect("it is idle");
            let mut done = Vec::new();
            while done.is_empty() {
                executor.poll(&mut done);
            }
            cohort = done.remove(0).cohort;
            for (lane, answer) in outcome.answers.iter_mut().enumerate() {
                if answer.is_none() && cohort.lanes[lane] == LaneState::Finished {
                    let mut body = Vec::new();
                    if lane < cohort.output.lanes.len() {
                        let fragments = &self.service.fragments;
                        cohort.output.stitch(lane, fragments, &mut body);
                    }
                    *answer = Some(body);
                }
            }
            let pass = cohort.next_pass();
            if let (Some(others), Pass::Over | Pass::Short) = (&mut others, pass) {
                others.give_back();
            }
            match pass {
                Pass::Over if cohort.has_active() => {
                    (self.filling.answer)(cohort.stage - 1, &mut cohort);
                }
                Pass::Over => return outcome,
                Pass::Again | Pass::Yield | Pass::Short => outcome.passes += 1,
            }
        }
    }

    /// Runs it with plenty of memory on the reference, and with little of it, in a cohort's share,
    /// on the device; gives how often lanes were left out there.
    fn compare(&self, options: Options) -> usize {
        let mut reference = ScalarExecutor::new(options.limits);
        let expected = self.run(&mut reference, (self.filling.cohort)(), None);
        assert!(expected.answers.iter().flatten().any(|body| body.len() > 1));
        let program = &self.service.pages[self.page];
        let budget = Budget::new(0, 1 << 24);
        let share = Share::new(&budget);
        let mut cohort = Box::new(Cohort::of_share(&share, Arena::BYTES_MAX));
        cohort.reset(program);
        let all: Vec<usize> = (0..LANES).collect();
        (self.filling.cohort)().move_lanes(program, &all, &mut cohort);
        let bell = Arc::new(Bell::default());
        let device = CudaExecutor::new(Emulated::new(ORDERS[0]), options, bell.wake());
        let mut device = device.expect("an emulated GPU has room");
        let made = self.run(&mut device, cohort, Some(Others::new(&budget)));
        assert!(device.lost().is_none() && device.statistics().on_host == 0);
        let mut lanes = made.answers.iter().zip(&expected.answers);
        assert_eq!(lanes.position(|(made, expected)| made != expected), None);
        made.passes
    }
}

#[test]
fn answers_without_room_are_made_when_the_others_are_answered() {
    let limits = LaneLimits::default();
    for layout in [Layout::Runs, Layout::Row, Layout::A, Layout::C] {
        let service = wasteful();
        let case = Case {
            filling: Filling::wasteful(&service, LANES, [20, 100, 0]),
            page: 0,
            service,
        };
        let options = Options {
            layout,
            limits,
            in_flight: 1,
            ..Options::default()
        };
        assert!(case.compare(options) > 0, "{layout}");
    }
}

/// An executor that is polled until something is done.
struct Patient(CudaExecutor);

impl Executor for Patient {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn submit(&mut self, work: Work) -> Result<(), Refusal> {
        self.0.submit(work)
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        while done.is_empty() {
            self.0.poll(done);
        }
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
}

/// What is left to the host ends a pass when it has done enough, and what finds no room in the
/// cohort's memory is for another one.
#[test]
fn what_is_left_to_the_host_is_run_in_passes() {
    let limits = LaneLimits::default();
    for layout in [Layout::Runs, Layout::A] {
        let options = Options {
            layout,
            limits,
            in_flight: 1,
            pass_work_max: 1,
            ..Options::default()
        };
        let bell = Arc::new(Bell::default());
        let device = CudaExecutor::new(Emulated::new(ORDERS[0]), options, bell.wake());
        let mut device = Patient(device.expect("an emulated GPU has room"));
        let mut passes = [0; 2];
        for seed in 0..40 {
            let more = check_passes(&mut device, limits, &make_service(seed), seed);
            passes = [passes[0] + more[0], passes[1] + more[1]];
        }
        let device = device.0;
        assert!(device.lost().is_none() && device.statistics().on_host > 0);
        assert!(passes[0] > 100 && passes[1] > 0, "{layout}: {passes:?}");
    }
}

/// A page all of whose stages are one launch.
fn one_launch() -> Case {
    let service = banking();
    let page = (service.pages.iter()).position(|page| page.name == "account_summary");
    let page = page.expect("it is there");
    let program = service.pages[page].clone();
    let of_cohorts = program.clone();
    Case {
        filling: Filling {
            cohort: Box::new(move || make_cohort(&of_cohorts, LANES, &mut Dice::new(3))),
            answer: Box::new(move |_, cohort| {
                answer_queries(&Bank::new(1000), &program, cohort);
            }),
        },
        page,
        service,
    }
}

/// The lanes go through all of its stages again.
#[test]
fn pages_that_are_one_launch_are_made_again_from_their_first_stage() {
    let options = Options {
        layout: Layout::B,
        besim_users: Some(1000),
        in_flight: 1,
        ..Options::default()
    };
    assert!(one_launch().compare(options) > 0);
}

/// Of such a page, too, when the device fails and the host runs it.
#[test]
fn pages_that_are_one_launch_are_run_in_passes_by_the_host() {
    let case = one_launch();
    let options = Options {
        layout: Layout::B,
        besim_users: Some(1000),
        in_flight: 1,
        pass_work_max: 1,
        ..Options::default()
    };
    let mut reference = ScalarExecutor::new(options.limits);
    let expected = case.run(&mut reference, (case.filling.cohort)(), None);
    let gpu = Emulation {
        fail_launch: Some(0),
        ..Emulation::default()
    };
    let bell = Arc::new(Bell::default());
    let device = CudaExecutor::new(Emulated::with(gpu), options, bell.wake());
    let mut device = device.expect("an emulated GPU has room");
    let made = case.run(&mut device, (case.filling.cohort)(), None);
    assert!(device.lost().is_some());
    assert!(made.passes > 1, "{}", made.passes);
    assert!(made.answers == expected.answers);
}

/// Of a server with little memory for cohorts, what comes back comes in more launches than one, and
/// a slot has no more than was said (which it asserts when it grows).
#[test]
fn what_comes_to_the_host_comes_in_parts() {
    let mut service = wasteful();
    let config = &mut Arc::get_mut(&mut service)
        .expect("nobody else has it")
        .config;
    config.cohort.arena_bytes_max = 1 << 17;
    config.cohort.size = LANES as u32;
    for layout in Layout::ALL {
        let launches = [1 << 30, 1 << 17, 1 << 14].map(|delivered_bytes| {
            let options = Options {
                layout: *layout,
                limits: LaneLimits {
                    body_bytes_max: 1 << 17,
                    text_bytes_max: 1 << 14,
                    turns_max: 1 << 16,
                },
                in_flight: 2,
                delivered_bytes,
                ..Options::default()
            };
            let most = options.host_bytes_max(&service);
            assert!(most > 2 * delivered_bytes && most < 4 * delivered_bytes + (64 << 20));
            let case = Case {
                filling: Filling::wasteful(&service, LANES, [20, 100, 0]),
                page: 0,
                service: service.clone(),
            };
            let bell = Arc::new(Bell::default());
            let device = CudaExecutor::new(Emulated::new(ORDERS[0]), options, bell.wake());
            let mut device = device.expect("an emulated GPU has room");
            let made = case.run(&mut device, (case.filling.cohort)(), None);
            assert!(made.answers.iter().all(Option::is_some));
            device.statistics().launches
        });
        assert!(launches.is_sorted(), "{layout}: {launches:?}");
        assert!(launches[0] < launches[2], "{layout}: {launches:?}");
    }
}
