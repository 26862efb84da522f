//! Steps: requests, checks and the pages they show, sessions, headers, redirects and files.

use super::build::Sink;
use super::compiler::{Compiler, Result};
use super::link::is_path;
use super::redirect;
use super::value::{Literal, Operand};
use crate::diagnostic::{How, Report, Reported, did_you_mean, did_you_mean_or};
use crate::program::{Aside, Comparison, Conversion, Escape, Header, Op, SessionFields, Type};
use crate::settings::{SessionSettings, StoredKind};
use crate::source::PageFile;
use crate::source::declaration::{AnswerDecl, CookieDecl, Instead, RedirectDecl, Step, StepKind};
use crate::source::keys::Text;
use crate::source::template::{TextPlace, parse_expression, parse_template};
use minijinja::machinery::ast::Stmt;
use std::collections::{BTreeMap, BTreeSet};

/// Steps other than calls, and pages shown in place of others.
pub(crate) struct Steps<'r, 'a> {
    pub(crate) pages: &'a [PageFile<'a>],
    /// Page files whose headers could not be read, which is reported.
    pub(crate) lost_pages: &'a BTreeSet<&'a str>,
    pub(crate) shown: &'r mut BTreeSet<&'a str>,
    /// The page's own.
    pub(crate) content_type: &'a str,
    /// What service.toml says of sessions.
    pub(crate) session: &'a SessionSettings,
}

