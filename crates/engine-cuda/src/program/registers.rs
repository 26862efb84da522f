//! Registers are given out anew: those of values that are not needed at the same time share one.
//!
//! The engine gives each value a register of its own. Here registers lie in shared memory, 256
//! bytes a warp each, and how many a program has decides how many warps a multiprocessor keeps.
//!
//! A value is needed from the first instruction that has it to the last, in the order in which they
//! stand: jumps lead forward, but for those of loops. What a loop has in common with what is
//! outside, or reads before it writes, is needed in all of it. The state of a loop is registers one
//! after the other. What nobody reads goes into one register for all such values.
//!
//! That relies on what the engine's compiler does: in each turn of a loop a value of that loop
//! alone is written before it is read, or read first in the order of the program.

use crate::abi::stage::{Code, Constant, Instruction};
use std::collections::{BTreeMap, BTreeSet};

/// What an instruction does with a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Reads,
    Writes,
    /// Reads and writes so many, from this one on: a loop's state.
    Keeps(u16),
}

/// What instructions do with their operands `a`, `b` and `c`.
fn uses(code: Code) -> [Option<Use>; 3] {
    let (reads, writes) = (Some(Use::Reads), Some(Use::Writes));
    let (keeps, filters) = (Some(Use::Keeps(3)), Some(Use::Keeps(4)));
    match code {
        Code::Segment
        | Code::Fold
        | Code::End
        | Code::Finish
        | Code::Jump
        | Code::Status
        | Code::SessionDestroy => [None; 3],
        Code::PutText
        | Code::PutHtml
        | Code::PutEscaped
        | Code::PutInt
        | Code::PutFloat
        | Code::PutBool => [None, reads, None],
        Code::JumpUnless | Code::Query | Code::Header | Code::File | Code::SessionCreate => {
            [reads, None, None]
        }
        Code::Concat | Code::Field | Code::Length => [writes, None, None],
        Code::IntToText
        | Code::FloatToText
        | Code::BoolToText
        | Code::Text
        | Code::Copy
        | Code::Item
        | Code::ConstantItem
        | Code::NegateInt
        | Code::NegateFloat
        | Code::AbsoluteInt
        | Code::AbsoluteFloat
        | Code::Not
        | Code::TruthText
        | Code::TruthInt
        | Code::TruthFloat
        | Code::IntToFloat
        | Code::TextLength => [writes, reads, None],
        // The last three read `c` where there is another value for what cannot be converted; else
        // it is 0, which is some register.
        Code::Replace
        | Code::IntArithmetic
        | Code::FloatArithmetic
        | Code::CompareText
        | Code::CompareInt
        | Code::CompareFloat
        | Code::TextTest
        | Code::FloatToInt
        | Code::TextToInt
        | Code::TextToFloat => [writes, reads, reads],
        Code::LoopBegin => [reads, keeps, writes],
        Code::FilterBegin => [reads, filters, None],
        Code::FilterNext => [writes, filters, None],
        Code::FilterKeep => [reads, filters, None],
        Code::FilterEnd => [None, filters, writes],
        Code::Turn => [writes, keeps, writes],
        Code::TurnKept => [writes, filters, writes],
        // It has three of either, which the instruction that began the loop has, too.
        Code::TurnEnd => [None, keeps, None],
    }
}

/// Whether `c` is one, though it may be read.
fn has_c(code: Code, instruction: &Instruction) -> bool {
    let converts = matches!(code, Code::FloatToInt | Code::TextToInt | Code::TextToFloat);
    !converts || instruction.d != 0
}

/// A value, by the register that the engine gave it.
#[derive(Clone, Copy, Debug)]
struct Value {
    /// The first and the last instruction that it is needed at.
    first: usize,
    last: usize,
    is_read: bool,
    /// Registers.
    size: u16,
}

/// Calls for each register that a program's instruction has, which may be replaced.
fn each_use(
    code: Code,
    instruction: &mut Instruction,
    parts: &mut [u16],
    mut call: impl FnMut(&mut u16, Use),
) {
    let has_c = has_c(code, instruction);
    let [a, b, c] = uses(code);
    if code == Code::Concat {
        let (start, count) = (instruction.d as usize, instruction.e as usize);
        for part in &mut parts[start..start + count] {
            call(part, Use::Reads);
        }
    }
    if code == Code::Replace {
        let mut by = instruction.d as u16;
        call(&mut by, Use::Reads);
        instruction.d = u32::from(by);
    }
    if let Some(b) = b {
        call(&mut instruction.b, b);
    }
    if let Some(c) = c.filter(|_| has_c) {
        call(&mut instruction.c, c);
    }
    if let Some(a) = a {
        call(&mut instruction.a, a);
    }
}

