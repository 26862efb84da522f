//! Two servers of one site, whose sessions are in Redis, memcached or `rhythm kv`: who signs in at
//! one is known at the other, who signs out is nobody there, and neither a server nor a store that
//! is killed lets anybody in who is not.
//!
//! Needs Debian's `redis-server` and `memcached`; each test has servers of its own.

use super::memcached::Cache;
use super::redis::Keeper;
use super::server::{Answer, NEVER, Server};
use super::site::check;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// For how long a server trusts what it knows.
const REFRESH: Duration = Duration::from_millis(500);

/// A site whose sessions are in this store.
fn site(test: &str, kind: &str, url: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    // What an earlier run has left.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("pages")).expect("a folder can be made");
    let write = |path: &str, text: &str| {
        fs::write(folder.join(path), text).expect("a file can be written");
    };
    write("secret", &"0123456789abcdef".repeat(4));
    let settings = format!(
        "[session]\ncsrf = true\nfields = {{ cart = \"int\", name = \"text(20)\" }}\n\
         store = \"kept\"\nstore_refresh = \"500ms\"\nsecret_file = \"secret\"\n\
         [backend.kept]\nkind = \"{kind}\"\nurl = \"{url}\"\ntimeout = \"10s\"\n"
    );
    write("service.toml", &settings);
    write(
        "pages/in.html",
        "+++\nroute = \"POST /in\"\n[params]\nuser = { in = \"form\", type = \"int\" }\n\
         [[step]]\nsession = \"create\"\nuser = \"user\"\nset = { name = \"'No. ' ~ user\" }\n\
         +++\nin",
    );
    write(
        "pages/add.html",
        "+++\nroute = \"POST /add\"\nsession = \"optional\"\n[[step]]\n\
         set = { cart = \"session.cart + 1\" }\n+++\nadded",
    );
    write(
        "pages/out.html",
        "+++\nroute = \"POST /out\"\nsession = \"optional\"\n[[step]]\nsession = \"destroy\"\n\
         +++\nout",
    );
    write(
        "pages/me.html",
        "+++\nroute = \"GET /me\"\nsession = \"optional\"\n+++\n\
         {{ session.userid }} {{ session.name }} {{ session.cart }}",
    );
    write(
        "pages/token.html",
        "+++\nroute = \"GET /token\"\n+++\n{{ csrf_token }}",
    );
    folder
}

/// A browser: its session's cookie, and a token.
#[derive(Clone, Default)]
struct Browser {
    cookie: String,
    token: String,
}

impl Browser {
    fn ask(&mut self, server: &Server, line: &str, form: &str) -> Answer {
        let mut client = server.client();
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let request = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\nX-CSRF-Token: {}\r\n{kind}\r\n\
             Content-Length: {}\r\n\r\n{form}",
            self.cookie,
            self.token,
            form.len()
        );
        client.send(&request).expect("it reads");
        let answer = client.answer().expect("an answer");
        if let Some(cookie) = answer.cookies.first() {
            self.cookie.clone_from(cookie);
        }
        answer
    }

    fn me(&mut self, server: &Server) -> String {
        let answer = self.ask(server, "GET /me", "");
        match answer.status {
            200 => answer.body,
            status => status.to_string(),
        }
    }

    /// With a token that `server` has shown, at another.
    fn post(&mut self, shown: &Server, server: &Server, path: &str, form: &str) -> u16 {
        self.token = self.ask(shown, "GET /token", "").body;
        self.ask(server, &format!("POST {path}"), form).status
    }
}

/// Waits until something holds, and says how long that took.
fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < NEVER, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
    start.elapsed()
}

/// What holds whichever store it is.
fn are_one_site(folder: &Path) {
    let told = check(folder);
    assert!(
        told.contains("no mistakes") || !told.contains("error"),
        "{told}"
    );
    let [one, other] = [Server::start(folder, &[]), Server::start(folder, &[])];
    let mut ann = Browser::default();
    assert_eq!(ann.post(&other, &one, "/in", "user=7"), 200);
    assert_eq!(ann.me(&other), "7 No. 7 0");
    assert_eq!(ann.me(&one), "7 No. 7 0");
    let mut bob = Browser::default();
    assert_eq!(bob.post(&one, &other, "/in", "user=8"), 200);
    for _ in 0..3 {
        assert_eq!(ann.post(&one, &other, "/add", ""), 200);
        assert_eq!(ann.post(&other, &one, "/add", ""), 200);
    }
    until("both know what she has", || {
        [&one, &other].map(|server| ann.me(server)) == ["7 No. 7 6", "7 No. 7 6"]
    });
    assert_eq!(bob.me(&one), "8 No. 8 0");
    // A guess is nobody.
    let mut guess = ann.clone();
    let last = guess.cookie.pop().expect("a digit");
    guess.cookie.push(if last == '0' { '1' } else { '0' });
    assert_eq!(guess.me(&one), "0  0");
    let mut stolen = ann.clone();
    assert_eq!(stolen.me(&other), "7 No. 7 6");
    assert_eq!(ann.post(&other, &one, "/out", ""), 200);
    assert_eq!(stolen.me(&one), "0  0");
    until("she is nobody there", || stolen.me(&other) == "0  0");
    // One is killed, and another takes its place.
    drop(one);
    let again = Server::start(folder, &[]);
    assert_eq!(stolen.me(&again), "0  0");
    assert_eq!(bob.me(&again), "8 No. 8 0");
    assert_eq!(bob.post(&again, &other, "/out", ""), 200);
    assert_eq!(bob.me(&again), "0  0");
}

