//! A hierarchical timer wheel: one deadline per small number (a connection's slot, say), thousands
//! of them, each O(1) to set, move and clear.
//!
//! Time is cut into *ticks* of about a millisecond. Level 0 has a list of timers for each of the
//! next 64 ticks, level 1 for each of the next 64 spans of 64 ticks, and so on. A timer lies on the
//! level of the highest digit (in base 64) in which its tick differs from the present; when the
//! present enters its span it is put into a lower level, and on level 0 it is due. A bit per list
//! tells which are empty, so the next list with a timer is found without a walk.
//!
//! Deadlines of connections mostly move later or are cleared before they are due (each request sets
//! a new one). So that such a change costs one store, the timer stays in its list: when the list's
//! time comes, the timer is put where it belongs by then, or dropped.

use crate::port::Time;

/// log2 of a tick's nanoseconds: 1.05 ms.
const TICK_BITS: u32 = 20;
/// log2 of the lists on a level.
const LEVEL_BITS: u32 = 6;
const LISTS: usize = 1 << LEVEL_BITS;
/// Enough digits for every tick of a 64-bit time in nanoseconds: 8 * 6 >= 64 - 20.
const LEVELS: usize = 8;

/// No timer.
const NIL: u32 = u32::MAX;
/// The place of a timer in no list.
const NOWHERE: u16 = u16::MAX;

#[derive(Clone, Debug)]
struct Timer {
    /// When it is due; [`Time::NEVER`] if it is not set.
    deadline: Time,
    /// The neighbors in its list.
    previous: u32,
    next: u32,
    /// Which list: `level * LISTS + list`, or [`NOWHERE`].
    place: u16,
}

const UNSET: Timer = Timer {
    deadline: Time::NEVER,
    previous: NIL,
    next: NIL,
    place: NOWHERE,
};

/// Deadlines by number. No deadline is reported early; each at most a tick, about
/// a millisecond, late.
#[derive(Debug)]
pub struct TimerWheel {
    /// By the caller's number; 24 bytes each.
    timers: Vec<Timer>,
    /// The first timer of each list.
    heads: Box<[u32; LEVELS * LISTS]>,
    /// A bit for each list that is not empty.
    occupied: [u64; LEVELS],
    /// All ticks before this one have been dealt with.
    present: u64,
}

impl TimerWheel {
    /// An empty wheel at `now`.
    pub fn new(now: Time) -> TimerWheel {
        TimerWheel {
            timers: Vec::new(),
            heads: Box::new([NIL; LEVELS * LISTS]),
            occupied: [0; LEVELS],
            present: now.as_nanos() >> TICK_BITS,
        }
    }

    /// Sets or moves the deadline of `key`. Memory grows to the highest key ever set, so keys
    /// should be dense.
    pub fn set(&mut self, key: u32, deadline: Time) {
        let index = key as usize;
        if index >= self.timers.len() {
            self.timers.resize(index + 1, UNSET);
        }
        let timer = &mut self.timers[index];
        let moves_later = timer.deadline <= deadline;
        timer.deadline = deadline;
        // `deadline` of a cleared timer says nothing about the list it was left in: such a one must
        // move, too.
        let stays = timer.place != NOWHERE && moves_later;
        if !stays {
            self.unlink(key);
            self.link(key);
        }
    }

    /// Clears the deadline of `key`, if it has one.
    pub fn clear(&mut self, key: u32) {
        if let Some(timer) = self.timers.get_mut(key as usize) {
            timer.deadline = Time::NEVER;
        }
    }

    /// The deadline of `key`, if it has one.
    pub fn deadline(&self, key: u32) -> Option<Time> {
        let deadline = self.timers.get(key as usize)?.deadline;
        (deadline != Time::NEVER).then_some(deadline)
    }

    /// When to call [`TimerWheel::expire`] next: not after the earliest deadline's tick is over,
    /// possibly before (then `expire` reports nothing, and the next answer is later).
    pub fn wake_at(&self) -> Option<Time> {
        let (_, _, tick) = self.first_list()?;
        Some(tick_start(tick))
    }

    /// Reports each key whose deadline has come by `now`, clearing it, in no particular order
    /// within a tick. `due` may not set or clear deadlines itself; collect the keys if need be.
    pub fn expire(&mut self, now: Time, due: impl FnMut(u32)) {
        self.expire_some(now, usize::MAX, due);
    }

