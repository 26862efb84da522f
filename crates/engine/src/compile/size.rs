//! Sizes that are known at load: pages that could never be answered, and how much a service comes
//! to.

use crate::diagnostic::{Place, Report};
use crate::program::{Block, Op, PageProgram};

/// What a service comes to as it is compiled, or may come to where its sources are somebody else's:
/// a few that use each other often become any number of programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Pages.
    pub pages: usize,
    /// What stands in templates and expressions, each as often as pages come to it.
    pub nodes: usize,
    /// Bytes of static texts and constants.
    pub text_bytes: usize,
}

impl Size {
    /// Of any service.
    pub const ANY: Size = Size {
        pages: usize::MAX,
        nodes: usize::MAX,
        text_bytes: usize::MAX,
    };

    /// Whether it is within one in all respects.
    pub(super) fn is_within(self, most: Size) -> bool {
        self.pages <= most.pages && self.nodes <= most.nodes && self.text_bytes <= most.text_bytes
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
