//! What a server might say, in any pieces, and what becomes of it.

use super::access::Access;
use super::reply::ANSWER_MAX;
use super::wire::{Connection, RedisWire};
use crate::backend::answers::{QueryAnswers, Told};
use crate::backend::awaited::Awaited;
use crate::backend::failure::Cause;
use crate::backend::password::{LoadedPassword, Password};
use crate::backend::wire::{Greeting, Unreadable, Verdict, Wire};
use crate::backend::words::{Words, of_command};
use proptest::prelude::*;
use rhythm_engine::cohort::Argument;
use rhythm_engine::program::{Asking, Call, CallResult, Form, Type};
use std::sync::Arc;

fn wire(url: &str, password: Option<&str>) -> RedisWire {
    let password = password.map(|password| Password(password.to_owned()));
    RedisWire::new(Arc::new(Access {
        address: url.parse().unwrap(),
        password: LoadedPassword::new(password),
        tls: None,
        words: Words::new("test"),
    }))
}

fn call(asking: Asking, result: CallResult) -> Call {
    Call {
        backend: 0,
        asking,
        form: Form {
            pieces: vec![(*b"HGET user%3A").into(), (*b" na%20me").into()],
            arguments: vec![Type::Int],
        },
        columns: 2,
        result,
        status: 1,
        has_name: true,
        statements: Box::default(),
        document: None,
        idempotent: false,
        optional: false,
        shared: false,
        merged: false,
        particulars: Default::default(),
    }
}

fn reads() -> Call {
    call(Asking::Query, CallResult::Rows(0))
}

/// What is made of bytes that come in these pieces: outcomes, and all cells.
fn decoded<'b>(
    call: &Call,
    pieces: impl Iterator<Item = &'b [u8]>,
) -> Result<(Vec<Verdict>, String), Unreadable> {
    let (mut wire, mut connection) = (wire("redis://cache", None), Connection::default());
    let (awaited, mut answers) = (Awaited::one(call), QueryAnswers::default());
    // More are asked than anything here answers.
    for number in 0..64 {
        let arguments = [Argument::Int(7)].into_iter();
        wire.encode(&mut connection, number, call, arguments, &mut Vec::new());
    }
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
    let mut cells = String::new();
    answers.tell(&mut |_, told| {
        let rows = |told: Told<'_>| {
            let text = |cell| format!("{cell:?}");
            let rows = told.rows().map(|row| row.map(text).collect::<Vec<_>>());
            rows.collect::<Vec<_>>()
        };
        cells += &told
            .map(|told| format!("{:?};", rows(told)))
            .unwrap_or_default();
    });
    Ok((verdicts, cells.replace('"', "")))
}

/// What is made of one reply.
fn of(call: &Call, reply: &[u8]) -> (Result<i64, Cause>, bool, String) {
    let (verdicts, cells) = decoded(call, [reply].into_iter()).unwrap();
    assert_eq!(verdicts.len(), 1, "{:?}", String::from_utf8_lossy(reply));
    (verdicts[0].outcome, verdicts[0].is_healthy, cells)
}

const REPLIES: &[u8] = b"*2\r\n*2\r\n$3\r\none\r\n,1.5\r\n*2\r\n$0\r\n\r\n,inf\r\n\
    >2\r\n+pushed\r\n%1\r\n+a\r\n:1\r\n-WRONGTYPE no\r\n\
    |1\r\n+ttl\r\n:3600\r\n%1\r\n$2\r\na\r\r\n#t\r\n_\r\n=7\r\ntxt:\x00\r\n\r\n";

#[test]
fn replies_come_in_any_pieces() {
    let call = reads();
    let whole = decoded(&call, [REPLIES].into_iter()).unwrap();
    let outcomes: Vec<_> = whole.0.iter().map(|verdict| verdict.outcome).collect();
    assert_eq!(outcomes, [Ok(0), Err(Cause::Refused), Ok(0), Ok(0), Ok(0)]);
    assert_eq!(
        whole.1,
        "[[Text([111, 110, 101]), Decimal([49, 46, 53])], [Text([]), Text([105, 110, 102])]];\
         [[Text([97, 13]), Bool(true)]];[];[[Text([0, 13, 10])]];"
    );
    for cut in 1..REPLIES.len() {
        let (first, rest) = REPLIES.split_at(cut);
        assert_eq!(
            decoded(&call, [first, rest].into_iter()).as_ref(),
            Ok(&whole),
            "{cut}"
        );
        assert_eq!(
            decoded(&call, REPLIES.chunks(cut)).as_ref(),
            Ok(&whole),
            "{cut}"
        );
    }
}

