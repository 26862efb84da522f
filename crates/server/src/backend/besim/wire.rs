//! BeSim over HTTP/1.1: a request `1&3&17` is `GET /path?1&3&17`, its answer the body of a response
//! of a status 2xx (`rhythm_protocol::besim`).

use crate::backend::answers::Answers;
use crate::backend::reader::{AnswerLimits, HttpAnswer, Reader};
use crate::backend::url::BackendUrl;
use crate::backend::wire::{Reply, Unreadable, Wire};
use rhythm_engine::cohort::{Argument, Cell, LaneError, ROWS_MAX};
use rhythm_engine::program::Call;
use rhythm_protocol::besim;
use rhythm_protocol::http::client::RequestWriter;
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::uri;

/// The protocol, towards one server.
#[derive(Debug)]
pub struct BesimWire {
    host: String,
    /// Path and `?`, and behind them the query last written.
    target: Vec<u8>,
    path_length: usize,
    limits: AnswerLimits,
    // Memory kept from answer to answer.
    cells: Vec<(usize, usize)>,
    decoded: Vec<u8>,
}

impl BesimWire {
    /// For requests to this URL, whose answers have these limits.
    pub fn new(url: &BackendUrl, limits: AnswerLimits) -> BesimWire {
        let target = format!("{}?", url.path).into_bytes();
        BesimWire {
            host: url.authority.clone(),
            path_length: target.len(),
            target,
            limits,
            cells: Vec::new(),
            decoded: Vec::new(),
        }
    }
}

impl Wire for BesimWire {
    type Reader = Reader;

    fn encode<'a>(
        &mut self,
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
        reader: &mut Reader,
        input: &[u8],
        columns: u16,
        answers: &mut Answers,
    ) -> Result<(usize, Option<Reply>), Unreadable> {
        let (used, answer) = reader.next(input, &self.limits)?;
        let (cells, decoded) = (&mut self.cells, &mut self.decoded);
        let reply = answer.map(|answer| reply(&answer, columns, cells, decoded, answers));
        Ok((used, reply))
    }

    fn finish(
        &mut self,
        reader: &mut Reader,
        columns: u16,
        answers: &mut Answers,
    ) -> Option<Reply> {
        let (cells, decoded) = (&mut self.cells, &mut self.decoded);
        let answer = reader.finish()?;
        Some(reply(&answer, columns, cells, decoded, answers))
    }
}

fn reply(
    answer: &HttpAnswer<'_>,
    columns: u16,
    cells: &mut Vec<(usize, usize)>,
    decoded: &mut Vec<u8>,
    answers: &mut Answers,
) -> Reply {
    let outcome = match answer.status {
        200..=299 => deliver(answer.body, columns, cells, decoded, answers),
        _ => Err(LaneError::BackendFailed),
    };
    Reply {
        outcome,
        is_healthy: answer.status < 500,
        goes_on: answer.keep_alive,
    }
}

/// Delivers the rows of an answer's body, and gives its status.
fn deliver(
    body: &[u8],
    columns: u16,
    cells: &mut Vec<(usize, usize)>,
    decoded: &mut Vec<u8>,
    answers: &mut Answers,
) -> Result<i64, LaneError> {
    cells.clear();
    let range = |start, length| (start, length);
    let answer = besim::decode(body, columns.into(), ROWS_MAX, cells, range)
        .map_err(|_| LaneError::BadAnswer)?;
    for row in cells.chunks(usize::from(columns).max(1)) {
        for &(start, length) in row {
            let cell = &body[start..start + length];
            if answer.is_encoded {
                decoded.clear();
                uri::decode_bytes(cell, decoded).map_err(|_| LaneError::BadAnswer)?;
                answers.cell(Cell::Text(decoded));
            } else {
                answers.cell(Cell::Text(cell));
            }
        }
        answers.end_row();
    }
    Ok(i64::from(answer.status))
}
