//! Commands as clients send them, and as they should not.

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
/// Expiries that do not come about during a test.
const EXPTIMES: &[&str] = &[
    "0",
    "0",
    "0",
    "1000",
    "2592000",
    "-1",
    "3000000000",
    "100",
    "x",
    "0x",
];
const KEYS: &[&str] = &[
    "a",
    "b",
    "c",
    "d:e",
    "d:f",
    "number",
    "counter",
    "key-of-16-bytes.",
];

/// A request that is answered by nothing but its own answer, and that answer.
pub(crate) fn noop() -> (Vec<u8>, Vec<u8>) {
    let mut request = packet(0x0a, &[], &[], &[], 0);
    request[12..16].copy_from_slice(b"mark");
    let mut answer = request.clone();
    answer[0] = 0x81;
    (request, answer)
}

fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u32;
    let mut packet = vec![0x80, opcode];
    packet.extend((key.len() as u16).to_be_bytes());
    packet.extend([extras.len() as u8, 0, 0, 0]);
    packet.extend(body.to_be_bytes());
    packet.extend(*b"opaq");
    packet.extend(cas.to_be_bytes());
    for part in [extras, key, value] {
        packet.extend_from_slice(part);
    }
    packet
}

/// Behind the names of keys that hold numbers: nothing but arithmetic looks at these. Whether
/// memcached changes a number where it lies, which leaves blanks behind it, depends on whether an
/// answer with it is still on its way, or its LRU has it in hand.
const ONLY: &str = "-only";

pub(crate) struct Generator {
    pub(crate) random: Random,
    /// Some values are not as long as their lines say.
    pub(crate) has_wrong_lengths: bool,
}

impl Generator {
    pub(crate) fn new(random: Random) -> Generator {
        Generator {
            random,
            has_wrong_lengths: false,
        }
    }

    fn key(&mut self) -> String {
        match self.random.below(40) {
            0 => "k".repeat(250),
            1 => "\u{1}\u{7f}ü".to_owned(),
            _ => self.random.of(KEYS).to_owned(),
        }
    }

    fn number(&mut self) -> String {
        match self.random.one_in(2) {
            true => self.random.below(1000).to_string(),
            false => self.random.of(NUMBERS).to_owned(),
        }
    }

    /// A value; its bytes are no blank followed by what is masked.
    fn value(&mut self) -> Vec<u8> {
        match self.random.below(60) {
            0 => vec![b'v'; 3000],
            1 => vec![b'w'; 600_000],
            // The largest for keys of one byte, and beyond.
            2 => vec![b'x'; 1_048_576 - 60 + self.random.below(4)],
            3..=12 => self.number().into_bytes(),
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
        let exptime = self.random.of(EXPTIMES);
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
                let number = self.number();
                format!("{verb} {key}{ONLY} {number}{noreply}\r\n").into_bytes()
            }
            11 => {
                let number = self.random.of(&["", "", " 0", " 1", " 0 noreply", " x y"]);
                format!("delete {key}{number}{noreply}\r\n").into_bytes()
            }
            12 => format!("touch {key} {exptime}{noreply}\r\n").into_bytes(),
            13..=18 => self.meta(&key),
            19 => self.other(),
            20 => {
                let number = self.number();
                format!("set {key}{ONLY} 0 0 {}\r\n{number}\r\n", number.len()).into_bytes()
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
        let is_short = value.len() < 1000;
        let end = if is_short && self.random.one_in(40) {
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
            let key = self.key();
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
            format!("{key}{ONLY}")
        } else {
            key.to_owned()
        };
        let is_encoded = self.random.one_in(12);
        line += match is_encoded {
            true => self.random.of(&["YWJj", "/wA=", "!", "YQ="]),
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
        let exptime = self.random.of(&["0", "100000", "-1", "2000000"]);
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
                9 => " q".to_owned(),
                10 => " Opaque".to_owned(),
                11 => format!(" T{exptime}"),
                12 if !is_encoded && (verb == "mg" || verb == "ma") => format!(" N{exptime}"),
                13 => " R150000".to_owned(),
                14 => " I".to_owned(),
                15 => format!(" C{}", self.random.below(300)),
                16 => format!(" F{number}"),
                17 => {
                    let modes = ["E", "A", "P", "R", "S", "I", "+", "x", "", "SS"];
                    format!(" M{}", self.random.of(&modes))
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
            "lru_crawler",
            "lru_crawler x",
            "lru_crawler sleep x",
            "lru_crawler sleep 2000000",
            "lru_crawler tocrawl x",
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

    /// One whole binary request, right or nearly so.
    pub(crate) fn binary(&mut self) -> Vec<u8> {
        let key = self.key().into_bytes();
        let value = self.value();
        let exptime = [0_u32, 0, 100_000, 3_000_000_000, u32::MAX][self.random.below(5)];
        let flags = self.random.below(3) as u32 * 0x0102_0304;
        let cas = match self.random.one_in(4) {
            true => self.random.below(300) as u64,
            false => 0,
        };
        let store = [flags.to_be_bytes(), exptime.to_be_bytes()].concat();
        match self.random.below(14) {
            0..=2 => {
                let opcode = [1, 1, 2, 3, 0x11, 0x12, 0x13][self.random.below(7)];
                packet(opcode, &store, &key, &value, cas)
            }
            3..=5 => {
                let opcode = [0, 9, 0x0c, 0x0d][self.random.below(4)];
                packet(opcode, &[], &key, &[], cas)
            }
            6 => {
                let opcode = [0x1c, 0x1d, 0x1e, 0x23, 0x24][self.random.below(5)];
                packet(opcode, &exptime.to_be_bytes(), &key, &[], cas)
            }
            7 => packet([4, 0x14][self.random.below(2)], &[], &key, &[], cas),
            8 | 9 => {
                let opcode = [5, 5, 0x15][self.random.below(3)];
                let delta = self.random.next() >> self.random.below(64);
                let initial = self.random.below(2000) as u64;
                let extras = [
                    &delta.to_be_bytes()[..],
                    &initial.to_be_bytes(),
                    &exptime.to_be_bytes(),
                ]
                .concat();
                packet(opcode, &extras, b"number-only", &[], cas)
            }
            10 => {
                let opcode = [0x0e, 0x0f, 0x19, 0x1a][self.random.below(4)];
                packet(opcode, &[], &key, &value, cas)
            }
            11 => match self.random.below(6) {
                0 | 1 => packet(0x08, &[], &[], &[], 0),
                2 => packet(0x18, &[0; 4], &[], &[], 0),
                3 => packet(0x20, &[], &[], &[], 0),
                4 => packet(0x10, &[], b"nonsense", &[], 0),
                _ => packet(0x0a, &[], &[], &[], 0),
            },
            12 => {
                let number = self.random.below(2000).to_string();
                packet(1, &store, b"number-only", number.as_bytes(), 0)
            }
            _ => packet(0x21, &[], b"PLAIN", b"\0user\0password", 0),
        }
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
