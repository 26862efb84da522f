//! grep: the lines of a text that have a word.

use super::number::number;
use crate::load::Rng;
use memchr::{memchr, memchr_iter, memmem};

/// Bytes of the text, for each of 2^scale.
const UNIT: usize = 64;
/// How often it is searched, each time for another word.
const WORDS: [&str; 3] = ["venice", "lagoon", "island"];
/// A word of a line is one of these once in so many.
const RARE: u32 = 200;
const SEED: u64 = 118;

/// A text of lines of ten words.
pub(super) fn text(scale: u32) -> Vec<u8> {
    let mut rng = Rng::new(SEED);
    let bytes = UNIT << scale;
    let mut text = Vec::with_capacity(bytes);
    let mut words = 0;
    while text.len() + 16 < bytes {
        match rng.one_in(RARE) {
            true => text.extend(WORDS[rng.below(WORDS.len() as u32) as usize].bytes()),
            false => {
                let letters = 3 + rng.below(7);
                text.extend((0..letters).map(|_| b'a' + rng.below(26) as u8));
            }
        }
        words += 1;
        text.push(if words % 10 == 0 { b'\n' } else { b' ' });
    }
    text
}

/// A number of where the lines are; `full` is called while they are in memory.
pub(super) fn grep(text: &[u8], full: &mut dyn FnMut()) -> Result<u64, String> {
    let mut found = Vec::new();
    for word in WORDS {
        let lines = lines(text, word);
        if lines.is_empty() && text.len() > 1 << 20 {
            return Err(format!("no line has {word}"));
        }
        full();
        found.push((lines.len(), number(lines)));
    }
    // The lines of the text, too: what is between the words was not looked at so far.
    found.push((memchr_iter(b'\n', text).count(), 0));
    Ok(number(found))
}

/// Where the lines begin that have the word.
fn lines(text: &[u8], word: &str) -> Vec<usize> {
    let finder = memmem::Finder::new(word);
    let mut lines = Vec::new();
    let mut at = 0;
    while let Some(met) = finder.find(&text[at..]) {
        let met = at + met;
        lines.push(
            text[..met]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1),
        );
        at = memchr(b'\n', &text[met..]).map_or(text.len(), |end| met + end + 1);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_once() {
        assert_eq!(lines(b"x venice venice\ny\nvenice", "venice"), [0, 18]);
        assert_eq!(lines(b"x\ny\n", "venice"), [0; 0]);
        let text = text(12);
        assert!(text.len() <= 64 << 12 && !lines(&text, WORDS[1]).is_empty());
    }
}
