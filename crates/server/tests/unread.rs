//! Clients that ask and do not read: what they may have the server keep.

mod common;

use common::*;
use rhythm_server::Handle;
use std::io::ErrorKind;
use std::time::Duration;

/// Too slow.
const SHORT: Duration = Duration::from_millis(150);

/// Requests of each, of a page of 800 KB.
const PIPELINED: usize = 64;

fn ask(client: &mut Client) {
    client.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n".repeat(PIPELINED));
}

/// Bytes that connections hold, connections open and those that gave way.
fn figures(server: &Handle) -> [u64; 3] {
    let metrics = server.metrics().worker(0);
    [&metrics.held_bytes, &metrics.connections, &metrics.gave_way].map(|count| count.get())
}

/// Waits until nothing changes any more.
fn at_rest(server: &Handle) -> [u64; 3] {
    let mut before = [0; 3];
    eventually("nothing changes any more", || {
        let now = figures(server);
        let is_at_rest = now[0] > 0 && now == before;
        if !is_at_rest {
            before = now;
            std::thread::sleep(Duration::from_millis(300));
        }
        is_at_rest
    });
    before
}

#[test]
fn a_connection_that_does_not_read_holds_one_page_and_gets_all_when_it_reads() {
    let server = start(|_| {});
    let mut client = client(&server);
    ask(&mut client);
    let [held, open, gave_way] = at_rest(&server);
    let first = client.response(false);
    assert_eq!(first.status, 200);
    // What is left of one page, and the requests that wait.
    let most = first.body.len() as u64 + 16 * 1024;
    assert!(held <= most, "{held} bytes are held, of pages of {most}");
    assert_eq!((open, gave_way), (1, 0));
    for _ in 1..PIPELINED {
        assert_eq!(client.response(false).body, first.body);
    }
    stop(server);
}

#[test]
fn connections_that_do_not_read_hold_no_more_than_a_worker_may() {
    const HELD_MAX: usize = 2 << 20;
    const DEAF: u64 = 40;
    let server = start(|options| options.pipeline.clients.held_max = HELD_MAX);
    let mut reads = client(&server);
    let page = reads.get("/large").body;
    let mut deaf: Vec<Client> = (0..DEAF).map(|_| client(&server)).collect();
    for client in &mut deaf {
        ask(client);
        // Who reads goes before who does not.
        assert!(reads.get("/large").body == page);
    }
    // Those who wait for room get it one after the other, by and by.
    eventually("somebody gives way", || figures(&server)[2] > 0);
    let [held, open, gave_way] = at_rest(&server);
    assert!(held <= HELD_MAX as u64, "{held} bytes are held");
    assert!(
        gave_way > 0 && open + gave_way == DEAF + 1,
        "{open} are left, {gave_way} gave way"
    );
    assert!(reads.get("/large").body == page);
    assert_eq!(reads.get("/hello").status, 200);
    stop(server);
}

#[test]
fn a_reader_that_is_too_slow_for_a_page_as_a_whole_is_dropped() {
    const RATE: u64 = 1 << 20;
    let server = start(|options| {
        options.pipeline.clients.send_timeout = SHORT;
        options.pipeline.clients.rate_min = RATE;
    });
    let mut slow = client(&server);
    ask(&mut slow);
    // It reads all the time, and takes more than the time-out for what it is sent to be seen; but
    // less than the least rate.
    eventually("it is dropped", || {
        let mut some = [0; 4096];
        let _ = std::io::Read::read(&mut slow.stream, &mut some);
        std::thread::sleep(Duration::from_millis(15));
        let [_, open, _] = figures(&server);
        open == 0
    });
    stop(server);
}

/// A page of as many lines of a kilobyte as are asked for.
fn lines() -> String {
    let params = "n = { in = \"query\", type = \"int\", min = 0, max = 5000 }";
    let line = "x".repeat(1023);
    format!(
        "+++\nroute = \"GET /lines\"\n[params]\n{params}\n+++\n\
        {{% for i in range(n) %}}{line}\n{{% endfor %}}"
    )
}

/// A server of that page and a short one, whose connections may hold 16 MB.
fn of_lines() -> Handle {
    let short = "+++\nroute = \"GET /short\"\n+++\nshort";
    let service = service_of(&[("lines.html", &lines()), ("short.html", short)], SERVICE);
    let mut options = options_of(&service);
    options.pipeline.clients.held_max = 16 << 20;
    let parts = parts(site_of(service), Box::new(|| Err("no".into())));
    rhythm_server::Server::start(options, parts).expect("it starts")
}

/// Whether it was sent nothing yet.
fn has_nothing(client: &Client) -> bool {
    client.stream.set_nonblocking(true).expect("a socket");
    let peeked = client.stream.peek(&mut [0]);
    peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn who_asks_for_little_of_a_page_does_not_wait_for_those_who_ask_for_much_of_it() {
    let server = of_lines();
    // Longer than what is always taken at once.
    let little = client(&server).get("/lines?n=150").body;
    // Of each answer its sockets take some hundred KB, so that of a few all that may be held is
    // full.
    let mut deaf: Vec<Client> = (0..200).map(|_| client(&server)).collect();
    for client in &mut deaf {
        client.send("GET /lines?n=4700 HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    eventually("somebody gives way", || figures(&server)[2] > 0);
    // As before, and as nobody has.
    assert!(client(&server).get("/lines?n=150").body == little);
    assert!(client(&server).get("/lines?n=149").body == little[1024..]);
    let waiting = deaf.iter().filter(|client| has_nothing(client)).count();
    assert!(waiting > 0, "all who came before were let through");
    stop(server);
}

#[test]
fn what_nobody_has_asked_for_yet_does_not_wait_for_a_flood_of_what_nobody_has_either() {
    let server = of_lines();
    // That the page may be long is known, and of no other request how long it is.
    client(&server).get("/lines?n=4800");
    let mut deaf: Vec<Client> = (0..200).map(|_| client(&server)).collect();
    for (n, client) in (4500..).zip(&mut deaf) {
        client.send(format!("GET /lines?n={n} HTTP/1.1\r\nHost: x\r\n\r\n"));
    }
    eventually("somebody gives way", || figures(&server)[2] > 0);
    // A page of which nothing is known, and a request like all the others.
    assert_eq!(client(&server).get("/short").text(), "short");
    assert_eq!(client(&server).get("/lines?n=1").body.len(), 1024);
    let waiting = deaf.iter().filter(|client| has_nothing(client)).count();
    assert!(waiting > 0, "all who came before were let through");
    stop(server);
}
