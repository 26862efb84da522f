//! What is sent, and what becomes of what a server might say, in any pieces.

use super::access::Access;
use super::request::{Unfit, check_path};
use super::wire::HttpWire;
use crate::backend::answers::{QueryAnswers, Told};
use crate::backend::awaited::Awaited;
use crate::backend::failure::Cause;
use crate::backend::http_client::Responses;
use crate::backend::wire::{Unreadable, Verdict, Wire};
use proptest::prelude::*;
use rhythm_engine::cohort::{Argument, Cell};
use rhythm_engine::program::{
    Asking, Call, CallResult, Document, DocumentColumn, DocumentPath, Form, Type,
};
use rhythm_engine::settings::{BackendConfig, PoolSettings, Setting};
use serde_json::Value;

/// A column of this name, or at this path.
fn column(name: &str, kind: Type, path: Option<&str>) -> DocumentColumn {
    let plain = path.map(|path| path.trim_end_matches('?'));
    DocumentColumn {
        name: name.into(),
        kind,
        path: plain.map_or(DocumentPath::member(name), |path| path.parse().unwrap()),
        may_lack: plain != path,
    }
}

/// A call whose form has these words; `?` stands for an argument.
fn call(words: &str, kinds: &[Type], at: &str, columns: Vec<DocumentColumn>) -> Call {
    Call {
        backend: 0,
        asking: Asking::Query,
        form: Form {
            pieces: words
                .split('\u{1}')
                .map(|piece| piece.as_bytes().into())
                .collect(),
            arguments: kinds.to_vec(),
        },
        columns: columns.len() as u16,
        result: CallResult::Rows(0),
        status: 1,
        has_name: true,
        statements: Box::default(),
        document: Some(Box::new(Document {
            rows: at.parse().unwrap(),
            columns: columns.into(),
        })),
        idempotent: true,
        optional: false,
        shared: false,
        merged: false,
        particulars: Default::default(),
    }
}

fn wire(url: &str) -> HttpWire {
    let config = BackendConfig {
        name: "test".to_owned(),
        kind: "http",
        folder: Default::default(),
        pool: PoolSettings::default(),
        own: ["tls_ca", "tls_certificate", "tls_key", "token_file"]
            .map(|key| (key, ""))
            .into_iter()
            .chain([("url", url)])
            .map(|(key, text)| (key, Setting::Text(text.to_owned())))
            .collect(),
        written: Default::default(),
        flags: Default::default(),
    };
    HttpWire::new(Access::of(&config).unwrap().into())
}

