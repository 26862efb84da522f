//! Cohorts whose arenas hold little: who finds no room goes elsewhere, or is told.

mod common;

use common::*;
use rhythm_cohort::Policy;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::host::HostExecutor;
use rhythm_protocol::scan::Level;
use rhythm_server::{CohortBytes, Handle};
use std::sync::Arc;
use std::time::Duration;

/// A request for a page that greets `length` bytes.
fn hello(length: usize) -> String {
    let name = "x".repeat(length);
    format!("GET /hello?name={name} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// So many clients that each ask this: one alone would ask one after the other of a page that is
/// not known.
fn each_asks(server: &Handle, count: usize, request: &str) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..count).map(|_| client(server)).collect();
    clients.iter_mut().for_each(|client| client.send(request));
    clients
}

/// Takes the first so many clients whose answers come, whichever they are.
fn answered(clients: &mut Vec<Client>, count: usize) -> Vec<Client> {
    let mut answered = Vec::new();
    for _ in 0..20_000 {
        if answered.len() == count {
            break;
        }
        match clients.iter().position(Client::is_ready) {
            Some(at) => answered.push(clients.swap_remove(at)),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    assert_eq!(answered.len(), count, "answers that come in time");
    answered
}

/// The first so many answers that come, from whichever clients.
fn answers(mut clients: Vec<Client>, count: usize) -> Vec<Response> {
    let answered = answered(&mut clients, count);
    (answered.into_iter())
        .map(|mut client| client.response(false))
        .collect()
}

#[test]
fn a_request_that_finds_no_room_goes_with_the_next_cohort() {
    // A cohort is launched when it can take no more, and not within this test's time otherwise.
    let server = start(|options| {
        options.pipeline.cohort_bytes.arena_max = 1500;
        options.pipeline.formation.policy = Policy::Fixed;
        options.pipeline.formation.delay = Duration::from_secs(600);
        options.pipeline.formation.lanes_max = 64;
    });
    // Each takes 250 bytes, and twice what it is has to be free: four are a cohort.
    let ten = each_asks(&server, 10, &hello(250));
    let answers = answers(ten, 8);
    for (answered, response) in answers.iter().enumerate() {
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
    let server = start(|options| options.pipeline.cohort_bytes.arena_max = 1500);
    let mut client = client(&server);
    let body = format!("name={}", "x".repeat(1000));
    assert_eq!(client.form("/hello", &body).status, 413);
    assert_eq!(client.get("/hello?name=you").text(), "<p>Hello you!</p>");
    assert_eq!(client.form("/hello", "name=me").text(), "<p>Hello me!</p>");
    stop(server);
}

#[test]
fn what_a_context_keeps_of_other_pages_makes_no_request_too_large() {
    // What the larger request needs, and not much beside it.
    let server = start(|options| {
        options.pipeline.contexts = 1;
        options.pipeline.waiting = 0;
        options.pipeline.cohort_bytes = CohortBytes {
            arena_max: 1 << 30,
            first_part: 2_500,
            common_max: 0,
        };
    });
    let mut client = client(&server);
    let long = "x".repeat(250);
    let answer = format!("[{long}]");
    let body = format!("name=me&more={}", "x".repeat(1000));
    for _ in 0..2 {
        // What is asked is kept apart from parameters.
        assert_eq!(client.get(&format!("/ask?q={long}")).text(), answer);
        let greeted = client.form("/hello", &body);
        assert_eq!((greeted.status, greeted.text()), (200, "<p>Hello me!</p>"));
    }
    stop(server);
}

#[test]
fn content_is_not_kept_for_the_log() {
    // Twice what the request is, and its head.
    let server = start(|options| {
        options.pipeline.cohort_bytes = CohortBytes {
            arena_max: 1 << 30,
            first_part: 2_500,
            common_max: 0,
        };
    });
    let body = format!("name=me&more={}", "x".repeat(1000));
    let response = client(&server).form("/hello", &body);
    assert_eq!(
        (response.status, response.text()),
        (200, "<p>Hello me!</p>")
    );
    stop(server);
}

#[test]
fn an_answer_that_finds_no_room_fails_its_lane() {
    // The parameters of four lanes leave room for one answer.
    let server = start(|options| {
        options.pipeline.cohort_bytes.arena_max = 1500;
        options.pipeline.formation.policy = Policy::Fixed;
        options.pipeline.formation.delay = Duration::from_secs(600);
        options.pipeline.formation.lanes_max = 4;
    });
    let long = "x".repeat(250);
    for _ in 0..2 {
        let ask = format!("GET /ask?q={long} HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut answers = answers(each_asks(&server, 4, &ask), 4);
        answers.sort_by_key(|answer| answer.status);
        assert_eq!(answers[0].text(), format!("[{long}]"));
        for answer in &answers[1..] {
            assert_eq!(answer.status, 500);
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
    options.pipeline.cohort_bytes.arena_max = 1500;
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

#[test]
fn of_answers_without_a_body_cohorts_take_as_many_as_they_may() {
    let service = service_of(
        &[("empty.html", "+++\nroute = \"GET /empty\"\n+++\n")],
        SERVICE,
    );
    let config = &service.config;
    let unknown = (config.cohort.answer_bytes_max / config.limits.response_bytes_max) as usize;
    let mut options = options_of(&service);
    options.pipeline.formation.policy = Policy::Fixed;
    options.pipeline.formation.delay = Duration::from_secs(600);
    options.pipeline.formation.lanes_max = 3 * unknown;
    let parts = parts(site_of(service), Box::new(|| Err("no".into())));
    let server = rhythm_server::Server::start(options, parts).expect("it starts");
    let ask = "GET /empty HTTP/1.1\r\nHost: h\r\n\r\n";
    // So many are a cohort of a page that has not answered yet: one is left.
    let mut clients = each_asks(&server, unknown + 1, ask);
    answered(&mut clients, unknown);
    // Then it is known, and all that may be are one.
    clients.extend(each_asks(&server, 3 * unknown - 1, ask));
    for response in answers(clients, 3 * unknown) {
        assert_eq!((response.status, response.body.len()), (200, 0));
    }
    stop(server);
}

/// A server with these settings that runs pages on the host executor, in cohorts of four, which
/// take so many bytes.
fn of_four(bytes: CohortBytes, settings: &str) -> Handle {
    let service = service_of(PAGES, settings);
    let mut options = options_of(&service);
    options.pipeline.cohort_bytes = bytes;
    options.pipeline.formation.policy = Policy::Fixed;
    options.pipeline.formation.delay = Duration::from_secs(600);
    options.pipeline.formation.lanes_max = 4;
    let mut parts = parts(site_of(service), Box::new(|| Err("no".into())));
    let executor = || HostExecutor::new(LaneLimits::default(), Level::active());
    parts.devices = Arc::new(move |_, _| Ok(Box::new(executor())));
    rhythm_server::Server::start(options, parts).expect("it starts")
}

/// Has the page of short questions answered by a server of cohorts of four that take little: until
/// then it is not known, and no more than two ask together.
fn ask_first(server: &Handle) {
    let ask = "GET /ask?q=x HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut clients = each_asks(server, 3, ask);
    answered(&mut clients, 2);
    // The third is one of four.
    clients.extend(each_asks(server, 3, ask));
    for response in answers(clients, 4) {
        assert_eq!((response.status, response.text()), (200, "[x]"));
    }
}

#[test]
fn pages_that_find_no_room_beside_others_are_rendered_after_them() {
    // One page alone is more than answers may take beside others.
    let bytes = CohortBytes {
        arena_max: 40_000,
        first_part: 1 << 30,
        common_max: 0,
    };
    let server = of_four(bytes, SERVICE);
    let large = "GET /large HTTP/1.1\r\nHost: h\r\n\r\n";
    for response in answers(each_asks(&server, 4, large), 4) {
        assert_eq!(response.status, 200);
        assert_eq!(response.text().lines().count(), 20_000);
    }
    stop(server);
}

#[test]
fn pages_do_not_wait_for_memory_of_a_cohort_whose_backend_hangs() {
    let bytes = CohortBytes {
        arena_max: 1 << 30,
        first_part: 2_000,
        common_max: 0,
    };
    let server = of_four(bytes, SERVICE);
    ask_first(&server);
    let metrics = server.metrics().worker(0);
    let launches = || -> u64 {
        let reasons = &metrics.page("ask").launches;
        reasons.iter().map(|count| count.get()).sum()
    };
    let before = launches();
    let ask = "GET /ask?q=held-four HTTP/1.1\r\nHost: h\r\n\r\n";
    let asking = each_asks(&server, 4, ask);
    eventually("they are launched", || launches() > before);
    let large = "GET /large HTTP/1.1\r\nHost: h\r\n\r\n";
    let rendered = answers(each_asks(&server, 4, large), 4);
    assert!(rendered.iter().all(|response| response.status == 200));
    answer_held("held-four");
    for response in answers(asking, 4) {
        assert_eq!(response.text(), "[held-four]");
    }
    assert!(metrics.memory_waits.get() > 0, "there was not enough");
    stop(server);
}

#[test]
fn an_answer_for_which_others_have_the_memory_is_to_be_asked_for_again() {
    // The parameters of four lanes and what they ask leave memory for one answer or two.
    let bytes = CohortBytes {
        arena_max: 1 << 30,
        first_part: 3_700,
        common_max: 0,
    };
    let server = of_four(bytes, SERVICE);
    ask_first(&server);
    let long = "x".repeat(250);
    let ask = format!("GET /ask?q={long} HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut answers = answers(each_asks(&server, 4, &ask), 4);
    answers.sort_by_key(|answer| answer.status);
    assert_eq!(answers[0].text(), format!("[{long}]"));
    assert_eq!(answers[3].status, 503);
    let refused = answers.iter().filter(|answer| answer.status == 503);
    let again = refused
        .clone()
        .filter_map(|answer| answer.header("Retry-After"));
    assert_eq!(refused.count(), again.count());
    assert!(
        answers
            .iter()
            .all(|answer| [200, 503].contains(&answer.status))
    );
    stop(server);
}

#[test]
fn requests_that_wait_for_memory_go_on_and_others_pass_them() {
    let service = service_of(PAGES, SERVICE);
    let mut options = options_of(&service);
    options.pipeline.contexts = 2;
    options.pipeline.formation.policy = Policy::Fixed;
    options.pipeline.formation.delay = Duration::from_millis(5);
    // Beyond its first part a context may have the memory for one large request, not two.
    options.pipeline.cohort_bytes = CohortBytes {
        arena_max: 1 << 30,
        first_part: 8_000,
        common_max: 60_000,
    };
    let parts = parts(site_of(service), Box::new(|| Err("no".into())));
    let server = rhythm_server::Server::start(options, parts).expect("it starts");
    let metrics = server.metrics().worker(0);
    let large = |target: &str| {
        let long = "x".repeat(14_000);
        format!("GET {target} HTTP/1.1\r\nHost: h\r\nX-Long: {long}\r\n\r\n")
    };
    let holder = each_asks(&server, 1, &large("/ask?q=held-holder"));
    eventually("it asks", || metrics.page("ask").requests.get() == 1);
    let short = each_asks(&server, 30, &large("/hello?name=large"));
    eventually("they wait", || metrics.stalls.get() >= 30);
    let (mut one, mut other) = (client(&server), client(&server));
    // They do not look for memory whenever anybody is answered, where there is no more than before.
    let stalls = metrics.stalls.get();
    for _ in 0..10 {
        assert_eq!(one.get("/hello?name=x").status, 200);
    }
    let tries = metrics.stalls.get() - stalls;
    assert!(tries < 5, "{tries} tries in vain");
    // Two pages at a time, of which one has to wait for the context of the other.
    for _ in 0..20 {
        one.send("GET /hello?name=x HTTP/1.1\r\nHost: h\r\n\r\n");
        other.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(one.response(false).status, 200);
        assert_eq!(other.response(false).status, 200);
    }
    assert_eq!(metrics.page("hello").requests.get(), 30, "they still wait");
    answer_held("held-holder");
    assert_eq!(answers(holder, 1)[0].text(), "[held-holder]");
    for response in answers(short, 30) {
        assert_eq!(response.status, 200);
    }
    stop(server);
}
