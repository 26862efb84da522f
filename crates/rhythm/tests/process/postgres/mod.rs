//! A site on PostgreSQL, services/notes: pages read and write, and what stands in the database's
//! way, or ends it, costs no more than it must.
//!
//! Needs Debian's `postgresql`, of which no cluster is used: each test makes one of its own.

pub(crate) mod database;
mod secrets;

use super::server::{Client, NEVER, Server};
use super::site::{check, until};
use super::sqlite::{get, notes, post};
use super::transactions;
use database::{Database, PASSWORD};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

const TABLES: &str = include_str!("../../../../../services/notes/postgres.sql");

/// services/notes on this database, in a folder of the test's own.
fn site(test: &str, url: &str, settings: &str) -> PathBuf {
    let folder = notes(test, "");
    let service = format!(
        "[backend.board]\nkind = \"postgres\"\nurl = \"{url}\"\npassword_file = \"password\"\n\
         {settings}"
    );
    fs::write(folder.join("service.toml"), service).expect("a file can be written");
    fs::write(folder.join("password"), format!("{PASSWORD}\n")).expect("a file can be written");
    folder
}

/// Adds a page of one step.
fn page(folder: &Path, name: &str, step: &str, body: &str) {
    let page =
        format!("+++\nroute = \"GET /{name}\"\n[[step]]\ncall = \"board\"\n{step}\n+++\n{body}\n");
    fs::write(folder.join(format!("pages/{name}.html")), page).expect("a file can be written");
}

fn like(client: &mut Client, note: usize) -> std::io::Result<u16> {
    post(client, &format!("/notes/{note}/like"), "topic=1")
}

#[test]
fn what_is_typed_is_a_value_and_what_breaks_a_rule_changes_nothing() {
    let database = Database::start("pg_pages", &[]);
    database.carry_out(TABLES);
    for (test, url) in [
        ("pg_pages", database.url()),
        ("pg_pages_socket", database.socket_url()),
    ] {
        let folder = site(test, &url, "");
        let lacks = "exec = \"insert into topic (name) values (null)\"\nrow = \"a(changed:int)\"";
        page(&folder, "lacks", lacks, "{{ a.status }}");
        let server = Server::start(&folder, &[]);
        let (status, page) = get(&server, "/");
        assert_eq!(status, 200);
        assert!(
            page.contains("<a href=\"/topics/3\">Neighbors</a>"),
            "{page}"
        );
        let mut client = server.client();
        // Percent-encoded: quotes, colons, marks of arguments, a comment, a second statement.
        let text = "'%3B+drop+table+note%3B+--+:id+$1+%5C'+%2F*+%22x%22+%C3%A9";
        let form = format!("author=%3Cb%3E&text={text}");
        assert_eq!(post(&mut client, "/topics/2", &form).unwrap(), 303);
        let (_, page) = get(&server, "/topics/2");
        let shown = "&#x27;; drop table note; -- :id $1 \\&#x27; &#x2f;* &quot;x&quot; \u{e9}";
        assert!(page.contains(shown) && page.contains("&lt;b&gt;"), "{page}");
        let written =
            database.ask("select text from note where topic = 2 order by id desc limit 1");
        assert_eq!(
            written.unwrap(),
            "'; drop table note; -- :id $1 \\' /* \"x\" \u{e9}"
        );
        // No such topic, none that a bigint holds, no such note, and nothing of any.
        let form = "author=a&text=b";
        assert_eq!(post(&mut client, "/topics/99", form).unwrap(), 404);
        assert_eq!(get(&server, "/topics/9223372036854775807").0, 404);
        assert_eq!(like(&mut client, 99).unwrap(), 404);
        let before = database.ask("select likes from note where id = 1").unwrap();
        for _ in 0..3 {
            assert_eq!(like(&mut client, 1).unwrap(), 303);
        }
        let likes: u32 = before.parse::<u32>().unwrap() + 3;
        assert!(
            get(&server, "/topics/1")
                .1
                .contains(&format!("Like ({likes})"))
        );
        // Of rules that are broken the log tells but of this one, which no user breaks.
        assert_eq!(get(&server, "/lacks"), (200, "1".to_owned()));
        let said = server.said("a statement failed")["fields"].to_string();
        assert!(said.contains("SQLSTATE 23502"), "{said}");
        // Nobody is told the password.
        for said in [server.ask_admin("/config").1, check(&folder)] {
            assert!(!said.contains("riddle"), "{said}");
        }
    }
    let count = database.ask("select count(*) from note where author in ('<b>', 'a')");
    assert_eq!(count.unwrap(), "2");
}

