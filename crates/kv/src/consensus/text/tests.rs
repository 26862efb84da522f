use super::*;
use crate::consensus::keyspace::{Item, Outcome};
use crate::consensus::node::Answer;
use crate::wire::Mode;

/// All that is asked in these bytes, taken whole and one by one.
fn asked(text: &str, lease: Option<u64>) -> Vec<Wanted> {
    let take = |step: usize| {
        let (mut parser, mut all) = (Parser::default(), Vec::new());
        let (mut from, mut until) = (0, 0);
        while from < text.len() {
            until = (until + step).min(text.len());
            while let taken @ 1.. =
                parser.next(&rules(), &text.as_bytes()[from..until], lease, &mut all)
            {
                from += taken;
            }
            assert!(until < text.len() || from == until, "{text}");
        }
        all
    };
    let all = take(text.len());
    assert_eq!(format!("{:?}", take(1)), format!("{all:?}"), "{text}");
    all
}

/// What is said to a command when the node answers so.
fn said(text: &str, answers: &[Answer]) -> String {
    let (mut out, mut in_error) = (Vec::new(), false);
    let mut answers = answers.iter();
    for one in asked(text, None) {
        match one {
            Wanted::Node(_, how) => {
                let answer = answers.next().expect("an answer each");
                how.say(answer, &mut in_error, &mut out);
            }
            Wanted::Say(text) => out.extend_from_slice(text.as_bytes()),
            other => panic!("{other:?}"),
        }
    }
    assert!(answers.next().is_none() && !in_error);
    String::from_utf8(out).unwrap()
}

fn item(value: &str) -> Answer {
    Answer::Item(Some(Item {
        flags: 3,
        value: value.as_bytes().into(),
        revision: 9,
        lease: None,
    }))
}

#[test]
fn refused_values_are_passed_over_and_so_is_what_is_refused_behind_them() {
    let long = "x".repeat(300_000);
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    assert_eq!(
        said(&format!("set a 0 0 300000\r\n{long}\r\n"), &[]),
        too_large
    );
    assert_eq!(
        said(&format!("set a 0 0 300000 noreply\r\n{long}\r\n"), &[]),
        ""
    );
    let bad = said("set a 0 0 1\r\nxyz\r\n", &[]);
    assert!(bad.starts_with("CLIENT_ERROR bad data chunk\r\n"), "{bad}");
    let key = "k".repeat(251);
    let text = format!("set a 0 0 300000\r\n{long}\r\nget a {key}\r\ndetach\r\nversion\r\n");
    let all = asked(&text, None);
    let says = |one: &Wanted| matches!(one, Wanted::Say(_));
    assert!(matches!(&all[..], [.., behind, Wanted::Detach, last] if says(behind) && says(last)));
    assert!(
        !all.iter().any(|one| matches!(one, Wanted::Node(..))),
        "{all:?}"
    );
}

#[test]
fn flags_that_cannot_be_obeyed_are_refused() {
    let opaque = "o".repeat(33);
    for line in [
        format!("ma n O{opaque}\r\n"),
        format!("mg n v O{opaque}\r\n"),
    ] {
        assert_eq!(said(&line, &[]), meta::LONG_OPAQUE, "{line}");
    }
    for mode in ["MA", "MP"] {
        let said = said(&format!("ms a 1 {mode} C0\r\nx\r\n"), &[]);
        assert_eq!(said, BAD, "{mode}");
    }
}

