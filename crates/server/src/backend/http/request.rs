//! Requests, out of what a call asks: the words of its form are a method, a target, content, and
//! header fields. Each argument is encoded for where it stands, so that it cannot leave its place.

use rhythm_engine::cohort::{Argument, FormPart};
use rhythm_engine::program::Form;
use rhythm_protocol::http::client::RequestWriter;
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::response::HeaderName;
use rhythm_protocol::http::uri;

/// The words of a form.
const METHOD: usize = 0;
const TARGET: usize = 1;
const CONTENT: usize = 2;

/// Memory for what requests are made of.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Behind the backend's own path, so that it begins with that.
    target: Vec<u8>,
    path_length: usize,
    printed: Vec<u8>,
    content: Vec<u8>,
    /// Header fields: of each where its name ends, and its value.
    fields: Vec<[usize; 2]>,
    field_bytes: Vec<u8>,
}

/// What a server is told beside what a call asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub(super) host: &'a str,
    pub(super) token: Option<&'a str>,
    /// Whole lines of the head, by what requests and traces are known. A field of the page's that
    /// has the name of one is not sent: of two, which counts would be the server's to choose.
    pub(super) fields: &'a [u8],
}

impl Requests {
    /// For requests to what lies behind this path.
    pub(super) fn new(path: &str) -> Requests {
        let target = path.strip_suffix('/').unwrap_or(path).as_bytes().to_vec();
        Requests {
            path_length: target.len(),
            target,
            ..Requests::default()
        }
    }

    /// Appends a request. The call is one that was checked.
    pub(super) fn write<'a>(
        &mut self,
        form: &Form,
        arguments: impl Iterator<Item = Argument<'a>>,
        told: Told<'_>,
        out: &mut Vec<u8>,
    ) {
        let Told {
            host,
            token,
            fields,
        } = told;
        self.target.truncate(self.path_length);
        self.content.clear();
        self.fields.clear();
        self.field_bytes.clear();
        let mut method = Method::default();
        form.parts(arguments, |word, part| match (word, part) {
            (METHOD, FormPart::Literal(name)) => method = Method::named(name).unwrap_or_default(),
            (METHOD, FormPart::Argument(_)) => {}
            (TARGET, FormPart::Literal(literal)) => self.target.extend_from_slice(literal),
            (TARGET, FormPart::Argument(Argument::Text(text))) => {
                uri::encode(text, &mut self.target);
            }
            (TARGET, FormPart::Argument(argument)) => {
                self.printed.clear();
                argument.print(&mut self.printed);
                uri::encode(&self.printed, &mut self.target);
            }
            (CONTENT, FormPart::Literal(literal)) => self.content.extend_from_slice(literal),
            (CONTENT, FormPart::Argument(argument)) => write_json(argument, &mut self.content),
            (_, FormPart::Literal(name)) => {
                if let Some(name) = name.strip_suffix(b":") {
                    self.field_bytes.extend_from_slice(name);
                    self.fields.push([self.field_bytes.len(); 2]);
                }
            }
            (_, FormPart::Argument(value)) => {
                value.print(&mut self.field_bytes);
                if let Some([_, end]) = self.fields.last_mut() {
                    *end = self.field_bytes.len();
                }
            }
        });
        let mut request = RequestWriter::new(out, method, &self.target, host);
        request.lines(fields);
        let mut field = |name: &str, value: &[u8]| {
            if let Some(name) = HeaderName::new(name) {
                request.header(name, value);
            }
        };
        field("Accept", b"application/json");
        if let Some(token) = token {
            field("Authorization", format!("Bearer {token}").as_bytes());
        }
        let mut start = 0;
        for [name_end, end] in &self.fields {
            let name = std::str::from_utf8(&self.field_bytes[start..*name_end]);
            let name = name.unwrap_or_default();
            if !says(fields, name) {
                field(name, &self.field_bytes[*name_end..*end]);
            }
            start = *end;
        }
        if !self.content.is_empty() {
            field("Content-Type", b"application/json");
        }
        match method {
            Method::Post | Method::Put | Method::Patch => request.body(&self.content),
            _ => request.end(),
        }
    }
}

/// Whether one of these lines is a field's of this name.
fn says(lines: &[u8], name: &str) -> bool {
    let mut lines = lines.split(|byte| *byte == b'\n');
    lines.any(|line| {
        let named = line.split_at_checked(name.len());
        named.is_some_and(|(start, rest)| {
            start.eq_ignore_ascii_case(name.as_bytes()) && rest.first() == Some(&b':')
        })
    })
}

