//! Steps: operations that need no other lane, as a lane takes them one by one.
//!
//! Blocks are jumps, and columns are places in a table: `fuse` makes steps of operations, once for
//! each page, a launch fills the table with the columns of its cohort, and `walk` has each lane
//! take all steps.

use super::keys::Key;
use super::strip::Pack;
use super::write::{Appended, HALF, MOVE};
use crate::cohort::{Column, Span, View};
use crate::program::{Comparison, FieldId, FragmentId, Op, Put, Register, Type};

/// A column of a cohort: a field's, or one of the list that the field is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ColumnRef {
    pub(super) field: FieldId,
    pub(super) column: Option<u16>,
}

/// The columns that a stage's steps read, each kind by itself. Steps say which by their indexes.
#[derive(Debug, Default)]
pub(super) struct Needed {
    pub(super) texts: Vec<ColumnRef>,
    pub(super) ints: Vec<ColumnRef>,
    /// Lists: where each lane's items are.
    pub(super) spans: Vec<FieldId>,
}

/// The same of a cohort.
#[derive(Default)]
pub(super) struct Columns<'a> {
    pub(super) texts: Vec<&'a [View]>,
    pub(super) ints: Vec<&'a [i64]>,
    pub(super) spans: Vec<&'a [Span]>,
}

impl<'a> Columns<'a> {
    /// Looks them up.
    pub(super) fn find(&mut self, needed: &Needed, fields: &'a [Column]) {
        let column = |wanted: &ColumnRef| {
            let field = &fields[usize::from(wanted.field)];
            match wanted.column {
                Some(column) => &field.list().columns[usize::from(column)],
                None => field,
            }
        };
        let spans = |list: &FieldId| &*fields[usize::from(*list)].list().spans;
        self.texts
            .extend(needed.texts.iter().map(|wanted| column(wanted).texts()));
        self.ints
            .extend(needed.ints.iter().map(|wanted| column(wanted).ints()));
        self.spans.extend(needed.spans.iter().map(spans));
    }

    /// None, in the memory of these.
    pub(super) fn reuse<'b>(self) -> Columns<'b> {
        fn reuse<'b, T>(mut slices: Vec<&[T]>) -> Vec<&'b [T]> {
            slices.clear();
            // None is left to be turned into another; what remains is the memory.
            slices
                .into_iter()
                .map(|_| unreachable!("it is empty"))
                .collect()
        }
        Columns {
            texts: reuse(self.texts),
            ints: reuse(self.ints),
            spans: reuse(self.spans),
        }
    }

    #[inline(always)]
    pub(super) fn cell(&self, values: Values, at: usize) -> u64 {
        match values {
            Values::Text(column) => self.texts[usize::from(column)][at].pack(),
            Values::Int(column) => self.ints[usize::from(column)][at].pack(),
        }
    }
}

/// Which of the [`Columns`] values are from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values {
    Text(u16),
    Int(u16),
}

const _: () = assert!(size_of::<Step>() == 16);

/// What a lane does next. Steps are counted from 0, and a jump says which one follows.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Step {
    /// Appends the first `length` bytes of the constants, from a move on.
    Constant {
        first_move: u32,
        length: u32,
    },
    /// Notes a fragment of so many bytes.
    Fragment {
        fragment: FragmentId,
        length: usize,
    },
    /// Appends a text, perhaps escaped for HTML.
    Text {
        from: Register,
        escaped: bool,
    },
    /// Appends `count` of the cells, from `first` on, and perhaps puts them into registers.
    Cells {
        row: Row,
        keeps: bool,
        count: u16,
        first: u32,
    },
    /// Appends the first of `count` choices, from `first` on, whose condition is true, or the one
    /// behind them.
    Choose {
        first: u32,
        count: u32,
    },
    /// Appends the choice, from `first` on, that stands where a text does among `count` keys, or
    /// the one behind them.
    Match {
        text: Register,
        count: u8,
        first_key: u32,
        first: u32,
    },
    /// Appends an integer.
    Int {
        from: Register,
    },
    /// Appends what is seldom appended.
    Print {
        put: Put,
        kind: Type,
    },
    /// Loads a scalar field.
    Field {
        to: Register,
        values: Values,
    },
    /// Loads how many items the lane's list has.
    Length {
        to: Register,
        spans: u16,
    },
    /// Loads an item of the lane's list.
    Item {
        to: Register,
        position: Register,
        spans: u16,
        values: Values,
    },
    /// Compares integers or truth values.
    Compare {
        comparison: Comparison,
        to: Register,
        left: Register,
        right: Register,
    },
    /// Sets whether two texts are equal, or whether they are not.
    Equal {
        to: Register,
        left: Register,
        right: Register,
        wanted: bool,
    },
    /// Sets whether a text is a short constant, or whether it is not.
    Is {
        wanted: bool,
        to: Register,
        text: Register,
        /// The constant's bytes, at most 8 and at least one.
        length: u8,
        /// Them, the last in the highest byte and zeros below the first.
        word: u64,
    },
    /// Computes a cell from others.
    Compute {
        op: u32,
        to: Register,
    },
    /// The same of texts that are looked through, for which the lane is charged.
    Read {
        op: u32,
        to: Register,
    },
    /// Goes on where a condition is true, and jumps where it is not.
    Branch {
        condition: Register,
        otherwise: u32,
    },
    Jump {
        to: u32,
    },
    /// Begins a loop's first turn, or jumps where there is none.
    Begin {
        count: Register,
        position: Register,
        index: Register,
        length: Register,
        none: u32,
    },
    /// Begins a loop's next turn at `body`, or goes on where there is none.
    Next {
        position: Register,
        index: Register,
        length: Register,
        body: u32,
    },
    /// Takes all turns of a loop that only appends a row for each item of a list, or goes on at
    /// `none` where there is no turn.
    Rows {
        count: Register,
        spans: u16,
        /// What a row has: so many, from `first` on.
        parts: u16,
        first: u32,
        none: u32,
    },
    /// Sets the answer's status.
    Status(u16),
    /// Sets the answer's file.
    File(Register),
    /// Sets what happens to the session: one is created for a user, or the lane's is destroyed.
    Session {
        user: Option<Register>,
    },
    /// Ends the lane with its answer.
    Finish,
}

