//! Pages: from page files to programs.
//!
//! `service.toml` and the page files of a folder become a [`Service`]: one [`program::PageProgram`]
//! a page, the fragments they share and the configuration that comes with them. In the order of the
//! work:
//!
//! - `keys`, `config`, `header`, `param`, `step`: TOML, with the place of each mistake;
//! - `template`: MiniJinja's parser;
//! - `compiler`: its state, with `scope` and `value`; `statement`, `branch`, `inherit`,
//!   `expression`, `operator`, `access` and `filter` walk the syntax tree;
//! - `build`: registers, blocks and fragments of a stage;
//! - `assemble`, `answer`: stages, steps and pages;
//! - [`mod@print`]: programs, to be read.

mod access;
mod answer;
mod assemble;
mod branch;
mod build;
mod compiler;
mod config;
mod diagnostic;
mod expression;
mod filter;
mod header;
mod inherit;
mod keys;
mod operator;
mod param;
pub mod print;
pub mod program;
#[cfg(any(test, feature = "reference"))]
pub mod reference;
mod scope;
mod statement;
mod step;
mod template;
mod value;

pub use config::{
    BackendConfig, BackendKind, CohortConfig, CohortPolicy, Limits, ServiceConfig, SessionConfig,
};
pub use diagnostic::{Diagnostic, Severity};

use assemble::{Assembly, PageFile};
use build::Fragments;
use diagnostic::{Place, Report};
use program::{PageProgram, Route, Segment};
use std::collections::{BTreeMap, BTreeSet};
use template::Library;

/// The files of a service, by their paths within its folder.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Texts: `service.toml`, `pages/*.html`, `templates/*.html`.
    pub files: BTreeMap<String, String>,
    /// Paths of static files, relative to `static/`.
    pub static_files: BTreeSet<String>,
}

/// A compiled service.
#[derive(Debug, Default)]
pub struct Service {
    /// Its pages. Else pages are not here: they are part of the pages that show them.
    pub pages: Vec<PageProgram>,
    /// Static texts, the same bytes for all lanes; equal ones are stored once.
    pub fragments: Vec<Box<[u8]>>,
    /// What service.toml says.
    pub config: ServiceConfig,
    /// The backends that calls name by index.
    pub backends: Vec<BackendConfig>,
    /// What is probably not meant, but does no harm.
    pub warnings: Vec<Diagnostic>,
}

/// Compiles a service.
///
/// # Errors
/// All mistakes, and the warnings with them, by file and position.
pub fn compile(sources: &Sources) -> Result<Service, Vec<Diagnostic>> {
    let mut report = Report::default();
    let file = |name: &'static str, text| Place {
        file: name,
        text,
        offset: 0,
    };
    let service_file = match sources.files.get("service.toml") {
        Some(text) => config::read(text, &mut report),
        None => {
            report.error(
                file("service.toml", ""),
                "there is no service.toml",
                "an empty one will do",
            );
            config::read("", &mut report)
        }
    };

    let mut library = Library::default();
    let mut pages = Vec::new();
    for (path, text) in &sources.files {
        let start = Place {
            file: path,
            text,
            offset: 0,
        };
        if let Some(name) = path.strip_prefix("templates/") {
            library.add(name, start, &mut report);
        } else if let Some(file_name) = path.strip_prefix("pages/") {
            let Some((toml, offset)) = header::split(path, text, &mut report) else {
                continue;
            };
            let template = Place { offset, ..start };
            library.add(path, template, &mut report);
            if let Some(header) = header::read(toml, &mut report) {
                pages.push(PageFile {
                    path,
                    file_name,
                    header,
                    template,
                });
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
        backends: &service_file.backends,
        missing: service_file.missing.as_ref(),
        static_files: &sources.static_files,
        shown: BTreeSet::new(),
    };
    let routed = pages.iter().filter(|page| !page.header.routes.is_empty());
    let programs: Vec<PageProgram> = routed.map(|page| assembly.page(page)).collect();
    let shown = assembly.shown;
    for page in &pages {
        if page.header.routes.is_empty() && !shown.contains(page.path) {
            let hint = "route = \"GET /...\", or name it in the `else` of a check";
            report.warning(page.header.place, "this page is never shown", hint);
        }
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
