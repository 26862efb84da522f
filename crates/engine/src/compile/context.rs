//! Where in HTML outputs stand. What escapes them keeps texts and quoted attributes whole; in an
//! attribute without quotes, in a script, in a style and in the attributes that are scripts or
//! styles, what is printed may still say something else than was meant, or end them.
//!
//! A page's own text is looked through in the order in which it is compiled, as browsers read it
//! (HTML, 13.2.5, *Tokenization*), but for what does not matter here. Each branch of an `if` goes
//! on from where it begins, and what follows from where the first ends. On the way it takes note
//! of the paths that the text leads to.

use super::value::Printed;
use crate::diagnostic::{Place, Report};

/// Where in HTML the text has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context {
    within: Within,
    /// The tag under way: its name, in small letters.
    tag: String,
    /// The attribute under way, in small letters, and its value so far; outputs are [`ANY`].
    attribute: String,
    value: String,
    /// Where in its file the value begins, if it began in the page's own text.
    begin: Option<usize>,
    /// Of the form under way: whether it is sent by POST, and where to.
    is_post: bool,
    action: Option<(String, usize)>,
}

/// Stands for an output, which may be anything.
pub(super) const ANY: char = '\0';

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Text,
    Comment,
    /// Behind a `<`, or a `</`, with which a piece of text ends: what follows tells what it is.
    Open,
    /// The name of a tag.
    Name,
    /// A tag, between attributes.
    Tag,
    /// An attribute's name, and what stands behind it.
    Attribute,
    AfterAttribute,
    /// Behind a `=`.
    BeforeValue,
    Quoted(u8),
    Unquoted,
    /// An element whose text is no HTML, until its end tag: `tag` has its name.
    Raw,
}

/// A path that a page's own text leads to, as it stands there.
#[derive(Debug)]
pub(crate) struct Leads<'a> {
    pub(crate) place: Place<'a>,
    /// The value of the attribute.
    pub(crate) to: String,
    pub(crate) method: &'static str,
}

/// Most of a value or a name that is kept.
const KEPT_MAX: usize = 2048;

