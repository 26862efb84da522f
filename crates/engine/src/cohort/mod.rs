//! Cohorts: requests for one page that are executed together.
//!
//! A cohort is columns plus lanes. Each request is a lane; what belongs to a request (its
//! parameters, its session's user, the rows a backend answered) is that lane's value in a *field*,
//! a column over all lanes. Texts are views into the cohort's one arena, so that a lane costs no
//! allocation, and a cohort is reset, not freed. A request that fails is its lane's state and takes
//! no further part; the others go on (paper, section 4.4).

mod alike;
mod arena;
mod budget;
mod column;
mod error;
mod exchange;
mod form;
mod need;
mod output;
mod pass;
mod passes;
mod queries;
mod rows;
mod text;

pub use alike::Alike;
pub use arena::{Arena, View};
pub use budget::{Budget, Share};
pub use column::{Column, ListColumn, Span};
pub use error::{LaneError, LaneState};
pub use form::FormPart;
pub use output::{LaneOutput, Output, Segment, SessionChange};
pub use pass::Pass;
pub use queries::{Argument, Queries};
pub use rows::{AnswerWriter, Cell, Misfit, ROWS_MAX, Rows, TextColumns};
pub use text::{print_bool, print_float, print_int};

use crate::program::PageProgram;
use rows::QueryAnswer;
use std::rc::Rc;

/// A cohort: lanes, columns, and what its stages produced.
#[derive(Debug, Default)]
pub struct Cohort {
    /// The next stage to run.
    pub stage: usize,
    /// The stage last run was ended since enough was done for one pass: lanes were left out for
    /// that.
    pub yields: bool,
    /// Others wait for the end of its passes, which are short then.
    pub hurries: bool,
    /// A column for each field of the page, each as long as there are lanes.
    pub fields: Vec<Column>,
    /// Where each lane stands.
    pub lanes: Vec<LaneState>,
    /// The texts of all columns. It begins with the program's [`PageProgram::texts`].
    pub arena: Arena,
    /// Queries of the stage last run, until they are settled ([`Cohort::settle`]).
    pub queries: Queries,
    /// What has been answered, by query; shorter where nothing has.
    answers: Vec<Option<QueryAnswer>>,
    /// Lanes that have failed for cells that are no integers.
    misfits: Vec<(usize, Misfit)>,
    /// What the finished lanes answer.
    pub output: Output,
    /// What it has its memory of; `None`: there is always enough.
    share: Option<Rc<Share>>,
    /// The stage's passes so far.
    passes: pass::Passes,
    /// It is empty, and has given back what was not needed of late.
    rests: bool,
    /// Bytes of texts that there were before the last lane.
    texts_before: usize,
}

impl Cohort {
    /// An empty cohort of no page, whose texts take at most so many bytes, and those of its
    /// queries as many again: see [`Arena`] for what they are the sum of.
    pub fn new(arena_bytes_max: usize) -> Cohort {
        Cohort {
            arena: Arena::new(arena_bytes_max),
            queries: Queries::new(arena_bytes_max),
            ..Cohort::default()
        }
    }

    /// The same, which has its memory of a share, but for what each lane has in any cohort.
    pub fn of_share(share: &Rc<Share>, arena_bytes_max: usize) -> Cohort {
        Cohort {
            arena: Arena::of_share(share, arena_bytes_max),
            queries: Queries::of_share(share, arena_bytes_max),
            output: Output::of_share(share, arena_bytes_max),
            share: Some(share.clone()),
            ..Cohort::default()
        }
    }

    /// What it has its memory of, if that is bounded beyond what each of its buffers is.
    pub fn share(&self) -> Option<&Rc<Share>> {
        self.share.as_ref()
    }

    /// Empties the cohort, which has ended. It keeps its memory for the next, but what was not
    /// needed of late.
    pub fn rest(&mut self) {
        self.stage = 0;
        (self.yields, self.hurries) = (false, false);
        self.lanes.clear();
        self.passes = pass::Passes::default();
        self.queries.clear();
        self.answers.clear();
        self.misfits = Vec::new();
        self.queries.need.shrink(&mut self.answers);
        self.output.clear();
        self.fields.iter_mut().for_each(Column::clear);
        let items = self.fields.iter().map(Column::items_capacity).sum();
        self.arena.rest(items);
        self.rests = true;
    }

    /// Gives all memory of a cohort that rests back, or was never used.
    pub fn forget(&mut self) {
        debug_assert!(self.is_empty(), "what is in use is not forgotten");
        self.fields = Vec::new();
        self.lanes = Vec::new();
        self.answers = Vec::new();
        self.queries.forget();
        self.output.forget();
        self.arena.forget();
    }

    /// Gives the memory of its answers back: the finished lanes are answered.
    pub fn give_output_back(&mut self) {
        self.output.give_back();
    }

    /// Bytes that it has of the system, but for what each lane has in any cohort.
    pub fn capacity(&self) -> usize {
        self.arena.capacity()
            + self.queries.capacity()
            + self.answers.capacity() * size_of::<Option<QueryAnswer>>()
            + self.output.capacity()
            + self
                .fields
                .iter()
                .map(Column::items_capacity)
                .sum::<usize>()
    }

