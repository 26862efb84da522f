use super::*;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// A member that gives each who asks the next of these answers, status and content, and then
/// none; and what it was asked.
fn member(answers: &[(u16, &str)]) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("it has one").to_string();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    let answers = answers
        .iter()
        .map(|(status, said)| (*status, said.to_string()));
    let answers: Vec<(u16, String)> = answers.collect();
    std::thread::spawn(move || {
        for (status, said) in answers {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            let mut request = [0; 4096];
            let count = stream.read(&mut request).expect("a request");
            let request = String::from_utf8_lossy(&request[..count]);
            let path = request.split(' ').nth(1).unwrap_or_default();
            heard.lock().expect("nobody panics").push(path.to_owned());
            let length = said.len();
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{said}");
            // Who asked may have gone.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (at, asked)
}

#[test]
fn who_cannot_answer_now_is_asked_later_and_the_next_member_at_once() {
    let stopped = r#"{"code":14,"message":"etcdserver: server stopped","details":[]}"#;
    let busy = r#"{"error":"etcdserver: too many requests","code":8}"#;
    let granted = r#"{"header":{},"ID":"7"}"#;
    let (a, of_a) = member(&[(503, stopped), (200, granted)]);
    let (b, of_b) = member(&[(429, busy), (200, granted), (503, stopped)]);
    let mut etcd = Etcd::new(&format!("{a},{b}/x")).expect("a place");
    // Neither can.
    let error = etcd.grant(1).expect_err("none answers");
    assert!(
        matches!(&error, EtcdError::Silent { at, .. } if *at == b),
        "{error}"
    );
    assert!(error.to_string().contains("too many requests"), "{error}");
    assert_eq!(etcd.grant(1).expect("the first can"), 7);
    // Who answered is asked again, until it is gone.
    assert_eq!(etcd.grant(1).expect("the second can"), 7);
    let error = etcd.grant(1).expect_err("none answers");
    assert!(matches!(error, EtcdError::Silent { .. }), "{error}");
    let counts = [of_a, of_b].map(|of| of.lock().expect("nobody panics").len());
    assert_eq!(counts, [2, 3]);
}

#[test]
fn what_is_refused_is_asked_of_nobody_else() {
    let gone = r#"{"error":{"code":5,"message":"etcdserver: requested lease not found"}}"#;
    let denied = r#"{"code":7,"message":"etcdserver: permission denied","details":[]}"#;
    let full = r#"{"code":8,"message":"etcdserver: mvcc: database space exceeded"}"#;
    let answers = [
        (404, gone),
        (404, gone),
        (404, gone),
        (403, denied),
        (429, full),
        (404, "404 page not found\n"),
    ];
    let (a, _) = member(&answers);
    let (b, of_b) = member(&[]);
    let mut etcd = Etcd::new(&format!("{a},{b}/x")).expect("a place");
    assert_eq!(etcd.keep_alive(7).expect("it says so"), None);
    etcd.revoke(7).expect("it is gone");
    assert!(!etcd.create("key", "value", 7).expect("it says so"));
    let error = etcd.put("key", "value", 0).expect_err("it may not");
    assert!(matches!(&error, EtcdError::Refused { .. }), "{error}");
    assert!(
        error
            .to_string()
            .ends_with("refuses: etcdserver: permission denied")
    );
    let error = etcd.put("key", "value", 0).expect_err("there is no space");
    assert!(matches!(&error, EtcdError::NoSpace { .. }), "{error}");
    let error = etcd.get("key").expect_err("it is no etcd");
    assert!(matches!(&error, EtcdError::Refused { .. }), "{error}");
    assert!(of_b.lock().expect("nobody panics").is_empty());
}

/// Who waits rests then, and does not ask again at once.
#[test]
fn a_watch_that_ends_is_none_that_something_came_of() {
    let begun = r#"{"result":{"header":{},"created":true}}"#;
    let canceled = r#"{"result":{"canceled":true,"compact_revision":"9"}}"#;
    let event = r#"{"result":{"events":[{}]}}"#;
    let denied = r#"{"error":{"grpc_code":7,"http_code":403,"message":"permission denied"}}"#;
    let both = format!("{begun}\n{event}\n");
    let answers = [(200, begun), (200, canceled), (403, denied), (200, &*both)];
    let (at, asked) = member(&answers);
    let mut etcd = Etcd::new(&format!("{at}/x")).expect("a place");
    let mut wait = || etcd.wait(1, Duration::from_secs(60));
    let error = wait().expect_err("it ended");
    assert!(matches!(error, EtcdError::Silent { .. }), "{error}");
    let error = wait().expect_err("it was canceled");
    assert!(matches!(error, EtcdError::Silent { .. }), "{error}");
    let error = wait().expect_err("it may not");
    assert!(matches!(error, EtcdError::Refused { .. }), "{error}");
    wait().expect("something came");
    assert_eq!(asked.lock().expect("nobody panics").len(), 4);
}

/// A page that says that all is well, and an object that nobody knows, are nobody's word.
#[test]
fn what_is_done_is_said_by_etcd() {
    let (page, object) = ("<p>It works!</p>", r#"{"status":"ok"}"#);
    let (a, of_a) = member(&[(200, page), (200, object), (200, page), (200, object)]);
    let mut etcd = Etcd::new(&format!("{a}/x")).expect("a place");
    let asked = [
        etcd.put("key", "value", 0).map(drop),
        etcd.delete("key"),
        etcd.revoke(7),
        etcd.entries().map(drop),
    ];
    for error in asked.map(|asked| asked.expect_err("nobody says so")) {
        assert!(matches!(&error, EtcdError::Silent { .. }), "{error}");
    }
    assert_eq!(of_a.lock().expect("nobody panics").len(), 4);
}

/// They are of one place, whose name has them all.
#[test]
fn all_addresses_of_a_place_are_asked_whatever_the_others_say() {
    let alone = r#"{"code":14,"message":"etcdserver: no leader","details":[]}"#;
    let granted = r#"{"header":{},"ID":"7"}"#;
    let (a, of_a) = member(&[(503, alone), (503, alone)]);
    let (b, of_b) = member(&[(404, "404 page not found\n"), (404, "nothing\n")]);
    let (c, of_c) = member(&[(200, granted), (200, granted), (503, alone)]);
    let addresses = [&a, &b, &c].map(|at| at.parse().expect("an address"));
    let mut etcd = Etcd::new("localhost:1/x").expect("a place");
    etcd.servers = vec![Place::at("localhost:1", &addresses)];
    assert_eq!(etcd.grant(1).expect("the third can"), 7);
    assert_eq!(etcd.grant(1).expect("it is asked first"), 7);
    let counts = [&of_a, &of_b, &of_c].map(|of| of.lock().expect("nobody panics").len());
    assert_eq!(counts, [1, 1, 2]);
    // None can, but one may later.
    let error = etcd.grant(1).expect_err("none can");
    assert!(matches!(&error, EtcdError::Silent { .. }), "{error}");
    let counts = [&of_a, &of_b, &of_c].map(|of| of.lock().expect("nobody panics").len());
    assert_eq!(counts, [2, 2, 3]);
}

/// The system takes the connections, and nobody reads them.
#[test]
fn each_member_has_its_time_and_when_one_has_answered_all_together_have_so_much() {
    let mute = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let at = |at: &TcpListener| at.local_addr().expect("it has one").to_string();
    let [a, b, d, e] = mute.each_ref().map(at);
    let (c, _) = member(&[(200, r#"{"header":{},"ID":"7"}"#)]);
    let mut etcd = Etcd::new(&format!("{a},{b},{c},{d},{e}/x")).expect("a place");
    let begun = Instant::now();
    assert_eq!(etcd.grant(1).expect("the third can"), 7);
    assert!(begun.elapsed() >= 2 * PATIENCE, "two were asked before");
    let begun = Instant::now();
    assert!(matches!(etcd.grant(1), Err(EtcdError::Silent { .. })));
    let took = begun.elapsed();
    assert!(
        took >= PATIENCE_IN_ALL && took < 2 * PATIENCE_IN_ALL,
        "{took:?}"
    );
}

#[test]
fn places_are_servers_and_a_prefix() {
    let etcd = Etcd::new("10.0.0.1:2379,[::1]:2379/rings/a/").unwrap();
    assert_eq!(etcd.places(), ["10.0.0.1:2379", "[::1]:2379"]);
    assert_eq!(etcd.prefix(), "rings/a");
    for wrong in ["", "host:1", "host/x", "host:1/", "host:0/x", "a:1,,b:2/x"] {
        assert!(Etcd::new(wrong).is_err(), "{wrong}");
    }
}
