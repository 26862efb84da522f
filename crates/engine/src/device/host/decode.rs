//! Backend answers to columns, for the whole cohort in one pass.
//!
//! The bodies lie in the cohort's arena, so decoding makes views into them and moves no text. A list field's items
//! are appended lane by lane; a lane whose answer breaks a rule takes its items back and fails.

use crate::cohort::{Arena, BackendRequest, Cohort, Column, LaneError, LaneState, Span, View};
use crate::device::ROWS_MAX;
use crate::page::program::{Call, CallResult, PageProgram};
use rhythm_protocol::besim;

/// Puts the answers of the previous stage's call into their fields and clears the requests.
pub(super) fn decode_answers(program: &PageProgram, cohort: &mut Cohort) {
    let call = &program.calls[cohort.stage - 1];
    let requests = std::mem::take(&mut cohort.requests);
    // The rows' columns, whether they are a list's or fields of their own: moved out while they are filled.
    let mut columns = match &call.result {
        CallResult::Rows(list) => {
            std::mem::take(&mut cohort.fields[usize::from(*list)].list_mut().columns)
        }
        CallResult::Row(fields) => fields
            .iter()
            .map(|f| empty_like(&cohort.fields[usize::from(*f)]))
            .collect(),
    };
    let mut of_lanes = requests.chunk_by(|a, b| a.lane == b.lane).peekable();
    for lane in 0..cohort.lanes.len() {
        let own = of_lanes
            .next_if(|own| own[0].lane as usize == lane)
            .unwrap_or_default();
        if cohort.lanes[lane] != LaneState::Active {
            continue;
        }
        let start = columns.first().map_or(0, Column::len);
        match decode_lane(call, own, &cohort.arena, &mut columns) {
            Some((status, rows)) => {
                cohort.fields[usize::from(call.status)].set_int(lane, status);
                store_rows(call, &mut cohort.fields, lane, &mut columns, start, rows);
            }
            None => {
                truncate(&mut columns, start);
                cohort.fail(lane, LaneError::BadAnswer);
            }
        }
    }
    if let CallResult::Rows(list) = &call.result {
        cohort.fields[usize::from(*list)].list_mut().columns = columns;
    }
    cohort.requests = requests;
    cohort.requests.clear();
}

/// Appends the rows of all of a lane's answers to `columns`, and gives the first status that is not 0, and how many rows.
fn decode_lane(
    call: &Call,
    requests: &[BackendRequest],
    arena: &Arena,
    columns: &mut [Column],
) -> Option<(i64, u32)> {
    let mut status = 0;
    let mut rows = 0;
    for request in requests {
        let answer = request.answer?;
        let body = arena.get(answer);
        let mut readable = true;
        let before = columns.first().map_or(0, Column::len);
        let decoded =
            besim::decode(
                body,
                call.columns.into(),
                ROWS_MAX,
                |_, column, cell| match &mut columns[column as usize] {
                    Column::Text(views) => views.push(View {
                        offset: answer.offset + cell.start as u32,
                        length: cell.len() as u32,
                    }),
                    Column::Int(values) => {
                        let value = std::str::from_utf8(&body[cell])
                            .ok()
                            .and_then(|text| text.parse().ok());
                        readable &= value.is_some();
                        values.push(value.unwrap_or(0));
                    }
                    Column::List(_) => unreachable!("records have no lists"),
                },
            )
            .ok()?;
        if !readable {
            return None;
        }
        if decoded.status == 0 {
            rows += decoded.rows;
        } else {
            truncate(columns, before);
            status = if status == 0 {
                i64::from(decoded.status)
            } else {
                status
            };
        }
    }
    let one_row_missing = matches!(call.result, CallResult::Row(_)) && status == 0 && rows != 1;
    (!one_row_missing).then_some((status, rows))
}

/// Gives the lane its rows, which stand in `columns` from `start` on.
fn store_rows(
    call: &Call,
    fields: &mut [Column],
    lane: usize,
    columns: &mut [Column],
    start: usize,
    rows: u32,
) {
    match &call.result {
        CallResult::Rows(list) => {
            fields[usize::from(*list)].list_mut().spans[lane] = Span {
                start: start as u32,
                length: rows,
            };
        }
        CallResult::Row(own) => {
            for (field, column) in own.iter().zip(columns) {
                match column {
                    Column::Text(views) => views
                        .pop()
                        .map_or((), |v| fields[usize::from(*field)].set_text(lane, v)),
                    Column::Int(values) => values
                        .pop()
                        .map_or((), |v| fields[usize::from(*field)].set_int(lane, v)),
                    Column::List(_) => unreachable!("records have no lists"),
                }
            }
        }
    }
}

fn truncate(columns: &mut [Column], length: usize) {
    for column in columns {
        match column {
            Column::Text(views) => views.truncate(length),
            Column::Int(values) => values.truncate(length),
            Column::List(_) => unreachable!("records have no lists"),
        }
    }
}

fn empty_like(column: &Column) -> Column {
    match column {
        Column::Text(_) => Column::Text(Vec::new()),
        _ => Column::Int(Vec::new()),
    }
}
