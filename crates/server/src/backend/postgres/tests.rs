//! What a server might say, in any pieces, and what becomes of it.

use super::access::{Access, Address};
use super::greeting::Greeter;
use super::messages::{message, text, value};
use super::scan::ANSWER_MAX;
use super::wire::{Connection, PostgresWire};
use crate::backend::answers::{QueryAnswers, Told};
use crate::backend::awaited::Awaited;
use crate::backend::failure::Cause;
use crate::backend::password::Password;
use crate::backend::wire::{Unreadable, Verdict, Wire};
use postgres_protocol::authentication::md5_hash;
use proptest::prelude::*;
use rhythm_engine::cohort::Argument;
use rhythm_engine::program::{Asking, Call, CallResult, Form, Source, Statement, Type};
use std::sync::Arc;

fn access(url: &str, password: Option<&str>) -> Arc<Access> {
    let address: Address = url.parse().unwrap();
    let password = password.map(|password| Password(password.to_owned()));
    Arc::new(Access::for_tests(address, password))
}

fn local() -> Arc<Access> {
    access("postgres://me@127.0.0.1/shop", Some("secret"))
}

fn call(asking: Asking) -> Call {
    Call {
        backend: 0,
        asking,
        form: Form {
            pieces: vec![(*b"select ").into(), (*b"").into()],
            arguments: vec![Type::Int],
        },
        columns: 2,
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

/// Appends a message of the server's.
fn say(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    message(tag, out, |out| out.extend_from_slice(body));
}

/// What a server says of a statement that it prepares, with an int and a text.
fn described(out: &mut Vec<u8>) {
    say(out, b'1', b"");
    say(out, b't', &[0, 1, 0, 0, 0, 20]);
    message(b'T', out, |out| {
        out.extend_from_slice(&[0, 2]);
        for kind in [20_u32, 25] {
            text(b"name", out);
            out.extend_from_slice(&[0; 6]);
            out.extend_from_slice(&kind.to_be_bytes());
            out.extend_from_slice(&[0; 8]);
        }
    });
}

fn row(out: &mut Vec<u8>, cells: [Option<&[u8]>; 2]) {
    message(b'D', out, |out| {
        out.extend_from_slice(&[0, 2]);
        for cell in cells {
            match cell {
                Some(cell) => value(out, |out| out.extend_from_slice(cell)),
                None => out.extend_from_slice(&u32::MAX.to_be_bytes()),
            }
        }
    });
}

fn completed(out: &mut Vec<u8>, tag: &[u8]) {
    message(b'C', out, |out| text(tag, out));
}

fn ready(out: &mut Vec<u8>, state: u8) {
    say(out, b'Z', &[state]);
}

fn error(out: &mut Vec<u8>, severity: &[u8], code: &[u8], routine: &[u8]) {
    message(b'E', out, |out| {
        for (kind, field) in [
            (b'V', severity),
            (b'C', code),
            (b'M', b"no"),
            (b'R', routine),
        ] {
            out.push(kind);
            text(field, out);
        }
        out.push(0);
    });
}

/// The answers to a query that is prepared, one that is, and one that fails.
fn three() -> Vec<u8> {
    let mut bytes = Vec::new();
    described(&mut bytes);
    say(&mut bytes, b'2', b"");
    row(&mut bytes, [Some(b"7"), Some(b"seven")]);
    row(&mut bytes, [None, Some(b"")]);
    completed(&mut bytes, b"SELECT 2");
    ready(&mut bytes, b'I');
    say(&mut bytes, b'N', b"\0");
    say(&mut bytes, b'2', b"");
    row(&mut bytes, [Some(b"8"), Some(b"eight")]);
    completed(&mut bytes, b"SELECT 1");
    ready(&mut bytes, b'I');
    error(&mut bytes, b"ERROR", b"22012", b"");
    ready(&mut bytes, b'I');
    bytes
}

/// A wire and a connection on which queries of a call are under way.
fn asked(call: &Call, count: usize) -> (PostgresWire, Connection, Vec<u8>) {
    let mut wire = PostgresWire::new(local());
    let (mut connection, mut out) = (Connection::default(), Vec::new());
    for number in 0..count as u64 {
        let arguments = [Argument::Int(-5)].into_iter();
        wire.encode(&mut connection, number, call, arguments, &mut out);
    }
    (wire, connection, out)
}

/// What is made of bytes that come in these pieces: outcomes, and all cells.
fn decoded<'b>(
    (wire, connection, _): &mut (PostgresWire, Connection, Vec<u8>),
    call: &Call,
    pieces: impl Iterator<Item = &'b [u8]>,
) -> Result<(Vec<Verdict>, String), Unreadable> {
    let (awaited, mut answers) = (Awaited::one(call), QueryAnswers::default());
    let mut verdicts: Vec<Verdict> = Vec::new();
    for mut piece in pieces {
        loop {
            let (used, verdict) = wire.decode(connection, piece, &awaited, &mut answers)?;
            piece = &piece[used..];
            let Some(verdict) = verdict else {
                assert!(piece.is_empty(), "all is taken of what is not whole");
                break;
            };
            let outcome = verdict.outcome.map_err(Into::into);
            answers.push(verdicts.len() as u64, outcome);
            verdicts.push(verdict);
        }
    }
    let mut cells = String::new();
    answers.tell(&mut |key, told| {
        let rows = |told: Told<'_>| {
            let rows = told.rows().map(|row| row.collect::<Vec<_>>());
            format!("{key}: {:?}; ", rows.collect::<Vec<_>>())
        };
        cells += &told.map(rows).unwrap_or_default();
    });
    Ok((verdicts, cells))
}

