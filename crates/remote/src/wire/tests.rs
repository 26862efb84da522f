//! Cohorts of made-up programs there and back, as bytes; and what nodes that lie can say.

use super::answer::{Answer, Asked};
use super::bytes::{Put, Wrong};
use super::may_say::MaySay;
use super::reads::Reads;
use super::{columns, outcome};
use rhythm_engine::cohort::{Cohort, LaneState};
use rhythm_engine::device::conformance::{self, Dice, make_cohort, make_service};
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::{Executor, LaneLimits, Refusal, Work};
use rhythm_engine::program::{Op, Service, StageProgram};
use rhythm_protocol::scan::Level;
use std::sync::Arc;

/// Changes the bytes of an answer.
type Spoil = Box<dyn FnMut(&mut Vec<u8>)>;

/// An executor that is reached by bytes.
struct Wired {
    far: HostExecutor,
    /// What is done to an answer on its way.
    spoil: Spoil,
    /// Answers that were refused.
    wrong: Vec<Wrong>,
    /// Works that the far end had no room for.
    declined: usize,
    done: Vec<Work>,
}

impl Wired {
    fn new(spoil: impl FnMut(&mut Vec<u8>) + 'static) -> Wired {
        Wired {
            far: HostExecutor::new(LaneLimits::default(), Level::active()),
            spoil: Box::new(spoil),
            wrong: Vec::new(),
            declined: 0,
            done: Vec::new(),
        }
    }

    /// The answer for the stage of a work, as it comes, where the far end had room for it.
    fn answer(&mut self, work: &Work, lanes: &[u32]) -> Option<Vec<u8>> {
        let stage = work.cohort.stage;
        let mut bytes = Vec::new();
        let reads = Reads::of(&work.program().stages[stage]);
        columns::put(work.page, &work.cohort, lanes, &reads, &mut bytes);
        let taken = columns::take(&work.service, &bytes);
        let (page, cohort) = taken.expect("what an honest end says");
        let far = Work {
            service: work.service.clone(),
            page,
            cohort,
            token: 1,
        };
        self.far.submit(far).expect("it has room");
        let mut done = Vec::new();
        self.far.poll(&mut done);
        if !outcome::is_whole(&done[0].cohort, stage) {
            return None;
        }
        let mut bytes = Vec::new();
        outcome::put(work.program(), &done[0].cohort, &mut bytes);
        (self.spoil)(&mut bytes);
        Some(bytes)
    }

    fn run_here(&mut self, work: Work) {
        self.far.submit(work).expect("it has room");
        self.far.poll(&mut self.done);
    }
}

