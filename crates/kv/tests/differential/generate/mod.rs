//! Commands as clients send them, and as they should not.

mod binary;

pub(crate) use binary::{noop, packet};

/// A simple generator of random numbers (splitmix64), the same for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// Numbers, near numbers, and the ends of what fits.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "10",
    "99",
    "1000",
    "-1",
    "+5",
    "-0",
    "007",
    "4294967295",
    "4294967296",
    "2147483647",
    "2147483648",
    "18446744073709551615",
    "18446744073709551616",
    "-18446744073709551615",
    "9223372036854775807",
    "9223372036854775808",
    "99999999999999999999999",
    "x",
    "1x",
    "1\t",
    "\t1",
    "0x10",
    "1.5",
    "noreply",
];
/// Expiries that do not come about during a test, nor have a digit less when a second has passed.
const FAR: &[&str] = &[
    "0",
    "0",
    "0",
    "1500",
    "2592000",
    "-1",
    "3000000000",
    "150",
    "x",
    "0x",
];
/// Expiries that come about.
const NEAR: &[&str] = &["0", "1", "2", "2", "3", "4", "-1"];
/// Some of them are meant in base64 as well. None has a minus: where a number is beyond 2^63,
/// memcached looks for one in all memory behind it up to a zero, and what lay there before may be
/// found.
const KEYS: &[&str] = &[
    "a",
    "b",
    "c",
    "d:e",
    "d:f",
    "abc",
    "number",
    "counter",
    "key_of_16_bytes.",
];
/// Bytes that a key may have.
const ODD: &str = "\u{1}\u{7f}ü";
/// The same keys, and others, in base64.
const ENCODED: &[&str] = &["YWJj", "YQ==", "/wA=", "!", "YQ="];

/// Behind the names of keys that hold numbers where commands come together: nothing but arithmetic
/// looks at these. memcached changes a number where it lies, which may leave blanks behind it, but
/// not while an answer with it is on its way.
const ONLY: &str = "_only";

pub(crate) struct Generator {
    pub(crate) random: Random,
    /// Some values are not as long as their lines say.
    pub(crate) has_wrong_lengths: bool,
    /// Some values do not end as they must.
    pub(crate) has_wrong_ends: bool,
    /// Numbers are changed that nothing else looks at.
    pub(crate) has_numbers_apart: bool,
    /// Keys may be too long.
    pub(crate) has_long_keys: bool,
    /// Expiries come about.
    pub(crate) is_near: bool,
}

impl Generator {
    pub(crate) fn new(random: Random) -> Generator {
        Generator {
            random,
            has_wrong_lengths: false,
            has_wrong_ends: true,
            has_numbers_apart: false,
            has_long_keys: true,
            is_near: false,
        }
    }

    /// Looks at all keys, and changes nothing that can be seen.
    pub(crate) fn look_at_all() -> Vec<u8> {
        let plain = KEYS.iter().map(|key| format!("me {key}\r\n"));
        let encoded = ENCODED.iter().map(|key| format!("me {key} b\r\n"));
        let long = format!("me {}\r\nme {ODD}\r\nme probe\r\n", "k".repeat(250));
        (plain.chain(encoded).collect::<String>() + &long).into_bytes()
    }