#[test]
fn a_reply_is_rows_by_one_rule() {
    let (rows, row) = (reads(), call(Asking::Query, CallResult::Row(vec![0, 1])));
    for (reply, as_rows, as_row) in [
        (&b"$1\r\na\r\n"[..], "[[Text([97])]];", "[[Text([97])]];"),
        (b":-7\r\n", "[[Int(-7)]];", "[[Int(-7)]];"),
        (b"(123456789012345678901\r\n", "", ""),
        (b"_\r\n", "[];", "[];"),
        (b"$-1\r\n", "[];", "[];"),
        (b"*0\r\n", "[];", "[];"),
        (b"%0\r\n", "[];", "[];"),
        (
            b"~2\r\n:1\r\n_\r\n",
            "[[Int(1)], [Null]];",
            "[[Int(1), Null]];",
        ),
        (
            b"%1\r\n:1\r\n:2\r\n",
            "[[Int(1), Int(2)]];",
            "[[Int(1), Int(2)]];",
        ),
        (
            b"*2\r\n*2\r\n:1\r\n*1\r\n:2\r\n*0\r\n",
            "[[Int(1), Int(2)], []];",
            "[[Int(1), Int(2)]];",
        ),
        // One cell too many is enough.
        (
            b"*1\r\n*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n",
            "[[Int(1), Int(2), Int(3)]];",
            "[[Int(1), Int(2), Int(3)]];",
        ),
    ] {
        for (call, expected) in [(&rows, as_rows), (&row, as_row)] {
            let (outcome, _, cells) = of(call, reply);
            assert_eq!(outcome, Ok(0));
            match expected {
                "" => assert!(cells.contains("Decimal([49, 50, 51")),
                expected => assert_eq!(cells, expected, "{:?}", String::from_utf8_lossy(reply)),
            }
        }
    }
    let mut unseen = call(Asking::Exec, CallResult::Rows(0));
    unseen.has_name = false;
    assert_eq!(of(&unseen, b"+OK\r\n"), (Ok(0), true, "[];".to_owned()));
}

#[test]
fn an_error_is_of_the_page_the_server_or_what_is_asked() {
    let changes = call(Asking::Exec, CallResult::Rows(0));
    let mut unseen = changes.clone();
    unseen.has_name = false;
    for (error, of_read, of_change, is_healthy) in [
        ("WRONGTYPE Operation", Err(Cause::Refused), Ok(1), true),
        (
            "ERR value is not an integer",
            Err(Cause::Refused),
            Ok(1),
            true,
        ),
        ("OUTOFSTOCK of it", Err(Cause::Refused), Ok(1), true),
        (
            "ERR unknown command 'X'",
            Err(Cause::Refused),
            Err(Cause::Refused),
            true,
        ),
        (
            "ERR syntax error",
            Err(Cause::Refused),
            Err(Cause::Refused),
            true,
        ),
        (
            "NOSCRIPT none",
            Err(Cause::Refused),
            Err(Cause::Refused),
            true,
        ),
        (
            "MOVED 1 b:1",
            Err(Cause::Refused),
            Err(Cause::Refused),
            true,
        ),
        ("LOADING it", Err(Cause::Unwell), Err(Cause::Unwell), false),
        ("READONLY it", Err(Cause::Unwell), Err(Cause::Unwell), false),
        ("OOM none", Err(Cause::Unwell), Err(Cause::Unwell), false),
    ] {
        for reply in [
            format!("-{error}\r\n"),
            format!("!{}\r\n{error}\r\n", error.len()),
            format!("*2\r\n:1\r\n-{error}\r\n"),
        ] {
            let judged = |call: &Call| {
                let (outcome, is_healthy, _) = of(call, reply.as_bytes());
                (outcome, is_healthy)
            };
            assert_eq!(judged(&reads()), (of_read, is_healthy), "{error}");
            assert_eq!(judged(&changes), (of_change, is_healthy), "{error}");
            assert!(judged(&unseen).0.is_err(), "{error}");
        }
    }
}

