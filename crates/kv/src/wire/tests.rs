//! All parsers: what they make of bytes must not depend on how the bytes come.

use super::line::BAD_FORMAT;
use super::*;
use std::sync::Arc;

/// A command with what its spans name.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    key: Vec<u8>,
    value: Vec<u8>,
    kind: String,
}

/// What is seen of commands: without where they lie.
fn seen(bytes: &[u8], commands: &Commands) -> Vec<Seen> {
    let of = |command: &Command| {
        let mut value = Span::default();
        let mut store = |store: &Store| {
            value = store.value;
            let of_nothing = Store {
                value: Span::default(),
                ..*store
            };
            format!("{of_nothing:?}")
        };
        let kind = match command.kind {
            Kind::Store { store: it, quiet } => format!("{} {quiet}", store(&it)),
            Kind::Meta { verb, index } => {
                let flags = commands.meta[index as usize];
                let stored = flags.store.as_ref().map(&mut store);
                let text = flags.text.of(bytes).escape_ascii();
                let flags = Flags {
                    text: Span::default(),
                    store: None,
                    ..flags
                };
                format!("{verb:?} {text} {flags:?} {stored:?}")
            }
            Kind::Binary { index } => {
                let request = commands.binary[index as usize];
                match request.what {
                    What::Store(it) => {
                        format!("{} {} {}", request.opcode, request.quiet, store(&it))
                    }
                    _ => format!("{request:?}"),
                }
            }
            Kind::Stats(about) => format!("stats {}", about.of(bytes).escape_ascii()),
            kind => format!("{kind:?}"),
        };
        Seen {
            key: command.key.of(bytes, &commands.decoded).to_vec(),
            value: value.of(bytes).to_vec(),
            kind,
        }
    };
    commands.list.iter().map(of).collect()
}

/// Parses pieces as a connection gets them: what is left of one stays in front of the next.
fn parsed<'a>(
    rules: &Rules,
    stream: &mut Stream,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<Seen> {
    let mut all = Vec::new();
    let mut input: Vec<u8> = Vec::new();
    let (mut needed, mut or_line) = (0, false);
    for piece in pieces {
        input.extend_from_slice(piece);
        if input.len() < needed && !(or_line && piece.contains(&b'\n')) {
            continue;
        }
        let mut commands = Commands::default();
        let result = parse(stream, rules, &input, usize::MAX, &mut commands);
        assert!(result.consumed <= input.len());
        all.extend(seen(&input, &commands));
        input.drain(..result.consumed);
        (needed, or_line) = (result.needed, result.or_line);
        assert!(
            needed == 0 || needed > input.len(),
            "more is asked for than there is"
        );
    }
    all
}

fn whole(bytes: &[u8]) -> Vec<Seen> {
    parsed(&Rules::default(), &mut Stream::default(), [bytes])
}

fn kinds(bytes: &[u8]) -> Vec<String> {
    whole(bytes).into_iter().map(|seen| seen.kind).collect()
}

fn request(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u32;
    let mut packet = vec![
        0x80,
        opcode,
        0,
        key.len() as u8,
        extras.len() as u8,
        0,
        0,
        0,
    ];
    packet.extend(body.to_be_bytes());
    packet.extend([7; 12]);
    [&packet[..], extras, key, value].concat()
}

#[test]
fn bytes_mean_the_same_wherever_they_are_parted() {
    let ascii: &[u8] = b"get a b  c\r\nset k 5 10 3 noreply\r\na\r\n\r\ngats 10 a b\n\
        ms k 2 T9 q\r\nxy\r\nmg YQ== b v\r\nset k 0 0 2000000\r\n123\r\nfoo\r\n\r\nget\r\n\
        incr n 5\r\nset b 0 0 1\r\nxyz\r\nget a\0b\r\nstats  items \r\nms k 2 Mx\r\nab\r\nmn\r\n";
    let ascii = [ascii, &b"z".repeat(2000)].concat();
    let binary = [
        request(0x00, b"", b"key", b""),
        request(0x11, &[1; 8], b"key", b"value"),
        request(0x05, &[2; 20], b"n", b""),
        request(0x77, b"ex", b"key", b"body"),
        request(0x0a, b"", b"", b""),
        request(0x04, b"x", b"key", b""),
        request(0x0a, b"", b"", b""),
    ]
    .concat();
    for bytes in [&ascii[..], &binary] {
        let expected = whole(bytes);
        assert!(expected.len() > 4);
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            let parted = parsed(&Rules::default(), &mut Stream::default(), [first, second]);
            assert_eq!(parted, expected, "parted at {at}");
        }
        let bytewise = parsed(&Rules::default(), &mut Stream::default(), bytes.chunks(1));
        assert_eq!(bytewise, expected);
    }
}

