//! A site on memcached, and on `rhythm kv`: what is typed is a key or a value, and who asks what
//! cannot be asked fails alone.
//!
//! Needs Debian's `memcached`; each test has servers of its own.

use super::server::{NEVER, Server};
use super::site::{Site, check, until};
use super::sqlite::{get, post};
use rhythm_etcd::testing::free_places;
use rustix::process::geteuid;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The server's process; killed when dropped.
pub(crate) struct Cache {
    is_memcached: bool,
    port: u16,
    more: Vec<String>,
    child: Option<Child>,
}

impl Cache {
    /// Starts memcached, or `rhythm kv`.
    pub(crate) fn start(is_memcached: bool) -> Cache {
        Cache::start_with(is_memcached, &[])
    }

    /// Starts it with more options.
    pub(crate) fn start_with(is_memcached: bool, more: &[&str]) -> Cache {
        let port = free_places(1)[0].port();
        let mut cache = Cache {
            is_memcached,
            port,
            more: more.iter().map(|it| (*it).to_owned()).collect(),
            child: None,
        };
        cache.start_again();
        cache
    }

    fn command(&self) -> Command {
        if !self.is_memcached {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
            command.arg("kv");
            return command;
        }
        let mut command = Command::new("memcached");
        if geteuid().is_root() {
            command.args(["-u", "root"]);
        }
        command
    }

