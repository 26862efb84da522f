//! Error answers: status and reason as a small page, or a page of the site's own.

use crate::answer::{AnswerShape, Answered};
use rhythm_protocol::html::escape;
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::response::{ResponseWriter, reason};

/// Seconds after which a client may try again where the server had no room.
const RETRY_SECONDS: u64 = 1;

/// A site's own page for a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    /// Its Content-Type.
    pub content_type: String,
    /// Its body where there is nothing more to be said.
    pub plain: Box<[u8]>,
    /// Its body where there is a sentence more: what stands round the places where that, escaped as
    /// HTML or JSON, goes.
    pub pieces: Vec<Box<[u8]>>,
}

impl ErrorPage {
    fn body(&self, detail: &str) -> Vec<u8> {
        if detail.is_empty() {
            return self.plain.to_vec();
        }
        let mut sentence = String::new();
        match is_json(&self.content_type) {
            true => escape_json(detail, &mut sentence),
            false => escape(detail, &mut sentence),
        }
        self.pieces.join(sentence.as_bytes())
    }
}

/// Whether a content type is that of JSON (RFC 6839, section 3.1, has the suffix).
#[must_use]
pub fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// Appends a text as it stands in a string of JSON.
fn escape_json(text: &str, to: &mut String) {
    for c in text.chars() {
        match c {
            '"' | '\\' => to.extend(['\\', c]),
            '\0'..' ' => to.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => to.push(c),
        }
    }
}

/// The body of an error answer of what answers JSON, where a site has none of its own.
fn json_body(status: u16, detail: &str) -> Vec<u8> {
    let reason = reason(status);
    let mut sentence = String::new();
    escape_json(detail, &mut sentence);
    let body =
        format!("{{\"status\":{status},\"reason\":\"{reason}\",\"message\":\"{sentence}\"}}");
    body.into_bytes()
}

/// The body of an error answer where a site has none of its own.
fn plain_body(status: u16, detail: &str) -> Vec<u8> {
    let reason = reason(status);
    let mut sentence = String::new();
    if !detail.is_empty() {
        sentence.push_str("<p>");
        escape(detail, &mut sentence);
        sentence.push_str("</p>\n");
    }
    let body = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
         <title>{status} {reason}</title></head>\n\
         <body><h1>{status} {reason}</h1>\n{sentence}</body>\n</html>\n"
    );
    body.into_bytes()
}

/// Writes an error answer: status and reason as a small page, or a `page` of the site's own, with a
/// sentence that may say more; where errors are told as JSON, as an object of these, unless the
/// site's own is JSON, too. `fields` writes more headers. Gives what the log says of it.
pub fn write_error(
    out: &mut Vec<u8>,
    status: u16,
    page: Option<&ErrorPage>,
    shape: AnswerShape,
    date: &DateCache,
    detail: &str,
    fields: impl FnOnce(&mut ResponseWriter<'_>),
) -> Answered {
    let (body, content_type) = match page {
        Some(page) if !shape.json || is_json(&page.content_type) => {
            (page.body(detail), &*page.content_type)
        }
        _ if shape.json => (json_body(status, detail), "application/json"),
        _ => (plain_body(status, detail), "text/html; charset=utf-8"),
    };
    let mut head = ResponseWriter::new(out, status);
    fields(&mut head);
    if status == 503 {
        head.retry_after(RETRY_SECONDS);
    }
    head.content_type(content_type)
        .content_length(body.len() as u64)
        .connection(!shape.close, shape.http10)
        .date(date)
        .end();
    if shape.head_only {
        return Answered::bare(status);
    }
    out.extend_from_slice(&body);
    Answered {
        status,
        body_length: body.len() as u64,
    }
}
