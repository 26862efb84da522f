//! Shares: of connections, and of places to wait for one, nobody takes all.
//!
//! Who holds some has another only while more than these are left. So one has half of them at most,
//! two have a third each, and so on, and who has none finds one while any is left. WebSockets last
//! for as long as they like: together they are held to the same, so that requests go on.

use rhythm_http::AnswerSlot;
use std::collections::{HashMap, VecDeque};

/// Who holds something, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Holder {
    /// The client's number (`flight/asker.rs`).
    pub(super) asker: u64,
    /// It is for another protocol.
    pub(super) is_tunnel: bool,
}

/// Whether one who holds so many may have another, where so many are left.
fn may_have(held: usize, left: usize) -> bool {
    left > 0 && (held == 0 || held < left)
}

/// Who holds how many connections to a server.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// Of those who hold any: requests and WebSockets of one asker each by themselves, so that
    /// these, which last, leave some to those.
    held: HashMap<Holder, usize>,
    tunnels: usize,
}

impl Shares {
    /// Whether one may have another, where so many are left.
    pub(super) fn may_take(&self, who: Holder, left: usize) -> bool {
        let held = self.held.get(&who).copied().unwrap_or_default();
        may_have(held, left) && (!who.is_tunnel || may_have(self.tunnels, left))
    }

    /// One has another.
    pub(super) fn take(&mut self, who: Holder) {
        *self.held.entry(who).or_default() += 1;
        self.tunnels += usize::from(who.is_tunnel);
    }

    /// One has one less.
    pub(super) fn give(&mut self, who: Holder) {
        if let Some(held) = self.held.get_mut(&who) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&who);
            }
            self.tunnels -= usize::from(who.is_tunnel);
        }
    }
}

/// One that was taken from a line, and whose turn it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Popped {
    pub(super) who: Holder,
    pub(super) slot: AnswerSlot,
    /// Where that turn stood.
    at: usize,
}

/// Requests that wait, each asker's in the order in which they came, and the askers in turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    turns: VecDeque<(Holder, VecDeque<AnswerSlot>)>,
}

