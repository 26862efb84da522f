//! Sessions that two servers share, by a store of the test's own: one that is well, and one that is
//! dead, full, slow or lies.

mod common;
use common::*;
use rhythm_engine::cohort::{Cell, LaneError};
use rhythm_engine::compile::compile;
use rhythm_engine::kind::{Asks, BackendKind, Command, KeepsSessions, SessionWord};
use rhythm_engine::program::Service;
use rhythm_engine::settings::Outside;
use rhythm_engine::source::Sources;
use rhythm_net::{Port, Time};
use rhythm_server::backend::{Backend, Batch, QueryAnswers, Tell};
use rhythm_server::{ConnectionOwner, Handle, Server};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SETTINGS: &str = r#"
[session]
cookie = "sid"
csrf = true
fields = { name = "text(8)", level = "int" }
store = "kept"
store_refresh = "300ms"
secret = "${SECRET}"
missing = { page = "missing.html" }
per_user_max = 2
[backend.kept]
kind = "kept"
timeout = "400ms"
"#;

const PAGES: &[(&str, &str)] = &[
    ("missing.html", "+++\n+++\nsign in"),
    (
        "token.html",
        "+++\nroute = \"GET /token\"\nsession = \"optional\"\n+++\n{{ csrf_token }}",
    ),
    (
        "in.html",
        "+++\nroute = \"POST /in\"\n[params]\nuser = { in = \"form\", type = \"int\" }\n\
         name = { in = \"form\", type = \"text\", default = \"\" }\n[[step]]\n\
         session = \"create\"\nuser = \"user\"\nset = { name = \"name\" }\n[[step]]\n\
         redirect = \"/me\"\nflash = \"Hello.\"\n+++\n",
    ),
    (
        "up.html",
        "+++\nroute = \"POST /up\"\nsession = \"required\"\n[[step]]\n\
         set = { level = \"session.level + 1\" }\n+++\nup",
    ),
    (
        "me.html",
        "+++\nroute = \"GET /me\"\nsession = \"required\"\n+++\n\
         {{ session.userid }} [{{ session.name }}] {{ session.level }}{{ flash }}",
    ),
    (
        "perhaps.html",
        "+++\nroute = \"GET /perhaps\"\nsession = \"optional\"\n+++\n{{ session.userid }}",
    ),
    ("all.html", "+++\nroute = \"GET /all\"\n+++\nfor all"),
    (
        "out.html",
        "+++\nroute = \"POST /out\"\nsession = \"optional\"\n[[step]]\n\
         session = \"destroy\"\n+++\nout",
    ),
];

const KEPT: BackendKind = {
    use SessionWord::{Is, Key, Record, Seconds};
    BackendKind {
        name: "kept",
        keys: &[],
        asks: Asks::Command(Command {
            key: "command",
            reads: &[],
            merges: &[],
        }),
        check: |_| None,
        check_backend: |_| None,
        keeps_sessions: Some(KeepsSessions {
            look_up: &[Is("look"), Key, Seconds],
            begin: &[Is("begin"), Key, Record, Seconds],
            change: &[Is("change"), Key, Record, Seconds],
            end: &[Is("end"), Key],
            seconds_max: 1_000_000,
        }),
    }
};

/// What is the matter with the store.
#[derive(Clone, Debug, Default, PartialEq)]
enum Matter {
    #[default]
    Nothing,
    Dead,
    /// It takes nothing new.
    Full,
    /// It never answers.
    Hangs,
    /// It answers each look-up with this.
    Says(String),
    /// It answers the next look-up late, with what it had when it was asked, and is well then.
    Late(Duration),
}

#[derive(Default)]
struct Kept {
    records: HashMap<String, String>,
    matter: Matter,
    /// How often each thing was asked.
    asked: HashMap<String, usize>,
    /// The seconds that were last said, by what was asked.
    seconds: HashMap<String, String>,
}

