//! What a server might say, in any pieces, and what becomes of it.

use super::answer::ANSWER_MAX;
use super::request::{self, Verb};
use super::wire::{Connection, MemcachedWire};
use crate::backend::answers::{QueryAnswers, Told};
use crate::backend::awaited::Awaited;
use crate::backend::failure::Cause;
use crate::backend::wire::{Greeting, Unreadable, Verdict, Wire};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use rhythm_engine::cohort::Argument;
use rhythm_engine::program::{Asking, Call, CallResult, Form, Type};

fn call(words: &str) -> Call {
    let (before, after) = words.split_once('?').expect("an argument");
    Call {
        backend: 0,
        asking: Asking::Query,
        form: Form {
            pieces: vec![before.as_bytes().into(), after.as_bytes().into()],
            arguments: vec![Type::Text],
        },
        columns: 1,
        result: CallResult::Rows(0),
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

/// What a call of these arguments asks, one after the other, and its connection.
fn asked(call: &Call, arguments: &[&[u8]]) -> (MemcachedWire, Connection, Vec<u8>) {
    let mut wire = MemcachedWire::new("test");
    let (mut connection, mut out) = (Connection::default(), Vec::new());
    for argument in arguments {
        let arguments = [Argument::Text(argument)].into_iter();
        wire.encode(&mut connection, 0, call, arguments, &mut out);
    }
    (wire, connection, out)
}

/// What is made of bytes that come in these pieces, of a call with this argument so many times:
/// verdicts, and all cells.
fn decoded<'b>(
    call: &Call,
    arguments: &[&[u8]],
    pieces: impl Iterator<Item = &'b [u8]>,
) -> Result<(Vec<Verdict>, String), Unreadable> {
    let (mut wire, mut connection, _) = asked(call, arguments);
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
    let mut cells = String::new();
    answers.tell(&mut |_, told| {
        let rows = |told: Told<'_>| {
            let text = |cell| format!("{cell:?}");
            told.rows()
                .flat_map(|row| row.map(text).collect::<Vec<_>>())
                .collect::<String>()
        };
        cells += &told.map(|told| rows(told) + ";").unwrap_or_default();
    });
    Ok((verdicts, cells))
}

/// What a verb with this argument sends.
fn sent(words: &str, argument: &[u8]) -> String {
    let (_, _, out) = asked(&call(words), &[argument]);
    String::from_utf8(out).unwrap()
}

#[test]
fn each_verb_is_one_request() {
    for (words, argument, expected) in [
        ("get ?", "k", "mg k v\r\n"),
        ("get u%3A?", "a b", "mg dTphIGI= b v\r\n"),
        ("set k ? 60", "a\r\nb", "ms k 4 T60 MS\r\na\r\nb\r\n"),
        ("set ? x 0", "\u{e9} ", "ms w6kg 1 b T0 MS\r\nx\r\n"),
        ("add k ? 0", "", "ms k 0 T0 ME\r\n\r\n"),
        ("replace k ? 0", "v", "ms k 1 T0 MR\r\nv\r\n"),
        ("append k ?", "v", "ms k 1 MA\r\nv\r\n"),
        ("prepend k ?", "v", "ms k 1 MP\r\nv\r\n"),
        ("delete ?", "k", "md k\r\n"),
        ("touch k ?", "-1", "mg k T-1\r\n"),
        ("incr ? 1  0", "k", "ma k MI D1 v\r\n"),
        ("decr k ? 7 60", "2", "ma k MD D2 N60 J7 v\r\n"),
        // What cannot be asked is nothing.
        ("get ?", "", "mn\r\n"),
        ("touch k ?", "1 v\r\nmd k", "mn\r\n"),
        ("touch k ?", "99999999999", "mn\r\n"),
        ("incr k ?  0", "-1", "mn\r\n"),
        ("set k v ?", "", "mn\r\n"),
    ] {
        assert_eq!(sent(words, argument.as_bytes()), expected, "{words}");
    }
    let [fits, beyond] = [250, 251].map(|length| vec![b'k'; length]);
    assert!(sent("get ?", &fits).starts_with("mg k"));
    assert_eq!(sent("get ?", &beyond), "mn\r\n");
    let [fits, beyond] = [186, 187].map(|length| vec![b' '; length]);
    assert!(sent("get ?", &fits).starts_with("mg ICAg"));
    assert_eq!(sent("get ?", &beyond), "mn\r\n");
}