#[test]
fn memcacheds_lines_are_answered_as_memcached_does() {
    let done = |outcome| [Answer::Done(outcome)];
    let none = Answer::Item(None);
    assert_eq!(
        said("gets a b\r\n", &[item("xy"), none.clone()]),
        "VALUE a 3 2 9\r\nxy\r\nEND\r\n"
    );
    assert_eq!(
        said("get a\r\n", &[item("x")]),
        "VALUE a 3 1\r\nx\r\nEND\r\n"
    );
    for (outcome, text) in [
        (Outcome::Stored(1), "STORED\r\n"),
        (Outcome::NotStored, "NOT_STORED\r\n"),
        (Outcome::Exists, "EXISTS\r\n"),
        (
            Outcome::Full,
            "SERVER_ERROR out of memory storing object\r\n",
        ),
    ] {
        assert_eq!(said("cas a 0 0 1 7\r\nx\r\n", &done(outcome)), text);
    }
    assert_eq!(
        said("set a 0 0 1 noreply\r\nx\r\n", &done(Outcome::Stored(1))),
        ""
    );
    assert_eq!(said("incr a 1\r\n", &done(Outcome::Number(7, 1))), "7\r\n");
    assert_eq!(said("delete a\r\n", &done(Outcome::Deleted)), "DELETED\r\n");
    assert_eq!(said("set a 0 10 1\r\nx\r\n", &[]), NO_EXPIRY);
    assert_eq!(said("flush_all\r\n", &[]), UNKNOWN);
    assert_eq!(said("nonsense\r\n", &[]), "ERROR\r\n");
}

/// Else what is left of it would wait for an end that never comes.
#[test]
fn a_line_of_keys_is_refused_before_any_of_them_is_asked_for() {
    let (long, longest) = ("k".repeat(251), "k".repeat(250));
    for line in [format!("get a {long}\r\n"), format!("gets {long} a\r\n")] {
        assert_eq!(said(&line, &[]), BAD, "{line}");
    }
    let far = format!("get{} {long} b\n", " a".repeat(500));
    assert_eq!(said(&format!("{far}version\r\n"), &[]).lines().count(), 2);
    let fits = format!("get a {longest}\r\n");
    assert_eq!(
        said(&fits, &[Answer::Item(None), Answer::Item(None)]),
        "END\r\n"
    );
    for line in ["gat 0 a b c\r\n", "gats 0 a\r\n", "touch a 0\r\n"] {
        assert_eq!(said(line, &[]), UNKNOWN, "{line}");
    }
}

#[test]
fn who_wants_no_answer_gets_none() {
    for line in [
        "touch a 0 noreply\r\n",
        "flush_all noreply\r\n",
        "flush_all 0 noreply\r\n",
        "cache_memlimit 9 noreply\r\n",
        "verbosity 1 noreply\r\n",
        "set a 0 10 1 noreply\r\nx\r\n",
    ] {
        assert_eq!(said(line, &[]), "", "{line}");
    }
    for answer in [Answer::NothingDone, Answer::PerhapsDone, Answer::DiskFull] {
        let set = "set a 0 0 1 noreply\r\nx\r\ndelete a noreply\r\n";
        assert_eq!(said(set, &[answer.clone(), answer]), "");
    }
}

#[test]
fn a_get_of_which_a_key_cannot_be_read_is_an_error_at_its_end() {
    let text = said(
        "get a b c\r\nget d\r\n",
        &[item("x"), Answer::NothingDone, item("z"), item("d")],
    );
    let expected = "VALUE a 3 1\r\nx\r\nSERVER_ERROR most nodes are out of reach, nothing was \
                    done\r\nVALUE d 3 1\r\nd\r\nEND\r\n";
    assert_eq!(text, expected);
}

