//! From sources to programs.
//!
//! In the order of the work:
//!
//! - `compiler`: its state, with `scope` and `value`; `statement`, `branch`, `looping`, `inherit`,
//!   `expression`, `operator`, `access`, `call`, `filter` and `test` walk the syntax tree;
//! - `build`, `output`: a stage: its registers, what it computes and what it writes;
//! - `assemble`, `step`, `size`, `redirect`: stages, steps and pages.

mod access;
mod assemble;
mod branch;
mod build;
mod call;
mod compiler;
mod expression;
mod filter;
mod inherit;
mod looping;
mod operator;
mod output;
mod redirect;
mod scope;
mod size;
mod statement;
mod step;
mod test;
mod value;

use crate::diagnostic::{Diagnostic, Place, Report};
use crate::kind::{BackendKind, Kinds};
use crate::program::{PageProgram, Route, Segment, Service};
use crate::source::config::ServiceFile;
use crate::source::template::Library;
use crate::source::{PageFile, Sources, config, header};
use assemble::Assembly;
use build::Fragments;
use std::collections::{BTreeMap, BTreeSet};

/// Compiles a service, whose backends are of these kinds.
///
/// # Errors
/// All mistakes, and the warnings with them, by file and position.
pub fn compile(sources: &Sources, kinds: &[BackendKind]) -> Result<Service, Vec<Diagnostic>> {
    let mut report = Report::default();
    for (path, why) in &sources.unread {
        report.error(file(path, ""), &why.message, &why.hint);
    }
    for path in &sources.others {
        report.warning(file(path, ""), "this file is not used", use_of(path));
    }
    // What pages miss in a service.toml that is not there, or no TOML, is none of their mistakes.
    let service_file = match sources.files.get("service.toml") {
        Some(text) => config::read(text, kinds, &mut report),
        None => {
            if !sources.unread.contains_key("service.toml") {
                let place = file("service.toml", "");
                report.error(place, "there is no service.toml", "an empty one will do");
            }
            ServiceFile::lost()
        }
    };

    let kinds = Kinds {
        kinds,
        backends: &service_file.backends,
        backends_lost: service_file.backends_lost,
    };
    let mut library = Library::default();
    let mut pages = Vec::new();
    let mut lost_pages = BTreeSet::new();
    for path in sources.unread.keys() {
        if let Some(name) = path.strip_prefix("templates/") {
            library.add_unread(name);
        } else if let Some(name) = path.strip_prefix("pages/") {
            lost_pages.insert(name);
        }
    }
    for (path, text) in &sources.files {
        let start = Place {
            file: path,
            text,
            offset: 0,
        };
        if let Some(name) = path.strip_prefix("templates/") {
            if text.starts_with("+++\n") || text.starts_with("+++\r\n") {
                let hint = "pages, which have one, belong into pages/";
                report.warning(
                    start,
                    "a template has no header: this is shown as text",
                    hint,
                );
            }
            library.add(name, start, &mut report);
        } else if let Some(file_name) = path.strip_prefix("pages/") {
            let Some((toml, offset)) = header::split(path, text, &mut report) else {
                lost_pages.insert(file_name);
                continue;
            };
            let template = Place { offset, ..start };
            library.add(path, template, &mut report);
            match header::read(toml, kinds, &mut report) {
                Some(header) => pages.push(PageFile {
                    path,
                    file_name,
                    header,
                    template,
                }),
                None => {
                    lost_pages.insert(file_name);
                }
            }
        }
    }
    check_routes(&pages, &mut report);

    let mut fragments = Fragments::default();
    let mut assembly = Assembly {
        library: &library,
        report: &mut report,
        fragments: &mut fragments,
        pages: &pages,
        lost_pages: &lost_pages,
        kinds,
        missing: service_file.missing.as_ref(),
        missing_lost: service_file.missing_lost,
        static_files: &sources.static_files,
        shown: BTreeSet::new(),
    };
    let routed = pages.iter().filter(|page| page.header.is_routed);
    let programs: Vec<PageProgram> = routed.map(|page| assembly.page(page)).collect();
    let shown = assembly.shown;
    let most = service_file.config.limits.response_bytes_max;
    let routed = pages.iter().filter(|page| page.header.is_routed);
    for (page, program) in routed.zip(&programs) {
        size::check_body(program, &fragments.list, most, page.template, &mut report);
    }
    // Pages that have mistakes may be the ones that show others.
    let complete = report.errors() == 0;
    for page in pages.iter().filter(|_| complete) {
        if page.header.routes.is_empty() && !shown.contains(page.path) {
            let hint = "route = \"GET /...\", or name it in the `else` of a check";
            report.warning(page.header.place, "this page is never shown", hint);
        }
    }
    if complete {
        let statics = &service_file.config.statics;
        let index = &service_file.index;
        redirect::check(&pages, index, statics, &sources.static_files, &mut report);
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
        warnings: diagnostics,
    })
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

/// No two pages answer to one method and path.
fn check_routes(pages: &[PageFile<'_>], report: &mut Report) {
    let mut known: BTreeMap<(&str, Vec<Option<&str>>), &str> = BTreeMap::new();
    for page in pages {
        for (route, place) in &page.header.routes {
            let Route { method, segments } = route;
            let shape = segments.iter().map(|segment| match segment {
                Segment::Literal(text) => Some(text.as_str()),
                Segment::Param(_) => None,
            });
            if let Some(other) = known.insert((method, shape.collect()), page.path) {
                let message = format!("{other} answers to this route already");
                report.error(*place, message, "a route belongs to one page");
            }
        }
    }
}
