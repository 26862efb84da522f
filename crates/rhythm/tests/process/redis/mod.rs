//! A site on Redis: what is typed is a value, replies are rows, and what stands in the server's
//! way, or ends it, costs no more than it must.
//!
//! Needs Debian's `redis-server`; each test has one of its own.

mod keeper;

use super::server::{NEVER, Server};
use super::site::{Site, check, until};
use super::sqlite::{get, post};
pub(crate) use keeper::Keeper;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// A site on this server.
fn site(test: &str, url: &str, settings: &str) -> Site {
    Site::new(
        test,
        &format!("kind = \"redis\"\nurl = \"{url}\"\n{settings}"),
    )
}

#[test]
fn what_is_typed_is_a_part_of_its_word() {
    let keeper = Keeper::start("redis_typed", &[]);
    for (test, url) in [
        ("redis_typed", keeper.url()),
        ("redis_typed_socket", format!("{}/1", keeper.socket_url())),
    ] {
        let site = site(test, &url, "");
        site.form(
            "keep",
            "command = [\"HSET\", \"of:{{ name }}\", \"text\", \"{{ text }}\"]\n\
             row = \"kept(count:int)\"",
            "{{ kept.count }}",
        );
        site.form(
            "shown",
            "command = [\"HGET\", \"of:{{ name }}\", \"text\"]\nrows = \"texts(text)\"",
            "{% for t in texts %}[{{ t.text }}]{% endfor %}",
        );
        let server = Server::start(&site.folder, &[]);
        let mut client = server.client();
        // Percent-encoded: ends of lines, a second command, blanks, a quote, a letter that is none
        // of ASCII, and what a reply looks like.
        for (name, text, shown) in [
            (
                "a+b",
                "%0D%0A*1%0D%0A%248%0D%0AFLUSHALL%0D%0A",
                "\r\n*1\r\n$8\r\nFLUSHALL\r\n",
            ),
            (
                "%22%0D%0AFLUSHALL%0D%0A",
                "%22%27+%C3%A9",
                "&quot;&#x27; \u{e9}",
            ),
            ("", "-ERR", "-ERR"),
        ] {
            let form = format!("name={name}&text={text}");
            for count in ["1", "0"] {
                let answer = client.ask("POST", "/keep", &form).unwrap();
                assert_eq!((answer.status, &*answer.body), (200, count), "{form}");
            }
            let answer = client.ask("POST", "/shown", &form).unwrap();
            assert_eq!(answer.body, format!("[{shown}]"));
        }
        let answer = client.ask("POST", "/shown", "name=nobody&text=").unwrap();
        assert_eq!((answer.status, &*answer.body), (200, ""));
    }
    // In either database.
    let text = "\r\n*1\r\n$8\r\nFLUSHALL";
    assert_eq!(keeper.ask(&["DBSIZE"]), "3");
    assert_eq!(keeper.ask(&["HGET", "of:a b", "text"]), text);
    assert_eq!(keeper.ask(&["-n", "1", "HGET", "of:a b", "text"]), text);
}