    /// Makes the cohort an empty one of this page, keeping its memory but what was not needed of
    /// late.
    pub fn reset(&mut self, program: &PageProgram) {
        if !self.rests {
            self.rest();
        }
        self.rests = false;
        self.arena.begin(&program.texts);
        let same_shape = self.fields.len() == program.fields.len()
            && (self.fields.iter().zip(&program.fields)).all(|(c, f)| c.fits(&f.kind));
        if !same_shape {
            self.fields.clear();
            self.fields
                .extend(program.fields.iter().map(|f| Column::new(&f.kind)));
        }
    }

    /// Adds a lane with empty fields (empty text, 0, empty list) and gives its index. The caller
    /// then fills in the fields.
    pub fn push_lane(&mut self) -> usize {
        let lane = self.lanes.len();
        self.texts_before = self.arena.bytes().len();
        self.lanes.push(LaneState::Active);
        self.fields.iter_mut().for_each(Column::push_empty);
        lane
    }

    /// Takes the lane that was pushed last back with all that was stored for it, as when its
    /// parameters turn out to be bad.
    pub fn pop_lane(&mut self) {
        self.lanes.pop();
        self.fields.iter_mut().for_each(Column::pop);
        self.arena.truncate(self.texts_before);
    }

    /// Of so many lanes that need so much room each, run bytes and segments, for how many there is
    /// some: answers are bounded as texts are, but for one alone. None: the cohort is short.
    pub(crate) fn lease_output(&self, lanes: usize, run_bytes: usize, segments: usize) -> usize {
        let runs_max = self.arena.bytes_max();
        (self.output).lease_regions(lanes, run_bytes, segments, runs_max)
    }

    /// Reserves room for as many of so many lanes as there is some for: for how many, and where it
    /// starts, as [`Output::reserve`] says. None: the cohort is short, or the system.
    pub(crate) fn reserve_output(
        &mut self,
        lanes: usize,
        run_bytes: usize,
        segments: usize,
    ) -> Option<(usize, (usize, usize))> {
        let mut fit = self.lease_output(lanes, run_bytes, segments);
        while fit > 0 {
            if let Some(at) = self.output.reserve(fit * run_bytes, fit * segments) {
                return Some((fit, at));
            }
            fit /= 2;
        }
        None
    }

    /// Whether there is room for another answer of so many run bytes and segments. Where there is,
    /// it is the cohort's; where there is none, its lane is for another pass.
    pub fn has_room_for_answer(&self, run_bytes: usize, segments: usize) -> bool {
        run_bytes == 0 && segments == 0 || self.lease_output(1, run_bytes.max(1), segments) == 1
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
        let state = &mut self.lanes[lane];
        if matches!(
            state,
            LaneState::Active | LaneState::Later | LaneState::Ahead
        ) {
            *state = LaneState::Failed(error);
        }
    }

    /// Fails a lane for whose texts there was no room: in no cohort, or beside the others.
    pub fn fail_without_room(&mut self, lane: usize) {
        let error = match self.take_short() {
            true => LaneError::MemoryShort,
            false => LaneError::ArenaFull,
        };
        self.fail(lane, error);
    }

    /// Leaves a lane for whose texts there was no room beside the others to another pass, and fails
    /// one for whose there is none in any cohort.
    pub fn leave_without_room(&mut self, lane: usize) {
        match self.take_short() {
            true => self.lanes[lane] = LaneState::Later,
            false => self.fail(lane, LaneError::ArenaFull),
        }
    }

    /// A cohort of a copy of one lane alone, with its fields; `None` where they find no room by
    /// themselves.
    pub(crate) fn copy_of_lane(&self, program: &PageProgram, lane: usize) -> Option<Cohort> {
        let mut alone = Cohort::new(self.arena.bytes_max());
        alone.reset(program);
        let to = alone.push_lane();
        let charge = self.fields.iter().map(|field| field.charge(lane)).sum();
        if !alone.arena.reserve(charge) {
            return None;
        }
        for (from, field) in self.fields.iter().zip(&mut alone.fields) {
            field.copy_lane(to, from, lane, &self.arena, &mut alone.arena);
        }
        Some(alone)
    }

    /// Moves lanes of `self`, given in rising order, with their fields, the queries they wait for
    /// and what has been answered of those, to the end of `into`, a cohort of the same page at the
    /// same stage; in `self` they become [`LaneState::Vacant`]. A lane whose texts find no room in
    /// `into` fails there. This is how stragglers leave their cohort (paper, section 3.1).
    pub fn move_lanes(&mut self, program: &PageProgram, lanes: &[usize], into: &mut Cohort) {
        debug_assert_eq!(self.stage, into.stage, "stragglers keep their stage");
        debug_assert!(lanes.is_sorted(), "lanes are given in rising order");
        let first = into.len();
        for &lane in lanes {
            let to = into.push_lane();
            into.lanes[to] = self.lanes[lane];
            self.lanes[lane] = LaneState::Vacant;
            let charge = self.fields.iter().map(|field| field.charge(lane)).sum();
            if !into.arena.reserve(charge) {
                into.fail(to, into.arena.refusal(charge));
                continue;
            }
            for (from, field) in self.fields.iter().zip(&mut into.fields) {
                field.copy_lane(to, from, lane, &self.arena, &mut into.arena);
            }
        }
        self.move_queries(program, lanes, first, into);
    }
}

#[cfg(test)]
mod tests;
