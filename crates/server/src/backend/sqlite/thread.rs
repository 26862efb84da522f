//! A thread that answers what comes over one connection of a pool.

use super::database;
use super::frames::{self, ANSWER_MAX, Outcome, Query, framed};
use super::writer::Writer;
use rhythm_engine::cohort::{Argument, Cell, ROWS_MAX};
use rhythm_net::Time;
use rhythm_net::sparse::SparseByKind;
use rusqlite::ffi::ErrorCode;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error, Statement, ToSql};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How much is read at a time.
const READ: usize = 64 << 10;

/// A database that threads have open.
pub(super) struct Shared {
    pub(super) path: PathBuf,
    /// How long a statement may take.
    pub(super) timeout: Duration,
    pub(super) writer: Writer,
    pub(super) words: Words,
}

/// What the log is told, at most a line a second of each statement.
pub(super) struct Words {
    /// The backend's name.
    backend: String,
    begun: Instant,
    lines: Mutex<SparseByKind<String>>,
}

impl Words {
    pub(super) fn new(backend: &str) -> Words {
        Words {
            backend: backend.to_owned(),
            begun: Instant::now(),
            lines: Mutex::default(),
        }
    }

    /// A statement failed: what became of it.
    pub(super) fn failed(&self, statement: &str, why: &Error) -> Outcome {
        let outcome = match why.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => Outcome::Broken,
            Some(ErrorCode::OperationInterrupted | ErrorCode::DatabaseBusy) => Outcome::Late,
            Some(ErrorCode::TooBig | ErrorCode::TypeMismatch) => Outcome::Unfit,
            Some(
                ErrorCode::Unknown
                | ErrorCode::ReadOnly
                | ErrorCode::ApiMisuse
                | ErrorCode::ParameterOutOfRange
                | ErrorCode::AuthorizationForStatementDenied
                | ErrorCode::SchemaChanged,
            ) => Outcome::Refused,
            None => Outcome::Refused,
            Some(_) => Outcome::Failed,
        };
        if outcome != Outcome::Broken {
            self.tell(statement, &database::in_words(why));
        }
        outcome
    }

    /// A line about a statement.
    pub(super) fn tell(&self, statement: &str, cause: &str) {
        let now = Time::ZERO + self.begun.elapsed();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left_out) = lines.line(statement.to_owned(), now) {
            let backend = &*self.backend;
            tracing::warn!(backend, statement, cause, left_out, "a statement failed");
        }
    }
}

/// When the statement under way is stopped.
#[derive(Clone)]
pub(super) struct Deadline {
    begun: Instant,
    timeout: Duration,
    /// In nanoseconds since `begun`.
    at: Arc<AtomicU64>,
}

/// So many steps of SQLite's machine are taken between two looks at the clock.
const STEPS: i32 = 4000;

impl Deadline {
    /// Has statements of a connection be stopped.
    pub(super) fn of(connection: &Connection, timeout: Duration) -> Result<Deadline, Error> {
        let deadline = Deadline {
            begun: Instant::now(),
            timeout,
            at: Arc::new(AtomicU64::new(u64::MAX)),
        };
        let (at, begun) = (deadline.at.clone(), deadline.begun);
        let is_late = move || begun.elapsed().as_nanos() as u64 > at.load(Ordering::Relaxed);
        connection.progress_handler(STEPS, Some(is_late))?;
        Ok(deadline)
    }

    /// A statement begins.
    pub(super) fn begin(&self) {
        let at = (self.begun.elapsed() + self.timeout).as_nanos() as u64;
        self.at.store(at, Ordering::Relaxed);
    }

    /// It is over: a commit is not stopped.
    pub(super) fn end(&self) {
        self.at.store(u64::MAX, Ordering::Relaxed);
    }
}