impl Context {
    /// A piece of the page's own text follows, in this file and from this byte on. Where forms and
    /// links in it lead to is given to `leads`.
    pub(super) fn text<'a>(
        &mut self,
        text: &str,
        place: impl Fn(usize) -> Place<'a>,
        leads: &mut Vec<Leads<'a>>,
    ) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            // Within a character that is none of ASCII nothing ends.
            let (byte, Some(rest)) = (bytes[at], text.get(at..)) else {
                at += 1;
                continue;
            };
            match self.within {
                Within::Text => match rest.find('<') {
                    None => return,
                    Some(0) if rest.starts_with("<!--") => {
                        // Two of them end as they begin.
                        let ended = [">", "->"].map(|end| rest[4..].starts_with(end));
                        match ended {
                            [false, false] => self.within = Within::Comment,
                            _ => at += 1 + usize::from(ended[1]),
                        }
                        at += 3;
                    }
                    Some(0) if matches!(rest, "<" | "</") => {
                        self.within = Within::Open;
                        self.tag.clear();
                        self.tag.push_str(&rest[1..]);
                        return;
                    }
                    Some(0) if begins_tag(&bytes[at + 1..]) => {
                        self.within = Within::Name;
                        self.tag.clear();
                    }
                    Some(0) => {}
                    Some(next) => at += next - 1,
                },
                Within::Comment => match end_of_comment(rest) {
                    None => return,
                    Some(end) => {
                        self.within = Within::Text;
                        at += end - 1;
                    }
                },
                Within::Open => {
                    let is_tag = match byte {
                        b'/' if self.tag.is_empty() => begins_tag(rest.as_bytes()),
                        _ => byte.is_ascii_alphabetic(),
                    };
                    self.within = if is_tag { Within::Name } else { Within::Text };
                    continue;
                }
                Within::Raw => match end_of_raw(rest, &self.tag) {
                    None => return,
                    Some(end) => {
                        self.within = Within::Text;
                        self.tag.clear();
                        // The tag is read as any other.
                        at += end;
                        continue;
                    }
                },
                Within::Name => match byte {
                    b'>' => self.end_tag(&place, leads),
                    b'/' if self.tag.is_empty() => self.tag.push('/'),
                    b'/' => self.within = Within::Tag,
                    _ if byte.is_ascii_whitespace() => self.within = Within::Tag,
                    _ => keep(&mut self.tag, byte.to_ascii_lowercase()),
                },
                Within::Tag | Within::AfterAttribute => match byte {
                    b'>' => {
                        self.end_tag(&place, leads);
                    }
                    b'=' if self.within == Within::AfterAttribute => {
                        self.within = Within::BeforeValue;
                    }
                    _ if byte.is_ascii_whitespace() => {}
                    b'/' => {}
                    _ => {
                        self.attribute.clear();
                        self.value.clear();
                        self.begin = None;
                        keep(&mut self.attribute, byte.to_ascii_lowercase());
                        self.within = Within::Attribute;
                    }
                },
                Within::Attribute => match byte {
                    b'=' => self.within = Within::BeforeValue,
                    b'>' => self.end_tag(&place, leads),
                    b'/' => self.within = Within::Tag,
                    _ if byte.is_ascii_whitespace() => self.within = Within::AfterAttribute,
                    _ => keep(&mut self.attribute, byte.to_ascii_lowercase()),
                },
                Within::BeforeValue => match byte {
                    b'"' | b'\'' => {
                        self.begin = Some(place(at + 1).offset);
                        self.within = Within::Quoted(byte);
                    }
                    b'>' => self.end_tag(&place, leads),
                    _ if byte.is_ascii_whitespace() => {}
                    _ => {
                        self.begin = Some(place(at).offset);
                        self.within = Within::Unquoted;
                        continue;
                    }
                },
                Within::Quoted(quote) => {
                    let end = rest.bytes().position(|byte| byte == quote);
                    let value = &rest[..end.unwrap_or(rest.len())];
                    keep_all(&mut self.value, value);
                    let Some(end) = end else {
                        return;
                    };
                    at += end;
                    self.end_attribute(&place);
                    self.push_lead(&place, leads);
                    self.within = Within::Tag;
                }
                Within::Unquoted => match byte {
                    b'>' => {
                        self.end_attribute(&place);
                        self.push_lead(&place, leads);
                        self.end_tag(&place, leads);
                    }
                    _ if byte.is_ascii_whitespace() => {
                        self.end_attribute(&place);
                        self.push_lead(&place, leads);
                        self.within = Within::Tag;
                    }
                    _ => keep(&mut self.value, byte),
                },
            }
            at += 1;
        }
    }

    /// An output follows: what is wrong with its standing there is reported.
    pub(super) fn output(&mut self, printed: Printed, place: Place<'_>, report: &mut Report) {
        let wrong = match printed {
            Printed::Open => self.wrong().or_else(|| self.wrong_url()),
            Printed::Path => self.wrong(),
            Printed::Json => self.wrong_json(),
            Printed::Known => None,
        };
        if let Some((what, hint)) = wrong {
            let message = format!("this output stands in {what}");
            report.warning(place, message, hint);
        }
        match self.within {
            Within::BeforeValue => {
                self.within = Within::Unquoted;
                self.value.push(ANY);
            }
            Within::Quoted(_) | Within::Unquoted => self.value.push(ANY),
            // Attributes are put together by outputs.
            Within::Tag | Within::AfterAttribute => {
                self.attribute = ANY.to_string();
                self.value.clear();
                self.within = Within::Attribute;
            }
            Within::Attribute => self.attribute.push(ANY),
            // A number begins no tag.
            Within::Open if printed == Printed::Known => self.within = Within::Text,
            Within::Open => self.within = Within::Name,
            Within::Text | Within::Comment | Within::Name | Within::Raw => {}
        }
    }

    /// What is wrong with a text that is printed here: what it stands in, and what helps.
    fn wrong(&self) -> Option<(&'static str, &'static str)> {
        let is_handler = self.attribute.len() > 2 && self.attribute.starts_with("on");
        match self.within {
            Within::Raw if self.tag == "script" => Some((
                "a script, where what escapes HTML does not help",
                "{{ value|tojson }} makes it a value of the script; or put it into an attribute, \
                 such as data-name=\"{{ value }}\", and have the script read that",
            )),
            Within::Raw if self.tag == "style" => Some((
                "a style sheet, where what escapes HTML does not help",
                "choose between classes that the sheet has: class=\"{{ 'a' if x else 'b' }}\"",
            )),
            Within::Quoted(_) if is_handler => Some((
                "an attribute that is a script: what is escaped there is read as it was again",
                "put it into an attribute of its own, data-name=\"{{ value }}\", and have the \
                 script read that (this.dataset.name)",
            )),
            Within::Quoted(_) if self.attribute == "style" => Some((
                "a `style`, where it may say anything that a style can",
                "choose between classes: class=\"{{ 'a' if x else 'b' }}\"",
            )),
            Within::Quoted(_) if self.attribute == "srcdoc" => Some((
                "a document of its own: what is escaped there is read as HTML again",
                "give the frame a page of its own: src=\"{{ url_for('frame.html', id=id) }}\"",
            )),
            Within::Open
            | Within::Name
            | Within::Tag
            | Within::Attribute
            | Within::AfterAttribute => Some((
                "a tag, outside of the value of an attribute: it may be any attribute",
                "put it into a value in quotes: name=\"{{ value }}\"; what is one of several is \
                 {{ 'checked' if x }}",
            )),
            Within::BeforeValue | Within::Unquoted => Some((
                "an attribute without quotes, which ends where the text has a blank",
                "put quotes around it: name=\"{{ value }}\"",
            )),
            _ => None,
        }
    }

    /// The same where it begins a URL that is opened: `javascript:` is one that is a script.
    fn wrong_url(&self) -> Option<(&'static str, &'static str)> {
        let is_opened = match self.attribute.as_str() {
            "href" | "action" | "formaction" => true,
            "src" => matches!(&*self.tag, "iframe" | "frame" | "embed" | "script"),
            "data" => self.tag == "object",
            _ => false,
        };
        let begins = matches!(self.within, Within::Quoted(_)) && self.value.trim().is_empty();
        (is_opened && begins).then_some((
            "a URL that begins with it: it may be `javascript:...`, a script",
            "begin it with what is always there, href=\"/items/{{ name }}\" or \
             href=\"https://{{ site }}\"; or print url_for(...), `here`, or a parameter of type = \
             \"path\"",
        ))
    }

    /// The same of JSON, in which `<`, `>`, `&` and `'` are escaped, and nothing else is.
    fn wrong_json(&self) -> Option<(&'static str, &'static str)> {
        match self.within {
            Within::Quoted(b'"') => Some((
                "an attribute in double quotes, which those of JSON end",
                "put it into single quotes, which JSON has none of: name='{{ value|tojson }}'",
            )),
            Within::BeforeValue | Within::Unquoted => Some((
                "an attribute without quotes, which ends where JSON has a blank",
                "put it into single quotes, which JSON has none of: name='{{ value|tojson }}'",
            )),
            _ => None,
        }
    }

    /// Takes note of what a tag's attribute says.
    fn end_attribute<'a>(&mut self, place: &impl Fn(usize) -> Place<'a>) {
        if self.tag != "form" {
            return;
        }
        match self.attribute.as_str() {
            "method" => self.is_post = self.value.trim().eq_ignore_ascii_case("post"),
            "action" => {
                let begin = self.begin.unwrap_or(place(0).offset);
                self.action = Some((self.value.clone(), begin));
            }
            _ => {}
        }
    }

    /// A link leads somewhere, or a picture, a script or a frame is there.
    fn push_lead<'a>(&self, place: &impl Fn(usize) -> Place<'a>, leads: &mut Vec<Leads<'a>>) {
        if matches!(&*self.attribute, "href" | "src") && !self.tag.starts_with('/') {
            leads.push(Leads {
                place: Place {
                    offset: self.begin.unwrap_or(place(0).offset),
                    ..place(0)
                },
                to: self.value.clone(),
                method: "GET",
            });
        }
    }

    fn end_tag<'a>(&mut self, place: &impl Fn(usize) -> Place<'a>, leads: &mut Vec<Leads<'a>>) {
        if let Some((to, offset)) = self.action.take() {
            let method = match self.is_post {
                true => "POST",
                false => "GET",
            };
            let place = Place { offset, ..place(0) };
            leads.push(Leads { place, to, method });
        }
        self.is_post = false;
        self.attribute.clear();
        self.value.clear();
        self.within = match self.tag.as_str() {
            "script" | "style" | "textarea" | "title" => Within::Raw,
            _ => Within::Text,
        };
    }
}

