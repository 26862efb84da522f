//! What a pool's connections to a database say.
//!
//! ```text
//!   query   [Close Parse Describe] Bind Execute Sync
//!   exec    begin, [Close Parse Describe] Bind Execute Sync, commit
//! ```
//!
//! All of it leaves in one write, and what fails before a Sync fails nothing behind it. A
//! connection only reads unless a transaction says otherwise, so that a `query` cannot change
//! anything, by whatever function it does. The commit is a message of its own, behind the Sync:
//! where the statement fails, it ends the transaction all the same; and without its last byte
//! nothing is done, so that what did not leave whole can be sent again.

use super::access::Access;
use super::answer::{self, Answered};
use super::cells::write;
use super::greeting::Greeter;
use super::merge::{self, Merging};
use super::messages::{self, ServerError};
use super::statements::{Before, Prepared, Statement, Statements, types};
use crate::backend::answers::QueryAnswers;
use crate::backend::awaited::{Awaited, Which};
use crate::backend::failure::Cause;
use crate::backend::sql::numbered;
use crate::backend::wire::{Greeting, Unreadable, Verdict, Wire};
use rhythm_engine::cohort::{Argument, ROWS_MAX};
use rhythm_engine::program::{Asking, Call};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most bytes of an answer.
pub(super) const ANSWER_MAX: usize = 1 << 20;

/// The status of a statement that would break a rule of the database.
const BROKEN: i64 = 1;

/// See the module's text.
#[derive(Debug)]
pub struct PostgresWire {
    access: Arc<Access>,
    statements: Statements,
    merging: Merging,
    /// Room for bytes that are decoded.
    room: Vec<u8>,
}

/// What is kept of a connection.
#[derive(Debug, Default)]
pub struct Connection {
    greeter: Greeter,
    prepared: Prepared,
    /// Those whose answers are to come, in their order.
    sent: VecDeque<Sent>,
    /// The beginning of the oldest's answer.
    begun: Vec<u8>,
    scan: Scan,
}

/// A statement on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    statement: Statement,
    /// It is prepared with it.
    prepares: bool,
    /// It stands in a transaction.
    changes: bool,
    /// It asks for several queries.
    merges: bool,
}

/// How far an answer was looked at for its end.
#[derive(Debug, Default)]
struct Scan {
    /// Bytes of whole messages.
    at: usize,
    /// How often the server was ready.
    ready: usize,
}

impl Scan {
    /// Where an answer ends that ends when the server was ready so often; `None` where it has not
    /// come. `fatal` is told of what ends the connection.
    fn end(
        &mut self,
        bytes: &[u8],
        ready: usize,
        mut fatal: impl FnMut(&ServerError),
    ) -> Result<Option<usize>, Unreadable> {
        while let Some((message, used)) = messages::first(&bytes[self.at..], ANSWER_MAX)? {
            self.at += used;
            match message.tag {
                b'Z' => self.ready += 1,
                b'E' => {
                    let error = ServerError::read(message.body)?;
                    if error.is_fatal {
                        fatal(&error);
                    }
                }
                _ => {}
            }
            if self.at > ANSWER_MAX {
                return Err(Unreadable);
            }
            if self.ready == ready {
                return Ok(Some(std::mem::take(self).at));
            }
        }
        match bytes.len() > ANSWER_MAX + (1 << 16) {
            true => Err(Unreadable),
            false => Ok(None),
        }
    }
}

impl PostgresWire {
    pub(super) fn new(access: Arc<Access>) -> PostgresWire {
        PostgresWire {
            access,
            statements: Statements::default(),
            merging: Merging::default(),
            room: Vec::new(),
        }
    }

