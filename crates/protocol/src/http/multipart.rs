//! Forms as `multipart/form-data` (RFC 7578, RFC 2046 section 5.1), out of content that is there as
//! a whole.
//!
//! ```text
//! --BOUNDARY CRLF  field: value CRLF ...  CRLF  content CRLF
//! --BOUNDARY CRLF  ...                    CRLF  content CRLF
//! --BOUNDARY--
//! ```
//!
//! It is as strict as the rest of HTTP here: what browsers never send, and two readers could take
//! for two things, is refused. So nothing stands before the first boundary or after the last, no
//! boundary stands in a content, and no field and no parameter of it comes twice.

use super::head::{is_token, trim};
use memchr::{memchr, memmem};

/// Most bytes of a boundary (RFC 2046, section 5.1.1).
const BOUNDARY_MAX: usize = 70;
/// Most bytes of the fields of a part.
const FIELDS_MAX: usize = 4096;

/// A part of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The field's name, as it came: see [`decode_name`].
    pub name: &'a [u8],
    /// Of a file its name, as it came; empty where a browser sends that none was chosen.
    pub file: Option<&'a [u8]>,
    /// What its Content-Type says, where it has one.
    pub content_type: Option<&'a [u8]>,
    /// What it holds.
    pub content: &'a [u8],
}

/// Content that is no form, from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub usize);

/// The boundary that a Content-Type of `multipart/form-data` names, if it is one and names it.
#[must_use]
pub fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let (media_type, mut rest) = split_at_semicolon(content_type);
    if !trim(media_type).eq_ignore_ascii_case(b"multipart/form-data") {
        return None;
    }
    let mut boundary = None;
    while !rest.is_empty() {
        let (name, value, after) = parameter(rest)?;
        if name.eq_ignore_ascii_case(b"boundary") && boundary.replace(value).is_some() {
            return None;
        }
        rest = after;
    }
    let is_fit = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    boundary.filter(|boundary| {
        (1..=BOUNDARY_MAX).contains(&boundary.len())
            && boundary.iter().all(is_fit)
            && !boundary.ends_with(b" ")
    })
}

/// The parts of a form, in order. After one that is wrong there are no more.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    content: &'a [u8],
    /// `CRLF--BOUNDARY`.
    delimiter: Vec<u8>,
    /// Where a delimiter is expected, but for its line end; nowhere where all is read.
    at: Option<usize>,
}

/// The parts of a form with this boundary.
#[must_use]
pub fn parts<'a>(content: &'a [u8], boundary: &[u8]) -> Parts<'a> {
    Parts {
        content,
        delimiter: [b"\r\n--", boundary].concat(),
        at: Some(0),
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Result<Part<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at.take()?;
        let dashes = &self.delimiter[2..];
        let Some(rest) = self.content[at..].strip_prefix(dashes) else {
            return Some(Err(Malformed(at)));
        };
        let begin = at + dashes.len();
        if let Some(end) = rest.strip_prefix(b"--") {
            return match end {
                b"" | b"\r\n" => None,
                _ => Some(Err(Malformed(begin + 2))),
            };
        }
        let part = self.part(begin);
        Some(part.map(|(part, next)| {
            self.at = Some(next);
            part
        }))
    }
}

impl<'a> Parts<'a> {
    /// The part behind a delimiter, and where the next begins.
    fn part(&self, begin: usize) -> Result<(Part<'a>, usize), Malformed> {
        let malformed = || Malformed(begin);
        let rest = &self.content[begin..];
        let rest = rest.strip_prefix(b"\r\n").ok_or_else(malformed)?;
        let most = &rest[..rest.len().min(FIELDS_MAX)];
        let fields = memmem::find(most, b"\r\n\r\n").ok_or_else(malformed)?;
        let content = &rest[fields + 4..];
        // From the blank line's end on: a delimiter that takes that for its own some read, and
        // others do not.
        let length = memmem::find(&rest[fields + 2..], &self.delimiter);
        let length = length.filter(|length| *length > 0).ok_or_else(malformed)?;
        let content = content.get(..length - 2).ok_or_else(malformed)?;
        let next = begin + 2 + fields + 2 + length + 2;
        let (name, file, content_type) = read_fields(&rest[..fields]).ok_or_else(malformed)?;
        let part = Part {
            name,
            file,
            content_type,
            content,
        };
        Ok((part, next))
    }
}

