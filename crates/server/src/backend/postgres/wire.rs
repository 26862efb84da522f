//! What a pool's connections to a database say.
//!
//! ```text
//!   query   [Close Parse Describe] Bind Execute Sync
//!   exec    begin, [Close Parse Describe] Bind Execute Sync, commit
//!   transaction                          several such, and several ways (transaction.rs)
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
use super::scan::{End, Passing, Scan};
use super::statements::{Before, Prepared, Statement, Statements, types};
use super::transaction::{self, Next, Transaction};
use crate::backend::answers::QueryAnswers;
use crate::backend::awaited::{Awaited, Which};
use crate::backend::failure::Cause;
use crate::backend::sql::{BROKEN, numbered};
use crate::backend::wire::{Greeting, Unreadable, Verdict, Wire};
use rhythm_engine::cohort::{Argument, ROWS_MAX};
use rhythm_engine::program::{Asking, Call};
use std::collections::VecDeque;
use std::sync::Arc;

const TOO_LONG: &str =
    "its answer is more than 1 MiB: ask for fewer rows (`limit`), or for less of each";

/// See the module's text.
#[derive(Debug)]
pub struct PostgresWire {
    access: Arc<Access>,
    pub(super) statements: Statements,
    pub(super) merging: Merging,
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
    /// The oldest's answer is too long, and passed over.
    passing: Option<Passing>,
    /// What is to be said to go on.
    more: Vec<u8>,
}

/// What is on its way.
#[derive(Debug)]
enum Sent {
    One(Single),
    Transaction(Box<Transaction>),
}

impl Sent {
    /// How often the server is ready before all of it is answered, or a transaction goes on.
    fn ready(&self) -> usize {
        match self {
            Sent::One(one) => 1 + usize::from(one.changes),
            Sent::Transaction(transaction) => transaction.ready(),
        }
    }
}

/// A statement on its way.
#[derive(Clone, Copy, Debug)]
struct Single {
    statement: Statement,
    /// It is prepared with it.
    prepares: bool,
    /// It stands in a transaction.
    changes: bool,
    /// It asks for several queries.
    merges: bool,
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
        sent: Single,
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
            Some(error) => self.judge(Some(sent.statement), sent.merges, call, error),
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

    /// The oldest's answer is too long, and begins so: what it tells of a statement that it
    /// prepares holds for the answers behind it.
    fn begins_too_long(
        &mut self,
        connection: &mut Connection,
        bytes: &[u8],
        awaited: &Awaited,
    ) -> Result<(), Unreadable> {
        let Some(Sent::One(sent)) = connection.sent.front() else {
            return Err(Unreadable);
        };
        if !sent.prepares {
            return Ok(());
        }
        let columns = connection.prepared.columns(sent.statement);
        let parameters = answer::described(bytes, columns)?.ok_or(Unreadable)?;
        let call = awaited.call(Which::Oldest).ok_or(Unreadable)?;
        if call.asking == Asking::Query && !sent.merges {
            self.merging.learn(&call.form, &parameters);
        }
        Ok(())
    }

    /// The oldest's answer was too long, and has been passed over.
    fn passed(
        &mut self,
        connection: &mut Connection,
        awaited: &Awaited,
    ) -> Result<Verdict, Unreadable> {
        let Some(Sent::One(sent)) = connection.sent.pop_front() else {
            return Err(Unreadable);
        };
        let call = awaited.call(Which::Oldest).ok_or(Unreadable)?;
        let cause = match sent.merges {
            true => {
                self.merging.too_long(&call.form);
                self.tell(
                    call,
                    "merged, its answer is more than 1 MiB: fewer go together for a while",
                );
                Cause::Refused
            }
            false => {
                self.tell(call, TOO_LONG);
                Cause::Unfit(TOO_LONG)
            }
        };
        Ok(Verdict {
            query: Which::Oldest,
            outcome: Err(cause),
            is_healthy: true,
            goes_on: true,
        })
    }

