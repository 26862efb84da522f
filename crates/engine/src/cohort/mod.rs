//! Cohorts: requests for one page that are executed together.
//!
//! A cohort is columns plus lanes. Each request is a lane; what belongs to a request (its
//! parameters, its session's user, the rows a backend answered) is that lane's value in a *field*,
//! a column over all lanes. Texts are views into the cohort's one arena, so that a lane costs no
//! allocation, and a cohort is reset, not freed. A request that fails is its lane's state and takes
//! no further part; the others go on (paper, section 4.4).

mod arena;
mod budget;
mod column;
mod error;
mod exchange;
mod form;
mod go;
mod goes;
mod kept;
mod output;
mod queries;
mod rows;
mod text;

pub use arena::{Arena, View};
pub use budget::{Budget, Share};
pub use column::{Column, ListColumn, Span};
pub use error::{LaneError, LaneState};
pub use go::Go;
pub use output::{LaneOutput, Output, Segment, SessionChange};
pub use queries::{Argument, Queries};
pub use rows::{AnswerWriter, Cell, NoInteger, ROWS_MAX, Rows, TextColumns};
pub use text::{print_bool, print_float, print_int};

use crate::program::PageProgram;
use rows::QueryAnswer;
use std::sync::Arc;

/// A cohort: lanes, columns, and what its stages produced.
#[derive(Debug, Default)]
pub struct Cohort {
    /// The next stage to run.
    pub stage: usize,
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
    no_integers: Vec<NoInteger>,
    /// What the finished lanes answer.
    pub output: Output,
    /// What it has its memory of; `None`: there is always enough.
    share: Option<Arc<Share>>,
    /// The stage's goes so far.
    goes: go::Goes,
    /// It is empty, and has given back what was not needed of late.
    rests: bool,
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
    pub fn of_share(share: &Arc<Share>, arena_bytes_max: usize) -> Cohort {
        Cohort {
            arena: Arena::of_share(share, arena_bytes_max),
            queries: Queries::of_share(share, arena_bytes_max),
            output: Output::of_share(share, arena_bytes_max),
            share: Some(share.clone()),
            ..Cohort::default()
        }
    }

    /// What it has its memory of, if that is bounded beyond what each of its buffers is.
    pub fn share(&self) -> Option<&Arc<Share>> {
        self.share.as_ref()
    }

    /// Empties the cohort, which has ended. It keeps its memory for the next, but what was not
    /// needed of late.
    pub fn rest(&mut self) {
        self.stage = 0;
        self.lanes.clear();
        self.goes = go::Goes::default();
        self.queries.clear();
        self.answers.clear();
        self.no_integers = Vec::new();
        self.queries.kept.shrink(&mut self.answers);
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
        self.lanes.push(LaneState::Active);
        self.fields.iter_mut().for_each(Column::push_empty);
        lane
    }

    /// Takes the last lane back, as when its parameters turn out to be bad.
    pub fn pop_lane(&mut self) {
        self.lanes.pop();
        self.fields.iter_mut().for_each(Column::pop);
    }

    /// Of so many lanes that need so much room each, run bytes and segments, for how many there is
    /// some: answers are bounded as texts are, but for one alone. None: the cohort is short.
    pub(crate) fn room_for_output(&self, lanes: usize, run_bytes: usize, segments: usize) -> usize {
        let runs_max = self.arena.bytes_max();
        (self.output).room_for(lanes, run_bytes, segments, runs_max)
    }

