//! Statements as pages have them, and what is wrong with them: they are prepared as the pages are
//! compiled, in the database, or where there is none yet in one made of the schema.

use super::database;
use super::wrong::in_words;
use crate::backend::sql::{Described, in_pieces, mistake, numbered, unlike};
use rhythm_engine::kind::{CallMistake, CallPart, PageCall};
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
    let names = prepared.column_names();
    let described = Described {
        values: prepared.parameter_count(),
        columns: names.len(),
        reads: prepared.readonly(),
    };
    unlike(call, &described, names.join(", "))
}