#[test]
fn machines_on_redis_are_one_site_and_outlive_it() {
    let mut keeper = Keeper::start("sessions_redis", &[]);
    let folder = site("sessions_redis", "redis", &keeper.url());
    are_one_site(&folder);
    assert_eq!(keeper.ask(&["DBSIZE"]), "0");
    let [one, other] = [Server::start(&folder, &[]), Server::start(&folder, &[])];
    let mut ann = Browser::default();
    assert_eq!(ann.post(&one, &one, "/in", "user=7"), 200);
    assert_eq!(ann.me(&one), "7 No. 7 0");
    let key = keeper.ask(&["KEYS", "*"]);
    let id = ann.cookie.split_once('=').expect("a pair").1;
    assert!(
        key.starts_with("session:") && !key.contains(&id[8..]),
        "{key}"
    );
    assert!(!keeper.ask(&["GET", &key]).contains(&id[8..]));
    let seconds: u64 = keeper.ask(&["TTL", &key]).parse().expect("seconds");
    assert!((1700..=1801).contains(&seconds), "{seconds}");
    // Who writes to it cannot make a session, nor one another's.
    assert_eq!(ann.post(&one, &one, "/add", ""), 200);
    let record = keeper.ask(&["GET", &key]);
    let mut eve = Browser::default();
    assert_eq!(eve.post(&one, &one, "/in", "user=66"), 200);
    let keys = keeper.ask(&["KEYS", "*"]);
    let of_eve = keys.lines().find(|of| **of != *key).expect("another");
    let of_her = keeper.ask(&["GET", of_eve]);
    for lie in [&record, &record.replace("1&7&", "1&8&"), "x", ""] {
        keeper.ask(&["SET", of_eve, lie]);
        assert_eq!(eve.me(&other), "502", "{lie}");
    }
    keeper.ask(&["SET", of_eve, &of_her, "EX", "100"]);
    assert_eq!(eve.me(&other), "66 No. 66 0");
    keeper.ask(&["DEL", of_eve]);
    until("what is gone is nobody", || eve.me(&other) == "0  0");
    // It is full.
    keeper.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut bob = Browser::default();
    let status = bob.post(&one, &other, "/in", "user=8");
    assert!((500..=504).contains(&status), "{status}");
    assert_eq!(bob.me(&one), "0  0");
    keeper.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(bob.post(&one, &other, "/in", "user=8"), 200);
    // It hangs, and it is gone: nobody is taken for another, and visitors are served.
    assert_eq!(ann.me(&other), "7 No. 7 1");
    keeper.kill();
    until("nobody is trusted any more", || {
        ann.me(&other) != "7 No. 7 1"
    });
    for _ in 0..30 {
        let status: u16 = ann.me(&other).parse().expect("a status");
        assert!((502..=504).contains(&status), "{status}");
    }
    assert_eq!(Browser::default().me(&other), "0  0");
    other.said("a request failed");
    let mut carl = Browser::default();
    let status = carl.post(&one, &one, "/in", "user=9");
    assert!((502..=504).contains(&status), "{status}");
    one.said("a session could not be kept");
    keeper.start_again();
    let took = until("it is back", || ann.me(&other) == "7 No. 7 1");
    assert!(took < NEVER);
    assert_eq!(carl.me(&one), "0  0");
    until("sign-ins go on", || {
        carl.post(&one, &other, "/in", "user=9") == 200
    });
    assert_eq!(carl.me(&one), "9 No. 9 0");
}

/// A store that forgets all when it is killed.
fn forgets_all(test: &str, is_memcached: bool) {
    let mut cache = Cache::start(is_memcached);
    let folder = site(test, "memcached", &cache.url());
    are_one_site(&folder);
    let [one, other] = [Server::start(&folder, &[]), Server::start(&folder, &[])];
    let mut ann = Browser::default();
    assert_eq!(ann.post(&one, &one, "/in", "user=7"), 200);
    assert_eq!(ann.me(&other), "7 No. 7 0");
    cache.start_again();
    until("all are signed out", || {
        [&one, &other].iter().all(|server| ann.me(server) == "0  0")
    });
    until("and sign in again", || {
        ann.post(&one, &other, "/in", "user=7") == 200
    });
    assert_eq!(ann.me(&one), "7 No. 7 0");
    thread::sleep(2 * REFRESH);
    assert_eq!(ann.me(&other), "7 No. 7 0");
}

#[test]
fn machines_on_memcached_are_one_site() {
    forgets_all("sessions_memcached", true);
}

#[test]
fn machines_on_rhythm_kv_are_one_site() {
    forgets_all("sessions_kv", false);
}
