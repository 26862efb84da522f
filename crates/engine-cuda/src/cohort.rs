//! A cohort in the device's memory, and the launches that take it through a stage and to its
//! answers.
//!
//! Whoever owns the memory (a slot of the executor, or the resident pipeline) fills in the
//! addresses; the kernels' arguments are put together here, once for both.
#![allow(unsafe_code)]

use crate::abi::LaneResult;
use crate::besim::{ANSWER_BYTES, BesimCohort, BesimTables};
use crate::executor::upload::DeviceService;
use crate::gpu::{Address, Gpu, GpuError, Grid, SharedGpu, Stream, launch};
use crate::launch::{
    ColumnArgs, DecodeArgs, HeaderValue, NO_SLOT, Pieces, Regions, RowArgs, SpilledStageArgs,
    StageArgs, TransposeArgs, UNIT, WARP,
};
use rhythm_besim::Bank;
use rhythm_engine::cohort::Segment;
use rhythm_engine::cohort::View;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::program::Service;

/// Registers of a warp are kept in shared memory up to so many bytes; with more, fewer warps would
/// run at a time than with global memory.
const SHARED_REGISTERS_MAX: usize = 48 << 10;

/// Places in a buffer, handed out one after the other.
#[derive(Debug, Default)]
pub(crate) struct Places(pub(crate) usize);

impl Places {
    /// Room for so many items, 256-byte aligned.
    pub(crate) fn take<T>(&mut self, items: usize) -> usize {
        let at = self.0;
        self.0 = (at + items * size_of::<T>()).next_multiple_of(256);
        at
    }
}

/// Shares of the lanes' regions: how many of each a lane gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Bytes of a run, a multiple of 16.
    pub(crate) run: u32,
    /// Segments.
    pub(crate) segments: u32,
    /// Bytes of texts made, a multiple of 16.
    pub(crate) text: u32,
    /// Requests to a backend.
    pub(crate) requests: u32,
    /// Headers.
    pub(crate) headers: u32,
}

/// Where the lanes' regions are in one buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionPlaces {
    pub(crate) results: usize,
    runs: usize,
    segments: usize,
    requests: usize,
    headers: usize,
    answers: usize,
    registers: Option<usize>,
}

/// Bytes of a warp's registers: the program's, and a word for what is left of the lane's limits.
fn register_bytes(registers: u32) -> usize {
    (registers as usize + 1) * WARP * size_of::<u64>()
}

/// Whether a program's registers are in global memory.
fn is_spilled(registers: u32) -> bool {
    register_bytes(registers) > SHARED_REGISTERS_MAX
}

impl RegionPlaces {
    /// Finds room for them. `registers` is the most that a program has.
    pub(crate) fn new(
        places: &mut Places,
        lanes: usize,
        shares: &Shares,
        registers: u32,
    ) -> RegionPlaces {
        let bytes_of_warp = register_bytes(registers);
        RegionPlaces {
            results: places.take::<LaneResult>(lanes),
            runs: places.take::<u8>(lanes * shares.run as usize),
            segments: places.take::<Segment>(lanes * shares.segments as usize),
            requests: places.take::<View>(lanes * shares.requests as usize),
            headers: places.take::<HeaderValue>(lanes * shares.headers as usize),
            answers: places.take::<View>(lanes * shares.requests as usize),
            registers: is_spilled(registers)
                .then(|| places.take::<u8>(lanes.div_ceil(WARP) * bytes_of_warp)),
        }
    }
}

/// The addresses of a cohort's things.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceCohort {
    pub(crate) lanes: u32,
    /// 0: lane i is the i-th.
    pub(crate) lane_list: Address,
    /// 0: there are `lanes`.
    pub(crate) lane_count: Address,
    /// Addresses of columns by slot.
    pub(crate) columns: Address,
    pub(crate) arena: Address,
    pub(crate) results: Address,
    pub(crate) regions: Regions,
    /// Answers, where the backend is on the device: by places of requests; and where in the arena
    /// their texts go.
    pub(crate) answers: Address,
    pub(crate) answer_base: u32,
    /// Rows of a lane in the pools of decoded items.
    pub(crate) item_stride: u32,
    /// Two counters: rows needed of items, rows needed of tiles.
    pub(crate) counters: Address,
    /// Registers of programs that have more than shared memory has room for; 0: of this page's none
    /// has.
    pub(crate) registers: Address,
}

