//! Branches that choose between short constants, as steps: no jump hangs on what a lane has.

use super::{Fuse, nobodys};
use crate::device::cost;
use crate::device::host::keys::Key;
use crate::device::host::step::{Choice, Step};
use crate::device::host::write::HALF;
use crate::program::{Binary, Comparison, If, Op, Register, Type};

impl<'a> Fuse<'a> {
    /// A branch that appends one short constant or another, and perhaps compares in its else to do
    /// the same: all is compared and one chosen, since nothing foretells a jump that hangs on data.
    pub(super) fn choice(&mut self, op: &If) -> bool {
        let (mut choices, mut compared) = (Vec::new(), Vec::new());
        let mut branch = op;
        let otherwise = loop {
            let Some(then) = self.short(&branch.then) else {
                return false;
            };
            choices.push((branch.condition, then));
            match &branch.otherwise[..] {
                // Where nobody else reads it, it may be computed for all.
                [compare @ Op::Compare(_, operands), Op::If(inner)]
                    if inner.condition == operands.to
                        && self.reads[usize::from(operands.to)] == 1
                        && self.is_free(operands) =>
                {
                    compared.push(compare);
                    branch = inner;
                }
                otherwise => break otherwise,
            }
        };
        let Some(last) = self.short(otherwise) else {
            return false;
        };
        let count = choices.len() as u32;
        choices.push((nobodys(self.stage), last));
        let longest = choices.iter().map(|(_, text)| text.len()).max();
        let most = HALF - longest.unwrap_or(0);
        let mut before = self.short_constant(most);
        let keys = self.keys(choices[0].0, &compared);
        match keys {
            Some(_) if before.is_empty() => before = self.short_constant(most),
            Some(_) => {}
            None => compared.iter().for_each(|compare| {
                self.op(compare);
            }),
        }
        let first = self.steps.choices.len() as u32;
        self.steps
            .choices
            .extend(choices.iter().map(|&(condition, text)| Choice {
                condition,
                length: (before.len() + text.len()) as u16,
                constant: {
                    let mut padded = [0; HALF];
                    padded[..before.len()].copy_from_slice(&before);
                    padded[before.len()..][..text.len()].copy_from_slice(text);
                    padded
                },
            }));
        let Some((text, keys)) = keys else {
            return self.push(Step::Choose { first, count });
        };
        let first_key = self.steps.keys.len() as u32;
        self.steps.keys.extend(keys);
        self.push(Step::Match {
            text,
            count: count as u8,
            first_key,
            first,
        })
    }

    /// Whether a comparison is charged for in no case: one that not all lanes come to may be made
    /// for all.
    fn is_free(&self, operands: &Binary) -> bool {
        let [left, right] = [operands.left, operands.right];
        let is_short = |register| {
            let constant = self.constant(register);
            constant.is_some_and(|text| text.len() < cost::FREE_COMPARISON)
        };
        self.stage.registers[usize::from(left)] != Type::Text || is_short(left) || is_short(right)
    }

    /// Where the condition that was just set and those that `compared` sets say which of some short
    /// constants a text is: the text and the constants, in place of that step.
    fn keys(&mut self, condition: Register, compared: &[&Op]) -> Option<(Register, Vec<Key>)> {
        let is_read_once = self.reads[usize::from(condition)] == 1;
        let first = match self.steps.list[self.target..] {
            [.., step] if step.destination() == Some(condition) && is_read_once => step,
            _ => return None,
        };
        let others = compared.iter().map(|op| match op {
            Op::Compare(Comparison::Equal, operands)
                if self.stage.registers[usize::from(operands.left)] == Type::Text =>
            {
                Some(self.equal(operands.to, operands.left, operands.right, true))
            }
            _ => None,
        });
        let key = |step| match step {
            Some(Step::Is {
                wanted: true,
                text,
                length,
                word,
                ..
            }) => Some((
                text,
                Key {
                    length: u32::from(length),
                    word,
                },
            )),
            _ => None,
        };
        let keys = std::iter::once(Some(first)).chain(others).map(key);
        let keys: Vec<(Register, Key)> = keys.collect::<Option<_>>()?;
        let text = keys[0].0;
        if keys.len() > usize::from(u8::MAX) || keys.iter().any(|(other, _)| *other != text) {
            return None;
        }
        self.steps.list.pop();
        Some((text, keys.into_iter().map(|(_, key)| key).collect()))
    }

    /// The text of a block that appends a short constant or nothing.
    fn short(&self, block: &[Op]) -> Option<&'a [u8]> {
        let text = match block {
            [] => &[],
            [Op::Fragment(fragment)] => &*self.fragments[*fragment as usize],
            _ => return None,
        };
        (text.len() <= HALF).then_some(text)
    }
}