#[test]
fn answers_come_in_any_pieces() {
    let (call, bytes) = (call(Asking::Query), three());
    let whole = decoded(&mut asked(&call, 3), &call, [&bytes[..]].into_iter()).unwrap();
    let outcomes: Vec<_> = whole.0.iter().map(|verdict| verdict.outcome).collect();
    assert_eq!(outcomes, [Ok(0), Ok(0), Err(Cause::Refused)]);
    assert!(whole.0.iter().all(|it| it.is_healthy && it.goes_on));
    let seven = format!("Int(7), Text({:?})", b"seven");
    assert!(whole.1.contains(&seven), "{}", whole.1);
    assert!(whole.1.contains("[Null, Text([])]"), "{}", whole.1);
    for cut in 1..bytes.len() {
        let (first, rest) = bytes.split_at(cut);
        let pieces = decoded(&mut asked(&call, 3), &call, [first, rest].into_iter());
        assert_eq!(pieces.as_ref(), Ok(&whole), "{cut}");
        let chunks = decoded(&mut asked(&call, 3), &call, bytes.chunks(cut));
        assert_eq!(chunks.as_ref(), Ok(&whole), "{cut}");
    }
}

#[test]
fn a_statement_is_prepared_once_in_the_same_write() {
    let call = call(Asking::Query);
    let (_, _, once) = asked(&call, 1);
    let (_, _, twice) = asked(&call, 2);
    let tags = |bytes: &[u8]| -> Vec<u8> {
        let all = super::messages::all(bytes);
        all.map(|message| message.tag).collect()
    };
    assert_eq!(tags(&once), b"CPDBES");
    assert_eq!(tags(&twice), b"CPDBESBES");
    let message = |at| super::messages::all(&once).nth(at).unwrap().body;
    let (name, parse) = message(1).split_at(16);
    assert_eq!(parse, b"\0select $1\0\0\x01\0\0\0\x14");
    assert_eq!(message(0), [b"S", name, b"\0"].concat());
    let bind = [b"\0", name, b"\0\0\0\0\x01\0\0\0\x02-5\0\0"].concat();
    assert_eq!(message(3), bind);
    let exec = self::call(Asking::Exec);
    let (_, _, bytes) = asked(&exec, 1);
    assert_eq!(tags(&bytes), b"PBECPDBESQ");
    assert!(
        bytes.ends_with(b"commit\0"),
        "nothing is done before all has come"
    );
}

/// What a transaction around a statement says, around this.
fn in_transaction(said: impl FnOnce(&mut Vec<u8>), end: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    say(&mut bytes, b'1', b"");
    say(&mut bytes, b'2', b"");
    completed(&mut bytes, b"BEGIN");
    said(&mut bytes);
    ready(&mut bytes, b'T');
    completed(&mut bytes, end);
    ready(&mut bytes, b'I');
    bytes
}