type Shared = Arc<Mutex<Kept>>;

fn lock(kept: &Shared) -> MutexGuard<'_, Kept> {
    kept.lock().expect("nobody panics")
}

/// The store as a server sees it.
struct Store {
    kept: Shared,
    answers: QueryAnswers,
    /// What is answered too late, and when.
    hangs: Vec<(Time, u64)>,
    /// Records that are answered late, and when.
    late: Vec<(Time, u64, Option<String>)>,
    has_news: bool,
}

impl Store {
    fn carry_out(&mut self, words: &[String], key: u64, (now, deadline): (Time, Time)) {
        let mut kept = lock(&self.kept);
        let [verb, name, rest @ ..] = words else {
            panic!("{words:?} is no request");
        };
        *kept.asked.entry(verb.clone()).or_default() += 1;
        if let Some(seconds) = rest.last() {
            kept.seconds.insert(verb.clone(), seconds.clone());
        }
        match (&kept.matter, &**verb) {
            (Matter::Dead, _) => {
                let failure = LaneError::BackendRefused.into();
                return self.answers.push(key, Err(failure));
            }
            (Matter::Hangs, _) => return self.hangs.push((deadline, key)),
            (Matter::Full, "begin" | "change") => return self.answers.push(key, Ok(1)),
            (Matter::Says(text), "look") => {
                self.answers.cell(Cell::Text(text.as_bytes()));
                self.answers.end_row();
                return self.answers.push(key, Ok(0));
            }
            _ => {}
        }
        let known = kept.records.get(name).cloned();
        if let (Matter::Late(by), "look") = (&kept.matter, &**verb) {
            self.late.push((now + *by, key, known));
            kept.matter = Matter::Nothing;
            return;
        }
        let changed = match &**verb {
            "look" => {
                if let Some(record) = known {
                    self.answers.cell(Cell::Text(record.as_bytes()));
                    self.answers.end_row();
                }
                return self.answers.push(key, Ok(0));
            }
            "begin" => kept.records.insert(name.clone(), rest[0].clone()).is_none(),
            "change" if known.is_none() => false,
            "change" => kept.records.insert(name.clone(), rest[0].clone()).is_some(),
            "end" => kept.records.remove(name).is_some(),
            other => panic!("{other} is not asked"),
        };
        self.answers.cell(Cell::Int(changed.into()));
        self.answers.end_row();
        self.answers.push(key, Ok(0));
    }
}

impl ConnectionOwner for Store {
    fn wake_at(&self) -> Option<Time> {
        let late = self.late.iter().map(|(at, ..)| *at);
        self.hangs.iter().map(|(at, _)| *at).chain(late).min()
    }

    fn tick(&mut self, _: &mut dyn Port, now: Time) {
        let (due, rest) = self.hangs.drain(..).partition(|(at, _)| *at <= now);
        self.hangs = rest;
        let due: Vec<(Time, u64)> = due;
        for (_, key) in due {
            let failure = LaneError::BackendTimeout.into();
            self.answers.push(key, Err(failure));
        }
        let (due, rest) = self.late.drain(..).partition(|(at, ..)| *at <= now);
        self.late = rest;
        let due: Vec<(Time, u64, Option<String>)> = due;
        for (_, key, record) in due {
            if let Some(record) = record {
                self.answers.cell(Cell::Text(record.as_bytes()));
                self.answers.end_row();
            }
            self.answers.push(key, Ok(0));
        }
        self.has_news = true;
    }
}

impl Backend for Store {
    fn submit(&mut self, _: &mut dyn Port, batch: Batch<'_>, now: Time) {
        for ask in batch.asks {
            let mut words = Vec::new();
            batch.call.form.words(batch.arguments(ask), |word| {
                words.push(String::from_utf8(word.to_vec()).expect("text"));
            });
            self.carry_out(&words, ask.key, (now, batch.deadline));
        }
        self.has_news = true;
    }

