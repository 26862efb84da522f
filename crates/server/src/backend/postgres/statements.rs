//! Statements that connections prepare, once each and as they are first asked for.

use super::cells::oid;
use rhythm_engine::program::{Form, Type};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// So many statements are prepared on a connection at a time; another takes the place of the one
/// that came first.
const STATEMENTS_MAX: usize = 256;

/// A statement as it is prepared now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// Its place among those of the backend.
    slot: usize,
    /// What was prepared for this place before is of no use any more.
    generation: u64,
    /// Made of what it is, and of nothing else: whoever prepared one of this name where the answer
    /// comes from, another worker by way of a pooler, say, it is the same.
    pub(super) name: [u8; NAME_LENGTH],
}

/// Bytes of a name: 64 bits in hexadecimal digits.
const NAME_LENGTH: usize = 16;

fn name_of(form: &Form) -> [u8; NAME_LENGTH] {
    let mut hasher = DefaultHasher::new();
    form.hash(&mut hasher);
    let hash = hasher.finish();
    std::array::from_fn(|at| b"0123456789abcdef"[(hash >> (60 - 4 * at)) as usize & 15])
}

/// The statements of a backend, for all of its connections.
#[derive(Debug, Default)]
pub(super) struct Statements {
    slots: Vec<(Rc<Form>, Statement)>,
    by_form: HashMap<Rc<Form>, usize>,
    generation_last: u64,
    /// The slot that is taken next when all are in use.
    next: usize,
}

impl Statements {
    /// The statement of a form.
    pub(super) fn of(&mut self, form: &Form) -> Statement {
        match self.by_form.get(form) {
            Some(slot) => self.slots[*slot].1,
            None => self.add(form),
        }
    }

    fn add(&mut self, form: &Form) -> Statement {
        self.generation_last += 1;
        let is_full = self.slots.len() == STATEMENTS_MAX;
        let slot = if is_full { self.next } else { self.slots.len() };
        let statement = Statement {
            slot,
            generation: self.generation_last,
            name: name_of(form),
        };
        let form = Rc::new(form.clone());
        let new = (form.clone(), statement);
        if is_full {
            self.next = (slot + 1) % STATEMENTS_MAX;
            let (old, _) = std::mem::replace(&mut self.slots[slot], new);
            self.by_form.remove(&old);
        } else {
            self.slots.push(new);
        }
        self.by_form.insert(form, slot);
        statement
    }

    /// All connections are to prepare it anew, unless they do already.
    pub(super) fn renew(&mut self, statement: Statement) {
        let (_, now) = &mut self.slots[statement.slot];
        if now.generation == statement.generation {
            self.generation_last += 1;
            now.generation = self.generation_last;
        }
    }
}

/// What is prepared on a connection for one place.
#[derive(Debug, Default)]
struct Known {
    /// What of; 0 where it is of no use, or nothing.
    generation: u64,
    /// Under which name, if anything ever was.
    name: Option<[u8; NAME_LENGTH]>,
    /// The types of its columns, which its answers have.
    columns: Vec<u32>,
}

/// The statements that are prepared on a connection.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    known: Vec<Known>,
}

/// What is to be done before a statement is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing: it is prepared.
    Nothing,
    /// It is prepared, and what has this name is closed.
    Prepare { closes: Option<[u8; NAME_LENGTH]> },
}

impl Prepared {
    /// A statement is about to be executed, and prepared where it has to be.
    pub(super) fn uses(&mut self, statement: Statement) -> Before {
        let known = self.known(statement);
        if known.generation == statement.generation {
            return Before::Nothing;
        }
        known.generation = statement.generation;
        let before = known.name.replace(statement.name);
        // The same may have another place by now, where it was prepared anew.
        let is_held = |name| self.known.iter().any(|known| known.name == Some(name));
        Before::Prepare {
            closes: before.filter(|name| !is_held(*name)),
        }
    }

    /// It is not prepared, or not any more.
    pub(super) fn lost(&mut self, statement: Statement) {
        let known = self.known(statement);
        if known.generation == statement.generation {
            known.generation = 0;
        }
    }

