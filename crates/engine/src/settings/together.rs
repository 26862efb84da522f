//! Settings that do not go together, though each is within its bounds.

use super::definition::Mistake;
use super::duration;
use super::tables::{Limits, ServerSettings, SessionSettings};

impl ServerSettings {
    /// What is wrong with the times of a shutdown together, if anything.
    pub fn drain_mistake(&self) -> Option<Mistake> {
        let (delay, grace, timeout) = (self.drain_delay, self.drain_grace, self.drain_timeout);
        let (said, lost) = match () {
            // Nothing is to be waited for.
            () if timeout.is_zero() && delay.is_zero() => return None,
            () if delay >= timeout => {
                let said = format!("`drain_delay` = {} is", duration::format(delay));
                (said, "what is under way then is lost")
            }
            () if delay.saturating_add(grace) > timeout => {
                let [delay, grace] = [delay, grace].map(duration::format);
                let said = format!("`drain_delay` = {delay} and `drain_grace` = {grace} are");
                (said, "requests that come at the end of the grace are lost")
            }
            () => return None,
        };
        let timeout = duration::format(timeout);
        let message =
            format!("a shutdown is over after `drain_timeout` = {timeout}, before {said}: {lost}");
        let hint = "`drain_timeout` is more than `drain_delay` and `drain_grace` together";
        Some(Mistake::new(message, hint))
    }
}

impl SessionSettings {
    /// What is wrong with the numbers of sessions together, if anything.
    pub(crate) fn reserve_mistake(&self) -> Option<Mistake> {
        let (reserve, sessions_max) = (self.reserve?.get(), self.sessions_max);
        (reserve >= sessions_max && self.per_user_max.is_some()).then(|| {
            let message = format!(
                "a `reserve` of {reserve} leaves nothing of `sessions_max` = {sessions_max}: each \
                 sign-in ends the user's other sessions"
            );
            let hint = "a `reserve` below `sessions_max`, such as a sixteenth of it; or \
                        `per_user_max = 1`, if users are to have one session";
            Mistake::new(message, hint)
        })
    }
}

/// So many of the longest answers are to fit what a worker's connections may hold: with two that
/// are not taken half of it is held, and with more than all of it connections are dropped to that.
const LONGEST_HELD: u64 = 4;

impl Limits {
    /// What is wrong with the bytes of answers together, if anything.
    pub(crate) fn held_mistake(&self) -> Option<Mistake> {
        let least = LONGEST_HELD * u64::from(self.response_bytes_max);
        (u64::from(self.worker_bytes_max) < least).then(|| {
            let message = "few clients that do not take a long answer make others be dropped";
            let hint = format!(
                "`worker_bytes_max` of {LONGEST_HELD} times `response_bytes_max`, which is \
                 {least}, or more; or a smaller `response_bytes_max`"
            );
            Mistake::new(message, hint)
        })
    }
}