#[test]
fn an_exec_is_done_when_its_transaction_is() {
    let call = call(Asking::Exec);
    let changed = |bytes: &mut Vec<u8>| {
        say(bytes, b'1', b"");
        say(bytes, b't', &[0, 0]);
        say(bytes, b'n', b"");
        say(bytes, b'2', b"");
        completed(bytes, b"UPDATE 3");
    };
    let judge = |bytes: &[u8]| {
        let (verdicts, cells) = decoded(&mut asked(&call, 1), &call, [bytes].into_iter())?;
        Ok((verdicts[0].outcome, cells))
    };
    let done = in_transaction(changed, b"COMMIT");
    assert_eq!(judge(&done), Ok((Ok(0), "0: [[Int(3)]]; ".to_owned())));
    for (code, routine, outcome) in [
        (&b"23505"[..], &b""[..], Ok(1)),
        (b"22001", b"", Ok(1)),
        (b"22012", b"", Err(Cause::Refused)),
        (b"40001", b"", Err(Cause::Undone)),
        (b"40P01", b"", Err(Cause::Undone)),
        // It may have been done.
        (b"40003", b"", Err(Cause::Refused)),
        (b"26000", b"", Err(Cause::Undone)),
        (b"42P05", b"", Err(Cause::Undone)),
        (b"0A000", b"RevalidateCachedQuery", Err(Cause::Undone)),
        (b"0A000", b"other", Err(Cause::Refused)),
        (b"57014", b"", Err(Cause::Late)),
        (b"53100", b"", Err(Cause::Unwell)),
        (b"42P01", b"", Err(Cause::Refused)),
        (b"", b"", Err(Cause::Refused)),
    ] {
        let fails = |bytes: &mut Vec<u8>| error(bytes, b"ERROR", code, routine);
        let bytes = in_transaction(fails, b"ROLLBACK");
        let cells = if outcome == Ok(1) { "0: []; " } else { "" };
        assert_eq!(judge(&bytes), Ok((outcome, cells.to_owned())), "{code:?}");
    }
    // The commit fails: what was told of the statement is no answer.
    let mut bytes = in_transaction(changed, b"");
    let commit = bytes.len() - (6 + 6);
    bytes.truncate(commit);
    error(&mut bytes, b"ERROR", b"23505", b"");
    ready(&mut bytes, b'I');
    assert_eq!(judge(&bytes), Ok((Ok(1), "0: []; ".to_owned())));
    // A transaction that does not end is nobody's next.
    let failed = in_transaction(|bytes| error(bytes, b"ERROR", b"23505", b""), b"ROLLBACK");
    for (mut open, state) in [(done.clone(), b'T'), (done, b'E'), (failed, b'E')] {
        *open.last_mut().unwrap() = state;
        assert_eq!(judge(&open), Err(Unreadable));
    }
}

#[test]
fn what_was_changed_is_prepared_anew_on_all_connections() {
    let call = call(Asking::Query);
    let mut world = asked(&call, 1);
    let mut other = Connection::default();
    let arguments = || [Argument::Int(1)].into_iter();
    world
        .0
        .encode(&mut other, 0, &call, arguments(), &mut Vec::new());
    let mut bytes = Vec::new();
    described(&mut bytes);
    error(&mut bytes, b"ERROR", b"0A000", b"RevalidateCachedQuery");
    ready(&mut bytes, b'I');
    let (verdicts, _) = decoded(&mut world, &call, [&bytes[..]].into_iter()).unwrap();
    assert_eq!(verdicts[0].outcome, Err(Cause::Undone));
    let (wire, first, _) = &mut world;
    for connection in [first, &mut other] {
        let mut out = Vec::new();
        wire.encode(connection, 1, &call, arguments(), &mut out);
        let tags: Vec<u8> = super::messages::all(&out).map(|it| it.tag).collect();
        assert_eq!(tags, b"CPDBES");
    }
}

