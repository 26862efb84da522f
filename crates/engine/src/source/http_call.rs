//! Calls over HTTP, as a page's header has them: a method with a path, what is sent, and where in
//! the document that is answered rows and cells are.

use super::declaration::{HttpDecl, JsonDecl};
use super::keys::{Keys, Text, TomlText, text_of};
use crate::diagnostic::{Report, did_you_mean_or};
use crate::program::{Asking, Document, DocumentColumn, DocumentPath, Type};
use rhythm_protocol::http::head::is_token;
use toml::Spanned;
use toml::de::DeValue;

/// The methods, each a key: its name, and whether it has content.
const METHODS: [(&str, &str, bool); 5] = [
    ("get", "GET", false),
    ("post", "POST", true),
    ("put", "PUT", true),
    ("patch", "PATCH", true),
    ("delete", "DELETE", false),
];

/// What is asked, but for where the answer's cells are.
pub(super) struct Request<'a> {
    pub(super) path: Text<'a>,
    pub(super) asking: Asking,
    pub(super) method: &'static str,
    pub(super) json: Option<JsonDecl<'a>>,
    pub(super) headers: Vec<(Text<'a>, Text<'a>)>,
}

impl<'a> Request<'a> {
    /// With where the answer's cells are.
    pub(super) fn with(self, document: Document) -> HttpDecl<'a> {
        HttpDecl {
            method: self.method,
            json: self.json,
            headers: self.headers,
            document,
        }
    }
}

/// Reads what a call asks.
pub(super) fn read_request<'a>(keys: &Keys<'_, 'a>, report: &mut Report) -> Option<Request<'a>> {
    let mut said = METHODS.iter().filter(|(key, ..)| keys.has(key));
    let Some((key, method, has_content)) = said.next() else {
        if keys.lacks("get") {
            let hint = "it has one of: get, post, put, patch, delete, such as get = \"/items\"";
            report.error(keys.place, "the call does not say what it asks", hint);
        }
        return None;
    };
    if let Some((other, ..)) = said.next() {
        let message = format!("a request is one thing, and this is `{key}` and `{other}`");
        report.error(keys.key_place(other), message, "make two steps of it");
        return None;
    }
    if keys.has("json") && !has_content {
        let message = format!("`json` does not go with `{key}`");
        let hint = format!(
            "`{key}` sends no content: put values behind a `?`, {key} = \"/items?id={{{{ id }}}}\""
        );
        report.error(keys.key_place("json"), message, hint);
        return None;
    }
    let path = keys.text(key, report);
    let json = match keys.get("json") {
        Some(value) if matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_)) => {
            Some(read_json(&keys.toml, value, report)?)
        }
        Some(_) => {
            let message = "`json` is what is sent: a table, or a list";
            let hint = "json = { title = \"title\" }, with an expression for each value";
            report.error(keys.place_of("json"), message, hint);
            return None;
        }
        None => None,
    };
    let headers = read_headers(keys, report);
    let path = path?;
    if !path.value.starts_with('/') {
        let message = format!("the path of `{key}` begins with a `/`");
        let hint = "\"/items/{{ id }}\": it is put behind the backend's `url`";
        report.error(path.place, message, hint);
        return None;
    }
    Some(Request {
        path,
        asking: match *key {
            "get" => Asking::Query,
            _ => Asking::Exec,
        },
        method,
        json,
        headers,
    })
}

/// Reads a value that is sent.
fn read_json<'a>(
    toml: &TomlText<'a>,
    value: &Spanned<DeValue<'a>>,
    report: &mut Report,
) -> Option<JsonDecl<'a>> {
    let constant = |text: &str| JsonDecl::Value(Text::new(toml, text, value.span()));
    match value.get_ref() {
        DeValue::String(_) => text_of(toml, value).map(JsonDecl::Value),
        DeValue::Integer(number) if number.radix() == 10 => Some(constant(number.as_str())),
        DeValue::Boolean(value) => Some(constant(if *value { "true" } else { "false" })),
        DeValue::Table(table) => {
            let members = (Keys::entries(toml, table).into_iter())
                .map(|(name, value)| Some((name, read_json(toml, value, report)?)));
            members.collect::<Option<Vec<_>>>().map(JsonDecl::Object)
        }
        DeValue::Array(items) => {
            let items = items.iter().map(|item| read_json(toml, item, report));
            items.collect::<Option<Vec<_>>>().map(JsonDecl::List)
        }
        _ => {
            let hint = "an expression in a string, an integer, true or false, a table or a list";
            let message = "this is no value that can be sent";
            report.error(toml.place(value.span().start), message, hint);
            None
        }
    }
}