/// A program whose registers are given out.
#[derive(Debug)]
pub(super) struct Program<'a> {
    pub(super) code: &'a mut [Instruction],
    /// What each instruction is.
    pub(super) codes: &'a [Code],
    /// Operands of concatenations.
    pub(super) parts: &'a mut [u16],
    pub(super) constants: &'a mut Vec<Constant>,
}

impl Program<'_> {
    /// Gives its registers out, and says how many it has then.
    pub(super) fn give_out(mut self) -> u32 {
        let values = self.values();
        let (places, count) = places(&values);
        self.constants.retain_mut(|constant| {
            let place = places.get(&(constant.reg as u16));
            constant.reg = place.copied().unwrap_or(0).into();
            place.is_some()
        });
        self.each(|_, register, _| *register = places[register]);
        u32::from(count)
    }

    /// Calls for each register that an instruction has, which may be replaced.
    fn each(&mut self, mut call: impl FnMut(usize, &mut u16, Use)) {
        for (at, (code, instruction)) in self.codes.iter().zip(&mut *self.code).enumerate() {
            each_use(*code, instruction, self.parts, |register, what| {
                call(at, register, what);
            });
        }
    }

    /// Its values.
    fn values(&mut self) -> BTreeMap<u16, Value> {
        let mut values: BTreeMap<u16, Value> = BTreeMap::new();
        let mut uses: Vec<(usize, u16, Use)> = Vec::new();
        self.each(|at, register, what| uses.push((at, *register, what)));
        // A constant is there from the start, if somebody wants it.
        let used: BTreeSet<u16> = uses.iter().map(|(_, register, _)| *register).collect();
        let constants = self.constants.iter().map(|constant| constant.reg as u16);
        let constants = constants.filter(|register| used.contains(register));
        let constants: Vec<_> = constants
            .map(|register| (0, register, Use::Writes))
            .collect();
        for &(at, register, what) in constants.iter().chain(&uses) {
            let value = values.entry(register).or_insert(Value {
                first: at,
                last: at,
                is_read: false,
                size: 1,
            });
            value.last = at;
            value.is_read |= what != Use::Writes;
            if let Use::Keeps(size) = what {
                value.size = value.size.max(size);
            }
        }
        // Inner loops first: they end first. What begins one is done once.
        for (begin, end) in loops(self.codes) {
            let first = begin + 1;
            let up_to = |place: usize| uses.partition_point(|(at, ..)| *at < place);
            let mut seen = BTreeMap::new();
            for (_, register, what) in &uses[up_to(first)..up_to(end + 1)] {
                seen.entry(*register).or_insert(*what == Use::Reads);
            }
            for (register, begins_read) in seen {
                let value = values.get_mut(&register).expect("it was used");
                let shared = value.first < first || value.last > end;
                if shared || begins_read {
                    value.first = value.first.min(first);
                    value.last = value.last.max(end);
                }
            }
        }
        values
    }
}

/// Where loops begin and end, in the order of their ends. One with a filter is two: all positions
/// are tried, and what comes of that is there in each turn of those that are kept.
fn loops(codes: &[Code]) -> Vec<(usize, usize)> {
    let mut open = Vec::new();
    let mut all = Vec::new();
    for (at, code) in codes.iter().enumerate() {
        match code {
            Code::LoopBegin | Code::FilterBegin => open.push(at),
            Code::FilterEnd => {
                all.extend(open.pop().map(|begin| (begin, at - 1)));
                open.push(at);
            }
            Code::TurnEnd => all.extend(open.pop().map(|begin| (begin, at))),
            _ => {}
        }
    }
    all
}