    fn exptime(&mut self) -> &'static str {
        match self.is_near {
            true => self.random.of(NEAR),
            false => self.random.of(FAR),
        }
    }

    /// A key for a number.
    fn number_key(&mut self) -> String {
        match self.has_numbers_apart {
            true => format!("{}{ONLY}", self.random.of(KEYS)),
            false => self.key(),
        }
    }

    fn key(&mut self) -> String {
        match self.random.below(40) {
            0 => "k".repeat(250),
            1 => ODD.to_owned(),
            _ => self.random.of(KEYS).to_owned(),
        }
    }

    fn number(&mut self) -> String {
        match self.random.one_in(2) {
            true => self.random.below(1000).to_string(),
            false => self.random.of(NUMBERS).to_owned(),
        }
    }

    /// A number to be stored. None has a minus, as no key has.
    fn stored(&mut self) -> String {
        self.number().replace('-', "")
    }

    /// A value; its bytes are no blank followed by what is masked.
    fn value(&mut self) -> Vec<u8> {
        match self.random.below(60) {
            0 => vec![b'v'; 3000],
            1 => vec![b'w'; 600_000],
            // The largest for keys of one byte, and beyond.
            2 => vec![b'x'; 1_048_576 - 60 + self.random.below(4)],
            3..=12 => self.stored().into_bytes(),
            13 => b"12 ".to_vec(),
            14 => b"12\0".to_vec(),
            15 => b"\r\n\r\nget a\r\n".to_vec(),
            _ => (0..self.random.below(40))
                .map(|at| b'A' + (at % 26) as u8)
                .collect(),
        }
    }

    fn noreply(&mut self) -> &'static str {
        if self.random.one_in(5) {
            " noreply"
        } else {
            ""
        }
    }

    /// One whole command of the ASCII protocol, right or nearly so; its length fits its value.
    pub(crate) fn ascii(&mut self) -> Vec<u8> {
        let key = self.key();
        let noreply = self.noreply();
        let exptime = self.exptime();
        match self.random.below(22) {
            0..=3 => {
                let verbs = ["set", "set", "add", "replace", "append", "prepend"];
                let verb = self.random.of(&verbs);
                let value = self.value();
                let (flags, exptime) = match value.len() {
                    // A long value whose line is wrong is a line too long to be one.
                    1000.. => ("0".to_owned(), "0"),
                    _ => (self.flags(), exptime),
                };
                let line = format!(
                    "{verb} {key} {flags} {exptime} {}{noreply}\r\n",
                    value.len()
                );
                self.with_value(line, value)
            }
            4 => {
                let value = self.value();
                let cas = self.random.below(300);
                let length = value.len();
                let exptime = if length < 1000 { exptime } else { "0" };
                let line = format!("cas {key} 7 {exptime} {length} {cas}{noreply}\r\n");
                self.with_value(line, value)
            }
            5..=7 => {
                let verb = self.random.of(&["get", "gets", "get", "bget"]);
                self.keys(verb, "")
            }
            8 => {
                let verb = self.random.of(&["gat", "gats"]);
                self.keys(verb, exptime)
            }
            9 | 10 => {
                let verb = self.random.of(&["incr", "decr"]);
                let (key, number) = (self.number_key(), self.number());
                format!("{verb} {key} {number}{noreply}\r\n").into_bytes()
            }
            11 => {
                let number = self.random.of(&["", "", " 0", " 1", " 0 noreply", " x y"]);
                format!("delete {key}{number}{noreply}\r\n").into_bytes()
            }
            12 => format!("touch {key} {exptime}{noreply}\r\n").into_bytes(),
            13..=18 => self.meta(&key),
            19 => self.other(),
            20 => {
                let (key, number) = (self.number_key(), self.stored());
                format!("set {key} 0 0 {}\r\n{number}\r\n", number.len()).into_bytes()
            }
            _ => format!("me {key}\r\n").into_bytes(),
        }
    }

    fn flags(&mut self) -> String {
        match self.random.one_in(4) {
            true => self.number(),
            false => "0".to_owned(),
        }
    }

    /// A line and its value, whose end is wrong at times.
    fn with_value(&mut self, line: String, mut value: Vec<u8>) -> Vec<u8> {
        let may_be_wrong = self.has_wrong_ends && value.len() < 1000;
        let end = if may_be_wrong && self.random.one_in(40) {
            b"xy"
        } else {
            b"\r\n"
        };
        value.extend_from_slice(end);
        [line.into_bytes(), value].concat()
    }

    fn keys(&mut self, verb: &str, exptime: &str) -> Vec<u8> {
        let mut line = verb.to_owned();
        if !exptime.is_empty() {
            line += &format!(" {exptime}");
        }
        let count = match self.random.below(10) {
            0 => 0,
            // Of other commands a line so long is the end, if it comes in pieces.
            1 if verb.starts_with("get") => 22 + self.random.below(60),
            2..=4 => 1 + self.random.below(4),
            _ => 1,
        };
        for _ in 0..count {
            let key = match self.has_long_keys && self.random.one_in(60) {
                true => "k".repeat(251),
                false => self.key(),
            };
            line += self.random.of(&[" ", " ", "  "]);
            line += &key;
        }
        line += self.random.of(&["\r\n", "\r\n", "\n", " \r\n"]);
        line.into_bytes()
    }

    fn meta(&mut self, key: &str) -> Vec<u8> {
        let verb = self
            .random
            .of(&["mg", "mg", "mg", "ms", "ms", "md", "ma", "me"]);
        let mut line = format!("{verb} ");
        let key = if verb == "ma" {
            self.number_key()
        } else {
            key.to_owned()
        };
        let is_apart = verb == "ma" && self.has_numbers_apart;
        let is_encoded = !is_apart && self.random.one_in(6);
        line += match is_encoded {
            true => self.random.of(ENCODED),
            false => &key,
        };
        let value = self.value();
        if verb == "ms" {
            line += &match self.has_wrong_lengths && value.len() < 1000 && self.random.one_in(40) {
                true => format!(" {}", self.number()),
                false => format!(" {}", value.len()),
            };
        }
        let number = self.number();
        let exptime = match self.is_near {
            true => self.random.of(NEAR),
            false => self.random.of(&["0", "160000", "-1", "2000000"]),
        };
        let recache = if self.is_near { "2" } else { "150000" };
        for _ in 0..self.random.below(7) {
            line += &match self.random.below(21) {
                0 | 1 => " v".to_owned(),
                2 => " k".to_owned(),
                3 => " c".to_owned(),
                // A flag that came to `ms` later.
                4 if verb != "ms" => " s".to_owned(),
                5 => " f".to_owned(),
                6 => " t".to_owned(),
                7 => " h".to_owned(),
                8 => " l".to_owned(),
                // Who makes a number and wants to hear little is told of it by 1.6.18.
                9 if verb != "ma" || !line.contains(" N") => " q".to_owned(),
                10 => match self.random.one_in(4) {
                    true => format!(" O{}", "o".repeat(29 + self.random.below(9))),
                    false => " Opaque".to_owned(),
                },
                // memcached gives the new expiry to the item before, where a number got longer.
                11 if verb != "ma" => format!(" T{exptime}"),
                12 if match verb {
                    "mg" => true,
                    "ma" => !line.contains(" q"),
                    "ms" => !line.contains(" MA") && !line.contains(" MP"),
                    _ => false,
                } =>
                {
                    format!(" N{exptime}")
                }
                13 => format!(" R{recache}"),
                14 => " I".to_owned(),
                15 => format!(" C{}", self.random.below(300)),
                16 => format!(" F{number}"),
                17 => {
                    let modes = ["E", "R", "S", "I", "+", "x", "", "SS", "A", "P"];
                    // With `N` these two came to `ms` later.
                    let later = if line.contains(" N") { 2 } else { 0 };
                    format!(" M{}", self.random.of(&modes[..modes.len() - later]))
                }
                18 => format!(" J{number}"),
                19 => format!(" D{number}"),
                _ => self
                    .random
                    .of(&[" u", " u", " b", " P", " L", " y", " \u{1}"])
                    .to_owned(),
            };
        }
        if is_encoded && self.random.one_in(2) {
            line += " b";
        }
        line += "\r\n";
        match verb {
            "ms" => self.with_value(line, value),
            _ => line.into_bytes(),
        }
    }

    /// A command whose effect depends on the time, or shows it, and what must come before.
    pub(crate) fn timed(&mut self) -> Vec<Vec<u8>> {
        if !self.random.one_in(15) {
            let command = self.ascii();
            // A flush of all tells of now alone.
            return if command.len() < 1000 {
                vec![command]
            } else {
                Vec::new()
            };
        }
        let delay = self.random.of(NEAR);
        // A delayed flush brings back what an earlier one took, if nobody has looked for it since.
        let flush = format!("flush_all {delay}\r\n").into_bytes();
        vec![Generator::look_at_all(), flush]
    }

    /// Commands that are rare, or wrong from the beginning.
    fn other(&mut self) -> Vec<u8> {
        let lines = [
            "version",
            "verbosity 0",
            "verbosity",
            "verbosity x",
            "verbosity 0 noreply",
            "flush_all",
            "flush_all 0",
            "flush_all noreply",
            "flush_all 0 noreply",
            "flush_all x",
            "flush_all -5",
            "stats detail",
            "stats detail x",
            "stats nonsense",
            "stats reset",
            "cache_memlimit",
            "cache_memlimit x",
            "cache_memlimit 1",
            "cache_memlimit 2000000000",
            "shutdown",
            "slabs",
            "slabs automove 1",
            "slabs automove 7",
            "slabs automove x",
            "slabs automove ratio x",
            "slabs automove ratio 0.5",
            "lru",
            "lru x",
            "lru tune 10 25 0.1 2.0",
            "lru tune 50 50 0.1 2.0",
            "lru tune 10 25 0 2.0",
            "lru tune 10 25 0x1 2.0",
            "lru tune 10 25 -0x1p3 nan",
            "lru tune 10 25 .5 inf",
            "lru tune 10 25 1e999 1",
            "slabs automove ratio 1e-999",
            "slabs automove ratio 0x1.8p-1",
            "lru_crawler",
            "lru_crawler x",
            "lru_crawler sleep x",
            "lru_crawler sleep 2000000",
            "lru_crawler tocrawl x",
            "extstore item_age 60",
            "extstore x 1 noreply",
            "refresh_certs",
            "mx a",
            "mg",
            "ms",
            "ms a",
            "get",
            "gets",
            "gat",
            "gat 10",
            "gat x a",
            "set",
            "set a",
            "set a 0 0 -1",
            "cas a 0 0 1",
            "incr a",
            "touch a",
            "delete",
            "x",
            "",
            " ",
            "GET a",
            "nonsense",
            "nonsense with words",
            "get a\0b",
            "gett a",
            "shutdown x",
        ];
        format!("{}\r\n", self.random.of(&lines)).into_bytes()
    }

    /// A command with some bytes changed, gone, or put in.
    pub(crate) fn mangled(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..1 + self.random.below(3) {
            let at = self.random.below(bytes.len().min(100));
            match self.random.below(4) {
                0 => drop(bytes.remove(at)),
                1 => bytes[at] = self.random.next() as u8,
                2 => bytes[at] = b" \r\n\0-1"[self.random.below(6)],
                _ => bytes.insert(at, self.random.next() as u8),
            }
            if bytes.is_empty() {
                break;
            }
        }
        bytes
    }

    /// The lengths of pieces that bytes are sent in: all at once, byte by byte, or in between.
    pub(crate) fn pieces(&mut self, bytes: &[u8]) -> Vec<usize> {
        let longest = match self.random.below(3) {
            0 => bytes.len().max(1),
            1 if bytes.len() < 2000 => 1,
            _ => 1 + self.random.below(50),
        };
        // Long values are not sent in small pieces.
        let longest = longest.max(bytes.len() / 200);
        let mut pieces = Vec::new();
        let mut left = bytes.len();
        while left > 0 {
            let piece = 1 + self.random.below(longest);
            pieces.push(piece.min(left));
            left -= piece.min(left);
        }
        pieces
    }
}