    fn turn_ends(&mut self, _: &mut dyn Port, _: Time) -> bool {
        std::mem::take(&mut self.has_news)
    }

    fn poll(&mut self, tell: &mut Tell<'_>) {
        self.answers.tell(tell);
    }
}

fn service_with(settings: &str) -> Service {
    let mut sources = Sources {
        outside: Outside {
            variable: |name| match name {
                "SECRET" => Ok("the secret of this test, long enough".to_owned()),
                "OTHER" => Ok("the secret of another test, not of this".to_owned()),
                _ => Err("is not set".to_owned()),
            },
            ..Outside::default()
        },
        ..Sources::default()
    };
    sources.files.insert("service.toml".into(), settings.into());
    for (name, text) in PAGES {
        let path = format!("pages/{name}");
        sources.files.insert(path, (*text).into());
    }
    match compile(&sources, &[KEPT]) {
        Ok(service) => service,
        Err(diagnostics) => panic!("{diagnostics:#?}"),
    }
}

fn server_with(kept: &Shared, settings: &str) -> Handle {
    let service = service_with(settings);
    let options = options_of(&service);
    let site = site_of(service);
    let again = site_of(service_with(&settings.replace("${SECRET}", "${OTHER}")));
    let mut parts = parts(site, Box::new(move || Ok(again.clone())));
    let kept = kept.clone();
    parts.backends = Arc::new(move |_, _| {
        Box::new(Store {
            kept: kept.clone(),
            answers: QueryAnswers::default(),
            hangs: Vec::new(),
            late: Vec::new(),
            has_news: false,
        })
    });
    Server::start(options, parts).expect("it starts")
}

fn server(kept: &Shared) -> Handle {
    server_with(kept, SETTINGS)
}

/// A browser: its cookies, and the token that it was shown last.
#[derive(Clone, Default)]
struct Browser {
    cookies: Vec<(String, String)>,
    token: String,
}

