//! Steps that ask a backend, as a page's header has them.

use super::command::{Words, read_command, read_verb};
use super::declaration::{
    CallDecl, EachDecl, NamedRow, STEP_KEYS, StatementDecl, check_name, is_name,
};
use super::http_call::{Request, read_document, read_request};
use super::keys::{Keys, Text, TomlText, text_of};
use crate::diagnostic::Report;
use crate::kind::{Asks, Kinds, SQL_KEYS};
use crate::program::{Asking, Type};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The keys of every call.
pub(super) const KEYS: [&str; 9] = [
    "call", "rows", "row", "each", "retry", "optional", "share", "merge", "when",
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

/// What a call asks.
struct Asked<'a> {
    /// Of a transaction its first statement, of a command its first word.
    text: Text<'a>,
    asking: Asking,
    /// Of a command.
    words: Vec<Text<'a>>,
    args: Vec<(Text<'a>, Text<'a>)>,
    transaction: Vec<StatementDecl<'a>>,
    /// Over HTTP.
    request: Option<Request<'a>>,
}

/// The keys that say in SQL what is asked: one of them does.
const STATEMENTS: [(&str, Asking); 3] = [
    ("transaction", Asking::Transaction),
    ("exec", Asking::Exec),
    ("query", Asking::Query),
];

/// Reads what a call asks.
fn read_asked<'a>(keys: &Keys<'_, 'a>, asks: Asks<'_>, report: &mut Report) -> Option<Asked<'a>> {
    let (key, asking, hint) = match asks {
        Asks::Template(key) => (key, Asking::Request, format!("{key} = \"...\", a template")),
        Asks::Sql => {
            let mut given = STATEMENTS.into_iter().filter(|(key, _)| keys.has(key));
            let first = given.next();
            if let (Some((key, _)), Some((other, _))) = (first, given.next()) {
                let hint = "`query` for a statement that only reads, `exec` for one that changes \
                            something, `transaction` for several";
                let message = format!("a call has `{other}` or `{key}`, not both");
                report.error(keys.place_of(key), message, hint);
                return None;
            }
            let (key, asking) = first.unwrap_or(("query", Asking::Query));
            let hint =
                "query = \"select ...\", or exec = \"insert ...\" for what changes something";
            (key, asking, hint.to_owned())
        }
        Asks::Command(command) => return of_words(read_command(keys, command, report)?),
        Asks::Verbs(verbs) => return of_words(read_verb(keys, verbs, report)?),
        Asks::Http => return read_request(keys, report).map(of_request),
    };
    let transaction = match asking {
        Asking::Transaction => read_transaction(keys, report)?,
        _ => Vec::new(),
    };
    let text = match transaction.first() {
        Some(first) => Some(first.text.clone()),
        None => keys.required(key, &hint, report),
    };
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
        words: Vec::new(),
        args,
        transaction,
        request: None,
    })
}

/// What a call asks over HTTP.
fn of_request(request: Request<'_>) -> Asked<'_> {
    Asked {
        text: request.path.clone(),
        asking: request.asking,
        words: Vec::new(),
        args: Vec::new(),
        transaction: Vec::new(),
        request: Some(request),
    }
}

/// What a call asks by the words of a command.
fn of_words<'a>((words, asking): Words<'a>) -> Option<Asked<'a>> {
    Some(Asked {
        text: words.first()?.clone(),
        asking,
        words,
        args: Vec::new(),
        transaction: Vec::new(),
        request: None,
    })
}

/// Reads the statements of a transaction.
fn read_transaction<'a>(
    keys: &Keys<'_, 'a>,
    report: &mut Report,
) -> Option<Vec<StatementDecl<'a>>> {
    let hint = "transaction = [\"update ...\", { exec = \"insert ... returning id\", row = \
                \"made(id:int)\" }]";
    let items = match keys.get("transaction").map(|value| value.get_ref()) {
        Some(DeValue::Array(items)) if !items.is_empty() => items,
        _ => {
            let message = "`transaction` is a list of statements";
            report.error(keys.place_of("transaction"), message, hint);
            return None;
        }
    };
    let statements: Vec<_> = (items.iter())
        .map(|item| read_statement(&keys.toml, item, hint, report))
        .collect();
    if items.len() > STATEMENTS_MAX {
        let message = format!("a transaction has {STATEMENTS_MAX} statements at most");
        let hint = "it holds what it changes from all others: let one statement do what several do";
        report.error(keys.place_of("transaction"), message, hint);
        return None;
    }
    statements.into_iter().collect()
}

