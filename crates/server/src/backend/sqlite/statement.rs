//! Statements as pages have them, and what is wrong with them: they are prepared as the pages are
//! compiled, in the database, or where there is none yet in one made of the schema.

use super::database;
use crate::backend::sql::numbered;
use rhythm_engine::diagnostic::Severity;
use rhythm_engine::kind::{CallMistake, CallPart, PageCall};
use rhythm_engine::program::Asking;
use rusqlite::ffi::ErrorCode;

/// Tells what is wrong with a call, or with the database that it asks.
pub(super) fn check(call: &PageCall<'_>) -> Option<CallMistake> {
    let error = |part, message: String, hint: String| {
        let severity = Severity::Error;
        Some(CallMistake {
            part,
            severity,
            message,
            hint,
        })
    };
    let mut statement = Vec::new();
    numbered(&call.form.pieces, b'?', &mut statement);
    let statement = String::from_utf8(statement).ok()?;
    let (connection, place) = match database::for_checks(call.backend) {
        Ok(tried) => tried,
        Err(why) => {
            let name = &call.backend.name;
            let message = format!("the database of the backend `{name}` cannot be asked: {why}");
            let hint = "mend that, and statements are tried";
            return error(CallPart::Asked, message, hint.to_owned());
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
                    let hint = format!("it is tried in {}", place.display());
                    (database::in_words(&why), hint)
                }
            };
            return error(CallPart::Asked, message, hint);
        }
    };
    if prepared.parameter_count() != call.form.arguments.len() {
        let hint = "`:name` where a value goes, and args = { name = \"expression\" }";
        let message = "it has values that are not given by name";
        return error(CallPart::Asked, message.to_owned(), hint.to_owned());
    }
    if call.asking == Asking::Query && !prepared.readonly() {
        let hint = "exec = \"...\" is for such";
        let message = "this statement changes something, and `query` only reads";
        return error(CallPart::Asked, message.to_owned(), hint.to_owned());
    }
    let given = call.columns.len();
    let answered = prepared.column_names();
    let so_many = |count| match count {
        1 => "1 column".to_owned(),
        count => format!("{count} columns"),
    };
    match answered.len() {
        0 if given == 1 => None,
        0 => {
            let message = "a statement that returns nothing answers 1 column: how many rows it \
                           has changed";
            let hint = "row = \"done(changed:int)\", or neither `row` nor `rows`";
            error(CallPart::Columns, message.to_owned(), hint.to_owned())
        }
        // Nobody looks at what it answers.
        _ if !call.has_name => None,
        count if count == given => None,
        count => {
            let message = format!("the statement answers {}, not {given}", so_many(count));
            error(CallPart::Columns, message, answered.join(", "))
        }
    }
}
