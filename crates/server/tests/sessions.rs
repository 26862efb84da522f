//! Sessions under attack, over real sockets: floods of one account, guessed passwords, forms of
//! other sites.

mod common;
use common::*;
use rhythm_server::ServerOptions;
use std::num::NonZeroU32;

/// A sign-in that wants a password, and a page with headers of its own.
const MORE: &[(&str, &str)] = &[
    (
        "gate.html",
        "+++\nroute = \"POST /gate\"\n[params]\nuser = { in = \"form\", type = \"int\" }\n\
        password = { in = \"form\", type = \"text\" }\n[[step]]\n\
        check = \"password == 'right'\"\nelse = \"wrong.html\"\n[[step]]\nsession = \"create\"\n\
        user = \"user\"\n+++\nin as {{ user }}",
    ),
    ("wrong.html", "+++\n+++\nwrong"),
    // They say nothing of a wrong guess, but fail.
    (
        "known.html",
        "+++\nroute = \"POST /known\"\n[params]\npassword = { in = \"form\", type = \"text\" }\n\
        [[step]]\ncall = \"echo\"\nrequest = \"1&3&{{ password }}\"\nrow = \"one(user:int)\"\n\
        [[step]]\nsession = \"create\"\nuser = \"one.user\"\n+++\nin",
    ),
    (
        "divides.html",
        "+++\nroute = \"POST /divides\"\n[params]\npassword = { in = \"form\", type = \"text\" }\n\
        [[step]]\nsession = \"create\"\nuser = \"7 // (password == 'right')\"\n+++\nin",
    ),
    (
        "told.html",
        "+++\nroute = \"POST /told\"\n[params]\nuser = { in = \"form\", type = \"int\" }\n\
        word = { in = \"form\", type = \"text\", max_length = 1500 }\n[[step]]\n\
        session = \"create\"\nuser = \"user\"\n[[step]]\nredirect = \"/hello\"\n\
        flash = \"{{ word }}\"\n+++\n",
    ),
    (
        "framed.html",
        "+++\nroute = \"GET /framed\"\n[[step]]\n\
        headers = { content-security-policy = \"frame-ancestors *\" }\n+++\nframed",
    ),
    (
        "pay.html",
        "+++\nroute = [\"GET /pay\", \"POST /pay\"]\nsession = \"optional\"\n+++\n\
        {% if session.userid %}paid{% else %}nobody{% endif %}",
    ),
];

fn serve(toml: &str, change: impl FnOnce(&mut ServerOptions)) -> rhythm_server::Handle {
    serve_by(&SERVICE.replace("cookie = \"sid\"", toml), change)
}

fn serve_by(settings: &str, change: impl FnOnce(&mut ServerOptions)) -> rhythm_server::Handle {
    let pages: Vec<_> = PAGES.iter().chain(MORE).copied().collect();
    let service = service_of(&pages, settings);
    let mut options = options_of(&service);
    change(&mut options);
    let site = site_of(service);
    let again = site.clone();
    let parts = parts(site, Box::new(move || Ok(again.clone())));
    rhythm_server::Server::start(options, parts).expect("it starts")
}

fn cookie_of(response: &Response) -> String {
    let cookie = response.header("set-cookie").expect("a cookie");
    let pair = cookie.split(';').next().expect("a pair");
    format!("Cookie: {pair}\r\n")
}

fn user_of(client: &mut Client, cookie: &str) -> String {
    client.with("GET /me", cookie, "").text().to_owned()
}

