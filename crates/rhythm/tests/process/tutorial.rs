//! docs/tutorial.md, as who reads it would do it: each section's files are written, what is there
//! is right after each, and the shop that comes out of it sells tea.

use super::server::{Answer, Client, Server};
use super::site::check;
use super::sqlite::get;
use std::fs;
use std::path::{Path, PathBuf};

const TUTORIAL: &str = include_str!("../../../../docs/tutorial.md");

/// The files of a section, in order: a line that begins with a file's name, and then an indented
/// block.
fn files(section: &str) -> Vec<(&str, String)> {
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
struct Visitor {
    client: Client,
    cookies: Vec<(String, String)>,
}

impl Visitor {
    fn ask(&mut self, method: &str, path: &str, form: &str) -> Answer {
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
    fn send(&mut self, shown: &str, path: &str, form: &str) -> Answer {
        let page = self.ask("GET", shown, "").body;
        let (_, token) = page.split_once("csrf_token\" value=\"").expect("a form");
        let (token, _) = token.split_once('"').expect("a value");
        self.ask("POST", path, &format!("csrf_token={token}&{form}"))
    }
}

/// The shop as it is at the end.
fn shop() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tutorial");
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
    let server = Server::start(&shop(), &[]);
    let (status, list) = get(&server, "/");
    assert_eq!(status, 200);
    assert!(
        list.contains("<a href=\"/teas/1\">Assam</a>, 4.50 EUR"),
        "{list}"
    );
    let mut visitor = Visitor {
        client: server.client(),
        cookies: Vec::new(),
    };
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
}
