//! A slot: a stream and the memory in which one job at a time runs on the device.
//!
//! ```text
//!   host columns --pack--> input, arena --copy--> device
//!     decode_answers, run_stage (and besim, decode, run_stage ... where the backend is on the device)
//!     lane_offsets, deliver_texts, render_* ----> out, written by the kernels in the host's own memory
//!   offsets, counters, decoded columns --copy--> back
//! ```
//! All memory is the slot's own, grows to what its jobs need and is kept.
#![allow(unsafe_code)]

use super::job::Job;
use super::upload::{Bundle, DevicePage, DeviceService};
use crate::abi::{LaneResult, NO_TEXT};
use crate::besim::{ANSWER_BYTES, BesimArgs, BesimTables};
use crate::gpu::{Address, DeviceBuffer, GpuError, Grid, PinnedBuffer, SharedGpu, Stream, launch};
use crate::launch::{
    ColumnArgs, DecodeArgs, DeliveredText, HeaderValue, LaneOffsets, NO_SLOT, OffsetsArgs, Pieces, Regions,
    RowArgs, StageArgs, TextsArgs, TransposeArgs, UNIT, WARP,
};
use crate::layout::Layout;
use rhythm_engine::cohort::{Cohort, Column, LaneState, Span, View};
use rhythm_engine::device::Segment;
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Registers of a warp go to shared memory up to so many bytes; beyond, fewer warps would run at a time than with global memory.
const SHARED_REGISTERS_MAX: usize = 48 << 10;

/// Most device memory that one launch uses for its lanes' regions; larger cohorts run in several launches.
const REGION_BYTES_MAX: usize = 1 << 30;

/// What a completion tells.
#[derive(Debug, Default)]
struct Completed {
    done: AtomicBool,
    error: Mutex<Option<GpuError>>,
}

/// Places in a buffer, handed out one after the other.
#[derive(Debug, Default)]
struct Places(usize);

impl Places {
    fn take<T>(&mut self, items: usize) -> usize {
        let at = self.0;
        self.0 = (at + items * size_of::<T>()).next_multiple_of(256);
        at
    }
}

/// Where things are in `out` and `back` after a launch, and how much room there was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) lanes: usize,
    results: usize,
    requests: usize,
    headers: usize,
    segments: usize,
    texts: usize,
    bodies: usize,
    tile_rows: usize,
    offsets: usize,
    counters: usize,
    columns: usize,
    items: usize,
    item_stride: usize,
    rows_capacity: usize,
    requests_capacity: usize,
    headers_capacity: usize,
    segments_capacity: usize,
    texts_capacity: usize,
    bodies_capacity: usize,
}

/// What the device counted beside its results.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Counters {
    /// The most rows of answers that a lane has, where its share was too small.
    pub(crate) item_rows: u32,
    /// The most rows of a tile, likewise.
    pub(crate) tile_rows: u32,
    unused: [u32; 2],
}

#[derive(Debug)]
pub(crate) struct Slot {
    gpu: SharedGpu,
    stream: Stream,
    bundle: Bundle,
    input: PinnedBuffer,
    input_device: DeviceBuffer,
    arena_pinned: PinnedBuffer,
    arena: DeviceBuffer,
    regions: DeviceBuffer,
    items: DeviceBuffer,
    tiles: DeviceBuffer,
    out: PinnedBuffer,
    back: PinnedBuffer,
    completed: Arc<Completed>,
    pub(crate) delivery: Delivery,
    pub(crate) job: Option<Job>,
}

/// What all jobs of an executor share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) layout: Layout,
    pub(crate) case_tables: DeviceBuffer,
    /// The backend on the device, and its number of users.
    pub(crate) besim: Option<(BesimTables, u32)>,
}

impl Slot {
    pub(crate) fn new(gpu: &SharedGpu) -> Result<Slot, GpuError> {
        let device = || DeviceBuffer::new(gpu, 0);
        let pinned = || PinnedBuffer::new(gpu, 0);
        Ok(Slot {
            gpu: gpu.clone(),
            stream: gpu.stream()?,
            bundle: Bundle::default(),
            input: pinned()?,
            input_device: device()?,
            arena_pinned: pinned()?,
            arena: device()?,
            regions: device()?,
            items: device()?,
            tiles: device()?,
            out: pinned()?,
            back: pinned()?,
            completed: Arc::default(),
            delivery: Delivery::default(),
            job: None,
        })
    }

    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    /// Whether the launch under way has ended, well or not.
    pub(crate) fn take_completed(&mut self) -> Option<Result<(), GpuError>> {
        if !self.completed.done.swap(false, Ordering::Acquire) {
            return None;
        }
        let error = self.completed.error.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        Some(error.map_or(Ok(()), Err))
    }