fn sent(words: &str, arguments: &[Argument<'_>]) -> String {
    let kinds: Vec<Type> = (arguments.iter())
        .map(|argument| match argument {
            Argument::Text(_) => Type::Text,
            Argument::Int(_) => Type::Int,
            Argument::Float(_) => Type::Float,
            Argument::Bool(_) => Type::Bool,
        })
        .collect();
    let (call, mut out) = (call(words, &kinds, "$", vec![]), Vec::new());
    wire("http://host:81/base/").encode(
        &mut Responses::default(),
        0,
        &call,
        arguments.iter().copied(),
        &mut out,
    );
    String::from_utf8(out).unwrap()
}

#[test]
fn arguments_are_encoded_for_where_they_stand() {
    let hostile = Argument::Text("a/../\u{0}?&#=%2f\"\\ \r\nX: y\u{e9}".as_bytes());
    let path = "a%2F..%2F%00%3F%26%23%3D%252f%22%5C%20%0D%0AX%3A%20y%C3%A9";
    assert_eq!(
        sent(
            "GET /i/\u{1}?q=\u{1}&n=\u{1} ",
            &[hostile, hostile, Argument::Int(-7)]
        ),
        format!(
            "GET /base/i/{path}?q={path}&n=-7 HTTP/1.1\r\nHost: host:81\r\n\
             Accept: application/json\r\n\r\n"
        )
    );
    let content = "{\"t\":\"a/../\\u0000?&#=%2f\\\"\\\\ \\r\\nX: y\u{e9}\",\"n\":-7,\"b\":true,\
                   \"f\":2.5,\"none\":null}";
    assert_eq!(
        sent(
            "POST /i {\"t\":\u{1},\"n\":\u{1},\"b\":\u{1},\"f\":\u{1},\"none\":\u{1}} X-Of:\u{1}",
            &[
                hostile,
                Argument::Int(-7),
                Argument::Bool(true),
                Argument::Float(2.5),
                Argument::Float(f64::NAN),
                hostile,
            ],
        ),
        format!(
            "POST /base/i HTTP/1.1\r\nHost: host:81\r\nAccept: application/json\r\n\
             X-Of: a/../ ?&#=%2f\"\\   X: y\u{e9}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{content}",
            content.len()
        )
    );
    assert_eq!(
        sent("DELETE /i/\u{1} ", &[Argument::Bool(false)]),
        "DELETE /base/i/False HTTP/1.1\r\nHost: host:81\r\nAccept: application/json\r\n\r\n"
    );
    assert!(sent("PUT /i ", &[]).ends_with("\r\nContent-Length: 0\r\n\r\n"));
}

#[test]
fn no_argument_makes_a_path_anothers() {
    let checked = |words: &str, argument: &str| {
        let call = call(words, &[Type::Text], "$", vec![]);
        check_path(
            &call.form,
            [Argument::Text(argument.as_bytes())].into_iter(),
        )
    };
    for (words, argument) in [
        ("GET /i/\u{1} ", ""),
        ("GET /i/\u{1} ", "."),
        ("GET /i/\u{1}/x ", ".."),
        ("GET /i/.\u{1}?a=b ", "."),
        ("GET /i/\u{1}. ", ""),
        ("GET \u{1} ", ""),
    ] {
        let found = checked(words, argument);
        assert_eq!(found, Err(Unfit::Argument), "{words} {argument}");
    }
    for (words, argument) in [
        ("GET /i/\u{1} ", "..."),
        ("GET /i/\u{1} ", "a.."),
        ("GET /i/x\u{1} ", ""),
        ("GET /i/x\u{1} ", ".."),
        ("GET /i?q=\u{1} ", ".."),
        ("GET /i/?q=/\u{1}/ ", ""),
        ("GET // \u{1}", "."),
    ] {
        assert_eq!(checked(words, argument), Ok(()), "{words} {argument}");
    }
    assert_eq!(checked("GET /i/../\u{1} ", "a"), Err(Unfit::Dots));
    assert_eq!(checked("GET /. ", ""), Err(Unfit::Dots));
}

/// What is made of bytes that come in these pieces, of a call asked so many times: verdicts, and
/// all cells.
fn decoded<'b>(
    call: &Call,
    pieces: impl Iterator<Item = &'b [u8]>,
) -> Result<(Vec<Verdict>, String), Unreadable> {
    let (mut wire, mut connection) = (wire("http://host"), Responses::default());
    let (awaited, mut answers) = (Awaited::one(call), QueryAnswers::default());
    let mut verdicts: Vec<Verdict> = Vec::new();
    for mut piece in pieces {
        loop {
            let (used, verdict) = wire.decode(&mut connection, piece, &awaited, &mut answers)?;
            piece = &piece[used..];
            let Some(verdict) = verdict else {
                assert!(piece.is_empty(), "all is taken of what is not whole");
                break;
            };
            answers.push(verdicts.len() as u64, verdict.outcome.map_err(Into::into));
            verdicts.push(verdict);
        }
    }
    if let Some(verdict) = wire.finish(&mut connection, &awaited, &mut answers) {
        answers.push(verdicts.len() as u64, verdict.outcome.map_err(Into::into));
        verdicts.push(verdict);
    }
    let mut all = String::new();
    answers.tell(&mut |_, told| {
        if let Ok(told) = told {
            all += &cells(told);
        }
        all.push(';');
    });
    Ok((verdicts, all))
}

/// Cells with `,` behind each, rows with `|`.
fn cells(told: Told<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let cell = |cell: Cell<'_>| match cell {
        Cell::Text(bytes) => format!("{:?},", text(bytes)),
        Cell::Decimal(bytes) => format!("{},", text(bytes)),
        other => format!("{other:?},"),
    };
    told.rows()
        .map(|row| row.map(cell).collect::<String>() + "|")
        .collect()
}

fn items() -> Call {
    let columns = vec![
        column("id", Type::Int, None),
        column("title", Type::Text, None),
        column("cost", Type::Text, Some("$.price.amount?")),
    ];
    call("GET /items ", &[], "$.data.items", columns)
}

const ITEMS: &str = r#"{"n":1,"data":{"more":[[{"items":0}]],"items":[
    {"id":1,"title":"a\u00e9\n\"<b>","price":{"amount":100.00,"of":[]}},
    {"x":null,"title":"","id":"-2"},{"price":null,"id":true,"title":null},
    {"id":9223372036854775807,"title":12345678901234567890.50,"price":{"amount":1E+400}}]}}"#;

const ROWS: &str = "Int(1),\"aé\\n\\\"<b>\",100.00,|\"-2\",\"\",Null,|Bool(true),Null,Null,|\
                    Int(9223372036854775807),12345678901234567890.50,1E+400,|;";

