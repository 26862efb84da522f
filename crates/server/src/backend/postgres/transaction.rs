//! A transaction: statements of one request, of which all are done or none.
//!
//! ```text
//!   begin, statements up to the first whose row is looked at, Sync ->
//!       <- its row: another number than one undoes all
//!   statements up to the next such one, Sync ->                        and so on
//!       <-
//!   the last statements, Sync, commit ->
//! ```
//!
//! So what nobody looks at costs no way to the server and back, and a transaction of such
//! statements alone is one write. Values of later statements are what the server has answered, as
//! it wrote it. Where one fails, all is undone (`rollback`) before the query is told of.

use super::answer::{changed, columns};
use super::cells::{cell, oid, write};
use super::messages::{self, Fields, Message, ServerError};
use super::scan::ANSWER_MAX;
use super::statements::{Before, Prepared, Statement, Statements, types};
use crate::backend::answers::QueryAnswers;
use crate::backend::sql::numbered;
use crate::backend::wire::Unreadable;
use rhythm_engine::cohort::{Argument, Cell};
use rhythm_engine::program::{Call, Source, Statement as Asked};
use std::ops::Range;

/// A transaction on its way.
#[derive(Debug)]
pub(super) struct Transaction {
    /// The query's arguments, as texts.
    arguments: Vec<Vec<u8>>,
    /// The cells that were answered: their types, and where they are nothing or texts.
    cells: Vec<(u32, Option<Range<usize>>)>,
    texts: Vec<u8>,
    /// Those of its statements that are under way.
    leg: Range<usize>,
    /// Each of them, and whether it is prepared with it.
    sent: Vec<(Statement, bool)>,
    standing: Standing,
}

/// How far a transaction is.
#[derive(Debug)]
enum Standing {
    /// Statements are done.
    Open,
    /// The last of them are done, and all of it is committed.
    Committing,
    /// It is undone, for this reason.
    Undoing(End),
}

/// Why a transaction is not done.
#[derive(Debug)]
pub(super) enum End {
    /// It fails so: this statement, or what stands around all of them.
    Failed(Option<Statement>, ServerError),
    /// A statement whose row is looked at has answered so many.
    Rows(usize, usize),
    /// A statement whose row is looked at has answered another number of columns.
    Width(usize),
    /// With the row of this statement, all that are looked at are longer than an answer may be.
    TooLong(usize),
}

/// What becomes of a transaction by what the server has said.
#[derive(Debug)]
pub(super) enum Next {
    /// There is more to be said to it, which stands in `out`.
    More,
    /// It is done.
    Done,
    /// It was undone.
    Undone(End),
}