#[test]
fn meta_commands_say_what_their_flags_ask() {
    let done = |outcome| [Answer::Done(outcome)];
    assert_eq!(
        said("mg a v f c k s t Oxy\r\n", &[item("xy")]),
        "VA 2 f3 c9 ka s2 t-1 Oxy\r\nxy\r\n"
    );
    assert_eq!(said("mg a c\r\n", &[item("xy")]), "HD c9\r\n");
    assert_eq!(
        said("mg a q\r\nmg a v q\r\n", &[Answer::Item(None), item("x")]),
        "VA 1\r\nx\r\n"
    );
    let set = "ms a 2 c k C5\r\nxy\r\n";
    assert_eq!(said(set, &done(Outcome::Stored(6))), "HD c6 ka\r\n");
    assert_eq!(said(set, &done(Outcome::Exists)), "EX ka\r\n");
    assert_eq!(
        said("ms a 1 q\r\nx\r\nmn\r\n", &done(Outcome::Stored(6))),
        "MN\r\n"
    );
    // What is not usual is told to who wants to hear little, as memcached tells it.
    for (line, outcome, answer) in [
        ("md a q k\r\n", Outcome::NotFound, "NF ka\r\n"),
        ("md a q\r\n", Outcome::Deleted, ""),
        ("ma a q\r\n", Outcome::NotFound, "NF\r\n"),
        ("ma a q v\r\n", Outcome::Number(12, 7), ""),
        ("ms a 1 q\r\nx\r\n", Outcome::NotStored, "NS\r\n"),
    ] {
        assert_eq!(said(line, &done(outcome)), answer, "{line}");
    }
    let none = said("mg a v Oxy k\r\n", &[Answer::Item(None)]);
    assert_eq!(none, "EN Oxy ka\r\n");
    assert_eq!(
        said("ma a v D5\r\n", &done(Outcome::Number(12, 7))),
        "VA 2\r\n12\r\n"
    );
    for line in ["mg a E5\r\n", "mg YQ== b v\r\n", "ma a N0\r\n"] {
        assert_eq!(said(line, &[]), NO_FLAG, "{line}");
    }
    assert_eq!(said("ms a 1 T5\r\nx\r\n", &[]), NO_EXPIRY);
    assert_eq!(said("me a\r\n", &[]), UNKNOWN);
}

#[test]
fn leases_and_watches_have_lines_of_their_own() {
    let all = asked(
        "lease 5\r\nset a 0 0 1\r\nx\r\nend\r\ndetach\r\nend 4\r\n",
        Some(7),
    );
    let command = |at: usize| match &all[at] {
        Wanted::Node(Request::Change(command), _) => command,
        other => panic!("{other:?}"),
    };
    assert_eq!(command(0), &Command::Open { ttl: 5000 });
    let stored = Command::Store {
        mode: Mode::Set,
        key: b"a".to_vec(),
        flags: 0,
        value: b"x".to_vec(),
        cas: 0,
        lease: Some(7),
    };
    assert_eq!(command(1), &stored);
    let end = |lease| Command::End {
        lease,
        renewals: None,
    };
    assert_eq!((command(2), command(4)), (&end(7), &end(4)));
    assert!(matches!(all[3], Wanted::Detach));
    let watch = &asked("watchkeys lock/\r\n", None)[0];
    assert!(matches!(watch, Wanted::Node(_, How::Watch(prefix)) if prefix == b"lock/"));
    for line in [
        "lease 0\r\n",
        "lease\r\n",
        "attach x\r\n",
        "detach 1\r\n",
        "end 1 2\r\n",
    ] {
        assert_eq!(said(line, &[]), BAD, "{line}");
    }
    assert_eq!(said("keepalive\r\n", &[]), NO_LEASE);
    let alive = [
        Answer::Done(Outcome::Alive(7)),
        Answer::Done(Outcome::NotFound),
    ];
    assert_eq!(
        said("attach 7\r\nkeepalive 7\r\n", &alive),
        "ATTACHED\r\nNOT_FOUND\r\n"
    );
}

/// Each time that keys are taken their line is looked through for its end: were it for every key,
/// a long line would keep the node from all else.
#[test]
fn a_long_line_of_keys_is_looked_through_seldom() {
    const KEYS: usize = 10_000;
    let text = format!("get{}\r\nlease 5\r\n", " k".repeat(KEYS));
    let (mut parser, mut all, mut calls) = (Parser::default(), Vec::new(), 0);
    let mut rest = text.as_bytes();
    while let taken @ 1.. = parser.next(&rules(), rest, None, &mut all) {
        rest = &rest[taken..];
        calls += 1;
    }
    assert!(rest.is_empty() && calls < KEYS / 50, "{calls}");
    let lasts = all.iter().map(|one| match one {
        Wanted::Node(_, How::Get { is_last, .. }) => Some(*is_last),
        _ => None,
    });
    let lasts: Vec<_> = lasts.collect();
    let mut wanted = vec![Some(false); KEYS - 1];
    wanted.extend([Some(true), None]);
    assert_eq!(lasts, wanted);
    assert!(matches!(all.last(), Some(Wanted::Node(_, How::Open))));
}