/// The name, the file's name and the content type that a part's fields say.
type Fields<'a> = (&'a [u8], Option<&'a [u8]>, Option<&'a [u8]>);

fn read_fields(fields: &[u8]) -> Option<Fields<'_>> {
    let (mut disposition, mut content_type) = (None, None);
    let mut rest = Some(fields);
    while let Some(lines) = rest {
        let (line, after) = match memmem::find(lines, b"\r\n") {
            Some(end) => (&lines[..end], Some(&lines[end + 2..])),
            None => (lines, None),
        };
        rest = after;
        let colon = memchr(b':', line)?;
        let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
        let is_text = |byte: &u8| *byte >= b' ' && *byte != 0x7f || *byte == b'\t';
        if !is_token(name) || !value.iter().all(is_text) {
            return None;
        }
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        if is(b"content-disposition") {
            if disposition.replace(read_disposition(value)?).is_some() {
                return None;
            }
        } else if is(b"content-type") {
            if content_type.replace(value).is_some() {
                return None;
            }
        } else if is(b"content-transfer-encoding") {
            // Deprecated (RFC 7578, section 4.7), and read by few.
            let is_none = |known: &str| value.eq_ignore_ascii_case(known.as_bytes());
            if !["7bit", "8bit", "binary"].into_iter().any(is_none) {
                return None;
            }
        }
    }
    let (name, file) = disposition?;
    Some((name, file, content_type))
}

/// The name, and the file's name, that `form-data; name="..."; filename="..."` says.
fn read_disposition(value: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let (kind, mut rest) = split_at_semicolon(value);
    if !trim(kind).eq_ignore_ascii_case(b"form-data") {
        return None;
    }
    let (mut name, mut file) = (None, None);
    while !rest.is_empty() {
        let (key, value, after) = parameter(rest)?;
        rest = after;
        let to = match () {
            () if key.eq_ignore_ascii_case(b"name") => &mut name,
            () if key.eq_ignore_ascii_case(b"filename") => &mut file,
            // Not to be sent (RFC 7578, section 4.2): who reads it has another name.
            () if key.ends_with(b"*") => return None,
            () => continue,
        };
        if to.replace(value).is_some() {
            return None;
        }
    }
    Some((name?, file))
}

fn split_at_semicolon(bytes: &[u8]) -> (&[u8], &[u8]) {
    match memchr(b';', bytes) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, b""),
    }
}

/// The first of some parameters, `name=value` or `name="value"`, its value without the quotes and
/// as it stands in them, and what follows the semicolon behind it.
fn parameter(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let equals = memchr(b'=', bytes)?;
    let (name, value) = (trim(&bytes[..equals]), &bytes[equals + 1..]);
    let (value, rest) = match value.strip_prefix(b"\"") {
        Some(quoted) => {
            let end = end_of_quoted(quoted)?;
            let rest = trim(&quoted[end + 1..]);
            let rest = match rest.split_first() {
                None => rest,
                Some((b';', rest)) => rest,
                Some(_) => return None,
            };
            (&quoted[..end], rest)
        }
        None => {
            let (value, rest) = split_at_semicolon(value);
            let value = trim(value);
            if !is_token(value) {
                return None;
            }
            (value, rest)
        }
    };
    is_token(name).then_some((name, value, rest))
}