    /// Launches as many of the job's pending lanes as there is room for. `Ok(false)`: there is none for a single one.
    pub(crate) fn launch(
        &mut self,
        job: &mut Job,
        service: &DeviceService,
        shared: &Shared,
        wake: &Arc<dyn Fn() + Send + Sync>,
    ) -> Result<bool, GpuError> {
        let cohort = &job.work.cohort;
        let page = &service.pages[job.work.page];
        let room = job.room;
        let answers = if job.first < job.last { room.requests as usize } else { 0 };
        let text_base = cohort.arena.bytes().len().next_multiple_of(UNIT);
        let of_lane = [
            room.run as usize,
            room.segments as usize * size_of::<Segment>(),
            room.text as usize,
            room.requests as usize * 2 * size_of::<View>() + answers * ANSWER_BYTES,
            room.headers as usize * size_of::<HeaderValue>(),
            room.rows as usize * UNIT * usize::from(!matches!(shared.layout, Layout::Row | Layout::Runs)),
            size_of::<LaneResult>() + size_of::<LaneOffsets>(),
        ];
        let in_memory = REGION_BYTES_MAX / of_lane.iter().sum::<usize>();
        // Views have 32 bits.
        let in_arena = (u32::MAX as usize - text_base - 256) / (room.text as usize + answers * ANSWER_BYTES).max(1);
        let lanes = job.pending.len().min(in_memory).min(in_arena);
        if lanes == 0 {
            return Ok(false);
        }
        job.launched = lanes;
        let list = &job.pending[..lanes];

        // Memory, all of it before anything is put into the stream.
        let mut places = Places::default();
        let results = places.take::<LaneResult>(lanes);
        let offsets = places.take::<LaneOffsets>(lanes + 1);
        let runs = places.take::<u8>(lanes * room.run as usize);
        let segments = places.take::<Segment>(lanes * room.segments as usize);
        let requests = places.take::<View>(lanes * room.requests as usize);
        let headers = places.take::<HeaderValue>(lanes * room.headers as usize);
        let answer_views = places.take::<View>(lanes * answers);
        let tile_rows = places.take::<u32>(lanes.div_ceil(WARP));
        let registers_max = (job.first..=job.last).map(|s| page.stages[s].registers as usize).max().unwrap_or(0);
        let spills = registers_max * WARP * size_of::<u64>() > SHARED_REGISTERS_MAX;
        let registers = places.take::<u64>(if spills { lanes.next_multiple_of(WARP) * registers_max } else { 0 });
        self.regions.grow(places.0)?;
        let answer_base = (text_base + lanes * room.text as usize).next_multiple_of(UNIT);
        self.arena.grow(answer_base + lanes * answers * ANSWER_BYTES + UNIT)?;
        self.arena_pinned.grow(text_base + UNIT)?;
        let columns_end = self.pack(job, page, lanes)?;
        let is_column = matches!(shared.layout, Layout::A | Layout::B | Layout::C);
        let tiles = if is_column { lanes.div_ceil(WARP) } else { 0 };
        self.tiles.grow(tiles * WARP * UNIT * room.rows as usize)?;

        let mut places = Places::default();
        let mut delivery = Delivery {
            lanes,
            item_stride: room.items as usize,
            rows_capacity: room.rows as usize,
            requests_capacity: lanes * room.requests as usize,
            headers_capacity: lanes * room.headers as usize,
            segments_capacity: if shared.layout == Layout::Runs { lanes * room.segments as usize } else { 0 },
            texts_capacity: lanes * room.texts as usize,
            bodies_capacity: match shared.layout {
                Layout::C => tiles * WARP * UNIT * room.rows as usize,
                _ => lanes * room.body as usize,
            },
            ..Delivery::default()
        };
        delivery.results = places.take::<LaneResult>(lanes);
        delivery.requests = places.take::<DeliveredText>(delivery.requests_capacity);
        delivery.headers = places.take::<DeliveredText>(delivery.headers_capacity);
        delivery.segments = places.take::<Segment>(delivery.segments_capacity);
        delivery.texts = places.take::<u8>(delivery.texts_capacity);
        delivery.bodies = places.take::<u8>(delivery.bodies_capacity);
        self.out.grow(places.0)?;
        let mut places = Places::default();
        // Columns that later stages on the host's side of the next call need.
        let decodes_back = job.first > 0 && !job.is_last();
        delivery.offsets = places.take::<LaneOffsets>(lanes + 1);
        delivery.counters = places.take::<Counters>(1);
        delivery.tile_rows = places.take::<u32>(tiles);
        delivery.columns = places.take::<u8>(if decodes_back { columns_end } else { 0 });
        delivery.items = places.take::<u8>(if decodes_back { self.items.len() } else { 0 });
        self.back.grow(places.0)?;

        let input = self.input_device.address();
        let at = |place: usize| self.regions.address().plus(place);
        let places = self.pack_places;
        let regions = Regions {
            runs: at(runs),
            segments: at(segments),
            run_stride: room.run,
            segment_stride: room.segments,
            text_base: text_base as u32,
            text_stride: room.text,
            requests: at(requests),
            headers: at(headers),
            request_stride: room.requests,
            header_stride: room.headers,
        };
        let gpu = &*self.gpu;
        let stream = self.stream;
        // SAFETY: all addresses are of this slot's buffers (or of the service's and the executor's, which outlive the job), grown
        // above to what the kernels use, and none of them is touched again before the stream has come to its end:
        // `launch` and the reading of `out` and `back` wait for the completion.
        unsafe {
            gpu.copy(stream, input, self.input.address(), self.bundle.bytes().len())?;
            gpu.copy(stream, self.arena.address(), self.arena_pinned.address(), text_base)?;
            gpu.fill(stream, at(results), 0, lanes * size_of::<LaneResult>())?;
            for stage in job.first..=job.last {
                if stage > 0 {
                    let decoding = page.decoding(stage - 1);
                    let is_first = stage == job.first;
                    let decode = DecodeArgs {
                        decoded: page.decoded[stage - 1],
                        columns: input.plus(places.table),
                        arena: self.arena.address(),
                        asked: if is_first { input.plus(places.asked) } else { Address(0) },
                        answers: if is_first { input.plus(places.answers) } else { at(answer_views) },
                        lane_list: input.plus(places.lane_list),
                        lane_count: Address(0),
                        results: at(results),
                        rows_needed: input.plus(places.counters),
                        lanes: lanes as u32,
                        request_stride: room.requests,
                        decoded_count: decoding.columns.len() as u32,
                        status_slot: decoding.status,
                        spans_slot: decoding.spans.unwrap_or(NO_SLOT),
                        item_stride: room.items,
                    };
                    launch(gpu, stream, Grid::over(lanes, 128), &decode)?;
                }
                let program = &page.stages[stage];
                let shared_bytes = program.registers * (WARP * size_of::<u64>()) as u32;
                let run = StageArgs {
                    code: program.code,
                    constants: program.constants,
                    parts: program.parts,
                    tables: page.tables,
                    columns: input.plus(places.table),
                    arena: self.arena.address(),
                    fragments: service.fragments,
                    fragment_bytes: service.fragment_bytes,
                    case_tables: shared.case_tables.address(),
                    registers: if spills { at(registers) } else { Address(0) },
                    lane_list: input.plus(places.lane_list),
                    lane_count: Address(0),
                    results: at(results),
                    regions,
                    lanes: lanes as u32,
                    register_count: program.registers,
                    constant_count: program.constant_count,
                    has_call: u32::from(job.work.program().stages[stage].call.is_some()),
                    body_bytes_max: job.limits.body_bytes.min(u32::MAX as usize / 2) as u32,
                    text_bytes_max: job.limits.text_bytes.min(u32::MAX as usize / 2) as u32,
                    turns_max: job.limits.turns.min(u32::MAX as usize) as u32,
                    unused: 0,
                };
                let grid = Grid::over(lanes, WARP as u32).with_shared(if spills { 0 } else { shared_bytes });
                launch(gpu, stream, grid, &run)?;
                if let (true, Some((tables, users))) = (stage < job.last, &shared.besim) {
                    let besim = BesimArgs {
                        requests: at(requests),
                        request_stride: room.requests,
                        lanes: lanes as u32,
                        results: at(results),
                        answers: at(answer_views),
                        arena: self.arena.address(),
                        answer_base: answer_base as u32,
                        answer_stride: ANSWER_BYTES as u32,
                        names: tables.address(),
                        users: *users,
                        unused: 0,
                    };
                    launch(gpu, stream, Grid::over(lanes * room.requests as usize, 128), &besim)?;
                }
            }
            let runs_only = u32::from(shared.layout == Layout::Runs);
            let to_offsets = OffsetsArgs {
                results: at(results),
                offsets: at(offsets),
                lanes: lanes as u32,
                runs_only,
            };
            let one_block = Grid {
                blocks: 1,
                threads: 256,
                shared_bytes: 0,
            };
            launch(gpu, stream, one_block, &to_offsets)?;
            let out = |place: usize| self.out.address().plus(place);
            let texts = TextsArgs {
                results: at(results),
                offsets: at(offsets),
                lane_list: input.plus(places.lane_list),
                arena: self.arena.address(),
                results_out: out(delivery.results),
                requests_out: out(delivery.requests),
                headers_out: out(delivery.headers),
                texts_out: out(delivery.texts),
                regions,
                lanes: lanes as u32,
                requests_capacity: delivery.requests_capacity as u32,
                headers_capacity: delivery.headers_capacity as u32,
                texts_capacity: delivery.texts_capacity as u32,
            };
            launch(gpu, stream, Grid::over(lanes, 128), &texts)?;
            let pieces = Pieces {
                results: at(results),
                runs: at(runs),
                segments: at(segments),
                fragments: service.fragments,
                fragment_bytes: service.fragment_bytes,
                run_stride: room.run,
                segment_stride: room.segments,
                lanes: lanes as u32,
                ..Pieces::default()
            };
            if is_column {
                let columns = ColumnArgs {
                    pieces,
                    tiles: self.tiles.address(),
                    tile_rows: at(tile_rows),
                    rows_needed: input.plus(places.counters + 4),
                    rows_capacity: room.rows,
                    unused: 0,
                };
                launch(gpu, stream, Grid::over(lanes, 128), &columns)?;
            }
            match shared.layout {
                Layout::Row | Layout::Runs => {
                    let rows = RowArgs {
                        pieces,
                        offsets: at(offsets),
                        out: out(delivery.bodies),
                        segments_out: out(delivery.segments),
                        out_capacity: delivery.bodies_capacity as u64,
                        pitch: 0,
                        segments_capacity: delivery.segments_capacity as u32,
                        runs_only,
                    };
                    launch(gpu, stream, Grid::over(lanes * WARP, 128), &rows)?;
                }
                Layout::A | Layout::B => {
                    let turn = TransposeArgs {
                        pieces,
                        offsets: at(offsets),
                        tiles: self.tiles.address(),
                        tile_rows: at(tile_rows),
                        out: out(delivery.bodies),
                        out_capacity: delivery.bodies_capacity as u64,
                        pitch: 0,
                        rows_capacity: room.rows,
                        unused: 0,
                    };
                    launch(gpu, stream, Grid::over(tiles * 256, 256), &turn)?;
                }
                Layout::C => {
                    gpu.copy(stream, out(delivery.bodies), self.tiles.address(), delivery.bodies_capacity)?;
                }
            }
            let back = |place: usize| self.back.address().plus(place);
            gpu.copy(stream, back(delivery.offsets), at(offsets), (lanes + 1) * size_of::<LaneOffsets>())?;
            gpu.copy(stream, back(delivery.counters), input.plus(places.counters), size_of::<Counters>())?;
            if tiles > 0 {
                gpu.copy(stream, back(delivery.tile_rows), at(tile_rows), tiles * 4)?;
            }
            if decodes_back {
                gpu.copy(stream, back(delivery.columns), input, columns_end)?;
                if !self.items.is_empty() {
                    gpu.copy(stream, back(delivery.items), self.items.address(), self.items.len())?;
                }
            }
        }
        let _ = list;
        self.delivery = delivery;
        let (completed, wake) = (self.completed.clone(), wake.clone());
        self.gpu.on_completion(
            self.stream,
            Box::new(move |outcome| {
                *completed.error.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = outcome.err();
                completed.done.store(true, Ordering::Release);
                wake();
            }),
        )?;
        Ok(true)
    }
}
