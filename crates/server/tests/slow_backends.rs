//! Backends over real sockets that are slow, hang, or fail for some: who asks nothing of the kind
//! must not notice.

mod common;
use common::*;
use rhythm_server::backend::{locate, open};
use rhythm_server::{Handle, Server};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What the backend was asked, and how many wait for company.
#[derive(Default)]
struct Seen {
    /// How often each question was carried out.
    asked: BTreeMap<String, usize>,
    /// Connections on which one asks for `together` at this moment, and the most there were.
    together: usize,
    most: usize,
}

type Shared = Arc<(Mutex<Seen>, Condvar)>;

/// So many have to ask for `together` before one is answered.
const TOGETHER: usize = 12;

/// Answers the questions of a connection one after the other: `hang...` never, nor what is behind
/// it; `together...` when as many ask at once on other connections; `fail...` with 500.
fn answer(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut input = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else {
            match stream.read(&mut piece)? {
                0 => return Ok(()),
                length => input.extend_from_slice(&piece[..length]),
            }
            continue;
        };
        let head: Vec<u8> = input.drain(..end + 4).collect();
        let head = String::from_utf8_lossy(&head).into_owned();
        let target = head.split(' ').nth(1).expect("a target");
        let question = target.rsplit('&').next().expect("a question").to_owned();
        let (seen, changed) = &**shared;
        let mut seen = seen.lock().expect("no one panicked");
        *seen.asked.entry(question.clone()).or_default() += 1;
        if question.starts_with("hang") {
            drop(seen);
            while stream.read(&mut piece)? > 0 {}
            return Ok(());
        }
        if question.starts_with("together") {
            seen.together += 1;
            seen.most = seen.most.max(seen.together);
            changed.notify_all();
            while seen.most < TOGETHER {
                seen = changed.wait(seen).expect("no one panicked");
            }
            seen.together -= 1;
        }
        drop(seen);
        let status = match question.starts_with("fail") {
            true => "500 Internal Server Error",
            false => "200 OK",
        };
        let body = format!("<pre>\n0\n{question}\n</pre>\n");
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
    }
}

fn backend() -> (SocketAddr, Shared) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let shared = Shared::default();
    let of_thread = shared.clone();
    // It ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let shared = of_thread.clone();
            std::thread::spawn(move || answer(stream, &shared));
        }
    });
    (address, shared)
}

const ASKING: &[(&str, &str)] = &[
    (
        "login.html",
        "+++\nroute = \"POST /login\"\n[params]\nuser = { in = \"form\", type = \"int\" }\n\
        [[step]]\nsession = \"create\"\nuser = \"user\"\n+++\nin",
    ),
    (
        "ask.html",
        "+++\nroute = \"GET /ask\"\nsession = \"optional\"\n[params]\n\
        q = { in = \"query\", type = \"text\" }\n[[step]]\ncall = \"bank\"\n\
        request = \"1&3&{{ q }}\"\nrows = \"answers(text)\"\n+++\n\
        {% for a in answers %}[{{ a.text }}]{% endfor %}",
    ),
    (
        "pay.html",
        "+++\nroute = \"POST /pay\"\nsession = \"optional\"\n[params]\n\
        q = { in = \"form\", type = \"text\" }\n[[step]]\n\
        call = \"bank\"\nrequest = \"1&6&{{ q }}\"\nrows = \"answers(text)\"\n+++\n\
        {% for a in answers %}[{{ a.text }}]{% endfor %}",
    ),
];

/// A server whose pages ask the backend.
fn serve(address: SocketAddr, timeout: &str) -> Handle {
    serve_with(address, timeout, "")
}

/// The same, with this in `[session]`.
fn serve_with(address: SocketAddr, timeout: &str, session: &str) -> Handle {
    serve_pages(address, timeout, session, ASKING)
}

/// The same, of these pages.
fn serve_pages(
    address: SocketAddr,
    timeout: &str,
    session: &str,
    pages: &[(&str, &str)],
) -> Handle {
    let toml = format!(
        "[session]\ncookie = \"sid\"\n{session}\n[static]\nmount = \"/static/\"\n[backend.bank]\n\
         kind = \"besim\"\nurl = \"http://{address}/besim\"\ntimeout = \"{timeout}\"\n"
    );
    let service = service_of(pages, &toml);
    let mut options = options_of(&service);
    // Calls that hang longer than a test are not waited for when it ends.
    options.drain.timeout = Duration::from_millis(100);
    let config = service.backends[0].clone();
    let site = site_of(service);
    let again = site.clone();
    let mut parts = parts(site, Box::new(move || Ok(again.clone())));
    let peers = locate(&config).expect("it has an address");
    parts.backends = Arc::new(move |_, _| open(&config, &peers).expect("it is there"));
    Server::start(options, parts).expect("it starts")
}