/// Where cells are from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Row {
    /// Registers.
    Registers,
    /// Fields, which are loaded into registers, too.
    Fields,
    /// An item of the lane's list, likewise.
    Item { position: Register, spans: u16 },
}

/// A short constant to append where a condition is true, or a key is found.
pub(super) struct Choice {
    pub(super) condition: Register,
    pub(super) length: u16,
    /// Padded.
    pub(super) constant: [u8; HALF],
}

impl Step {
    /// The register that it is for to write. Those of a loop it has for itself.
    pub(super) fn destination(&self) -> Option<Register> {
        match *self {
            Step::Field { to, .. }
            | Step::Length { to, .. }
            | Step::Item { to, .. }
            | Step::Compare { to, .. }
            | Step::Equal { to, .. }
            | Step::Is { to, .. }
            | Step::Compute { to, .. }
            | Step::Read { to, .. } => Some(to),
            _ => None,
        }
    }

    /// The register that it loads a text into, and where that is from.
    pub(super) fn loaded_text(&self) -> Option<(Register, Row, u16)> {
        match *self {
            Step::Field {
                to,
                values: Values::Text(column),
            } => Some((to, Row::Fields, column)),
            Step::Item {
                to,
                position,
                spans,
                values: Values::Text(column),
            } => (to != position).then_some((to, Row::Item { position, spans }, column)),
            _ => None,
        }
    }
}

/// Steps, and what they work on.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) list: Vec<Step>,
    pub(super) cells: Vec<Appended>,
    /// Constants, padded to whole moves.
    pub(super) moves: Vec<[u8; MOVE]>,
    pub(super) choices: Vec<Choice>,
    pub(super) keys: Vec<Key>,
    pub(super) parts: Vec<RowPart>,
    /// What computes cells.
    pub(super) ops: Vec<Op>,
}

impl Steps {
    pub(super) fn lengths(&self) -> [usize; 7] {
        [
            self.list.len(),
            self.cells.len(),
            self.moves.len(),
            self.choices.len(),
            self.keys.len(),
            self.parts.len(),
            self.ops.len(),
        ]
    }

    pub(super) fn truncate(&mut self, [list, cells, moves, choices, keys, parts, ops]: [usize; 7]) {
        self.list.truncate(list);
        self.cells.truncate(cells);
        self.moves.truncate(moves);
        self.choices.truncate(choices);
        self.keys.truncate(keys);
        self.parts.truncate(parts);
        self.ops.truncate(ops);
    }
}

/// A part of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowPart {
    /// A constant of at most [`MOVE`] bytes, padded.
    Constant { length: u32, constant: [u8; MOVE] },
    /// Such a constant, and a text of a column behind it, perhaps escaped for HTML.
    Text {
        escaped: bool,
        column: u16,
        length: u32,
        constant: [u8; MOVE],
    },
    /// [`Step::Match`], with the text of a column.
    Match {
        count: u8,
        column: u16,
        first_key: u32,
        first: u32,
    },
}
