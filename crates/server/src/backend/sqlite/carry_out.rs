//! A query, carried out on a connection to the database, and what the log is told of it.

use super::binding::{Bound, Wrong};
use super::frames::{self, ANSWER_MAX, Outcome, framed};
use super::query::{Asked, Query};
use super::transaction;
use super::wrong::{in_words, of_file};
use crate::backend::words::Words;
use rhythm_engine::cohort::{Cell, ROWS_MAX};
use rhythm_net::local;
use rusqlite::ffi::{ErrorCode, SQLITE_CONSTRAINT_NOTNULL};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Statement};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

impl Words {
    /// A statement failed: what became of it.
    pub(super) fn failed(&self, statement: &str, why: &Error) -> Outcome {
        let outcome = outcome_by(why);
        if outcome != Outcome::Broken {
            self.tell(statement, &in_words(why));
        }
        outcome
    }

    /// The database cannot be opened: what becomes of what it is asked.
    pub(super) fn unopened(&self, path: &Path, why: &Error) -> Outcome {
        let is_refused = matches!(
            why.sqlite_error_code(),
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
        );
        let what = match path.exists() {
            true if is_refused => {
                "the database cannot be opened: see whether this user may write it"
            }
            true => "the database cannot be opened",
            false => {
                "the database is gone: put it back, or, where there is a `schema`, have it made \
                 anew by a reload (SIGHUP)"
            }
        };
        self.apart(&of_file(path, why), what);
        outcome_by(why)
    }
}

/// What becomes of a statement that fails so.
fn outcome_by(why: &Error) -> Outcome {
    match why.sqlite_error_code() {
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
    }
}

/// When the statement under way is stopped.
pub(super) struct Deadline {
    begun: Instant,
    timeout: Duration,
    /// In nanoseconds since `begun`.
    at: Arc<AtomicU64>,
    /// Where it is stopped then, its time is not over.
    gives_way: std::cell::Cell<bool>,
}

/// So many steps of SQLite's machine are taken between two looks at the clock: a few rows, each of
/// which may be a text of a megabyte that is searched.
const STEPS: i32 = 100;

/// How often it is looked whether who asks is there: that is a system call.
const LOOKED_EVERY: Duration = Duration::from_millis(10);

impl Deadline {
    /// Has statements of a connection be stopped: when their time is over, and where they are all
    /// this one's who asks, soon after that has hung up.
    pub(super) fn of(
        connection: &Connection,
        timeout: Duration,
        asker: Option<Arc<UnixStream>>,
    ) -> Result<Deadline, Error> {
        let deadline = Deadline {
            begun: Instant::now(),
            // It is to be over, and answered, before the pool gives up its connection, where it has
            // not waited there for long before.
            timeout: timeout - timeout / 16,
            at: Arc::new(AtomicU64::new(u64::MAX)),
            gives_way: std::cell::Cell::new(false),
        };
        let (at, begun) = (deadline.at.clone(), deadline.begun);
        let mut looked = Duration::ZERO;
        let is_over = move || {
            let now = begun.elapsed();
            let is_due = now.saturating_sub(looked) >= LOOKED_EVERY;
            if is_due {
                looked = now;
            }
            let is_late = now.as_nanos() as u64 > at.load(Ordering::Relaxed);
            is_late || is_due && asker.as_ref().is_some_and(|asker| local::is_gone(asker))
        };
        connection.progress_handler(STEPS, Some(is_over))?;
        Ok(deadline)
    }

    /// Whether the time of what came then is over.
    pub(super) fn is_over(&self, came: Instant) -> bool {
        self.begun.elapsed() >= self.until(came)
    }

    /// How much of its time what came then has left.
    pub(super) fn left(&self, came: Instant) -> Duration {
        self.until(came).saturating_sub(self.begun.elapsed())
    }

    /// A statement begins that is to end as what came at this time is to.
    pub(super) fn begin(&self, came: Instant) {
        self.begin_within(came, Duration::MAX);
    }

    /// As [`Deadline::begin`], of one that gives way to others after so long.
    pub(super) fn begin_within(&self, came: Instant, most: Duration) {
        let until = self.until(came);
        let gives_way_at = self.begun.elapsed().saturating_add(most);
        self.gives_way.set(gives_way_at < until);
        let at = until.min(gives_way_at).as_nanos() as u64;
        self.at.store(at, Ordering::Relaxed);
    }

    /// Whether the statement that began last is stopped for the sake of others: it is not late.
    pub(super) fn gives_way(&self) -> bool {
        self.gives_way.get()
    }

    fn until(&self, came: Instant) -> Duration {
        came.saturating_duration_since(self.begun) + self.timeout
    }

    /// It is over: a commit is not stopped.
    pub(super) fn end(&self) {
        self.at.store(u64::MAX, Ordering::Relaxed);
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

/// Carries a query out by its deadline, which has begun, and appends its answer. Of one that has
/// given way the log is told nothing.
pub(super) fn answer(
    connection: &Connection,
    query: &Query<'_>,
    deadline: &Deadline,
    words: &Words,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let answered = match query.asked {
        Asked::Statement(text) => (connection.prepare_cached(text).map_err(Wrong::from))
            .and_then(|mut statement| rows(connection, &mut statement, query, out))
            .map_err(|wrong| (text, wrong)),
        Asked::Transaction(statements) => {
            transaction::answer(connection, statements, query.arguments(), out)
        }
    };
    let Err((statement, wrong)) = answered else {
        return;
    };
    let outcome = match wrong {
        Wrong::Sqlite(why) if deadline.gives_way() && is_stop(&why) => Outcome::Late,
        Wrong::Sqlite(why) => {
            let outcome = words.failed(statement, &why);
            if outcome == Outcome::Broken && (!query.has_name || lacks_value(&why)) {
                // Its page has no status to look at, or cannot be what was meant: nobody else
                // tells of it.
                words.tell(statement, &in_words(&why));
            }
            outcome
        }
        Wrong::Rows(why) => {
            words.tell(statement, why);
            Outcome::Unfit
        }
        Wrong::NoRow => Outcome::Broken,
    };
    out.truncate(start);
    answer_failed(outcome, out);
}

/// Whether a column has no value that must have one: whoever wrote the page or the table left it
/// out, where other rules are broken by what users ask.
fn lacks_value(why: &Error) -> bool {
    let code = why.sqlite_error().map(|error| error.extended_code);
    code == Some(SQLITE_CONSTRAINT_NOTNULL)
}

fn is_stop(why: &Error) -> bool {
    why.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
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
                // Each of a row may be as long as that.
                if out.len() - start > ANSWER_MAX {
                    return Err(Wrong::Rows(
                        "its rows are more than 1 MiB: ask for fewer (`limit`), or less of each",
                    ));
                }
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
