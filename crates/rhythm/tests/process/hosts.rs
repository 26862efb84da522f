//! Several services in one server, told apart by `Host`: nothing of one is another's, and what is
//! wrong with one does not touch the others.

use super::server::{Answer, NEVER, Server};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

/// A service's folder, with a page that tells its name, one that tells who is signed in, one that
/// signs in, and one that asks a database of its own. All have the same names for all of it.
fn service(test: &str, name: &str, settings: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test).join(name);
    // What an earlier run has left.
    let _ = fs::remove_dir_all(&folder);
    for below in ["pages", "static"] {
        fs::create_dir_all(folder.join(below)).expect("a folder can be made");
    }
    let write = |path: &str, text: &str| {
        fs::write(folder.join(path), text).expect("a file can be written");
    };
    let service = format!(
        "{settings}\n[errors]\n404 = \"lost.html\"\n413 = \"lost.html\"\n\
         [backend.db]\nkind = \"sqlite\"\nfile = \"it.db\"\nschema = \"it.sql\"\n"
    );
    write("service.toml", &service);
    write(
        "it.sql",
        &format!("create table it (v text); insert into it values ('{name}');"),
    );
    write("static/a.txt", name);
    write(
        "pages/lost.html",
        &format!("+++\n+++\n{name} has no such page"),
    );
    write(
        "pages/hello.html",
        &format!("+++\nroute = \"GET /hello\"\n+++\nthis is {name}"),
    );
    write(
        "pages/me.html",
        "+++\nroute = \"GET /me\"\nsession = \"optional\"\n+++\nuser {{ session.userid }}",
    );
    write(
        "pages/in.html",
        "+++\nroute = \"POST /in\"\n[params]\nuser = { in = \"form\", type = \"int\" }\n\
         [[step]]\nsession = \"create\"\nuser = \"user\"\n+++\nin",
    );
    write(
        "pages/db.html",
        "+++\nroute = \"GET /db\"\n[[step]]\ncall = \"db\"\nquery = \"select v from it\"\n\
         row = \"it(v)\"\n+++\n{{ it.v }}",
    );
    folder
}

/// A server of these folders.
fn start(folders: &[&Path]) -> Server {
    let more: Vec<&str> = folders[1..]
        .iter()
        .map(|it| it.to_str().expect("text"))
        .collect();
    Server::start(folders[0], &more)
}

/// What a request with these lines is answered.
fn ask(server: &Server, head: &str) -> Answer {
    let mut client = server.client();
    client.send(&format!("{head}\r\n\r\n")).expect("it is sent");
    client.answer().expect("an answer")
}

fn get(server: &Server, host: &str, path: &str) -> (u16, String) {
    let answer = ask(server, &format!("GET {path} HTTP/1.1\r\nHost: {host}"));
    (answer.status, answer.body)
}

fn sign_in(server: &Server, host: &str, user: u32, more: &str) -> Answer {
    let form = format!("user={user}");
    let length = form.len();
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let mut client = server.client();
    let head = format!("POST /in HTTP/1.1\r\nHost: {host}\r\n{kind}\r\nContent-Length: {length}");
    client
        .send(&format!("{head}{more}\r\n\r\n{form}"))
        .expect("it is sent");
    client.answer().expect("an answer")
}

