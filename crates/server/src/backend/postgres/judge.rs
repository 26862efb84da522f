//! What becomes of a query by the error that the server answers.

use super::messages::ServerError;
use super::statements::Statement;
use super::wire::PostgresWire;
use crate::backend::failure::Cause;
use crate::backend::sql::BROKEN;
use rhythm_engine::program::{Asking, Call};

impl PostgresWire {
    /// What becomes of a statement that fails, and whether the database is in order. The error is
    /// of a statement that was sent, or of what stands around it, such as a commit; and perhaps of
    /// several queries that went as one.
    pub(super) fn judge(
        &mut self,
        statement: Option<Statement>,
        merges: bool,
        call: &Call,
        error: &ServerError,
    ) -> (Result<i64, Cause>, bool) {
        let class = error.code.get(..2).unwrap_or_default();
        let judged = match (class, &*error.code) {
            (_, code) if !merges && call.has_name && breaks_rule(code, call.asking) => {
                // A column has no value that must have one: whoever wrote the page or the table
                // left it out, where other rules are broken by what users ask.
                if code == "23502" {
                    self.tell(call, &error.in_words());
                }
                return (Ok(BROKEN), true);
            }
            // It has to be prepared anew, on all connections: its tables were changed.
            (_, "0A000") if error.routine == "RevalidateCachedQuery" => {
                self.renew(statement);
                self.merging.forget(&call.form);
                return (Err(Cause::Undone), true);
            }
            // It is not known any more, or as something that another has left: and who made one
            // connection forget it may have made others, on one of which it is sent again.
            (_, "26000" | "42P05") => {
                self.renew(statement);
                return (Err(Cause::Undone), true);
            }
            // It stood in another's way, and was undone.
            (_, "40001" | "40P01") => return (Err(Cause::Undone), true),
            // What it says of several queries it may not say of each: they are asked one by one.
            ("42" | "0A" | "54", _) if merges => {
                if self.merging.refuse(&call.form) {
                    let words = error.in_words();
                    self.tell(call, &format!("it is not merged for a while: {words}"));
                }
                return (Err(Cause::Refused), true);
            }
            ("22" | "23", _) if merges => return (Err(Cause::Refused), true),
            // It may be one's value, too, that takes more than there is, or meets a fault.
            ("53" | "58" | "XX", _) if merges && !error.is_fatal => {
                return (Err(Cause::Refused), true);
            }
            (_, "57014") => (Err(Cause::Late), true),
            ("08" | "53" | "57" | "58" | "XX", _) => (Err(Cause::Unwell), false),
            _ => (Err(Cause::Refused), true),
        };
        let words = match (&*error.code, call.asking) {
            ("25006", Asking::Query) => {
                let words = error.in_words();
                format!("{words}: a `query` only reads, `exec` is for what changes something")
            }
            _ => error.in_words(),
        };
        self.tell(call, &words);
        judged
    }

    /// A statement is prepared anew, where it is known which.
    fn renew(&mut self, statement: Option<Statement>) {
        if let Some(statement) = statement {
            self.statements.renew(statement);
        }
    }
}

/// Whether a statement fails so because it would break a rule of the database: a constraint, or
/// what the type of a column holds.
fn breaks_rule(code: &str, asking: Asking) -> bool {
    // Too long, out of range, or no such value.
    let is_unfit = matches!(code, "22001" | "22003" | "22007" | "22008" | "22P02");
    code.starts_with("23") || is_unfit && asking != Asking::Query
}
