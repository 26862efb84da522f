//! Cohorts: requests for one page that are executed together.
//!
//! A cohort is columns plus lanes. Each request is a lane; what belongs to a request (its
//! parameters, its session's user, the rows a backend answered) is that lane's value in a *field*,
//! a column over all lanes. Texts are views into the cohort's one arena, so that a lane costs no
//! allocation, and a cohort is reset, not freed. A request that fails is its lane's state and takes
//! no further part; the others go on (paper, section 4.4).

mod column;
mod form;
mod output;
mod requests;
mod rows;
mod text;

pub use column::{Arena, Column, ListColumn, Span, View};
pub use output::{LaneOutput, Output, Segment, SessionChange};
pub use requests::{Argument, Requests};
pub use rows::{Answer, Answered, Cell, ROWS_MAX, Rows};
pub use text::{print_bool, print_float, print_int};

use crate::program::{FieldType, PageProgram, Type};

/// Why a lane's request could not be answered as its page says. Small and flat, so that it fits a
/// column and crosses to a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum LaneError {
    /// Dividing by zero.
    #[error("a division by zero in the page")]
    DivisionByZero = 1,
    /// An integer beyond 64 bits, or a float no integer can hold.
    #[error("a number out of range in the page")]
    Overflow,
    /// An index past the end of a list.
    #[error("an index past the end of a list in the page")]
    OutOfRange,
    /// A text that the `int` or `float` filter cannot read.
    #[error("a text that is no number in the page")]
    NotANumber,
    /// The page is larger than the limit, or the arena is full.
    #[error("the page or its data is larger than the limit")]
    TooLarge,
    /// A loop of more turns than the limit.
    #[error("a loop of the page takes too many turns")]
    TooManyTurns,
    /// A backend's answer does not follow its protocol or has not the rows the page expects.
    #[error("the backend answered something the page cannot read")]
    BadAnswer,
    /// The backend could not be reached or broke off.
    #[error("the backend could not be reached")]
    BackendFailed,
    /// The backend is known to be down (circuit open) or its queue is full.
    #[error("the backend is overloaded or down")]
    BackendRefused,
    /// The backend did not answer in time.
    #[error("the backend did not answer in time")]
    BackendTimeout,
    /// No slot for a new session is free.
    #[error("no session is free")]
    SessionsFull,
    /// The device failed.
    #[error("the device failed")]
    DeviceFailed,
}

impl LaneError {
    /// The HTTP status it is answered with (RFC 9110, section 15.6).
    pub fn status(self) -> u16 {
        match self {
            LaneError::BadAnswer | LaneError::BackendFailed => 502,
            LaneError::BackendRefused | LaneError::SessionsFull => 503,
            LaneError::BackendTimeout => 504,
            _ => 500,
        }
    }
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneState {
    /// It takes part in the next stage.
    #[default]
    Active,
    /// Its answer is in the cohort's output.
    Finished,
    /// It gets an error answer.
    Failed(LaneError),
}

/// A cohort: lanes, columns, and what its stages produced.
#[derive(Debug, Default)]
pub struct Cohort {
    /// The next stage to run.
    pub stage: usize,
    /// A column for each field of the page, each as long as there are lanes.
    pub fields: Vec<Column>,
    /// Where each lane stands.
    pub lanes: Vec<LaneState>,
    /// Whom each lane's answer is for: the pipeline's own key, opaque here.
    pub tickets: Vec<u64>,
    /// The texts of all columns. It begins with the program's [`PageProgram::texts`].
    pub arena: Arena,
    /// Requests of the stage last run, until they are settled ([`Cohort::settle`]).
    pub requests: Requests,
    /// What has been answered, by request; shorter where nothing has.
    answers: Vec<Option<Answered>>,
    /// What the finished lanes answer.
    pub output: Output,
}

impl Cohort {
    /// Makes the cohort an empty one of this page, keeping its memory.
    pub fn reset(&mut self, program: &PageProgram) {
        self.stage = 0;
        self.lanes.clear();
        self.tickets.clear();
        self.requests.clear();
        self.answers.clear();
        self.output.clear();
        self.arena.reset(&program.texts);
        let same_shape = self.fields.len() == program.fields.len()
            && (self.fields.iter().zip(&program.fields)).all(|(c, f)| c.fits(&f.kind));
        if same_shape {
            self.fields.iter_mut().for_each(Column::clear);
        } else {
            self.fields.clear();
            self.fields
                .extend(program.fields.iter().map(|f| Column::new(&f.kind)));
        }
    }

    /// Adds a lane with empty fields (empty text, 0, empty list) and gives its index. The caller
    /// then fills in the fields.
    pub fn push_lane(&mut self, ticket: u64) -> usize {
        let lane = self.lanes.len();
        self.lanes.push(LaneState::Active);
        self.tickets.push(ticket);
        self.fields.iter_mut().for_each(Column::push_empty);
        lane
    }

    /// Takes the last lane back, as when its parameters turn out to be bad.
    pub fn pop_lane(&mut self) {
        self.lanes.pop();
        self.tickets.pop();
        self.fields.iter_mut().for_each(Column::pop);
    }

    /// How many lanes there are, of any state.
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether there is no lane.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Whether any lane takes part in the next stage.
    pub fn has_active(&self) -> bool {
        self.lanes.contains(&LaneState::Active)
    }

    /// Fails a lane unless it is finished or has failed already.
    pub fn fail(&mut self, lane: usize, error: LaneError) {
        if self.lanes[lane] == LaneState::Active {
            self.lanes[lane] = LaneState::Failed(error);
        }
    }

    /// Moves lanes of `self`, given in rising order, with their fields, the requests they wait for
    /// and what has been answered of those, to the end of `into`, a cohort of the same page at the
    /// same stage; in `self` they become [`LaneState::Finished`] with their tickets kept. This is
    /// how stragglers leave their cohort (paper, section 3.1).
    pub fn move_lanes(&mut self, program: &PageProgram, lanes: &[usize], into: &mut Cohort) {
        debug_assert_eq!(self.stage, into.stage, "cohorts at the same stage");
        let first = into.len();
        for &lane in lanes {
            let to = into.push_lane(self.tickets[lane]);
            for (from, field) in self.fields.iter().zip(&mut into.fields) {
                field.copy_lane(to, from, lane, &self.arena, &mut into.arena);
            }
            into.lanes[to] = self.lanes[lane];
            self.lanes[lane] = LaneState::Finished;
        }
        self.move_requests(program, lanes, first, into);
    }
}

/// The type of a column that a scalar field or a list's column has.
pub(crate) fn column_for(kind: Type) -> Column {
    Column::new(&FieldType::Scalar(kind))
}
