//! A site on a database, services/notes: what is written is there, whatever ends the server or
//! stands in the database's way.

use super::server::{Client, Server};
use super::site::check;
use super::transactions;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// A copy of services/notes, in a folder of the test's own, with other lines for its backend. Its
/// forms need no tokens, since most tests are of the database.
pub(crate) fn notes(test: &str, settings: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    // What an earlier run has left.
    let _ = fs::remove_dir_all(&folder);
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services/notes");
    for part in ["", "pages", "templates", "static"] {
        fs::create_dir_all(folder.join(part)).expect("a folder can be made");
        for entry in fs::read_dir(from.join(part)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name");
            if path.is_file() && !name.to_string_lossy().contains(".db") {
                fs::copy(&path, folder.join(part).join(name)).expect("a file can be written");
            }
        }
    }
    let service = folder.join("service.toml");
    let text = fs::read_to_string(&service).expect("a text");
    let (before, table) = text.split_once("kind   =").expect("a backend's table");
    let before = before.replace("csrf = true", "csrf = false");
    fs::write(service, format!("{before}{settings}kind   ={table}")).expect("a file");
    folder
}

pub(crate) fn get(server: &Server, path: &str) -> (u16, String) {
    let answer = server.client().ask("GET", path, "").expect("an answer");
    (answer.status, answer.body)
}

pub(crate) fn post(client: &mut Client, path: &str, form: &str) -> std::io::Result<u16> {
    client.ask("POST", path, form).map(|answer| answer.status)
}

/// A connection of another program to a folder's database.
fn database(folder: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(folder.join("notes.db")).expect("a database");
    connection
        .busy_timeout(Duration::from_secs(30))
        .expect("a duration");
    connection
}

#[test]
fn what_is_typed_is_a_value_and_what_breaks_a_rule_changes_nothing() {
    let folder = notes("notes_pages", "");
    let lacks = "+++\nroute = \"GET /lacks\"\n[[step]]\ncall = \"board\"\n\
                 exec = \"insert into topic (name) values (null)\"\n\
                 row = \"a(changed:int)\"\n+++\n{{ a.status }}";
    fs::write(folder.join("pages/lacks.html"), lacks).expect("a file can be written");
    let server = Server::start(&folder, &[]);
    let (status, page) = get(&server, "/");
    assert_eq!(status, 200);
    assert!(
        page.contains("<a href=\"/topics/3\">Neighbors</a>"),
        "{page}"
    );
    let mut client = server.client();
    // Percent-encoded: quotes, colons, question marks, a comment, a second statement.
    let text = "'%3B+drop+table+note%3B+--+:id+%3F1+%2F*+%22x%22+%C3%A9";
    let form = format!("author=%3Cb%3E&text={text}");
    assert_eq!(post(&mut client, "/topics/2", &form).unwrap(), 303);
    let (_, page) = get(&server, "/topics/2");
    let shown = "&#x27;; drop table note; -- :id ?1 &#x2f;* &quot;x&quot; \u{e9}";
    assert!(page.contains(shown) && page.contains("&lt;b&gt;"), "{page}");
    let row = |sql: &str| database(&folder).query_row(sql, [], |row| row.get::<_, String>(0));
    assert_eq!(
        row("select text from note where topic = 2 order by id desc").unwrap(),
        "'; drop table note; -- :id ?1 /* \"x\" \u{e9}"
    );
    // No such topic, no such note, and nothing of either.
    assert_eq!(
        post(&mut client, "/topics/99", "author=a&text=b").unwrap(),
        404
    );
    assert_eq!(post(&mut client, "/notes/99/like", "topic=1").unwrap(), 404);
    assert_eq!(row("select '' || count(*) from note").unwrap(), "3");
    for _ in 0..3 {
        assert_eq!(post(&mut client, "/notes/1/like", "topic=1").unwrap(), 303);
    }
    assert!(get(&server, "/topics/1").1.contains("Like (3)"));
    // Of rules that are broken the log tells but of this one, which no user breaks.
    assert_eq!(get(&server, "/lacks"), (200, "1".to_owned()));
    let said = server.said("a statement failed")["fields"].to_string();
    assert!(
        said.contains("NOT NULL") && said.contains("topic.name"),
        "{said}"
    );
}

