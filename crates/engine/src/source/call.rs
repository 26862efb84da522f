//! Steps that ask a backend, as a page's header has them.

use super::declaration::{Asked, CallDecl, STEP_KEYS, check_name, is_name};
use super::keys::{Keys, Text, text_of};
use crate::diagnostic::Report;
use crate::kind::{Asks, Kinds, SQL_KEYS, Verb};
use crate::program::{Asking, Type};
use toml::de::DeTable;

/// The keys of every call.
pub(super) const KEYS: [&str; 8] = [
    "call", "rows", "row", "each", "retry", "share", "merge", "when",
];

/// How a step that is a call says what is asked. Of a backend that is not there it may be told by
/// any key.
pub(super) fn asks<'t>(table: &'t DeTable<'_>, kinds: Kinds<'t>) -> Asks<'t> {
    let called = table.get("call").and_then(|call| call.get_ref().as_str());
    match called.and_then(|backend| kinds.of(backend)) {
        Some((_, kind)) => kind.asks,
        None if SQL_KEYS.iter().any(|key| table.contains_key(*key)) => Asks::Sql,
        None => {
            let all = || kinds.kinds.iter().map(|kind| kind.asks);
            let is = |asks: &Asks<'_>| {
                let mut keys = asks.keys().into_iter();
                keys.any(|key| table.contains_key(key))
            };
            if let Some(asks) = all().find(is) {
                return asks;
            }
            let others = table.keys().map(|key| key.get_ref().as_ref());
            let mut others = others.filter(|key| !STEP_KEYS.contains(key));
            let first = all().find_map(|asks| match asks {
                Asks::Template(key) => Some(key),
                _ => None,
            });
            let only = others.next().filter(|_| others.next().is_none());
            Asks::Template(only.or(first).unwrap_or("request"))
        }
    }
}

/// Reads what a call asks, and tells how. `None`: it could not be read, which is reported.
fn read_asked<'a>(
    keys: &Keys<'_, 'a>,
    asks: Asks<'_>,
    report: &mut Report,
) -> (Asking, Option<Asked<'a>>) {
    match asks {
        Asks::Template(key) => {
            let text = keys.required(key, &format!("{key} = \"...\", a template"), report);
            (Asking::Request, text.map(Asked::Template))
        }
        Asks::Sql => read_statement(keys, report),
        Asks::Command(command) => {
            let form = "[\"...\", \"{{ name }}\"]";
            if keys.lacks(command.key) {
                let message = format!("`{}` is missing", command.key);
                let hint = format!("{} = {form}, the words of a command", command.key);
                report.error(keys.place, message, hint);
            }
            let words = keys.words(command.key, form, report);
            let said = words.iter().flatten().map(|word| word.value.as_str());
            (command.asking(said), words.map(Asked::Words))
        }
        Asks::Verbs(verbs) => read_verb(keys, verbs, report),
    }
}

/// Reads a statement of SQL.
fn read_statement<'a>(keys: &Keys<'_, 'a>, report: &mut Report) -> (Asking, Option<Asked<'a>>) {
    let (key, asking) = match keys.has("exec") {
        true => ("exec", Asking::Exec),
        false => ("query", Asking::Query),
    };
    if asking == Asking::Exec && keys.has("query") {
        let hint = "`query` for a statement that only reads, `exec` for one that changes something";
        let message = "a call has `query` or `exec`, not both";
        report.error(keys.place_of("exec"), message, hint);
        return (asking, None);
    }
    let hint = "query = \"select ...\", or exec = \"insert ...\" for what changes something";
    let text = keys.required(key, hint, report);
    let mut args = Vec::new();
    if let Some((table, _)) = keys.table("args", "{ name = \"expression\" }", report) {
        for (name, value) in Keys::entries(&keys.toml, table) {
            match text_of(&keys.toml, value) {
                Some(text) => args.push((name, text)),
                None => {
                    let hint = format!("{0} = \"...\": a number is {0} = \"7\"", name.value);
                    let message = "values of `args` are expressions, in strings";
                    report.error(name.place, message, hint);
                    return (asking, None);
                }
            }
        }
    }
    (asking, text.map(|text| Asked::Statement(text, args)))
}

