//! A site on a server of HTTP that answers JSON, or does not: slow, dead, hanging, lying, started
//! again; and one Rhythm on another.

use super::server::Server;
use super::site::{Site, check, until};
use super::sqlite::get;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A request as it came, its content included.
type Asked = Arc<Mutex<Vec<String>>>;

/// What is done about a request's line: bytes to be sent, and whether the connection goes on.
type Answer = fn(&str) -> (Vec<u8>, bool);

/// A server of a test's own, a thread a connection, which ends with it.
struct Api {
    port: u16,
    asked: Asked,
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Api {
    fn start(answer: Answer) -> Api {
        Api::start_at(0, answer)
    }

    fn start_at(port: u16, answer: Answer) -> Api {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let (asked, is_over) = (Asked::default(), Arc::<AtomicBool>::default());
        let (seen, ends) = (asked.clone(), is_over.clone());
        let thread = thread::spawn(move || {
            let mut open: Vec<TcpStream> = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                if ends.load(Ordering::SeqCst) {
                    break;
                }
                open.push(stream.try_clone().expect("a file"));
                let seen = seen.clone();
                thread::spawn(move || serve(stream, &seen, answer));
            }
            // Who reads from them finds that they have ended.
            for stream in open {
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        Api {
            port,
            asked,
            is_over,
            thread: Some(thread),
        }
    }

    /// What was asked since.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().expect("no panic"))
    }

    fn stop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(stream: TcpStream, seen: &Asked, answer: Answer) {
    let mut writer = stream.try_clone().expect("a file");
    let mut reader = BufReader::new(stream);
    loop {
        let (mut request, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if !matches!(reader.read_line(&mut line), Ok(1..)) {
                return;
            }
            request += &line;
            if let Some(digits) = line.strip_prefix("Content-Length: ") {
                length = digits.trim().parse().expect("a number");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut content = vec![0; length];
        if reader.read_exact(&mut content).is_err() {
            return;
        }
        let line = request.lines().next().unwrap_or_default().to_owned();
        request += &String::from_utf8(content).expect("UTF-8");
        seen.lock().expect("no panic").push(request);
        let (bytes, goes_on) = answer(&line);
        let is_sent = writer.write_all(&bytes).is_ok();
        if !is_sent || !goes_on {
            // It may have gone already.
            let _ = writer.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn json(status: u16, content: &str) -> Vec<u8> {
    let length = content.len();
    format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{content}").into_bytes()
}

/// A site on a server at this port.
fn site(test: &str, port: u16, settings: &str) -> Site {
    let table = format!("kind = \"http\"\nurl = \"http://127.0.0.1:{port}/base\"\n{settings}");
    Site::new(test, &table)
}

/// Does what the path says.
fn obedient(line: &str) -> (Vec<u8>, bool) {
    let path = line.split(' ').nth(1).unwrap_or_default();
    let items = "{\"data\":{\"items\":[{\"id\":1,\"title\":\"a\\u00e9<\",\"cost\":12.50},\
                 {\"cost\":null,\"id\":-2,\"title\":\"\"}]}}";
    match path.strip_prefix("/base/").unwrap_or_default() {
        "items" => (json(200, items), true),
        "gone" => (json(404, "gone"), true),
        "broken" => (json(503, items), true),
        "no-json" => (json(200, "<html>"), true),
        "half-json" => (json(200, &items[..40]), true),
        "deep" => (json(200, &"[".repeat(200_000)), true),
        "long" => (json(200, &" ".repeat(2 << 20)), false),
        "typed" => (json(200, &items.replace("-2", "\"two\"")), true),
        "lacks" => (json(200, &items.replace("title", "name")), true),
        "lies" => (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}".to_vec(),
            false,
        ),
        "no-chunk" => {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
            (head.as_bytes().to_vec(), false)
        }
        "chunks" => {
            let (one, two) = items.split_at(17);
            let chunks = format!(
                "HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                 {:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\n\r\n",
                one.len(),
                two.len()
            );
            (chunks.into_bytes(), true)
        }
        "closes" => {
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
            ([head, items].concat().into_bytes(), false)
        }
        "says-nothing" => (Vec::new(), false),
        "hangs" => (Vec::new(), true),
        "slow" => {
            thread::sleep(Duration::from_millis(150));
            (json(200, items), true)
        }
        _ => (json(200, "{}"), true),
    }
}

const ROWS: &str = "at = \"$.data.items\"\nrows = \"items(id:int, title, cost)\"";
const SHOWN: &str = "{{ items.status }}{% for i in items %}[{{ i.id }} {{ i.title }} {{ i.cost }}]\
                     {% endfor %}";

#[test]
fn whatever_a_server_does_is_an_answer_in_time() {
    let api = Api::start(obedient);
    let site = site("http_server", api.port, "timeout = \"3s\"");
    let items = "0[1 a\u{e9}&lt; 12.50][-2  ]";
    let all: [(&str, u16, &str); 16] = [
        ("items", 200, items),
        ("chunks", 200, items),
        ("closes", 200, items),
        ("slow", 200, items),
        ("gone", 200, "404"),
        ("broken", 502, "status 503"),
        ("no-json", 502, "no document of JSON"),
        ("half-json", 502, "no document of JSON"),
        ("deep", 502, "too deep"),
        ("long", 502, "more than 1 MiB"),
        ("typed", 502, "`id` of row 2 is no integer"),
        ("lacks", 502, "`title` of row 1 is not there"),
        ("lies", 502, ""),
        ("no-chunk", 502, "no HTTP"),
        ("says-nothing", 502, ""),
        ("hangs", 504, ""),
    ];
    for (name, ..) in all {
        site.page(name, &format!("get = \"/{name}\"\n{ROWS}"), SHOWN);
    }
    let server = Server::start(&site.folder, &[]);
    for (name, status, told) in all {
        let path = format!("/{name}");
        let (found, body) = get(&server, &path);
        assert_eq!(found, status, "{name}: {body}");
        if status == 200 {
            assert_eq!(body, told, "{name}");
        } else if !told.is_empty() {
            let statement = format!("GET /{name}");
            let is = |line: &serde_json::Value| line["fields"]["statement"] == *statement;
            let line = server.said_of(is);
            let cause = line["fields"]["cause"].as_str().unwrap_or_default();
            assert!(cause.contains(told), "{name}: {line}");
        }
        // What one did is no other's business.
        assert_eq!(
            get(&server, "/items"),
            (200, items.to_owned()),
            "after {name}"
        );
    }
    // The request's own line names page and step.
    let said = server.said("a request failed")["fields"].clone();
    assert!(said["page"].is_string() && said["step"] == 1, "{said}");
}

#[test]
fn one_that_was_stopped_is_asked_again_when_it_is_back() {
    let mut api = Api::start(obedient);
    let port = api.port;
    let site = site("http_restart", port, "");
    site.page(
        "items",
        &format!("get = \"/items\"\n{ROWS}"),
        "{{ items|length }}",
    );
    let server = Server::start(&site.folder, &[]);
    for _ in 0..3 {
        assert_eq!(get(&server, "/items"), (200, "2".to_owned()));
    }
    api.stop();
    assert!(matches!(get(&server, "/items").0, 502 | 503));
    let _back = Api::start_at(port, obedient);
    until(&server, "/items", 200);
}

/// What is typed, percent-encoded, and as it is asked for in a path.
const TYPED: [(&str, &str); 8] = [
    ("plain", "plain"),
    ("%2F..%2F", "%2F..%2F"),
    ("%252f", "%252f"),
    (
        "%0D%0AX-Evil%3A+1%0D%0A%0D%0A",
        "%0D%0AX-Evil%3A%201%0D%0A%0D%0A",
    ),
    ("%3Fa%3Db%26c%23d", "%3Fa%3Db%26c%23d"),
    ("%22%5C%27%3B", "%22%5C%27%3B"),
    ("%C3%A9%01%7F", "%C3%A9%01%7F"),
    ("...", "..."),
];

#[test]
fn what_is_typed_stays_in_its_place() {
    let api = Api::start(obedient);
    let site = site("http_typed", api.port, "");
    site.form(
        "post",
        "post = \"/a/{{ name }}/b?c={{ text }}&d=e\"\nheaders = { X-Of = \"<{{ text }}>\" }\n\
         json = { name = \"name\", \"a b\" = { n = 7, is = \"name == text\" } }",
        "done",
    );
    let server = Server::start(&site.folder, &[]);
    let mut client = server.client();
    for (typed, encoded) in TYPED {
        let form = format!("name={typed}&text={typed}");
        let answer = client.ask("POST", "/post", &form).expect("an answer");
        assert_eq!((answer.status, &*answer.body), (200, "done"), "{typed}");
        let asked = api.asked();
        let [request] = &asked[..] else {
            panic!("one request, not {asked:?}");
        };
        let (head, content) = request.split_once("\r\n\r\n").expect("a head");
        let mut lines = head.split("\r\n");
        let line = format!("POST /base/a/{encoded}/b?c={encoded}&d=e HTTP/1.1");
        assert_eq!(lines.next(), Some(&*line));
        let names: Vec<&str> = lines
            .map(|line| line.split(':').next().unwrap_or(""))
            .collect();
        let expected = ["Host", "Accept", "X-Of", "Content-Type", "Content-Length"];
        assert_eq!(names, expected, "{typed}");
        let mut name = Vec::new();
        for part in typed.replace('+', " ").split_inclusive('%').enumerate() {
            let (number, part) = part;
            let part = part.trim_end_matches('%');
            match number {
                0 => name.extend_from_slice(part.as_bytes()),
                _ => {
                    name.push(u8::from_str_radix(&part[..2], 16).expect("digits"));
                    name.extend_from_slice(&part.as_bytes()[2..]);
                }
            }
        }
        let name = String::from_utf8(name).expect("UTF-8");
        let json: serde_json::Value = serde_json::from_str(content).expect("JSON");
        let wanted = serde_json::json!({ "name": name, "a b": { "n": 7, "is": true } });
        assert_eq!(json, wanted);
    }
    // These would lead elsewhere.
    for typed in ["", ".", ".."] {
        let form = format!("name={typed}&text=a");
        let answer = client.ask("POST", "/post", &form).expect("an answer");
        assert_eq!(answer.status, 502, "{typed:?}");
    }
    assert_eq!(api.asked(), Vec::<String>::new());
}

#[test]
fn a_page_does_without_an_optional_call() {
    let mut api = Api::start(obedient);
    let site = site("http_optional", api.port, "timeout = \"3s\"");
    for (name, status) in [
        ("items", "0"),
        ("gone", "404"),
        ("broken", "502"),
        ("typed", "502"),
        ("says-nothing", "502"),
        ("hangs", "504"),
    ] {
        let step = format!("get = \"/{name}\"\n{ROWS}\noptional = true");
        site.page(name, &step, "{{ items.status }} {{ items|length }}");
        let count = if status == "0" { 2 } else { 0 };
        let row = "at = \"$.data.items[0]\"\nrow = \"it(id:int, title)\"";
        let step = format!("get = \"/{name}\"\n{row}\noptional = true");
        let page = format!("{name}-row");
        site.page(&page, &step, "{{ it.status }} {{ it.id }}[{{ it.title }}]");
        if name == "items" {
            let server = Server::start(&site.folder, &[]);
            let row = get(&server, "/items-row");
            assert_eq!(row, (200, "0 1[a\u{e9}&lt;]".to_owned()));
            continue;
        }
        let server = Server::start(&site.folder, &[]);
        let shown = (200, format!("{status} {count}"));
        assert_eq!(get(&server, &format!("/{name}")), shown, "{name}");
        if name != "typed" {
            let shown = (200, format!("{status} 0[]"));
            assert_eq!(get(&server, &format!("/{page}")), shown, "{name}");
        }
        if name != "gone" {
            let said = server.said("an optional call failed");
            let fields = &said["fields"];
            assert_eq!(
                (&fields["page"], &fields["backend"]),
                (&name.into(), &"asked".into())
            );
        }
    }
    api.stop();
    let server = Server::start(&site.folder, &[]);
    assert_eq!(get(&server, "/items"), (200, "502 0".to_owned()));
    assert_eq!(get(&server, "/items-row"), (200, "502 0[]".to_owned()));
}

#[test]
fn a_site_answers_json_to_another_and_a_token_is_sent() {
    let inner = Site::new("http_inner", "kind = \"besim\"");
    inner.write(
        "pages/json.html",
        "+++\nroute = \"GET /base/of/{id}\"\ncontent_type = \"application/json\"\n[params]\n\
         id = { in = \"path\", type = \"int\" }\n\
         [params.authorization]\nin = \"header\"\nname = \"Authorization\"\ntype = \"text\"\n\
         [[step]]\ncall = \"asked\"\nrequest = \"1&2&{{ id }}\"\n\
         rows = \"accounts(number, kind, balance)\"\n+++\n\
         {\"who\": {{ authorization }}, \"accounts\": {{ accounts }}}",
    );
    let inner = Server::start(&inner.folder, &[]);
    let outer = site("http_outer", inner.address.port(), "token_file = \"token\"");
    outer.write("token", "secret-17\n");
    outer.page(
        "shown",
        "get = \"/of/17\"\nat = \"$.accounts\"\nrows = \"accounts(number:int, kind, balance)\"",
        "{% for a in accounts %}{{ a.number }} {{ a.kind }} {{ a.balance }};{% endfor %}",
    );
    outer.page("who", "get = \"/of/17\"\nrow = \"it(who)\"", "{{ it.who }}");
    let outer = Server::start(&outer.folder, &[]);
    let direct = Site::new("http_direct", "kind = \"besim\"");
    direct.page(
        "shown",
        "request = \"1&2&17\"\nrows = \"accounts(number:int, kind, balance)\"",
        "{% for a in accounts %}{{ a.number }} {{ a.kind }} {{ a.balance }};{% endfor %}",
    );
    let direct = Server::start(&direct.folder, &[]);
    let shown = get(&outer, "/shown");
    assert_eq!(shown, get(&direct, "/shown"));
    assert!(shown.0 == 200 && shown.1.len() > 10, "{shown:?}");
    assert_eq!(get(&outer, "/who"), (200, "Bearer secret-17".to_owned()));
}

#[test]
fn requests_that_came_together_share_an_answer() {
    let api = Api::start(obedient);
    let site = site("http_shared", api.port, "");
    site.page(
        "slow",
        &format!("get = \"/slow\"\n{ROWS}"),
        "{{ items|length }}",
    );
    let server = Server::start(&site.folder, &[]);
    let request = "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut client = server.client();
    client.send(&request.repeat(32)).expect("it reads");
    for _ in 0..32 {
        assert_eq!(client.answer().expect("an answer").status, 200);
    }
    let asked = api.asked().len();
    assert!(asked < 32, "{asked} requests for 32 that ask the same");
}

#[test]
fn calls_are_checked_where_they_stand() {
    let site = site("http_check", 1, "");
    for (step, told) in [
        (
            "get = \"/a\"\njson = { a = \"1\" }\nrows = \"a(a)\"",
            "`json` does not go with `get`",
        ),
        ("get = \"a\"\nrows = \"a(a)\"", "begins with a `/`"),
        (
            "get = \"/a\"\nat = \"a.b\"\nrows = \"a(a)\"",
            "no way to the rows",
        ),
        ("get = \"/a/../b\"\nrows = \"a(a)\"", "without `.` and `..`"),
        (
            "get = \"/a/%2E/b\"\nrows = \"a(a)\"",
            "without `.` and `..`",
        ),
        ("get = \"/100%\"\nrows = \"a(a)\"", "a `%` begins no escape"),
        ("rows = \"a(a)\"", "the call does not say what it asks"),
    ] {
        site.page("tried", step, "");
        let said = check(&site.folder);
        assert!(
            said.contains(told) && said.contains("pages/tried.html:"),
            "{step}: {said}"
        );
    }
}
