//! What the log is told of statements that fail, at most a line a second of each and
//! of each cause.

use rhythm_engine::cohort::Argument;
use rhythm_engine::program::Form;
use rhythm_engine::settings::{BackendConfig, KeyFlags};
use rhythm_net::Time;
use rhythm_net::sparse::SparseByKind;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A command as the log has it: its words, with `?` for each argument.
pub(super) fn of_command(form: &Form) -> String {
    let arguments = form.arguments.iter().map(|_| Argument::Text(b"?"));
    let mut words = Vec::new();
    form.words(arguments, |word| {
        words.push(String::from_utf8_lossy(word).into_owned());
    });
    words.join(" ")
}

/// Bytes of a statement, or of what a server says of it, in a line.
const TOLD_MAX: usize = 1000;

/// The beginning of a text that may be long, since it is a server's, or has what somebody typed.
fn shortened(text: &str) -> &str {
    let mut end = text.len().min(TOLD_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Words {
    /// The backend's name.
    backend: String,
    /// And what flags have said of it.
    flags: KeyFlags,
    begun: Instant,
    /// By what failed, and why.
    lines: Mutex<SparseByKind<(String, String)>>,
}

impl Words {
    pub(super) fn new(backend: &str) -> Words {
        Words {
            backend: backend.to_owned(),
            flags: KeyFlags::default(),
            begun: Instant::now(),
            lines: Mutex::default(),
        }
    }

    /// Of a backend, whose table flags may have changed.
    pub(super) fn of(config: &BackendConfig) -> Words {
        Words {
            flags: config.flags.clone(),
            ..Words::new(&config.name)
        }
    }

    /// A line about a statement.
    pub(super) fn tell(&self, statement: &str, cause: &str) {
        let (statement, cause) = (shortened(statement), shortened(cause));
        if let Some(left_out) = self.line(statement, cause) {
            let backend = &*self.backend;
            tracing::warn!(backend, statement, cause, left_out, "a statement failed");
        }
    }

    /// A line about connections, and what helps.
    pub(super) fn refused(&self, cause: &str, cure: &str) {
        let cure = self.flags.told(cure);
        self.apart(cause, &format!("the backend refuses connections: {cure}"));
    }

    /// A line about a connection that the server ends.
    pub(super) fn ended(&self, cause: &str) {
        self.apart(cause, "the backend ends connections: see its own log");
    }

    /// A line about what is no statement's.
    pub(super) fn apart(&self, cause: &str, what: &str) {
        let cause = shortened(cause);
        if let Some(left_out) = self.line("", cause) {
            let backend = &*self.backend;
            tracing::warn!(backend, cause, left_out, "{what}");
        }
    }

    fn line(&self, statement: &str, cause: &str) -> Option<u64> {
        let now = Time::ZERO + self.begun.elapsed();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.line((statement.to_owned(), without_values(cause)), now)
    }
}

/// A cause without what stands in quotes and brackets: values of one request, most often, as the
/// name that is there already. Of causes that differ in nothing else a line tells enough.
fn without_values(cause: &str) -> String {
    let mut kind = String::with_capacity(cause.len());
    let mut until = None;
    for (at, c) in cause.char_indices() {
        match (until, c) {
            (Some(end), _) if c == end => until = None,
            (Some(_), _) => continue,
            (None, '(') => until = Some(')'),
            // One within a word is an apostrophe.
            (None, '\'') if cause[..at].ends_with(char::is_alphanumeric) => {}
            (None, '"' | '\'') => until = Some(c),
            (None, _) => {}
        }
        kind.push(c);
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_a_line_of_each_cause_whatever_values_are_in_it() {
        let words = Words::new("shop");
        let is_told = |statement, cause| words.line(statement, cause).is_some();
        assert!(is_told("GET /a", "it answered with status 500"));
        assert!(is_told("GET /a", "it answered with status 404"));
        assert!(is_told("GET /b", "it answered with status 500"));
        assert!(!is_told("GET /a", "it answered with status 500"));
        assert!(is_told("insert", "no \"tom\" (name)=(tom) isn't 'his'"));
        assert!(!is_told("insert", "no \"eve\" (name)=(eve) isn't 'hers'"));
        assert!(is_told("insert", "no \"eve\" (name)=(eve) is 'hers'"));
    }
}
