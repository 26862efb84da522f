//! Pages under way on an executor, several at a time, each compared with the reference after every
//! stage.
#![allow(dead_code, unreachable_pub)]

use rhythm_engine::cohort::SessionChange;
use rhythm_engine::cohort::{Cohort, LaneState};
use rhythm_engine::device::conformance::{Dice, answer, asked, make_cohort};
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, LaneLimits, Refusal, Work};
use rhythm_engine::program::Service;
use rhythm_engine_cuda::executor::CudaExecutor;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A lane's answer: status, session, file, body.
type Answer = (u16, SessionChange, Option<Vec<u8>>, Vec<u8>);

/// What can be seen of a cohort.
#[derive(Debug, PartialEq)]
pub struct Seen {
    stage: usize,
    lanes: Vec<LaneState>,
    queries: Vec<(u32, Vec<u8>)>,
    headers: Vec<(u32, u16, Vec<u8>)>,
    answers: Vec<Option<Answer>>,
}

impl Seen {
    fn of(cohort: &Cohort, service: &Service, page: usize) -> Seen {
        let program = &service.pages[page];
        let text = |view| cohort.arena.get(view).to_vec();
        let answer = |(lane, state): (usize, &LaneState)| {
            (*state == LaneState::Finished).then(|| {
                let own = &cohort.output.lanes[lane];
                let mut body = Vec::new();
                cohort.output.stitch(lane, &service.fragments, &mut body);
                (own.status, own.session, own.file.map(text), body)
            })
        };
        Seen {
            stage: cohort.stage,
            lanes: cohort.lanes.clone(),
            queries: asked(program, cohort),
            headers: (cohort.output.headers.iter())
                .filter(|(lane, ..)| cohort.lanes[*lane as usize] == LaneState::Finished)
                .map(|&(lane, name, value)| (lane, name, text(value)))
                .collect(),
            answers: cohort.lanes.iter().enumerate().map(answer).collect(),
        }
    }
}

/// Answers the queries of a cohort after a stage.
type Backend = Box<dyn Fn(usize, &mut Cohort)>;

/// What a cohort is filled with, and what its backend answers after a stage.
pub struct Filling {
    pub cohort: Box<dyn Fn() -> Box<Cohort>>,
    pub answer: Backend,
}

impl Filling {
    /// Made-up lanes, as the conformance suite has them.
    pub fn made(service: &Arc<Service>, page: usize, lanes: usize, seed: u64) -> Filling {
        let (one, other) = (service.pages[page].clone(), service.pages[page].clone());
        Filling {
            cohort: Box::new(move || make_cohort(&one, lanes, &mut Dice::new(seed))),
            answer: Box::new(move |stage, cohort| {
                answer(&other, cohort, &mut Dice::new(seed ^ 77 ^ stage as u64));
            }),
        }
    }
}

/// A page under way: what its cohort must come to, stage by stage.
pub struct Flight {
    filling: Filling,
    expected: VecDeque<Seen>,
}

impl Flight {
    /// A flight and its first work. It keeps nothing of the service, which lives as long as its
    /// work does.
    pub fn new(
        service: &Arc<Service>,
        page: usize,
        filling: Filling,
        limits: LaneLimits,
        token: u64,
    ) -> (Flight, Work) {
        let mut reference = ScalarExecutor::new(limits);
        let mut expected = VecDeque::new();
        let work = |cohort| Work {
            service: Arc::clone(service),
            page,
            cohort,
            token,
        };
        let mut cohort = (filling.cohort)();
        for stage in 0..service.pages[page].stages.len() {
            reference.submit(work(cohort)).expect("it refuses nothing");
            let mut done = Vec::new();
            reference.poll(&mut done);
            cohort = done.remove(0).cohort;
            expected.push_back(Seen::of(&cohort, service, page));
            if stage < service.pages[page].calls.len() {
                (filling.answer)(stage, &mut cohort);
            }
        }
        let cohort = (filling.cohort)();
        (Flight { filling, expected }, work(cohort))
    }

    /// One with made-up lanes.
    pub fn made(
        service: &Arc<Service>,
        (page, lanes, seed): (usize, usize, u64),
        limits: LaneLimits,
        token: u64,
    ) -> (Flight, Work) {
        let filling = Filling::made(service, page, lanes, seed);
        Flight::new(service, page, filling, limits, token)
    }

