//! The ASCII protocol: lines of words, and values behind the lines of storage commands.
//!
//! What is a mistake, and how it is called, is memcached's: words are parted by spaces and nothing
//! else, a line ends at its first zero byte, a storage command whose line is wrong does not take
//! its value along (it is then read as a command), and one whose value is too large does.

use super::command::{Commands, Get, Key, Kind, Mode, Refusal, Span, Store, Verb};
use super::keys::Keys;
use super::line::{BAD_FORMAT, ERROR, Line, Parser, Words, next_word, value_length};
use super::stream::{Rules, State, Step, Stream};
use super::{meta, number};

/// A line that is longer, and has not ended, is no command but a `get` (memcached's own bound).
pub(super) const LINE_MAX: usize = 2048;
/// The longest line of another command, with its end: memcached's buffer, which what is longer
/// never ends in. (A datagram has one of its own.)
pub(super) const WHOLE_LINE_MAX: usize = 16_384;
/// The longest line of keys that is waited for. memcached has no bound here.
const KEYS_LINE_MAX: usize = 4 << 20;

/// Classes that memcached can have.
const SLAB_CLASSES: u32 = 64;

const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument\r\n";

/// Takes one line at `at`, and the value behind it if it has one.
pub(super) fn parse(
    stream: &mut Stream,
    rules: &Rules,
    bytes: &[u8],
    at: usize,
    commands_max: usize,
    out: &mut Commands,
) -> Step {
    let Some(line) = Line::find(bytes, at) else {
        return unfinished(stream, bytes, at, out);
    };
    let is_long = line.next - at > WHOLE_LINE_MAX && !stream.is_datagram;
    if is_long && !may_be_long(stream, &bytes[at..]) {
        return close(stream, bytes, at, out);
    }
    let keys = |stream, line, out| Keys {
        stream,
        bytes,
        at,
        line,
        commands_max,
        out,
    };
    if let State::Keys(get) = stream.state {
        stream.state = State::Between;
        return keys(stream, line, out).take(get, false, at);
    }
    let mut first = at;
    let Some(word) = next_word(bytes, &mut first, line.end).filter(|word| word.len > 1) else {
        out.say(at, ERROR);
        return Step::Done(line.next - at);
    };
    let get = |with_cas| Get {
        with_cas,
        touch: None,
    };
    // Of what most clients send most of the time, the words are not put into a list.
    match word.of(bytes) {
        b"get" => keys(stream, line, out).take(get(false), true, first),
        b"gets" => keys(stream, line, out).take(get(true), true, first),
        _ => {
            let words = Words::new(bytes, at, line.end);
            let mut parser = Parser {
                stream,
                rules,
                bytes,
                at,
                line,
                words,
                commands_max,
                out,
            };
            parser.command()
        }
    }
}

/// A line that has not ended.
fn unfinished(stream: &mut Stream, bytes: &[u8], at: usize, out: &mut Commands) -> Step {
    let rest = &bytes[at..];
    if rest.len() <= LINE_MAX {
        return Step::NeedLine(LINE_MAX + 1);
    }
    if may_be_long(stream, rest) && rest.len() <= KEYS_LINE_MAX {
        return Step::NeedLine(KEYS_LINE_MAX + 1);
    }
    close(stream, bytes, at, out)
}

/// Whether what begins with these bytes is a line of keys, which may be longer than others.
fn may_be_long(stream: &Stream, bytes: &[u8]) -> bool {
    let blanks = bytes.iter().take_while(|byte| **byte == b' ').count();
    let word = &bytes[blanks..];
    matches!(stream.state, State::Keys(_))
        || blanks <= 100 && (word.starts_with(b"get ") || word.starts_with(b"gets "))
}