fn ask(client: &mut Client, question: &str) {
    client.send(format!("GET /ask?q={question} HTTP/1.1\r\nHost: x\r\n\r\n"));
}

#[test]
fn requests_are_spread_over_connections_where_each_answers_one_at_a_time() {
    let (address, shared) = backend();
    let server = serve(address, "20s");
    let mut clients: Vec<Client> = (0..TOGETHER).map(|_| client(&server)).collect();
    // It is known to be prompt at first.
    for client in &mut clients {
        assert_eq!(client.get("/ask?q=now").text(), "[now]");
    }
    for (index, client) in clients.iter_mut().enumerate() {
        ask(client, &format!("together{index}"));
    }
    for (index, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response(false).text(), format!("[together{index}]"));
    }
    assert_eq!(shared.0.lock().expect("no one panicked").most, TOGETHER);
    stop(server);
}

#[test]
fn a_call_that_hangs_costs_its_own_request_and_no_other() {
    let (address, shared) = backend();
    let server = serve(address, "4s");
    let mut quick: Vec<Client> = (0..10).map(|_| client(&server)).collect();
    let mut hanging: Vec<Client> = (0..3).map(|_| client(&server)).collect();
    assert_eq!(quick[0].get("/ask?q=now").text(), "[now]");
    for (round, hanging) in hanging.iter_mut().enumerate() {
        ask(hanging, &format!("hang{round}"));
        for (index, client) in quick.iter_mut().enumerate() {
            let name = format!("{round}-{index}");
            match index % 2 {
                0 => ask(client, &format!("get{name}")),
                _ => {
                    let body = format!("q=pay{name}");
                    let length = body.len();
                    client.send(format!(
                        "POST /pay HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\
                         Content-Type: application/x-www-form-urlencoded\r\n\r\n{body}"
                    ));
                }
            }
        }
        for (index, client) in quick.iter_mut().enumerate() {
            let kind = ["get", "pay"][index % 2];
            let response = client.response(false);
            assert_eq!(response.text(), format!("[{kind}{round}-{index}]"));
        }
    }
    for client in &mut hanging {
        assert_eq!(client.response(false).status, 504);
    }
    let seen = shared.0.lock().expect("no one panicked");
    for (question, times) in &seen.asked {
        assert!(!question.starts_with("pay") || *times == 1, "{question}");
    }
    drop(seen);
    stop(server);
}

/// Signs a user in: the header that says so.
fn sign_in(client: &mut Client, user: u32) -> String {
    let login = client.form("/login", &format!("user={user}"));
    let cookie = login.header("set-cookie").expect("a cookie").to_owned();
    let pair = cookie.split(';').next().expect("a pair");
    format!("Cookie: {pair}\r\n")
}

/// What says that a body is a form.
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

/// More than there are connections to the backend, and more than there are contexts.
const MANY: usize = 60;

#[test]
fn a_user_whose_calls_hang_leaves_connections_and_contexts_to_others() {
    let (address, shared) = backend();
    // Longer than a client waits for its answer.
    let server = serve(address, "60s");
    let cookie = sign_in(&mut client(&server), 42);
    calls_hang(&server, &shared, &cookie, "");
    stop(server);
}

#[test]
fn a_client_without_a_session_does_so_too_however_many_connections_it_has() {
    let (address, shared) = backend();
    let server = serve(address, "60s");
    let cookie = sign_in(&mut client(&server), 42);
    calls_hang(&server, &shared, "", &cookie);
    stop(server);
}

/// Calls of one, with this header, hang over many connections; another, with that, is answered.
fn calls_hang(server: &Handle, shared: &Shared, cookie: &str, of_other: &str) {
    let mut other = client(server);
    let mut hanging: Vec<Client> = (0..MANY).map(|_| client(server)).collect();
    for (index, hanging) in hanging.iter_mut().enumerate() {
        hanging.send(format!(
            "GET /ask?q=hang{index} HTTP/1.1\r\nHost: x\r\n{cookie}\r\n"
        ));
        // What was sent before is a cohort of its own by now.
        let got = other.with("GET /ask?q=now", of_other, "");
        assert_eq!(got.text(), "[now]", "{index} hang");
        let posted = other.with("POST /pay", &format!("{FORM}{of_other}"), "q=now");
        assert_eq!(posted.text(), "[now]", "{index} hang");
    }
    let seen = shared.0.lock().expect("no one panicked");
    let asked = seen
        .asked
        .keys()
        .filter(|question| question.starts_with("hang"));
    // Nobody else waited for those.
    assert_eq!(asked.count(), 14);
}

