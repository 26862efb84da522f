//! A circuit breaker: a backend that fails is left alone for a while.
//!
//! ```text
//!              no connection, or most               cool-down over
//!              calls fail over a window
//!    closed ----------------------------> open ---------------------> half open
//!      ^                                   ^                            |   |
//!      |                                   |   no connection            |   |
//!      |                                   +----------------------------+   |
//!      +--------------------------------------------------------------------+
//!                       trials went well, each round of them twice as many
//! ```
//!
//! While it is open, queries are refused at once, which costs neither them nor the backend time;
//! half open, some are let through to see, shared out by who asks and by what is asked
//! (`trials.rs`): so many in each round, which lasts as long as the circuit stays open otherwise.
//! Trials that fail end no round, since those of a call that always fails come first where it is
//! asked for most, and the others are to have theirs. Two things open it: connections that cannot
//! be opened, so many in a row while none stands; and calls that fail, where that is the backend's
//! and nobody else's doing. Hence failures are counted by who asked and by what was asked, each in
//! a table of fixed size: one user whose every call fails, or one statement that is wrong, is one
//! slot among those that are answered well, however often it is tried. Counts are halved as time
//! passes. Where calls that fail open it, those that are answered well go on as before
//! (`spared.rs`): two of three that fail are no reason to refuse the third.
//!
//! Where nobody asks, nothing is tried: the pool opens a connection itself then, if that is what
//! could not be done, and one that stands closes the circuit. After failures of calls nothing but
//! calls tells: where several windows have passed since, the circuit is no news any more, and a
//! round of as many as the last is let through at once.
//!
//! The breaker reads no clock. It logs when it opens, and when it is closed again, once for those
//! of all workers (`news.rs`); trials that fail in between are no news.

mod news;
mod outcomes;
mod spared;
#[cfg(test)]
mod tests;
mod trials;

use super::super::asked::CallNumber;
use super::super::awaited::Taken;
use super::super::failure::Cause;
use news::Failing;
pub(super) use news::Named;
use outcomes::Outcomes;
use rhythm_net::Time;
use spared::Spared;
use std::io::ErrorKind;
use std::time::Duration;
use trials::Trials;

/// When a circuit opens and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitOptions {
    /// So many attempts at a connection that fail in a row, while none stands, open it; 0 is taken
    /// as 1.
    pub unreachable_max: u32,
    /// Calls that fail open it if they are so many within a window, and most.
    pub failures_min: u32,
    /// The window: outcomes count half after this time.
    pub window: Duration,
    /// How long it stays open before the backend is tried again.
    pub cool_down: Duration,
}

impl Default for CircuitOptions {
    fn default() -> CircuitOptions {
        CircuitOptions {
            unreachable_max: 5,
            failures_min: 20,
            window: Duration::from_secs(5),
            cool_down: Duration::from_secs(1),
        }
    }
}

/// After so many windows without a failure it is not known any more that the backend fails.
const CALM: u32 = 4;

#[derive(Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open {
        until: Time,
        /// No connection could be opened.
        is_unreachable: bool,
    },
    HalfOpen(Box<Trials>),
}

/// A circuit breaker.
#[derive(Debug)]
pub(super) struct Circuit {
    /// Whose it is.
    named: Named,
    options: CircuitOptions,
    state: State,
    /// Nobody has asked since, and that was long ago.
    is_calm: bool,
    /// While it is anything but closed.
    failing: Option<Failing>,
    outcomes: Outcomes,
    /// Calls that it lets through, whatever it is.
    spared: Spared,
    /// Attempts at a connection that failed, since one was opened.
    unreachable: u32,
}

impl Circuit {
    pub(super) fn new(name: &str, options: CircuitOptions) -> Circuit {
        Circuit {
            named: Named {
                service: None,
                backend: name.into(),
            },
            options,
            state: State::Closed,
            is_calm: false,
            failing: None,
            outcomes: Outcomes::none(Time::ZERO),
            spared: Spared::none(),
            unreachable: 0,
        }
    }

    /// The backend is that of the service of this label.
    pub(super) fn belongs_to(&mut self, service: &str) {
        self.named.service = Some(service.into());
    }

    /// Whose it is.
    pub(super) fn named(&self) -> &Named {
        &self.named
    }

    /// Whether a query of this one, by this call, may go. After the cool-down some may, as trials.
    pub(super) fn admit(&mut self, asker: u64, call: CallNumber, now: Time) -> bool {
        if self.spared.has(call) {
            return true;
        }
        let calm = CALM * self.options.window;
        match &self.state {
            State::Closed => return true,
            State::Open { until, .. } if now < *until => return false,
            State::HalfOpen(trials) if now < trials.until => {}
            State::Open { until, .. } if now >= *until + calm => self.begin_calm(now),
            State::HalfOpen(trials) if now >= trials.until + calm => self.begin_calm(now),
            State::Open { .. } => self.begin(Trials::first(now + self.options.cool_down), now),
            State::HalfOpen(trials) => match trials.are_well(&self.outcomes) {
                true => self.round_over(now),
                false => self.begin(trials.again(now + self.options.cool_down), now),
            },
        }
        match &mut self.state {
            State::HalfOpen(trials) => trials.admit(asker, call),
            _ => true,
        }
    }

    /// Begins a round of trials when nothing was tried for long.
    fn begin_calm(&mut self, now: Time) {
        self.begin(Trials::calm(now + self.options.cool_down), now);
    }

    /// Begins a round of trials.
    fn begin(&mut self, trials: Trials, now: Time) {
        self.outcomes = Outcomes::none(now + self.options.window);
        self.state = State::HalfOpen(Box::new(trials));
        self.is_calm = false;
    }