/// Appends a value of JSON (RFC 8259).
fn write_json(argument: Argument<'_>, out: &mut Vec<u8>) {
    // A vector takes all that is written to it.
    let _ = match argument {
        Argument::Text(text) => serde_json::to_writer(out, &String::from_utf8_lossy(text)),
        Argument::Int(value) => serde_json::to_writer(out, &value),
        // What is no number there is null.
        Argument::Float(value) => serde_json::to_writer(out, &value),
        Argument::Bool(value) => serde_json::to_writer(out, &value),
    };
}

/// A request as the log has it: the method and the target, with `{}` for each argument.
pub(super) fn shown(form: &Form) -> String {
    let mut shown = Vec::new();
    let arguments = form.arguments.iter().map(|_| Argument::Int(0));
    form.parts(arguments, |word, part| match (word, part) {
        (METHOD, FormPart::Literal(literal)) => {
            shown.extend_from_slice(literal);
            shown.push(b' ');
        }
        (TARGET, FormPart::Literal(literal)) => shown.extend_from_slice(literal),
        (TARGET, FormPart::Argument(_)) => shown.extend_from_slice(b"{}"),
        _ => {}
    });
    String::from_utf8_lossy(&shown).into_owned()
}

/// Segments of a path, a part at a time.
#[derive(Debug, Default)]
struct Segments {
    dots: usize,
    has_others: bool,
    has_arguments: bool,
    /// The path has ended, and what comes is its query.
    is_over: bool,
}

/// What is wrong with a segment of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It is `.` or `..`, as it stands in the page.
    Dots,
    /// Its arguments are such, or empty: the path would be that of something else.
    Argument,
}

impl Segments {
    fn text(&mut self, text: &[u8]) {
        let dots = text.iter().filter(|byte| **byte == b'.').count();
        self.dots += dots;
        self.has_others |= dots < text.len();
    }

    /// A segment ends.
    fn end(&mut self) -> Result<(), Unfit> {
        let ended = std::mem::take(self);
        match (ended.has_others, ended.dots, ended.has_arguments) {
            (false, 0..=2, true) => Err(Unfit::Argument),
            (false, 1..=2, false) => Err(Unfit::Dots),
            _ => Ok(()),
        }
    }

    fn literal(&mut self, literal: &[u8]) -> Result<(), Unfit> {
        let path = literal.split(|byte| *byte == b'?').next();
        for (number, text) in path
            .unwrap_or_default()
            .split(|byte| *byte == b'/')
            .enumerate()
        {
            if number > 0 {
                self.end()?;
            }
            self.text(text);
        }
        if literal.contains(&b'?') {
            self.end()?;
            self.is_over = true;
        }
        Ok(())
    }

    fn argument(&mut self, argument: Argument<'_>) {
        self.has_arguments = true;
        match argument {
            Argument::Text(text) => self.text(text),
            _ => self.has_others = true,
        }
    }
}

/// Tells whether no argument makes the path another's: `.` and `..` are taken out of paths however
/// they are encoded (RFC 3986, section 6.2.2), and an empty segment is what lies above it.
///
/// # Errors
/// What is wrong with the path.
pub(super) fn check_path<'a>(
    form: &Form,
    arguments: impl Iterator<Item = Argument<'a>>,
) -> Result<(), Unfit> {
    let (mut segments, mut result) = (Segments::default(), Ok(()));
    form.parts(arguments, |word, part| {
        if word == TARGET && !segments.is_over && result.is_ok() {
            match part {
                FormPart::Literal(literal) => result = segments.literal(literal),
                FormPart::Argument(argument) => segments.argument(argument),
            }
        }
    });
    result?;
    match segments.is_over {
        true => Ok(()),
        false => segments.end(),
    }
}

/// The literal parts of a request's target, and the names of its header fields.
pub(super) fn literals(form: &Form) -> (Vec<u8>, Vec<String>) {
    let (mut target, mut fields) = (Vec::new(), Vec::new());
    let arguments = form.arguments.iter().map(|_| Argument::Int(0));
    form.parts(arguments, |word, part| match (word, part) {
        (TARGET, FormPart::Literal(literal)) => {
            target.extend_from_slice(literal);
            // What an argument ends is no escape.
            target.push(b'/');
        }
        (TARGET | METHOD | CONTENT, _) | (_, FormPart::Argument(_)) => {}
        (_, FormPart::Literal(name)) => {
            fields.push(
                String::from_utf8_lossy(name)
                    .trim_end_matches(':')
                    .to_owned(),
            );
        }
    });
    (target, fields)
}