#[test]
fn values_have_their_types_there_and_back() {
    let database = Database::start("pg_types", &[]);
    database.carry_out(TABLES);
    let zone = "[service]\ntime_zone = \"Europe/Berlin\"\n";
    let folder = site("pg_types", &database.url(), zone);
    let step = "query = \"\"\"select 9223372036854775807::bigint, 1.50::numeric, 0.1::float8, \
                true, null, timestamptz '2026-01-15 12:30:00.25+01', date '2026-01-15', \
                'x'::bytea, :n + 1, :f * 2, not :b, :t || '\u{e9}', '{\"a\":1}'::jsonb\"\"\"\n\
                args = { n = \"41\", f = \"0.25\", b = \"false\", t = \"'t'\" }\n\
                row = \"r(a:int, b, c, d, e, f, g, h, i:int, j, k, l, m)\"";
    let body = "{{ r.a }}|{{ r.b }}|{{ r.c }}|{{ r.d }}|{{ r.e }}|{{ r.f }}|{{ r.g }}|{{ r.h }}|\
                {{ r.i }}|{{ r.j }}|{{ r.k }}|{{ r.l }}|{{ r.m }}";
    page(&folder, "types", step, body);
    // What has a time zone is a moment, which the site's own clocks show; what has none stays.
    let step = "query = \"select timestamptz '2026-01-15 12:30:00.25+01', \
                timestamp '2026-01-15 12:30'\"\nrow = \"r(a, b)\"";
    let body = "{{ r.a|dateformat(\"%F %T\") }}|{{ r.b|dateformat(\"%F %T\") }}";
    page(&folder, "moments", step, body);
    let server = Server::start(&folder, &[]);
    let expected = "9223372036854775807|1.50|0.1|True||2026-01-15 11:30:00.25+00:00|2026-01-15|x|\
                    42|0.5|True|t\u{e9}|{&quot;a&quot;: 1}";
    // The first prepares it, the others do not.
    for _ in 0..3 {
        let answered = get(&server, "/types");
        assert_eq!(answered, (200, expected.to_owned()));
        let moments = "2026-01-15 12:30:00|2026-01-15 12:30:00".to_owned();
        assert_eq!(get(&server, "/moments"), (200, moments));
    }
}

#[test]
fn a_query_changes_nothing_and_an_exec_is_done_whole_or_not_at_all() {
    let database = Database::start("pg_rules", &[]);
    database.carry_out(TABLES);
    database.carry_out(
        "create function sneaks() returns int language sql as
         $$ insert into topic(name) values ('sneaked') returning 1 $$;
         create table late (a int unique deferrable initially deferred);",
    );
    let folder = site("pg_rules", &database.url(), "");
    page(
        &folder,
        "sneaks",
        "query = \"select sneaks()\"\nrow = \"a(a)\"",
        "{{ a.a }}",
    );
    let within = "query = \"with a as (delete from topic returning 1) select * from a\"";
    page(
        &folder,
        "within",
        &format!("{within}\nrows = \"a(a)\""),
        "{{ a|length }}",
    );
    let late = "exec = \"insert into late values (1), (:n)\"\nargs = { n = \"1\" }";
    page(
        &folder,
        "late",
        &format!("{late}\nrow = \"a(changed:int)\""),
        "{{ a.status }}",
    );
    let fails = "exec = \"insert into late values (7), (1 / :n)\"\nargs = { n = \"0\" }";
    page(&folder, "fails", fails, "done");
    let unfit = "exec = \"insert into late values (:n)\"\nargs = { n = \"5000000000\" }";
    page(
        &folder,
        "unfit",
        &format!("{unfit}\nrow = \"a(changed:int)\""),
        "{{ a.status }}",
    );
    let server = Server::start(&folder, &[]);
    for _ in 0..3 {
        assert_eq!(get(&server, "/sneaks").0, 502);
        assert_eq!(get(&server, "/within").0, 502);
        // A rule that is looked at with the commit.
        assert_eq!(get(&server, "/late"), (200, "1".to_owned()));
        assert_eq!(get(&server, "/fails").0, 502);
        assert_eq!(get(&server, "/unfit"), (200, "1".to_owned()));
        assert_eq!(get(&server, "/topics/1").0, 200);
    }
    let said = server.said("a statement failed")["fields"]["cause"].to_string();
    assert!(
        said.contains("25006") && said.contains("`query` only reads"),
        "{said}"
    );
    assert_eq!(database.ask("select count(*) from topic").unwrap(), "3");
    assert_eq!(database.ask("select count(*) from late").unwrap(), "0");
}

