//! Functions of SQL that make hashes of passwords, and compare passwords with them, by Argon2id.
//!
//! ```sql
//! select password_hash(:password)
//! select password_matches(:password, hash)
//! ```
//!
//! They run on the threads of the database, each a few hundredths of a second, as is their purpose.

use argon2::password_hash::Error as HashError;
use argon2::{Argon2, Params, PasswordHash, PasswordHasher, PasswordVerifier};
use rand_chacha::rand_core::{OsRng, TryRngCore};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error};
use std::num::NonZero;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;

/// Bytes of a password: what is longer is no password, and would only cost time.
const PASSWORD_MAX: usize = 1024;

/// What a hash made elsewhere may ask for: KiB of memory, and passes over it. Ours ask for what
/// OWASP's Password Storage Cheat Sheet says, which are the crate's defaults: 19 MiB, two passes.
const MEMORY_MAX_KIB: u32 = 64 << 10;
const PASSES_MAX: u32 = 10;

const SALT: usize = 16;

/// Makes the functions known to a connection. They are for statements of pages alone, not for
/// triggers and views of a file that somebody else may have made.
pub(super) fn add_to(connection: &Connection) -> Result<(), Error> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("password_hash", 1, flags, |called| {
        let password = password(called)?;
        password.map(hash).transpose().map_err(failed)
    })?;
    let flags = flags | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("password_matches", 2, flags, |called| {
        let Some(password) = password(called)? else {
            return Ok(false);
        };
        let hash = match called.get_raw(1) {
            ValueRef::Null => None,
            ValueRef::Text(hash) => Some(hash),
            _ => return Err(failed("password_matches: a hash is a text")),
        };
        matches(password, hash).map_err(failed)
    })
}

fn failed(why: &'static str) -> Error {
    Error::UserFunctionError(why.into())
}

/// The first argument; `None` where it is null.
fn password<'a>(called: &'a Context<'_>) -> Result<Option<&'a [u8]>, Error> {
    match called.get_raw(0) {
        ValueRef::Null => Ok(None),
        ValueRef::Text(text) if text.len() <= PASSWORD_MAX => Ok(Some(text)),
        ValueRef::Text(_) => Err(failed("a password has 1024 bytes at most")),
        _ => Err(failed("a password is a text")),
    }
}

/// A hash of a password, with a salt of its own, as a PHC string: `$argon2id$v=19$m=...`.
fn hash(password: &[u8]) -> Result<String, &'static str> {
    let mut salt = [0; SALT];
    let drawn = OsRng.try_fill_bytes(&mut salt);
    drawn.map_err(|_| "password_hash: the system gives no random bytes")?;
    let _turn = turn();
    let hash = Argon2::default().hash_password_with_salt(password, &salt);
    hash.map(|hash| hash.to_string())
        .map_err(|_| "password_hash: there is no memory for it")
}

/// Whether a hash is of this password. Where there is none, as of a name that nobody has, that
/// takes as long, so that how long it takes tells nobody which names there are.
fn matches(password: &[u8], hash: Option<&[u8]>) -> Result<bool, &'static str> {
    const UNKNOWN: &str = "password_matches: this is no hash that it can be compared with";
    let hash = hash.map(|hash| std::str::from_utf8(hash).map_err(|_| UNKNOWN));
    let hash = hash.transpose()?.map(PasswordHash::new);
    let Some(hash) = hash.transpose().map_err(|_| UNKNOWN)? else {
        let _turn = turn();
        let none = Argon2::default().hash_password_with_salt(password, &[0; SALT]);
        return none.map(|_| false).map_err(|_| UNKNOWN);
    };
    let asks = Params::try_from(&hash).map_err(|_| UNKNOWN)?;
    if asks.m_cost() > MEMORY_MAX_KIB || asks.t_cost() > PASSES_MAX {
        return Err("password_matches: this hash asks for more than 64 MiB, or ten passes");
    }
    let _turn = turn();
    match Argon2::default().verify_password(password, &hash) {
        Ok(()) => Ok(true),
        Err(HashError::PasswordInvalid) => Ok(false),
        Err(_) => Err(UNKNOWN),
    }
}

/// A place among those that are at it, until it is dropped: half as many as there are processors,
/// since anybody may ask for it, and the others are for answers; and each has its memory. Who waits
/// for one waits for a few of them.
struct Turn;

static TAKEN: Mutex<usize> = Mutex::new(0);
static ONE_IS_FREE: Condvar = Condvar::new();

fn turn() -> Turn {
    static MOST: OnceLock<usize> = OnceLock::new();
    let processors = || thread::available_parallelism().map_or(1, NonZero::get);
    let most = *MOST.get_or_init(|| processors().div_ceil(2));
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = ONE_IS_FREE.wait_while(taken, |taken| *taken >= most);
    *waited.unwrap_or_else(PoisonError::into_inner) += 1;
    Turn
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ONE_IS_FREE.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        add_to(&connection).unwrap();
        connection
    }

    fn ask(connection: &Connection, sql: &str) -> Result<String, String> {
        let row = connection.query_row(sql, [], |row| row.get(0));
        row.map_err(|why| why.to_string())
    }

    #[test]
    fn a_password_matches_its_own_hash_alone() {
        let connection = connection();
        let hash = |password: &str| {
            let sql = format!("select password_hash('{password}')");
            ask(&connection, &sql).unwrap()
        };
        let matches = |password: &str, hash: &str| {
            let sql = format!("select '' || password_matches({password}, {hash})");
            ask(&connection, &sql)
        };
        let (first, second) = (hash("a secret"), hash("a secret"));
        assert!(
            first.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{first}"
        );
        assert_ne!(first, second);
        for made in [&first, &second] {
            let made = format!("'{made}'");
            assert_eq!(matches("'a secret'", &made).as_deref(), Ok("1"));
            assert_eq!(matches("'A secret'", &made).as_deref(), Ok("0"));
            assert_eq!(matches("null", &made).as_deref(), Ok("0"));
        }
        assert_eq!(matches("'a secret'", "null").as_deref(), Ok("0"));
        let null = "select '' || (password_hash(null) is null)";
        assert_eq!(ask(&connection, null).as_deref(), Ok("1"));
        // No passwords, and no hashes.
        for wrong in ["1", "x'00'"] {
            assert!(matches(wrong, &format!("'{first}'")).is_err());
        }
        for wrong in ["''", "'a secret'", "7", "'$argon2id$v=19$m=19456,t=2,p=1$'"] {
            assert!(matches("'a secret'", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_asked_for_is_bounded() {
        let connection = connection();
        let long = "x".repeat(PASSWORD_MAX + 1);
        let sql = format!("select password_hash('{long}')");
        assert!(ask(&connection, &sql).unwrap_err().contains("1024 bytes"));
        for costs in ["m=4194304,t=2,p=1", "m=19456,t=4294967295,p=1"] {
            let hash = format!("$argon2id$v=19${costs}$c29tZXNhbHRzb21l$c29tZWhhc2hzb21laGFzaA");
            let sql = format!("select password_matches('a', '{hash}')");
            let said = ask(&connection, &sql).unwrap_err();
            assert!(said.contains("more than 64 MiB"), "{said}");
        }
    }

    #[test]
    fn a_file_of_somebody_elses_has_none_made() {
        let connection = connection();
        let view = "create view v as select password_hash('a')";
        connection.execute_batch(view).unwrap();
        let said = ask(&connection, "select * from v").unwrap_err();
        assert!(said.contains("unsafe use"), "{said}");
    }
}