    /// Reads an answer that has come whole.
    fn verdict(
        &mut self,
        connection: &mut Connection,
        sent: Sent,
        bytes: &[u8],
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Result<Verdict, Unreadable> {
        let call = awaited.call(Which::Oldest).ok_or(Unreadable)?;
        let columns = connection.prepared.columns(sent.statement);
        let of = Answered {
            changes: sent.changes,
            is_seen: call.has_name,
            columns,
        };
        let read = answer::read(bytes, of, &mut self.room, answers)?;
        if sent.prepares && !read.is_prepared {
            connection.prepared.lost(sent.statement);
        }
        // Another page may ask the same, and merge it.
        if call.asking == Asking::Query && !sent.merges && sent.prepares && read.is_prepared {
            self.merging.learn(&call.form, &read.parameters);
        }
        let (outcome, is_healthy) = match &read.error {
            None if read.has_more => {
                let why = "it answers too many rows: give it a `limit`";
                self.tell(call, why);
                (Err(Cause::Unfit(why)), true)
            }
            None => (Ok(0), true),
            Some(error) => self.judge(sent, call, error),
        };
        if outcome != Ok(0) {
            answers.discard();
        }
        if sent.merges {
            self.merging.answered(&call.form, outcome == Ok(0));
        }
        Ok(Verdict {
            query: Which::Oldest,
            outcome,
            is_healthy,
            goes_on: true,
        })
    }

    /// What becomes of a statement that fails, and whether the database is in order.
    fn judge(
        &mut self,
        sent: Sent,
        call: &Call,
        error: &ServerError,
    ) -> (Result<i64, Cause>, bool) {
        let class = error.code.get(..2).unwrap_or_default();
        let judged = match (class, &*error.code) {
            (_, code) if !sent.merges && call.has_name && breaks_rule(code, call.asking) => {
                return (Ok(BROKEN), true);
            }
            // It has to be prepared anew, on all connections: its tables were changed.
            (_, "0A000") if error.routine == "RevalidateCachedQuery" => {
                self.statements.renew(sent.statement);
                self.merging.forget(&call.form);
                return (Err(Cause::Undone), true);
            }
            // It is not known any more, or as something that another has left: and who made one
            // connection forget it may have made others, on one of which it is sent again.
            (_, "26000" | "42P05") => {
                self.statements.renew(sent.statement);
                return (Err(Cause::Undone), true);
            }
            // It stood in another's way, and was undone.
            (_, "40001" | "40P01") => return (Err(Cause::Undone), true),
            // What it says of several queries it may not say of each: they are asked one by one.
            ("42" | "0A" | "54", _) if sent.merges => {
                if self.merging.refuse(&call.form) {
                    let words = error.in_words();
                    self.tell(call, &format!("it is not merged from now on: {words}"));
                }
                return (Err(Cause::Refused), true);
            }
            ("22" | "23", _) if sent.merges => return (Err(Cause::Refused), true),
            (_, "57014") => (Err(Cause::Late), true),
            ("08" | "53" | "57" | "58" | "XX", _) => (Err(Cause::Unwell), false),
            _ => (Err(Cause::Refused), true),
        };
        let words = match (&*error.code, call.asking) {
            ("25006", Asking::Query) => {
                let words = error.in_words();
                format!("{words}: a `query` only reads, `exec` is for what changes something")
            }
            _ => error.in_words(),
        };
        self.tell(call, &words);
        judged
    }

    /// A line of the log about a call's statement.
    fn tell(&self, call: &Call, why: &str) {
        let mut statement = Vec::new();
        numbered(&call.form.pieces, b'$', &mut statement);
        let statement = String::from_utf8_lossy(&statement);
        self.access.words.tell(&statement, why);
    }
}

/// Whether a statement fails so because it would break a rule of the database: a constraint, or
/// what the type of a column holds.
fn breaks_rule(code: &str, asking: Asking) -> bool {
    // Too long, out of range, or no such value.
    let is_unfit = matches!(code, "22001" | "22003" | "22007" | "22008" | "22P02");
    code.starts_with("23") || is_unfit && asking == Asking::Exec
}

impl Wire for PostgresWire {
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

    fn encode<'a>(
        &mut self,
        connection: &mut Connection,
        _: u64,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    ) {
        // Those that go as one have the arguments of all.
        let width = call.form.arguments.len();
        let mut of_all = Vec::new();
        let mut of_one = None;
        match call.merged {
            true => of_all.extend(arguments),
            false => of_one = Some(arguments),
        }
        let merges = of_all.len() > width;
        let merged = merges.then(|| self.merging.form(&call.form)).flatten();
        debug_assert_eq!(merged.is_some(), merges, "what is merged is known to be");
        let form = merged.unwrap_or(&call.form);
        let statement = self.statements.of(form);
        let name = &statement.name;
        let changes = call.asking == Asking::Exec;
        if changes {
            messages::parse(b"", std::iter::empty(), out, |out| {
                out.extend_from_slice(b"begin read write");
            });
            messages::execute(b"", 0, 0, out, |_| {});
        }
        let before = connection.prepared.uses(statement);
        if let Before::Prepare { closes } = before {
            // That is no mistake where there is none, and another may have left one.
            for old in closes.iter().chain([name]) {
                messages::of_statement(b'C', old, out);
            }
            messages::parse(name, types(form), out, |out| {
                numbered(&form.pieces, b'$', out);
            });
            messages::of_statement(b'D', name, out);
        }
        // The server need not go on beyond what would be refused, unless it is to be done whole, or
        // is for several.
        let rows_max = match merges || changes {
            true => 0,
            false => ROWS_MAX + 1,
        };
        messages::execute(name, width, rows_max, out, |out| match merges {
            true => (0..width).for_each(|argument| {
                messages::value(out, |out| merge::array(&of_all, argument, width, out));
            }),
            false => (of_one.into_iter().flatten())
                .chain(of_all.iter().copied())
                .for_each(|argument| messages::value(out, |out| write(argument, out))),
        });
        messages::sync(out);
        if changes {
            messages::query(b"commit", out);
        }
        connection.sent.push_back(Sent {
            statement,
            prepares: before != Before::Nothing,
            changes,
            merges,
        });
    }

    fn merges(&mut self, call: &Call) -> usize {
        self.merging.most(&call.form)
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
        let Some(&sent) = connection.sent.front() else {
            return Err(Unreadable);
        };
        let before = connection.begun.len();
        let mut begun = std::mem::take(&mut connection.begun);
        if before > 0 {
            begun.extend_from_slice(input);
        }
        let bytes = if before > 0 { &begun[..] } else { input };
        let words = &self.access.words;
        let ready = 1 + usize::from(sent.changes);
        let fatal = |error: &ServerError| words.ended(&error.in_words());
        let end = connection.scan.end(bytes, ready, fatal);
        match end {
            Err(Unreadable) => {
                if let Some(call) = awaited.call(Which::Oldest) {
                    let why = match sent.merges {
                        true => {
                            self.merging.too_long(&call.form);
                            "merged, its answer is more than 1 MiB, or none: fewer go together now"
                        }
                        false => "its answer is more than 1 MiB, or none: give it a `limit`",
                    };
                    self.tell(call, why);
                }
                Err(Unreadable)
            }
            Ok(None) => {
                if before == 0 {
                    begun.extend_from_slice(input);
                }
                connection.begun = begun;
                Ok((input.len(), None))
            }
            Ok(Some(end)) => {
                connection.sent.pop_front();
                let answer = &bytes[..end];
                let verdict = self.verdict(connection, sent, answer, awaited, answers)?;
                Ok((end - before, Some(verdict)))
            }
        }
    }
}
