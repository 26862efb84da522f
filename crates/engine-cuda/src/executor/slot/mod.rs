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

mod delivered;

pub(crate) use delivered::{Counters, Delivered};

use super::job::Job;
use super::upload::{Bundle, DeviceService};
use crate::abi::{LaneResult, NO_TEXT};
use crate::besim::{ANSWER_BYTES, BesimTables};
use crate::cohort::{
    Destination, DeviceCohort, Places, RegionPlaces, Tiles, render_columns, render_row,
    transpose_columns,
};
use crate::gpu::{Address, DeviceBuffer, GpuError, Grid, PinnedBuffer, SharedGpu, Stream, launch};
use crate::launch::{DeliveredText, HeaderValue, LaneOffsets, OffsetsArgs, TextsArgs, UNIT};
use crate::layout::Layout;
use delivered::{ColumnPlace, Delivery, Room};
use rhythm_engine::cohort::Segment;
use rhythm_engine::cohort::{Column, Span, View};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is called when a slot's launch has ended.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// What a completion tells.
#[derive(Debug, Default)]
struct Completed {
    done: AtomicBool,
    error: Mutex<Option<GpuError>>,
}

/// What all jobs of an executor share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) layout: Layout,
    /// Most memory for the lanes of one launch.
    pub(crate) launch_bytes: usize,
    pub(crate) case_tables: DeviceBuffer,
    /// The backend on the device.
    pub(crate) besim: Option<BesimTables>,
}

/// Where a launch's input is.
#[derive(Clone, Copy, Debug, Default)]
struct InputPlaces {
    /// Each slot's column.
    columns_end: usize,
    table: usize,
    lane_list: usize,
    asked: usize,
    answers: usize,
    counters: usize,
}

/// See the module.
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
    delivery: Delivery,
    pub(crate) job: Option<Job>,
}

impl Slot {
    /// A slot with memory for cohorts of so many lanes of a usual page.
    pub(crate) fn new(gpu: &SharedGpu, shared: &Shared, lanes: usize) -> Result<Slot, GpuError> {
        // What Banking's pages need at most, and round.
        let whole_bodies = shared.layout != Layout::Runs;
        let is_column = matches!(shared.layout, Layout::A | Layout::B | Layout::C);
        let answers = shared.besim.as_ref().map_or(0, |_| ANSWER_BYTES as usize);
        let columns = if is_column {
            Tiles::bytes(lanes, 2048)
        } else {
            0
        };
        let body = if whole_bodies { 32 << 10 } else { 2 << 10 };
        let device = |bytes: usize| DeviceBuffer::new(gpu, bytes);
        let pinned = |bytes: usize| PinnedBuffer::new(gpu, bytes);
        Ok(Slot {
            gpu: gpu.clone(),
            stream: gpu.stream()?,
            bundle: Bundle::default(),
            input: pinned(lanes * 512)?,
            input_device: device(lanes * 512)?,
            arena_pinned: pinned(lanes * 1024)?,
            arena: device(lanes * (2048 + answers))?,
            regions: device(lanes * 8192)?,
            items: device(lanes * 1024)?,
            tiles: device(columns)?,
            out: pinned(lanes * (1024 + body))?,
            back: pinned(lanes * 1024)?,
            completed: Arc::default(),
            delivery: Delivery::default(),
            job: None,
        })
    }

    /// Whether the launch under way has ended, and how.
    pub(crate) fn take_completed(&mut self) -> Option<Result<(), GpuError>> {
        if !self.completed.done.swap(false, Ordering::Acquire) {
            return None;
        }
        let mut error = self
            .completed
            .error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Some(error.take().map_or(Ok(()), Err))
    }

    /// Waits for whatever the stream has been given: before memory that a failed launch may still
    /// use is touched.
    pub(crate) fn drain(&self) {
        // An error means that nothing runs any more.
        let _ = self.gpu.synchronize(self.stream);
    }

