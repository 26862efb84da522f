//! The documentation says what the code says: examples of pages and of service.toml are right, and
//! the tables of kinds of backends are those of their declarations.

use rhythm_besim::Bank;
use rhythm_engine::cohort::LaneError;
use rhythm_engine::compile::compile;
use rhythm_engine::settings::{Section, document};
use rhythm_engine::source::Sources;
use rhythm_server::backend::kinds;

/// The page of the documentation.
const BACKENDS: &str = include_str!("../../../docs/backends.md");

/// Around the table that a kind's section has from its declaration.
const MARKS: [&str; 2] = [
    "<!-- made from the kind's declaration -->\n",
    "<!-- end -->",
];

/// What stands below a heading of the second order.
fn section(heading: &str) -> &'static str {
    let start = format!("\n## {heading}\n");
    let Some((_, rest)) = BACKENDS.split_once(&start) else {
        panic!("docs/backends.md has no section `## {heading}`");
    };
    rest.split_once("\n## ")
        .map_or(rest, |(section, _)| section)
}

#[test]
fn the_example_of_a_backend_can_be_read_and_says_every_key() {
    let code = section("What service.toml says").lines();
    let lines: Vec<&str> = code.filter_map(|line| line.strip_prefix("    ")).collect();
    let mut sources = Sources::default();
    let toml = lines.join("\n");
    sources.files.insert("service.toml".to_owned(), toml);
    let service = compile(&sources, &kinds()).expect("the example is right");
    let [backend] = &service.backends[..] else {
        panic!("one backend, not {:?}", service.backends);
    };
    for definition in backend.pool.definitions() {
        let key = definition.key;
        let is_shown = lines.iter().any(|line| line.starts_with(key));
        assert!(is_shown, "{key} is not in the example");
    }
}

#[test]
fn every_kind_is_documented_with_its_keys() {
    for kind in kinds() {
        let section = section(kind.name);
        let keys = document::keys(kind.keys);
        let table = (section.split_once(MARKS[0]))
            .and_then(|(_, rest)| rest.split_once(MARKS[1]))
            .map_or("", |(table, _)| table);
        let [begins, ends] = MARKS;
        let name = kind.name;
        assert!(
            table.trim() == keys.trim(),
            "docs/backends.md, section {name}, must have:\n{begins}\n{keys}\n{ends}"
        );
    }
}

#[test]
fn every_reason_for_which_a_request_fails_is_documented_with_its_status() {
    let operations = include_str!("../../../docs/operations.md");
    for error in LaneError::ALL {
        let row = format!("| `{}` | {} | ", error.name(), error.status());
        assert!(operations.contains(&row), "docs/operations.md has no {row}");
    }
}

/// The first indented block of a text that begins with this line, without the indent.
fn block(text: &str, first: &str) -> String {
    let lines = text.lines().skip_while(|line| line.trim() != first);
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    let lines: Vec<&str> = lines.map(|line| line.get(4..).unwrap_or("")).collect();
    assert!(!lines.is_empty(), "an example that begins with {first}");
    lines.join("\n")
}

#[test]
fn the_pages_of_the_documentation_are_right_and_name_as_many_columns_as_are_answered() {
    let readme = include_str!("../../../README.md");
    let pages = include_str!("../../../docs/pages.md");
    let (_, language) = pages.split_once("\n## The header\n").expect("a section");
    let header = "route = \"GET /accounts\"\nsession = \"required\"\n";
    let step = block(BACKENDS, "[[step]]");
    let of_backends = format!(
        "+++\n{header}\n{step}\n+++\n{{% for a in accounts %}}{{{{ a.number + 1 }}}}\
         {{{{ a.kind }}}}{{{{ a.balance }}}}{{% endfor %}}{{{{ accounts.status }}}}"
    );
    let of_pages = format!(
        "{}\n{{{{ start }}}}{{% for c in confirmations %}}{{{{ c.text }}}}{{% endfor %}}\
         {{{{ confirmations.status }}}}",
        block(language, "+++")
    );
    let mut sources = Sources::default();
    for (name, text) in [
        (
            "service.toml",
            "[session]\nmissing.page = \"message.html\"\n\
             missing.with = { title = \"a\", message = \"b\" }\n\
             [backend.besim]\nkind = \"besim\"\n",
        ),
        ("pages/readme.html", &block(readme, "+++")),
        ("pages/backends.html", &of_backends),
        ("pages/pages.html", &of_pages),
        ("pages/message.html", "+++\n+++\n{{ title }}: {{ message }}"),
        ("templates/layout.html", "{% block content %}{% endblock %}"),
    ] {
        sources.files.insert(name.to_owned(), text.to_owned());
    }
    let service = match compile(&sources, &kinds()) {
        Ok(service) => service,
        Err(diagnostics) => panic!("an example is wrong: {diagnostics:#?}"),
    };
    assert_eq!(service.pages.len(), 3);
    let mut compared = 0;
    for text in [&block(readme, "+++"), &of_backends] {
        let value = |key: &str| {
            let line = text.lines().find(|line| line.trim().starts_with(key))?;
            line.split('"').nth(1)
        };
        let [request, rows] = ["request", "rows"].map(|key| value(key).expect("it has a call"));
        let query = request.replace("{{ session.userid }}", "17");
        let mut answer = Vec::new();
        Bank::new(Bank::USERS_DEFAULT).answer(query.as_bytes(), &mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let row = answer.strip_prefix("<pre>\n0\n").expect("it is answered");
        let row = row.lines().next().unwrap();
        assert_eq!(
            row.split('&').count(),
            rows.split(',').count(),
            "{rows}: {row}"
        );
        compared += 1;
    }
    assert_eq!(compared, 2);
}

#[test]
fn the_example_of_a_server_that_answers_json_is_right() {
    let steps = block(section("http"), "[[step]]");
    let form = ["most", "number", "name", "city"].map(|name| {
        let kind = if name == "most" { "int" } else { "text" };
        format!("{name} = {{ in = \"form\", type = \"{kind}\" }}\n")
    });
    let params = format!(
        "id = {{ in = \"path\", type = \"int\" }}\n{}",
        form.concat()
    );
    let page = format!(
        "+++\nroute = \"POST /orders/{{id}}\"\n[params]\n{params}{steps}\n+++\n\
         {{% for part in parts %}}{{{{ part.number + 1 }}}}{{{{ part.cost }}}}{{% endfor %}}\
         {{{{ made.id }}}}"
    );
    let mut sources = Sources::default();
    for (name, text) in [
        ("service.toml", "[backend.api]\nkind = \"http\"\n"),
        ("pages/orders.html", &*page),
        ("pages/no_such_item.html", "+++\n+++\nno such item"),
    ] {
        sources.files.insert(name.to_owned(), text.to_owned());
    }
    let service = compile(&sources, &kinds()).expect("the example is right");
    assert_eq!(service.pages[0].calls.len(), 2);
}
