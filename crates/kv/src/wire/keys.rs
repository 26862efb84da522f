//! The keys of a `get`, `gets`, `gat` or `gats`: each is a command.

use super::command::{Commands, Get, KEY_MAX, Key, Kind};
use super::line::{BAD_FORMAT, ERROR, Line, next_word};
use super::stream::{State, Step, Stream};

/// The words that memcached takes of a line at a time.
const ROUND: usize = 23;

/// What ends the answer.
pub(crate) const END: &str = "END\r\n";

/// Whether memcached ends an answer by itself, and not with that of the last key: where it has
/// taken as many words as it does at a time, and more than a blank is behind them, it looks for
/// others and finds none.
fn ends_alone(keys: usize, touches: bool, blanks: usize) -> bool {
    let words = 1 + usize::from(touches) + keys;
    blanks > 1 && words.is_multiple_of(ROUND)
}

/// A line of keys.
pub(super) struct Keys<'a> {
    pub(super) stream: &'a mut Stream,
    pub(super) bytes: &'a [u8],
    /// The command is taken to begin there.
    pub(super) at: usize,
    pub(super) line: Line,
    /// So many commands are enough for now.
    pub(super) commands_max: usize,
    pub(super) out: &'a mut Commands,
}

impl Keys<'_> {
    /// Takes the keys from `first` on. Where there are more than are enough, the others are left,
    /// to be gone on with.
    pub(super) fn take(self, get: Get, mut is_first: bool, first: usize) -> Step {
        let Get { with_cas, touch } = get;
        let out = self.out;
        let done = Step::Done(self.line.next - self.at);
        let before = out.list.len();
        let (mut start, mut at) = (self.at, first);
        while let Some(word) = next_word(self.bytes, &mut at, self.line.end) {
            if out.list.len() >= self.commands_max {
                self.stream.state = State::Keys(get);
                return Step::Done(start - self.at);
            }
            if word.len as usize > KEY_MAX {
                // Those before it are fetched, though nothing tells of them. Were it to be parsed
                // again, then with them.
                for command in &mut out.list[before..] {
                    command.kind = Kind::Fetch { touch };
                    command.start = self.at as u32;
                }
                out.say(self.at, BAD_FORMAT);
                return done;
            }
            let kind = Kind::Get {
                with_cas,
                touch,
                is_first,
                is_last: false,
            };
            out.push(start, Key::new(word), kind);
            start = at;
            is_first = false;
        }
        let (count, blanks) = (out.list.len() - before, self.line.end - at);
        match out.list[before..].last_mut() {
            // Only of datagrams can anybody tell: over a connection it is the same.
            Some(_) if self.stream.is_datagram && ends_alone(count, touch.is_some(), blanks) => {
                out.say(start, END);
            }
            Some(last) => {
                if let Kind::Get { is_last, .. } = &mut last.kind {
                    *is_last = true;
                }
            }
            // Only `gat` gets here without a key.
            None if touch.is_some() => out.say(start, END),
            None => out.say(start, ERROR),
        }
        done
    }
}
