//! Functions on texts.

use crate::batch::{Batch, Function, GUARD, ORDERS, upload};
use rhythm_engine::device::conformance::Dice;
use rhythm_engine::device::functions;
use rhythm_engine::program::{Escape, TextFunction};
use rhythm_engine_cuda::gpu::emulated::{Emulated, run};
use rhythm_engine_cuda::gpu::{Grid, PinnedBuffer};

/// A text of characters of all kinds: white space, what is escaped, what changes its length with
/// its case, what decides on sigmas.
fn odd_text(dice: &mut Dice, pieces: usize) -> String {
    const ODD: &str = "aZ09 \t\u{b}<>&\"'/-._~([{:^`\
        Σσς.ßŒİıŉǰΐﬀﬃᾳῼάʼ\u{301}\u{345}\u{a0}\u{1680}\u{2003}\u{2028}\u{3000}日𝒳𐐨𞤢🦀\u{7f}\0";
    let odd: Vec<char> = ODD.chars().collect();
    let mut text = String::new();
    for _ in 0..dice.below(pieces + 1) {
        match dice.below(4) {
            0 => text += &dice.text(),
            1 => text.extend(
                char::from_u32(dice.below(0x3000) as u32)
                    .into_iter()
                    .cycle()
                    .take(2),
            ),
            _ => text.push(*dice.pick(&odd)),
        }
    }
    text
}

#[test]
fn texts_are_as_the_reference_has_them() {
    let mut dice = Dice::new(1);
    let mut batch = Batch::default();
    for (text, old, new) in [
        ("", "", ""),
        ("", "", "x"),
        ("", "x", "y"),
        ("aéß日🦀", "", "-"),
        ("aaaa", "aa", "b"),
        ("aaaaa", "aa", ""),
        ("ababab", "abab", "c"),
        ("\u{85}\u{a0} x \u{3000}", "x", "日本"),
        ("ΑΣ", "Σ", "ς"),
        ("Σ", "Σ", "Σ"),
        ("ΑΣ. Α.Σ Σ.Α ΑΣ'Α", ".", ""),
        ("ﬃx ŉ-ǰ(ΐ)", "x", "ﬃ"),
        (
            "<a href=\"x/y\">it's &</a>",
            "</",
            "0123456789012345678901234567890123456789",
        ),
    ] {
        batch.add_texts(text, old, new);
    }
    for length in 0..140 {
        let text: String = (0..length)
            .map(|i| char::from(b'a' + (i % 23) as u8))
            .collect();
        batch.add_texts(&text, &text[..length / 2], &text[length / 3..]);
        batch.add_pair(&text, &(text.clone() + "\0"));
    }
    for round in 0..2_500 {
        let text = odd_text(&mut dice, if round % 50 == 0 { 300 } else { 12 });
        let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        ends.push(text.len());
        let from = dice.below(ends.len());
        let to = from + dice.below((ends.len() - from).min(4));
        let old = &text[ends[from]..ends[to]];
        let new = odd_text(&mut dice, 3);
        batch.add_texts(&text, old, &new);
        // Nearly equal texts.
        let mut other: Vec<char> = text.chars().collect();
        if !other.is_empty() {
            let at = dice.below(other.len());
            other[at] = char::from_u32(other[at] as u32 ^ 1).unwrap_or('x');
        }
        batch.add_pair(&text, &other.into_iter().collect::<String>());
    }
    batch.check();
}

#[test]
fn texts_are_found_whatever_their_periods() {
    let mut dice = Dice::new(2);
    let mut batch = Batch::default();
    let of_few = |dice: &mut Dice, letters: &[&str], length: usize| -> String {
        (0..length).map(|_| *dice.pick(letters)).collect()
    };
    for _ in 0..12_000 {
        let letters: &[&str] =
            dice.pick::<&[&str]>(&[&["a", "b"], &["a", "a", "a", "b"], &["é", "è", "a"]]);
        let length = dice.below(14);
        let mut needle = of_few(&mut dice, letters, length);
        // A needle of several periods, or with a border.
        match dice.below(4) {
            0 => needle = needle.repeat(3),
            1 => needle = needle.repeat(2) + letters[0],
            _ => {}
        }
        let length = dice.below(60);
        let text = of_few(&mut dice, letters, length);
        let planted = match dice.below(3) {
            0 => text,
            1 => [&*text, &*needle, &*needle, &*text].concat(),
            _ => [&*needle, &*text, &*needle].concat(),
        };
        batch.add_pair(&planted, &needle);
        batch.add_replace(&planted, &needle, "-");
    }
    batch.check();
}

