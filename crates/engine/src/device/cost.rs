//! What operations cost that look through texts: one table, for every executor.
//!
//! A text that is made is charged for at its length, and a loop for its turns. What is only looked
//! through, such as by `in`, `|int` or a comparison, leaves no bytes, but takes time: a lane that
//! does so in each of its turns would keep its worker for seconds. So it is charged for a part of
//! the bytes, the larger the slower, from the same budget as texts that are made
//! ([`LaneLimits::text_bytes_max`](super::LaneLimits::text_bytes_max)). The parts are such that a
//! budget of a megabyte is spent in some tens of milliseconds, whatever it is spent on.
//!
//! Charges hang on lengths alone, so that executors that do the work in other ways, or leave some
//! of it out, agree; and short texts, of which most pages are, are free.

use crate::cohort::Argument;
use crate::program::{Choice, Comparison, Formatting, KeyUse, Op, Register, TextFunction};
use crate::program::{TextTest, Type};

/// How many bytes that are looked through are charged for as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rate {
    /// Many bytes an instruction: 64.
    Blocks,
    /// Byte by byte or character by character: 16.
    Characters,
    /// Several questions about each character: 4.
    Questions,
}

impl Rate {
    const fn of(self, bytes: usize) -> usize {
        match self {
            Rate::Blocks => bytes >> 6,
            Rate::Characters => bytes >> 4,
            Rate::Questions => bytes >> 2,
        }
    }
}

/// Texts shorter than this are compared free of charge.
pub(crate) const FREE_COMPARISON: usize = 64;

/// One charged for is about as much work as so many bytes of text that are copied.
pub(crate) const WORK_OF_ONE: usize = 64;

/// Whether an operation may have a [`read`]: it looks through texts. `kind` tells registers' types.
pub fn may_read(op: &Op, kind: impl Fn(Register) -> Type) -> bool {
    match op {
        Op::Compare(_, op) => kind(op.left) == Type::Text,
        Op::Convert(_, op) => kind(op.from) == Type::Text && kind(op.to) != Type::Text,
        Op::ConvertOr(_, op) => kind(op.left) == Type::Text,
        Op::TextTest(..) | Op::TextLength(_) | Op::Replace(_) => true,
        Op::Text(function, _) => rate_of(*function).is_some(),
        Op::Format(op) => {
            let is_text = |from: &Register| kind(*from) == Type::Text;
            rate_of_format(op.how).is_some() && op.from.first().is_some_and(is_text)
        }
        _ => false,
    }
}

/// What is charged for the texts that an operation looks through, before it is done. `length` tells
/// the bytes of the text in a register; it is asked only of an operation that
/// [may read](may_read), and of its texts alone.
pub fn read(op: &Op, length: impl Fn(Register) -> usize) -> usize {
    match op {
        Op::Compare(comparison, op) => compared(*comparison, length(op.left), length(op.right)),
        Op::Convert(_, op) => Rate::Characters.of(length(op.from)),
        Op::ConvertOr(_, op) => Rate::Characters.of(length(op.left)),
        Op::TextTest(test, op) => match (test, length(op.left), length(op.right)) {
            (_, left, right) if right > left => 0,
            (TextTest::Contains, left, right) => Rate::Characters.of(left + right),
            (TextTest::StartsWith | TextTest::EndsWith, _, right) => Rate::Blocks.of(right),
        },
        Op::TextLength(op) => Rate::Blocks.of(length(op.from)),
        Op::Replace(op) => Rate::Characters.of(length(op.from) + length(op.old)),
        Op::Text(function, op) => rate_of(*function).map_or(0, |rate| rate.of(length(op.from))),
        // All have the text that they look through first, if they have any: dates may be numbers.
        Op::Format(op) => match (rate_of_format(op.how), op.from.first()) {
            (Some(rate), Some(from)) => rate.of(length(*from)),
            _ => 0,
        },
        _ => 0,
    }
}

/// What is charged for two texts that are compared: texts that differ in length are not equal.
pub fn compared(comparison: Comparison, left: usize, right: usize) -> usize {
    match comparison {
        Comparison::Equal | Comparison::NotEqual if left != right => 0,
        _ => Rate::Blocks.of(left.min(right)),
    }
}

/// What is charged for what is done with positions by these keys, beside the turns. Numbers need
/// none: there are as many as turns.
pub(super) fn by_keys<'a>(by: KeyUse, keys: impl Iterator<Item = Argument<'a>> + Clone) -> usize {
    // Of texts, the first eight bytes are compared as a number.
    let bytes = keys.clone().map(|key| match key {
        Argument::Text(text) => text.len().saturating_sub(8),
        _ => 0,
    });
    match by {
        KeyUse::Keep => 0,
        KeyUse::Unique => Rate::Characters.of(bytes.sum()),
        KeyUse::Sort { ignores_case, .. } => {
            // Each is compared about as often as the number of keys has bits.
            let bits = keys.count().checked_ilog2().map_or(0, |bits| bits + 1);
            let rate = match ignores_case {
                true => Rate::Characters,
                false => Rate::Blocks,
            };
            rate.of(bytes.sum::<usize>().saturating_mul(bits as usize))
        }
    }
}

/// How many operations a lane does in a block at most: outside of its loops, and in a turn of any
/// of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Outside of loops.
    pub once: usize,
    /// In the longest turn of a loop, turns of loops within it not included.
    pub turn: usize,
}