#[test]
fn what_is_too_long_is_passed_over_and_what_is_none_ends_the_connection() {
    let call = call(Asking::Query);
    let mut many = Vec::new();
    described(&mut many);
    while many.len() <= ANSWER_MAX {
        row(&mut many, [Some(b"7"), Some(&[b'x'; 9000])]);
    }
    let mut one = Vec::new();
    described(&mut one);
    row(&mut one, [Some(b"7"), Some(&[b'x'; ANSWER_MAX])]);
    for mut bytes in [many, one] {
        ready(&mut bytes, b'I');
        // The next answer is read as ever, by what the first has told of their statement.
        let mut next = Vec::new();
        say(&mut next, b'2', b"");
        row(&mut next, [Some(b"8"), Some(b"")]);
        completed(&mut next, b"SELECT 1");
        ready(&mut next, b'I');
        bytes.extend_from_slice(&next);
        for length in [65_536, 1_000_003, 4 << 20, 4093] {
            let mut world = asked(&call, 2);
            let pieces = bytes.chunks(length);
            let (verdicts, cells) = decoded(&mut world, &call, pieces).unwrap();
            let outcomes: Vec<_> = verdicts.iter().map(|it| it.outcome).collect();
            assert!(
                matches!(outcomes[..], [Err(Cause::Unfit(_)), Ok(0)]),
                "{outcomes:?}"
            );
            assert!(verdicts.iter().all(|it| it.goes_on && it.is_healthy));
            assert_eq!(cells, "1: [[Int(8), Text([])]]; ");
        }
    }
    // One that tells nothing of its statement leaves those behind it without types.
    let mut untold = Vec::new();
    row(&mut untold, [Some(b"7"), Some(&[b'x'; ANSWER_MAX])]);
    ready(&mut untold, b'I');
    let pieces = untold.chunks(1 << 16);
    let told = decoded(&mut asked(&call, 2), &call, pieces);
    assert_eq!(told, Err(Unreadable));
    let mut endless = vec![b'D'];
    endless.extend_from_slice(&(100_u32 << 20).to_be_bytes());
    for bytes in [
        &endless[..],
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"Z\0\0\0\x03",
    ] {
        let pieces = bytes.chunks(1 << 16);
        assert_eq!(
            decoded(&mut asked(&call, 1), &call, pieces),
            Err(Unreadable)
        );
    }
    // An answer that nobody asked for.
    let bytes = three();
    let two = decoded(&mut asked(&call, 2), &call, [&bytes[..]].into_iter());
    assert_eq!(two, Err(Unreadable));
}

/// A wire and a connection on which two queries of a call are under way as one.
fn merged() -> (Call, (PostgresWire, Connection, Vec<u8>)) {
    let mut call = call(Asking::Query);
    call.merged = true;
    let (mut wire, mut connection, mut out) = asked(&call, 0);
    let arguments = [Argument::Int(1), Argument::Int(2)].into_iter();
    wire.encode(&mut connection, 0, &call, arguments, &mut out);
    (call, (wire, connection, out))
}

#[test]
fn what_is_late_as_one_is_asked_one_by_one_for_a_while() {
    let mut call = call(Asking::Query);
    call.merged = true;
    for (queries, expected) in [(2, [0, 64]), (1, [64, 64])] {
        let (mut wire, mut connection, mut out) = asked(&call, 0);
        wire.merging.learn(&call.form, &[20]);
        assert_eq!(wire.merges(&call), 64);
        let arguments = (0..queries).map(Argument::Int);
        wire.encode(&mut connection, 0, &call, arguments, &mut out);
        wire.was_late(&connection, &Awaited::one(&call));
        assert_eq!([0; 2].map(|_| wire.merges(&call)), expected, "{queries}");
    }
}

#[test]
fn what_is_merged_and_forgotten_is_asked_one_by_one() {
    let (call, mut world) = merged();
    let tags: Vec<u8> = super::messages::all(&world.2).map(|it| it.tag).collect();
    assert_eq!(tags, b"PS");
    let mut bytes = Vec::new();
    error(&mut bytes, b"ERROR", b"42601", b"");
    ready(&mut bytes, b'I');
    let (verdicts, _) = decoded(&mut world, &call, [&bytes[..]].into_iter()).unwrap();
    assert_eq!(verdicts[0].outcome, Err(Cause::Refused));
    assert!(verdicts[0].goes_on && verdicts[0].is_healthy);
}

#[test]
fn what_one_value_may_have_done_to_several_queries_is_no_failure_of_the_server() {
    for (severity, code, outcome, is_healthy) in [
        (&b"ERROR"[..], &b"22012"[..], Cause::Refused, true),
        (b"ERROR", b"53200", Cause::Refused, true),
        (b"ERROR", b"XX000", Cause::Refused, true),
        (b"FATAL", b"53200", Cause::Unwell, false),
        (b"ERROR", b"57P03", Cause::Unwell, false),
    ] {
        let (call, mut world) = merged();
        let mut bytes = Vec::new();
        error(&mut bytes, severity, code, b"");
        ready(&mut bytes, b'I');
        let (verdicts, _) = decoded(&mut world, &call, [&bytes[..]].into_iter()).unwrap();
        let judged = (verdicts[0].outcome, verdicts[0].is_healthy);
        assert_eq!(judged, (Err(outcome), is_healthy), "{code:?}");
    }
}