impl Parser<'_> {
    fn command(&mut self) -> Step {
        let tokens = self.words.tokens();
        match self.word(0) {
            [b'm', verb] => match Verb::from_byte(*verb) {
                Some(verb) => meta::parse(self, verb),
                None if *verb == b'n' => self.say("MN\r\n"),
                None => self.say(ERROR),
            },
            b"set" if matches!(tokens, 6 | 7) => self.update(Mode::Set),
            b"add" if matches!(tokens, 6 | 7) => self.update(Mode::Add),
            b"replace" if matches!(tokens, 6 | 7) => self.update(Mode::Replace),
            b"append" if matches!(tokens, 6 | 7) => self.update(Mode::Append),
            b"prepend" if matches!(tokens, 6 | 7) => self.update(Mode::Prepend),
            b"cas" if matches!(tokens, 7 | 8) => self.update(Mode::Cas),
            b"gat" if tokens >= 3 => self.touching_get(false),
            b"gats" if tokens >= 3 => self.touching_get(true),
            b"bget" if tokens >= 3 => {
                let get = Get {
                    with_cas: false,
                    touch: None,
                };
                self.keys(get, 1)
            }
            b"incr" if matches!(tokens, 4 | 5) => self.arithmetic(true),
            b"decr" if matches!(tokens, 4 | 5) => self.arithmetic(false),
            b"delete" if (3..=5).contains(&tokens) => self.delete(),
            b"touch" if matches!(tokens, 4 | 5) => self.touch(),
            b"stats" => self.stats(),
            b"flush_all" if tokens <= 4 => self.flush(),
            b"version" => self.push(Key::default(), Kind::Version),
            b"quit" => self.close(),
            b"verbosity" if matches!(tokens, 3 | 4) => self.verbosity(),
            b"cache_memlimit" if matches!(tokens, 3 | 4) => self.memory(),
            b"shutdown" => self.shutdown(),
            b"slabs" => self.slabs(),
            b"lru" => self.lru(),
            b"lru_crawler" => self.crawler(),
            b"extstore" => self.extstore(),
            b"refresh_certs" => self.say("Error TLS not enabled\r\n"),
            b"watch" => {
                let quiet = self.is_quiet();
                self.say_unless(quiet, "CLIENT_ERROR watch commands not allowed\r\n")
            }
            word if may_be_http(word) && self.words.last(self.bytes).starts_with(b"HTTP/") => {
                self.close()
            }
            _ => self.say(ERROR),
        }
    }

    /// What follows is of no interest; not even how long the line is.
    fn close(&mut self) -> Step {
        close(self.stream, self.bytes, self.at, self.out)
    }

    /// The last word is `noreply`. memcached looks there even where the line is wrong.
    fn is_quiet(&self) -> bool {
        self.words.last(self.bytes) == b"noreply"
    }

    fn keys(&mut self, get: Get, before: usize) -> Step {
        let first = self.words.spans[before - 1].end();
        let keys = Keys {
            stream: self.stream,
            bytes: self.bytes,
            at: self.at,
            line: self.line,
            commands_max: self.commands_max,
            out: self.out,
        };
        keys.take(get, true, first)
    }

    fn touching_get(&mut self, with_cas: bool) -> Step {
        let Some(exptime) = number::signed32(self.word(1)) else {
            return self.say(BAD_EXPTIME);
        };
        let touch = Some(i64::from(exptime));
        self.keys(Get { with_cas, touch }, 2)
    }

    fn update(&mut self, mode: Mode) -> Step {
        let quiet = self.is_quiet();
        let Some((key, store)) = self.update_line(mode) else {
            return self.say_unless(quiet, BAD_FORMAT);
        };
        let size = u64::from(store.value.len);
        let key_len = self.words.spans[1].len as usize;
        if !self.rules.item_fits(key_len, store.flags, size) {
            if mode == Mode::Set {
                self.push(key, Kind::Drop);
            }
            self.pass_over(size);
            return self.refuse(key, Refusal::TooLarge, quiet);
        }
        match self.value(size) {
            Err(step) => step,
            Ok((value, true)) => {
                let store = Store { value, ..store };
                self.push(key, Kind::Store { store, quiet });
                self.done_with(value)
            }
            Ok((value, false)) => {
                self.refuse(key, Refusal::BadChunk, quiet);
                self.done_with(value)
            }
        }
    }

    /// What the line of a storage command says. Of the value only the length is known.
    fn update_line(&self, mode: Mode) -> Option<(Key, Store)> {
        let key = self.key()?;
        let flags = number::unsigned32(self.word(2))?;
        let exptime = number::signed32(self.word(3))?.into();
        let length = number::signed32(self.word(4))?;
        let cas = match mode {
            Mode::Cas => number::unsigned64(self.word(5))?,
            _ => 0,
        };
        let length = value_length(length)?;
        let value = Span {
            start: 0,
            len: length,
        };
        let store = Store {
            mode,
            flags,
            exptime,
            cas,
            new_cas: None,
            vivify: None,
            value,
        };
        Some((key, store))
    }

    fn arithmetic(&mut self, up: bool) -> Step {
        let quiet = self.is_quiet();
        let Some(key) = self.key() else {
            return self.say_unless(quiet, BAD_FORMAT);
        };
        match number::unsigned64(self.word(2)) {
            Some(delta) => self.push(key, Kind::Arithmetic { up, delta, quiet }),
            None => self.say_unless(quiet, "CLIENT_ERROR invalid numeric delta argument\r\n"),
        }
    }

    fn delete(&mut self) -> Step {
        let tokens = self.words.tokens();
        let mut quiet = false;
        if tokens > 3 {
            // Once the time for which the key was to stay deleted; only 0 is left of it.
            let is_zero = self.word(2) == b"0";
            quiet = self.is_quiet();
            let is_valid = match tokens {
                4 => is_zero || quiet,
                _ => is_zero && quiet,
            };
            if !is_valid {
                let usage = "CLIENT_ERROR bad command line format.  Usage: delete <key> \
                             [noreply]\r\n";
                return self.say_unless(quiet, usage);
            }
        }
        match self.key() {
            Some(key) => self.push(key, Kind::Delete { quiet }),
            None => self.say_unless(quiet, BAD_FORMAT),
        }
    }

    fn touch(&mut self) -> Step {
        let quiet = self.is_quiet();
        let Some(key) = self.key() else {
            return self.say_unless(quiet, BAD_FORMAT);
        };
        match number::signed32(self.word(2)) {
            Some(exptime) => {
                let exptime = exptime.into();
                self.push(key, Kind::Touch { exptime, quiet })
            }
            None => self.say_unless(quiet, BAD_EXPTIME),
        }
    }

    fn flush(&mut self) -> Step {
        let quiet = self.is_quiet();
        if !self.rules.may_flush {
            return self.refuse(Key::default(), Refusal::Flush, quiet);
        }
        let mut exptime = 0;
        if self.words.count != 1 + usize::from(quiet) {
            match number::signed32(self.word(1)) {
                Some(given) => exptime = given.into(),
                None => return self.refuse(Key::default(), Refusal::FlushTime, quiet),
            }
        }
        self.push(Key::default(), Kind::Flush { exptime, quiet })
    }

    fn stats(&mut self) -> Step {
        let about = self.words.spans[0].end()..self.line.end;
        self.push(Key::default(), Kind::Stats(Span::new(about)))
    }

    fn verbosity(&mut self) -> Step {
        let quiet = self.is_quiet();
        match number::unsigned32(self.word(1)) {
            Some(level) => self.push(Key::default(), Kind::Verbosity { level, quiet }),
            None => self.say_unless(quiet, BAD_FORMAT),
        }
    }

    fn memory(&mut self) -> Step {
        let quiet = self.is_quiet();
        match number::unsigned32(self.word(1)) {
            Some(megabytes) => self.push(Key::default(), Kind::Memory { megabytes, quiet }),
            None => self.say_unless(quiet, ERROR),
        }
    }

    fn shutdown(&mut self) -> Step {
        if !self.rules.may_shut_down {
            return self.say("ERROR: shutdown not enabled\r\n");
        }
        let graceful = match self.words.count {
            1 => false,
            2 if self.word(1) == b"graceful" => true,
            _ => return self.say("CLIENT_ERROR invalid shutdown mode\r\n"),
        };
        self.push(Key::default(), Kind::Shutdown { graceful });
        self.close()
    }

    /// There are no slab classes here: what moves pages between them is off.
    fn slabs(&mut self) -> Step {
        let tokens = self.words.tokens();
        if tokens == 5 && self.word(1) == b"reassign" {
            return self.say("CLIENT_ERROR slab reassignment disabled\r\n");
        }
        if tokens < 4 || self.word(1) != b"automove" {
            return self.say(ERROR);
        }
        let quiet = self.is_quiet();
        let text = match self.word(2) {
            b"ratio" if tokens >= 5 && number::decimal(self.word(3)).is_some() => "OK\r\n",
            b"ratio" => ERROR,
            level => match number::unsigned32(level) {
                Some(0..=2) => "OK\r\n",
                Some(_) => ERROR,
                None => BAD_FORMAT,
            },
        };
        self.say_unless(quiet, text)
    }

    /// There is no LRU either: its shares are taken note of, its modes are those of a server
    /// without a maintainer.
    fn lru(&mut self) -> Step {
        if self.words.tokens() < 3 {
            return self.say(ERROR);
        }
        let quiet = self.is_quiet();
        let text = match self.word(1) {
            b"tune" if self.words.tokens() >= 7 => self.lru_shares(),
            _ => ERROR,
        };
        self.say_unless(quiet, text)
    }

    fn lru_shares(&self) -> &'static str {
        let share = |index| number::unsigned32(self.word(index));
        let factor = |index| number::decimal(self.word(index));
        let (Some(hot), Some(warm), Some(hot_age), Some(warm_age)) =
            (share(2), share(3), factor(4), factor(5))
        else {
            return ERROR;
        };
        if hot.wrapping_add(warm) > 80 {
            "ERROR hot and warm pcts must not exceed 80\r\n"
        } else if hot_age <= 0.0 || warm_age <= 0.0 {
            "ERROR hot/warm age factors must be greater than 0\r\n"
        } else {
            "OK\r\n"
        }
    }

    /// Nothing is stored elsewhere: what says when it should be is taken note of.
    fn extstore(&mut self) -> Step {
        let number = |index| number::unsigned32(self.word(index));
        let is_valid = match self.words.tokens() {
            0..4 => false,
            tokens => match self.word(1) {
                b"free_memchunks" if tokens > 4 => {
                    number(2).is_some_and(|class| class < SLAB_CLASSES) && number(3).is_some()
                }
                b"item_size" | b"item_age" | b"low_ttl" | b"recache_rate" | b"compact_under"
                | b"drop_under" | b"max_sleep" | b"drop_unread" => number(2).is_some(),
                b"max_frag" => number::decimal(self.word(2)).is_some(),
                _ => false,
            },
        };
        let quiet = self.is_quiet();
        self.say_unless(quiet, if is_valid { "OK\r\n" } else { ERROR })
    }

    /// Nothing crawls; expired items go with their segment.
    fn crawler(&mut self) -> Step {
        let text = match (self.words.tokens(), self.words.count) {
            (4, _) => match self.word(1) {
                b"crawl" | b"metadump" | b"mgdump" => "CLIENT_ERROR lru crawler disabled\r\n",
                b"tocrawl" if number::unsigned32(self.word(2)).is_some() => "OK\r\n",
                b"sleep" => match number::unsigned32(self.word(2)) {
                    Some(0..=1_000_000) => "OK\r\n",
                    Some(_) => "CLIENT_ERROR sleep must be one second or less\r\n",
                    None => BAD_FORMAT,
                },
                b"tocrawl" => BAD_FORMAT,
                _ => ERROR,
            },
            (3, _) if matches!(self.word(1), b"enable" | b"disable") => "OK\r\n",
            _ => ERROR,
        };
        self.say(text)
    }
}

/// What memcached's tree of first letters leaves for its last branch, where it knows a browser.
fn may_be_http(word: &[u8]) -> bool {
    !matches!(word[0], b'g' | b's' | b'a' | b'c' | b'i' | b'd' | b't')
}

/// Ends the connection.
pub(super) fn close(stream: &mut Stream, bytes: &[u8], at: usize, out: &mut Commands) -> Step {
    out.push(at, Key::default(), Kind::Close);
    stream.state = State::Closed;
    Step::Done(bytes.len() - at)
}
