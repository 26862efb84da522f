//! Answers with static files: whole, in part, or that nothing has changed.

use crate::site::statics::Statics;
use rhythm_http::{AnswerShape, AnswerSlot, Answered, Clients, write_error};
use rhythm_net::{Port, Time};
use rhythm_protocol::http::conditional::{Conditions, Outcome, Validators, evaluate};
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::request::{Method, RequestHead};
use rhythm_protocol::http::response::{HeaderName, ResponseWriter};

/// What a request says about the file it wants, kept while a page is being made that answers with a
/// file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) shape: AnswerShape,
    pub(crate) slot: AnswerSlot,
    /// The time of the event at hand.
    pub(crate) now: Time,
    pub(crate) conditions: Conditions<'a>,
    pub(crate) method: Method,
}

impl<'a> Wanted<'a> {
    /// What a request says.
    pub(crate) fn of(
        head: &RequestHead,
        bytes: &'a [u8],
        shape: AnswerShape,
        slot: AnswerSlot,
        now: Time,
    ) -> Wanted<'a> {
        Wanted {
            shape,
            slot,
            now,
            conditions: Conditions::of(head, bytes),
            method: head.method(),
        }
    }
}

impl Statics {
    /// Answers with a file and gives what the log says of it. `fields` writes more headers.
    pub(crate) fn answer(
        &self,
        index: u32,
        wanted: Wanted<'_>,
        date: &DateCache,
        clients: &mut Clients,
        port: &mut dyn Port,
        fields: impl Fn(&mut ResponseWriter<'_>),
    ) -> Answered {
        let entry = self.entry(index);
        let length = entry.bytes.len() as u64;
        let validators = Validators {
            etag: Some(entry.etag.as_bytes()),
            last_modified: entry.modified,
        };
        let outcome = evaluate(
            wanted.method,
            &wanted.conditions,
            &validators,
            length,
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
            _ => (200, 0..entry.bytes.len()),
        };
        let Wanted {
            shape, slot, now, ..
        } = wanted;
        let body_length = range.len() as u64;
        if status == 412 {
            clients.answer(port, slot, shape, now, |out| {
                write_error(out, 412, shape, date, "", |_| {});
            });
            return Answered::bare(412);
        }
        let head = |out: &mut Vec<u8>| {
            let mut head = ResponseWriter::new(out, status);
            if status != 304 {
                head.content_length(body_length);
            }
            if status != 304 && status != 416 {
                head.content_type(&entry.content_type);
            }
            match status {
                206 => {
                    head.content_range(range.start as u64, range.end as u64 - 1, length);
                }
                416 => {
                    head.content_range_unsatisfied(length);
                }
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
        };
        if shape.head_only || range.is_empty() {
            clients.answer(port, slot, shape, now, head);
            return Answered::bare(status);
        }
        let body = range.clone();
        clients.answer_file(port, slot, shape, now, head, &entry.bytes, body);
        Answered {
            status,
            body_length,
        }
    }
}