#[test]
fn answers_come_in_any_pieces() {
    let bytes = b"VA 5\r\na\r\nbc\r\nEN\r\nVA 0 s2\r\n\r\nMN\r\nVA 2\r\n9 \r\n";
    let (call, arguments) = (call("get ?"), [&b"a"[..], b"b", b"c", b"", b"d"]);
    let whole = decoded(&call, &arguments, [&bytes[..]].into_iter()).unwrap();
    let outcomes: Vec<_> = whole.0.iter().map(|verdict| verdict.outcome).collect();
    assert_eq!(outcomes, [Ok(0), Ok(0), Ok(0), Err(Cause::Refused), Ok(0)]);
    assert!(
        whole
            .0
            .iter()
            .all(|verdict| verdict.is_healthy && verdict.goes_on)
    );
    assert_eq!(
        whole.1,
        "Text([97, 13, 10, 98, 99]);;Text([]);Decimal([57]);"
    );
    for cut in 1..bytes.len() {
        let (first, rest) = bytes.split_at(cut);
        let pieces = decoded(&call, &arguments, [first, rest].into_iter());
        assert_eq!(pieces.as_ref(), Ok(&whole), "{cut}");
        assert_eq!(
            decoded(&call, &arguments, bytes.chunks(cut)).as_ref(),
            Ok(&whole),
            "{cut}"
        );
    }
}

/// What becomes of a call that is answered so.
fn judged(words: &str, answer: &str) -> Result<(Verdict, String), Unreadable> {
    let read = decoded(&call(words), &[b"1"], [answer.as_bytes()].into_iter());
    read.map(|(verdicts, cells)| (verdicts[0], cells))
}

#[test]
fn an_answer_says_what_has_become_of_it() {
    for (words, answer, cells) in [
        ("set ? v 0", "HD\r\n", "Int(1);"),
        ("add ? v 0", "NS\r\n", "Int(0);"),
        ("delete ?", "NF\r\n", "Int(0);"),
        ("touch ? 7", "EN\r\n", "Int(0);"),
        ("touch ? 7", "HD\r\n", "Int(1);"),
        ("incr ? 1  0", "VA 2\r\n17\r\n", "Decimal([49, 55]);"),
        ("incr ? 1  0", "NF\r\n", ";"),
        ("get ?", "VA 3\r\n1 0\r\n", "Text([49, 32, 48]);"),
        ("get ?", "VA 2\r\n1\t\r\n", "Text([49, 9]);"),
        ("get ?", "VA 3\r\n1\r\n\r\n", "Text([49, 13, 10]);"),
        ("get ?", "VA 2\r\n  \r\n", "Text([32, 32]);"),
    ] {
        let (verdict, delivered) = judged(words, answer).unwrap();
        assert_eq!((verdict.outcome, &*delivered), (Ok(0), cells), "{words}");
    }
    for (words, answer, outcome, is_healthy, goes_on) in [
        (
            "incr ? 1  0",
            "CLIENT_ERROR cannot increment or decrement",
            Ok(1),
            true,
            true,
        ),
        ("get ?", "CLIENT_ERROR bad", Err(Cause::Refused), true, true),
        (
            "set ? v 0",
            "CLIENT_ERROR bad",
            Err(Cause::Refused),
            true,
            false,
        ),
        ("set ? v 0", "ERROR", Err(Cause::Refused), true, false),
        (
            "set ? v 0",
            "SERVER_ERROR object too large",
            Err(Cause::Refused),
            true,
            true,
        ),
        (
            "set ? v 0",
            "SERVER_ERROR out of memory",
            Err(Cause::Unwell),
            false,
            true,
        ),
    ] {
        let (verdict, _) = judged(words, &format!("{answer}\r\n")).unwrap();
        let is = (verdict.outcome, verdict.is_healthy, verdict.goes_on);
        assert_eq!(is, (outcome, is_healthy, goes_on), "{words}: {answer}");
    }
    for (words, answer) in [
        ("get ?", "HD\r\n"),
        ("get ?", "MN\r\n"),
        ("delete ?", "VA 1\r\na\r\n"),
        ("get ?", "VA x\r\n"),
        ("get ?", "VA 9999999\r\n"),
        ("get ?", "VA 1\r\nab\r\n"),
        ("get ?", "-ERR\r\n"),
        ("get ?", "EN\n"),
    ] {
        assert_eq!(
            judged(words, answer).map(|_| ()),
            Err(Unreadable),
            "{words}: {answer}"
        );
    }
    let endless = "x".repeat(ANSWER_MAX / 100);
    assert!(judged("get ?", &endless).is_err());
}