#[test]
fn replies_of_all_types_are_rows() {
    let keeper = Keeper::start("redis_types", &[]);
    for words in [
        "HSET user name Ada born 1815",
        "RPUSH list a b c",
        "ZADD top 7 seven 2.5 half",
        "SADD set one",
        "SET number 42",
    ] {
        keeper.ask(&words.split(' ').collect::<Vec<_>>());
    }
    keeper.ask(&["XADD", "stream", "1-1", "field", "value"]);
    let site = site("redis_types", &keeper.url(), "");
    let script = "redis.setresp(3) return {7, 'text', {double=2.5}, true, {map={k='v'}}, \
                  {big_number='123456789012345678901'}, \
                  {verbatim_string={string='plain', format='txt'}}, false}";
    let pages: &[(&str, String, &str, &str, &str)] = &[
        (
            "map",
            "\"HGETALL\", \"user\"".into(),
            "rows = \"r(a, b)\"",
            "{{ r.a }}={{ r.b }};",
            "name=Ada;born=1815;",
        ),
        (
            "list",
            "\"LRANGE\", \"list\", 0, -1".into(),
            "rows = \"r(a)\"",
            "{{ r.a }};",
            "a;b;c;",
        ),
        (
            "scores",
            "\"ZRANGE\", \"top\", 0, 9, \"WITHSCORES\"".into(),
            "rows = \"r(a, b)\"",
            "{{ r.a }} {{ r.b }};",
            "half 2.5;seven 7;",
        ),
        (
            "score",
            "\"ZRANGE\", \"top\", 1, 1, \"WITHSCORES\"".into(),
            "rows = \"r(a, b:int)\"",
            "{{ r.a }} {{ r.b + 1 }};",
            "seven 8;",
        ),
        (
            "set",
            "\"SMEMBERS\", \"set\"".into(),
            "rows = \"r(a)\"",
            "{{ r.a }};",
            "one;",
        ),
        (
            "int",
            "\"GET\", \"number\"".into(),
            "rows = \"r(a:int)\"",
            "{{ r.a + 1 }};",
            "43;",
        ),
        (
            "none",
            "\"GET\", \"nothing\"".into(),
            "rows = \"r(a)\"",
            "{{ r.a }};",
            "",
        ),
        (
            "nulls",
            "\"MGET\", \"number\", \"nothing\"".into(),
            "rows = \"r(a)\"",
            "{{ r.a }};",
            "42;;",
        ),
        (
            "stream",
            "\"XRANGE\", \"stream\", \"-\", \"+\"".into(),
            "rows = \"r(a, b, c)\"",
            "{{ r.a }} {{ r.b }} {{ r.c }};",
            "1-1 field value;",
        ),
        (
            "scripted",
            format!("\"EVAL_RO\", \"{script}\", 0"),
            "row = \"r(a:int, b, c, d:int, e, f, g, h, i:int)\"",
            "{{ r.a }} {{ r.b }} {{ r.c }} {{ r.d }} {{ r.e }} {{ r.f }} {{ r.g }} {{ r.h }} \
             {{ r.i }}",
            "7 text 2.5 1 k v 123456789012345678901 plain 0",
        ),
    ];
    for (name, words, result, body, _) in pages {
        let body = match result.starts_with("rows") {
            true => format!("{{% for r in r %}}{body}{{% endfor %}}"),
            false => (*body).to_owned(),
        };
        site.page(name, &format!("command = [{words}]\n{result}"), &body);
    }
    let row = "command = [\"HMGET\", \"user\", \"name\", \"none\", \"born\"]\n\
               row = \"r(name, none, born:int)\"";
    site.page("row", row, "{{ r.name }} {{ r.none }} {{ r.born }}");
    let server = Server::start(&site.folder, &[]);
    for (name, _, _, _, expected) in pages {
        let (status, body) = get(&server, &format!("/{name}"));
        assert_eq!(
            (status, body.trim_end()),
            (200, expected.trim_end()),
            "{name}"
        );
    }
    assert_eq!(get(&server, "/row"), (200, "Ada  1815".to_owned()));
}

#[test]
fn what_cannot_be_done_says_whose_doing_it_is() {
    let keeper = Keeper::start("redis_rules", &[]);
    keeper.ask(&["SET", "text", "seven"]);
    let site = site("redis_rules", &keeper.url(), "");
    let raised = "[\"EVAL\", \"return redis.error_reply('SOLDOUT none left')\", 0]";
    for (name, command, result) in [
        ("counts", "[\"INCR\", \"text\"]", "row = \"a(n:int)\""),
        (
            "types",
            "[\"LPUSH\", \"text\", \"x\"]",
            "row = \"a(n:int)\"",
        ),
        ("raises", raised, "row = \"a(n:int)\""),
        ("reads", "[\"LRANGE\", \"text\", 0, 9]", "rows = \"a(n)\""),
        (
            "wrong",
            "[\"SET\", \"a\", \"b\", \"XX\", \"NX\"]",
            "row = \"a(n)\"",
        ),
    ] {
        site.page(
            name,
            &format!("command = {command}\n{result}"),
            "{{ a.status }}",
        );
    }
    site.page("unseen", "command = [\"INCR\", \"text\"]", "done");
    site.page("well", "command = [\"INCR\", \"number\"]", "done");
    site.page(
        "read",
        "command = [\"GET\", \"text\"]\nrow = \"a(n)\"",
        "{{ a.n }}",
    );
    let server = Server::start(&site.folder, &[]);
    for _ in 0..3 {
        for page in ["/counts", "/types", "/raises"] {
            assert_eq!(get(&server, page), (200, "1".to_owned()), "{page}");
        }
        for page in ["/reads", "/wrong", "/unseen"] {
            assert_eq!(get(&server, page).0, 502, "{page}");
        }
        assert_eq!(get(&server, "/well"), (200, "done".to_owned()));
    }
    assert_eq!(keeper.ask(&["GET", "number"]), "3");
    let said = server.said("a statement failed")["fields"].to_string();
    assert!(
        said.contains("LRANGE text 0 9") && said.contains("WRONGTYPE"),
        "{said}"
    );
    // It only reads from now on.
    keeper.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(get(&server, "/well").0, 502);
    assert_eq!(get(&server, "/read"), (200, "seven".to_owned()));
    keeper.ask(&["REPLICAOF", "NO", "ONE"]);
    until(&server, "/well", 200);
}

