//! Statements as pages have them, and what is wrong with them: they are prepared as the pages are
//! compiled, in the database, or where there is none yet in one made of the schema.

use super::database;
use super::wrong::in_words;
use crate::backend::sql::{Described, in_pieces, mistake, numbered, unlike};
use rhythm_engine::diagnostic::Severity;
use rhythm_engine::kind::{CallMistake, CallPart, PageCall};
use rhythm_engine::program::Type;
use rusqlite::Statement;
use rusqlite::ffi::ErrorCode;

/// Tells what is wrong with a call, or with the database that it asks.
pub(super) fn check(call: &PageCall<'_>) -> Option<CallMistake> {
    let error = |message: String, hint: String| Some(mistake(CallPart::Asked, message, hint));
    let mut statement = Vec::new();
    numbered(&call.form.pieces, b'?', &mut statement);
    let statement = String::from_utf8(statement).ok()?;
    let (connection, place) = match database::for_checks(call.backend) {
        Ok(tried) => tried,
        Err(why) => {
            let name = &call.backend.name;
            let message = format!("the database of the backend `{name}` cannot be asked: {why}");
            let hint = "mend that: until then no page's statement is tried";
            return error(message, hint.to_owned());
        }
    };
    let prepared = match connection.prepare(&statement) {
        Ok(prepared) => prepared,
        Err(why) => {
            let (message, hint) = match why.sqlite_error_code() {
                Some(ErrorCode::AuthorizationForStatementDenied) => (
                    "a page begins and ends no transaction, and attaches no other file".to_owned(),
                    "what comes together is one transaction, and each `exec` alone is done whole \
                     or not at all"
                        .to_owned(),
                ),
                _ => {
                    // -1 where it is not known.
                    let at = match &why {
                        rusqlite::Error::SqlInputError { offset, .. } => {
                            usize::try_from(*offset).ok()
                        }
                        _ => None,
                    };
                    let mut hint = format!("it is tried in {}", place.display());
                    if database::is_of_a_later_schema(call.backend, &statement) {
                        hint += ", which was made of an earlier schema than the one that there is \
                                 now: change it (`sqlite3 FILE`), or remove it, with FILE-wal and \
                                 FILE-shm, and it is made anew";
                    }
                    return Some(CallMistake {
                        at: at.and_then(|at| in_pieces(&call.form.pieces, at)),
                        ..mistake(CallPart::Asked, in_words(&why), hint)
                    });
                }
            };
            return error(message, hint);
        }
    };
    let unlike = unlike_answer(call, &prepared);
    unlike.or_else(|| unlike_declared(call, &prepared))
}

/// Tells where a statement is not of the kind, or has not the values and columns, that its page
/// says.
fn unlike_answer(call: &PageCall<'_>, prepared: &Statement<'_>) -> Option<CallMistake> {
    let names = prepared.column_names();
    let described = Described {
        values: prepared.parameter_count(),
        columns: names.len(),
        reads: prepared.readonly(),
    };
    unlike(call, &described, names.join(", "))
}

/// Tells where columns are others by their tables than by the page, and rows may not be what it
/// says. A text may hold a number, and any column null, so it is no error.
fn unlike_declared(call: &PageCall<'_>, prepared: &Statement<'_>) -> Option<CallMistake> {
    if !call.has_name {
        return None;
    }
    let columns = prepared.columns();
    let pairs = call.columns.iter().zip(&columns);
    let unlike = pairs.filter_map(|((name, kind), answered)| {
        let declared = answered.decl_type()?;
        let is_unlike = match Affinity::of(declared) {
            Affinity::Text => *kind != Type::Text,
            Affinity::Real => matches!(kind, Type::Int | Type::Bool),
            Affinity::Other => false,
        };
        let here = match kind {
            Type::Bool => "a truth value",
            Type::Float => "a float",
            Type::Int => "an integer",
            Type::Text => "a text",
        };
        let declared = declared.to_lowercase();
        is_unlike.then(|| format!("`{name}` is declared {declared} in its table, and {here} here"))
    });
    let unlike: Vec<String> = unlike.collect();
    let hint = "a row with another value is answered 502: say `:float` of what is real and nothing \
                of a text, or have the table declare what the page needs";
    (!unlike.is_empty()).then(|| CallMistake {
        severity: Severity::Warning,
        ..mistake(CallPart::Columns, unlike.join("; "), hint.to_owned())
    })
}

/// What becomes of values in a column (SQLite, *Datatypes*, section 3.1), as far as that tells what
/// it holds.
#[derive(Debug, PartialEq, Eq)]
enum Affinity {
    /// Numbers become texts.
    Text,
    /// Integers become floats.
    Real,
    Other,
}

impl Affinity {
    /// That of a column that is declared so.
    fn of(declared: &str) -> Affinity {
        let declared = declared.to_ascii_uppercase();
        let has = |parts: &[&str]| parts.iter().any(|part| declared.contains(part));
        // In the order of the rules.
        if has(&["INT"]) {
            Affinity::Other
        } else if has(&["CHAR", "CLOB", "TEXT"]) {
            Affinity::Text
        } else if !has(&["BLOB"]) && has(&["REAL", "FLOA", "DOUB"]) {
            Affinity::Real
        } else {
            Affinity::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_column_holds_follows_from_how_it_is_declared() {
        for (affinity, all) in [
            (Affinity::Text, &["text", "VARCHAR(20)", "Clob"][..]),
            (Affinity::Real, &["real", "DOUBLE PRECISION", "float"]),
            (
                Affinity::Other,
                &[
                    "integer",
                    "CHARINT",
                    "floating point",
                    "boolean",
                    "blob",
                    "",
                ],
            ),
        ] {
            for declared in all {
                assert_eq!(Affinity::of(declared), affinity, "{declared}");
            }
        }
    }
}
