//! Databases as they are opened.

use super::wrong::{FILE, Wrong, in_words};
use rhythm_engine::kind::{BackendMistake, Within};
use rhythm_engine::settings::BackendConfig;
use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::ffi::{ErrorCode, SQLITE_ATTACH, SQLITE_DETACH};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Batch, Connection, Error, OpenFlags};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::file::{self, Opened};
use super::frames::ANSWER_MAX;
use super::passwords;
use crate::backend::files::read_regular;
use crate::backend::sql::behind_comments;

/// The keys of scripts: what makes tables, and what fills them.
pub(super) const SCHEMA: &str = "schema";
pub(super) const DATA: &str = "data";

/// The cache of pages of a connection, in KiB.
const CACHE_KIB: i64 = 1024;

/// Bytes of a script.
const SCRIPT_MAX: u64 = 256 << 20;

/// Prepared statements that a connection keeps.
const STATEMENTS_KEPT: usize = 128;

/// A schema is tried in memory for so long (its mistakes' hint says so), looked at after so many of
/// SQLite's steps.
const TRIED_MAX: Duration = Duration::from_secs(10);
const TRIED_STEPS: i32 = 100_000;
/// And has so many pages, of 4 KiB.
const TRIED_PAGES: i32 = 64 << 10;

/// What a connection and its thread take at most: the cache of pages, prepared statements, an
/// answer and what was read of queries, and what SQLite takes to sort before it uses files.
pub(super) const CONNECTION_BYTES_MAX: usize = 4 * ANSWER_MAX;

/// Where a backend's database is.
pub(super) fn path(config: &BackendConfig) -> PathBuf {
    config.folder.join(config.text(FILE))
}

/// A file of SQL of which a database is made.
struct Script {
    /// As its key has it.
    name: String,
    path: PathBuf,
    text: String,
}

impl Script {
    /// Those that a key names, separated by blanks.
    fn all(config: &BackendConfig, key: &'static str) -> Result<Vec<Script>, Wrong> {
        let names = config.text(key).split_ascii_whitespace();
        let read = |name: &str| {
            let path = config.folder.join(name);
            let text = read_regular(&path, SCRIPT_MAX).and_then(|bytes| {
                String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
            });
            match text {
                Ok(text) => Ok(Script {
                    name: name.to_owned(),
                    path,
                    text,
                }),
                Err(why) => Err(Wrong {
                    hint: "a file of SQL, in the service's folder unless its path says otherwise"
                        .to_owned(),
                    ..Wrong::new(
                        key,
                        format!("cannot read `{key}`, {}: {why}", path.display()),
                    )
                }),
            }
        };
        names.map(read).collect()
    }

    /// Carries it out.
    fn run(&self, key: &'static str, connection: &Connection) -> Result<(), Wrong> {
        let mut statements = Batch::new(connection, &self.text);
        // Where the next one begins.
        let mut begin = 0;
        loop {
            let statement = statements.next().map_err(|why| {
                // What is told is the rest of the text, and where in it the mistake is.
                let offset = match &why {
                    Error::SqlInputError { sql, offset, .. } => (self.text.rfind(sql))
                        .map(|rest| rest + usize::try_from(*offset).unwrap_or(0)),
                    _ => None,
                };
                self.wrong(key, &why, offset)
            })?;
            let Some(mut statement) = statement else {
                return Ok(());
            };
            // As it stands there, but where it has parameters: for these there are no values.
            let text = statement.expanded_sql().unwrap_or_default();
            let found = self.text.get(begin..).and_then(|rest| rest.find(&text));
            let found = found.map(|found| begin + found);
            begin = found.map_or(begin, |found| found + text.len());
            let mut rows = statement.raw_query();
            let told = |why: Error| {
                let comments = text.len() - behind_comments(text.as_bytes()).len();
                self.wrong(key, &why, found.map(|found| found + comments))
            };
            while rows.next().map_err(told)?.is_some() {}
        }
    }

