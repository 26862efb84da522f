//! Requests whose parameters come in all ways: what a page is given is what its parameters say,
//! shown it is text and no HTML, and a page that is told what is wrong sees the same of what is
//! right as one that answers 400.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_engine::cohort::LaneState;
use rhythm_engine::compile::compile;
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::{Executor, LaneLimits, Work};
use rhythm_engine::program::Service;
use rhythm_engine::source::Sources;
use rhythm_protocol::scan::Level;
use rhythm_server::Statics;
use rhythm_server::backend::kinds;
use rhythm_server::reference::ReferenceParser;
use std::sync::{Arc, LazyLock};

const PARAMS: &str = r#"
[params]
i = { in = "path", type = "int", min = 1, max = 99 }
t = { in = ["json", "form", "query"], type = "text", max_length = 5, default = "" }
n = { in = ["query", "json", "form"], type = "int", min = -5, max = 5, default = 0 }
f = { in = ["json", "form"], type = "float", min = -1, max = 1, default = 0.0 }
d = { in = ["json", "form"], type = "date", default = "" }
p = { in = ["json", "form", "cookie"], type = "path", max_length = 40, default = "/" }
e = { in = ["json", "form", "header"], type = "email", default = "" }
o = { in = ["json", "form"], type = "text", one_of = ["a", "bc"], default = "a" }
u = { in = "form", type = "file", max_bytes = 9, default = "" }
l = { in = ["json", "form", "query"], list = 3, type = "text", max_length = 2 }
r = { in = ["json", "form"], list = 2, fields = { x = { type = "int" }, y = { type = "bool" } } }
"#;
/// How each is shown.
const SHOWN: [&str; 13] = [
    "i",
    "t",
    "n",
    "f",
    "d",
    "p",
    "e",
    "o",
    "u.size",
    "u.hex",
    "l|length",
    "r|length",
    "l|join('')",
];

static SERVICE: LazyLock<Arc<Service>> = LazyLock::new(|| {
    let shown: String = SHOWN
        .iter()
        .map(|it| format!("<i>{{{{ {it} }}}}</i>"))
        .collect();
    let page = |name: &str, own: &str, more: &str| {
        let text = format!("+++\nroute = \"POST /{name}/{{i}}\"\n{own}{PARAMS}+++\n{shown}{more}");
        (format!("pages/{name}.html"), text)
    };
    let told = "<i>{% if errors %}1{% endif %}</i>";
    let mut sources = Sources::default();
    sources.files.extend([
        ("service.toml".to_owned(), String::new()),
        page("a", "", ""),
        page("b", "errors = \"values\"\n", told),
    ]);
    Arc::new(compile(&sources, &kinds()).expect("it is sound"))
});

/// What a page shows of a request, if it takes it.
fn shown(parser: &mut ReferenceParser, request: &[u8]) -> Option<Vec<String>> {
    let asked = parser.parse(request)?;
    let work = Work {
        service: Arc::clone(&SERVICE),
        page: asked.page,
        cohort: Box::new(asked.cohort),
        token: 0,
    };
    let mut executor = HostExecutor::new(LaneLimits::default(), Level::active());
    executor.submit(work).expect("it has room");
    let mut done = Vec::new();
    executor.poll(&mut done);
    let cohort = &done[0].cohort;
    assert_eq!(cohort.lanes[0], LaneState::Finished);
    let mut body = Vec::new();
    cohort.output.stitch(0, &SERVICE.fragments, &mut body);
    let body = String::from_utf8(body).expect("texts are UTF-8");
    assert_eq!(body.matches('<').count(), 2 * body.matches("<i>").count());
    let parts = body.trim_end().split("</i>");
    Some(
        parts
            .map(|it| it.trim_start_matches("<i>").to_owned())
            .collect(),
    )
}

fn check(shown: &[String]) {
    let number = |at: usize| shown[at].parse::<i64>().expect("a number");
    assert!((1..=99).contains(&number(0)) && (-5..=5).contains(&number(2)));
    let float: f64 = shown[3].parse().expect("a number");
    assert!((-1.0..=1.0).contains(&float), "{float}");
    let is_date = shown[4].len() == 10 && shown[4].bytes().filter(|it| *it == b'-').count() == 2;
    assert!(is_date || shown[4].is_empty(), "{}", shown[4]);
    let path = &shown[5];
    let is_local = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    assert!(is_local || path.is_empty(), "{path}");
    assert!(
        shown[6].is_empty() || shown[6].contains('@'),
        "{}",
        shown[6]
    );
    assert!(["a", "bc", ""].contains(&&*shown[7]), "{}", shown[7]);
    assert!(number(8) <= 9 && shown[9].len() as i64 == 2 * number(8));
    assert!(number(10) <= 3 && number(11) <= 2);
}

fuzz_target!(|input: (u8, &[u8], &[u8], &[u8])| {
    let (kind, target, fields, content) = input;
    let kind = [
        "application/x-www-form-urlencoded",
        "application/json",
        "multipart/form-data; boundary=b",
    ][usize::from(kind % 3)];
    let length = content.len();
    let head = format!("Host: h\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n");
    let ask = |page: &[u8]| {
        let line = [b"POST /", page, b"/", target, b" HTTP/1.1\r\n"].concat();
        let all = [&line, head.as_bytes(), fields, b"\r\n\r\n", content].concat();
        let parser = ReferenceParser::new(Arc::clone(&SERVICE), Statics::default());
        shown(&mut parser.expect("it can be served"), &all)
    };
    let (strict, told) = (ask(b"a"), ask(b"b"));
    for shown in strict.iter().chain(&told) {
        check(shown);
    }
    let mut right = told.filter(|shown| shown[SHOWN.len()].is_empty());
    if let Some(shown) = &mut right {
        shown.remove(SHOWN.len());
    }
    assert_eq!(strict, right);
});
