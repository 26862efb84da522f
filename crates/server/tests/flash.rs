//! Messages for the next page over real sockets: shown once, and to nobody else.

mod common;
use common::*;

const SERVICE: &str = "[session]\ncookie = \"sid\"\n[backend.echo]\nkind = \"besim\"\n";

const PAGES: &[(&str, &str)] = &[
    (
        "say.html",
        "+++\nroute = \"GET /say\"\n[params]\n\
         text = { in = \"query\", type = \"text\", max_length = 2000 }\n[[step]]\n\
         redirect = \"/show\"\nflash = \"said: {{ text }}\"\n+++\n",
    ),
    (
        "show.html",
        "+++\nroute = \"GET /show\"\nsession = \"optional\"\n+++\n\
         [{{ flash }}]{{ session.userid }}",
    ),
    (
        "via.html",
        "+++\nroute = \"GET /via\"\n[params]\n\
         go = { in = \"query\", type = \"int\", default = \"1\" }\n[[step]]\n\
         when = \"go == 1\"\nredirect = \"/show\"\n+++\n{{ flash }}",
    ),
    ("other.html", "+++\nroute = \"GET /other\"\n+++\nother"),
    (
        "login.html",
        "+++\nroute = \"POST /login\"\n[params]\nuser = { in = \"form\", type = \"int\" }\n\
         [[step]]\nsession = \"create\"\nuser = \"user\"\n[[step]]\nredirect = \"/show\"\n\
         flash = \"Welcome.\"\n+++\n",
    ),
    (
        "logout.html",
        "+++\nroute = \"GET /logout\"\nsession = \"optional\"\n[[step]]\n\
         session = \"destroy\"\n[[step]]\nredirect = \"/show\"\nflash = \"Bye.\"\n+++\n",
    ),
];

/// A browser's cookies.
#[derive(Clone, Default)]
struct Jar(Vec<(String, String)>);

impl Jar {
    /// Asks, and keeps the cookies that are set.
    fn ask(&mut self, client: &mut Client, line: &str, form: &str) -> Response {
        let pairs: Vec<String> = (self.0.iter())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
        let headers = format!("{kind}Cookie: {}\r\n", pairs.join("; "));
        let answer = client.with(line, &headers, form);
        for line in answer.head.lines() {
            let Some(cookie) = line.strip_prefix("Set-Cookie: ") else {
                continue;
            };
            assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Lax"));
            let (pair, attributes) = cookie.split_once(';').expect("attributes");
            let (name, value) = pair.split_once('=').expect("a pair");
            self.0.retain(|(known, _)| known != name);
            if !attributes.contains("Max-Age=0") {
                self.0.push((name.to_owned(), value.to_owned()));
            }
        }
        answer
    }
}

#[test]
fn a_message_is_shown_once_by_the_next_page_that_shows_any() {
    let server = serve(service_of(PAGES, SERVICE));
    let mut client = client(&server);
    let mut browser = Jar::default();
    // Whoever asked last.
    let mut show = |browser: &mut Jar| {
        let page = browser.ask(&mut client, "GET /show", "");
        assert_eq!(page.header("cache-control"), Some("no-store"));
        page.text().to_owned()
    };
    assert_eq!(show(&mut browser), "[]0");
    assert!(browser.0.is_empty(), "nothing was left for it");
    let mut other = common::client(&server);
    for (query, shown) in [
        ("hello", "[said: hello]0"),
        ("%3Cb%3E%3B%0d%0aX:%20y%25", "[said: &lt;b&gt;;\r\nX: y%]0"),
        ("%e2%82%ac", "[said: \u{20ac}]0"),
    ] {
        let said = browser.ask(&mut other, &format!("GET /say?text={query}"), "");
        assert_eq!((said.status, said.header("x")), (303, None));
        assert_eq!(browser.ask(&mut other, "GET /other", "").text(), "other");
        assert_eq!(browser.ask(&mut other, "GET /via", "").status, 303);
        // Somebody else's cookie is of no use.
        let mut thief = Jar(browser.0.clone());
        thief.0.retain(|(name, _)| name == "sid_flash");
        assert_eq!(thief.0.len(), 1);
        thief.0.push(("sid".to_owned(), "0".repeat(40)));
        assert_eq!(show(&mut thief), "[]0");
        assert_eq!(thief.0.len(), 1, "it is removed all the same");
        assert_eq!(show(&mut browser), shown);
        assert_eq!(show(&mut browser), "[]0", "once");
    }
    // Of two the last.
    browser.ask(&mut other, "GET /say?text=1", "");
    browser.ask(&mut other, "GET /say?text=2", "");
    assert_eq!(show(&mut browser), "[said: 2]0");
    assert_eq!(browser.ask(&mut other, "POST /login", "user=7").status, 303);
    assert_eq!(show(&mut browser), "[Welcome.]7");
    assert_eq!(show(&mut browser), "[]7");
    browser.ask(&mut other, "GET /logout", "");
    assert_eq!(show(&mut browser), "[Bye.]0");
    assert_eq!(show(&mut browser), "[]0");
    let long = "x".repeat(995);
    assert_eq!(
        browser
            .ask(&mut other, &format!("GET /say?text={long}"), "")
            .status,
        500
    );
    let long = &long[..994];
    browser.ask(&mut other, &format!("GET /say?text={long}"), "");
    assert_eq!(show(&mut browser), format!("[said: {long}]0"));
    stop(server);
}
