//! The backend on the host, across PCIe: the paper's Titan A (section 5.3.2).
#![allow(unsafe_code)]

use super::Context;
use crate::abi::{LaneResult, NO_TEXT, Outcome};
use crate::besim::ANSWER_BYTES;
use crate::cohort::{DeviceCohort, Places};
use crate::executor::upload::read;
use crate::gpu::{Address, GpuError, Grid, launch};
use crate::launch::{DeliveredText, OffsetsArgs, TextsArgs, UNIT};
use rhythm_besim::Bank;
use rhythm_engine::cohort::View;

impl Context {
    /// The backend on the host (the paper's Titan A): requests come across PCIe one behind the
    /// other, and answers go back likewise.
    ///
    /// # Safety
    /// As [`Context::process`].
    pub(super) unsafe fn answer_on_host(
        &mut self,
        cohort: &DeviceCohort,
        bank: &Bank,
    ) -> Result<(), GpuError> {
        let gpu = self.gpu.clone();
        let stream = self.stream;
        let lanes = cohort.lanes as usize;
        let stride = cohort.regions.request_stride as usize;
        let offsets = self.memory.address().plus(self.places.offsets);
        // Where things are in the pinned memory: what comes, then what goes.
        let mut places = Places::default();
        let results = places.take::<LaneResult>(lanes);
        let requests = places.take::<DeliveredText>(lanes * stride);
        // Of lanes that have their answer already, such as a redirection.
        let header_count = lanes * cohort.regions.header_stride as usize;
        let headers = places.take::<DeliveredText>(header_count);
        let request_bytes = lanes * (cohort.regions.text_stride as usize).max(UNIT);
        let texts = places.take::<u8>(request_bytes);
        let views = places.take::<View>(lanes * stride);
        let answers = places.take::<u8>(lanes * stride * ANSWER_BYTES as usize);
        self.pinned.grow(places.0)?;
        let at = |place: usize| self.pinned.address().plus(place);
        let sums = OffsetsArgs {
            results: cohort.results,
            offsets,
            lanes: cohort.lanes,
            runs_only: 1,
        };
        let one_block = Grid {
            blocks: 1,
            threads: 256,
            shared_bytes: 0,
        };
        let deliver = TextsArgs {
            results: cohort.results,
            offsets,
            lane_list: Address(0),
            arena: cohort.arena,
            results_out: at(results),
            requests_out: at(requests),
            headers_out: at(headers),
            texts_out: at(texts),
            regions: cohort.regions,
            lanes: cohort.lanes,
            requests_capacity: (lanes * stride) as u32,
            headers_capacity: header_count as u32,
            texts_capacity: request_bytes as u32,
        };
        // SAFETY: the caller's promise; the pinned memory is as large as the capacities say.
        unsafe {
            launch(&*gpu, stream, one_block, &sums)?;
            launch(&*gpu, stream, Grid::over(lanes, 128), &deliver)?;
        }
        gpu.synchronize(stream)?;
        // SAFETY: the stream has been waited for, and nothing else uses the pinned memory.
        let memory = unsafe { self.pinned.bytes_mut() };
        let (come, go) = memory.split_at_mut(views);
        let result_of = |lane| read::<LaneResult>(come, results, lane);
        let text_bytes = (0..lanes)
            .map(result_of)
            .filter(|result| {
                matches!(
                    Outcome::of(result.outcome),
                    Outcome::Active | Outcome::Finished
                )
            })
            .map(|result| u64::from(result.texts_length));
        if text_bytes.sum::<u64>() > request_bytes as u64 {
            // Then the kernel has brought none.
            let why = "the requests to the backend are longer than the texts that the page makes";
            return Err(GpuError::Failed(why.to_owned()));
        }
        let mut next_request = 0;
        let mut used = 0;
        let mut body = Vec::new();
        for lane in 0..lanes {
            let result = result_of(lane);
            let asked = match Outcome::of(result.outcome) {
                Outcome::Active => (result.request_count as usize).min(stride),
                _ => 0,
            };
            for place in 0..stride {
                let mut view = View {
                    offset: 0,
                    length: NO_TEXT,
                };
                if place < asked {
                    let request: DeliveredText = read(come, requests, next_request);
                    next_request += 1;
                    let text = texts + request.text.offset as usize;
                    body.clear();
                    bank.answer(&come[text..text + request.text.length as usize], &mut body);
                    view = View {
                        offset: (self.places.answer_base + used) as u32,
                        length: body.len() as u32,
                    };
                    go[answers - views + used..][..body.len()].copy_from_slice(&body);
                    used += body.len().next_multiple_of(UNIT);
                }
                let start = (lane * stride + place) * size_of::<View>();
                go[start..start + 4].copy_from_slice(&view.offset.to_ne_bytes());
                go[start + 4..start + 8].copy_from_slice(&view.length.to_ne_bytes());
            }
        }
        let to = cohort.arena.plus(self.places.answer_base);
        let at = |place: usize| self.pinned.address().plus(place);
        // SAFETY: the regions are as large as the pinned ones, which are left alone until the
        // stream is waited for again.
        unsafe {
            gpu.copy(
                stream,
                cohort.answers,
                at(views),
                lanes * stride * size_of::<View>(),
            )?;
            gpu.copy(stream, to, at(answers), used)
        }
    }
}