impl<'a> Steps<'_, 'a> {
    /// Answers lanes that have no session.
    pub(crate) fn require_session(
        &mut self,
        compiler: &mut Compiler<'_, 'a>,
        missing: &Instead<'a>,
        fields: SessionFields,
    ) {
        let present = Operand::Field {
            field: fields.present,
            kind: Type::Int,
        };
        let place = compiler.origin.place(0);
        if let Ok(condition) =
            compiler.compare(Comparison::NotEqual, &present, &Operand::int(0), place)
        {
            let _ = self.otherwise(compiler, &condition, missing);
        }
    }

    /// Where a condition is false, something else is the answer.
    fn otherwise(
        &mut self,
        compiler: &mut Compiler<'_, 'a>,
        condition: &Operand,
        instead: &Instead<'a>,
    ) -> Result<()> {
        let condition = compiler.register(condition);
        compiler.stage.open();
        let result = match instead {
            Instead::Page(answer) => self.answer(compiler, answer),
            Instead::Redirect(to) => redirect_to(compiler, to),
            Instead::Proxy(_) => {
                let value = compiler.text_register(&Operand::text(""));
                let name = compiler.page.aside(Aside::Proxy);
                compiler.stage.push(Op::Header(Header { name, value }));
                Ok(())
            }
        };
        compiler.stage.finish_lanes(compiler.fragments);
        let block = compiler.stage.close(compiler.fragments);
        compiler
            .stage
            .push_if(condition, Default::default(), block, compiler.fragments);
        result
    }

    fn answer(&mut self, compiler: &mut Compiler<'_, 'a>, answer: &AnswerDecl<'a>) -> Result<()> {
        compiler.stage.push(Op::Status(answer.status));
        let mut names = BTreeMap::new();
        for (name, text) in &answer.with {
            let operand = (text.as_ref()).and_then(|text| with_value(compiler, text).ok());
            names.insert(name.value.clone(), operand.unwrap_or(Operand::Poison));
        }
        let file = page_named(&answer.page, self.pages, self.lost_pages, compiler.report)?;
        if !file.header.steps.is_empty() {
            let message = format!("the steps of pages/{} are not taken here", file.file_name);
            let hint = "only its template is shown: name a page without steps, or redirect to it";
            (compiler.report).warning(answer.page.place, message, hint);
        }
        self.shown.insert(file.path);
        // It sees these variables, and of this page the session alone.
        if let Some(session @ Operand::Session { .. }) = compiler.scope.page.get("session") {
            let session = session.clone();
            names.entry("session".to_owned()).or_insert(session);
        }
        let mut scope = super::scope::Scope::new(names);
        scope.names_lost = answer.with_lost;
        let scope = std::mem::replace(&mut compiler.scope, scope);
        let escape = std::mem::replace(&mut compiler.escape, file.header.escape());
        if file.header.content_type != self.content_type {
            add_header(
                compiler,
                "Content-Type",
                Operand::text(&file.header.content_type),
            );
        }
        let macros = std::mem::take(&mut compiler.macros);
        let uses = (compiler.report).begin_use(How::Shows, file.path, answer.page.place);
        let context = std::mem::take(&mut compiler.context);
        let unlike_html = std::mem::replace(&mut compiler.unlike_html, file.header.unlike_html());
        compiler.body_of(file);
        compiler.unlike_html = unlike_html;
        compiler.context = context;
        compiler.report.end_use(uses);
        compiler.macros = macros;
        compiler.escape = escape;
        let shown = std::mem::replace(&mut compiler.scope, scope);
        warn_of_misspelled(answer, file, &shown.asked, compiler.report);
        Ok(())
    }

    /// Compiles a step that is no call: for the lanes whose it is.
    pub(crate) fn step(
        &mut self,
        compiler: &mut Compiler<'_, 'a>,
        step: &Step<'a>,
        session: Option<SessionFields>,
        static_files: &BTreeSet<String>,
    ) -> Result<()> {
        let Some(when) = &step.when else {
            return self.take(compiler, step, session, static_files);
        };
        only_when(compiler, when, |compiler| {
            let taken = self.take(compiler, step, session, static_files);
            if matches!(step.kind, StepKind::Redirect(_) | StepKind::File { .. }) {
                compiler.stage.finish_lanes(compiler.fragments);
            }
            taken
        })
    }

    fn take(
        &mut self,
        compiler: &mut Compiler<'_, 'a>,
        step: &Step<'a>,
        session: Option<SessionFields>,
        static_files: &BTreeSet<String>,
    ) -> Result<()> {
        match &step.kind {
            // Ends the stage: not here.
            StepKind::Call(_) => {}
            StepKind::Check { condition, instead } => {
                let operand = match condition {
                    Some(text) => condition_of(compiler, text, "this check"),
                    None => Err(Reported),
                };
                // What is wrong with the answer is told even so.
                let any = Operand::int(1);
                let answered = self.otherwise(compiler, operand.as_ref().unwrap_or(&any), instead);
                return operand.and(answered);
            }
            StepKind::SessionCreate { user, set, .. } => {
                let operand = with_expression(compiler, user, |this, expression| {
                    this.expression(expression)
                })?;
                if operand.scalar().is_none_or(|(kind, _)| kind != Type::Int) {
                    let message = format!("a user is an integer, not {}", operand.describe());
                    return Err(compiler.error(
                        user.place,
                        message,
                        "declare the parameter with type = \"int\"",
                    ));
                }
                let user = compiler.register(&operand);
                compiler.stage.push(Op::SessionCreate(user));
                set_stored(compiler, set)?;
            }
            StepKind::Set { fields } => {
                if session.is_none() {
                    return Err(no_session(compiler, step));
                }
                set_stored(compiler, fields)?;
            }
            StepKind::SessionDestroy => {
                if session.is_none() {
                    return Err(no_session(compiler, step));
                }
                compiler.stage.push(Op::SessionDestroy);
            }
            StepKind::Cookies(cookies) => {
                let mut result = Ok(());
                for cookie in cookies {
                    result = result.and(self.set_cookie(compiler, cookie));
                }
                return result;
            }
            StepKind::Redirect(to) => redirect_to(compiler, to)?,
            StepKind::Head { headers, status } => {
                for (name, text) in headers {
                    let Ok(text) = header_value(compiler, text) else {
                        continue;
                    };
                    add_header(compiler, &name.value, text);
                }
                if let Some(status) = status {
                    compiler.stage.push(Op::Status(*status));
                }
            }
            StepKind::File { path } => {
                let operand = text_template(compiler, path, Escape::None, Goal::Text)?;
                if let Operand::Literal(Literal::Text { text, .. }) = &operand
                    && !static_files.contains(&**text)
                {
                    let files = static_files.iter().map(String::as_str);
                    let hint = did_you_mean_or(text, files, "static/ has no files");
                    return Err(compiler.error(
                        path.place,
                        format!("there is no static/{text}"),
                        hint,
                    ));
                }
                let path = compiler.text_register(&operand);
                compiler.stage.push(Op::File(path));
            }
        }
        Ok(())
    }
}

fn no_session<'a>(compiler: &mut Compiler<'_, 'a>, step: &Step<'a>) -> Reported {
    let hint = "session = \"optional\" at the top of the header";
    compiler.error(step.place, "this page does not look at the session", hint)
}

