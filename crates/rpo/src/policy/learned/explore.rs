//! When the other setting is tried, and for how long: seconds, seldom, and less once it is known.

use super::rates::Sums;
use crate::Setting;

/// Between two tries, in their lengths: at first and at last. It doubles with each try that left
/// nothing open, and grows with each other one, so that tries are a bounded share of the time.
const APART: [f64; 2] = [6.0, 150.0];
const GROWS: [f64; 2] = [1.1, 2.0];
/// Running requests a core at which a try with one a core ends at once.
const TOO_MANY: f64 = 2.5;

/// The tries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Explorer {
    length: f64,
    state: State,
    ended: f64,
    apart: f64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Idle,
    /// It is asked for; without it they would be so far apart.
    Begins(f64),
    Until(f64, Sums),
}

impl Explorer {
    pub(super) fn new(length: f64) -> Explorer {
        Explorer {
            length,
            state: State::Idle,
            ended: 0.0,
            apart: APART[0],
        }
    }

    /// Whether it is time for the next one.
    pub(super) fn due(&self, now: f64) -> bool {
        now - self.ended >= self.length * self.apart
    }

    /// What is known no longer holds.
    pub(super) fn restart(&mut self) {
        self.apart = APART[0];
    }

    /// `known`: it is only to see whether that still holds.
    pub(super) fn begin(&mut self, known: bool) {
        self.state = State::Begins(self.apart);
        self.apart = (self.apart * GROWS[usize::from(known)]).min(APART[1]);
    }

    pub(super) fn began(&mut self, now: f64, from: Sums) {
        self.state = State::Until(now + self.length, from);
    }

    /// Somebody else has switched, or nobody has: one that never began is none of those that make
    /// others seldom.
    pub(super) fn cancel(&mut self, now: f64) {
        if let State::Begins(apart) = self.state {
            self.apart = apart;
        }
        self.state = State::Idle;
        self.ended = now;
    }

    pub(super) fn exploring(&self) -> bool {
        !matches!(self.state, State::Idle)
    }

    /// Where it ends now: what had been seen when it began.
    pub(super) fn end(&mut self, now: f64, load: f64, setting: Setting) -> Option<Sums> {
        let State::Until(until, from) = self.state else {
            return None;
        };
        let too_many = setting == Setting::OnePerCore && load > TOO_MANY;
        (now >= until || too_many).then(|| {
            self.state = State::Idle;
            self.ended = now;
            from
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_that_never_began_make_others_no_more_seldom() {
        let mut explorer = Explorer::new(2.0);
        for _ in 0..100 {
            explorer.begin(true);
            explorer.cancel(0.0);
        }
        assert!(explorer.due(2.0 * APART[0]));
        explorer.begin(true);
        explorer.began(0.0, Sums::default());
        explorer.cancel(0.0);
        assert!(!explorer.due(2.0 * APART[0]));
    }
}