impl DeviceCohort {
    /// A cohort whose regions are at `places` from `base` on, its texts in the arena from
    /// `text_base` on.
    pub(crate) fn new(
        base: Address,
        places: &RegionPlaces,
        shares: &Shares,
        lanes: usize,
        text_base: usize,
    ) -> Self {
        let at = |place: usize| base.plus(place);
        DeviceCohort {
            lanes: lanes as u32,
            lane_list: Address(0),
            lane_count: Address(0),
            columns: Address(0),
            arena: Address(0),
            results: at(places.results),
            regions: Regions {
                runs: at(places.runs),
                segments: at(places.segments),
                run_stride: shares.run,
                segment_stride: shares.segments,
                text_base: text_base as u32,
                text_stride: shares.text,
                requests: at(places.requests),
                headers: at(places.headers),
                request_stride: shares.requests,
                header_stride: shares.headers,
            },
            answers: at(places.answers),
            answer_base: 0,
            item_stride: 0,
            counters: Address(0),
            registers: places.registers.map_or(Address(0), at),
        }
    }

    /// Decodes the answers of a call: the host's (`asked`, `answers`), or those that the device's
    /// backend gave.
    ///
    /// # Safety
    /// The cohort's addresses are good for the service's page until the stream has done it.
    pub(crate) unsafe fn decode(
        &self,
        gpu: &dyn Gpu,
        stream: Stream,
        service: &DeviceService,
        page: usize,
        call: usize,
        from_host: Option<[Address; 2]>,
    ) -> Result<(), GpuError> {
        let page = &service.pages[page];
        let decoding = &page.page.decodings[call];
        let [asked, answers] = from_host.unwrap_or([Address(0), self.answers]);
        let arguments = DecodeArgs {
            decoded: page.decoded[call],
            columns: self.columns,
            arena: self.arena,
            asked,
            answers,
            lane_list: self.lane_list,
            lane_count: self.lane_count,
            results: self.results,
            rows_needed: self.counters,
            lanes: self.lanes,
            request_stride: self.regions.request_stride,
            decoded_count: decoding.columns.len() as u32,
            status_slot: decoding.status,
            spans_slot: decoding.spans.unwrap_or(NO_SLOT),
            item_stride: self.item_stride,
        };
        // SAFETY: the caller's promise.
        unsafe {
            launch(
                gpu,
                stream,
                Grid::over(self.lanes as usize, 128),
                &arguments,
            )
        }
    }

    /// Runs a stage's program.
    ///
    /// # Safety
    /// As [`DeviceCohort::decode`].
    #[allow(clippy::too_many_arguments)]
    pub(crate) unsafe fn run(
        &self,
        gpu: &dyn Gpu,
        stream: Stream,
        service: &DeviceService,
        page: usize,
        stage: usize,
        limits: LaneLimits,
        case_tables: Address,
    ) -> Result<(), GpuError> {
        let page = &service.pages[page];
        let program = &page.stages[stage];
        let bounded = |limit: usize| limit.min(1 << 30) as u32;
        let arguments = StageArgs {
            code: program.code,
            constants: program.constants,
            parts: program.parts,
            tables: page.tables,
            columns: self.columns,
            arena: self.arena,
            fragment_bytes: service.fragment_bytes,
            case_tables,
            registers: self.registers,
            lane_list: self.lane_list,
            lane_count: self.lane_count,
            results: self.results,
            regions: self.regions,
            lanes: self.lanes,
            register_count: program.registers,
            constant_count: program.constant_count,
            has_call: u32::from(program.has_call),
            body_bytes_max: bounded(limits.body_bytes),
            text_bytes_max: bounded(limits.text_bytes),
            turns_max: bounded(limits.turns),
            unused: 0,
        };
        let grid = Grid::over(self.lanes as usize, WARP as u32);
        if is_spilled(program.registers) {
            // SAFETY: the caller's promise.
            return unsafe { launch(gpu, stream, grid, &SpilledStageArgs(arguments)) };
        }
        let grid = grid.with_shared(register_bytes(program.registers) as u32);
        // SAFETY: the caller's promise.
        unsafe { launch(gpu, stream, grid, &arguments) }
    }

    /// Answers the requests that a stage asked, on the device.
    ///
    /// # Safety
    /// As [`DeviceCohort::decode`]; the arena has room for the answers.
    pub(crate) unsafe fn answer(
        &self,
        gpu: &SharedGpu,
        stream: Stream,
        besim: &BesimTables,
    ) -> Result<(), GpuError> {
        let cohort = BesimCohort {
            lanes: self.lanes,
            results: self.results,
            request_stride: self.regions.request_stride,
            requests: self.regions.requests,
            answers: self.answers,
            arena: self.arena,
            answer_base: self.answer_base,
            answer_stride: ANSWER_BYTES,
        };
        // SAFETY: the caller's promise.
        unsafe { besim.launch(gpu, stream, &cohort) }
    }

