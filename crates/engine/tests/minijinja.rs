//! Every filter, test and function that MiniJinja and its contrib crate document: what comes of it
//! is the same here, is refused, or is another thing for a reason.
//!
//! `minijinja.txt` has lines of the language, and below each what comes of it: `same`, `refused`
//! with the first mistake that is told, or `differs` with the reason. `UPDATE_CASES=1` writes it
//! anew; the reasons stay.

mod page_common;

use minijinja::Environment;
use page_common::compare;
use rhythm_engine::compile::compile;
use rhythm_engine::device::conformance;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::source::Sources;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// What the lines may name.
const HEADER: &str = "\
+++
route = \"POST /line\"
[params]
t = { in = \"query\", type = \"text\" }
u = { in = \"query\", type = \"text\" }
n = { in = \"query\", type = \"int\" }
[params.numbers]
in = \"form\"
list = 9
type = \"int\"
[params.texts]
in = \"form\"
list = 9
type = \"text\"
[params.rows]
in = \"form\"
list = 9
fields = { name = { type = \"text\" }, count = { type = \"int\" } }
+++
";

const FILTERS: &str = "\
    abs attr batch bool capitalize chain count d default dictsort e escape first float format \
    groupby indent int items join last length lines list lower map max min pprint reject \
    rejectattr replace reverse round safe select selectattr slice sort split string sum title \
    trim unique upper urlencode zip";
const TESTS: &str = "\
    boolean defined divisibleby endingwith eq equalto escaped even false filter float ge \
    greaterthan gt in int integer iterable le lessthan lower lt mapping ne none number odd safe \
    sameas sequence startingwith string test true undefined upper";
/// Its functions, what its features and the contrib crate have: they say nothing of themselves.
const OTHERS: &str = "\
    range dict debug namespace now randrange lipsum cycler joiner pluralize filesizeformat tojson \
    truncate striptags wordcount wordwrap datetimeformat timeformat dateformat random";

/// What comes of a line.
fn outcome(line: &str) -> Result<&'static str, Outcome> {
    let files = [
        ("service.toml".to_owned(), String::new()),
        ("pages/line.html".to_owned(), format!("{HEADER}{line}")),
    ];
    let sources = Sources {
        files: files.into(),
        ..Sources::default()
    };
    let service = compile(&sources, conformance::BESIM)
        .map_err(|mistakes| Outcome::Refused(mistakes[0].message.clone()))?;
    let service = Arc::new(service);
    let mut equal = 0;
    for seed in 0..5 {
        let executor = &mut ScalarExecutor::default();
        let compared = compare(executor, &sources, &service, 0, 20, seed);
        equal += compared.map_err(Outcome::Differs)?.equal;
    }
    Ok(match equal {
        0 => "  same: it fails",
        _ => "  same",
    })
}

enum Outcome {
    Refused(String),
    Differs(String),
}

#[test]
fn what_minijinja_documents_is_the_same_or_refused_or_listed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/minijinja.txt");
    let text = std::fs::read_to_string(&path).expect("the list is there");
    let mut found = String::new();
    let mut differences = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        writeln!(found, "{line}").expect("texts take all");
        if line.is_empty() || line.starts_with("# ") {
            continue;
        }
        let said = lines.next_if(|next| next.starts_with("  "));
        let reason = said.and_then(|said| said.strip_prefix("  differs: "));
        let comes = match (outcome(line), reason) {
            (Ok(same), _) => same.to_owned(),
            (Err(Outcome::Refused(message)), _) => format!("  refused: {message}"),
            (Err(Outcome::Differs(_)), Some(reason)) => format!("  differs: {reason}"),
            (Err(Outcome::Differs(why)), None) => {
                differences += &format!("{line}: {why}\n");
                "  differs: nobody knows why".to_owned()
            }
        };
        writeln!(found, "{comes}").expect("texts take all");
    }
    assert_eq!(differences, "", "these have no reason");
    if std::env::var_os("UPDATE_CASES").is_some() {
        return std::fs::write(&path, &found).expect("it can be written");
    }
    for (found, said) in found.lines().zip(text.lines()) {
        assert_eq!(found, said, "this is not as it is written");
    }
    assert_eq!(found, text, "something is not as it is written");
    every_name_is_tried(&text);
}

/// MiniJinja has each, and some line uses it.
fn every_name_is_tried(text: &str) {
    let environment = Environment::new();
    let has = |name: &str| {
        text.split(|c: char| !c.is_alphanumeric())
            .any(|it| it == name)
    };
    for (kind, names) in [("filter", FILTERS), ("test", TESTS), ("", OTHERS)] {
        for name in names.split_whitespace() {
            assert!(has(name), "`{name}` is not tried");
            if !kind.is_empty() {
                let known = format!("{{{{ \"{name}\" is {kind} }}}}");
                let known = environment.render_str(&known, ()).expect("it is rendered");
                assert_eq!(known, "True", "MiniJinja has no {kind} `{name}`");
            }
        }
    }
}
