//! Up to when a driver has told of all that came.
//!
//! This is the time that time-outs are compared with, not the clock's. A loop may be late: its
//! thread was kept from its core, or there was more to tell of than a turn takes. What came in time
//! is told of first then, and what did not come is not taken for late because nobody had looked.
//!
//! epoll lists what is ready in the order in which it became so, and a driver tells of it in the
//! order in which it was listed. So what was there when epoll was asked at some time is told of
//! once all is that it listed, or, where it listed as much as there was room for, once as many as
//! there are sockets.

use crate::port::Time;

/// See the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    until: Time,
    /// A later time, up to which all is told of after so many more.
    next: Time,
    left: usize,
    /// When epoll was last asked; `None` where it may not have listed all.
    listed: Option<Time>,
}

impl Heard {
    /// All that came by then is told of.
    pub(super) fn until(&self) -> Time {
        self.until
    }

    /// epoll was asked at this time. So many are to be told of; where it may know of others that it
    /// has not listed, `unlisted` says how many at most.
    pub(super) fn asked(&mut self, at: Time, listed: usize, unlisted: usize) {
        self.listed = (unlisted == 0).then_some(at);
        if self.left == 0 {
            (self.next, self.left) = (at, listed + unlisted);
        }
    }

    /// So many were told of, and so many of those that are listed are left.
    pub(super) fn told(&mut self, count: usize, left: usize) {
        self.left = self.left.saturating_sub(count);
        match self.listed {
            Some(at) if left == 0 => (self.next, self.left) = (at, 0),
            Some(_) => self.left = self.left.min(left),
            None => {}
        }
        if self.left == 0 {
            self.until = self.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    /// Asks and tells, and says until when all is told of then.
    fn turn(heard: &mut Heard, now: u64, [listed, unlisted]: [usize; 2], told: usize) -> Time {
        heard.asked(at(now), listed, unlisted);
        heard.told(told, listed - told);
        heard.until()
    }

    #[test]
    fn all_that_is_listed_is_told_of_first() {
        let mut heard = Heard::default();
        assert_eq!(turn(&mut heard, 10, [0, 0], 0), at(10));
        assert_eq!(turn(&mut heard, 20, [3, 0], 3), at(20));
        // Of those of the time 30, five are left, then three, then none.
        assert_eq!(turn(&mut heard, 30, [9, 0], 4), at(20));
        assert_eq!(turn(&mut heard, 40, [7, 0], 2), at(20));
        assert_eq!(turn(&mut heard, 50, [9, 0], 3), at(30));
        // Of those of the time 60, whoever else comes meanwhile.
        assert_eq!(turn(&mut heard, 60, [8, 0], 4), at(30));
        assert_eq!(turn(&mut heard, 70, [6, 0], 5), at(60));
        assert_eq!(turn(&mut heard, 80, [1, 0], 1), at(80));
    }

    #[test]
    fn where_not_all_may_be_listed_as_many_are_told_of_as_there_are() {
        let mut heard = Heard::default();
        assert_eq!(turn(&mut heard, 10, [4, 9], 4), Time::ZERO);
        assert_eq!(turn(&mut heard, 20, [4, 9], 4), Time::ZERO);
        assert_eq!(turn(&mut heard, 30, [4, 9], 4), Time::ZERO);
        assert_eq!(turn(&mut heard, 40, [4, 9], 4), at(10));
        // Or as many as a list has that is whole.
        assert_eq!(turn(&mut heard, 50, [4, 9], 4), at(10));
        assert_eq!(turn(&mut heard, 60, [3, 0], 1), at(10));
        assert_eq!(turn(&mut heard, 70, [3, 0], 2), at(50));
        assert_eq!(turn(&mut heard, 80, [2, 0], 2), at(80));
    }
}