impl Operations {
    /// Of a block.
    pub fn of(block: &[Op]) -> Operations {
        let start = Operations {
            once: block.len(),
            turn: 0,
        };
        block.iter().fold(start, |all, op| {
            let inner = match op {
                Op::If(op) => {
                    let [then, otherwise] = [&op.then, &op.otherwise].map(|it| Self::of(it));
                    Operations {
                        once: then.once.max(otherwise.once),
                        turn: then.turn.max(otherwise.turn),
                    }
                }
                Op::For(op) => {
                    let keys = op.choices.iter().filter_map(Choice::key);
                    let blocks = keys.map(|key| &key.block).chain([&op.body]);
                    let turns = blocks.map(|block| Self::of(block));
                    let turns = turns.fold(Operations::default(), Operations::and);
                    let otherwise = Self::of(&op.otherwise);
                    Operations {
                        once: otherwise.once,
                        turn: turns.once.max(turns.turn).max(otherwise.turn),
                    }
                }
                _ => Operations::default(),
            };
            all.and(inner)
        })
    }

    /// Of this block, and another one behind it.
    fn and(self, other: Operations) -> Operations {
        Operations {
            once: self.once + other.once,
            turn: self.turn.max(other.turn),
        }
    }

    /// Of a lane whose loops take so many turns.
    pub fn in_turns(self, turns: usize) -> usize {
        self.once.saturating_add(self.turn.saturating_mul(turns))
    }
}

/// Functions that are not here make about as much text as they look through.
fn rate_of(function: TextFunction) -> Option<Rate> {
    match function {
        TextFunction::First | TextFunction::Last => Some(Rate::Blocks),
        TextFunction::Trim | TextFunction::Md5 => Some(Rate::Characters),
        TextFunction::Upper
        | TextFunction::Lower
        | TextFunction::Title
        | TextFunction::Capitalize
        | TextFunction::UrlEncode
        | TextFunction::Escape(_) => None,
    }
}

fn rate_of_format(how: Formatting) -> Option<Rate> {
    match how {
        Formatting::Slice | Formatting::Character => Some(Rate::Blocks),
        Formatting::Truncate | Formatting::Places(_) | Formatting::Date => Some(Rate::Characters),
        Formatting::StripTags | Formatting::IsLower | Formatting::IsUpper => Some(Rate::Questions),
        // Of numbers, or as long as what they make.
        Formatting::Fixed
        | Formatting::Ceil
        | Formatting::Floor
        | Formatting::Padded
        | Formatting::FileSize
        | Formatting::Indent
        | Formatting::LowerAscii
        | Formatting::Part
        | Formatting::Reverse => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Binary, For, If, Key};

    #[test]
    fn operations_are_those_of_the_longer_branch_and_of_the_longest_turn() {
        let ops = |count: usize| vec![Op::Finish; count];
        let branch = Op::If(If {
            condition: 0,
            then: ops(7),
            otherwise: ops(3),
        });
        let loops = |choices: Vec<Choice>, body: Vec<Op>| {
            Op::For(For {
                count: 0,
                choices,
                position: 1,
                index: 2,
                length: 3,
                body,
                otherwise: ops(2),
            })
        };
        let key = Key {
            block: ops(5),
            register: 4,
        };
        let inner = loops(vec![Choice::By(KeyUse::Keep, key), Choice::Reverse], ops(8));
        let outer = loops(Vec::new(), vec![branch.clone(), inner]);
        let all = Operations::of(&[branch, outer]);
        // Two, the branch's seven, and the else of the outer loop. In a turn of that: two, the
        // branch's, the inner loop's else; in one of the inner loop: its key's and its body.
        assert_eq!(all, Operations { once: 11, turn: 13 });
        assert_eq!(all.in_turns(100), 1311);
        assert_eq!(all.in_turns(usize::MAX), usize::MAX);
    }

    #[test]
    fn short_texts_are_free_and_long_ones_cost_what_is_looked_through() {
        let op = Binary {
            to: 2,
            left: 0,
            right: 1,
        };
        let charged = |op: &Op, lengths: [usize; 2]| read(op, |at| lengths[usize::from(at)]);
        let contains = Op::TextTest(TextTest::Contains, op);
        assert_eq!(charged(&contains, [4000, 2000]), 375);
        assert_eq!(charged(&contains, [10, 4]), 0);
        // What is longer is in nothing, and nobody looks.
        assert_eq!(charged(&contains, [2000, 4000]), 0);
        let equal = |lengths| charged(&Op::Compare(Comparison::Equal, op), lengths);
        assert_eq!(equal([6400, 6400]), 100);
        assert_eq!(equal([6400, 6401]), 0);
        assert_eq!(equal([FREE_COMPARISON - 1; 2]), 0);
        let less = Op::Compare(Comparison::Less, op);
        assert_eq!(charged(&less, [6400, 6401]), 100);
    }

    #[test]
    fn sorting_costs_by_comparisons_of_what_is_not_a_number() {
        let sort = |ignores_case| KeyUse::Sort {
            descending: false,
            ignores_case,
        };
        let long = [b'x'; 1008];
        let keys = [Argument::Text(&long); 1000];
        let cost = |by| by_keys(by, keys.iter().copied());
        assert_eq!(cost(sort(true)), 1000 * 1000 * 10 / 16);
        assert_eq!(cost(sort(false)), 1000 * 1000 * 10 / 64);
        assert_eq!(cost(KeyUse::Unique), 1000 * 1000 / 16);
        let short = [Argument::Text(b"12345678"), Argument::Int(7)];
        assert_eq!(by_keys(sort(true), short.into_iter()), 0);
    }
}
