//! What is wrong with TOML that cannot be parsed.
//!
//! The parser goes on after a mistake as well as it can, and tells what it takes for further ones.
//! Where a bracket or a string is open, all that comes after it is none; elsewhere a line has one
//! mistake at most. What is left is said in the words of who writes it.

use crate::diagnostic::{Place, Report};
use toml::de::Error;

/// Where something was opened and not ended, and what ends it.
type Open = (usize, &'static str);

/// What TOML looks like.
const FORM: &str = "TOML has lines such as key = \"text\", key = 1, key = [\"a\", \"b\"], [table]";

/// Reports the mistakes of a text. `place` gives the place of an offset into it.
pub(super) fn report<'a>(
    errors: &[Error],
    toml: &str,
    place: impl Fn(usize) -> Place<'a>,
    report: &mut Report,
) {
    let offset = |error: &Error| error.span().map_or(0, |span| span.start).min(toml.len());
    let ends = |error: &&Error| {
        let message = error.message();
        let is_open = [
            "unclosed array,",
            "unclosed inline table",
            "invalid multi-line",
        ];
        is_open.iter().any(|open| message.starts_with(open))
    };
    if errors.iter().any(|error| ends(&error))
        && let Some((opened, end)) = open_before(toml, toml.len())
    {
        let first = errors.iter().map(offset).min().unwrap_or(opened);
        if first >= opened {
            let what = match end {
                "]" => "this list",
                "}" => "this table",
                _ => "this string",
            };
            let hint = format!("add `{end}` where it ends");
            report.error(place(opened), format!("{what} does not end"), hint);
            return;
        }
    }
    let mut found: Vec<(usize, &str)> = (errors.iter())
        .map(|error| (floor(toml, offset(error)), error.message().trim_end()))
        .collect();
    found.sort_by_key(|(offset, _)| *offset);
    // Where what has been told of ends.
    let mut told = 0;
    for (offset, message) in found {
        if offset < told {
            continue;
        }
        let rest = &toml[offset..];
        told = offset + rest.find('\n').unwrap_or(rest.len());
        let line = &toml[toml[..offset].rfind('\n').map_or(0, |end| end + 1)..];
        let table = line.trim_start().strip_prefix('[');
        let (message, hint) = match table.filter(|_| message.starts_with("duplicate key")) {
            Some(name) => {
                // Its keys are those of the first one.
                told = offset + rest.find("\n[").unwrap_or(rest.len());
                let hint = match name.starts_with("step]") {
                    true => {
                        "put it into one; [[step]], in two brackets, begins one of several steps"
                    }
                    false => "put the keys of both below the first",
                };
                ("this table is here twice".to_owned(), hint)
            }
            None => explain(message, toml, offset),
        };
        report.error(place(offset), message, hint);
    }
}

/// What an error of the parser means, and what helps.
fn explain(message: &str, toml: &str, offset: usize) -> (String, &'static str) {
    let rest = toml.get(offset..).unwrap_or_default();
    let is_at_end = rest.is_empty() || rest.starts_with(['\n', '\r', '#']);
    let told = |text: &str, hint| (text.to_owned(), hint);
    let begins = |with: &str| message.starts_with(with);
    match rest.chars().next() {
        Some('“' | '”' | '„' | '’' | '‘') => {
            let hint = "quotes of TOML are \" and ', not those of printed text";
            return told("this is no quote", hint);
        }
        Some(':') if begins("invalid unquoted key") => {
            return told("`:` stands where `=` belongs", "key = \"value\"");
        }
        _ => {}
    }
    if begins("string values must be quoted") || begins("missing value") {
        return match is_at_end {
            true => told(
                "a value is missing",
                "key = \"text\", key = 1 or key = true",
            ),
            false => told("a text stands in quotes", "key = \"text\""),
        };
    }
    // A word that begins as a number or a truth value does: `id` as `inf`.
    let is_word = rest.starts_with(|first: char| first.is_ascii_alphabetic());
    if is_word && (begins("invalid float") || begins("invalid boolean")) {
        return told("a text stands in quotes", "key = \"text\"");
    }
    if begins("invalid basic string") || begins("invalid literal string") {
        let hint = "it ends in its line, with the quote that it began with";
        return told("this string does not end", hint);
    }
    if begins("missing escaped value") {
        let hint = "write \\\\, or put the string in single quotes, which have no escapes";
        return told("`\\` begins an escape, and this is none", hint);
    }
    if begins("duplicate key") {
        return told("this key is here twice", "remove one of them");
    }
    if begins("unclosed array table") {
        return told("this line does not end", "add `]]` at its end");
    }
    if begins("unclosed table") {
        return told("this line does not end", "add `]` at its end");
    }
    if begins("missing comma") {
        return told("a comma is missing before this", "add `,`");
    }
    if begins("unexpected key or value") {
        let hint = "each key stands on a line of its own; a text stands in one pair of quotes, and \
                    those inside \"...\" are '...'";
        return told("nothing can follow here", hint);
    }
    if begins("key with no value") {
        return told("this key has no value", "key = \"value\"");
    }
    (message.to_owned(), FORM)
}

/// What is open at an offset: the innermost bracket of a value, or a string of many lines.
fn open_before(toml: &str, until: usize) -> Option<Open> {
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    while at < until {
        let rest = &toml[at..];
        let Some(next) = rest.chars().next() else {
            break;
        };
        let string = ["\"\"\"", "'''", "\"", "'"];
        if let Some(quote) = string.into_iter().find(|quote| rest.starts_with(quote)) {
            match string_end(rest, quote) {
                Some(length) => at += length,
                None if quote.len() == 3 => return Some((at, quote)),
                // Its line is the parser's to tell of.
                None => at += rest.find('\n').unwrap_or(rest.len()),
            }
            continue;
        }
        match next {
            '#' => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            '[' => open.push((at, "]")),
            '{' => open.push((at, "}")),
            ']' | '}' if open.last().is_some_and(|(_, end)| rest.starts_with(end)) => {
                open.pop();
            }
            _ => {}
        }
        at += next.len_utf8();
    }
    open.last().copied()
}

/// How long the string is with which a text begins, its quotes included.
fn string_end(text: &str, quote: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = quote.len();
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote.starts_with('"') => at += 2,
            b'\n' if quote.len() == 1 => return None,
            _ if bytes[at..].starts_with(quote.as_bytes()) => return Some(at + quote.len()),
            _ => at += 1,
        }
    }
    None
}

/// The last character boundary at or before an offset.
fn floor(text: &str, mut offset: usize) -> usize {
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_found_and_strings_and_comments_open_nothing() {
        for (toml, opened) in [
            ("a = [1, {b = \"]\"}]\n[c]\n", None),
            ("a = [1, 2\nb = 3\n[c]\n", Some((4, "]"))),
            ("a = { b = '}', c = [1]\n", Some((4, "}"))),
            ("a = \"\"\"x\n\"\n[b]\n", Some((4, "\"\"\""))),
            ("a = \"\\\"[\" # [\n", None),
            ("a = \"[\nb = 'é' # {\n", None),
        ] {
            assert_eq!(open_before(toml, toml.len()), opened, "{toml}");
        }
    }
}
