//! The processors and the lock of the simulated server (facts of the paper's section II).
//!
//! Running requests share the cores. Without SMT, n of them run at min(1, c/n) each. With it, one
//! alone on a core runs at `alone` of that speed and two on a core at `pair` together; below
//! saturation some meet on a core by chance although another core is free. Heavy work ends in a
//! section under one lock, whose holder is slowed by those that wait for it (the contention at the
//! database of section II-C).
//!
//! All requests of a kind run at the same speed, so each kind has a clock that runs at that speed
//! and a request is due at a value of its clock: a change of speed costs nothing a request.

use super::params::{Kind, Params};
use crate::Setting;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A number of a request.
pub(super) type RequestId = u32;

/// Light and heavy, as indices.
pub(super) const LIGHT: usize = 0;
pub(super) const HEAVY: usize = 1;

/// What comes next by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// A request has done its work outside the lock.
    Ran(RequestId),
    /// The lock's holder has done its work.
    Released,
}

/// What the processors and the lock do.
pub(super) struct Server {
    cores: f64,
    pairing: f64,
    lock_slowing: [f64; 2],
    kinds: [Kind; 2],
    setting: Setting,
    stalled: bool,
    clocks: [Clock; 2],
    lock: Lock,
}

#[derive(Default)]
struct Clock {
    value: f64,
    speed: f64,
    /// Values are not negative, so the order of their bits is theirs.
    due: BinaryHeap<Reverse<(u64, RequestId)>>,
}

#[derive(Default)]
struct Lock {
    holder: Option<(RequestId, f64)>,
    waiting: VecDeque<(RequestId, f64)>,
    speed: f64,
}

/// How fast each request of a kind runs in a setting while `running` run.
pub(super) fn speed(
    kind: &Kind,
    setting: Setting,
    running: usize,
    cores: f64,
    pairing: f64,
) -> f64 {
    let n = running as f64;
    match setting {
        Setting::OnePerCore => (cores / n).min(1.0),
        Setting::AllThreads if n >= 2.0 * cores => cores * kind.pair / n,
        Setting::AllThreads => {
            let by_chance = pairing * (n - 1.0) / (2.0 * cores - 1.0);
            let at_least = 2.0 * (n - cores) / n;
            let paired = by_chance.max(at_least).max(0.0);
            (1.0 - paired) * kind.alone + paired * kind.pair / 2.0
        }
    }
}

impl Server {
    pub(super) fn new(params: &Params, setting: Setting) -> Server {
        Server {
            cores: f64::from(params.server.cores),
            pairing: params.server.pairing,
            lock_slowing: params.server.lock_slowing,
            kinds: [params.kinds.light.clone(), params.kinds.heavy.clone()],
            setting,
            stalled: false,
            clocks: [Clock::default(), Clock::default()],
            lock: Lock::default(),
        }
    }

    pub(super) fn setting(&self) -> Setting {
        self.setting
    }

    pub(super) fn set(&mut self, setting: Setting) {
        self.setting = setting;
        self.changed();
    }

    /// Nothing runs while it is stalled.
    pub(super) fn stall(&mut self, stalled: bool) {
        self.stalled = stalled;
        self.changed();
    }

    /// How many run now, the lock's holder among them.
    pub(super) fn running(&self) -> usize {
        self.clocks
            .iter()
            .map(|clock| clock.due.len())
            .sum::<usize>()
            + usize::from(self.lock.holder.is_some())
    }

    /// How many hold the lock or wait for it.
    pub(super) fn at_lock(&self) -> usize {
        self.lock.waiting.len() + usize::from(self.lock.holder.is_some())
    }

    /// Share of the processors of the setting that are busy.
    pub(super) fn utilization(&self) -> f64 {
        let processors = match self.setting {
            Setting::AllThreads => 2.0 * self.cores,
            Setting::OnePerCore => self.cores,
        };
        (self.running() as f64 / processors).min(1.0)
    }

    /// The progress of all requests in a second, each against running alone without SMT, in
    /// either setting: what an oracle would compare.
    pub(super) fn progress(&self, setting: Setting) -> f64 {
        let running = self.running();
        let speed = |kind: usize| {
            speed(
                &self.kinds[kind],
                setting,
                running,
                self.cores,
                self.pairing,
            )
        };
        let outside: f64 = (0..2)
            .map(|kind| self.clocks[kind].due.len() as f64 * speed(kind))
            .sum();
        // Those that wait for the lock go on as fast as its holder does.
        outside + self.at_lock() as f64 * speed(HEAVY) * self.lock_factor(setting)
    }

    fn lock_factor(&self, setting: Setting) -> f64 {
        let waiting = self.lock.waiting.len() as f64;
        1.0 / (1.0 + self.lock_slowing[setting.index()] * waiting)
    }

    /// Work outside the lock.
    pub(super) fn run(&mut self, request: RequestId, kind: usize, work: f64) {
        let clock = &mut self.clocks[kind];
        if clock.due.is_empty() {
            clock.value = 0.0;
        }
        clock
            .due
            .push(Reverse(((clock.value + work).to_bits(), request)));
        self.changed();
    }

