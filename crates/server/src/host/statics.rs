//! Answers with static files: whole, in part, or that nothing has changed.

use crate::host::files::FileStream;
use crate::site::Site;
use crate::site::static_file::{Content, Entry, Representation};
use rhythm_http::{AnswerShape, Answered, Body, write_error};
use rhythm_protocol::http::conditional::{Conditions, Outcome, Validators, evaluate};
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::encoding::{Encoding, Encodings};
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::response::{HeaderName, ResponseWriter};
use std::ops::Range;

const ETAG: HeaderName<'static> = HeaderName::new("ETag").expect("a token");
const LAST_MODIFIED: HeaderName<'static> = HeaderName::new("Last-Modified").expect("a token");
const ACCEPT_RANGES: HeaderName<'static> = HeaderName::new("Accept-Ranges").expect("a token");

/// An answer with a file, or with a part of one, as far as the request's conditions decide it.
#[derive(Debug)]
pub(crate) struct FileAnswer<'a> {
    entry: &'a Entry,
    /// What of it is sent, or would be: conditions and ranges are about this (RFC 9110, sections 13
    /// and 14).
    selected: &'a Representation,
    status: u16,
    range: Range<u64>,
}

impl<'a> FileAnswer<'a> {
    /// What answers a request for a file, to a client that accepts these encodings.
    pub(crate) fn new(
        entry: &'a Entry,
        accepts: Encodings,
        method: Method,
        conditions: &Conditions<'_>,
        date: &DateCache,
    ) -> FileAnswer<'a> {
        let selected = entry.representation(accepts);
        let validators = Validators {
            etag: Some(selected.etag.as_bytes()),
            last_modified: selected.modified_seconds(),
            has_forms: entry.varies(),
        };
        let length = selected.length();
        let outcome = evaluate(method, conditions, &validators, length, date.seconds());
        let (status, range) = match outcome {
            Outcome::NotModified => (304, 0..0),
            Outcome::PreconditionFailed => (412, 0..0),
            Outcome::Unsatisfiable => (416, 0..0),
            Outcome::Parts(ranges) if ranges.as_slice().len() == 1 => {
                let (first, last) = ranges.as_slice()[0];
                (206, first..last + 1)
            }
            // Several ranges: the whole is a right answer, too (RFC 9110, section 14.2).
            _ => (200, 0..length),
        };
        FileAnswer {
            entry,
            selected,
            status,
            range,
        }
    }

    /// The answer as one whose bytes are yet to be read, if it is. `fields` writes more headers.
    pub(crate) fn stream(
        &self,
        shape: AnswerShape,
        site: &Site,
        fields: impl FnOnce(&mut ResponseWriter<'_>),
    ) -> Option<FileStream> {
        let Content::Streamed(file) = &self.selected.content else {
            return None;
        };
        if !self.has_content(shape) {
            return None;
        }
        let mut lines = Vec::new();
        let mut head = ResponseWriter::resume(&mut lines);
        self.write_fields(&mut head);
        fields(&mut head);
        Some(FileStream {
            status: self.status,
            shape,
            fields: lines,
            file: file.clone(),
            rest: self.range.clone(),
            patience: site.settings.read_timeout,
        })
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
        let status = self.status;
        if status == 412 {
            return (
                write_error(out, 412, None, shape, date, "", |_| {}),
                Body::Empty,
            );
        }
        let mut head = ResponseWriter::new(out, status);
        let length = self.range.end - self.range.start;
        if status != 304 {
            head.content_length(length);
        }
        self.write_fields(&mut head);
        fields(&mut head);
        head.connection(!shape.close, shape.http10).date(date).end();
        let body = match &self.selected.content {
            Content::Kept(bytes) if self.has_content(shape) => {
                // As long as what lies in memory.
                let Range { start, end } = self.range;
                Body::File(bytes, start as usize..end as usize)
            }
            _ => Body::Empty,
        };
        let body_length = body.length() as u64;
        let answered = Answered {
            status,
            body_length,
        };
        (answered, body)
    }

    fn has_content(&self, shape: AnswerShape) -> bool {
        !shape.head_only && !self.range.is_empty()
    }

    /// Writes what its head says of the file.
    fn write_fields(&self, head: &mut ResponseWriter<'_>) {
        let FileAnswer {
            entry,
            selected,
            status,
            range,
        } = self;
        let is_content = *status != 304 && *status != 416;
        let encoding = match is_content {
            true => selected.encoding,
            false => Encoding::Identity,
        };
        if is_content {
            head.content_type(&entry.content_type);
        }
        head.encoding(encoding, entry.varies());
        let length = selected.length();
        match status {
            206 => drop(head.content_range(range.start, range.end - 1, length)),
            416 => drop(head.content_range_unsatisfied(length)),
            _ => {}
        }
        head.header(ETAG, selected.etag.as_bytes());
        if let Some(text) = &selected.modified_text {
            head.header(LAST_MODIFIED, text);
        }
        if *status == 200 {
            head.header(ACCEPT_RANGES, b"bytes");
        }
    }
}
