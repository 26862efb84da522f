//! docs/tutorial.md, as who reads it would do it: each section's files are written, what is there
//! is right after each, and the shop that comes out of it sells tea, each basket once.

use super::postgres::database::{Database, PASSWORD};
use super::server::{Answer, Client, NEVER, Server};
use super::site::check;
use super::sqlite::get;
use super::tls;
use rhythm_etcd::testing::free_places;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const TUTORIAL: &str = include_str!("../../../../docs/tutorial.md");

/// The files of a section, in order: a line that begins with a file's name, and then an indented
/// block.
pub(crate) fn files(section: &str) -> Vec<(&str, String)> {
    let mut files = Vec::new();
    let mut lines = section.lines().peekable();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix('`').and_then(|line| line.split_once('`'));
        let is_file = |name: &str| name.contains('.') && !name.contains([' ', '{', '"']);
        let Some((name, rest)) = name.filter(|(name, _)| is_file(name)) else {
            continue;
        };
        if !rest.ends_with(':') {
            continue;
        }
        while lines.next_if(|line| line.is_empty()).is_some() {}
        let mut text = String::new();
        while let Some(line) = lines.next_if(|line| line.is_empty() || line.starts_with("    ")) {
            text += line.strip_prefix("    ").unwrap_or_default();
            text.push('\n');
        }
        assert!(!text.is_empty(), "{name} is not shown");
        files.push((name, text));
    }
    files
}

/// A visitor, with his cookies.
pub(crate) struct Visitor {
    client: Client,
    cookies: Vec<(String, String)>,
}

impl Visitor {
    pub(crate) fn new(server: &Server) -> Visitor {
        Visitor::by(server.client())
    }

