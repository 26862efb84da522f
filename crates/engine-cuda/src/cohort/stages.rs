//! The launches of a stage: answers decoded, the program run, its queries answered.

#[cfg(all(test, feature = "emulation"))]
mod tests;

use super::regions::LaneRegions;
use crate::abi::Columns;
use crate::abi::stage::{DecodeArgs, LANE_BYTES_MAX, NO_SLOT, Regions, StageArgs, shared_code};
use crate::besim::{ANSWER_BYTES, BesimCohort, BesimTables};
use crate::gpu::{GpuError, Queue, Slice};
use crate::program::Form;
use crate::service::DeviceService;
use rhythm_engine::device::LaneLimits;

/// A cohort, or a part of one, of a page in the device's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceCohort<'m> {
    pub(crate) service: &'m DeviceService,
    /// The index of its page.
    pub(crate) page: usize,
    pub(crate) regions: LaneRegions<'m>,
    /// Which lanes of the cohort they are, one a lane; `None`: lane i is the i-th.
    pub(crate) lane_list: Option<Slice<'m, u32>>,
    /// How many of the lanes there are; `None`: all.
    pub(crate) lane_count: Option<Slice<'m, u32>>,
    pub(crate) columns: Columns<'m>,
    pub(crate) arena: Slice<'m, u8>,
    /// Where in the arena the texts go that its lanes make, and the answers that the device gives:
    /// each call's behind those of the call before, since columns go on pointing to them.
    pub(crate) text_base: usize,
    pub(crate) answer_base: usize,
    /// Rows that a lane may have in the pools of decoded items, and lanes that a pool's lines are
    /// for: all of the whole cohort.
    pub(crate) item_stride: u32,
    pub(crate) item_pitch: u32,
    /// One pair: the most rows that a lane's answers have, and the most of a tile, where the share
    /// was too small.
    pub(crate) rows_needed: Slice<'m, [u32; 2]>,
}

impl<'m> DeviceCohort<'m> {
    /// How many lanes.
    pub(crate) fn lanes(&self) -> usize {
        self.regions.results.len()
    }

    /// Where in the arena the answers of a call go, counted from the first that it has them of.
    pub(crate) fn answers_of(&self, call: usize) -> usize {
        self.answer_base + call * self.regions.answers.len() * ANSWER_BYTES as usize
    }

    /// The regions as kernels take them.
    pub(super) fn shares(&self) -> Regions<'m> {
        let LaneRegions {
            shares,
            runs,
            segments,
            queries,
            headers,
            ..
        } = &self.regions;
        Regions {
            runs: *runs,
            segments: *segments,
            run_stride: shares.run,
            segment_stride: shares.segments,
            text_base: self.text_base as u32,
            text_stride: shares.text,
            queries: *queries,
            headers: *headers,
            query_stride: shares.queries,
            header_stride: shares.headers,
            lanes: self.lanes() as u32,
        }
    }

    /// Decodes the answers that the device's backend gave to a call into the columns.
    pub(crate) fn decode(&self, queue: &Queue<'m>, call: usize) -> Result<(), GpuError> {
        let page = &self.service.pages[self.page];
        let decoding = &page.page.decodings[call];
        let decoded = self.service.at(page.decoded[call]);
        // The columns are the page's, whose slots the decoding has.
        queue.launch(DecodeArgs {
            decoded,
            columns: self.columns,
            arena: self.arena,
            asked: None,
            answers: self.regions.answers,
            lane_list: self.lane_list,
            lane_count: self.lane_count,
            results: self.regions.results,
            rows_needed: self.rows_needed.flat(),
            lanes: self.lanes() as u32,
            query_stride: self.regions.shares.queries,
            decoded_count: decoded.len() as u32,
            status_slot: decoding.status,
            spans_slot: decoding.spans.unwrap_or(NO_SLOT),
            item_stride: self.item_stride,
            item_pitch: self.item_pitch,
            unused: 0,
        })
    }

    /// Runs a stage's program.
    pub(crate) fn run(
        &self,
        queue: &Queue<'m>,
        stage: usize,
        limits: LaneLimits,
        case_tables: Slice<'m, u8>,
    ) -> Result<(), GpuError> {
        let service = self.service;
        let page = &service.pages[self.page];
        let program = &page.stages[stage];
        let bounded = |limit: usize| limit.min(LANE_BYTES_MAX) as u32;
        // The program is the page's: its registers, slots, constants and jumps are what the engine
        // compiled and `Page::encode` numbered.
        queue.launch(StageArgs {
            code: service.at(program.code),
            constants: service.at(program.constants),
            parts: service.at(program.parts),
            tables: service.at(page.tables),
            columns: self.columns,
            arena: self.arena,
            fragment_bytes: service.at(service.fragment_bytes),
            case_tables,
            registers: self.regions.registers,
            lane_list: self.lane_list,
            lane_count: self.lane_count,
            results: self.regions.results,
            regions: self.shares(),
            lanes: self.lanes() as u32,
            register_count: program.registers,
            constant_count: program.constants.len() as u32,
            has_call: u32::from(program.has_call),
            body_bytes_max: bounded(limits.body_bytes_max),
            text_bytes_max: bounded(limits.text_bytes_max),
            turns_max: limits.turns_max.min(1 << 30) as u32,
            item_pitch: self.item_pitch,
            shared_code: shared_code(program.code.len()),
            stretches: u32::from(service.form == Form::Stretches),
        })
    }

    /// Answers the queries of a call that a stage asked, on the device.
    pub(crate) fn answer(
        &self,
        queue: &Queue<'m>,
        besim: &'m BesimTables,
        call: usize,
    ) -> Result<(), GpuError> {
        // Views have 32 bits.
        let base = self.answers_of(call);
        let base = u32::try_from(base).map_err(|_| GpuError::OutOfMemory(base))?;
        let cohort = BesimCohort {
            results: self.regions.results,
            queries: self.regions.queries,
            answers: self.regions.answers,
            arena: self.arena,
            answer_base: base,
            answer_stride: ANSWER_BYTES,
        };
        besim.launch(queue, &cohort)
    }
}
