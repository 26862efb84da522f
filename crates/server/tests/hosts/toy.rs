//! A host that answers later and in pieces, and takes content when it is told to.

use rhythm_http::{AnswerShape, AnswerSlot, Answers, Content, Flow, Host, Request};
use rhythm_net::{Time, Token, Waker};
use rhythm_protocol::http::request::RequestHead;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Bytes of a piece of a stream.
pub(crate) const PIECE: usize = 10_000;

/// What a test sees of the host, and tells it.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) appended: AtomicU64,
    pub(crate) waits: AtomicU64,
    pub(crate) content: AtomicU64,
    pub(crate) gone: AtomicU64,
    pub(crate) later: AtomicU64,
    /// Requests that wait may be answered.
    pub(crate) go: AtomicBool,
    /// Held by a test for as long as a worker is to hang.
    pub(crate) gate: Mutex<()>,
    pub(crate) waker: OnceLock<Waker>,
}

impl Seen {
    pub(crate) fn let_go(&self) {
        self.go.store(true, Ordering::Release);
        self.waker.get().expect("the worker has begun").wake();
    }
}

/// Answers later, in pieces, and takes content in pieces.
pub(crate) struct Toy {
    pub(crate) seen: Arc<Seen>,
    pub(crate) later: Vec<(AnswerSlot, AnswerShape)>,
    pub(crate) streams: HashMap<AnswerSlot, usize>,
    pub(crate) uploads: HashMap<AnswerSlot, (AnswerShape, u64)>,
    pub(crate) paused: Vec<AnswerSlot>,
    pub(crate) resume_at: Option<Time>,
}

impl Toy {
    pub(crate) fn go_on(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        while let Some(left) = self.streams.get_mut(&slot) {
            let length = PIECE.min(*left);
            *left -= length;
            let is_all = *left == 0;
            let flow = answers.append(slot, &[b'x'; PIECE][..length]);
            (self.seen.appended).fetch_add(length as u64, Ordering::Relaxed);
            if is_all {
                self.streams.remove(&slot);
                answers.finish(slot);
            } else if flow != Flow::More {
                self.seen.waits.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }
}

impl Host for Toy {
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        let Request { slot, shape, .. } = request;
        let path = String::from_utf8_lossy(request.head.path(request.bytes)).into_owned();
        if let Some(length) = path.strip_prefix("/app/stream/") {
            let length: usize = length.parse().expect("a number");
            answers.begin(slot, shape, 200, Some(length as u64), |_| {});
            self.streams.insert(slot, length);
            return self.go_on(answers, slot);
        }
        match (path.as_str(), request.content) {
            ("/app/later", _) => {
                self.later.push((slot, shape));
                self.seen.later.fetch_add(1, Ordering::Relaxed);
            }
            ("/app/hang", _) => {
                drop(self.seen.gate.lock());
                answers.answer(slot, shape, 200, b"at last", |_| {});
            }
            ("/app/upload", Content::Pieces) => drop(self.uploads.insert(slot, (shape, 0))),
            ("/app/whole" | "/app/upload", Content::Whole(content)) => {
                answers.answer(slot, shape, 200, content, |_| {})
            }
            _ => answers.error(slot, shape, 404, "Not here."),
        }
    }

    fn takes_pieces(&self, head: &RequestHead, bytes: &[u8]) -> bool {
        head.path(bytes) == b"/app/upload"
    }

    fn content(
        &mut self,
        answers: &mut Answers<'_>,
        slot: AnswerSlot,
        piece: &[u8],
        is_last: bool,
    ) -> Flow {
        let length = piece.len() as u64;
        self.seen.content.fetch_add(length, Ordering::Relaxed);
        let (_, total) = self.uploads.get_mut(&slot).expect("an upload under way");
        *total += length;
        if is_last && let Some((shape, total)) = self.uploads.remove(&slot) {
            answers.answer(slot, shape, 200, total.to_string().as_bytes(), |_| {});
            return Flow::More;
        }
        // Not before it is told to, and a while later.
        self.paused.push(slot);
        self.resume_at = Some(answers.now() + Duration::from_millis(1));
        Flow::Wait
    }

    fn room(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        self.go_on(answers, slot);
    }

    fn gone(&mut self, slot: AnswerSlot) {
        self.streams.remove(&slot);
        self.uploads.remove(&slot);
        self.later.retain(|(other, _)| *other != slot);
        self.seen.gone.fetch_add(1, Ordering::Relaxed);
    }

    fn notified(&mut self, answers: &mut Answers<'_>, _: Token) {
        if !self.seen.go.load(Ordering::Acquire) {
            return;
        }
        self.resume_at = (!self.paused.is_empty()).then_some(answers.now());
        // The last that came is answered first: each goes out in its turn all the same.
        while let Some((slot, shape)) = self.later.pop() {
            let text = format!("later {}", slot.ordinal);
            answers.answer(slot, shape, 200, text.as_bytes(), |_| {});
        }
    }

    fn tick(&mut self, answers: &mut Answers<'_>) {
        self.resume_at = None;
        if self.seen.go.load(Ordering::Acquire) {
            for slot in self.paused.drain(..) {
                answers.resume(slot);
            }
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.resume_at
    }
}
