//! What a PostgreSQL server might say, greeting and answers: nothing panics, and each query is told
//! of exactly once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_engine::cohort::{Argument, Queries};
use rhythm_engine::program::{Asking, Call, CallResult, Form, Source, Statement, Type};
use rhythm_engine::settings::{BackendConfig, PoolSettings, Setting};
use rhythm_net::testing::TestPort;
use rhythm_net::{Peer, Time};
use rhythm_server::backend::{self, Ask, Asker, Backend, Batch};
use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

/// A backend and where it is.
static AT: LazyLock<(BackendConfig, Vec<Peer>)> = LazyLock::new(|| {
    let text = |text: &str| Setting::Text(text.to_owned());
    let own = [
        ("url", text("postgres://me@127.0.0.1/shop")),
        ("password_file", text("")),
        ("application_name", text("fuzz")),
    ];
    let config = BackendConfig {
        name: "shop".to_owned(),
        kind: "postgres",
        folder: Default::default(),
        pool: PoolSettings {
            connections_max: 1,
            ..PoolSettings::default()
        },
        own: own.into(),
        written: Default::default(),
        flags: Default::default(),
    };
    let peers = backend::locate(&config).expect("an address needs no resolver");
    (config, peers)
});

fn call(asking: Asking) -> Call {
    Call {
        backend: 0,
        asking,
        form: Form {
            pieces: vec![(*b"select ").into(), (*b"").into()],
            arguments: vec![Type::Int],
        },
        columns: 2,
        particulars: Default::default(),
        result: CallResult::Rows(0),
        status: 1,
        has_name: true,
        statements: match asking {
            Asking::Transaction => [
                statement(Source::Argument(0), 2),
                statement(Source::Cell(0), 0),
                statement(Source::Cell(1), 1),
            ]
            .into(),
            _ => Box::default(),
        },
        document: None,
        idempotent: asking == Asking::Query,
        optional: false,
        shared: false,
        merged: asking == Asking::Query,
    }
}

fn statement(source: Source, columns: u16) -> Statement {
    Statement {
        asking: Asking::Exec,
        form: Form {
            pieces: vec![(*b"select ").into(), (*b"").into()],
            arguments: vec![Type::Int],
        },
        arguments: [source].into(),
        columns,
    }
}

/// A server that wants no password, and is ready.
const READY: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\0\0\0\0\0Z\0\0\0\x05I";

/// The first answer: an int and a text, of a statement that was prepared with it.
const FIRST: &[u8] = b"1\0\0\0\x04t\0\0\0\x0a\0\x01\0\0\0\x14T\0\0\0\x2e\0\x02\
    a\0\0\0\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0\0\
    b\0\0\0\0\0\0\0\0\0\0\x19\0\0\0\0\0\0\0\0\
    2\0\0\0\x04D\0\0\0\x0f\0\x02\0\0\0\x01\x37\xff\xff\xff\xff\
    C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

/// Messages of these bytes: a tag, a length, and so much of what follows.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let [tag, length, rest @ ..] = bytes {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        all.push(*tag);
        all.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        all.extend_from_slice(body);
        bytes = rest;
    }
    all
}

fn poll(backend: &mut dyn Backend, told: &mut BTreeSet<u64>) {
    backend.poll(&mut |key, answer| {
        assert!(told.insert(key), "{key} is told twice");
        if let Ok(answer) = answer {
            answer.rows().for_each(|row| assert!(row.count() < 1 << 20));
        }
    });
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (how, cut, bytes) = input;
    let (config, peers) = &*AT;
    let mut backend = backend::open(config, peers).expect("it was looked up");
    let (mut port, mut told, now) = (TestPort::default(), BTreeSet::new(), Time::ZERO);
    let asking = match how & 0x11 {
        0x10 => Asking::Transaction,
        1 | 0x11 => Asking::Exec,
        _ => Asking::Query,
    };
    let call = call(asking);
    let mut queries = Queries::default();
    for number in 0..4 {
        assert!(queries.push(0, [Argument::Int(number)].into_iter()));
    }
    let asks: Vec<Ask> = (0..4)
        .map(|number| Ask {
            first: number as usize,
            count: 1,
            key: number,
            asker: Asker { number, visitor: 0 },
        })
        .collect();
    let as_one = [Ask {
        first: 0,
        count: 4,
        key: 4,
        asker: Asker {
            number: 0,
            visitor: 0,
        },
    }];
    let batch = |asks| Batch {
        call: &call,
        queries: &queries,
        order: &[0, 1, 2, 3],
        asks,
        fields: &[],
        step: 0,
        deadline: Time::NEVER,
    };
    backend.submit(&mut port, batch(&asks), now);
    backend.turn_ends(&mut port, now);
    let mut said = Vec::new();
    if how & 2 != 0 {
        said.extend_from_slice(READY);
    }
    if how & 4 != 0 {
        said.extend_from_slice(FIRST);
    }
    let framed = if how & 8 != 0 {
        framed(bytes)
    } else {
        bytes.to_vec()
    };
    let pieces = said
        .chunks(64 + usize::from(cut))
        .chain(framed.chunks(1 + usize::from(cut)));
    let mut connected = BTreeSet::new();
    let mut expected = 4;
    for piece in [&b""[..]].into_iter().chain(pieces) {
        let Some((&id, _)) = port.connections.iter().next_back() else {
            break;
        };
        if connected.insert(id) {
            port.at(id).open = true;
            backend.connected(&mut port, id, now);
        }
        if !piece.is_empty() {
            backend.received(&mut port, id, piece, now);
        }
        // Once it is known what the statement is, several of it go as one.
        if call.merged && expected == 4 && backend.merges(&call) > 3 {
            expected = 5;
            backend.submit(&mut port, batch(&as_one), now);
        }
        backend.turn_ends(&mut port, now);
        poll(&mut *backend, &mut told);
    }
    let over = now + Duration::from_secs(60);
    backend.tick(&mut port, over);
    backend.turn_ends(&mut port, over);
    poll(&mut *backend, &mut told);
    assert_eq!(told.len(), expected, "all are told of");
    backend.close(&mut port);
});
