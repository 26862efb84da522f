//! The meta commands: two letters, a key, and flags of one letter each, some with a token behind.
//!
//! Flags are looked at twice: here, for what they ask and whether they are right, and when the
//! answer is made, since those that return something do so in the order in which they came.

use super::command::{Flags, Key, Kind, Mode, Refusal, Span, Store, Verb};
use super::line::{BAD_FORMAT, Parser, next_word, value_length};
use super::number;
use super::stream::Step;

/// Words of a meta command, its end counted as one.
const TOKENS_MAX: usize = 20;
/// The longest opaque, with its letter.
const OPAQUE_MAX: u32 = 32;
/// What is said of a longer one.
pub(crate) const LONG_OPAQUE: &str = "CLIENT_ERROR opaque token too long\r\n";

const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format\r\n";
const BAD_FLAG: &str = "CLIENT_ERROR invalid flag\r\n";

/// The flags of a command one by one, in their order.
pub(crate) fn each(text: Span, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut at, end) = (text.start as usize, text.end());
    std::iter::from_fn(move || next_word(bytes, &mut at, end).map(|word| word.of(bytes)))
}

/// Takes a meta command.
pub(super) fn parse(parser: &mut Parser<'_>, verb: Verb) -> Step {
    if parser.words.tokens() < 3 {
        return match verb {
            Verb::Debug => parser.say(BAD_FORMAT),
            _ => parser.say("ERROR\r\n"),
        };
    }
    let Some(key) = parser.key() else {
        return parser.say(BAD_FORMAT);
    };
    match verb {
        Verb::Debug => debug(parser, key),
        Verb::Set => set(parser),
        Verb::Get => {
            if parser.words.tokens() > TOKENS_MAX {
                return parser.say("CLIENT_ERROR options flags are too long\r\n");
            }
            match flags(parser, 2) {
                (key, Ok((flags, _))) => push(parser, verb, key, flags),
                (_, Err(text)) => parser.say(text),
            }
        }
        Verb::Delete | Verb::Arithmetic => {
            if parser.words.tokens() > TOKENS_MAX {
                return parser.say("CLIENT_ERROR options flags too long\r\n");
            }
            match flags(parser, 2) {
                (key, Ok((mut flags, mode))) => {
                    if verb == Verb::Arithmetic {
                        flags.up = match mode {
                            None | Some(b'I' | b'+') => true,
                            Some(b'D' | b'-') => false,
                            _ => {
                                return parser.say("CLIENT_ERROR invalid mode for ma M token\r\n");
                            }
                        };
                    } else if flags.long_opaque {
                        // Its answer is made before anything is done.
                        return parser.say(LONG_OPAQUE);
                    }
                    push(parser, verb, key, flags)
                }
                (_, Err(_)) => parser.say("CLIENT_ERROR invalid or duplicate flag\r\n"),
            }
        }
    }
}

fn push(parser: &mut Parser<'_>, verb: Verb, key: Key, flags: Flags) -> Step {
    let index = parser.out.meta.len() as u32;
    parser.out.meta.push(flags);
    parser.push(key, Kind::Meta { verb, index })
}

fn debug(parser: &mut Parser<'_>, mut key: Key) -> Step {
    let words = parser.words.all();
    let mut flags = Flags::default();
    if let Some(flag) = words.get(2)
        && flag.of(parser.bytes) == b"b"
    {
        match parser.out.decode(words[1].of(parser.bytes)) {
            Some(decoded) => key = decoded,
            None => return parser.say(BAD_FORMAT),
        }
        flags.base64 = true;
    }
    push(parser, Verb::Debug, key, flags)
}

