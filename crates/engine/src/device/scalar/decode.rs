//! Backend answers to columns, lane by lane.

use super::value::Value;
use crate::cohort::{Arena, Cohort, Column, LaneError, LaneState, Span, View};
use crate::device::limits::ROWS_MAX;
use crate::program::{CallResult, PageProgram, Type};

/// Puts the answers of the previous stage's call into their fields and clears the requests.
pub(super) fn decode_answers(program: &PageProgram, cohort: &mut Cohort) {
    let call = &program.calls[cohort.stage - 1];
    let kinds: Vec<Type> = match &call.result {
        CallResult::Rows(list) => {
            let list = cohort.fields[usize::from(*list)].list();
            let kind = |c: &Column| {
                if matches!(c, Column::Text(_)) {
                    Type::Text
                } else {
                    Type::Int
                }
            };
            list.columns.iter().map(kind).collect()
        }
        CallResult::Row(fields) => fields
            .iter()
            .map(|f| match cohort.fields[usize::from(*f)] {
                Column::Text(_) => Type::Text,
                _ => Type::Int,
            })
            .collect(),
    };
    let requests = std::mem::take(&mut cohort.requests);
    let mut of_lanes = requests.chunk_by(|a, b| a.lane == b.lane).peekable();
    for lane in 0..cohort.lanes.len() {
        let own = of_lanes
            .next_if(|own| own[0].lane as usize == lane)
            .unwrap_or_default();
        if cohort.lanes[lane] != LaneState::Active {
            continue;
        }
        let mut status = 0;
        let mut rows = Vec::new();
        let mut readable = true;
        for request in own {
            match request
                .answer
                .and_then(|answer| decode_answer(&cohort.arena, answer, &kinds))
            {
                Some((0, more)) => rows.extend(more),
                Some((bad, _)) => status = if status == 0 { bad } else { status },
                None => readable = false,
            }
        }
        let one_row_missing =
            matches!(call.result, CallResult::Row(_)) && status == 0 && rows.len() != 1;
        if !readable || one_row_missing {
            cohort.fail(lane, LaneError::BadAnswer);
            continue;
        }
        cohort.fields[usize::from(call.status)].set_int(lane, status);
        match &call.result {
            CallResult::Rows(list) => {
                let list = cohort.fields[usize::from(*list)].list_mut();
                list.spans[lane] = Span {
                    start: list.columns.first().map_or(0, Column::len) as u32,
                    length: rows.len() as u32,
                };
                for row in rows {
                    for (column, value) in list.columns.iter_mut().zip(row) {
                        match (column, value) {
                            (Column::Int(values), Value::Int(value)) => values.push(value),
                            (Column::Text(views), Value::Text(view)) => views.push(view),
                            _ => unreachable!("cells are decoded by their column's type"),
                        }
                    }
                }
            }
            CallResult::Row(fields) => {
                for (field, value) in fields.iter().zip(rows.into_iter().flatten()) {
                    match value {
                        Value::Int(value) => {
                            cohort.fields[usize::from(*field)].set_int(lane, value)
                        }
                        Value::Text(view) => {
                            cohort.fields[usize::from(*field)].set_text(lane, view)
                        }
                        _ => unreachable!("fields are texts and integers"),
                    }
                }
            }
        }
    }
    cohort.requests = requests;
    cohort.requests.clear();
}

/// Reads an answer's body by the rules of BeSim (see `rhythm_protocol::besim`), but line by line:
/// status and, if that is 0, the rows. `None` where it breaks a rule.
fn decode_answer(arena: &Arena, answer: View, kinds: &[Type]) -> Option<(i64, Vec<Vec<Value>>)> {
    let body = arena.get(answer);
    let view = |part: &[u8]| View {
        offset: answer.offset + (part.as_ptr() as usize - body.as_ptr() as usize) as u32,
        length: part.len() as u32,
    };
    let mut lines = body.split(|b| *b == b'\n');
    lines.find(|line| *line == b"<pre>")?;
    let [digit @ b'0'..=b'9'] = lines.next()? else {
        return None;
    };
    let mut rows = Vec::new();
    if *digit != b'0' {
        return Some((i64::from(digit - b'0'), rows));
    }
    loop {
        let line = lines.next()?;
        if line == b"</pre>" {
            return Some((0, rows));
        }
        let cells: Vec<&[u8]> = line.split(|b| *b == b'&').collect();
        let is_sound = !line.iter().any(u8::is_ascii_control) && cells.len() == kinds.len();
        if !is_sound || rows.len() == ROWS_MAX as usize {
            return None;
        }
        let cell = |(cell, kind): (&&[u8], &Type)| {
            let text = std::str::from_utf8(cell).ok()?;
            match kind {
                Type::Int => text.parse().ok().map(Value::Int),
                _ => Some(Value::Text(view(cell))),
            }
        };
        rows.push(cells.iter().zip(kinds).map(cell).collect::<Option<_>>()?);
    }
}
