//! CSRF tokens over real sockets: what comes without one does nothing.

mod common;
use common::*;
use rhythm_server::Handle;

const SERVICE: &str = r#"
[session]
cookie = "sid"
csrf = true
[backend.echo]
kind = "besim"
[errors]
403 = "refused.html"
"#;

const PAGES: &[(&str, &str)] = &[
    ("refused.html", "+++\n+++\nrefused. {{ message }}"),
    (
        "form.html",
        "+++\nroute = \"GET /form\"\nsession = \"optional\"\n+++\n\
         {{ csrf_token }} <form method=\"post\">{{ csrf_input }}</form> {{ session.userid }}",
    ),
    ("bare.html", "+++\nroute = \"GET /bare\"\n+++\nbare"),
    (
        "login.html",
        "+++\nroute = \"POST /login\"\n[params]\nuser = { in = \"form\", type = \"int\" }\n\
         [[step]]\ncheck = \"user > 0\"\nelse = \"again.html\"\n\
         [[step]]\nsession = \"create\"\nuser = \"user\"\n+++\nin as {{ user }}",
    ),
    ("again.html", "+++\n+++\nagain {{ csrf_input }}"),
    (
        "logout.html",
        "+++\nroute = \"POST /logout\"\nsession = \"optional\"\n[[step]]\n\
         session = \"destroy\"\n+++\nout",
    ),
    (
        "pay.html",
        "+++\nroute = [\"GET /pay\", \"POST /pay\", \"PUT /pay\", \"DELETE /pay\"]\n\
         [[step]]\ncall = \"echo\"\nrequest = \"1&3&paid\"\nrows = \"done(text)\"\n+++\n\
         {{ done[0].text }}",
    ),
    (
        "api.html",
        "+++\nroute = \"POST /api\"\ncsrf = false\n+++\ndone",
    ),
];

fn serve(pages: &[(&str, &str)], toml: &str) -> Handle {
    common::serve(service_of(pages, toml))
}

/// The cookie that an answer sets.
fn cookie_of(response: &Response) -> String {
    let cookie = response.header("set-cookie").expect("a cookie");
    let (pair, attributes) = cookie.split_once(';').expect("a pair");
    assert!(attributes.contains("HttpOnly") && attributes.contains("SameSite=Lax"));
    format!("Cookie: {pair}\r\n")
}

