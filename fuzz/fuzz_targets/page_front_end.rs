//! Any bytes as a service: `service.toml`, a page's header and template, and a template it may use,
//! divided by NUL bytes. The compiler must answer, with programs or mistakes, within bounded time
//! and memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_engine::compile::compile;
use rhythm_engine::device::conformance;
use rhythm_engine::source::Sources;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(4, '\0');
    let mut next = || parts.next().unwrap_or_default();
    let (template, header, other, service) = (next(), next(), next(), next());
    let mut sources = Sources::default();
    let mut add = |name: &str, text: String| sources.files.insert(name.to_owned(), text);
    // Forms are looked at where a service has tokens for them.
    let csrf = match service.contains("[session]") {
        true => "",
        false => "[session]\ncsrf = true\n",
    };
    add(
        "service.toml",
        format!("{csrf}[backend.besim]\nkind = \"besim\"\n{service}"),
    );
    add(
        "pages/a.html",
        format!("+++\nroute = \"GET /a\"\n{header}\n+++\n{template}"),
    );
    add(
        "pages/b.html",
        format!(
            "+++\nroute = \"GET /b\"\n[params]\na = {{ in = \"query\", type = \"text\" }}\n\
             n = {{ in = \"query\", type = \"int\" }}\n\
             l = {{ in = \"query\", list = 3, type = \"text\" }}\n+++\n{template}"
        ),
    );
    add("templates/t", other.to_owned());
    match compile(&sources, conformance::BESIM) {
        Ok(service) => {
            for page in &service.pages {
                let _ = service.listing(page).to_string();
            }
        }
        Err(diagnostics) => {
            for diagnostic in diagnostics {
                let _ = diagnostic.to_string();
            }
        }
    }
});