impl<'a> Steps<'_, 'a> {
    /// Sets a cookie: a header whose value has the template's outputs encoded, so that no text ends
    /// it.
    fn set_cookie(&self, compiler: &mut Compiler<'_, 'a>, cookie: &CookieDecl<'a>) -> Result<()> {
        let name = &cookie.name;
        if name.value == self.session.cookie {
            let hint = "session = \"create\" and session = \"destroy\" set it";
            let message = format!("the cookie `{}` is the session's", name.value);
            return Err(compiler.error(name.place, message, hint));
        }
        let value = text_template(compiler, &cookie.value, Escape::Percent, Goal::Cookie)?;
        let mut attributes = format!("; Path={}", cookie.path);
        if let Some(seconds) = cookie.max_age {
            attributes += &format!("; Max-Age={seconds}");
        }
        if cookie.http_only {
            attributes += "; HttpOnly";
        }
        if cookie.secure.unwrap_or(self.session.cookie_secure) {
            attributes += "; Secure";
        }
        attributes += &format!("; SameSite={}", cookie.same_site);
        let begin = Operand::text(&format!("{}=", name.value));
        let parts = [begin, value, Operand::text(&attributes)];
        let text = compiler.stage.concat(&parts, false, compiler.page);
        add_header(compiler, "Set-Cookie", text);
        Ok(())
    }
}

/// What a template of the header is for, beside what escapes its outputs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// A text, in which anything may stand.
    Text,
    Url,
    /// A cookie's value (RFC 6265, section 4.1.1).
    Cookie,
}

impl Goal {
    /// What of the template's own text cannot stand in it: where, and the character.
    fn unfit(self, text: &str) -> Option<(usize, char)> {
        let is_octet = |c: char| c.is_ascii_graphic() && !"\",;\\".contains(c);
        match self {
            Goal::Text => None,
            Goal::Url => redirect::unfit(text),
            Goal::Cookie => text.char_indices().find(|(_, c)| !is_octet(*c)),
        }
    }
}

/// Warns of names that are given to a page which asks for none of them, but for one like it.
fn warn_of_misspelled(
    answer: &AnswerDecl<'_>,
    file: &PageFile<'_>,
    asked: &BTreeMap<String, bool>,
    report: &mut Report,
) {
    let missed = || (asked.iter()).filter_map(|(name, found)| (!found).then_some(name.as_str()));
    for (name, _) in &answer.with {
        let near = did_you_mean(&name.value, missed());
        if !asked.contains_key(&name.value) && near.starts_with("did you mean") {
            let message = format!("pages/{} asks for no `{}`", file.file_name, name.value);
            report.warning(name.place, message, near);
        }
    }
}

/// Compiles what is done only for the lanes where a condition is true.
pub(super) fn only_when<'a, T>(
    compiler: &mut Compiler<'_, 'a>,
    when: &Text<'a>,
    inside: impl FnOnce(&mut Compiler<'_, 'a>) -> Result<T>,
) -> Result<T> {
    let operand = condition_of(compiler, when, "`when`");
    // What is wrong with the step is told even so.
    let any = Operand::int(1);
    let condition = compiler.register(operand.as_ref().unwrap_or(&any));
    compiler.stage.open();
    let result = inside(compiler);
    let block = compiler.stage.close(compiler.fragments);
    (compiler.stage).push_if(condition, block, Default::default(), compiler.fragments);
    operand.and(result)
}

/// Compiles an answer that leads elsewhere.
fn redirect_to<'a>(compiler: &mut Compiler<'_, 'a>, redirect: &RedirectDecl<'a>) -> Result<()> {
    let text = text_template(compiler, &redirect.to, Escape::Percent, Goal::Url)?;
    let text = compiler.within(&redirect.to.value, text)?;
    compiler.stage.push(Op::Status(redirect.status));
    add_header(compiler, "Location", text);
    if let Some(flash) = &redirect.flash {
        let text = text_template(compiler, flash, Escape::None, Goal::Text)?;
        let value = compiler.text_register(&text);
        let name = compiler.page.aside(Aside::Flash);
        compiler.stage.push(Op::Header(Header { name, value }));
    }
    Ok(())
}

/// Compiles the condition of `what`.
fn condition_of<'a>(
    compiler: &mut Compiler<'_, 'a>,
    condition: &Text<'a>,
    what: &str,
) -> Result<Operand> {
    let operand = with_expression(compiler, condition, |this, expression| {
        this.condition(expression)
    })?;
    match operand {
        Operand::Literal(_) => {
            let hint = "compare a parameter or the result of a call";
            let message = format!("{what} does not depend on the request");
            Err(compiler.error(condition.place, message, hint))
        }
        operand => Ok(operand),
    }
}