#[test]
fn what_is_none_or_too_much_ends_the_connection() {
    let deep = "*1\r\n".repeat(ANSWER_MAX / 4 + 1);
    let many = format!("*{}\r\n", ANSWER_MAX);
    let long = format!("+{}", "x".repeat(1 << 16));
    for bytes in [
        "ERROR\r\n",
        "+OK\n",
        "$x\r\n",
        "$-2\r\n",
        ":\r\n",
        ":1x\r\n",
        "#x\r\n",
        "_x\r\n",
        "=3\r\nabc\r\n",
        "$1\r\nabc",
        "*-2\r\n",
        "*99999999999\r\n",
        "$1048577\r\n",
        &deep,
        &many,
        &long,
    ] {
        let read = decoded(&reads(), [bytes.as_bytes()].into_iter());
        assert_eq!(read, Err(Unreadable), "{}", &bytes[..bytes.len().min(20)]);
    }
    let rows = [b"*4097\r\n".to_vec(), b":1\r\n".repeat(4097)].concat();
    let (outcome, is_healthy, _) = of(&reads(), &rows);
    assert!(matches!(outcome, Err(Cause::Unfit(_))) && is_healthy);
}

/// What is said as a connection opens, and what becomes of it when that is answered so.
fn greeted(url: &str, password: Option<&str>, answer: &[u8]) -> (String, Result<Greeting, ()>) {
    let (mut wire, mut connection) = (wire(url, password), Connection::default());
    let mut out = Vec::new();
    let greeting = wire.greet(&mut connection, b"", &mut out);
    assert_eq!(greeting, Ok(Greeting::More));
    let mut greeting = Ok(Greeting::More);
    for piece in answer.chunks(3) {
        greeting = wire.greet(&mut connection, piece, &mut out).map_err(|_| ());
        if greeting != Ok(Greeting::More) {
            break;
        }
    }
    (String::from_utf8(out).unwrap(), greeting)
}

#[test]
fn a_connection_opens_with_who_asks_and_where() {
    let hello = b"%1\r\n+proto\r\n:3\r\n";
    let (said, ready) = greeted("redis://cache", None, hello);
    assert_eq!(
        said,
        "*4\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$7\r\nSETNAME\r\n$6\r\nrhythm\r\n"
    );
    assert!(matches!(ready, Ok(Greeting::Done { .. })));
    let (said, waits) = greeted("redis://me@cache/7", Some("a b"), hello);
    assert!(said.contains("\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$3\r\na b\r\n"));
    assert!(said.ends_with("*2\r\n$6\r\nSELECT\r\n$1\r\n7\r\n"));
    assert_eq!(waits, Ok(Greeting::More));
    let both = [&hello[..], b"+OK\r\n"].concat();
    let (_, ready) = greeted("redis://cache/7", None, &both);
    assert!(matches!(ready, Ok(Greeting::Done { .. })));
    for refused in [
        &b"-ERR unknown command 'HELLO'\r\n"[..],
        b"-NOAUTH no\r\n",
        b"HTTP/1.1\r\n",
    ] {
        assert_eq!(greeted("redis://cache", None, refused).1, Err(()));
    }
}

#[test]
fn the_log_has_no_values() {
    assert_eq!(of_command(&reads().form), "HGET user:? na me");
}

/// The words of a command, as a server reads them.
fn read_words(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    fn header(bytes: &mut &[u8], kind: u8) -> usize {
        let end = bytes.iter().position(|byte| *byte == b'\r').unwrap();
        assert_eq!((bytes[0], bytes[end + 1]), (kind, b'\n'));
        let number = std::str::from_utf8(&bytes[1..end])
            .unwrap()
            .parse()
            .unwrap();
        *bytes = &bytes[end + 2..];
        number
    }
    let count = header(&mut bytes, b'*');
    let mut words = Vec::new();
    for _ in 0..count {
        let length = header(&mut bytes, b'$');
        let (word, rest) = bytes.split_at(length);
        words.push(word.to_vec());
        bytes = rest.strip_prefix(b"\r\n").unwrap();
    }
    assert!(bytes.is_empty());
    words
}