#[test]
fn a_transaction_is_done_whole_or_not_at_all() {
    let database = Database::start("pg_transactions", &["deadlock_timeout=20ms"]);
    database.carry_out(TABLES);
    database.carry_out(
        "create table purchase (
           id bigint generated always as identity primary key, buyer text not null)",
    );
    database.carry_out(transactions::TABLES);
    // Those that stand in each other's way are many here.
    let settings = "timeout = \"20s\"\nretries_max = 10\n";
    let folder = site("pg_transactions", &database.url(), settings);
    transactions::write_pages(&folder);
    let server = Server::start(&folder, &[]);
    let count = |sql: &str| -> i64 {
        let answer = database.ask(sql).expect("an answer");
        answer.parse().expect("a number")
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
fn what_was_answered_is_there_after_the_database_was_killed() {
    let mut database = Database::start("pg_kill", &[]);
    database.carry_out(TABLES);
    let folder = site("pg_kill", &database.url(), "");
    let server = Server::start(&folder, &[]);
    let written = Mutex::new(BTreeSet::new());
    let failed = Mutex::new(0);
    let over = Mutex::new(false);
    thread::scope(|scope| {
        for index in 0..24 {
            let (server, written, failed, over) = (&server, &written, &failed, &over);
            scope.spawn(move || {
                let mut client = server.client();
                for turn in 0.. {
                    if *over.lock().unwrap() {
                        return;
                    }
                    let name = format!("{index}-{turn}");
                    let status = post(&mut client, "/topics/1", &format!("author={name}&text=t"));
                    match status.expect("the server is not killed") {
                        303 => assert!(written.lock().unwrap().insert(name)),
                        502..=504 => {
                            *failed.lock().unwrap() += 1;
                            thread::sleep(Duration::from_millis(10));
                        }
                        status => panic!("{status}"),
                    }
                }
            });
        }
        let mut enough = 0;
        for round in 0..4 {
            enough += 200;
            let start = Instant::now();
            while written.lock().unwrap().len() < enough {
                assert!(start.elapsed() < NEVER, "too few are answered");
                thread::sleep(Duration::from_millis(1));
            }
            match round {
                3 => *over.lock().unwrap() = true,
                // One of the server's processes, which ends all of them; or the server.
                1 => {
                    let victim = "select pid from pg_stat_activity
                                  where application_name = 'rhythm' limit 1";
                    let pid = database.ask(victim).unwrap().parse().unwrap();
                    let pid = rustix::process::Pid::from_raw(pid).unwrap();
                    rustix::process::kill_process(pid, Signal::KILL).unwrap();
                }
                _ => {
                    database.kill();
                    database.start_again();
                }
            }
            enough = written.lock().unwrap().len();
        }
    });
    assert!(failed.into_inner().unwrap() > 0, "it was killed under load");
    until(&server, "/topics/1", 200);
    let all = database
        .ask("select author from note where text = 't'")
        .unwrap();
    let all: Vec<String> = all.lines().map(str::to_owned).collect();
    let once: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(all.len(), once.len(), "each was written once");
    let written = written.into_inner().unwrap();
    let lost: Vec<_> = written.difference(&once).collect();
    assert!(lost.is_empty(), "{lost:?} were answered and are lost");
}

#[test]
fn reads_outlive_a_restart_of_the_database() {
    let mut database = Database::start("pg_restart", &[]);
    database.carry_out(TABLES);
    let folder = site("pg_restart", &database.url(), "");
    let server = Server::start(&folder, &[]);
    // They are kept: none is opened for who asks when each worker has one.
    let newest = || {
        for _ in 0..40 {
            assert_eq!(get(&server, "/topics/1").0, 200);
        }
        let newest = "select max(backend_start) from pg_stat_activity
                      where application_name = 'rhythm'";
        database.ask(newest).unwrap()
    };
    let begun = newest();
    assert_eq!((begun.is_empty(), newest()), (false, begun));
    for _ in 0..2 {
        assert_eq!(get(&server, "/topics/1").0, 200);
        // All of its connections are ended while nothing is asked, and none of that is seen.
        let ended = "select pg_terminate_backend(pid) from pg_stat_activity
                     where application_name = 'rhythm'";
        database.carry_out(ended);
        assert_eq!(get(&server, "/topics/1").0, 200);
    }
    database.kill();
    // Its processes see only after a moment that it is gone.
    let start = Instant::now();
    let refused = || match get(&server, "/topics/1").0 {
        200 => false,
        status => matches!(status, 502..=504) || panic!("{status}"),
    };
    while !refused() {
        assert!(start.elapsed() < NEVER, "it is answered without a database");
    }
    database.start_again();
    until(&server, "/topics/1", 200);
}

#[test]
fn what_waits_is_stopped_in_time_and_others_go_on() {
    let database = Database::start("pg_slow", &[]);
    database.carry_out(TABLES);
    let settings = "timeout = \"4s\"\nconnections_per_user_max = 16\n";
    let folder = site("pg_slow", &database.url(), settings);
    page(
        &folder,
        "slow",
        "query = \"select pg_sleep(1000)::text\"\nrow = \"a(a)\"",
        "{{ a.a }}",
    );
    let server = Server::start(&folder, &[]);
    assert_eq!(get(&server, "/topics/1").0, 200);
    let held = database.hold("lock table note in exclusive mode");
    thread::scope(|scope| {
        let slow: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| get(&server, "/slow").0))
            .collect();
        let writer = scope.spawn(|| post(&mut server.client(), "/topics/1", "author=a&text=b"));
        // One may have to wait for those that are not known to be slow yet.
        let served = (0..20).filter(|_| get(&server, "/topics/1").0 == 200);
        assert!(served.count() > 14, "others go on");
        assert_eq!(writer.join().unwrap().unwrap(), 504);
        for slow in slow {
            let status = slow.join().unwrap();
            assert!(matches!(status, 503 | 504), "{status}");
        }
    });
    drop(held);
    let mut client = server.client();
    let start = Instant::now();
    while post(&mut client, "/topics/1", "author=later&text=b").unwrap() != 303 {
        assert!(start.elapsed() < NEVER, "nothing can be written");
    }
    let count = database.ask("select count(*) from note where author in ('a', 'later')");
    assert_eq!(
        count.unwrap(),
        "1",
        "what was answered 504 was not done later"
    );
    // None of them is at work any more.
    let busy = "select count(*) from pg_stat_activity where query ~ 'pg_sleep' and state = 'active'
                and pid <> pg_backend_pid()";
    let start = Instant::now();
    while database.ask(busy).unwrap() != "0" {
        assert!(start.elapsed() < NEVER, "a statement goes on");
    }
}

