//! What clients asked about one key, and were told: is there an order of all that, each at one
//! moment between question and answer, in which one machine would have said the same? The search
//! is `todc-utils`'s; what one machine says is here.

use todc_utils::linearizability::WGLChecker;
use todc_utils::{Action, History, Specification};

/// What was asked. Values are never stored twice, but for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Get,
    Set(u64),
    Add(u64),
    Delete,
    /// Stored if the value is still the first.
    Cas(u64, u64),
    /// Appended to, which makes it the second, if it is still the first.
    Append(u64, u64),
    Incr(u64),
}

/// What was said to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Value and revision.
    Item(Option<(u64, u64)>),
    /// It has this revision.
    Stored(u64),
    Number(u64, u64),
    NotStored,
    Exists,
    NotFound,
    Deleted,
    /// Nobody knows whether it was done, or when.
    Unknown,
}

/// A key's value, its revision, and whether that is known, or only that it is greater.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    value: Option<u64>,
    revision: u64,
    is_exact: bool,
}

impl State {
    fn stored(&self, value: u64, revision: Option<u64>) -> (bool, State) {
        let now = State {
            value: Some(value),
            revision: revision.unwrap_or(self.revision),
            is_exact: revision.is_some(),
        };
        (revision.is_none_or(|new| new > self.revision), now)
    }

    fn same(&self, is_valid: bool) -> (bool, State) {
        (is_valid, self.clone())
    }

    fn gone(&self) -> State {
        State {
            value: None,
            ..self.clone()
        }
    }
}

struct OneKey;

impl Specification for OneKey {
    type State = State;
    type Operation = (Op, Said);

    fn init() -> State {
        State::default()
    }

    fn apply(&(op, said): &(Op, Said), state: &State) -> (bool, State) {
        match (op, state.value, said) {
            (Op::Get, Some(value), Said::Item(Some((seen, revision)))) => {
                let fits = match state.is_exact {
                    true => revision == state.revision,
                    false => revision > state.revision,
                };
                let (_, now) = state.stored(value, Some(revision));
                (seen == value && fits, now)
            }
            (Op::Get, value, Said::Item(None)) => state.same(value.is_none()),
            (Op::Set(new), _, Said::Stored(revision)) => state.stored(new, Some(revision)),
            (Op::Set(new), _, Said::Unknown) => state.stored(new, None),
            (Op::Add(new), None, Said::Stored(revision)) => state.stored(new, Some(revision)),
            (Op::Add(new), None, Said::Unknown) => state.stored(new, None),
            (Op::Add(_), value, Said::NotStored) => state.same(value.is_some()),
            (Op::Cas(old, new) | Op::Append(old, new), Some(value), Said::Stored(revision))
                if value == old =>
            {
                state.stored(new, Some(revision))
            }
            (Op::Cas(old, new) | Op::Append(old, new), Some(value), Said::Unknown)
                if value == old =>
            {
                state.stored(new, None)
            }
            (Op::Cas(old, _) | Op::Append(old, _), Some(value), Said::Exists) => {
                state.same(value != old)
            }
            (Op::Append(..), value, Said::NotStored) => state.same(value.is_none()),
            (Op::Cas(..) | Op::Incr(_) | Op::Delete, value, Said::NotFound) => {
                state.same(value.is_none())
            }
            (Op::Incr(more), Some(value), Said::Number(number, revision)) => {
                let (fits, now) = state.stored(value + more, Some(revision));
                (number == value + more && fits, now)
            }
            (Op::Incr(more), Some(value), Said::Unknown) => state.stored(value + more, None),
            (Op::Delete, Some(_), Said::Deleted | Said::Unknown) => (true, state.gone()),
            // What may have been done, and would have had no effect here.
            (_, _, Said::Unknown) => state.same(true),
            _ => state.same(false),
        }
    }
}

/// What was asked and said of one key, in the order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyHistory {
    actions: Vec<(usize, Action<(Op, Said)>)>,
    open: Vec<(usize, Op)>,
    asked: usize,
    unknown: usize,
}

/// A search takes long where of many operations nobody knows whether they were done.
const UNKNOWN_MAX: usize = 3;
const ASKED_MAX: usize = 80;

impl KeyHistory {
    /// Something is asked; its number.
    pub(crate) fn ask(&mut self, op: Op) -> usize {
        let number = self.asked;
        self.asked += 1;
        self.open.push((number, op));
        self.actions
            .push((number, Action::Call((op, Said::Unknown))));
        number
    }

    fn close(&mut self, number: usize) -> Op {
        let at = self.open.iter().position(|(open, _)| *open == number);
        self.open
            .swap_remove(at.expect("asked once, answered once"))
            .1
    }

    pub(crate) fn answer(&mut self, number: usize, said: Said) {
        let op = self.close(number);
        self.actions.push((number, Action::Response((op, said))));
    }

    /// Whether no more is to be asked about this key.
    pub(crate) fn is_full(&self) -> bool {
        self.unknown >= UNKNOWN_MAX || self.asked >= ASKED_MAX
    }

    /// Nobody will ever know whether it was done.
    pub(crate) fn give_up(&mut self, number: usize) {
        match self.open.contains(&(number, Op::Get)) {
            true => self.forget(number),
            false => self.unknown += 1,
        }
    }

    /// It was not done, and never will be; or it would have had no effect.
    pub(crate) fn forget(&mut self, number: usize) {
        self.close(number);
        self.actions.retain(|(of, _)| *of != number);
    }

    pub(crate) fn is_linearizable(&self) -> bool {
        let mut actions = self.actions.clone();
        for &(number, op) in &self.open {
            actions.push((number, Action::Response((op, Said::Unknown))));
        }
        actions.is_empty() || WGLChecker::<OneKey>::is_linearizable(History::from_actions(actions))
    }

    pub(crate) fn print(&self) {
        for (number, action) in &self.actions {
            println!("{number:3} {action:?}");
        }
    }
}

#[test]
fn the_checker_knows_right_from_wrong() {
    let history = |said: &[(Op, Said)]| {
        let mut history = KeyHistory::default();
        for (op, said) in said {
            let number = history.ask(*op);
            history.answer(number, *said);
        }
        history.is_linearizable()
    };
    let set = (Op::Set(1), Said::Stored(5));
    let seen = |value, revision| (Op::Get, Said::Item(Some((value, revision))));
    assert!(history(&[set, seen(1, 5)]));
    assert!(!history(&[set, seen(1, 6)]), "another revision");
    assert!(!history(&[set, (Op::Get, Said::Item(None))]), "lost");
    assert!(
        !history(&[set, (Op::Set(2), Said::Stored(6)), seen(1, 5)]),
        "old"
    );
    let unknown = (Op::Set(2), Said::Unknown);
    assert!(history(&[set, unknown, seen(2, 6)]));
    assert!(
        !history(&[set, unknown, seen(2, 6), seen(1, 5)]),
        "back again"
    );
    let mut late = KeyHistory::default();
    late.ask(Op::Incr(1));
    let stored = late.ask(Op::Set(1));
    late.answer(stored, Said::Stored(1));
    let get = late.ask(Op::Get);
    late.answer(get, Said::Item(Some((1, 1))));
    let get = late.ask(Op::Get);
    late.answer(get, Said::Item(Some((2, 2))));
    assert!(
        late.is_linearizable(),
        "what is under way may be done later"
    );
    let get = late.ask(Op::Get);
    late.answer(get, Said::Item(Some((3, 3))));
    assert!(!late.is_linearizable(), "but not twice");
}