#[test]
fn forms_are_taken_from_their_own_pages_alone() {
    let folder = notes("notes_csrf", "");
    let service = folder.join("service.toml");
    let text = fs::read_to_string(&service).expect("a text");
    fs::write(&service, text.replace("csrf = false", "csrf = true")).expect("a file");
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    let notes = || {
        let sql = "select count(*) from note where author = 'a'";
        let count = database(&folder).query_row(sql, [], |row| row.get::<_, i64>(0));
        count.expect("a table")
    };
    let mut send = |headers: &str, form: &str| {
        let length = form.len();
        let request = format!(
            "POST /topics/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n{headers}\r\n{form}"
        );
        client.send(&request).expect("it listens");
        client.answer().expect("an answer")
    };
    let refused = send("", "author=a&text=b");
    assert_eq!(refused.status, 403);
    assert!(
        refused.body.contains("form is out of date"),
        "{}",
        refused.body
    );
    assert_eq!(notes(), 0);
    let page = server
        .client()
        .ask("GET", "/topics/1", "")
        .expect("an answer");
    let cookie = page.cookies.first().expect("who has none is given one");
    let part = |text: &str| {
        let (_, rest) = page.body.split_once(text).expect("a form");
        rest.split_once('"').expect("a value").0.to_owned()
    };
    let token = part("name=\"csrf_token\" value=\"");
    let cookie = format!("Cookie: {cookie}\r\n");
    let form = format!("author=a&csrf_token={token}&text=b");
    assert_eq!(send("", &form).status, 403, "the token without its cookie");
    assert_eq!(send(&cookie, "author=a&text=b").status, 403);
    // A form that is shown again has one, too.
    let again = send(&cookie, &format!("author=&text=b&csrf_token={token}"));
    assert_eq!(again.status, 422);
    assert!(again.body.contains("name=\"csrf_token\""), "{}", again.body);
    assert_eq!(notes(), 0);
    assert_eq!(send(&cookie, &form).status, 303);
    assert_eq!(notes(), 1);
}

#[test]
fn what_was_answered_is_there_after_a_kill() {
    let folder = notes("notes_kill", "");
    let written = Mutex::new(BTreeSet::new());
    for round in 0..3 {
        let server = Server::start(&folder, &[]);
        thread::scope(|scope| {
            for index in 0..24 {
                let (server, written) = (&server, &written);
                scope.spawn(move || {
                    let mut client = server.client();
                    for turn in 0.. {
                        let name = format!("{round}-{index}-{turn}");
                        match post(&mut client, "/topics/1", &format!("author={name}&text=t")) {
                            Ok(303) => assert!(written.lock().unwrap().insert(name)),
                            Ok(status) => panic!("{status}"),
                            Err(_) => return,
                        }
                    }
                });
            }
            let enough = 300 * (round + 1);
            let start = Instant::now();
            while written.lock().unwrap().len() < enough {
                assert!(start.elapsed() < super::NEVER, "too few are answered");
                thread::sleep(Duration::from_millis(1));
            }
            server.signal(Signal::KILL);
        });
        drop(server);
        let database = database(&folder);
        let mut all = database.prepare("select author from note").unwrap();
        let all = all.query_map([], |row| row.get(0)).unwrap();
        let all: Vec<String> = all.map(Result::unwrap).collect();
        let once: BTreeSet<String> = all.iter().cloned().collect();
        assert_eq!(all.len(), once.len(), "each was written once");
        let lost: Vec<_> = written.lock().unwrap().difference(&once).cloned().collect();
        assert!(lost.is_empty(), "{lost:?} were answered and are lost");
    }
}

/// How many notes of this author a folder's database has, which is sound.
fn notes_of(folder: &Path, author: &str) -> i64 {
    let database = database(folder);
    let sound: String = database
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .expect("a database");
    assert_eq!(sound, "ok");
    let sql = "select count(*) from note where author = ?1";
    (database.query_row(sql, [author], |row| row.get(0))).expect("a table")
}

