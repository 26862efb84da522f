//! Pages over real sockets: routes, parameters, sessions, files, order.

mod common;
use common::*;
use rhythm_server::{Site, SiteSettings, Statics};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn pages_are_answered_with_their_parameters() {
    let server = start(|_| {});
    let mut client = client(&server);
    let hello = client.get("/hello?name=%3Cworld%3E+1");
    assert_eq!(hello.status, 200);
    assert_eq!(hello.text(), "<p>Hello &lt;world&gt; 1!</p>");
    assert_eq!(
        hello.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(
        hello
            .header("date")
            .is_some_and(|date| date.ends_with(" GMT"))
    );
    assert_eq!(hello.header("connection"), None);
    assert_eq!(
        client.form("/hello", "x=1&name=form").text(),
        "<p>Hello form!</p>"
    );
    assert_eq!(client.get("/number/17").text(), "10");
    assert_eq!(
        client
            .form(
                "/list",
                "pay[1].x=1&who[0]=a&sum[1]=2&who%5B1%5D=b&sum[0]=1"
            )
            .text(),
        "a=1;b=2;"
    );
    assert_eq!(client.get("/ask?q=twice").text(), "[twice]");
    stop(server);
}

#[test]
fn bad_parameters_are_named_and_cost_only_their_request() {
    let server = start(|_| {});
    let mut client = client(&server);
    for (path, name) in [
        ("/ask", "q"),
        ("/number/0", "n"),
        ("/number/x", "n"),
        ("/hello?name=%ff", "name"),
    ] {
        let bad = client.get(path);
        assert_eq!(bad.status, 400, "{path}");
        assert!(
            bad.text().contains(&format!("parameter {name} ")),
            "{path}: {}",
            bad.text()
        );
    }
    for body in [
        "who[0]=a",
        "who[1]=a&sum[1]=1",
        "who[0]=a&sum[0]=x",
        "who[0]=a&sum[0]=1&who[9]=b&sum[9]=1",
        "a=b",
    ] {
        assert_eq!(client.form("/list", body).status, 400, "{body}");
    }
    // A lane that fails in the page leaves its connection and the others alone.
    assert_eq!(client.get("/number/7").status, 500);
    assert_eq!(client.get("/number/8").text(), "100");
    stop(server);
}

#[test]
fn sessions_begin_and_end() {
    let server = start(|_| {});
    let mut client = client(&server);
    assert_eq!(client.get("/me").text(), "nobody");
    let login = client.form("/login", "user=42");
    let cookie = login.header("set-cookie").expect("a cookie").to_owned();
    for part in ["sid=", "; HttpOnly", "; SameSite=Lax", "; Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let pair = cookie.split(';').next().expect("a pair");
    let headers = format!("Cookie: a=b; {pair}\r\n");
    let me = client.with("GET /me", &headers, "");
    assert_eq!(me.text(), "user 42");
    assert_eq!(me.header("cache-control"), Some("no-store"));
    let forged = format!("Cookie: {}0\r\n", &pair[..pair.len() - 1]);
    let forged = if forged.contains(pair) {
        format!("Cookie: {}1\r\n", &pair[..pair.len() - 1])
    } else {
        forged
    };
    assert_eq!(client.with("GET /me", &forged, "").text(), "nobody");
    let out = client.with("GET /logout", &headers, "");
    assert!(
        out.header("set-cookie")
            .is_some_and(|cookie| cookie.contains("Max-Age=0"))
    );
    assert_eq!(client.with("GET /me", &headers, "").text(), "nobody");
    stop(server);
}

#[test]
fn a_full_session_array_refuses_logins() {
    let server = start(|options| options.sessions[0].capacity = 2);
    let mut client = client(&server);
    assert_eq!(client.form("/login", "user=1").status, 200);
    assert_eq!(client.form("/login", "user=2").status, 200);
    let full = client.form("/login", "user=3");
    assert_eq!((full.status, full.header("retry-after")), (503, Some("1")));
    stop(server);
}

#[test]
fn static_files_heed_conditions_and_ranges() {
    let server = start(|_| {});
    let mut client = client(&server);
    let whole = client.get("/static/a.css");
    assert_eq!(whole.text(), "body { color: black }");
    assert_eq!(
        whole.header("content-type"),
        Some("text/css; charset=utf-8")
    );
    assert_eq!(
        whole.header("last-modified"),
        Some("Sun, 09 Sep 2001 01:46:40 GMT")
    );
    let etag = whole.header("etag").expect("a tag").to_owned();
    let same = client.with(
        "GET /static/a.css",
        &format!("If-None-Match: {etag}\r\n"),
        "",
    );
    assert_eq!(
        (same.status, same.header("etag")),
        (304, Some(etag.as_str()))
    );
    let since = "If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n";
    assert_eq!(client.with("GET /static/a.css", since, "").status, 304);
    assert_eq!(
        client
            .with("GET /static/a.css", "If-Match: \"other\"\r\n", "")
            .status,
        412
    );
    let part = client.with("GET /static/a.css", "Range: bytes=0-3\r\n", "");
    assert_eq!((part.status, part.text()), (206, "body"));
    assert_eq!(part.header("content-range"), Some("bytes 0-3/21"));
    let last = client.with("GET /static/a.css", "Range: bytes=-1\r\n", "");
    assert_eq!((last.status, last.text()), (206, "}"));
    let none = client.with("GET /static/a.css", "Range: bytes=21-\r\n", "");
    assert_eq!(
        (none.status, none.header("content-range")),
        (416, Some("bytes */21"))
    );
    let several = client.with("GET /static/a.css", "Range: bytes=0-1,3-4\r\n", "");
    assert_eq!((several.status, several.body.len()), (200, 21));
    let head = client.with("HEAD /static/img/b.png", "", "");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("256"))
    );
    assert_eq!(client.get("/static/./img//b.png").body.len(), 256);
    for path in [
        "/static/../a.css",
        "/static/%2e%2e/a.css",
        "/static/img",
        "/static/",
        "/static/c",
    ] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    let post = client.with("POST /static/a.css", "", "");
    assert_eq!(
        (post.status, post.header("allow")),
        (405, Some("GET, HEAD, OPTIONS"))
    );
    let big = client.get("/static/big.bin");
    assert!(
        big.body
            .iter()
            .enumerate()
            .all(|(i, byte)| *byte == (i % 251) as u8)
    );
    assert_eq!(big.body.len(), 3_000_000);
    stop(server);
}