    /// Reads what came of a transaction; gives a verdict where that was all.
    fn transacted(
        &mut self,
        connection: &mut Connection,
        mut transaction: Box<Transaction>,
        bytes: &[u8],
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Result<Option<Verdict>, Unreadable> {
        let call = awaited.call(Which::Oldest).ok_or(Unreadable)?;
        let Connection { prepared, more, .. } = connection;
        let next = transaction.answered(call, bytes, &mut self.statements, prepared, more)?;
        let (outcome, is_healthy) = match next {
            Next::More => {
                connection.sent.push_front(Sent::Transaction(transaction));
                return Ok(None);
            }
            Next::Done => {
                if call.has_name {
                    transaction.deliver(&mut self.room, answers);
                }
                (Ok(0), true)
            }
            Next::Undone(transaction::End::Failed(statement, error)) => {
                self.judge(statement, false, call, &error)
            }
            Next::Undone(transaction::End::Rows(_, 0)) => (Ok(BROKEN), true),
            Next::Undone(transaction::End::Rows(at, rows)) => {
                let why = format!("its statement {} has answered {rows} rows, not one", at + 1);
                self.tell(call, &why);
                (
                    Err(Cause::Unfit("a statement has not answered one row")),
                    true,
                )
            }
            Next::Undone(transaction::End::TooLong(at)) => {
                let why = "with its row, those of the transaction are more than 1 MiB";
                self.tell(call, &format!("statement {}: {why}", at + 1));
                (Err(Cause::Unfit(why)), true)
            }
            Next::Undone(transaction::End::Width(at)) => {
                let why = format!(
                    "its statement {} has answered another number of columns than the page takes",
                    at + 1
                );
                self.tell(call, &why);
                (
                    Err(Cause::Unfit("see the log's line about its statement")),
                    true,
                )
            }
        };
        Ok(Some(Verdict {
            query: Which::Oldest,
            outcome,
            is_healthy,
            goes_on: true,
        }))
    }

    /// A line of the log about a call's statement.
    pub(super) fn tell(&self, call: &Call, why: &str) {
        let mut statement = Vec::new();
        numbered(&call.form.pieces, b'$', &mut statement);
        let statement = String::from_utf8_lossy(&statement);
        self.access.words.tell(&statement, why);
    }
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
        if call.asking == Asking::Transaction {
            let Connection { prepared, sent, .. } = connection;
            let statements = &mut self.statements;
            let transaction = Transaction::begin(call, arguments, statements, prepared, out);
            return sent.push_back(Sent::Transaction(Box::new(transaction)));
        }
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
        if merges && merged.is_none() {
            // It was forgotten meanwhile: a statement that is none has them asked one by one.
            messages::parse(b"", std::iter::empty(), out, |out| {
                out.extend_from_slice(b"merged")
            });
            messages::sync(out);
            let (statement, changes) = (self.statements.of(&call.form), false);
            return connection.sent.push_back(Sent::One(Single {
                statement,
                prepares: false,
                changes,
                merges,
            }));
        }
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
        connection.sent.push_back(Sent::One(Single {
            statement,
            prepares: before != Before::Nothing,
            changes,
            merges,
        }));
    }

    fn was_late(&mut self, connection: &Connection, awaited: &Awaited) {
        if let Some(Sent::One(sent)) = connection.sent.front()
            && sent.merges
            && let Some(call) = awaited.call(Which::Oldest)
        {
            self.merging.answered(&call.form, false);
        }
    }

    fn goes_on(&mut self, connection: &mut Connection, out: &mut Vec<u8>) {
        out.append(&mut connection.more);
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
        let Some(sent) = connection.sent.front() else {
            return Err(Unreadable);
        };
        let (ready, is_transaction) = (sent.ready(), matches!(sent, Sent::Transaction(_)));
        if let Some(passing) = &mut connection.passing {
            let Some(used) = passing.go_on(input)? else {
                return Ok((input.len(), None));
            };
            connection.passing = None;
            return self
                .passed(connection, awaited)
                .map(|verdict| (used, Some(verdict)));
        }
        let before = connection.begun.len();
        let mut begun = std::mem::take(&mut connection.begun);
        if before > 0 {
            begun.extend_from_slice(input);
        }
        let bytes = if before > 0 { &begun[..] } else { input };
        let words = &self.access.words;
        let fatal = |error: &ServerError| words.ended(&error.in_words());
        match connection.scan.end(bytes, ready, fatal)? {
            // What a transaction has changed is undone with its connection.
            End::TooLong(_) if is_transaction => {
                if let Some(call) = awaited.call(Which::Oldest) {
                    self.tell(call, TOO_LONG);
                }
                Err(Unreadable)
            }
            End::TooLong(mut passing) => {
                let from = std::mem::take(&mut connection.scan).at;
                self.begins_too_long(connection, &bytes[..from], awaited)?;
                let Some(used) = passing.go_on(&bytes[from..])? else {
                    connection.passing = Some(passing);
                    return Ok((input.len(), None));
                };
                let used = from + used - before;
                self.passed(connection, awaited)
                    .map(|verdict| (used, Some(verdict)))
            }
            End::NotYet => {
                if before == 0 {
                    begun.extend_from_slice(input);
                }
                connection.begun = begun;
                Ok((input.len(), None))
            }
            End::At(end) => {
                let sent = connection.sent.pop_front().ok_or(Unreadable)?;
                let answer = &bytes[..end];
                let verdict = match sent {
                    Sent::One(sent) => {
                        Some(self.verdict(connection, sent, answer, awaited, answers)?)
                    }
                    Sent::Transaction(transaction) => {
                        self.transacted(connection, transaction, answer, awaited, answers)?
                    }
                };
                // What the server says beside answers may stand behind this one.
                if verdict.is_none() {
                    connection.begun = bytes[end..].to_vec();
                    return Ok((input.len(), None));
                }
                Ok((end - before, verdict))
            }
        }
    }
}
