//! Who looks whether workers hang: are at one turn for longer than any turn takes.
//!
//! What counts is at how many looks, an interval apart, a worker was at the same turn, not how
//! long ago the turn began: where the whole process stood still, as its container was frozen or its
//! machine was moved, nobody looked, and the worker goes on before it is looked at as often.

use super::Inbox;
use crate::port::Time;

/// See the module's text.
#[derive(Debug, Default)]
pub struct Watch {
    /// Of each worker the turn that it was at, and at how many looks.
    seen: Vec<(Option<Time>, u32)>,
}

/// A worker that hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hanging {
    /// Which, from 0.
    pub worker: usize,
    /// When the turn began that does not end.
    pub since: Time,
}

impl Watch {
    /// Looks at the workers, which are the same each time. To be called an interval apart.
    pub fn look<C>(&mut self, workers: &[Inbox<C>]) {
        self.see(workers.iter().map(Inbox::turn_began));
    }

    fn see(&mut self, turns: impl ExactSizeIterator<Item = Option<Time>>) {
        self.seen.resize(turns.len(), (None, 0));
        for (seen, turn) in self.seen.iter_mut().zip(turns) {
            *seen = match turn.is_some() && seen.0 == turn {
                true => (turn, seen.1.saturating_add(1)),
                false => (turn, 0),
            };
        }
    }

    /// The worker that has hung for longest: that was at one turn for so many intervals, and still
    /// is.
    pub fn hanging<C>(&self, workers: &[Inbox<C>], intervals: u32) -> Option<Hanging> {
        self.stuck(workers.iter().map(Inbox::turn_began), intervals)
    }

    fn stuck(&self, turns: impl Iterator<Item = Option<Time>>, intervals: u32) -> Option<Hanging> {
        let all = self.seen.iter().zip(turns).enumerate();
        let hanging = all.filter_map(|(worker, ((seen, looks), turn))| {
            let since = turn.filter(|_| turn == *seen && *looks >= intervals)?;
            Some(Hanging { worker, since })
        });
        hanging.min_by_key(|hanging| hanging.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVALS: u32 = 3;

    fn at(nanos: u64) -> Option<Time> {
        Some(Time::from_nanos(nanos))
    }

    #[test]
    fn who_is_at_one_turn_at_so_many_looks_hangs_until_it_ends() {
        let mut watch = Watch::default();
        // The first waits, the second turns, the third and the fourth hang, one before the other.
        let turns = |look: u64| [None, at(100 + look), at(7), at(5)];
        for look in 0..=u64::from(INTERVALS) {
            assert_eq!(
                watch.stuck(turns(look).into_iter(), INTERVALS),
                None,
                "{look}"
            );
            watch.see(turns(look).into_iter());
        }
        let hanging = |worker, nanos| {
            let since = Time::from_nanos(nanos);
            Some(Hanging { worker, since })
        };
        let last = turns(u64::from(INTERVALS));
        assert_eq!(watch.stuck(last.into_iter(), INTERVALS), hanging(3, 5));
        // It ends, which is seen before the next look.
        let [waits, turns, hangs, _] = last;
        let now = [waits, turns, hangs, None];
        assert_eq!(watch.stuck(now.into_iter(), INTERVALS), hanging(2, 7));
        watch.see(now.into_iter());
        watch.see([waits, turns, at(9), None].into_iter());
        assert_eq!(watch.stuck(now.into_iter(), INTERVALS), None);
    }

    #[test]
    fn a_time_in_which_nobody_looks_makes_nobody_hang() {
        let mut watch = Watch::default();
        watch.see([at(1)].into_iter());
        // Whenever the next look is, it is one.
        watch.see([at(1)].into_iter());
        assert_eq!(watch.stuck([at(1)].into_iter(), INTERVALS), None);
    }
}