    /// What its bodies are made of.
    pub(crate) fn pieces(&self, service: &DeviceService) -> Pieces {
        Pieces {
            results: self.results,
            runs: self.regions.runs,
            segments: self.regions.segments,
            fragments: service.fragments,
            fragment_bytes: service.fragment_bytes,
            heads: Address(0),
            head_lengths: Address(0),
            lane_count: self.lane_count,
            run_stride: self.regions.run_stride,
            segment_stride: self.regions.segment_stride,
            head_stride: 0,
            lanes: self.lanes,
        }
    }
}

/// Tiles of columns: where they are, and how many rows each has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiles {
    pub(crate) units: Address,
    pub(crate) rows_used: Address,
    pub(crate) rows: u32,
}

impl Tiles {
    /// How many tiles so many lanes have.
    pub(crate) fn count(lanes: usize) -> usize {
        lanes.div_ceil(WARP)
    }

    /// Bytes of their units.
    pub(crate) fn bytes(lanes: usize, rows: u32) -> usize {
        Tiles::count(lanes) * WARP * UNIT * rows as usize
    }
}

/// Where bodies are written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    /// Where each lane's begins (`lane_offsets`), or 0: `pitch` bytes apart.
    pub(crate) offsets: Address,
    pub(crate) pitch: u64,
    pub(crate) out: Address,
    pub(crate) bytes: u64,
    /// With runs alone: where their segments go, and how many there is room for.
    pub(crate) segments: Address,
    pub(crate) segment_count: u32,
}

/// Renders bodies row by row, or their runs alone.
///
/// # Safety
/// The addresses are good until the stream has done it.
pub(crate) unsafe fn render_row(
    gpu: &dyn Gpu,
    stream: Stream,
    pieces: Pieces,
    to: &Destination,
    runs_only: bool,
) -> Result<(), GpuError> {
    let arguments = RowArgs {
        pieces,
        offsets: to.offsets,
        out: to.out,
        segments_out: to.segments,
        out_capacity: to.bytes,
        pitch: to.pitch,
        segments_capacity: to.segment_count,
        runs_only: u32::from(runs_only),
    };
    // SAFETY: the caller's promise.
    unsafe {
        launch(
            gpu,
            stream,
            Grid::over(pieces.lanes as usize * WARP, 128),
            &arguments,
        )
    }
}

/// Renders bodies into columns.
///
/// # Safety
/// The addresses are good until the stream has done it.
pub(crate) unsafe fn render_columns(
    gpu: &dyn Gpu,
    stream: Stream,
    pieces: Pieces,
    tiles: &Tiles,
    rows_needed: Address,
) -> Result<(), GpuError> {
    let arguments = ColumnArgs {
        pieces,
        tiles: tiles.units,
        tile_rows: tiles.rows_used,
        rows_needed,
        rows_capacity: tiles.rows,
        unused: 0,
    };
    // SAFETY: the caller's promise.
    unsafe {
        launch(
            gpu,
            stream,
            Grid::over(pieces.lanes as usize, 128),
            &arguments,
        )
    }
}

/// Turns columns into bodies, one after the other.
///
/// # Safety
/// The addresses are good until the stream has done it.
pub(crate) unsafe fn transpose_columns(
    gpu: &dyn Gpu,
    stream: Stream,
    pieces: Pieces,
    tiles: &Tiles,
    to: &Destination,
) -> Result<(), GpuError> {
    let arguments = TransposeArgs {
        pieces,
        offsets: to.offsets,
        tiles: tiles.units,
        tile_rows: tiles.rows_used,
        out: to.out,
        out_capacity: to.bytes,
        pitch: to.pitch,
        rows_capacity: tiles.rows,
        unused: 0,
    };
    let grid = Grid {
        blocks: Tiles::count(pieces.lanes as usize) as u32,
        threads: 256,
        shared_bytes: 0,
    };
    // SAFETY: the caller's promise.
    unsafe { launch(gpu, stream, grid, &arguments) }
}

/// Whether a call's backend is the embedded BeSim of this bank, which the device has, too.
pub(crate) fn is_embedded(service: &Service, backend: usize, bank: &Bank) -> bool {
    let config = service.backends.get(backend);
    config.is_some_and(|config| config.url.is_none() && config.users == bank.users())
}
