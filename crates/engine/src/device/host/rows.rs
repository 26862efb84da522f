//! Rows: a loop that only appends a row for each item of a list, as one step.
//!
//! Most loops of pages are like that: constants, texts from the item's columns, and perhaps one of
//! some short constants that such a text chooses. `fuse` makes the steps of any loop; [`planned`]
//! then looks whether they are such, and makes the parts of a row of them. So a lane takes all of
//! its rows without choosing a step, and nothing but its cursor changes on the way.

use super::plan::count_reads;
use super::step::{Choice, Row, Step, Steps, Values};
use super::walk::matching;
use super::write::{MOVE, Out, Texts, short_cell, short_constant};
use crate::cohort::{Span, View};
use crate::program::{For, Register};
use rhythm_protocol::scan::Simd;

/// A part of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowPart {
    /// A constant of at most [`MOVE`] bytes, padded.
    Constant { length: u32, constant: [u8; MOVE] },
    /// Such a constant, and a text of a column behind it, perhaps escaped for HTML.
    Text {
        escaped: bool,
        column: u16,
        length: u32,
        constant: [u8; MOVE],
    },
    /// [`Step::Match`], with the text of a column.
    Match {
        count: u8,
        column: u16,
        first_key: u32,
        first: u32,
    },
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

/// The rows of a lane.
pub(super) struct Rows<'w> {
    /// Where its items are.
    pub(super) span: Span,
    /// All columns of texts.
    pub(super) columns: &'w [&'w [View]],
    pub(super) parts: &'w [RowPart],
    pub(super) steps: &'w Steps,
    pub(super) texts: Texts<'w>,
}

impl Rows<'_> {
    /// Appends the first `turns` of them, and tells whether they fit; `None` where there are not so
    /// many.
    #[inline(always)]
    pub(super) fn append<S: Simd>(&self, s: S, turns: u64, out: &mut Out<'_>) -> Option<bool> {
        let length = turns.min(u64::from(self.span.length)) as usize;
        let start = self.span.start as usize;
        for item in start..start + length {
            if !self.row(s, item, out) {
                return Some(false);
            }
        }
        (turns == length as u64).then_some(true)
    }

    /// Appends an item's row, and tells whether it fits.
    #[inline(always)]
    fn row<S: Simd>(&self, s: S, item: usize, out: &mut Out<'_>) -> bool {
        let mut parts = self.parts.iter();
        loop {
            // By itself, so that the cursor stays in registers.
            let mut rest = std::mem::take(&mut out.rest);
            let other = loop {
                let Some(part) = parts.next() else {
                    out.rest = rest;
                    return true;
                };
                let appended = match part {
                    RowPart::Text {
                        escaped,
                        column,
                        length,
                        constant,
                    } => {
                        let view = self.view(*column, item);
                        short_cell(s, rest, self.texts, (constant, *length), view, *escaped)
                    }
                    RowPart::Constant { length, constant } => {
                        short_constant(rest, constant, *length)
                    }
                    RowPart::Match {
                        count,
                        column,
                        first_key,
                        first,
                    } => {
                        let view = self.view(*column, item);
                        let choice = self.choice(view, *count, *first_key, *first);
                        short_constant(rest, &choice.constant, u32::from(choice.length))
                    }
                };
                match appended {
                    Ok(left) => rest = left,
                    Err(whole) => {
                        rest = whole;
                        break part;
                    }
                }
            };
            out.rest = rest;
            let RowPart::Text {
                escaped,
                column,
                length,
                constant,
            } = other
            else {
                return false;
            };
            let view = self.view(*column, item);
            if !out.cell(s, self.texts, (constant, *length), view, *escaped) {
                return false;
            }
        }
    }

    #[inline(always)]
    fn view(&self, column: u16, item: usize) -> View {
        self.texts.view(self.columns[usize::from(column)], item)
    }

    #[inline(always)]
    fn choice(&self, text: View, count: u8, first_key: u32, first: u32) -> &Choice {
        let keys = &self.steps.keys[first_key as usize..][..usize::from(count)];
        &self.steps.choices[first as usize + matching(self.texts, text, keys)]
    }
}