#[test]
fn what_is_answered_after_the_file_was_removed_and_made_anew_is_there_after_a_kill() {
    for ends in [&["", "-wal", "-shm"][..], &[""]] {
        let folder = notes("notes_made_anew", "");
        let server = Server::start(&folder, &[]);
        let mut client = server.client();
        let mut write = |name| post(&mut client, "/topics/1", &format!("author={name}&text=t"));
        assert_eq!(write("erased").unwrap(), 303);
        assert!(get(&server, "/topics/1").1.contains("erased"));
        for end in ends {
            fs::remove_file(folder.join(format!("notes.db{end}"))).expect("it is there");
        }
        server.signal(Signal::HUP);
        server.said("the service is reloaded");
        assert_eq!(write("lasting").unwrap(), 303);
        let (_, page) = get(&server, "/topics/1");
        assert!(
            page.contains("lasting") && !page.contains("erased"),
            "{page}"
        );
        server.signal(Signal::KILL);
        drop(server);
        let found = ["erased", "lasting"].map(|name| notes_of(&folder, name));
        assert_eq!(found, [0, 1], "{ends:?} were removed");
    }
}

#[test]
fn what_is_answered_after_a_copy_was_moved_there_is_in_the_copy() {
    let folder = notes("notes_moved", "");
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    let mut write = |name| post(&mut client, "/topics/1", &format!("author={name}&text=t"));
    assert_eq!(write("copied").unwrap(), 303);
    let copy = folder.join("copy.db");
    let into = format!("vacuum into '{}'", copy.display());
    database(&folder).execute_batch(&into).expect("a copy");
    assert_eq!(write("dropped").unwrap(), 303);
    assert!(get(&server, "/topics/1").1.contains("dropped"));
    fs::rename(copy, folder.join("notes.db")).expect("a folder");
    assert_eq!(write("lasting").unwrap(), 303);
    let (_, page) = get(&server, "/topics/1");
    assert!(
        page.contains("lasting") && !page.contains("dropped"),
        "{page}"
    );
    server.signal(Signal::KILL);
    drop(server);
    let found = ["copied", "dropped", "lasting"].map(|name| notes_of(&folder, name));
    assert_eq!(found, [1, 0, 1]);
}

#[test]
fn after_a_stop_the_file_alone_has_all_that_was_answered() {
    let folder = notes("notes_stopped", "");
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    for name in ["first", "last"] {
        let form = format!("author={name}&text=t");
        assert_eq!(post(&mut client, "/topics/1", &form).unwrap(), 303);
    }
    assert!(get(&server, "/topics/1").1.contains("last"));
    drop(client);
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    let copied = folder.join("copied");
    fs::create_dir(&copied).expect("a folder");
    fs::copy(folder.join("notes.db"), copied.join("notes.db")).expect("a file");
    let found = ["first", "last"].map(|name| notes_of(&copied, name));
    assert_eq!(found, [1, 1]);
    for end in ["-wal", "-shm"] {
        assert!(
            !folder.join(format!("notes.db{end}")).exists(),
            "{end} is left"
        );
    }
}

#[test]
fn while_the_file_is_gone_it_is_told_what_helps() {
    let folder = notes("notes_gone", "");
    let server = Server::start(&folder, &[]);
    assert_eq!(get(&server, "/topics/1").0, 200);
    for end in ["", "-wal", "-shm"] {
        fs::remove_file(folder.join(format!("notes.db{end}"))).expect("it is there");
    }
    assert_eq!(get(&server, "/topics/1").0, 502);
    let line = server.said("the database is gone: put it back");
    let fields = &line["fields"];
    let cause = fields["cause"].as_str().unwrap_or_default();
    assert_eq!(cause.matches("notes.db").count(), 1, "{fields}");
    assert!(fields["statement"].is_null(), "{fields}");
    assert!(fields["message"].to_string().contains("SIGHUP"), "{fields}");
    server.signal(Signal::HUP);
    server.said("the service is reloaded");
    assert_eq!(get(&server, "/topics/1").0, 200);
}

#[test]
fn all_workers_are_answered_however_many_there_are() {
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    let workers = 4 * processors + 4;
    let folder = notes("notes_workers", "connections_max = 1\n");
    // Servers of tests have two.
    let script = format!("exec \"$0\" $(echo \"$@\" | sed 's/--workers 2/--workers {workers}/')");
    let server = Server::start_by(&script, Stdio::null(), &folder, &[]);
    thread::scope(|scope| {
        for index in 0..16 * processors + 16 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                for turn in 0..5 {
                    let form = format!("author={index}-{turn}&text=t");
                    assert_eq!(post(&mut client, "/topics/1", &form).unwrap(), 303);
                    thread::sleep(Duration::from_millis(500));
                }
            });
        }
    });
}

