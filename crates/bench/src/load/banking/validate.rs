//! Whether a page is the one that must come.
//!
//! Independent of how the page was made: the body is searched for `data-page="` and every
//! `data-f="`, and the names and texts found must be the expected ones, all of them, in order, and
//! no others. The text of a value is all that its element holds, so `12` is not found in `123.45`.
//! Two passes of a substring search and nothing allocated: checking must not be what limits the
//! load.

use super::super::walk::clip;
use super::expect::{AFTER_NAME, AFTER_TEXT, Expected};
use memchr::memmem::Finder;
use std::fmt;

/// Why a page is not the one that must come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// What is wrong, without values: failures of one kind read alike.
    pub(crate) kind: Kind,
    /// Where in the body, in bytes.
    pub(crate) offset: usize,
    /// What should be there.
    pub(crate) expected: String,
    /// What is there.
    pub(crate) found: String,
}

/// What can be wrong with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// It does not begin with `<!DOCTYPE html>` or not end with `</html>`.
    Incomplete,
    /// No `data-page`, or no title.
    Unmarked,
    /// Another page came.
    OtherPage,
    /// A value has another text.
    OtherValue,
    /// Another value stands where this one should.
    OtherName,
    /// Fewer values than expected.
    Missing,
    /// More values than expected.
    Extra,
    /// A value's element holds more than text, or is not closed.
    Markup,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Incomplete => "not a complete HTML document",
            Kind::Unmarked => "no data-page or no title",
            Kind::OtherPage => "another page",
            Kind::OtherValue => "a wrong value",
            Kind::OtherName => "a value in the place of another",
            Kind::Missing => "a value is missing",
            Kind::Extra => "a value too many",
            Kind::Markup => "a value that is not plain text",
        })
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: expected {}, found {}",
            self.kind, self.expected, self.found
        )
    }
}

/// The searches, prepared once.
#[derive(Debug)]
pub(crate) struct Validator {
    page: Finder<'static>,
    value: Finder<'static>,
    title: Finder<'static>,
}

impl Default for Validator {
    fn default() -> Validator {
        Validator {
            page: Finder::new(b"<body data-page=\""),
            value: Finder::new(b" data-f=\""),
            title: Finder::new(b"<title>"),
        }
    }
}

impl Validator {
    /// Whether `body` is the page that is expected.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub(crate) fn check(&self, body: &[u8], expected: &Expected) -> Result<(), Mismatch> {
        let mismatch = |kind, offset, expected: &dyn fmt::Display, found: &[u8]| Mismatch {
            kind,
            offset,
            expected: expected.to_string(),
            found: format!("`{}`", String::from_utf8_lossy(clip(found, 80))),
        };
        let trimmed = body.trim_ascii();
        if !starts_with_any_case(trimmed, b"<!doctype html>") {
            return Err(mismatch(Kind::Incomplete, 0, &"<!DOCTYPE html>", body));
        }
        if !trimmed.ends_with(b"</html>") {
            let tail = &body[body.len().saturating_sub(80)..];
            return Err(mismatch(Kind::Incomplete, body.len(), &"</html>", tail));
        }
        let after_title = self
            .title
            .find(body)
            .map(|at| at + self.title.needle().len());
        if after_title.is_none_or(|at| body.get(at).is_none_or(|byte| *byte == b'<')) {
            return Err(mismatch(Kind::Unmarked, 0, &"<title>", body));
        }
        let Some(page) = self.page.find(body) else {
            return Err(mismatch(
                Kind::Unmarked,
                0,
                &"<body data-page=\"...\">",
                body,
            ));
        };
        let after = page + self.page.needle().len();
        let name = until(b'"', &body[after..]).unwrap_or_default();
        if name != expected.page.as_bytes() {
            return Err(mismatch(Kind::OtherPage, page, &expected.page, name));
        }

        let mut rest = &expected.values[..];
        for at in self.value.find_iter(body) {
            let start = at + self.value.needle().len();
            let Some((name, text)) = element(&body[start..]) else {
                return Err(mismatch(
                    Kind::Markup,
                    at,
                    &"text and then an end tag",
                    &body[at..],
                ));
            };
            let Some(after_name) = rest
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(&[AFTER_NAME]))
            else {
                return Err(match Expected::next_value(rest) {
                    Some(next) => mismatch(Kind::OtherName, at, &Named(next), name),
                    None => mismatch(Kind::Extra, at, &"no more values", &body[at..]),
                });
            };
            let end = memchr::memchr(AFTER_TEXT, after_name).unwrap_or(after_name.len());
            if !shows(text, &after_name[..end]) {
                let next = (name, &after_name[..end]);
                return Err(mismatch(Kind::OtherValue, at, &Named(next), text));
            }
            rest = after_name.get(end + 1..).unwrap_or_default();
        }
        match Expected::next_value(rest) {
            Some(next) => Err(mismatch(Kind::Missing, body.len(), &Named(next), b"")),
            None => Ok(()),
        }
    }
}

/// A name and its text, for messages.
struct Named<'a>((&'a [u8], &'a [u8]));

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = self.0;
        write!(
            f,
            "{} `{}`",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(text)
        )
    }
}

/// The name at the start of `rest`, which stands within a start tag, and the text up to the end
/// tag.
fn element(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = until(b'"', rest)?;
    let rest = &rest[name.len()..];
    let open = memchr::memchr2(b'>', b'<', rest).filter(|at| rest[*at] == b'>')?;
    let rest = &rest[open + 1..];
    let text = until(b'<', rest)?;
    (rest.get(text.len() + 1) == Some(&b'/')).then_some((name, text))
}

