//! Answers of backends: typed cells put into the columns of a call's result.
//!
//! A backend delivers the rows of one query at a time, in whatever order queries are answered.
//! Their cells go straight to the end of the result's columns ([`Rows::answer`]). One that answers
//! many queries at once with texts only can deliver them column by column
//! ([`Rows::answer_columns`]). When all are there, [`Cohort::settle`](super::Cohort::settle) gives
//! each lane its rows. This is the one place that decides which cell goes into which column:
//!
//! | cell | Text column | Int column |
//! |---|---|---|
//! | text, decimal | as written | if it is an integer of 64 bits in decimal |
//! | int | in decimal | as it is |
//! | bool | `True`, `False` | 1, 0 |
//! | float | as pages print it | no |
//! | timestamp | `2026-01-15 12:30:00.000001`, the fraction if there is one | no |
//! | bytes | if they are UTF-8 | no |
//! | null | empty | 0 |
//!
//! Each cell of a list counts against the bound of the cohort's arena, and so do texts: an answer
//! for which there is no room fails its lane with [`LaneError::ArenaFull`], or with
//! [`LaneError::MemoryShort`] where other cohorts have it.
//!
//! What does not fit, a row with more or fewer cells than the page expects, more than [`ROWS_MAX`]
//! rows, and another number than one where it expects one row fail the lane with
//! [`LaneError::BadAnswer`].

use super::arena::{Arena, View};
use super::column::{CELL_BYTES, Column, Span};
use super::error::{LaneError, LaneState};
use super::queries::Argument;
use super::text;
use crate::program::{Call, CallResult, FieldId, Particulars};
use rhythm_protocol::scan::html_special;
use std::ops::Range;

/// Most rows of one answer.
pub const ROWS_MAX: u32 = 4096;

/// A value that a backend delivers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// A text. What is not UTF-8 is no text, and unreadable.
    Text(&'a [u8]),
    /// An integer.
    Int(i64),
    /// A decimal number, as the backend writes it.
    Decimal(&'a [u8]),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A point in time: microseconds since 1970-01-01 00:00:00 UTC.
    Timestamp(i64),
    /// Bytes of any kind.
    Bytes(&'a [u8]),
}

impl<'a> From<Argument<'a>> for Cell<'a> {
    fn from(argument: Argument<'a>) -> Cell<'a> {
        match argument {
            Argument::Text(text) => Cell::Text(text),
            Argument::Int(value) => Cell::Int(value),
            Argument::Float(value) => Cell::Float(value),
            Argument::Bool(value) => Cell::Bool(value),
        }
    }
}

/// The answer of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryAnswer {
    /// The backend's status; 0 is good.
    pub(super) status: i64,
    /// Its rows among the items of the result's list; where there is one row, only how many came.
    pub(super) rows: Span,
}

/// Answers to several queries, one after the other, whose cells are all texts.
#[derive(Clone, Copy, Debug)]
pub struct TextColumns<'a> {
    /// Of each answer the backend's status, and how many rows it has: none where the status is not
    /// 0.
    pub answers: &'a [(i64, u32)],
    /// All texts.
    pub text: &'a [u8],
    /// Of each column, where its cells are among the texts, row by row through all answers.
    pub columns: &'a [Vec<Range<u32>>],
}

/// Where the answers to a cohort's queries go.
#[derive(Debug)]
pub struct Rows<'a> {
    pub(super) call: &'a Call,
    pub(super) asked: &'a [u32],
    pub(super) fields: &'a mut [Column],
    pub(super) lanes: &'a mut [LaneState],
    pub(super) arena: &'a mut Arena,
    pub(super) answers: &'a mut [Option<QueryAnswer>],
    pub(super) misfits: &'a mut Vec<(usize, Misfit)>,
}

/// Why an answer is none that its page takes. Columns are those of the call's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// A row has more or fewer cells than the page has columns.
    Cells,
    /// The cell of this column is no integer, as the page has it.
    NoInteger(usize),
    /// The cell of this column is no float, as the page has it.
    NoFloat(usize),
    /// The cell of this column is not UTF-8.
    NoText(usize),
    /// There are more than [`ROWS_MAX`] rows.
    ManyRows,
    /// There is no row, or there are several, where the page takes one.
    NotOneRow,
}

impl Misfit {
    /// Which column it is about, if it is about one.
    pub fn column(self) -> Option<usize> {
        match self {
            Misfit::NoInteger(column) | Misfit::NoFloat(column) | Misfit::NoText(column) => {
                Some(column)
            }
            Misfit::Cells | Misfit::ManyRows | Misfit::NotOneRow => None,
        }
    }
}

