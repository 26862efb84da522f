//! A host that answers in every way there is.

use rhythm_http::{AnswerShape, AnswerSlot, Answers, Content, Flow, Host, Request};
use rhythm_net::{Time, Token};
use rhythm_protocol::http::request::RequestHead;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Bytes of unsent answers that a connection may have.
pub(crate) const UNSENT_MAX: usize = 32 * 1024;

/// What a stream appends at a time.
pub(crate) const PIECE: usize = 4 * 1024;

/// What the tests look at.
#[derive(Default)]
pub(crate) struct Seen {
    /// Bytes appended to streams.
    pub(crate) appended: AtomicU64,
    /// Times that a stream had to wait.
    pub(crate) waits: AtomicU64,
    /// Clients that went away with an answer owed to them.
    pub(crate) gone: AtomicU64,
    /// Bytes of content.
    pub(crate) content: AtomicU64,
    /// Answers longer than they said.
    pub(crate) long: AtomicU64,
}

/// A stream under way: how much of it is to come.
pub(crate) struct Stream {
    pub(crate) left: usize,
}

/// Answers by path:
/// - `/now`: at once; `/later`: when told by another thread
/// - `/stream/N`: N bytes in chunks; `/counted/N`: with their length told
/// - `/short`, `/long`: fewer and more bytes than it said; `/drop`: not at all
/// - `/twice`: whole, and again in every way there is; `/broken`: an error in the middle of a body
/// - `/upload`: content in pieces, answered with its length; `/slow`: the same, waiting after each
///   piece; `/early`: answered before its content came
pub(crate) struct Toy {
    pub(crate) seen: Arc<Seen>,
    pub(crate) streams: HashMap<AnswerSlot, Stream>,
    pub(crate) uploads: HashMap<AnswerSlot, (AnswerShape, bool, u64)>,
    pub(crate) paused: Vec<AnswerSlot>,
    pub(crate) later: Vec<(AnswerSlot, AnswerShape)>,
    pub(crate) wakes: Receiver<()>,
    /// When paused content is taken again.
    pub(crate) resume_at: Option<Time>,
}

impl Toy {
    pub(crate) fn go_on(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        let Some(stream) = self.streams.get_mut(&slot) else {
            return;
        };
        let piece = [b'x'; PIECE];
        while stream.left > 0 {
            let length = stream.left.min(PIECE);
            stream.left -= length;
            let flow = answers.append(slot, &piece[..length]);
            (self.seen.appended).fetch_add(length as u64, Ordering::Relaxed);
            match flow {
                Flow::More => {}
                Flow::Wait => {
                    self.seen.waits.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Flow::Gone => {
                    self.streams.remove(&slot);
                    return;
                }
            }
        }
        self.streams.remove(&slot);
        answers.finish(slot);
    }
}

impl Host for Toy {
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        let Request { slot, shape, .. } = request;
        let path = String::from_utf8_lossy(request.head.path(request.bytes)).into_owned();
        let number = |at: &str| path.strip_prefix(at).and_then(|text| text.parse().ok());
        if let Some(left) = number("/stream/") {
            answers.begin(slot, shape, 200, None, |_| {});
            self.streams.insert(slot, Stream { left });
            self.go_on(answers, slot);
        } else if let Some(left) = number("/counted/") {
            answers.begin(slot, shape, 200, Some(left as u64), |_| {});
            self.streams.insert(slot, Stream { left });
            self.go_on(answers, slot);
        } else {
            match (path.as_str(), request.content) {
                ("/now", Content::Whole(content)) => {
                    answers.answer(slot, shape, 200, content, |_| {})
                }
                ("/later", _) => self.later.push((slot, shape)),
                ("/short", _) => {
                    answers.begin(slot, shape, 200, Some(10), |_| {});
                    let _ = answers.append(slot, b"short");
                    answers.finish(slot);
                }
                ("/long", _) => {
                    answers.begin(slot, shape, 200, Some(10), |_| {});
                    self.seen.long.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(answers.append(slot, b"as long as"), Flow::More);
                    assert_eq!(answers.append(slot, b" said, and more"), Flow::Gone);
                    assert_eq!(answers.append(slot, b"and more"), Flow::Gone);
                    answers.finish(slot);
                }
                ("/drop", _) => answers.abandon(slot),
                ("/twice", _) => {
                    answers.answer(slot, shape, 200, &b"once"[..], |_| {});
                    answers.answer(slot, shape, 200, &b"again"[..], |_| {});
                    answers.error(slot, shape, 500, "");
                    answers.begin(slot, shape, 200, None, |_| {});
                    assert_eq!(answers.append(slot, b"more"), Flow::Gone);
                    answers.finish(slot);
                    answers.abandon(slot);
                }
                ("/broken", _) => {
                    answers.begin(slot, shape, 200, None, |_| {});
                    let _ = answers.append(slot, &[b'x'; 2 * UNSENT_MAX]);
                    answers.error(slot, shape, 502, "It broke.");
                    answers.answer(slot, shape, 200, &b"whole after all"[..], |_| {});
                }
                ("/early", _) => answers.error(slot, shape, 403, "Not <you>."),
                ("/upload" | "/slow", Content::Pieces) => {
                    self.uploads.insert(slot, (shape, path == "/slow", 0));
                }
                _ => answers.error(slot, shape, 404, ""),
            }
        }
    }

    fn takes_pieces(&self, head: &RequestHead, bytes: &[u8]) -> bool {
        head.path(bytes) != b"/now"
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
        let Some((shape, waits, total)) = self.uploads.get_mut(&slot) else {
            panic!("content of an upload that is over");
        };
        *total += length;
        if is_last {
            let text = total.to_string();
            answers.answer(slot, *shape, 200, text.as_bytes(), |_| {});
            self.uploads.remove(&slot);
        } else if *waits {
            self.paused.push(slot);
            self.resume_at = Some(answers.now() + Duration::from_millis(1));
            return Flow::Wait;
        }
        Flow::More
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
        while self.wakes.try_recv().is_ok() {
            // The last that came is answered first: each goes out in its turn all the same.
            while let Some((slot, shape)) = self.later.pop() {
                let text = format!("later {}", slot.ordinal);
                answers.answer(slot, shape, 200, text.as_bytes(), |_| {});
            }
        }
    }

    fn tick(&mut self, answers: &mut Answers<'_>) {
        self.resume_at = None;
        for slot in self.paused.drain(..) {
            answers.resume(slot);
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.resume_at
    }
}
