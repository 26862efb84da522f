//! A backend asked through its pool, whose server says whatever it likes.

use rhythm_engine::cohort::{Argument, Queries};
use rhythm_engine::program::{Asking, Call, CallResult, Form, Type};
use rhythm_engine::settings::{BackendConfig, PoolSettings, Setting};
use rhythm_net::testing::TestPort;
use rhythm_net::{Peer, Time};
use rhythm_server::backend::{self, Ask, Asker, Backend, Batch};
use std::collections::BTreeSet;
use std::time::Duration;

/// A backend and where it is.
pub struct Place {
    config: BackendConfig,
    peers: Vec<Peer>,
}

impl Place {
    /// One of this kind, with texts for the kind's keys.
    pub fn new(kind: &'static str, own: &[(&'static str, &str)]) -> Place {
        let own = own.iter();
        let config = BackendConfig {
            name: "shop".to_owned(),
            kind,
            folder: Default::default(),
            pool: PoolSettings {
                connections_max: 1,
                ..PoolSettings::default()
            },
            own: own
                .map(|(key, text)| (*key, Setting::Text((*text).to_owned())))
                .collect(),
            written: Default::default(),
            flags: Default::default(),
        };
        let peers = backend::locate(&config).expect("an address needs no resolver");
        Place { config, peers }
    }

    /// Asks four queries of a call, the numbers from 0 on, of a server that says this, a piece at
    /// a time: nothing panics, and each query is told of exactly once.
    pub fn says<'s>(&self, call: &Call, pieces: impl Iterator<Item = &'s [u8]>) {
        let mut backend = backend::open(&self.config, &self.peers).expect("it was looked up");
        let (mut port, mut told, now) = (TestPort::default(), BTreeSet::new(), Time::ZERO);
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
        let batch = Batch {
            call,
            queries: &queries,
            order: &[0, 1, 2, 3],
            asks: &asks,
            fields: &[],
            step: 0,
            deadline: Time::NEVER,
        };
        backend.submit(&mut port, batch, now);
        backend.turn_ends(&mut port, now);
        let mut connected = BTreeSet::new();
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
            backend.turn_ends(&mut port, now);
            poll(&mut *backend, &mut told);
        }
        let over = now + Duration::from_secs(60);
        backend.tick(&mut port, over);
        backend.turn_ends(&mut port, over);
        poll(&mut *backend, &mut told);
        assert_eq!(told.len(), 4, "all are told of");
        backend.close(&mut port);
    }
}

fn poll(backend: &mut dyn Backend, told: &mut BTreeSet<u64>) {
    backend.poll(&mut |key, answer| {
        assert!(told.insert(key), "{key} is told twice");
        if let Ok(answer) = answer {
            answer.rows().for_each(|row| assert!(row.count() < 1 << 20));
        }
    });
}

/// A call with one argument, an integer, behind this.
pub fn call(before: &[u8], after: &[u8], asking: Asking, result: CallResult) -> Call {
    Call {
        backend: 0,
        asking,
        form: Form {
            pieces: vec![before.into(), after.into()],
            arguments: vec![Type::Int],
        },
        columns: 2,
        particulars: Default::default(),
        result,
        status: 1,
        has_name: true,
        statements: Box::default(),
        document: None,
        idempotent: asking == Asking::Query,
        optional: false,
        shared: false,
        merged: false,
    }
}