/// What stands before `byte`.
fn until(byte: u8, rest: &[u8]) -> Option<&[u8]> {
    memchr::memchr(byte, rest).map(|end| &rest[..end])
}

/// Whether a browser shows `html`, which has no tags, as `plain`.
fn shows(html: &[u8], plain: &[u8]) -> bool {
    let (mut html, mut plain) = (html, plain);
    loop {
        let Some(reference) = memchr::memchr(b'&', html) else {
            return html == plain;
        };
        let Some(rest) = plain.strip_prefix(&html[..reference]) else {
            return false;
        };
        let Some((character, length)) = character(&html[reference..]) else {
            return false;
        };
        let mut utf8 = [0; 4];
        let Some(rest) = rest.strip_prefix(character.encode_utf8(&mut utf8).as_bytes()) else {
            return false;
        };
        (html, plain) = (&html[reference + length..], rest);
    }
}

/// The character that a reference stands for (`&amp;`, `&#39;`, `&#x27;`), and how many bytes the
/// reference has.
fn character(html: &[u8]) -> Option<(char, usize)> {
    let length = memchr::memchr(b';', clip(html, 12))? + 1;
    let name = std::str::from_utf8(&html[1..length - 1]).ok()?;
    let character = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    };
    Some((character, length))
}

fn starts_with_any_case(bytes: &[u8], prefix: &[u8]) -> bool {
    bytes
        .get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "<!DOCTYPE html>\n<html><head><title>Accounts</title></head>\n\
        <body data-page=\"account_summary\">\n<p>12.50</p>\
        <td data-f=\"account\">1234567890</td><td class=\"x\" data-f=\"balance\">12.50</td>\n\
        <span data-f=\"street\">1 O&#x27;Brien &quot;B&quot; Rd 9&#47;20</span>\n</body></html>\n";

    fn expected() -> Expected {
        let mut expected = Expected::default();
        expected.page("account_summary");
        expected.value("account", b"1234567890");
        expected.value("balance", b"12.50");
        expected.value("street", b"1 O'Brien \"B\" Rd 9/20");
        expected
    }

    fn check(body: &str) -> Result<(), Kind> {
        Validator::default()
            .check(body.as_bytes(), &expected())
            .map_err(|mismatch| mismatch.kind)
    }

    #[test]
    fn the_right_page_passes() {
        assert_eq!(check(GOOD), Ok(()));
        assert_eq!(
            check(&GOOD.replace("O&#x27;", "O'").replace("&quot;", "\"")),
            Ok(())
        );
        assert_eq!(check(&GOOD.replace("<!DOCTYPE", "<!doctype")), Ok(()));
    }

    #[test]
    fn every_planted_fault_is_found() {
        let balance = "<td class=\"x\" data-f=\"balance\">12.50</td>";
        for (from, to, kind) in [
            ("<!DOCTYPE html>", "", Kind::Incomplete),
            ("</html>", "", Kind::Incomplete),
            ("<title>Accounts</title>", "", Kind::Unmarked),
            ("<title>Accounts</title>", "<title></title>", Kind::Unmarked),
            (" data-page=\"account_summary\"", "", Kind::Unmarked),
            ("account_summary", "account_summar", Kind::OtherPage),
            ("account_summary", "message", Kind::OtherPage),
            ("\">12.50", "\">12.5", Kind::OtherValue),
            ("\">12.50", "\">112.50", Kind::OtherValue),
            ("\">12.50", "\">12.501", Kind::OtherValue),
            ("\">12.50", "\"> 12.50", Kind::OtherValue),
            ("\">12.50", "\">", Kind::OtherValue),
            ("O&#x27;Brien", "O&amp;#x27;Brien", Kind::OtherValue),
            ("O&#x27;Brien", "OBrien", Kind::OtherValue),
            ("O&#x27;Brien", "O&#x27Brien", Kind::OtherValue),
            ("O&#x27;Brien", "O&#x22;Brien", Kind::OtherValue),
            ("O&#x27;Brien", "O&#x110000;Brien", Kind::OtherValue),
            ("O&#x27;Brien", "O&nosuch;Brien", Kind::OtherValue),
            ("\"balance\"", "\"deposits\"", Kind::OtherName),
            (balance, "", Kind::OtherName),
            ("<span data-f=\"street\"", "<span", Kind::Missing),
            (
                "</body>",
                "<i data-f=\"street\">1 Main St</i></body>",
                Kind::Extra,
            ),
            (balance, &balance.repeat(2), Kind::OtherName),
            ("12.50</td>", "12<b>.50</b></td>", Kind::Markup),
            ("12.50</td>", "12.50<script>", Kind::Markup),
            ("data-f=\"balance\">", "data-f=\"balance\"", Kind::Markup),
        ] {
            assert!(GOOD.contains(from), "{from}");
            assert_eq!(
                check(&GOOD.replacen(from, to, 1)),
                Err(kind),
                "{from} -> {to}"
            );
        }
        assert_eq!(check(""), Err(Kind::Incomplete));
        for end in 0..GOOD.trim_end().len() {
            assert!(check(&GOOD[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn values_in_another_order_are_wrong() {
        let swapped = GOOD
            .replace("\"account\">1234567890", "\"balance\">12.50 ")
            .replacen("\"balance\">12.50<", "\"account\">1234567890<", 1);
        assert_eq!(check(&swapped), Err(Kind::OtherName));
    }

    #[test]
    fn messages_say_what_should_be_there() {
        let body = GOOD.replace("\">12.50", "\">13.50");
        let mismatch = Validator::default()
            .check(body.as_bytes(), &expected())
            .unwrap_err();
        assert_eq!(
            mismatch.to_string(),
            "a wrong value: expected balance `12.50`, found `13.50`"
        );
    }
}