impl<'a> Rows<'a> {
    /// The call that asks.
    pub fn call(&self) -> &'a Call {
        self.call
    }

    /// Takes the answer to a query: `write` delivers its rows and gives its status. Where that is
    /// not 0 the rows are dropped. A query is answered once.
    pub fn answer(&mut self, query: usize, write: impl FnOnce(&mut AnswerWriter<'_>) -> i64) {
        let lane = self.asked[query] as usize;
        debug_assert_eq!(self.answers[query], None, "a query is answered once");
        if self.lanes[lane] != LaneState::Active {
            // Another of its queries has failed it.
            self.answers[query] = Some(QueryAnswer {
                status: 0,
                rows: Span::default(),
            });
            return;
        }
        let width = usize::from(self.call.columns);
        let (columns, start) = match &self.call.result {
            CallResult::Rows(list) => {
                let columns = &mut self.fields[usize::from(*list)].list_mut().columns[..];
                let start = columns.first().map_or(0, Column::len);
                (Target::List(columns), start)
            }
            CallResult::Row(ids) => {
                let fields = &mut *self.fields;
                (Target::Row { fields, ids, lane }, 0)
            }
        };
        let mut answer = AnswerWriter {
            columns,
            arena: self.arena,
            width,
            particulars: &self.call.particulars,
            rows: 0,
            error: None,
            misfit: None,
        };
        let status = write(&mut answer);
        let (mut error, mut status, mut length) = (answer.error, status, answer.rows);
        if let Some(misfit) = answer.misfit {
            self.misfits.push((lane, misfit));
        }
        if error.is_some() || status != 0 {
            answer.undo(start);
            length = 0;
        }
        if let Some(spared) = error.and_then(|error| spared(self.call, error)) {
            (error, status) = (None, spared);
        }
        let start = start as u32;
        self.answers[query] = Some(QueryAnswer {
            status,
            rows: Span { start, length },
        });
        if let Some(error) = error {
            self.lanes[lane] = LaneState::Failed(error);
        }
    }

    /// Takes one answer to several queries, which ask the same. As [`Rows::answer`] for each, but
    /// the rows are there once, and `write` is called once.
    ///
    /// # Panics
    /// If there is no query: the caller's mistake.
    pub fn answer_all(
        &mut self,
        queries: impl Iterator<Item = usize> + Clone,
        write: impl FnOnce(&mut AnswerWriter<'_>) -> i64,
    ) {
        let is_active = |query: usize| self.lanes[self.asked[query] as usize] == LaneState::Active;
        let first = (queries.clone().find(|query| is_active(*query))).or(queries.clone().next());
        let first = first.expect("there is a query");
        let misfits = self.misfits.len();
        self.answer(first, write);
        let (from, answer) = (self.asked[first] as usize, self.answers[first]);
        let misfit = self.misfits.get(misfits).map(|(_, misfit)| *misfit);
        for query in queries.filter(|query| *query != first) {
            debug_assert_eq!(self.answers[query], None, "a query is answered once");
            self.answers[query] = answer;
            let lane = self.asked[query] as usize;
            if lane == from || self.lanes[lane] != LaneState::Active {
                continue;
            }
            // What one lane cannot take, none can.
            self.lanes[lane] = self.lanes[from];
            self.misfits.extend(misfit.map(|misfit| (lane, misfit)));
            if let CallResult::Row(ids) = &self.call.result {
                for id in ids {
                    self.fields[usize::from(*id)].share_lane(lane, from);
                }
            }
        }
    }

    /// Takes the answers to queries from `first` on, whose cells are all texts. As
    /// [`Rows::answer`] for each, but where all is as the page expects, whole columns move at once.
    pub fn answer_columns(&mut self, first: usize, texts: TextColumns<'_>) {
        let TextColumns {
            answers,
            text,
            columns: from,
        } = texts;
        let items = from.first().map_or(0, Vec::len);
        debug_assert!(from.iter().all(|cells| cells.len() == items));
        let asked = &self.asked[first..first + answers.len()];
        let is_active = |lane: &u32| self.lanes[*lane as usize] == LaneState::Active;
        if let CallResult::Rows(list) = &self.call.result
            && asked.iter().all(is_active)
            && answers.iter().all(|(_, rows)| *rows <= ROWS_MAX)
            && text.is_ascii()
        {
            let list = self.fields[usize::from(*list)].list_mut();
            let cell_bytes = list.cell_bytes(items);
            // Where nobody has a row, nobody minds how many cells it would have.
            let fits = items == 0 || from.len() == list.columns.len();
            let is_text = |column: &Column| matches!(column, Column::Text(_));
            if fits
                && list.columns.iter().all(is_text)
                && self.call.particulars.floats.is_empty()
                && self.arena.reserve(cell_bytes + text.len())
            {
                let mut start = list.columns.first().map_or(0, Column::len) as u32;
                // To look through all of them at once is much less than to look at each as it is
                // shown.
                let base = match html_special(text) {
                    None => self.arena.push_plain(text).offset,
                    Some(_) => self.arena.push(text).offset,
                };
                self.arena.charge(cell_bytes);
                for (column, cells) in list.columns.iter_mut().zip(from) {
                    if let Column::Text(views) = column {
                        views.extend(cells.iter().map(|cell| View {
                            offset: base + cell.start,
                            length: cell.end - cell.start,
                        }));
                    }
                }
                let places = &mut self.answers[first..first + answers.len()];
                for (place, &(status, length)) in places.iter_mut().zip(answers) {
                    debug_assert_eq!(*place, None, "a query is answered once");
                    let rows = Span { start, length };
                    *place = Some(QueryAnswer { status, rows });
                    start += length;
                }
                return;
            }
        }
        let mut item = 0;
        for (&(status, rows), query) in answers.iter().zip(first..) {
            let items = item..item + rows as usize;
            item = items.end;
            self.answer(query, |answer| {
                for item in items {
                    answer.row(from.iter().map(|cells| {
                        let Range { start, end } = cells[item];
                        Cell::Text(&text[start as usize..end as usize])
                    }));
                }
                status
            });
        }
    }

    /// A query has no answer: its lane fails, where its page cannot do without; which, if it does.
    pub fn fail(&mut self, query: usize, error: LaneError) -> Option<usize> {
        let lane = self.asked[query] as usize;
        let state = &mut self.lanes[lane];
        if *state != LaneState::Active {
            return None;
        }
        match spared(self.call, error) {
            Some(status) => {
                self.answers[query] = Some(QueryAnswer {
                    status,
                    rows: Span::default(),
                });
                None
            }
            None => {
                *state = LaneState::Failed(error);
                Some(lane)
            }
        }
    }
}

/// The status that a call has in place of failing its lane: of an optional one that the backend has
/// not answered, or not as the page has it.
pub(super) fn spared(call: &Call, error: LaneError) -> Option<i64> {
    let is_of_backend = matches!(
        error,
        LaneError::BadAnswer
            | LaneError::BackendFailed
            | LaneError::BackendRefused
            | LaneError::BackendTimeout
    );
    (call.optional && is_of_backend).then(|| i64::from(error.status()))
}

/// The columns that a query's rows go to.
enum Target<'a> {
    List(&'a mut [Column]),
    Row {
        fields: &'a mut [Column],
        ids: &'a [FieldId],
        lane: usize,
    },
}

/// An answer under way.
pub struct AnswerWriter<'a> {
    columns: Target<'a>,
    arena: &'a mut Arena,
    width: usize,
    particulars: &'a Particulars,
    rows: u32,
    error: Option<LaneError>,
    /// The reason of a bad answer.
    misfit: Option<Misfit>,
}

