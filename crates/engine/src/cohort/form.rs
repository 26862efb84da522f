//! The text form of queries, BeSim's: what a device gives that knows only texts.
//!
//! A [`Form`] says what stands around the arguments of a call's queries:
//! `1&3&{{ session.userid }}` has the pieces `1&3&` and, empty, what follows the last argument. The
//! text form of a query is the pieces and between them the arguments, percent-encoded (RFC 3986,
//! section 2.1). Between two arguments stands a byte that no encoded one holds, so that a query
//! can be read back.
//!
//! A command's text form are its words with a blank between them, each percent-encoded
//! ([`Form::words`]).

use super::queries::{Argument, Queries};
use super::text;
use crate::program::{Form, Type};
use rhythm_protocol::http::uri;

/// Is this byte one that encoded arguments are made of?
fn is_held(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)
}

/// Where in a piece the first byte is that no encoded argument holds, and which.
fn separator(piece: &[u8]) -> Option<(usize, u8)> {
    let mut bytes = piece.iter().copied().enumerate();
    bytes.find(|(_, byte)| !is_held(*byte))
}

/// A part of a word: see [`Form::parts`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FormPart<'a> {
    /// What stands in it.
    Literal(&'a [u8]),
    /// An argument.
    Argument(Argument<'a>),
}

impl Argument<'_> {
    /// Appends it as pages print it.
    pub fn print(self, to: &mut Vec<u8>) {
        match self {
            Argument::Text(text) => to.extend_from_slice(text),
            Argument::Int(value) => text::print_int(value, to),
            Argument::Float(value) => text::print_float(value, to),
            Argument::Bool(value) => to.extend_from_slice(text::print_bool(value)),
        }
    }
}

impl Form {
    /// The form of queries that are their arguments and nothing else, separated by `&`.
    pub fn plain(arguments: &[Type]) -> Form {
        let count = arguments.len();
        let piece = |i: usize| if i == 0 || i == count { "" } else { "&" };
        Form {
            pieces: (0..=count).map(|i| piece(i).as_bytes().into()).collect(),
            arguments: arguments.to_vec(),
        }
    }

    /// Whether a piece keeps the argument before it and the one behind it apart.
    pub(crate) fn separates(piece: &[u8]) -> bool {
        separator(piece).is_some()
    }

    /// Appends the text form of a query with these arguments.
    pub fn write<'a>(&self, arguments: impl Iterator<Item = Argument<'a>>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pieces[0]);
        for (argument, piece) in arguments.zip(&self.pieces[1..]) {
            match argument {
                Argument::Text(text) => uri::encode(text, out),
                other => other.print(out),
            }
            out.extend_from_slice(piece);
        }
    }

    /// Appends a word of a command to the piece of its form that is under way.
    pub(crate) fn write_word(word: &str, piece: &mut String) {
        let mut encoded = Vec::new();
        uri::encode(word.as_bytes(), &mut encoded);
        piece.extend(encoded.into_iter().map(char::from));
    }

    /// What ends a word of a command.
    pub(crate) const WORD_END: char = ' ';

    /// Calls `each` with the words of a command with these arguments, which are printed as pages
    /// print them. An argument is part of one word, whatever it holds.
    pub fn words<'a>(
        &self,
        mut arguments: impl Iterator<Item = Argument<'a>>,
        mut each: impl FnMut(&[u8]),
    ) {
        let mut word = Vec::new();
        for piece in &self.pieces {
            for (number, literal) in literals(piece).enumerate() {
                if number > 0 {
                    each(&word);
                    word.clear();
                }
                decode_word(literal, &mut word);
            }
            if let Some(argument) = arguments.next() {
                argument.print(&mut word);
            }
        }
        each(&word);
    }

    /// Calls `each` with the parts of the words of a request of HTTP with these arguments, and the
    /// number of the word that each is of, from 0 on. What stands in its words is as it is to be
    /// sent, but for blanks, which none has: how arguments are put among it is for `each`.
    pub fn parts<'a>(
        &self,
        mut arguments: impl Iterator<Item = Argument<'a>>,
        mut each: impl FnMut(usize, FormPart<'_>),
    ) {
        let mut word = 0;
        for piece in &self.pieces {
            for (number, literal) in literals(piece).enumerate() {
                word += usize::from(number > 0);
                each(word, FormPart::Literal(literal));
            }
            if let Some(argument) = arguments.next() {
                each(word, FormPart::Argument(argument));
            }
        }
    }

    /// The words of a command, each if no argument is part of it.
    pub fn literal_words(&self) -> Vec<Option<Vec<u8>>> {
        let mut words = vec![Some(Vec::new())];
        for (index, piece) in self.pieces.iter().enumerate() {
            if index > 0
                && let Some(last) = words.last_mut()
            {
                *last = None;
            }
            for (number, literal) in literals(piece).enumerate() {
                if number > 0 {
                    words.push(Some(Vec::new()));
                }
                if let Some(Some(word)) = words.last_mut() {
                    decode_word(literal, word);
                }
            }
        }
        words
    }

    /// How many words a command has.
    pub fn word_count(&self) -> usize {
        let pieces = self.pieces.iter();
        1 + pieces
            .map(|piece| literals(piece).count() - 1)
            .sum::<usize>()
    }

    /// Reads a query's arguments from its text form; texts are decoded into `texts`, each with
    /// its place in it. `None` where the text is of another form.
    fn read(&self, query: &[u8], texts: &mut Vec<u8>) -> Option<Vec<ReadArgument>> {
        let mut rest = query.strip_prefix(&*self.pieces[0])?;
        let mut arguments = Vec::with_capacity(self.arguments.len());
        for (kind, index) in self.arguments.iter().zip(1..) {
            let piece = &self.pieces[index];
            let end = if index == self.arguments.len() {
                rest.len().checked_sub(piece.len())?
            } else {
                let (before, byte) = separator(piece)?;
                memchr::memchr(byte, rest)?.checked_sub(before)?
            };
            let (argument, behind) = rest.split_at(end);
            rest = behind.strip_prefix(&**piece)?;
            arguments.push(read_argument(*kind, argument, texts)?);
        }
        rest.is_empty().then_some(arguments)
    }

    /// What a lane is charged for asking, in bytes of text: each argument as it is encoded, and the
    /// whole as it is put together and as it is asked. That is what a device makes that knows only
    /// texts, and every executor has the same limits.
    pub(crate) fn charge(&self) -> Charge {
        let pieces = || self.pieces.iter().filter(|piece| !piece.is_empty());
        let bytes: usize = pieces().map(|piece| piece.len()).sum();
        // One part alone need not be put together.
        let is_joined = self.arguments.len() + pieces().count() > 1;
        let times = if is_joined { 2 } else { 1 };
        Charge {
            pieces: times * bytes,
            times: 1 + times,
        }
    }
}

