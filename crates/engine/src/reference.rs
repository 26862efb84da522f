//! The page language as MiniJinja itself renders it.
//!
//! What executors write is compared with this. It shares nothing with the compiler but the sources:
//! templates are rendered by MiniJinja, from values of its own.

use crate::cohort::{Cohort, Column};
use crate::device::conformance;
use crate::diagnostic::Report;
use crate::kind::Kinds;
use crate::program::{
    Call, CallResult, Csrf, Escape, FieldId, FieldType, PageProgram, ParamType, Particulars,
    SessionUse, Type,
};
use crate::settings::StoredKind;
use crate::source::declaration::{Instead, PageHeader, StepKind};
use crate::source::{Sources, config, header};
use md5::{Digest, Md5};
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Value, ValueKind};
use minijinja::{AutoEscape, Environment, State, filters};
use minijinja_contrib::filters as contrib;
use minijinja_contrib::pycompat::unknown_method_callback;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows that have a backend's status beside them.
#[derive(Debug)]
struct Rows {
    rows: Vec<Value>,
    status: Option<Value>,
}

impl Object for Rows {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str() {
            Some("status") => self.status.clone(),
            Some(_) => None,
            None => self.rows.get(key.as_usize()?).cloned(),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.rows.len())
    }
}

/// What is wrong with parameters: true where something is.
#[derive(Debug)]
struct Errors(BTreeMap<String, Value>);

impl Object for Errors {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_str()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(
            self.0
                .keys()
                .map(|name| Value::from(name.as_str()))
                .collect(),
        )
    }

    fn is_true(self: &Arc<Self>) -> bool {
        self.0.values().any(Value::is_true)
    }
}

/// A lane's fields as the names of a template: parameters, the session, results.
pub fn lane_context(
    program: &PageProgram,
    cohort: &Cohort,
    lane: usize,
) -> BTreeMap<String, Value> {
    let text = |view| Value::from(String::from_utf8_lossy(cohort.arena.get(view)).into_owned());
    let scalar = |column: &Column, index: usize, is_flag: bool| match column {
        Column::Text(views) => text(views[index]),
        Column::Int(values) if is_flag => Value::from(values[index] != 0),
        Column::Int(values) => Value::from(values[index]),
        Column::List(_) => Value::UNDEFINED,
    };
    let flags = (program.stored.iter()).filter(|stored| stored.kind == StoredKind::Bool);
    let flags = flags.map(|stored| &*program.fields[usize::from(stored.field)].name);
    let flags: Vec<&str> = flags.collect();
    let mut context: BTreeMap<String, Value> = BTreeMap::new();
    let mut records: BTreeMap<&str, BTreeMap<&str, Value>> = BTreeMap::new();
    let mut lists: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for ((id, field), column) in (0..).zip(&program.fields).zip(&cohort.fields) {
        match (&field.kind, column) {
            (FieldType::List(columns), Column::List(list)) => {
                let span = list.spans[lane];
                let param = program.list_params.iter().find(|param| param.field == id);
                let is_its = |call: &&Call| call.result == CallResult::Rows(id);
                let call = program.calls.iter().find(is_its);
                let rows = (span.start..span.start + span.length).map(|item| {
                    let cell = |column: usize| {
                        let at =
                            |column: usize| scalar(&list.columns[column], item as usize, false);
                        match call {
                            Some(call) => cell_of(call, column, at),
                            None => {
                                let kind = param.map(|param| &param.columns[column].1);
                                as_read(at(column), kind.map(ParamType::page_type))
                            }
                        }
                    };
                    match &columns[..] {
                        [(name, _)] if name.is_empty() => cell(0),
                        columns => Value::from_pairs(
                            columns
                                .iter()
                                .enumerate()
                                .filter(|(_, (name, _))| is_of_column(name))
                                .map(|(i, (name, _))| (name.clone(), cell(i))),
                        ),
                    }
                });
                lists.insert(&field.name, rows.collect());
            }
            _ => {
                let is_flag =
                    field.name == "session.present" || flags.contains(&field.name.as_str());
                let value = scalar(column, lane, is_flag);
                let param = program.params.iter().find(|param| param.field == id);
                let value = as_read(value, param.map(|param| param.kind.page_type()));
                let value = one_row_of(program, id).map_or(value, |(call, fields, column)| {
                    cell_of(call, column, |column| {
                        let field = usize::from(fields[column]);
                        scalar(&cohort.fields[field], lane, false)
                    })
                });
                if program
                    .now
                    .is_some_and(|now| program.fields[usize::from(now)] == *field)
                {
                    let now = Value::from_function(move || value.clone());
                    context.insert("now".to_owned(), now);
                    continue;
                }
                let asks = |drawn: &&FieldId| program.fields[usize::from(**drawn)] == *field;
                // One place alone: nothing here tells which of several asks.
                if program.drawn.iter().any(|drawn| asks(&drawn)) {
                    context.insert("randrange".to_owned(), random(&value));
                    continue;
                }
                match field.name.split_once('.') {
                    Some((_, name)) if !is_of_column(name) => {}
                    Some((record, name)) => {
                        records.entry(record).or_default().insert(name, value);
                    }
                    None => {
                        context.insert(field.name.clone(), value);
                    }
                }
            }
        }
    }
    // All names of a transaction have its status.
    for call in &program.calls {
        let CallResult::Row(fields) = &call.result else {
            continue;
        };
        let status = scalar(&cohort.fields[usize::from(call.status)], lane, false);
        for field in fields {
            let name = &program.fields[usize::from(*field)].name;
            if let Some((record, _)) = name.split_once('.') {
                let record = records.entry(record).or_default();
                record.insert("status", status.clone());
            }
        }
    }
    for (name, rows) in lists {
        let status = records
            .remove(name)
            .and_then(|mut record| record.remove("status"));
        context.insert(name.to_owned(), Value::from_object(Rows { rows, status }));
    }
    if let Some(token) = context.get(Csrf::NAME) {
        let [before, behind] = Csrf::INPUT_AROUND;
        let input = Value::from_safe_string(format!("{before}{token}{behind}"));
        context.insert(Csrf::INPUT.to_owned(), input);
    }
    for (name, record) in records {
        let pairs = record
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        let value = match name {
            "errors" => Value::from_object(Errors(pairs.collect())),
            _ => Value::from_pairs(pairs),
        };
        context.insert(name.to_owned(), value);
    }
    context
}

