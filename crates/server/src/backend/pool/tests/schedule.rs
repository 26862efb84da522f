//! The remote backend under schedules made at random.

use super::super::*;
use super::world::*;
use proptest::prelude::*;
use std::time::Duration;

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Submit {
        count: u64,
        idempotent: bool,
        deadline_ms: u64,
    },
    Pass {
        ms: u64,
    },
    ConnectFails(bool),
    /// One of these happens to some connection.
    Opened(usize),
    Served {
        connection: usize,
        count: usize,
        kind: u8,
        cut: usize,
    },
    Reset(usize),
    Finished(usize),
    Broken(usize),
    Room {
        connection: usize,
        bytes: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let connection = || 0..4usize;
    prop_oneof![
        4 => (1..20u64, any::<bool>(), 0..150u64).prop_map(|(count, idempotent, deadline_ms)| {
            Step::Submit { count, idempotent, deadline_ms }
        }),
        3 => (0..60u64).prop_map(|ms| Step::Pass { ms }),
        1 => any::<bool>().prop_map(Step::ConnectFails),
        6 => connection().prop_map(Step::Opened),
        10 => (connection(), 1..9usize, 0..12u8, 0..400usize).prop_map(
            |(connection, count, kind, cut)| Step::Served { connection, count, kind, cut },
        ),
        1 => connection().prop_map(Step::Reset),
        1 => connection().prop_map(Step::Finished),
        1 => connection().prop_map(Step::Broken),
        2 => (connection(), 0..200usize).prop_map(
            |(connection, bytes)| Step::Room { connection, bytes },
        ),
    ]
}

impl World {
    fn nth(&self, nth: usize, open: bool) -> Option<ConnectionId> {
        let some = self
            .port
            .connections
            .iter()
            .filter(|(_, c)| c.open == open)
            .map(|(id, _)| *id);
        let all: Vec<_> = some.collect();
        (!all.is_empty()).then(|| all[nth % all.len()])
    }

    /// Carries queries out, and answers in two pieces, or only with the first of them and then not
    /// at all.
    fn serve_somehow(&mut self, id: ConnectionId, count: usize, kind: u8, cut: usize) {
        let queries = self.take(id, if kind == 7 { 1 } else { count });
        let mut bytes = String::new();
        for query in &queries {
            *self.executed.entry(query.clone()).or_default() += 1;
            let body = answer_to(query);
            bytes += &match kind {
                0 | 1 => chunked(&body),
                2 => response(503, &body),
                3 => response(404, &body),
                4 => format!("HTTP/1.1 102 Wait\r\n\r\n{}", response(200, &body)),
                7 => closing(&body),
                8 => "nonsense".into(),
                _ => response(200, &body),
            };
        }
        let (first, second) = bytes.as_bytes().split_at(cut.min(bytes.len()));
        if !first.is_empty() {
            self.receive(id, first);
        }
        if !self.backend.owns(id) {
            return;
        }
        if kind == 9 {
            self.reset(id);
        } else if !second.is_empty() {
            self.receive(id, second);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever happens: each query is told of once, in time, with its own answer or an error;
    /// those that are not idempotent are carried out at most once, the others at most twice; and
    /// nothing is left behind.
    #[test]
    fn each_query_ends_once(steps in proptest::collection::vec(step(), 1..60)) {
        let mut world = World::new(options());
        let mut asked = Vec::new();
        let mut key = 0;
        for step in steps {
            match step {
                Step::Submit { count, idempotent, deadline_ms } => {
                    let deadline = world.now + Duration::from_millis(deadline_ms);
                    let keys = key..key + count;
                    key = keys.end;
                    let latest = deadline.min(world.now + 100 * MS);
                    asked.extend(keys.clone().map(|key| (key, idempotent, latest)));
                    world.submit_until(keys, idempotent, deadline);
                }
                Step::Pass { ms } => world.pass(Duration::from_millis(ms)),
                Step::ConnectFails(fails) => world.port.connect_fails = fails,
                Step::Opened(nth) => {
                    if let Some(id) = world.nth(nth, false) {
                        world.connected(id);
                    }
                }
                Step::Served { connection, count, kind, cut } => {
                    if let Some(id) = world.nth(connection, true) {
                        world.serve_somehow(id, count, kind, cut);
                    }
                }
                Step::Reset(nth) => {
                    if let Some(id) = world.nth(nth, nth % 2 == 0) {
                        world.reset(id);
                    }
                }
                Step::Finished(nth) => {
                    if let Some(id) = world.nth(nth, true) {
                        world.end(id, Ended::PeerFinished);
                    }
                }
                Step::Broken(nth) => {
                    if let Some(id) = world.nth(nth, true) {
                        world.port.connections.get_mut(&id).unwrap().broken = true;
                    }
                }
                Step::Room { connection, bytes } => {
                    if let Some(id) = world.nth(connection, true) {
                        let fake = world.port.connections.get_mut(&id).unwrap();
                        fake.room = bytes;
                        if std::mem::take(&mut fake.blocked) {
                            world.backend.writable(&mut world.port, id, world.now);
                            world.poll();
                        }
                    }
                }
            }
        }
        world.pass(1000 * MS);
        prop_assert_eq!(world.told.len(), asked.len());
        for (key, idempotent, latest) in asked {
            let query = format!("1&3&{key}");
            let (result, at) = &world.told[&key];
            prop_assert!(*at <= latest, "{key} told at {at:?}, wanted by {latest:?}");
            if let Ok(body) = result {
                prop_assert_eq!(String::from_utf8_lossy(body), answer_to(&query));
            }
            let executed = world.executed.get(&query).copied().unwrap_or(0);
            prop_assert!(executed <= 1 + u32::from(idempotent));
        }
        // Where no connection could be opened, that is tried until one can.
        world.port.connect_fails = false;
        let mut rounds = 0;
        while world.backend.wake_at().is_some() {
            world.pass(10 * MS);
            world.connect_all();
            rounds += 1;
            prop_assert!(rounds < 1000, "it is never done");
        }
        prop_assert!(world.port.connections.is_empty());
        prop_assert_eq!(world.backend.wake_at(), None);
    }
}
