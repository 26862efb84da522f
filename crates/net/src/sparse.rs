//! Log lines that anybody can cause, at most one of a kind in some time, mostly a second: the next
//! one says how many were left out. Kinds are told apart by hand, or by what their lines say.

use crate::port::Time;
use std::time::Duration;

/// When the next line may be.
#[derive(Clone, Copy, Debug)]
pub struct Sparse {
    /// The time between two lines.
    every: Duration,
    next: Option<Time>,
    left_out: u64,
}

impl Default for Sparse {
    /// One a second.
    fn default() -> Sparse {
        Sparse::every(Duration::from_secs(1))
    }
}

impl Sparse {
    /// One in this time.
    pub fn every(every: Duration) -> Sparse {
        Sparse {
            every,
            next: None,
            left_out: 0,
        }
    }

    /// Whether to write a line now, and how many were left out before it.
    pub fn line(&mut self, now: Time) -> Option<u64> {
        self.tell(1, now).map(|all| all - 1)
    }

    /// Whether to write a line now of what has happened so many times, and how many times it was
    /// with those that were left out.
    pub fn tell(&mut self, times: u64, now: Time) -> Option<u64> {
        self.left_out += times;
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + self.every);
        Some(std::mem::take(&mut self.left_out))
    }

    /// What the lines are about is over: the next one may be at once. Whether there was one.
    pub fn end(&mut self) -> bool {
        self.left_out = 0;
        self.next.take().is_some()
    }
}

/// So many kinds are told apart at a time, by what they say.
const KINDS_MAX: usize = 64;

/// When the next line of each kind may be. Kinds beyond those that are told apart wait until one of
/// these was silent for as long.
#[derive(Debug)]
pub struct SparseByKind<K> {
    lines: Vec<(K, Sparse)>,
    /// Lines of others that were left out.
    left_out: u64,
}

impl<K> Default for SparseByKind<K> {
    fn default() -> SparseByKind<K> {
        SparseByKind {
            lines: Vec::new(),
            left_out: 0,
        }
    }
}

impl<K: PartialEq> SparseByKind<K> {
    /// Whether to write a line of this kind now, and how many were left out before it.
    pub fn line(&mut self, kind: K, now: Time) -> Option<u64> {
        if let Some((_, sparse)) = self.lines.iter_mut().find(|(known, _)| *known == kind) {
            return sparse.line(now);
        }
        if self.lines.len() == KINDS_MAX {
            let is_over = |(_, sparse): &(K, Sparse)| sparse.next.is_none_or(|next| next <= now);
            let Some(at) = self.lines.iter().position(is_over) else {
                self.left_out += 1;
                return None;
            };
            self.left_out += self.lines.swap_remove(at).1.left_out;
        }
        let mut sparse = Sparse {
            left_out: std::mem::take(&mut self.left_out),
            ..Sparse::default()
        };
        let left_out = sparse.line(now);
        self.lines.push((kind, sparse));
        left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_do_not_keep_each_other_from_the_log_and_are_so_many_at_most() {
        let mut lines = SparseByKind::default();
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        for kind in 0..KINDS_MAX {
            assert_eq!(lines.line(kind, at(5)), Some(0));
            assert_eq!(lines.line(kind, at(5)), None);
        }
        assert_eq!(lines.line(KINDS_MAX, at(6)), None);
        assert_eq!(lines.line(7, at(1005)), Some(1));
        // In place of one that was silent; what was left out of that is told of, too.
        assert_eq!(lines.line(KINDS_MAX, at(1006)), Some(2));
        assert_eq!(lines.lines.len(), KINDS_MAX);
    }

    #[test]
    fn a_line_a_second_counts_those_left_out() {
        let mut sparse = Sparse::default();
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        assert_eq!(sparse.line(at(5)), Some(0));
        assert_eq!(sparse.line(at(6)), None);
        assert_eq!(sparse.line(at(1004)), None);
        assert_eq!(sparse.line(at(1005)), Some(2));
        assert_eq!(sparse.line(at(9000)), Some(0));
        assert_eq!(sparse.tell(4, at(9001)), None);
        assert_eq!(sparse.tell(3, at(10_000)), Some(7));
        assert_eq!(sparse.line(at(20_000)), Some(0));
        assert_eq!(sparse.line(at(20_001)), None);
        assert!(sparse.end() && !sparse.end());
        assert_eq!(sparse.line(at(20_002)), Some(0));
        let mut sparse = Sparse::every(Duration::from_secs(60));
        assert_eq!(sparse.line(at(0)), Some(0));
        assert_eq!(sparse.line(at(59_999)), None);
        assert_eq!(sparse.line(at(60_000)), Some(1));
    }
}
