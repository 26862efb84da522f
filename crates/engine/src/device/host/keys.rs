//! Keys: short texts of which a text may be one, compared as words.

use crate::cohort::View;
use std::hint;

/// A text of 1 to 8 bytes as a [`Key`] has it.
pub(super) fn word(text: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[8 - text.len()..].copy_from_slice(text);
    u64::from_le_bytes(bytes)
}

/// A constant of 1 to 8 bytes that a text may be, as its bytes in a word.
pub(super) struct Key {
    pub(super) length: u32,
    pub(super) word: u64,
}

/// A text of 1 to 8 bytes as a [`Key`] has it.
#[inline(always)]
pub(super) fn high_word(texts: &[u8], view: View) -> u64 {
    let text = &texts[view.offset as usize..];
    match text.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes) << (64 - 8 * view.length),
        None => word(&text[..view.length as usize]),
    }
}

/// Which key a text is, or how many keys there are where it is none.
#[inline(always)]
pub(super) fn matching(texts: &[u8], view: View, keys: &[Key]) -> usize {
    let word = match view.length {
        1..=8 => high_word(texts, view),
        // No key has this length.
        _ => 0,
    };
    let mut found = keys.len();
    for (at, key) in keys.iter().enumerate().rev() {
        let is_it = (key.length == view.length) & (key.word == word);
        found = hint::select_unpredictable(is_it, at, found);
    }
    found
}