impl Executor for Wired {
    fn name(&self) -> &'static str {
        "wired"
    }

    fn submit(&mut self, mut work: Work) -> Result<(), Refusal> {
        let active = (0_u32..).zip(&work.cohort.lanes);
        let active = active.filter(|(_, state)| **state == LaneState::Active);
        let lanes: Vec<u32> = active.map(|(lane, _)| lane).collect();
        if lanes.is_empty() {
            work.cohort.stage += 1;
            self.done.push(work);
            return Ok(());
        }
        let Some(bytes) = self.answer(&work, &lanes) else {
            self.declined += 1;
            self.run_here(work);
            return Ok(());
        };
        let asked = Asked {
            service: &work.service.clone(),
            page: work.page,
            stage: work.cohort.stage,
            lanes: lanes.len(),
            may_say: &MaySay::of(&work.service, work.page, LaneLimits::default()),
        };
        match Answer::of(asked, &bytes) {
            Ok(answer) => answer.apply(&mut work.cohort, &lanes),
            // Compiled pages have spaces in its place; made-up ones have not.
            Err(Wrong("a header has what ends its line")) => {
                self.declined += 1;
                self.run_here(work);
                return Ok(());
            }
            Err(wrong) => {
                self.wrong.push(wrong);
                self.run_here(work);
                return Ok(());
            }
        }
        self.done.push(work);
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

#[test]
fn what_comes_back_is_what_the_reference_makes() {
    // In one go, and in passes of a lane or a few.
    for (work_max, declined_max) in [(usize::MAX, 300), (500, 3000)] {
        let mut declined = 0;
        for seed in 0..150 {
            let service = make_service(seed);
            let mut wired = Wired::new(|_| ());
            wired.far = wired.far.in_passes_of(work_max);
            for lanes in [1, 2, 7, 60] {
                let limits = LaneLimits::default();
                let checked = conformance::check(&mut wired, &service, 0, lanes, seed, limits);
                assert_eq!(checked, Ok(()), "seed {seed}, {work_max}");
            }
            assert_eq!(wired.wrong, [], "seed {seed}: an honest answer is refused");
            declined += wired.declined;
        }
        assert!(declined < declined_max, "{work_max}: {declined}");
    }
}

#[test]
fn lanes_that_find_no_memory_have_it_later() {
    let (mut again, mut short) = (0, 0);
    for seed in 0..60 {
        let service = make_service(seed);
        let mut wired = Wired::new(|_| ());
        let limits = LaneLimits::default();
        let passes = conformance::check_passes(&mut wired, limits, &service, seed);
        (again, short) = (again + passes[0], short + passes[1]);
    }
    assert!(again > 0 && short > 0, "{again} {short}");
}

#[test]
fn an_answer_that_is_cut_or_has_more_is_none() {
    for seed in 0..20 {
        let service = make_service(seed);
        let mut wired = Wired::new(|_| ());
        let cohort = make_cohort(&service.pages[0], 5, &mut Dice::new(seed));
        let work = Work {
            service: service.clone(),
            page: 0,
            cohort,
            token: 0,
        };
        let active = (0_u32..).zip(&work.cohort.lanes);
        let active = active.filter(|(_, state)| **state == LaneState::Active);
        let lanes: Vec<u32> = active.map(|(lane, _)| lane).collect();
        let bytes = wired.answer(&work, &lanes);
        let mut bytes = bytes.expect("five lanes have room");
        let asked = Asked {
            service: &service,
            page: 0,
            stage: 0,
            lanes: lanes.len(),
            may_say: &MaySay::of(&service, 0, LaneLimits::default()),
        };
        let whole = Answer::of(asked, &bytes);
        assert!(whole.is_ok(), "seed {seed}: {:?}", whole.err());
        for cut in 0..bytes.len() {
            assert!(Answer::of(asked, &bytes[..cut]).is_err(), "{cut}");
        }
        bytes.push(0);
        assert!(Answer::of(asked, &bytes).is_err());
    }
}

#[test]
fn a_lie_is_refused_or_is_something_that_can_be_sent() {
    let mut believed = 0;
    for seed in 0..400 {
        let service = make_service(seed);
        let mut dice = Dice::new(seed ^ 0x11e5);
        let mut wired = Wired::new(move |bytes| {
            for _ in 0..1 + dice.below(4) {
                let at = dice.below(bytes.len());
                // Small and large numbers, and those beside what was said.
                bytes[at] = match dice.below(4) {
                    0 => 0xff,
                    1 => bytes[at].wrapping_add(1),
                    2 => bytes[at] ^ 0x80,
                    _ => dice.roll() as u8,
                };
            }
        });
        let program = &service.pages[0];
        let mut cohort = make_cohort(program, 9, &mut Dice::new(seed));
        for stage in 0..program.stages.len() {
            let work = Work {
                service: service.clone(),
                page: 0,
                cohort,
                token: 0,
            };
            wired.submit(work).expect("it takes everything");
            let mut done = Vec::new();
            wired.poll(&mut done);
            cohort = done.remove(0).cohort;
            assert_eq!(cohort.stage, stage + 1);
            for lane in 0..cohort.len() {
                if cohort.lanes[lane] == LaneState::Finished && lane < cohort.output.lanes.len() {
                    let mut body = Vec::new();
                    cohort.output.stitch(lane, &service.fragments, &mut body);
                    assert_eq!(body.len(), cohort.output.lanes[lane].body_length as usize);
                    believed += usize::from(wired.wrong.is_empty());
                }
            }
            if cohort.lanes.contains(&LaneState::Later) {
                break;
            }
            if stage < program.calls.len() {
                conformance::answer(program, &mut cohort, &mut Dice::new(seed));
            }
        }
    }
    assert!(believed > 0, "some lies are as good as any answer");
}

/// What the executor answers for a page's last stage, in bytes, and its cohort's lanes.
fn last_answer(service: &Arc<Service>, seed: u64) -> Option<(Vec<u8>, usize)> {
    let program = &service.pages[0];
    let mut cohort = make_cohort(program, 9, &mut Dice::new(seed));
    let mut wired = Wired::new(|_| ());
    loop {
        let is_last = cohort.stage + 1 == program.stages.len();
        let work = Work {
            service: service.clone(),
            page: 0,
            cohort,
            token: 0,
        };
        if is_last {
            let active = (0_u32..).zip(&work.cohort.lanes);
            let active = active.filter(|(_, state)| **state == LaneState::Active);
            let lanes: Vec<u32> = active.map(|(lane, _)| lane).collect();
            let bytes = wired.answer(&work, &lanes)?;
            return Some((bytes, lanes.len()));
        }
        wired.submit(work).expect("it takes everything");
        let mut done = Vec::new();
        wired.poll(&mut done);
        cohort = done.remove(0).cohort;
        conformance::answer(program, &mut cohort, &mut Dice::new(seed));
        if !cohort.has_active() || cohort.lanes.contains(&LaneState::Later) {
            return None;
        }
    }
}

#[test]
fn of_what_other_pages_have_a_page_says_nothing() {
    /// The only fragment of pages that are made up which is long, and another as long as it.
    const LONG: u32 = 3;
    const FOREIGN: u32 = 4;
    let (mut with_fragments, mut without_ends) = (0, 0);
    for seed in 0..60 {
        let made = make_service(seed);
        let mut fragments = made.fragments.clone();
        fragments.push(vec![b'x'; fragments[LONG as usize].len()].into());
        let service = Arc::new(Service {
            pages: made.pages.clone(),
            fragments,
            ..Service::default()
        });
        let may_say = MaySay::of(&service, 0, LaneLimits::default());
        assert!((0..LONG).all(|short| !may_say.has_fragment(short)));
        let Some((bytes, lanes)) = last_answer(&service, seed) else {
            continue;
        };
        let check = |bytes: &[u8], may_say: &MaySay| {
            let asked = Asked {
                service: &service,
                page: 0,
                stage: service.pages[0].stages.len() - 1,
                lanes,
                may_say,
            };
            Answer::of(asked, bytes).map(|_| ())
        };
        if check(&bytes, &may_say).is_err() || !bytes[..lanes].contains(&outcome::FINISHED) {
            continue;
        }
        let ends_session = service.pages[0].any_op(|op| matches!(op, Op::SessionDestroy));
        if !ends_session {
            // Behind the states, three lengths and the status.
            let mut lie = bytes.clone();
            lie[lanes + 14] = 2;
            let wrong = Wrong("a page does to sessions what it cannot");
            assert_eq!(check(&lie, &may_say), Err(wrong), "seed {seed}");
            without_ends += 1;
        }
        // Segments are last, and of each the fragment.
        let mut lie = bytes.clone();
        if lie.ends_with(&LONG.to_le_bytes()) {
            let at = lie.len() - 4;
            lie[at..].copy_from_slice(&FOREIGN.to_le_bytes());
            let wrong = Wrong("the page has no such fragment");
            assert_eq!(check(&lie, &may_say), Err(wrong), "seed {seed}");
            let limits = LaneLimits {
                body_bytes_max: 100,
                ..LaneLimits::default()
            };
            let less = MaySay::of(&service, 0, limits);
            let wrong = Wrong("a body is longer than an answer may be");
            assert_eq!(check(&bytes, &less), Err(wrong), "seed {seed}");
            with_fragments += 1;
        }
    }
    assert!(
        with_fragments > 0 && without_ends > 0,
        "{with_fragments} {without_ends}"
    );
}

#[test]
fn a_few_bytes_do_not_become_a_cohort_of_any_size() {
    let made = make_service(1);
    let mut page = made.pages[0].clone();
    let field = page.fields[0].clone();
    page.fields.resize(150, field);
    // It reads nothing, so that nothing comes of its lanes but how many they are.
    page.stages = vec![StageProgram::default()];
    let service = Service {
        pages: vec![page],
        ..Service::default()
    };
    let taken = |lanes: u32| {
        let mut bytes = Vec::new();
        [0, 0, lanes].into_iter().for_each(|it| bytes.put_u32(it));
        columns::take(&service, &bytes).map(|(_, cohort)| cohort.len())
    };
    assert_eq!(taken(1000), Ok(1000));
    let wrong = Wrong("a cohort has too many lanes for so many fields");
    assert_eq!(taken(60_000), Err(wrong));
    // Nor does a front end send such a one.
    let mut cohort = Cohort::default();
    cohort.reset(&service.pages[0]);
    for _ in 0..60_000 {
        cohort.push_lane();
    }
    let lanes: Vec<u32> = (0..60_000).collect();
    assert!(columns::are_taken(&cohort, &lanes[..1000]));
    assert!(!columns::are_taken(&cohort, &lanes));
}

#[test]
fn what_a_front_end_says_is_checked_too() {
    for seed in 0..300 {
        let service = make_service(seed);
        let program = &service.pages[0];
        let cohort = make_cohort(program, 6, &mut Dice::new(seed));
        let lanes: Vec<u32> = (0..6).collect();
        let mut bytes = Vec::new();
        let reads = Reads::of(&program.stages[0]);
        columns::put(0, &cohort, &lanes, &reads, &mut bytes);
        for cut in 0..bytes.len() {
            assert!(columns::take(&service, &bytes[..cut]).is_err(), "{cut}");
        }
        let mut dice = Dice::new(seed);
        for _ in 0..50 {
            let mut spoiled = bytes.clone();
            let at = dice.below(spoiled.len());
            spoiled[at] = dice.roll() as u8;
            if let Ok((page, cohort)) = columns::take(&service, &spoiled) {
                let work = Work {
                    service: service.clone(),
                    page,
                    cohort,
                    token: 0,
                };
                let limits = LaneLimits {
                    turns_max: 1000,
                    ..LaneLimits::default()
                };
                let mut far = HostExecutor::new(limits, Level::active());
                far.submit(work).expect("it has room");
            }
        }
    }
}