#[test]
fn what_was_answered_is_there_after_the_server_was_killed() {
    let mut keeper = Keeper::start("redis_kill", &[]);
    let site = site("redis_kill", &keeper.url(), "");
    site.form(
        "add",
        "command = [\"RPUSH\", \"names\", \"{{ name }}\"]\nrow = \"a(n:int)\"",
        "{{ a.n }}",
    );
    site.page(
        "all",
        "command = [\"LLEN\", \"names\"]\nrow = \"a(n:int)\"",
        "{{ a.n }}",
    );
    let server = Server::start(&site.folder, &[]);
    let (written, failed, over) = (
        Mutex::new(BTreeSet::new()),
        Mutex::new(0),
        Mutex::new(false),
    );
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
                    let form = format!("name={name}&text=");
                    match post(&mut client, "/add", &form).expect("the server is not killed") {
                        200 => assert!(written.lock().unwrap().insert(name)),
                        502..=504 => {
                            *failed.lock().unwrap() += 1;
                            thread::sleep(Duration::from_millis(10));
                        }
                        status => panic!("{status}"),
                    }
                }
            });
        }
        for _ in 0..3 {
            let enough = written.lock().unwrap().len() + 200;
            let start = Instant::now();
            while written.lock().unwrap().len() < enough {
                assert!(start.elapsed() < NEVER, "too few are answered");
                thread::sleep(Duration::from_millis(1));
            }
            keeper.kill();
            keeper.start_again();
        }
        *over.lock().unwrap() = true;
    });
    assert!(failed.into_inner().unwrap() > 0, "it was killed under load");
    until(&server, "/all", 200);
    let all = keeper.ask(&["LRANGE", "names", "0", "-1"]);
    let all: Vec<String> = all.lines().map(str::to_owned).collect();
    let once: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(all.len(), once.len(), "each was added once");
    let written = written.into_inner().unwrap();
    let lost: Vec<_> = written.difference(&once).collect();
    assert!(lost.is_empty(), "{lost:?} were answered and are lost");
}

#[test]
fn a_server_that_stands_still_costs_no_more_than_the_time_that_is_given() {
    let keeper = Keeper::start("redis_slow", &[]);
    let site = site("redis_slow", &keeper.url(), "timeout = \"300ms\"\n");
    site.page(
        "count",
        "command = [\"INCR\", \"number\"]\nrow = \"a(n:int)\"",
        "{{ a.n }}",
    );
    site.page(
        "ping",
        "command = [\"PING\"]\nrow = \"a(text)\"",
        "{{ a.text }}",
    );
    let server = Server::start(&site.folder, &[]);
    assert_eq!(get(&server, "/ping"), (200, "PONG".to_owned()));
    let sleeping = keeper.sleep("6");
    let start = Instant::now();
    let mut failed = 0;
    while start.elapsed() < NEVER && failed == 0 {
        let asked = Instant::now();
        let (status, _) = get(&server, "/ping");
        assert!(
            asked.elapsed() < Duration::from_secs(3),
            "{:?}",
            asked.elapsed()
        );
        assert!(matches!(status, 200 | 502..=504), "{status}");
        failed += usize::from(status != 200);
    }
    assert!(matches!(get(&server, "/count").0, 502..=504));
    until(&server, "/ping", 200);
    drop(sleeping);
    until(&server, "/count", 200);
}

#[test]
fn big_values_are_read_to_a_bound_and_then_none() {
    let keeper = Keeper::start("redis_big", &[]);
    for (name, length) in [("half", "500000"), ("twice", "2000000")] {
        keeper.ask(&["SETRANGE", name, length, "x"]);
    }
    let fill = "for i = 1, 5000 do redis.call('RPUSH', KEYS[1], i) end";
    keeper.ask(&["EVAL", fill, "1", "many"]);
    let site = site("redis_big", &keeper.url(), "");
    for name in ["half", "twice"] {
        let step = format!("command = [\"GET\", \"{name}\"]\nrows = \"a(text)\"");
        site.page(
            name,
            &step,
            "{% for r in a %}{{ r.text|length }}{% endfor %}",
        );
    }
    for (name, last) in [("all", -1), ("some", 4095)] {
        let step = format!("command = [\"LRANGE\", \"many\", 0, {last}]\nrows = \"a(text)\"");
        site.page(name, &step, "{{ a|length }}");
    }
    site.form(
        "set",
        "command = [\"SET\", \"{{ name }}\", \"{{ text }}\"]",
        "done",
    );
    let server = Server::start(&site.folder, &[]);
    for _ in 0..3 {
        assert_eq!(get(&server, "/half"), (200, "500001".to_owned()));
        assert_eq!(get(&server, "/twice").0, 502);
        assert_eq!(get(&server, "/some"), (200, "4096".to_owned()));
        assert_eq!(get(&server, "/all").0, 502);
        let form = format!("name=a&text={}", "x".repeat(20_000));
        assert_eq!(post(&mut server.client(), "/set", &form).unwrap(), 500);
    }
    let said = server.said("a statement failed")["fields"].to_string();
    assert!(said.contains("more than 1 MiB"), "{said}");
}

