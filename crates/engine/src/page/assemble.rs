//! Pages: from headers and templates to programs.
//!
//! Steps are compiled one after the other into the stage under way; a call ends it and begins the next. What a page
//! knows grows with its steps: parameters and the session first, then the rows of each call.

use super::build::{Fragments, PageParts, Sink, Stage};
use super::config::{BackendConfig, find_backend};
use super::diagnostic::{Place, Report, Reported, did_you_mean};
use super::header::{AnswerDecl, CallDecl, Header, ParamKind, Step, StepKind};
use super::keys::Text;
use super::program::{
    Call, CallResult, Comparison, Escape, FieldType, ListParam, Op, PageProgram, Param, ParamType,
    SessionFields, SessionUse, StageProgram, Type,
};
use super::statement::{Compiler, Result};
use super::template::{Library, Origin, parse_expression, parse_template};
use super::value::{Items, List, Literal, Operand};
use minijinja::machinery::ast::Stmt;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A page file, split and read.
pub(crate) struct PageFile<'a> {
    /// `pages/NAME.html`.
    pub(crate) path: &'a str,
    /// `NAME.html`, as `else` gives it.
    pub(crate) file_name: &'a str,
    pub(crate) header: Header<'a>,
    /// Where its template begins.
    pub(crate) template: Place<'a>,
}

/// What pages are compiled with.
pub(crate) struct Assembly<'r, 'a> {
    pub(crate) library: &'a Library<'a>,
    pub(crate) report: &'r mut Report,
    pub(crate) fragments: &'r mut Fragments,
    pub(crate) pages: &'a [PageFile<'a>],
    pub(crate) backends: &'a [BackendConfig],
    pub(crate) missing: Option<&'a AnswerDecl<'a>>,
    pub(crate) static_files: &'a BTreeSet<String>,
    /// Files of pages shown in place of others.
    pub(crate) shown: BTreeSet<&'a str>,
}

/// A page under construction.
struct PageUnderWay<'a> {
    parts: PageParts,
    names: BTreeMap<String, Operand>,
    session_fields: Option<SessionFields>,
    calls: Vec<Call>,
    stages: Vec<StageProgram>,
    nodes: usize,
    file: &'a PageFile<'a>,
}

