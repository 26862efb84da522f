//! Sessions that several machines share: where service.toml says so, each page that has a session
//! begins with a stage that asks the store for it.

use super::build::PageParts;
use crate::diagnostic::{Report, did_you_mean_or};
use crate::kind::{KeepsSessions, Kinds, SessionWord};
use crate::program::{
    Asking, Call, CallResult, FieldType, Form, SessionLookup, SessionStore, StageProgram, Type,
};
use crate::settings::MAKE_SECRET;
use crate::source::config::ServiceFile;
use std::time::Duration;

/// The store that `store` of `[session]` names, if it names any; mistakes are reported.
pub(super) fn store(
    file: &ServiceFile<'_>,
    kinds: Kinds<'_>,
    report: &mut Report,
) -> Option<SessionStore> {
    let session = &file.config.session;
    let place = file.store?;
    if session.store.is_empty() {
        return None;
    }
    if file.secret.is_none() && !file.secret_lost {
        let message = "machines that share sessions have a secret in common, and there is none";
        let hint = format!("secret_file = \"...\", or secret = \"${{NAME}}\"; {MAKE_SECRET}");
        report.error(place, message, hint);
    }
    let able = || {
        kinds
            .kinds
            .iter()
            .filter(|kind| kind.keeps_sessions.is_some())
    };
    let words: Vec<_> = able().map(|kind| format!("\"{}\"", kind.name)).collect();
    let words = words.join(" or ");
    let Some((backend, kind)) = kinds.of(&session.store) else {
        let is_there = |name: &str| kinds.backends.iter().any(|known| known.name == name);
        // Of a backend whose table is mistaken the kind is not known.
        if !kinds.backends_lost && !is_there(&session.store) {
            let names = kinds.backends.iter().map(|backend| backend.name.as_str());
            let nothing = format!(
                "service.toml needs a table [backend.{}], with kind = {words}",
                session.store
            );
            let hint = did_you_mean_or(&session.store, names, &nothing);
            let message = format!("service.toml has no backend `{}`", session.store);
            report.error(place, message, hint);
        }
        return None;
    };
    let Some(keeps) = &kind.keeps_sessions else {
        let message = format!("a backend of kind {} keeps no sessions", kind.name);
        report.error(place, message, format!("one with kind = {words}"));
        return None;
    };
    // What was used here, and not told to the store yet, is not over before its time.
    let late = session.store_refresh;
    let idle = session.idle_timeout.saturating_add(late);
    if idle.as_secs() >= keeps.seconds_max {
        let message = format!(
            "a backend of kind {} keeps nothing for as long as `idle_timeout` and `store_refresh`",
            kind.name
        );
        let days = keeps.seconds_max / (24 * 60 * 60);
        let hint = format!("less than {days} days together");
        report.error(place, message, hint);
        return None;
    }
    let unused = session.unused_timeout.min(session.idle_timeout) + late;
    let index = (kinds.backends.iter()).position(|known| known.name == backend.name)?;
    Some(store_of(index, keeps, idle, unused))
}

/// What stands before keys of sessions, so that they are told from what else is kept there.
const PREFIX: &str = "session:";

/// A store of this kind. What is not used at all is kept for `unused`, all else for `idle`.
fn store_of(
    backend: usize,
    keeps: &KeepsSessions,
    idle: Duration,
    unused: Duration,
) -> SessionStore {
    let call = |words, time, is_idempotent, asking| Call {
        backend,
        asking,
        form: form(words, seconds(time)),
        columns: 1,
        result: CallResult::Rows(0),
        status: 0,
        has_name: true,
        statements: Box::default(),
        document: None,
        idempotent: is_idempotent,
        optional: false,
        shared: asking == Asking::Query,
        merged: false,
        particulars: Default::default(),
    };
    SessionStore {
        backend,
        look_up: call(keeps.look_up, idle, true, Asking::Query),
        begin: call(keeps.begin, unused, false, Asking::Exec),
        change: call(keeps.change, idle, false, Asking::Exec),
        end: call(keeps.end, idle, true, Asking::Exec),
    }
}

/// So many whole seconds, at least.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// What a command of these words looks like.
fn form(words: &[SessionWord], seconds: u64) -> Form {
    let (mut pieces, mut arguments) = (vec![String::new()], Vec::new());
    for (number, word) in words.iter().enumerate() {
        let Some(piece) = pieces.last_mut() else {
            unreachable!("there is one from the start");
        };
        if number > 0 {
            piece.push(Form::WORD_END);
        }
        match word {
            SessionWord::Is(word) => Form::write_word(word, piece),
            SessionWord::Seconds => Form::write_word(&seconds.to_string(), piece),
            SessionWord::Key | SessionWord::Record => {
                if *word == SessionWord::Key {
                    Form::write_word(PREFIX, piece);
                }
                arguments.push(Type::Text);
                pieces.push(String::new());
            }
        }
    }
    let bytes = |piece: String| piece.into_bytes().into();
    Form {
        pieces: pieces.into_iter().map(bytes).collect(),
        arguments,
    }
}

/// Has a page begin with the stage that asks the store, and gives what it asks by.
pub(super) fn look_up(
    parts: &mut PageParts,
    calls: &mut Vec<Call>,
    stages: &mut Vec<StageProgram>,
    store: &SessionStore,
) -> SessionLookup {
    let scalar = FieldType::Scalar;
    let lookup = SessionLookup {
        asks: parts.field("lookup().asks", scalar(Type::Int)),
        key: parts.field("lookup().key", scalar(Type::Text)),
        record: parts.field(
            "lookup().records",
            FieldType::List(vec![("record".to_owned(), Type::Text)]),
        ),
        status: parts.field("lookup().status", scalar(Type::Int)),
    };
    let call = store.look_up_by(lookup);
    for piece in call.form.pieces.iter().filter(|piece| !piece.is_empty()) {
        parts.texts.intern(&String::from_utf8_lossy(piece));
    }
    calls.push(call);
    stages.push(lookup.stage());
    lookup
}