    /// Compares a stage with the reference and plays the backend: the next stage's work, if there
    /// is one.
    fn next(&mut self, mut work: Work) -> Option<Work> {
        let expected = self.expected.pop_front().expect("no stage runs twice");
        assert!(
            Seen::of(&work.cohort, &work.service, work.page) == expected,
            "page {}, flight {}: differs after stage {}",
            work.program().name,
            work.token,
            expected.stage - 1
        );
        if self.expected.is_empty() {
            return None;
        }
        (self.filling.answer)(expected.stage - 1, &mut work.cohort);
        Some(work)
    }
}

/// Counts wakes, and waits for them.
#[derive(Default)]
pub struct Bell {
    rung: Mutex<u64>,
    more: Condvar,
}

impl Bell {
    /// What an executor is given.
    pub fn wake(self: &Arc<Bell>) -> Arc<dyn Fn() + Send + Sync> {
        let bell = Arc::clone(self);
        Arc::new(move || {
            *bell.rung.lock().expect("nobody panics with it") += 1;
            bell.more.notify_all();
        })
    }

    pub fn count(&self) -> u64 {
        *self.rung.lock().expect("nobody panics with it")
    }

    /// Waits until it has been rung more often than `seen` times.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn wait(&self, seen: u64) {
        let rung = self.rung.lock().expect("nobody panics with it");
        let limit = Duration::from_secs(60);
        let outcome = self
            .more
            .wait_timeout_while(rung, limit, |rung| *rung <= seen);
        let timed_out = outcome.expect("nobody panics with it").1.timed_out();
        assert!(!timed_out, "what is under way ends without a call of wake");
    }
}

/// What was seen on the way.
#[derive(Debug, Default)]
pub struct Journey {
    pub submitted: usize,
    pub refused: usize,
    pub most_in_flight: usize,
}

/// Brings flights to their ends, `slots` of them under way at a time at most, by submissions and
/// polls in an order by chance.
pub fn fly(
    executor: &mut CudaExecutor,
    bell: &Bell,
    slots: usize,
    flights: impl IntoIterator<Item = (Flight, Work)>,
    dice: &mut Dice,
) -> Journey {
    let mut flights = flights.into_iter();
    let mut waiting: Vec<Work> = Vec::new();
    let mut under_way: BTreeMap<u64, Flight> = BTreeMap::new();
    let mut on_device: Vec<u64> = Vec::new();
    let mut journey = Journey::default();
    loop {
        if waiting.len() < 3
            && let Some((flight, work)) = flights.next()
        {
            under_way.insert(work.token, flight);
            waiting.push(work);
        }
        if waiting.is_empty() && on_device.is_empty() {
            return journey;
        }
        if !waiting.is_empty() && !dice.once_in(3) {
            let work = waiting.swap_remove(dice.below(waiting.len()));
            let token = work.token;
            match executor.submit(work) {
                Ok(()) => {
                    journey.submitted += 1;
                    on_device.push(token);
                }
                Err(Refusal::Busy(back)) => {
                    assert_eq!(back.token, token);
                    assert!(
                        on_device.len() >= slots,
                        "busy with {} works",
                        on_device.len()
                    );
                    journey.refused += 1;
                    waiting.push(back);
                }
                Err(Refusal::Lost(_, why)) => panic!("a lost device is the host's: {why}"),
            }
            journey.most_in_flight = journey.most_in_flight.max(on_device.len());
        } else {
            let rung = bell.count();
            let mut done = Vec::new();
            executor.poll(&mut done);
            if done.is_empty() && waiting.is_empty() {
                bell.wait(rung);
            }
            for work in done {
                let token = work.token;
                let at = on_device.iter().position(|own| *own == token);
                on_device.swap_remove(at.expect("it comes back once"));
                let flight = under_way.get_mut(&token).expect("it is under way");
                match flight.next(work) {
                    Some(work) => waiting.push(work),
                    None => drop(under_way.remove(&token)),
                }
            }
        }
        assert_eq!(executor.in_flight(), on_device.len());
    }
}