#[test]
fn a_server_that_refuses_is_told_of_with_what_helps() {
    let keeper = Keeper::start("redis_refuses", &["--requirepass", "a secret"]);
    let site = site(
        "redis_refuses",
        &keeper.url(),
        "password_file = \"password\"\n",
    );
    site.page(
        "ping",
        "command = [\"PING\"]\nrow = \"a(text)\"",
        "{{ a.text }}",
    );
    site.write("password", "guessed");
    let server = Server::start(&site.folder, &[]);
    assert_eq!(get(&server, "/ping").0, 502);
    let said = server.said("refuses connections")["fields"].to_string();
    assert!(
        said.contains("WRONGPASS") && said.contains("password_file"),
        "{said}"
    );
    assert!(!said.contains("guessed"), "{said}");
    assert!(!server.ask_admin("/config").1.contains("guessed"));
    // It is read again with the site.
    site.write("password", "a secret\n");
    server.signal(rustix::process::Signal::HUP);
    server.said("is reloaded");
    until(&server, "/ping", 200);
    drop(server);
    for (settings, told) in [
        ("", "NOAUTH"),
        ("password_file = \"password\"\n", "DB index is out of range"),
    ] {
        let url = format!("{}/99", keeper.url());
        let site = self::site("redis_refuses_more", &url, settings);
        site.write("password", "a secret");
        site.page(
            "ping",
            "command = [\"PING\"]\nrow = \"a(text)\"",
            "{{ a.text }}",
        );
        let server = Server::start(&site.folder, &[]);
        assert_eq!(get(&server, "/ping").0, 502);
        let said = server.said("refuses connections")["fields"].to_string();
        assert!(said.contains(told), "{said}");
    }
}

#[test]
fn a_server_of_before_version_6_is_told_of() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = socket.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for stream in socket.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let mut bytes = [0; 1024];
                while let Ok(1..) = stream.read(&mut bytes) {
                    let _ = stream.write_all(b"-ERR unknown command `HELLO`, with args\r\n");
                }
            });
        }
    });
    let site = site("redis_old", &format!("redis://127.0.0.1:{port}"), "");
    site.page(
        "ping",
        "command = [\"PING\"]\nrow = \"a(text)\"",
        "{{ a.text }}",
    );
    let server = Server::start(&site.folder, &[]);
    assert_eq!(get(&server, "/ping").0, 502);
    let said = server.said("refuses connections")["fields"].to_string();
    assert!(said.contains("use Redis 6 or a later one"), "{said}");
}

#[test]
fn commands_are_checked_where_they_stand() {
    let mut keeper = Keeper::start("redis_check", &[]);
    let site = site("redis_check", &keeper.url(), "");
    site.page(
        "ping",
        "command = [\"PING\"]\nrow = \"a(text)\"",
        "{{ a.text }}",
    );
    for (command, told) in [
        (
            "[\"SUBSCRIBE\", \"a\"]",
            "SUBSCRIBE makes a connection one that is told of things",
        ),
        ("[\"multi\"]", "MULTI goes over several steps"),
        (
            "[\"XREAD\", \"BLOCK\", 0, \"STREAMS\", \"a\", 0]",
            "XREAD waits",
        ),
        (
            "[\"{% raw %}{{{% endraw %}\"]",
            "the server knows no command {{",
        ),
        ("[\"GET a\"]", "the server knows no command GET A"),
        (
            "[\"GET\", \"a\", \"b\"]",
            "GET has 2 words with its name, not 3",
        ),
        (
            "[\"HSET\", \"a\"]",
            "HSET has at least 4 words with its name, not 2",
        ),
    ] {
        site.page(
            "tried",
            &format!("command = {command}\nrows = \"a(a)\""),
            "",
        );
        let said = check(&site.folder);
        assert!(said.contains(told), "{command}: {said}");
        assert!(said.contains("pages/tried.html:5:13: error"), "{said}");
    }
    // A mistake does not keep a site from being served while nobody can tell of it.
    site.page("tried", "command = [\"GOT\", \"a\"]\nrows = \"a(a)\"", "");
    keeper.kill();
    let said = check(&site.folder);
    assert!(
        said.contains("cannot be checked") && said.contains("warning"),
        "{said}"
    );
    let server = Server::start(&site.folder, &[]);
    assert!(matches!(get(&server, "/ping").0, 502 | 503));
    keeper.start_again();
    until(&server, "/ping", 200);
    assert_eq!(get(&server, "/tried").0, 502);
}

