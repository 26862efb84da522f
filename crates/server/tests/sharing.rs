//! Requests that ask the same are one to their backend.

mod common;

use common::*;
use rhythm_engine::cohort::{Argument, Cell};
use rhythm_engine::compile::compile;
use rhythm_engine::kind::{Asks, BackendKind};
use rhythm_engine::program::{Call, Service};
use rhythm_engine::source::Sources;
use rhythm_net::{Port, Time};
use rhythm_server::backend::{Backend, Batch, Cause, QueryAnswers, Tell};
use rhythm_server::{ConnectionOwner, Handle, Server, ServerParts};
use std::sync::{Arc, Mutex};

/// As `ask`, but that one answer is for all who ask the same; and one that asks three times.
const PAGES_SHARED: &[(&str, &str)] = &[
    (
        "shared.html",
        "+++\nroute = \"GET /shared\"\n[params]\nq = { in = \"query\", type = \"text\" }\n\
        [[step]]\ncall = \"echo\"\nrequest = \"1&3&{{ q }}\"\nrows = \"answers(text)\"\n\
        share = true\n+++\n{% for a in answers %}[{{ a.text }}]{% endfor %}",
    ),
    (
        "row.html",
        "+++\nroute = \"GET /row\"\n[params]\nq = { in = \"query\", type = \"text\" }\n\
        [[step]]\ncall = \"echo\"\nrequest = \"1&3&{{ q }}\"\nrow = \"answer(text)\"\n\
        share = true\n+++\n<{{ answer.text }}>",
    ),
    (
        "each.html",
        "+++\nroute = \"POST /each\"\n[params]\n\
        word = { in = \"form\", list = 9, fields = { t = { type = \"text\" } } }\n\
        [[step]]\ncall = \"echo\"\neach = \"w in word\"\nrequest = \"1&3&{{ w.t }}\"\n\
        rows = \"answers(text)\"\nshare = true\n+++\n\
        {% for a in answers %}[{{ a.text }}]{% endfor %}",
    ),
];

/// Starts a server of this service, with other parts than the usual ones.
fn start_with(service: Service, change: impl FnOnce(&mut ServerParts)) -> Handle {
    let site = site_of(service);
    let options = options_of(site.service());
    let again = Arc::clone(&site);
    let mut parts = parts(site, Box::new(move || Ok(Arc::clone(&again))));
    change(&mut parts);
    Server::start(options, parts).expect("it starts")
}

#[test]
fn one_answer_is_for_all_of_a_cohort_who_ask_the_same() {
    // All that are sent together are one cohort.
    let settings = SERVICE.replace("30s", "1s");
    let settings = format!("{settings}[cohort]\npolicy = \"fixed\"\ndelay = \"100ms\"\n");
    let server = start_with(service_of(PAGES_SHARED, &settings), |_| {});
    let metrics = server.metrics().worker(0).backend("echo");
    let mut client = client(&server);
    // How long pages are is known when each was answered once.
    assert_eq!(client.get("/shared?q=x").text(), "[x]");
    assert_eq!(client.get("/row?q=x").text(), "<x>");
    let mut asked_before = 2;
    let mut ask = |path: &str, asked: &[&str], sent: u64, expected: &[&str]| {
        let requests = asked
            .iter()
            .map(|q| format!("GET {path}?q={q} HTTP/1.1\r\nHost: h\r\n\r\n"));
        client.send(requests.collect::<String>());
        let answers = asked.iter().map(|_| client.response(false));
        let answers: Vec<String> = (answers)
            .map(|answer| match answer.status {
                200 => answer.text().to_owned(),
                status => status.to_string(),
            })
            .collect();
        assert_eq!(answers, expected, "{path} {asked:?}");
        let handed_over = metrics.requests.get() - metrics.shared.get();
        assert_eq!(handed_over - asked_before, sent, "{path} {asked:?}");
        asked_before = handed_over;
    };
    ask("/shared", &["a"; 5], 1, &["[a]"; 5]);
    ask(
        "/shared",
        &["a", "b", "a", "c", "b"],
        3,
        &["[a]", "[b]", "[a]", "[c]", "[b]"],
    );
    ask(
        "/row",
        &["a", "b", "a", "a"],
        2,
        &["<a>", "<b>", "<a>", "<a>"],
    );
    // Those that keep the others waiting move to another cohort, and have one answer there.
    ask(
        "/shared",
        &["late", "a", "late"],
        2,
        &["[late]", "[a]", "[late]"],
    );
    ask(
        "/row",
        &["late", "a", "late"],
        2,
        &["<late>", "<a>", "<late>"],
    );
    ask("/row", &["never", "a", "never"], 2, &["504", "<a>", "504"]);
    let form = "t[0]=x&t[1]=y&t[2]=x&t[3]=late&t[4]=late";
    assert_eq!(client.form("/each", form).text(), "[x][y][x][late][late]");
    let form = "t[0]=x&t[1]=never&t[2]=x";
    assert_eq!(client.form("/each", form).status, 504);
    stop(server);
}