#[test]
fn a_page_whose_calls_hang_leaves_connections_to_others_whoever_asks_for_it() {
    let (address, _) = backend();
    let stuck = (ASKING[1].1.replace("/ask", "/stuck")).replace("1&3&", "1&9&");
    let stuck = [("stuck.html", stuck.as_str())];
    let pages: Vec<(&str, &str)> = ASKING.iter().copied().chain(stuck).collect();
    // Longer than a client waits for its answer.
    let server = serve_pages(address, "60s", "", &pages);
    let mut other = client(&server);
    assert_eq!(other.get("/ask?q=now").text(), "[now]");
    // Each by another user, and more than there are connections to the backend.
    let mut hanging: Vec<Client> = (0..MANY).map(|_| client(&server)).collect();
    for (user, hanging) in (1..).zip(&mut hanging) {
        let cookie = sign_in(hanging, user);
        hanging.send(format!(
            "GET /stuck?q=hang{user} HTTP/1.1\r\nHost: x\r\n{cookie}\r\n"
        ));
    }
    let page = server.metrics().worker(0).page("stuck");
    eventually("all have asked", || page.requests.get() == MANY as u64);
    for _ in 0..20 {
        assert_eq!(other.get("/ask?q=now").text(), "[now]");
        let posted = other.with("POST /pay", FORM, "q=now");
        assert_eq!(posted.text(), "[now]");
    }
    stop(server);
}

#[test]
fn users_whose_calls_hang_leave_connections_to_others_of_the_same_page() {
    let (address, _) = backend();
    // Longer than a client waits for its answer.
    let server = serve(address, "60s");
    let mut other = client(&server);
    let cookie = sign_in(&mut other, 42);
    let form = format!("{FORM}{cookie}");
    assert_eq!(other.with("POST /pay", &form, "q=now").text(), "[now]");
    let page = server.metrics().worker(0).page("pay");
    let before = page.requests.get();
    let mut hanging: Vec<Client> = (0..MANY).map(|_| client(&server)).collect();
    for (index, hanging) in hanging.iter_mut().enumerate() {
        // Eight users, each over several connections: what they ask cannot be sent again.
        let cookie = sign_in(hanging, 100 + index as u32 % 8);
        let body = format!("q=hang{index}");
        let length = body.len();
        hanging.send(format!(
            "POST /pay HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{FORM}{cookie}\r\n{body}"
        ));
    }
    eventually("all have asked", || {
        page.requests.get() == before + MANY as u64
    });
    for _ in 0..20 {
        assert_eq!(other.with("POST /pay", &form, "q=now").text(), "[now]");
        assert_eq!(other.get("/ask?q=now").text(), "[now]");
    }
    stop(server);
}

#[test]
fn few_whose_reads_hang_leave_a_connection_to_others_of_the_same_page() {
    let (address, _) = backend();
    // Longer than a client waits for its answer.
    let server = serve(address, "60s");
    let mut other = client(&server);
    let cookie = sign_in(&mut other, 42);
    let form = format!("{FORM}{cookie}");
    assert_eq!(other.with("POST /pay", &form, "q=now").text(), "[now]");
    assert_eq!(other.with("GET /ask?q=now", &cookie, "").text(), "[now]");
    let page = server.metrics().worker(0).page("ask");
    let before = page.requests.get();
    let mut hanging: Vec<Client> = (0..MANY).map(|_| client(&server)).collect();
    for (index, hanging) in hanging.iter_mut().enumerate() {
        // Five users, each over several connections.
        let cookie = sign_in(hanging, 100 + index as u32 % 5);
        hanging.send(format!(
            "GET /ask?q=hang{index} HTTP/1.1\r\nHost: x\r\n{cookie}\r\n"
        ));
    }
    eventually("all have asked", || {
        page.requests.get() == before + MANY as u64
    });
    for _ in 0..20 {
        assert_eq!(other.with("GET /ask?q=now", &cookie, "").text(), "[now]");
        assert_eq!(other.with("POST /pay", &form, "q=now").text(), "[now]");
    }
    stop(server);
}

