//! The backend on the host, across PCIe: the paper's Titan A (section 5.3.2). Queries come one
//! behind the other, and answers go back likewise.

use crate::abi::layout::{DeliveredText, LaneOffsets, UNIT};
use crate::abi::{LaneResult, NO_TEXT, Outcome};
use crate::besim::ANSWER_BYTES;
use crate::cohort::delivery::Delivery;
use crate::cohort::stages::DeviceCohort;
use crate::gpu::{Extent, Extents, GpuError, PinnedBuffer, Queue, SharedGpu, Slice};
use crate::plain::bytes_of;
use rhythm_besim::Bank;
use rhythm_engine::cohort::View;

/// Bytes that crossed between host and device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Crossed {
    pub(super) to_device: usize,
    pub(super) to_host: usize,
}

/// Where things are in the pinned memory: what comes, then what goes.
#[derive(Debug)]
struct Mail {
    results: Extent<LaneResult>,
    queries: Extent<DeliveredText>,
    /// Of lanes that have their answer already, such as a redirection.
    headers: Extent<DeliveredText>,
    texts: Extent<u8>,
    views: Extent<View>,
    answers: Extent<u8>,
}

impl Mail {
    fn new(places: &mut Extents, cohort: &DeviceCohort<'_>) -> Mail {
        let (lanes, shares) = (cohort.lanes(), &cohort.regions.shares);
        let queries = lanes * shares.queries as usize;
        Mail {
            results: places.take(lanes),
            queries: places.take(queries),
            headers: places.take(lanes * shares.headers as usize),
            texts: places.take(lanes * (shares.text as usize).max(UNIT)),
            views: places.take(queries),
            answers: places.take(queries * ANSWER_BYTES as usize),
        }
    }
}

/// The backend, with the memory through which a context talks to it.
#[derive(Debug)]
pub(super) struct HostBackend {
    pinned: PinnedBuffer,
}

impl HostBackend {
    pub(super) fn new(gpu: &SharedGpu) -> Result<HostBackend, GpuError> {
        let pinned = PinnedBuffer::new(gpu, 0)?;
        Ok(HostBackend { pinned })
    }

    /// Answers the queries of a cohort's call: waits for them, and copies the answers to the
    /// device. Adds to what has crossed.
    pub(super) fn answer(
        &mut self,
        queue: &Queue<'_>,
        (cohort, call): (&DeviceCohort<'_>, usize),
        offsets: Slice<'_, LaneOffsets>,
        bank: &Bank,
        crossed: &mut Crossed,
    ) -> Result<(), GpuError> {
        let mut places = Extents::default();
        let mail = Mail::new(&mut places, cohort);
        self.pinned.grow(places.bytes())?;
        let pinned = &self.pinned;
        queue.scope(|queue| {
            let to = Delivery {
                offsets,
                results: pinned.slice(mail.results),
                queries: pinned.slice(mail.queries),
                headers: pinned.slice(mail.headers),
                texts: pinned.slice(mail.texts),
            };
            cohort.deliver(queue, &to, true)
        })?;
        let base = cohort.answers_of(call);
        let used = mail.answer(self.pinned.host(), cohort, base, bank, crossed)?;
        let answers = base..base + used;
        let pinned = &self.pinned;
        queue.scope(|queue| {
            queue.copy(cohort.regions.answers, pinned.slice(mail.views))?;
            let from = pinned.slice(mail.answers).part(0..used);
            queue.copy(cohort.arena.part(answers), from)
        })
    }
}

impl Mail {
    /// Answers what came, lane by lane, each answer at a multiple of 16 from `base` in the arena
    /// on; gives their bytes.
    fn answer(
        &self,
        memory: &mut [u8],
        cohort: &DeviceCohort<'_>,
        base: usize,
        bank: &Bank,
        crossed: &mut Crossed,
    ) -> Result<usize, GpuError> {
        let (come, go) = memory.split_at_mut(self.views.start());
        let gone = self.views.start();
        let results: Vec<LaneResult> = (0..self.results.len())
            .map(|lane| self.results.read(come, lane))
            .collect();
        let has_texts = |result: &&LaneResult| {
            matches!(
                Outcome::of(result.outcome),
                Outcome::Active | Outcome::Finished
            )
        };
        let texts = results.iter().filter(has_texts);
        let text_bytes: u64 = texts.map(|result| u64::from(result.texts_length)).sum();
        if text_bytes > self.texts.len() as u64 {
            // Then the kernel has brought none.
            let why = "the queries to the backend are longer than the texts that the page makes";
            return Err(GpuError::Failed(why.to_owned()));
        }
        let stride = cohort.regions.shares.queries as usize;
        let mut views = vec![NONE; self.views.len()];
        let (mut next, mut used, mut body) = (0, 0, Vec::new());
        for (lane, result) in results.iter().enumerate() {
            let asked = match Outcome::of(result.outcome) {
                Outcome::Active => (result.query_count as usize).min(stride),
                _ => 0,
            };
            for view in &mut views[lane * stride..][..asked] {
                let text = self.queries.read(come, next).text;
                next += 1;
                let texts = &come[self.texts.range()];
                body.clear();
                bank.answer(
                    &texts[text.offset as usize..][..text.length as usize],
                    &mut body,
                );
                *view = View {
                    offset: (base + used) as u32,
                    length: body.len() as u32,
                };
                go[self.answers.start() - gone + used..][..body.len()].copy_from_slice(&body);
                used += body.len().next_multiple_of(UNIT);
            }
        }
        go[..size_of_val(&*views)].copy_from_slice(bytes_of(&views));
        crossed.to_device += size_of_val(&*views) + used;
        crossed.to_host +=
            size_of_val(&*results) + next * size_of::<DeliveredText>() + text_bytes as usize;
        Ok(used)
    }
}

/// No answer.
const NONE: View = View {
    offset: 0,
    length: NO_TEXT,
};
