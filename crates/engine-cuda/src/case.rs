//! The tables by which kernels change case, built from what Rust's `char` and `str` do, so that the
//! device follows the same version of Unicode as the reference. `kernels/case.cuh` reads them.

use std::collections::HashMap;

/// Characters of a block: `CASE_BLOCK` in `kernels/case.cuh`.
const BLOCK: usize = 64;
/// The characters the tables know; all others have no case and do not count as `Case_Ignorable`.
const RANGES: [std::ops::Range<u32>; 2] = [0..0x2_0000, 0xe_0000..0xe_0200];
/// Where in a word the number of its bytes is.
const COUNT_SHIFT: u32 = 56;
/// Where in the word for lower case the class is.
const CLASS_SHIFT: u32 = 60;
/// Bytes before the blocks' indices.
const HEADER_BYTES: usize = 16;

/// The mapping of characters that have no case.
const NOTHING: u16 = 0;

/// The tables that change the case of characters beyond ASCII.
#[derive(Debug)]
pub struct CaseTables;

impl CaseTables {
    /// The tables as kernels read them, to be copied to the device once: about 86 KB, built in some
    /// ten milliseconds.
    ///
    /// A header (offsets of entries and mappings), for each block of 64 characters the index of its
    /// first entry, entries of two bytes that say which mapping a character has, and the mappings.
    /// Equal blocks and equal mappings are stored once.
    #[must_use]
    pub fn bytes() -> Vec<u8> {
        let classes = classes();
        let mut mappings = vec![[0; 2]];
        let mut known_mappings = HashMap::new();
        let places: Vec<u16> = codes()
            .zip(classes)
            .map(|(code, class)| match char::from_u32(code) {
                None => NOTHING,
                Some(c) => match mapping(c, class) {
                    [0, 0] => NOTHING,
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
        let entries_start = (HEADER_BYTES + 2 * blocks.len()).next_multiple_of(16);
        let mappings_start = (entries_start + 2 * entries.len()).next_multiple_of(16);
        let mut bytes = Vec::with_capacity(mappings_start + 16 * mappings.len());
        bytes.extend((entries_start as u32).to_le_bytes());
        bytes.extend((mappings_start as u32).to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend(blocks.iter().flat_map(|index| index.to_le_bytes()));
        bytes.resize(entries_start, 0);
        bytes.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
        bytes.resize(mappings_start, 0);
        bytes.extend(
            mappings
                .iter()
                .flatten()
                .flat_map(|word| word.to_le_bytes()),
        );
        bytes
    }
}

/// What a character is to the rule by which `str::to_lowercase` finds the sigmas that end a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Other = 0,
    /// Passed over: `Case_Ignorable`.
    Ignorable = 1,
    /// A cased letter that is not passed over.
    Cased = 2,
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

/// A character's two words.
fn mapping(c: char, class: Class) -> [u64; 2] {
    let upper = word(c, c.to_uppercase());
    let lower = word(c, c.to_lowercase());
    [upper, lower | (class as u64) << CLASS_SHIFT]
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
