//! Pages: from headers and templates to programs.
//!
//! Steps are compiled one after the other into the stage under way; a call ends it and begins the
//! next. What a page knows grows with its steps: parameters and the session first, then the rows of
//! each call.

use super::build::{Fragments, INDEXED_MAX, PageParts, StageBuilder, index_of};
use super::compiler::{Compiler, Links};
use super::context::Leads;
use super::params::{declare, keep_what_is_read};
use super::query::{Asked, query};
use super::shared_sessions;
use super::size::Size;
use super::sql;
use super::step::{Steps, page_named};
use super::value::{List, Operand, null_of};
use crate::diagnostic::{Place, Report, Severity};
use crate::kind::{Asks, BackendKind, CallPart, Kinds, PageCall};
use crate::program::{
    Asking, Call, CallResult, Csrf, FieldId, FieldType, Form, PageProgram, Particulars,
    SessionFields, SessionStore, SessionUse, StageProgram, Type,
};
use crate::settings::{SessionSettings, StoredField};
use crate::source::PageFile;
use crate::source::declaration::{CallDecl, Instead, Step, StepKind};
use crate::source::keys::Text;
use crate::source::template::{Library, TextPlace};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What pages are compiled with.
pub(crate) struct Assembly<'r, 'a> {
    pub(crate) library: &'a Library<'a>,
    pub(crate) report: &'r mut Report,
    pub(crate) fragments: &'r mut Fragments,
    pub(crate) pages: &'a [PageFile<'a>],
    /// Page files whose headers could not be read, which is reported.
    pub(crate) lost_pages: &'a BTreeSet<&'a str>,
    pub(crate) kinds: Kinds<'a>,
    pub(crate) missing: Option<&'a Instead<'a>>,
    /// Whether it is absent for a mistake that is reported.
    pub(crate) missing_lost: bool,
    pub(crate) static_files: &'a BTreeSet<String>,
    /// The table of the time zone in which dates are printed.
    pub(crate) zone: Rc<str>,
    /// What service.toml says of sessions.
    pub(crate) session: &'a SessionSettings,
    /// Where the sessions of several machines are, if they share them.
    pub(crate) store: Option<&'a SessionStore>,
    /// What sessions keep beside their user.
    pub(crate) stored: Rc<[StoredField]>,
    /// Whether some of it is unknown for mistakes that are reported.
    pub(crate) stored_lost: bool,
    /// Files of pages shown in place of others.
    pub(crate) shown: BTreeSet<&'a str>,
    /// Where the texts of pages lead.
    pub(crate) leads: Vec<Leads<'a>>,
    /// What was compiled so far.
    pub(crate) size: Size,
}

/// A page under construction.
struct PageUnderWay<'a> {
    parts: PageParts,
    names: BTreeMap<String, Operand>,
    session_fields: Option<SessionFields>,
    calls: Vec<Call>,
    stages: Vec<StageProgram>,
    nodes: usize,
    /// Whether names are unknown for mistakes that are reported.
    names_lost: bool,
    file: &'a PageFile<'a>,
}

