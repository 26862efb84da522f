//! Answers with static files: whole, in part, or that nothing has changed.

use crate::site::statics::Entry;
use rhythm_http::{AnswerShape, Answered, Body, write_error};
use rhythm_protocol::http::conditional::{Conditions, Outcome, Validators, evaluate};
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::response::{HeaderName, ResponseWriter};
use std::ops::Range;

/// An answer with a file, or with a part of one, as far as the request's conditions decide it.
#[derive(Debug)]
pub(crate) struct FileAnswer<'a> {
    entry: &'a Entry,
    status: u16,
    range: Range<usize>,
}

impl<'a> FileAnswer<'a> {
    /// What answers a request for a file.
    pub(crate) fn new(
        entry: &'a Entry,
        method: Method,
        conditions: &Conditions<'_>,
        date: &DateCache,
    ) -> FileAnswer<'a> {
        let validators = Validators {
            etag: Some(entry.etag.as_bytes()),
            last_modified: entry.modified,
        };
        let length = entry.bytes.len();
        let outcome = evaluate(
            method,
            conditions,
            &validators,
            length as u64,
            date.seconds(),
        );
        let (status, range) = match outcome {
            Outcome::NotModified => (304, 0..0),
            Outcome::PreconditionFailed => (412, 0..0),
            Outcome::Unsatisfiable => (416, 0..0),
            Outcome::Parts(ranges) if ranges.as_slice().len() == 1 => {
                let (first, last) = ranges.as_slice()[0];
                (206, first as usize..last as usize + 1)
            }
            // Several ranges: the whole is a right answer, too (RFC 9110, section 14.2).
            _ => (200, 0..length),
        };
        FileAnswer {
            entry,
            status,
            range,
        }
    }

    /// Appends its head, and gives what the log says of it, and its body. `fields` writes more
    /// headers.
    pub(crate) fn write(
        self,
        shape: AnswerShape,
        date: &DateCache,
        out: &mut Vec<u8>,
        fields: impl FnOnce(&mut ResponseWriter<'_>),
    ) -> (Answered, Body<'a>) {
        let FileAnswer {
            entry,
            status,
            range,
        } = self;
        if status == 412 {
            write_error(out, 412, shape, date, "", |_| {});
            return (Answered::bare(412), Body::Empty);
        }
        let mut head = ResponseWriter::new(out, status);
        if status != 304 {
            head.content_length(range.len() as u64);
        }
        if status != 304 && status != 416 {
            head.content_type(&entry.content_type);
        }
        let length = entry.bytes.len() as u64;
        match status {
            206 => drop(head.content_range(range.start as u64, range.end as u64 - 1, length)),
            416 => drop(head.content_range_unsatisfied(length)),
            _ => {}
        }
        let name = |name| HeaderName::new(name).expect("a token");
        head.header(name("ETag"), entry.etag.as_bytes());
        if let Some(text) = &entry.modified_text {
            head.header(name("Last-Modified"), text);
        }
        if status == 200 {
            head.header(name("Accept-Ranges"), b"bytes");
        }
        fields(&mut head);
        head.connection(!shape.close, shape.http10).date(date).end();
        if shape.head_only || range.is_empty() {
            return (Answered::bare(status), Body::Empty);
        }
        let answered = Answered {
            status,
            body_length: range.len() as u64,
        };
        (answered, Body::File(&entry.bytes, range))
    }
}