#[test]
fn a_get_goes_on_where_it_was_cut() {
    let refused = format!("get a b {}\r\nget c\r\n", "k".repeat(251));
    let get = Get {
        with_cas: true,
        touch: Some(1),
    };
    for bytes in [b"gets a b c\r\nget d\r\n", refused.as_bytes()] {
        for before in [State::Between, State::Keys(get)] {
            let stream = |state| Stream {
                protocol: Protocol::Ascii,
                state,
                ..Stream::default()
            };
            let all = parsed(&Rules::default(), &mut stream(before), [bytes]);
            let mut commands = Commands::default();
            let rules = Rules::default();
            parse(&mut stream(before), &rules, bytes, 100, &mut commands);
            assert_eq!(commands.list.len(), all.len());
            for (index, command) in commands.list.iter().enumerate() {
                let rest = &bytes[command.start as usize..];
                let mut again = stream(before.again(command));
                // Keys before one that is too long are touched together: once more does nothing.
                let with_it = |other: &Command| other.start == command.start;
                let first = commands.list.iter().position(with_it).unwrap_or(index);
                assert_eq!(parsed(&rules, &mut again, [rest]), all[first..]);
            }
        }
    }
}

#[test]
fn long_lines_end_the_connection_unless_they_are_keys() {
    let get = [b"get ", &b"abc ".repeat(1000)[..]].concat();
    assert_eq!(whole(&get), []);
    for long in [b"x".repeat(2049), b" ".repeat(2049), b"set ".repeat(600)] {
        assert_eq!(kinds(&long), ["Close"]);
    }
    assert_eq!(kinds(&b"x".repeat(2048)), [""; 0]);
    assert_eq!(kinds(b"GET / HTTP/1.1\r\nHost: x\r\n"), ["Close"]);
}

#[test]
fn lines_are_looked_at_again_when_they_end_or_are_too_long() {
    let rules = Rules::default();
    let waits = |bytes: &[u8]| {
        let mut commands = Commands::default();
        let parsed = parse(&mut Stream::default(), &rules, bytes, 9, &mut commands);
        assert_eq!((parsed.consumed, commands.list.len()), (0, 0));
        (parsed.needed, parsed.or_line)
    };
    assert_eq!(waits(b"get a"), (2049, true));
    let keys = [b"get ", &b"abc ".repeat(1000)[..]].concat();
    assert_eq!(waits(&keys), ((4 << 20) + 1, true));
    assert_eq!(waits(b"set a 0 0 5\r\n"), (20, false));
}

#[test]
fn a_line_of_keys_ends_where_commands_are_enough_and_goes_on() {
    let bytes = b"gat 0 a b c d e\r\ngets f g\r\nmn\r\nget h i j\r\n";
    for most in 1..12 {
        let mut stream = Stream::default();
        let mut all = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let mut commands = Commands::default();
            let rest = &bytes[at..];
            let parsed = parse(&mut stream, &Rules::default(), rest, most, &mut commands);
            assert!((1..=most).contains(&commands.list.len()), "{most}");
            all.extend(seen(rest, &commands));
            at += parsed.consumed;
        }
        assert_eq!(all, whole(bytes), "{most}");
    }
}