/// A transaction of two statements: the row of the first is the value of the second.
fn transaction() -> Call {
    let statement = |piece: &[u8], source, columns| Statement {
        asking: Asking::Exec,
        form: Form {
            pieces: vec![piece.into(), (*b"").into()],
            arguments: vec![Type::Int],
        },
        arguments: [source].into(),
        columns,
    };
    Call {
        statements: [
            statement(b"insert ", Source::Argument(0), 2),
            statement(b"update ", Source::Cell(0), 0),
        ]
        .into(),
        result: CallResult::Row(vec![0, 1]),
        ..call(Asking::Transaction)
    }
}

#[test]
fn a_transaction_goes_on_with_what_was_answered_and_ends_whole() {
    let call = transaction();
    let tags = |bytes: &[u8]| -> Vec<u8> {
        let all = super::messages::all(bytes);
        all.map(|message| message.tag).collect()
    };
    // How many rows the first statement answers, and what the second says.
    for (rows, second, outcome, end) in [
        (1, "", Ok(0), b"COMMIT"),
        (1, "23505", Ok(1), b"ROLLBK"),
        (1, "40P01", Err(Cause::Undone), b"ROLLBK"),
        (0, "", Ok(1), b"ROLLBK"),
        (2, "", Err(Cause::Unfit("")), b"ROLLBK"),
    ] {
        let mut first = Vec::new();
        say(&mut first, b'1', b"");
        say(&mut first, b'2', b"");
        completed(&mut first, b"BEGIN");
        described(&mut first);
        say(&mut first, b'2', b"");
        (0..rows).for_each(|_| row(&mut first, [Some(b"71"), Some(b"a")]));
        completed(&mut first, b"INSERT 0 1");
        ready(&mut first, b'T');
        let mut last = Vec::new();
        if rows == 1 {
            say(&mut last, b'1', b"");
            say(&mut last, b't', &[0, 0]);
            say(&mut last, b'n', b"");
            match second {
                "" => {
                    say(&mut last, b'2', b"");
                    completed(&mut last, b"UPDATE 9");
                    ready(&mut last, b'T');
                }
                code => {
                    error(&mut last, b"ERROR", code.as_bytes(), b"");
                    ready(&mut last, b'E');
                }
            }
        }
        completed(&mut last, end);
        ready(&mut last, b'I');
        for cut in 1..first.len() {
            let mut world = asked(&call, 1);
            assert_eq!(tags(&world.2), b"PBECPDBES");
            let (begin, rest) = first.split_at(cut);
            let (verdicts, _) = decoded(&mut world, &call, [begin, rest].into_iter()).unwrap();
            assert_eq!(verdicts, [], "it is not over");
            let mut said = Vec::new();
            world.0.goes_on(&mut world.1, &mut said);
            match rows {
                1 => {
                    assert_eq!(tags(&said), b"CPDBESQ");
                    let value = memchr::memmem::find(&said, b"\0\0\0\x0271");
                    assert!(value.is_some() && said.ends_with(b"commit\0"));
                }
                _ => assert!(tags(&said) == b"Q" && said.ends_with(b"rollback\0")),
            }
            let (verdicts, cells) = decoded(&mut world, &call, last.chunks(cut)).unwrap();
            match outcome {
                Err(Cause::Unfit(_)) => {
                    assert!(matches!(verdicts[0].outcome, Err(Cause::Unfit(_))));
                }
                _ => assert_eq!(verdicts[0].outcome, outcome, "{rows} {second}"),
            }
            let shown = format!("0: [[Int(71), Text({:?})]]; ", b"a");
            assert_eq!(cells == shown, outcome == Ok(0), "{cells}");
            assert!(verdicts[0].goes_on && verdicts[0].is_healthy);
        }
    }
}