    /// What is wrong with it, and where in it, where that is known.
    fn wrong(&self, key: &'static str, why: &Error, offset: Option<usize>) -> Wrong {
        let words = in_words(why);
        let hint = match why.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => {
                "a row that is written here breaks a rule of its table: mend the row, or the rule"
            }
            Some(ErrorCode::OperationInterrupted) => {
                "a schema is tried in memory as pages are checked, for ten seconds: what takes \
                 longer is for `data`"
            }
            Some(ErrorCode::AuthorizationForStatementDenied) => {
                "scripts are of this database alone: they attach no other file, nor write one"
            }
            _ if offset.is_none() => "mend that: until then no page's statement is tried",
            _ => "mend this statement: pages' own are tried once the tables can be made",
        };
        let Some(offset) = offset else {
            let path = self.path.display();
            return Wrong {
                hint: hint.to_owned(),
                ..Wrong::new(key, format!("`{key}` fails: {path}: {words}"))
            };
        };
        let within = Within {
            file: self.name.clone(),
            text: self.text.clone(),
            offset: offset.min(self.text.len()),
        };
        Wrong {
            within: Some(Box::new((self.path.clone(), within))),
            hint: hint.to_owned(),
            ..Wrong::new(key, format!("`{key}` fails: {words}"))
        }
    }
}

/// Carries out the scripts of a key, one after the other. They are of this database alone: whoever
/// checks another's service has no file written by it, nor read.
fn run(scripts: &[Script], key: &'static str, connection: &Connection) -> Result<(), Wrong> {
    let allows = |context: AuthContext<'_>| match is_of_another_file(&context.action) {
        true => Authorization::Deny,
        false => Authorization::Allow,
    };
    let told = |why: Error| Wrong::new(key, format!("`{key}` fails: {}", in_words(&why)));
    connection.authorizer(Some(allows)).map_err(told)?;
    let done = (scripts.iter()).try_for_each(|script| script.run(key, connection));
    let everything: Option<fn(AuthContext<'_>) -> Authorization> = None;
    connection.authorizer(everything).map_err(told)?;
    done
}

fn has_tables(connection: &Connection) -> Result<bool, Error> {
    let count = "select count(*) from sqlite_schema";
    connection.query_row(count, [], |row| row.get::<_, i64>(0).map(|count| count > 0))
}

/// Neither a file nor a schema.
fn none_there(path: &Path) -> Wrong {
    Wrong {
        hint: format!(
            "make it (`sqlite3 {} < FILE`), or name a file of SQL that does so as `schema`",
            path.display()
        ),
        ..Wrong::new(FILE, format!("there is no {}", path.display()))
    }
}

/// Tells what is wrong with a backend, before its statements are tried.
pub(super) fn check(config: &BackendConfig) -> Option<BackendMistake> {
    let tried = for_checks(config).and_then(|_| match path(config).exists() {
        true => Ok(()),
        false => Script::all(config, DATA).map(drop),
    });
    tried.err().map(Wrong::into_mistake)
}

/// Sees whether the database can be opened, or made where there is none.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn reach(config: &BackendConfig) -> Result<(), Wrong> {
    let path = path(config);
    is_regular(&path)?;
    if !path.exists() {
        let schema = Script::all(config, SCHEMA)?;
        return match schema.is_empty() {
            true => Err(none_there(&path)),
            false => Ok(()),
        };
    }
    let opened = connect(&path, config.pool.timeout);
    let told = |why: Error| Wrong::of_file(&path, &why);
    opened.map(drop).map_err(told)
}

/// Makes the database where there is none, and sees that it can be written. Gives where it is, and
/// whether it was made.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn prepare(config: &BackendConfig) -> Result<(PathBuf, bool), Wrong> {
    let path = path(config);
    is_regular(&path)?;
    let [schema, data] = [SCHEMA, DATA].map(|key| Script::all(config, key));
    let (schema, data) = (schema?, data?);
    let told = |why: Error| Wrong::of_file(&path, &why);
    let is_new = !path.exists();
    if is_new {
        if schema.is_empty() {
            return Err(none_there(&path));
        }
        Connection::open(&path).map_err(told)?;
    }
    let connection = connect(&path, config.pool.timeout).map_err(told)?;
    if schema.is_empty() {
        return Ok((path, false));
    }
    let is_made = make(&path, connection, &schema, &data, is_new)?;
    Ok((path, is_made))
}

/// Makes the tables of a database that has none, and gives whether it had none. One that was a new
/// file is gone again where its scripts fail: empty, it is no database of anybody's.
fn make(
    path: &Path,
    mut connection: Connection,
    schema: &[Script],
    data: &[Script],
    is_new: bool,
) -> Result<bool, Wrong> {
    let told = |why: Error| Wrong::of_file(path, &why);
    // Two processes may begin at the same time. Whoever comes later waits here, and then finds what
    // the other has made; where he cannot, it is the other's all the same.
    let begun = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(told)?;
    if has_tables(&begun).map_err(told)? {
        return Ok(false);
    }
    let filled = run(schema, SCHEMA, &begun)
        .and_then(|()| run(data, DATA, &begun))
        .and_then(|()| begun.commit().map_err(told));
    if filled.is_err() && is_new {
        // What was made beside it goes with the connection.
        drop(connection);
        let _ = fs::remove_file(path);
    }
    filled.map(|()| true)
}