/// A look-up by one key.
fn lookup() -> Call {
    let mut call = reads();
    call.form = Form {
        pieces: vec![(*b"get item%3A").into(), (*b"").into()],
        arguments: vec![Type::Text],
    };
    call.columns = 1;
    call.merged = true;
    call.idempotent = true;
    call
}

/// What a key holds.
#[derive(Clone, Debug)]
enum Held {
    Nothing,
    Text(Vec<u8>),
    Other,
}

fn held() -> impl Strategy<Value = Held> {
    prop_oneof![
        Just(Held::Nothing),
        any::<Vec<u8>>().prop_map(Held::Text),
        Just(Held::Other),
    ]
}

/// What a server answers a look-up, or one of several.
fn reply(held: &Held, is_one: bool) -> Vec<u8> {
    match held {
        Held::Text(text) => {
            let header = format!("${}\r\n", text.len());
            [header.as_bytes(), &text[..], &b"\r\n"[..]].concat()
        }
        Held::Other if is_one => b"-WRONGTYPE Operation\r\n".to_vec(),
        Held::Nothing | Held::Other => b"_\r\n".to_vec(),
    }
}

/// The rows that a wire makes of a reply to a look-up by these keys, for each of them; `None` of
/// one that is to ask by itself.
fn looked_up(
    wire: &mut RedisWire,
    keys: &[Vec<u8>],
    reply: &[u8],
) -> Result<Vec<Option<String>>, Cause> {
    let (call, mut connection) = (lookup(), Connection::default());
    let mut out = Vec::new();
    let arguments = keys.iter().map(|key| Argument::Text(key));
    wire.encode(&mut connection, 0, &call, arguments, &mut out);
    let words = read_words(&out);
    let name = if keys.len() > 1 { &b"MGET"[..] } else { b"get" };
    assert_eq!(words[0], name);
    for (word, key) in words[1..].iter().zip(keys) {
        assert_eq!(*word, [&b"item:"[..], key].concat());
    }
    assert_eq!(words.len(), 1 + keys.len());
    let (awaited, mut answers) = (Awaited::one(&call), QueryAnswers::default());
    let decoded = wire.decode(&mut connection, reply, &awaited, &mut answers);
    let verdict = decoded.unwrap().1.expect("it is whole");
    answers.push(0, verdict.outcome.map_err(Into::into));
    let mut found = Vec::new();
    answers.tell(&mut |_, told| {
        let Ok(told) = told else {
            return;
        };
        let rows = |told: Told<'_>| {
            let rows = told
                .rows()
                .map(|row| format!("{:?}", row.collect::<Vec<_>>()));
            rows.collect::<String>()
        };
        match keys.len() {
            1 => found.push(Some(rows(told))),
            queries => {
                let split = told.split(queries).expect("all are somebody's");
                let part = |of: &Option<Vec<usize>>| Some(rows(told.part(of.as_deref()?)));
                found.extend(split.iter().map(part));
            }
        }
    });
    verdict.outcome.map(|_| found)
}