    /// Whether there is room for another answer of so many run bytes and segments. Where there is,
    /// it is the cohort's; where there is none, its lane is for another go.
    pub fn has_room_for_answer(&self, run_bytes: usize, segments: usize) -> bool {
        run_bytes == 0 && segments == 0 || self.room_for_output(1, run_bytes.max(1), segments) == 1
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
            false => LaneError::TooLarge,
        };
        self.fail(lane, error);
    }

    /// Leaves a lane for another go for whose texts there was no room beside others; it fails where
    /// there is none in any cohort.
    pub fn leave_without_room(&mut self, lane: usize) {
        self.lanes[lane] = match self.take_short() {
            true => LaneState::Later,
            false => LaneState::Failed(LaneError::TooLarge),
        };
    }

    /// Moves lanes of `self`, given in rising order, with their fields, the queries they wait for
    /// and what has been answered of those, to the end of `into`, a cohort of the same page at the
    /// same stage; in `self` they become [`LaneState::Moved`]. A lane whose texts find no room in
    /// `into` fails there. This is how stragglers leave their cohort (paper, section 3.1).
    pub fn move_lanes(&mut self, program: &PageProgram, lanes: &[usize], into: &mut Cohort) {
        debug_assert_eq!(self.stage, into.stage, "stragglers keep their stage");
        debug_assert!(lanes.is_sorted(), "lanes are given in rising order");
        let first = into.len();
        for &lane in lanes {
            let to = into.push_lane();
            into.lanes[to] = self.lanes[lane];
            self.lanes[lane] = LaneState::Moved;
            let charge = self.fields.iter().map(|field| field.charge(lane)).sum();
            if !into.arena.has_room(charge) {
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
mod tests {
    use super::*;
    use crate::program::{
        Call, CallResult, Field, FieldType, Form, SessionUse, StageProgram, Type,
    };

    /// A page with a text and a list of texts, whose first stage calls for the latter.
    fn page() -> PageProgram {
        let field = |name: &str, kind| Field {
            name: name.to_owned(),
            kind,
        };
        PageProgram {
            name: "made".to_owned(),
            routes: vec![],
            session: SessionUse::None,
            session_fields: None,
            content_type: String::new(),
            params: vec![],
            list_params: vec![],
            fields: vec![
                field("a", FieldType::Scalar(Type::Text)),
                field("b", FieldType::List(vec![(String::new(), Type::Text)])),
                field("b.status", FieldType::Scalar(Type::Int)),
            ],
            calls: vec![Call {
                backend: 0,
                form: Form::plain(&[Type::Text]),
                columns: 1,
                result: CallResult::Rows(1),
                status: 2,
                idempotent: true,
            }],
            stages: vec![StageProgram {
                call: Some(0),
                ..StageProgram::default()
            }],
            texts: b"four".to_vec(),
            tables: vec![],
            header_names: vec![],
        }
    }

    /// Two lanes, each with a text of 10 bytes, a list of two texts of 5, and a query of `asked`.
    fn filled(page: &PageProgram, asked: &[u8]) -> Cohort {
        let mut cohort = Cohort::default();
        cohort.reset(page);
        cohort.stage = 1;
        for lane in 0..2 {
            cohort.push_lane();
            let text = cohort.arena.push(b"0123456789");
            cohort.fields[0].set_text(lane, text);
            let list = cohort.fields[1].list_mut();
            list.spans[lane] = Span {
                start: 2 * lane as u32,
                length: 2,
            };
            let half = View { length: 5, ..text };
            for item in 2 * lane..2 * lane + 2 {
                list.columns[0].push_empty();
                list.columns[0].set_text(item, half);
            }
            let argument = [Argument::Text(asked)].into_iter();
            assert!(cohort.queries.push(lane as u32, argument));
        }
        cohort
    }

    #[test]
    fn lanes_move_as_far_as_there_is_room() {
        let page = page();
        // The program's texts take 4, and a lane 36: texts of 20 and two cells of a list.
        for (bytes_max, expected) in [
            (76, [LaneState::Active, LaneState::Active]),
            (
                75,
                [LaneState::Active, LaneState::Failed(LaneError::TooLarge)],
            ),
            (39, [LaneState::Failed(LaneError::TooLarge); 2]),
            (4, [LaneState::Failed(LaneError::TooLarge); 2]),
        ] {
            let mut from = filled(&page, b"0123456789");
            let mut into = Cohort::new(bytes_max);
            into.reset(&page);
            into.stage = 1;
            // Asked before, it tells exactly when all of them fit.
            let all_fit = expected == [LaneState::Active; 2];
            assert_eq!(
                into.arena.has_room(from.moved_bytes(&page, &[0, 1])),
                all_fit
            );
            assert_eq!(from.moved_bytes(&page, &[1]), 36);
            from.move_lanes(&page, &[0, 1], &mut into);
            assert_eq!(from.lanes, [LaneState::Moved; 2]);
            assert_eq!(into.lanes, expected, "in {bytes_max} bytes");
            assert_eq!((from.queries.len(), into.queries.len()), (0, 2));
            for lane in (0..2).filter(|&lane| into.lanes[lane] == LaneState::Active) {
                let text = into.arena.get(into.fields[0].texts()[lane]);
                assert_eq!(text, b"0123456789");
                let argument = into.queries.argument(lane, 0);
                let room = bytes_max >= 10 * (lane + 1);
                assert_eq!(argument, Argument::Text(if room { text } else { b"" }));
            }
        }
    }

    #[test]
    fn what_a_burst_needed_is_given_back() {
        const BURST: usize = 1 << 18;
        let page = page();
        let mut cohort = filled(&page, b"0123456789");
        cohort.reset(&page);
        let usual = cohort.capacity();
        for lane in 0..BURST {
            cohort.arena.push(b"0123456789");
            cohort.fields[1].list_mut().columns[0].push_empty();
            let argument = [Argument::Text(b"0123456789")].into_iter();
            assert!(cohort.queries.push(lane as u32, argument));
            cohort.output.reserve(10, 1);
            cohort.output.headers.push((0, 0, View::default()));
            cohort.output.lanes.push(LaneOutput::default());
        }
        cohort.answers.resize(BURST, None);
        cohort.reset(&page);
        assert!(
            cohort.capacity() >= usual + 50 * BURST,
            "the next may be like it"
        );
        for _ in 0..1000 {
            cohort.reset(&page);
        }
        assert!(cohort.capacity() <= 16 * 2 * kept::LEAST_BYTES);
        cohort.rest();
        cohort.forget();
        assert_eq!(cohort.capacity(), 0);
    }

    #[test]
    fn a_context_keeps_a_bounded_part_of_what_is_needed_all_the_time() {
        let page = page();
        let budget = Budget::new(0, usize::MAX);
        let share = Share::new(&budget);
        let mut cohort = Cohort::of_share(&share, Arena::BYTES_MAX);
        for _ in 0..10 {
            cohort.reset(&page);
            let needed = 8 * kept::MOST_BYTES;
            let text = vec![b'x'; needed];
            assert!(cohort.arena.has_room(needed));
            cohort.arena.push(&text);
            assert!(cohort.queries.push(0, [Argument::Text(&text)].into_iter()));
            assert_eq!(cohort.output.room_for(1, needed, 0, needed), 1);
            cohort.output.reserve(needed, 0);
            assert!(cohort.capacity() >= 3 * needed && share.bytes() >= 3 * needed);
            cohort.rest();
            assert!(cohort.capacity() <= 3 * 2 * kept::MOST_BYTES);
            assert!(
                share.bytes() <= 3 * 2 * kept::MOST_BYTES,
                "others may have it"
            );
            assert!(cohort.capacity() >= 3 * kept::MOST_BYTES, "some is kept");
        }
        cohort.forget();
        assert_eq!((cohort.capacity(), share.bytes()), (0, 0));
    }

    /// The same, each query answered with a text of 10.
    fn answered(page: &PageProgram) -> Cohort {
        let mut cohort = filled(page, b"what is asked");
        let (_, mut rows) = cohort.exchange(page);
        for query in 0..2 {
            rows.answer(query, |answer| {
                answer.row([Cell::Text(b"0123456789")]);
                0
            });
        }
        cohort
    }

    #[test]
    fn a_row_is_one_row() {
        let mut page = page();
        page.calls[0].result = CallResult::Row(vec![0]);
        for (rows_of_first, status, misfits) in [(1, 0, 0), (0, 0, 1), (2, 0, 1), (0, 5, 0)] {
            let mut cohort = filled(&page, b"");
            let (_, mut rows) = cohort.exchange(&page);
            for query in 0..2 {
                rows.answer(query, |answer| {
                    let count = if query == 0 { rows_of_first } else { 1 };
                    (0..count).for_each(|_| answer.row([Cell::Text(b"row")]));
                    if query == 0 { status } else { 0 }
                });
            }
            assert_eq!(cohort.settle(&page), misfits);
            let failed = LaneState::Failed(LaneError::BadAnswer);
            let first = if misfits == 1 {
                failed
            } else {
                LaneState::Active
            };
            assert_eq!(cohort.lanes, [first, LaneState::Active]);
            assert_eq!(cohort.arena.get(cohort.fields[0].texts()[1]), b"row");
        }
    }

    #[test]
    fn a_row_is_empty_where_any_answer_refuses() {
        let mut page = page();
        page.calls[0].result = CallResult::Row(vec![0]);
        for refused in [0, 1] {
            let mut cohort = filled(&page, b"");
            cohort.queries.clear();
            for lane in [0, 0, 1] {
                let argument = [Argument::Text(b"")].into_iter();
                assert!(cohort.queries.push(lane, argument));
            }
            let (_, mut rows) = cohort.exchange(&page);
            for query in 0..3 {
                rows.answer(query, |answer| match query == refused {
                    true => 5,
                    false => {
                        answer.row([Cell::Text(b"row")]);
                        0
                    }
                });
            }
            assert_eq!(cohort.settle(&page), 0);
            assert_eq!(cohort.fields[2].ints(), [5, 0]);
            let text = |lane: usize| cohort.arena.get(cohort.fields[0].texts()[lane]);
            assert_eq!([text(0), text(1)], [b"" as &[u8], b"row"]);
        }
    }

    #[test]
    fn answers_move_with_their_lanes() {
        let page = page();
        // The program's texts take 4; a lane takes 36, and its answer 18.
        for (bytes_max, expected) in [
            (112, [LaneState::Active, LaneState::Active]),
            (
                111,
                [LaneState::Active, LaneState::Failed(LaneError::TooLarge)],
            ),
            (40, [LaneState::Failed(LaneError::TooLarge); 2]),
            (4, [LaneState::Failed(LaneError::TooLarge); 2]),
        ] {
            let mut from = answered(&page);
            let mut into = Cohort::new(bytes_max);
            into.reset(&page);
            into.stage = 1;
            let all_fit = expected == [LaneState::Active; 2];
            let bytes = from.moved_bytes(&page, &[0, 1]);
            assert_eq!(into.arena.has_room(bytes), all_fit);
            from.move_lanes(&page, &[0, 1], &mut into);
            assert_eq!(from.lanes, [LaneState::Moved; 2]);
            assert_eq!(into.lanes, expected, "in {bytes_max} bytes");
            assert_eq!((from.queries.len(), into.queries.len()), (0, 2));
            let asked: Vec<_> = into.queries.arguments(1).collect();
            let text: &[u8] = if bytes_max < 26 {
                b""
            } else {
                b"what is asked"
            };
            assert_eq!(
                asked,
                [Argument::Text(text)],
                "what has been asked is not needed"
            );
            into.settle(&page);
            for lane in (0..2).filter(|&lane| into.lanes[lane] == LaneState::Active) {
                let text = into.arena.get(into.fields[0].texts()[lane]);
                assert_eq!(text, b"0123456789");
                let list = into.fields[1].list();
                assert_eq!(list.spans[lane].length, 1, "the answer's row");
                let item = list.columns[0].texts()[list.spans[lane].start as usize];
                assert_eq!(into.arena.get(item), text);
            }
        }
    }
}