    /// Launches as many of the job's pending lanes as there is room for.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`]: there is no room for a single one, or the device has none; nothing was launched.
    pub(crate) fn launch(
        &mut self,
        job: &mut Job,
        service: &DeviceService,
        shared: &Shared,
        wake: &Wake,
    ) -> Result<(), GpuError> {
        let shares = job.room.shares;
        let page = &service.pages[job.work.page];
        let is_column = matches!(shared.layout, Layout::A | Layout::B | Layout::C);
        // Answers made on the device; those of the host are in the arena already.
        let answers = if job.first < job.last {
            shares.requests as usize
        } else {
            0
        };
        let answer_bytes = answers * ANSWER_BYTES as usize;
        let text_base = job.work.cohort.arena.bytes().len().next_multiple_of(UNIT);
        let lane_bytes = shares.run as usize
            + shares.segments as usize * size_of::<Segment>()
            + shares.text as usize
            + shares.requests as usize * 2 * size_of::<View>()
            + answer_bytes
            + shares.headers as usize * size_of::<HeaderValue>()
            + if is_column {
                job.room.rows as usize * UNIT
            } else {
                0
            }
            + job.room.body as usize
            + job.room.texts as usize;
        // Views have 32 bits.
        let arena_left = (u32::MAX as usize).saturating_sub(text_base + (1 << 16));
        let lanes = job
            .pending
            .len()
            .min((shared.launch_bytes / lane_bytes).max(1))
            .min(arena_left / (shares.text as usize + answer_bytes).max(1));
        if lanes == 0 {
            // Its texts leave no room in 32 bits.
            return Err(GpuError::OutOfMemory(lane_bytes));
        }
        job.launched = lanes;

        // All memory before anything is put into the stream.
        let input = self.pack(job, &page.page, lanes)?;
        let registers = page.stages[job.first..=job.last]
            .iter()
            .map(|stage| stage.registers)
            .max();
        let mut places = Places::default();
        let region_places = RegionPlaces::new(&mut places, lanes, &shares, registers.unwrap_or(0));
        let offsets = places.take::<LaneOffsets>(lanes + 1);
        let tile_rows = places.take::<u32>(Tiles::count(lanes));
        self.regions.grow(places.0)?;
        let answer_base = (text_base + lanes * shares.text as usize).next_multiple_of(UNIT);
        self.arena
            .grow((answer_base + lanes * answer_bytes).max(UNIT))?;
        let tile_bytes = if is_column {
            Tiles::bytes(lanes, job.room.rows)
        } else {
            0
        };
        self.tiles.grow(tile_bytes)?;
        // Columns that were decoded come back where a stage on the host's side of the next call
        // needs them.
        let decoded_back = job.first > 0 && !job.is_last();
        self.plan_delivery(
            job,
            shared.layout,
            lanes,
            tile_bytes,
            decoded_back.then_some(input.columns_end),
        )?;

        let at = |place: usize| self.regions.address().plus(place);
        let from = |place: usize| self.input_device.address().plus(place);
        let cohort = DeviceCohort {
            lane_list: from(input.lane_list),
            columns: from(input.table),
            arena: self.arena.address(),
            answer_base: answer_base as u32,
            item_stride: job.room.items,
            counters: from(input.counters),
            ..DeviceCohort::new(
                self.regions.address(),
                &region_places,
                &shares,
                lanes,
                text_base,
            )
        };
        let tiles = Tiles {
            units: self.tiles.address(),
            rows_used: at(tile_rows),
            rows: job.room.rows,
        };
        let gpu = &*self.gpu;
        let stream = self.stream;
        // SAFETY: all addresses are of this slot's buffers, grown above to what the kernels use, or
        // of the service's and the executor's, which outlive the job. None of them is touched again
        // before the completion has been taken.
        unsafe {
            gpu.copy(
                stream,
                from(0),
                self.input.address(),
                self.bundle.bytes().len(),
            )?;
            gpu.copy(
                stream,
                self.arena.address(),
                self.arena_pinned.address(),
                text_base,
            )?;
            gpu.fill(stream, cohort.results, 0, lanes * size_of::<LaneResult>())?;
            for stage in job.first..=job.last {
                if stage > 0 {
                    let from_host =
                        (stage == job.first).then(|| [from(input.asked), from(input.answers)]);
                    cohort.decode(gpu, stream, service, job.work.page, stage - 1, from_host)?;
                }
                let case_tables = shared.case_tables.address();
                cohort.run(
                    gpu,
                    stream,
                    service,
                    job.work.page,
                    stage,
                    job.limits,
                    case_tables,
                )?;
                if let (true, Some(besim)) = (stage < job.last, &shared.besim) {
                    cohort.answer(&self.gpu, stream, besim)?;
                }
            }
            self.deliver(&cohort, service, shared.layout, &tiles, at(offsets))?;
            let back = |place: usize| self.back.address().plus(place);
            let delivery = &self.delivery;
            gpu.copy(
                stream,
                back(delivery.offsets),
                at(offsets),
                (lanes + 1) * size_of::<LaneOffsets>(),
            )?;
            gpu.copy(
                stream,
                back(delivery.counters),
                cohort.counters,
                size_of::<Counters>(),
            )?;
            gpu.copy(
                stream,
                back(delivery.tile_rows),
                at(tile_rows),
                Tiles::count(lanes) * size_of::<u32>(),
            )?;
            if decoded_back {
                gpu.copy(stream, back(delivery.columns), from(0), input.columns_end)?;
                gpu.copy(
                    stream,
                    back(delivery.items),
                    self.items.address(),
                    delivery.item_bytes,
                )?;
            }
        }
        let (completed, wake) = (self.completed.clone(), wake.clone());
        let call = move |outcome: Result<(), GpuError>| {
            *completed
                .error
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = outcome.err();
            completed.done.store(true, Ordering::Release);
            wake();
        };
        self.gpu.on_completion(self.stream, Box::new(call))
    }

