//! Rows: a loop that only appends a row for each item of a list, as one step.
//!
//! Most loops of pages are like that: constants, texts from the item's columns, and perhaps one of
//! some short constants that such a text chooses. `fuse` makes the steps of any loop; `row_plan`
//! then looks whether they are such, and makes the parts of a row of them. So a lane takes all of
//! its rows without choosing a step, and nothing but its cursor changes on the way.

use super::keys::matching;
use super::step::{Choice, RowPart, Steps};
use super::write::{Out, Texts, short_cell, short_constant};
use crate::cohort::{Span, View};
use rhythm_protocol::scan::Simd;

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
        &self.steps.choices[first as usize + matching(self.texts.bytes, text, keys)]
    }
}
