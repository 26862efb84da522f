//! What the log is told of statements that fail, at most a line a second of each.

use rhythm_engine::cohort::Argument;
use rhythm_engine::program::Form;
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
    begun: Instant,
    lines: Mutex<SparseByKind<String>>,
}

impl Words {
    pub(super) fn new(backend: &str) -> Words {
        Words {
            backend: backend.to_owned(),
            begun: Instant::now(),
            lines: Mutex::default(),
        }
    }

    /// A line about a statement.
    pub(super) fn tell(&self, statement: &str, cause: &str) {
        let (statement, cause) = (shortened(statement), shortened(cause));
        if let Some(left_out) = self.line(statement) {
            let backend = &*self.backend;
            tracing::warn!(backend, statement, cause, left_out, "a statement failed");
        }
    }

    /// A line about connections, and what helps.
    pub(super) fn refused(&self, cause: &str, cure: &str) {
        let cause = shortened(cause);
        if let Some(left_out) = self.line(cause) {
            let backend = &*self.backend;
            tracing::warn!(
                backend,
                cause,
                left_out,
                "the backend refuses connections: {cure}"
            );
        }
    }

    /// A line about a connection that the server ends.
    pub(super) fn ended(&self, cause: &str) {
        let cause = shortened(cause);
        if let Some(left_out) = self.line(cause) {
            let backend = &*self.backend;
            tracing::warn!(
                backend,
                cause,
                left_out,
                "the backend ends connections: see its own log"
            );
        }
    }

    fn line(&self, kind: &str) -> Option<u64> {
        let now = Time::ZERO + self.begun.elapsed();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.line(kind.to_owned(), now)
    }
}
