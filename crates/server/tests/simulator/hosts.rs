//! A host among the routes: it answers at once, later or in pieces, and takes content in pieces.
//!
//! What it answers follows from the request alone; when, and in how many pieces, is chosen by dice.

use crate::world::MILLISECOND;
use rhythm_engine::device::conformance::Dice;
use rhythm_http::{AnswerShape, AnswerSlot, Answers, Content, Flow, Host, Request};
use rhythm_net::Time;
use rhythm_protocol::http::request::RequestHead;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Where it is: `/host/N` answers with N bytes, `/host/echo` with what it gets.
pub(crate) const PATH: &str = "/host";

/// The longest that it rests.
const REST_MAX: usize = 20 * MILLISECOND as usize;

/// The body of `/host/N`.
pub(crate) fn body(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// An answer that it owes.
struct Owed {
    slot: AnswerSlot,
    shape: AnswerShape,
    body: Vec<u8>,
    /// Bytes given, once the answer is begun.
    given: Option<usize>,
    /// The request's content is still coming.
    receives: bool,
    /// When it goes on by itself.
    due: Option<Time>,
}

/// See the module's text.
pub(crate) struct SlowHost {
    dice: Dice,
    owed: Vec<Owed>,
    /// How many answers it owes, for the run.
    count: Rc<Cell<usize>>,
}

impl SlowHost {
    /// One that owes nothing.
    pub(crate) fn new(dice: Dice, count: Rc<Cell<usize>>) -> SlowHost {
        SlowHost {
            dice,
            owed: Vec::new(),
            count,
        }
    }

    fn rest(&mut self, now: Time) -> Time {
        now + Duration::from_nanos(self.dice.below(REST_MAX) as u64)
    }

    fn index(&self, slot: AnswerSlot) -> usize {
        let index = self.owed.iter().position(|owed| owed.slot == slot);
        index.expect("an answer that is owed, once")
    }

    fn forget(&mut self, index: usize) -> Owed {
        let owed = self.owed.swap_remove(index);
        self.count.set(self.owed.len());
        owed
    }

    /// Gives an answer, or some of it.
    fn go_on(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        let index = self.index(slot);
        let owed = &mut self.owed[index];
        owed.due = None;
        if owed.given.is_none() {
            if self.dice.once_in(2) {
                let Owed { shape, body, .. } = self.forget(index);
                return answers.answer(slot, shape, 200, &body, |_| {});
            }
            // To a client of HTTP/1.0 its end would have to be the connection's.
            let tells = owed.shape.http10 || self.dice.once_in(2);
            let length = tells.then_some(owed.body.len() as u64);
            answers.begin(slot, owed.shape, 200, length, |_| {});
        }
        let mut given = owed.given.unwrap_or(0);
        while given < owed.body.len() {
            let piece = &owed.body[given..];
            let piece = &piece[..1 + self.dice.below(piece.len())];
            given += piece.len();
            owed.given = Some(given);
            match answers.append(slot, piece) {
                Flow::More if self.dice.once_in(3) => {
                    let due = self.rest(answers.now());
                    self.owed[index].due = Some(due);
                    return;
                }
                Flow::More => {}
                // It is told when there is room, or nobody any more.
                Flow::Wait => return,
                Flow::Gone => {
                    self.forget(index);
                    return;
                }
            }
        }
        self.forget(index);
        answers.finish(slot);
    }
}

impl Host for SlowHost {
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        let Request { slot, shape, .. } = request;
        let path = String::from_utf8_lossy(request.head.path(request.bytes)).into_owned();
        let length = path.rsplit('/').next().and_then(|last| last.parse().ok());
        let (body, receives) = match (length, request.content) {
            (Some(length), _) => (body(length), false),
            (None, Content::Whole(content)) => (content.to_vec(), false),
            (None, Content::Pieces) => (Vec::new(), true),
        };
        let due = self.rest(answers.now());
        self.owed.push(Owed {
            slot,
            shape,
            body,
            given: None,
            receives,
            due: (!receives).then_some(due),
        });
        self.count.set(self.owed.len());
        if !receives && self.dice.once_in(2) {
            self.go_on(answers, slot);
        }
    }

    fn takes_pieces(&self, head: &RequestHead, bytes: &[u8]) -> bool {
        // Not all are: which, is said by the request.
        head.target().of(bytes).ends_with(b"/echo")
    }

    fn content(
        &mut self,
        answers: &mut Answers<'_>,
        slot: AnswerSlot,
        piece: &[u8],
        is_last: bool,
    ) -> Flow {
        let index = self.index(slot);
        self.owed[index].body.extend_from_slice(piece);
        self.owed[index].receives = !is_last;
        let waits = !is_last && self.dice.once_in(2);
        if is_last || waits {
            self.owed[index].due = Some(self.rest(answers.now()));
        }
        if waits { Flow::Wait } else { Flow::More }
    }

    fn room(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        self.go_on(answers, slot);
    }

    fn gone(&mut self, slot: AnswerSlot) {
        let index = self.index(slot);
        self.forget(index);
    }

    fn tick(&mut self, answers: &mut Answers<'_>) {
        let now = answers.now();
        let is_due = |owed: &&Owed| owed.due.is_some_and(|due| due <= now);
        let due: Vec<_> = (self.owed.iter().filter(is_due))
            .map(|owed| (owed.slot, owed.receives))
            .collect();
        for (slot, receives) in due {
            if receives {
                let index = self.index(slot);
                self.owed[index].due = None;
                answers.resume(slot);
            } else {
                self.go_on(answers, slot);
            }
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.owed.iter().filter_map(|owed| owed.due).min()
    }
}
