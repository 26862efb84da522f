//! Sizes that are known at load: pages that could never be answered, or not be numbered.

use super::build::PageParts;
use crate::diagnostic::{Place, Report};
use crate::program::{Block, Call, Op, PageProgram};
use crate::source::declaration::PageHeader;

/// Most of anything that a program numbers by 16 bits.
const NUMBERED_MAX: usize = u16::MAX as usize;

/// Reports a page that has more of something than its program can number.
pub(super) fn check_numbers(
    header: &PageHeader<'_>,
    parts: &PageParts,
    calls: &[Call],
    widest: usize,
    report: &mut Report,
) {
    let counts = [
        (parts.fields.len(), "parameters and columns"),
        (parts.header_names.len(), "headers"),
        (parts.tables.len(), "lists of constants"),
        (calls.len(), "calls"),
        (widest, "columns of one list"),
    ];
    for (count, what) in counts {
        if count > NUMBERED_MAX {
            let message = format!("the page has {count} {what}");
            report.error(header.place, message, format!("at most {NUMBERED_MAX}"));
        }
    }
}

/// Reports a page whose static text alone is more than an answer may be.
pub(super) fn check_body(
    program: &PageProgram,
    fragments: &[Box<[u8]>],
    most: u32,
    template: Place<'_>,
    report: &mut Report,
) {
    let Some(stage) = program.stages.last() else {
        return;
    };
    let least = least(&stage.body, fragments).unwrap_or(0);
    if least > most as usize {
        let message = format!("the page's static text is {least} bytes, too many for any answer");
        let hint = format!("[limits] response_bytes_max, which is {most}, says how many it may be");
        report.error(template, message, hint);
    }
}

/// The fewest bytes of static text that a lane writes which gets through a block; `None` where none
/// does. Loops may be empty.
fn least(block: &Block, fragments: &[Box<[u8]>]) -> Option<usize> {
    let mut sum = 0;
    for op in block {
        sum += match op {
            Op::Fragment(id) => fragments.get(*id as usize).map_or(0, |text| text.len()),
            Op::If(op) => {
                let branches = [&op.then, &op.otherwise];
                let least = branches
                    .into_iter()
                    .filter_map(|block| least(block, fragments));
                least.min()?
            }
            Op::Finish => return None,
            _ => 0,
        };
    }
    Some(sum)
}
