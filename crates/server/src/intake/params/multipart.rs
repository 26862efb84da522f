//! Parameters in a form of parts (`multipart/form-data`): texts, and files.
//!
//! What a file holds is stored as its page reads it. Its name is what the client says and is only
//! shown: of the path that some send the last part is kept, without control characters.

use super::lane::{BadParameter, Lane, scalar};
use super::lists::{Found, Place};
use super::scalars::Scalars;
use crate::site::content::NAME_MAX;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rhythm_engine::program::{Carrier, FileFields, PageProgram, Param, ParamType};
use rhythm_protocol::http::head::is_token;
use rhythm_protocol::http::multipart::{Part, decode_name, parts};

/// How many parts a form has at most.
const PARTS_MAX: usize = 1024;
/// What a file is of which the client does not say it.
const UNKNOWN: &str = "application/octet-stream";

/// Takes the parameters that a form has.
///
/// # Errors
/// It is no form, and where; or a parameter is wrong.
pub(super) fn read(
    content: &[u8],
    boundary: &[u8],
    page: &PageProgram,
    found: &mut Found<'_>,
    lane: &mut Lane<'_>,
) -> Result<(), BadParameter> {
    let mut name = Vec::new();
    for (number, part) in parts(content, boundary).enumerate() {
        let part = part.map_err(|malformed| {
            BadParameter::of_content("is no form of parts", content, malformed.0)
        })?;
        if number == PARTS_MAX {
            return Err(BadParameter::new("", "is one of too many"));
        }
        name.clear();
        decode_name(part.name, &mut name);
        if let Some(scalar) = scalar(page, Carrier::Form, &name) {
            take(page, scalar, &part, found.scalars, lane)?;
        } else if let Some(place) = Place::of(page, Carrier::Form, &name) {
            found.lists.take(place.list(page), place, |values| {
                values.extend_from_slice(text_of(&part)?);
                Ok(())
            });
        }
    }
    Ok(())
}

/// The value of a field that is no file.
fn text_of<'a>(part: &Part<'a>) -> Result<&'a [u8], &'static str> {
    match part.file {
        Some(_) => Err("is a file"),
        None if memchr::memchr(0, part.content).is_some() => Err("cannot be decoded"),
        None => Ok(part.content),
    }
}

/// Takes a scalar.
fn take(
    page: &PageProgram,
    scalar: (usize, u8),
    part: &Part<'_>,
    scalars: &mut Scalars,
    lane: &mut Lane<'_>,
) -> Result<(), BadParameter> {
    let param = &page.params[scalar.0];
    let Some(fields) = &param.file else {
        return scalars.take(page, scalar, text_of(part), lane);
    };
    let checked = match part.file {
        // Nothing was chosen.
        Some(b"") if part.content.is_empty() => return Ok(()),
        Some(_) if scalars.has(scalar.0) => Err("is given twice"),
        Some(file) => checked(param, fields, file, part.content),
        None => Err("is not a file"),
    };
    scalars.met(scalar);
    match checked {
        Ok(name) => {
            store(fields, &name, part, lane);
            Ok(())
        }
        Err(problem) => lane.wrong(param.told, &param.wire_name, problem),
    }
}

/// The name of a file that is as its page has it.
fn checked(
    param: &Param,
    fields: &FileFields,
    file: &[u8],
    content: &[u8],
) -> Result<String, &'static str> {
    let most = match param.kind {
        ParamType::File { max_bytes } => max_bytes as usize,
        _ => 0,
    };
    if content.len() > most {
        return Err("is too large");
    }
    if fields.text.is_some() && std::str::from_utf8(content).is_err() {
        return Err("is not UTF-8");
    }
    let mut name = Vec::new();
    decode_name(file, &mut name);
    Ok(base_name(&name))
}

/// What a file is called, without folders: never a folder itself.
fn base_name(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = (last.chars())
        .filter(|c| !c.is_control())
        .take(NAME_MAX)
        .collect();
    match kept.trim() {
        "" | "." | ".." => "file".to_owned(),
        name => name.to_owned(),
    }
}

/// The type and subtype that a client says, without parameters.
fn media_type(given: Option<&[u8]>) -> &str {
    let given = given.and_then(|given| std::str::from_utf8(given).ok());
    let given = given.unwrap_or_default();
    let given = given.split(';').next().unwrap_or_default().trim();
    let is_sound = |(kind, of): (&str, &str)| is_token(kind.as_bytes()) && is_token(of.as_bytes());
    match given.split_once('/').is_some_and(is_sound) {
        true => given,
        false => UNKNOWN,
    }
}

fn store(fields: &FileFields, name: &str, part: &Part<'_>, lane: &mut Lane<'_>) {
    let content = part.content;
    lane.set_text(fields.name, |out| out.extend_from_slice(name.as_bytes()));
    let content_type = media_type(part.content_type).as_bytes();
    lane.set_text(fields.content_type, |out| {
        out.extend_from_slice(content_type)
    });
    lane.set_int(
        fields.size,
        i64::try_from(content.len()).unwrap_or(i64::MAX),
    );
    if let Some(text) = fields.text {
        lane.set_text(text, |out| out.extend_from_slice(content));
    }
    if let Some(hex) = fields.hex {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
        lane.set_text(hex, |out| out.extend(content.iter().flat_map(digits)));
    }
    if let Some(base64) = fields.base64 {
        let encoded = BASE64_STANDARD.encode(content);
        lane.set_text(base64, |out| out.extend_from_slice(encoded.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_have_no_folders() {
        for (given, name) in [
            ("a.png", "a.png"),
            ("C:\\Documents\\a b.png", "a b.png"),
            ("../../etc/passwd", "passwd"),
            ("/", "file"),
            ("..", "file"),
            ("a/..", "file"),
            (" .. ", "file"),
            ("", "file"),
            ("a\r\nb\u{0}c", "abc"),
            ("\u{e9}.txt", "\u{e9}.txt"),
        ] {
            assert_eq!(base_name(given.as_bytes()), name, "{given:?}");
        }
        assert_eq!(base_name(b"\xff.txt"), "\u{fffd}.txt");
        assert_eq!(
            base_name("\u{e9}".repeat(300).as_bytes()).chars().count(),
            NAME_MAX
        );
    }

    #[test]
    fn types_of_contents() {
        for (given, said) in [
            ("image/png", "image/png"),
            ("text/plain; charset=utf-8", "text/plain"),
            ("", UNKNOWN),
            ("png", UNKNOWN),
            ("a/b<c>", UNKNOWN),
        ] {
            assert_eq!(media_type(Some(given.as_bytes())), said, "{given}");
        }
        assert_eq!(media_type(None), UNKNOWN);
    }
}