impl std::fmt::Debug for AnswerWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerWriter")
            .field("rows", &self.rows)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl AnswerWriter<'_> {
    /// Delivers a row, a cell for each column.
    pub fn row<'c>(&mut self, cells: impl IntoIterator<Item = Cell<'c>>) {
        if self.error.is_some() {
            return;
        }
        let mut cells = cells.into_iter();
        let taken = self.begin_row().and_then(|()| {
            for index in 0..self.width {
                match cells.next() {
                    Some(cell) => self.cell(index, cell)?,
                    None => return Err(self.misfits(Misfit::Cells)),
                }
            }
            match cells.next() {
                None => Ok(()),
                Some(_) => Err(self.misfits(Misfit::Cells)),
            }
        });
        self.error = taken.err();
    }

    /// It is not as the page has it.
    fn misfits(&mut self, why: Misfit) -> LaneError {
        self.misfit = Some(why);
        LaneError::BadAnswer
    }

    /// Begins a row, and charges the cells of a list's.
    fn begin_row(&mut self) -> Result<(), LaneError> {
        if self.rows == ROWS_MAX {
            return Err(self.misfits(Misfit::ManyRows));
        }
        if matches!(self.columns, Target::List(_)) {
            let bytes = self.row_bytes();
            if !self.arena.reserve(bytes) {
                return Err(self.arena.refusal(bytes));
            }
            self.arena.charge(bytes);
        }
        self.rows += 1;
        Ok(())
    }

    /// What the cells of a list's row take.
    fn row_bytes(&self) -> usize {
        (self.width + self.particulars.nulls.len()) * CELL_BYTES
    }

    /// Takes back what its rows have left, from item `start` of a list on. Their texts stay.
    fn undo(&mut self, start: usize) {
        match &mut self.columns {
            Target::List(columns) => {
                for column in columns.iter_mut() {
                    column.truncate(start);
                }
                let bytes = self.rows as usize * self.row_bytes();
                self.arena.give_back(bytes);
            }
            Target::Row { fields, ids, lane } => {
                for id in ids.iter() {
                    match &mut fields[usize::from(*id)] {
                        Column::Int(values) => values[*lane] = 0,
                        column => column.set_text(*lane, View::default()),
                    }
                }
            }
        }
    }

    /// Takes a cell of the row.
    fn cell(&mut self, index: usize, cell: Cell<'_>) -> Result<(), LaneError> {
        let Particulars { floats, nulls, .. } = self.particulars;
        let is_it = |column: &u16| usize::from(*column) == index;
        if floats.iter().any(is_it) && !is_float(cell) {
            return Err(self.misfits(Misfit::NoFloat(index)));
        }
        self.put(index, cell)?;
        match nulls.iter().find(|(column, _)| is_it(column)) {
            None => Ok(()),
            Some((_, told)) => {
                let is_null = matches!(cell, Cell::Null);
                self.put(usize::from(*told), Cell::Bool(is_null))
            }
        }
    }

    /// Puts a cell of the row into a column.
    fn put(&mut self, index: usize, cell: Cell<'_>) -> Result<(), LaneError> {
        let (column, lane) = match &mut self.columns {
            Target::List(columns) => (&mut columns[index], None),
            Target::Row { fields, ids, lane } => {
                (&mut fields[usize::from(ids[index])], Some(*lane))
            }
        };
        match column {
            Column::Text(views) => {
                if !is_text(cell) {
                    return Err(self.misfits(Misfit::NoText(index)));
                }
                let view = text_of(cell, self.arena)?;
                match lane {
                    None => views.push(view),
                    Some(lane) => views[lane] = view,
                }
            }
            Column::Int(values) => {
                let Some(value) = int_of(cell) else {
                    return Err(self.misfits(Misfit::NoInteger(index)));
                };
                match lane {
                    None => values.push(value),
                    Some(lane) => values[lane] = value,
                }
            }
            Column::List(_) => unreachable!("records have no lists"),
        }
        Ok(())
    }
}