/// Answers what comes until the connection ends.
pub(super) fn run(stream: UnixStream, shared: &Shared) {
    let stream = Arc::new(stream);
    let mut reader = None;
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut piece = vec![0; READ];
    loop {
        match (&*stream).read(&mut piece) {
            Ok(0) => return,
            Ok(read) => input.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        let mut used = 0;
        let mut frames = Vec::new();
        while let Some((frame, length)) = frames::first(&input[used..]) {
            frames.push(frame);
            used += length;
        }
        answer_all(&frames, &stream, &mut reader, shared, &mut output);
        drop(frames);
        input.drain(..used);
        if (&*stream).write_all(&output).is_err() {
            return;
        }
        output.clear();
        output.shrink_to(READ);
    }
}

/// Answers queries that came together. What they read is of one moment, later than the last of
/// them, but for what one that changes something has done before it.
fn answer_all(
    frames: &[&[u8]],
    asker: &Arc<UnixStream>,
    reader: &mut Option<(Connection, Deadline)>,
    shared: &Shared,
    out: &mut Vec<u8>,
) {
    for frame in frames {
        let Some(query) = Query::read(frame) else {
            answer_failed(Outcome::Failed, out);
            continue;
        };
        if query.changes {
            end_reading(reader);
            shared.writer.carry_out(frame, asker, &shared.words, out);
            continue;
        }
        let (connection, deadline) = match reader {
            Some(opened) => opened,
            None => match open(shared) {
                Ok(opened) => reader.insert(opened),
                Err(why) => {
                    answer_failed(shared.words.failed("", &why), out);
                    continue;
                }
            },
        };
        if frames.len() > 1 && connection.is_autocommit() {
            // Where it fails, each is read for itself.
            let _ = connection.execute_batch("begin");
        }
        deadline.begin();
        answer(connection, &query, &shared.words, out);
        deadline.end();
    }
    end_reading(reader);
}

fn open(shared: &Shared) -> Result<(Connection, Deadline), Error> {
    let connection = database::open_to_read(&shared.path, shared.timeout)?;
    let deadline = Deadline::of(&connection, shared.timeout)?;
    Ok((connection, deadline))
}

/// Ends the transaction that reads, if there is one.
fn end_reading(reader: &mut Option<(Connection, Deadline)>) {
    if let Some((connection, _)) = reader
        && !connection.is_autocommit()
        && connection.execute_batch("commit").is_err()
    {
        // Opened anew, it is at nothing.
        *reader = None;
    }
}

/// Appends an answer that is none.
pub(super) fn answer_failed(outcome: Outcome, out: &mut Vec<u8>) {
    framed(out, |out| out.push(outcome as u8));
}

/// The outcome that the frame of an answer tells.
pub(super) fn outcome_of(answer: &[u8]) -> Option<Outcome> {
    let (frame, _) = frames::first(answer)?;
    Outcome::read(frame).map(|(outcome, _)| outcome)
}

/// Carries a query out, and appends its answer.
pub(super) fn answer(connection: &Connection, query: &Query<'_>, words: &Words, out: &mut Vec<u8>) {
    let start = out.len();
    let answered = connection
        .prepare_cached(query.statement)
        .map_err(Wrong::from)
        .and_then(|mut statement| rows(connection, &mut statement, query, out));
    let outcome = match answered {
        Ok(()) => return,
        Err(Wrong::Sqlite(why)) => words.failed(query.statement, &why),
        Err(Wrong::Rows(why)) => {
            words.tell(query.statement, why);
            Outcome::Unfit
        }
    };
    out.truncate(start);
    answer_failed(outcome, out);
}

/// Why a query is not answered.
enum Wrong {
    Sqlite(Error),
    Rows(&'static str),
}

impl From<Error> for Wrong {
    fn from(why: Error) -> Wrong {
        Wrong::Sqlite(why)
    }
}

/// An argument as SQLite takes it.
struct Bound<'a>(Argument<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>, Error> {
        Ok(match self.0 {
            Argument::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text)),
            Argument::Int(value) => ToSqlOutput::Owned(Value::Integer(value)),
            Argument::Float(value) => ToSqlOutput::Owned(Value::Real(value)),
            Argument::Bool(value) => ToSqlOutput::Owned(Value::Integer(value.into())),
        })
    }
}

/// Carries a statement out, and appends its rows. Of one that returns nothing the one row is the
/// number of rows that it has changed; of one at whose answer nobody looks there are none.
fn rows(
    connection: &Connection,
    statement: &mut Statement<'_>,
    query: &Query<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Wrong> {
    for (number, argument) in (1..).zip(query.arguments()) {
        statement.raw_bind_parameter(number, Bound(argument))?;
    }
    let (width, wanted) = (statement.column_count(), usize::from(query.columns));
    if wanted > 0 && wanted != width.max(1) {
        return Err(Wrong::Rows(
            "it answers another number of columns than the page takes",
        ));
    }
    let before = connection.total_changes();
    framed(out, |out| {
        let start = out.len();
        out.push(Outcome::Rows as u8);
        out.extend_from_slice(&query.columns.to_ne_bytes());
        let mut rows = statement.raw_query();
        let mut count = 0;
        while let Some(row) = rows.next()? {
            if wanted == 0 {
                continue;
            }
            count += 1;
            if count > ROWS_MAX {
                return Err(Wrong::Rows("it answers too many rows: give it a `limit`"));
            }
            for column in 0..width {
                frames::write_cell(cell(row.get_ref(column)?), out);
            }
            if out.len() - start > ANSWER_MAX {
                return Err(Wrong::Rows(
                    "its rows are more than 1 MiB: give it a `limit`",
                ));
            }
        }
        if width == 0 && wanted > 0 {
            let changed = connection.total_changes() - before;
            frames::write_cell(Cell::Int(changed as i64), out);
        }
        Ok(())
    })
}

fn cell(value: ValueRef<'_>) -> Cell<'_> {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(value) => Cell::Int(value),
        ValueRef::Real(value) => Cell::Float(value),
        ValueRef::Text(text) => Cell::Text(text),
        ValueRef::Blob(blob) => Cell::Bytes(blob),
    }
}
