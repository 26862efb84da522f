//! From sources to programs.
//!
//! In the order of the work:
//!
//! - `compiler`: its state, with `scope` and `value`; `statement`, `branch`, `looping`, `turns`,
//!   `namespace`, `inherit`, `expression`, `operator`, `access`, `items`, `call`, `filter`,
//!   `default`, `choose`, `parts`, `map`, `method`, `link`, `reduce`, `test` and `json` walk the
//!   syntax tree;
//! - `build`, `output`: a stage: its registers, what it computes and what it writes;
//! - `assemble`, `step`, `query` (with `sql`, `sql_call` and `http_call`), `size`: stages, steps
//!   and pages; `error_pages`: what is shown where no page is; `forms`: what in forms is missing;
//!   `context`: where in HTML outputs stand; `routes`, `redirect` and `lead`: pages together;
//!   `shared_sessions`: pages on several machines.

mod access;
mod argument;
mod assemble;
mod branch;
mod build;
mod call;
mod choose;
mod compiler;
mod context;
mod default;
mod error_pages;
mod expression;
mod filter;
mod format;
mod forms;
mod group;
mod http_call;
mod inherit;
mod items;
mod json;
mod lead;
mod link;
mod looping;
mod map;
mod method;
mod namespace;
mod operator;
mod output;
mod params;
mod parts;
mod printed;
mod query;
mod redirect;
mod reduce;
mod routes;
mod scope;
mod shared_sessions;
mod size;
mod sql;
mod sql_call;
mod statement;
mod step;
mod test;
mod turns;
mod value;

use crate::diagnostic::{Diagnostic, Place, Report};
use crate::kind::{BackendKind, Kinds};
use crate::program::{PageProgram, ParamType, Service};
use crate::source::config::ServiceFile;
use crate::source::declaration::{Instead, ParamKind};
use crate::source::template::Library;
use crate::source::{PageFile, Sources, config, header};
use crate::zone;
use assemble::Assembly;
use build::Fragments;
use error_pages::ErrorAssembly;
pub use size::Size;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Compiles a service, whose backends are of these kinds.
///
/// # Errors
/// All mistakes, and the warnings with them, by file and position.
pub fn compile(sources: &Sources, kinds: &[BackendKind]) -> Result<Service, Vec<Diagnostic>> {
    compile_within(sources, kinds, Size::ANY, &mut |_, _| ())
}