/// The token that a page shows.
fn token_of(response: &Response) -> String {
    let (_, rest) = (response.text())
        .split_once("<input type=\"hidden\" name=\"csrf_token\" value=\"")
        .expect("an input");
    rest.split_once("\">").expect("its end").0.to_owned()
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";
const PARTS: &str = "Content-Type: multipart/form-data; boundary=b\r\n";
const AS_JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn forms_in_parts_have_the_token_among_them_and_json_has_it_beside() {
    let server = serve(PAGES, SERVICE);
    let mut client = client(&server);
    let page = client.get("/form");
    let (cookie, token) = (cookie_of(&page), token_of(&page));
    let field = "--b\r\nContent-Disposition: form-data; name";
    let with = |name: &str| format!("{field}=\"{name}\"\r\n\r\n{token}\r\n--b--");
    let mut post = |kind: &str, others: &str, body: &str| {
        let headers = format!("{kind}{cookie}{others}");
        client.with("POST /pay", &headers, body).status
    };
    assert_eq!(post(PARTS, "", &with("csrf_token")), 200);
    assert_eq!(post(PARTS, "", &with("token")), 403);
    assert_eq!(post(PARTS, "", &with("csrf_token\"; filename=\"a")), 403);
    assert_eq!(
        post(AS_JSON, "", &format!("{{\"csrf_token\":\"{token}\"}}")),
        403
    );
    assert_eq!(
        post(AS_JSON, &format!("X-CSRF-Token: {token}\r\n"), "{}"),
        200
    );
    stop(server);
}

#[test]
fn what_would_change_something_needs_a_token_of_its_own_session() {
    let server = serve(PAGES, SERVICE);
    let mut client = client(&server);
    let page = client.get("/form");
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let (cookie, token) = (cookie_of(&page), token_of(&page));
    let other = client.get("/form");
    let (others, foreign) = (cookie_of(&other), token_of(&other));
    assert_ne!(cookie, others);
    let body = |token: &str| format!("a=1&csrf_token={token}&b=2");
    let ways = |token: &str| {
        [
            (FORM.to_owned(), body(token)),
            (format!("X-CSRF-Token: {token}\r\n"), String::new()),
            (
                format!("content-type: application/json\r\nx-csrf-token: {token}\r\n"),
                "{}".to_owned(),
            ),
        ]
    };
    let flipped = match token.strip_suffix('0') {
        Some(rest) => format!("{rest}1"),
        None => format!("{}0", &token[..token.len() - 1]),
    };
    for method in ["POST", "PUT", "DELETE"] {
        for (headers, content) in ways(&token) {
            let line = format!("{method} /pay");
            let mut status = |cookie: &str, headers: &str, content: &str| {
                let answer = client.with(&line, &format!("{headers}{cookie}"), content);
                let is_done = answer.text().contains("paid");
                assert_eq!(is_done, answer.status == 200, "{}", answer.text());
                answer.status
            };
            assert_eq!(status(&cookie, &headers, &content), 200, "{line} {headers}");
            assert_eq!(status(&others, &headers, &content), 403, "{line} {headers}");
            assert_eq!(status("", &headers, &content), 403, "{line} {headers}");
            let odd = "Cookie: sid=guessed\r\n";
            assert_eq!(status(odd, &headers, &content), 403, "{line} {headers}");
        }
        for token in ["", &foreign, &flipped, &token[1..], "a%00", "%zz"] {
            for (headers, content) in ways(token) {
                let headers = format!("{headers}{cookie}");
                let answer = client.with(&format!("{method} /pay"), &headers, &content);
                assert_eq!(answer.status, 403, "{method} {headers}{content}");
                assert!(answer.text().contains("form is out of date"));
            }
        }
    }
    // In what is read as no form, or in the query, is no token.
    let of_text = format!("Content-Type: text/plain\r\n{cookie}");
    let of_form = format!("{FORM}{cookie}");
    for (line, headers, content) in [
        ("POST /pay", &of_text, body(&token)),
        (
            &*format!("POST /pay?{}", body(&token)),
            &of_form,
            "a=1".to_owned(),
        ),
        ("POST /pay", &cookie, String::new()),
    ] {
        assert_eq!(client.with(line, headers, &content).status, 403, "{line}");
    }
    // What decoding makes of a name and a value counts.
    let spelled = format!("csrf%5ftoken=%{:02x}{}", token.as_bytes()[0], &token[1..]);
    assert_eq!(client.with("POST /pay", &of_form, &spelled).status, 200);
    // Reading needs none, nor does a page that says so.
    for line in ["GET /pay", "HEAD /pay", "POST /api", "GET /bare"] {
        let answer = client.with(line, "", "");
        assert_eq!(answer.status, 200, "{line}");
        assert_eq!(answer.header("set-cookie"), None, "{line}");
    }
    stop(server);
}

#[test]
fn signing_in_and_out_takes_another_token_each_time() {
    let server = serve(PAGES, SERVICE);
    let mut client = client(&server);
    let mut send = |path: &str, cookie: &str, content: &str| {
        client.with(&format!("POST {path}"), &format!("{FORM}{cookie}"), content)
    };
    // Another site signs nobody in.
    assert_eq!(send("/login", "", "user=7").status, 403);
    let show = |cookie: &str| {
        let mut client = common::client(&server);
        client.with("GET /form", cookie, "")
    };
    let page = show("");
    let (nobody, first) = (cookie_of(&page), token_of(&page));
    // Each page shows another token, and all of a session are good.
    let second = token_of(&show(&nobody));
    assert_ne!(first, second);
    assert_eq!(show(&nobody).header("set-cookie"), None);
    // A form that is shown again has one, too.
    let again = send("/login", &nobody, &format!("user=0&csrf_token={first}"));
    let third = token_of(&again);
    let sign_in = send("/login", &nobody, &format!("user=7&csrf_token={third}"));
    assert_eq!((sign_in.status, sign_in.text()), (200, "in as 7"));
    let session = cookie_of(&sign_in);
    for token in [&first, &second, &third] {
        let refused = send("/logout", &session, &format!("csrf_token={token}"));
        assert_eq!(refused.status, 403, "a token of before");
    }
    let page = show(&session);
    assert!(page.text().ends_with(" 7"), "{}", page.text());
    let token = format!("csrf_token={}", token_of(&page));
    assert_eq!(send("/logout", &nobody, &token).status, 403);
    assert_eq!(send("/logout", &session, &token).status, 200);
    assert!(show(&session).text().ends_with(" 0"));
    stop(server);
}

#[test]
fn a_reload_keeps_tokens() {
    let site = |toml: &str| site_of(service_of(PAGES, toml));
    let service = service_of(PAGES, SERVICE);
    let options = options_of(&service);
    let next = site(&SERVICE.replace("403 = \"refused.html\"", ""));
    let parts = parts(site_of(service), Box::new(move || Ok(next.clone())));
    let server = rhythm_server::Server::start(options, parts).expect("it starts");
    let mut client = client(&server);
    let page = client.get("/form");
    let headers = format!("X-CSRF-Token: {}\r\n{}", token_of(&page), cookie_of(&page));
    server.reload().expect("the same pages");
    eventually("the other page of errors", || {
        let refused = client.with("POST /pay", "", "");
        assert_eq!(refused.status, 403);
        !refused.text().starts_with("refused")
    });
    assert_eq!(client.with("POST /pay", &headers, "").status, 200);
    stop(server);
}

#[test]
fn a_site_without_tokens_asks_for_none() {
    let server = serve(PAGES, &SERVICE.replace("csrf = true", ""));
    let mut client = client(&server);
    for line in ["POST /pay", "DELETE /pay", "POST /api"] {
        assert_eq!(client.with(line, "", "").status, 200, "{line}");
    }
    stop(server);
}
