//! The executor where several works are in flight, the device fails or has no room, and lanes ask
//! for more than was guessed: each work comes back once, equal to the reference.

mod common;

use common::flight::{Bell, Filling, Flight, fly};
use common::wasteful::wasteful;
use common::{ORDERS, banking};
use rhythm_besim::Bank;
use rhythm_engine::cohort::{Argument, Budget, Cohort, LaneState, Share};
use rhythm_engine::device::conformance::{
    Dice, check, check_with_backend, make_cohort, make_service,
};
use rhythm_engine::device::{Executor, LaneLimits, Refusal, Work};
use rhythm_engine::program::{PageProgram, Service};
use rhythm_engine_cuda::besim::answer_queries;
use rhythm_engine_cuda::executor::{CudaExecutor, Options, Statistics};
use rhythm_engine_cuda::gpu::GpuError;
use rhythm_engine_cuda::gpu::emulated::{Emulated, Options as Emulation};
use rhythm_engine_cuda::layout::Layout;
use std::sync::Arc;

const LIMITS: LaneLimits = LaneLimits {
    body_bytes_max: 1 << 20,
    text_bytes_max: 1 << 18,
    turns_max: 1 << 16,
};

/// Completions come from another thread.
const DEFERRED: Emulation = Emulation {
    order: ORDERS[0],
    deferred: true,
    fail_launch: None,
    memory: usize::MAX,
};

fn options(layout: Layout, in_flight: usize) -> Options {
    Options {
        layout,
        limits: LIMITS,
        in_flight,
        ..Options::default()
    }
}

fn start(gpu: Emulation, options: Options) -> (CudaExecutor, Arc<Bell>) {
    let bell = Arc::new(Bell::default());
    let executor = CudaExecutor::new(Emulated::with(gpu), options, bell.wake());
    (executor.expect("an emulated GPU has room"), bell)
}

/// Polls until so many works are done.
fn poll(executor: &mut CudaExecutor, bell: &Bell, works: usize) -> Vec<Work> {
    let mut done = Vec::new();
    loop {
        let rung = bell.count();
        executor.poll(&mut done);
        if done.len() >= works {
            assert_eq!(done.len(), works);
            return done;
        }
        bell.wait(rung);
    }
}

/// Takes one stage of a cohort through.
fn run(executor: &mut CudaExecutor, bell: &Bell, work: Work) -> Work {
    executor.submit(work).expect("it is idle");
    poll(executor, bell, 1).remove(0)
}

#[test]
fn thousands_of_works_come_back_once_each() {
    let services: Vec<Arc<Service>> = (0..6).map(make_service).collect();
    for (slots, layout, count) in [
        (1, Layout::Row, 60),
        (4, Layout::Runs, 900),
        (7, Layout::A, 140),
    ] {
        let (mut executor, bell) = start(DEFERRED, options(layout, slots));
        let mut dice = Dice::new(slots as u64);
        let flights = (0..count).map(|token| {
            let mut dice = Dice::new(token);
            let service = dice.pick(&services);
            Flight::made(service, (0, 1 + dice.below(5), token), LIMITS, token)
        });
        let journey = fly(&mut executor, &bell, slots, flights, &mut dice);
        // Two stages each.
        assert_eq!(journey.submitted, 2 * count as usize);
        assert_eq!(executor.in_flight(), 0);
        assert_eq!(executor.lost(), None);
        assert!(bell.count() > 0);
        if slots == 1 {
            assert!(journey.refused > 0, "{journey:?}");
        }
        assert!(journey.most_in_flight >= slots.min(3), "{journey:?}");
    }
}

#[test]
fn a_full_device_is_busy_until_it_is_polled() {
    let service = make_service(3);
    let (mut executor, bell) = start(DEFERRED, options(Layout::Row, 3));
    let work = |token| Flight::made(&service, (0, 4, token), LIMITS, token).1;
    for token in 0..3 {
        executor.submit(work(token)).expect("a slot is free");
    }
    // Also when all of them are done: nobody has taken them yet.
    bell.wait(2);
    for _ in 0..2 {
        let refused = executor.submit(work(9)).expect_err("no slot is free");
        let Refusal::Busy(back) = refused else {
            panic!("the device is not lost");
        };
        assert_eq!((back.token, back.cohort.stage), (9, 0));
        assert_eq!(executor.in_flight(), 3);
    }
    let mut done = poll(&mut executor, &bell, 3);
    let mut tokens: Vec<u64> = done.iter().map(|work| work.token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [0, 1, 2]);
    assert_eq!(executor.in_flight(), 0);
    executor.poll(&mut done);
    assert_eq!(done.len(), 3);
    executor.submit(work(9)).expect("slots are free again");
    assert_eq!(executor.in_flight(), 1);
}

