//! docs/backends.md says what the code says: its service.toml can be read, and the tables of kinds
//! are those of their declarations.

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
    let (_, rest) = BACKENDS.split_once(&start).expect("the heading is there");
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
        let (_, rest) = section.split_once(MARKS[0]).expect("its table begins");
        let (table, _) = rest.split_once(MARKS[1]).expect("its table ends");
        let keys = document::keys(kind.keys);
        assert_eq!(table.trim(), keys.trim(), "docs/backends.md: {}", kind.name);
    }
}