/// So many statements are one transaction at most.
const STATEMENTS_MAX: usize = 16;

/// Reads a statement of a transaction: its text, or a table of `exec` or `query` and `row`.
fn read_statement<'a>(
    toml: &TomlText<'a>,
    item: &Spanned<DeValue<'a>>,
    hint: &str,
    report: &mut Report,
) -> Option<StatementDecl<'a>> {
    let table = match item.get_ref() {
        DeValue::String(_) => {
            let text = text_of(toml, item)?;
            let asking = Asking::Exec;
            return Some(StatementDecl {
                text,
                asking,
                row: None,
            });
        }
        DeValue::Table(table) => table,
        _ => {
            let place = toml.place(item.span().start);
            report.error(place, "this is no statement", hint);
            return None;
        }
    };
    let keys = Keys::new(
        *toml,
        table,
        item.span().start,
        &["exec", "query", "row"],
        report,
    );
    if keys.has("exec") && keys.has("query") {
        let message = "a statement is `exec` or `query`, not both";
        report.error(keys.place_of("query"), message, hint);
        return None;
    }
    let (key, asking) = match keys.has("query") {
        true => ("query", Asking::Query),
        false => ("exec", Asking::Exec),
    };
    let text = keys.required(key, hint, report);
    let row = match keys.has("row") {
        true => {
            let text = keys.text("row", report)?;
            let place = text.place;
            let (row, nulls) = read_named(text, hint, report)?;
            if !nulls.is_empty() {
                let message = "a row of a transaction does not tell what is null";
                let hint = "`coalesce(x, 0)` gives what stands for it, `x is null` whether it is";
                report.error(place, message, hint);
            }
            Some(row)
        }
        false => None,
    };
    Some(StatementDecl {
        text: text?,
        asking,
        row,
    })
}

/// Refuses what a transaction does not take: its statements have rows, and it is done once.
fn refuse_beside_transaction(keys: &Keys<'_, '_>, report: &mut Report) {
    for (key, hint) in [
        (
            "row",
            "a statement has it: { exec = \"...\", row = \"...\" }",
        ),
        ("rows", "ask by a `query` of its own, in another step"),
        (
            "each",
            "let one statement do it for all rows, as `insert ... select`",
        ),
        (
            "retry",
            "remove it: what was undone is done again, and nothing else",
        ),
        ("share", "remove it: a transaction is done for each request"),
        ("merge", "remove it: a transaction is done for each request"),
    ] {
        if keys.has(key) {
            let message = format!("a transaction has no `{key}`");
            report.error(keys.key_place(key), message, hint);
        }
    }
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
    let is_transaction = asks == Asks::Sql && keys.has("transaction");
    if is_transaction {
        refuse_beside_transaction(keys, report);
    }
    // Of what changes something, nobody need look at the answer: how many rows are changed.
    let may_lack_name = match asks {
        Asks::Template(_) => false,
        Asks::Sql => keys.has("exec") || is_transaction,
        Asks::Command(_) | Asks::Verbs(_) | Asks::Http => {
            (asked.as_ref()).is_none_or(|asked| asked.asking == Asking::Exec)
        }
    };
    let has_name = !is_transaction && (one_row || keys.has("rows")) || !may_lack_name;
    let result = match has_name {
        true => keys.required(if one_row { "row" } else { "rows" }, hint, report),
        false => None,
    };
    // Read wrongly, it is none: what else is wrong with the call is told, too.
    let each = match keys.text("each", report) {
        None => (!keys.has("each")).then_some(None),
        Some(text) => read_each(&text, report).map(Some),
    };
    let retry = keys.bool("retry", report);
    let optional = keys.bool("optional", report) == Some(true);
    if optional && matches!(asks, Asks::Template(_)) {
        report.error(
            keys.place_of("optional"),
            "a call of this kind of backends is never optional",
            "remove it: a GPU may have the backend, and knows nothing of it",
        );
    }
    let share = keys.bool("share", report);
    let merge = keys.bool("merge", report);
    let backend = keys.text("call", report);
    let result = result.and_then(|result| read_named(result, hint, report));
    if one_row && keys.has("each") {
        report.error(
            keys.place_of("row"),
            "a call for each item answers rows",
            "rows = ...",
        );
    }
    let asked = asked?;
    let ((result_name, columns), nulls) = match has_name {
        true => result?,
        false => {
            let nameless = Text {
                value: String::new(),
                ..asked.text.clone()
            };
            let columns = vec![("changed".to_owned(), Type::Int)];
            ((nameless, columns), Vec::new())
        }
    };
    let http = match asked.request {
        Some(request) => {
            let document = read_document(keys, &columns, has_name, report)?;
            Some(Box::new(request.with(document)))
        }
        None => None,
    };
    Some(CallDecl {
        backend: backend?,
        asked: asked.text,
        asking: asked.asking,
        words: asked.words,
        args: asked.args,
        transaction: asked.transaction,
        http,
        each: each?,
        result_name,
        columns,
        nulls,
        one_row,
        retry,
        optional,
        share: share.map(|share| (share, keys.place_of("share"))),
        merge: merge.map(|merge| (merge, keys.place_of("merge"))),
    })
}