    /// The same for so many keys at most: the others stay due, and cost nothing until then.
    pub fn expire_some(&mut self, now: Time, most: usize, mut due: impl FnMut(u32)) {
        let now_tick = now.as_nanos() >> TICK_BITS;
        let mut left = most;
        while let Some((level, list, tick)) = self.first_list() {
            if tick > now_tick {
                break;
            }
            self.present = self.present.max(tick);
            let place = level * LISTS + list;
            let mut key = std::mem::replace(&mut self.heads[place], NIL);
            self.occupied[level] &= !(1 << list);
            while key != NIL {
                let timer = &mut self.timers[key as usize];
                let next = timer.next;
                if level > 0 || due_tick(timer.deadline) > now_tick {
                    // It belongs further down by now, or was moved or cleared meanwhile.
                    timer.place = NOWHERE;
                    self.link(key);
                } else if left == 0 {
                    // With all that are behind it. The present stays at this tick.
                    timer.previous = NIL;
                    self.heads[place] = key;
                    self.occupied[level] |= 1 << list;
                    return;
                } else {
                    timer.place = NOWHERE;
                    timer.deadline = Time::NEVER;
                    left -= 1;
                    due(key);
                }
                key = next;
            }
        }
        self.present = self.present.max(now_tick);
    }

    /// The list that comes first: its level, its number, and the tick at which it is to be looked
    /// at.
    fn first_list(&self) -> Option<(usize, usize, u64)> {
        // What lies on a lower level differs from the present in a lower digit only, so it comes
        // first.
        let level = self.occupied.iter().position(|lists| *lists != 0)?;
        let shift = level as u32 * LEVEL_BITS;
        let list = self.occupied[level].trailing_zeros();
        let higher_digits = self.present >> shift >> LEVEL_BITS << LEVEL_BITS;
        Some((
            level,
            list as usize,
            (higher_digits | u64::from(list)) << shift,
        ))
    }

    /// Puts a timer that is in no list into the list of its deadline.
    fn link(&mut self, key: u32) {
        let deadline = self.timers[key as usize].deadline;
        if deadline == Time::NEVER {
            return;
        }
        let tick = due_tick(deadline).max(self.present);
        let differing = tick ^ self.present;
        let level = (63 - (differing | 1).leading_zeros()) / LEVEL_BITS;
        let list = (tick >> (level * LEVEL_BITS)) as usize % LISTS;
        let level = level as usize;
        let place = level * LISTS + list;
        let next = std::mem::replace(&mut self.heads[place], key);
        self.occupied[level] |= 1 << list;
        if next != NIL {
            self.timers[next as usize].previous = key;
        }
        let timer = &mut self.timers[key as usize];
        timer.previous = NIL;
        timer.next = next;
        timer.place = place as u16;
    }

    /// Takes a timer out of its list, if it is in one.
    fn unlink(&mut self, key: u32) {
        let timer = &mut self.timers[key as usize];
        if timer.place == NOWHERE {
            return;
        }
        let place = usize::from(std::mem::replace(&mut timer.place, NOWHERE));
        let (previous, next) = (timer.previous, timer.next);
        if next != NIL {
            self.timers[next as usize].previous = previous;
        }
        if previous != NIL {
            self.timers[previous as usize].next = next;
        } else {
            self.heads[place] = next;
            if next == NIL {
                self.occupied[place / LISTS] &= !(1 << (place % LISTS));
            }
        }
    }
}

/// The first tick that begins at or after the deadline.
fn due_tick(deadline: Time) -> u64 {
    deadline.as_nanos().div_ceil(1 << TICK_BITS)
}