impl Browser {
    fn ask(&mut self, server: &Handle, line: &str, form: &str) -> Response {
        let pairs: Vec<String> = (self.cookies.iter())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let headers = format!(
            "Content-Type: application/x-www-form-urlencoded\r\nCookie: {}\r\n\
             X-CSRF-Token: {}\r\n",
            pairs.join("; "),
            self.token
        );
        let answer = client(server).with(line, &headers, form);
        for line in answer.head.lines() {
            let Some(cookie) = line.strip_prefix("Set-Cookie: ") else {
                continue;
            };
            let (pair, attributes) = cookie.split_once(';').expect("attributes");
            let (name, value) = pair.split_once('=').expect("a pair");
            self.cookies.retain(|(known, _)| known != name);
            if !attributes.contains("Max-Age=0") {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        answer
    }

    fn get(&mut self, server: &Handle, path: &str) -> String {
        let answer = self.ask(server, &format!("GET {path}"), "");
        match answer.status {
            200 => answer.text().to_owned(),
            status => status.to_string(),
        }
    }

    /// With a token of that server's.
    fn post(&mut self, server: &Handle, path: &str, form: &str) -> u16 {
        self.token = self.get(server, "/token");
        self.ask(server, &format!("POST {path}"), form).status
    }

    fn id(&self) -> &str {
        let mut cookies = self.cookies.iter();
        let session = cookies.find(|(name, _)| name == "sid");
        &session.expect("a cookie of the session").1
    }

    fn signed_in(server: &Handle, form: &str) -> Browser {
        let mut browser = Browser::default();
        assert_eq!(browser.post(server, "/in", form), 303);
        browser
    }
}

fn asked(kept: &Shared, verb: &str) -> usize {
    lock(kept).asked.get(verb).copied().unwrap_or_default()
}

#[test]
fn who_signs_in_at_one_is_known_at_the_other_and_who_signs_out_is_nobody_there() {
    let kept = Shared::default();
    let [one, other] = [server(&kept), server(&kept)];
    let mut ann = Browser::signed_in(&one, "user=7&name=%c3%84nn");
    assert_eq!(asked(&kept, "begin"), 1);
    assert_eq!(lock(&kept).records.len(), 1);
    // The message is shown by whichever is asked first, once.
    assert_eq!(ann.get(&other, "/me"), "7 [\u{c4}nn] 0Hello.");
    assert_eq!(ann.get(&one, "/me"), "7 [\u{c4}nn] 0");
    // Somebody else has slots of his own at each.
    let mut bob = Browser::signed_in(&other, "user=8");
    assert_eq!(bob.get(&one, "/perhaps"), "8");
    assert_eq!(bob.get(&other, "/perhaps"), "8");
    assert_eq!(ann.get(&one, "/perhaps"), "7");
    assert_eq!(Browser::default().get(&one, "/perhaps"), "0");
    assert_eq!(Browser::default().get(&one, "/me"), "sign in");
    // Nobody finds the id in the store.
    for (name, record) in &lock(&kept).records {
        let id = ann.id();
        assert!(!name.contains(&id[8..]) && !record.contains(&id[8..]));
        assert!(name.starts_with("session:"));
    }
    // A token that one has shown is good for the other; so is what is set there.
    ann.token = ann.get(&one, "/token");
    assert_eq!(ann.ask(&other, "POST /up", "").status, 200);
    assert_eq!(ann.post(&one, "/up", ""), 200);
    assert_eq!(ann.post(&other, "/up", ""), 200);
    eventually("both know what it has", || {
        let all = [&one, &other].map(|server| ann.get(server, "/me"));
        all == ["7 [\u{c4}nn] 3", "7 [\u{c4}nn] 3"]
    });
    // The other trusts what it knows for a time that is over.
    let mut stolen = ann.clone();
    assert_eq!(stolen.get(&other, "/perhaps"), "7");
    assert_eq!(ann.post(&one, "/out", ""), 200);
    let ended = Instant::now();
    assert_eq!(stolen.get(&one, "/perhaps"), "0");
    while stolen.get(&other, "/perhaps") != "0" {
        assert!(ended.elapsed() < WAIT_MAX, "it lives on");
    }
    assert_eq!(stolen.get(&other, "/me"), "sign in");
    assert_eq!(lock(&kept).records.len(), 1, "that of the other user");
    // Who signs in once more than may be loses the oldest, everywhere.
    let all = [9, 9, 9].map(|user| Browser::signed_in(&one, &format!("user={user}")));
    assert_eq!(lock(&kept).records.len(), 3);
    let users = all.map(|mut browser| browser.get(&other, "/perhaps"));
    assert_eq!(users, ["0", "9", "9"]);
    stop(one);
    // One that starts anew knows nobody, and asks.
    let again = server(&kept);
    assert_eq!(bob.get(&again, "/me"), "8 [] 0Hello.");
    stop(again);
    stop(other);
}

#[test]
fn what_is_known_is_not_asked_again_until_its_time_is_over() {
    let kept = Shared::default();
    let settings = SETTINGS.replace("300ms", "1h");
    let one = server_with(&kept, &settings);
    let mut ann = Browser::signed_in(&one, "user=7");
    for _ in 0..5 {
        assert_eq!(ann.get(&one, "/perhaps"), "7");
    }
    // The first use tells the store that it is one, and has it kept for longer.
    assert_eq!(asked(&kept, "look"), 1);
    let [unused, idle] = ["begin", "look"].map(|verb| lock(&kept).seconds[verb].clone());
    assert_eq!([&*unused, &*idle], ["3900", "5400"]);
    // Who changes what it keeps asks first.
    assert_eq!(ann.post(&one, "/up", ""), 200);
    assert_eq!(asked(&kept, "look"), 2);
    // Nobody's cookies lead to nobody, and nobody is asked.
    let mut nobody = Browser::default();
    nobody.token = nobody.get(&one, "/token");
    assert_eq!(nobody.get(&one, "/perhaps"), "0");
    assert_eq!(asked(&kept, "look"), 2);
    // Many that ask for one session at once ask once.
    let again = server_with(&kept, &settings);
    let line = "GET /perhaps HTTP/1.1\r\nHost: x\r\n";
    let request = format!("{line}Cookie: sid={}\r\n\r\n", ann.id());
    let mut client = client(&again);
    client.send(request.repeat(20));
    for _ in 0..20 {
        assert_eq!(client.response(false).text(), "7");
    }
    let looks = asked(&kept, "look");
    assert!((3..10).contains(&looks), "{looks}");
    stop(one);
    stop(again);
}

#[test]
fn what_a_session_keeps_is_known_wherever_it_lies() {
    let kept = Shared::default();
    let settings = SETTINGS.replace("300ms", "1h");
    let [one, other] = [(); 2].map(|()| server_with(&kept, &settings));
    // Those of others take the first slots of one alone, so that hers are not the same at both.
    for user in 1..=9 {
        Browser::signed_in(&one, &format!("user={user}"));
    }
    let mut ann = Browser::signed_in(&one, "user=70&name=Ann");
    assert_eq!(ann.post(&one, "/up", ""), 200);
    assert_eq!(ann.get(&one, "/me"), "70 [Ann] 1Hello.");
    let looks = asked(&kept, "look");
    for _ in 0..3 {
        assert_eq!(ann.get(&other, "/me"), "70 [Ann] 1");
    }
    assert_eq!(asked(&kept, "look"), looks + 1, "the store is asked once");
    stop(one);
    stop(other);
}

#[test]
fn a_store_that_is_not_well_lets_nobody_in_and_nobody_is_told_what_is_not_so() {
    let kept = Shared::default();
    let [one, other] = [server(&kept), server(&kept)];
    let set = |matter: Matter| lock(&kept).matter = matter;
    let mut ann = Browser::signed_in(&one, "user=7");
    let mut eve = Browser::signed_in(&one, "user=66");
    let token = ann.get(&one, "/token");
    for (matter, status) in [(Matter::Dead, 503), (Matter::Hangs, 504)] {
        set(matter);
        // Who has a session is told the truth; who has none is none the worse.
        let refused = status.to_string();
        eventually("nobody is trusted any more", || {
            ann.get(&other, "/me") == refused
        });
        assert_eq!(ann.get(&other, "/perhaps"), refused);
        assert_eq!(ann.get(&other, "/all"), "for all");
        let mut nobody = Browser::default();
        assert_eq!(nobody.get(&other, "/perhaps"), "0");
        nobody.token = nobody.get(&other, "/token");
        // A sign-in that is not kept is none.
        let answer = nobody.ask(&other, "POST /in", "user=9");
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("set-cookie"), None);
        // Nor is one signed out who could come back.
        ann.token.clone_from(&token);
        let answer = ann.ask(&one, "POST /out", "");
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("set-cookie"), None);
        set(Matter::Nothing);
        eventually("it is well again", || ann.get(&other, "/perhaps") == "7");
    }
    assert_eq!(lock(&kept).records.len(), 2);
    set(Matter::Full);
    let mut nobody = Browser::default();
    assert_eq!(nobody.post(&one, "/in", "user=9"), 502);
    assert_eq!(nobody.get(&one, "/perhaps"), "0");
    assert_eq!(ann.post(&one, "/up", ""), 502);
    set(Matter::Nothing);
    assert_eq!(ann.get(&one, "/me"), "7 [] 0");
    // A record of somebody else's, one that is made up, and none.
    let of_others: Vec<String> = lock(&kept).records.values().cloned().collect();
    let made_up = format!("1&7&{}", "0".repeat(32));
    let lies = of_others
        .into_iter()
        .chain([made_up, "x".into(), String::new()]);
    for lie in lies {
        let fresh = server(&kept);
        set(Matter::Says(lie.clone()));
        let mut both = [&mut ann, &mut eve].map(|browser| browser.get(&fresh, "/perhaps"));
        both.sort();
        // At most the one whose record it is.
        match both.each_ref().map(String::as_str) {
            ["502", "502"] => {}
            ["502", "66"] => assert!(lie.starts_with("1&66")),
            ["502", "7"] => assert!(lie.starts_with("1&7")),
            _ => panic!("{lie}: {both:?}"),
        }
        stop(fresh);
    }
    set(Matter::Nothing);
    // What has ended elsewhere meanwhile is not brought back by a change.
    let mut away = ann.clone();
    assert_eq!(away.post(&other, "/out", ""), 200);
    let left = lock(&kept).records.len();
    assert_eq!(
        ann.post(&one, "/up", ""),
        200,
        "it shows the page without a session"
    );
    assert_eq!(ann.get(&one, "/me"), "sign in");
    assert_eq!(lock(&kept).records.len(), left);
    for server in [one, other] {
        stop(server);
    }
}