/// The call whose one row has this field, all fields of that, and which it is.
fn one_row_of(program: &PageProgram, id: FieldId) -> Option<(&Call, &[FieldId], usize)> {
    program.calls.iter().find_map(|call| {
        let CallResult::Row(fields) = &call.result else {
            return None;
        };
        let column = fields.iter().position(|field| *field == id)?;
        Some((call, &fields[..], column))
    })
}

/// Whether it is no column that says of another whether it is null.
fn is_of_column(name: &str) -> bool {
    !name.ends_with('?')
}

/// A cell of a call's row, as its page has it, of those that lie in its columns.
fn cell_of(call: &Call, column: usize, at: impl Fn(usize) -> Value) -> Value {
    let Particulars {
        floats,
        bools,
        nulls,
    } = &call.particulars;
    let is_it = |of: &u16| usize::from(*of) == column;
    let null = nulls.iter().find(|(of, _)| is_it(of));
    if null.is_some_and(|(_, told)| at(usize::from(*told)).is_true()) {
        return Value::from(());
    }
    let kind = match (floats.iter().any(is_it), bools.iter().any(is_it)) {
        (true, _) => Some(Type::Float),
        (_, true) => Some(Type::Bool),
        _ => None,
    };
    as_read(at(column), kind)
}

/// What lies in a field, as its page has it, where that is of another type.
fn as_read(lies: Value, kind: Option<Type>) -> Value {
    match kind {
        Some(Type::Bool) => Value::from(lies.is_true()),
        Some(Type::Float) => {
            let number = lies.as_str().and_then(|text| text.parse().ok());
            Value::from(number.unwrap_or(0.0_f64))
        }
        _ => lies,
    }
}

/// `randrange` of a request that has this number.
fn random(drawn: &Value) -> Value {
    let drawn = i64::try_from(drawn.clone()).unwrap_or_default();
    Value::from_function(move |first: i64, second: Option<i64>| {
        let (start, stop) = second.map_or((0, first), |second| (first, second));
        let beyond = stop
            .checked_sub(start)
            .filter(|count| *count > 0)
            .and_then(|count| drawn.checked_rem_euclid(count));
        let chosen = beyond.and_then(|beyond| start.checked_add(beyond));
        chosen.ok_or_else(|| {
            let kind = minijinja::ErrorKind::InvalidOperation;
            minijinja::Error::new(kind, "nothing to choose from")
        })
    })
}

/// What a page answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body; `None` for a page that redirects or answers with a file.
    pub body: Option<String>,
}

