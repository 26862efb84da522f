//! A host over real sockets: answers later, in pieces, from another thread, to clients that read
//! slowly or go away; content in pieces.

mod running;
mod toy;

use running::*;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::time::Duration;
use toy::*;

#[test]
fn answers_given_later_and_in_any_order_go_out_in_turn() {
    let server = Running::start();
    let mut client = server.connect();
    let requests = [
        get("/later", ""),
        get("/stream/9000", ""),
        get("/later", ""),
        get("/now", LAST),
    ];
    client.write_all(requests.concat().as_bytes()).unwrap();
    // The stream is ready before its turn.
    eventually("the stream is made", || {
        server.seen.appended.load(Ordering::Relaxed) == 9000
    });
    server.answer_later();
    let mut answers = String::new();
    client.read_to_string(&mut answers).unwrap();
    let (head, rest) = answers.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nDate: "));
    let rest = rest.strip_prefix("later 0").unwrap();
    // It is whole before anything of it is sent.
    let (head, rest) = rest.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("\r\nContent-Length:       9000\r\n"),
        "{head}"
    );
    let rest = rest.strip_prefix(&"x".repeat(9000)).unwrap();
    let (_, rest) = rest.split_once("\r\n\r\n").unwrap();
    let rest = rest.strip_prefix("later 2").unwrap();
    assert!(rest.contains("Content-Length: 0\r\nConnection: close\r\n"));
    assert!(rest.ends_with("\r\n\r\n"));
}

#[test]
fn an_answer_is_given_once_whatever_a_host_does() {
    let server = Running::start();
    // In its turn, and early.
    for before in ["/now", "/later"] {
        let mut client = server.connect();
        let requests = [
            get(before, ""),
            get("/twice", ""),
            get("/twice", ""),
            get("/now", LAST),
        ];
        client.write_all(requests.concat().as_bytes()).unwrap();
        let answers = server.read_all(&mut client);
        assert_eq!(
            answers.matches("HTTP/1.1 200 OK\r\n").count(),
            4,
            "{answers}"
        );
        assert_eq!(answers.matches("\r\n\r\nonce").count(), 2, "{answers}");
        assert!(!answers.contains("again") && !answers.contains(" 500 "));
    }
}

#[test]
fn an_error_in_the_middle_of_a_body_ends_the_connection_there() {
    let server = Running::start();
    for before in ["/now", "/later"] {
        let mut client = server.connect();
        let requests = [get(before, ""), get("/broken", ""), get("/now", "")];
        client.write_all(requests.concat().as_bytes()).unwrap();
        let answers = server.read_all(&mut client);
        assert!(answers.matches("HTTP/1.1").count() <= 2, "{answers}");
        assert!(
            !answers.contains("502") && !answers.contains("whole"),
            "{answers}"
        );
        assert!(!answers.ends_with("0\r\n\r\n"), "it looks finished");
    }
}

#[test]
fn a_body_of_unknown_length_is_told_by_it_or_comes_in_chunks() {
    let server = Running::start();
    // At once: 100 bytes lie in the outbox when they are all there, 200 KB do not.
    // Early: 200 KB have to wait for room, and are not whole when their turn comes.
    for (before, length) in [
        ("/now", 100),
        ("/now", 200_000),
        ("/later", 100),
        ("/later", 200_000),
    ] {
        let mut client = server.connect();
        let asked = server.seen.appended.load(Ordering::Relaxed);
        let requests = [
            get(before, ""),
            get(&format!("/stream/{length}"), ""),
            get(&format!("/stream/{length}"), ""),
            get("/now", LAST),
        ];
        client.write_all(requests.concat().as_bytes()).unwrap();
        eventually("the streams are made, or wait", || {
            let made = server.seen.appended.load(Ordering::Relaxed) - asked;
            // The second is not begun while the first is as much as a connection may have unsent.
            made >= (2 * length).min(UNSENT_MAX as u64)
        });
        server.answer_later();
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        let (_, mut rest) = answers.split_once("\r\n\r\n").unwrap();
        rest = rest.strip_prefix("later 0").unwrap_or(rest);
        for _ in 0..2 {
            let (head, after) = rest.split_once("\r\n\r\n").unwrap();
            let body;
            if length == 100 {
                assert!(
                    head.contains("\r\nContent-Length:        100\r\n"),
                    "{head}"
                );
                assert!(!head.contains("Transfer-Encoding"), "{head}");
                (body, rest) = (after[..100].to_owned(), &after[100..]);
            } else {
                assert!(
                    head.contains("\r\nTransfer-Encoding: chunked\r\n"),
                    "{head}"
                );
                assert!(!head.contains("Content-Length"), "{head}");
                (body, rest) = unchunked(after);
            }
            assert!(body == "x".repeat(length as usize), "{before} {length}");
        }
        assert!(
            rest.starts_with("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"),
            "{rest}"
        );
    }
}

#[test]
fn a_stream_waits_for_a_client_that_reads_slowly() {
    const LENGTH: usize = 32 << 20;
    let server = Running::start();
    let mut client = server.connect();
    let path = format!("/counted/{LENGTH}");
    client.write_all(get(&path, LAST).as_bytes()).unwrap();
    eventually("it has to wait", || {
        server.seen.waits.load(Ordering::Relaxed) > 0
    });
    // Between two looks nothing is read, so nothing more is made.
    let made = || server.seen.appended.load(Ordering::Relaxed) as usize;
    let mut before = made();
    eventually("it stands still", || {
        std::thread::sleep(Duration::from_millis(50));
        let now = made();
        let stands = now == before;
        stands || now > LENGTH
    });
    before = made();
    assert!(before < LENGTH / 2, "{before} bytes wait for nobody");
    let mut read = 0;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match client.read(&mut buffer).unwrap() {
            0 => break,
            length => read += length,
        }
        assert!(made() <= read + before + UNSENT_MAX + (8 << 20));
    }
    assert!(read > LENGTH && read < LENGTH + 200, "{read}");
    assert_eq!(made(), LENGTH);
}