#[test]
fn statements_that_stand_in_each_others_way_are_done_all_the_same() {
    let database = Database::start("pg_deadlock", &["deadlock_timeout=10ms"]);
    database.carry_out(TABLES);
    let folder = site("pg_deadlock", &database.url(), "retries_max = 5\n");
    // Two rows in either order, with time between.
    for (name, order) in [("up", "asc"), ("down", "desc")] {
        let exec = format!(
            "exec = \"update note set likes = likes + 1 from \
             (select id from note order by id {order} for update) o, pg_sleep(0.01) s \
             where note.id = o.id\""
        );
        page(&folder, name, &exec, "done");
    }
    let server = Server::start(&folder, &[]);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|index| {
                let path = if index % 2 == 0 { "/up" } else { "/down" };
                let server = &server;
                scope.spawn(move || -> Vec<u16> { (0..10).map(|_| get(server, path).0).collect() })
            })
            .collect();
        all.into_iter()
            .flat_map(|one| one.join().unwrap())
            .collect()
    });
    let done = statuses.iter().filter(|status| **status == 200).count();
    assert!(done > 70, "{statuses:?}");
    let likes = database.ask("select likes from note where id = 1").unwrap();
    assert_eq!(likes, done.to_string(), "each was done once or not at all");
}

#[test]
fn a_table_that_is_changed_is_asked_anew() {
    let database = Database::start("pg_change", &[]);
    database.carry_out(TABLES);
    let folder = site("pg_change", &database.url(), "");
    page(
        &folder,
        "all",
        "query = \"select * from topic order by 1\"\nshare = false\nrows = \"t(id:int, name)\"",
        "{{ t|length }}",
    );
    database.carry_out(
        "create function forget() returns text language plpgsql as
         $$ begin execute 'deallocate all'; return ''; end $$",
    );
    page(
        &folder,
        "forget",
        "query = \"select forget()\"\nrow = \"a(a)\"",
        "",
    );
    let server = Server::start(&folder, &[]);
    let ask = || {
        let statuses = thread::scope(|scope| {
            let all: Vec<_> = (0..16)
                .map(|_| scope.spawn(|| get(&server, "/all")))
                .collect();
            let all = all.into_iter().map(|one| one.join().unwrap());
            all.collect::<Vec<_>>()
        });
        assert!(
            statuses.iter().all(|it| *it == (200, "3".to_owned())),
            "{statuses:?}"
        );
    };
    for kind in ["varchar(99)", "text", "varchar(77)"] {
        ask();
        database.carry_out(&format!("alter table topic alter column name type {kind}"));
    }
    // What is prepared is gone.
    for _ in 0..3 {
        assert_eq!(get(&server, "/forget").0, 200);
        ask();
    }
    database.carry_out("alter table topic add column more int");
    assert_eq!(get(&server, "/all").0, 502);
    let said = server.said("a request failed")["fields"].to_string();
    assert!(said.contains("more or fewer columns"), "{said}");
}