#[test]
fn reloads_that_change_the_table_of_the_database_leave_nothing_of_those_before() {
    let folder = notes("notes_reloads", "timeout = \"1999ms\"\n");
    let service = folder.join("service.toml");
    let text = fs::read_to_string(&service).expect("a text");
    let write = |version: usize| {
        let text = text.replace("1999ms", &format!("{}ms", 2000 + version));
        fs::write(&service, text).expect("a file");
        let page = format!("+++\nroute = \"GET /version\"\n+++\n{version}");
        fs::write(folder.join("pages/version.html"), page).expect("a file");
    };
    write(0);
    let server = Server::start(&folder, &[]);
    let until = |is: &dyn Fn() -> bool, what: &str| {
        let start = Instant::now();
        while !is() {
            assert!(start.elapsed() < super::NEVER, "never: {what}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    for version in 0..6 {
        write(version);
        server.signal(Signal::HUP);
        let is_there = || get(&server, "/version").1.trim() == version.to_string();
        until(&is_there, "it is reloaded");
        let status = post(&mut server.client(), "/topics/1", "author=a&text=t");
        assert_eq!(status.unwrap(), 303);
    }
    // One listens for the database, and the others have looked who has theirs.
    let listening = || {
        let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
        let name = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm")).ok();
        let names = threads.filter_map(Result::ok).filter_map(name);
        names.filter(|name| name.trim() == "sqlite").count()
    };
    until(&|| listening() == 1, "those before are not listened for");
}

#[test]
fn who_writes_elsewhere_delays_writing_alone_and_no_longer_than_the_timeout() {
    let folder = notes("notes_locked", "timeout = \"3s\"\n");
    let server = Server::start(&folder, &[]);
    assert_eq!(get(&server, "/topics/1").0, 200);
    let other = database(&folder);
    other.execute_batch("begin immediate").unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| post(&mut server.client(), "/topics/1", "author=a&text=b"));
        for _ in 0..20 {
            assert_eq!(get(&server, "/topics/1").0, 200);
        }
        assert_eq!(writer.join().unwrap().unwrap(), 504);
    });
    other.execute_batch("commit").unwrap();
    let mut client = server.client();
    let status = post(&mut client, "/topics/1", "author=later&text=b").unwrap();
    assert_eq!(status, 303);
    let sql = "select count(*) from note where author in ('a', 'later')";
    let count: i64 = database(&folder)
        .query_row(sql, [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 1, "what was answered 504 was not done later");
}

#[test]
fn a_statement_that_never_ends_is_stopped_and_others_go_on() {
    let folder = notes(
        "notes_endless",
        "timeout = \"3s\"\nconnections_per_user_max = 16\n",
    );
    let page = "+++\nroute = \"GET /endless\"\n[[step]]\ncall = \"board\"\nquery = \"\"\"\n\
                with recursive n(i) as (select 1 union all select i + 1 from n)\n\
                select count(*) from n\"\"\"\nrow = \"n(count:int)\"\n+++\n{{ n.count }}\n";
    fs::write(folder.join("pages/endless.html"), page).unwrap();
    let server = Server::start(&folder, &[]);
    assert_eq!(get(&server, "/topics/1").0, 200);
    thread::scope(|scope| {
        let endless: Vec<_> = (0..40)
            .map(|_| scope.spawn(|| get(&server, "/endless").0))
            .collect();
        // Until it is known how long the statement takes, one user's requests may wait for it.
        let served = (0..40).filter(|_| get(&server, "/topics/1").0 == 200);
        assert!(served.count() > 30, "others go on");
        for endless in endless {
            let status = endless.join().unwrap();
            assert!(matches!(status, 503 | 504), "{status}");
        }
    });
    // None of them is at work any more.
    let start = Instant::now();
    while server.is_busy() {
        assert!(start.elapsed() < super::NEVER, "a statement goes on");
    }
}