/// Answers a request as the page file `pages/PAGE_FILE` says, by its steps and its template. The
/// context has the results of all calls already: what a check does not know yet it cannot name.
///
/// # Errors
/// What MiniJinja says.
pub fn answer(
    sources: &Sources,
    page_file: &str,
    context: &BTreeMap<String, Value>,
) -> Result<Answer, minijinja::Error> {
    let mut report = Report::default();
    let path = format!("pages/{page_file}");
    let text = sources.files.get(&path).map_or("", String::as_str);
    let (toml, offset) =
        header::split(&path, text, &mut report).ok_or_else(|| not_compiled(&path))?;
    let kinds = Kinds {
        kinds: conformance::BESIM,
        backends: &[],
        backends_lost: false,
    };
    let header = header::read(toml, kinds, &mut report).ok_or_else(|| not_compiled(&path))?;
    // What is null is printed as an empty text is, whatever it would have been.
    let has_nulls = header.steps.iter().any(|step| match &step.kind {
        StepKind::Call(call) => !call.nulls.is_empty(),
        _ => false,
    });
    let environment = environment(sources, header.escape(), has_nulls)?;
    let answer_instead = |instead: &Instead<'_>| {
        let answer = match instead {
            Instead::Page(answer) => answer,
            Instead::Redirect(to) => return Ok(redirected(to.status)),
            // Whatever that answers.
            Instead::Proxy(_) => return Ok(redirected(200)),
        };
        let known = [
            Csrf::NAME,
            Csrf::INPUT,
            "session",
            "cookies",
            "flash",
            "here",
            "now",
            "randrange",
        ];
        let is_everywhere = |name: &&String| known.contains(&name.as_str());
        let everywhere = context.iter().filter(|(name, _)| is_everywhere(name));
        let mut with: BTreeMap<String, Value> = (everywhere)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for (name, text) in &answer.with {
            let text = text
                .as_ref()
                .ok_or_else(|| not_compiled(&answer.page.value))?;
            // Names of texts are not escaped: these go into templates as values.
            let whole = text
                .value
                .strip_prefix("{{")
                .and_then(|text| text.strip_suffix("}}"));
            let given = match whole.filter(|whole| !whole.contains("}}")) {
                Some(expression) => {
                    let expression = environment.compile_expression(expression)?;
                    expression.eval(value(context))?
                }
                None => {
                    let text =
                        environment.render_named_str("with.txt", &text.value, value(context));
                    Value::from(text?)
                }
            };
            with.insert(name.value.clone(), given);
        }
        Ok(Answer {
            status: answer.status,
            body: Some(template(sources, &answer.page.value, &with)?),
        })
    };
    let present = context
        .get("session")
        .map(|session| session.get_attr("present"));
    if header.session == SessionUse::Required
        && !present.is_some_and(|p| p.is_ok_and(|p| p.is_true()))
    {
        let text = sources.files.get("service.toml").map_or("", String::as_str);
        let service = config::read(text, conformance::BESIM, sources.at(), &mut report);
        let missing = service.missing;
        return answer_instead(&missing.ok_or_else(|| not_compiled("service.toml"))?);
    }
    let mut status = 200;
    let mut has_body = true;
    let is_true = |text: &str| {
        let expression = environment.compile_expression(text)?;
        Ok::<_, minijinja::Error>(expression.eval(value(context))?.is_true())
    };
    for step in &header.steps {
        if let Some(when) = &step.when {
            if !is_true(&when.value)? {
                continue;
            }
            match &step.kind {
                StepKind::Redirect(to) => return Ok(redirected(to.status)),
                StepKind::File { .. } => return Ok(Answer { status, body: None }),
                _ => {}
            }
        }
        match &step.kind {
            StepKind::Check { condition, instead } => {
                let condition = condition.as_ref().ok_or_else(|| not_compiled(&path))?;
                if !is_true(&condition.value)? {
                    return answer_instead(instead);
                }
            }
            StepKind::Head {
                status: Some(set), ..
            } => status = *set,
            StepKind::Redirect(to) => return Ok(redirected(to.status)),
            StepKind::File { .. } => has_body = false,
            _ => {}
        }
    }
    let body = match has_body {
        true => Some(body(
            &environment,
            &header,
            &path,
            &text[offset..],
            context,
        )?),
        false => None,
    };
    Ok(Answer { status, body })
}

/// An answer that leads elsewhere.
fn redirected(status: u16) -> Answer {
    Answer { status, body: None }
}

fn not_compiled(path: &str) -> minijinja::Error {
    let message = format!("{path} does not compile");
    minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, message)
}

