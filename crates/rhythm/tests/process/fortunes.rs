//! services/fortunes: pages of published benchmarks, on SQLite and PostgreSQL, each in the mode in
//! which every request asks for itself and in the one in which they are joined.

use super::postgres::database::{Database, PASSWORD};
use super::server::{Answer, Client, Server};
use super::sqlite::get;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What a statement answers: one text.
type Look<'l> = dyn Fn(&str) -> String + 'l;

/// All that are sent together are one cohort.
const TOGETHER: [&str; 4] = ["--cohort-policy", "fixed", "--cohort-delay", "20ms"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services/fortunes")
}

fn ok(server: &Server, path: &str) -> String {
    let (status, body) = get(server, path);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// Key and number of a row, of which nothing else is told.
fn row(value: &Value) -> (i64, i64) {
    let number = |name: &str| value[name].as_i64().expect("a number");
    assert_eq!(value.as_object().map(|row| row.len()), Some(2), "{value}");
    let (id, number) = (number("id"), number("randomNumber"));
    assert!((1..=10_000).contains(&id) && (1..=10_000).contains(&number));
    (id, number)
}

fn rows(text: &str) -> Vec<(i64, i64)> {
    let value = json(text);
    value.as_array().expect("a list").iter().map(row).collect()
}

/// What the database has under these keys is what was shown.
fn same(look: &Look<'_>, shown: &[(i64, i64)]) {
    let (mut ids, mut sum) = (BTreeSet::new(), 0);
    for (id, number) in shown {
        if ids.insert(id) {
            sum += id * number;
        }
    }
    let ids: Vec<String> = ids.iter().map(|id| id.to_string()).collect();
    let ids = ids.join(", ");
    let asked =
        format!("select cast(sum(id * randomnumber) as bigint) from world where id in ({ids})");
    assert_eq!(look(&asked), sum.to_string(), "{shown:?}");
}

/// The page of a table's messages, made of what the database has.
fn table(look: &Look<'_>, of: &str) -> String {
    let mut all = vec![(0, "Additional fortune added at request time.".to_owned())];
    let count: i64 = look(&format!("select count(*) from {of}")).parse().unwrap();
    for id in 1..=count {
        all.push((
            id,
            look(&format!("select message from {of} where id = {id}")),
        ));
    }
    all.sort_by(|a, b| a.1.cmp(&b.1));
    let mut page = "<!DOCTYPE html>\n<html>\n<head><title>Fortunes</title></head>\n<body>\n\
                    <table>\n<tr><th>id</th><th>message</th></tr>\n"
        .to_owned();
    for (id, message) in all {
        let mut escaped = String::new();
        for letter in message.chars() {
            match letter {
                '&' => escaped.push_str("&amp;"),
                '<' => escaped.push_str("&lt;"),
                '>' => escaped.push_str("&gt;"),
                '"' => escaped.push_str("&quot;"),
                '\'' => escaped.push_str("&#x27;"),
                '/' => escaped.push_str("&#x2f;"),
                letter => escaped.push(letter),
            }
        }
        page += &format!("<tr><td>{id}</td><td>{escaped}</td></tr>\n");
    }
    page + "</table>\n</body>\n</html>"
}

/// So many requests at once, each answered well.
fn together(client: &mut Client, path: &str, count: usize) -> Vec<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.send(&request.repeat(count)).expect("it listens");
    let body = |_| {
        let Answer { status, body, .. } = client.answer().expect("an answer");
        assert_eq!(status, 200, "{path}: {body}");
        body
    };
    (0..count).map(body).collect()
}

/// A count of the database's, of all requests so far.
fn counted(server: &Server, name: &str) -> u64 {
    let (_, figures) = server.ask_admin("/metrics");
    let of = format!("rhythm_backend_{name}_total{{backend=\"data\"}} ");
    let count = figures.lines().find_map(|line| line.strip_prefix(&of));
    count.expect("it is counted").parse().expect("a number")
}