impl<'a> Assembly<'_, 'a> {
    /// Compiles a page; mistakes are reported.
    pub(crate) fn page(&mut self, file: &'a PageFile<'a>) -> PageProgram {
        let header = &file.header;
        let mut page = PageUnderWay {
            parts: PageParts::default(),
            names: BTreeMap::new(),
            session_fields: None,
            calls: Vec::new(),
            stages: Vec::new(),
            nodes: 0,
            file,
        };
        if header.session != SessionUse::None {
            let int = FieldType::Scalar(Type::Int);
            let present = page.parts.field("session.present", int.clone());
            let user = page.parts.field("session.userid", int);
            page.session_fields = Some(SessionFields { present, user });
            page.names
                .insert("session".to_owned(), Operand::Session { present, user });
        }
        let (params, list_params) = declare_params(header, &mut page);
        self.stages(&mut page);
        PageProgram {
            name: file.file_name.trim_end_matches(".html").to_owned(),
            routes: header
                .routes
                .iter()
                .map(|(route, _)| route.clone())
                .collect(),
            session: header.session,
            session_fields: page.session_fields,
            content_type: header.content_type.clone(),
            params,
            list_params,
            fields: page.parts.fields,
            calls: page.calls,
            stages: page.stages,
            texts: page.parts.texts.into_bytes(),
            tables: page.parts.tables,
            header_names: page.parts.header_names,
        }
    }

    /// Compiles all steps, each stage as far as its call, and the template.
    fn stages(&mut self, page: &mut PageUnderWay<'a>) {
        let header = &page.file.header;
        let mut steps = header.steps.iter().peekable();
        // The step that has given the answer, after which nothing is to follow.
        let mut answered: Option<&Step<'a>> = None;
        loop {
            let file = page.file;
            let mut call = None;
            let origin = Origin {
                start: file.template,
                exact: true,
            };
            let names = page.names.clone();
            let mut compiler = Compiler::new(
                self.library,
                self.report,
                self.fragments,
                &mut page.parts,
                names,
                origin,
            );
            compiler.nodes = page.nodes;
            let mut answers = Answers {
                pages: self.pages,
                shown: &mut self.shown,
            };
            if page.stages.is_empty() && header.session == SessionUse::Required {
                match (self.missing, page.session_fields) {
                    (Some(missing), Some(fields)) => {
                        answers.require_session(&mut compiler, missing, fields)
                    }
                    _ => {
                        let hint = "[session] missing = { page = \"login.html\" }";
                        let message = "service.toml does not say what to answer without a session";
                        compiler.error(header.place, message, hint);
                    }
                }
            }
            for step in steps.by_ref() {
                if let Some(before) = answered.replace(step)
                    && matches!(
                        before.kind,
                        StepKind::Redirect { .. } | StepKind::File { .. }
                    )
                {
                    compiler.error(
                        step.place,
                        "the answer has been given before this step",
                        "a redirect or file comes last",
                    );
                }
                if let StepKind::Call(declaration) = &step.kind {
                    let _ = request(&mut compiler, declaration);
                    call = Some(declaration);
                    break;
                }
                let _ = answers.step(&mut compiler, step, page.session_fields, self.static_files);
            }
            if call.is_none() {
                let has_body = !matches!(
                    answered.map(|step| &step.kind),
                    Some(StepKind::Redirect { .. } | StepKind::File { .. })
                );
                page_body(&mut compiler, file, has_body);
            }
            page.nodes = compiler.nodes;
            let stage = std::mem::replace(&mut compiler.stage, Stage::new());
            drop(compiler);
            let call_index = call.is_some().then_some(page.calls.len());
            page.stages.push(stage.finish(self.fragments, call_index));
            let Some(declaration) = call else { break };
            let gets = header.routes.iter().all(|(route, _)| route.method == "GET");
            self.declare_result(page, declaration, gets);
        }
    }

    /// Adds the fields of a call's answer.
    fn declare_result(
        &mut self,
        page: &mut PageUnderWay<'a>,
        declaration: &CallDecl<'a>,
        gets: bool,
    ) {
        let CallDecl {
            backend,
            result_name,
            columns,
            ..
        } = declaration;
        let name = &result_name.value;
        if page.names.contains_key(name) {
            self.report.error(
                result_name.place,
                format!("the name `{name}` is taken already"),
                "",
            );
        }
        let backend = find_backend(self.backends, &backend.value, backend.place, self.report);
        let status_name = format!("{name}.status");
        let (result, status, operand);
        if declaration.one_row {
            let mut names = BTreeMap::new();
            let mut fields = Vec::new();
            for (column, kind) in columns {
                if column == "status" {
                    let hint = "`status` is the backend's status";
                    self.report.error(
                        result_name.place,
                        "a column of one row cannot be named `status`",
                        hint,
                    );
                }
                let field = page
                    .parts
                    .field(format!("{name}.{column}"), FieldType::Scalar(*kind));
                fields.push(field);
                names.insert(column.clone(), Operand::Field { field, kind: *kind });
            }
            let field = page.parts.field(status_name, FieldType::Scalar(Type::Int));
            names.insert(
                "status".to_owned(),
                Operand::Field {
                    field,
                    kind: Type::Int,
                },
            );
            operand = Operand::Record(Rc::new(names));
            (result, status) = (CallResult::Row(fields), field);
        } else {
            let field = page
                .parts
                .field(name.clone(), FieldType::List(columns.clone()));
            let status_field = page.parts.field(status_name, FieldType::Scalar(Type::Int));
            operand = Operand::List(Rc::new(List {
                items: Items::Field(field),
                columns: columns.clone(),
                status: Some(status_field),
            }));
            (result, status) = (CallResult::Rows(field), status_field);
        }
        page.names.insert(name.clone(), operand);
        page.calls.push(Call {
            backend: backend.unwrap_or(0),
            columns: columns.len() as u16,
            result,
            status,
            idempotent: declaration.retry.unwrap_or(gets),
        });
    }
}

/// Makes the fields of parameters.
fn declare_params(
    header: &Header<'_>,
    page: &mut PageUnderWay<'_>,
) -> (Vec<Param>, Vec<ListParam>) {
    let (mut params, mut list_params) = (Vec::new(), Vec::new());
    for param in &header.params {
        let name = &param.name.value;
        let places = param.places.clone();
        match &param.kind {
            ParamKind::Scalar {
                wire_name,
                kind,
                default,
            } => {
                let field_kind = kind.field_type();
                let field = page
                    .parts
                    .field(name.clone(), FieldType::Scalar(field_kind));
                page.names.insert(
                    name.clone(),
                    Operand::Field {
                        field,
                        kind: field_kind,
                    },
                );
                params.push(Param {
                    wire_name: wire_name.clone(),
                    places,
                    kind: kind.clone(),
                    default: default.clone(),
                    field,
                });
            }
            ParamKind::List {
                columns,
                min_items,
                max_items,
            } => {
                let named: Vec<(String, Type)> = (columns.iter())
                    .map(|(name, _, kind)| (name.clone(), kind.field_type()))
                    .collect();
                let field = page
                    .parts
                    .field(name.clone(), FieldType::List(named.clone()));
                let list = List {
                    items: Items::Field(field),
                    columns: named,
                    status: None,
                };
                page.names
                    .insert(name.clone(), Operand::List(Rc::new(list)));
                let on_wire = |(_, wire_name, kind): &(String, String, ParamType)| {
                    (wire_name.clone(), kind.clone())
                };
                list_params.push(ListParam {
                    places,
                    columns: columns.iter().map(on_wire).collect(),
                    min_items: *min_items,
                    max_items: *max_items,
                    field,
                });
            }
        }
    }
    (params, list_params)
}