fn tick_start(tick: u64) -> Time {
    Time::from_nanos(tick << TICK_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    const TICK: Duration = Duration::from_nanos(1 << TICK_BITS);

    fn expired(wheel: &mut TimerWheel, now: Time) -> Vec<u32> {
        let mut keys = Vec::new();
        wheel.expire(now, |key| keys.push(key));
        keys.sort_unstable();
        keys
    }

    fn ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_deadline_is_not_early_and_at_most_a_tick_late() {
        for start in [0, 1, 777_777, 1 << 45] {
            for wait in [
                0,
                1,
                999_999,
                64 << 20,
                (64 << 20) + 1,
                5_000_000_000,
                1 << 50,
            ] {
                let mut wheel = TimerWheel::new(Time::from_nanos(start));
                let deadline = Time::from_nanos(start + wait);
                wheel.set(3, deadline);
                let early = Time::from_nanos((start + wait).saturating_sub(1));
                if early < deadline {
                    assert_eq!(expired(&mut wheel, early), []);
                }
                assert_eq!(expired(&mut wheel, deadline + TICK), [3]);
                assert_eq!((wheel.deadline(3), wheel.wake_at()), (None, None));
            }
        }
    }

    #[test]
    fn a_moved_deadline_counts_from_where_it_was_moved_to() {
        let mut wheel = TimerWheel::new(ms(0));
        wheel.set(0, ms(100));
        wheel.set(0, ms(500));
        wheel.set(1, ms(500));
        wheel.set(1, ms(100));
        assert_eq!(expired(&mut wheel, ms(102)), [1]);
        assert_eq!(wheel.deadline(0), Some(ms(500)));
        assert_eq!(expired(&mut wheel, ms(498)), []);
        assert_eq!(expired(&mut wheel, ms(502)), [0]);
    }

    #[test]
    fn a_cleared_deadline_never_comes_and_can_be_set_again() {
        let mut wheel = TimerWheel::new(ms(0));
        wheel.set(5, ms(10));
        wheel.clear(5);
        wheel.clear(6);
        wheel.set(5, ms(4));
        assert_eq!(expired(&mut wheel, ms(6)), [5]);
        wheel.set(5, ms(10));
        wheel.clear(5);
        assert_eq!(expired(&mut wheel, ms(20)), []);
        assert_eq!(wheel.wake_at(), None);
    }

    #[test]
    fn following_wake_at_reaches_a_far_deadline_in_few_steps() {
        let mut wheel = TimerWheel::new(ms(3));
        wheel.set(0, ms(86_400_000));
        let mut steps = 0;
        while let Some(at) = wheel.wake_at() {
            steps += 1;
            assert!(steps <= LEVELS, "each step is a level");
            assert_eq!(
                expired(&mut wheel, at).is_empty(),
                wheel.wake_at().is_some()
            );
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32, u64),
        Clear(u32),
        /// Time goes on, and the wheel is looked at, for so many at most.
        Pass(u64, usize),
    }

    fn duration() -> impl Strategy<Value = u64> {
        prop_oneof![0u64..5_000_000, 0u64..200_000_000, 0u64..1_000_000_000_000]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u32..20, duration()).prop_map(|(key, wait)| Step::Set(key, wait)),
            1 => (0u32..20).prop_map(Step::Clear),
            2 => duration().prop_map(|nanos| Step::Pass(nanos, usize::MAX)),
            2 => (duration(), 0usize..4).prop_map(|(nanos, most)| Step::Pass(nanos, most)),
        ]
    }

    proptest! {
        #[test]
        fn the_wheel_does_what_a_map_does(
            start in any::<u32>(),
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let mut now = Time::from_nanos(start.into());
            let mut wheel = TimerWheel::new(now);
            let mut map = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Set(key, wait) => {
                        wheel.set(key, now + Duration::from_nanos(wait));
                        map.insert(key, now + Duration::from_nanos(wait));
                    }
                    Step::Clear(key) => {
                        wheel.clear(key);
                        map.remove(&key);
                    }
                    Step::Pass(nanos, most) => {
                        now += Duration::from_nanos(nanos);
                        let tick = now.as_nanos() >> TICK_BITS;
                        let due = map.values().filter(|at| due_tick(**at) <= tick).count();
                        let mut told = 0;
                        wheel.expire_some(now, most, |key| {
                            let at = map.remove(&key);
                            assert!(at.is_some_and(|at| due_tick(at) <= tick), "{key} is due");
                            told += 1;
                        });
                        prop_assert_eq!(told, due.min(most));
                    }
                }
                for key in 0..20 {
                    prop_assert_eq!(wheel.deadline(key), map.get(&key).copied());
                }
                if let Some(first) = map.values().min() {
                    let wake_at = wheel.wake_at();
                    let in_time = wake_at.is_some_and(|at| at <= *first + TICK);
                    prop_assert!(in_time, "{:?} for {:?}", wake_at, first);
                }
            }
        }
    }
}
