//! Where the named arguments of a statement of SQL are: `:name`, but for what stands in strings,
//! quoted names and comments. Nothing else of SQL is known here: what a statement means is its
//! database's business.

/// A statement, cut at its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement<'s> {
    /// The arguments, each with what stands before it and behind the one before.
    pub(super) arguments: Vec<(&'s str, Name<'s>)>,
    /// What stands behind the last.
    pub(super) rest: &'s str,
    /// What would be arguments, if it did not stand in strings.
    pub(super) quoted: Vec<Name<'s>>,
}

impl Statement<'_> {
    /// Where one of the pieces begins between which its arguments stand.
    pub(super) fn piece_begins(&self, piece: usize) -> usize {
        let before = piece.checked_sub(1).and_then(|at| self.arguments.get(at));
        before.map_or(0, |(_, name)| name.at + 1 + name.name.len())
    }
}

/// An argument's name, and where its colon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name<'s> {
    pub(super) name: &'s str,
    pub(super) at: usize,
}

/// What is wrong with a statement, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) at: usize,
    pub(super) message: &'static str,
    pub(super) hint: &'static str,
}

/// Finds the arguments of a statement.
///
/// # Errors
/// It is more than one, ends within something, or would put values in otherwise than by name.
pub(super) fn read(statement: &str) -> Result<Statement<'_>, Mistake> {
    let bytes = statement.as_bytes();
    let mistake = |at, message, hint| Err(Mistake { at, message, hint });
    let (mut arguments, mut quoted, mut begin, mut at) = (Vec::new(), Vec::new(), 0, 0);
    let mut ended = None;
    while let Some(&byte) = bytes.get(at) {
        if let Some(end) = passed_over(bytes, at) {
            let Some(end) = end else {
                return mistake(
                    at,
                    "what begins here does not end in this statement",
                    "close it",
                );
            };
            if let (Some(semicolon), true) = (ended, !is_comment(bytes, at)) {
                return mistake(semicolon, MORE, ONE_EACH);
            }
            if byte == b'\'' {
                quoted.extend(names_in(statement, at, end));
            }
            at = end;
            continue;
        }
        if let (Some(semicolon), false) = (ended, byte.is_ascii_whitespace()) {
            return mistake(semicolon, MORE, ONE_EACH);
        }
        let name_end = at + 1 + name_length(&bytes[at + 1..]);
        match (byte, bytes.get(at + 1)) {
            (b';', _) => ended = Some(at),
            (b'{', Some(b'{')) => {
                let hint = "`:name` where the value goes, and args = { name = \"expression\" }";
                return mistake(at, "no text is put into a statement", hint);
            }
            (b':', Some(b':')) => at += 1,
            (b':', _) if name_end > at + 1 => {
                let piece = &statement[begin..at];
                if piece.is_empty() && !arguments.is_empty() {
                    let hint = "an operator or a comma stands between two";
                    return mistake(at, "two values stand side by side", hint);
                }
                let name = &statement[at + 1..name_end];
                arguments.push((piece, Name { name, at }));
                begin = name_end;
                at = name_end - 1;
            }
            // A name that has digits and `$` in it, such as `a$1`, is passed over whole.
            (b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.., _) => at += name_length(&bytes[at..]) - 1,
            (b'$', Some(b'0'..=b'9')) => {
                let hint = "`:name` where the value goes, and args = { name = \"expression\" }";
                return mistake(at, "values have names here, not numbers", hint);
            }
            _ => {}
        }
        at += 1;
    }
    let rest = &statement[begin..];
    Ok(Statement {
        arguments,
        rest,
        quoted,
    })
}

/// What looks like arguments between two places of a statement.
fn names_in(statement: &str, begin: usize, end: usize) -> impl Iterator<Item = Name<'_>> {
    let colons = memchr::memchr_iter(b':', &statement.as_bytes()[begin..end]);
    colons.filter_map(move |colon| {
        let at = begin + colon;
        let length = name_length(&statement.as_bytes()[at + 1..end]);
        let name = &statement[at + 1..at + 1 + length];
        (length > 0).then_some(Name { name, at })
    })
}

const MORE: &str = "what stands behind this is another statement";
const ONE_EACH: &str = "a step has one: write another step, or `transaction` for several";

/// The length of a name that begins here; 0 where none does.
fn name_length(bytes: &[u8]) -> usize {
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_' || *byte >= 0x80;
    let is_later = |byte: &&u8| is_first(byte) || byte.is_ascii_digit() || **byte == b'$';
    match bytes.first() {
        Some(first) if is_first(first) => bytes.iter().take_while(is_later).count(),
        _ => 0,
    }
}

