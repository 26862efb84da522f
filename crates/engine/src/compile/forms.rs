//! Forms that lack a CSRF token: where a service asks for tokens, what such a form sends is
//! refused.
//!
//! A page's own text is looked through in the order in which it is compiled: where forms begin and
//! end, and whether a token is printed between. One that is printed on some paths will do.

use crate::diagnostic::{Place, Report};

/// What is known of the forms of the text so far.
#[derive(Debug, Default)]
pub(crate) struct Forms<'a> {
    /// Whether they need tokens.
    pub(super) need_tokens: bool,
    /// Whether the page has begun or ended a session before them: then it has no token.
    pub(super) session_changes: bool,
    /// What the text is in the middle of.
    within: Option<Within<'a>>,
    /// Where forms that need a token begin, and have none yet.
    open: Vec<Place<'a>>,
}

#[derive(Debug)]
enum Within<'a> {
    Comment,
    /// The tag of a form: where it begins, and what of it came.
    Tag(Place<'a>, String),
}

const COMMENT: [&str; 2] = ["<!--", "-->"];

impl<'a> Forms<'a> {
    /// A piece of the page's own text follows; `place` tells where a byte of it stands.
    pub(super) fn text(
        &mut self,
        mut text: &str,
        place: impl Fn(usize) -> Place<'a>,
        report: &mut Report,
    ) {
        if !self.need_tokens {
            return;
        }
        let whole = text.len();
        loop {
            match self.within.take() {
                None => {
                    let Some(at) = text.find('<') else {
                        return;
                    };
                    text = &text[at..];
                    if text.starts_with(COMMENT[0]) {
                        self.within = Some(Within::Comment);
                        text = &text[COMMENT[0].len()..];
                    } else if begins_with_tag(text, "<form") {
                        self.within = Some(Within::Tag(place(whole - text.len()), String::new()));
                        text = &text["<form".len()..];
                    } else {
                        if begins_with_tag(text, "</form") {
                            self.end(report);
                        }
                        text = &text[1..];
                    }
                }
                Some(Within::Comment) => match text.split_once(COMMENT[1]) {
                    Some((_, rest)) => text = rest,
                    None => {
                        self.within = Some(Within::Comment);
                        return;
                    }
                },
                Some(Within::Tag(begin, mut tag)) => {
                    let end = end_of_tag(&tag, text);
                    tag.push_str(&text[..end.unwrap_or(text.len())]);
                    let Some(end) = end else {
                        self.within = Some(Within::Tag(begin, tag));
                        return;
                    };
                    if needs_token(&tag) {
                        self.open.push(begin);
                    }
                    text = &text[end + 1..];
                }
            }
        }
    }

    /// A token is printed.
    pub(super) fn token(&mut self) {
        self.open.clear();
    }

    /// A form ends, or the page with it.
    pub(super) fn end(&mut self, report: &mut Report) {
        self.within = None;
        for place in self.open.drain(..) {
            let hint = "{{ csrf_input }} after this tag writes it; a page that takes forms without \
                        one says csrf = false";
            report.warning(place, "this form sends no CSRF token", hint);
        }
    }
}

/// Whether a text begins with a tag of this name, in any case.
fn begins_with_tag(text: &str, name: &str) -> bool {
    let (text, length) = (text.as_bytes(), name.len());
    text.len() >= length
        && text[..length].eq_ignore_ascii_case(name.as_bytes())
        && (text.get(length)).is_none_or(|next| b" \t\r\n\x0c/>".contains(next))
}

/// Where in a text a tag ends of which this came before: at the first `>` outside of quotes.
fn end_of_tag(before: &str, text: &str) -> Option<usize> {
    let mut quote = None;
    let mut follow = |byte: u8| {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
        quote.is_none() && byte == b'>'
    };
    before.bytes().for_each(|byte| _ = follow(byte));
    text.bytes().position(follow)
}

/// Whether what a form of this tag sends needs a token: it goes by POST, and not to another site.
fn needs_token(tag: &str) -> bool {
    let is_post =
        attribute(tag, "method").is_some_and(|method| method.eq_ignore_ascii_case("post"));
    let action = attribute(tag, "action")
        .unwrap_or_default()
        .to_ascii_lowercase();
    is_post
        && !["http:", "https:", "//"]
            .iter()
            .any(|other| action.starts_with(other))
}

/// The value of a tag's attribute.
fn attribute<'t>(tag: &'t str, wanted: &str) -> Option<&'t str> {
    let mut rest = tag;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(|c: char| c.is_ascii_whitespace() || c == '=');
        let (name, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let (value, behind) = match behind.trim_start().strip_prefix('=') {
            None => ("", behind),
            Some(value) => {
                let value = value.trim_start();
                match value.chars().next().filter(|quote| "\"'".contains(*quote)) {
                    Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
                    None => {
                        let end = value.find(|c: char| c.is_ascii_whitespace());
                        value.split_at(end.unwrap_or(value.len()))
                    }
                }
            }
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value.trim());
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the forms that lack a token; `@` in a text is one, and parts it.
    fn lacking(text: &str) -> Vec<u32> {
        let file = Place {
            file: "x.html",
            text,
            offset: 0,
        };
        let (mut forms, mut report) = (Forms::default(), Report::default());
        forms.need_tokens = true;
        let mut at = 0;
        for (nth, piece) in text.split('@').enumerate() {
            if nth > 0 {
                forms.token();
                at += 1;
            }
            let place = |offset| Place {
                offset: at + offset,
                ..file
            };
            forms.text(piece, place, &mut report);
            at += piece.len();
        }
        forms.end(&mut report);
        let found = report.into_sorted();
        found.iter().map(|warning| warning.line).collect()
    }

    #[test]
    fn forms_that_post_within_the_site_need_a_token() {
        for (text, lines) in [
            ("<form method=post>@</form>", &[][..]),
            ("<form method=post></form>@", &[1]),
            ("<form method=post>", &[1]),
            ("<FORM\nMethod = 'POST' action=/a>\n</FORM >", &[1]),
            ("\n<form action='a>b' method=\"post\"></form>", &[2]),
            ("<form action='>' method='get'></form>", &[]),
            ("<form></form><former method=post>", &[]),
            (
                "<form method=post action=https://else.example/></form>",
                &[],
            ),
            ("<form method=post action='//else.example'></form>", &[]),
            ("<!-- <form method=post> > -->@<!-- ", &[]),
            ("@\n<form method=post>\n</form><form method=post>@", &[2]),
            // Two that begin, of which a page has one.
            ("<form method=post>\n<form method=post>@</form>", &[]),
            ("<form data-x method=post></form>", &[1]),
            ("a < b 'c <form method=post></form>", &[1]),
        ] {
            assert_eq!(lacking(text), lines, "{text}");
        }
    }

    #[test]
    fn a_tag_may_have_outputs_in_it() {
        let (mut forms, mut report) = (Forms::default(), Report::default());
        forms.need_tokens = true;
        let place = Place {
            file: "x.html",
            text: "",
            offset: 0,
        };
        for piece in ["<form action=\"/a/", "?x='\" method=po", "st>", "</form>"] {
            forms.text(piece, |_| place, &mut report);
        }
        assert_eq!(report.into_sorted().len(), 1);
    }
}
