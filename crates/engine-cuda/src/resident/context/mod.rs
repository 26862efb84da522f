//! A cohort in flight: its memory for one page, and the launches from parsed requests to answers.
#![allow(unsafe_code)]

mod host_backend;
mod read_back;

use super::ResidentOptions;
use super::heads::{BeginArgs, Heads};
use crate::abi::SessionKey;
use crate::besim::{ANSWER_BYTES, BesimTables};
use crate::cohort::{
    Destination, DeviceCohort, Places, RegionPlaces, Tiles, render_columns, render_row,
    transpose_columns,
};
use crate::executor::job::Room;
use crate::executor::upload::{DeviceService, upload};
use crate::gpu::{
    Address, DeviceBuffer, GpuError, Grid, Mark, PinnedBuffer, SharedGpu, Stream, launch,
};
use crate::launch::{LaneOffsets, UNIT};
use crate::layout::Layout;
use crate::parser::{Lanes, PageParams};
use crate::program::Code;
use crate::sessions::DeviceSessions;
use rhythm_besim::Bank;
use rhythm_engine::program::{FieldType, PageProgram};

/// What all cohorts share.
pub(super) struct Shared<'a> {
    pub(super) service: &'a DeviceService,
    pub(super) heads: &'a Heads,
    pub(super) sessions: &'a DeviceSessions,
    pub(super) besim: &'a BesimTables,
    pub(super) bank: Bank,
    pub(super) case_tables: Address,
    pub(super) options: &'a ResidentOptions,
}

/// What a page asks of its cohorts.
#[derive(Clone, Debug)]
pub(super) struct PagePlan {
    pub(super) index: usize,
    pub(super) room: Room,
    /// Bytes of a head and of an answer.
    pub(super) head: usize,
    pub(super) pitch: usize,
    pub(super) param_text: u32,
}

/// Where a context's things are in its memory.
#[derive(Clone, Debug, Default)]
struct PlacesOf {
    table: usize,
    states: usize,
    tickets: usize,
    lane_count: usize,
    keys: usize,
    created: usize,
    randoms: usize,
    heads: usize,
    head_lengths: usize,
    counters: usize,
    tile_rows: usize,
    offsets: usize,
    out: usize,
    out_bytes: usize,
    present: Option<usize>,
    users: Option<usize>,
    answer_base: usize,
    text_base: usize,
    made_base: usize,
}

#[derive(Debug)]
pub(super) struct Context {
    gpu: SharedGpu,
    pub(super) stream: Stream,
    memory: DeviceBuffer,
    arena: DeviceBuffer,
    tiles: DeviceBuffer,
    /// The host's side of a backend on the host.
    pinned: PinnedBuffer,
    back: PinnedBuffer,
    places: PlacesOf,
    cohort: Option<DeviceCohort>,
    plan: Option<PagePlan>,
    /// Put where its memory is free for the next cohort, and where its requests have been parsed.
    pub(super) free: Mark,
    pub(super) parsed: Mark,
}

impl Context {
    pub(super) fn new(gpu: &SharedGpu) -> Result<Context, GpuError> {
        Ok(Context {
            gpu: gpu.clone(),
            stream: gpu.stream()?,
            memory: DeviceBuffer::new(gpu, 0)?,
            arena: DeviceBuffer::new(gpu, 0)?,
            tiles: DeviceBuffer::new(gpu, 0)?,
            pinned: PinnedBuffer::new(gpu, 0)?,
            back: PinnedBuffer::new(gpu, 0)?,
            places: PlacesOf::default(),
            cohort: None,
            plan: None,
            free: gpu.mark()?,
            parsed: gpu.mark()?,
        })
    }