fn is_comment(bytes: &[u8], at: usize) -> bool {
    bytes[at..].starts_with(b"--") || bytes[at..].starts_with(b"/*")
}

/// Where what is passed over ends that begins here: a string, a quoted name or a comment.
/// `Some(None)` where it does not end.
fn passed_over(bytes: &[u8], at: usize) -> Option<Option<usize>> {
    let rest = &bytes[at..];
    let behind = |from: usize, what: &[u8]| {
        let found = memchr::memmem::find(rest.get(from..)?, what)?;
        Some(at + from + found + what.len())
    };
    match rest {
        // A quote within is doubled, which reads as two strings side by side. PostgreSQL's E'...'
        // has it behind a backslash, too.
        [quote @ (b'\'' | b'"' | b'`'), ..] => {
            let escapes = *quote == b'\'' && is_escape_string(&bytes[..at]);
            let mut inside = at + 1;
            loop {
                match bytes.get(inside) {
                    None => return Some(None),
                    Some(b'\\') if escapes => inside += 2,
                    Some(byte) if byte == quote => return Some(Some(inside + 1)),
                    Some(_) => inside += 1,
                }
            }
        }
        [b'-', b'-', ..] => Some(Some(behind(2, b"\n").unwrap_or(bytes.len()))),
        [b'/', b'*', ..] => Some(behind(2, b"*/")),
        // PostgreSQL's $tag$ ... $tag$.
        [b'$', ..] => {
            let tag = 1 + name_length_in_tag(&rest[1..]);
            (rest.get(tag) == Some(&b'$')).then(|| behind(tag + 1, &rest[..=tag]))
        }
        _ => None,
    }
}

/// The length of a tag between two `$`: a name without `$`, or nothing.
fn name_length_in_tag(bytes: &[u8]) -> usize {
    let name = &bytes[..name_length(bytes)];
    name.iter()
        .position(|byte| *byte == b'$')
        .unwrap_or(name.len())
}

/// Whether a string that begins behind this is PostgreSQL's E'...'.
fn is_escape_string(before: &[u8]) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    match before {
        [.., other, b'e' | b'E'] => !is_of_name(other),
        [b'e' | b'E'] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(statement: &str) -> Vec<&str> {
        let read = read(statement).unwrap();
        read.arguments.iter().map(|(_, name)| name.name).collect()
    }

    #[test]
    fn arguments_have_names() {
        let statement = read("select a from b where c = :c and d>:d_2 -- :e").unwrap();
        let pieces: Vec<&str> = statement
            .arguments
            .iter()
            .map(|(piece, _)| *piece)
            .collect();
        assert_eq!(pieces, ["select a from b where c = ", " and d>"]);
        assert_eq!(statement.rest, " -- :e");
        assert_eq!(
            statement.arguments[1].1,
            Name {
                name: "d_2",
                at: 35
            }
        );
        assert_eq!(names("(:a,:b);  -- done\n /* x */"), ["a", "b"]);
    }

    #[test]
    fn what_is_quoted_or_a_cast_is_none() {
        for (statement, expected) in [
            ("':a' || :b", vec!["b"]),
            ("'it''s :a' || :b", vec!["b"]),
            (r"E'it\'s :a' || :b", vec!["b"]),
            (r"'back\' || :b", vec!["b"]),
            (r#"":a" = :b and `:c` = :d"#, vec!["b", "d"]),
            ("/* :a */ :b::text", vec!["b"]),
            ("$$ :a $$ || $x$ $$ :b $x$ || :c", vec!["c"]),
            ("a$1 = :b and c[1:2] = :d", vec!["b", "d"]),
            ("--:a\n:b", vec!["b"]),
        ] {
            assert_eq!(names(statement), expected, "{statement}");
        }
    }

    #[test]
    fn what_cannot_be_is_told_with_its_place() {
        for (statement, at) in [
            ("select 'a", 7),
            ("select /* a", 7),
            ("select $$ a", 7),
            ("select {{ a }}", 7),
            ("select $1", 7),
            ("select 1; drop table a", 8),
            ("select 1; 'a'", 8),
            ("select :a:b", 9),
        ] {
            assert_eq!(read(statement).unwrap_err().at, at, "{statement}");
        }
    }

    proptest! {
        #[test]
        fn pieces_and_names_are_the_statement(text in "[:a$'\"{;\\-/* \né0-9]*") {
            if let Ok(statement) = read(&text) {
                let mut whole = String::new();
                for (piece, name) in &statement.arguments {
                    whole += piece;
                    prop_assert_eq!(name.at, whole.len());
                    whole += ":";
                    whole += name.name;
                }
                prop_assert_eq!(whole + statement.rest, text);
            }
        }
    }
}