/// Sees that a file that is there is one that SQLite may open: it would wait for a pipe for ever.
/// Nobody but SQLite opens it in this process: with any descriptor of a file that is closed all
/// locks of the process go (POSIX, fcntl), those of other connections included, and another process
/// would take it for one that nobody uses.
fn is_regular(path: &Path) -> Result<(), Wrong> {
    let told = |why: io::Error| Wrong::new(FILE, format!("{}: {why}", path.display()));
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err(told(io::Error::other("it is no regular file"))),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(why) => Err(told(why)),
    }
}

/// Opens a database that is there, to write and read. What waits for others who write gives up
/// after this time.
pub(super) fn open(path: &Path, timeout: Duration) -> Result<Opened, Error> {
    Opened::new(path, || connect(path, timeout))
}

/// As [`open`], of a connection that is soon closed.
fn connect(path: &Path, timeout: Duration) -> Result<Connection, Error> {
    file::make_way();
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
    passwords::add_to(&connection)?;
    // What SQLite has beside the file is there when it was read.
    has_tables(&connection)?;
    Ok(connection)
}

/// Opens a database that is there for a thread that only reads.
pub(super) fn open_to_read(path: &Path, timeout: Duration) -> Result<Opened, Error> {
    let connection = open(path, timeout)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// A database that statements of pages are tried in: the file, or where that has no tables yet one
/// in memory, made of the schema; and the file that says what is in it.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn for_checks(config: &BackendConfig) -> Result<(Connection, PathBuf), Wrong> {
    let (path, mut schema) = (path(config), Script::all(config, SCHEMA)?);
    is_regular(&path)?;
    let told = |why: Error| Wrong::of_file(&path, &why);
    let open = || {
        file::make_way();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags)?;
        Ok((has_tables(&connection)?, connection))
    };
    let there = path.exists().then(open).transpose().map_err(told)?;
    let (connection, place) = match (there, schema.is_empty()) {
        (None, true) => return Err(none_there(&path)),
        (Some((true, connection)), _) | (Some((false, connection)), true) => {
            (connection, path.clone())
        }
        (_, false) => {
            let connection = in_memory(&schema, TRIED_MAX)?;
            (connection, schema.swap_remove(0).path)
        }
    };
    prepare_to_check(&connection).map_err(told)?;
    Ok((connection, place))
}

/// A database in memory that is made of the schema, which takes no more time, nor memory, than is
/// well for who waits for a check.
fn in_memory(schema: &[Script], most: Duration) -> Result<Connection, Wrong> {
    let told = |why: Error| Wrong::new(SCHEMA, in_words(&why));
    let begun = Instant::now();
    let is_over = move || begun.elapsed() > most;
    let open = || {
        let connection = Connection::open_in_memory()?;
        connection.pragma_update(None, "max_page_count", TRIED_PAGES)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, ANSWER_MAX as i32)?;
        connection.progress_handler(TRIED_STEPS, Some(is_over))?;
        Ok(connection)
    };
    let connection = open().map_err(told)?;
    run(schema, SCHEMA, &connection)?;
    let never: Option<fn() -> bool> = None;
    connection.progress_handler(0, never).map_err(told)?;
    Ok(connection)
}

/// Whether a statement is right in a database that is made of the schema, though it is not in the
/// one that there is.
pub(super) fn is_of_a_later_schema(config: &BackendConfig, statement: &str) -> bool {
    let made = Script::all(config, SCHEMA).and_then(|schema| in_memory(&schema, TRIED_MAX));
    made.is_ok_and(|connection| {
        prepare_to_check(&connection).is_ok() && connection.prepare(statement).is_ok()
    })
}

/// Has a connection take statements as those of the threads do.
fn prepare_to_check(connection: &Connection) -> Result<(), Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    passwords::add_to(connection)?;
    // Transactions are not a page's: what came together is one.
    let allows = |context: AuthContext<'_>| match context.action {
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => Authorization::Deny,
        action if is_of_another_file(&action) => Authorization::Deny,
        _ => Authorization::Allow,
    };
    connection.authorizer(Some(allows))
}