#[test]
fn an_executor_may_go_with_works_in_flight() {
    let service = make_service(5);
    let bell = {
        let (mut executor, bell) = start(DEFERRED, options(Layout::C, 4));
        for token in 0..4 {
            let (_, work) = Flight::made(&service, (0, 40, token), LIMITS, token);
            executor.submit(work).expect("a slot is free");
        }
        bell
    };
    // Their completions come all the same, to nobody.
    bell.wait(3);
    assert_eq!(Arc::strong_count(&service), 1);
}

/// A service with a fragment of so many bytes.
fn heavy(seed: u64, bytes: usize) -> Arc<Service> {
    let mut service = make_service(seed);
    let own = Arc::get_mut(&mut service).expect("nobody else has it");
    own.fragments.push(vec![b'x'; bytes].into());
    service
}

/// Has services come and go on a device with so much memory, and gives what was counted.
fn come_and_go(memory: usize) -> Statistics {
    const MIB: usize = 1 << 20;
    let gpu = Emulation {
        memory: memory * MIB,
        ..DEFERRED
    };
    let (mut executor, bell) = start(gpu, options(Layout::Row, 2));
    let mut dice = Dice::new(1);
    for round in 0..5 {
        let services = [heavy(round, 8 * MIB), heavy(round + 50, 8 * MIB)];
        let flights: Vec<_> = (0..6)
            .map(|token| {
                let service = &services[token as usize % 2];
                Flight::made(service, (0, 3, token + round), LIMITS, token)
            })
            .collect();
        // A reload: from here on only what is in flight keeps them.
        drop(services);
        fly(&mut executor, &bell, 2, flights, &mut dice);
    }
    assert_eq!(executor.lost(), None);
    executor.statistics()
}

#[test]
fn services_come_and_go_while_their_cohorts_are_in_flight() {
    // Two at a time fit, but not ten that are uploaded again and again, or never forgotten: the
    // host is left no more lanes than with memory for all.
    let (scarce, ample) = (come_and_go(44), come_and_go(1024));
    assert_eq!(scarce.on_host, ample.on_host, "{scarce:?} {ample:?}");
}

#[test]
fn a_service_without_room_is_the_hosts_and_the_device_goes_on() {
    const MIB: usize = 1 << 20;
    let gpu = Emulation {
        memory: 20 * MIB,
        ..DEFERRED
    };
    let (mut executor, bell) = start(gpu, options(Layout::Row, 2));
    let services = [heavy(4, 64 * MIB), make_service(4)];
    let flights = (0..20).map(|token| {
        let service = &services[token as usize % 2];
        Flight::made(service, (0, 3, token), LIMITS, token)
    });
    fly(&mut executor, &bell, 2, flights, &mut Dice::new(2));
    assert_eq!(executor.lost(), None);
    let Statistics { lanes, on_host, .. } = executor.statistics();
    assert!(
        lanes > 0 && on_host > 0 && on_host <= lanes + 5,
        "{lanes} {on_host}"
    );
}

#[test]
fn a_service_without_room_finds_some_later() {
    const MIB: usize = 1 << 20;
    let gpu = Emulation {
        memory: 40 * MIB,
        ..DEFERRED
    };
    let (mut executor, bell) = start(gpu, options(Layout::Row, 1));
    let mut fly_some = |service: &Arc<Service>, flights: u64| {
        let flights = (0..flights).map(|token| Flight::made(service, (0, 1, token), LIMITS, token));
        fly(&mut executor, &bell, 1, flights, &mut Dice::new(2));
        executor.statistics()
    };
    let (first, second) = (heavy(4, 16 * MIB), heavy(4, 16 * MIB));
    let before = fly_some(&first, 1);
    assert!(before.launches > 0);
    let refused = fly_some(&second, 1);
    assert_eq!(refused.launches, before.launches);
    // Now there is, which nobody looks for at each of its cohorts.
    drop(first);
    assert_eq!(fly_some(&second, 20).launches, before.launches);
    assert!(fly_some(&second, 1200).launches > before.launches);
}

