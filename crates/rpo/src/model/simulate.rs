//! A run: time goes from event to event.
//!
//! ```text
//! session ──asks──▶ fixed part ──▶ processors ──(heavy)──▶ lock ──▶ answered ──pause──▶ asks ...
//! ```

use super::ModelError;
use super::oracle::Oracle;
use super::outcome::{Outcome, Second};
use super::params::Params;
use super::server::{RequestId, Server};
use super::workload::{Asked, Session, Sessions, Workload};
use crate::policy::{Event, LOOK, Load, Policy};
use crate::{ClassId, Setting};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Frequency of the processors.
    pub ghz: f64,
    /// What is asked.
    pub workload: Workload,
    /// The seed of what is asked.
    pub seed: u64,
    /// How long it runs.
    pub length: Length,
    /// Whether each second is kept, for a figure.
    pub each_second: bool,
}

/// How long a run is, and what of it is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// Seconds in all, and those at the beginning that are left out.
    Seconds {
        /// In all.
        all: f64,
        /// Left out.
        warm_up: f64,
    },
    /// Times through the list of sessions, and those at the beginning that are left out.
    Cycles {
        /// In all.
        all: usize,
        /// Left out.
        warm_up: usize,
    },
}

/// Who chooses the setting.
pub enum Chooser<'a> {
    /// A policy.
    Policy(&'a mut dyn Policy),
    /// Who sees into the server.
    Oracle(Oracle),
}

/// Runs it.
///
/// # Errors
///
/// Where the parameters have no such mix.
pub fn run(params: &Params, run: &Run, chooser: Chooser<'_>) -> Result<Outcome, ModelError> {
    let sessions = Sessions::new(params, &run.workload, run.seed)?;
    let mut model = Model {
        now: 0.0,
        server: Server::new(params, Setting::AllThreads),
        sessions,
        ghz: run.ghz,
        fixed: params.server.fixed_ms / 1e3,
        switch: params.server.switch_ms / 1e3,
        clients: params.server.clients,
        cores: f64::from(params.server.cores),
        calendar: BinaryHeap::new(),
        events: 0,
        requests: Slots::default(),
        asking: Slots::default(),
        admitted: 0,
        backlog: VecDeque::new(),
        switching: false,
        busy: 0.0,
        chooser,
        wanted_wake: None,
        scoring: None,
        outcome: Outcome::default(),
        second: Second::default(),
        each_second: run.each_second,
    };
    model.go(run.length);
    Ok(model.outcome)
}

/// What happens at a time that was set before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Planned {
    Begins,
    Asks(u32),
    Reaches(RequestId),
    Resumes(u8),
    Loads,
    Wakes,
    Second,
}

#[derive(Clone, Copy)]
struct Request {
    session: u32,
    class: ClassId,
    kind: usize,
    asked: f64,
    /// In seconds at the frequency: outside the lock, and under it.
    work: [f64; 2],
    under_lock: bool,
}

struct Model<'a> {
    now: f64,
    server: Server,
    sessions: Sessions,
    ghz: f64,
    fixed: f64,
    switch: f64,
    clients: usize,
    cores: f64,
    /// Times are not negative, so the order of their bits is theirs.
    calendar: BinaryHeap<Reverse<(u64, u64, Planned)>>,
    events: u64,
    requests: Slots<Request>,
    asking: Slots<Session>,
    admitted: usize,
    backlog: VecDeque<RequestId>,
    switching: bool,
    /// Busy share of the processors, times seconds, since the last look.
    busy: f64,
    chooser: Chooser<'a>,
    wanted_wake: Option<Duration>,
    scoring: Option<f64>,
    outcome: Outcome,
    second: Second,
    each_second: bool,
}