/// Header fields that are not an author's to say: what the connection and the content are, and what
/// of an answer is understood.
const OURS: [&str; 11] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn read_headers<'a>(keys: &Keys<'_, 'a>, report: &mut Report) -> Vec<(Text<'a>, Text<'a>)> {
    let mut headers = Vec::new();
    let Some((table, _)) = keys.table("headers", "{ \"X-Request\" = \"{{ id }}\" }", report) else {
        return headers;
    };
    for (name, value) in Keys::entries(&keys.toml, table) {
        if !is_token(name.value.as_bytes()) {
            let hint = "letters, digits and `-`, such as \"X-Request\" (RFC 9110, section 5.1)";
            report.error(name.place, "this is no header name", hint);
        } else if OURS.contains(&&*name.value.to_ascii_lowercase()) {
            let message = format!("{} is set by the server", name.value);
            report.error(name.place, message, "remove it");
        }
        match text_of(&keys.toml, value) {
            Some(text) => headers.push((name, text)),
            None => {
                let hint = format!("{} = \"...\", a template", name.value);
                report.error(name.place, "a header's value is a string", hint);
            }
        }
    }
    headers
}

/// Reads where the answer's rows and these columns are.
pub(super) fn read_document(
    keys: &Keys<'_, '_>,
    columns: &[(String, Type)],
    has_name: bool,
    report: &mut Report,
) -> Option<Document> {
    for key in ["at", "fields"] {
        if !has_name && keys.has(key) {
            let message = format!("nobody looks at the answer, of which `{key}` is");
            let hint = "rows = \"name(column, column:int)\", or row = ... for exactly one row";
            report.error(keys.key_place(key), message, hint);
            return None;
        }
    }
    let rows = match keys.text("at", report) {
        None if keys.has("at") => None,
        None => Some(DocumentPath::default()),
        Some(at) => at.value.parse().ok().or_else(|| {
            let message = "this is no way to the rows of an answer";
            let hint =
                "\"$\" is the whole of it, \"$.data.items\" a member, \"$.pages[0]\" an item";
            report.error(at.place, message, hint);
            None
        }),
    };
    let mut columns: Vec<DocumentColumn> = (columns.iter())
        .map(|(name, kind)| DocumentColumn {
            name: name.as_str().into(),
            kind: *kind,
            path: DocumentPath::member(name),
            may_lack: false,
        })
        .collect();
    let form = "{ cost = \"$.price.amount\" }";
    let Some((table, _)) = keys.table("fields", form, report) else {
        let columns = columns.into();
        return (!keys.has("fields")).then_some(Document {
            rows: rows?,
            columns,
        });
    };
    let mut is_sound = true;
    for (name, value) in Keys::entries(&keys.toml, table) {
        let Some(at) = columns.iter().position(|column| *column.name == name.value) else {
            let names = columns.iter().map(|column| &*column.name);
            let hint = did_you_mean_or(&name.value, names, "name it in `rows`, or remove it");
            let message = format!("there is no column `{}`", name.value);
            report.error(name.place, message, hint);
            is_sound = false;
            continue;
        };
        let text = text_of(&keys.toml, value);
        let path = text.as_ref().map_or("", |text| &text.value);
        let plain = path.strip_suffix('?');
        match plain.unwrap_or(path).parse() {
            Ok(path) => {
                columns[at].path = path;
                columns[at].may_lack = plain.is_some();
            }
            Err(_) => {
                let place = keys.toml.place(value.span().start);
                let message = "this is no way to a cell of a row";
                let hint = format!(
                    "\"$.price.amount\", from the row on; \"$.{}?\" where it may be absent",
                    name.value
                );
                report.error(text.map_or(place, |text| text.place), message, hint);
                is_sound = false;
            }
        }
    }
    let columns = columns.into();
    is_sound.then_some(Document {
        rows: rows?,
        columns,
    })
}