/// Every launch fails once: what was in flight, and all that comes later, is as the reference has
/// it.
fn any_launch_fails(layout: Layout, deferred: bool) {
    let service = make_service(8);
    for fail in 0.. {
        let gpu = Emulation {
            deferred,
            fail_launch: Some(fail),
            ..DEFERRED
        };
        let (mut executor, bell) = start(gpu, options(layout, 3));
        let flights = (0..5).map(|token| Flight::made(&service, (0, 9, token), LIMITS, token));
        fly(&mut executor, &bell, 3, flights, &mut Dice::new(fail));
        let Some(error) = executor.lost().cloned() else {
            // So many there are: of five cohorts two stages each.
            assert!(fail >= 10 * 3, "{fail}");
            break;
        };
        assert_eq!(
            error,
            GpuError::Failed(format!("launch {fail} was to fail"))
        );
        assert!(executor.statistics().on_host > 0);
        let launches = executor.statistics().launches;
        let later = (5..9).map(|token| Flight::made(&service, (0, 9, token), LIMITS, token));
        fly(
            &mut executor,
            &bell,
            usize::MAX,
            later,
            &mut Dice::new(fail),
        );
        assert_eq!(executor.statistics().launches, launches);
    }
}

#[test]
fn any_launch_fails_at_once() {
    any_launch_fails(Layout::Runs, false);
}

#[test]
fn any_launch_fails_and_is_told_later() {
    any_launch_fails(Layout::A, true);
}

#[test]
fn any_launch_fails_with_the_backend_on_the_device() {
    let service = banking();
    let page =
        (service.pages.iter().position(|page| page.calls.len() > 1)).expect("one asks twice");
    let bank = Bank::new(1000);
    let backend =
        |program: &PageProgram, cohort: &mut Cohort| answer_queries(&bank, program, cohort);
    let with_bank = Options {
        besim_users: Some(1000),
        ..options(Layout::B, 1)
    };
    for fail in 0.. {
        let gpu = Emulation {
            fail_launch: Some(fail),
            ..DEFERRED
        };
        let (mut executor, _) = start(gpu, with_bank);
        for seed in [1, 2] {
            check_with_backend(&mut executor, &service, page, 5, seed, LIMITS, &backend)
                .unwrap_or_else(|difference| panic!("launch {fail} fails: {difference}"));
        }
        if executor.lost().is_none() {
            assert!(fail > 10, "{fail}");
            break;
        }
    }
}

#[test]
fn little_memory_is_the_hosts_work_and_not_an_error() {
    let service = make_service(11);
    let (mut all_on_device, mut some_on_host, mut none_at_all) = (0, 0, 0);
    for kibibytes in (0..14).map(|power| 1usize << power) {
        let gpu = Emulation {
            memory: kibibytes << 10,
            ..DEFERRED
        };
        let bell = Arc::new(Bell::default());
        let made = CudaExecutor::new(Emulated::with(gpu), options(Layout::A, 2), bell.wake());
        let mut executor = match made {
            Ok(executor) => executor,
            Err(error) => {
                assert!(matches!(error, GpuError::OutOfMemory(_)), "{error}");
                none_at_all += 1;
                continue;
            }
        };
        let flights = (0..6).map(|token| {
            let lanes = [1, 40][token as usize % 2];
            Flight::made(&service, (0, lanes, token), LIMITS, token)
        });
        fly(&mut executor, &bell, 2, flights, &mut Dice::new(8));
        assert_eq!(executor.lost(), None);
        match executor.statistics().on_host {
            0 => all_on_device += 1,
            _ => some_on_host += 1,
        }
    }
    assert!(all_on_device > 0 && some_on_host > 1 && none_at_all > 0);
}

#[test]
fn a_cohort_in_parts_is_the_same() {
    let service = make_service(8);
    for layout in Layout::ALL {
        let mut launches = Vec::new();
        // Some lanes of the layout's own size.
        let some_lanes = if *layout == Layout::Runs {
            80 << 10
        } else {
            200 << 10
        };
        for launch_bytes in [usize::MAX, some_lanes, 1] {
            let options = Options {
                launch_bytes,
                ..options(*layout, 1)
            };
            let (mut executor, _) = start(DEFERRED, options);
            check(&mut executor, &service, 0, 40, 8, LIMITS)
                .unwrap_or_else(|difference| panic!("{layout}, {launch_bytes}: {difference}"));
            assert_eq!((executor.lost(), executor.statistics().on_host), (None, 0));
            launches.push(executor.statistics().launches);
        }
        assert!(
            launches[0] < launches[1] && launches[1] < launches[2],
            "{launches:?}"
        );
        // A lane a launch, in both stages.
        assert!(launches[2] >= 40, "{launches:?}");
    }
}