impl Model<'_> {
    fn go(&mut self, length: Length) {
        self.plan(0.0, Planned::Begins);
        self.plan(LOOK.as_secs_f64(), Planned::Loads);
        if self.each_second {
            self.plan(1.0, Planned::Second);
        }
        loop {
            let (over, warm) = match length {
                Length::Seconds { all, warm_up } => (self.now >= all, self.now >= warm_up),
                Length::Cycles { all, warm_up } => (
                    self.sessions.cycles() >= all,
                    self.sessions.cycles() >= warm_up,
                ),
            };
            if over {
                break;
            }
            if warm && self.scoring.is_none() {
                self.scoring = Some(self.now);
            }
            self.step();
        }
        self.outcome.finish();
        if let Chooser::Policy(policy) = &self.chooser {
            self.outcome.batches = policy.batches().copied();
        }
    }

    fn step(&mut self) {
        let planned = self
            .calendar
            .peek()
            .map(|first| f64::from_bits(first.0.0) - self.now);
        let planned = planned.unwrap_or(f64::INFINITY).max(0.0);
        let by_itself = self.server.next().filter(|(after, _)| *after <= planned);
        let after = by_itself.map_or(planned, |(after, _)| after);
        if self.scoring.is_some() {
            let setting = self.server.setting();
            self.outcome
                .passed(after, setting, self.server.utilization());
        }
        if let Chooser::Oracle(oracle) = &mut self.chooser {
            oracle.pass(after, &self.server);
        }
        self.busy += after * self.server.utilization();
        self.server.pass(after);
        match by_itself {
            Some((_, next)) => {
                self.now += after;
                if let Some(request) = self.server.take(next) {
                    self.done(request);
                }
            }
            None => {
                if let Some(Reverse((at, _, planned))) = self.calendar.pop() {
                    self.now = f64::from_bits(at);
                    self.happens(planned);
                }
            }
        }
        if let Chooser::Oracle(oracle) = &mut self.chooser
            && !self.switching
            && let Some(setting) = oracle.choose(&self.server, self.switch)
        {
            self.switch_to(setting);
        }
    }

    fn plan(&mut self, after: f64, what: Planned) {
        self.events += 1;
        self.calendar
            .push(Reverse(((self.now + after).to_bits(), self.events, what)));
    }

    fn happens(&mut self, planned: Planned) {
        match planned {
            Planned::Begins => {
                let (session, after) = self.sessions.begin();
                self.plan(after, Planned::Begins);
                let session = self.asking.put(session);
                self.asks(session);
            }
            Planned::Asks(session) => self.asks(session),
            Planned::Reaches(request) => self.reaches(request),
            Planned::Resumes(setting) => {
                self.switching = false;
                self.server.stall(false);
                let setting = Setting::ALL[usize::from(setting)];
                let took = Duration::from_secs_f64(self.switch);
                self.tell(&Event::Switched { setting, took });
            }
            Planned::Loads => {
                let look = LOOK.as_secs_f64();
                self.plan(look, Planned::Loads);
                // As the controller sees it: what runs at a moment, and what was busy since the
                // last one.
                let load = Load {
                    running: self.server.running() as f64,
                    cores: self.cores,
                    utilization: std::mem::take(&mut self.busy) / look,
                };
                self.tell(&Event::Load(load));
            }
            Planned::Wakes => {
                self.wanted_wake = None;
                self.tell(&Event::Woke);
            }
            Planned::Second => {
                self.plan(1.0, Planned::Second);
                self.second.at_lock = self.server.at_lock();
                self.second.threads = 2 - self.server.setting().index() as u8;
                let second = std::mem::take(&mut self.second);
                if self.scoring.is_some() {
                    self.outcome.seconds_seen.push(second);
                }
            }
        }
    }

    fn asks(&mut self, session: u32) {
        let Asked { class, kind, work } = self.sessions.ask(self.asking.get(session));
        let request = self.requests.put(Request {
            session,
            class,
            kind,
            asked: self.now,
            work: work.map(|demand| demand / self.ghz),
            under_lock: false,
        });
        self.plan(self.fixed, Planned::Reaches(request));
        self.tell(&Event::Arrived(class));
    }

    /// The request comes to the server, which takes only so many.
    fn reaches(&mut self, request: RequestId) {
        if self.admitted >= self.clients {
            self.outcome.unstable |= self.scoring.is_some();
            self.backlog.push_back(request);
        } else {
            self.admitted += 1;
            if self.scoring.is_some() {
                self.outcome.most = self.outcome.most.max(self.admitted);
            }
            let Request { kind, work, .. } = *self.requests.get(request);
            self.server.run(request, kind, work[0]);
        }
    }

    /// The request has done its work, outside the lock or under it.
    fn done(&mut self, id: RequestId) {
        let request = self.requests.get(id);
        if request.work[1] > 0.0 && !request.under_lock {
            request.under_lock = true;
            let work = request.work[1];
            self.server.lock(id, work);
            if self.scoring.is_some() {
                let at_lock = self.server.at_lock();
                self.outcome.most_at_lock = self.outcome.most_at_lock.max(at_lock);
            }
            return;
        }
        let request = *request;
        self.requests.free(id);
        self.admitted -= 1;
        if let Some(waiting) = self.backlog.pop_front() {
            self.reaches(waiting);
        }
        let took = self.now - request.asked;
        if let Some(since) = self.scoring {
            self.outcome.answered(self.now - since, took);
        }
        self.second.completed += 1;
        self.second.response_sum += took;
        match self.sessions.pause(self.asking.get(request.session)) {
            Some(pause) => self.plan(pause, Planned::Asks(request.session)),
            None => self.asking.free(request.session),
        }
        let took = Duration::from_secs_f64(took);
        self.tell(&Event::Completed {
            class: request.class,
            took,
            ok: true,
        });
    }

    fn tell(&mut self, event: &Event) {
        let now = Duration::from_secs_f64(self.now);
        let Chooser::Policy(policy) = &mut self.chooser else {
            return;
        };
        let decision = policy.on(event, now);
        let wake = policy.wake_at();
        if wake != self.wanted_wake
            && let Some(at) = wake
        {
            self.plan((at.as_secs_f64() - self.now).max(0.0), Planned::Wakes);
        }
        self.wanted_wake = wake;
        if let Some(decision) = decision {
            self.switch_to(decision.setting);
        }
    }

    fn switch_to(&mut self, setting: Setting) {
        if setting == self.server.setting() || self.switching {
            return;
        }
        if self.scoring.is_some() {
            self.outcome.switches += 1;
        }
        self.switching = true;
        self.server.set(setting);
        self.server.stall(true);
        self.plan(self.switch, Planned::Resumes(setting.index() as u8));
    }
}

/// Things by number, whose numbers are used again.
struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    fn put(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(value);
            return index;
        }
        self.slots.push(Some(value));
        (self.slots.len() - 1) as u32
    }

    fn get(&mut self, index: u32) -> &mut T {
        self.slots[index as usize]
            .as_mut()
            .expect("a number is used until it is freed")
    }

    fn free(&mut self, index: u32) {
        self.slots[index as usize] = None;
        self.free.push(index);
    }
}
