//! What sessions keep, over real sockets.

mod common;
use common::*;
use rhythm_server::Server;

const SERVICE: &str = r#"
[session]
cookie = "sid"
fields = { name = "text(8)", level = "int", admin = "bool" }
[backend.echo]
kind = "besim"
"#;

const PAGES: &[(&str, &str)] = &[
    (
        "in.html",
        "+++\nroute = \"POST /in\"\n[params]\nuser = { in = \"form\", type = \"int\" }\n\
         name = { in = \"form\", type = \"text\", default = \"\" }\n[[step]]\n\
         session = \"create\"\nuser = \"user\"\n\
         set = { name = \"name\", admin = \"user == 7\" }\n+++\nin",
    ),
    (
        "up.html",
        "+++\nroute = \"POST /up\"\nsession = \"optional\"\n[params]\n\
         by = { in = \"form\", type = \"int\", default = \"1\" }\n[[step]]\n\
         set = { level = \"session.level + by\" }\n[[step]]\ncall = \"echo\"\n\
         request = \"1&3&x\"\nrows = \"x(text)\"\n[[step]]\ncheck = \"by < 100\"\n\
         redirect = \"/me\"\n+++\n{{ 10 // by }}",
    ),
    (
        "me.html",
        "+++\nroute = \"GET /me\"\nsession = \"optional\"\n+++\n\
         {{ session.userid }} [{{ session.name }}] {{ session.level }} {{ session.admin }}",
    ),
    (
        "out.html",
        "+++\nroute = \"POST /out\"\nsession = \"optional\"\n[[step]]\n\
         session = \"destroy\"\n+++\nout",
    ),
];

fn cookie_of(response: &Response) -> String {
    let cookie = response.header("set-cookie").expect("a cookie");
    let pair = cookie.split(';').next().expect("a pair");
    format!("Cookie: {pair}\r\n")
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

#[test]
fn fields_are_set_and_kept_until_the_session_ends_or_has_others() {
    let service = service_of(PAGES, SERVICE);
    let options = options_of(&service);
    let site = |fields: &str| {
        let toml = SERVICE.replace("name = \"text(8)\"", fields);
        site_of(service_of(PAGES, &toml))
    };
    // The same, and then others.
    let mut next = vec![site("name = \"text(9)\""), site("name = \"text(8)\"")];
    let load = move || next.pop().ok_or_else(|| "no more".to_owned());
    let server =
        Server::start(options, parts(site_of(service), Box::new(load))).expect("it starts");
    let mut client = client(&server);
    let mut send = |path: &str, cookie: &str, form: &str| {
        client.with(&format!("POST {path}"), &format!("{FORM}{cookie}"), form)
    };
    let me = |cookie: &str| {
        let page = common::client(&server).with("GET /me", cookie, "");
        page.text().to_owned()
    };
    assert_eq!(me(""), "0 [] 0 False");
    // Nobody keeps anything, and nobody is user 0.
    assert_eq!(send("/up", "", "").status, 200);
    assert_eq!(me(""), "0 [] 0 False");
    assert_eq!(send("/in", "", "user=0").status, 500);
    let ann = cookie_of(&send("/in", "", "user=7&name=%c3%84nn"));
    let bob = cookie_of(&send("/in", "", "user=8&name=12345678"));
    assert_eq!(me(&ann), "7 [\u{c4}nn] 0 True");
    assert_eq!(me(&bob), "8 [12345678] 0 False");
    for _ in 0..3 {
        assert_eq!(send("/up", &ann, "by=2").status, 200);
    }
    // What leads elsewhere counts, what fails does not.
    assert_eq!(send("/up", &ann, "by=100").status, 303);
    assert_eq!(send("/up", &ann, "by=0").status, 500);
    assert_eq!(send("/in", &ann, "user=7&name=123456789").status, 500);
    assert_eq!(me(&ann), "7 [\u{c4}nn] 106 True");
    assert_eq!(me(&bob), "8 [12345678] 0 False");
    // A sign-in begins anew.
    let again = cookie_of(&send("/in", &ann, "user=7"));
    assert_eq!(me(&again), "7 [] 0 True");
    assert_eq!(me(&ann), "0 [] 0 False");
    server.reload().expect("the same fields");
    assert_eq!(me(&bob), "8 [12345678] 0 False");
    server.reload().expect("other fields");
    eventually("the site with other fields", || me(&bob) == "8 [] 0 False");
    assert_eq!(send("/up", &bob, "").status, 200);
    assert_eq!(me(&bob), "8 [] 1 False");
    assert_eq!(send("/out", &bob, "").status, 200);
    assert_eq!(me(&bob), "0 [] 0 False");
    stop(server);
}