/// The page that is shown in place of others, by its file's name.
pub(super) fn page_named<'a>(
    name: &Text<'_>,
    pages: &'a [PageFile<'a>],
    lost_pages: &BTreeSet<&str>,
    report: &mut Report,
) -> Result<&'a PageFile<'a>> {
    if let Some(file) = pages.iter().find(|file| file.file_name == name.value) {
        return Ok(file);
    }
    if lost_pages.contains(name.value.as_str()) {
        return Err(Reported);
    }
    let names = pages.iter().map(|file| file.file_name);
    let hint = did_you_mean_or(&name.value, names, "write it; it needs no route of its own");
    let message = format!("there is no pages/{}", name.value);
    Err(report.error(name.place, message, hint))
}

/// Compiles what a page that is shown in place of another is given: the value itself where it is
/// one output and nothing else, whatever its type, and else a text.
fn with_value<'a>(compiler: &mut Compiler<'_, 'a>, text: &Text<'a>) -> Result<Operand> {
    let origin = TextPlace::of_text(text);
    let body = parse_template(&text.value, origin, compiler.report)?;
    let output = match &body {
        Stmt::Template(body) => match &body.children[..] {
            [Stmt::EmitExpr(output)] => output,
            _ => return text_template(compiler, text, Escape::None, Goal::Text),
        },
        _ => return Err(Reported),
    };
    let around = std::mem::replace(&mut compiler.origin, origin);
    let operand = compiler.expression(&output.expr);
    let operand = operand.and_then(|operand| match operand {
        Operand::Macro(_) | Operand::Module(_) | Operand::Function(_) | Operand::Loop(_) => {
            let place = compiler.place_of(&output.expr);
            Err(compiler.not_printable(&operand, place))
        }
        // What is safe is so where it was made.
        operand => Ok(operand.not_safe()),
    });
    compiler.origin = around;
    operand
}

/// Compiles the value of a header field.
pub(super) fn header_value<'a>(
    compiler: &mut Compiler<'_, 'a>,
    text: &Text<'a>,
) -> Result<Operand> {
    text_template(compiler, text, Escape::Header, Goal::Text)
}

/// Compiles a string of the header as text and outputs. What is printed is escaped as said.
fn text_template<'a>(
    compiler: &mut Compiler<'_, 'a>,
    text: &Text<'a>,
    escape: Escape,
    goal: Goal,
) -> Result<Operand> {
    let origin = TextPlace::of_text(text);
    let body = parse_template(&text.value, origin, compiler.report)?;
    let Stmt::Template(body) = &body else {
        return Err(Reported);
    };
    let around = std::mem::replace(&mut compiler.origin, origin);
    compiler.stage.begin_sink(Sink::Capture {
        joined: None,
        parts: Vec::new(),
    });
    let mut result = Ok(());
    for (index, statement) in body.children.iter().enumerate() {
        let is_first = index == 0;
        match statement {
            Stmt::EmitRaw(raw) => {
                if let Some((at, unfit)) = goal.unfit(raw.raw) {
                    let place = origin.place(raw.span().start_offset as usize + at);
                    let bytes = unfit.to_string();
                    let encoded: String = bytes.bytes().map(|b| format!("%{b:02X}")).collect();
                    let hint = match unfit {
                        '{' | '}' => "{{ name }}, in two braces each, puts a value in".to_owned(),
                        _ => format!("write {encoded}; outputs are encoded without that"),
                    };
                    let place_of = match goal {
                        Goal::Cookie => "a cookie's value",
                        Goal::Url | Goal::Text => "a URL",
                    };
                    let message = format!("`{unfit}` cannot stand in {place_of}");
                    result = Err(compiler.error(place, message, hint));
                }
                compiler.stage.write_text(raw.raw);
            }
            Stmt::EmitExpr(output) => {
                let place = compiler.place_of(&output.expr);
                let begins = is_first && goal == Goal::Url;
                let is_alone = body.children.len() == 1;
                let printed = compiler.expression(&output.expr).and_then(|operand| {
                    // A path of the service has its outputs encoded already.
                    let is_path = goal == Goal::Url && is_path(&output.expr);
                    if begins && is_path && compiler.is_within(&output.expr, is_alone) {
                        return compiler.print(&operand, Escape::None, place);
                    }
                    if begins {
                        compiler.leads_within(&operand, is_alone, place)?;
                        return compiler.print(&operand, Escape::None, place);
                    }
                    if operand.is_safe() && escape != Escape::None {
                        let hint = "values are escaped for where they are put";
                        return Err(compiler.error(place, "`|safe` does not belong here", hint));
                    }
                    if let Operand::CsrfInput = operand {
                        let message = "the input of a form does not belong here";
                        let hint = "`csrf_token` is its value";
                        return Err(compiler.error(place, message, hint));
                    }
                    let escape = if is_path { Escape::None } else { escape };
                    compiler.print(&operand, escape, place)
                });
                result = result.and(printed);
            }
            _ => {
                let hint = "text and {{ outputs }}; choose with {{ a if condition else b }}";
                let place = compiler.origin.place(0);
                result = Err(compiler.error(place, "statements do not belong here", hint));
            }
        }
    }
    let captured = compiler.stage.captured(false, compiler.page);
    compiler.origin = around;
    result.map(|()| captured)
}