#[test]
fn an_account_that_floods_ends_its_own_sessions_and_nobody_elses() {
    let server = serve("cookie = \"sid\"", |options| {
        options.sessions[0].capacity = 64;
        options.sessions[0].reserve = 4;
        options.sessions[0].per_user_max = NonZeroU32::new(3);
        options.sign_ins[0].per_user_max = None;
    });
    let mut client = client(&server);
    let victim = cookie_of(&client.form("/login", "user=1"));
    let mut flood = Vec::new();
    for _ in 0..200 {
        let login = client.form("/login", "user=7");
        assert_eq!(login.status, 200);
        flood.push(cookie_of(&login));
    }
    for (nth, cookie) in flood.iter().enumerate() {
        let expected = if nth >= 197 { "user 7" } else { "nobody" };
        assert_eq!(user_of(&mut client, cookie), expected, "{nth}");
    }
    assert_eq!(user_of(&mut client, &victim), "user 1");
    for user in 100..150 {
        assert_eq!(client.form("/login", &format!("user={user}")).status, 200);
    }
    let metrics = server.metrics().encode().expect("text");
    for line in [
        "rhythm_sessions{} 54.0",
        "rhythm_sessions_replaced_total{} 197",
        "rhythm_sign_ins_total{worker=\"0\"} 251",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    stop(server);
}

#[test]
fn a_user_who_signs_in_too_often_is_told_when_to_come_again() {
    let server = serve("cookie = \"sid\"\nsign_ins_per_user_max = 5", |_| {});
    let mut client = client(&server);
    for _ in 0..5 {
        assert_eq!(client.form("/login", "user=7").status, 200);
    }
    let refused = client.form("/login", "user=7");
    assert_eq!(refused.status, 429);
    let wait: u64 = refused
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("seconds");
    assert!((1..=12).contains(&wait), "{wait}");
    assert_eq!(refused.header("set-cookie"), None);
    assert_eq!(client.form("/login", "user=8").status, 200);
    stop(server);
}

#[test]
fn guesses_under_way_together_learn_no_more_than_one_after_the_other() {
    let toml = "cookie = \"sid\"\nfailed_sign_ins_per_address_max = 10";
    let server = serve(toml, |options| options.pipeline.formation.lanes_max = 64);
    let mut client = client(&server);
    for _ in 0..20 {
        // These do not count.
        assert_eq!(client.form("/gate", "user=7&password=right").status, 200);
    }
    let guess = |word: &str| {
        let body = format!("user=9&password={word}");
        format!(
            "POST /gate HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let mut all: String = (0..40).map(|nth| guess(&format!("guess-{nth}"))).collect();
    all += &guess("right");
    client.send(all);
    for nth in 0..41 {
        let answer = client.response(false);
        match nth < 10 {
            true => assert_eq!((answer.status, answer.text()), (200, "wrong"), "{nth}"),
            false => {
                assert_eq!(answer.status, 429, "{nth}");
                assert!(answer.header("retry-after").is_some());
            }
        }
    }
    // Whatever else there is goes on.
    assert_eq!(client.get("/hello").status, 200);
    stop(server);
}

/// Whether a page says that a guess was wrong or fails at it, there are so many guesses.
#[test]
fn sign_ins_that_end_in_errors_count_as_failed() {
    let long = "x".repeat(1200);
    for (path, wrong, status) in [
        ("/known", "password=wrong".to_owned(), 502),
        ("/divides", "password=wrong".to_owned(), 500),
        ("/told", format!("user=7&word={long}"), 500),
    ] {
        let toml = "cookie = \"sid\"\nfailed_sign_ins_per_address_max = 5";
        let server = serve(toml, |_| {});
        let mut client = client(&server);
        for nth in 0..8 {
            let expected = if nth < 5 { status } else { 429 };
            assert_eq!(client.form(path, &wrong).status, expected, "{path} {nth}");
        }
        stop(server);
    }
}

/// What a backend is to blame for that is down or slow does not lock out who signs in.
#[test]
fn sign_ins_that_a_backend_does_not_answer_do_not_count() {
    let toml = "cookie = \"sid\"\nfailed_sign_ins_per_address_max = 2";
    let settings = SERVICE.replace("cookie = \"sid\"", toml);
    let server = serve_by(&settings.replace("30s", "300ms"), |_| {});
    let mut client = client(&server);
    for nth in 0..4 {
        let answer = client.form("/known", "password=never");
        assert!(
            matches!(answer.status, 503 | 504),
            "{nth}: {}",
            answer.status
        );
    }
    stop(server);
}

#[test]
fn a_sign_in_ends_the_session_that_the_browser_had() {
    let server = serve("cookie = \"sid\"", |_| {});
    let mut client = client(&server);
    let first = cookie_of(&client.form("/login", "user=1"));
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let login = client.with("POST /login", &format!("{form}{first}"), "user=2");
    assert_eq!(login.header("cache-control"), Some("no-store"));
    let second = cookie_of(&login);
    assert_ne!(first, second);
    assert_eq!(user_of(&mut client, &first), "nobody");
    assert_eq!(user_of(&mut client, &second), "user 2");
    // One that fails ends nothing.
    let wrong = client.with(
        "POST /gate",
        &format!("{form}{second}"),
        "user=2&password=x",
    );
    assert_eq!(wrong.text(), "wrong");
    assert_eq!(user_of(&mut client, &second), "user 2");
    stop(server);
}

#[test]
fn forms_of_other_sites_are_refused() {
    let server = serve(
        "cookie = \"sid\"\norigins = \"https://bank.example\"",
        |_| {},
    );
    let mut client = client(&server);
    let cookie = cookie_of(&client.form("/login", "user=1"));
    for (origin, allowed) in [
        ("", true),
        ("Origin: http://x\r\n", true),
        ("Origin: https://bank.example\r\n", true),
        ("Origin: http://evil.example\r\n", false),
        ("Origin: null\r\n", false),
        ("Origin: http://x\r\nOrigin: http://evil.example\r\n", false),
    ] {
        let pay = client.with("POST /pay", &format!("{origin}{cookie}"), "");
        assert_eq!(pay.status, if allowed { 200 } else { 403 }, "{origin}");
        // To sign somebody in as another is as bad, and reading is not.
        let form = format!("Content-Type: application/x-www-form-urlencoded\r\n{origin}");
        let login = client.with("POST /login", &form, "user=3");
        assert_eq!(login.status, if allowed { 200 } else { 403 }, "{origin}");
        assert_eq!(
            client
                .with("GET /pay", &format!("{origin}{cookie}"), "")
                .text(),
            "paid"
        );
        let hello = client.with("POST /hello", &form, "name=a");
        assert_eq!(hello.status, 200, "a page without a session");
    }
    stop(server);
    let server = serve("cookie = \"sid\"\norigin_check = false", |_| {});
    let mut client = common::client(&server);
    let pay = client.with("POST /pay", "Origin: http://evil.example\r\n", "");
    assert_eq!(pay.status, 200);
    stop(server);
}

#[test]
fn browsers_are_told_to_be_careful_but_where_a_page_knows_better() {
    let toml = "cookie = \"sid\"\n[headers]\nreferrer_policy = \"\"";
    let server = serve(toml, |_| {});
    let mut client = client(&server);
    let policy = "frame-ancestors 'self'; base-uri 'self'; object-src 'none'";
    for path in ["/hello", "/static/a.css", "/file?name=a.css", "/pay"] {
        let page = client.get(path);
        assert_eq!(
            page.header("content-security-policy"),
            Some(policy),
            "{path}"
        );
        assert_eq!(
            page.header("x-content-type-options"),
            Some("nosniff"),
            "{path}"
        );
        assert_eq!(page.header("referrer-policy"), None, "{path}");
        assert_eq!(
            page.header("cache-control"),
            (path == "/pay").then_some("no-store")
        );
    }
    let framed = client.get("/framed");
    let lines = framed.head.to_ascii_lowercase();
    assert_eq!(
        lines.matches("content-security-policy").count(),
        1,
        "{lines}"
    );
    let own = framed.header("content-security-policy");
    assert_eq!(own, Some("frame-ancestors *"));
    assert_eq!(framed.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(
        framed.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    stop(server);
}
