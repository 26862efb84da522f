//! The launches of a stage: answers decoded, the program run, its queries answered.
#![allow(unsafe_code)]

#[cfg(all(test, feature = "emulation"))]
mod tests;

use super::regions::{Columns, LaneRegions, shared_registers, spilled_words};
use crate::abi::WARP;
use crate::abi::stage::{DecodeArgs, NO_SLOT, Regions, SpilledStageArgs, StageArgs};
use crate::besim::{ANSWER_BYTES, BesimCohort, BesimTables};
use crate::gpu::{Address, GpuError, Grid, Queue, Slice, address_or_null};
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
    /// Where in the arena the texts go that its lanes make, and the answers that the device gives.
    pub(crate) text_base: usize,
    pub(crate) answer_base: usize,
    /// Rows of a lane in the pools of decoded items.
    pub(crate) item_stride: u32,
    /// One pair: the most rows that a lane's answers have, and the most of a tile, where the share
    /// was too small.
    pub(crate) rows_needed: Slice<'m, [u32; 2]>,
}

impl<'m> DeviceCohort<'m> {
    /// How many lanes.
    pub(crate) fn lanes(&self) -> usize {
        self.regions.results.len()
    }

    /// The regions' addresses and strides.
    pub(super) fn shares(&self) -> Regions {
        let LaneRegions {
            shares,
            runs,
            segments,
            queries,
            headers,
            ..
        } = &self.regions;
        let text_end = self.text_base + self.lanes() * shares.text as usize;
        assert!(text_end <= self.arena.len(), "the texts have their shares");
        let is_listed = |list: Slice<'_, u32>| list.len() == self.lanes();
        assert!(self.lane_list.is_none_or(is_listed), "each lane is listed");
        Regions {
            runs: runs.address(),
            segments: segments.address(),
            run_stride: shares.run,
            segment_stride: shares.segments,
            text_base: self.text_base as u32,
            text_stride: shares.text,
            queries: queries.address(),
            headers: headers.address(),
            query_stride: shares.queries,
            header_stride: shares.headers,
        }
    }

    /// Decodes the answers that the device's backend gave to a call into the columns.
    pub(crate) fn decode(&self, queue: &Queue<'m>, call: usize) -> Result<(), GpuError> {
        let page = &self.service.pages[self.page];
        let decoding = &page.page.decodings[call];
        let decoded = self.service.at(page.decoded[call]);
        assert_eq!(self.rows_needed.len(), 1);
        let arguments = DecodeArgs {
            decoded: decoded.address(),
            columns: self.columns.address(),
            arena: self.arena.address(),
            asked: Address(0),
            answers: self.regions.answers.address(),
            lane_list: address_or_null(self.lane_list),
            lane_count: address_or_null(self.lane_count),
            results: self.regions.results.address(),
            rows_needed: self.rows_needed.address(),
            lanes: self.lanes() as u32,
            query_stride: self.shares().query_stride,
            decoded_count: decoded.len() as u32,
            status_slot: decoding.status,
            spans_slot: decoding.spans.unwrap_or(NO_SLOT),
            item_stride: self.item_stride,
        };
        // SAFETY: all is borrowed for 'm; lists, spans and regions have an item for each lane, or
        // its share; the columns are the page's, whose slots the decoding has.
        unsafe { queue.launch(Grid::over(self.lanes(), 128), &arguments) }
    }

    /// Runs a stage's program.
    pub(crate) fn run(
        &self,
        queue: &Queue<'m>,
        stage: usize,
        limits: LaneLimits,
        case_tables: Slice<'m, u8>,
    ) -> Result<(), GpuError> {
        let arguments = self.stage_arguments(stage, limits, case_tables);
        let registers = self.service.pages[self.page].stages[stage].registers;
        let grid = Grid::over(self.lanes(), WARP as u32);
        // SAFETY: all is borrowed for 'm, of the sizes that `stage_arguments` checks. The program
        // is the page's: its registers, slots, constants and jumps are what the engine compiled and
        // `Page::encode` numbered.
        unsafe {
            match shared_registers(registers) {
                Some(bytes) => queue.launch(grid.with_shared(bytes), &arguments),
                None => queue.launch(grid, &SpilledStageArgs(arguments)),
            }
        }
    }

    fn stage_arguments(
        &self,
        stage: usize,
        limits: LaneLimits,
        case_tables: Slice<'m, u8>,
    ) -> StageArgs {
        let service = self.service;
        let page = &service.pages[self.page];
        let program = &page.stages[stage];
        let registers = self.regions.registers;
        let spilled = spilled_words(self.lanes(), program.registers);
        assert!(registers.len() >= spilled, "registers have room");
        let bounded = |limit: usize| limit.min(1 << 30) as u32;
        StageArgs {
            code: service.at(program.code).address(),
            constants: service.at(program.constants).address(),
            parts: service.at(program.parts).address(),
            tables: service.at(page.tables).address(),
            columns: self.columns.address(),
            arena: self.arena.address(),
            fragment_bytes: service.at(service.fragment_bytes).address(),
            case_tables: case_tables.address(),
            registers: match registers.is_empty() {
                true => Address::NULL,
                false => registers.address(),
            },
            lane_list: address_or_null(self.lane_list),
            lane_count: address_or_null(self.lane_count),
            results: self.regions.results.address(),
            regions: self.shares(),
            lanes: self.lanes() as u32,
            register_count: program.registers,
            constant_count: program.constants.len() as u32,
            has_call: u32::from(program.has_call),
            body_bytes_max: bounded(limits.body_bytes_max),
            text_bytes_max: bounded(limits.text_bytes_max),
            turns_max: bounded(limits.turns_max),
            unused: 0,
        }
    }

    /// Answers the queries that a stage asked, on the device.
    pub(crate) fn answer(&self, queue: &Queue<'m>, besim: &'m BesimTables) -> Result<(), GpuError> {
        let cohort = BesimCohort {
            results: self.regions.results,
            queries: self.regions.queries,
            answers: self.regions.answers,
            arena: self.arena,
            answer_base: self.answer_base as u32,
            answer_stride: ANSWER_BYTES,
        };
        besim.launch(queue, &cohort)
    }
}