impl<'a> Assembly<'_, 'a> {
    /// Compiles a page; mistakes are reported.
    pub(crate) fn page(&mut self, file: &'a PageFile<'a>) -> PageProgram {
        let header = &file.header;
        let mut page = PageUnderWay {
            parts: PageParts {
                fields_of_sessions: self.stored.clone(),
                fields_lost: self.stored_lost,
                ..PageParts::default()
            },
            names: BTreeMap::new(),
            session_fields: None,
            calls: Vec::new(),
            stages: Vec::new(),
            nodes: 0,
            names_lost: header.lost.others,
            file,
        };
        if header.session != SessionUse::None {
            let int = FieldType::Scalar(Type::Int);
            let present = page.parts.field("session.present", int.clone());
            let user = page.parts.field("session.userid", int);
            page.session_fields = Some(SessionFields {
                present,
                user,
                lookup: (self.store).map(|store| {
                    let (calls, stages) = (&mut page.calls, &mut page.stages);
                    shared_sessions::look_up(&mut page.parts, calls, stages, store)
                }),
            });
            page.names
                .insert("session".to_owned(), Operand::Session { present, user });
        }
        let lost = header.lost.names.iter();
        page.names
            .extend(lost.map(|name| (name.clone(), Operand::Poison)));
        let (params, list_params) = declare(header, &mut page.parts, &mut page.names);
        self.stages(&mut page);
        self.size.pages += 1;
        self.size.nodes += page.nodes;
        self.size.text_bytes += page.parts.texts.length();
        if page.parts.is_too_large() {
            self.report.error(
                header.place,
                "the page has too many parameters, columns, headers or lists of constants",
                format!("at most {INDEXED_MAX} of each"),
            );
        }
        let mut program = PageProgram {
            name: file.file_name.trim_end_matches(".html").to_owned(),
            routes: header
                .routes
                .iter()
                .map(|(route, _)| route.clone())
                .collect(),
            session: header.session,
            session_fields: page.session_fields,
            stored: page.parts.stored,
            cookies: page.parts.cookies,
            flash: page.parts.flash,
            here: page.parts.here,
            now: page.parts.now,
            drawn: page.parts.drawn,
            csrf: Csrf {
                is_checked: header.csrf.unwrap_or(self.session.csrf) && !header.only_gets(),
                token: page.parts.token,
            },
            is_sign_in: header.steps.iter().any(|step| {
                matches!(
                    step.kind,
                    StepKind::SessionCreate {
                        is_sign_in: true,
                        ..
                    }
                )
            }),
            gzip: header.gzip,
            content_type: header.content_type.clone(),
            params,
            list_params,
            fields: page.parts.fields,
            calls: page.calls,
            stages: page.stages,
            texts: page.parts.texts.into_bytes(),
            tables: page.parts.tables,
            asides: page.parts.asides,
        };
        keep_what_is_read(&mut program);
        program
    }

    /// The page of `missing` is there, though none needs it.
    pub(crate) fn check_missing(&mut self) {
        let requires = |page: &PageFile<'_>| page.header.session == SessionUse::Required;
        if let Some(page) = self.missing.and_then(Instead::page)
            && !self.pages.iter().any(requires)
        {
            let _ = page_named(page, self.pages, self.lost_pages, self.report);
        }
    }

    /// Compiles all steps, each stage as far as its call, and the template.
    fn stages(&mut self, page: &mut PageUnderWay<'a>) {
        let header = &page.file.header;
        let mut steps = header.steps.iter().peekable();
        let mut step_number = 0;
        // Steps that have done something to the answer. A stage's answers are those of the lanes
        // that it finishes, so that each stage does it again.
        let mut effects: Vec<(usize, &Step<'a>)> = Vec::new();
        // The step that has given the answer, after which nothing is to follow.
        let mut answered: Option<&Step<'a>> = None;
        // The one that asks for the session comes before.
        let first = page.stages.len();
        loop {
            let file = page.file;
            let mut call = None;
            let origin = TextPlace {
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
            compiler.zone = self.zone.clone();
            compiler.links = Some(Links {
                pages: self.pages,
                lost: self.lost_pages,
            });
            compiler.escape = header.escape();
            compiler.unlike_html = header.unlike_html();
            compiler.forms.need_tokens = self.session.csrf;
            compiler.scope.names_lost = page.names_lost;
            let mut others = Steps {
                pages: self.pages,
                lost_pages: self.lost_pages,
                shown: &mut self.shown,
                content_type: &header.content_type,
                session: self.session,
            };
            if page.stages.len() == first && header.session == SessionUse::Required {
                match (self.missing, page.session_fields) {
                    (Some(missing), Some(fields)) => {
                        others.require_session(&mut compiler, missing, fields)
                    }
                    _ if self.missing_lost => {}
                    _ => {
                        let hint = "in service.toml: [session], and below it \
                                    missing = { page = \"login.html\" }";
                        let message = "service.toml does not say what to answer without a session";
                        compiler.error(header.place, message, hint);
                        self.missing_lost = true;
                    }
                }
            }
            for (number, step) in &effects {
                compiler.stage.step = *number;
                compiler.forms.session_changes |= step.changes_session();
                let _ = others.step(&mut compiler, step, page.session_fields, self.static_files);
            }
            for step in steps.by_ref() {
                step_number += 1;
                compiler.stage.step = step_number;
                if let Some(before) = answered.replace(step)
                    && before.ends_page()
                {
                    compiler.error(
                        step.place,
                        "the answer has been given before this step",
                        "a redirect or file comes last",
                    );
                }
                if let StepKind::Call(declaration) = &step.kind {
                    let asked = query(&mut compiler, declaration, step.when.as_ref());
                    call = Some((declaration, asked.ok()));
                    break;
                }
                if let Some(place) = step.goes_on().filter(|_| !effects.is_empty()) {
                    let hint = "put it before the first step that says something of the answer";
                    let message = "the other server gives the answer, and what steps before this \
                                   check say of it is lost";
                    compiler.error(place, message, hint);
                }
                if step.is_effect() {
                    effects.push((step_number, step));
                }
                compiler.forms.session_changes |= step.changes_session();
                let _ = others.step(&mut compiler, step, page.session_fields, self.static_files);
            }
            if call.is_none() {
                compiler.stage.step = 0;
                let has_body = !answered.is_some_and(Step::ends_page);
                page_body(&mut compiler, file, has_body);
            }
            page.nodes = compiler.nodes;
            self.leads.append(&mut compiler.leads);
            let stage = std::mem::replace(&mut compiler.stage, StageBuilder::new());
            drop(compiler);
            let call_index = call.is_some().then_some(page.calls.len());
            page.stages
                .push(stage.finish(self.fragments, call_index, step_number));
            let Some((declaration, asked)) = call else {
                break;
            };
            self.declare_result(page, declaration, asked, header.only_gets());
        }
    }

    /// Adds the fields of a call's answer.
    fn declare_result(
        &mut self,
        page: &mut PageUnderWay<'a>,
        declaration: &CallDecl<'a>,
        asked: Option<Asked>,
        gets: bool,
    ) {
        self.check_call(declaration, asked.as_ref());
        self.warn_of_change(page, declaration, gets);
        let backend = &declaration.backend;
        let backend = (self.kinds).find(&backend.value, backend.place, self.report);
        self.check_particulars(declaration);
        let (result, status, names) = self.result_fields(page, declaration);
        let has_name = !names.is_empty();
        for (name, operand) in names {
            self.name_result(page, name, operand);
        }
        let shared = self.is_shared(declaration);
        let merged = self.is_merged(declaration);
        let nulls = &declaration.nulls;
        let columns = match &result {
            CallResult::Row(fields) => fields.len() - nulls.len(),
            CallResult::Rows(_) => declaration.columns.len(),
        };
        let rows = (declaration.transaction.iter()).filter_map(|statement| statement.row.as_ref());
        let all = (declaration.columns.iter()).filter(|_| declaration.transaction.is_empty());
        let all = all.chain(rows.flat_map(|(_, columns)| columns));
        let all: Vec<Type> = all.map(|(_, kind)| *kind).collect();
        let of_type = |kind: Type| {
            let of_it = all.iter().enumerate().filter(move |(_, of)| **of == kind);
            of_it.map(|(at, _)| index_of(at)).collect()
        };
        let particulars = Particulars {
            floats: of_type(Type::Float),
            bools: of_type(Type::Bool),
            nulls: (nulls.iter().zip(columns..))
                .map(|(column, told)| (index_of(*column), index_of(told)))
                .collect(),
        };
        let (form, statements) = match asked {
            Some(asked) => (asked.form, asked.statements),
            None => (Form::plain(&[]), Box::default()),
        };
        page.calls.push(Call {
            backend: backend.unwrap_or(0),
            asking: declaration.asking,
            form,
            columns: index_of(columns),
            particulars,
            result,
            status,
            has_name,
            statements,
            document: (declaration.http.as_ref()).map(|http| Box::new(http.document.clone())),
            idempotent: declaration.retry.unwrap_or(match declaration.asking {
                Asking::Request => gets,
                Asking::Query => true,
                Asking::Exec | Asking::Transaction => false,
            }),
            optional: declaration.optional,
            shared,
            merged,
        });
    }

    /// Warns of a statement that changes something where GET asks for it. What a page can do
    /// without, such as a count of its visits, may be meant.
    fn warn_of_change(&mut self, page: &PageUnderWay<'a>, declaration: &CallDecl<'a>, gets: bool) {
        let changes = matches!(declaration.asking, Asking::Exec | Asking::Transaction);
        let is_statement = declaration.words.is_empty() && declaration.http.is_none();
        if gets && changes && is_statement && !declaration.optional && page.file.header.is_routed {
            let message = "this changes something whenever the page is asked for";
            let hint = "browsers, robots and caches ask by GET at will: have a form ask by POST; \
                        what is a count, say, that the page can do without is optional = true";
            (self.report).warning(declaration.backend.place, message, hint);
        }
    }

    /// Has the page know what a call answers by a name.
    fn name_result(&mut self, page: &mut PageUnderWay<'a>, name: &Text<'a>, operand: Operand) {
        let known = page.names.get(&name.value);
        let is_taken = known.is_some_and(|known| *known != Operand::Poison);
        let operand = match is_taken {
            false => operand,
            true => {
                // Whatever name was meant is not known now, nor which of two of one name is.
                page.names_lost = true;
                self.report.error(
                    name.place,
                    format!("the name `{}` is taken already", name.value),
                    "a parameter or another call has it: choose another",
                );
                Operand::Poison
            }
        };
        page.names.insert(name.value.clone(), operand);
    }

    /// Whether requests of a cohort that ask the same share an answer: by default where it is known
    /// that asking changes nothing.
    fn is_shared(&mut self, declaration: &CallDecl<'a>) -> bool {
        match declaration.share {
            Some((true, place)) if declaration.asking == Asking::Exec => {
                let hint = match declaration.words.is_empty() && declaration.http.is_none() {
                    true => "leave it out, or ask by `query` what only reads",
                    false => "leave it out",
                };
                let message = "what changes something is done for each request";
                self.report.error(place, message, hint);
                false
            }
            Some((share, _)) => share,
            None => declaration.asking == Asking::Query,
        }
    }

    /// Whether several of a cohort's queries may be asked as one: by default where it is known that
    /// each is as quick so.
    fn is_merged(&mut self, declaration: &CallDecl<'a>) -> bool {
        let kind = self.kinds.of(&declaration.backend.value);
        let words = declaration.words.iter().map(|word| word.value.as_str());
        let is_lookup = match kind.map(|(_, kind)| kind.asks) {
            Some(Asks::Command(command)) => command.merges(words),
            _ => false,
        };
        let is_statement = declaration.asking == Asking::Query
            && declaration.words.is_empty()
            && declaration.http.is_none();
        match declaration.merge {
            Some((true, place)) if !is_lookup && !is_statement => {
                let hint =
                    "leave it out: it is for a `query` of SQL, and for what looks up one key";
                let message = "only statements that read are merged";
                self.report.error(place, message, hint);
                false
            }
            Some((merge, _)) => merge,
            None => is_lookup,
        }
    }

    /// Reports what a call's kind finds wrong with it.
    fn check_call(&mut self, declaration: &CallDecl<'a>, asked: Option<&Asked>) {
        let (Some(asked), Some((backend, kind))) =
            (asked, self.kinds.of(&declaration.backend.value))
        else {
            return;
        };
        asked.warn_of_large_files(backend, declaration.backend.place, self.report);
        let whole = PageCall {
            backend,
            form: &asked.form,
            asking: declaration.asking,
            columns: &declaration.columns,
            has_name: !declaration.result_name.value.is_empty(),
            one_row: declaration.one_row,
        };
        if declaration.transaction.is_empty() {
            let columns = declaration.result_name.place;
            return self.check_asked(kind, &whole, &declaration.asked, columns);
        }
        for (declared, statement) in declaration.transaction.iter().zip(&asked.statements) {
            let (place, columns) = match &declared.row {
                Some((name, columns)) => (name.place, columns),
                None => (declared.text.place, &declaration.columns),
            };
            let call = PageCall {
                form: &statement.form,
                asking: statement.asking,
                columns,
                has_name: declared.row.is_some(),
                one_row: declared.row.is_some(),
                ..whole
            };
            self.check_asked(kind, &call, &declared.text, place);
        }
    }

    /// Reports what a call's kind finds wrong with what it asks, which is this, or with its
    /// columns, which stand there.
    fn check_asked(
        &mut self,
        kind: &BackendKind,
        call: &PageCall<'_>,
        asked: &Text<'a>,
        columns: Place<'a>,
    ) {
        let Some(mistake) = (kind.check)(call) else {
            return;
        };
        let place = match (mistake.part, mistake.at) {
            (CallPart::Columns, _) => columns,
            (CallPart::Asked, None) => asked.place,
            (CallPart::Asked, Some((piece, bytes))) => {
                let begin = sql::read(&asked.value).map_or(0, |read| read.piece_begins(piece));
                TextPlace::of_text(asked).place(begin + bytes)
            }
        };
        match mistake.severity {
            Severity::Warning => self.report.warning(place, mistake.message, mistake.hint),
            Severity::Error => {
                self.report.error(place, mistake.message, mistake.hint);
            }
        }
    }

    /// A kind whose rows come in columns of its own has texts and integers.
    fn check_particulars(&mut self, declaration: &CallDecl<'a>) {
        let backend = &declaration.backend.value;
        let is_template = |(_, kind): (_, &BackendKind)| matches!(kind.asks, Asks::Template(_));
        let others = |(_, kind): &(String, Type)| !matches!(kind, Type::Text | Type::Int);
        if (self.kinds.of(backend)).is_some_and(is_template)
            && (!declaration.nulls.is_empty() || declaration.columns.iter().any(others))
        {
            let message = "columns of this backend are texts and integers, and none is null";
            let hint = "name it without a type and `?`: a text is a float by `|float`";
            self.report
                .error(declaration.result_name.place, message, hint);
        }
    }

    /// Makes the fields of a call's rows, or of its one row, or of those of a transaction's
    /// statements, and of its status; gives what the names of its answer mean.
    fn result_fields<'d>(
        &mut self,
        page: &mut PageUnderWay<'a>,
        declaration: &'d CallDecl<'a>,
    ) -> (CallResult, FieldId, Vec<(&'d Text<'a>, Operand)>) {
        let rows: Vec<(&Text<'a>, &Vec<(String, Type)>)> = match declaration.one_row {
            true => vec![(&declaration.result_name, &declaration.columns)],
            false => (declaration.transaction.iter())
                .filter_map(|statement| statement.row.as_ref())
                .map(|(name, columns)| (name, columns))
                .collect(),
        };
        let first = rows
            .first()
            .map_or(&declaration.result_name, |(name, _)| name);
        let status_name = format!("{}.status", first.value);
        let status_kind = FieldType::Scalar(Type::Int);
        if rows.is_empty() {
            let (name, columns) = (&declaration.result_name, &declaration.columns);
            let mut columns = columns.clone();
            let nulls = declaration.nulls.iter();
            let nulls = nulls.map(|at| (null_of(&columns[*at].0), Type::Int));
            columns.extend(nulls.collect::<Vec<_>>());
            let lies = (columns.iter()).map(|(name, kind)| (name.clone(), kind.in_fields()));
            let rows_kind = FieldType::List(lies.collect());
            let field = page.parts.field(name.value.clone(), rows_kind);
            let status = page.parts.field(status_name, status_kind);
            let list = List::of_field(field, columns, Some(status));
            let named = (!name.value.is_empty()).then(|| (name, Operand::List(Rc::new(list))));
            return (CallResult::Rows(field), status, named.into_iter().collect());
        }
        let mut fields = Vec::new();
        let mut records = Vec::new();
        for (name, columns) in rows {
            let mut record = BTreeMap::new();
            for (column, kind) in columns {
                if column == "status" {
                    let message = "a column of one row cannot be named `status`";
                    (self.report).error(name.place, message, "`status` is the backend's status");
                }
                let field_name = format!("{}.{column}", name.value);
                let field = (page.parts).field(field_name, FieldType::Scalar(kind.in_fields()));
                fields.push(field);
                record.insert(column.clone(), Operand::Field { field, kind: *kind });
            }
            for at in &declaration.nulls {
                let (column, kind) = (null_of(&columns[*at].0), Type::Int);
                let field_name = format!("{}.{column}", name.value);
                let field = (page.parts).field(field_name, FieldType::Scalar(kind));
                page.parts.nulls.insert(fields[*at], field);
                fields.push(field);
            }
            records.push((name, record));
        }
        let field = page.parts.field(status_name, status_kind);
        let kind = Type::Int;
        let named = (records.into_iter())
            .map(|(name, mut record)| {
                record.insert("status".to_owned(), Operand::Field { field, kind });
                (name, Operand::Record(Rc::new(record)))
            })
            .collect();
        (CallResult::Row(fields), field, named)
    }
}

/// Compiles the page's own template; a page that answers otherwise has none.
fn page_body<'a>(compiler: &mut Compiler<'_, 'a>, file: &'a PageFile<'a>, has_body: bool) {
    match has_body {
        true => compiler.body_of(file),
        false => {
            let hint = "a page that redirects or answers with a file has no template";
            compiler.no_template(file, hint);
        }
    }
}