    /// Makes its memory that of a page's cohorts. Nothing of it is in flight.
    pub(super) fn prepare(
        &mut self,
        shared: &Shared<'_>,
        program: &PageProgram,
        params: &PageParams,
        plan: &PagePlan,
        randoms: &[u64],
    ) -> Result<(), GpuError> {
        let lanes = shared.options.cohort;
        let page = &shared.service.pages[plan.index];
        let shares = plan.room.shares;
        let mut places = Places::default();
        let mut columns = Vec::new();
        for (field, kind) in program.fields.iter().enumerate() {
            columns.push(places.take::<u64>(lanes));
            if let FieldType::List(of_records) = &kind.kind {
                let pool = params
                    .lists
                    .iter()
                    .find(|list| usize::from(list.field) == field);
                let items = pool.map_or(plan.room.items, |pool| pool.max_items) as usize;
                columns.extend(of_records.iter().map(|_| places.take::<u64>(lanes * items)));
            }
        }
        let slot = |field: u16| columns[page.page.slots[usize::from(field)] as usize];
        let mut at = PlacesOf {
            present: program.session_fields.map(|fields| slot(fields.present)),
            users: program.session_fields.map(|fields| slot(fields.user)),
            ..PlacesOf::default()
        };
        at.table = places.take::<u64>(columns.len());
        at.states = places.take::<u8>(lanes);
        at.tickets = places.take::<u32>(lanes);
        at.lane_count = places.take::<u32>(4);
        at.keys = places.take::<SessionKey>(lanes);
        at.created = places.take::<SessionKey>(lanes);
        at.randoms = places.take::<u64>(2 * lanes);
        at.heads = places.take::<u8>(lanes * plan.head);
        at.head_lengths = places.take::<u32>(lanes);
        at.counters = places.take::<u32>(4);
        at.tile_rows = places.take::<u32>(Tiles::count(lanes));
        at.offsets = places.take::<LaneOffsets>(lanes + 1);
        let registers = page
            .stages
            .iter()
            .map(|stage| stage.registers)
            .max()
            .unwrap_or(0);
        let regions = RegionPlaces::new(&mut places, lanes, &shares, registers);
        let layout = shared.options.layout;
        let is_column = matches!(layout, Layout::A | Layout::B | Layout::C);
        at.out_bytes = if layout == Layout::C {
            0
        } else {
            lanes * plan.pitch
        };
        at.out = places.take::<u8>(at.out_bytes);
        self.memory.grow_to(places.0)?;
        self.tiles.grow_to(if is_column {
            Tiles::bytes(lanes, plan.room.rows)
        } else {
            0
        })?;
        at.text_base = program.texts.len().next_multiple_of(UNIT);
        at.made_base = at.text_base + lanes * plan.param_text as usize;
        at.answer_base = at.made_base + lanes * shares.text as usize;
        let arena =
            at.answer_base + lanes * shares.requests as usize * ANSWER_BYTES as usize + UNIT;
        if arena > u32::MAX as usize {
            // Views have 32 bits.
            return Err(GpuError::OutOfMemory(arena));
        }
        self.arena.grow_to(arena)?;

        let base = self.memory.address();
        // Tiles beyond the lanes that there are have no rows: nobody renders them, but the
        // transpose looks. SAFETY: it is this context's own memory, of which nothing is in flight.
        unsafe {
            let tile_rows = base.plus(at.tile_rows);
            self.gpu
                .fill(self.stream, tile_rows, 0, Tiles::count(lanes) * 4)?;
        }
        let table: Vec<u8> = columns
            .iter()
            .flat_map(|&column| base.plus(column).0.to_ne_bytes())
            .collect();
        let randoms: Vec<u8> = randoms
            .iter()
            .take(2 * lanes)
            .flat_map(|bits| bits.to_ne_bytes())
            .collect();
        self.fill_in(base.plus(at.table), &table)?;
        self.fill_in(base.plus(at.randoms), &randoms)?;
        self.fill_in(self.arena.address(), &program.texts)?;
        self.cohort = Some(DeviceCohort {
            lane_count: base.plus(at.lane_count),
            columns: base.plus(at.table),
            arena: self.arena.address(),
            answer_base: at.answer_base as u32,
            item_stride: plan.room.items,
            counters: base.plus(at.counters),
            ..DeviceCohort::new(base, &regions, &shares, lanes, at.made_base)
        });
        self.places = at;
        self.plan = Some(plan.clone());
        Ok(())
    }