    /// Starts it again, after it was killed.
    pub(crate) fn start_again(&mut self) {
        self.kill();
        let mut command = self.command();
        command.args(["-l", "127.0.0.1", "-p", &self.port.to_string(), "-U", "0"]);
        command.args(&self.more);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("it is there"));
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(start.elapsed() < NEVER, "it does not start");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that has ended cannot be killed any more.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The first line of what is answered.
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it serves");
        stream.set_read_timeout(Some(NEVER)).expect("a duration");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut line = String::new();
        BufReader::new(stream)
            .read_line(&mut line)
            .expect("an answer");
        line
    }

    pub(crate) fn url(&self) -> String {
        format!("memcached://127.0.0.1:{}", self.port)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A site on a server, with a page for each verb.
fn site(test: &str, url: &str, settings: &str) -> Site {
    let table = format!("kind = \"memcached\"\nurl = \"{url}\"\n{settings}");
    let site = Site::new(test, &table);
    let changed = "{{ a.changed }}";
    for (name, step, body) in [
        (
            "get",
            "get = \"of:{{ name }}\"\nrows = \"a(text)\"",
            "{% for r in a %}[{{ r.text }}]{% endfor %}",
        ),
        (
            "set",
            "set = \"of:{{ name }}\"\nvalue = \"{{ text }}\"\nttl = 600",
            "done",
        ),
        (
            "add",
            "add = \"of:{{ name }}\"\nvalue = \"{{ text }}\"\nrow = \"a(changed:int)\"",
            changed,
        ),
        (
            "replace",
            "replace = \"of:{{ name }}\"\nvalue = \"{{ text }}\"\nrow = \"a(changed:int)\"",
            changed,
        ),
        (
            "append",
            "append = \"of:{{ name }}\"\nvalue = \"{{ text }}\"\nrow = \"a(changed:int)\"",
            changed,
        ),
        (
            "prepend",
            "prepend = \"of:{{ name }}\"\nvalue = \"{{ text }}\"\nrow = \"a(changed:int)\"",
            changed,
        ),
        (
            "delete",
            "delete = \"of:{{ name }}\"\nrow = \"a(changed:int)\"",
            changed,
        ),
        (
            "touch",
            "touch = \"of:{{ name }}\"\nttl = \"{{ text }}\"\nrow = \"a(changed:int)\"",
            changed,
        ),
        (
            "incr",
            "incr = \"of:{{ name }}\"\nby = \"{{ text }}\"\nrows = \"a(n:int)\"",
            "{{ a.status }}{% for r in a %} {{ r.n }}{% endfor %}",
        ),
        (
            "decr",
            "decr = \"of:{{ name }}\"\ninitial = 10\nttl = 60\nrow = \"a(n:int)\"",
            "{{ a.status }} {{ a.n }}",
        ),
    ] {
        site.form(name, step, body);
    }
    site.page(
        "ping",
        "get = \"ping\"\nrows = \"a(text)\"",
        "{{ a|length }}",
    );
    site
}

#[test]
fn each_verb_does_what_it_says() {
    for is_memcached in [true, false] {
        let cache = Cache::start(is_memcached);
        let site = site("cache_verbs", &cache.url(), "");
        let server = Server::start(&site.folder, &[]);
        let mut client = server.client();
        let mut ask = |verb: &str, name: &str, text: &str, expected: &str| {
            let form = format!("name={name}&text={text}");
            let answer = client
                .ask("POST", &format!("/{verb}"), &form)
                .expect("an answer");
            let is = (answer.status, &*answer.body);
            assert_eq!(
                is,
                (200, expected),
                "{verb} {form}, memcached: {is_memcached}"
            );
        };
        ask("get", "a", "", "");
        ask("replace", "a", "x", "0");
        ask("add", "a", "b", "1");
        ask("add", "a", "x", "0");
        ask("append", "a", "c", "1");
        ask("prepend", "a", "a", "1");
        ask("get", "a", "", "[abc]");
        ask("touch", "a", "100", "1");
        ask("touch", "nothing", "100", "0");
        ask("incr", "a", "1", "1");
        ask("delete", "a", "", "1");
        ask("delete", "a", "", "0");
        ask("incr", "n", "1", "0");
        ask("decr", "n", "", "0 10");
        ask("decr", "n", "", "0 9");
        // It lies there with a blank behind it.
        ask("get", "n", "", "[9]");
        ask("incr", "n", "90", "0 99");
    }
}

#[test]
fn what_is_typed_is_a_key_or_a_value() {
    for is_memcached in [true, false] {
        let cache = Cache::start(is_memcached);
        let site = site("cache_typed", &cache.url(), "");
        let server = Server::start(&site.folder, &[]);
        let mut client = server.client();
        // Percent-encoded: ends of lines, a second request, blanks, letters that are none of ASCII.
        let ends = "%0D%0Aflush_all%0D%0A";
        let long = "%20".repeat(183);
        for (name, text, shown) in [
            ("plain", ends, "\r\nflush_all\r\n"),
            ("a+b", "x", "x"),
            (ends, "y", "y"),
            ("%C3%A9", "%C3%A9", "\u{e9}"),
            (&long, "z", "z"),
        ] {
            let form = format!("name={name}&text={text}");
            assert_eq!(post(&mut client, "/set", &form).unwrap(), 200, "{form}");
            let answer = client.ask("POST", "/get", &form).unwrap();
            assert_eq!(
                (answer.status, answer.body),
                (200, format!("[{shown}]")),
                "{form}"
            );
        }
        // As others name them.
        assert_eq!(cache.ask("mg b2Y6YSBi b s\r\n"), "HD s1\r\n");
        assert_eq!(cache.ask("mg of:plain s\r\n"), "HD s13\r\n");
        // Too long, and no number of seconds: that request alone fails, whatever is beside it.
        let beyond = format!("name={}&text=1", "k".repeat(248));
        let no_time = "name=plain&text=1+v%0D%0Aflush_all";
        let request = |path: &str, form: &str| {
            format!(
                "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\
                 Content-Type: application/x-www-form-urlencoded\r\n\r\n{form}",
                form.len()
            )
        };
        for (path, wrong) in [("/get", &*beyond), ("/touch", no_time)] {
            let right = request("/get", "name=a+b&text=");
            client
                .send(
                    &[&right, &request(path, wrong), &right]
                        .map(String::as_str)
                        .concat(),
                )
                .expect("it reads");
            for status in [200, 502, 200] {
                assert_eq!(client.answer().expect("an answer").status, status, "{path}");
            }
        }
        assert_eq!(cache.ask("mg of:plain s\r\n"), "HD s13\r\n");
        let said = server.said("a statement failed")["fields"].to_string();
        assert!(
            said.contains("get of:?") && said.contains("too long"),
            "{said}"
        );
    }
}

#[test]
fn a_server_that_was_killed_is_asked_again_when_it_is_back() {
    for is_memcached in [true, false] {
        let mut cache = Cache::start(is_memcached);
        let site = site("cache_restart", &cache.url(), "");
        let server = Server::start(&site.folder, &[]);
        cache.ask("ms ping 1\r\nx\r\n");
        for _ in 0..3 {
            assert_eq!(get(&server, "/ping"), (200, "1".to_owned()));
        }
        cache.kill();
        assert!(matches!(get(&server, "/ping").0, 502 | 503));
        cache.start_again();
        until(&server, "/ping", 200);
        assert_eq!(get(&server, "/ping"), (200, "0".to_owned()));
        // Nothing is seen of one that is back before it is asked.
        cache.start_again();
        assert_eq!(get(&server, "/ping"), (200, "0".to_owned()));
    }
}

#[test]
fn big_values_are_read_to_a_bound_and_a_socket_does_as_well() {
    let socket = std::env::temp_dir().join(format!("rhythm-cache-{}.sock", std::process::id()));
    let cache = Cache {
        is_memcached: true,
        more: Vec::new(),
        port: 0,
        child: None,
    };
    let mut command = cache.command();
    command.args(["-I", "4m", "-s"]).arg(&socket);
    let child = Some(command.stderr(Stdio::null()).spawn().expect("it is there"));
    let cache = Cache {
        child,
        more: Vec::new(),
        ..cache
    };
    let url = format!(
        "memcached://{}",
        socket.to_string_lossy().replace('/', "%2F")
    );
    let site = site("cache_socket", &url, "");
    for name in ["half", "twice"] {
        let step = format!("get = \"{name}\"\nrows = \"a(text)\"");
        site.page(
            name,
            &step,
            "{% for r in a %}{{ r.text|length }}{% endfor %}",
        );
    }
    let server = Server::start(&site.folder, &[]);
    until(&server, "/ping", 200);
    let mut other = std::os::unix::net::UnixStream::connect(&socket).expect("it serves");
    for (name, length) in [("half", 500_000), ("twice", 2_000_000)] {
        let value = "x".repeat(length);
        other
            .write_all(format!("ms {name} {length}\r\n{value}\r\n").as_bytes())
            .expect("it reads");
        let mut line = String::new();
        BufReader::new(&other)
            .read_line(&mut line)
            .expect("an answer");
        assert_eq!(line, "HD\r\n");
    }
    for _ in 0..3 {
        assert_eq!(get(&server, "/half"), (200, "500000".to_owned()));
        assert_eq!(get(&server, "/twice").0, 502);
    }
    drop(cache);
    let _ = std::fs::remove_file::<PathBuf>(socket);
}

#[test]
fn calls_are_checked_where_they_stand() {
    let site = site("cache_check", "memcached://127.0.0.1:1", "");
    for (step, told) in [
        ("get = \"\"\nrows = \"a(a)\"", "its key is empty"),
        ("get = \"k\"\nrows = \"a(a, b)\"", "answers one column"),
        (
            "set = \"k\"\nvalue = \"v\"\nttl = \"soon\"",
            "`ttl` is no number of seconds",
        ),
        ("set = \"k\"\nttl = 7", "`value` is missing"),
        (
            "get = \"k\"\nvalue = \"v\"\nrows = \"a(a)\"",
            "`value` does not go with `get`",
        ),
        (
            "get = \"k\"\nset = \"k\"\nvalue = \"v\"",
            "this is `get` and `set`",
        ),
        (
            "incr = \"k\"\nttl = 7",
            "`ttl` is for what begins with `initial`",
        ),
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