/// Whether what stands behind a `<` is a tag.
fn begins_tag(behind: &[u8]) -> bool {
    match behind {
        [b'/', first, ..] | [first, ..] => first.is_ascii_alphabetic(),
        [] => false,
    }
}

/// Where a comment ends, behind its end.
fn end_of_comment(text: &str) -> Option<usize> {
    let ends = ["-->", "--!>"].map(|end| text.find(end).map(|at| at + end.len()));
    ends.into_iter().flatten().min()
}

/// Where an element whose text is no HTML ends.
fn end_of_raw(text: &str, name: &str) -> Option<usize> {
    let is_end = |at: &usize| {
        let behind = &text.as_bytes()[at + 2..];
        behind.len() >= name.len()
            && behind[..name.len()].eq_ignore_ascii_case(name.as_bytes())
            && !behind
                .get(name.len())
                .is_some_and(u8::is_ascii_alphanumeric)
    };
    text.match_indices("</").map(|(at, _)| at).find(is_end)
}

fn keep(text: &mut String, byte: u8) {
    // Of others than ASCII it does not matter which they are.
    if text.len() < KEPT_MAX {
        text.push(if byte.is_ascii() {
            byte.into()
        } else {
            '\u{fffd}'
        });
    }
}

fn keep_all(text: &mut String, more: &str) {
    if text.len() + more.len() <= KEPT_MAX {
        text.push_str(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a text in which each `@` is an output, and where it leads to.
    fn read(text: &str) -> (Vec<String>, Vec<(String, &'static str, usize)>) {
        let file = Place {
            file: "x.html",
            text,
            offset: 0,
        };
        let (mut context, mut report) = (Context::default(), Report::default());
        let (mut leads, mut at) = (Vec::new(), 0);
        for (nth, piece) in text.split('@').enumerate() {
            if nth > 0 {
                let place = Place { offset: at, ..file };
                context.output(Printed::Open, place, &mut report);
                at += 1;
            }
            let place = |offset| Place {
                offset: at + offset,
                ..file
            };
            context.text(piece, place, &mut leads);
            at += piece.len();
        }
        let told = report.into_sorted().into_iter().map(|it| it.message);
        let leads = leads.into_iter();
        let leads = leads.map(|it| (it.to, it.method, it.place.offset));
        (told.collect(), leads.collect())
    }

    #[test]
    fn outputs_are_told_of_where_escaping_does_not_help() {
        for (text, told) in [
            ("<ü>ß<p ü=ü é title=\"é@\" ü><é @>é", None),
            ("<p>@</p><a title=\"@\" lang='@'>@", None),
            ("<!-- <script> -->@", None),
            ("<!-- > --!><p @>", Some("a tag, outside")),
            ("<!--><p @>", Some("a tag, outside")),
            ("<!---><p @>", Some("a tag, outside")),
            ("<!----><p @>", Some("a tag, outside")),
            ("<@>", Some("a tag, outside")),
            ("<iframe srcdoc='@'>", Some("a document of its own")),
            ("<a href=\"@\">", Some("a URL that begins with it")),
            ("<form action=' @'>", Some("a URL that begins with it")),
            ("<iframe src='@'>", Some("a URL that begins with it")),
            ("<a href='/@' title='@'><img src='@'><p data='@'>", None),
            ("a < b @ <3 @", None),
            ("<textarea><b x=@</textarea>@", None),
            ("<p @>", Some("a tag, outside")),
            ("<p data-@=\"@\">", Some("a tag, outside")),
            ("<td width=@>", Some("an attribute without quotes")),
            ("<td width=1@ x>", Some("an attribute without quotes")),
            ("<SCRIPT src='x'>var a = @</script>", Some("a script")),
            ("<script></script>@", None),
            ("<script>'<script>' </scripture> @", Some("a script")),
            ("<style>a { @ }</style>", Some("a style sheet")),
            ("<p style='@'>", Some("a `style`")),
            (
                "<p onClick = \"f('@')\">",
                Some("an attribute that is a script"),
            ),
            ("<p on=\"@\" once=\"\">", None),
        ] {
            let (found, _) = read(text);
            match told {
                None => assert_eq!(found, [""; 0], "{text}"),
                Some(what) => {
                    let begins = format!("this output stands in {what}");
                    assert!(found[0].starts_with(&begins), "{text}: {found:?}");
                    assert_eq!(found.len(), 1, "{text}");
                }
            }
        }
    }

    #[test]
    fn it_is_known_where_links_and_forms_lead() {
        let (_, leads) = read(
            "<a class=x href=\"/a?b=@\">b</a> <form action=/b method='POST'> \
             <form action='/c'><a href=/d@/e><img src='/f.png'>",
        );
        let leads: Vec<_> = leads.iter().map(|(to, how, _)| (&to[..], *how)).collect();
        let expected = [
            ("/a?b=\0", "GET"),
            ("/b", "POST"),
            ("/c", "GET"),
            ("/d\0/e", "GET"),
            ("/f.png", "GET"),
        ];
        assert_eq!(leads, expected);
    }
}
