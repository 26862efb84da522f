//! Databases as they are opened.

use rhythm_engine::settings::BackendConfig;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Error, OpenFlags};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::frames::ANSWER_MAX;

/// The cache of pages of a connection, in KiB.
const CACHE_KIB: i64 = 1024;

/// Prepared statements that a connection keeps.
const STATEMENTS_KEPT: usize = 128;

/// What a connection and its thread take at most: the cache of pages, prepared statements, an
/// answer and what was read of queries, and what SQLite takes to sort before it uses files.
pub(super) const CONNECTION_BYTES_MAX: usize = 4 * ANSWER_MAX;

/// Where a backend's database is.
pub(super) fn path(config: &BackendConfig) -> PathBuf {
    config.folder.join(config.text("file"))
}

/// The text of a backend's schema, if it has one.
fn schema(config: &BackendConfig) -> Result<Option<String>, String> {
    match config.text("schema") {
        "" => Ok(None),
        file => {
            let path = config.folder.join(file);
            let text = fs::read_to_string(&path);
            text.map(Some)
                .map_err(|why| format!("cannot read `schema`, {}: {why}", path.display()))
        }
    }
}

/// Makes the database where there is none, and sees that it can be written.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn prepare(config: &BackendConfig) -> Result<PathBuf, String> {
    let path = path(config);
    let schema = schema(config)?;
    let told = |why: &Error| format!("{}: {}", path.display(), in_words(why));
    if schema.is_none() && !path.exists() {
        return Err(format!(
            "there is no {}: make it (`sqlite3 {} < FILE`), or name a file of SQL that does so as \
             `schema`",
            path.display(),
            path.display()
        ));
    }
    if !path.exists() {
        Connection::open(&path).map_err(|why| told(&why))?;
    }
    let mut connection = open(&path, config.pool.timeout).map_err(|why| told(&why))?;
    if let Some(schema) = schema {
        let make = |connection: &mut Connection| {
            // Two processes may begin at the same time.
            let begun =
                connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let count = "select count(*) from sqlite_schema";
            if begun.query_row(count, [], |row| row.get::<_, i64>(0))? == 0 {
                begun.execute_batch(&schema)?;
            }
            begun.commit()
        };
        make(&mut connection).map_err(|why| format!("`schema` fails: {}", told(&why)))?;
    }
    Ok(path)
}

/// Opens a database that is there, to write and read. What waits for others who write gives up
/// after this time.
pub(super) fn open(path: &Path, timeout: Duration) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(timeout)?;
    // Who reads does not wait for who writes, nor does that for them.
    connection.pragma_update(None, "journal_mode", "wal")?;
    // What was answered is on the disk.
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // "name" is a column, and a mistake where there is none: not a text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, ANSWER_MAX as i32)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(connection)
}

/// Opens a database that is there for a thread that only reads.
pub(super) fn open_to_read(path: &Path, timeout: Duration) -> Result<Connection, Error> {
    let connection = open(path, timeout)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// A database that statements of pages are tried in: the file, or where there is none yet one in
/// memory, made of the schema. `None` where there is neither.
pub(super) fn for_checks(config: &BackendConfig) -> Option<Connection> {
    let path = path(config);
    let connection = if path.exists() {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(path, flags).ok()?
    } else {
        let schema = schema(config).ok()??;
        let connection = Connection::open_in_memory().ok()?;
        connection.execute_batch(&schema).ok()?;
        connection
    };
    let no_texts = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false);
    no_texts.ok()?;
    // Transactions are not a page's: what came together is one.
    let allows = |context: AuthContext<'_>| match context.action {
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => Authorization::Deny,
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => Authorization::Deny,
        _ => Authorization::Allow,
    };
    connection.authorizer(Some(allows)).ok()?;
    Some(connection)
}

/// What SQLite says is wrong.
pub(super) fn in_words(why: &Error) -> String {
    match why {
        Error::SqliteFailure(code, None) => code.to_string(),
        Error::SqliteFailure(_, Some(text)) => text.clone(),
        Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}
