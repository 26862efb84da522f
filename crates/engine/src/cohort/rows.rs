//! Answers of backends: typed cells put into the columns of a call's result.
//!
//! A backend delivers the rows of one request at a time, in whatever order requests are answered.
//! Their cells go straight to the end of the result's columns ([`Rows::answer`]); when all are
//! there, [`Cohort::settle`] gives each lane its rows. This is the one place that decides which
//! cell goes into which column:
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
//! What does not fit, a row with more or fewer cells than the page expects, more than [`ROWS_MAX`]
//! rows, and another number than one where it expects one row fail the lane with
//! [`LaneError::BadAnswer`].

use super::arena::{Arena, View};
use super::column::{Column, Span};
use super::requests::{Argument, Requests};
use super::text;
use super::{Cohort, LaneError, LaneState};
use crate::program::{Call, CallResult, FieldId, PageProgram};

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

/// The answer of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The backend's status; 0 is good.
    status: i64,
    /// Its rows among the items of the result's list; where there is one row, only how many came.
    rows: Span,
}

/// Where the answers to a cohort's requests go.
#[derive(Debug)]
pub struct Rows<'a> {
    call: &'a Call,
    asked: &'a [u32],
    fields: &'a mut [Column],
    lanes: &'a mut [LaneState],
    arena: &'a mut Arena,
    answers: &'a mut [Option<Answered>],
}