#[test]
fn a_transaction_is_done_whole_or_not_at_all() {
    let folder = notes("notes_transactions", "");
    let schema = folder.join("schema.sql");
    let tables = "create table purchase (id integer primary key, buyer text not null);";
    let text = fs::read_to_string(&schema).expect("a text");
    fs::write(schema, text + tables + transactions::TABLES).expect("a file can be written");
    transactions::write_pages(&folder);
    let server = Server::start(&folder, &[]);
    let count = |sql: &str| -> i64 {
        let row = database(&folder).query_row(sql, [], |row| row.get(0));
        row.expect("a number")
    };
    let look = || {
        [
            count("select sum(stock) from item"),
            count("select count(*) from purchase"),
            count("select count(*) from line"),
            count("select count(*) from told"),
        ]
    };
    transactions::trade(&server, &look);
    transactions::compete(&server, &look);
}

#[test]
fn a_null_is_told_wherever_it_goes() {
    let folder = notes("notes_nulls", "");
    let page = r#"+++
route        = "GET /nulls"
content_type = "text/plain"
[[step]]
call  = "board"
query = "select 1, 2.5 union all select 2, null"
rows  = "items(id:int, price:float?)"
[[step]]
call  = "board"
query = "select null, 'x'"
row   = "one(day:int?, name?)"
+++
{% macro shown(price) %}{{ "-" if price is none else price }}{% endmacro -%}
{% for item in items %}{% set price = item.price -%}
{{ price is none }} {{ item["price"] is none }} {{ shown(item.price) }} {{ price|tojson }}
{% endfor %}{{ one.day is none }} {{ one["name"] is none }} {{ one.day|tojson }} {{ one|tojson }}"#;
    fs::write(folder.join("pages/nulls.html"), page).unwrap();
    let page = r#"+++
route        = "GET /nulls.json"
content_type = "application/json"
[[step]]
call  = "board"
query = "select null, 3.5"
row   = "one(day:int?, price:float?)"
[json]
day   = "one.day"
price = "one.price"
+++
"#;
    fs::write(folder.join("pages/nulls_json.html"), page).unwrap();
    let server = Server::start(&folder, &[]);
    assert_eq!(
        get(&server, "/nulls").1,
        "False False 2.5 2.5\nTrue True - null\n\
         True False null {\"day\":null,\"name\":\"x\",\"status\":0}"
    );
    assert_eq!(get(&server, "/nulls.json").1, r#"{"day":null,"price":3.5}"#);
}

#[test]
fn statements_are_checked_where_they_stand() {
    let folder = notes("notes_check", "");
    let check = || {
        let run = Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .arg("check")
            .arg(&folder)
            .output()
            .expect("it runs");
        String::from_utf8_lossy(&run.stderr).into_owned() + &String::from_utf8_lossy(&run.stdout)
    };
    for (statement, result, told) in [
        (
            "query = \"select a from nowhere\"",
            "rows = \"a(a)\"",
            "no such table: nowhere",
        ),
        (
            "query = \"select nme from topic\"",
            "rows = \"a(a)\"",
            "no such column: nme",
        ),
        (
            "query = \"selct 1\"",
            "rows = \"a(a)\"",
            "near \"selct\": syntax error",
        ),
        (
            "query = \"select 1, 2\"",
            "rows = \"a(a)\"",
            "the statement answers 2 columns, not 1",
        ),
        (
            "query = \"delete from note\"",
            "rows = \"a(a)\"",
            "this statement changes something",
        ),
        (
            "exec = \"commit\"",
            "row = \"a(a)\"",
            "a page begins and ends no transaction",
        ),
        (
            "query = \"select ?1\"",
            "rows = \"a(a)\"",
            "values that are not given by name",
        ),
        (
            "exec = \"delete from note\"",
            "row = \"a(a, b)\"",
            "answers 1 column: how many rows",
        ),
    ] {
        let page = format!(
            "+++\nroute = \"GET /tried\"\n[[step]]\ncall = \"board\"\n{statement}\n{result}\n+++\n"
        );
        fs::write(folder.join("pages/tried.html"), page).unwrap();
        let said = check();
        assert!(said.contains(told), "{statement}: {said}");
        assert!(said.contains("pages/tried.html:5:") || said.contains("pages/tried.html:6:"));
        assert!(!folder.join("notes.db").exists(), "a check makes nothing");
    }
    // A number of what its table has as a text is perhaps none.
    for (kind, is_told) in [(":int", true), ("", false)] {
        let page = format!(
            "+++\nroute = \"GET /tried\"\n[[step]]\ncall = \"board\"\n\
             query = \"select id, name from topic\"\nrows = \"a(id:int, name{kind})\"\n+++\n"
        );
        fs::write(folder.join("pages/tried.html"), page).unwrap();
        let said = check();
        let told = "warning: `name` is declared text in its table, and an integer here";
        assert_eq!(said.contains(told), is_told, "{said}");
        assert_eq!(said.contains("pages/tried.html:6:"), is_told, "{said}");
        assert!(!said.contains("error: "), "{said}");
    }
    // What the database names is pointed at, behind an argument, too, and in text of several lines.
    for (statement, place) in [
        ("query = \"select id, nme from topic\"", "5:21:"),
        (
            "query = \"select :a, nme from topic where id = :a\"",
            "5:21:",
        ),
        ("query = \"\"\"\nselect id,\n  nme from topic\"\"\"", "7:3:"),
    ] {
        let page = format!(
            "+++\nroute = \"GET /tried\"\n[[step]]\ncall = \"board\"\n{statement}\n\
             {}rows = \"a(a, b)\"\n+++\n",
            match statement.contains(":a") {
                true => "args = { a = \"1\" }\n",
                false => "",
            }
        );
        fs::write(folder.join("pages/tried.html"), page).unwrap();
        let said = check();
        let told = format!("pages/tried.html:{place} error: no such column: nme");
        assert!(said.contains(&told), "{statement}: {said}");
    }
    fs::remove_file(folder.join("pages/tried.html")).unwrap();
    // A schema that fails is told of where it does, and leaves nothing behind.
    let schema = fs::read_to_string(folder.join("schema.sql")).unwrap();
    fs::write(
        folder.join("schema.sql"),
        format!("create table first(a);\n{schema}\ncreate tabel b(c);\n"),
    )
    .unwrap();
    let serve = || {
        let run = Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .args(["serve", "--listen", "127.0.0.1:0", "--no-admin"])
            .arg(&folder)
            .output()
            .expect("it runs");
        assert!(!run.status.success());
        String::from_utf8_lossy(&run.stderr).into_owned()
    };
    let line = schema.lines().count() + 3;
    let at = format!("schema.sql:{line}:");
    for said in [check(), serve()] {
        let told = "error: `schema` fails: near \"tabel\": syntax error";
        assert!(said.contains(&at) && said.contains(told), "{said}");
        assert!(
            said.contains("1 error,") && !said.contains("pages/"),
            "{said}"
        );
        assert!(!folder.join("notes.db").exists());
    }
    fs::remove_file(folder.join("schema.sql")).unwrap();
    let said = check();
    assert!(said.contains("error: cannot read `schema`"), "{said}");
    assert!(
        said.contains("service.toml:") && !said.contains("pages/"),
        "{said}"
    );
    fs::write(folder.join("schema.sql"), schema).unwrap();
    // One without tables is one that is not made yet.
    fs::write(folder.join("notes.db"), "").unwrap();
    let said = check();
    assert!(!said.contains("error: "), "{said}");
    drop(Server::start(&folder, &[]));
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(folder.join(format!("notes.db{end}")));
    }
    let service = fs::read_to_string(folder.join("service.toml")).unwrap();
    fs::write(
        folder.join("service.toml"),
        service.replace("schema = \"schema.sql\"", ""),
    )
    .unwrap();
    for said in [check(), serve()] {
        assert!(said.contains("name a file of SQL"), "{said}");
    }
}

#[test]
fn a_database_that_was_made_of_an_earlier_schema_is_told_of() {
    let folder = notes("notes_earlier", "");
    drop(Server::start(&folder, &[]));
    let page = "+++\nroute = \"GET /more\"\n[[step]]\ncall = \"board\"\n\
                query = \"select a from more\"\nrows = \"more(a)\"\n+++\n{{ more|length }}\n";
    fs::write(folder.join("pages/more.html"), page).expect("a file can be written");
    let said = check(&folder);
    assert!(said.contains("no such table: more"), "{said}");
    assert!(!said.contains("an earlier schema"), "{said}");
    let schema = folder.join("schema.sql");
    let text = fs::read_to_string(&schema).expect("a text");
    fs::write(schema, text + "create table more (a);\n").expect("a file can be written");
    let said = check(&folder);
    assert!(said.contains("no such table: more"), "{said}");
    assert!(said.contains("an earlier schema"), "{said}");
}