    /// One who comes by a connection.
    fn by(client: Client) -> Visitor {
        Visitor {
            client,
            cookies: Vec::new(),
        }
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, form: &str) -> Answer {
        let cookies = self.cookies.iter();
        let cookies: Vec<_> = cookies.map(|(name, it)| format!("{name}={it}")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\nContent-Length: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\n{form}",
            cookies.join("; "),
            form.len()
        );
        self.client.send(&request).expect("it listens");
        let answer = self.client.answer().expect("an answer");
        for cookie in &answer.cookies {
            let (name, value) = cookie.split_once('=').expect("a cookie");
            self.cookies.retain(|(known, _)| known != name);
            if !value.is_empty() {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        answer
    }

    /// Sends a form of a page, with the token that the page shows.
    pub(crate) fn send(&mut self, shown: &str, path: &str, form: &str) -> Answer {
        let token = self.token(shown);
        self.ask("POST", path, &format!("csrf_token={token}&{form}"))
    }

    fn token(&mut self, shown: &str) -> String {
        let page = self.ask("GET", shown, "").body;
        let (_, token) = page.split_once("csrf_token\" value=\"").expect("a form");
        let (token, _) = token.split_once('"').expect("a value");
        token.to_owned()
    }
}

/// The shop as it is at the end.
pub(crate) fn shop(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    let mut sections = 0;
    for section in TUTORIAL.split("\n## ") {
        let files = files(section);
        if files.is_empty() {
            continue;
        }
        sections += 1;
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
            fs::write(path, text).expect("a file can be written");
        }
        let said = check(&folder);
        // Of a shop that is half done.
        let leads_on = said.contains("nothing here answers POST /order")
            && said.contains("\n0 errors, 1 warning");
        let is_right = said.starts_with("tea: ") || leads_on && sections < 6;
        assert!(is_right, "{}: {said}", section.lines().next().unwrap_or(""));
    }
    assert_eq!(sections, 6);
    folder
}

#[test]
fn the_shop_of_the_tutorial_sells_tea() {
    let server = Server::start(&shop("tutorial"), &[]);
    let (status, list) = get(&server, "/");
    assert_eq!(status, 200);
    assert!(
        list.contains("<a href=\"/teas/1\">Assam</a>, 4.50 EUR"),
        "{list}"
    );
    let mut visitor = Visitor::new(&server);
    let tea = visitor.ask("GET", "/teas/1", "").body;
    assert!(tea.contains("Strong &amp; malty."), "{tea}");
    assert_eq!(visitor.ask("GET", "/teas/4", "").status, 404);
    assert_eq!(visitor.ask("GET", "/teas/none", "").status, 400);
    let found = visitor.ask("GET", "/search?q=rolled", "").body;
    assert!(
        found.contains("/teas/3") && !found.contains("/teas/1"),
        "{found}"
    );
    let none = visitor.ask("GET", "/search?q=%3Cb%3E", "").body;
    assert!(none.contains("Nothing has \"&lt;b&gt;\" in it."), "{none}");
    assert!(
        visitor
            .ask("GET", "/basket", "")
            .body
            .contains("nothing in it")
    );

    // From another site, of no tea, and of one twice.
    assert_eq!(
        visitor.ask("POST", "/basket", "tea=2&packets=1").status,
        403
    );
    let put = |visitor: &mut Visitor, form: &str| visitor.send("/teas/2", "/basket", form);
    assert_eq!(put(&mut visitor, "tea=4&packets=1").status, 404);
    for _ in 0..2 {
        let answer = put(&mut visitor, "tea=2&packets=1");
        assert_eq!(answer.location.as_deref(), Some("/basket"));
        let basket = visitor.ask("GET", "/basket", "").body;
        assert!(basket.contains("It is in your basket."), "{basket}");
    }
    let basket = visitor.ask("GET", "/basket", "").body;
    assert!(basket.contains("<td>2</td><td>17.80 EUR</td>"), "{basket}");
    assert!(!basket.contains("It is in your basket."), "{basket}");

    let order = |visitor: &mut Visitor, form: &str| visitor.send("/basket", "/order", form);
    let wrong = order(&mut visitor, "name=&address=Here+and+there");
    assert_eq!(wrong.status, 422);
    let told = "Your name is too short. </p>";
    assert!(wrong.body.contains(told), "{}", wrong.body);
    assert!(
        wrong.body.contains("value=\"Here and there\""),
        "{}",
        wrong.body
    );
    let right = order(&mut visitor, "name=A+%26+B&address=Here+and+there");
    assert_eq!(right.status, 303);
    let thanks = visitor.ask("GET", "/basket", "").body;
    assert!(
        thanks.contains("Thank you, A &amp; B. Your order has the number 1."),
        "{thanks}"
    );
    assert!(thanks.contains("nothing in it"), "{thanks}");

    // One packet is left: of two nothing is ordered.
    assert_eq!(put(&mut visitor, "tea=2&packets=2").status, 303);
    let few = order(&mut visitor, "name=C&address=Here+and+there");
    assert_eq!(few.status, 409);
    assert!(few.body.contains("fewer packets left"), "{}", few.body);
    let (_, all) = get(&server, "/api/teas");
    assert!(
        all.contains("{\"id\":2,\"name\":\"Darjeeling\",\"price\":890,\"stock\":1}"),
        "{all}"
    );
    assert!(all.ends_with("\"count\":3}"), "{all}");

    // Who has a basket fails no sign-in, however often he fills it.
    for _ in 0..130 {
        assert_eq!(put(&mut visitor, "tea=1&packets=1").status, 303);
    }
}

/// The commands that a section has one type, each in a line.
fn typed(heading: &str) -> Vec<String> {
    let start = format!("\n## {heading}\n");
    let (_, section) = TUTORIAL.split_once(&start).expect("a section");
    let (section, _) = section.split_once("\n## ").expect("others follow");
    let joined = section.replace("\\\n      ", "");
    let lines = joined.lines().filter_map(|line| line.strip_prefix("    "));
    lines.map(str::to_owned).collect()
}

#[test]
fn under_https_the_shop_is_shown_to_who_is_told_whom_to_believe() {
    let above = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tutorial_https");
    // What an earlier run has left.
    let _ = fs::remove_dir_all(&above);
    let folder = shop("tutorial_https/shop");
    let shown = typed("Under HTTPS");
    let is_command = |line: &&String| ["rhythm ", "curl "].iter().any(|it| line.starts_with(it));
    let (commands, settings): (Vec<&String>, Vec<&String>) = shown.iter().partition(is_command);
    let [certificate, serve, asks @ ..] = &commands[..] else {
        panic!("{shown:?}");
    };
    let program = Path::new(env!("CARGO_BIN_EXE_rhythm"));
    let path = std::env::var("PATH").unwrap_or_default();
    let programs = program.parent().expect("a folder").display();
    let run = |line: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(&above);
        shell.env("PATH", format!("{programs}:{path}"));
        let output = shell
            .env("no_proxy", "*")
            .output()
            .expect("there is a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(certificate);
    let sealed = free_places(1)[0];
    let serve = serve.replace("8443", &sealed.port().to_string());
    let flags = serve.strip_prefix("rhythm serve shop ").expect("it serves");
    // The server is started elsewhere.
    let flags = flags
        .split_whitespace()
        .map(|flag| match flag.strip_prefix("tls/") {
            Some(file) => above.join("tls").join(file).display().to_string(),
            None => flag.to_owned(),
        });
    let flags: Vec<String> = flags.collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::start(&folder, &flags);
    let shown = asks.iter().map(|ask| {
        assert!(ask.starts_with("curl "), "{ask}");
        let plain = ask.replace("8080", &server.address.port().to_string());
        run(&plain.replace("8443", &sealed.port().to_string()))
    });
    let shown: Vec<String> = shown.collect();
    assert_eq!(shown.len(), 2);
    assert!(shown[0].contains("\">Assam</a>, 4.50 EUR"), "{}", shown[0]);
    assert!(shown[1].contains("Strong &amp; malty."), "{}", shown[1]);
    // Who does not follow sees nothing in the clear.
    assert_eq!(get(&server, "/").0, 308);
    let mut visitor = Visitor::by(tls::client(sealed, &above.join("tls/cert.pem")));
    let put = visitor.send("/teas/1", "/basket", "tea=1&packets=2");
    assert_eq!(put.location.as_deref(), Some("/basket"));
    let basket = visitor.ask("GET", "/basket", "").body;
    assert!(basket.contains("<td>2</td><td>9.00 EUR</td>"), "{basket}");
    drop(server);
    // What flags said may stand in service.toml.
    let file = folder.join("service.toml");
    let before = fs::read_to_string(&file).expect("it is there");
    let secure = before.replace("[session]\n", "[session]\ncookie_secure = true\n");
    let after: String = settings.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&file, format!("{secure}\n{after}")).expect("it can be written");
    let said = check(&folder);
    let is_right = said.starts_with("tea: ") && !said.contains("warning");
    assert!(is_right && after.contains("tls_listen"), "{said}");
}

#[test]
fn who_presses_twice_buys_a_basket_once_on_postgres() {
    let folder = shop("tutorial_postgres");
    // What the tutorial says to change.
    let change = |file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(folder.join(file)).expect("it is there");
        assert!(text.contains(from), "{file}: {from}");
        fs::write(folder.join(file), text.replace(from, to)).expect("a file can be written");
    };
    let key = "integer primary key";
    let numbered = format!("{key} generated by default as identity");
    change("schema.sql", key, &numbered);
    change("pages/put.html", "min(99,", "least(99,");
    change("pages/search.html", " like ", " ilike ");
    let database = Database::start("tutorial", &[]);
    database.carry_out(&fs::read_to_string(folder.join("schema.sql")).expect("it is there"));
    let password = folder.join("password");
    fs::write(&password, PASSWORD).expect("a file can be written");
    let [url, password] = [
        format!("shop={}", database.url()),
        format!("shop.password_file={}", password.display()),
    ];
    let mut check = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    check
        .arg("check")
        .arg(&folder)
        .args(["--backends", "--backend", &url]);
    let said = check.output().expect("it runs").stderr;
    let said = String::from_utf8_lossy(&said);
    // The table of service.toml is SQLite's, and has no such key.
    let told = "name that as `--backend shop.password_file=...`";
    assert!(said.matches(told).count() >= 2, "{said}");
    let flags = [&*url, &password, "shop.timeout=30s"].map(|flag| ["--backend", flag]);
    let server = Server::start(&folder, flags.as_flattened());
    let mut visitor = Visitor::new(&server);
    let put = visitor.send("/teas/1", "/basket", "tea=1&packets=2");
    assert_eq!(put.status, 303);
    let token = visitor.token("/basket");
    let form = format!("csrf_token={token}&name=A&address=Here+and+there");
    // Whoever changes the stock waits, so that both are under way.
    let held = database.hold("select * from tea for update");
    let press = || {
        let mut again = Visitor::new(&server);
        again.cookies.clone_from(&visitor.cookies);
        again.ask("POST", "/order", &form)
    };
    let mut answers = thread::scope(|scope| {
        let pressed = [scope.spawn(press), scope.spawn(press)];
        let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        let start = Instant::now();
        while database.ask(waits).as_deref() != Some("2") {
            assert!(start.elapsed() < NEVER, "they never wait");
            thread::sleep(Duration::from_millis(20));
        }
        drop(held);
        pressed.map(|pressed| pressed.join().expect("an answer"))
    });
    answers.sort_by_key(|answer| answer.status);
    assert_eq!(answers.each_ref().map(|answer| answer.status), [303, 409]);
    let second = &answers[1].body;
    for told in [
        "perhaps you have ordered it already.",
        "There is nothing in it.",
    ] {
        assert!(second.contains(told), "{second}");
    }
    let look = |sql: &str| database.ask(sql).expect("an answer");
    assert_eq!(look("select count(*) from orders"), "1");
    assert_eq!(
        look("select tea, packets, price from order_line"),
        "1|2|450"
    );
    assert_eq!(look("select stock from tea where id = 1"), "18");
}
