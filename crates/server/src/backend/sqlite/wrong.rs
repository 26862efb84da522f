//! What is wrong with a backend's database, and where in the service's files.

use rhythm_engine::kind::{BackendMistake, Within};
use rusqlite::Error;
use rusqlite::ffi::ErrorCode;
use std::fmt;
use std::path::{Path, PathBuf};

/// The key of the database.
pub(super) const FILE: &str = "file";

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Wrong {
    /// The key of the backend's table that it is about.
    pub(super) key: &'static str,
    /// The script that it is in, and where.
    pub(super) within: Option<Box<(PathBuf, Within)>>,
    /// What it is.
    pub(super) why: String,
    /// What would be right.
    pub(super) hint: String,
}

impl Wrong {
    pub(super) fn new(key: &'static str, why: String) -> Wrong {
        Wrong {
            key,
            within: None,
            why,
            hint: "mend that: until then no page's statement is tried".to_owned(),
        }
    }

    /// What SQLite says of the database.
    pub(super) fn of_file(path: &Path, why: &Error) -> Wrong {
        let wrong = Wrong::new(FILE, of_file(path, why));
        match why.sqlite_error_code() {
            // SQLite has other files beside it while it is open.
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Wrong {
                    hint: format!(
                        "this user must be able to write {} and its folder",
                        path.display()
                    ),
                    ..wrong
                }
            }
            Some(ErrorCode::NotADatabase) => Wrong {
                hint: format!(
                    "name a database of SQLite as `{FILE}`, or a file that is not there yet, and \
                     it is made of `schema`"
                ),
                ..wrong
            },
            Some(ErrorCode::ConstraintViolation) => Wrong {
                hint: "mend the row that its scripts write, or the rule".to_owned(),
                ..wrong
            },
            _ => wrong,
        }
    }

    /// As a mistake of the service's.
    pub(super) fn into_mistake(self) -> BackendMistake {
        BackendMistake {
            key: self.key,
            within: self.within.map(|within| within.1),
            message: self.why,
            hint: self.hint,
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((path, Within { text, offset, .. })) = self.within.as_deref() {
            let line = 1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..*offset]).count();
            write!(f, "{}:{line}: ", path.display())?;
        }
        write!(f, "{}; {}", self.why, self.hint)
    }
}

impl From<Wrong> for String {
    fn from(wrong: Wrong) -> String {
        wrong.to_string()
    }
}

/// What SQLite says of a database, which may name it.
pub(super) fn of_file(path: &Path, why: &Error) -> String {
    let (path, words) = (path.display().to_string(), in_words(why));
    match words.contains(&path) {
        true => words,
        false => format!("{path}: {words}"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn who_may_not_write_is_told_what_he_must_be_able_to() {
        let of = |code| {
            let why = Error::SqliteFailure(ffi::Error::new(code), None);
            Wrong::of_file(Path::new("a/b.db"), &why).to_string()
        };
        let helps = "must be able to write a/b.db and its folder";
        assert!(of(ffi::SQLITE_READONLY).contains(helps));
        assert!(of(ffi::SQLITE_CANTOPEN).contains(helps));
        assert!(!of(ffi::SQLITE_NOTADB).contains(helps));
    }

    #[test]
    fn what_is_wrong_with_a_script_is_said_where_it_is() {
        let wrong = Wrong {
            within: Some(Box::new((
                PathBuf::from("/shop/schema.sql"),
                Within {
                    file: "schema.sql".to_owned(),
                    text: "create table a(b);\ncreate tabel c(d);\n".to_owned(),
                    offset: 26,
                },
            ))),
            ..Wrong::new("schema", "`schema` fails: x".to_owned())
        };
        let told = wrong.to_string();
        assert!(
            told.starts_with("/shop/schema.sql:2: `schema` fails: x"),
            "{told}"
        );
        let mistake = wrong.into_mistake();
        let within = mistake.within.map(|within| (within.file, within.offset));
        assert_eq!(
            (mistake.key, within),
            ("schema", Some(("schema.sql".to_owned(), 26)))
        );
    }
}