/// Most bytes of a number or a time as text.
const PRINTED_MAX: usize = 400;

/// Whether a cell has a text.
fn is_text(cell: Cell<'_>) -> bool {
    match cell {
        Cell::Text(text) | Cell::Decimal(text) | Cell::Bytes(text) => {
            text.is_ascii() || std::str::from_utf8(text).is_ok()
        }
        _ => true,
    }
}

/// Whether a cell is a float, or null, which is 0.
fn is_float(cell: Cell<'_>) -> bool {
    match cell {
        Cell::Text(text) | Cell::Decimal(text) => {
            std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok())
        }
        Cell::Null | Cell::Int(_) | Cell::Float(_) => true,
        Cell::Bool(_) | Cell::Timestamp(_) | Cell::Bytes(_) => false,
    }
}

/// The text of a cell that has one, in the arena.
fn text_of(cell: Cell<'_>, arena: &mut Arena) -> Result<View, LaneError> {
    let text = match cell {
        Cell::Text(text) | Cell::Decimal(text) | Cell::Bytes(text) => text,
        Cell::Null => return Ok(View::default()),
        Cell::Bool(value) => text::print_bool(value),
        Cell::Int(_) | Cell::Float(_) | Cell::Timestamp(_) => {
            if !arena.reserve(PRINTED_MAX) {
                return Err(arena.refusal(PRINTED_MAX));
            }
            return Ok(arena.push_with(|out| match cell {
                Cell::Int(value) => text::print_int(value, out),
                Cell::Float(value) => text::print_float(value, out),
                Cell::Timestamp(micros) => text::print_timestamp(micros, out),
                _ => {}
            }));
        }
    };
    if !arena.reserve(text.len()) {
        return Err(arena.refusal(text.len()));
    }
    Ok(arena.push(text))
}

/// A cell's integer, if it has one.
fn int_of(cell: Cell<'_>) -> Option<i64> {
    match cell {
        Cell::Int(value) => Some(value),
        Cell::Bool(value) => Some(i64::from(value)),
        Cell::Null => Some(0),
        Cell::Text(text) | Cell::Decimal(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        Cell::Float(_) | Cell::Timestamp(_) | Cell::Bytes(_) => None,
    }
}

#[cfg(test)]
mod tests;
