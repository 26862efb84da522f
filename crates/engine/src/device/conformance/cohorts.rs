//! What cohorts are made up of: lanes with their fields, and what their backends answer.

use super::Dice;
use crate::cohort::{AnswerWriter, Cell, Cohort, Column, LaneState, Span};
use crate::program::{CallResult, Field, FieldType, PageProgram, ParamType, Type};

/// A cohort of made-up lanes; a few of them have failed before, as after a bad session.
pub fn make_cohort(program: &PageProgram, lanes: usize, dice: &mut Dice) -> Box<Cohort> {
    let mut cohort = Box::new(Cohort::default());
    cohort.reset(program);
    for _ in 0..lanes {
        let lane = cohort.push_lane();
        if lanes > 2 && dice.once_in(50) {
            cohort.lanes[lane] = LaneState::Finished;
        }
    }
    for (id, field) in program.fields.iter().enumerate() {
        let of_call = program.calls.iter().any(|call| {
            usize::from(call.status) == id
                || match &call.result {
                    CallResult::Rows(list) => usize::from(*list) == id,
                    CallResult::Row(fields) => fields.iter().any(|f| usize::from(*f) == id),
                }
        });
        if !of_call {
            fill_field(program, id, field, &mut cohort, dice);
        }
    }
    cohort
}

fn fill_field(
    program: &PageProgram,
    id: usize,
    field: &Field,
    cohort: &mut Cohort,
    dice: &mut Dice,
) {
    let param = program.params.iter().find(|p| usize::from(p.field) == id);
    let session = program.session_fields;
    for lane in 0..cohort.len() {
        let Cohort { fields, arena, .. } = cohort;
        match (&field.kind, &mut fields[id]) {
            (FieldType::Scalar(_), Column::Text(views)) => {
                views[lane] = arena.push(scalar_text(param.map(|p| &p.kind), dice).as_bytes());
            }
            (FieldType::Scalar(_), Column::Int(values)) => {
                values[lane] = match (param.map(|p| &p.kind), session) {
                    (Some(ParamType::Int { min, max }), _) => {
                        let wide = max.saturating_sub(*min).saturating_add(1).max(1);
                        min.saturating_add((dice.roll() >> 2) as i64 % wide)
                    }
                    (_, Some(s)) if usize::from(s.present) == id => i64::from(!dice.once_in(8)),
                    (_, Some(s)) if usize::from(s.user) == id => 1 + dice.below(100_000) as i64,
                    _ => dice.int(),
                };
            }
            (FieldType::List(_), Column::List(list)) => {
                let length = dice.below(6);
                let start = list.columns.first().map_or(0, Column::len);
                for column in &mut list.columns {
                    for _ in 0..length {
                        match column {
                            Column::Text(views) => views.push(arena.push(dice.text().as_bytes())),
                            Column::Int(values) => values.push(dice.int()),
                            Column::List(_) => unreachable!("records have no lists"),
                        }
                    }
                }
                list.spans[lane] = Span {
                    start: start as u32,
                    length: length as u32,
                };
            }
            _ => unreachable!("columns are made by the fields' types"),
        }
    }
}

fn scalar_text(kind: Option<&ParamType>, dice: &mut Dice) -> String {
    match kind {
        Some(ParamType::Text { one_of, .. }) if !one_of.is_empty() => dice.pick(one_of).clone(),
        Some(ParamType::Date) => {
            format!("2026-{:02}-{:02}", 1 + dice.below(12), 1 + dice.below(28))
        }
        Some(ParamType::Decimal) => format!("{}.{:02}", dice.below(10_000), dice.below(100)),
        _ => dice.text(),
    }
}

/// Plays the backend of the call that ended the stage last run.
pub fn answer(program: &PageProgram, cohort: &mut Cohort, dice: &mut Dice) {
    let (queries, mut rows) = cohort.exchange(program);
    let call = rows.call().clone();
    let kinds: Vec<Type> = match &call.result {
        CallResult::Rows(list) => match &program.fields[usize::from(*list)].kind {
            FieldType::List(columns) => columns.iter().map(|(_, kind)| *kind).collect(),
            FieldType::Scalar(_) => unreachable!("rows go to a list"),
        },
        CallResult::Row(fields) => fields
            .iter()
            .map(|f| match program.fields[usize::from(*f)].kind {
                FieldType::Scalar(kind) => kind,
                FieldType::List(_) => unreachable!("a row's columns go to scalar fields"),
            })
            .collect(),
    };
    for query in 0..queries.len() {
        let count = match call.result {
            CallResult::Row(_) if !dice.once_in(20) => 1,
            _ => dice.below(7),
        };
        match dice.below(24) {
            0 => rows.answer(query, |_| 1),
            1 => rows.answer(query, |answer| {
                answer.row([Cell::Text(b"broken"); 9]);
                0
            }),
            2 => {}
            _ => rows.answer(query, |answer| {
                for _ in 0..count {
                    deliver_row(&kinds, dice, answer);
                }
                0
            }),
        }
    }
    cohort.settle(program);
}

/// A row of made-up cells, now and then one that has a type of its own or none.
fn deliver_row(kinds: &[Type], dice: &mut Dice, answer: &mut AnswerWriter<'_>) {
    let texts: Vec<String> = kinds.iter().map(|_| dice.text()).collect();
    let odd = [
        Cell::Null,
        Cell::Bool(dice.once_in(2)),
        Cell::Int(dice.int()),
        Cell::Float(dice.int() as f64 / 8.0),
        Cell::Timestamp(dice.int()),
        Cell::Bytes(b"\xff"),
        Cell::Decimal(b"12.50"),
    ];
    let cells: Vec<Cell<'_>> = (kinds.iter().zip(&texts))
        .map(|(kind, text)| match kind {
            _ if dice.once_in(200) => *dice.pick(&odd),
            Type::Int => Cell::Int(dice.int()),
            _ => Cell::Text(text.as_bytes()),
        })
        .collect();
    answer.row(cells);
}
