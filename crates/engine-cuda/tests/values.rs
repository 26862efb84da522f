//! The kernels' functions on single values give what the reference's give, over many values, under three orders of the lanes.
#![allow(unsafe_code)]

use rhythm_engine::cohort::LaneError;
use rhythm_engine::device::conformance::Dice;
use rhythm_engine::device::functions::{self, Made};
use rhythm_engine::page::program::{Arithmetic, Comparison, Escape, TextFunction};
use rhythm_engine_cuda::case::CaseTables;
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder, run};
use rhythm_engine_cuda::gpu::{Grid, PinnedBuffer, SharedGpu};

const ORDERS: [LaneOrder; 3] = [
    LaneOrder::Ascending,
    LaneOrder::Descending,
    LaneOrder::Shuffled(3),
];

/// `ARITHMETIC_HOST` of `kernels/decimal.cuh`.
const HOST: u32 = 255;

/// The functions of `emulation/tests/values.cu`, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Texts,
    Compare,
    Contains,
    StartsWith,
    EndsWith,
    Characters,
    IsUtf8,
    Trim,
    First,
    Last,
    EscapeHtml,
    EscapePercent,
    EscapeHeader,
    UrlEncode,
    Replace,
    ReplacedLength,
    Upper,
    Lower,
    Title,
    Capitalize,
    Md5,
    PrintInt,
    PrintFloat,
    PrintBool,
    TextToInt,
    TextToFloat,
    FloatToInt,
    IntArithmetic,
    FloatArithmetic,
    IntsHold,
    FloatsHold,
    FloatNegate,
    FloatAbsolute,
}

/// What a function must give.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expected {
    /// This number (a float's bits).
    Value(u64),
    /// This text.
    Text(Vec<u8>),
    /// This error.
    Code(u32),
}

/// A call of a function.
struct Item {
    function: Function,
    operation: u32,
    texts: [Vec<u8>; 3],
    numbers: [u64; 2],
    expected: Expected,
    /// Whether it may be left to the host.
    host_may: bool,
}

/// Calls that are launched together.
#[derive(Default)]
struct Batch {
    items: Vec<Item>,
}

fn outcome(result: Result<u64, LaneError>) -> Expected {
    match result {
        Ok(value) => Expected::Value(value),
        Err(error) => Expected::Code(error as u32),
    }
}

impl Batch {
    fn add(
        &mut self,
        function: Function,
        texts: &[&[u8]],
        numbers: [u64; 2],
        operation: u32,
        expected: Expected,
    ) {
        let mut owned: [Vec<u8>; 3] = Default::default();
        for (owned, text) in owned.iter_mut().zip(texts) {
            owned.extend_from_slice(text);
        }
        self.items.push(Item {
            function,
            operation,
            texts: owned,
            numbers,
            expected,
            host_may: false,
        });
    }

    /// A function that writes; the text is written after 0 to 7 other bytes.
    fn add_writing(
        &mut self,
        function: Function,
        texts: &[&[u8]],
        numbers: [u64; 2],
        expected: Vec<u8>,
    ) {
        let before = self.items.len() % 8;
        let mut whole = vec![b'.'; before];
        whole.extend(expected);
        self.add(
            function,
            texts,
            numbers,
            before as u32,
            Expected::Text(whole),
        );
    }

    fn add_value(&mut self, function: Function, texts: &[&[u8]], expected: u64) {
        self.add(function, texts, [0; 2], 0, Expected::Value(expected));
    }

