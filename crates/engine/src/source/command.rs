//! Commands that a step asks a backend by: their words, each a template, or a verb and what stands
//! beside it.

use super::keys::{Keys, Text};
use crate::diagnostic::Report;
use crate::kind::{Asks, Command, Verb};
use crate::program::Asking;

/// The words of a command, one at least, and how it asks.
pub(super) type Words<'a> = (Vec<Text<'a>>, Asking);

/// Reads the words of a command.
pub(super) fn read_command<'a>(
    keys: &Keys<'_, 'a>,
    command: Command<'_>,
    report: &mut Report,
) -> Option<Words<'a>> {
    let form = "[\"...\", \"{{ name }}\"]";
    if keys.lacks(command.key) {
        let message = format!("`{}` is missing", command.key);
        let hint = format!("{} = {form}, the words of a command", command.key);
        report.error(keys.place, message, hint);
    }
    let words = keys.words(command.key, form, report)?;
    let asking = command.asking(words.iter().map(|word| word.value.as_str()));
    Some((words, asking))
}

/// Reads a verb, and what stands beside it.
pub(super) fn read_verb<'a>(
    keys: &Keys<'_, 'a>,
    verbs: &[Verb],
    report: &mut Report,
) -> Option<Words<'a>> {
    let mut said = verbs.iter().filter(|verb| keys.has(verb.key));
    let Some(verb) = said.next() else {
        let known: Vec<&str> = verbs.iter().map(|verb| verb.key).collect();
        let any = |key: &&str| !keys.lacks(key);
        if !known.iter().any(any) {
            let hint = format!("it has one of: {}", known.join(", "));
            report.error(keys.place, "the call does not say what it asks", hint);
        }
        return None;
    };
    let asking = match verb.reads {
        true => Asking::Query,
        false => Asking::Exec,
    };
    if let Some(other) = said.next() {
        let message = format!(
            "a call is one thing, and this is `{}` and `{}`",
            verb.key, other.key
        );
        report.error(keys.key_place(other.key), message, "make two steps of it");
        return None;
    }
    let beside = |key: &str| verb.beside.iter().any(|(known, _)| *known == key);
    let others = Asks::Verbs(verbs).keys();
    for key in others
        .iter()
        .filter(|key| **key != verb.key && keys.has(key) && !beside(key))
    {
        let takes: Vec<&str> = verb.beside.iter().map(|(key, _)| *key).collect();
        let hint = match &takes[..] {
            [] => format!("`{}` stands alone", verb.key),
            takes => format!("beside `{}` there are: {}", verb.key, takes.join(", ")),
        };
        let message = format!("`{key}` does not go with `{}`", verb.key);
        report.error(keys.key_place(key), message, hint);
    }
    let mut words = vec![Some(keys.key_text(verb.key)), keys.word(verb.key, report)];
    for (key, absent) in verb.beside {
        words.push(match absent {
            Some(absent) if !keys.has(key) => Some(Text {
                value: (*absent).to_owned(),
                ..keys.key_text(verb.key)
            }),
            _ => {
                if keys.lacks(key) {
                    let message = format!("`{key}` is missing");
                    let hint = format!("{key} = \"...\", a template");
                    report.error(keys.place, message, hint);
                }
                keys.word(key, report)
            }
        });
    }
    let words: Option<Vec<_>> = words.into_iter().collect();
    Some((words?, asking))
}