/// Whether a statement attaches another database, as `vacuum into` does, too. Where the file's name
/// is an expression SQLite tells none, which is unknown then.
fn is_of_another_file(action: &AuthAction<'_>) -> bool {
    match action {
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => true,
        AuthAction::Unknown { code, .. } => [SQLITE_ATTACH, SQLITE_DETACH].contains(code),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_that_never_ends_is_stopped_where_it_is_tried() {
        let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) \
                       select count(*) from n;";
        let script = Script {
            name: "schema.sql".to_owned(),
            path: "schema.sql".into(),
            text: endless.to_owned(),
        };
        let most = Duration::from_millis(50);
        let wrong = in_memory(&[script], most).expect_err("it never ends");
        assert!(wrong.hint.contains("ten seconds"), "{wrong:?}");
    }

    #[test]
    fn scripts_touch_no_other_file() {
        let connection = Connection::open_in_memory().unwrap();
        let other = std::env::temp_dir().join(format!("rhythm-attached-{}.db", std::process::id()));
        for statement in [
            "attach '{}' as o",
            "attach '{}' || '' as o",
            "vacuum into '{}'",
        ] {
            let script = Script {
                name: "schema.sql".to_owned(),
                path: "schema.sql".into(),
                text: statement.replace("{}", &other.to_string_lossy()) + ";",
            };
            let wrong = run(&[script], SCHEMA, &connection).expect_err("another file");
            assert!(wrong.hint.contains("this database alone"), "{wrong:?}");
            assert!(!other.exists(), "{statement}");
        }
    }

    #[test]
    fn a_row_that_breaks_a_rule_is_told_where_it_is_written() {
        let connection = Connection::open_in_memory().unwrap();
        let script = |text: &str| Script {
            name: "a.sql".to_owned(),
            path: "a.sql".into(),
            text: text.to_owned(),
        };
        let rest = "create table t(a check (a > 0)) /* ; */;;\n-- one; and another\n\
                    insert into t values (1) returning a;\n\n-- a third\n/* and */\n";
        let whole = script(&format!(
            "{rest}insert into t values (2), (0);\nselect 1;\n"
        ));
        let wrong = whole.run(SCHEMA, &connection).unwrap_err();
        let offset = wrong.within.as_ref().map(|within| within.1.offset);
        assert_eq!(offset, Some(rest.len()));
        let told = wrong.to_string();
        assert!(
            told.starts_with("a.sql:7: `schema` fails: CHECK constraint failed")
                && told.ends_with("mend the row, or the rule"),
            "{told}"
        );
        let count = "select count(*) from t";
        let count: i64 = connection.query_row(count, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1);
        assert!(
            script("select 1; -- no more\n")
                .run(DATA, &connection)
                .is_ok()
        );
        // Parameters have no values, and are not read as they stand.
        for text in [
            "select ?, ?, ?; select 1",
            "select ?; select '\u{e9}'; select ?",
        ] {
            assert!(script(text).run(DATA, &connection).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_new_file_is_gone_again_where_its_scripts_fail_and_stays_where_another_fills_it() {
        let path = std::env::temp_dir().join(format!("rhythm-made-{}.db", std::process::id()));
        let script = |text: &str| Script {
            name: "a.sql".to_owned(),
            path: "a.sql".into(),
            text: text.to_owned(),
        };
        let fill = [script("create table t(a); insert into t values (1)")];
        let wrong = [script("insert into nothing values (1)")];
        let opened = || {
            let connection = Connection::open(&path).unwrap();
            connection.busy_timeout(Duration::ZERO).unwrap();
            connection
        };
        let failed = make(&path, opened(), &fill, &wrong, true).unwrap_err();
        let failed = failed.to_string();
        assert!(failed.contains("a.sql:1: `data` fails"), "{failed}");
        assert!(!path.exists());
        // Another process is at it.
        let mut other = opened();
        let begun = other
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .unwrap();
        let failed = make(&path, opened(), &fill, &wrong, true).unwrap_err();
        let failed = failed.to_string();
        assert!(failed.contains("locked"), "{failed}");
        run(&fill, SCHEMA, &begun).unwrap();
        begun.commit().unwrap();
        assert!(has_tables(&opened()).unwrap());
        fs::remove_file(&path).unwrap();
    }
}