#[test]
fn what_a_transaction_keeps_is_no_longer_than_an_answer() {
    let mut call = transaction();
    call.statements[1].columns = 2;
    let mut world = asked(&call, 1);
    let long = [b'x'; ANSWER_MAX / 2];
    let mut answer = Vec::new();
    say(&mut answer, b'1', b"");
    say(&mut answer, b'2', b"");
    completed(&mut answer, b"BEGIN");
    for last in [false, true] {
        described(&mut answer);
        say(&mut answer, b'2', b"");
        row(&mut answer, [Some(b"71"), Some(&long)]);
        completed(&mut answer, b"INSERT 0 1");
        ready(&mut answer, b'T');
        let (verdicts, _) = decoded(&mut world, &call, [&answer[..]].into_iter()).unwrap();
        assert_eq!(verdicts, [], "it is not over");
        let mut said = Vec::new();
        world.0.goes_on(&mut world.1, &mut said);
        assert_eq!(said.ends_with(b"rollback\0"), last);
        answer.clear();
    }
    completed(&mut answer, b"ROLLBACK");
    ready(&mut answer, b'I');
    let (verdicts, _) = decoded(&mut world, &call, [&answer[..]].into_iter()).unwrap();
    assert!(matches!(verdicts[0].outcome, Err(Cause::Unfit(why)) if why.contains("1 MiB")));
}

#[test]
fn what_fails_around_the_statements_of_a_transaction_is_judged_as_they_are() {
    let begins = |out: &mut Vec<u8>| {
        say(out, b'1', b"");
        say(out, b'2', b"");
        completed(out, b"BEGIN");
    };
    let outcome_of = |call: &Call, first: &[u8], last: &[u8]| {
        let mut world = asked(call, 1);
        let (verdicts, _) = decoded(&mut world, call, [first].into_iter()).unwrap();
        assert_eq!(verdicts, [], "it is not over");
        world.0.goes_on(&mut world.1, &mut Vec::new());
        let (verdicts, _) = decoded(&mut world, call, [last].into_iter()).unwrap();
        (verdicts[0].outcome, verdicts[0].is_healthy)
    };
    // The commit alone is left, where the row of the last statement is looked at.
    let mut one = transaction();
    one.statements = one.statements[..1].into();
    let mut first = Vec::new();
    begins(&mut first);
    described(&mut first);
    say(&mut first, b'2', b"");
    row(&mut first, [Some(b"71"), Some(b"a")]);
    completed(&mut first, b"INSERT 0 1");
    ready(&mut first, b'T');
    let mut last = Vec::new();
    error(&mut last, b"ERROR", b"23503", b"");
    ready(&mut last, b'I');
    assert_eq!(outcome_of(&one, &first, &last), (Ok(1), true));
    // It cannot begin, and its first statements are not all of them.
    let mut first = Vec::new();
    error(&mut first, b"ERROR", b"53200", b"");
    ready(&mut first, b'I');
    let mut last = Vec::new();
    completed(&mut last, b"ROLLBACK");
    ready(&mut last, b'I');
    let unwell = (Err(Cause::Unwell), false);
    assert_eq!(outcome_of(&transaction(), &first, &last), unwell);
}

#[test]
fn more_rows_than_were_asked_for_are_no_answer() {
    let call = call(Asking::Query);
    let mut bytes = Vec::new();
    described(&mut bytes);
    row(&mut bytes, [Some(b"7"), None]);
    say(&mut bytes, b's', b"");
    ready(&mut bytes, b'I');
    let (verdicts, cells) = decoded(&mut asked(&call, 1), &call, [&bytes[..]].into_iter()).unwrap();
    assert!(matches!(verdicts[0].outcome, Err(Cause::Unfit(why)) if why.contains("limit")));
    assert_eq!(cells, "");
}

/// Opens a connection to a server that says this, step by step.
fn greeted(access: &Access, steps: &[&[u8]], cut: usize) -> Result<(bool, Vec<u8>), String> {
    let (mut greeter, mut out) = (Greeter::default(), Vec::new());
    let mut is_ready = false;
    let begun = greeter.go_on(access, b"", &mut out);
    assert_eq!(begun, Ok(None));
    for step in steps {
        for piece in step.chunks(cut) {
            assert!(!is_ready);
            let used = greeter.go_on(access, piece, &mut out);
            is_ready = used.map_err(|refusal| refusal.cause)?.is_some();
        }
    }
    Ok((is_ready, out))
}

fn asks(kind: u32, more: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    say(&mut bytes, b'R', &[&kind.to_be_bytes()[..], more].concat());
    bytes
}

fn is_in() -> Vec<u8> {
    let mut bytes = asks(0, b"");
    say(&mut bytes, b'S', b"server_version\x0015\0");
    say(&mut bytes, b'K', &[0; 8]);
    ready(&mut bytes, b'I');
    bytes
}

