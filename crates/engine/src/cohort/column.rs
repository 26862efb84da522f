//! Columns: a field's values, one a lane.

use super::arena::{Arena, View};
use super::need::Need;
use crate::program::{FieldType, Type};

/// Bytes of a cell of a list, whatever it holds: a view or an integer.
pub(super) const CELL_BYTES: usize = size_of::<View>();

const _: () = assert!(CELL_BYTES == size_of::<i64>());

/// A lane's share of a list column: items `start .. start + length`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Span {
    /// The first item.
    pub start: u32,
    /// How many.
    pub length: u32,
}

/// A list a lane: spans into the items, which are columns themselves (as the list columns of DuckDB
/// and Arrow).
#[derive(Debug)]
pub struct ListColumn {
    /// The lane's items.
    pub spans: Vec<Span>,
    /// A column each for the records' columns, all of one length. Only Text and Int.
    pub columns: Vec<Column>,
    /// Of items.
    need: Need,
}

/// A field's values, one a lane.
#[derive(Debug)]
pub enum Column {
    /// Texts.
    Text(Vec<View>),
    /// Integers.
    Int(Vec<i64>),
    /// Lists.
    List(ListColumn),
}

impl ListColumn {
    /// Bytes that so many of its items take of the arena's bound besides their texts.
    pub(super) fn cell_bytes(&self, items: usize) -> usize {
        items * self.columns.len() * CELL_BYTES
    }

    /// Bytes that these items take of the arena's bound: their cells and their texts.
    pub(super) fn charge(&self, Span { start, length }: Span) -> usize {
        let items = start as usize..(start + length) as usize;
        let texts = |column: &Column| match column {
            Column::Text(views) => (views[items.clone()].iter())
                .map(|view| view.length as usize)
                .sum(),
            _ => 0,
        };
        let texts: usize = self.columns.iter().map(texts).sum();
        self.cell_bytes(items.len()) + texts
    }

    /// Appends these items of another list, for whose charge there is room, their texts from one
    /// arena to the other, and gives where they are now.
    pub(super) fn copy_items(
        &mut self,
        from: &ListColumn,
        span: Span,
        from_arena: &Arena,
        arena: &mut Arena,
    ) -> Span {
        let start = self.columns.first().map_or(0, Column::len) as u32;
        arena.charge(self.cell_bytes(span.length as usize));
        for (to, from) in self.columns.iter_mut().zip(&from.columns) {
            for item in span.start..span.start + span.length {
                let at = to.len();
                to.push_empty();
                to.copy_lane(at, from, item as usize, from_arena, arena);
            }
        }
        Span { start, ..span }
    }
}

impl Column {
    /// An empty column for a field of this type. Float and Bool fields do not occur (see
    /// [`FieldType`]).
    pub fn new(kind: &FieldType) -> Column {
        match kind {
            FieldType::Scalar(Type::Text) => Column::Text(Vec::new()),
            FieldType::Scalar(_) => Column::Int(Vec::new()),
            FieldType::List(columns) => Column::List(ListColumn {
                spans: Vec::new(),
                columns: columns
                    .iter()
                    .map(|(_, t)| Column::new(&FieldType::Scalar(*t)))
                    .collect(),
                need: Need::default(),
            }),
        }
    }

    /// Whether the column is one for a field of this type.
    pub fn fits(&self, kind: &FieldType) -> bool {
        match (self, kind) {
            (Column::Text(_), FieldType::Scalar(Type::Text)) => true,
            (Column::Int(_), FieldType::Scalar(t)) => *t != Type::Text,
            (Column::List(list), FieldType::List(columns)) => {
                list.columns.len() == columns.len()
                    && (list.columns.iter().zip(columns))
                        .all(|(c, (_, t))| c.fits(&FieldType::Scalar(*t)))
            }
            _ => false,
        }
    }

    /// Empties it, keeping its memory but what items have not needed of late.
    pub fn clear(&mut self) {
        match self {
            Column::Text(views) => views.clear(),
            Column::Int(values) => values.clear(),
            Column::List(list) => {
                list.spans.clear();
                list.need
                    .needed(list.columns.first().map_or(0, Column::len));
                for column in &mut list.columns {
                    column.clear();
                    match column {
                        Column::Text(views) => list.need.shrink(views),
                        Column::Int(values) => list.need.shrink(values),
                        Column::List(_) => unreachable!("records have no lists"),
                    }
                }
            }
        }
    }

    /// Bytes that items of lists have of the system.
    pub(super) fn items_capacity(&self) -> usize {
        let Column::List(list) = self else {
            return 0;
        };
        let items = |column: &Column| match column {
            Column::Text(views) => views.capacity(),
            Column::Int(values) => values.capacity(),
            Column::List(_) => unreachable!("records have no lists"),
        };
        CELL_BYTES * list.columns.iter().map(items).sum::<usize>()
    }

