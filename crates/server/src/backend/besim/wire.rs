//! BeSim over HTTP/1.1: a request `1&3&17` is `GET /path?1&3&17`, its answer the body of a response
//! of a status 2xx (`rhythm_protocol::besim`).

use crate::backend::answers::QueryAnswers;
use crate::backend::awaited::{Awaited, Which};
use crate::backend::failure::Cause;
use crate::backend::http_client::{BackendUrl, Response, ResponseLimits, Responses};
use crate::backend::wire::{Unreadable, Verdict, Wire};
use rhythm_engine::cohort::{Argument, Cell, ROWS_MAX};
use rhythm_engine::program::Call;
use rhythm_protocol::besim::{AnswerReader, BesimError};
use rhythm_protocol::http::client::RequestWriter;
use rhythm_protocol::http::request::Method;

/// The protocol, towards one server.
#[derive(Debug)]
pub struct BesimWire {
    host: String,
    /// Path and `?`, and behind them the query last written.
    target: Vec<u8>,
    path_length: usize,
    limits: ResponseLimits,
    reader: AnswerReader,
}

impl BesimWire {
    /// For requests to this URL, whose answers have these limits.
    pub fn new(url: &BackendUrl, limits: ResponseLimits) -> BesimWire {
        let target = format!("{}?", url.path).into_bytes();
        BesimWire {
            host: url.authority.clone(),
            path_length: target.len(),
            target,
            limits,
            reader: AnswerReader::default(),
        }
    }
}

impl Wire for BesimWire {
    type Connection = Responses;

    fn encode<'a>(
        &mut self,
        _: &mut Responses,
        _: u64,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    ) {
        self.target.truncate(self.path_length);
        call.form.write(arguments, &mut self.target);
        // What a query cannot hold, in the literal parts, is percent-encoded here.
        RequestWriter::new(out, Method::Get, &self.target, &self.host).end();
    }

    fn decode(
        &mut self,
        responses: &mut Responses,
        input: &[u8],
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Result<(usize, Option<Verdict>), Unreadable> {
        let (used, response) = responses.next(input, &self.limits)?;
        Ok((
            used,
            response.map(|response| self.read(&response, awaited, answers)),
        ))
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

impl BesimWire {
    fn read(
        &mut self,
        response: &Response<'_>,
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Verdict {
        let columns = awaited.call(Which::Oldest).map_or(0, |call| call.columns);
        let outcome = match response.status {
            200..=299 => deliver(&mut self.reader, response.body, columns, answers),
            status => Err(Cause::Status(status)),
        };
        Verdict {
            query: Which::Oldest,
            outcome,
            is_healthy: response.status < 500,
            goes_on: response.keep_alive,
        }
    }
}

/// Delivers the rows of an answer's body, and gives its status.
fn deliver(
    reader: &mut AnswerReader,
    body: &[u8],
    columns: u16,
    answers: &mut QueryAnswers,
) -> Result<i64, Cause> {
    let read = reader.read(body, columns.into(), ROWS_MAX);
    let values = read.map_err(|why| Cause::Unfit(in_words(why)))?;
    for row in values.rows() {
        row.for_each(|cell| answers.cell(Cell::Text(cell)));
        answers.end_row();
    }
    Ok(i64::from(values.status))
}

/// What is wrong with an answer, for who wrote the backend.
fn in_words(why: BesimError) -> &'static str {
    match why {
        BesimError::NoPre => "it has no line `<pre>` that ends in LF alone",
        BesimError::NotClosed => "it ends before a line `</pre>`",
        BesimError::Status => "the line after `<pre>` is no status: a digit, or a digit and `%`",
        BesimError::Columns => "a row has more or fewer columns than the page's `rows` name",
        BesimError::TooManyRows => "it has too many rows",
        BesimError::Control => "a row has a control character, such as CR or TAB",
        BesimError::NotUtf8 => "a row is not UTF-8",
        BesimError::Encoding => "a cell is not percent-encoded",
        BesimError::Request => "it is none",
    }
}
