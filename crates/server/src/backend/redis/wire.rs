//! What a pool's connections to a server say: commands, answered in their order.

use super::access::Access;
use super::greeting::Greeter;
use super::merge::{self, Merging};
use super::reply::{ANSWER_MAX, Scalar, Scan, ServerError, Token, Tokens};
use super::request::write_words;
use super::rows::{Read, read};
use crate::backend::answers::QueryAnswers;
use crate::backend::awaited::{Awaited, Which};
use crate::backend::failure::Cause;
use crate::backend::whole::whole;
use crate::backend::wire::{Greeting, Unreadable, Verdict, Wire};
use crate::backend::words::of_command;
use rhythm_engine::cohort::Argument;
use rhythm_engine::program::{Asking, Call, CallResult};
use std::collections::VecDeque;
use std::sync::Arc;

/// The status of a command that the server does not carry out for what it is asked of.
const REFUSED: i64 = 1;

/// See the module's text.
#[derive(Debug)]
pub struct RedisWire {
    access: Arc<Access>,
    merging: Merging,
}

/// What is kept of a connection.
#[derive(Debug, Default)]
pub struct Connection {
    greeter: Greeter,
    /// How many queries each command asks for, in order, until it is answered.
    sent: VecDeque<usize>,
    /// The beginning of the oldest's answer.
    begun: Vec<u8>,
    scan: Scan,
}

impl RedisWire {
    pub(super) fn new(access: Arc<Access>) -> RedisWire {
        RedisWire {
            access,
            merging: Merging::default(),
        }
    }

    /// A line of the log about a call's command.
    fn tell(&self, call: &Call, why: &str) {
        self.access.words.tell(&of_command(&call.form), why);
    }

    /// What becomes of a command that the server answers with an error, and whether the server is
    /// in order.
    fn judge(&self, call: &Call, error: ServerError<'_>) -> (Result<i64, Cause>, bool) {
        let judged = match error.code() {
            b"BUSY" | b"CLUSTERDOWN" | b"LOADING" | b"MASTERDOWN" | b"MISCONF" | b"NOREPLICAS"
            | b"OOM" | b"READONLY" | b"TRYAGAIN" => (Err(Cause::Unwell), false),
            _ if is_of_page(error) => (Err(Cause::Refused), true),
            _ if call.asking == Asking::Exec && call.has_name => return (Ok(REFUSED), true),
            _ => (Err(Cause::Refused), true),
        };
        let words = match error.code() {
            b"MOVED" | b"ASK" | b"CROSSSLOT" => {
                format!(
                    "{}: the nodes of a cluster are not for this kind",
                    error.in_words()
                )
            }
            _ => error.in_words(),
        };
        self.tell(call, &words);
        judged
    }
}

/// Whether a command fails so whatever it is asked of: the page or the server has to be mended.
fn is_of_page(error: ServerError<'_>) -> bool {
    match error.code() {
        b"ASK" | b"CROSSSLOT" | b"MOVED" | b"NOAUTH" | b"NOPERM" | b"NOSCRIPT" => true,
        b"ERR" => [
            &b"unknown command"[..],
            b"unknown subcommand",
            b"Unknown subcommand",
            b"wrong number of arguments",
            b"syntax error",
            b"Error compiling script",
            b"Error running script",
            b"user_script:",
            b"Function not found",
        ]
        .iter()
        .any(|begin| error.message().starts_with(begin)),
        _ => false,
    }
}

impl Wire for RedisWire {
    type Connection = Connection;

    fn greet(
        &mut self,
        connection: &mut Connection,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting, Unreadable> {
        let access = &*self.access;
        match connection.greeter.go_on(access, input, out) {
            Ok(Some(used)) => Ok(Greeting::Done { used }),
            Ok(None) => Ok(Greeting::More),
            Err(refusal) => {
                access.words.refused(&refusal.cause, refusal.cure);
                Err(Unreadable)
            }
        }
    }

    fn merges(&mut self, call: &Call) -> usize {
        self.merging.most(call)
    }

    fn encode<'a>(
        &mut self,
        connection: &mut Connection,
        _: u64,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    ) {
        // Those that go as one have the arguments of all.
        let mut all = Vec::new();
        let mut of_one = None;
        match call.merged {
            true => all.extend(arguments),
            false => of_one = Some(arguments),
        }
        let queries = (all.len() / call.form.arguments.len().max(1)).max(1);
        match queries {
            1 => write_words(call.form.word_count(), out, |word| {
                let arguments = of_one.into_iter().flatten().chain(all.iter().copied());
                call.form.words(arguments, word);
            }),
            _ => write_words(1 + queries, out, |word| merge::words(call, &all, word)),
        }
        connection.sent.push_back(queries);
    }

    fn was_late(&mut self, connection: &Connection, _: &Awaited) {
        if connection.sent.front().is_some_and(|queries| *queries > 1) {
            self.merging.failed();
        }
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
        let queries = *connection.sent.front().ok_or(Unreadable)?;
        let scan = &mut connection.scan;
        let reply = whole(&mut connection.begun, input, |bytes| {
            scan.end(bytes, ANSWER_MAX)
        });
        let Ok(reply) = reply else {
            if queries > 1 {
                self.merging.failed();
            }
            self.tell(
                call,
                "its answer is more than 1 MiB, or none: ask for less of it",
            );
            return Err(Unreadable);
        };
        let Some((reply, used)) = reply else {
            return Ok((input.len(), None));
        };
        connection.sent.pop_front();
        let is_one_row = matches!(call.result, CallResult::Row(_));
        let first = Tokens(&reply).next();
        let is_error = matches!(first, Some(Token::Scalar(Scalar::Error(_))));
        let read = match queries > 1 && !is_error {
            true => (self.merging.read(&reply, queries, answers)).map(|()| Read::Rows)?,
            false => read(&reply, call.columns.into(), is_one_row, answers)?,
        };
        let (outcome, is_healthy) = match read {
            Read::Rows => {
                if call.merged && queries == 1 {
                    self.merging.learn(reply.len());
                }
                (Ok(0), true)
            }
            Read::ManyRows => {
                let why = "it answers too many rows: ask for fewer";
                self.tell(call, why);
                (Err(Cause::Unfit(why)), true)
            }
            Read::Error(error) => {
                if queries > 1 {
                    self.merging.failed();
                }
                self.judge(call, ServerError(error))
            }
        };
        if outcome != Ok(0) || !call.has_name {
            answers.discard();
        }
        let verdict = Verdict {
            query: Which::Oldest,
            outcome,
            is_healthy,
            goes_on: true,
        };
        Ok((used, Some(verdict)))
    }
}
