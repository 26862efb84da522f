//! Backend answers to columns, for the whole cohort in one pass.
//!
//! The bodies lie in the cohort's arena, so decoding makes views into them and moves no text. First
//! the cells of all lanes' rows are found, one after the other as they stand in the answers; then
//! they are dealt out to the columns, a column at a time. A lane whose answer breaks a rule leaves
//! no cells and fails.

use crate::cohort::{Arena, BackendRequest, Cohort, Column, LaneError, LaneState, Span, View};
use crate::device::limits::ROWS_MAX;
use crate::program::{Call, CallResult, PageProgram};
use rhythm_protocol::besim;

/// Puts the answers of the previous stage's call into their fields and clears the requests. `cells`
/// is memory to work in.
pub(super) fn decode_answers(program: &PageProgram, cohort: &mut Cohort, cells: &mut Vec<View>) {
    let Cohort {
        stage,
        fields,
        lanes,
        arena,
        requests,
        ..
    } = cohort;
    let call = &program.calls[*stage - 1];
    let width = usize::from(call.columns);
    let is_int: Vec<bool> = match &call.result {
        CallResult::Rows(list) => fields[usize::from(*list)]
            .list()
            .columns
            .iter()
            .map(is_int_column)
            .collect(),
        CallResult::Row(own) => own
            .iter()
            .map(|f| is_int_column(&fields[usize::from(*f)]))
            .collect(),
    };
    // Where the list's items begin, should it have some already.
    let first_row = match &call.result {
        CallResult::Rows(list) => fields[usize::from(*list)]
            .list()
            .columns
            .first()
            .map_or(0, Column::len),
        CallResult::Row(_) => 0,
    };
    cells.clear();
    let mut of_lanes = requests.chunk_by(|a, b| a.lane == b.lane).peekable();
    for (lane, state) in lanes.iter_mut().enumerate() {
        let own = of_lanes
            .next_if(|own| own[0].lane as usize == lane)
            .unwrap_or_default();
        if *state != LaneState::Active {
            continue;
        }
        let start = cells.len();
        let decoded = decode_lane(call, own, arena, cells).filter(|_| {
            (cells[start..].iter().zip(is_int.iter().cycle()))
                .all(|(cell, int)| !int || is_int_text(arena, *cell))
        });
        let Some(status) = decoded else {
            cells.truncate(start);
            *state = LaneState::Failed(LaneError::BadAnswer);
            continue;
        };
        fields[usize::from(call.status)].set_int(lane, status);
        match &call.result {
            CallResult::Rows(list) => {
                fields[usize::from(*list)].list_mut().spans[lane] = Span {
                    start: (first_row + start / width) as u32,
                    length: ((cells.len() - start) / width) as u32,
                };
            }
            CallResult::Row(own) => {
                for (field, cell) in own.iter().zip(cells.drain(start..)) {
                    match &mut fields[usize::from(*field)] {
                        Column::Int(values) => {
                            values[lane] = parse_int(arena, cell).unwrap_or_default()
                        }
                        column => column.set_text(lane, cell),
                    }
                }
            }
        }
    }
    if let CallResult::Rows(list) = &call.result {
        for (at, column) in fields[usize::from(*list)]
            .list_mut()
            .columns
            .iter_mut()
            .enumerate()
        {
            let own = cells.iter().skip(at).step_by(width);
            match column {
                Column::Text(views) => views.extend(own),
                Column::Int(values) => {
                    values.extend(own.map(|cell| parse_int(arena, *cell).unwrap_or_default()))
                }
                Column::List(_) => unreachable!("records have no lists"),
            }
        }
    }
    requests.clear();
}

/// Appends the cells of all of a lane's answers, row by row, and gives the first status that is not
/// 0.
fn decode_lane(
    call: &Call,
    requests: &[BackendRequest],
    arena: &Arena,
    cells: &mut Vec<View>,
) -> Option<i64> {
    let mut status = 0;
    let mut rows = 0;
    for request in requests {
        let answer = request.answer?;
        let decoded = besim::decode(
            arena.get(answer),
            call.columns.into(),
            ROWS_MAX,
            cells,
            |start, length| View {
                offset: answer.offset + start as u32,
                length: length as u32,
            },
        );
        let decoded = decoded.ok()?;
        rows += decoded.rows;
        if status == 0 {
            status = i64::from(decoded.status);
        }
    }
    let one_row_missing = matches!(call.result, CallResult::Row(_)) && status == 0 && rows != 1;
    (!one_row_missing).then_some(status)
}

fn is_int_column(column: &Column) -> bool {
    matches!(column, Column::Int(_))
}

fn is_int_text(arena: &Arena, cell: View) -> bool {
    parse_int(arena, cell).is_some()
}

fn parse_int(arena: &Arena, cell: View) -> Option<i64> {
    std::str::from_utf8(arena.get(cell)).ok()?.parse().ok()
}
