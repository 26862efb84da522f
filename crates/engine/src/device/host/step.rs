//! Steps: operations that need no other lane, as a lane takes them one by one.
//!
//! Columns are looked up and blocks are jumps: `fuse` makes steps of operations, once a strip, and
//! `walk` has each lane take all of them.

use super::strip::Cell;
use super::write::{Appended, MOVE};
use crate::cohort::{Column, Span, View};
use crate::program::{Comparison, For, FragmentId, Op, Put, Register, Type};

/// A column's values, or those of a list's column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values<'a> {
    Text(&'a [View]),
    Int(&'a [i64]),
}

impl Row<'_> {
    pub(super) fn is(&self, other: &Row<'_>) -> bool {
        match (self, other) {
            (Row::Registers, Row::Registers) | (Row::Fields, Row::Fields) => true,
            (
                Row::Item { position, spans },
                Row::Item {
                    position: p,
                    spans: s,
                },
            ) => position == p && std::ptr::eq(*spans, *s),
            _ => false,
        }
    }
}

impl<'a> Values<'a> {
    pub(super) fn of(column: &'a Column) -> Values<'a> {
        match column {
            Column::Text(views) => Values::Text(views),
            Column::Int(values) => Values::Int(values),
            Column::List(_) => unreachable!("lists are read item by item"),
        }
    }

    #[inline(always)]
    pub(super) fn cell(self, at: usize) -> u64 {
        match self {
            Values::Text(views) => views[at].pack(),
            Values::Int(values) => values[at].pack(),
        }
    }
}

/// What a lane does next. Steps are counted from 0, and a jump says which one follows.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Step<'a> {
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
    /// Appends `count` of the cells, from `first` on.
    Cells {
        row: Row<'a>,
        first: u32,
        count: u32,
    },
    /// Appends an integer.
    Int {
        from: Register,
    },
    /// Appends what is seldom appended.
    Print {
        put: &'a Put,
        kind: Type,
    },
    /// Loads a scalar field.
    Field {
        to: Register,
        values: Values<'a>,
    },
    /// Loads how many items the lane's list has.
    Length {
        to: Register,
        spans: &'a [Span],
    },
    /// Loads an item of the lane's list.
    Item {
        to: Register,
        position: Register,
        spans: &'a [Span],
        values: Values<'a>,
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
    /// Computes a cell from others.
    Compute {
        op: &'a Op,
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
        op: &'a For,
        none: u32,
    },
    /// Begins a loop's next turn at `body`, or goes on where there is none.
    Next {
        op: &'a For,
        body: u32,
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
#[derive(Clone, Copy, Debug)]
pub(super) enum Row<'a> {
    /// Registers.
    Registers,
    /// Fields, which are loaded into registers, too.
    Fields,
    /// An item of the lane's list, likewise.
    Item {
        position: Register,
        spans: &'a [Span],
    },
}

/// Steps, and what they work on.
#[derive(Default)]
pub(super) struct Steps<'a> {
    pub(super) list: Vec<Step<'a>>,
    pub(super) cells: Vec<Appended<'a>>,
    /// Constants, padded to whole moves.
    pub(super) moves: Vec<[u8; MOVE]>,
}

impl Steps<'_> {
    /// None, in the memory of these.
    pub(super) fn reuse<'b>(mut self) -> Steps<'b> {
        self.list.clear();
        self.cells.clear();
        self.moves.clear();
        // No element is left to be turned into another; what remains is the memory.
        let (list, cells) = (self.list.into_iter(), self.cells.into_iter());
        Steps {
            list: list.map(|_| unreachable!("it is empty")).collect(),
            cells: cells.map(|_| unreachable!("it is empty")).collect(),
            moves: self.moves,
        }
    }
}
