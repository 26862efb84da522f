//! Lines: where they end, their words, and what is done about one as a whole.

use super::command::{Commands, KEY_MAX, Key, Kind, Refusal, Span};
use super::stream::{Rules, State, Step, Stream};
use memchr::memchr;

/// Words of a line that are told apart, beside those of a `get`.
const WORDS_MAX: usize = 23;

pub(super) const ERROR: &str = "ERROR\r\n";
pub(super) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";

/// The words of a line.
pub(super) struct Words {
    pub(super) spans: [Span; WORDS_MAX],
    pub(super) count: usize,
}

impl Words {
    /// The words of the bytes between two places.
    pub(super) fn new(bytes: &[u8], mut at: usize, end: usize) -> Words {
        let mut words = Words {
            spans: [Span::default(); WORDS_MAX],
            count: 0,
        };
        while let Some(word) = next_word(bytes, &mut at, end) {
            words.spans[words.count] = word;
            words.count += 1;
            if words.count == WORDS_MAX {
                break;
            }
        }
        words
    }

    /// As memcached counts: with the end of the line as one.
    pub(super) fn tokens(&self) -> usize {
        self.count + 1
    }

    pub(super) fn all(&self) -> &[Span] {
        &self.spans[..self.count]
    }

    pub(super) fn of<'a>(&self, index: usize, bytes: &'a [u8]) -> &'a [u8] {
        self.spans[index].of(bytes)
    }

    pub(super) fn last<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.of(self.count - 1, bytes)
    }
}

/// The next word before `end`; `at` comes to lie behind it.
pub(super) fn next_word(bytes: &[u8], at: &mut usize, end: usize) -> Option<Span> {
    let skipped = bytes[*at..end].iter().position(|byte| *byte != b' ')?;
    let start = *at + skipped;
    // Most words are short: a call to find their end costs more than it saves.
    let len = bytes[start..end].iter().position(|byte| *byte == b' ');
    let len = len.unwrap_or(end - start);
    *at = start + len;
    Some(Span::new(start..start + len))
}

/// The line that begins at a place: where it ends, and where the next one begins.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub(super) end: usize,
    pub(super) next: usize,
}

impl Line {
    pub(super) fn find(bytes: &[u8], at: usize) -> Option<Line> {
        let length = memchr(b'\n', &bytes[at..])?;
        let mut end = at + length;
        let next = end + 1;
        if length > 1 && bytes[end - 1] == b'\r' {
            end -= 1;
        }
        if let Some(zero) = memchr(0, &bytes[at..end]) {
            end = at + zero;
        }
        Some(Line { end, next })
    }
}

/// What one line is parsed with.
pub(super) struct Parser<'a> {
    pub(super) stream: &'a mut Stream,
    pub(super) rules: &'a Rules,
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) line: Line,
    pub(super) words: Words,
    /// So many commands are enough for now.
    pub(super) commands_max: usize,
    pub(super) out: &'a mut Commands,
}

impl Parser<'_> {
    /// The whole line is dealt with.
    pub(super) fn done(&self) -> Step {
        Step::Done(self.line.next - self.at)
    }

    pub(super) fn say(&mut self, text: &'static str) -> Step {
        self.out.say(self.at, text);
        self.done()
    }

    pub(super) fn say_unless(&mut self, quiet: bool, text: &'static str) -> Step {
        match quiet {
            true => self.done(),
            false => self.say(text),
        }
    }

    pub(super) fn push(&mut self, key: Key, kind: Kind) -> Step {
        self.out.push(self.at, key, kind);
        self.done()
    }

    pub(super) fn word(&self, index: usize) -> &[u8] {
        self.words.of(index, self.bytes)
    }

    /// The key of most commands: the second word.
    pub(super) fn key(&self) -> Option<Key> {
        let span = self.words.spans[1];
        (span.len as usize <= KEY_MAX).then(|| Key::new(span))
    }

    /// The value behind the line, and whether it ends as it must; `Err` while it is not whole.
    pub(super) fn value(&self, size: u64) -> Result<(Span, bool), Step> {
        let start = self.line.next;
        let end = start + size as usize;
        match self.bytes.get(end..end + 2) {
            None => Err(Step::Need(end + 2 - self.at)),
            Some(behind) => Ok((Span::new(start..end), behind == b"\r\n")),
        }
    }

    /// Line and value are dealt with.
    pub(super) fn done_with(&self, value: Span) -> Step {
        Step::Done(value.end() + 2 - self.at)
    }

    /// A command is refused that counts all the same.
    pub(super) fn refuse(&mut self, key: Key, why: Refusal, quiet: bool) -> Step {
        self.push(key, Kind::Refuse { why, quiet })
    }

    /// The value behind the line is passed over.
    pub(super) fn refuse_value(&mut self, size: u64, text: &'static str) -> Step {
        self.pass_over(size);
        self.say(text)
    }

    /// The value behind the line is of no interest.
    pub(super) fn pass_over(&mut self, size: u64) {
        self.stream.state = State::Swallow(size + 2);
    }

    pub(super) fn item_fits(&self, key: usize, flags: u32, value: u64) -> bool {
        self.rules.item_fits(key, flags, value)
    }
}

/// The length of a value as a line says it, if there can be one.
pub(super) fn value_length(length: i32) -> Option<u32> {
    (0..=i32::MAX - 2)
        .contains(&length)
        .then_some(length as u32)
}
