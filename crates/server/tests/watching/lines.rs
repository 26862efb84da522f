//! The lines of the server's log, for tests to read.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, Once, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Takes down what is logged in this process.
struct Taking;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?};", field.name()).expect("room");
    }
}

impl Subscriber for Taking {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// From now on lines are taken down.
pub(crate) fn take() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Taking).expect("the only one"));
}

/// The lines that have this, each as its fields.
pub(crate) fn with(text: &str) -> Vec<String> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let all = lines.iter().filter(|line| line.contains(text));
    all.cloned().collect()
}

/// What a line says of this.
pub(crate) fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let of_name = |part: &'a str| part.strip_prefix(name)?.strip_prefix('=');
    let value = line.split(';').find_map(of_name)?;
    Some(value.trim_matches('"'))
}
