//! Spans on their way to the thread that exports them.
//!
//! ```text
//!   worker: SpanSink --- batches, bounded ---> export.rs: a thread ---> the collector
//! ```
//!
//! A worker never waits: what finds no room is dropped, and counted.

use super::span::Span;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

/// Spans of a batch, a cohort's with many links counting as several.
const BATCH_SPANS: usize = 128;

/// Batches on their way at most.
pub(super) const BATCHES_MAX: usize = 32;

/// Bytes that a span takes at most, beside its links: seven attributes, and its name.
const SPAN_BYTES: usize = size_of::<Span>() + 8 * (256 + 64);

/// A span counts once more for so many links, which take as much memory.
const LINKS_A_SPAN: usize = 64;

/// The most memory that spans take in a server of so many workers, in bytes.
pub(crate) fn bytes_max(workers: usize) -> usize {
    // With one batch at each worker, and one that is exported, as text, too.
    let batches = BATCHES_MAX + workers + 3;
    batches.saturating_mul((BATCH_SPANS + 3) * SPAN_BYTES)
}

/// How exporting fares.
#[derive(Debug, Default)]
pub(crate) struct ExportState {
    exported: AtomicU64,
    dropped: AtomicU64,
    failures: AtomicU64,
}

impl ExportState {
    /// Spans that a collector took, spans that were dropped, and tries that failed.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.exported, &self.dropped, &self.failures].map(|it| it.load(Ordering::Relaxed))
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

/// A worker's end.
#[derive(Debug)]
pub struct SpanSink {
    batch: Vec<Span>,
    weight: usize,
    channel: SyncSender<Vec<Span>>,
    state: Arc<ExportState>,
}

impl SpanSink {
    pub(super) fn new(channel: SyncSender<Vec<Span>>, state: Arc<ExportState>) -> SpanSink {
        SpanSink {
            batch: Vec::new(),
            weight: 0,
            channel,
            state,
        }
    }

    /// A span is over.
    pub(crate) fn add(&mut self, span: Span) {
        self.weight += 1 + span.links.len() / LINKS_A_SPAN;
        self.batch.push(span);
        if self.weight >= BATCH_SPANS {
            self.flush();
        }
    }

    /// Hands over what there is.
    pub(crate) fn flush(&mut self) {
        self.weight = 0;
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        match self.channel.try_send(batch) {
            Ok(()) => {}
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                self.state.dropped(batch.len());
            }
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
    use rhythm_net::Time;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn what_nobody_takes_is_dropped_and_counted() {
        let (channel, taken) = sync_channel(2);
        let state = Arc::<ExportState>::default();
        let mut sink = SpanSink::new(channel, state.clone());
        for id in 1..=1000 {
            let times = (Time::ZERO, Time::ZERO);
            let mut span = Span::new((1, id), None, SpanKind::Internal, "x", times);
            (0..64).for_each(|link| span.link(2, link));
            sink.add(span);
        }
        drop(sink);
        let spans: usize = taken.try_iter().map(|batch| batch.len()).sum();
        assert_eq!(spans, BATCH_SPANS);
        assert_eq!(state.counts(), [0, 1000 - BATCH_SPANS as u64, 0]);
    }
}
