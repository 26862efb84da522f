//! Who a client is, where it has to say so (`-Y`).

use super::ascii::{LINE_MAX, WHOLE_LINE_MAX, close};
use super::command::{Commands, Key, Kind};
use super::line::Words;
use super::number;
use super::stream::{Rules, Step, Stream};
use memchr::memchr;

/// The longest credentials of a client that says who it is: with their end they fill memcached's
/// buffer.
const CREDENTIALS_MAX: usize = WHOLE_LINE_MAX - 2;

/// A client must say who it is before all else: with a `set`, whose value is "user password".
pub(super) fn greet(
    stream: &mut Stream,
    rules: &Rules,
    bytes: &[u8],
    at: usize,
    out: &mut Commands,
) -> Step {
    // As in memcached, a single byte is too short even to be wrong.
    if bytes.len() - at < 2 {
        return Step::Need(2);
    }
    let Some(length) = memchr(b'\n', &bytes[at..]) else {
        return match bytes.len() - at {
            0..=LINE_MAX => Step::NeedLine(LINE_MAX + 1),
            _ => close(stream, bytes, at, out),
        };
    };
    if length >= WHOLE_LINE_MAX {
        return close(stream, bytes, at, out);
    }
    let words = Words::new(bytes, at, at + length);
    let size = (words.count >= 5 && words.of(0, bytes) == b"set")
        .then(|| number::unsigned32(words.of(4, bytes)))
        .flatten();
    let Some(size) = size else {
        out.say(at, "CLIENT_ERROR unauthenticated\r\n");
        return Step::Done(length + 1);
    };
    let size = size as usize;
    if size > CREDENTIALS_MAX {
        return close(stream, bytes, at, out);
    }
    let start = at + length + 1;
    let end = start + size;
    let Some(value) = bytes.get(start..end + 2) else {
        return Step::Need(end + 2 - at);
    };
    let done = Step::Done(end + 2 - at);
    if !value.ends_with(b"\r\n") {
        out.say(at, "CLIENT_ERROR bad command line termination\r\n");
        return done;
    }
    let words = Words::new(bytes, start, end);
    if words.count < 2 {
        out.say(at, "CLIENT_ERROR bad authentication token format\r\n");
        return done;
    }
    let (user, password) = (words.of(0, bytes), words.of(1, bytes));
    // Every entry is compared to its end, lest the time tell how much was right.
    let accepted = rules.users.iter().fold(false, |accepted, (name, secret)| {
        accepted | (is_same(name, user) & is_same(secret, password))
    });
    stream.is_stranger = !accepted;
    out.push(at, Key::default(), Kind::Auth { accepted });
    done
}

/// Whether two texts are the same, found in a time that depends on their lengths only.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
