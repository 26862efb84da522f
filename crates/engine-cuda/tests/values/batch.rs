//! Calls of functions, launched together and compared with what they must give.

use rhythm_engine::cohort::LaneError;
use rhythm_engine::device::functions::{self, Made};
use rhythm_engine::program::{Arithmetic, Comparison, Escape, TextFunction};
use rhythm_engine_cuda::case;
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder, run};
use rhythm_engine_cuda::gpu::{Grid, PinnedBuffer, SharedGpu};

pub(crate) const ORDERS: [LaneOrder; 3] = [
    LaneOrder::Ascending,
    LaneOrder::Descending,
    LaneOrder::Shuffled(3),
];

/// `ARITHMETIC_HOST` of `kernels/decimal.cuh`.
pub(crate) const HOST: u32 = 255;

/// The functions of `emulation/tests/values.cu`, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
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
    EscapeJson,
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
pub(crate) enum Expected {
    /// This number (a float's bits).
    Value(u64),
    /// This text.
    Text(Vec<u8>),
    /// This error.
    Code(u32),
}

/// A call of a function.
pub(crate) struct Item {
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
pub(crate) struct Batch {
    items: Vec<Item>,
}

fn outcome(result: Result<u64, LaneError>) -> Expected {
    match result {
        Ok(value) => Expected::Value(value),
        Err(error) => Expected::Code(error as u32),
    }
}

impl Batch {
    pub(crate) fn add(
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
    pub(crate) fn add_writing(
        &mut self,
        function: Function,
        texts: &[&[u8]],
        numbers: [u64; 2],
        expected: Vec<u8>,
    ) {
        // Not in step with the functions, which come in the same order again and again.
        let before = (self.items.len() + self.items.len() / 8) % 8;
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

    pub(crate) fn add_value(&mut self, function: Function, texts: &[&[u8]], expected: u64) {
        self.add(function, texts, [0; 2], 0, Expected::Value(expected));
    }

    /// A text function of the page language.
    pub(crate) fn add_text_function(&mut self, function: TextFunction, text: &str) {
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
            TextFunction::Escape(Escape::Json) => Function::EscapeJson,
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
    pub(crate) fn add_texts(&mut self, text: &str, other: &str, new: &str) {
        const FUNCTIONS: [TextFunction; 13] = [
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
            TextFunction::Escape(Escape::Json),
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
    pub(crate) fn add_pair(&mut self, a: &str, b: &str) {
        let texts = [a.as_bytes(), b.as_bytes()];
        let order = a.as_bytes().cmp(b.as_bytes()) as i32 + 1;
        self.add_value(Function::Compare, &texts, order as u64);
        self.add_value(Function::Contains, &texts, u64::from(a.contains(b)));
        self.add_value(Function::StartsWith, &texts, u64::from(a.starts_with(b)));
        self.add_value(Function::EndsWith, &texts, u64::from(a.ends_with(b)));
    }

    pub(crate) fn add_replace(&mut self, text: &str, old: &str, new: &str) {
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

    pub(crate) fn add_utf8(&mut self, bytes: &[u8]) {
        let valid = std::str::from_utf8(bytes).is_ok();
        self.add_value(Function::IsUtf8, &[bytes], u64::from(valid));
    }

    /// Both conversions of a text that may be a number.
    pub(crate) fn add_number_text(&mut self, text: &str) {
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

    pub(crate) fn add_float(&mut self, value: f64) {
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

    pub(crate) fn add_ints(&mut self, a: i64, b: i64) {
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
            let holds = Expected::Value(u64::from(comparison.holds(a.cmp(&b))));
            self.add(Function::IntsHold, &[], numbers, operation as u32, holds);
        }
    }

    pub(crate) fn add_floats(&mut self, a: f64, b: f64) {
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
    pub(crate) fn check(&self) -> usize {
        assert!(!self.items.is_empty());
        let tables = case::tables();
        // Bounded memory, and a last warp that is not full.
        self.items
            .chunks(30_001)
            .map(|items| {
                ORDERS
                    .into_iter()
                    .map(|order| check_items(items, tables, order))
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

pub(crate) fn upload(gpu: &SharedGpu, bytes: &[u8]) -> PinnedBuffer {
    let mut buffer = PinnedBuffer::new(gpu, bytes.len().max(16)).unwrap();
    buffer.host()[..bytes.len()].copy_from_slice(bytes);
    buffer
}

/// What no function writes: stands between the lanes' regions.
pub(crate) const GUARD: u8 = 0xee;

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
    let mut out = upload(&gpu, &vec![GUARD; out_length]);
    let mut answers = PinnedBuffer::new(&gpu, 16 * items.len()).unwrap();
    let mut arguments = Vec::new();
    for buffer in [&texts, &records, &out, &answers, &tables] {
        arguments.extend(buffer.address().0.to_le_bytes());
    }
    arguments.extend((items.len() as u64).to_le_bytes());
    // SAFETY: the buffers are alive, and laid out as `values.cu` says.
    unsafe { run("values", Grid::over(items.len(), 128), &arguments, order).unwrap() };
    let (out, answers) = (out.host(), answers.host());
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
            "{order:?} {:?} {} of {:?} {:x?}: {:?} expected, {value:#x}, length {length}, \
             code {code}, {:?} given",
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