fn walk(server: &Server, look: &Look<'_>, merges: bool) {
    assert_eq!(ok(server, "/plaintext"), "Hello, World!");
    let hello = serde_json::json!({ "message": "Hello, World!" });
    assert_eq!(json(&ok(server, "/json")), hello);
    let pages = [("fortunes", "fortune"), ("fortunes-200", "long_fortune")];
    let tables = pages.map(|(_, of)| table(look, of));
    assert!(tables[0].contains("&lt;script&gt;") && tables[1].len() > 20_000);
    for mode in ["", "/joined"] {
        let is_joined = !mode.is_empty();
        for ((page, _), table) in pages.iter().zip(&tables) {
            assert_eq!(ok(server, &format!("{mode}/{page}")), *table);
        }
        same(look, &[row(&json(&ok(server, &format!("{mode}/db"))))]);
        for (n, count) in [
            ("", 1),
            ("?n=", 1),
            ("?n=x", 1),
            ("?n=0", 1),
            ("?n=-3", 1),
            ("?n=20", 20),
            ("?n=500", 500),
            ("?n=501", 500),
            ("?n=99999999999999999999", 1),
        ] {
            let shown = rows(&ok(server, &format!("{mode}/queries{n}")));
            assert_eq!(shown.len(), count, "{n}");
            let ids: BTreeSet<i64> = shown.iter().map(|(id, _)| *id).collect();
            assert!(ids.len() >= count * 4 / 5, "{ids:?}");
            same(look, &shown);
        }
        let before = look("select cast(sum(randomnumber) as bigint) from world");
        for (n, count) in [("?n=30", 30), ("?n=y", 1)] {
            let shown = rows(&ok(server, &format!("{mode}/updates{n}")));
            assert_eq!(shown.len(), count);
            same(look, &shown);
        }
        let after = look("select cast(sum(randomnumber) as bigint) from world");
        assert_ne!(before, after);

        // Together, each has its own, and nothing is joined but where the path says so.
        let mut client = server.client();
        let shared = counted(server, "shared");
        for page in together(&mut client, &format!("{mode}/fortunes"), 50) {
            assert_eq!(page, tables[0]);
        }
        assert_eq!(counted(server, "shared") > shared, is_joined, "{mode}");
        let merged = counted(server, "merged");
        let shown: Vec<_> = (together(&mut client, &format!("{mode}/db"), 50).iter())
            .map(|text| row(&json(text)))
            .collect();
        same(look, &shown);
        for shown in together(&mut client, &format!("{mode}/queries?n=7"), 20) {
            same(look, &rows(&shown));
        }
        assert_eq!(counted(server, "merged") > merged, is_joined && merges);
    }
}

#[test]
fn the_tests_of_benchmarks_on_sqlite() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fortunes.db");
    // What an earlier run has left.
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{end}", path.display()));
    }
    let file = format!("data.file={}", path.display());
    let flags = [&["--backend", &file][..], &TOGETHER].concat();
    let server = Server::start(&folder(), &flags);
    let database = rusqlite::Connection::open(&path).expect("a database");
    let look = |statement: &str| {
        let value =
            database.query_row(statement, [], |row| row.get::<_, rusqlite::types::Value>(0));
        match value.unwrap_or_else(|why| panic!("{statement}: {why}")) {
            rusqlite::types::Value::Integer(value) => value.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => panic!("{statement}: {other:?}"),
        }
    };
    walk(&server, &look, false);
}

#[test]
fn the_tests_of_benchmarks_on_postgres() {
    let database = Database::start("fortunes", &[]);
    for file in ["schema.sql", "population.sql"] {
        database.carry_out(&fs::read_to_string(folder().join(file)).expect("it is there"));
    }
    let password = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fortunes.password");
    fs::write(&password, PASSWORD).expect("a file can be written");
    let [url, password] = [
        format!("data={}", database.url()),
        format!("data.password_file={}", password.display()),
    ];
    let flags = [&["--backend", &url, "--backend", &password][..], &TOGETHER].concat();
    let server = Server::start(&folder(), &flags);
    let look = |statement: &str| {
        database
            .ask(statement)
            .unwrap_or_else(|| panic!("{statement}"))
    };
    walk(&server, &look, true);
}