#[test]
fn pages_can_answer_with_files_redirects_and_headers() {
    let server = start(|_| {});
    let mut client = client(&server);
    let file = client.get("/file?name=img/b.png");
    assert_eq!(
        (file.status, file.body.len(), file.header("content-type")),
        (200, 256, Some("image/png"))
    );
    let etag = file.header("etag").expect("a tag").to_owned();
    let same = client.with(
        "GET /file?name=img/b.png",
        &format!("If-None-Match: {etag}\r\n"),
        "",
    );
    assert_eq!(same.status, 304);
    let part = client.with("GET /file?name=img/b.png", "Range: bytes=1-2\r\n", "");
    assert_eq!((part.status, part.body), (206, vec![1, 2]));
    // Of what is not only asked for, all is answered (RFC 9110, 14.2): it is done by then.
    for fields in ["Range: bytes=1-2\r\n", "If-None-Match: *\r\n"] {
        let done = client.with("POST /file?name=img/b.png", fields, "");
        assert_eq!((done.status, done.body.len()), (200, 256), "{fields}");
    }
    assert_eq!(client.get("/file?name=../a.css").status, 404);
    let gone = client.get("/gone");
    assert_eq!(
        (gone.status, gone.header("location"), gone.header("x-why")),
        (303, Some("/hello"), Some("moved"))
    );
    assert!(gone.body.is_empty());
    let root = client.get("/");
    assert_eq!(
        (root.status, root.header("location")),
        (303, Some("/hello"))
    );
    stop(server);
}

#[test]
fn methods_are_heeded() {
    let server = start(|_| {});
    let mut client = client(&server);
    let head = client.with("HEAD /hello?name=me", "", "");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("16"))
    );
    let put = client.with("PUT /hello", "", "");
    assert_eq!(
        (put.status, put.header("allow")),
        (405, Some("GET, HEAD, OPTIONS, POST"))
    );
    let options = client.with("OPTIONS /list", "", "");
    assert_eq!(
        (options.status, options.header("allow")),
        (204, Some("OPTIONS, POST"))
    );
    assert_eq!(client.get("/nothing").status, 404);
    let text = client.with("POST /list", "Content-Type: text/plain\r\n", "a=b");
    assert_eq!(text.status, 415);
    assert!(
        text.text().contains("x-www-form-urlencoded"),
        "{}",
        text.text()
    );
    assert_eq!(client.get("/hello").status, 200, "the connection lives on");
    stop(server);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    for contexts in [1, 16] {
        let server = start(|options| options.pipeline.contexts = contexts);
        let mut client = client(&server);
        let mut requests = String::new();
        // Pages of several stages and none, files and errors, so that answers are ready out of
        // order.
        let paths = [
            "/ask?q=late",
            "/hello?name=a",
            "/static/a.css",
            "/nothing",
            "/ask?q=b",
            "/number/8",
        ];
        for round in 0..40 {
            requests += &format!(
                "GET {} HTTP/1.1\r\nHost: x\r\n\r\n",
                paths[round % paths.len()]
            );
        }
        client.send(requests);
        let expected = [
            "[late]",
            "<p>Hello a!</p>",
            "body { color: black }",
            "",
            "[b]",
            "100",
        ];
        for round in 0..40 {
            let response = client.response(false);
            let index = round % paths.len();
            if paths[index] == "/nothing" {
                assert_eq!(response.status, 404, "{round}");
            } else {
                assert_eq!(response.text(), expected[index], "{round}");
            }
        }
        stop(server);
    }
}

