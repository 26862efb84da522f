//! Steps that ask a backend, as a page's header has them.

use super::declaration::{CallDecl, STEP_KEYS, check_name, is_name};
use super::keys::{Keys, Text, text_of};
use crate::diagnostic::Report;
use crate::kind::{Asks, Kinds, SQL_KEYS};
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
            let others = table.keys().map(|key| key.get_ref().as_ref());
            let mut others = others.filter(|key| !STEP_KEYS.contains(key));
            let first = kinds.kinds.iter().find_map(|kind| match kind.asks {
                Asks::Template(key) => Some(key),
                Asks::Sql => None,
            });
            let only = others.next().filter(|_| others.next().is_none());
            Asks::Template(only.or(first).unwrap_or("request"))
        }
    }
}

/// What a call asks.
struct Asked<'a> {
    text: Text<'a>,
    asking: Asking,
    args: Vec<(Text<'a>, Text<'a>)>,
}

/// Reads what a call asks.
fn read_asked<'a>(keys: &Keys<'_, 'a>, asks: Asks<'_>, report: &mut Report) -> Option<Asked<'a>> {
    let (key, asking, hint) = match asks {
        Asks::Template(key) => (key, Asking::Request, format!("{key} = \"...\", a template")),
        Asks::Sql => {
            let is_exec = keys.has("exec");
            if is_exec && keys.has("query") {
                let hint = "`query` for a statement that only reads, `exec` for one that changes \
                            something";
                let message = "a call has `query` or `exec`, not both";
                report.error(keys.place_of("exec"), message, hint);
                return None;
            }
            let hint =
                "query = \"select ...\", or exec = \"insert ...\" for what changes something";
            match is_exec {
                true => ("exec", Asking::Exec, hint.to_owned()),
                false => ("query", Asking::Query, hint.to_owned()),
            }
        }
    };
    let text = keys.required(key, &hint, report);
    let mut args = Vec::new();
    if let Some((table, _)) = keys.table("args", "{ name = \"expression\" }", report) {
        for (name, value) in Keys::entries(&keys.toml, table) {
            match text_of(&keys.toml, value) {
                Some(text) => args.push((name, text)),
                None => {
                    let hint = format!("{0} = \"...\": a number is {0} = \"7\"", name.value);
                    let message = "values of `args` are expressions, in strings";
                    report.error(name.place, message, hint);
                    return None;
                }
            }
        }
    }
    Some(Asked {
        text: text?,
        asking,
        args,
    })
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
    let asked = read_asked(keys, asks, report);
    // Of what changes something, nobody need look at the answer: how many rows are changed.
    let has_name = one_row || keys.has("rows") || asks != Asks::Sql || !keys.has("exec");
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
                ..asked.text.clone()
            };
            (nameless, vec![("changed".to_owned(), Type::Int)])
        }
    };
    Some(CallDecl {
        backend: backend?,
        asked: asked.text,
        asking: asked.asking,
        args: asked.args,
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
