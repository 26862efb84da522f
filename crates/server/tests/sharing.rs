//! Requests that ask the same are one to their backend.

mod common;

use common::*;
use rhythm_server::Server;
use std::sync::Arc;

/// As `ask`, but that one answer is for all who ask the same; and one that asks three times.
const PAGES_SHARED: &[(&str, &str)] = &[
    (
        "shared.html",
        "+++\nroute = \"GET /shared\"\n[params]\nq = { in = \"query\", type = \"text\" }\n\
        [[step]]\ncall = \"echo\"\nrequest = \"1&3&{{ q }}\"\nrows = \"answers(text)\"\n\
        share = true\n+++\n{% for a in answers %}[{{ a.text }}]{% endfor %}",
    ),
    (
        "row.html",
        "+++\nroute = \"GET /row\"\n[params]\nq = { in = \"query\", type = \"text\" }\n\
        [[step]]\ncall = \"echo\"\nrequest = \"1&3&{{ q }}\"\nrow = \"answer(text)\"\n\
        share = true\n+++\n<{{ answer.text }}>",
    ),
    (
        "each.html",
        "+++\nroute = \"POST /each\"\n[params]\n\
        word = { in = \"form\", list = 9, fields = { t = { type = \"text\" } } }\n\
        [[step]]\ncall = \"echo\"\neach = \"w in word\"\nrequest = \"1&3&{{ w.t }}\"\n\
        rows = \"answers(text)\"\nshare = true\n+++\n\
        {% for a in answers %}[{{ a.text }}]{% endfor %}",
    ),
];

#[test]
fn one_answer_is_for_all_of_a_cohort_who_ask_the_same() {
    // All that are sent together are one cohort.
    let settings = format!("{SERVICE}[cohort]\npolicy = \"fixed\"\ndelay = \"100ms\"\n");
    let site = site_of(service_of(PAGES_SHARED, &settings));
    let options = options_of(site.service());
    let again = Arc::clone(&site);
    let parts = parts(site, Box::new(move || Ok(Arc::clone(&again))));
    let server = Server::start(options, parts).expect("it starts");
    let metrics = server.metrics().worker(0).backend("echo");
    let mut client = client(&server);
    // How long pages are is known when each was answered once.
    assert_eq!(client.get("/shared?q=x").text(), "[x]");
    assert_eq!(client.get("/row?q=x").text(), "<x>");
    let mut asked_before = 2;
    let mut ask = |path: &str, asked: &[&str], sent: u64, expected: &[&str]| {
        let requests = asked
            .iter()
            .map(|q| format!("GET {path}?q={q} HTTP/1.1\r\nHost: h\r\n\r\n"));
        client.send(requests.collect::<String>());
        let answers = asked.iter().map(|_| client.response(false));
        let answers: Vec<String> = (answers)
            .map(|answer| match answer.status {
                200 => answer.text().to_owned(),
                status => status.to_string(),
            })
            .collect();
        assert_eq!(answers, expected, "{path} {asked:?}");
        let handed_over = metrics.requests.get() - metrics.shared.get();
        assert_eq!(handed_over - asked_before, sent, "{path} {asked:?}");
        asked_before = handed_over;
    };
    ask("/shared", &["a"; 5], 1, &["[a]"; 5]);
    ask(
        "/shared",
        &["a", "b", "a", "c", "b"],
        3,
        &["[a]", "[b]", "[a]", "[c]", "[b]"],
    );
    ask(
        "/row",
        &["a", "b", "a", "a"],
        2,
        &["<a>", "<b>", "<a>", "<a>"],
    );
    // Those that keep the others waiting move to another cohort, and have one answer there.
    ask(
        "/shared",
        &["late", "a", "late"],
        2,
        &["[late]", "[a]", "[late]"],
    );
    ask(
        "/row",
        &["late", "a", "late"],
        2,
        &["<late>", "<a>", "<late>"],
    );
    ask("/row", &["never", "a", "never"], 2, &["504", "<a>", "504"]);
    let form = "t[0]=x&t[1]=y&t[2]=x&t[3]=late&t[4]=late";
    assert_eq!(client.form("/each", form).text(), "[x][y][x][late][late]");
    let form = "t[0]=x&t[1]=never&t[2]=x";
    assert_eq!(client.form("/each", form).status, 504);
    stop(server);
}
