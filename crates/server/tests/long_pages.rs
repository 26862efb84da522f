//! Pages that take long: others are answered between their passes.

mod common;

use common::*;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::host::{HostExecutor, PASS_WORK_MAX};
use rhythm_protocol::scan::Level;
use rhythm_server::Handle;
use rustix::net::sockopt::set_socket_linger;
use std::sync::Arc;
use std::time::Duration;

/// A page that has much to do and little to say: one cannot tell by its length that it takes long.
const PAGES: &[(&str, &str)] = &[
    ("short.html", "+++\nroute = \"GET /short\"\n+++\nshort"),
    (
        "long.html",
        "+++\nroute = \"GET /long\"\n+++\n\
        {% for i in range(100000) %}{% if i == 99999 %}{{ i }}{% endif %}{% endfor %}",
    ),
    (
        "middle.html",
        "+++\nroute = \"GET /middle\"\n+++\n\
        {% for i in range(4000) %}{% if i == 3999 %}{{ i }}{% endif %}{% endfor %}",
    ),
];

const LONG: &str = "GET /long HTTP/1.1\r\nHost: h\r\n\r\n";
const MIDDLE: &str = "GET /middle HTTP/1.1\r\nHost: h\r\n\r\n";
const SHORT: &str = "GET /short HTTP/1.1\r\nHost: h\r\n\r\n";

/// A server that runs as much of a stage at a time as this, or one lane.
fn in_passes_of(work_max: usize) -> Handle {
    let service = service_of(PAGES, SERVICE);
    let options = options_of(&service);
    let mut parts = parts(site_of(service), Box::new(|| Err("no".into())));
    let host = || HostExecutor::new(LaneLimits::default(), Level::active());
    parts.devices = Arc::new(move |_, _| Ok(Box::new(host().in_passes_of(work_max))));
    rhythm_server::Server::start(options, parts).expect("it starts")
}

/// So many clients that were answered before: those that are new have to be patient.
fn known(server: &Handle, count: usize) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..count).map(|_| client(server)).collect();
    for client in &mut clients {
        client.send(SHORT);
        assert_eq!(client.response(false).status, 200);
    }
    clients
}

/// Tries some times what holds unless the core is taken away meanwhile.
fn once(what: &str, holds: impl FnMut() -> bool) {
    let mut tries = std::iter::repeat_with(holds).take(20);
    assert!(tries.any(|holds| holds), "never: {what}");
}

#[test]
fn who_asks_for_little_does_not_wait_for_all_who_ask_for_much() {
    const MANY: usize = 100;
    let server = in_passes_of(1);
    let (mut clients, mut others) = (known(&server, MANY), known(&server, 1));
    let other = &mut others[0];
    once("not all were answered before", || {
        clients.iter_mut().for_each(|client| client.send(LONG));
        eventually("one is answered", || clients.iter().any(Client::is_ready));
        other.send(SHORT);
        assert_eq!(other.response(false).status, 200);
        let were_all = clients.iter().all(Client::is_ready);
        for client in &mut clients {
            let response = client.response(false);
            assert_eq!((response.status, response.text()), (200, "99999"));
        }
        !were_all
    });
    let passes = server.metrics().worker(0).long_passes.get();
    assert!(passes >= MANY as u64 / 2, "{passes} passes");
    stop(server);
}

#[test]
fn what_nobody_waits_for_is_not_made() {
    const MANY: usize = 100;
    let server = in_passes_of(1);
    let mut others = known(&server, 1);
    let other = &mut others[0];
    let passes = || server.metrics().worker(0).long_passes.get();
    once("few passes", || {
        let (mut clients, before) = (known(&server, MANY), passes());
        clients.iter_mut().for_each(|client| client.send(LONG));
        eventually("one is answered", || clients.iter().any(Client::is_ready));
        for client in clients {
            // Closed as it is, it could still read: this tells that it has left.
            set_socket_linger(&client.stream, Some(Duration::ZERO)).expect("a TCP socket");
        }
        other.send(LONG);
        assert_eq!(other.response(false).text(), "99999");
        passes() - before < MANY as u64 / 2
    });
    stop(server);
}

#[test]
fn once_a_page_is_known_to_take_long_its_passes_are_short() {
    const MANY: usize = 100;
    let server = in_passes_of(PASS_WORK_MAX);
    let (mut clients, mut others) = (known(&server, MANY), known(&server, 1));
    let passes = || server.metrics().worker(0).long_passes.get();
    // Until it is answered the others come. Of theirs eight could be run in a pass.
    once("many passes", || {
        let before = passes();
        let other = &mut others[0];
        other.send(LONG);
        clients.iter_mut().for_each(|client| client.send(MIDDLE));
        for client in &mut clients {
            assert_eq!(client.response(false).text(), "3999");
        }
        assert_eq!(other.response(false).text(), "99999");
        passes() - before >= MANY as u64 / 2
    });
    stop(server);
}