    /// The types of its columns, which its answers have.
    pub(super) fn columns(&mut self, statement: Statement) -> &mut Vec<u32> {
        &mut self.known(statement).columns
    }

    fn known(&mut self, statement: Statement) -> &mut Known {
        if self.known.len() <= statement.slot {
            self.known.resize_with(statement.slot + 1, Default::default);
        }
        &mut self.known[statement.slot]
    }
}

/// The types that arguments are said to have. What a text is, the server finds out from where it
/// stands; a number is one of those that hold all that pages have, so that one that is too large
/// for a column is found nowhere, rather than a mistake.
pub(super) fn types(form: &Form) -> impl ExactSizeIterator<Item = u32> + '_ {
    form.arguments.iter().map(|kind| match kind {
        Type::Text => 0,
        Type::Int => oid::INT8,
        Type::Float => oid::FLOAT8,
        Type::Bool => oid::BOOL,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(number: usize) -> Form {
        Form {
            pieces: vec![format!("select {number}").into_bytes().into()],
            arguments: Vec::new(),
        }
    }

    const PREPARE: Before = Before::Prepare { closes: None };

    #[test]
    fn each_is_prepared_once_until_it_is_renewed() {
        let (mut statements, mut prepared) = (Statements::default(), Prepared::default());
        let one = statements.of(&form(1));
        assert_eq!(one, statements.of(&form(1)));
        assert_eq!(prepared.uses(one), PREPARE);
        assert_eq!(prepared.uses(one), Before::Nothing);
        statements.renew(one);
        let renewed = statements.of(&form(1));
        assert_eq!((renewed.slot, renewed != one), (one.slot, true));
        // Told by another connection, or of an answer on its way.
        statements.renew(one);
        assert_eq!(statements.of(&form(1)), renewed);
        assert_eq!(prepared.uses(renewed), PREPARE);
        prepared.lost(one);
        assert_eq!(prepared.uses(renewed), Before::Nothing);
        prepared.lost(renewed);
        assert_eq!(prepared.uses(renewed), PREPARE);
    }

    #[test]
    fn so_many_are_kept_and_others_closed() {
        let (mut statements, mut prepared) = (Statements::default(), Prepared::default());
        let mut names = Vec::new();
        for number in 0..3 * STATEMENTS_MAX {
            let statement = statements.of(&form(number));
            let first = number.checked_sub(STATEMENTS_MAX);
            let closes = first.map(|first| names[first]);
            assert_eq!(prepared.uses(statement), Before::Prepare { closes });
            assert!(!names.contains(&statement.name));
            names.push(statement.name);
        }
        assert_eq!(statements.by_form.len(), STATEMENTS_MAX);
        let kept = statements.of(&form(3 * STATEMENTS_MAX - 1));
        assert_eq!(prepared.uses(kept), Before::Nothing);
    }

    #[test]
    fn what_has_another_place_by_now_is_not_closed_with_its_old_one() {
        let (mut statements, mut prepared) = (Statements::default(), Prepared::default());
        let first = statements.of(&form(0));
        assert_eq!(prepared.uses(first), PREPARE);
        // The last one takes its place, and it then the next one's.
        let others = (1..=STATEMENTS_MAX).map(|number| statements.of(&form(number)));
        let other = others.last().expect("there are some");
        let again = statements.of(&form(0));
        assert_eq!((other.slot, again.slot), (first.slot, first.slot + 1));
        assert_eq!(prepared.uses(again), PREPARE);
        assert_eq!(prepared.uses(other), PREPARE);
        assert_eq!(prepared.uses(again), Before::Nothing);
    }

    #[test]
    fn a_name_means_the_same_to_all_workers() {
        let (mut one, mut other) = (Statements::default(), Statements::default());
        other.of(&form(2));
        assert_eq!(one.of(&form(1)).name, other.of(&form(1)).name);
        let mut typed = form(1);
        typed.arguments.push(Type::Int);
        assert_ne!(one.of(&form(1)).name, one.of(&typed).name);
    }
}
