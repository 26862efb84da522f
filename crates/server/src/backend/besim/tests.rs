//! BeSim embedded and over its wire: the same cells.

use super::*;
use crate::backend::answers::QueryAnswers;
use crate::backend::awaited::Awaited;
use crate::backend::kinds;
use crate::backend::wire::Wire;
use crate::backend::{Embedded, Failure};
use proptest::prelude::*;
use rhythm_engine::cohort::{Argument, Cohort, Column, LaneState, Queries, Rows};
use rhythm_engine::compile::compile;
use rhythm_engine::program::Form;
use rhythm_engine::program::{
    Asking, Call, CallResult, Csrf, Field, FieldType, PageProgram, SessionUse, StageProgram, Type,
};
use rhythm_engine::source::Sources;
use rhythm_protocol::besim;

/// A page that asks with this form for rows of so many columns.
fn page(form: Form, columns: u16) -> PageProgram {
    let columns_of = (0..columns)
        .map(|at| (format!("c{at}"), Type::Text))
        .collect();
    let field = |name: &str, kind| Field {
        name: name.to_owned(),
        kind,
    };
    PageProgram {
        name: "asks".to_owned(),
        routes: vec![],
        session: SessionUse::None,
        session_fields: None,
        stored: vec![],
        cookies: Vec::new(),
        flash: None,
        here: None,
        now: None,
        drawn: vec![],
        csrf: Csrf::default(),
        is_sign_in: false,
        gzip: true,
        content_type: "text/html".to_owned(),
        params: vec![],
        list_params: vec![],
        fields: vec![
            field("rows", FieldType::List(columns_of)),
            field("rows.status", FieldType::Scalar(Type::Int)),
        ],
        calls: vec![Call {
            backend: 0,
            asking: Asking::Request,
            has_name: true,
            statements: Box::default(),
            document: None,
            form,
            columns,
            result: CallResult::Rows(0),
            status: 1,
            idempotent: true,
            optional: false,
            shared: false,
            merged: false,
            particulars: Default::default(),
        }],
        stages: vec![
            StageProgram {
                call: Some(0),
                ..StageProgram::default()
            },
            StageProgram::default(),
        ],
        texts: vec![],
        tables: vec![],
        asides: vec![],
    }
}

fn form(pieces: &[&str], arguments: &[Argument<'_>]) -> Form {
    let kind = |argument: &Argument<'_>| match argument {
        Argument::Text(_) => Type::Text,
        Argument::Int(_) => Type::Int,
        Argument::Float(_) => Type::Float,
        Argument::Bool(_) => Type::Bool,
    };
    Form {
        pieces: pieces.iter().map(|piece| piece.as_bytes().into()).collect(),
        arguments: arguments.iter().map(kind).collect(),
    }
}

/// What a lane has after its query: its state, the status and its rows.
type Got = (LaneState, i64, Vec<Vec<Vec<u8>>>);

