//! What a statement is given, and why it is not answered.

use rhythm_engine::cohort::Argument;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Error, ToSql};

/// Why a query is not answered.
pub(super) enum Wrong {
    Sqlite(Error),
    Rows(&'static str),
    /// A statement of a transaction has not answered the row that it must.
    NoRow,
}

impl From<Error> for Wrong {
    fn from(why: Error) -> Wrong {
        Wrong::Sqlite(why)
    }
}

/// An argument as SQLite takes it.
pub(super) struct Bound<'a>(pub(super) Argument<'a>);

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