/// A page that looks something up, by a key and another.
const LOOK_UP: &str = "+++\nroute = \"GET /item\"\n[params]\n\
    id = { in = \"query\", type = \"int\" }\nword = { in = \"query\", type = \"text\" }\n\
    [[step]]\ncall = \"shop\"\nquery = \"select :id, :word\"\nrows = \"found(id:int, word)\"\n\
    merge = true\n+++\n{% for f in found %}[{{ f.id }} {{ f.word }}]{% endfor %}";

/// A database that answers queries with what they ask, as often as the key is; all at once where
/// they are asked as one, but where one of them is `refused`; and where one is `lost`, all are, and
/// likewise where one is `late`.
struct Merging {
    answers: QueryAnswers,
    /// What is told to be late then.
    late: Vec<(Time, u64)>,
    /// How many queries each statement asked for.
    asked: Arc<Mutex<Vec<usize>>>,
    has_news: bool,
}

impl ConnectionOwner for Merging {
    fn wake_at(&self) -> Option<Time> {
        self.late.iter().map(|(at, _)| *at).min()
    }

    fn tick(&mut self, _: &mut dyn Port, _: Time) {
        for (_, key) in self.late.drain(..) {
            self.answers.push(key, Err(Cause::Late.into()));
        }
        self.has_news = true;
    }
}

impl Backend for Merging {
    fn submit(&mut self, _: &mut dyn Port, batch: Batch<'_>, _: Time) {
        self.has_news = true;
        for ask in batch.asks {
            self.asked.lock().unwrap().push(ask.count);
            let arguments: Vec<Argument<'_>> = batch.arguments(ask).collect();
            let has = |word: &[u8]| {
                arguments
                    .chunks(2)
                    .any(|pair| pair[1] == Argument::Text(word))
            };
            if has(b"lost") {
                self.answers.push(ask.key, Err(Cause::Lost(None).into()));
                continue;
            }
            if has(b"late") {
                self.late.push((batch.deadline, ask.key));
                continue;
            }
            if has(b"refused") {
                self.answers.push(ask.key, Err(Cause::Refused.into()));
                continue;
            }
            // The last first: in whatever order they come, they are told apart.
            for (at, pair) in arguments.chunks(2).enumerate().rev() {
                let Argument::Int(times) = pair[0] else {
                    unreachable!()
                };
                for _ in 0..times {
                    if ask.count > 1 {
                        self.answers.cell(Cell::Int(at as i64 + 1));
                    }
                    pair.iter()
                        .for_each(|cell| self.answers.cell((*cell).into()));
                    self.answers.end_row();
                }
            }
            self.answers.push(ask.key, Ok(0));
        }
    }

    fn merges(&mut self, call: &Call) -> usize {
        assert_eq!(call.form.arguments.len(), 2);
        40
    }

    fn turn_ends(&mut self, _: &mut dyn Port, _: Time) -> bool {
        self.has_news
    }