#[test]
fn keys_too_long_are_refused_with_all_others_of_their_line() {
    let long = "k".repeat(251);
    let say = format!("Say({BAD_FORMAT:?})");
    let line = format!("delete {long}\r\n");
    assert_eq!(kinds(line.as_bytes()), [&say[..]]);
    // What is before them is fetched all the same.
    for (verb, touch) in [("get", None), ("gat 9", Some(9))] {
        let fetch = format!("{:?}", Kind::Fetch { touch });
        let line = format!("{verb} a {long} b\r\n");
        assert_eq!(kinds(line.as_bytes()), [fetch, say.clone()]);
    }
}

#[test]
fn lines_that_fit_no_buffer_end_the_connection_however_they_come() {
    let incr = |blanks: usize| format!("incr n {}1\r\n", " ".repeat(blanks)).into_bytes();
    let fits = 16_384 - incr(0).len();
    assert!(kinds(&incr(fits))[0].starts_with("Arithmetic"));
    assert_eq!(kinds(&incr(fits + 1)), ["Close"]);
    let keys = |verb: &str| format!("{verb}{}\r\n", " a".repeat(9_000)).into_bytes();
    assert_eq!(kinds(&keys("gat 0")), ["Close"]);
    assert_eq!(kinds(&keys("get")).len(), 9_000);
    // A datagram comes whole.
    let mut stream = Stream {
        is_datagram: true,
        ..Stream::default()
    };
    let seen = parsed(&Rules::default(), &mut stream, [&keys("gat 0")[..]]);
    assert_eq!(seen.len(), 9_000);
}

#[test]
fn values_too_large_are_passed_over_and_take_the_item_along() {
    let rules = Rules {
        item_max: 1024,
        ..Rules::default()
    };
    let mut bytes = b"set k 0 0 1000\r\n".to_vec();
    bytes.extend(b"x".repeat(1002));
    bytes.extend(b"get k\r\n");
    let seen = parsed(&rules, &mut Stream::default(), [&bytes[..]]);
    let kinds: Vec<_> = seen.iter().map(|seen| &seen.kind[..]).collect();
    assert!(
        matches!(kinds[..], ["Drop", _, get] if get.starts_with("Get")),
        "{kinds:?}"
    );
    assert!(kinds[1].contains("TooLarge"), "{kinds:?}");
}

#[test]
fn strangers_are_heard_when_they_say_who_they_are() {
    let rules = Rules {
        users: Arc::new(vec![(b"user".to_vec(), b"secret".to_vec())]),
        ..Rules::default()
    };
    let enter = |value: &str| {
        let mut stream = Stream {
            protocol: Protocol::Ascii,
            is_stranger: true,
            ..Stream::default()
        };
        let bytes = format!("set x 0 0 {}\r\n{value}\r\nget a\r\n", value.len());
        let seen = parsed(&rules, &mut stream, bytes.as_bytes().chunks(1));
        (
            stream.is_stranger,
            seen.into_iter().map(|seen| seen.kind).collect::<Vec<_>>(),
        )
    };
    let (is_stranger, kinds) = enter("user secret");
    assert!(!is_stranger && kinds[0].contains("accepted: true") && kinds[1].starts_with("Get"));
    for wrong in ["user wrong", "user secrets", "user", "other secret"] {
        let (is_stranger, kinds) = enter(wrong);
        assert!(
            is_stranger && kinds[1].contains("unauthenticated"),
            "{wrong}: {kinds:?}"
        );
    }
}

#[test]
fn binary_lengths_must_go_with_the_opcode() {
    for wrong in [
        request(0x00, b"x", b"key", b""),
        request(0x00, b"", b"", b""),
        request(0x01, b"", b"key", b"value"),
        request(0x05, &[0; 8], b"key", b""),
        request(0x0a, b"", b"key", b""),
        request(0x1c, b"", b"key", b""),
    ] {
        let kinds = kinds(&wrong);
        let refused = format!("{:?}", What::Refused(Status::Invalid));
        assert!(kinds[0].contains(&refused), "{kinds:?}");
        assert_eq!(kinds[1], "Close");
    }
    let mut short = request(0x00, b"", b"key", b"");
    short[11] = 1;
    assert!(kinds(&short)[0].contains("UnknownCommand"));
    let later = [request(0x0a, b"", b"", b""), vec![0x81; 24]].concat();
    assert_eq!(kinds(&later)[1], "Close");
}
