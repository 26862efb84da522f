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
    // Each takes 300 bytes, and more than twice that has to be free: three at most are a cohort.
    client.send(hello(300).repeat(10));
    for answered in 0..7 {
        let response = client.response(false);
        assert_eq!(response.status, 200, "after {answered}");
        assert_eq!(
            response.text(),
            format!("<p>Hello {}!</p>", "x".repeat(300))
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
    // The parameter and the request made of it fit, the answer beside them does not.
    let server = start(|options| options.pipeline.arena_bytes_max = 900);
    let mut client = client(&server);
    let long = format!("/ask?q={}", "x".repeat(300));
    assert_eq!(client.get(&long).status, 500);
    let short = "x".repeat(100);
    let response = client.get(&format!("/ask?q={short}"));
    assert_eq!(response.text(), format!("[{short}]"));
    stop(server);
}
