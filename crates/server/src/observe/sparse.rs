//! Log lines that anybody can cause, at most one a second of a kind: the next one says how many
//! were left out.

use rhythm_net::Time;
use std::time::Duration;

/// The time between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// When the next line may be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sparse {
    next: Option<Time>,
    left_out: u64,
}

impl Sparse {
    /// Whether to write a line now, and how many were left out before it.
    pub(crate) fn line(&mut self, now: Time) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            self.left_out += 1;
            return None;
        }
        self.next = Some(now + EVERY);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_second_counts_those_left_out() {
        let mut sparse = Sparse::default();
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        assert_eq!(sparse.line(at(5)), Some(0));
        assert_eq!(sparse.line(at(6)), None);
        assert_eq!(sparse.line(at(1004)), None);
        assert_eq!(sparse.line(at(1005)), Some(2));
        assert_eq!(sparse.line(at(9000)), Some(0));
    }
}