impl Transaction {
    /// Begins one.
    pub(super) fn begin<'a>(
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
        statements: &mut Statements,
        prepared: &mut Prepared,
        out: &mut Vec<u8>,
    ) -> Transaction {
        let as_text = |argument| {
            let mut text = Vec::new();
            write(argument, &mut text);
            text
        };
        let mut transaction = Transaction {
            arguments: arguments.map(as_text).collect(),
            cells: Vec::new(),
            texts: Vec::new(),
            leg: 0..0,
            sent: Vec::new(),
            standing: Standing::Open,
        };
        messages::parse(b"", std::iter::empty(), out, |out| {
            out.extend_from_slice(b"begin read write");
        });
        messages::execute(b"", 0, 0, out, |_| {});
        transaction.go_on(call, statements, prepared, out);
        transaction
    }

    /// Says the next statements.
    fn go_on(
        &mut self,
        call: &Call,
        statements: &mut Statements,
        prepared: &mut Prepared,
        out: &mut Vec<u8>,
    ) {
        let rest = &call.statements[self.leg.end..];
        let is_seen = |asked: &Asked| asked.columns > 0;
        let stop = rest.iter().position(is_seen);
        let count = stop.map_or(rest.len(), |stop| stop + 1);
        self.leg = self.leg.end..self.leg.end + count;
        self.sent.clear();
        for asked in &rest[..count] {
            let statement = statements.of(&asked.form);
            let name = &statement.name;
            let before = prepared.uses(statement);
            if let Before::Prepare { closes } = before {
                for old in closes.iter().chain([name]) {
                    messages::of_statement(b'C', old, out);
                }
                messages::parse(name, types(&asked.form), out, |out| {
                    numbered(&asked.form.pieces, b'$', out);
                });
                messages::of_statement(b'D', name, out);
            }
            messages::execute(name, asked.arguments.len(), 0, out, |out| {
                asked
                    .arguments
                    .iter()
                    .for_each(|source| self.value(*source, out));
            });
            self.sent.push((statement, before != Before::Nothing));
        }
        if count > 0 {
            messages::sync(out);
        }
        if stop.is_none() {
            self.standing = Standing::Committing;
            messages::query(b"commit", out);
        }
    }

    /// Appends the value of an argument.
    fn value(&self, source: Source, out: &mut Vec<u8>) {
        match source {
            Source::Argument(number) => {
                messages::value(out, |out| out.extend_from_slice(&self.arguments[number]));
            }
            Source::Cell(number) => match &self.cells[number].1 {
                Some(text) => {
                    messages::value(out, |out| out.extend_from_slice(&self.texts[text.clone()]));
                }
                None => messages::null(out),
            },
        }
    }

    /// How often the server is ready before there is something to be said to it.
    pub(super) fn ready(&self) -> usize {
        match self.standing {
            Standing::Committing => usize::from(!self.leg.is_empty()) + 1,
            Standing::Open | Standing::Undoing(_) => 1,
        }
    }

    /// What the server has said has come so far as it is ready that often.
    pub(super) fn answered(
        &mut self,
        call: &Call,
        bytes: &[u8],
        statements: &mut Statements,
        prepared: &mut Prepared,
        out: &mut Vec<u8>,
    ) -> Result<Next, Unreadable> {
        let read = self.read(call, bytes, prepared)?;
        let is_idle = read.state == b'I';
        match std::mem::replace(&mut self.standing, Standing::Open) {
            Standing::Undoing(why) => match is_idle {
                true => Ok(Next::Undone(why)),
                false => Err(Unreadable),
            },
            // Where something failed, the commit was a rollback.
            Standing::Committing => match (read.end, is_idle) {
                (Some(why), true) => Ok(Next::Undone(why)),
                (None, true) if read.completed == read.expected => Ok(Next::Done),
                _ => Err(Unreadable),
            },
            Standing::Open => {
                let Some(why) = read.end else {
                    if read.completed != read.expected || read.state != b'T' {
                        return Err(Unreadable);
                    }
                    self.go_on(call, statements, prepared, out);
                    return Ok(Next::More);
                };
                messages::query(b"rollback", out);
                self.standing = Standing::Undoing(why);
                Ok(Next::More)
            }
        }
    }

    /// Reads what came since something was said last, and keeps the row that is looked at.
    fn read(
        &mut self,
        call: &Call,
        bytes: &[u8],
        prepared: &mut Prepared,
    ) -> Result<Read, Unreadable> {
        let begins = usize::from(self.leg.start == 0);
        let commits = usize::from(matches!(self.standing, Standing::Committing));
        let is_undone = matches!(self.standing, Standing::Undoing(_));
        let mut read = Read {
            completed: 0,
            expected: match is_undone {
                true => 1,
                false => begins + self.leg.len() + commits,
            },
            state: 0,
            end: None,
        };
        let (mut described, mut rows) = (0, 0);
        for Message { tag, body } in messages::all(bytes) {
            let mut fields = Fields(body);
            let at = read.completed.wrapping_sub(begins);
            let statement = self
                .sent
                .get(at)
                .filter(|_| !is_undone)
                .map(|(sent, _)| *sent);
            match (tag, statement) {
                (b'T', Some(statement)) => {
                    described = at + 1;
                    columns(fields, prepared.columns(statement))?;
                }
                (b'n', Some(statement)) => {
                    described = at + 1;
                    prepared.columns(statement).clear();
                }
                (b'D', Some(statement)) if self.asked(call, at).columns > 0 => {
                    rows += 1;
                    if rows == 1 && self.texts.len() + body.len() > ANSWER_MAX {
                        read.end.get_or_insert(End::TooLong(self.leg.start + at));
                    } else if rows == 1 {
                        self.keep(fields, prepared.columns(statement))?;
                    }
                }
                (b'D', Some(_)) => {}
                (b'C' | b'I', statement) => {
                    read.completed += 1;
                    let Some(statement) = statement else {
                        continue;
                    };
                    let (wanted, kinds) =
                        (self.asked(call, at).columns, prepared.columns(statement));
                    if wanted > 0 && kinds.is_empty() && tag == b'C' {
                        let count = changed(fields.text()?).to_string();
                        self.keep_cell(oid::INT8, Some(count.as_bytes()));
                        rows = 1;
                    }
                    if wanted > 0 && usize::from(wanted) != kinds.len().max(1) {
                        read.end.get_or_insert(End::Width(self.leg.start + at));
                    } else if wanted > 0 && rows != 1 {
                        read.end.get_or_insert(End::Rows(self.leg.start + at, rows));
                    }
                }
                (b'E', statement) => {
                    let error = ServerError::read(body)?;
                    read.end.get_or_insert(End::Failed(statement, error));
                }
                (b'Z', _) => read.state = fields.u8()?,
                (b'1' | b'2' | b'3' | b't' | b'N' | b'A' | b'S', _) => {}
                _ => return Err(Unreadable),
            }
        }
        // What came behind one that fails was not prepared.
        for (statement, prepares) in self.sent.iter().skip(described) {
            if *prepares && !is_undone {
                prepared.lost(*statement);
            }
        }
        Ok(read)
    }

    /// A statement of those under way.
    fn asked<'c>(&self, call: &'c Call, at: usize) -> &'c Asked {
        &call.statements[self.leg.start + at]
    }

    fn keep(&mut self, mut fields: Fields<'_>, kinds: &[u32]) -> Result<(), Unreadable> {
        if usize::from(fields.u16()?) != kinds.len() {
            return Err(Unreadable);
        }
        for kind in kinds {
            match fields.u32()? {
                u32::MAX => self.keep_cell(*kind, None),
                length => {
                    let text = fields.bytes(length as usize)?;
                    self.keep_cell(*kind, Some(text));
                }
            }
        }
        Ok(())
    }

    fn keep_cell(&mut self, kind: u32, text: Option<&[u8]>) {
        let start = self.texts.len();
        self.texts.extend_from_slice(text.unwrap_or_default());
        let text = text.map(|_| start..self.texts.len());
        self.cells.push((kind, text));
    }

    /// Delivers the cells of all rows that are looked at as one row.
    pub(super) fn deliver(&self, room: &mut Vec<u8>, answers: &mut QueryAnswers) {
        for (kind, text) in &self.cells {
            match text {
                Some(text) => answers.cell(cell(*kind, &self.texts[text.clone()], room)),
                None => answers.cell(Cell::Null),
            }
        }
        if !self.cells.is_empty() {
            answers.end_row();
        }
    }
}

/// What was read since something was said last.
struct Read {
    /// How many statements were done, `begin` and `commit` among them.
    completed: usize,
    expected: usize,
    /// How the server says that it stands.
    state: u8,
    end: Option<End>,
}
