//! The tables by which kernels change case, built from what Rust's `char` and `str` do, so that the
//! device follows the same version of Unicode as the reference. `kernels/case.cuh` reads them.

use crate::abi::case::{
    BLOCK, CLASS_SHIFT, COUNT_SHIFT, CaseHeader, CaseMapping, Class, HIGH_COUNT, HIGH_START,
    LOW_END,
};
use crate::plain::bytes_of;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

/// The characters the tables know; all others have no case and do not count as `Case_Ignorable`.
const RANGES: [Range<u32>; 2] = [0..LOW_END, HIGH_START..HIGH_START + HIGH_COUNT];

/// The mapping of characters that have no case.
const NOTHING: u16 = 0;

/// The tables that change the case of characters beyond ASCII, as kernels read them, to be copied
/// to the device once: about 86 KB. They take some ten milliseconds, and are built when they are
/// first asked for.
///
/// A header (offsets of entries and mappings), for each block of 64 characters the index of its
/// first entry, entries of two bytes that say which mapping a character has, and the mappings.
/// Equal blocks and equal mappings are stored once.
#[must_use]
pub fn tables() -> &'static [u8] {
    static TABLES: LazyLock<Vec<u8>> = LazyLock::new(build);
    &TABLES
}

fn build() -> Vec<u8> {
    let mut mappings = vec![CaseMapping::default()];
    let mut known_mappings = HashMap::new();
    let places: Vec<u16> = codes()
        .zip(classes())
        .map(|(code, class)| match char::from_u32(code) {
            None => NOTHING,
            Some(c) => match mapping(c, class) {
                stays if stays == CaseMapping::default() => NOTHING,
                mapping => *known_mappings.entry(mapping).or_insert_with(|| {
                    mappings.push(mapping);
                    mappings.len() as u16 - 1
                }),
            },
        })
        .collect();
    let mut blocks: Vec<u16> = Vec::new();
    let mut entries: Vec<u16> = Vec::new();
    let mut known_blocks = HashMap::new();
    for block in places.chunks(BLOCK) {
        let start = *known_blocks.entry(block).or_insert_with(|| {
            entries.extend_from_slice(block);
            (entries.len() - BLOCK) as u16
        });
        blocks.push(start);
    }
    let blocks_end = size_of::<CaseHeader>() + size_of_val(&*blocks);
    let entries_start = blocks_end.next_multiple_of(16);
    let mappings_start = (entries_start + size_of_val(&*entries)).next_multiple_of(16);
    let header = CaseHeader {
        entries: entries_start as u32,
        mappings: mappings_start as u32,
        unused: [0; 2],
    };
    let mut bytes = bytes_of(&[header]).to_vec();
    bytes.extend_from_slice(bytes_of(&blocks));
    bytes.resize(entries_start, 0);
    bytes.extend_from_slice(bytes_of(&entries));
    bytes.resize(mappings_start, 0);
    bytes.extend_from_slice(bytes_of(&mappings));
    bytes
}

/// All code points the tables know, surrogates included.
fn codes() -> impl Iterator<Item = u32> {
    RANGES.into_iter().flatten()
}

/// The class of each code point, found by what `str::to_lowercase` does to a sigma after it.
fn classes() -> Vec<Class> {
    let mut classes: Vec<Class> = codes().map(|_| Class::Other).collect();
    // A sigma ends its word after a cased letter, with nothing or something to be passed over
    // between them.
    let of_interest: Vec<(usize, char)> = codes()
        .enumerate()
        .filter_map(|(place, code)| Some((place, char::from_u32(code)?)))
        .collect();
    let of_interest = with_final_sigma("a", of_interest);
    for (place, _) in &of_interest {
        classes[*place] = Class::Ignorable;
    }
    for (place, _) in with_final_sigma("", of_interest) {
        classes[place] = Class::Cased;
    }
    classes
}

/// Those of the characters after which, with `before` before them, a sigma ends its word.
fn with_final_sigma(before: &str, characters: Vec<(usize, char)>) -> Vec<(usize, char)> {
    // All at once, line by line: a line feed is neither cased nor passed over, so lines do not see
    // each other.
    let characters = characters.into_iter().filter(|(_, c)| *c != '\n');
    let text: String = characters
        .clone()
        .flat_map(|(_, c)| before.chars().chain([c, 'Σ', '\n']))
        .collect();
    characters
        .zip(text.to_lowercase().lines())
        .filter(|(_, line)| line.ends_with('ς'))
        .map(|(character, _)| character)
        .collect()
}

fn mapping(c: char, class: Class) -> CaseMapping {
    CaseMapping {
        upper: word(c, c.to_uppercase()),
        lower: word(c, c.to_lowercase()) | (class as u64) << CLASS_SHIFT,
    }
}

/// What a character becomes: UTF-8 from the lowest byte on, at most three characters of two bytes,
/// and their number; 0 if it stays.
fn word(c: char, becomes: impl ExactSizeIterator<Item = char> + Clone) -> u64 {
    if becomes.len() == 1 && becomes.clone().next() == Some(c) {
        return 0;
    }
    let mut bytes = [0; 8];
    let mut length = 0;
    for c in becomes {
        length += c.encode_utf8(&mut bytes[length..]).len();
    }
    u64::from_le_bytes(bytes) | (length as u64) << COUNT_SHIFT
}