    /// A text function of the page language.
    fn add_text_function(&mut self, function: TextFunction, text: &str) {
        let device = match function {
            TextFunction::Upper => Function::Upper,
            TextFunction::Lower => Function::Lower,
            TextFunction::Title => Function::Title,
            TextFunction::Capitalize => Function::Capitalize,
            TextFunction::Trim => Function::Trim,
            TextFunction::First => Function::First,
            TextFunction::Last => Function::Last,
            TextFunction::UrlEncode => Function::UrlEncode,
            TextFunction::Md5 => Function::Md5,
            TextFunction::Escape(Escape::Html) => Function::EscapeHtml,
            TextFunction::Escape(Escape::Percent) => Function::EscapePercent,
            TextFunction::Escape(Escape::Header) => Function::EscapeHeader,
            TextFunction::Escape(Escape::None) => Function::Texts,
        };
        let mut made = Vec::new();
        match functions::text(function, text, &mut made) {
            Made::New => self.add_writing(device, &[text.as_bytes()], [0; 2], made),
            Made::Part(range) => {
                let value = range.start as u64 | (range.len() as u64) << 32;
                self.add_value(device, &[text.as_bytes()], value);
            }
        }
    }

    /// Everything on one or two texts.
    fn add_texts(&mut self, text: &str, other: &str, new: &str) {
        const FUNCTIONS: [TextFunction; 12] = [
            TextFunction::Upper,
            TextFunction::Lower,
            TextFunction::Title,
            TextFunction::Capitalize,
            TextFunction::Trim,
            TextFunction::First,
            TextFunction::Last,
            TextFunction::UrlEncode,
            TextFunction::Md5,
            TextFunction::Escape(Escape::Html),
            TextFunction::Escape(Escape::Percent),
            TextFunction::Escape(Escape::Header),
        ];
        for function in FUNCTIONS {
            self.add_text_function(function, text);
        }
        self.add_value(
            Function::Characters,
            &[text.as_bytes()],
            text.chars().count() as u64,
        );
        self.add_pair(text, other);
        self.add_replace(text, other, new);
        let joined = [text, "|", other, new].concat().into_bytes();
        self.add_writing(
            Function::Texts,
            &[text.as_bytes(), other.as_bytes(), new.as_bytes()],
            [0; 2],
            joined,
        );
    }

    /// The tests on two texts.
    fn add_pair(&mut self, a: &str, b: &str) {
        let texts = [a.as_bytes(), b.as_bytes()];
        let order = a.as_bytes().cmp(b.as_bytes()) as i32 + 1;
        self.add_value(Function::Compare, &texts, order as u64);
        self.add_value(Function::Contains, &texts, u64::from(a.contains(b)));
        self.add_value(Function::StartsWith, &texts, u64::from(a.starts_with(b)));
        self.add_value(Function::EndsWith, &texts, u64::from(a.ends_with(b)));
    }

    fn add_replace(&mut self, text: &str, old: &str, new: &str) {
        let texts = [text.as_bytes(), old.as_bytes(), new.as_bytes()];
        let length = functions::replaced_length(text, old, new);
        self.add_value(Function::ReplacedLength, &texts, length as u64);
        self.add_writing(
            Function::Replace,
            &texts,
            [0; 2],
            text.replace(old, new).into_bytes(),
        );
    }

    fn add_utf8(&mut self, bytes: &[u8]) {
        let valid = std::str::from_utf8(bytes).is_ok();
        self.add_value(Function::IsUtf8, &[bytes], u64::from(valid));
    }

    /// Both conversions of a text that may be a number.
    fn add_number_text(&mut self, text: &str) {
        let digits = text
            .split(['e', 'E'])
            .next()
            .unwrap_or_default()
            .bytes()
            .filter(u8::is_ascii_digit)
            .count();
        let float = functions::text_to_float(text).map(f64::to_bits);
        let int = functions::text_to_int(text).map(|value| value as u64);
        for (function, result) in [(Function::TextToFloat, float), (Function::TextToInt, int)] {
            self.add(function, &[text.as_bytes()], [0; 2], 0, outcome(result));
            // Only where digits must be left out.
            if let Some(item) = self.items.last_mut() {
                item.host_may = digits > 19 && float.is_ok();
            }
        }
    }