#[test]
fn what_the_store_says_late_puts_nothing_back() {
    let kept = Shared::default();
    let refresh = Duration::from_millis(900);
    let patient = SETTINGS.replace("400ms", "20s");
    let one = server_with(&kept, &patient.replace("300ms", "900ms"));
    let mut ann = Browser::signed_in(&one, "user=7");
    ann.token = ann.get(&one, "/token");
    assert_eq!(ann.get(&one, "/me"), "7 [] 0Hello.");
    // What is known of it is to be asked for again, which takes a while.
    sleep(refresh);
    let looks = asked(&kept, "look");
    lock(&kept).matter = Matter::Late(Duration::from_secs(2));
    let mut reader = client(&one);
    let line = "GET /me HTTP/1.1\r\nHost: x\r\n";
    reader.send(format!("{line}Cookie: sid={}\r\n\r\n", ann.id()));
    eventually("it is asked for", || asked(&kept, "look") > looks);
    // Meanwhile it is changed: of what happens in one millisecond what the store says counts.
    sleep(Duration::from_millis(5));
    assert_eq!(ann.ask(&one, "POST /up", "").status, 200);
    assert_eq!(reader.response(false).text(), "7 [] 1");
    assert_eq!(ann.get(&one, "/me"), "7 [] 1");
    stop(one);
}

