//! Ids of requests: whose are taken over, and who is told of them.

use crate::common::*;
use crate::servers::{Upstream, serve, value};
use std::collections::HashSet;
use std::thread::sleep;
use std::time::Duration;

const ANSWERED: &str = "[server]\nrequest_ids = \"answered\"\n";

#[test]
fn each_request_has_an_id_in_its_answer_in_the_log_and_where_it_is_asked_for() {
    let (upstream, written) = (Upstream::new(), Written::default());
    let server = serve(&upstream, ANSWERED, |_| {}, Some(written.clone()));
    let mut client = Client::new(server.local_addr());
    let mut ids = HashSet::new();
    for (path, status) in [
        ("/plain", 200),
        ("/item/7", 200),
        ("/static/a.css", 200),
        ("/static/big.bin", 200),
        ("/nothing", 404),
        ("/item/x", 400),
        ("/app/x", 200),
    ] {
        let answer = client.get(path);
        assert_eq!(answer.status, status, "{path}");
        let id = answer
            .header("x-request-id")
            .unwrap_or_else(|| panic!("none: {path}"));
        assert_eq!(id.len(), 32, "{path}: {id}");
        assert_eq!(answer.head.matches("X-Request-Id").count(), 1, "{path}");
        assert!(ids.insert(id.to_owned()), "{path}: {id} again");
        for (asked, of) in [("/items/7", "/item/7"), ("/app/x", "/app/x")] {
            if path == of {
                let heads = upstream.heads(asked);
                assert_eq!(heads.len(), 1, "{path}");
                assert_eq!(value(&heads[0], "x-request-id"), Some(id), "{heads:?}");
            }
        }
    }
    // Handed over before its content came.
    client.send("POST /app/p HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n");
    sleep(Duration::from_millis(30));
    client.send("abc");
    let answer = client.response(false);
    let id = answer.header("x-request-id").expect("an id").to_owned();
    assert_eq!(
        value(&upstream.heads("/app/p")[0], "x-request-id"),
        Some(&*id)
    );
    assert!(ids.insert(id));
    // One behind the other, in one piece: each answer has its own.
    client.send("GET /item/8 HTTP/1.1\r\nHost: x\r\n\r\nGET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
    for _ in 0..2 {
        let answer = client.response(false);
        let id = answer.header("x-request-id").expect("an id");
        assert!(ids.insert(id.to_owned()));
    }
    stop(server);
    let text = written.text();
    assert_eq!(text.lines().count(), ids.len(), "{text}");
    for line in text.lines() {
        let id = line.rsplit(' ').next().expect("words");
        assert!(ids.remove(id), "{line}");
    }
}

#[test]
fn ids_of_those_who_are_trusted_are_taken_over_and_no_others() {
    let (upstream, written) = (Upstream::new(), Written::default());
    let toml = format!("{ANSWERED}trusted_proxies = \"127.0.0.0/8\"\n");
    let trusting = serve(&upstream, &toml, |_| {}, Some(written.clone()));
    let mut client = Client::new(trusting.local_addr());
    let mut ask = |fields: &str| {
        let answer = client.with("GET /app/y", fields, "");
        answer.header("x-request-id").expect("an id").to_owned()
    };
    assert_eq!(ask("X-Request-Id: abc-1\r\n"), "abc-1");
    for fields in [
        "X-Request-Id: a\" 200 1 \"-\r\n",
        "X-Request-Id: a\\x0a\r\n",
        "X-Request-Id: \r\n",
        "X-Request-Id: a\r\nX-Request-Id: b\r\n",
        &format!("X-Request-Id: {}\r\n", "x".repeat(65)),
        "X_Request_Id: forged\r\n",
    ] {
        let id = ask(fields);
        assert!(
            id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()),
            "{fields}: {id}"
        );
    }
    stop(trusting);
    for head in upstream.heads("/app/y") {
        let told = head.to_ascii_lowercase();
        assert_eq!(told.matches("x-request-id:").count(), 1, "{head}");
        assert!(!told.contains("forged"), "{head}");
    }
    let text = written.text();
    assert_eq!(text.lines().count(), 7, "{text}");
    assert!(
        text.lines().all(|line| line.split('"').count() == 3),
        "{text}"
    );

    let wary = serve(&upstream, ANSWERED, |_| {}, None);
    let mut client = Client::new(wary.local_addr());
    let answer = client.with("GET /plain", "X-Request-Id: abc-1\r\n", "");
    assert_ne!(answer.header("x-request-id"), Some("abc-1"));
    stop(wary);
}

#[test]
fn a_pages_own_id_is_told_where_the_server_tells_none() {
    let upstream = Upstream::new();
    for (toml, is_answered, is_asked) in [
        (ANSWERED, true, true),
        ("[server]\nrequest_ids = \"logged\"\n", false, true),
        ("", false, false),
    ] {
        let server = serve(&upstream, toml, |_| {}, None);
        let mut client = Client::new(server.local_addr());
        let answer = client.get("/own");
        assert_eq!((answer.status, answer.header("x-own")), (200, Some("1")));
        let asked = upstream.heads("/own").pop().expect("it was asked");
        assert_eq!(value(&asked, "x-own"), Some("1"));
        for (head, is_ours) in [(&answer.head, is_answered), (&asked, is_asked)] {
            let told = head.to_ascii_lowercase();
            assert_eq!(told.matches("x-request-id:").count(), 1, "{head}");
            assert_eq!(told.contains("of-page"), !is_ours, "{toml}: {head}");
        }
        stop(server);
    }
}

#[test]
fn without_ids_nothing_is_told_and_what_clients_say_is_passed_on() {
    let (upstream, written) = (Upstream::new(), Written::default());
    let toml = "[server]\naccess_log_format = \"combined\"\n";
    let server = serve(&upstream, toml, |_| {}, Some(written.clone()));
    let mut client = Client::new(server.local_addr());
    let fields = "X-Request-Id: mine\r\ntraceparent: of-mine\r\nUser-Agent: a \"b\"\r\n";
    let answer = client.with("GET /app/z", fields, "");
    assert_eq!(answer.header("x-request-id"), Some("of-upstream"));
    let answer = client.with("GET /item/9", fields, "");
    assert_eq!(answer.header("x-request-id"), None);
    assert_eq!(answer.text(), "hello 9");
    let head = &upstream.heads("/app/z")[0];
    assert_eq!(value(head, "x-request-id"), Some("mine"));
    assert_eq!(value(head, "traceparent"), Some("of-mine"));
    let head = &upstream.heads("/items/9")[0];
    assert_eq!(
        (value(head, "x-request-id"), value(head, "traceparent")),
        (None, None)
    );
    stop(server);
    let text = written.text();
    for line in text.lines() {
        assert!(line.ends_with(" \"-\" \"a \\\"b\\\"\""), "{line}");
    }
    assert_eq!(text.lines().count(), 2);
}