impl Line {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.turns.iter().map(|(_, slots)| slots.len()).sum()
    }

    /// Whether one may have another wait, where there is room for so many.
    pub(super) fn may_wait(&self, who: Holder, left: usize) -> bool {
        let waiting = self.turn(who).map_or(0, |at| self.turns[at].1.len());
        may_have(waiting, left)
    }

    fn turn(&self, who: Holder) -> Option<usize> {
        self.turns.iter().position(|(of, _)| *of == who)
    }

    /// Another waits.
    pub(super) fn push(&mut self, who: Holder, slot: AnswerSlot) {
        match self.turn(who) {
            Some(at) => self.turns[at].1.push_back(slot),
            None => self.turns.push_back((who, [slot].into())),
        }
    }

    /// Takes the first of the first asker who may go, whose next turn is after all others'.
    pub(super) fn pop(&mut self, may_go: impl Fn(Holder) -> bool) -> Option<Popped> {
        let at = self.turns.iter().position(|(who, _)| may_go(*who))?;
        let (who, mut slots) = self.turns.remove(at)?;
        let slot = slots.pop_front()?;
        if !slots.is_empty() {
            self.turns.push_back((who, slots));
        }
        Some(Popped { who, slot, at })
    }

    /// Has one that was taken stand where it stood, if it still waits. Whether it does.
    pub(super) fn is_put_back(&mut self, popped: Popped) -> bool {
        let Some(now) = self.turn(popped.who) else {
            return false;
        };
        let slots = &mut self.turns[now].1;
        let waits = slots.back() == Some(&popped.slot);
        if waits {
            slots.rotate_right(1);
            if let Some(turn) = self.turns.remove(now) {
                self.turns.insert(popped.at.min(self.turns.len()), turn);
            }
        }
        waits
    }

    /// Takes all, in their order.
    pub(super) fn take_all(&mut self) -> Vec<AnswerSlot> {
        std::iter::from_fn(|| self.pop(|_| true).map(|popped| popped.slot)).collect()
    }

    /// One does not wait any more.
    pub(super) fn remove(&mut self, who: Holder, slot: AnswerSlot) {
        if let Some(at) = self.turn(who) {
            let slots = &mut self.turns[at].1;
            slots.retain(|waiting| *waiting != slot);
            if slots.is_empty() {
                self.turns.remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(asker: u64) -> Holder {
        Holder {
            asker,
            is_tunnel: false,
        }
    }

    /// How many each of these has, when all take what they may.
    fn taken(most: usize, all: &[Holder]) -> Vec<usize> {
        let (mut shares, mut taken) = (Shares::default(), vec![0; all.len()]);
        loop {
            let left = most - taken.iter().sum::<usize>();
            let may_take = |at: &usize| shares.may_take(all[*at], left);
            let Some(at) = (0..all.len()).find(may_take) else {
                return taken;
            };
            shares.take(all[at]);
            taken[at] += 1;
        }
    }

    #[test]
    fn nobody_takes_all_and_who_has_none_finds_one() {
        assert_eq!(taken(64, &[asks(1)]), [32]);
        assert_eq!(taken(1, &[asks(1)]), [1]);
        assert_eq!(taken(2, &[asks(1), asks(2)]), [1, 1]);
        // However greedy the first are.
        let taken_by_four = taken(64, &[1, 2, 3, 4].map(asks));
        assert!(
            taken_by_four.iter().all(|count| *count > 0),
            "{taken_by_four:?}"
        );
        let tunnel = |asker| Holder {
            asker,
            is_tunnel: true,
        };
        let tunnels: Vec<Holder> = (0..100).map(tunnel).collect();
        assert_eq!(taken(64, &tunnels).iter().sum::<usize>(), 32);
    }

    #[test]
    fn the_websockets_of_one_leave_some_to_his_requests() {
        let tunnel = Holder {
            asker: 1,
            is_tunnel: true,
        };
        assert_eq!(taken(64, &[tunnel, asks(1)]), [32, 16]);
        assert_eq!(taken(4, &[tunnel, asks(1)]), [2, 1]);
    }

    #[test]
    fn what_was_given_back_can_be_taken_again() {
        let mut shares = Shares::default();
        for _ in 0..3 {
            assert!(shares.may_take(asks(1), 1));
            shares.take(asks(1));
            assert!(!shares.may_take(asks(1), 1) && shares.may_take(asks(2), 1));
            shares.give(asks(1));
        }
        assert!(shares.held.is_empty());
    }

    #[test]
    fn askers_wait_in_turn_and_those_that_may_not_go_hold_up_nobody() {
        let slot = |ordinal| AnswerSlot {
            connection: rhythm_net::ConnectionId::new(0, 1),
            ordinal,
        };
        let mut line = Line::default();
        for (asker, ordinal) in [(1, 1), (1, 2), (1, 3), (2, 4), (3, 5)] {
            line.push(asks(asker), slot(ordinal));
        }
        assert!(line.may_wait(asks(1), 4) && !line.may_wait(asks(1), 3));
        assert!(line.may_wait(asks(9), 1) && !line.may_wait(asks(9), 0));
        let told = |popped: Option<Popped>| popped.map(|it| (it.who, it.slot));
        let second = line.pop(|who| who != asks(1)).expect("it waits");
        assert_eq!(told(Some(second)), Some((asks(2), slot(4))));
        // It waits again, where it did.
        line.push(asks(2), slot(4));
        assert!(line.is_put_back(second));
        let first = line.pop(|_| true).expect("it waits");
        assert_eq!(told(Some(first)), Some((asks(1), slot(1))));
        assert!(!line.is_put_back(first), "it does not wait");
        line.push(asks(1), slot(1));
        assert!(line.is_put_back(first));
        line.remove(asks(1), slot(2));
        let order: Vec<_> = (0..5).map(|_| told(line.pop(|_| true))).collect();
        let expected = [(1, 1), (2, 4), (3, 5), (1, 3)];
        let expected = expected.map(|(asker, at)| Some((asks(asker), slot(at))));
        assert_eq!(order[..4], expected);
        assert_eq!((order[4], line.len()), (None, 0));
        for (asker, ordinal) in [(1, 1), (1, 2), (2, 3)] {
            line.push(asks(asker), slot(ordinal));
        }
        assert_eq!(line.take_all(), [1, 3, 2].map(slot));
    }
}
