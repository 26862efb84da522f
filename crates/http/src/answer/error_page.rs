//! Error answers: status and reason as a small page.

use crate::answer::{AnswerShape, Answered};
use rhythm_protocol::html::escape;
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::response::{ResponseWriter, reason};

/// Seconds after which a client may try again where the server had no room.
const RETRY_SECONDS: u64 = 1;

/// Writes an error answer: status and reason as a small page, with a sentence that may say more.
/// `fields` writes more headers. Gives what the log says of it.
pub fn write_error(
    out: &mut Vec<u8>,
    status: u16,
    shape: AnswerShape,
    date: &DateCache,
    detail: &str,
    fields: impl FnOnce(&mut ResponseWriter<'_>),
) -> Answered {
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
    let mut head = ResponseWriter::new(out, status);
    fields(&mut head);
    if status == 503 {
        head.retry_after(RETRY_SECONDS);
    }
    head.content_type("text/html; charset=utf-8")
        .content_length(body.len() as u64)
        .connection(!shape.close, shape.http10)
        .date(date)
        .end();
    if shape.head_only {
        return Answered::bare(status);
    }
    out.extend_from_slice(body.as_bytes());
    Answered {
        status,
        body_length: body.len() as u64,
    }
}