impl Rows<'_> {
    /// The call that asks.
    pub fn call(&self) -> &Call {
        self.call
    }

    /// Takes the answer to a request: `write` delivers its rows and gives its status. Where that is
    /// not 0 the rows are dropped. A request is answered once.
    pub fn answer(&mut self, request: usize, write: impl FnOnce(&mut Answer<'_>) -> i64) {
        let lane = self.asked[request] as usize;
        debug_assert_eq!(self.answers[request], None, "a request is answered once");
        if self.lanes[lane] != LaneState::Active {
            // Another of its requests has failed it.
            self.answers[request] = Some(Answered {
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
        let mut answer = Answer {
            columns,
            arena: self.arena,
            width,
            rows: 0,
            error: None,
        };
        let status = write(&mut answer);
        let (error, mut length) = (answer.error, answer.rows);
        if error.is_some() || status != 0 {
            answer.columns.undo(start);
            length = 0;
        }
        let start = start as u32;
        self.answers[request] = Some(Answered {
            status,
            rows: Span { start, length },
        });
        if let Some(error) = error {
            self.lanes[lane] = LaneState::Failed(error);
        }
    }

    /// A request has no answer: its lane fails.
    pub fn fail(&mut self, request: usize, error: LaneError) {
        let state = &mut self.lanes[self.asked[request] as usize];
        if *state == LaneState::Active {
            *state = LaneState::Failed(error);
        }
    }
}

/// The columns that a request's rows go to.
enum Target<'a> {
    List(&'a mut [Column]),
    Row {
        fields: &'a mut [Column],
        ids: &'a [FieldId],
        lane: usize,
    },
}

impl Target<'_> {
    /// Takes back what the request's rows have left, from item `start` on.
    fn undo(&mut self, start: usize) {
        match self {
            Target::List(columns) => {
                for column in columns.iter_mut() {
                    column.truncate(start);
                }
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
}

/// An answer under way.
pub struct Answer<'a> {
    columns: Target<'a>,
    arena: &'a mut Arena,
    width: usize,
    rows: u32,
    error: Option<LaneError>,
}

impl std::fmt::Debug for Answer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("rows", &self.rows)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl Answer<'_> {
    /// Delivers a row, a cell for each column.
    pub fn row<'c>(&mut self, cells: impl IntoIterator<Item = Cell<'c>>) {
        if self.error.is_some() {
            return;
        }
        let mut cells = cells.into_iter();
        let taken = self.begin_row().and_then(|()| {
            for index in 0..self.width {
                self.put(index, cells.next().ok_or(LaneError::BadAnswer)?)?;
            }
            match cells.next() {
                None => Ok(()),
                Some(_) => Err(LaneError::BadAnswer),
            }
        });
        self.error = taken.err();
    }

    /// Delivers a row of texts that lie one behind the other in `texts`, each up to its end. As
    /// [`Answer::row`] with texts, but the bytes move at once.
    pub fn texts(&mut self, texts: &[u8], ends: &[u32]) {
        let is_text = |column: &Column| matches!(column, Column::Text(_));
        let columns = match &mut self.columns {
            Target::List(columns)
                if ends.len() == self.width
                    && self.error.is_none()
                    && self.rows < ROWS_MAX
                    && self.arena.has_room(texts.len())
                    && texts.is_ascii()
                    && columns.iter().all(is_text) =>
            {
                columns
            }
            _ => {
                let cells = std::iter::once(&0).chain(ends).zip(ends);
                let text = |(from, to): (&u32, &u32)| &texts[*from as usize..*to as usize];
                return self.row(cells.map(|ends| Cell::Text(text(ends))));
            }
        };
        self.rows += 1;
        let base = self.arena.push(texts).offset;
        let mut start = 0;
        for (column, &end) in columns.iter_mut().zip(ends) {
            if let Column::Text(views) = column {
                views.push(View {
                    offset: base + start,
                    length: end - start,
                });
            }
            start = end;
        }
    }

    fn begin_row(&mut self) -> Result<(), LaneError> {
        if self.rows == ROWS_MAX {
            return Err(LaneError::BadAnswer);
        }
        self.rows += 1;
        Ok(())
    }

    /// Puts a cell of the row into its column.
    fn put(&mut self, index: usize, cell: Cell<'_>) -> Result<(), LaneError> {
        let (column, lane) = match &mut self.columns {
            Target::List(columns) => (&mut columns[index], None),
            Target::Row { fields, ids, lane } => {
                (&mut fields[usize::from(ids[index])], Some(*lane))
            }
        };
        match column {
            Column::Text(views) => {
                let view = text_of(cell, self.arena)?;
                match lane {
                    None => views.push(view),
                    Some(lane) => views[lane] = view,
                }
            }
            Column::Int(values) => {
                let value = int_of(cell).ok_or(LaneError::BadAnswer)?;
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

/// A cell's text, in the arena.
fn text_of(cell: Cell<'_>, arena: &mut Arena) -> Result<View, LaneError> {
    let text = match cell {
        Cell::Text(text) | Cell::Decimal(text) | Cell::Bytes(text) => text,
        Cell::Null => return Ok(View::default()),
        Cell::Bool(value) => text::print_bool(value),
        Cell::Int(_) | Cell::Float(_) | Cell::Timestamp(_) => {
            if !arena.has_room(PRINTED_MAX) {
                return Err(LaneError::TooLarge);
            }
            return Ok(arena.push_with(|out| match cell {
                Cell::Int(value) => text::print_int(value, out),
                Cell::Float(value) => text::print_float(value, out),
                Cell::Timestamp(micros) => text::print_timestamp(micros, out),
                _ => {}
            }));
        }
    };
    if !text.is_ascii() && std::str::from_utf8(text).is_err() {
        return Err(LaneError::BadAnswer);
    }
    if !arena.has_room(text.len()) {
        return Err(LaneError::TooLarge);
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

impl Cohort {
    /// The call whose answers are awaited: that of the stage last run.
    fn pending_call<'p>(&self, program: &'p PageProgram) -> Option<&'p Call> {
        let stage = program.stages.get(self.stage.checked_sub(1)?)?;
        program.calls.get(stage.call?)
    }

    /// What is asked, and where the answers go.
    ///
    /// # Panics
    /// If the stage last run does not end with a call: the caller's mistake.
    pub fn exchange<'a>(&'a mut self, program: &'a PageProgram) -> (&'a Requests, Rows<'a>) {
        let call = self.pending_call(program);
        let call = call.expect("a stage that asks ends with a call");
        let Cohort {
            fields,
            lanes,
            arena,
            requests,
            answers,
            ..
        } = self;
        answers.resize(requests.len(), None);
        let rows = Rows {
            call,
            asked: requests.lanes(),
            fields,
            lanes,
            arena,
            answers,
        };
        (requests, rows)
    }

    /// Whether a request has been answered.
    pub fn is_answered(&self, request: usize) -> bool {
        matches!(self.answers.get(request), Some(Some(_)))
    }

    /// Ends the call of the stage last run: each lane gets its rows and its status, and the
    /// requests are done with. A lane that misses an answer fails.
    pub fn settle(&mut self, program: &PageProgram) {
        let Some(call) = self.pending_call(program) else {
            return;
        };
        self.answers.resize(self.requests.len(), None);
        let Cohort {
            fields,
            lanes,
            requests,
            answers,
            ..
        } = self;
        let asked = requests.lanes();
        let mut at = 0;
        for (lane, state) in lanes.iter_mut().enumerate() {
            let first = at;
            while asked.get(at).is_some_and(|asks| *asks as usize == lane) {
                at += 1;
            }
            if *state != LaneState::Active {
                continue;
            }
            let own = &answers[first..at];
            let mut rows = Span::default();
            let (mut status, mut contiguous, mut missing) = (0, true, false);
            for answer in own {
                let Some(answer) = answer else {
                    missing = true;
                    break;
                };
                if status == 0 {
                    status = answer.status;
                }
                if rows.length == 0 {
                    rows.start = answer.rows.start;
                }
                contiguous &=
                    answer.rows.length == 0 || rows.start + rows.length == answer.rows.start;
                rows.length += answer.rows.length;
            }
            let wants_one = matches!(call.result, CallResult::Row(_)) && status == 0;
            if missing || wants_one && rows.length != 1 {
                *state = LaneState::Failed(LaneError::BadAnswer);
                continue;
            }
            fields[usize::from(call.status)].set_int(lane, status);
            if let CallResult::Rows(list) = &call.result {
                let list = fields[usize::from(*list)].list_mut();
                if !contiguous {
                    // Answers of one lane that came in another order than they were asked in.
                    rows.start = list.columns.first().map_or(0, Column::len) as u32;
                    for answer in own.iter().flatten() {
                        let Span { start, length } = answer.rows;
                        let items = start as usize..(start + length) as usize;
                        for column in &mut list.columns {
                            column.repeat(items.clone());
                        }
                    }
                }
                list.spans[lane] = rows;
            }
        }
        requests.clear();
        answers.clear();
    }

    /// Bytes of the texts that move with these lanes, given in rising order: of their fields, and
    /// of rows that have been answered.
    pub fn moved_bytes(&self, program: &PageProgram, lanes: &[usize]) -> usize {
        let of_lane = |lane: &usize| -> usize {
            (self.fields.iter())
                .map(|field| field.text_bytes(*lane))
                .sum()
        };
        let fields: usize = lanes.iter().map(of_lane).sum();
        let Some(CallResult::Rows(list)) = self.pending_call(program).map(|call| &call.result)
        else {
            return fields;
        };
        let columns = &self.fields[usize::from(*list)].list().columns;
        let answered = (self.answers.iter().zip(self.requests.lanes()))
            .filter(|(_, lane)| lanes.binary_search(&(**lane as usize)).is_ok())
            .filter_map(|(answer, _)| *answer)
            .flat_map(|answer| answer.rows.start..answer.rows.start + answer.rows.length);
        let of_row = |row: u32| -> usize {
            (columns.iter())
                .map(|column| column.text_bytes(row as usize))
                .sum()
        };
        fields + answered.map(of_row).sum::<usize>()
    }

    /// Moves the requests of lanes that move, in rising order, to the end of another cohort's,
    /// whose lanes they become from `first` on; with them what has been answered.
    pub(super) fn move_requests(
        &mut self,
        program: &PageProgram,
        lanes: &[usize],
        first: usize,
        into: &mut Cohort,
    ) {
        let Some(call) = self.pending_call(program) else {
            return;
        };
        self.answers.resize(self.requests.len(), None);
        into.answers.resize(into.requests.len(), None);
        let place = |lane: u32| lanes.binary_search(&(lane as usize)).ok();
        for request in 0..self.requests.len() {
            let Some(moved) = place(self.requests.lanes()[request]) else {
                continue;
            };
            let lane = (first + moved) as u32;
            let arguments = self.requests.arguments(request);
            if !into.requests.push(lane, arguments.clone()) {
                // It has been asked already, so that its texts are no longer needed.
                let without = arguments.map(|argument| match argument {
                    Argument::Text(_) => Argument::Text(b""),
                    other => other,
                });
                let pushed = into.requests.push(lane, without);
                debug_assert!(pushed, "no texts need no room");
            }
            let answer = self.answers[request].map(|answer| match &call.result {
                CallResult::Row(_) => answer,
                CallResult::Rows(list) => {
                    let list = usize::from(*list);
                    let to = &mut into.fields[list].list_mut().columns;
                    let from = &self.fields[list].list().columns;
                    let start = to.first().map_or(0, Column::len) as u32;
                    let Span {
                        start: begin,
                        length,
                    } = answer.rows;
                    let items = begin as usize..(begin + length) as usize;
                    let texts = |column: &Column| -> usize {
                        items.clone().map(|item| column.text_bytes(item)).sum()
                    };
                    if !into.arena.has_room(from.iter().map(texts).sum()) {
                        let state = &mut into.lanes[first + moved];
                        if *state == LaneState::Active {
                            *state = LaneState::Failed(LaneError::TooLarge);
                        }
                        return Answered {
                            rows: Span::default(),
                            ..answer
                        };
                    }
                    for (to, from) in to.iter_mut().zip(from) {
                        for item in items.clone() {
                            to.copy_item(from, item, &self.arena, &mut into.arena);
                        }
                    }
                    Answered {
                        rows: Span { start, length },
                        ..answer
                    }
                }
            });
            into.answers.push(answer);
        }
        let kept: Vec<Option<Answered>> = (self.answers.iter().zip(self.requests.lanes()))
            .filter(|(_, lane)| place(**lane).is_none())
            .map(|(answer, _)| *answer)
            .collect();
        self.requests.retain_from(0, |lane| place(lane).is_none());
        self.answers = kept;
    }
}