fn with_length(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// In chunks of so many bytes.
fn chunked(status: u16, body: &str, length: usize) -> String {
    let mut all = format!("HTTP/1.1 {status} X\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut rest = body;
    while !rest.is_empty() {
        let mut end = length.min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        all += &format!("{:x};a=b\r\n{}\r\n", end, &rest[..end]);
        rest = &rest[end..];
    }
    all + "0\r\nT: x\r\n\r\n"
}

#[test]
fn answers_come_in_any_pieces() {
    let bytes = [
        with_length(200, ITEMS),
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n".to_owned(),
        chunked(201, ITEMS, 7),
        with_length(404, "gone"),
        with_length(204, ""),
        "HTTP/1.0 200 OK\r\n\r\n".to_owned() + ITEMS,
    ]
    .concat();
    let bytes = bytes.as_bytes();
    let whole = decoded(&items(), [bytes].into_iter()).unwrap();
    let outcomes: Vec<_> = whole.0.iter().map(|verdict| verdict.outcome).collect();
    assert_eq!(outcomes, [Ok(0), Ok(0), Ok(404), Ok(0), Ok(0)]);
    let goes_on: Vec<_> = whole.0.iter().map(|verdict| verdict.goes_on).collect();
    assert_eq!(goes_on, [true, true, true, true, false]);
    assert_eq!(whole.1, format!("{ROWS}{ROWS};;{ROWS}"));
    for cut in 1..bytes.len() {
        let (first, rest) = bytes.split_at(cut);
        let pieces = decoded(&items(), [first, rest].into_iter());
        assert_eq!(pieces.as_ref(), Ok(&whole), "{cut}");
        let chunks = decoded(&items(), bytes.chunks(cut));
        assert_eq!(chunks.as_ref(), Ok(&whole), "{cut}");
    }
}

/// What becomes of a call that is answered so.
fn judged(call: &Call, answer: &str) -> Result<(Verdict, String), Unreadable> {
    let read = decoded(call, [answer.as_bytes()].into_iter());
    read.map(|(verdicts, cells)| (verdicts[0], cells))
}

/// The cells of a document, read by this call.
fn read(call: &Call, document: &str) -> Option<String> {
    let (verdict, cells) = judged(call, &with_length(200, document)).unwrap();
    assert!(verdict.is_healthy && verdict.goes_on);
    match verdict.outcome {
        Ok(status) => {
            assert_eq!(status, 0);
            Some(cells)
        }
        Err(cause) => {
            assert!(matches!(cause, Cause::Unfit(_)));
            assert_eq!(cells, ";", "of what is wrong nothing is delivered");
            None
        }
    }
}

#[test]
fn a_status_says_what_has_become_of_it() {
    let named = items();
    for status in [301, 400, 401, 404, 409, 429, 499] {
        let (verdict, cells) = judged(&named, &with_length(status, "[")).unwrap();
        assert_eq!((verdict.outcome, &*cells), (Ok(status.into()), ";"));
        assert!(verdict.is_healthy);
    }
    for status in [500, 502, 503, 599] {
        let (verdict, _) = judged(&named, &with_length(status, ITEMS)).unwrap();
        assert_eq!(verdict.outcome, Err(Cause::Status(status)));
        assert!(!verdict.is_healthy);
    }
    // Nobody looks at it.
    let mut unseen = items();
    unseen.has_name = false;
    for (status, body, outcome) in [
        (200, "no JSON", Ok(0)),
        (204, "", Ok(0)),
        (303, "", Err(Cause::Status(303))),
        (404, "no JSON", Err(Cause::Status(404))),
    ] {
        let (verdict, cells) = judged(&unseen, &with_length(status, body)).unwrap();
        assert_eq!((verdict.outcome, &*cells), (outcome, ";"));
    }
}

#[test]
fn what_is_no_http_ends_the_connection() {
    let body = ITEMS;
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{}".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n".to_owned(),
        "HTTP/1.1 101 Switching\r\n\r\n".to_owned(),
        format!("<html>{body}"),
        format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat((1 << 20) + 1)),
    ] {
        assert_eq!(judged(&items(), &answer), Err(Unreadable), "{answer:.80}");
    }
    // Half an answer is none.
    let whole = with_length(200, body);
    for end in [10, whole.len() / 2, whole.len() - 1] {
        let half = decoded(&items(), [&whole.as_bytes()[..end]].into_iter());
        assert_eq!(half, Ok((vec![], String::new())));
    }
}

