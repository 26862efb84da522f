//! A client of a pool over real sockets: asks in batches, and ends when all is answered.

use super::super::*;
use super::world::cells;
use rhythm_engine::cohort::LaneError;
use rhythm_net::{Driver, DriverOptions, Handler};
use std::collections::HashMap;
use std::ops::Range;

/// The status and the cells of each answer, by the number of what was asked.
pub(super) type Answers = HashMap<u64, Result<(i64, Vec<u8>), LaneError>>;

/// Asks `all` in batches of so many, each when the one before is answered. `ask` submits those of a
/// range of numbers, under their numbers as keys.
pub(super) fn all_answered<W: Wire>(
    pool: &mut ConnectionPool<W>,
    all: u64,
    batch: u64,
    ask: impl FnMut(&mut ConnectionPool<W>, &mut dyn Port, Range<u64>, Time),
) -> Answers {
    let mut client = Client {
        pool,
        ask,
        numbers: [all, batch],
        asked: 0,
        answers: Answers::new(),
    };
    let mut driver = Driver::new(&DriverOptions::default()).unwrap();
    driver.run(&mut client).unwrap();
    client.answers
}

struct Client<'a, W: Wire, A> {
    pool: &'a mut ConnectionPool<W>,
    ask: A,
    /// What is asked in all, and in a batch.
    numbers: [u64; 2],
    asked: u64,
    answers: Answers,
}

impl<W: Wire, A> Handler for Client<'_, W, A>
where
    A: FnMut(&mut ConnectionPool<W>, &mut dyn Port, Range<u64>, Time),
{
    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        assert!(self.pool.received(port, id, bytes, now));
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        assert!(self.pool.ended(port, id, how, now));
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.pool.writable(port, id, now);
    }

    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.pool.connected(port, id, now);
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        self.pool.tick(port, now);
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        let answers = &mut self.answers;
        self.pool.poll(&mut |key, answer| {
            let answer = answer.map(|told| (told.status(), cells(told)));
            let before = answers.insert(key, answer.map_err(|why| why.error));
            assert_eq!(before, None, "{key} is told of twice");
        });
        let [all, batch] = self.numbers;
        if answers.len() as u64 == self.asked && self.asked < all {
            let next = all.min(self.asked + batch);
            (self.ask)(self.pool, port, self.asked..next, now);
            self.asked = next;
        }
        self.pool.turn_ends(port, now);
    }

    fn wake_at(&self) -> Option<Time> {
        match self.asked {
            // At once, to begin with.
            0 => Some(Time::ZERO),
            _ => self.pool.wake_at(),
        }
    }

    fn finished(&self) -> bool {
        self.answers.len() as u64 == self.numbers[0]
    }
}