#[test]
fn a_server_that_refuses_is_told_of_with_what_helps() {
    let database = Database::start("pg_refuses", &["max_connections=6"]);
    database.carry_out(TABLES);
    let folder = site("pg_refuses", &database.url(), "connections_max = 4\n");
    page(
        &folder,
        "own",
        "query = \"select 7 from pg_sleep(0.02)\"\nshare = false\nrow = \"a(a:int)\"",
        "{{ a.a }}",
    );
    fs::write(folder.join("password"), "guessed").unwrap();
    let server = Server::start(&folder, &[]);
    assert_eq!(get(&server, "/").0, 502);
    let said = server.said("refuses connections")["fields"].to_string();
    assert!(
        said.contains("28P01") && said.contains("password_file"),
        "{said}"
    );
    assert!(!said.contains("guessed"), "{said}");
    // It is read again with the site.
    fs::write(folder.join("password"), PASSWORD).unwrap();
    server.signal(Signal::HUP);
    server.said("is reloaded");
    until(&server, "/", 200);
    // Two workers want eight connections of six: those that they get do, when each has got one.
    let ask_all = || {
        let statuses = thread::scope(|scope| {
            let all: Vec<_> = (0..64)
                .map(|_| {
                    scope.spawn(|| {
                        let mut client = server.client();
                        let ask = |_| client.ask("GET", "/own", "").unwrap().status;
                        (0..20).map(ask).collect::<Vec<_>>()
                    })
                })
                .collect();
            let all = all.into_iter().flat_map(|one| one.join().unwrap());
            all.collect::<Vec<_>>()
        });
        assert!(
            statuses.iter().all(|it| matches!(it, 200 | 502..=504)),
            "{statuses:?}"
        );
        statuses.iter().all(|status| *status == 200)
    };
    let start = Instant::now();
    while !ask_all() {
        assert!(start.elapsed() < NEVER, "not all are ever answered");
        thread::sleep(Duration::from_millis(100));
    }
    server.said("raise the server's max_connections");
}

