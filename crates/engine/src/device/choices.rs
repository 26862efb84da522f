//! Which positions a loop takes, and in which order: what its choices make of them.

use super::formatting::slice_of;
use crate::cohort::Argument;
use crate::program::KeyUse;
use std::cmp::Ordering;
use std::collections::HashSet;

/// Positions of a lane, with what each has.
pub(super) type Keyed<'a> = Vec<(i64, Argument<'a>)>;

/// Does with positions what their keys are for.
pub(super) fn by_key(by: KeyUse, items: &mut Keyed<'_>) {
    match by {
        KeyUse::Keep => items.retain(|(_, key)| *key == Argument::Bool(true)),
        KeyUse::Sort {
            descending,
            ignores_case,
        } => sort(items, descending, ignores_case),
        KeyUse::Unique => {
            let mut seen = HashSet::new();
            items.retain(|(_, key)| seen.insert(bytes_of(*key)));
        }
    }
}

/// Sorts by the keys; what is equal stays in its order. What is moved and compared are numbers that
/// are in the keys' order as far as they tell them apart.
fn sort(items: &mut Keyed<'_>, descending: bool, ignores_case: bool) {
    let number = |index: usize| {
        let number = rank(items[index].1, ignores_case);
        (if descending { !number } else { number }, index as u32)
    };
    let mut numbers: Vec<(u64, u32)> = (0..items.len()).map(number).collect();
    numbers.sort_unstable_by(|left, right| {
        left.0.cmp(&right.0).then_with(|| {
            let key = |of: &(u64, u32)| items[of.1 as usize].1;
            let ordering = order(key(left), key(right), ignores_case);
            let ordering = if descending {
                ordering.reverse()
            } else {
                ordering
            };
            ordering.then_with(|| left.1.cmp(&right.1))
        })
    });
    let sorted = numbers.iter().map(|(_, index)| items[*index as usize]);
    *items = sorted.collect();
}

/// A number that is less than another value's, or equal, where the value is less.
fn rank(key: Argument<'_>, ignores_case: bool) -> u64 {
    const SIGN: u64 = 1 << 63;
    match key {
        Argument::Text(text) => {
            let mut first = [0; 8];
            let length = text.len().min(8);
            first[..length].copy_from_slice(&text[..length]);
            if ignores_case {
                first.make_ascii_lowercase();
            }
            u64::from_be_bytes(first)
        }
        Argument::Int(value) => value as u64 ^ SIGN,
        Argument::Bool(value) => value.into(),
        // There are two zeros; the bits of what is negative grow downwards.
        Argument::Float(value) => {
            let bits = (value + 0.0).to_bits();
            bits ^ if bits & SIGN == 0 { SIGN } else { u64::MAX }
        }
    }
}

/// Takes a part of the positions.
pub(super) fn slice<T>(items: &mut Vec<T>, start: i64, stop: i64, step: usize) {
    let (skipped, taken) = slice_of(start, stop, items.len());
    items.drain(..skipped.min(items.len()));
    items.truncate(taken);
    let mut index = 0..;
    items.retain(|_| {
        index
            .next()
            .is_none_or(|index: usize| index.is_multiple_of(step.max(1)))
    });
}

/// The order of two values of one type.
fn order(left: Argument<'_>, right: Argument<'_>, ignores_case: bool) -> Ordering {
    match (left, right) {
        (Argument::Text(left), Argument::Text(right)) if ignores_case => left
            .iter()
            .map(u8::to_ascii_lowercase)
            .cmp(right.iter().map(u8::to_ascii_lowercase)),
        (Argument::Text(left), Argument::Text(right)) => left.cmp(right),
        (Argument::Int(left), Argument::Int(right)) => left.cmp(&right),
        (Argument::Bool(left), Argument::Bool(right)) => left.cmp(&right),
        (Argument::Float(left), Argument::Float(right)) if left != right => left.total_cmp(&right),
        _ => Ordering::Equal,
    }
}

/// What is the same for equal values of one type alone.
fn bytes_of(key: Argument<'_>) -> std::borrow::Cow<'_, [u8]> {
    match key {
        Argument::Text(text) => text.into(),
        Argument::Int(value) => value.to_le_bytes().to_vec().into(),
        Argument::Bool(value) => vec![u8::from(value)].into(),
        // There are two zeros.
        Argument::Float(value) => (value + 0.0).to_bits().to_le_bytes().to_vec().into(),
    }
}
