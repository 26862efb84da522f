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
        } => items.sort_by(|(_, left), (_, right)| {
            let ordering = order(*left, *right, ignores_case);
            if descending {
                ordering.reverse()
            } else {
                ordering
            }
        }),
        KeyUse::Unique => {
            let mut seen = HashSet::new();
            items.retain(|(_, key)| seen.insert(bytes_of(*key)));
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
