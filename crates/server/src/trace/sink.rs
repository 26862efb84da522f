//! Spans on their way to the thread that exports them.
//!
//! ```text
//!   worker: SpanSink --- batches; their spans are counted ---> export.rs: a thread ---> collector
//! ```
//!
//! A worker never waits: what finds no room is dropped, and counted.

use super::span::{LINKS_MAX, Span};
use rhythm_net::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Spans of a batch, a cohort's with many links counting as several.
pub(super) const BATCH_SPANS: usize = 128;

/// A batch that is not full is handed over when its first span is so old.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// Spans that are handed over and not exported at most, counted as those of a batch are.
pub(super) const SPANS_MAX: usize = 4096;

/// Spans that are posted at once, with those of one batch more.
pub(super) const POST_SPANS: usize = 512;

/// What a span counts for beyond itself at most: its links.
const LINKED: usize = LINKS_MAX / LINKS_A_SPAN;

/// Bytes that a span takes at most, beside its links: a name, and as much for each of seven
/// attributes, of which a request has three more that are short.
const SPAN_BYTES: usize = size_of::<Span>() + 8 * (256 + 64);

/// A span counts once more for so many links, which take as much memory.
const LINKS_A_SPAN: usize = 64;

/// The most memory that spans take in a server of so many workers, in bytes.
pub(crate) fn bytes_max(workers: usize) -> usize {
    // Each worker has a batch that fills, and what is posted is there as text, too, and longer.
    let filling = workers.saturating_mul(BATCH_SPANS + LINKED);
    let text = 3 * (POST_SPANS + BATCH_SPANS + LINKED);
    (SPANS_MAX + text)
        .saturating_add(filling)
        .saturating_mul(SPAN_BYTES)
}

/// How exporting fares.
#[derive(Debug, Default)]
pub(crate) struct ExportState {
    /// What spans count for that are handed over, and not exported.
    waiting: AtomicUsize,
    exported: AtomicU64,
    dropped: AtomicU64,
    failures: AtomicU64,
}

impl ExportState {
    /// Spans that a collector took, spans that were dropped, and tries that failed.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.exported, &self.dropped, &self.failures].map(|it| it.load(Ordering::Relaxed))
    }

    /// Takes room for spans that count for so much, if there is as much.
    fn has_room(&self, weight: usize) -> bool {
        let has_room = self.waiting.fetch_add(weight, Ordering::Relaxed) + weight <= SPANS_MAX;
        if !has_room {
            self.left(weight);
        }
        has_room
    }

    /// Spans that count for so much do not wait any more.
    pub(super) fn left(&self, weight: usize) {
        self.waiting.fetch_sub(weight, Ordering::Relaxed);
    }

    pub(super) fn exported(&self, spans: usize) {
        self.exported.fetch_add(spans as u64, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self, spans: usize) {
        self.dropped.fetch_add(spans as u64, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// Spans that are handed over together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) spans: Vec<Span>,
    /// What they count for.
    pub(super) weight: usize,
}

impl Batch {
    /// With those of another.
    pub(super) fn extend(&mut self, other: Batch) {
        self.spans.extend(other.spans);
        self.weight += other.weight;
    }
}

/// A worker's end.
#[derive(Debug)]
pub struct SpanSink {
    batch: Batch,
    /// Without a bound: what is in it is counted.
    channel: Sender<Batch>,
    state: Arc<ExportState>,
}

impl SpanSink {
    pub(super) fn new(channel: Sender<Batch>, state: Arc<ExportState>) -> SpanSink {
        SpanSink {
            batch: Batch::default(),
            channel,
            state,
        }
    }

    /// A span is over.
    pub(crate) fn add(&mut self, span: Span) {
        self.batch.weight += 1 + span.links.len() / LINKS_A_SPAN;
        self.batch.spans.push(span);
        if self.batch.weight >= BATCH_SPANS {
            self.flush();
        }
    }

    /// Hands over what there is, if it has been there for long. Whether something still is.
    pub(crate) fn sweep(&mut self, now: Time) -> bool {
        let first = self.batch.spans.first();
        if first.is_some_and(|span| now >= span.to + BATCH_TIME) {
            self.flush();
        }
        !self.batch.spans.is_empty()
    }

    /// Hands over what there is.
    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let spans = batch.spans.len();
        if spans == 0 {
            return;
        }
        if !self.state.has_room(batch.weight) {
            self.state.dropped(spans);
        } else if let Err(unsent) = self.channel.send(batch) {
            self.state.left(unsent.0.weight);
            self.state.dropped(spans);
        }
    }
}

impl Drop for SpanSink {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::super::span::SpanKind;
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    fn span(links: u64, at: Time) -> Span {
        let mut span = Span::new((1, 1), None, SpanKind::Internal, "x", (Time::ZERO, at));
        (0..links).for_each(|link| span.link(2, link));
        span
    }

    fn sink() -> (SpanSink, Receiver<Batch>, Arc<ExportState>) {
        let (channel, taken) = channel();
        let state = Arc::<ExportState>::default();
        (SpanSink::new(channel, state.clone()), taken, state)
    }

    #[test]
    fn what_nobody_takes_is_dropped_and_counted() {
        for (links, counts) in [(0, 1), (64, 2)] {
            let (mut sink, taken, state) = sink();
            for _ in 0..2 * SPANS_MAX {
                sink.add(span(links, Time::ZERO));
            }
            drop(sink);
            let spans: usize = taken.try_iter().map(|batch| batch.spans.len()).sum();
            assert_eq!(spans, SPANS_MAX / counts);
            assert_eq!(state.counts(), [0, (2 * SPANS_MAX - spans) as u64, 0]);
        }
    }

    #[test]
    fn few_spans_wait_for_others_and_then_go_without() {
        let (mut sink, taken, state) = sink();
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        assert!(!sink.sweep(at(0)));
        // One each 100 ms, for longer than there is room for as many batches of one.
        let turns = 600;
        for turn in 1..=turns {
            sink.add(span(0, at(100 * turn)));
            sink.sweep(at(100 * turn));
        }
        let batches: Vec<usize> = taken.try_iter().map(|batch| batch.spans.len()).collect();
        assert!(batches.iter().all(|spans| *spans == 11), "{batches:?}");
        assert_eq!(batches.len() as u64, turns / 11);
        // Who stands still hands over what there is.
        assert!(sink.sweep(at(100 * turns)));
        assert!(!sink.sweep(at(100 * turns + 1000)));
        assert_eq!(taken.try_iter().count(), 1);
        assert_eq!(state.counts(), [0; 3]);
    }
}