    fn add_float(&mut self, value: f64) {
        let mut printed = Vec::new();
        functions::print_float(value, &mut printed);
        let bits = [value.to_bits(), 0];
        self.add_writing(Function::PrintFloat, &[], bits, printed);
        let int = functions::float_to_int(value).map(|int| int as u64);
        self.add(Function::FloatToInt, &[], bits, 0, outcome(int));
        let negative = value.to_bits() ^ 1 << 63;
        self.add(
            Function::FloatNegate,
            &[],
            bits,
            0,
            Expected::Value(negative),
        );
        let absolute = Expected::Value(value.abs().to_bits());
        self.add(Function::FloatAbsolute, &[], bits, 0, absolute);
    }

    fn add_ints(&mut self, a: i64, b: i64) {
        let numbers = [a as u64, b as u64];
        for (operation, operator) in ARITHMETIC.into_iter().enumerate() {
            let expected = outcome(functions::int(operator, a, b).map(|value| value as u64));
            self.add(
                Function::IntArithmetic,
                &[],
                numbers,
                operation as u32,
                expected,
            );
        }
        for (operation, comparison) in COMPARISONS.into_iter().enumerate() {
            let holds = Expected::Value(u64::from(functions::holds(comparison, a.cmp(&b))));
            self.add(Function::IntsHold, &[], numbers, operation as u32, holds);
        }
    }

    fn add_floats(&mut self, a: f64, b: f64) {
        let numbers = [a.to_bits(), b.to_bits()];
        for (operation, operator) in ARITHMETIC.into_iter().enumerate() {
            let expected = match functions::float(operator, a, b) {
                Err(error) => Expected::Code(error as u32),
                Ok(value) if operator == Arithmetic::Power || value.is_nan() => {
                    Expected::Code(HOST)
                }
                Ok(value) => Expected::Value(value.to_bits()),
            };
            self.add(
                Function::FloatArithmetic,
                &[],
                numbers,
                operation as u32,
                expected,
            );
        }
        for (operation, comparison) in COMPARISONS.into_iter().enumerate() {
            let holds = Expected::Value(u64::from(functions::floats_hold(comparison, a, b)));
            self.add(Function::FloatsHold, &[], numbers, operation as u32, holds);
        }
    }

    /// Launches them under each order and compares. Gives how many the host would have to compute.
    fn check(&self) -> usize {
        assert!(!self.items.is_empty());
        let tables = CaseTables::bytes();
        // Bounded memory, and a last warp that is not full.
        self.items
            .chunks(30_001)
            .map(|items| {
                ORDERS
                    .into_iter()
                    .map(|order| check_items(items, &tables, order))
                    .max()
                    .unwrap_or(0)
            })
            .sum()
    }
}

const ARITHMETIC: [Arithmetic; 7] = [
    Arithmetic::Add,
    Arithmetic::Subtract,
    Arithmetic::Multiply,
    Arithmetic::Divide,
    Arithmetic::FloorDivide,
    Arithmetic::Remainder,
    Arithmetic::Power,
];

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

fn upload(gpu: &SharedGpu, bytes: &[u8]) -> PinnedBuffer {
    let mut buffer = PinnedBuffer::new(gpu, bytes.len().max(16)).unwrap();
    // SAFETY: no work is under way.
    let to = unsafe { buffer.bytes_mut() };
    to[..bytes.len()].copy_from_slice(bytes);
    buffer
}

/// What no function writes: stands between the lanes' regions.
const GUARD: u8 = 0xee;

