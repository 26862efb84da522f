//! A service's own error pages (`[errors]`): what is answered where no page is.
//!
//! Each status has a page of its own, compiled with that status: it is made once, when the service
//! is loaded, and not while the server has trouble enough.

use super::build::{Fragments, PageParts, StageBuilder};
use super::compiler::{Compiler, Links};
use super::step::page_named;
use super::value::Operand;
use crate::diagnostic::{How, Report};
use crate::program::{
    Csrf, ERROR_STATUSES, ErrorPages, FieldType, PageProgram, Service, SessionUse, Type,
};
use crate::source::PageFile;
use crate::source::config::ErrorDecl;
use crate::source::template::{Library, TextPlace};
use rhythm_protocol::http::response::reason;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// What error pages are compiled with.
pub(crate) struct ErrorAssembly<'r, 'a> {
    pub(crate) library: &'a Library<'a>,
    pub(crate) report: &'r mut Report,
    pub(crate) pages: &'a [PageFile<'a>],
    /// Page files whose headers could not be read, which is reported.
    pub(crate) lost_pages: &'a BTreeSet<&'a str>,
    /// The table of the time zone in which dates are printed.
    pub(crate) zone: Rc<str>,
    /// Files of pages shown in place of others.
    pub(crate) shown: &'r mut BTreeSet<&'a str>,
}

impl<'a> ErrorAssembly<'_, 'a> {
    /// Compiles the page of each status that has one; mistakes are reported.
    pub(crate) fn pages(&mut self, errors: &[ErrorDecl<'a>]) -> Option<ErrorPages> {
        let mut files = Vec::new();
        for error in errors {
            let file = page_named(&error.page, self.pages, self.lost_pages, self.report);
            let Ok(file) = file else {
                continue;
            };
            self.shown.insert(file.path);
            if !file.header.steps.is_empty() {
                let message = format!("the steps of pages/{} are not taken here", file.file_name);
                let hint = "of an error page only the template is shown: name a page without steps";
                self.report.warning(error.page.place, message, hint);
            }
            files.push((error, file));
        }
        let mut fragments = Fragments::default();
        let mut pages = ErrorPages::default();
        let mut programs = Vec::new();
        for status in ERROR_STATUSES {
            let of = |is: Option<u16>| files.iter().find(|(error, _)| error.status == is);
            let Some((error, file)) = of(Some(status)).or(of(None)) else {
                continue;
            };
            let uses = (self.report).begin_use(How::Shows, file.path, error.page.place);
            programs.push(self.page(status, file, &mut fragments));
            self.report.end_use(uses);
            pages.statuses.push(status);
        }
        let service = Service {
            pages: programs,
            fragments: fragments.list,
            ..Service::default()
        };
        pages.service = Arc::new(service);
        (!pages.statuses.is_empty()).then_some(pages)
    }

    fn page(
        &mut self,
        status: u16,
        file: &'a PageFile<'a>,
        fragments: &mut Fragments,
    ) -> PageProgram {
        let mut parts = PageParts::default();
        let message = parts.field("message", FieldType::Scalar(Type::Text));
        let names = [
            ("status", Operand::int(status.into())),
            ("reason", Operand::text(reason(status))),
            (
                "message",
                Operand::Field {
                    field: message,
                    kind: Type::Text,
                },
            ),
        ];
        let names: BTreeMap<_, _> = (names.into_iter())
            .map(|(name, operand)| (name.to_owned(), operand))
            .collect();
        let origin = TextPlace {
            start: file.template,
            exact: true,
        };
        let mut compiler = Compiler::new(
            self.library,
            self.report,
            fragments,
            &mut parts,
            names,
            origin,
        );
        compiler.escape = file.header.escape();
        compiler.zone = self.zone.clone();
        compiler.links = Some(Links {
            pages: self.pages,
            lost: self.lost_pages,
        });
        compiler.scope.is_for_all = true;
        compiler.body_of(file);
        let stage = std::mem::replace(&mut compiler.stage, StageBuilder::new());
        drop(compiler);
        let stage = stage.finish(fragments, None, 0);
        PageProgram {
            name: status.to_string(),
            routes: Vec::new(),
            session: SessionUse::None,
            session_fields: None,
            stored: Vec::new(),
            cookies: Vec::new(),
            flash: None,
            here: None,
            now: None,
            drawn: Vec::new(),
            csrf: Csrf::default(),
            is_sign_in: false,
            gzip: true,
            content_type: file.header.content_type.clone(),
            params: Vec::new(),
            list_params: Vec::new(),
            fields: parts.fields,
            calls: Vec::new(),
            stages: vec![stage],
            texts: parts.texts.into_bytes(),
            tables: parts.tables,
            asides: Vec::new(),
        }
    }
}
