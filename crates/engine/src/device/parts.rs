//! A text in parts, such as those between commas, for which no list is made: a second text says
//! where each part lies in the first, so that any is found at once.
//!
//! Of each part it has two numbers, where it begins and where it ends, in four characters of seven
//! bits each: whatever a cohort keeps as a text is UTF-8.

use crate::cohort::LaneError;
use crate::program::Cut;

/// How many characters say where a part lies.
pub(crate) const PLACE_LENGTH: usize = 2 * NUMBER_LENGTH;
const NUMBER_LENGTH: usize = 4;
const BITS: usize = 7;

/// Appends where the parts of a text lie, unless that takes more than `room`.
pub(super) fn places(
    cut: Cut,
    text: &str,
    separator: &str,
    most: i64,
    room: usize,
    to: &mut Vec<u8>,
) -> Result<(), LaneError> {
    if text.len() >> (BITS * NUMBER_LENGTH) > 0 {
        return Err(LaneError::TooMuchText);
    }
    let splits = usize::try_from(most).map_or(usize::MAX, |most| most.saturating_add(1));
    match cut {
        Cut::Separated => append(text, text.splitn(splits, separator), room, to),
        Cut::Words => append(text, text.split_whitespace(), room, to),
        Cut::Lines => append(text, text.lines(), room, to),
        Cut::Characters => {
            let characters = text.char_indices();
            let characters = characters.map(|(at, c)| &text[at..at + c.len_utf8()]);
            append(text, characters, room, to)
        }
    }
}

fn append<'t>(
    text: &str,
    parts: impl Iterator<Item = &'t str>,
    room: usize,
    to: &mut Vec<u8>,
) -> Result<(), LaneError> {
    let before = to.len();
    for part in parts {
        if to.len() - before + PLACE_LENGTH > room {
            return Err(LaneError::TooMuchText);
        }
        let start = part.as_ptr().addr() - text.as_ptr().addr();
        for number in [start, start + part.len()] {
            let digits = (0..NUMBER_LENGTH).rev();
            to.extend(digits.map(|digit| (number >> (BITS * digit)) as u8 & 0x7f));
        }
    }
    Ok(())
}

/// A part, by the places of all. Of the text nothing else is looked at: who goes through all parts
/// would look at all of it for each.
pub(super) fn part<'t>(text: &'t [u8], places: &[u8], at: i64) -> Result<&'t [u8], LaneError> {
    let (places, _) = places.as_chunks::<PLACE_LENGTH>();
    let place = usize::try_from(at).ok().and_then(|at| places.get(at));
    let place = place.ok_or(LaneError::OutOfRange)?;
    let number = |digits: &[u8]| {
        let digits = digits.iter().map(|digit| usize::from(*digit));
        digits.fold(0, |sum, digit| (sum << BITS) | digit)
    };
    let (start, end) = place.split_at(NUMBER_LENGTH);
    let part = text.get(number(start)..number(end));
    part.ok_or(LaneError::OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_each_part_where_it_lies() {
        let text = format!("{}, b,,ü\r\nlast", "a".repeat(20_000));
        for (cut, expected) in [
            (Cut::Separated, text.splitn(3, ",").collect::<Vec<_>>()),
            (Cut::Words, text.split_whitespace().collect()),
            (Cut::Lines, text.lines().collect()),
            (
                Cut::Characters,
                text.split("").filter(|c| !c.is_empty()).collect(),
            ),
        ] {
            let mut made = Vec::new();
            places(cut, &text, ",", 2, usize::MAX, &mut made).expect("there is room");
            assert_eq!(made.len(), expected.len() * PLACE_LENGTH);
            assert!(std::str::from_utf8(&made).is_ok());
            for (at, expected) in expected.iter().enumerate() {
                let part = part(text.as_bytes(), &made, at as i64);
                assert_eq!(part, Ok(expected.as_bytes()));
            }
            for beyond in [-1, expected.len() as i64] {
                let part = part(text.as_bytes(), &made, beyond);
                assert_eq!(part, Err(LaneError::OutOfRange));
            }
        }
        let full = places(
            Cut::Words,
            "a b",
            "",
            -1,
            2 * PLACE_LENGTH - 1,
            &mut Vec::new(),
        );
        assert_eq!(full, Err(LaneError::TooMuchText));
    }
}