fn ask(program: &PageProgram, asked: &[Vec<Argument<'_>>], backend: &mut dyn Embedded) -> Vec<Got> {
    let mut cohort = Cohort::default();
    cohort.reset(program);
    cohort.stage = 1;
    for (lane, arguments) in (0..).zip(asked) {
        cohort.push_lane();
        assert!(cohort.queries.push(lane, arguments.iter().copied()));
    }
    let (queries, mut rows) = cohort.exchange(program);
    backend.answer(queries, &mut rows);
    cohort.settle(program);
    let list = cohort.fields[0].list();
    let text = |column: &Column, item: u32| {
        let view = column.texts()[item as usize];
        cohort.arena.get(view).to_vec()
    };
    let row = |item| {
        list.columns
            .iter()
            .map(|column| text(column, item))
            .collect()
    };
    let got = |lane: usize| {
        let span = list.spans[lane];
        let rows = (span.start..span.start + span.length).map(row).collect();
        (cohort.lanes[lane], cohort.fields[1].ints()[lane], rows)
    };
    (0..asked.len()).map(got).collect()
}

/// The wire, with the bank at its other end.
struct Remote(BesimWire, Bank);

impl Embedded for Remote {
    fn answer(&mut self, queries: &Queries, rows: &mut Rows<'_>) {
        let Remote(wire, bank) = self;
        for query in 0..queries.len() {
            let call = rows.call().clone();
            let mut sent = Vec::new();
            let mut connection = Default::default();
            let arguments = queries.arguments(query);
            wire.encode(&mut connection, 0, &call, arguments, &mut sent);
            let target = sent.strip_prefix(b"GET /besim?").expect("a query");
            let end = target.windows(9).position(|w| w == b" HTTP/1.1");
            let mut body = Vec::new();
            bank.answer(&target[..end.expect("a request")], &mut body);
            let mut received =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
            received.extend_from_slice(&body);
            let mut answers = QueryAnswers::default();
            let awaited = Awaited::one(&call);
            let read = wire.decode(&mut connection, &received, &awaited, &mut answers);
            let verdict = read.expect("a response").1.expect("a whole one");
            answers.push(0, verdict.outcome.map_err(Failure::from));
            answers.tell(&mut |_, told| match told {
                Ok(told) => rows.answer(query, |answer| told.deliver(answer)),
                Err(failure) => drop(rows.fail(query, failure.error)),
            });
        }
    }
}

fn both(program: &PageProgram, asked: &[Vec<Argument<'_>>]) -> [Vec<Got>; 2] {
    let url: BackendUrl = "http://sim/besim".parse().unwrap();
    let wire = BesimWire::new(&url, ResponseLimits::default());
    let embedded = ask(program, asked, &mut EmbeddedBesim::new(Bank::new(100)));
    [
        embedded,
        ask(program, asked, &mut Remote(wire, Bank::new(100))),
    ]
}

/// Columns of a command's answers.
const COLUMNS: [u16; 14] = [0, 1, 3, 7, 3, 3, 1, 1, 3, 6, 1, 1, 2, 1];

#[test]
fn every_command_answers_rows() {
    let account = Bank::new(100).accounts(7).next().unwrap().number as i64;
    let good: [(usize, Vec<Argument<'_>>); 4] = [
        (3, vec![Argument::Int(7)]),
        (9, vec![Argument::Int(7)]),
        (
            8,
            vec![
                Argument::Int(7),
                Argument::Text(b"1970-01-01"),
                Argument::Text(b"9999-12-31"),
            ],
        ),
        (
            11,
            vec![
                Argument::Int(7),
                Argument::Int(account),
                Argument::Text(b"2026-01-15"),
                Argument::Text(b"100"),
            ],
        ),
    ];
    for (command, arguments) in good {
        let first = format!("1&{command}&");
        let mut pieces = vec![&first[..]];
        pieces.extend(vec!["&"; arguments.len() - 1]);
        pieces.push("");
        let program = page(form(&pieces, &arguments), COLUMNS[command]);
        let [embedded, remote] = both(&program, &[arguments]);
        assert_eq!(embedded, remote);
        let (state, status, rows) = &embedded[0];
        assert!(*state == LaneState::Active && *status == 0 && !rows.is_empty());
    }
}

#[test]
fn whole_cohorts_are_answered_alike() {
    // More than are made at once, with users that do not exist among them.
    let users = || (1..=130).map(|lane| (lane * 7) % 120);
    let rest = [
        "",
        "&1",
        "",
        "",
        "&300",
        "",
        "&1&2&3&4&5&6&7",
        "&1&2026-01-15&2.50",
    ];
    let more = [
        "&2025-12-01&2026-01-02",
        "",
        "&1&2&3&4&5&6",
        "&1&2026-01-15&3",
        "&1&2&3&4",
    ];
    for (command, rest) in rest.iter().chain(&more).enumerate() {
        let asked: Vec<_> = users().map(|user| vec![Argument::Int(user)]).collect();
        let first = format!("1&{command}&");
        let program = page(form(&[&first, rest], &asked[0]), COLUMNS[command]);
        let [embedded, remote] = both(&program, &asked);
        assert_eq!(embedded, remote, "command {command}");
        // A command that each request names itself.
        let asked: Vec<_> = (users().zip(0..))
            .map(|(user, lane)| vec![Argument::Int(2 + 3 * (lane % 2)), Argument::Int(user)])
            .collect();
        let program = page(form(&["1&", "&", ""], &asked[0]), 3);
        let [embedded, remote] = both(&program, &asked);
        assert_eq!(embedded, remote);
        assert!(embedded.iter().any(|(_, _, rows)| !rows.is_empty()));
    }
}

#[test]
fn a_cell_of_any_bytes_comes_over_the_wire() {
    let cells: [&[u8]; 3] = ["a&b\r\n\0%</pre>\u{e9}".as_bytes(), b"", b"plain"];
    let mut body = Vec::new();
    besim::start_encoded_answer(&mut body);
    besim::write_encoded_row(cells, &mut body);
    besim::end_answer(&mut body);
    let url: BackendUrl = "http://sim/besim".parse().unwrap();
    let mut wire = BesimWire::new(&url, ResponseLimits::default());
    let mut received =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    received.extend_from_slice(&body);
    let mut answers = QueryAnswers::default();
    let awaited = Awaited::one(&page(form(&[""], &[]), 3).calls[0]);
    let read = wire.decode(&mut Default::default(), &received, &awaited, &mut answers);
    let (_, verdict) = read.unwrap();
    answers.push(0, verdict.unwrap().outcome.map_err(Failure::from));
    let mut got = Vec::new();
    answers.tell(&mut |_, told| {
        for cell in told.unwrap().rows().flatten() {
            got.push(format!("{cell:?}"));
        }
    });
    let expected = cells.map(|cell| format!("{:?}", rhythm_engine::cohort::Cell::Text(cell)));
    assert_eq!(got, expected);
}

#[test]
fn why_an_answer_is_none_is_said() {
    let said = |status: u16, body: &str| {
        let url: BackendUrl = "http://sim/besim".parse().unwrap();
        let mut wire = BesimWire::new(&url, ResponseLimits::default());
        let length = body.len();
        let response = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
        let awaited = Awaited::one(&page(form(&[""], &[]), 2).calls[0]);
        let (connection, answers) = (&mut Default::default(), &mut QueryAnswers::default());
        let read = wire.decode(connection, response.as_bytes(), &awaited, answers);
        let why = read.unwrap().1.unwrap().outcome.unwrap_err();
        (why.to_string(), Failure::from(why).error.status())
    };
    let ok = "<pre>\n0\na&b\n</pre>\n";
    for (status, body, why, shown) in [
        (500, ok, "with status 500", 502),
        (404, "", "with status 404", 502),
        (200, "{}", "no line `<pre>`", 502),
        (200, &*ok.replace('\n', "\r\n"), "ends in LF alone", 502),
        (200, &ok.replace("a", "\t"), "control character", 502),
        (200, &ok.replace("a&", ""), "more or fewer columns", 502),
        (
            200,
            &ok.replace("0\n", "0%\n").replace("a", "%x"),
            "percent-encoded",
            502,
        ),
    ] {
        let (said, shows) = said(status, body);
        assert!(said.contains(why), "{said}: {why}");
        assert_eq!(shows, shown, "{said}");
    }
}

fn argument() -> impl Strategy<Value = (u8, String, i64)> {
    let text = prop_oneof![
        Just("2026-01-15".to_owned()),
        Just("12.50".to_owned()),
        "[0-9]{1,4}",
        "[ -~\u{e9}\r\n]{0,12}",
    ];
    (0..4u8, text, prop_oneof![0..200i64, any::<i64>()])
}

proptest! {
    #[test]
    fn the_embedded_one_answers_as_the_wire(
        command in 0..14usize,
        arguments in proptest::collection::vec(argument(), 0..9),
        literal in proptest::option::of(prop_oneof![Just("&2026-01-15"), Just("&%41x"), Just("x")]),
        wrong_columns in 0..10u8,
    ) {
        let arguments: Vec<Argument<'_>> = arguments
            .iter()
            .map(|(kind, text, value)| match kind {
                0 | 1 => Argument::Int(*value),
                2 => Argument::Text(text.as_bytes()),
                _ => Argument::Bool(*value > 0),
            })
            .collect();
        let first = format!("1&{command}{}", if arguments.is_empty() { "" } else { "&" });
        let mut pieces = vec![&first[..]];
        pieces.extend(vec!["&"; arguments.len().saturating_sub(1)]);
        match arguments.is_empty() {
            true => {}
            false => pieces.push(literal.unwrap_or("")),
        }
        let columns = COLUMNS[command] + u16::from(wrong_columns == 0);
        let program = page(form(&pieces, &arguments), columns);
        let [embedded, remote] = both(&program, &[arguments]);
        prop_assert_eq!(embedded, remote);
    }
}

/// What service.toml says of a backend there.
fn config(url: &str) -> BackendConfig {
    BackendConfig {
        name: "bank".to_owned(),
        kind: "besim",
        folder: "".into(),
        pool: Default::default(),
        own: (KIND.declaration.keys.iter())
            .map(|key| {
                let value = match key.name {
                    "url" => Setting::Text(url.to_owned()),
                    _ => key.default.owned(),
                };
                (key.name, value)
            })
            .collect(),
        written: Default::default(),
        flags: Default::default(),
    }
}

#[test]
fn names_are_looked_up_by_whoever_locates_and_by_nobody_else() {
    // No resolver has an address for it (RFC 6761, section 6.4).
    let config = config("http://nowhere.invalid:1/besim");
    let why = (KIND.locate)(&config).expect_err("it is nowhere");
    assert!(
        why.starts_with("cannot find the address of nowhere.invalid"),
        "{why}"
    );
    let peers = [Peer::tcp("nowhere.invalid", ([127, 0, 0, 1], 1).into())];
    assert!((KIND.open)(&config, &peers).is_ok());
}

#[test]
fn what_cannot_be_opened_is_no_address() {
    for (url, is_one) in [
        ("embedded", true),
        ("http://127.0.0.1:8081/besim", true),
        ("HTTP://[::1]/", true),
        ("http://unix:/run/besim.sock:/besim", true),
        ("http://unix:besim.sock", false),
        ("http://:0/x", false),
        ("http://127.0.0.1:0/", false),
        ("http://127.0.0.1:8081/besim?", false),
        ("https://127.0.0.1/", false),
        ("Embedded", false),
        ("", false),
    ] {
        assert_eq!(check_url(&Setting::Text(url.to_owned())), is_one, "{url}");
        assert_eq!((KIND.open)(&config(url), &[]).is_ok(), is_one, "{url}");
        // The same, as `rhythm check` finds it.
        let mut sources = Sources::default();
        let toml = format!("[backend.bank]\nkind = \"besim\"\nurl = \"{url}\"\n");
        sources.files.insert("service.toml".to_owned(), toml);
        let compiled = compile(&sources, &kinds());
        assert_eq!(compiled.is_ok(), is_one, "{url}: {compiled:?}");
    }
}

#[test]
fn a_call_that_besim_cannot_answer_is_told_of_at_load() {
    for (request, rows, told) in [
        ("1&2&{{ id }}", "a(number, kind, balance)", ""),
        ("1&4&{{ id }}&{{ id }}", "a(detail, front, back)", ""),
        ("1&{{ id }}&{{ id }}", "a(anything)", ""),
        ("1&1{{ id }}&{{ id }}", "a(anything)", ""),
        ("1&0&{{ id }}", "a(anything)", ""),
        (
            "1&2&{{ id }}",
            "a(number, kind)",
            "pages/a.html:7:9: error: BeSim's command 2 answers 3 columns, not 2",
        ),
        (
            "1&1&{{ id }}",
            "a(number, kind)",
            "pages/a.html:7:9: error: BeSim's command 1 answers 1 column, not 2",
        ),
        (
            "1&4&{{ id }}",
            "a(detail)",
            "pages/a.html:6:12: warning: BeSim's command 4 takes 2 arguments, not 1",
        ),
        (
            "1&99&{{ id }}",
            "a(detail)",
            "pages/a.html:6:12: warning: BeSim has no command 99",
        ),
        (
            "2&{{ id }}",
            "a(detail)",
            "pages/a.html:6:12: warning: BeSim refuses all requests of this form",
        ),
    ] {
        let found = told_of("", request, rows);
        let first = found.first().and_then(|text| text.lines().next());
        assert_eq!(
            first.unwrap_or_default(),
            told,
            "{request} {rows}: {found:?}"
        );
        assert_eq!(found.len(), usize::from(!told.is_empty()), "{found:?}");
    }
}

#[test]
fn what_answers_at_a_url_may_have_commands_of_its_own() {
    let url = "url = \"http://127.0.0.1:8081/shop\"\n";
    for toml in [url, "url = \"embedded\"\n"] {
        let found = told_of(toml, "1&99&{{ id }}", "a(anything)");
        assert_eq!(found.is_empty(), toml == url, "{toml}: {found:?}");
    }
    // Those that BeSim has are as BeSim's.
    let found = told_of(url, "1&2&{{ id }}", "a(number, kind)");
    assert_eq!(found.len(), 1, "{found:?}");
}

/// What is said at load of a page with such a call.
fn told_of(toml: &str, request: &str, rows: &str) -> Vec<String> {
    let header = "route = \"GET /\"\nparams.id = { in = \"query\", type = \"int\" }\n[[step]]";
    let page = format!(
        "+++\n{header}\ncall = \"bank\"\nrequest = \"{request}\"\nrows = \"{rows}\"\n+++\n"
    );
    let mut sources = Sources::default();
    let toml = format!("[backend.bank]\nkind = \"besim\"\n{toml}");
    sources.files.insert("service.toml".to_owned(), toml);
    sources.files.insert("pages/a.html".to_owned(), page);
    let found = match compile(&sources, &kinds()) {
        Ok(service) => service.warnings,
        Err(mistakes) => mistakes,
    };
    found.iter().map(ToString::to_string).collect()
}