/// Compiles the page's own template; a page that answers otherwise has none.
fn page_body<'a>(compiler: &mut Compiler<'_, 'a>, file: &PageFile<'a>, has_body: bool) {
    if has_body {
        if let Some(Some(template)) = compiler.library.get(file.path) {
            compiler.page_template(file.path, template);
        }
    } else {
        let text = &file.template.text[file.template.offset..];
        let blank = text.len() - text.trim_start().len();
        if blank < text.len() {
            let place = Place {
                offset: file.template.offset + blank,
                ..file.template
            };
            let hint = "a page that redirects or answers with a file has no template";
            compiler.error(place, "this is never shown", hint);
        }
    }
}

/// Compiles a string of the header as text and outputs. What is printed is escaped as said.
fn text_template<'a>(
    compiler: &mut Compiler<'_, 'a>,
    text: &Text<'a>,
    escape: Escape,
) -> Result<Operand> {
    let origin = Origin::of_text(text);
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
    for statement in &body.children {
        match statement {
            Stmt::EmitRaw(raw) => compiler.stage.write_text(raw.raw),
            Stmt::EmitExpr(output) => {
                let place = compiler.place_of(&output.expr);
                let printed = compiler.expression(&output.expr).and_then(|operand| {
                    if operand.is_safe() && escape != Escape::None {
                        let hint = "values are escaped for where they are put";
                        return Err(compiler.error(place, "`|safe` does not belong here", hint));
                    }
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
fn with_expression<'a, T>(
    compiler: &mut Compiler<'_, 'a>,
    text: &Text<'a>,
    inside: impl FnOnce(&mut Compiler<'_, 'a>, &minijinja::machinery::ast::Expr<'_>) -> Result<T>,
) -> Result<T> {
    let origin = Origin::of_text(text);
    let expression = parse_expression(&text.value, origin, compiler.report)?;
    let around = std::mem::replace(&mut compiler.origin, origin);
    let result = inside(compiler, &expression);
    compiler.origin = around;
    result
}

/// Compiles the request of a call.
fn request<'a>(compiler: &mut Compiler<'_, 'a>, declaration: &CallDecl<'a>) -> Result<()> {
    let Some((each, item, list_name)) = &declaration.each else {
        let text = text_template(compiler, &declaration.request, Escape::Percent)?;
        let text = compiler.text_register(&text);
        compiler.stage.push(Op::Request { text });
        return Ok(());
    };
    let list = match compiler.scope.page.get(list_name) {
        Some(Operand::List(list)) => list.clone(),
        Some(other) => {
            let message = format!("`{list_name}` is {}, not a list", other.describe());
            return Err(compiler.error(each.place, message, ""));
        }
        None => {
            let hint = did_you_mean(list_name, compiler.scope.page.keys().map(String::as_str));
            return Err(compiler.error(each.place, format!("unknown name `{list_name}`"), hint));
        }
    };
    let count = compiler.length_of(&list);
    let count = compiler.register(&count);
    let [position, index, length] = [Type::Int; 3].map(|kind| compiler.stage.new_register(kind));
    compiler.stage.open();
    let operand = compiler.item(&Operand::List(list), position)?;
    let shadowed = compiler.scope.page.insert(item.clone(), operand);
    let text = text_template(compiler, &declaration.request, Escape::Percent);
    match shadowed {
        Some(shadowed) => compiler.scope.page.insert(item.clone(), shadowed),
        None => compiler.scope.page.remove(item),
    };
    let pushed = text.map(|text| {
        let text = compiler.text_register(&text);
        compiler.stage.push(Op::Request { text });
    });
    let body = compiler.stage.close(compiler.fragments);
    compiler.stage.push_for(
        body,
        Default::default(),
        compiler.fragments,
        |body, otherwise| Op::For {
            count,
            filter: None,
            position,
            index,
            length,
            body,
            otherwise,
        },
    );
    pushed
}

/// Steps other than calls, and pages shown in place of others.
struct Answers<'r, 'a> {
    pages: &'a [PageFile<'a>],
    shown: &'r mut BTreeSet<&'a str>,
}

impl<'a> Answers<'_, 'a> {
    /// Answers lanes that have no session.
    fn require_session(
        &mut self,
        compiler: &mut Compiler<'_, 'a>,
        missing: &AnswerDecl<'a>,
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

    /// Where a condition is false, another page is the answer.
    fn otherwise(
        &mut self,
        compiler: &mut Compiler<'_, 'a>,
        condition: &Operand,
        answer: &AnswerDecl<'a>,
    ) -> Result<()> {
        let condition = compiler.register(condition);
        compiler.stage.open();
        let result = self.answer(compiler, answer);
        let block = compiler.stage.close(compiler.fragments);
        compiler
            .stage
            .push_if(condition, Default::default(), block, compiler.fragments);
        result
    }

    fn answer(&mut self, compiler: &mut Compiler<'_, 'a>, answer: &AnswerDecl<'a>) -> Result<()> {
        compiler.stage.push(Op::Status {
            status: answer.status,
        });
        let mut names = BTreeMap::new();
        for (name, text) in &answer.with {
            let operand = text_template(compiler, text, Escape::None).unwrap_or(Operand::Poison);
            names.insert(name.value.clone(), operand);
        }
        let Some(file) = self
            .pages
            .iter()
            .find(|file| file.file_name == answer.page.value)
        else {
            let hint = did_you_mean(
                &answer.page.value,
                self.pages.iter().map(|file| file.file_name),
            );
            let message = format!("there is no pages/{}", answer.page.value);
            return Err(compiler.error(answer.page.place, message, hint));
        };
        self.shown.insert(file.path);
        // It sees these variables and nothing of this page.
        let scope = std::mem::replace(&mut compiler.scope, super::scope::Scope::new(names));
        let macros = std::mem::take(&mut compiler.macros);
        if let Some(Some(template)) = compiler.library.get(file.path) {
            compiler.page_template(file.path, template);
        }
        compiler.macros = macros;
        compiler.scope = scope;
        compiler.stage.finish_lanes(compiler.fragments);
        Ok(())
    }

    fn step(
        &mut self,
        compiler: &mut Compiler<'_, 'a>,
        step: &Step<'a>,
        session: Option<SessionFields>,
        static_files: &BTreeSet<String>,
    ) -> Result<()> {
        match &step.kind {
            // Ends the stage: not here.
            StepKind::Call(_) => {}
            StepKind::Check { condition, answer } => {
                let operand = with_expression(compiler, condition, |this, expression| {
                    this.condition(expression)
                })?;
                if let Operand::Literal(_) = operand {
                    let hint = "compare a parameter or the result of a call";
                    return Err(compiler.error(
                        condition.place,
                        "this check does not depend on the request",
                        hint,
                    ));
                }
                return self.otherwise(compiler, &operand, answer);
            }
            StepKind::SessionCreate { user } => {
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
                compiler.stage.push(Op::SessionCreate { user });
            }
            StepKind::SessionDestroy => {
                if session.is_none() {
                    let hint = "session = \"optional\" at the top of the header";
                    return Err(compiler.error(
                        step.place,
                        "this page does not look at the session",
                        hint,
                    ));
                }
                compiler.stage.push(Op::SessionDestroy);
            }
            StepKind::Redirect { to, status } => {
                let text = text_template(compiler, to, Escape::Percent)?;
                compiler.stage.push(Op::Status { status: *status });
                add_header(compiler, "Location", text);
            }
            StepKind::Head { headers, status } => {
                for (name, text) in headers {
                    let Ok(text) = text_template(compiler, text, Escape::Header) else {
                        continue;
                    };
                    add_header(compiler, &name.value, text);
                }
                if let Some(status) = status {
                    compiler.stage.push(Op::Status { status: *status });
                }
            }
            StepKind::File { path } => {
                let operand = text_template(compiler, path, Escape::None)?;
                if let Operand::Literal(Literal::Text { text, .. }) = &operand
                    && !static_files.contains(&**text)
                {
                    let hint = did_you_mean(text, static_files.iter().map(String::as_str));
                    return Err(compiler.error(
                        path.place,
                        format!("there is no static/{text}"),
                        hint,
                    ));
                }
                let path = compiler.text_register(&operand);
                compiler.stage.push(Op::File { path });
            }
        }
        Ok(())
    }
}

fn add_header(compiler: &mut Compiler<'_, '_>, name: &str, text: Operand) {
    let names = &mut compiler.page.header_names;
    let index = names
        .iter()
        .position(|known| known == name)
        .unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
    let text = match text {
        // A constant's own text is not escaped by being printed.
        Operand::Literal(literal) => Operand::text(&super::build::escape_literal(
            &literal.print(),
            Escape::Header,
        )),
        text => text,
    };
    let value = compiler.text_register(&text);
    compiler.stage.push(Op::Header {
        name: index as u16,
        value,
    });
}