/// Compiles an expression of the header.
pub(super) fn with_expression<'a, T>(
    compiler: &mut Compiler<'_, 'a>,
    text: &Text<'a>,
    inside: impl FnOnce(&mut Compiler<'_, 'a>, &minijinja::machinery::ast::Expr<'_>) -> Result<T>,
) -> Result<T> {
    let origin = TextPlace::of_text(text);
    let expression = parse_expression(&text.value, origin, compiler.report)?;
    let around = std::mem::replace(&mut compiler.origin, origin);
    let result = inside(compiler, &expression);
    compiler.origin = around;
    result
}

fn add_header(compiler: &mut Compiler<'_, '_>, name: &str, text: Operand) {
    let text = match text {
        // A constant's own text is not escaped by being printed.
        Operand::Literal(literal) => Operand::text(&super::output::escape_literal(
            &literal.print(),
            Escape::Header,
        )),
        text => text,
    };
    let value = compiler.text_register(&text);
    let name = compiler.page.aside(Aside::Header(name.to_owned()));
    compiler.stage.push(Op::Header(Header { name, value }));
}

/// Sets fields of the session, each to an expression's value.
fn set_stored<'a>(compiler: &mut Compiler<'_, 'a>, fields: &[(Text<'a>, Text<'a>)]) -> Result<()> {
    let mut result = Ok(());
    for (name, value) in fields {
        result = result.and(set_one(compiler, name, value));
    }
    result
}

fn set_one<'a>(compiler: &mut Compiler<'_, 'a>, name: &Text<'a>, value: &Text<'a>) -> Result<()> {
    let Some((stored, kind)) = compiler.page.stored_named(&name.value) else {
        if compiler.page.fields_lost {
            return Err(Reported);
        }
        let all = compiler.page.fields_of_sessions.clone();
        let names = all.iter().map(|field| field.name.as_str());
        let otherwise = format!(
            "in service.toml: [session], and below it fields = {{ {} = \"text(40)\" }}",
            name.value
        );
        let hint = did_you_mean_or(&name.value, names, &otherwise);
        let message = format!("a session has no field `{}`", name.value);
        return Err(compiler.error(name.place, message, hint));
    };
    let operand = with_expression(compiler, value, |this, expression| {
        this.expression(expression)
    })?;
    let (wanted, hint) = match kind {
        StoredKind::Text(_) => (Type::Text, "`|string` makes it a text"),
        StoredKind::Int => (Type::Int, "`|int` makes it an integer"),
        StoredKind::Bool => (Type::Bool, "compare it: level > 0"),
    };
    if operand.scalar().is_none_or(|(kind, _)| kind != wanted) {
        let message = format!(
            "`{}` is {}, not {}",
            name.value,
            super::value::describe(wanted),
            operand.describe()
        );
        return Err(compiler.error(value.place, message, hint));
    }
    let operand = match kind {
        StoredKind::Bool => {
            let from = compiler.register(&operand);
            let number = compiler.stage.convert(Conversion::BoolToInt, from);
            Operand::register(number, Type::Int)
        }
        _ => operand,
    };
    let value = compiler.text_register(&operand);
    let name = compiler.page.aside(Aside::Stored(stored));
    compiler.stage.push(Op::Header(Header { name, value }));
    Ok(())
}