#[test]
fn statements_are_checked_where_they_stand() {
    let mut database = Database::start("pg_check", &[]);
    database.carry_out(TABLES);
    let folder = site("pg_check", &database.url(), "");
    let said = check(&folder);
    assert!(
        said.contains("6 pages") || said.contains("pages with"),
        "{said}"
    );
    for (statement, result, told) in [
        (
            "query = \"select a from nowhere\"",
            "rows = \"a(a)\"",
            "\"nowhere\" does not exist",
        ),
        (
            "query = \"select a from nowhere\"",
            "rows = \"a(a)\"",
            "whose tables psql makes: `psql postgres://shop%20owner@127.0.0.1:",
        ),
        (
            "query = \"selct 1\"",
            "rows = \"a(a)\"",
            "syntax error at or near \"selct\"",
        ),
        (
            "query = \"select 1, 2\"",
            "rows = \"a(a)\"",
            "answers 2 columns, not 1",
        ),
        (
            "query = \"select now()\"",
            "rows = \"a(a:int)\"",
            "`a` is no integer",
        ),
        (
            "query = \"select true\"",
            "rows = \"a(a:float)\"",
            "`a` is no float",
        ),
        (
            "query = \"select 1.5::float8\"",
            "rows = \"a(a:bool)\"",
            "`a` is no truth value",
        ),
        (
            "query = \"delete from note\"",
            "rows = \"a(a)\"",
            "this statement changes something",
        ),
        (
            "query = \"delete from note returning id\"",
            "rows = \"a(a)\"",
            "this statement changes something",
        ),
        (
            "exec = \"commit\"",
            "row = \"a(a)\"",
            "begins and ends no transaction",
        ),
        (
            "exec = \"delete from note\"",
            "row = \"a(a, b)\"",
            "1 column: how many rows",
        ),
    ] {
        page(&folder, "tried", &format!("{statement}\n{result}"), "");
        let said = check(&folder);
        assert!(said.contains(told), "{statement}: {said}");
        assert!(said.contains("pages/tried.html:5:") || said.contains("pages/tried.html:6:"));
    }
    // What it names is pointed at, behind an argument, too.
    let statement = "query = \"select :a::text, nme from topic\"\nargs = { a = \"'ä'\" }";
    page(
        &folder,
        "tried",
        &format!("{statement}\nrows = \"a(a, b)\""),
        "",
    );
    let said = check(&folder);
    assert!(said.contains("pages/tried.html:5:27: error"), "{said}");
    // A mistake does not keep a site from being served while nobody can tell of it.
    database.kill();
    let said = check(&folder);
    let told = format!(
        "cannot be checked: 127.0.0.1:{} cannot be reached",
        database.port
    );
    assert!(said.contains(&told) && said.contains("warning"), "{said}");
    assert!(said.contains("hint: start it, or mend `url`"), "{said}");
    let server = Server::start(&folder, &[]);
    assert!(matches!(get(&server, "/").0, 502 | 503));
    database.start_again();
    until(&server, "/", 200);
}