#[test]
fn a_password_is_shown_as_the_server_asks() {
    let access = local();
    let all = is_in();
    for cut in 1..=all.len() {
        let (is_ready, out) = greeted(&access, &[&all], cut).unwrap();
        assert!(is_ready, "{cut}");
        assert!(out.windows(15).any(|part| part == b"user\0me\0databas"));
        assert!(!out.windows(6).any(|part| part == b"secret"));
    }
    let (is_ready, out) = greeted(&access, &[&asks(3, b""), &all], 3).unwrap();
    assert!(is_ready && out.ends_with(b"p\0\0\0\x0bsecret\0"));
    let (is_ready, out) = greeted(&access, &[&asks(5, b"salt"), &all], 3).unwrap();
    let hash = md5_hash(b"me", b"secret", *b"salt");
    assert!(is_ready && out.ends_with(&[hash.as_bytes(), b"\0"].concat()));
    let scram = asks(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
    let (is_ready, out) = greeted(&access, &[&scram], 3).unwrap();
    assert!(!is_ready && out.windows(5).any(|part| part == b"n,,n="));
}

#[test]
fn who_does_not_know_the_password_is_not_believed() {
    let access = local();
    let scram = asks(10, b"SCRAM-SHA-256\0\0");
    // Without a proof that it knows the password, too; with a nonce of its own.
    let said = greeted(&access, &[&scram, &is_in()], 99).unwrap_err();
    assert!(said.contains("protocol"), "{said}");
    let first = asks(11, b"r=guessed,s=c2FsdA==,i=4096");
    let said = greeted(&access, &[&scram, &first], 99).unwrap_err();
    assert!(said.contains("could not be shown"), "{said}");
    // Work without end; no proof; a wrong one; and none, but that all is well.
    for (rounds, end, why) in [
        ("4000000000", asks(12, b""), "iteration count"),
        ("1", asks(12, b"e=invalid-proof"), "invalid-proof"),
        ("1", asks(12, b"v=AAAA"), "verification"),
        ("1", is_in(), "protocol"),
    ] {
        let (mut greeter, mut out) = (Greeter::default(), Vec::new());
        assert_eq!(greeter.go_on(&access, b"", &mut out), Ok(None));
        assert_eq!(greeter.go_on(&access, &scram, &mut out), Ok(None));
        let nonce = &out[out.len() - 24..];
        let first = [b"r=", nonce, b"x,s=c2FsdA==,i=", rounds.as_bytes()].concat();
        let first = greeter.go_on(&access, &asks(11, &first), &mut Vec::new());
        let said = first.and_then(|_| greeter.go_on(&access, &end, &mut Vec::new()));
        let said = said.unwrap_err().cause;
        assert!(said.contains(why), "{said}");
    }
    // Anybody could read it on the way.
    let far = self::access("postgres://me@192.0.2.1/shop", Some("secret"));
    let said = greeted(&far, &[&asks(3, b"")], 99).unwrap_err();
    assert!(said.contains("others could hear"), "{said}");
    let none = self::access("postgres://me@127.0.0.1/shop", None);
    let said = greeted(&none, &[&asks(5, b"salt")], 99).unwrap_err();
    assert!(said.contains("asks for a password"), "{said}");
    for kind in [2, 7, 9] {
        let said = greeted(&access, &[&asks(kind, b"")], 99).unwrap_err();
        assert!(said.contains("not spoken"), "{said}");
    }
    let mut refused = Vec::new();
    error(&mut refused, b"FATAL", b"28P01", b"");
    let said = greeted(&access, &[&refused], 2).unwrap_err();
    assert_eq!(said, "no (SQLSTATE 28P01)");
}

proptest! {
    #[test]
    fn whatever_comes_nothing_panics(
        bytes in any::<Vec<u8>>(),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
        cut in 1..300_usize,
    ) {
        let call = call(Asking::Query);
        let _ = decoded(&mut asked(&call, 3), &call, bytes.chunks(cut));
        let mut changed = three();
        let at = at.index(changed.len());
        changed[at] = byte;
        let _ = decoded(&mut asked(&call, 3), &call, changed.chunks(cut));
        let _ = greeted(&local(), &[&bytes], cut);
        // The beginning of what is right.
        let begun = &three()[..at];
        let (verdicts, _) = decoded(&mut asked(&call, 3), &call, begun.chunks(cut)).unwrap();
        prop_assert!(verdicts.len() < 3);
    }
}
