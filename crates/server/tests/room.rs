//! Cohorts whose arenas hold little: who finds no room goes elsewhere, or is told.

mod common;

use common::*;
use rhythm_cohort::Policy;
use std::time::Duration;

/// A request for a page that greets `length` bytes.
fn hello(length: usize) -> String {
    let name = "x".repeat(length);
    format!("GET /hello?name={name} HTTP/1.1\r\nHost: h\r\n\r\n")
}

#[test]
fn a_request_that_finds_no_room_goes_with_the_next_cohort() {
    // A cohort is launched when it can take no more, and not within this test's time otherwise.
    let server = start(|options| {
        options.pipeline.arena_bytes_max = 1500;
        options.pipeline.formation.policy = Policy::Fixed;
        options.pipeline.formation.delay = Duration::from_secs(600);
        options.pipeline.formation.lanes_max = 64;
    });
    let mut client = client(&server);
    // Each takes 250 bytes, and twice what it is has to be free: four are a cohort.
    client.send(hello(250).repeat(10));
    for answered in 0..8 {
        let response = client.response(false);
        assert_eq!(response.status, 200, "after {answered}");
        assert_eq!(
            response.text(),
            format!("<p>Hello {}!</p>", "x".repeat(250))
        );
    }
    stop(server);
}

#[test]
fn a_request_too_large_for_any_cohort_is_refused() {
    let server = start(|options| options.pipeline.arena_bytes_max = 1500);
    let mut client = client(&server);
    let body = format!("name={}", "x".repeat(1000));
    assert_eq!(client.form("/hello", &body).status, 413);
    assert_eq!(client.get("/hello?name=you").text(), "<p>Hello you!</p>");
    assert_eq!(client.form("/hello", "name=me").text(), "<p>Hello me!</p>");
    stop(server);
}

#[test]
fn an_answer_that_finds_no_room_fails_its_lane() {
    // The parameters of four lanes leave room for one answer.
    let server = start(|options| {
        options.pipeline.arena_bytes_max = 1500;
        options.pipeline.formation.policy = Policy::Fixed;
        options.pipeline.formation.delay = Duration::from_secs(600);
        options.pipeline.formation.lanes_max = 4;
    });
    let mut client = client(&server);
    let long = "x".repeat(250);
    for _ in 0..2 {
        client.send(format!("GET /ask?q={long} HTTP/1.1\r\nHost: h\r\n\r\n").repeat(4));
        let first = client.response(false);
        assert_eq!(first.text(), format!("[{long}]"));
        for _ in 1..4 {
            assert_eq!(client.response(false).status, 500);
        }
    }
    stop(server);
}

#[test]
fn room_is_asked_for_defaults_and_for_each_that_reads_a_header() {
    let header = "{ in = \"header\", name = \"X-Long\", type = \"text\", max_length = 2000, \
                  default = \"\" }";
    let many = format!(
        "+++\nroute = \"GET /many\"\n[params]\na = {header}\nb = {header}\nc = {header}\n+++\n\
         {{{{ a }}}}{{{{ b }}}}{{{{ c }}}}"
    );
    let default = format!(
        "+++\nroute = \"GET /default\"\n[params]\n\
         a = {{ in = \"query\", type = \"text\", max_length = 2000, default = \"{}\" }}\n\
         +++\n{{{{ a }}}}",
        "d".repeat(1600)
    );
    let service = service_of(&[("many.html", &many), ("default.html", &default)], SERVICE);
    let mut options = options_of(&service);
    options.pipeline.arena_bytes_max = 1500;
    let parts = parts(site_of(service), Box::new(|| Err("no".into())));
    let server = rhythm_server::Server::start(options, parts).expect("it starts");
    let mut client = client(&server);
    let long = |length| format!("X-Long: {}\r\n", "x".repeat(length));
    let well = client.with("GET /many", &long(100), "");
    assert_eq!((well.status, well.body.len()), (200, 300));
    assert_eq!(client.with("GET /many", &long(600), "").status, 413);
    assert_eq!(client.get("/default").status, 413);
    stop(server);
}