/// As [`compile`], a service that comes to no more than `most`: the page with which it does is a
/// mistake, and the last that is compiled. `step` is told how many pages are compiled, and of how
/// many: before the first, and behind each.
///
/// # Errors
/// As those of [`compile`].
pub fn compile_within(
    sources: &Sources,
    kinds: &[BackendKind],
    most: Size,
    step: &mut dyn FnMut(usize, usize),
) -> Result<Service, Vec<Diagnostic>> {
    let mut report = Report::default();
    report_files(sources, &mut report);
    let mut service_file = read_service_file(sources, kinds, &mut report);
    for backend in &mut service_file.backends {
        if let Some(other) = sources.backends.get(&backend.name) {
            *backend = other.clone();
        }
    }
    check_backends(&mut service_file, kinds, &mut report);
    let kinds = Kinds {
        kinds,
        backends: &service_file.backends,
        backends_lost: service_file.backends_lost,
    };
    let store = shared_sessions::store(&service_file, kinds, &mut report);
    let files = PageFiles::read(sources, kinds, &mut report);
    let pages = &files.pages;
    routes::check(pages, &mut report);
    routes::check_proxies(&service_file.proxies, &mut report);
    routes::check_falls_through(pages, &service_file.proxies, &mut report);

    let zone = zone::table(&service_file.config.service.time_zone);
    let zone: Rc<str> = zone.unwrap_or_default().into();
    let mut fragments = Fragments::default();
    let mut assembly = Assembly {
        library: &files.library,
        report: &mut report,
        fragments: &mut fragments,
        pages,
        lost_pages: &files.lost,
        kinds,
        missing: service_file.missing.as_ref(),
        missing_lost: service_file.missing_lost,
        static_files: &sources.static_files,
        zone: zone.clone(),
        session: &service_file.config.session,
        store: store.as_ref(),
        stored: service_file.config.session.stored().into(),
        stored_lost: service_file.fields_lost,
        shown: BTreeSet::new(),
        leads: Vec::new(),
        size: Size::default(),
    };
    let routed = || pages.iter().filter(|page| page.header.is_routed);
    let count = routed().count();
    let mut programs: Vec<PageProgram> = Vec::new();
    step(0, count);
    for page in routed() {
        programs.push(assembly.page(page));
        step(programs.len(), count);
        let mut size = assembly.size;
        size.text_bytes += assembly.fragments.bytes;
        if !size.is_within(most) {
            let message = "with this page the service is larger than any that is taken";
            let hint = format!("at most {most:?}");
            assembly.report.error(page.header.place, message, hint);
            break;
        }
    }
    assembly.check_missing();
    let leads = std::mem::take(&mut assembly.leads);
    let mut shown = assembly.shown;
    let mut errors = ErrorAssembly {
        library: &files.library,
        report: &mut report,
        pages,
        lost_pages: &files.lost,
        zone,
        shown: &mut shown,
    };
    let error_pages = errors.pages(&service_file.errors);
    let most = service_file.config.limits.response_bytes_max;
    for (page, program) in routed().zip(&programs) {
        size::check_body(program, &fragments.list, most, page.template, &mut report);
    }
    // Pages that have mistakes may be the ones that show others, or that a redirect leads to.
    if report.errors() == 0 {
        let body_max = service_file.config.limits.body_bytes_max;
        warn_of_large_files(pages, body_max, &mut report);
        warn_of_unshown(&files, &shown, service_file.missing.as_ref(), &mut report);
        warn_of_unchecked(pages, &programs, &mut report);
        let (index, statics) = (&service_file.index, &service_file.config.statics);
        let static_files = &sources.static_files;
        routes::warn_of_hidden(pages, index, statics, static_files, &mut report);
        let proxies = &service_file.proxies;
        routes::warn_of_unasked(pages, proxies, statics, static_files, &mut report);
        let answered = lead::Answered {
            pages,
            proxies,
            statics,
            static_files,
        };
        redirect::check(&answered, service_file.missing.as_ref(), index, &mut report);
        lead::check(&answered, &leads, &mut report);
    }
    let failed = report.errors() > 0;
    let diagnostics = report.into_sorted();
    if failed {
        return Err(diagnostics);
    }
    Ok(Service {
        pages: programs,
        fragments: fragments.list,
        config: service_file.config,
        backends: service_file.backends,
        proxies: (service_file.proxies.into_iter())
            .map(|proxy| proxy.config)
            .collect(),
        session_store: store,
        secret: service_file.secret,
        error_pages,
        warnings: diagnostics,
    })
}

/// Tells of files that cannot be read, or are not.
fn report_files(sources: &Sources, report: &mut Report) {
    for (path, why) in &sources.unread {
        report.error(file(path, ""), &why.message, &why.hint);
    }
    for path in &sources.others {
        report.warning(file(path, ""), "this file is not used", use_of(path));
    }
}

/// Reads service.toml. What pages miss in one that is not there, or no TOML, is none of their
/// mistakes.
fn read_service_file<'a>(
    sources: &'a Sources,
    kinds: &[BackendKind],
    report: &mut Report,
) -> ServiceFile<'a> {
    match sources.files.get("service.toml") {
        Some(text) => config::read(text, kinds, sources.at(), report),
        None => {
            if !sources.unread.contains_key("service.toml") {
                let place = file("service.toml", "");
                report.error(place, "there is no service.toml", "an empty one will do");
            }
            ServiceFile::lost()
        }
    }
}

/// Tells what is wrong with backends themselves, once, and not of each call that cannot be tried.
fn check_backends(service: &mut ServiceFile<'_>, kinds: &[BackendKind], report: &mut Report) {
    for (backend, place) in service.backends.iter_mut().zip(&service.backend_places) {
        let kind = kinds.iter().find(|kind| kind.name == backend.kind);
        let Some(mistake) = kind.and_then(|kind| (kind.check_backend)(backend)) else {
            continue;
        };
        let place = match &mistake.within {
            Some(within) => Place {
                offset: within.offset,
                ..file(&within.file, &within.text)
            },
            None => place.of(mistake.key),
        };
        report.error(place, mistake.message, mistake.hint);
        // As where its table is mistaken.
        backend.kind = "";
    }
}

/// The files of `pages/` and `templates/`, parsed but not yet compiled.
#[derive(Default)]
struct PageFiles<'a> {
    library: Library<'a>,
    pages: Vec<PageFile<'a>>,
    /// Page files whose headers could not be read, which is reported.
    lost: BTreeSet<&'a str>,
}