#[test]
fn reads_of_a_cohort_that_are_the_same_are_one() {
    let keeper = Keeper::start("redis_shared", &[]);
    let site = site("redis_shared", &keeper.url(), "");
    site.page(
        "read",
        "command = [\"get\", \"number\"]\nrows = \"a(n)\"",
        "{{ a|length }}",
    );
    site.page(
        "add",
        "command = [\"INCR\", \"number\"]\nrow = \"a(n)\"",
        "{{ a.n }}",
    );
    let flags = ["--cohort-policy", "fixed", "--cohort-delay", "50ms"];
    let server = Server::start(&site.folder, &flags);
    let mut client = server.client();
    let mut ask = |path: &str| -> BTreeSet<String> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        client.send(&request.repeat(64)).expect("it reads");
        (0..64)
            .map(|_| client.answer().expect("an answer").body)
            .collect()
    };
    assert_eq!(ask("/add").len(), 64, "each is done");
    assert_eq!(ask("/read"), BTreeSet::from(["1".to_owned()]));
    let stats = keeper.ask(&["INFO", "commandstats"]);
    let calls = |name: &str| -> usize {
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .expect("it was asked");
        line.split(',').next().unwrap().parse().expect("a number")
    };
    assert_eq!(calls("cmdstat_incr:calls="), 64);
    assert!(calls("cmdstat_get:calls=") < 8, "{stats}");
}

#[test]
fn look_ups_by_keys_that_differ_are_one_and_answered_as_each_is() {
    let keeper = Keeper::start("redis_merged", &[]);
    let site = site("redis_merged", &keeper.url(), "");
    for merge in [true, false] {
        let page = format!(
            "+++\nroute = \"GET /{merge}/{{id}}\"\n[params]\nid = {{ in = \"path\", type = \
             \"text\" }}\n[[step]]\ncall = \"asked\"\ncommand = [\"Get\", \"item:{{{{ id }}}}\"]\n\
             rows = \"found(text)\"\nmerge = {merge}\n+++\n\
             {{% for f in found %}}[{{{{ f.text }}}}]{{% endfor %}}"
        );
        site.write(&format!("pages/{merge}.html"), &page);
    }
    for id in 0..60 {
        let text = format!("{id}: ' \" \\ \r\n \u{e9}");
        keeper.ask(&["SET", &format!("item:{id}"), &text]);
    }
    keeper.ask(&["RPUSH", "item:list", "a"]);
    let flags = ["--cohort-policy", "fixed", "--cohort-delay", "50ms"];
    let server = Server::start(&site.folder, &flags);
    let mut client = server.client();
    let mut ask = |merge: bool, ids: &[String]| -> Vec<(u16, String)> {
        let request = |id: &String| format!("GET /{merge}/{id} HTTP/1.1\r\nHost: h\r\n\r\n");
        client
            .send(&ids.iter().map(request).collect::<String>())
            .expect("it reads");
        let answers = ids.iter().map(|_| client.answer().expect("an answer"));
        answers.map(|answer| (answer.status, answer.body)).collect()
    };
    // Some have no value, and one another kind of it.
    let ids: Vec<String> = (0..64).map(|id| id.to_string()).collect();
    let with_list = [&ids[..20], &["list".to_owned()], &ids[40..]].concat();
    for ids in [&ids, &with_list, &ids, &with_list] {
        let alone = ask(false, ids);
        assert!(alone[0].0 == 200 && alone[0].1.starts_with("[0: &#x27;"));
        assert_eq!(ask(true, ids), alone);
    }
    assert_eq!(ask(true, &["list".to_owned()])[0].0, 502);
    let stats = keeper.ask(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_mget:calls="), "{stats}");
    let (_, figures) = server.ask_admin("/metrics");
    let merged = "rhythm_backend_merged_total{backend=\"asked\"} ";
    let merged = figures.lines().find_map(|line| line.strip_prefix(merged));
    assert!(merged.is_some_and(|count| count.parse::<u32>().unwrap() >= 64));
}