#[test]
fn a_host_is_told_that_a_client_has_gone() {
    let server = Running::start();
    let gone = || server.seen.gone.load(Ordering::Relaxed);
    let mut stream = server.connect();
    let request = get("/counted/99999999", "");
    stream.write_all(request.as_bytes()).unwrap();
    eventually("it has to wait", || {
        server.seen.waits.load(Ordering::Relaxed) > 0
    });
    drop(stream);
    eventually("the stream's client is gone", || gone() == 1);
    let mut upload = server.connect();
    let head = "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc";
    upload.write_all(head.as_bytes()).unwrap();
    eventually("content came", || {
        server.seen.content.load(Ordering::Relaxed) == 3
    });
    upload.shutdown(Shutdown::Write).unwrap();
    eventually("the upload's client is gone", || gone() == 2);
    // What is answered to nobody harms nobody.
    server.answer_later();
    assert!(server.talk(&get("/now", LAST)).starts_with("HTTP/1.1 200"));
}

#[test]
fn bodies_are_framed_as_the_client_can_read_them() {
    let server = Running::start();
    let old = server.talk("GET /stream/5000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let (head, body) = old.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\nConnection: close\r\n"), "{head}");
    assert!(!head.contains("Transfer-Encoding") && !head.contains("Content-Length"));
    assert_eq!(body.len(), 5000);
    let head_only = server.talk(&format!(
        "HEAD /counted/70 HTTP/1.1\r\nHost: x\r\n\r\n\
         HEAD /stream/70 HTTP/1.1\r\nHost: x\r\n{LAST}\r\n"
    ));
    assert!(head_only.contains("Content-Length: 70\r\n"), "{head_only}");
    assert!(head_only.contains("Transfer-Encoding: chunked\r\n"));
    assert!(!head_only.contains('x'), "{head_only}");
    // Nothing tells a client that a body ends too soon but the connection's end.
    let short = server.talk(&format!("{}{}", get("/short", ""), get("/now", "")));
    assert!(short.contains("Content-Length: 10\r\n") && short.ends_with("\r\n\r\nshort"));
    // One that is too long cannot be taken back, but no byte beyond what was said is sent.
    let long = server.talk(&format!("{}{}", get("/long", ""), get("/now", "")));
    assert!(long.contains("Content-Length: 10\r\n") && long.ends_with("\r\n\r\nas long as"));
    // Before its turn as in it: the answer before it still comes.
    let mut behind = server.connect();
    let both = [get("/later", ""), get("/long", ""), get("/now", "")].concat();
    behind.write_all(both.as_bytes()).unwrap();
    eventually("both are asked", || {
        server.seen.long.load(Ordering::Relaxed) == 2
    });
    server.answer_later();
    let mut answers = Vec::new();
    let _ = behind.read_to_end(&mut answers);
    assert!(answers.ends_with(b"later 0"), "{answers:?}");
    let dropped = server.talk(&format!("{}{}", get("/now", ""), get("/drop", "")));
    assert_eq!(dropped.matches("HTTP/1.1").count(), 1, "{dropped}");
}

#[test]
fn content_comes_in_pieces_and_waits_for_its_host() {
    let server = Running::start();
    for path in ["/upload", "/slow"] {
        let length = 300_000;
        let content = "y".repeat(length);
        let counted =
            format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{content}");
        let chunked = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
            format!("3e8\r\n{}\r\n", &content[..1000]).repeat(300)
        );
        let answers = server.talk(&format!("{counted}{chunked}{}", get("/now", LAST)));
        assert_eq!(answers.matches("\r\n\r\n300000").count(), 2, "{answers}");
        assert_eq!(answers.matches("HTTP/1.1 200").count(), 3);
    }
    let asked = server.talk(&format!(
        "POST /now HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n{LAST}\r\nab"
    ));
    // Its content is there already.
    assert!(
        asked.starts_with("HTTP/1.1 200") && asked.ends_with("ab"),
        "{asked}"
    );
    // Content that is collected is bounded, that in pieces is not.
    let large = server.talk("POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
    assert!(large.starts_with("HTTP/1.1 413"), "{large}");
    let malformed =
        server.talk("POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    assert_eq!(malformed, "");
}

#[test]
fn an_answer_before_its_content_ends_the_connection() {
    let server = Running::start();
    let head = "POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nGET /now HTTP/1.1\r\n";
    let answer = server.talk(head);
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1);
    assert!(answer.contains("<p>Not &lt;you&gt;.</p>"));
}

#[test]
fn nobody_is_asked_for_content_when_the_answer_is_there() {
    let server = Running::start();
    let mut client = server.connect();
    let requests = format!(
        "GET /later HTTP/1.1\r\nHost: x\r\n\r\n\
        POST /later HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n{LAST}\r\n"
    );
    client.write_all(requests.as_bytes()).unwrap();
    // The last is answered first, and waits for its turn.
    let answers = server.read_all(&mut client);
    let [first, second] = ["later 0", "later 1"].map(|text| answers.find(text).expect(text));
    assert!(first < second, "{answers}");
    assert!(!answers.contains("100 Continue"), "{answers}");
}
