//! What a pool's connections to a server say: a request for each query, all of a write's one after
//! the other.
//!
//! A request that cannot be asked (a key that is too long, a time that is no number) fails alone:
//! in its place goes one that does nothing (`mn`), so that answers keep their order.

use super::answer::{self, Answer};
use super::request::{self, Unfit, Verb};
use crate::backend::answers::QueryAnswers;
use crate::backend::awaited::{Awaited, Which};
use crate::backend::failure::Cause;
use crate::backend::whole::whole;
use crate::backend::wire::{Greeting, Unreadable, Verdict, Wire};
use crate::backend::words::{Words, of_command};
use rhythm_engine::cohort::{Argument, Cell};
use rhythm_engine::program::Call;
use std::collections::VecDeque;

/// The status of what cannot be counted, as it is no number.
const NO_NUMBER: i64 = 1;

/// See the module's text.
#[derive(Debug)]
pub struct MemcachedWire {
    /// Where the log is told of what fails.
    words: Words,
}

/// What is kept of a connection.
#[derive(Debug, Default)]
pub struct Connection {
    is_greeted: bool,
    /// What is asked, in order, until it is answered.
    sent: VecDeque<Result<Verb, Unfit>>,
    /// The beginning of the oldest's answer.
    begun: Vec<u8>,
}

/// What does nothing and is answered.
const NO_OP: &[u8] = b"mn\r\n";

/// What becomes of a query: its outcome, whether the server is in order, and whether the connection
/// goes on.
type Judged = (Result<i64, Cause>, bool, bool);

impl MemcachedWire {
    pub(super) fn new(name: &str) -> MemcachedWire {
        MemcachedWire {
            words: Words::new(name),
        }
    }

    /// A line of the log about a call's request.
    fn tell(&self, call: &Call, why: &str) {
        self.words.tell(&of_command(&call.form), why);
    }

    /// Delivers an answer, or judges why it is none.
    fn judge(
        &self,
        call: &Call,
        sent: Result<Verb, Unfit>,
        answer: Answer<'_>,
        answers: &mut QueryAnswers,
    ) -> Result<Judged, Unreadable> {
        let verb = match sent {
            Ok(verb) => verb,
            Err(unfit) if answer == Answer::NoOp => {
                self.tell(call, unfit);
                return Ok((Err(Cause::Refused), true, true));
            }
            Err(_) => return Err(Unreadable),
        };
        let cell = match (verb, answer) {
            (_, Answer::Error(error)) => return Ok(self.failed(call, verb, error)),
            (Verb::Get | Verb::Count, Answer::Value(value)) => Some(of_value(value)),
            (Verb::Get | Verb::Count, Answer::Nothing) => None,
            (Verb::Store | Verb::Change, Answer::Done) => Some(Cell::Int(1)),
            (Verb::Store | Verb::Change, Answer::NotStored | Answer::Nothing) => Some(Cell::Int(0)),
            _ => return Err(Unreadable),
        };
        if let Some(cell) = cell.filter(|_| call.has_name) {
            answers.cell(cell);
            answers.end_row();
        }
        Ok((Ok(0), true, true))
    }

    /// What becomes of a query that the server answers with an error.
    fn failed(&self, call: &Call, verb: Verb, error: &[u8]) -> Judged {
        let is = |words: &[u8]| error.starts_with(words);
        if is(b"CLIENT_ERROR cannot increment") && call.has_name {
            return (Ok(NO_NUMBER), true, true);
        }
        self.tell(call, &String::from_utf8_lossy(error));
        let is_of_server = is(b"SERVER_ERROR") && !is(b"SERVER_ERROR object too large");
        // The value of what it did not understand it may take for a request.
        let goes_on = is(b"SERVER_ERROR") || is(b"CLIENT_ERROR") && verb != Verb::Store;
        match is_of_server {
            true => (Err(Cause::Unwell), false, goes_on),
            false => (Err(Cause::Refused), true, goes_on),
        }
    }
}

/// A value. A number that was counted down has blanks behind it, which are none of it: it takes as
/// many bytes as before, at most those of the largest number.
fn of_value(value: &[u8]) -> Cell<'_> {
    let digits = value
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (number, rest) = value.split_at(digits);
    let is_number = digits > 0 && value.len() <= 20 && rest.iter().all(|byte| *byte == b' ');
    match is_number {
        true => Cell::Decimal(number),
        false => Cell::Text(value),
    }
}

impl Wire for MemcachedWire {
    type Connection = Connection;

    /// A server that knows no meta commands would take a value for requests: it is asked first.
    fn greet(
        &mut self,
        connection: &mut Connection,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting, Unreadable> {
        if !connection.is_greeted {
            connection.is_greeted = true;
            out.extend_from_slice(NO_OP);
        }
        let (cause, cure) = match whole(&mut connection.begun, input, answer::end) {
            Ok(None) => return Ok(Greeting::More),
            Ok(Some((bytes, used))) => match answer::read(&bytes) {
                Ok(Answer::NoOp) => return Ok(Greeting::Done { used }),
                Ok(Answer::Error(error)) => {
                    let cause = String::from_utf8_lossy(error).into_owned();
                    let cure = match error {
                        b"ERROR" => "use memcached 1.6 or a later one, which know meta commands",
                        _ if error.starts_with(b"ERROR Too many") => {
                            "lower `connections_max` or the workers, or raise the server's `-c`"
                        }
                        _ => "see the server's own log; it may ask for no password",
                    };
                    (cause, cure)
                }
                _ => not_spoken(),
            },
            Err(Unreadable) => not_spoken(),
        };
        self.words.refused(&cause, cure);
        Err(Unreadable)
    }

    fn encode<'a>(
        &mut self,
        connection: &mut Connection,
        _: u64,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    ) {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        call.form.words(arguments, |word| {
            bytes.extend_from_slice(word);
            ends.push(bytes.len());
        });
        let mut start = 0;
        let words = ends.iter().map(|end| {
            let word = &bytes[start..*end];
            start = *end;
            word
        });
        let words: Vec<&[u8]> = words.collect();
        let sent = request::write(&words, out);
        if sent.is_err() {
            out.extend_from_slice(NO_OP);
        }
        connection.sent.push_back(sent);
    }

    fn decode(
        &mut self,
        connection: &mut Connection,
        input: &[u8],
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Result<(usize, Option<Verdict>), Unreadable> {
        if input.is_empty() {
            return Ok((0, None));
        }
        let call = awaited.call(Which::Oldest).ok_or(Unreadable)?;
        let Ok(answer) = whole(&mut connection.begun, input, answer::end) else {
            self.tell(call, "its answer is more than 1 MiB, or none");
            return Err(Unreadable);
        };
        let Some((bytes, used)) = answer else {
            return Ok((input.len(), None));
        };
        let sent = connection.sent.pop_front().ok_or(Unreadable)?;
        let answer = answer::read(&bytes)?;
        let (outcome, is_healthy, goes_on) = self.judge(call, sent, answer, answers)?;
        let verdict = Verdict {
            query: Which::Oldest,
            outcome,
            is_healthy,
            goes_on,
        };
        Ok((used, Some(verdict)))
    }
}

fn not_spoken() -> (String, &'static str) {
    let cause = "what answers there does not speak memcached's protocol";
    (cause.to_owned(), "see whether `url` names the server")
}