/// What of a command's words stands in a piece of its form.
fn literals(piece: &[u8]) -> impl Iterator<Item = &[u8]> {
    piece.split(|byte| char::from(*byte) == Form::WORD_END)
}

/// Appends what stands of a word in a piece.
fn decode_word(literal: &[u8], word: &mut Vec<u8>) {
    let decoded = uri::decode_bytes(literal, word);
    debug_assert_eq!(decoded, Ok(()), "the compiler has encoded it");
}

/// What the queries of a form are charged: see [`Form::charge`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    /// For its pieces, in bytes.
    pieces: usize,
    /// How often for each byte of an encoded argument.
    times: usize,
}

impl Charge {
    /// For a query with these arguments, in bytes.
    #[inline]
    pub(crate) fn of<'a>(self, arguments: impl Iterator<Item = Argument<'a>>) -> usize {
        let encoded: usize = arguments.map(encoded_length).sum();
        self.pieces + self.times * encoded
    }
}

/// How long an argument is in the text form of a query.
#[inline]
fn encoded_length(argument: Argument<'_>) -> usize {
    match argument {
        Argument::Text(text) => {
            let kept = |byte: &&u8| is_held(**byte) && **byte != b'%';
            text.len() * 3 - 2 * text.iter().filter(kept).count()
        }
        Argument::Int(value) => {
            let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
            usize::from(value < 0) + digits as usize
        }
        Argument::Float(value) => {
            let mut printed = Vec::new();
            text::print_float(value, &mut printed);
            printed.len()
        }
        Argument::Bool(value) => text::print_bool(value).len(),
    }
}

impl Queries {
    /// Appends a query that is given in its text form. False: it is of another form, or there is
    /// no room for its texts; nothing was appended.
    #[must_use]
    pub fn push_text(&mut self, lane: u32, form: &Form, text: &[u8]) -> bool {
        let mut texts = Vec::new();
        let Some(arguments) = form.read(text, &mut texts) else {
            return false;
        };
        let arguments = arguments.iter().map(|argument| match argument {
            ReadArgument::Text(range) => Argument::Text(&texts[range.clone()]),
            ReadArgument::Int(value) => Argument::Int(*value),
            ReadArgument::Float(value) => Argument::Float(*value),
            ReadArgument::Bool(value) => Argument::Bool(*value),
        });
        self.push(lane, arguments)
    }
}