    /// Puts what the device needs of the cohort into the pinned buffers.
    fn pack(
        &mut self,
        job: &Job,
        page: &crate::program::Page,
        lanes: usize,
    ) -> Result<InputPlaces, GpuError> {
        let cohort = &job.work.cohort;
        let program = job.work.program();
        // The lists that this launch decodes have their items in pools of their own.
        let decoded = |slot: u32| {
            let calls = job.first.max(1)..=job.last;
            (calls.into_iter()).any(|stage| page.decodings[stage - 1].spans == Some(slot))
        };
        let mut pools = Places::default();
        let places = &mut self.delivery.column_places;
        places.clear();
        self.bundle.clear();
        for (field, &slot) in cohort.fields.iter().zip(&page.slots) {
            match field {
                Column::Text(views) => places.push(ColumnPlace::Input(self.bundle.push(views))),
                Column::Int(values) => places.push(ColumnPlace::Input(self.bundle.push(values))),
                Column::List(list) => {
                    places.push(ColumnPlace::Input(self.bundle.push(&list.spans)));
                    for column in &list.columns {
                        places.push(match column {
                            _ if decoded(slot) => ColumnPlace::Items(
                                pools.take::<u64>(cohort.len() * job.room.items as usize),
                            ),
                            Column::Text(views) => ColumnPlace::Input(self.bundle.push(views)),
                            Column::Int(values) => ColumnPlace::Input(self.bundle.push(values)),
                            Column::List(_) => unreachable!("records have no lists"),
                        });
                    }
                }
            }
        }
        debug_assert_eq!(program.fields.len(), page.slots.len());
        let columns_end = self.bundle.bytes().len();
        let list = &job.pending[..lanes];
        let lane_list = self.bundle.push(list);
        let mut asked: Vec<Span> = Vec::with_capacity(lanes);
        let mut at = 0;
        for &lane in list {
            // Requests are in order of lanes, and so is the list.
            let requests = &cohort.requests;
            while requests.get(at).is_some_and(|request| request.lane < lane) {
                at += 1;
            }
            let start = at;
            while requests.get(at).is_some_and(|request| request.lane == lane) {
                at += 1;
            }
            asked.push(Span {
                start: start as u32,
                length: (at - start) as u32,
            });
        }
        let asked = self.bundle.push(&asked);
        let none = View {
            offset: 0,
            length: NO_TEXT,
        };
        let answers: Vec<View> = cohort
            .requests
            .iter()
            .map(|request| request.answer.unwrap_or(none))
            .collect();
        let answers = self.bundle.push(&answers);
        let counters = self.bundle.reserve(size_of::<Counters>());
        let table = self.bundle.bytes().len();
        let table_bytes = (page.slot_count as usize * size_of::<u64>()).max(UNIT);
        self.input_device.grow(table + table_bytes)?;
        self.items.grow(pools.0)?;
        self.delivery.item_bytes = pools.0;
        let (input, items) = (self.input_device.address(), self.items.address());
        let addresses: Vec<u64> = (self.delivery.column_places.iter())
            .map(|place| match *place {
                ColumnPlace::Input(at) => input.plus(at).0,
                ColumnPlace::Items(at) => items.plus(at).0,
            })
            .collect();
        self.bundle.push(&addresses);
        self.input.grow(self.bundle.bytes().len().max(UNIT))?;
        let arena = cohort.arena.bytes();
        self.arena_pinned.grow(arena.len().max(UNIT))?;
        // SAFETY: the slot has no launch under way, so nobody uses the buffers.
        unsafe {
            self.input.bytes_mut()[..self.bundle.bytes().len()]
                .copy_from_slice(self.bundle.bytes());
            self.arena_pinned.bytes_mut()[..arena.len()].copy_from_slice(arena);
        }
        Ok(InputPlaces {
            columns_end,
            table,
            lane_list,
            asked,
            answers,
            counters,
        })
    }