    fn poll(&mut self, tell: &mut Tell<'_>) {
        self.has_news = false;
        self.answers.tell(tell);
    }
}

#[test]
fn look_ups_of_a_cohort_are_asked_as_one() {
    let kind = BackendKind {
        name: "sql",
        keys: &[],
        asks: Asks::Sql,
        check: |_| None,
        check_backend: |_| None,
        keeps_sessions: None,
    };
    let mut sources = Sources::default();
    let settings = "[backend.shop]\nkind = \"sql\"\ntimeout = \"300ms\"\n\
        [cohort]\npolicy = \"fixed\"\ndelay = \"100ms\"\n";
    sources.files.insert("service.toml".into(), settings.into());
    sources
        .files
        .insert("pages/item.html".into(), LOOK_UP.into());
    let service = compile(&sources, &[kind]).expect("it compiles");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let server = start_with(service, |parts| {
        let asked = Arc::clone(&asked);
        parts.backends = Arc::new(move |_, _| {
            Box::new(Merging {
                answers: QueryAnswers::default(),
                late: Vec::new(),
                asked: Arc::clone(&asked),
                has_news: false,
            })
        });
    });
    let mut client = client(&server);
    assert_eq!(client.get("/item?id=1&word=a").text(), "[1 a]");
    let mut ask = |items: &[(i64, &str)], counts: &[usize]| {
        asked.lock().unwrap().clear();
        let request = |(id, word): &(i64, &str)| {
            format!("GET /item?id={id}&word={word} HTTP/1.1\r\nHost: h\r\n\r\n")
        };
        client.send(items.iter().map(request).collect::<String>());
        for (id, word) in items {
            let answer = client.response(false);
            match *word {
                "refused" => assert_eq!(answer.status, 502),
                word => {
                    let row = format!("[{id} {word}]");
                    assert_eq!(answer.text(), row.repeat(*id as usize), "{items:?}");
                }
            }
        }
        assert_eq!(*asked.lock().unwrap(), counts, "{items:?}");
    };
    ask(&[(2, "a")], &[1]);
    ask(&[(2, "a"), (0, "b"), (3, "c")], &[3]);
    // Those that ask the same are one of them.
    ask(&[(2, "a"), (1, "b"), (2, "a"), (1, "b")], &[2]);
    // What fails as one is asked one by one.
    ask(
        &[(1, "a"), (1, "refused"), (1, "a"), (4, "b")],
        &[3, 1, 1, 1],
    );
    let many: Vec<(i64, String)> = (0..150).map(|at| (1, format!("w{at}"))).collect();
    let many: Vec<(i64, &str)> = many.iter().map(|(id, word)| (*id, word.as_str())).collect();
    // A connection's requests of one cohort are 64 at most.
    ask(&many, &[40, 24, 40, 24, 22]);
    // Those with much in them are fewer, and one is asked by itself.
    let [long, longer] = [250, 256].map(|length| "x".repeat(length));
    let mut long: Vec<(i64, &str)> = (0..20).map(|id| (id, long.as_str())).collect();
    long.push((1, &longer));
    ask(&long, &[15, 6]);
    // Two that ask the same count once, also where what they go with fails.
    let shared = server.metrics().worker(0).backend("shop");
    let before = shared.shared.get();
    ask(&[(1, "a"), (1, "refused"), (1, "a")], &[2, 1, 1]);
    assert_eq!(shared.shared.get() - before, 1);
    // Where the connection is lost that is the doing of none of them.
    // Nor are they asked again where they are late, by when there is no time for it.
    for (what, status) in [("lost", 502), ("late", 504)] {
        let all = [(1, "a"), (2, what), (3, "a")]
            .map(|(id, word)| format!("GET /item?id={id}&word={word} HTTP/1.1\r\nHost: h\r\n\r\n"));
        asked.lock().unwrap().clear();
        client.send(all.concat());
        for _ in 0..3 {
            assert_eq!(client.response(false).status, status);
        }
        assert_eq!(*asked.lock().unwrap(), [3], "{what}");
    }
    stop(server);
}