/// A register for each value, and how many there are.
fn places(values: &BTreeMap<u16, Value>) -> (BTreeMap<u16, u16>, u16) {
    let mut order: Vec<(&u16, &Value)> = values.iter().collect();
    order.sort_by_key(|(_, value)| value.first);
    let mut places = BTreeMap::new();
    let mut unread = None;
    // From which instruction on each register is free.
    let mut free_from: Vec<usize> = Vec::new();
    for (register, value) in order {
        let size = usize::from(value.size);
        let is_free = |place: &usize| {
            let own = free_from.iter().skip(*place).take(size);
            own.copied().all(|from| from <= value.first)
        };
        let free = || (0..).find(is_free).expect("there is one");
        let (place, last) = match value.is_read {
            true => (free(), value.last),
            false => (*unread.get_or_insert_with(free), usize::MAX - 1),
        };
        free_from.resize(free_from.len().max(place + size), 0);
        free_from[place..place + size].fill(last + 1);
        places.insert(*register, place as u16);
    }
    (places, free_from.len() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of these instructions (`a`, `b`, `c`), with constants in these registers; what
    /// each has afterwards, and how many registers there are.
    fn given_out(program: &[(Code, [u16; 3])], constants: &[u16]) -> (Vec<[u16; 3]>, u32) {
        let mut code: Vec<Instruction> = Vec::new();
        for (own, [a, b, c]) in program {
            code.push(Instruction {
                code: *own as u16,
                a: *a,
                b: *b,
                c: *c,
                d: 0,
                e: 0,
            });
        }
        let constants = constants.iter().map(|register| Constant {
            reg: u32::from(*register),
            unused: 0,
            bits: 0,
        });
        let codes: Vec<Code> = program.iter().map(|(code, _)| *code).collect();
        let program = Program {
            code: &mut code,
            codes: &codes,
            parts: &mut [],
            constants: &mut constants.collect(),
        };
        let count = program.give_out();
        let operands = code.iter().map(|own| [own.a, own.b, own.c]);
        (operands.collect(), count)
    }

    #[test]
    fn values_that_are_not_needed_together_share_a_register() {
        let (program, count) = given_out(
            &[
                (Code::Field, [7, 0, 0]),
                (Code::PutInt, [0, 7, 0]),
                (Code::Field, [8, 0, 0]),
                (Code::Field, [9, 0, 0]),
                (Code::CompareInt, [10, 8, 9]),
                (Code::PutBool, [0, 10, 0]),
            ],
            &[],
        );
        assert_eq!(program[0][0], program[2][0]);
        let [_, left, right] = program[4];
        assert_ne!(left, right);
        // What is written is no register that the same instruction reads.
        assert!(![left, right].contains(&program[4][0]));
        assert_eq!(count, 3);
    }

    #[test]
    fn what_a_loop_needs_in_each_turn_is_not_given_away_in_it() {
        let (program, count) = given_out(
            &[
                // The constant 20, the count 1, and 2 from before.
                (Code::Length, [1, 0, 0]),
                (Code::Field, [2, 0, 0]),
                (Code::LoopBegin, [1, 10, 3]),
                (Code::Turn, [4, 10, 5]),
                (Code::PutInt, [0, 2, 0]),
                (Code::Item, [6, 4, 0]),
                (Code::PutInt, [0, 6, 0]),
                // Carried from turn to turn.
                (Code::PutInt, [0, 9, 0]),
                (Code::IntArithmetic, [9, 20, 20]),
                (Code::TurnEnd, [0, 10, 0]),
                (Code::Field, [30, 0, 0]),
                (Code::PutInt, [0, 30, 0]),
            ],
            &[20, 21],
        );
        let state = program[3][1];
        let (before, constant, carried) = (program[4][1], program[8][1], program[8][0]);
        let (position, item) = (program[3][0], program[5][0]);
        let mut needed = vec![state, state + 1, state + 2, before, constant, carried];
        needed.extend([position, item]);
        let distinct: BTreeSet<u16> = needed.iter().copied().collect();
        assert_eq!(distinct.len(), needed.len(), "{needed:?}");
        assert_eq!(program[9][1], state);
        // The length and the index, which nobody reads, are in one; the count needs none of its
        // own, as the constant that nobody has.
        assert_eq!(program[2][2], program[3][2]);
        assert!(!distinct.contains(&program[3][2]));
        assert!(count <= 10, "{count}");
    }

    #[test]
    fn what_a_filter_comes_to_is_there_in_each_turn() {
        let (program, _) = given_out(
            &[
                (Code::Length, [1, 0, 0]),
                (Code::FilterBegin, [1, 10, 0]),
                (Code::FilterNext, [2, 10, 0]),
                (Code::TruthInt, [3, 2, 0]),
                (Code::FilterKeep, [3, 10, 0]),
                // The loop's length, which is read in the body, and others after it.
                (Code::FilterEnd, [0, 10, 4]),
                (Code::TurnKept, [2, 10, 5]),
                (Code::CompareInt, [6, 5, 4]),
                (Code::Not, [7, 6, 0]),
                (Code::PutBool, [0, 7, 0]),
                (Code::TurnEnd, [0, 10, 0]),
            ],
            &[],
        );
        let length = program[5][2];
        assert_eq!(program[7][2], length);
        let state = program[5][1];
        let mut others: Vec<u16> = (state..state + 4).collect();
        others.extend([program[6][0], program[6][2], program[7][0], program[8][0]]);
        assert!(!others.contains(&length), "{length} in {others:?}");
    }
}