#[test]
fn every_character_changes_case_as_in_rust() {
    let all: Vec<char> = ('\0'..=char::MAX).collect();
    let mut batch = Batch::default();
    for chars in all.chunks(64) {
        let text: String = chars.iter().collect();
        batch.add_text_function(TextFunction::Upper, &text);
        // Each at a word's start and within one.
        let words: String = chars.iter().flat_map(|c| ['-', *c, *c]).collect();
        batch.add_text_function(TextFunction::Title, &words);
        // Each before, between and after what decides on a sigma.
        let sigmas: String = chars.iter().flat_map(|c| [*c, 'Σ', '\n']).collect();
        batch.add_text_function(TextFunction::Lower, &sigmas);
        let sigmas: String = chars
            .iter()
            .flat_map(|c| ['a', *c, 'Σ', '\n', 'a', 'Σ', *c, 'a', '\n'])
            .collect();
        batch.add_text_function(TextFunction::Lower, &sigmas);
        batch.add_text_function(TextFunction::Trim, &text);
        batch.add_value(Function::Characters, &[text.as_bytes()], chars.len() as u64);
        batch.add_utf8(text.as_bytes());
    }
    for c in all {
        let cased = !c.to_uppercase().eq([c]) || !c.to_lowercase().eq([c]);
        if cased || c.is_whitespace() || (c as u32).is_multiple_of(101) {
            batch.add_text_function(TextFunction::Capitalize, &format!("{c}{c}Σ"));
            batch.add_text_function(TextFunction::Trim, &format!("{c} {c}x{c}"));
            batch.add_text_function(TextFunction::First, &format!("{c}{c}"));
            batch.add_text_function(TextFunction::Last, &format!("{c}{c}"));
        }
    }
    batch.check();
}

#[test]
fn what_is_utf8_is_known() {
    let mut dice = Dice::new(3);
    let mut batch = Batch::default();
    let edges = [
        0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1,
        0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xff,
    ];
    for first in 0..=255 {
        batch.add_utf8(&[first]);
        for second in 0..=255 {
            batch.add_utf8(&[first, second]);
        }
        for second in edges {
            for third in edges {
                batch.add_utf8(&[first, second, third]);
            }
        }
    }
    for first in 0xee..=0xf6 {
        for second in edges {
            for third in edges {
                for fourth in edges {
                    batch.add_utf8(&[first, second, third, fourth]);
                }
            }
        }
    }
    for _ in 0..5_000 {
        let mut bytes = odd_text(&mut dice, 20).into_bytes();
        batch.add_utf8(&bytes);
        if !bytes.is_empty() {
            let at = dice.below(bytes.len());
            match dice.below(3) {
                0 => bytes[at] = dice.roll() as u8,
                1 => bytes.truncate(at),
                _ => drop(bytes.remove(at)),
            }
        }
        batch.add_utf8(&bytes);
    }
    batch.check();
}

#[test]
fn escapes_take_any_bytes() {
    let mut dice = Dice::new(4);
    let mut batch = Batch::default();
    for round in 0..2_000 {
        let bytes: Vec<u8> = match round {
            0..256 => vec![round as u8; 9],
            _ => (0..dice.below(40)).map(|_| dice.roll() as u8).collect(),
        };
        for (function, how) in [
            (Function::EscapeHtml, Escape::Html),
            (Function::EscapePercent, Escape::Percent),
            (Function::EscapeHeader, Escape::Header),
            (Function::EscapeJson, Escape::Json),
        ] {
            let mut expected = Vec::new();
            functions::escape(how, &bytes, &mut expected);
            batch.add_writing(function, &[&bytes], [0; 2], expected);
        }
    }
    batch.check();
}

#[test]
fn a_writer_counts_on_past_its_room() {
    let text: Vec<u8> = (0..100).collect();
    for order in ORDERS {
        let gpu = Emulated::new(order);
        for room in [0u32, 8, 48, 96] {
            let texts = upload(&gpu, &text);
            let mut out = upload(&gpu, &[GUARD; 128]);
            let mut answers = PinnedBuffer::new(&gpu, 16).unwrap();
            let mut record = Vec::new();
            for word in [Function::Texts as u32, 3, 0, 0, 0, 100, 0, 0, 8, room] {
                record.extend(word.to_le_bytes());
            }
            record.resize(56, 0);
            let record = upload(&gpu, &record);
            let mut arguments = Vec::new();
            for buffer in [&texts, &record, &out, &answers, &texts] {
                arguments.extend(buffer.address().0.to_le_bytes());
            }
            arguments.extend(1u64.to_le_bytes());
            // SAFETY: the buffers are alive, and laid out as `values.cu` says.
            unsafe { run("values", Grid::over(1, 128), &arguments, order).unwrap() };
            let (out, answers) = (out.host(), answers.host());
            let before = if room == 0 { 0 } else { 3 };
            assert_eq!(answers[8..12], (before + 101u32).to_le_bytes());
            let mut whole = vec![b'.'; before as usize];
            whole.extend(&text);
            let room = room as usize;
            assert_eq!(out[8..8 + room], whole[..room]);
            assert!(
                out[..8]
                    .iter()
                    .chain(&out[8 + room..])
                    .all(|byte| *byte == GUARD)
            );
        }
    }
}
