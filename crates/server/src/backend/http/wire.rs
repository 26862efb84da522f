//! What a pool's connections to a server say: a request for each query.

use super::access::Access;
use super::request::{Requests, Told, check_path, shown};
use super::rows::deliver;
use crate::backend::answers::QueryAnswers;
use crate::backend::awaited::{Awaited, Which};
use crate::backend::failure::Cause;
use crate::backend::http_client::{Response, ResponseLimits, Responses};
use crate::backend::wire::{Unreadable, Verdict, Wire};
use rhythm_engine::cohort::Argument;
use rhythm_engine::program::Call;
use std::sync::Arc;

/// Why a request is not sent.
const LEADS_ELSEWHERE: &str = "a value in the path is empty, `.` or `..`, and would lead elsewhere";

/// See the module's text.
#[derive(Debug)]
pub struct HttpWire {
    access: Arc<Access>,
    requests: Requests,
}

impl HttpWire {
    pub(super) fn new(access: Arc<Access>) -> HttpWire {
        HttpWire {
            requests: Requests::new(&access.url.path),
            access,
        }
    }

    /// A line of the log about a call's request.
    fn tell(&self, call: &Call, why: &str) {
        self.access.words.tell(&shown(&call.form), why);
    }

    fn read(
        &self,
        response: &Response<'_>,
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Verdict {
        let outcome = match (awaited.call(Which::Oldest), response.status) {
            (Some(call), 200..=299) => self.rows(call, response, answers),
            // What is not there, or is not allowed, is for the page to tell.
            (Some(call), status @ 300..=499) if call.has_name => Ok(status.into()),
            (Some(call), status) => {
                self.tell(call, &format!("it answered with status {status}"));
                Err(Cause::Status(status))
            }
            (None, status) => Err(Cause::Status(status)),
        };
        Verdict {
            query: Which::Oldest,
            outcome,
            is_healthy: response.status < 500,
            goes_on: response.keep_alive,
        }
    }

    /// Delivers what a call that was carried out answers.
    fn rows(
        &self,
        call: &Call,
        response: &Response<'_>,
        answers: &mut QueryAnswers,
    ) -> Result<i64, Cause> {
        let Some(document) = call.document.as_ref().filter(|_| call.has_name) else {
            return Ok(0);
        };
        // There is nothing to be told (RFC 9110, section 15.3.5).
        if response.status == 204 {
            return Ok(0);
        }
        match deliver(response.body, document, answers) {
            Ok(()) => Ok(0),
            Err(why) => {
                self.tell(call, &why);
                Err(Cause::Unfit(
                    "it is no JSON, or not what the page's rows are",
                ))
            }
        }
    }
}

impl Wire for HttpWire {
    type Connection = Responses;

    const TAKES_FIELDS: bool = true;

    fn refuses<'a>(
        &self,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
    ) -> Option<Cause> {
        check_path(&call.form, arguments).err()?;
        self.tell(
            call,
            &format!("the request was not sent: {LEADS_ELSEWHERE}"),
        );
        Some(Cause::NotSent(LEADS_ELSEWHERE))
    }

    fn encode<'a>(
        &mut self,
        responses: &mut Responses,
        number: u64,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    ) {
        self.encode_with(responses, number, (call, &[]), arguments, out);
    }

    fn encode_with<'a>(
        &mut self,
        _: &mut Responses,
        _: u64,
        (call, fields): (&Call, &[u8]),
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    ) {
        let (host, token) = (&self.access.url.authority, self.access.token.get());
        let told = Told {
            host,
            token: token.as_ref().map(|token| &*token.0),
            fields,
        };
        self.requests.write(&call.form, arguments, told, out);
    }

    fn decode(
        &mut self,
        responses: &mut Responses,
        input: &[u8],
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Result<(usize, Option<Verdict>), Unreadable> {
        let Ok((used, response)) = responses.next(input, &ResponseLimits::default()) else {
            if let Some(call) = awaited.call(Which::Oldest) {
                self.tell(call, "its answer is no HTTP, or more than 1 MiB");
            }
            return Err(Unreadable);
        };
        let verdict = response.map(|response| self.read(&response, awaited, answers));
        Ok((used, verdict))
    }

    fn finish(
        &mut self,
        responses: &mut Responses,
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Option<Verdict> {
        Some(self.read(&responses.finish()?, awaited, answers))
    }
}
