//! A site that is begun: `rhythm new` makes one that is right and works, and `rhythm serve --watch`
//! serves what is written next.

use super::server::{NEVER, Server, service};
use super::sqlite::get;
use super::tls::make;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

fn rhythm(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    let run = command.args(arguments).arg(folder).output();
    run.expect("it runs")
}

/// Asks until the answer is one of these.
fn until(server: &Server, path: &str, status: u16, text: &str) -> String {
    let start = Instant::now();
    loop {
        let (got, page) = get(server, path);
        if got == status && page.contains(text) {
            return page;
        }
        assert!(
            start.elapsed() < NEVER,
            "{path} is never {status} {text}: {got} {page}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_new_site_works_and_is_served_as_it_changes() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new_site");
    let _ = fs::remove_dir_all(&folder);
    let made = rhythm(&["new"], &folder);
    assert!(made.status.success(), "{made:?}");
    let again = rhythm(&["new"], &folder);
    let told = String::from_utf8_lossy(&again.stderr);
    assert!(
        !again.status.success() && told.contains("is not empty"),
        "{told}"
    );
    let checked = rhythm(&["check"], &folder);
    assert!(
        checked.status.success() && checked.stderr.is_empty(),
        "{checked:?}"
    );

    // One that is begun with a mistake shows it, and then what is right.
    let index = folder.join("pages/index.html");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("{% else %}", "{% esle %}")).unwrap();
    let server = Server::start(&folder, &["--watch"]);
    assert!(until(&server, "/", 500, "esle").contains("pages/index.html:"));
    fs::write(&index, text).unwrap();
    until(&server, "/", 200, "Add a page");
    assert_eq!(get(&server, "/static/style.css").0, 200);
    let mut client = server.client();
    let shown = client.ask("GET", "/", "").expect("an answer");
    let cookie = shown.cookies.first().expect("who has none is given one");
    let (_, token) = shown
        .body
        .split_once("csrf_token\" value=\"")
        .expect("a form");
    let (token, _) = token.split_once('"').expect("a value");
    let mut post = |path: &str, form: &str| {
        let form = format!("csrf_token={token}&{form}");
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nCookie: {cookie}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\n",
            form.len()
        );
        client.send(&(head + &form)).expect("it listens");
        client.answer().expect("an answer")
    };
    assert_eq!(post("/entries", "text=%3Cnew%3E+%26+more").status, 303);
    assert!(get(&server, "/").1.contains("&lt;new&gt; &amp; more"));
    let long = format!("text={}", "x".repeat(201));
    let answer = post("/entries", &long);
    assert_eq!(answer.status, 422);
    let body = answer.body;
    assert!(
        body.contains("The text ") && body.contains(&long[5..]),
        "{body}"
    );
    assert_eq!(post("/entries/3/done", "").status, 303);
    assert!(!get(&server, "/").1.contains("&lt;new&gt;"));
    let answer = post("/entries/3/done", "");
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("Not found") && answer.body.contains("/static/style.css"));

    // What is changed is served; what is wrong is shown with its place, and then what is right.
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("To do", "Still to do")).unwrap();
    until(&server, "/", 200, "Still to do");
    fs::write(&index, text.replace("{% else %}", "{% esle %}")).unwrap();
    // A file that is being written may be read half written before.
    let shown = until(&server, "/", 500, "esle");
    assert!(
        shown.contains("This cannot be served as it is") && shown.contains("pages/index.html:"),
        "{shown}"
    );
    assert!(shown.contains("http-equiv=\"refresh\""));
    server.said("shown in place of the pages");
    fs::write(
        folder.join("pages/second.html"),
        "+++\nroute = \"GET /second\"\n+++\nIt is.\n",
    )
    .unwrap();
    fs::write(&index, text).unwrap();
    until(&server, "/second", 200, "It is.");
    assert!(get(&server, "/").1.contains("To do"));
}

/// A mistake is shown in place of what is the same for good, and goes: where it is there at the
/// start, and where it comes later.
#[test]
fn what_a_restart_alone_may_change_keeps_no_mistake_from_being_shown_and_mended() {
    let folder = service("watched");
    let write = |path: &str, text: &str| fs::write(folder.join(path), text).expect("a file");
    write("secret", &"s".repeat(64));
    make(&folder, "far", &["localhost"]);
    let settings = "[session]\nsecret_file = \"secret\"\n[backend.far]\nkind = \"http\"\n\
                    url = \"https://localhost:1\"\ntls_ca = \"far/cert.pem\"\n";
    write("service.toml", settings);
    let page = "pages/hello.html";
    let text = fs::read_to_string(folder.join(page)).expect("a page");
    let mistaken = text.replace("{{ name }}", "{{ nmae }}");
    assert_ne!(mistaken, text);
    write(page, &mistaken);
    let server = Server::start(&folder, &["--watch"]);
    for _ in 0..2 {
        write(page, &mistaken);
        until(&server, "/hello", 500, "nmae");
        write(page, &text);
        until(&server, "/hello", 200, "Hello, you");
    }
}
