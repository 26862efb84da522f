//! Between two stages: what a cohort asks its backend, and its lanes' way to their rows.

use super::Cohort;
use super::column::{Column, Span};
use super::error::{LaneError, LaneState};
use super::queries::Queries;
use super::rows::{Misfit, QueryAnswer, Rows, spared};
use crate::program::{Call, CallResult, PageProgram};

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
    pub fn exchange<'a>(&'a mut self, program: &'a PageProgram) -> (&'a Queries, Rows<'a>) {
        let call = self.pending_call(program);
        let call = call.expect("a stage that asks ends with a call");
        let Cohort {
            fields,
            lanes,
            arena,
            queries,
            answers,
            misfits,
            ..
        } = self;
        answers.resize(queries.len(), None);
        let rows = Rows {
            call,
            asked: queries.lanes(),
            fields,
            lanes,
            arena,
            answers,
            misfits,
        };
        (queries, rows)
    }

    /// The lanes that have failed for answers that their page does not take, since this was last
    /// asked, and why.
    pub fn take_misfits(&mut self) -> impl Iterator<Item = (usize, Misfit)> {
        self.misfits.drain(..)
    }

    /// Whether a query has been answered.
    pub fn is_answered(&self, query: usize) -> bool {
        matches!(self.answers.get(query), Some(Some(_)))
    }

    /// Ends the call of the stage last run: each lane gets its rows and its status, and the
    /// queries are done with. A lane that misses an answer fails, and so does one that has asked
    /// and is answered another number of rows than one where its page takes one (`row = ...`); how
    /// many of these there are is given.
    ///
    /// # Panics
    /// If the stage last run does not end with a call: the caller's mistake.
    pub fn settle(&mut self, program: &PageProgram) -> usize {
        let call = self.pending_call(program);
        let call = call.expect("a stage that asks ends with a call");
        let mut not_one = 0;
        self.answers.resize(self.queries.len(), None);
        let Cohort {
            fields,
            lanes,
            arena,
            queries,
            answers,
            misfits,
            output,
            ..
        } = self;
        // What the stage has done to the answers of lanes that go on, the next does again.
        let goes_on = |lane: u32| lanes[lane as usize] == LaneState::Active;
        output.headers.retain(|(lane, ..)| !goes_on(*lane));
        let asked = queries.lanes();
        let wants_one = matches!(call.result, CallResult::Row(_));
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
            // Nearly always there is one query, and it is answered.
            let (mut rows, mut status, contiguous) = match own {
                [Some(QueryAnswer { status, rows })] => (*rows, *status, true),
                _ => match joined(own) {
                    Some(all) => all,
                    None => {
                        *state = LaneState::Failed(LaneError::BadAnswer);
                        continue;
                    }
                },
            };
            // Who has asked nothing has no row.
            let mut has_row = !own.is_empty() && status == 0;
            if wants_one && has_row && rows.length != 1 {
                let Some(spared) = spared(call, LaneError::BadAnswer) else {
                    not_one += 1;
                    misfits.push((lane, Misfit::NotOneRow));
                    *state = LaneState::Failed(LaneError::BadAnswer);
                    continue;
                };
                (status, has_row) = (spared, false);
            }
            fields[usize::from(call.status)].set_int(lane, status);
            if let CallResult::Row(ids) = &call.result
                && !has_row
            {
                // Whatever the lane's other answers have brought.
                ids.iter()
                    .for_each(|id| fields[usize::from(*id)].clear_lane(lane));
            }
            if let CallResult::Rows(list) = &call.result {
                let list = fields[usize::from(*list)].list_mut();
                if !contiguous {
                    // Answers of one lane that came in another order than they were asked in.
                    let bytes = list.cell_bytes(rows.length as usize);
                    if !arena.reserve(bytes) {
                        *state = LaneState::Failed(arena.refusal(bytes));
                        continue;
                    }
                    arena.charge(bytes);
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
        queries.clear();
        answers.clear();
        not_one
    }

    /// Bytes of the arena's bound that these lanes, given in rising order, take where they move to:
    /// for their fields, and for rows that have been answered.
    pub fn moved_bytes(&self, program: &PageProgram, lanes: &[usize]) -> usize {
        let of_lane =
            |lane: &usize| -> usize { (self.fields.iter()).map(|field| field.charge(*lane)).sum() };
        let fields: usize = lanes.iter().map(of_lane).sum();
        let Some(CallResult::Rows(list)) = self.pending_call(program).map(|call| &call.result)
        else {
            return fields;
        };
        let list = self.fields[usize::from(*list)].list();
        let answered = (self.answers.iter().zip(self.queries.lanes()))
            .filter(|(_, lane)| lanes.binary_search(&(**lane as usize)).is_ok())
            .filter_map(|(answer, _)| *answer);
        fields
            + answered
                .map(|answer| list.charge(answer.rows))
                .sum::<usize>()
    }

    /// Moves the queries of lanes that move, in rising order, to the end of another cohort's,
    /// whose lanes they become from `first` on; with them what has been answered.
    pub(super) fn move_queries(
        &mut self,
        program: &PageProgram,
        lanes: &[usize],
        first: usize,
        into: &mut Cohort,
    ) {
        let Some(call) = self.pending_call(program) else {
            debug_assert!(self.queries.is_empty(), "what is asked is asked by a call");
            return;
        };
        self.answers.resize(self.queries.len(), None);
        into.answers.resize(into.queries.len(), None);
        let place = |lane: u32| lanes.binary_search(&(lane as usize)).ok();
        for query in 0..self.queries.len() {
            let Some(moved) = place(self.queries.lanes()[query]) else {
                continue;
            };
            let lane = (first + moved) as u32;
            let arguments = self.queries.arguments(query);
            if !into.queries.push(lane, arguments.clone()) {
                // It has been asked already; only where that was in vain its texts are missed.
                into.queries.push_without_texts(lane, arguments);
            }
            let answer = self.answers[query].map(|answer| match &call.result {
                CallResult::Row(_) => answer,
                CallResult::Rows(list) => {
                    let list = usize::from(*list);
                    let to = into.fields[list].list_mut();
                    let from = self.fields[list].list();
                    let charge = from.charge(answer.rows);
                    if !into.arena.reserve(charge) {
                        let state = &mut into.lanes[first + moved];
                        if *state == LaneState::Active {
                            *state = LaneState::Failed(into.arena.refusal(charge));
                        }
                        return QueryAnswer {
                            rows: Span::default(),
                            ..answer
                        };
                    }
                    let rows = to.copy_items(from, answer.rows, &self.arena, &mut into.arena);
                    QueryAnswer { rows, ..answer }
                }
            });
            into.answers.push(answer);
        }
        let kept: Vec<Option<QueryAnswer>> = (self.answers.iter().zip(self.queries.lanes()))
            .filter(|(_, lane)| place(**lane).is_none())
            .map(|(answer, _)| *answer)
            .collect();
        self.queries.retain_from(0, |lane| place(lane).is_none());
        self.answers = kept;
    }
}

/// The rows of a lane's answers, the first status that is not 0, and whether the rows stand one
/// after the other. `None` where an answer is missing.
fn joined(answers: &[Option<QueryAnswer>]) -> Option<(Span, i64, bool)> {
    let mut rows = Span::default();
    let (mut status, mut contiguous) = (0, true);
    for answer in answers {
        let answer = answer.as_ref()?;
        if status == 0 {
            status = answer.status;
        }
        if rows.length == 0 {
            rows.start = answer.rows.start;
        }
        contiguous &= answer.rows.length == 0 || rows.start + rows.length == answer.rows.start;
        rows.length += answer.rows.length;
    }
    Some((rows, status, contiguous))
}