    /// Copies bytes to the device and waits for it.
    fn fill_in(&self, to: Address, bytes: &[u8]) -> Result<(), GpuError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let from = upload(&self.gpu, self.stream, bytes)?;
        // SAFETY: both are alive until the copy is done, which is waited for.
        unsafe { self.gpu.copy(self.stream, to, from.address(), bytes.len()) }?;
        self.gpu.synchronize(self.stream)
    }

    /// Where the parser puts the lanes.
    pub(super) fn lanes(&self) -> Lanes {
        let at = |place: usize| self.memory.address().plus(place);
        let (page, text) = self
            .plan
            .as_ref()
            .map_or((0, 0), |plan| (plan.index, plan.param_text));
        Lanes {
            page: page as u32,
            first: 0,
            lanes_max: self.cohort.map_or(0, |cohort| cohort.lanes),
            columns: at(self.places.table),
            arena: self.arena.address(),
            text_base: self.places.text_base as u32,
            text_stride: text,
            sessions: at(self.places.keys),
            states: at(self.places.states),
            tickets: at(self.places.tickets),
            lane_count: at(self.places.lane_count),
        }
    }

    /// Launches everything from the parsed lanes to the answers. With the backend on the host it
    /// waits for the device at each call.
    ///
    /// # Safety
    /// The context is prepared, its lanes are parsed in its stream or before it came here, and what
    /// it shares outlives its stream.
    pub(super) unsafe fn process(
        &mut self,
        shared: &Shared<'_>,
        now_ms: u64,
    ) -> Result<(), GpuError> {
        let (Some(cohort), Some(plan)) = (self.cohort, self.plan.clone()) else {
            return Ok(());
        };
        let gpu = self.gpu.clone();
        let stream = self.stream;
        let base = self.memory.address();
        let at = |place: usize| base.plus(place);
        let places = self.places.clone();
        let page = &shared.service.pages[plan.index];
        let options = shared.options;
        let begin = BeginArgs {
            states: at(places.states),
            lane_count: at(places.lane_count),
            results: cohort.results,
            lanes: cohort.lanes,
            unused: 0,
        };
        let last = page.stages.len() - 1;
        // SAFETY: all addresses are of this context's memory, as large as `prepare` made it for
        // this page, or of what is shared; the rest is the caller's promise.
        unsafe {
            gpu.fill(stream, at(places.counters), 0, 16)?;
            launch(
                &*gpu,
                stream,
                Grid::over(cohort.lanes as usize, 128),
                &begin,
            )?;
            if let (Some(present), Some(users)) = (places.present, places.users) {
                let keys = at(places.keys);
                shared.sessions.lookup(
                    stream,
                    keys,
                    cohort.lanes,
                    now_ms,
                    at(present),
                    at(users),
                )?;
            }
            for stage in 0..=last {
                if stage > 0 {
                    cohort.decode(&*gpu, stream, shared.service, plan.index, stage - 1, None)?;
                }
                cohort.run(
                    &*gpu,
                    stream,
                    shared.service,
                    plan.index,
                    stage,
                    options.limits,
                    shared.case_tables,
                )?;
                if stage < last {
                    match options.layout {
                        Layout::A => self.answer_on_host(&cohort, &shared.bank)?,
                        _ => cohort.answer(&gpu, stream, shared.besim)?,
                    }
                }
            }
            let does = |code: Code| {
                let mut all = page.page.stages.iter().flat_map(|stage| &stage.code);
                all.any(|instruction| instruction.code == code as u16)
            };
            let (results, keys, created) = (cohort.results, at(places.keys), at(places.created));
            if does(Code::SessionCreate) {
                shared.sessions.create(
                    stream,
                    results,
                    cohort.lanes,
                    now_ms,
                    at(places.randoms),
                    created,
                )?;
            }
            if does(Code::SessionDestroy) && places.present.is_some() {
                shared
                    .sessions
                    .destroy(stream, results, cohort.lanes, keys)?;
            }
            let mut heads = shared.heads.arguments(plan.index);
            heads.results = results;
            heads.lane_count = cohort.lane_count;
            heads.arena = cohort.arena;
            heads.headers = cohort.regions.headers;
            heads.created = created;
            heads.heads = at(places.heads);
            heads.head_lengths = at(places.head_lengths);
            heads.lanes = cohort.lanes;
            heads.head_stride = plan.head as u32;
            heads.header_stride = cohort.regions.header_stride;
            launch(
                &*gpu,
                stream,
                Grid::over(cohort.lanes as usize, 128),
                &heads,
            )?;
            let mut pieces = cohort.pieces(shared.service);
            pieces.heads = heads.heads;
            pieces.head_lengths = heads.head_lengths;
            pieces.head_stride = heads.head_stride;
            let to = Destination {
                offsets: Address(0),
                pitch: plan.pitch as u64,
                out: at(places.out),
                bytes: places.out_bytes as u64,
                segments: Address(0),
                segment_count: 0,
            };
            let tiles = self.tiles_of(&plan);
            let rows_needed = cohort.counters.plus(4);
            match options.layout {
                Layout::Row => render_row(&*gpu, stream, pieces, &to, false),
                Layout::Runs => render_row(&*gpu, stream, pieces, &to, true),
                Layout::C => render_columns(&*gpu, stream, pieces, &tiles, rows_needed),
                Layout::A | Layout::B => {
                    render_columns(&*gpu, stream, pieces, &tiles, rows_needed)?;
                    transpose_columns(&*gpu, stream, pieces, &tiles, &to)
                }
            }
        }
    }

    fn tiles_of(&self, plan: &PagePlan) -> Tiles {
        Tiles {
            units: self.tiles.address(),
            rows_used: self.memory.address().plus(self.places.tile_rows),
            rows: plan.room.rows,
        }
    }
}