/// `rhythm` with these arguments, until it ends.
fn run(command: &str, folders: &[&Path]) -> (bool, String) {
    let mut run = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    let run = run.arg(command).args(folders);
    let run = match command {
        "serve" => run.args(["--listen", "127.0.0.1:0", "--no-admin"]),
        _ => run,
    };
    let Output {
        status,
        stdout,
        stderr,
    } = run.output().expect("it runs");
    let said = [stderr, stdout].concat();
    (
        status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn hosts_have_their_services_and_nothing_of_each_others() {
    let test = "hosts-apart";
    let bank = service(
        test,
        "bank",
        "[service]\nhost = \"bank.example www.bank.example\"",
    );
    let shop = service(
        test,
        "shop",
        "[service]\nhost = \"Shop.Example *.shop.example\"",
    );
    let server = start(&[&bank, &shop]);
    for (host, name) in [
        ("bank.example", "bank"),
        ("BANK.example:8080", "bank"),
        ("www.bank.example.", "bank"),
        ("shop.example", "shop"),
        ("a.shop.example:1", "shop"),
    ] {
        let said = |path: &str| get(&server, host, path);
        assert_eq!(said("/hello"), (200, format!("this is {name}")), "{host}");
        assert_eq!(said("/static/a.txt"), (200, name.to_owned()), "{host}");
        assert_eq!(said("/db"), (200, name.to_owned()), "{host}");
        assert_eq!(
            said("/no"),
            (404, format!("{name} has no such page")),
            "{host}"
        );
    }
    for host in [
        "other.example",
        "a.bank.example",
        "127.0.0.1",
        "[::1]:80",
        "",
    ] {
        let (status, body) = get(&server, host, "/hello");
        assert_eq!(
            status,
            if host.is_empty() { 400 } else { 421 },
            "{host}: {body}"
        );
        assert!(!body.contains("bank") && !body.contains("shop"), "{body}");
    }
    // An absolute target goes before Host (RFC 9112, section 3.2.2), and HTTP/1.0 may have neither.
    let absolute = ask(
        &server,
        "GET http://shop.example/hello HTTP/1.1\r\nHost: bank.example",
    );
    assert_eq!(absolute.body, "this is shop");
    assert_eq!(ask(&server, "GET /hello HTTP/1.0").status, 421);
    assert_eq!(
        ask(&server, "GET /hello HTTP/1.0\r\nHost: bank.example").status,
        200
    );

    // Sessions, with a cookie of the same name.
    let cookie = sign_in(&server, "bank.example", 7, "").cookies.remove(0);
    let me = |host: &str| {
        let head = format!("GET /me HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}");
        ask(&server, &head).body
    };
    assert_eq!(me("bank.example"), "user 7");
    assert_eq!(me("shop.example"), "user 0");
    let other = sign_in(&server, "shop.example", 9, &format!("\r\nCookie: {cookie}"));
    assert_eq!(other.status, 200);
    assert_eq!(
        me("bank.example"),
        "user 7",
        "what ends at one goes on at the other"
    );
    // A page of one has nothing sent to the other.
    let from = |origin: &str| format!("\r\nOrigin: http://{origin}");
    assert_eq!(
        sign_in(&server, "bank.example", 7, &from("bank.example")).status,
        200
    );
    assert_eq!(
        sign_in(&server, "bank.example", 7, &from("shop.example")).status,
        403
    );

    let (_, figures) = server.ask_admin("/metrics");
    for line in [
        "rhythm_requests_total{service=\"bank\",page=\"hello\"} 4",
        "rhythm_requests_total{service=\"shop\",page=\"hello\"} 3",
        "rhythm_backend_requests_total{service=\"shop\",backend=\"db\"} 2",
        "rhythm_sessions{service=\"bank\"} 2",
        "rhythm_sessions{service=\"shop\"} 1",
    ] {
        assert!(figures.contains(line), "{line} is not in {figures}");
    }
    let (_, config) = server.ask_admin("/config");
    let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    let of = |name: &str| &config["services"][name]["settings"]["service"]["host"];
    assert_eq!(of("bank"), "bank.example www.bank.example");
    assert_eq!(of("shop"), "shop.example *.shop.example");
    assert!(config["memory"]["bytes_max"]["sum"].is_u64(), "{config}");
}

#[test]
fn one_without_a_host_has_all_others() {
    let test = "hosts-default";
    let rest = service(test, "rest", "");
    let shop = service(test, "shop", "[service]\nhost = \"shop.example\"");
    let server = start(&[&rest, &shop]);
    for host in ["other.example", "127.0.0.1:9", "[::1]"] {
        assert_eq!(get(&server, host, "/hello").1, "this is rest", "{host}");
    }
    assert_eq!(get(&server, "shop.example", "/hello").1, "this is shop");
    assert_eq!(ask(&server, "GET /hello HTTP/1.0").body, "this is rest");
}

#[test]
fn one_service_may_have_hosts_and_no_others() {
    let bank = service("hosts-one", "bank", "[service]\nhost = \"bank.example\"");
    let server = start(&[&bank]);
    assert_eq!(get(&server, "bank.example", "/hello").1, "this is bank");
    assert_eq!(get(&server, "evil.example", "/hello").0, 421);
}

#[test]
fn what_is_wrong_with_one_after_a_reload_is_its_own() {
    let test = "hosts-reload";
    let bank = service(test, "bank", "[service]\nhost = \"bank.example\"");
    let shop = service(test, "shop", "[service]\nhost = \"shop.example\"");
    let server = start(&[&bank, &shop]);
    let cookie = sign_in(&server, "bank.example", 7, "").cookies.remove(0);
    let page = |folder: &Path, text: &str| {
        let text = format!("+++\nroute = \"GET /hello\"\n+++\n{text}");
        fs::write(folder.join("pages/hello.html"), text).expect("a file can be written");
    };
    let until = |host: &str, said: &str| {
        let start = Instant::now();
        while get(&server, host, "/hello").1 != said {
            assert!(start.elapsed() < NEVER, "{host} never says {said}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    page(&bank, "{{ broken");
    page(&shop, "a new shop");
    server.signal(Signal::HUP);
    until("shop.example", "a new shop");
    let said = server.said("cannot be reloaded");
    assert_eq!(said["fields"]["service"], "bank", "{said}");
    assert_eq!(get(&server, "bank.example", "/hello").1, "this is bank");

    // The shop takes another name, which is at once the bank's business no more.
    page(&bank, "a new bank");
    let settings = fs::read_to_string(shop.join("service.toml")).expect("a text");
    let write = |text: &str| fs::write(shop.join("service.toml"), text).expect("it is written");
    write(&settings.replace("shop.example", "store.example"));
    server.signal(Signal::HUP);
    until("bank.example", "a new bank");
    until("store.example", "a new shop");
    assert_eq!(get(&server, "shop.example", "/hello").0, 421);
    let head = format!("GET /me HTTP/1.1\r\nHost: bank.example\r\nCookie: {cookie}");
    assert_eq!(ask(&server, &head).body, "user 7", "sessions stay");

    // A name that is another's is nobody's to take.
    page(&bank, "no bank");
    write(&settings.replace("shop.example", "bank.example"));
    server.signal(Signal::HUP);
    server.said("both have the host bank.example");
    assert_eq!(get(&server, "bank.example", "/hello").1, "a new bank");
    assert_eq!(get(&server, "store.example", "/hello").1, "a new shop");
}

#[test]
fn nobody_has_to_agree_with_what_a_reload_has_refused() {
    let test = "hosts-agree";
    let bank = service(test, "bank", "[service]\nhost = \"bank.example\"");
    let shop = service(test, "shop", "[service]\nhost = \"shop.example\"");
    let server = start(&[&bank, &shop]);
    let write = |path: &Path, text: &str| fs::write(path, text).expect("it is written");
    let add = |folder: &Path, settings: &str| {
        let file = folder.join("service.toml");
        let before = fs::read_to_string(&file).expect("a text");
        write(&file, &format!("{before}{settings}"));
    };
    // It is sound, and may not be served without a restart.
    write(&bank.join("secret"), &"s".repeat(64));
    let secret = "[session]\nsecret_file = \"secret\"\n";
    add(&bank, &format!("{secret}[limits]\nhead_bytes_max = 9999\n"));
    server.signal(Signal::HUP);
    server.said("how sessions are shared");
    // Nor may it be now; the other says something else.
    write(&bank.join("pages/hello.html"), "{{ broken");
    add(&shop, "[limits]\nhead_bytes_max = 8888\n");
    let page = "+++\nroute = \"GET /hello\"\n+++\na new shop";
    write(&shop.join("pages/hello.html"), page);
    server.signal(Signal::HUP);
    let start = Instant::now();
    while get(&server, "shop.example", "/hello").1 != "a new shop" {
        assert!(start.elapsed() < NEVER, "the new shop is never served");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(get(&server, "bank.example", "/hello").1, "this is bank");
}

#[test]
fn services_that_cannot_be_served_together_are_refused() {
    let test = "hosts-refused";
    let bank = service(test, "bank", "[service]\nhost = \"bank.example\"");
    let of = |name: &str, settings: &str| service(test, name, settings);
    for (other, told) in [
        (
            of("same", "[service]\nhost = \"x.example bank.example\""),
            "the services bank and same both have the host bank.example",
        ),
        (
            of("named", "[service]\nname = \"bank\"\nhost = \"y.example\""),
            "two services are called bank",
        ),
        (
            of("broken", "[service]\nhost = \"http://z.example\""),
            "`http://z.example` is no name of a host",
        ),
    ] {
        for command in ["check", "serve"] {
            let (is_well, said) = run(command, &[&bank, &other]);
            assert!(!is_well && said.contains(told), "{command}: {said}");
        }
    }
    let rest = [of("one", ""), of("two", "")];
    let (is_well, said) = run("check", &[&rest[0], &rest[1]]);
    assert!(
        !is_well && said.contains("neither of the services one and two has a host"),
        "{said}"
    );
    let limited = [7, 8].map(|size| {
        let settings = format!("[service]\nhost = \"{size}.example\"\n[cohort]\nsize = {size}");
        of(&format!("of{size}"), &settings)
    });
    let both = [&*limited[0], &*limited[1]];
    let (is_well, said) = run("check", &both);
    let told = "`size` of [cohort] is 7 in service of7, and 8 in service of8";
    assert!(!is_well && said.contains(told), "{said}");
    // A flag says it for all.
    let server = Server::start(
        both[0],
        &[both[1].to_str().expect("text"), "--cohort-size", "9"],
    );
    assert_eq!(get(&server, "8.example", "/hello").1, "this is of8");
}

#[test]
fn check_tells_of_all_services() {
    let test = "hosts-check";
    let bank = service(
        test,
        "bank",
        "[service]\nhost = \"bank.example\"\n[limits]\nhead_bytes_max = 9999",
    );
    let shop = service(test, "shop", "[service]\nhost = \"shop.example\"");
    let (is_well, said) = run("check", &[&bank, &shop]);
    assert!(is_well, "{said}");
    for told in [
        "bank: 4 pages",
        "  for bank.example",
        "shop: 4 pages",
        "  for shop.example",
    ] {
        assert!(said.contains(told), "{said}");
    }
    fs::write(
        bank.join("pages/hello.html"),
        "+++\nroute = \"GET /hello\"\n+++\n{{ no }}",
    )
    .expect("it is written");
    fs::write(
        shop.join("pages/hello.html"),
        "+++\nroute = \"GET /hello\"\n+++\n{{ nothing }}",
    )
    .expect("it is written");
    let (is_well, said) = run("check", &[&bank, &shop]);
    assert!(
        !is_well && said.contains("bank:\n") && said.contains("shop:\n"),
        "{said}"
    );
    assert_eq!(said.matches("pages/hello.html:4").count(), 2, "{said}");
}
