//! BeSim in the same process: every answer is a function call.

use super::answers::Answers;
use super::{Backend, BackendCounts, Batch, Tell};
use rhythm_besim::Bank;
use rhythm_engine::cohort::{Arena, BackendRequest};
use rhythm_net::{Port, Time};

/// More than any answer of a [`Bank`] has, in bytes.
const ANSWER_MAX: usize = 1 << 20;

/// The Banking workload's backend, embedded. Its answers are those of the remote one, byte for
/// byte.
#[derive(Debug)]
pub struct EmbeddedBesim {
    bank: Bank,
    /// The request being answered, out of the way of the arena that its answer is written to.
    text: Vec<u8>,
    answers: Answers,
    counts: BackendCounts,
}

impl EmbeddedBesim {
    /// A backend that answers for this bank.
    pub fn new(bank: Bank) -> EmbeddedBesim {
        EmbeddedBesim {
            bank,
            text: Vec::new(),
            answers: Answers::default(),
            counts: BackendCounts::default(),
        }
    }
}

impl Backend for EmbeddedBesim {
    fn answer_into(&mut self, requests: &mut [BackendRequest], arena: &mut Arena) -> bool {
        self.counts.requests += requests.len() as u64;
        for request in requests {
            if !arena.has_room(ANSWER_MAX) {
                self.counts.failures += 1;
                continue;
            }
            self.text.clear();
            self.text.extend_from_slice(arena.get(request.text));
            request.answer = Some(arena.push_with(|out| self.bank.answer(&self.text, out)));
        }
        true
    }

    fn submit(&mut self, _: &mut dyn Port, batch: Batch<'_>, _: Time) {
        self.counts.requests += batch.asks.len() as u64;
        for ask in batch.asks {
            self.text.clear();
            self.bank.answer(batch.arena.get(ask.text), &mut self.text);
            self.answers.push(ask.key, Ok(&self.text));
        }
    }

    fn poll(&mut self, tell: &mut Tell<'_>) {
        self.answers.tell(tell);
    }

    fn counts(&self) -> BackendCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::super::Ask;
    use super::super::tests::fake::FakePort;
    use super::*;

    const QUERIES: [&[u8]; 4] = [b"1&3&17", b"1&1&42", b"1&6&1&a%26b%20c", b"nonsense"];

    #[test]
    fn both_ways_give_the_banks_answers() {
        let bank = Bank::new(100);
        let expected = QUERIES.map(|query| {
            let mut body = Vec::new();
            bank.answer(query, &mut body);
            body
        });
        let mut backend = EmbeddedBesim::new(bank);
        let mut arena = Arena::default();
        arena.push(b"texts of the page");
        let mut requests = QUERIES.map(|query| BackendRequest {
            lane: 0,
            text: arena.push(query),
            answer: None,
        });
        let asks: Vec<_> = (10..)
            .zip(&requests)
            .map(|(key, r)| Ask { key, text: r.text })
            .collect();
        let batch = Batch {
            asks: &asks,
            arena: &arena,
            idempotent: false,
            deadline: Time::NEVER,
        };
        backend.submit(&mut FakePort::default(), batch, Time::ZERO);
        let mut told = Vec::new();
        backend.poll(&mut |key, answer| told.push((key, answer.map(<[u8]>::to_vec))));
        let all: Vec<_> = (10..)
            .zip(expected.iter().map(|body| Ok(body.clone())))
            .collect();
        assert_eq!(told, all);

        assert!(backend.answer_into(&mut requests, &mut arena));
        for (request, body) in requests.iter().zip(&expected) {
            let answer = request.answer.map(|view| arena.get(view));
            assert_eq!(answer, Some(&body[..]));
        }
        assert!(arena.bytes().starts_with(b"texts of the page1&3&17"));
        assert_eq!(backend.counts().requests, 8);
        assert_eq!(backend.counts().failures, 0);
    }
}