#[test]
fn stragglers_do_not_hold_up_their_cohort() {
    let service = service_of(PAGES, &SERVICE.replace("30s", "1s"));
    let mut options = options_of(&service);
    options.pipeline.formation.delay = Duration::from_millis(20);
    let server = serve_with(service, options);
    let mut slow: Vec<Client> = (0..3).map(|_| client(&server)).collect();
    let mut quick: Vec<Client> = (0..3).map(|_| client(&server)).collect();
    for (index, client) in slow.iter_mut().enumerate() {
        let question = ["late", "never", "late"][index];
        client.send(format!("GET /ask?q={question} HTTP/1.1\r\nHost: x\r\n\r\n"));
    }
    for client in &mut quick {
        client.send("GET /ask?q=now HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    for client in &mut quick {
        assert_eq!(client.response(false).text(), "[now]");
    }
    assert_eq!(slow[0].response(false).text(), "[late]");
    assert_eq!(slow[2].response(false).text(), "[late]");
    assert_eq!(slow[1].response(false).status, 504);
    stop(server);
}

/// Pages that fail, and the ones that are shown then.
const OWN: &[(&str, &str)] = &[
    (
        "fails.html",
        "+++\nroute = \"GET /fails\"\n[params]\n\
         n = { in = \"query\", type = \"int\" }\n+++\n{{ 1 // n }}",
    ),
    (
        "nothing.html",
        "+++\ncontent_type = \"text/plain\"\n+++\nNothing here.",
    ),
    (
        "error.html",
        "+++\n+++\n{{ status }} {{ reason }}{% if message %}: {{ message }}|{{ message }}\
         {% else %}, sorry{% endif %}",
    ),
];

#[test]
fn a_site_has_error_pages_of_its_own() {
    let toml = "[errors]\n404 = \"nothing.html\"\ndefault = \"error.html\"\n";
    let server = serve(service_of(OWN, toml));
    let mut client = client(&server);
    let nothing = client.get("/nothing");
    assert_eq!((nothing.status, nothing.text()), (404, "Nothing here."));
    assert_eq!(nothing.header("content-type"), Some("text/plain"));
    assert_eq!(nothing.header("x-content-type-options"), Some("nosniff"));
    let failed = client.get("/fails?n=0");
    assert_eq!(
        (failed.status, failed.text()),
        (500, "500 Internal Server Error, sorry")
    );
    assert_eq!(
        failed.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let bad = client.get("/fails");
    assert_eq!(bad.status, 400);
    let told = "The parameter n is missing.";
    assert_eq!(bad.text(), format!("400 Bad Request: {told}|{told}"));
    let other = client.with("POST /fails?n=1", "Content-Length: 0\r\n", "");
    assert_eq!(other.text(), "405 Method Not Allowed, sorry");
    assert!(other.header("allow").is_some());
    let head = client.with("HEAD /nothing", "", "");
    assert_eq!(
        (head.status, head.header("content-length")),
        (404, Some("13"))
    );
    // What cannot be understood ends the connection.
    client.send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    let unclear = client.response(false);
    let told = "Duplicate Host.";
    assert_eq!(unclear.text(), format!("400 Bad Request: {told}|{told}"));
    stop(server);
}

#[test]
fn an_error_page_that_cannot_be_made_is_refused_before_anything_is_served() {
    for (template, told) in [
        ("{{ message|upper }}", "changes `message`"),
        ("{{ 1 // message|length }}", "cannot be made: "),
        (
            "{% for i in range(9000) %}123456789{% endfor %}",
            "81000 bytes",
        ),
    ] {
        let page = format!("+++\n+++\n{template}");
        let service = service_of(&[("e.html", &page)], "[errors]\n413 = \"e.html\"\n");
        let settings = SiteSettings::of(&service);
        let refused = Site::new(Arc::new(service), Statics::new("/", Vec::new()), settings);
        let refused = refused.expect_err("it is not served");
        let begins = refused.starts_with("the error page for 413 ");
        assert!(begins && refused.contains(told), "{refused}");
    }
}

const FORM_PAGES: &[(&str, &str)] = &[
    (
        "new.html",
        "+++\nroute = [\"GET /new\", \"POST /new\"]\nerrors = \"values\"\n[params]\n\
        title = { in = [\"query\", \"form\"], type = \"text\", min_length = 2, max_length = 5 }\n\
        count = { in = \"form\", type = \"int\", min = 1, max = 9, default = 3 }\n\
        tag = { in = \"form\", list = 2, min_items = 1, type = \"text\" }\n\
        seen = { in = \"header\", name = \"X-Seen\", type = \"int\", default = 0 }\n\
        [[step]]\ncheck = \"not errors\"\nelse = \"form.html\"\nstatus = 422\n\
        with = { errors = \"{{ errors }}\", typed = \"{{ typed }}\", tag = \"{{ tag }}\" }\n\
        +++\n{{ title }}/{{ count }}/{% for t in tag %}{{ t }}{% endfor %}/{{ typed.count }}",
    ),
    (
        "form.html",
        "+++\n+++\n{{ errors.title }}|{{ typed.title }}|{{ errors.count }}|{{ typed.count }}|\
        {{ errors.tag }}|{{ tag|length }}",
    ),
];

#[test]
fn a_form_is_shown_again_with_what_was_typed_and_what_is_wrong() {
    let server = serve(service_of(FORM_PAGES, SERVICE));
    let mut client = client(&server);
    let mut post = |form: &str| {
        let answer = client.form("/new", form);
        (answer.status, answer.text().to_owned())
    };
    for (form, expected) in [
        ("title=abc&count=7&tag[0]=x&tag[1]=y", "abc/7/xy/7"),
        ("title=%3Cb%3E&tag[0]=x", "&lt;b&gt;/3/x/"),
    ] {
        assert_eq!(post(form), (200, expected.to_owned()), "{form}");
    }
    for (form, expected) in [
        ("", "is missing||||has too few items|0"),
        (
            "title=a&count=x&tag[0]=t",
            "is too short|a|is not an integer|x||1",
        ),
        (
            "title=%3Ca+long%3E&count=0&tag[0]=t",
            "is too long|&lt;a long&gt;|is out of bounds|0||1",
        ),
        ("title=abc&title=def&tag[0]=t", "is given twice|abc||||1"),
        (
            "title=%ff&count=%zz&tag[0]=t",
            "is not UTF-8||cannot be decoded|||1",
        ),
        ("title=abc&tag[1]=t", "|abc|||has a gap or an item twice|0"),
        ("title=abc&tag[0]=t&tag[2]=u", "|abc|||has too many items|0"),
        ("title=abc&tag[0]=%ff", "|abc|||is not UTF-8|0"),
    ] {
        assert_eq!(post(form), (422, expected.to_owned()), "{form}");
    }
    // What nobody types is refused as ever, and so is what has no name.
    let seen = client.with("GET /new?title=abc", "X-Seen: x\r\n", "");
    assert_eq!(seen.status, 400);
    assert_eq!(client.form("/new", "%zz=1").status, 400);
    assert_eq!(client.get("/new?title=abcdef").status, 422);
    stop(server);
}

#[test]
fn now_is_when_the_request_was_read() {
    let page = "+++\nroute = \"GET /now\"\ncontent_type = \"text/plain\"\n+++\n\
                {{ now() }} {{ now()|dateformat(\"%F %T\") }}";
    let server = serve(service_of(&[("now.html", page)], ""));
    let mut client = client(&server);
    let seconds = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.expect("a clock after 1970").as_secs()
    };
    let before = seconds();
    let shown = client.get("/now").text().to_owned();
    let (now, date) = shown.split_once(' ').expect("two words and more");
    let now: u64 = now.parse().expect("a number");
    assert!((before..=seconds()).contains(&now), "{shown}");
    let (days, time) = (now / 86_400, now % 86_400);
    let (year, month, day) = rhythm_protocol::calendar::date_of(days as i64);
    let [hour, minute, second] = [time / 3600, time / 60 % 60, time % 60];
    assert_eq!(
        date,
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    );
    stop(server);
}

#[test]
fn what_is_drawn_is_another_for_each_request_and_place() {
    let page = "+++\nroute = \"GET /drawn\"\ncontent_type = \"text/plain\"\n+++\n\
                {{ randrange(1, 7) }} {{ randrange(1000000000) }} {{ randrange(1000000000) }}";
    let server = serve(service_of(&[("drawn.html", page)], ""));
    let mut client = client(&server);
    let (mut dice, mut others) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..200 {
        let shown = client.get("/drawn").text().to_owned();
        let numbers: Vec<u32> = (shown.split(' '))
            .map(|number| number.parse().expect("a number"))
            .collect();
        dice.insert(numbers[0]);
        others.extend(&numbers[1..]);
    }
    assert_eq!(dice, (1..=6).collect());
    assert!(others.len() > 390, "{}", others.len());
    assert!(others.last() < Some(&1_000_000_000));
    stop(server);
}

#[test]
fn who_is_to_sign_in_comes_back_to_what_he_asked_for() {
    let order = "+++\nroute = [\"GET /order/{id}\", \"POST /order/{id}\"]\nsession = \"required\"\n\
                 [params]\nid = { in = \"path\", type = \"text\" }\n+++\n{{ id }}";
    let sign_in = "+++\nroute = \"GET /sign_in\"\n[params]\n\
                   next = { in = \"query\", type = \"path\" }\n+++\n{{ next|safe }} of {{ here }}";
    let missing = "[session]\nmissing = { redirect = \"/sign_in?next={{ here }}\" }\n";
    let server = serve(service_of(
        &[("order.html", order), ("sign_in.html", sign_in)],
        missing,
    ));
    let mut client = client(&server);
    for (asked, expected) in [
        ("/order/7", "/order/7"),
        ("/order/7?a=b&c=%26", "/order/7?a=b&c=%26"),
        ("/order/a%20b?", "/order/a%20b"),
        // A browser would take it for another host.
        ("/order/%2F%2Fhost", "/order/%2F%2Fhost"),
        // Where he signs in would refuse it.
        (&*format!("/order/7?{}", "%25".repeat(1000)), "/"),
    ] {
        let answer = client.get(asked);
        assert_eq!(answer.status, 303, "{asked}");
        let location = answer
            .header("Location")
            .expect("it leads elsewhere")
            .to_owned();
        assert!(!location[1..].contains(['/', '&', ' ']), "{location}");
        let shown = client.get(&location);
        let here = location.replace('/', "&#x2f;");
        assert_eq!(shown.text(), format!("{expected} of {here}"));
    }
    client.send("POST /order/7 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    let answer = client.response(false);
    assert_eq!(answer.header("Location"), Some("/sign_in?next=%2F"));
    stop(server);
}

#[test]
fn errors_of_what_answers_json_are_json() {
    let api = "+++\nroute = \"GET /api/{id}\"\n[params]\nid = { in = \"path\", type = \"int\" }\n\
               [json]\nof = \"10 // id\"\n+++\n";
    let not_found = "+++\n+++\n<h1>{{ status }}</h1>";
    let bad = "+++\ncontent_type = \"application/problem+json\"\n[json]\nwhy = \"message\"\n+++\n";
    let files = [
        ("api.html", api),
        ("not_found.html", not_found),
        ("bad.html", bad),
    ];
    for (errors, of_zero, of_text) in [
        (
            "",
            (
                "application/json",
                "{\"status\":500,\"reason\":\"Internal Server Error\",\"message\":\"\"}",
            ),
            "{\"status\":400,\"reason\":\"Bad Request\",\
             \"message\":\"The parameter id is not an integer.\"}",
        ),
        (
            "[errors]\n400 = \"bad.html\"\ndefault = \"not_found.html\"\n",
            (
                "application/json",
                "{\"status\":500,\"reason\":\"Internal Server Error\",\"message\":\"\"}",
            ),
            "{\"why\":\"The parameter id is not an integer.\"}",
        ),
    ] {
        let server = serve(service_of(&files, errors));
        let mut client = client(&server);
        assert_eq!(client.get("/api/5").text(), "{\"of\":2}");
        let answer = client.get("/api/0");
        assert_eq!(answer.status, 500);
        assert_eq!(
            (
                answer.header("Content-Type").expect("it has one"),
                answer.text()
            ),
            of_zero
        );
        let answer = client.get("/api/x");
        assert_eq!(answer.status, 400);
        assert_eq!(answer.text(), of_text);
        // What no page answers is for people.
        assert!(client.get("/nothing").text().contains("<h1>404"));
        stop(server);
    }
}
