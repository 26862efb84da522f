//! A circuit breaker: a backend that fails again and again is left alone for a while.
//!
//! ```text
//!              failures in a row                cool-down over
//!    closed ---------------------> open ------------------------> half open
//!      ^                            ^                                 |   |
//!      |                            |  the probe failed               |   |
//!      |                            +---------------------------------+   |
//!      +------------------------------------------------------------------+
//!                               the probe was answered
//! ```
//!
//! While it is open, requests are refused at once, which costs neither them nor the backend time;
//! half open, one request is let through to see. What counts as a failure is the caller's to say.
//! The breaker reads no clock. It logs when it opens, and when it is closed again; probes that fail
//! in between are no news.

use rhythm_net::Time;
use std::time::Duration;

/// When a circuit opens and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitOptions {
    /// So many failures in a row open it; 0 is taken as 1.
    pub failures_max: u32,
    /// How long it stays open before the backend is tried again.
    pub cool_down: Duration,
}

impl Default for CircuitOptions {
    fn default() -> CircuitOptions {
        CircuitOptions {
            failures_max: 5,
            cool_down: Duration::from_secs(1),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Time },
    HalfOpen,
}

/// How a backend fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// No connection could be opened.
    Unreachable,
    /// A connection with requests on it broke.
    Lost,
    /// Requests were not answered in time.
    Late,
    /// An answer broke the protocol or a limit.
    Unreadable,
    /// It answered that it is not in order.
    Unwell,
}

impl Cause {
    /// What happened, and what to do about it, for the log.
    fn words(self) -> [&'static str; 2] {
        match self {
            Cause::Unreachable => [
                "no connection could be opened",
                "start it, or mend its address in service.toml",
            ],
            Cause::Lost => [
                "a connection broke while requests were on it",
                "see in its own log why it hangs up",
            ],
            Cause::Late => [
                "requests were not answered in time",
                "see what slows it down, or raise its `timeout` in service.toml",
            ],
            Cause::Unreadable => [
                "an answer could not be read",
                "see whether its address and `kind` in service.toml name the same",
            ],
            Cause::Unwell => [
                "it answered that it is not in order",
                "see in its own log what it lacks",
            ],
        }
    }
}

/// A circuit breaker.
#[derive(Debug)]
pub(super) struct Circuit {
    /// The backend's name.
    name: Box<str>,
    options: CircuitOptions,
    state: State,
}

impl Circuit {
    pub(super) fn new(name: &str, options: CircuitOptions) -> Circuit {
        Circuit {
            name: name.into(),
            options,
            state: State::Closed { failures: 0 },
        }
    }

    /// Whether a request may go. The one that is let through after the cool-down is the probe:
    /// whoever got this `true` sees to it that [`Circuit::succeeded`] or [`Circuit::failed`]
    /// follows.
    pub(super) fn admit(&mut self, now: Time) -> bool {
        match self.state {
            State::Closed { .. } => true,
            State::Open { until } if now >= until => {
                self.state = State::HalfOpen;
                true
            }
            State::Open { .. } | State::HalfOpen => false,
        }
    }

    /// The backend answered.
    pub(super) fn succeeded(&mut self) {
        match self.state {
            State::Closed { .. } => self.state = State::Closed { failures: 0 },
            State::HalfOpen => {
                self.state = State::Closed { failures: 0 };
                tracing::info!(backend = %self.name, "the backend answers again");
            }
            // An answer to a request from before: the cool-down stands.
            State::Open { .. } => {}
        }
    }

    /// The backend failed.
    pub(super) fn failed(&mut self, cause: Cause, now: Time) {
        let (failures, is_news) = match self.state {
            State::Closed { failures } => (failures + 1, true),
            State::HalfOpen => (u32::MAX, false),
            State::Open { .. } => return,
        };
        if failures < self.options.failures_max {
            self.state = State::Closed { failures };
            return;
        }
        self.state = State::Open {
            until: now + self.options.cool_down,
        };
        if is_news {
            let [cause, cure] = cause.words();
            tracing::warn!(
                backend = %self.name,
                failures,
                cause,
                cure,
                "the backend fails: its requests are answered 503, but for a try every {:?}",
                self.options.cool_down,
            );
        }
    }

    /// Is it open: is nothing to be sent?
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Is it anything but closed: are requests, all or all but the probe, refused?
    pub(super) fn refuses(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn circuit() -> Circuit {
        Circuit::new(
            "bank",
            CircuitOptions {
                failures_max: 3,
                cool_down: Duration::from_millis(100),
            },
        )
    }

    #[test]
    fn only_failures_in_a_row_open_it() {
        let mut circuit = circuit();
        for _ in 0..5 {
            circuit.failed(Cause::Lost, at(0));
            circuit.failed(Cause::Lost, at(0));
            circuit.succeeded();
        }
        assert!(circuit.admit(at(0)) && !circuit.refuses());
        for _ in 0..3 {
            assert!(!circuit.is_open());
            circuit.failed(Cause::Lost, at(1));
        }
        assert!(circuit.is_open() && !circuit.admit(at(1)));
    }

    #[test]
    fn one_probe_decides() {
        let mut circuit = circuit();
        (0..3).for_each(|_| circuit.failed(Cause::Lost, at(0)));
        circuit.succeeded();
        circuit.failed(Cause::Lost, at(50));
        assert!(!circuit.admit(at(99)));
        assert!(circuit.admit(at(100)));
        assert!(!circuit.admit(at(100)) && circuit.refuses() && !circuit.is_open());
        circuit.failed(Cause::Lost, at(110));
        assert!(circuit.is_open() && !circuit.admit(at(209)));
        assert!(circuit.admit(at(210)));
        circuit.succeeded();
        assert!(!circuit.refuses() && circuit.admit(at(210)) && circuit.admit(at(210)));
        // The count starts anew.
        circuit.failed(Cause::Lost, at(211));
        assert!(circuit.admit(at(211)));
    }

    #[test]
    fn a_limit_of_none_is_one() {
        let mut circuit = Circuit::new(
            "bank",
            CircuitOptions {
                failures_max: 0,
                cool_down: Duration::ZERO,
            },
        );
        assert!(circuit.admit(at(0)));
        circuit.failed(Cause::Lost, at(0));
        assert!(circuit.is_open());
        assert!(circuit.admit(at(0)));
    }
}
