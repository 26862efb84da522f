//! Which loops only append a row for each item of a list: these become one step, [`Rows`] run it.
//!
//! [`Rows`]: super::rows::Rows

use super::step::{Row, RowPart, Step, Steps, Values};
use super::write::MOVE;
use crate::program::{For, Op, Register};

/// Counts how often each register is read.
pub(super) fn count_reads(block: &[Op], reads: &mut [u32]) {
    for op in block {
        op.each_read(|register| reads[usize::from(register)] += 1);
        for inner in op.blocks() {
            count_reads(inner, reads);
        }
    }
}

/// What a row of a loop has, and which list its items are of, if the steps that were made of its
/// body since there were so many `before` only append, and load what they append: with nothing in
/// a register that is read outside.
pub(super) fn planned(
    of: &For,
    steps: &Steps,
    before: [usize; 7],
    reads: &[u32],
) -> Option<(u16, Vec<RowPart>)> {
    let mut reads_here = vec![0; reads.len()];
    count_reads(&of.body, &mut reads_here);
    let is_own = |register: Register| {
        let register = usize::from(register);
        // Behind all of them stands the one that nobody reads.
        reads_here.get(register) == reads.get(register)
    };
    let mut list = None;
    let mut is_item = |position: Register, spans: u16| {
        position == of.position && *list.get_or_insert(spans) == spans
    };
    // Which columns registers were loaded from.
    let mut loaded: Vec<(Register, u16)> = Vec::new();
    let mut parts = Vec::new();
    for step in &steps.list[before[0]..] {
        match *step {
            Step::Constant { first_move, length } => {
                let moves = (length as usize).div_ceil(MOVE);
                let starts = (0..length).step_by(MOVE);
                for (constant, start) in steps.moves[first_move as usize..][..moves]
                    .iter()
                    .zip(starts)
                {
                    parts.push(RowPart::Constant {
                        length: (length - start).min(MOVE as u32),
                        constant: *constant,
                    });
                }
            }
            Step::Cells {
                row: Row::Item { position, spans },
                count,
                first,
                ..
            } if is_item(position, spans) => {
                for cell in &steps.cells[first as usize..][..usize::from(count)] {
                    if !is_own(cell.register) {
                        return None;
                    }
                    loaded.push((cell.register, cell.column));
                    parts.push(RowPart::Text {
                        escaped: cell.escaped,
                        column: cell.column,
                        length: cell.length,
                        constant: cell.constant,
                    });
                }
            }
            Step::Item {
                to,
                position,
                spans,
                values: Values::Text(column),
            } if to != position && is_own(to) && is_item(position, spans) => {
                loaded.push((to, column));
            }
            Step::Match {
                text,
                count,
                first_key,
                first,
            } => {
                let mut last = loaded.iter().rev();
                let (_, column) = *last.find(|(register, _)| *register == text)?;
                parts.push(RowPart::Match {
                    count,
                    column,
                    first_key,
                    first,
                });
            }
            _ => return None,
        }
    }
    (parts.len() <= usize::from(u16::MAX)).then_some((list?, parts))
}