impl<'a> PageFiles<'a> {
    fn read(sources: &'a Sources, kinds: Kinds<'_>, report: &mut Report) -> PageFiles<'a> {
        let mut files = PageFiles::default();
        for path in sources.unread.keys() {
            if let Some(name) = path.strip_prefix("templates/") {
                files.library.add_unread(name);
            } else if let Some(name) = path.strip_prefix("pages/") {
                files.lost.insert(name);
            }
        }
        for (path, text) in &sources.files {
            let start = file(path, text);
            if let Some(name) = path.strip_prefix("templates/") {
                files.add_template(name, start, report);
            } else if let Some(name) = path.strip_prefix("pages/") {
                files.add_page(path, name, start, kinds, report);
            }
        }
        files
    }

    fn add_template(&mut self, name: &'a str, start: Place<'a>, report: &mut Report) {
        if start.text.starts_with("+++\n") || start.text.starts_with("+++\r\n") {
            let message = "a template has no header: this is shown as text";
            report.warning(start, message, "pages, which have one, belong into pages/");
        }
        self.library.add(name, start, report);
    }

    fn add_page(
        &mut self,
        path: &'a str,
        file_name: &'a str,
        start: Place<'a>,
        kinds: Kinds<'_>,
        report: &mut Report,
    ) {
        let Some((toml, offset)) = header::split(path, start.text, report) else {
            self.lost.insert(file_name);
            return;
        };
        let template = Place { offset, ..start };
        self.library.add(path, template, report);
        match header::read(toml, kinds, report) {
            Some(header) => self.pages.push(PageFile {
                path,
                file_name,
                header,
                template,
            }),
            None => drop(self.lost.insert(file_name)),
        }
    }
}

/// Warns of pages that are the answer to nothing.
fn warn_of_unshown(
    files: &PageFiles<'_>,
    shown: &BTreeSet<&str>,
    missing: Option<&Instead<'_>>,
    report: &mut Report,
) {
    for page in &files.pages {
        if !page.header.routes.is_empty() || shown.contains(page.path) {
            continue;
        }
        let of_missing =
            (missing.and_then(Instead::page)).is_some_and(|of| of.value == page.file_name);
        let hint = match of_missing {
            true => "it is `missing` of [session], and no page says session = \"required\"",
            false => "route = \"GET /...\", or name it in the `else` of a check",
        };
        report.warning(page.header.place, "this page is never shown", hint);
    }
}

/// Warns of files that may be larger than what a request may have.
fn warn_of_large_files(pages: &[PageFile<'_>], body_max: u32, report: &mut Report) {
    for param in pages.iter().flat_map(|page| &page.header.params) {
        if let ParamKind::Scalar {
            kind: ParamType::File { max_bytes },
            ..
        } = param.kind
            && max_bytes > body_max
        {
            let name = &param.name;
            let message = format!(
                "`{}` may have {max_bytes} bytes, and all of a request has {body_max} at most: \
                 more answers 413",
                name.value
            );
            // Names, and what else is in the form.
            let enough = max_bytes.saturating_add(65_536);
            let hint = format!(
                "in service.toml: [limits], and below it body_bytes_max = {enough}; or a smaller \
                 max_bytes"
            );
            report.warning(name.place, message, hint);
        }
    }
}

/// Warns of a page that shows a CSRF token where no page asks for one.
fn warn_of_unchecked(pages: &[PageFile<'_>], programs: &[PageProgram], report: &mut Report) {
    let routed = pages.iter().filter(|page| page.header.is_routed);
    let shows = |(_, program): &(_, &PageProgram)| program.csrf.token.is_some();
    if !programs.iter().any(|program| program.csrf.is_checked)
        && let Some((page, _)) = routed.zip(programs).find(shows)
    {
        let message = "this page shows a CSRF token, and no page asks for one";
        let hint = "in service.toml: [session], and below it csrf = true";
        report.warning(page.header.place, message, hint);
    }
}

/// The beginning of a file.
fn file<'a>(name: &'a str, text: &'a str) -> Place<'a> {
    Place {
        file: name,
        text,
        offset: 0,
    }
}

/// What could be done with a file that is neither a page nor a template.
fn use_of(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    match ending {
        "htm" | "jinja" | "jinja2" | "j2" | "tmpl" | "tpl" | "HTML" | "" => {
            format!("pages and templates end in .html: call it {stem}.html")
        }
        _ => "pages and templates end in .html; files to be served as they are lie in static/"
            .to_owned(),
    }
}