/// MiniJinja as pages of such a content type know it; with nulls, `none` is printed as nothing.
fn environment(
    sources: &Sources,
    escape: Escape,
    has_nulls: bool,
) -> Result<Environment<'_>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(move |name| match name {
        "with.txt" => AutoEscape::None,
        _ => match escape {
            Escape::None => AutoEscape::None,
            Escape::Json => AutoEscape::Custom("json".into()),
            _ => AutoEscape::Html,
        },
    });
    environment.set_formatter(move |output, state, value| match state.auto_escape() {
        AutoEscape::Custom(_) if !value.is_safe() => {
            Ok(output.write_str(&json(value)?).map_err(not_written)?)
        }
        AutoEscape::Custom(_) => Ok(write!(output, "{value}").map_err(not_written)?),
        _ if has_nulls && value.is_none() => Ok(()),
        _ => minijinja::escape_formatter(output, state, value),
    });
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.add_filter("tojson", |value: Value| {
        Ok::<_, minijinja::Error>(Value::from_safe_string(json(&value)?))
    });
    environment.add_filter("escape", |state: &mut State<'_, '_>, value: Value| {
        escaped(state, &value)
    });
    environment.add_filter("e", |state: &mut State<'_, '_>, value: Value| {
        escaped(state, &value)
    });
    environment.add_filter("md5", |text: String| {
        let digest = Md5::digest(text.as_bytes());
        digest
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    });
    environment.add_filter("int", int);
    environment.add_filter("nl2br", line_breaks);
    environment.add_filter("filesizeformat", contrib::filesizeformat);
    environment.add_filter("truncate", contrib::truncate);
    environment.add_filter("striptags", contrib::striptags);
    environment.add_filter("pluralize", contrib::pluralize);
    environment.add_filter("dateformat", contrib::dateformat);
    let text = sources.files.get("service.toml").map_or("", String::as_str);
    let mut report = Report::default();
    let service = config::read(text, conformance::BESIM, sources.at(), &mut report);
    environment.add_global("TIMEZONE", service.config.service.time_zone);
    let paths = paths(sources);
    environment.add_function("url_for", move |name: String, given: Kwargs| {
        let path = paths.get(&name).ok_or_else(|| not_compiled(&name))?;
        path_with(path, &given)
    });
    for (path, text) in &sources.files {
        if let Some(name) = path.strip_prefix("templates/") {
            environment.add_template(name, text)?;
        }
    }
    Ok(environment)
}

/// The path of each page file that has a route, that of `GET` where there are several.
fn paths(sources: &Sources) -> BTreeMap<String, String> {
    let mut report = Report::default();
    let kinds = Kinds {
        kinds: conformance::BESIM,
        backends: &[],
        backends_lost: false,
    };
    let mut paths = BTreeMap::new();
    for (path, text) in &sources.files {
        let toml = header::split(path, text, &mut report);
        let header = toml.and_then(|(toml, _)| header::read(toml, kinds, &mut report));
        let routes = header.iter().flat_map(|header| &header.routes);
        let routes = routes.map(|(route, _)| route.to_string());
        let route = routes.min_by_key(|route| !route.starts_with("GET "));
        if let (Some(name), Some(route)) = (path.strip_prefix("pages/"), route) {
            let path = route.split_once(' ').map_or("", |(_, path)| path);
            paths.insert(name.to_owned(), path.to_owned());
        }
    }
    paths
}

/// A path with what it is given in it: what it does not name is the query.
fn path_with(path: &str, given: &Kwargs) -> Result<String, minijinja::Error> {
    let mut url = path.to_owned();
    let mut query = Vec::new();
    for name in given.args() {
        let value: Value = given.get(name)?;
        let value = percent(&value.to_string());
        let place = format!("{{{name}}}");
        match path.contains(&place) {
            true => url = url.replace(&place, &value),
            false => query.push(format!("{}={value}", percent(name))),
        }
    }
    if !query.is_empty() {
        url = format!("{url}?{}", query.join("&"));
    }
    Ok(url)
}