#[test]
fn look_ups_that_are_asked_as_one_answer_each_as_if_it_were_alone() {
    let database = Database::start("pg_merged", &[]);
    database.carry_out(TABLES);
    database.carry_out(
        "insert into note(topic, author, text)
             select 1 + n % 3, 'author ' || n, n || ' \"quoted\" {a,b} \\'
             from generate_series(1, 60) n;
         create table day (day date primary key, name text);
         insert into day select date '2026-01-01' + n, 'day ' || n from generate_series(0, 40) n;
         create domain word as text check (value <> 'no');
         create table known (word word primary key, id int);
         insert into known select 'w' || n, n from generate_series(0, 40) n;",
    );
    let folder = site("pg_merged", &database.url(), "");
    // What is asked, and whether the statement can be merged.
    let statements = [
        (
            "notes",
            true,
            "select id, text from note where topic = :id % 3 + 1 order by id desc limit 4",
        ),
        (
            "limit",
            true,
            "select id, author from note where id > :id order by id limit :id % 3;",
        ),
        (
            "alias",
            true,
            "select merged.id, merged.text from note as merged, (select 5 as a1) m \
             where merged.id = :id and m.a1 = 5",
        ),
        (
            "words",
            true,
            "select :id + 1, :word || ' \\ \"' || :word -- all\n",
        ),
        (
            "days",
            true,
            "with d as (select * from day) select 1, name from d where day = :word",
        ),
        ("zero", true, "select 10 / (:id - 7), :word::text"),
        (
            "known",
            false,
            "select id, word from known where word = :word::word",
        ),
    ];
    for (name, _, statement) in statements {
        for merge in [true, false] {
            let statement = statement.replace('\\', "\\\\");
            let page = format!(
                "+++\nroute = \"GET /{name}/{merge}\"\n[params]\n\
                 id = {{ in = \"query\", type = \"int\" }}\n\
                 word = {{ in = \"query\", type = \"text\" }}\n[[step]]\ncall = \"board\"\n\
                 query = \"\"\"{statement}\"\"\"\nrows = \"found(a:int, b)\"\nmerge = {merge}\n\
                 +++\n{{% for f in found %}}[{{{{ f.a }}}} {{{{ f.b }}}}]{{% endfor %}}"
            );
            fs::write(folder.join(format!("pages/{name}_{merge}.html")), page).unwrap();
        }
    }
    // All that are sent together are one cohort.
    let server = Server::start(
        &folder,
        &["--cohort-policy", "fixed", "--cohort-delay", "50ms"],
    );
    let merged = || {
        let (_, figures) = server.ask_admin("/metrics");
        let of_board = "rhythm_backend_merged_total{backend=\"board\"} ";
        let count = figures.lines().find_map(|line| line.strip_prefix(of_board));
        count.expect("it is counted").parse::<u64>().unwrap()
    };
    let words = [
        "2026-01-05",
        "2026-01-31",
        "w3",
        "a\"b\\,{}",
        "",
        "null",
        "\u{e9}",
        "2026-13-01",
    ];
    let mut client = server.client();
    let mut ask = |path: &str, from: usize| -> Vec<(u16, String)> {
        let asked = (from..from + 70).map(|id| {
            let word: String = (words[id % words.len()].bytes())
                .map(|byte| format!("%{byte:02X}"))
                .collect();
            format!("GET {path}?id={id}&word={word} HTTP/1.1\r\nHost: h\r\n\r\n")
        });
        client.send(&asked.collect::<String>()).unwrap();
        let answers = (0..70).map(|_| client.answer().unwrap());
        answers.map(|answer| (answer.status, answer.body)).collect()
    };
    for (name, is_merged, _) in statements {
        let before = merged();
        for from in [0, 30, 60] {
            // Prepared for a page that merges nothing, it is known for one that does.
            let [alone, as_one] = [false, true].map(|merge| ask(&format!("/{name}/{merge}"), from));
            for (id, (as_one, alone)) in as_one.iter().zip(&alone).enumerate() {
                match alone {
                    (200, _) => assert_eq!(as_one, alone, "{name} {}", from + id),
                    (status, _) => assert_eq!(as_one.0, *status, "{name} {}", from + id),
                }
            }
            assert!(alone.iter().any(|(status, _)| *status == 200), "{name}");
        }
        assert_eq!(merged() > before, is_merged, "{name}");
    }
}