#[test]
fn look_ups_are_merged_once_their_length_is_known() {
    let (call, keys) = (lookup(), vec![b"a".to_vec()]);
    let mut wire = wire("redis://cache", None);
    assert_eq!(wire.merges(&call), 0);
    let alone = |wire: &mut RedisWire, length: usize| {
        looked_up(wire, &keys, &reply(&Held::Text(vec![b'x'; length]), true)).unwrap();
    };
    alone(&mut wire, 100);
    assert_eq!(wire.merges(&call), 64);
    alone(&mut wire, 60_000);
    assert_eq!(wire.merges(&call), 4);
    alone(&mut wire, 600_000);
    assert_eq!(wire.merges(&call), 0);
    // What was long once is forgotten.
    (0..1000).for_each(|_| alone(&mut wire, 100));
    assert_eq!(wire.merges(&call), 64);
    // A key that is written out is one for all.
    let mut same = lookup();
    same.form = Form::plain(&[]);
    assert_eq!(wire.merges(&same), 0);
    // Where many keys have no value, or several cannot be asked for, cohorts ask one by one.
    let two = [b"a".to_vec(), b"b".to_vec()];
    let nils = b"*2\r\n_\r\n_\r\n";
    assert_eq!(looked_up(&mut wire, &two, nils), Ok(vec![None, None]));
    assert_eq!([0; 2].map(|_| wire.merges(&call)), [0, 64]);
    let refused = looked_up(&mut wire, &two, b"-NOPERM no 'mget'\r\n");
    assert_eq!(refused, Err(Cause::Refused));
    assert_eq!([0; 3].map(|_| wire.merges(&call)), [0, 0, 64]);
    // Likewise where it is late; what is late by itself is no reason.
    for (key_count, left_out) in [(2, 4), (1, 0)] {
        let (mut connection, mut out) = (Connection::default(), Vec::new());
        let arguments = two[..key_count].iter().map(|key| Argument::Text(key));
        wire.encode(&mut connection, 0, &call, arguments, &mut out);
        wire.was_late(&connection, &Awaited::one(&call));
        let merges: Vec<usize> = (0..5).map(|_| wire.merges(&call)).collect();
        let zeros = merges.iter().filter(|most| **most == 0).count();
        assert_eq!(zeros, left_out, "{merges:?}");
    }
}

proptest! {
    #[test]
    fn merged_look_ups_are_those_of_each(
        keys in proptest::collection::vec((any::<Vec<u8>>(), held()), 2..9),
    ) {
        let mut wire = wire("redis://cache", None);
        let names: Vec<Vec<u8>> = keys.iter().map(|(key, _)| key.clone()).collect();
        let replies: Vec<Vec<u8>> = keys.iter().map(|(_, held)| reply(held, false)).collect();
        let as_one = [format!("*{}\r\n", keys.len()).into_bytes(), replies.concat()].concat();
        let merged = looked_up(&mut wire, &names, &as_one).unwrap();
        prop_assert_eq!(merged.len(), keys.len());
        for ((key, held), merged) in keys.iter().zip(merged) {
            let alone = looked_up(&mut wire, std::slice::from_ref(key), &reply(held, true));
            match merged {
                Some(rows) => prop_assert_eq!(alone, Ok(vec![Some(rows)])),
                // It asks by itself, which is what it would have done.
                None => prop_assert!(!matches!(held, Held::Text(_))),
            }
        }
    }

    #[test]
    fn whatever_is_typed_is_a_part_of_its_word(text in any::<Vec<u8>>(), number in any::<i64>()) {
        let mut call = reads();
        call.form = Form {
            pieces: vec![(*b"SET a%0D%0A").into(), (*b" ").into(), (*b"").into()],
            arguments: vec![Type::Text, Type::Int],
        };
        let arguments = [Argument::Text(&text), Argument::Int(number)].into_iter();
        let mut out = Vec::new();
        let (mut wire, mut connection) = (wire("redis://cache", None), Connection::default());
        wire.encode(&mut connection, 0, &call, arguments, &mut out);
        let number = number.to_string().into_bytes();
        let expected = [b"SET".to_vec(), [&b"a\r\n"[..], &text].concat(), number];
        prop_assert_eq!(read_words(&out), expected);
    }

    #[test]
    fn whatever_comes_is_read_the_same_in_any_pieces(
        bytes in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(vec![
                    &b"*2\r\n"[..], b"%1\r\n", b">1\r\n", b"|1\r\n", b"$2\r\nab\r\n",
                    b":1\r\n", b"_\r\n", b"-ERR x\r\n",
                ]).prop_map(<[u8]>::to_vec),
                "[-+:$*_,#(!=%~>|0-9\r\n]{1,3}".prop_map(String::into_bytes),
            ],
            0..20,
        ),
        cut in 1..9_usize,
    ) {
        let bytes = bytes.concat();
        let whole = decoded(&reads(), [&bytes[..]].into_iter());
        prop_assert_eq!(decoded(&reads(), bytes.chunks(cut)), whole);
    }
}