fn check_items(items: &[Item], tables: &[u8], order: LaneOrder) -> usize {
    let gpu = Emulated::new(order);
    let (mut texts, mut records, mut regions) = (Vec::new(), Vec::new(), Vec::new());
    let mut out_length = 0;
    for item in items {
        let mut words = vec![item.function as u32, item.operation];
        words.extend(item.texts.iter().scan(&mut texts, |texts, text| {
            let at = texts.len() as u32;
            texts.extend_from_slice(text);
            Some(at)
        }));
        words.extend(item.texts.iter().map(|text| text.len() as u32));
        let capacity = match &item.expected {
            Expected::Text(text) => text.len().next_multiple_of(8),
            _ => 0,
        };
        words.extend([out_length as u32, capacity as u32]);
        regions.push(out_length..out_length + capacity);
        out_length += capacity + 8;
        records.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        records.extend(item.numbers.iter().flat_map(|number| number.to_le_bytes()));
    }
    let texts = upload(&gpu, &texts);
    let records = upload(&gpu, &records);
    let tables = upload(&gpu, tables);
    let out = upload(&gpu, &vec![GUARD; out_length]);
    let answers = PinnedBuffer::new(&gpu, 16 * items.len()).unwrap();
    let mut arguments = Vec::new();
    for buffer in [&texts, &records, &out, &answers, &tables] {
        arguments.extend(buffer.address().0.to_le_bytes());
    }
    arguments.extend((items.len() as u64).to_le_bytes());
    // SAFETY: the buffers are alive, and laid out as `values.cu` says.
    unsafe { run("values", Grid::over(items.len(), 128), &arguments, order).unwrap() };
    // SAFETY: no work is under way.
    let (out, answers) = unsafe { (out.bytes(), answers.bytes()) };
    let mut of_host = 0;
    for ((item, region), answer) in items.iter().zip(regions).zip(answers.chunks_exact(16)) {
        let value = u64::from_le_bytes(answer[..8].try_into().unwrap());
        let length = u32::from_le_bytes(answer[8..12].try_into().unwrap()) as usize;
        let code = u32::from_le_bytes(answer[12..].try_into().unwrap());
        let end = region.end;
        if item.host_may && code == HOST {
            of_host += 1;
            continue;
        }
        let right = match &item.expected {
            Expected::Value(expected) => code == 0 && value == *expected,
            Expected::Code(expected) => code == *expected,
            Expected::Text(expected) => {
                code == 0
                    && length == expected.len()
                    && out[region.clone()].starts_with(expected)
                    && out[region.clone()][length..].iter().all(|byte| *byte == 0)
            }
        };
        assert!(
            right,
            "{order:?} {:?} {} of {:?} {:x?}: {:?} expected, {value:#x}, length {length}, code {code}, {:?} given",
            item.function,
            item.operation,
            item.texts
                .each_ref()
                .map(|text| String::from_utf8_lossy(text)),
            item.numbers,
            item.expected,
            String::from_utf8_lossy(&out[region]),
        );
        assert!(
            out[end..end + 8].iter().all(|byte| *byte == GUARD),
            "{:?} writes beyond its region",
            item.function
        );
    }
    of_host
}

/// A text of characters of all kinds: white space, what is escaped, what changes its length with its case, what decides on sigmas.
fn odd_text(dice: &mut Dice, pieces: usize) -> String {
    const ODD: &str = "aZ09 \t\u{b}<>&\"'/-._~([{:^`Σσς.ßŒİıŉǰΐﬀﬃᾳῼάʼ\u{301}\u{345}\u{a0}\u{1680}\u{2003}\u{2028}\u{3000}日𝒳𐐨𞤢🦀\u{7f}\0";
    let odd: Vec<char> = ODD.chars().collect();
    let mut text = String::new();
    for _ in 0..dice.below(pieces + 1) {
        match dice.below(4) {
            0 => text += &dice.text(false),
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
        ] {
            let mut expected = Vec::new();
            functions::escape(how, &bytes, &mut expected);
            batch.add_writing(function, &[&bytes], [0; 2], expected);
        }
    }
    batch.check();
}

/// Integers of all sizes, mostly at edges.
fn odd_int(dice: &mut Dice) -> i64 {
    let small = dice.below(7) as i64 - 3;
    match dice.below(6) {
        0 => small,
        1 => (1i64 << dice.below(63)).wrapping_add(small),
        2 => (1i64 << dice.below(63)).wrapping_neg().wrapping_add(small),
        3 => i64::MAX.wrapping_add(small),
        4 => 10i64.pow(dice.below(19) as u32) + small,
        _ => dice.roll() as i64 >> dice.below(64),
    }
}