#[test]
fn a_server_is_asked_whether_it_knows_what_is_to_come() {
    for (answer, is_ready) in [
        ("MN\r\n", true),
        ("ERROR\r\n", false),
        ("ERROR Too many open connections\r\n", false),
        ("CLIENT_ERROR unauthenticated\r\n", false),
        ("-ERR unknown\r\n", false),
    ] {
        let mut wire = MemcachedWire::new("test");
        let (mut connection, mut out) = (Connection::default(), Vec::new());
        let mut greeting = wire.greet(&mut connection, b"", &mut out);
        assert_eq!((greeting, &out[..]), (Ok(Greeting::More), &b"mn\r\n"[..]));
        for byte in answer.as_bytes().chunks(1) {
            greeting = wire.greet(&mut connection, byte, &mut out);
        }
        assert_eq!(greeting.is_ok(), is_ready, "{answer}");
    }
}

/// A key as a server reads it, and the value behind it.
fn read_set(bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let end = bytes.iter().position(|byte| *byte == b'\r').unwrap();
    let words: Vec<&[u8]> = bytes[..end].split(|byte| *byte == b' ').collect();
    let key = match words[3] {
        b"b" => STANDARD.decode(words[1]).unwrap(),
        _ => words[1].to_vec(),
    };
    let length: usize = std::str::from_utf8(words[2]).unwrap().parse().unwrap();
    let value = &bytes[end + 2..];
    assert_eq!(&value[length..], b"\r\n");
    (key, value[..length].to_vec())
}

proptest! {
    #[test]
    fn whatever_comes_is_read_the_same_in_any_pieces(
        bytes in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(vec![
                    "EN\r\n", "HD\r\n", "VA 3\r\na\r\n\r\n", "VA 2 b\r\n7 \r\n", "MN\r\n",
                    "CLIENT_ERROR x\r\n", "SERVER_ERROR x\r\n",
                ]).prop_map(str::to_owned),
                "[VAEN 0-9\r\n]{1,3}",
            ],
            0..12,
        ),
        cut in 1..9_usize,
        verb in proptest::sample::select(vec!["get ?", "set ? v 0", "incr ? 1  0"]),
    ) {
        let bytes = bytes.concat();
        let (call, arguments) = (call(verb), [&b"k"[..]; 64]);
        let whole = decoded(&call, &arguments, [bytes.as_bytes()].into_iter());
        prop_assert_eq!(decoded(&call, &arguments, bytes.as_bytes().chunks(cut)), whole);
    }

    #[test]
    fn whatever_is_typed_is_a_key_or_a_value(
        key in proptest::collection::vec(any::<u8>(), 1..186),
        value in any::<Vec<u8>>(),
    ) {
        let mut out = Vec::new();
        let words = [&b"set"[..], &key, &value, b"0"];
        prop_assert_eq!(request::write(&words, &mut out), Ok(Verb::Store));
        prop_assert_eq!(read_set(&out), (key.clone(), value));
        let mut line = Vec::new();
        prop_assert!(request::write(&[b"get", &key], &mut line).is_ok());
        prop_assert!(line.iter().filter(|byte| **byte == b'\n').count() == 1);
        prop_assert!(line.ends_with(b" v\r\n"));
    }
}