#[test]
fn a_sign_in_counts_when_the_store_has_it() {
    let kept = Shared::default();
    let one = server(&kept);
    let sign_ins = |server: &Handle| server.metrics().worker(0).site(0).sign_ins.get();
    lock(&kept).matter = Matter::Full;
    assert_eq!(Browser::default().post(&one, "/in", "user=9"), 502);
    assert_eq!(sign_ins(&one), 0);
    lock(&kept).matter = Matter::Nothing;
    Browser::signed_in(&one, "user=9");
    assert_eq!(sign_ins(&one), 1);
    stop(one);
}

#[test]
fn another_secret_is_for_a_restart() {
    let kept = Shared::default();
    let one = server(&kept);
    let why = one.reload().expect_err("its loader has another");
    assert!(why.contains("restart it"), "{why}");
    let mut ann = Browser::signed_in(&one, "user=7");
    assert_eq!(ann.get(&one, "/perhaps"), "7");
    // To one with another secret she is nobody, and can change nothing.
    let foreign = server_with(&kept, &SETTINGS.replace("${SECRET}", "${OTHER}"));
    assert_eq!(ann.get(&foreign, "/perhaps"), "0");
    ann.token = ann.get(&one, "/token");
    assert_eq!(ann.ask(&foreign, "POST /up", "").status, 403);
    stop(one);
    stop(foreign);
}