/// A text as it stands in a URL (RFC 3986, section 2).
fn percent(text: &str) -> String {
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// MiniJinja's `int`; but integers have 64 bits here, so what has more, or is none at all, has the
/// default where one is given.
fn int(
    state: &State<'_, '_>,
    value: &Value,
    default: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, minijinja::Error> {
    let default = match default {
        Some(default) => Some(default),
        None => kwargs.get("default")?,
    };
    kwargs.assert_all_used()?;
    let none = Kwargs::from_iter::<[(&str, Value); 0]>([]);
    let read = filters::int(state, value, default.clone(), None, none)?;
    let is_nan = match value.as_str() {
        Some(text) => text.parse().is_ok_and(f64::is_nan),
        None => f64::try_from(value.clone()).is_ok_and(f64::is_nan),
    };
    let fits = i64::try_from(read.clone()).is_ok() && !is_nan;
    Ok(default.filter(|_| !fits).unwrap_or(read))
}

/// What a page file answers: its template, or what it says by `json`.
fn body(
    environment: &Environment<'_>,
    header: &PageHeader<'_>,
    path: &str,
    template: &str,
    context: &BTreeMap<String, Value>,
) -> Result<String, minijinja::Error> {
    if header.json.is_empty() {
        return environment.render_named_str(path, template, value(context));
    }
    let members = header.json.iter().map(|member| {
        let expression = environment.compile_expression(&member.value.value)?;
        let name = json(&Value::from(&*member.name.value))?;
        Ok(format!(
            "{name}:{}",
            json(&expression.eval(value(context))?)?
        ))
    });
    let members = members.collect::<Result<Vec<_>, minijinja::Error>>()?;
    Ok(format!("{{{}}}", members.join(",")))
}

/// A value as JSON that may stand in HTML.
fn json(value: &Value) -> Result<String, minijinja::Error> {
    let items = |value: &Value| -> Result<Vec<String>, minijinja::Error> {
        value.try_iter()?.map(|item| json(&item)).collect()
    };
    Ok(match value.kind() {
        ValueKind::Undefined | ValueKind::None => "null".to_owned(),
        ValueKind::Bool => value.is_true().to_string(),
        ValueKind::Number => {
            let is_finite = f64::try_from(value.clone()).is_ok_and(f64::is_finite);
            if is_finite {
                value.to_string()
            } else {
                "null".to_owned()
            }
        }
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            let mut written = String::from("\"");
            for c in text.chars() {
                match c {
                    '"' => written += "\\\"",
                    '\\' => written += "\\\\",
                    '\u{8}' => written += "\\b",
                    '\u{c}' => written += "\\f",
                    '\n' => written += "\\n",
                    '\r' => written += "\\r",
                    '\t' => written += "\\t",
                    c if c < ' ' || "<>&'".contains(c) => {
                        written += &format!("\\u{:04x}", u32::from(c));
                    }
                    c => written.push(c),
                }
            }
            written + "\""
        }
        ValueKind::Map => {
            let members = value.try_iter()?.map(|name| {
                let member = json(&value.get_item(&name)?)?;
                Ok(format!(
                    "{}:{member}",
                    json(&Value::from(name.to_string()))?
                ))
            });
            let members = members.collect::<Result<Vec<_>, minijinja::Error>>()?;
            format!("{{{}}}", members.join(","))
        }
        _ => format!("[{}]", items(value)?.join(",")),
    })
}

/// MiniJinja's `escape`, but for JSON as pages have it.
fn escaped(state: &mut State<'_, '_>, value: &Value) -> Result<Value, minijinja::Error> {
    match state.auto_escape() {
        _ if value.is_safe() => Ok(value.clone()),
        AutoEscape::Custom(_) => Ok(Value::from_safe_string(json(value)?)),
        _ => filters::escape(state, value),
    }
}

/// A text with `<br>` where its lines end.
fn line_breaks(state: &mut State<'_, '_>, value: Value) -> Result<Value, minijinja::Error> {
    let text = match value.is_safe() {
        true => value,
        false => filters::escape(state, &value)?,
    };
    let lines = text.to_string().replace("\r\n", "\n");
    Ok(Value::from_safe_string(lines.replace('\n', "<br>\n")))
}

fn not_written(_: std::fmt::Error) -> minijinja::Error {
    minijinja::Error::new(minijinja::ErrorKind::WriteFailure, "there is no room")
}

/// Renders the template of a page file.
fn template(
    sources: &Sources,
    page_file: &str,
    context: &BTreeMap<String, Value>,
) -> Result<String, minijinja::Error> {
    let path = format!("pages/{page_file}");
    let text = sources.files.get(&path).map_or("", String::as_str);
    let split = header::split(&path, text, &mut Report::default());
    let (toml, offset) = split.ok_or_else(|| not_compiled(&path))?;
    let kinds = Kinds {
        kinds: conformance::BESIM,
        backends: &[],
        backends_lost: false,
    };
    let header = header::read(toml, kinds, &mut Report::default());
    let header = header.ok_or_else(|| not_compiled(&path))?;
    let environment = environment(sources, header.escape(), false)?;
    body(&environment, &header, &path, &text[offset..], context)
}

fn value(context: &BTreeMap<String, Value>) -> Value {
    Value::from_pairs(
        context
            .iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    )
}