#[test]
fn rows_are_where_the_page_says() {
    let one =
        |at: &str, path: Option<&str>, kind| call("GET / ", &[], at, vec![column("a", kind, path)]);
    for (at, path, document, cells) in [
        ("$", None, "{\"a\":1}", "Int(1),|;"),
        (
            "$",
            None,
            " [ {\"a\":1} , {\"b\":2,\"a\":\"\"} ] ",
            "Int(1),|\"\",|;",
        ),
        ("$", None, "[]", ";"),
        ("$", None, "null", ";"),
        ("$.x", None, "{\"x\":null}", ";"),
        ("$", Some("$"), "[1,\"b\",null]", "Int(1),|\"b\",|Null,|;"),
        ("$", Some("$"), "-0.0", "-0.0,|;"),
        ("$", Some("$[1]"), "[[1,2],[3,4]]", "Int(2),|Int(4),|;"),
        (
            "$[1]",
            Some("$[0]"),
            "[[1,2],[[3],[4]]]",
            "Int(3),|Int(4),|;",
        ),
        ("$", Some("$[2]?"), "[[1,2],{\"a\":1}]", "Null,|Null,|;"),
        (
            "$",
            Some("$.b[0].c?"),
            "[{\"b\":[{\"c\":1}]},{\"b\":[]},{}]",
            "Int(1),|Null,|Null,|;",
        ),
        (
            "$['x y']",
            Some("$['\u{e9}']"),
            "{\"x\\u0020y\":{\"\\u00e9\":7}}",
            "Int(7),|;",
        ),
        (
            "$",
            None,
            "{\"a\":\"\\ud83d\\ude00\\u0000\"}",
            "\"\u{1f600}\\0\",|;",
        ),
    ] {
        let call = one(at, path, Type::Text);
        assert_eq!(
            read(&call, document).as_deref(),
            Some(cells),
            "{at} {document}"
        );
    }
    for (at, path, document) in [
        ("$", None, ""),
        ("$", None, "{\"a\":1"),
        ("$", None, "{\"a\":1}}"),
        ("$", None, "{\"a\":1}{\"a\":2}"),
        ("$", None, "{\"a\":1,}"),
        ("$", None, "{'a':1}"),
        ("$", None, "{\"a\":01}"),
        ("$", None, "{\"a\":1,\"b\":nul}"),
        ("$", None, "{\"a\":\"\\x\"}"),
        ("$", None, "{\"a\":\"\n\"}"),
        ("$", None, "{\"a\":\"\\ud800\"}"),
        ("$", None, "{\"a\":1,\"b\":0,\"a\":2}"),
        ("$", None, "{\"b\":1}"),
        ("$", None, "{\"a\":[1]}"),
        ("$", None, "{\"a\":{}}"),
        ("$", None, "[{\"a\":1},{}]"),
        ("$", None, "7"),
        ("$", None, "[[]]"),
        ("$.x", None, "{\"a\":1}"),
        ("$.x", None, "[{\"a\":1}]"),
        ("$.x", None, "{\"x\":[],\"x\":[]}"),
        ("$[0]", None, "[]"),
    ] {
        let call = one(at, path, Type::Text);
        assert_eq!(read(&call, document), None, "{at} {document}");
    }
    let number = one("$", None, Type::Int);
    for (value, is_integer) in [
        ("9223372036854775807", true),
        ("-9223372036854775808", true),
        ("\"17\"", true),
        ("false", true),
        ("null", true),
        ("9223372036854775808", false),
        ("1.0", false),
        ("1e2", false),
        ("\"1.5\"", false),
        ("\"\"", false),
    ] {
        let found = read(&number, &format!("{{\"a\":{value}}}"));
        assert_eq!(found.is_some(), is_integer, "{value}");
    }
}

#[test]
fn what_is_deep_or_long_is_refused() {
    let any = call(
        "GET / ",
        &[],
        "$",
        vec![column("a", Type::Text, Some("$.a?"))],
    );
    let nested = |open: &str, close: &str, times: usize| {
        format!("{{\"b\":{}1{}}}", open.repeat(times), close.repeat(times))
    };
    for (open, close) in [("[", "]"), ("{\"c\":", "}"), ("[\"\\\"[\",", "]")] {
        assert!(read(&any, &nested(open, close, 127)).is_some());
        assert_eq!(read(&any, &nested(open, close, 128)), None);
        // It may be as deep as it likes, and have no end.
        assert_eq!(read(&any, &nested(open, close, 60_000)), None);
        assert_eq!(read(&any, &nested(open, "", 100_000)), None);
    }
    let flat = |rows: usize| format!("[{}{{}}]", "{},".repeat(rows - 1));
    assert!(read(&any, &flat(4096)).is_some());
    assert_eq!(read(&any, &flat(4097)), None);
}