/// Where a text in quotes ends. A backslash stands for itself (HTML, section 4.10.22.8), but before
/// a quote or another one, where programs that are no browsers mean that as it is.
fn end_of_quoted(quoted: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match quoted.get(at)? {
            b'"' => return Some(at),
            b'\\' if matches!(quoted.get(at + 1), Some(b'"' | b'\\')) => at += 2,
            _ => at += 1,
        }
    }
}

/// Appends a name as it was meant: browsers write quotes and line ends in it as `%22`, `%0D` and
/// `%0A` (HTML, section 4.10.22.8), other programs have a backslash before a quote.
pub fn decode_name(name: &[u8], out: &mut Vec<u8>) {
    let mut rest = name;
    while let [first, after @ ..] = rest {
        let (byte, after) = match rest {
            [b'\\', byte @ (b'"' | b'\\'), after @ ..] => (*byte, after),
            [b'%', b'2', b'2', after @ ..] => (b'"', after),
            [b'%', b'0', b'D' | b'd', after @ ..] => (b'\r', after),
            [b'%', b'0', b'A' | b'a', after @ ..] => (b'\n', after),
            _ => (*first, after),
        };
        out.push(byte);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn boundaries() {
        let of = |value: &'static str| boundary(value.as_bytes());
        for (value, found) in [
            ("multipart/form-data; boundary=abc", "abc"),
            ("Multipart/Form-Data;boundary=\"a b\"", "a b"),
            (
                "multipart/form-data; charset=utf-8; BOUNDARY=----x-1",
                "----x-1",
            ),
        ] {
            assert_eq!(of(value), Some(found.as_bytes()), "{value}");
        }
        for value in [
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary=\"\"",
            "multipart/form-data; boundary=\"a \"",
            "multipart/form-data; boundary=a; boundary=a",
            "multipart/form-data; boundary=a b",
            "multipart/form-data; boundary=\"a",
            "multipart/form-data; boundary=\"a\"b",
            "multipart/form-data; boundary=\"a\\\"\"",
            "multipart/mixed; boundary=a",
            "application/x-www-form-urlencoded",
        ] {
            assert_eq!(of(value), None, "{value}");
        }
        let long = format!("multipart/form-data; boundary={}", "a".repeat(71));
        assert_eq!(boundary(long.as_bytes()), None);
    }

    #[test]
    fn a_form_as_browsers_send_it() {
        let form = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n\
                    --b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x %22.png\"\r\n\
                    Content-Type: image/png\r\n\r\n\r\n--\r\n\0\r\n\
                    --b\r\ncontent-disposition:form-data;name=e\r\n\r\n\r\n\
                    --b--\r\n";
        let read: Vec<_> = parts(form.as_bytes(), b"b").map(Result::unwrap).collect();
        let part = |name: &'static str, file, content_type, content: &'static str| Part {
            name: name.as_bytes(),
            file,
            content_type,
            content: content.as_bytes(),
        };
        let png = Some(&b"image/png"[..]);
        assert_eq!(
            read,
            [
                part("a", None, None, "one"),
                part("f", Some(b"x %22.png"), png, "\r\n--\r\n\0"),
                part("e", None, None, ""),
            ]
        );
        assert_eq!(parts(b"--b--", b"b").count(), 0);
    }

    #[test]
    fn what_is_no_form_is_refused() {
        let field = "Content-Disposition: form-data; name=\"a\"";
        for form in [
            String::new(),
            "--c--".into(),
            "x\r\n--b--".into(),
            "--b--x".into(),
            "--b--\r\nx".into(),
            "--b".into(),
            "--b\r\n".into(),
            format!("--b\r\n{field}\r\n\r\n1"),
            format!("--b\r\n{field}\r\n\r\n--b--"),
            format!("--b\r\n{field}\r\n\r\n--b\r\n{field}\r\n\r\n1\r\n--b--"),
            format!("--b\r\n{field}\r\n\r\n1\r\n--b"),
            format!("--b\r\n{field}\r\n\r\n1\r\n--bc\r\n--b--"),
            format!("--b \r\n{field}\r\n\r\n1\r\n--b--"),
            format!("--b\n{field}\n\n1\n--b--"),
            format!("--b\r\n\r\n{field}\r\n\r\n1\r\n--b--"),
            "--b\r\nX: y\r\n\r\n1\r\n--b--".into(),
            "--b\r\n\r\n1\r\n--b--".into(),
            format!("--b\r\n{field}\r\n{field}\r\n\r\n1\r\n--b--"),
            format!("--b\r\n{field}; name=\"b\"\r\n\r\n1\r\n--b--"),
            format!("--b\r\n{field}; filename*=utf-8''x\r\n\r\n1\r\n--b--"),
            format!("--b\r\n{field}\"\r\n\r\n1\r\n--b--"),
            format!("--b\r\n {field}\r\n\r\n1\r\n--b--"),
            format!("--b\r\n{field}\r\nContent-Transfer-Encoding: base64\r\n\r\n1\r\n--b--"),
            "--b\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\n1\r\n--b--".into(),
            format!(
                "--b\r\n{field}\r\nX: {}\r\n\r\n1\r\n--b--",
                "x".repeat(FIELDS_MAX)
            ),
        ] {
            let last = parts(form.as_bytes(), b"b").last();
            assert!(matches!(last, Some(Err(_))), "{form:?}");
        }
    }

    #[test]
    fn names_as_they_were_meant() {
        for (name, meant) in [
            ("a%22b%0D%0ac%20%", "a\"b\r\nc%20%"),
            (r#"a\"b\\c\d"#, r#"a"b\c\d"#),
            ("\\", "\\"),
        ] {
            let mut out = Vec::new();
            decode_name(name.as_bytes(), &mut out);
            assert_eq!(out, meant.as_bytes(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            fields in proptest::collection::vec(
                ("[a-z %;=]{0,8}", proptest::option::of("[a-z./ ]{0,8}"),
                    proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'-'),
                        Just(b'b'), any::<u8>()], 0..40)),
                0..5,
            ),
        ) {
            prop_assume!(fields.iter().all(|(_, _, content)| {
                memmem::find(&[b"\r\n", &content[..]].concat(), b"\r\n--bb").is_none()
            }));
            let mut form = Vec::new();
            for (name, file, content) in &fields {
                form.extend_from_slice(b"--bb\r\nContent-Disposition: form-data; name=\"");
                form.extend_from_slice(name.as_bytes());
                form.push(b'"');
                if let Some(file) = file {
                    form.extend_from_slice(format!("; filename=\"{file}\"").as_bytes());
                }
                form.extend_from_slice(b"\r\n\r\n");
                form.extend_from_slice(content);
                form.extend_from_slice(b"\r\n");
            }
            form.extend_from_slice(b"--bb--");
            let read: Result<Vec<_>, _> = parts(&form, b"bb").collect();
            let read = read.unwrap();
            prop_assert_eq!(read.len(), fields.len());
            for (part, (name, file, content)) in read.iter().zip(&fields) {
                prop_assert_eq!(part.name, name.as_bytes());
                prop_assert_eq!(part.file, file.as_ref().map(String::as_bytes));
                prop_assert_eq!(part.content, &content[..]);
            }
        }

        #[test]
        fn nothing_breaks_it(
            form in "(--b|\r\n|\n|-|content-disposition:|form-data;|name=|\"|a|\r\n\r\n|: ){0,30}",
        ) {
            let all = parts(form.as_bytes(), b"b").collect::<Vec<_>>();
            let wrong = all.iter().position(Result::is_err);
            prop_assert!(wrong.is_none_or(|wrong| wrong + 1 == all.len()));
            // What is read lies one part after the other.
            let read: usize = all.iter().flatten().map(|part| part.content.len()).sum();
            prop_assert!(read <= form.len());
        }
    }
}