#[test]
fn what_lanes_ask_is_of_their_cohorts_share() {
    const LANES: usize = 30;
    let service = wasteful();
    let program = &service.pages[0];
    let run_with = |common: usize| {
        let budget = Budget::new(0, common);
        let share = Share::new(&budget);
        let mut cohort = Box::new(Cohort::of_share(&share, 1 << 20));
        cohort.reset(program);
        let lanes: Vec<usize> = (0..LANES).collect();
        let mut made = (Filling::wasteful(&service, LANES, [100, 0, 0]).cohort)();
        made.move_lanes(program, &lanes, &mut cohort);
        let before = share.bytes();
        let work = Work {
            service: Arc::clone(&service),
            page: 0,
            cohort,
            token: 1,
        };
        let (mut executor, bell) = start(DEFERRED, options(Layout::Runs, 1));
        let mut cohort = run(&mut executor, &bell, work).cohort;
        assert_eq!(executor.statistics().on_host, 0);
        let texts =
            (0..cohort.queries.len()).map(|query| match cohort.queries.argument(query, 0) {
                Argument::Text(text) => text.len(),
                other => panic!("{other:?} is no text"),
            });
        assert!(share.bytes() >= before + texts.sum::<usize>());
        assert!(budget.lent() <= common);
        let states = cohort.lanes.clone();
        cohort.rest();
        cohort.forget();
        assert_eq!((share.bytes(), budget.lent()), (0, 0));
        states
    };
    assert_eq!(run_with(1 << 20), [LaneState::Active; LANES]);
    let short = run_with(8 << 10);
    let later = |state: &&LaneState| **state == LaneState::Later;
    let later = short.iter().filter(later).count();
    let active = (short.iter()).filter(|state| **state == LaneState::Active);
    assert!(later > 0 && active.count() == LANES - later, "{short:?}");
}

#[test]
fn a_stage_without_lanes_is_done_at_once() {
    let service = make_service(2);
    let (mut executor, bell) = start(DEFERRED, options(Layout::Row, 1));
    let mut cohort = make_cohort(&service.pages[0], 3, &mut Dice::new(1));
    cohort.lanes.fill(LaneState::Finished);
    let work = Work {
        service: Arc::clone(&service),
        page: 0,
        cohort,
        token: 6,
    };
    let work = run(&mut executor, &bell, work);
    assert_eq!((work.token, work.cohort.stage), (6, 1));
    assert_eq!(work.cohort.lanes, [LaneState::Finished; 3]);
    assert_eq!((executor.in_flight(), bell.count()), (0, 1));
    assert_eq!(executor.statistics(), Statistics::default());
}

/// A cohort of [`wasteful`] lanes, and what is launched for it.
fn waste(
    executor: &mut CudaExecutor,
    bell: &Bell,
    service: &Arc<Service>,
    wants: [i64; 3],
) -> Statistics {
    let before = executor.statistics();
    let flight = Flight::new(service, 0, Filling::wasteful(service, 20, wants), LIMITS, 1);
    fly(executor, bell, 1, [flight], &mut Dice::new(1));
    let after = executor.statistics();
    assert_eq!((executor.lost(), after.on_host), (None, 0));
    Statistics {
        launches: after.launches - before.launches,
        lanes: after.lanes - before.lanes,
        again: after.again - before.again,
        on_host: 0,
    }
}

#[test]
fn what_lanes_need_is_found_out_and_remembered_within_bounds() {
    // Queries, rows of an answer, headers.
    const SOME: [i64; 3] = [200, 200, 60];
    const MANY: [i64; 3] = [400, 3000, 300];
    // More bytes of headers than there is room for bodies.
    const HEADERS: [i64; 3] = [2, 0, 3000];
    for layout in Layout::ALL {
        let (mut executor, bell) = start(DEFERRED, options(*layout, 1));
        let service = wasteful();
        let first = waste(&mut executor, &bell, &service, SOME);
        assert!(first.again > 0, "{layout}: {first:?}");
        // Most of them since a lane stops at the first text without room.
        assert!((3..=12).contains(&first.launches), "{layout}: {first:?}");
        let settled = waste(&mut executor, &bell, &service, SOME);
        assert_eq!((settled.launches, settled.again), (2, 0), "{layout}");
        let headers = waste(&mut executor, &bell, &service, HEADERS);
        assert!(headers.again > 0, "{layout}: {headers:?}");
        // One odd cohort does not make all that come after it pay: what it needed is found out
        // anew.
        let odd = waste(&mut executor, &bell, &service, MANY);
        assert!(odd.again > 0, "{layout}: {odd:?}");
        let odd = waste(&mut executor, &bell, &service, MANY);
        assert!(odd.again > 0, "{layout}: {odd:?}");
        let settled = waste(&mut executor, &bell, &service, SOME);
        assert_eq!((settled.launches, settled.again), (2, 0), "{layout}");
    }
}
