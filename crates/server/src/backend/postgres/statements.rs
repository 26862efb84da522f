//! Statements that connections prepare, once each and as they are first asked for.

use rhythm_engine::program::{Form, Type};
use std::collections::HashMap;
use std::rc::Rc;

use super::cells::oid;

/// So many statements are prepared on a connection at a time; another takes the place of the one
/// that came first.
const STATEMENTS_MAX: usize = 256;

/// A statement as it is prepared now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// Its number, of which its name is made.
    pub(super) slot: usize,
    /// What it was prepared as before with this number is of no use any more.
    generation: u64,
}

impl Statement {
    pub(super) fn name(self) -> String {
        format!("s{}", self.slot)
    }
}

/// The statements of a backend, for all of its connections.
#[derive(Debug, Default)]
pub(super) struct Statements {
    slots: Vec<(Rc<Form>, u64)>,
    by_form: HashMap<Rc<Form>, usize>,
    generation_last: u64,
    /// The slot that is taken next when all are in use.
    next: usize,
}

impl Statements {
    /// The statement of a form.
    pub(super) fn of(&mut self, form: &Form) -> Statement {
        let slot = match self.by_form.get(form) {
            Some(slot) => *slot,
            None => self.add(form),
        };
        Statement {
            slot,
            generation: self.slots[slot].1,
        }
    }

    fn add(&mut self, form: &Form) -> usize {
        let form = Rc::new(form.clone());
        self.generation_last += 1;
        let new = (form.clone(), self.generation_last);
        let slot = if self.slots.len() < STATEMENTS_MAX {
            self.slots.push(new);
            self.slots.len() - 1
        } else {
            let slot = self.next;
            self.next = (slot + 1) % STATEMENTS_MAX;
            let (old, _) = std::mem::replace(&mut self.slots[slot], new);
            self.by_form.remove(&old);
            slot
        };
        self.by_form.insert(form, slot);
        slot
    }

    /// All connections are to prepare it anew, unless they do already.
    pub(super) fn renew(&mut self, statement: Statement) {
        let generation = &mut self.slots[statement.slot].1;
        if *generation == statement.generation {
            self.generation_last += 1;
            *generation = self.generation_last;
        }
    }
}

/// What is known of a number on a connection.
#[derive(Debug, Default)]
enum Known {
    /// No statement was prepared with it.
    #[default]
    Nothing,
    /// One was, and it is of no use.
    Spent,
    /// It is this one.
    Prepared(u64),
}

/// The statements that are prepared on a connection.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    known: Vec<(Known, Vec<u32>)>,
}

/// What is to be done before a statement is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing: it is prepared.
    Nothing,
    /// It is prepared.
    Prepare,
    /// What has its name is closed, and it is prepared.
    Replace,
}

impl Prepared {
    /// A statement is about to be executed, and prepared where it has to be.
    pub(super) fn uses(&mut self, statement: Statement) -> Before {
        if self.known.len() <= statement.slot {
            self.known.resize_with(statement.slot + 1, Default::default);
        }
        let (known, _) = &mut self.known[statement.slot];
        let before = match known {
            Known::Prepared(generation) if *generation == statement.generation => Before::Nothing,
            Known::Nothing => Before::Prepare,
            _ => Before::Replace,
        };
        *known = Known::Prepared(statement.generation);
        before
    }

    /// It is not prepared, or not any more.
    pub(super) fn lost(&mut self, statement: Statement) {
        let (known, _) = &mut self.known[statement.slot];
        if matches!(known, Known::Prepared(generation) if *generation == statement.generation) {
            *known = Known::Spent;
        }
    }

    /// The types of its columns, which its answers have.
    pub(super) fn columns(&mut self, statement: Statement) -> &mut Vec<u32> {
        let (_, columns) = &mut self.known[statement.slot];
        columns
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

    #[test]
    fn each_is_prepared_once_until_it_is_renewed() {
        let (mut statements, mut prepared) = (Statements::default(), Prepared::default());
        let one = statements.of(&form(1));
        assert_eq!(one, statements.of(&form(1)));
        assert_eq!(prepared.uses(one), Before::Prepare);
        assert_eq!(prepared.uses(one), Before::Nothing);
        statements.renew(one);
        let renewed = statements.of(&form(1));
        assert_eq!((renewed.slot, renewed != one), (one.slot, true));
        // Told by another connection, or of an answer on its way.
        statements.renew(one);
        assert_eq!(statements.of(&form(1)), renewed);
        assert_eq!(prepared.uses(renewed), Before::Replace);
        prepared.lost(one);
        assert_eq!(prepared.uses(renewed), Before::Nothing);
        prepared.lost(renewed);
        assert_eq!(prepared.uses(renewed), Before::Replace);
    }

    #[test]
    fn so_many_are_kept() {
        let (mut statements, mut prepared) = (Statements::default(), Prepared::default());
        for number in 0..3 * STATEMENTS_MAX {
            let statement = statements.of(&form(number));
            let before = prepared.uses(statement);
            let is_first = number < STATEMENTS_MAX;
            assert_eq!(before == Before::Prepare, is_first, "{number}");
            assert!(is_first || before == Before::Replace, "{number}");
        }
        assert_eq!(statements.by_form.len(), STATEMENTS_MAX);
        let kept = statements.of(&form(3 * STATEMENTS_MAX - 1));
        assert_eq!(prepared.uses(kept), Before::Nothing);
    }
}