#[test]
fn pages_of_all_kinds_that_hang_leave_contexts_to_others_however_few_there_are() {
    let (address, _) = backend();
    let kinds: Vec<(String, String)> = (0..6)
        .map(|kind| {
            (
                format!("ask{kind}.html"),
                ASKING[1].1.replace("/ask", &format!("/ask{kind}")),
            )
        })
        .collect();
    let kinds = kinds
        .iter()
        .map(|(name, page)| (name.as_str(), page.as_str()));
    let pages: Vec<(&str, &str)> = ASKING.iter().copied().chain(kinds).collect();
    for contexts in [1, 4] {
        let few = format!("[cohort]\nsize = 2\ncontexts_max = {contexts}");
        let server = serve_pages(address, "60s", &few, &pages);
        let cookie = sign_in(&mut client(&server), 42);
        let mut other = client(&server);
        let mut hanging: Vec<Client> = (0..MANY).map(|_| client(&server)).collect();
        for (index, hanging) in hanging.iter_mut().enumerate() {
            let kind = index % 6;
            let page = server.metrics().worker(0).page(&format!("ask{kind}"));
            let before = page.requests.get();
            hanging.send(format!(
                "GET /ask{kind}?q=hang{index} HTTP/1.1\r\nHost: x\r\n{cookie}\r\n"
            ));
            eventually("it is a cohort", || page.requests.get() > before);
            assert_eq!(other.get("/ask?q=now").text(), "[now]", "{index} hang");
        }
        stop(server);
    }
}

#[test]
fn cohorts_that_only_wait_come_together_in_the_context_that_is_kept_for_them() {
    let patient = "timeout = \"600s\"\nstraggler_delay = \"200ms\"";
    let service = service_of(PAGES, &SERVICE.replace("timeout = \"30s\"", patient));
    let mut options = options_of(&service);
    options.pipeline.contexts = 4;
    options.drain.timeout = Duration::from_millis(100);
    let parts = parts(site_of(service), Box::new(|| Err("no".into())));
    let server = Server::start(options, parts).expect("it starts");
    let ask = server.metrics().worker(0).page("ask");
    // More cohorts that wait for ever than there are contexts, before any of them may move.
    let mut hanging: Vec<Client> = (0..12).map(|_| client(&server)).collect();
    for (index, hanging) in hanging.iter_mut().enumerate() {
        hanging.send("GET /ask?q=never HTTP/1.1\r\nHost: x\r\n\r\n");
        if index < 3 {
            eventually("it is a cohort", || ask.requests.get() > index as u64);
        }
    }
    assert_eq!(client(&server).get("/hello").status, 200);
    eventually("all ask", || ask.requests.get() == 12);
    assert_eq!(client(&server).get("/hello").status, 200);
    stop(server);
}

#[test]
fn a_user_whose_calls_fail_closes_the_backend_for_nobody() {
    let (address, _) = backend();
    let server = serve(address, "20s");
    let cookie = sign_in(&mut client(&server), 42);
    calls_fail(&server, &cookie, "");
    stop(server);
}

#[test]
fn nor_does_a_client_without_a_session() {
    let (address, _) = backend();
    let server = serve(address, "20s");
    let cookie = sign_in(&mut client(&server), 42);
    calls_fail(&server, "", &cookie);
    stop(server);
}

/// Calls of one, with this header, fail, each over a connection of its own; another, with that, is
/// answered.
fn calls_fail(server: &Handle, cookie: &str, of_other: &str) {
    let mut other = client(server);
    for round in 0..100 {
        // Each time over another connection.
        let mut attacker = client(server);
        let failed = attacker.with(&format!("GET /ask?q=fail{round}"), cookie, "");
        assert_eq!(failed.status, 502);
        if round % 6 == 5 {
            let got = other.with("GET /ask?q=now", of_other, "");
            assert_eq!(got.text(), "[now]");
        }
    }
}

#[test]
fn a_backend_that_fails_for_all_is_left_alone() {
    let (address, shared) = backend();
    // As behind a proxy: all have its address, and each connection is another client.
    let server = serve_with(address, "20s", "failed_sign_ins_per_address_max = 0");
    let statuses: Vec<u16> = (0..200)
        .map(|round| client(&server).get(&format!("/ask?q=fail{round}")).status)
        .collect();
    let refused = statuses.iter().filter(|status| **status == 503).count();
    assert!(
        statuses[..19].iter().all(|status| *status == 502),
        "{statuses:?}"
    );
    assert!(refused > 100, "{statuses:?}");
    let seen = shared.0.lock().expect("no one panicked");
    assert_eq!(seen.asked.len(), 200 - refused);
    drop(seen);
    stop(server);
}