#[test]
fn integers_are_as_the_reference_has_them() {
    let mut dice = Dice::new(5);
    let mut batch = Batch::default();
    let edges = [
        0,
        1,
        -1,
        2,
        -2,
        3,
        10,
        62,
        63,
        64,
        i64::from(u32::MAX),
        i64::from(u32::MAX) + 1,
        3_037_000_499,
        -3_037_000_500,
        i64::MAX - 1,
        i64::MAX,
        i64::MIN,
        i64::MIN + 1,
    ];
    for a in edges {
        for b in edges {
            batch.add_ints(a, b);
        }
    }
    for _ in 0..2_500 {
        batch.add_ints(odd_int(&mut dice), odd_int(&mut dice));
        batch.add_ints(odd_int(&mut dice) % 20, odd_int(&mut dice) % 70);
    }
    for round in 0..20_000 {
        let value = match round {
            0..1_000 => round - 500,
            _ => odd_int(&mut dice),
        };
        let mut printed = Vec::new();
        functions::print_int(value, &mut printed);
        batch.add_number_text(std::str::from_utf8(&printed).unwrap());
        batch.add_writing(Function::PrintInt, &[], [value as u64, 0], printed);
    }
    for value in [false, true] {
        let expected = functions::print_bool(value).to_vec();
        batch.add_writing(Function::PrintBool, &[], [u64::from(value), 0], expected);
    }
    assert_eq!(batch.check(), 0);
}

/// Floats of all exponents, mostly at edges.
fn odd_float(dice: &mut Dice) -> f64 {
    let small = dice.below(5) as u64;
    let sign = u64::from(dice.once_in(4)) << 63;
    let magnitude = match dice.below(9) {
        // Any bits, NaN among them.
        0 => return f64::from_bits(dice.roll()),
        // Near a power of two.
        1 => f64::from_bits((((dice.below(2046) as u64 + 1) << 52) + small) - 2),
        // Subnormal.
        2 => f64::from_bits(dice.roll() >> (12 + dice.below(52))),
        // Prices.
        3 => dice.below(100_000_000) as f64 / 100.0,
        // Near a power of ten.
        4 => {
            let power: f64 = format!("1e{}", dice.below(632) as i32 - 323)
                .parse()
                .unwrap();
            f64::from_bits((power.to_bits() + small).saturating_sub(2))
        }
        // Near whole numbers of 53 and 63 bits.
        5 => 2f64.powi(53) + 2.0 * small as f64 - 4.0,
        6 => f64::from_bits(2f64.powi(63).to_bits() + small - 2),
        // With two to five binary places: some lie in the middle between their shortest decimals.
        7 => (dice.roll() >> 11) as f64 / f64::from(1 << (2 + dice.below(4))),
        _ => dice.below(1000) as f64 * 10f64.powi(dice.below(40) as i32 - 20),
    };
    f64::from_bits(magnitude.to_bits() | sign)
}

#[test]
fn floats_are_as_the_reference_has_them() {
    let mut dice = Dice::new(6);
    let mut batch = Batch::default();
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.1,
        0.5,
        2.5,
        -7.0,
        3.0,
        1e15,
        1e16,
        1e21,
        1e-7,
        5e-324,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::EPSILON,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
        9_007_199_254_740_992.0,
        9_007_199_254_740_994.0,
        9_223_372_036_854_775_808.0,
        -9_223_372_036_854_775_808.0,
        9_223_372_036_854_774_784.0,
        // In the middle between their shortest decimals.
        1_125_899_906_842_624.0 + 0.25,
        1_125_899_906_842_624.0 + 0.75,
        562_949_953_421_312.0 + 0.125,
        9.5e-7,
        123_456_789_012_345.68,
    ];
    for a in edges {
        batch.add_float(a);
        for b in edges {
            batch.add_floats(a, b);
        }
    }
    for exponent in 0..2047u64 {
        for fraction in [0, 1, dice.roll() >> 12, (1 << 52) - 1] {
            batch.add_float(f64::from_bits(exponent << 52 | fraction));
        }
    }
    for _ in 0..15_000 {
        batch.add_float(odd_float(&mut dice));
    }
    for _ in 0..3_000 {
        let a = odd_float(&mut dice);
        let near = a * (1.0 + dice.below(9) as f64);
        batch.add_floats(a, odd_float(&mut dice));
        batch.add_floats(near, a);
    }
    batch.check();
}