/// Any value of JSON, its members named by few letters.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[ -~]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[ab\"\\\\]{1,2}", inner, 0..6).prop_map(Value::from_iter),
        ]
    })
}

/// The cell that a value is, as it is shown.
fn cell_of(value: Option<&Value>) -> Option<String> {
    Some(match value {
        None | Some(Value::Null) => "Null,".to_owned(),
        Some(Value::Bool(value)) => format!("{:?},", Cell::Bool(*value)),
        Some(Value::Number(number)) => match number.as_i64() {
            Some(number) => format!("{:?},", Cell::Int(number)),
            None => format!("{number},"),
        },
        Some(Value::String(text)) => format!("{text:?},"),
        Some(Value::Array(_) | Value::Object(_)) => return None,
    })
}

proptest! {
    /// What `serde_json` reads of a document, however it is written, is what is delivered of it.
    #[test]
    fn documents_are_read_as_others_read_them(value in values(), is_pretty: bool) {
        let columns = vec![
            column("a", Type::Text, Some("$.a?")),
            column("b", Type::Text, Some("$.b.a?")),
            column("c", Type::Text, Some("$['\"'][1]?")),
        ];
        let call = call("GET / ", &[], "$", columns);
        let document = match is_pretty {
            true => serde_json::to_string_pretty(&value).unwrap(),
            false => serde_json::to_string(&value).unwrap(),
        };
        let row = |row: &Value| {
            let cells = [row.get("a"), row.get("b").and_then(|b| b.get("a")),
                row.get("\"").and_then(|c| c.get(1))];
            let cells: Option<String> = cells.into_iter().map(cell_of).collect();
            cells.map(|cells| cells + "|")
        };
        let rows: Option<String> = match &value {
            Value::Array(rows) => rows.iter().map(row).collect(),
            Value::Null => Some(String::new()),
            other => row(other),
        };
        prop_assert_eq!(read(&call, &document), rows.map(|rows| rows + ";"));
    }

    /// Bytes that are changed: nothing panics, what is no JSON for `serde_json` is none, and what
    /// is has an answer as before.
    #[test]
    fn what_is_changed_is_json_or_none(
        value in values(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3),
    ) {
        let nobody = vec![column("a", Type::Text, Some("$.nobody?"))];
        let any = call("GET / ", &[], "$", nobody);
        let mut bytes = serde_json::to_vec(&value).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
        let answer = [head.as_bytes(), &bytes].concat();
        let (verdicts, _) = decoded(&any, [&*answer].into_iter()).unwrap();
        let is_read = verdicts[0].outcome == Ok(0);
        // Of numbers it looks at the grammar alone: what no float holds is a number all the same.
        let is_json = std::str::from_utf8(&bytes)
            .is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
        // Nor at the digits of an escape in a text that nobody looks at.
        let has_escape = bytes.windows(2).any(|pair| pair == b"\\u");
        prop_assert!(is_read == is_json || is_read && has_escape, "{is_read} {is_json}");
    }

    /// Whatever the argument, a request is one request, and the server finds it where it belongs.
    #[test]
    fn an_argument_stays_in_its_place(text in any::<String>()) {
        let argument = Argument::Text(text.as_bytes());
        let request = sent(
            "POST /a/\u{1}/b?c=\u{1}&d=e {\"f\":\u{1},\"g\":1} X-H:\u{1} X-I:\u{1}",
            &[argument, argument, argument, argument, Argument::Int(1)],
        );
        let (head, content) = request.split_once("\r\n\r\n").unwrap();
        let lines: Vec<&str> = head.split("\r\n").collect();
        prop_assert_eq!(lines.len(), 7);
        prop_assert!(lines.iter().all(|line| !line.contains(['\r', '\n', '\0'])));
        let target = lines[0].strip_prefix("POST /base/a/").unwrap();
        let target = target.strip_suffix("&d=e HTTP/1.1").unwrap();
        let (segment, value) = target.split_once("/b?c=").unwrap();
        let mut decoded = Vec::new();
        rhythm_protocol::http::uri::decode_bytes(segment.as_bytes(), &mut decoded).unwrap();
        prop_assert_eq!(&decoded, text.as_bytes());
        prop_assert_eq!(segment, value);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
        prop_assert!(segment.bytes().all(plain));
        let json: Value = serde_json::from_str(content).unwrap();
        prop_assert_eq!(&json, &serde_json::json!({ "f": text, "g": 1 }));
        prop_assert_eq!(lines[4], "X-I: 1");
        prop_assert_eq!(lines[6], format!("Content-Length: {}", content.len()));
    }
}
