//! What is wrong with a page's statement: the database is asked, as the page is compiled. Where
//! that cannot be, a warning says so, and pages that fail say the rest.

use super::access::Access;
use super::cells::is_never;
use super::client::{Client, Described};
use super::greeting::Refusal;
use super::messages::ServerError;
use super::statements::types;
use crate::backend::sql::{self, behind_comments, in_pieces, mistake, numbered, unlike};
use crate::backend::waited::Absent;
use rhythm_engine::diagnostic::Severity;
use rhythm_engine::kind::{CallMistake, CallPart, PageCall};
use rhythm_engine::program::Type;

/// Those that could not be asked.
static ABSENT: Absent<Refusal> = Absent::new();

/// Tells what is wrong with a call, if the database can be asked.
pub(super) fn check(call: &PageCall<'_>) -> Option<CallMistake> {
    let mut statement = Vec::new();
    numbered(&call.form.pieces, b'$', &mut statement);
    if let Some(word) = ends_transactions(&statement) {
        let message = format!("a page begins and ends no transaction, and has no `{word}`");
        let hint = "each `exec`, and all of a `transaction`, is done whole or not at all";
        return Some(mistake(CallPart::Asked, message, hint));
    }
    if statement.contains(&0) {
        let message = "a statement has no zero byte".to_owned();
        let hint = "chr(0) is none of PostgreSQL's characters, either";
        return Some(mistake(CallPart::Asked, message, hint));
    }
    let described = match ask(call, &statement) {
        Ok(Ok(described)) => described,
        Ok(Err(why)) => {
            let hint = where_tried(&why, call.backend.shown_text("url"));
            let characters = std::str::from_utf8(&statement).ok()?;
            let at = (why.position.checked_sub(1))
                .and_then(|at| Some(characters.char_indices().nth(at)?.0));
            return Some(CallMistake {
                at: at.and_then(|at| in_pieces(&call.form.pieces, at)),
                ..mistake(CallPart::Asked, why.in_words(), hint)
            });
        }
        Err(refusal) => {
            let (name, flags) = (&call.backend.name, &call.backend.flags);
            let message = format!(
                "statements of the backend `{name}` cannot be checked: {}",
                flags.told(&refusal.cause)
            );
            return Some(CallMistake {
                severity: Severity::Warning,
                ..mistake(CallPart::Asked, message, flags.told(refusal.cure))
            });
        }
    };
    let unlike = unlike(
        call,
        &sql::Described {
            values: described.parameters,
            columns: described.columns.len(),
            reads: !described.columns.is_empty() && !is_change(&statement),
        },
        "name each, in the order of the statement",
    );
    if unlike.is_some() || described.columns.is_empty() || !call.has_name {
        return unlike;
    }
    let wrong = (call.columns.iter().zip(&described.columns))
        .find(|((_, kind), answered)| is_never(**answered, *kind));
    wrong.map(|((name, kind), _)| {
        let (what, suffix, cast) = match kind {
            Type::Bool => ("truth value", "bool", "boolean"),
            Type::Float => ("float", "float", "float8"),
            Type::Int | Type::Text => ("integer", "int", "bigint"),
        };
        let message = format!("`{name}` is no {what}");
        let hint = format!("`{name}` without `:{suffix}`, or a cast in the statement: `x::{cast}`");
        mistake(CallPart::Columns, message, hint)
    })
}

/// Asks the database what a call's statement is.
fn ask(call: &PageCall<'_>, statement: &[u8]) -> Result<Result<Described, ServerError>, Refusal> {
    let config = call.backend;
    ABSENT.unless_absent(config, || {
        let access = Access::of(config).map_err(|cause| Refusal {
            cause,
            cure: "mend that",
        })?;
        let client = Client::open(&access)?;
        match client.describe(types(call.form), statement)? {
            // Somebody holds a table, say: that is no mistake of the page's.
            Err(error) if is_of_server(&error.code) => Err(error.into()),
            described => Ok(described),
        }
    })
}

/// Where a statement was tried that is wrong, and how the table is made that it lacks there.
fn where_tried(why: &ServerError, url: &str) -> String {
    let tried = format!("it is tried in {url}");
    // A name that no `from` has is of the same code.
    let is_absent = why.code == "42P01" && why.routine == "parserOpenTable";
    let command = match url.starts_with("postgres") {
        true => format!("`psql {url} --file FILE`"),
        // It stands elsewhere.
        false => "`psql URL --file FILE`".to_owned(),
    };
    match is_absent {
        true => format!(
            "{tried}, whose tables psql makes: {command} (`schema` is a key of SQLite's alone)"
        ),
        false => tried,
    }
}

/// Whether an error is about what the server can do now, by its SQLSTATE.
fn is_of_server(code: &str) -> bool {
    let class = code.get(..2).unwrap_or_default();
    matches!(class, "08" | "40" | "53" | "55" | "57" | "58" | "XX")
}

/// The first word of a statement, in small letters.
fn first_word(statement: &[u8]) -> Vec<u8> {
    let mut rest = behind_comments(statement);
    while let [b'(', inside @ ..] = rest {
        rest = behind_comments(inside);
    }
    let is_letter = |byte: &&u8| byte.is_ascii_alphabetic();
    let word: Vec<u8> = rest.iter().take_while(is_letter).copied().collect();
    word.to_ascii_lowercase()
}

/// Whether a statement is one that changes something, by its first word. What a function does, or
/// what stands in a `with`, the server refuses when it is done.
fn is_change(statement: &[u8]) -> bool {
    matches!(
        &*first_word(statement),
        b"insert" | b"update" | b"delete" | b"merge"
    )
}

/// The first word of a statement that ends transactions or changes what holds for a connection.
fn ends_transactions(statement: &[u8]) -> Option<&'static str> {
    let word = first_word(statement);
    let words = [
        "begin",
        "start",
        "commit",
        "end",
        "rollback",
        "abort",
        "savepoint",
        "release",
        "prepare",
        "deallocate",
        "discard",
        "set",
        "reset",
        "listen",
        "copy",
    ];
    words.into_iter().find(|known| known.as_bytes() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_says_what_a_statement_is() {
        for (statement, word) in [
            ("select 1", "select"),
            (" -- delete\n /* x */ (INSERT into a", "insert"),
            ("-- nothing", ""),
            ("/* nothing", ""),
            ("with a as (delete from b) select 1", "with"),
        ] {
            assert_eq!(first_word(statement.as_bytes()), word.as_bytes());
        }
        assert!(is_change(b"Delete from a") && !is_change(b"select 1"));
        assert_eq!(ends_transactions(b"COMMIT"), Some("commit"));
        assert_eq!(ends_transactions(b"select 1"), None);
    }
}