    /// Appends an empty text, 0, or an empty list.
    pub(crate) fn push_empty(&mut self) {
        match self {
            Column::Text(views) => views.push(View::default()),
            Column::Int(values) => values.push(0),
            Column::List(list) => list.spans.push(Span::default()),
        }
    }

    /// Takes the last value away, with the items of a list that were pushed last.
    pub fn pop(&mut self) {
        match self {
            Column::Text(views) => drop(views.pop()),
            Column::Int(values) => drop(values.pop()),
            Column::List(list) => {
                if let Some(Span { start, length: 1.. }) = list.spans.pop() {
                    let columns = list.columns.iter_mut();
                    columns.for_each(|column| column.truncate(start as usize));
                }
            }
        }
    }

    /// The texts. Panics on another type: the compiler's mistake.
    #[inline]
    pub fn texts(&self) -> &[View] {
        match self {
            Column::Text(views) => views,
            _ => unreachable!("the compiler asks for texts of text columns only"),
        }
    }

    /// The integers. Panics on another type: the compiler's mistake.
    #[inline]
    pub fn ints(&self) -> &[i64] {
        match self {
            Column::Int(values) => values,
            _ => unreachable!("the compiler asks for integers of integer columns only"),
        }
    }

    /// The list. Panics on another type: the compiler's mistake.
    #[inline]
    pub fn list(&self) -> &ListColumn {
        match self {
            Column::List(list) => list,
            _ => unreachable!("the compiler asks for items of list columns only"),
        }
    }

    /// [`Column::list`], to append to.
    #[inline]
    pub fn list_mut(&mut self) -> &mut ListColumn {
        match self {
            Column::List(list) => list,
            _ => unreachable!("the compiler asks for items of list columns only"),
        }
    }

    /// Sets a lane's text.
    #[inline]
    pub fn set_text(&mut self, lane: usize, view: View) {
        match self {
            Column::Text(views) => views[lane] = view,
            _ => unreachable!("the compiler puts texts into text columns only"),
        }
    }

    /// Makes a lane's text empty, or its integer 0.
    pub fn clear_lane(&mut self, lane: usize) {
        match self {
            Column::Int(values) => values[lane] = 0,
            column => column.set_text(lane, View::default()),
        }
    }

    /// Sets a lane's integer.
    #[inline]
    pub fn set_int(&mut self, lane: usize, value: i64) {
        match self {
            Column::Int(values) => values[lane] = value,
            _ => unreachable!("the compiler puts integers into integer columns only"),
        }
    }

    /// Gives a lane what another has: its text, which is there once, or its integer.
    pub(super) fn share_lane(&mut self, lane: usize, from: usize) {
        match self {
            Column::Int(values) => values[lane] = values[from],
            Column::Text(views) => views[lane] = views[from],
            Column::List(_) => unreachable!("columns of a row are no lists"),
        }
    }

    /// Bytes that a lane's value takes of the arena's bound: its texts, and a list's cells.
    pub(crate) fn charge(&self, lane: usize) -> usize {
        match self {
            Column::Text(views) => views[lane].length as usize,
            Column::Int(_) => 0,
            Column::List(list) => list.charge(list.spans[lane]),
        }
    }

    /// Copies lane `from_lane` of `from` to lane `lane` of this column, its texts from one arena to
    /// the other.
    pub(crate) fn copy_lane(
        &mut self,
        lane: usize,
        from: &Column,
        from_lane: usize,
        from_arena: &Arena,
        arena: &mut Arena,
    ) {
        match (self, from) {
            (Column::Text(to), Column::Text(from)) => {
                to[lane] = arena.push(from_arena.get(from[from_lane]));
            }
            (Column::Int(to), Column::Int(from)) => to[lane] = from[from_lane],
            (Column::List(to), Column::List(from)) => {
                let span = from.spans[from_lane];
                to.spans[lane] = to.copy_items(from, span, from_arena, arena);
            }
            _ => unreachable!("lanes move between cohorts of one page only"),
        }
    }

    /// Appends items of this column once more.
    pub(super) fn repeat(&mut self, items: std::ops::Range<usize>) {
        match self {
            Column::Text(views) => views.extend_from_within(items),
            Column::Int(values) => values.extend_from_within(items),
            Column::List(_) => unreachable!("records have no lists"),
        }
    }

    /// Keeps the first `len` values.
    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Column::Text(views) => views.truncate(len),
            Column::Int(values) => values.truncate(len),
            Column::List(list) => list.spans.truncate(len),
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Column::Text(views) => views.len(),
            Column::Int(values) => values.len(),
            Column::List(list) => list.spans.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