fn set(parser: &mut Parser<'_>) -> Step {
    if parser.words.tokens() == 3 {
        return parser.say(BAD_FORMAT);
    }
    if parser.words.tokens() > TOKENS_MAX {
        return parser.say("CLIENT_ERROR options flags too long\r\n");
    }
    let length = number::signed32(parser.words.all()[2].of(parser.bytes));
    let Some(length) = length.and_then(value_length) else {
        return parser.say(BAD_FORMAT);
    };
    let size = u64::from(length);
    let (key, (mut flags, mode)) = match flags(parser, 3) {
        (key, Ok(flags)) => (key, flags),
        (_, Err(text)) => return parser.refuse_value(size, text),
    };
    let mut mode = match mode {
        None | Some(b'S') => Mode::Set,
        Some(b'E') => Mode::Add,
        Some(b'A') => Mode::Append,
        Some(b'P') => Mode::Prepend,
        Some(b'R') => Mode::Replace,
        _ => return parser.refuse_value(size, "CLIENT_ERROR invalid mode for ms M token\r\n"),
    };
    if flags.cas.is_some() && matches!(mode, Mode::Set | Mode::Replace) {
        mode = Mode::Cas;
    }
    if flags.long_opaque {
        return parser.refuse_value(size, LONG_OPAQUE);
    }
    let key_len = key.of(parser.bytes, &parser.out.decoded).len();
    if !parser.item_fits(key_len, flags.client_flags, size) {
        parser.push(key, Kind::Drop);
        parser.pass_over(size);
        return parser.refuse(Key::default(), Refusal::TooLarge, false);
    }
    match parser.value(size) {
        Err(step) => step,
        Ok((value, true)) => {
            flags.store = Some(Store {
                mode,
                flags: flags.client_flags,
                exptime: flags.exptime.unwrap_or(0).into(),
                cas: flags.cas.filter(|_| parser.rules.with_cas).unwrap_or(0),
                new_cas: flags.new_cas,
                // Of the modes that need an item, two can do without.
                vivify: (flags.vivify.map(i64::from))
                    .filter(|_| matches!(mode, Mode::Append | Mode::Prepend)),
                value,
            });
            push(parser, Verb::Set, key, flags);
            parser.done_with(value)
        }
        Ok((value, false)) => {
            parser.refuse(Key::default(), Refusal::BadChunk, false);
            parser.done_with(value)
        }
    }
}

/// The flags from one word on with the mode's letter, and the key, which they may say is encoded.
///
/// As in memcached, the last mistake is the one told, but an unknown or repeated flag ends it.
fn flags(
    parser: &mut Parser<'_>,
    first: usize,
) -> (Key, Result<(Flags, Option<u8>), &'static str>) {
    let bytes = parser.bytes;
    let words = parser.words.all();
    let with_cas = parser.rules.with_cas;
    let mut key = Key::new(words[1]);
    let mut flags = Flags {
        delta: 1,
        up: true,
        ..Flags::default()
    };
    let mut mode = None;
    let mut mistake = None;
    let mut seen = 0_u128;
    if let (Some(from), Some(last)) = (words.get(first), words.last()) {
        flags.text = Span::new(from.start as usize..last.end());
    }
    for word in words.iter().skip(first) {
        let (letter, token) = (word.of(bytes)[0], &word.of(bytes)[1..]);
        if letter >= 127 || seen & (1 << letter) != 0 {
            return (key, Err("CLIENT_ERROR duplicate flag\r\n"));
        }
        seen |= 1 << letter;
        // What is no number leaves the mistake behind, and a number that is 0.
        let mut seconds = || {
            let number = number::signed32(token);
            if number.is_none() {
                mistake = Some(BAD_TOKEN);
            }
            Some(number.unwrap_or(0))
        };
        match letter {
            b'b' => {
                flags.base64 = true;
                match parser.out.decode(words[1].of(bytes)) {
                    Some(decoded) => key = decoded,
                    None => mistake = Some("CLIENT_ERROR error decoding key\r\n"),
                }
            }
            b'N' => flags.vivify = seconds(),
            b'T' => flags.exptime = seconds(),
            b'R' => flags.recache = seconds(),
            b'l' | b'h' => flags.before = true,
            b'O' => flags.long_opaque |= word.len > OPAQUE_MAX,
            b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' => {}
            b'v' => flags.value = true,
            b'u' => flags.no_update = true,
            b'q' => flags.quiet = true,
            b'I' => flags.stale = true,
            b'F' => match number::unsigned32(token) {
                Some(number) => flags.client_flags = number,
                None => mistake = mistake.or(Some(BAD_FORMAT)),
            },
            b'C' => match number::unsigned64(token) {
                Some(number) => flags.cas = Some(number),
                None => mistake = Some(BAD_TOKEN),
            },
            b'E' => match number::unsigned64(token) {
                Some(number) => flags.new_cas = Some(number).filter(|_| with_cas),
                None => mistake = Some(BAD_TOKEN),
            },
            b'x' => flags.drops_value = true,
            b'M' => match token {
                [letter] => mode = Some(*letter),
                _ => mistake = Some("CLIENT_ERROR incorrect length for M token\r\n"),
            },
            b'J' => match number::unsigned64(token) {
                Some(number) => flags.initial = number,
                None => mistake = Some("CLIENT_ERROR invalid numeric initial value\r\n"),
            },
            b'D' => match number::unsigned64(token) {
                Some(number) => flags.delta = number,
                None => mistake = Some("CLIENT_ERROR invalid numeric delta value\r\n"),
            },
            _ => return (key, Err(BAD_FLAG)),
        }
    }
    (key, mistake.map_or(Ok((flags, mode)), Err))
}