/// Reads `item in list`.
fn read_each<'a>(text: &Text<'a>, report: &mut Report) -> Option<EachDecl<'a>> {
    let parts = (text.value.split_once(" in "))
        .map(|(item, list)| (item.trim(), list))
        .filter(|(item, list)| is_name(item) && !list.trim().is_empty());
    let Some((item, list)) = parts else {
        let hint = "each = \"p in payments\", and {{ p }} or {{ p.field }} in what is asked";
        let message = "`each` must be of the form \"item in list\"";
        report.error(text.place, message, hint);
        return None;
    };
    let begins = list.trim_start();
    Some(EachDecl {
        item: item.to_owned(),
        list: Text {
            value: begins.to_owned(),
            place: text.at(text.value.len() - begins.len()),
            exact: text.exact,
        },
    })
}

/// The type that is meant by another name of it, by which the column is taken, so that nothing is
/// said that only follows; and a hint.
fn meant_type(name: &str) -> (Type, &'static str) {
    match &*name.to_ascii_lowercase() {
        "integer" | "bigint" | "smallint" => (Type::Int, "did you mean `int`?"),
        "real" | "double" | "numeric" | "decimal" => (Type::Float, "did you mean `float`?"),
        "boolean" => (Type::Bool, "did you mean `bool`?"),
        "string" | "varchar" | "char" => (Type::Text, "did you mean `text`?"),
        _ => (Type::Text, "int, float, bool or text"),
    }
}

/// Reads `name(col, col:int, col:int?)`, and gives the columns that may be null, too.
fn read_named<'a>(
    text: Text<'a>,
    hint: &str,
    report: &mut Report,
) -> Option<(NamedRow<'a>, Vec<usize>)> {
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
    // Where the column begins that is read.
    let mut begin = text.value.len() - text.value.trim_start().len() + name.len() + 1;
    let name = name.trim();
    check_name(
        &Text {
            value: name.to_owned(),
            ..text.clone()
        },
        report,
    );
    let mut columns: Vec<(String, Type)> = Vec::new();
    let mut nulls = Vec::new();
    let mut are_names = true;
    for written in list.split(',') {
        let column = match written.trim().strip_suffix('?') {
            Some(column) => {
                nulls.push(columns.len());
                column
            }
            None => written,
        };
        let (column, kind) = column.split_once(':').unwrap_or((column, "text"));
        let (column, kind) = (column.trim(), kind.trim());
        let name_place = text.at(begin + written.find(column).unwrap_or(0));
        let kind = match kind {
            "int" => Type::Int,
            "text" => Type::Text,
            "float" => Type::Float,
            "bool" => Type::Bool,
            other => {
                let (meant, hint) = meant_type(other);
                let place = text.at(begin + written.rfind(other).unwrap_or(0));
                report.error(place, format!("a column is no `{other}`"), hint);
                meant
            }
        };
        if !is_name(column) {
            report.error(
                name_place,
                format!("`{column}` is no name of a column"),
                hint,
            );
            are_names = false;
        } else if columns.iter().any(|(known, _)| known == column) {
            let hint = "columns go by their order: name them as you like, each otherwise";
            report.error(
                name_place,
                format!("two columns are named `{column}`"),
                hint,
            );
        }
        columns.push((column.to_owned(), kind));
        begin += written.len() + 1;
    }
    let value = name.to_owned();
    are_names.then_some(((Text { value, ..text }, columns), nulls))
}