    /// Work under the lock.
    pub(super) fn lock(&mut self, request: RequestId, work: f64) {
        if self.lock.holder.is_none() {
            self.lock.holder = Some((request, work));
        } else {
            self.lock.waiting.push_back((request, work));
        }
        self.changed();
    }

    /// What happens next by itself, and in how long.
    pub(super) fn next(&self) -> Option<(f64, Next)> {
        if self.stalled {
            return None;
        }
        let mut next: Option<(f64, Next)> = None;
        let mut offer = |after: f64, what: Next| {
            if next.is_none_or(|(earliest, _)| after < earliest) {
                next = Some((after, what));
            }
        };
        for clock in &self.clocks {
            if let Some(Reverse((due, request))) = clock.due.peek() {
                let left = (f64::from_bits(*due) - clock.value).max(0.0);
                offer(left / clock.speed, Next::Ran(*request));
            }
        }
        if let Some((_, left)) = self.lock.holder {
            offer(left.max(0.0) / self.lock.speed, Next::Released);
        }
        next
    }

    /// Lets time pass, no further than to what comes next.
    pub(super) fn pass(&mut self, seconds: f64) {
        if self.stalled {
            return;
        }
        for clock in &mut self.clocks {
            clock.value += seconds * clock.speed;
        }
        if let Some((_, left)) = &mut self.lock.holder {
            *left -= seconds * self.lock.speed;
        }
    }

    /// Takes what has come: the request that is done with it.
    pub(super) fn take(&mut self, next: Next) -> Option<RequestId> {
        let request = match next {
            Next::Ran(request) => {
                let first = |clock: &Clock| clock.due.peek().is_some_and(|due| due.0.1 == request);
                let clock = self.clocks.iter_mut().find(|clock| first(clock))?;
                clock.due.pop().map(|due| due.0.1)
            }
            Next::Released => {
                let holder = self.lock.holder.take();
                self.lock.holder = self.lock.waiting.pop_front();
                holder.map(|(request, _)| request)
            }
        };
        self.changed();
        request
    }

    fn changed(&mut self) {
        let running = self.running().max(1);
        for (clock, kind) in self.clocks.iter_mut().zip(&self.kinds) {
            clock.speed = speed(kind, self.setting, running, self.cores, self.pairing);
        }
        self.lock.speed = self.clocks[HEAVY].speed * self.lock_factor(self.setting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(setting: Setting) -> Server {
        Server::new(&params(), setting)
    }

    /// The paper's, with round numbers.
    fn params() -> Params {
        let mut params = Params::paper().expect("params/paper.toml");
        (params.server.pairing, params.server.lock_slowing) = (0.3, [0.01, 0.001]);
        for kind in [&mut params.kinds.light, &mut params.kinds.heavy] {
            (kind.alone, kind.pair) = (0.8, 1.2);
        }
        params
    }

    #[test]
    fn smt_slows_few_and_speeds_up_many() {
        let params = params();
        let speed = |setting, running| speed(&params.kinds.light, setting, running, 4.0, 0.3);
        assert!((speed(Setting::AllThreads, 1) - 0.8).abs() < 1e-12);
        assert!((speed(Setting::OnePerCore, 4) - 1.0).abs() < 1e-12);
        for few in 1..=5 {
            assert!(
                speed(Setting::AllThreads, few) < speed(Setting::OnePerCore, few),
                "{few}"
            );
        }
        for many in 7..40 {
            assert!(
                speed(Setting::AllThreads, many) > speed(Setting::OnePerCore, many),
                "{many}"
            );
        }
        // No jump where all threads are used up.
        assert!((speed(Setting::AllThreads, 8) - 4.0 * 1.2 / 8.0).abs() < 1e-12);
    }

    #[test]
    fn requests_share_the_cores_and_leave_in_the_order_of_their_work() {
        let mut server = server(Setting::OnePerCore);
        for request in 0..8 {
            server.run(request, LIGHT, 1.0 + f64::from(request));
        }
        let (after, next) = server.next().expect("eight run");
        assert_eq!(next, Next::Ran(0));
        assert!((after - 2.0).abs() < 1e-9, "half a core each: {after}");
        server.pass(after);
        assert_eq!(server.take(next), Some(0));
        assert_eq!(server.running(), 7);
    }

    #[test]
    fn the_lock_is_held_by_one_and_slowed_by_those_that_wait() {
        let mut server = server(Setting::AllThreads);
        for request in 0..101 {
            server.lock(request, 1.0);
        }
        assert_eq!((server.running(), server.at_lock()), (1, 101));
        let (after, next) = server.next().expect("one holds it");
        assert!((after - 2.0 / 0.8).abs() < 1e-9, "{after}");
        server.pass(after);
        assert_eq!(server.take(next), Some(0));
        assert_eq!(server.at_lock(), 100);
    }

    #[test]
    fn nothing_runs_while_it_is_stalled() {
        let mut server = server(Setting::AllThreads);
        server.run(1, LIGHT, 1.0);
        server.stall(true);
        assert_eq!(server.next(), None);
        server.pass(5.0);
        server.stall(false);
        let (after, _) = server.next().expect("one runs");
        assert!((after - 1.0 / 0.8).abs() < 1e-9, "{after}");
    }
}
