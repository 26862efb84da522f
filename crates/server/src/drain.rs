//! How a server ends: what is under way is finished, and nobody's request is lost on the way.
//!
//! ```text
//!   told     accept_until            idle_until                                   until
//!    |------------|----------------------|------------------------------------------|
//!    | not ready  | no more clients;     | connections that are owed no answer are  | whatever
//!    |            | each answer is its   | closed; what is under way is finished    | is left is
//!    |            | connection's last    |                                          | dropped
//! ```
//!
//! It is over as soon as no connection is left. Told a second time, the first two times are now;
//! told a third time, all are.

use rhythm_net::Time;
use std::time::Duration;

/// How long its log and spans are waited for: less than is left of the time after which a process
/// that does not end is ended.
pub(crate) const FINISH_MAX: Duration = Duration::from_secs(2);

/// How long each part of it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainOptions {
    /// For so long clients are still let in, so that balancers can move away first.
    pub delay: Duration,
    /// After that, connections that are owed no answer may still ask for so long.
    pub grace: Duration,
    /// The longest that all of it takes.
    pub timeout: Duration,
}

/// When each part of it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Until then clients are let in, as ever.
    pub accept_until: Time,
    /// Until then connections that are owed no answer may ask.
    pub idle_until: Time,
    /// Then it ends, whatever is left.
    pub until: Time,
    is_hastened: bool,
}

impl Drain {
    /// One that begins now.
    pub fn begin(options: DrainOptions, now: Time) -> Drain {
        let until = now + options.timeout;
        let accept_until = until.min(now + options.delay);
        Drain {
            accept_until,
            idle_until: until.min(accept_until + options.grace),
            until,
            is_hastened: false,
        }
    }

    /// Whoever asked for it asks again: waits for what is under way alone; the second time, for
    /// nothing.
    pub fn hasten(&mut self, now: Time) {
        if std::mem::replace(&mut self.is_hastened, true) {
            self.until = self.until.min(now);
        }
        self.accept_until = self.accept_until.min(now);
        self.idle_until = self.idle_until.min(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_timeout_bounds_all_parts_and_each_word_shortens_it() {
        let second = Duration::from_secs(1);
        let start = Time::from_nanos(7);
        let options = DrainOptions {
            delay: 2 * second,
            grace: 3 * second,
            timeout: 10 * second,
        };
        let times = |drain: Drain| {
            [drain.accept_until, drain.idle_until, drain.until]
                .map(|time| time.since(start).as_secs())
        };
        let mut drain = Drain::begin(options, start);
        assert_eq!(times(drain), [2, 5, 10]);
        drain.hasten(start + second);
        assert_eq!(times(drain), [1, 1, 10]);
        drain.hasten(start + 2 * second);
        assert_eq!(times(drain), [1, 1, 2]);
        drain.hasten(start + 3 * second);
        assert_eq!(times(drain), [1, 1, 2]);
        let short = DrainOptions {
            timeout: second,
            ..options
        };
        assert_eq!(times(Drain::begin(short, start)), [1, 1, 1]);
    }
}