    /// A round of trials went well: begins the next, or closes the circuit.
    fn round_over(&mut self, now: Time) {
        if let State::HalfOpen(trials) = &self.state
            && let Some(next) = trials.next(now + self.options.cool_down)
        {
            return self.begin(next, now);
        }
        self.close();
    }

    fn close(&mut self) {
        // What the last trials told counts: of the calls that fail more come at once.
        self.state = State::Closed;
        self.spared = Spared::none();
        if self.failing.take().is_some_and(Failing::end) {
            let Named { service, backend } = &self.named;
            let service = service.as_deref();
            tracing::info!(service, backend = &**backend, "the backend answers again");
        }
    }

    /// A connection was opened, and is asked something.
    pub(super) fn reached(&mut self) {
        self.unreachable = 0;
    }

    /// No connection could be opened, and none stands.
    pub(super) fn unreachable(&mut self, why: ErrorKind, now: Time) {
        self.unreachable = self.unreachable.saturating_add(1);
        let is_trial = match self.state {
            State::Closed => false,
            State::Open { is_unreachable, .. } => is_unreachable,
            State::HalfOpen(_) => true,
        };
        if is_trial || self.unreachable >= self.options.unreachable_max {
            self.open(Cause::Unreachable(why), now);
        }
    }

    /// A query was answered by a backend in order, whatever the answer.
    pub(super) fn succeeded(&mut self, query: &Taken, now: Time) {
        // An answer to a query from before tells nothing either: the cool-down stands.
        if self.spared.count(query, true, self.options.window, now) || self.is_open() {
            return;
        }
        self.outcomes.count(query, true, self.options.window, now);
        if let State::HalfOpen(trials) = &mut self.state
            && trials.succeeded(query)
        {
            self.round_over(now);
        }
    }

    /// A query failed.
    pub(super) fn failed(&mut self, query: &Taken, cause: Cause, now: Time) {
        if self.spared.count(query, false, self.options.window, now) || self.is_open() {
            return;
        }
        self.outcomes.count(query, false, self.options.window, now);
        let is_closed = self.state == State::Closed;
        if is_closed && self.outcomes.are_bad(self.options.failures_min) {
            self.open(cause, now);
        }
    }

    fn open(&mut self, cause: Cause, now: Time) {
        let is_unreachable = matches!(cause, Cause::Unreachable(_));
        self.state = State::Open {
            until: now + self.options.cool_down,
            is_unreachable,
        };
        self.spared = match is_unreachable {
            true => Spared::none(),
            false => Spared::of(&self.outcomes, now + self.options.window),
        };
        self.is_calm = false;
        if self.failing.is_some() {
            return;
        }
        let (failing, is_first) = Failing::begin(&self.named);
        self.failing = Some(failing);
        if is_first {
            let Named { service, backend } = &self.named;
            let (service, backend) = (service.as_deref(), &**backend);
            let (cause, cure) = (cause.to_string(), cause.cure());
            let every = self.options.cool_down;
            match self.spared.is_any() {
                false => tracing::warn!(
                    service,
                    backend,
                    cause,
                    cure,
                    "the backend fails: its requests are answered 503, but for some tries every \
                     {every:?}"
                ),
                true => tracing::warn!(
                    service,
                    backend,
                    cause,
                    cure,
                    "most calls of the backend fail: they are answered 503, but for some tries \
                     every {every:?}; those that it answers go on"
                ),
            }
        }
    }

    /// Whether a query by this call is refused, whoever asks.
    pub(super) fn refuses_all(&self, call: CallNumber) -> bool {
        self.is_open() && !self.spared.has(call)
    }

    /// When a connection is to be opened to see whether one can be, as nobody has asked since the
    /// cool-down was over, by which that would be seen.
    pub(super) fn probe_at(&self) -> Option<Time> {
        match self.state {
            State::Open {
                until,
                is_unreachable: true,
                ..
            } => Some(until + self.options.cool_down),
            _ => None,
        }
    }

    /// A connection has been opened without anybody's asking, and stands.
    pub(super) fn stands(&mut self) {
        self.unreachable = 0;
        self.outcomes = Outcomes::none(Time::ZERO);
        self.close();
    }

    /// When nothing will be known of it any more, if nobody asks.
    pub(super) fn calm_at(&self) -> Option<Time> {
        let since = match &self.state {
            State::Open {
                until,
                is_unreachable: false,
            } => *until,
            State::HalfOpen(trials) if trials.none_is_well(&self.outcomes) => trials.until,
            _ => return None,
        };
        (!self.is_calm).then(|| since + CALM * self.options.window)
    }

    /// That time has come.
    pub(super) fn is_calm(&mut self) {
        self.is_calm = true;
    }

    /// Is it open: is nothing to be sent, but what is [spared](Circuit::refuses_all)?
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Does the backend fail, by what is known: has no trial gone well since it was opened? Where
    /// few ask, trials take a while to close it, and the backend is well long before.
    pub(super) fn fails(&self) -> bool {
        match &self.state {
            State::Closed => false,
            State::Open { .. } => !self.is_calm,
            State::HalfOpen(trials) => !self.is_calm && trials.none_is_well(&self.outcomes),
        }
    }

    /// Are there calls that the backend answers, and that are let through, while it fails?
    pub(super) fn spares_some(&self) -> bool {
        self.fails() && self.spared.is_any()
    }

    /// Is it anything but closed: are queries, all or all but trials, refused?
    #[cfg(test)]
    pub(super) fn refuses(&self) -> bool {
        self.state != State::Closed
    }
}
