//! Cookies of pages over real sockets: what is set is read back, and nothing else comes of a value.

mod common;
use common::*;

const SERVICE: &str = "[session]\ncookie = \"sid\"\n";

const PAGES: &[(&str, &str)] = &[
    (
        "set.html",
        "+++\nroute = \"GET /set\"\n[params]\n\
         text = { in = \"query\", type = \"text\", max_length = 2000 }\n[[step]]\n\
         cookies = { first = \"{{ text }}\", gone = { value = \"\", max_age = \"0s\" } }\n\
         [[step]]\nredirect = \"/show\"\n+++\n",
    ),
    (
        "show.html",
        "+++\nroute = \"GET /show\"\ncontent_type = \"text/plain\"\n+++\n\
         [{{ cookies.first }}][{{ cookies.other }}]",
    ),
    (
        "param.html",
        "+++\nroute = \"GET /param\"\ncontent_type = \"text/plain\"\n[params]\n\
         first = { in = \"cookie\", type = \"text\", default = \"none\" }\n+++\n\
         [{{ first }}]",
    ),
];

#[test]
fn a_cookie_comes_back_as_it_was_and_ends_no_line() {
    let server = serve(service_of(PAGES, SERVICE));
    let mut client = client(&server);
    for text in [
        "",
        "plain",
        "a b;c,d=\"e\"\\%41+%2B",
        "\r\nSet-Cookie: x=y\r\n\r\n<body>",
        "\u{e9}\u{20ac}\t\u{1}",
    ] {
        let encoded: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let set = client.get(&format!("/set?text={encoded}"));
        assert_eq!(set.status, 303);
        let cookies = set
            .head
            .lines()
            .filter(|line| line.starts_with("Set-Cookie: "));
        let cookies: Vec<&str> = cookies.collect();
        assert_eq!(cookies.len(), 2, "{}", set.head);
        assert_eq!(
            cookies[1],
            "Set-Cookie: gone=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"
        );
        let (pair, attributes) = cookies[0].split_once(';').expect("attributes");
        assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Lax");
        let pair = pair.strip_prefix("Set-Cookie: ").expect("a cookie");
        let shown = client.with("GET /show", &format!("Cookie: a=b; {pair}\r\n"), "");
        assert_eq!(shown.text(), format!("[{text}][]"));
        let shown = client.with("GET /param", &format!("Cookie: {pair}\r\n"), "");
        assert_eq!(shown.text(), format!("[{text}]"));
    }
    let long = "x".repeat(5000);
    for (cookies, shown) in [
        ("", "[][]"),
        ("first=a%zz; other=%00", "[][]"),
        ("first=%ff; other=\"q%20q\"", "[][q q]"),
        ("first=1; first=2; other=a+b", "[1][a+b]"),
        (&*format!("first={long}; other=b"), "[][b]"),
    ] {
        let page = client.with("GET /show", &format!("Cookie: {cookies}\r\n"), "");
        assert_eq!(page.text(), shown);
        assert_eq!(page.header("set-cookie"), None);
    }
    for (cookies, status) in [("first=a%zz", 400), ("first=%ff", 400), ("other=1", 200)] {
        let page = client.with("GET /param", &format!("Cookie: {cookies}\r\n"), "");
        assert_eq!(page.status, status, "{cookies}");
    }
    stop(server);
}