#[test]
fn texts_are_read_as_numbers_as_in_rust() {
    let mut dice = Dice::new(7);
    let mut batch = Batch::default();
    for text in [
        "",
        "+",
        "-",
        ".",
        "+.",
        "e",
        "e5",
        ".e5",
        "1e",
        "1e+",
        "1e-",
        "1.",
        ".5",
        "-.5",
        "+1.5e+3",
        "1E5",
        "1.5e-3x",
        " 1",
        "1 ",
        "1_0",
        "0x10",
        "inf",
        "INF",
        "+Inf",
        "-inf",
        "infinity",
        "-InFiNiTy",
        "infinit",
        "infinityx",
        "nan",
        "NaN",
        "-nan",
        "nanx",
        "na",
        "00",
        "-0",
        "0e0",
        "0.0e99999999999",
        "1e400",
        "-1e400",
        "1e-400",
        "1e308",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "17976931348623158079e289",
        "4.9e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "2.5e-324",
        "2.2250738585072011e-308",
        "2.2250738585072012e-308",
        "9007199254740993",
        "9007199254740992.5",
        "9007199254740993.0",
        "0.1",
        "1e22",
        "1e23",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "99999999999999999999999",
        "+000000000000000000000000000000012",
        "1e18",
        "1e19",
        "-1e3",
        "2.9",
        "-2.9",
        "1e9999999999999999999",
        "1e-9999999999999999999",
        "0.00000000000000000000000000000000000001e38",
        "é",
        "1é",
        "1..2",
        "1e5.0",
        "--1",
        "+-1",
        "1e5e5",
        "12345678901234567890",
        "1234567890123456789012e-3",
    ] {
        batch.add_number_text(text);
    }
    // Exponents that saturate, and digits that outweigh them.
    for zeros in [300, 400, 70_000] {
        let zeros = "0".repeat(zeros);
        for text in [
            format!("1{zeros}e-{}", zeros.len()),
            format!("0.{zeros}1e{}", zeros.len() + 1),
            format!("{zeros}12.5{zeros}"),
            format!("1{zeros}"),
            format!("1.{zeros}1"),
        ] {
            batch.add_number_text(&text);
        }
    }
    for _ in 0..8_000 {
        let value = odd_float(&mut dice);
        batch.add_number_text(&format!("{value}"));
        batch.add_number_text(&format!("{value:e}"));
        batch.add_number_text(&format!("{value:.16e}"));
        // Up to 19 digits with any exponent.
        let digits = dice.roll() % 10u64.pow(1 + dice.below(19) as u32);
        let text = format!("{digits}e{}", dice.below(700) as i32 - 360);
        batch.add_number_text(&text);
        let point = dice.below(text.len() - 1);
        batch.add_number_text(&format!("{}.{}", &text[..point], &text[point..]));
    }
    assert!(batch.check() <= 20, "few are left to the host");
}

#[test]
fn long_texts_between_two_floats_are_read_or_left_to_the_host() {
    let mut dice = Dice::new(8);
    let mut batch = Batch::default();
    for _ in 0..1_000 {
        let low = f64::from_bits(
            odd_float(&mut dice)
                .abs()
                .to_bits()
                .min(f64::MAX.to_bits() - 1),
        );
        let high = f64::from_bits(low.to_bits() + 1);
        // Both halves are exact, but for the least ones.
        let middle = format!("{:.1080}", low / 2.0 + high / 2.0);
        batch.add_number_text(&middle);
        batch.add_number_text(&format!("{middle}1"));
        batch.add_number_text(&format!("{low:.60}"));
        batch.add_number_text(&format!("{low:.25e}"));
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
            let out = upload(&gpu, &[GUARD; 128]);
            let answers = PinnedBuffer::new(&gpu, 16).unwrap();
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
            // SAFETY: no work is under way.
            let (out, answers) = unsafe { (out.bytes(), answers.bytes()) };
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