/// Reads a verb, and what stands beside it.
fn read_verb<'a>(
    keys: &Keys<'_, 'a>,
    verbs: &[Verb],
    report: &mut Report,
) -> (Asking, Option<Asked<'a>>) {
    let mut said = verbs.iter().filter(|verb| keys.has(verb.key));
    let Some(verb) = said.next() else {
        let known: Vec<&str> = verbs.iter().map(|verb| verb.key).collect();
        let any = |key: &&str| !keys.lacks(key);
        if !known.iter().any(any) {
            let hint = format!("it has one of: {}", known.join(", "));
            report.error(keys.place, "the call does not say what it asks", hint);
        }
        return (Asking::Query, None);
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
        return (Asking::Exec, None);
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
    (asking, words.map(Asked::Words))
}

/// Reads a call.
pub(super) fn read_call<'a>(
    keys: &Keys<'_, 'a>,
    asks: Asks<'_>,
    report: &mut Report,
) -> Option<CallDecl<'a>> {
    let hint = "rows = \"name(column, column:int)\", or row = ... for exactly one row";
    let one_row = keys.has("row");
    if one_row && keys.has("rows") {
        report.error(
            keys.place_of("row"),
            "a call has `row` or `rows`, not both",
            hint,
        );
    }
    let (asking, asked) = read_asked(keys, asks, report);
    // Of what changes something, nobody need look at the answer.
    let has_name = one_row || keys.has("rows") || asking != Asking::Exec;
    let result = match has_name {
        true => keys.required(if one_row { "row" } else { "rows" }, hint, report),
        false => None,
    };
    // Read wrongly, it is none: what else is wrong with the call is told, too.
    let each = keys.text("each", report);
    let each = match each {
        None => (!keys.has("each")).then_some(None),
        Some(text) => {
            let parts: Vec<&str> = text.value.split_whitespace().collect();
            match parts[..] {
                [item, "in", list] if is_name(item) && is_name(list) => {
                    let (item, list) = (item.to_owned(), list.to_owned());
                    Some(Some((text, item, list)))
                }
                _ => {
                    report.error(
                        text.place,
                        "`each` must be of the form \"item in list\"",
                        "each = \"p in payments\", and {{ p }} or {{ p.field }} in what is asked",
                    );
                    None
                }
            }
        }
    };
    let retry = keys.bool("retry", report);
    let share = keys.bool("share", report);
    let merge = keys.bool("merge", report);
    let backend = keys.text("call", report);
    let columns = (result.as_ref()).and_then(|result| read_columns(result, hint, report));
    if one_row && keys.has("each") {
        report.error(
            keys.place_of("row"),
            "a call for each item answers rows",
            "rows = ...",
        );
    }
    let asked = asked?;
    let (result_name, columns) = match has_name {
        true => {
            let (name, columns) = columns?;
            let name = Text {
                value: name,
                ..result?
            };
            (name, columns)
        }
        false => {
            let nameless = Text {
                value: String::new(),
                ..asked.first().clone()
            };
            (nameless, vec![("changed".to_owned(), Type::Int)])
        }
    };
    Some(CallDecl {
        backend: backend?,
        asked,
        asking,
        each: each?,
        result_name,
        columns,
        one_row,
        retry,
        share: share.map(|share| (share, keys.place_of("share"))),
        merge: merge.map(|merge| (merge, keys.place_of("merge"))),
    })
}

/// Reads `name(col, col:int)`.
fn read_columns(
    text: &Text<'_>,
    hint: &str,
    report: &mut Report,
) -> Option<(String, Vec<(String, Type)>)> {
    let parts = text
        .value
        .trim()
        .strip_suffix(')')
        .and_then(|rest| rest.split_once('('));
    let Some((name, list)) = parts else {
        report.error(
            text.place,
            "this does not name rows and their columns",
            hint,
        );
        return None;
    };
    let name = name.trim();
    check_name(
        &Text {
            value: name.to_owned(),
            ..text.clone()
        },
        report,
    );
    let mut columns: Vec<(String, Type)> = Vec::new();
    let mut are_names = true;
    for column in list.split(',') {
        let (column, kind) = match column.trim().split_once(':') {
            None => (column.trim(), Type::Text),
            Some((column, kind)) => match kind.trim() {
                "int" => (column.trim(), Type::Int),
                "text" => (column.trim(), Type::Text),
                other => {
                    report.error(
                        text.place,
                        format!("a column is no `{other}`"),
                        "int or text",
                    );
                    (column.trim(), Type::Text)
                }
            },
        };
        if !is_name(column) {
            report.error(
                text.place,
                format!("`{column}` is no name of a column"),
                hint,
            );
            are_names = false;
        } else if columns.iter().any(|(known, _)| known == column) {
            let hint = "columns go by their order: name them as you like, each otherwise";
            report.error(
                text.place,
                format!("two columns are named `{column}`"),
                hint,
            );
        }
        columns.push((column.to_owned(), kind));
    }
    are_names.then(|| (name.to_owned(), columns))
}
