//! The queries of a connection whose answers are to come.

use super::asked::Asked;
use rhythm_engine::program::Call;
use rhythm_net::Time;
use std::collections::VecDeque;

/// Which query of a connection is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The oldest that is not answered.
    Oldest,
    /// The one that was encoded with this number.
    Number(u64),
}

/// A query that was taken over and not yet told of.
#[derive(Debug)]
pub(super) struct Taken {
    /// What its answer is told by.
    pub(super) key: u64,
    /// What asks.
    pub(super) call: Asked,
    /// Who asks, as a number, and which of his visitors.
    pub(super) asker: u64,
    pub(super) visitor: u8,
    /// Its arguments, as `arguments.rs` keeps them.
    pub(super) arguments: Vec<u8>,
    /// What its head has, too, of a protocol with heads.
    pub(super) fields: Box<[u8]>,
    /// Bytes that are kept of it, itself included, while it is under way.
    pub(super) bytes: usize,
    /// When it is given up.
    pub(super) deadline: Time,
    /// How many calls of its request this backend has answered before.
    pub(super) step: u32,
    /// How often it was sent again.
    pub(super) retries: u32,
    /// It shares no connection with others: it cannot be sent again, if one of those keeps it
    /// waiting.
    pub(super) is_alone: bool,
    /// Its call is slow or unknown, by what was known when it came or was sent last.
    pub(super) may_be_slow: bool,
}

/// A query on its way.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) query: Taken,
    /// Its place among all that left on the connection.
    pub(super) number: u64,
    /// Where its bytes end, counted from the first byte of the connection.
    pub(super) end: u64,
    /// When it was put in.
    pub(super) since: Time,
    /// It was told of without its answer, which may still come.
    pub(super) is_given_up: bool,
}

/// The queries of a connection whose answers are to come, in the order they were sent.
#[derive(Debug, Default)]
pub struct Awaited {
    sent: VecDeque<Sent>,
    number_next: u64,
}

impl Awaited {
    /// What a query asked; `None` if there is no such query.
    pub fn call(&self, which: Which) -> Option<&Call> {
        Some(&self.sent[self.find(which)?].query.call)
    }

    /// One query of this call, for tests of wires.
    #[cfg(test)]
    pub(super) fn one(call: &Call) -> Awaited {
        use super::asked::CallNumber;
        let query = Taken {
            key: 0,
            call: Asked::new(call.clone(), CallNumber(0)),
            asker: 0,
            visitor: 0,
            arguments: Vec::new(),
            fields: Box::default(),
            bytes: 0,
            deadline: Time::NEVER,
            step: 0,
            retries: 0,
            is_alone: false,
            may_be_slow: false,
        };
        let mut awaited = Awaited::default();
        awaited.push(query, 0, Time::ZERO);
        awaited
    }

    /// How many there are, those given up included.
    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Those that somebody waits for.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(|sent| !sent.is_given_up)
    }

    /// The oldest.
    pub(super) fn first(&self) -> Option<&Sent> {
        self.sent.front()
    }

    /// Whether others can be put in behind these: none goes alone, and none has been moved away.
    pub(super) fn are_shared(&self) -> bool {
        (self.sent.back()).is_none_or(|sent| !sent.is_given_up && !sent.query.is_alone)
    }

    /// Takes the wanted ones behind the oldest to send them elsewhere, the last first. Their
    /// answers may still come, and are nobody's.
    pub(super) fn move_behind_first(&mut self, mut take: impl FnMut(Taken)) {
        for sent in self.sent.iter_mut().skip(1).rev() {
            if !sent.is_given_up {
                sent.is_given_up = true;
                let query = &mut sent.query;
                take(Taken {
                    call: query.call.clone(),
                    arguments: std::mem::take(&mut query.arguments),
                    fields: std::mem::take(&mut query.fields),
                    ..*query
                });
            }
        }
    }

    /// The number of the next query.
    pub(super) fn number_next(&self) -> u64 {
        self.number_next
    }

    /// A query was put in at this time; its bytes end there.
    pub(super) fn push(&mut self, query: Taken, end: u64, since: Time) {
        self.sent.push_back(Sent {
            query,
            number: self.number_next,
            end,
            since,
            is_given_up: false,
        });
        self.number_next += 1;
    }

    /// The query that an answer is for. `None` if there is none, or if of its bytes no more than
    /// `sent_total` were sent, not all: then nobody can have answered it.
    pub(super) fn take(&mut self, which: Which, sent_total: u64) -> Option<Sent> {
        let at = self.find(which)?;
        match self.sent[at].end <= sent_total {
            true => self.sent.remove(at),
            false => None,
        }
    }

    /// The last query.
    pub(super) fn take_last(&mut self) -> Option<Sent> {
        self.sent.pop_back()
    }

    /// Gives up the queries that are past their deadline: calls `tell` with each, whose arguments
    /// are of no more use.
    pub(super) fn give_up(&mut self, now: Time, mut tell: impl FnMut(&mut Taken)) {
        let late = |sent: &&mut Sent| !sent.is_given_up && sent.query.deadline <= now;
        for sent in self.sent.iter_mut().filter(late) {
            sent.is_given_up = true;
            tell(&mut sent.query);
        }
    }

    fn find(&self, which: Which) -> Option<usize> {
        match which {
            Which::Oldest => (!self.sent.is_empty()).then_some(0),
            Which::Number(number) => {
                (self.sent.binary_search_by_key(&number, |sent| sent.number)).ok()
            }
        }
    }
}