/// An argument read from a text.
#[derive(Clone, Debug, PartialEq)]
enum ReadArgument {
    /// Where it is among the texts decoded.
    Text(std::ops::Range<usize>),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

fn read_argument(kind: Type, encoded: &[u8], texts: &mut Vec<u8>) -> Option<ReadArgument> {
    let text = std::str::from_utf8(encoded).ok()?;
    Some(match kind {
        Type::Text => {
            let start = texts.len();
            uri::decode_bytes(encoded, texts).ok()?;
            std::str::from_utf8(&texts[start..]).ok()?;
            ReadArgument::Text(start..texts.len())
        }
        Type::Int => ReadArgument::Int(text.parse().ok()?),
        Type::Float => ReadArgument::Float(text.parse().ok()?),
        Type::Bool => ReadArgument::Bool(encoded == text::print_bool(true)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn form(pieces: &[&str], arguments: &[Type]) -> Form {
        Form {
            pieces: pieces.iter().map(|piece| piece.as_bytes().into()).collect(),
            arguments: arguments.to_vec(),
        }
    }

    fn written(form: &Form, arguments: &[Argument<'_>]) -> Vec<u8> {
        let mut text = Vec::new();
        form.write(arguments.iter().copied(), &mut text);
        text
    }

    #[test]
    fn a_query_as_text() {
        let form = form(&["1&3&", "&x=", ""], &[Type::Int, Type::Text]);
        let arguments = [Argument::Int(-7), Argument::Text("a&\u{e9} %".as_bytes())];
        assert_eq!(written(&form, &arguments), b"1&3&-7&x=a%26%C3%A9%20%25");
        // Encoded 2 + 16 bytes; put together, and asked, with 7 more.
        assert_eq!(form.charge().of(arguments.iter().copied()), 18 + 2 * 25);
        for other in [
            "1&4&1&x=",
            "1&3&",
            "1&3&1&x",
            "1&3&x&x=1",
            "1&3&1&y=2",
            "1&3&1&x=%4",
        ] {
            assert_eq!(
                form.read(other.as_bytes(), &mut Vec::new()),
                None,
                "{other}"
            );
        }
    }

    fn words(form: &Form, arguments: &[Argument<'_>]) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        form.words(arguments.iter().copied(), |word| words.push(word.to_vec()));
        words
    }

    #[test]
    fn a_command_is_words() {
        let mut pieces = vec![String::new()];
        Form::write_word("SET", &mut pieces[0]);
        pieces[0].push(Form::WORD_END);
        Form::write_word("a b:\u{0}\u{e9}%20", &mut pieces[0]);
        pieces.push(format!("{0}{0}", Form::WORD_END));
        pieces.push(String::new());
        Form::write_word(" x", &mut pieces[2]);
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let form = form(&pieces, &[Type::Int, Type::Float]);
        let key = "a b:\u{0}\u{e9}%20".as_bytes();
        let arguments = [Argument::Int(-7), Argument::Float(2.0)];
        assert_eq!(
            words(&form, &arguments),
            [&b"SET"[..], &[key, b"-7"].concat(), b"", b"2.0 x"]
        );
        assert_eq!(
            form.literal_words(),
            [Some(b"SET".to_vec()), None, Some(Vec::new()), None]
        );
        assert_eq!(form.word_count(), 4);
    }

    proptest! {
        #[test]
        fn an_argument_is_a_part_of_one_word(
            literals in proptest::collection::vec(any::<String>(), 1..5),
            one in any::<Vec<u8>>(),
            two in any::<Vec<u8>>(),
        ) {
            let mut piece = String::new();
            for literal in &literals {
                Form::write_word(literal, &mut piece);
                piece.push(Form::WORD_END);
            }
            let form = form(&[&piece, " x%20", ""], &[Type::Text, Type::Text]);
            let arguments = [Argument::Text(&one), Argument::Text(&two)];
            let mut expected: Vec<Vec<u8>> =
                literals.iter().map(|literal| literal.clone().into_bytes()).collect();
            expected.push(one.clone());
            expected.push([&b"x "[..], &two].concat());
            prop_assert_eq!(form.word_count(), expected.len());
            prop_assert_eq!(words(&form, &arguments), expected);
        }

        #[test]
        fn what_is_written_is_read(
            one in any::<String>(),
            two in any::<i64>(),
            three in any::<f64>(),
            four in any::<bool>(),
            pieces in proptest::collection::vec("[a-z%]{0,3}[& =/]{1,2}[a-z%.]{0,3}", 3),
            ends in ("[a-z&%]{0,5}", "[a-z&%]{0,5}"),
        ) {
            let pieces = [&ends.0, &pieces[0], &pieces[1], &pieces[2], &ends.1];
            let form = form(
                &pieces.map(String::as_str),
                &[Type::Text, Type::Int, Type::Float, Type::Bool],
            );
            let arguments = [
                Argument::Text(one.as_bytes()),
                Argument::Int(two),
                Argument::Float(three),
                Argument::Bool(four),
            ];
            for argument in arguments {
                let plain = Form::plain(&[Type::Text]);
                let length = written(&plain, &[argument]).len();
                prop_assert_eq!(encoded_length(argument), length);
            }
            let mut texts = b"before".to_vec();
            let read = form.read(&written(&form, &arguments), &mut texts);
            let text = ReadArgument::Text(6..texts.len());
            prop_assert_eq!(&texts[6..], one.as_bytes());
            let others = [
                ReadArgument::Int(two),
                ReadArgument::Float(three),
                ReadArgument::Bool(four),
            ];
            prop_assert_eq!(read, Some([vec![text], others.to_vec()].concat()));
        }
    }
}