    /// Decides where what is delivered goes.
    fn plan_delivery(
        &mut self,
        job: &Job,
        layout: Layout,
        lanes: usize,
        tile_bytes: usize,
        columns_back: Option<usize>,
    ) -> Result<(), GpuError> {
        let shares = &job.room.shares;
        let delivery = &mut self.delivery;
        let mut out = Places::default();
        delivery.lanes = lanes;
        delivery.item_stride = job.room.items as usize;
        delivery.tile_capacity = job.room.rows as usize;
        delivery.results = out.take::<LaneResult>(lanes);
        delivery.requests = Room::take::<DeliveredText>(&mut out, lanes * shares.requests as usize);
        delivery.headers = Room::take::<DeliveredText>(&mut out, lanes * shares.headers as usize);
        let segments = if layout == Layout::Runs {
            lanes * shares.segments as usize
        } else {
            0
        };
        delivery.segments = Room::take::<Segment>(&mut out, segments);
        // The device counts them in 32 bits, of which the last says that it cannot.
        let texts = (lanes * job.room.texts as usize).min(u32::MAX as usize - 1);
        delivery.texts = Room::take::<u8>(&mut out, texts);
        let bodies = match layout {
            Layout::C => tile_bytes,
            _ => lanes * job.room.body as usize,
        };
        delivery.bodies = Room::take::<u8>(&mut out, bodies);
        self.out.grow(out.0)?;
        let mut back = Places::default();
        delivery.offsets = back.take::<LaneOffsets>(lanes + 1);
        delivery.counters = back.take::<Counters>(1);
        delivery.tile_rows = back.take::<u32>(Tiles::count(lanes));
        if let Some(columns) = columns_back {
            delivery.columns = back.take::<u8>(columns);
            delivery.items = back.take::<u8>(delivery.item_bytes);
        }
        self.back.grow(back.0)
    }

    /// Launches what brings the results to the host.
    ///
    /// # Safety
    /// As in [`Slot::launch`].
    unsafe fn deliver(
        &self,
        cohort: &DeviceCohort,
        service: &DeviceService,
        layout: Layout,
        tiles: &Tiles,
        offsets: Address,
    ) -> Result<(), GpuError> {
        let gpu = &*self.gpu;
        let stream = self.stream;
        let delivery = &self.delivery;
        let out = |place: usize| self.out.address().plus(place);
        let sums = OffsetsArgs {
            results: cohort.results,
            offsets,
            lanes: cohort.lanes,
            runs_only: u32::from(layout == Layout::Runs),
        };
        let one_block = Grid {
            blocks: 1,
            threads: 256,
            shared_bytes: 0,
        };
        let texts = TextsArgs {
            results: cohort.results,
            offsets,
            lane_list: cohort.lane_list,
            arena: cohort.arena,
            results_out: out(delivery.results),
            requests_out: out(delivery.requests.at),
            headers_out: out(delivery.headers.at),
            texts_out: out(delivery.texts.at),
            regions: cohort.regions,
            lanes: cohort.lanes,
            requests_capacity: delivery.requests.count as u32,
            headers_capacity: delivery.headers.count as u32,
            texts_capacity: delivery.texts.count as u32,
        };
        let to = Destination {
            offsets,
            pitch: 0,
            out: out(delivery.bodies.at),
            bytes: delivery.bodies.count as u64,
            segments: out(delivery.segments.at),
            segment_count: delivery.segments.count as u32,
        };
        let pieces = cohort.pieces(service);
        let rows_needed = cohort.counters.plus(size_of::<u32>());
        // SAFETY: the caller's promise.
        unsafe {
            launch(gpu, stream, one_block, &sums)?;
            launch(gpu, stream, Grid::over(cohort.lanes as usize, 128), &texts)?;
            match layout {
                Layout::Row | Layout::Runs => {
                    render_row(gpu, stream, pieces, &to, layout == Layout::Runs)
                }
                Layout::A | Layout::B => {
                    render_columns(gpu, stream, pieces, tiles, rows_needed)?;
                    transpose_columns(gpu, stream, pieces, tiles, &to)
                }
                Layout::C => {
                    render_columns(gpu, stream, pieces, tiles, rows_needed)?;
                    gpu.copy(stream, to.out, tiles.units, delivery.bodies.count)
                }
            }
        }
    }

    /// What the launch delivered; it has been taken as completed.
    pub(crate) fn delivered(&self) -> Delivered<'_> {
        Delivered {
            delivery: &self.delivery,
            // SAFETY: the launch has completed, and the next one begins when the borrow has ended.
            out: unsafe { self.out.bytes() },
            // SAFETY: likewise.
            back: unsafe { self.back.bytes() },
        }
    }
}
