//! A cohort in flight: its memory for one page, and the launches from parsed requests to answers.
#![allow(unsafe_code)]

use super::ResidentOptions;
use super::answer::Answer;
use super::heads::{BeginArgs, Heads};
use crate::abi::{LaneResult, NO_TEXT, Outcome, SessionKey};
use crate::besim::{ANSWER_BYTES, BesimTables};
use crate::cohort::{
    Destination, DeviceCohort, Places, RegionPlaces, Tiles, render_columns, render_row,
    transpose_columns,
};
use crate::executor::job::Room;
use crate::executor::upload::{DeviceService, read, upload};
use crate::gpu::{
    Address, DeviceBuffer, GpuError, Grid, Mark, PinnedBuffer, SharedGpu, Stream, launch,
};
use crate::launch::{DeliveredText, LaneOffsets, OffsetsArgs, PAD, TextsArgs, UNIT, WARP};
use crate::layout::Layout;
use crate::parser::{Lanes, PageParams};
use crate::program::Code;
use crate::sessions::DeviceSessions;
use rhythm_besim::Bank;
use rhythm_engine::cohort::View;
use rhythm_engine::device::Segment;
use rhythm_engine::page::program::{FieldType, PageProgram};

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
        // Tiles beyond the lanes that there are have no rows: nobody renders them, but the transpose looks.
        // SAFETY: it is this context's own memory, of which nothing is in flight.
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

    /// Launches everything from the parsed lanes to the answers. With the backend on the host it waits for the device at each call.
    ///
    /// # Safety
    /// The context is prepared, its lanes are parsed in its stream or before it came here, and what it shares outlives its stream.
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
        // SAFETY: all addresses are of this context's memory, as large as `prepare` made it for this page, or of what is shared; the rest
        // is the caller's promise.
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

    /// The backend on the host (the paper's Titan A): requests come across PCIe one behind the other, and answers go back likewise.
    ///
    /// # Safety
    /// As [`Context::process`].
    unsafe fn answer_on_host(
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
        // SAFETY: the regions are as large as the pinned ones, which are left alone until the stream is waited for again.
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

    /// What the cohort's lanes came to, and the counters: after the stream has been waited for.
    pub(super) fn results(&mut self) -> Result<(Vec<LaneResult>, [u32; 4]), GpuError> {
        let Some(cohort) = self.cohort else {
            return Ok((Vec::new(), [0; 4]));
        };
        let lanes = cohort.lanes as usize;
        let bytes = lanes * size_of::<LaneResult>();
        let results = self.bring_back(cohort.results, bytes)?;
        let results = (0..lanes).map(|lane| read(&results, 0, lane)).collect();
        let counters = self.bring_back(cohort.counters, 16)?;
        Ok((results, [0, 1, 2, 3].map(|index| read(&counters, 0, index))))
    }

    /// The answers of the cohort just run, as they would be sent: stitched by the host where only runs left the device, gathered
    /// where they are columns. For looking at them, not for speed.
    pub(super) fn answers(
        &mut self,
        layout: Layout,
        fragments: &[Box<[u8]>],
    ) -> Result<Vec<Answer>, GpuError> {
        let (Some(cohort), Some(plan)) = (self.cohort, self.plan.clone()) else {
            return Ok(Vec::new());
        };
        let (results, _) = self.results()?;
        let lanes = results.len();
        let base = self.memory.address();
        let count = self.bring_back(base.plus(self.places.lane_count), 4)?;
        let count = (read::<u32>(&count, 0, 0) as usize).min(lanes);
        let tickets = self.bring_back(base.plus(self.places.tickets), lanes * 4)?;
        let heads = self.bring_back(base.plus(self.places.head_lengths), lanes * 4)?;
        let out = match layout {
            Layout::C => {
                self.bring_back(self.tiles.address(), Tiles::bytes(lanes, plan.room.rows))?
            }
            _ => self.bring_back(base.plus(self.places.out), self.places.out_bytes)?,
        };
        let tile_rows =
            self.bring_back(base.plus(self.places.tile_rows), Tiles::count(lanes) * 4)?;
        let stride = cohort.regions.segment_stride as usize;
        let segments = self.bring_back(
            cohort.regions.segments,
            lanes * stride * size_of::<Segment>(),
        )?;
        let answers = results
            .iter()
            .enumerate()
            .take(count)
            .map(|(lane, result)| {
                let outcome = Outcome::of(result.outcome);
                let head = read::<u32>(&heads, 0, lane) as usize;
                let bytes = match (outcome, layout) {
                    (Outcome::Finished, Layout::C) => {
                        let rows: u32 = read(&tile_rows, 0, lane / WARP);
                        let tile =
                            Tiles::bytes(lane / WARP * WARP, plan.room.rows) + lane % WARP * UNIT;
                        let units =
                            (0..rows as usize).map(|row| &out[tile + row * WARP * UNIT..][..UNIT]);
                        units
                            .flat_map(|unit| unit.iter().copied().take_while(|byte| *byte != PAD))
                            .collect()
                    }
                    (Outcome::Finished, Layout::Runs) => {
                        let start = lane * plan.pitch;
                        let run = &out[start + head..][..result.run_length as usize];
                        let mut bytes = out[start..start + head].to_vec();
                        let mut at = 0;
                        for index in 0..result.segment_count as usize {
                            let segment: Segment = read(&segments, 0, lane * stride + index);
                            bytes.extend_from_slice(&run[at..segment.run_end as usize]);
                            bytes.extend_from_slice(&fragments[segment.fragment as usize]);
                            at = segment.run_end as usize;
                        }
                        bytes.extend_from_slice(&run[at..]);
                        bytes
                    }
                    (Outcome::Finished, _) => {
                        out[lane * plan.pitch..][..head + result.body_length as usize].to_vec()
                    }
                    _ => Vec::new(),
                };
                Answer {
                    request: read(&tickets, 0, lane),
                    outcome,
                    bytes,
                }
            });
        Ok(answers.collect())
    }

    /// Lanes of the cohort just run that have their answer.
    pub(super) fn finished(&mut self) -> Result<usize, GpuError> {
        let (results, _) = self.results()?;
        let finished = |result: &&LaneResult| Outcome::of(result.outcome) == Outcome::Finished;
        Ok(results.iter().filter(finished).count())
    }

    /// Bytes written for a finished lane, and those of its answer, on average.
    pub(super) fn answer_bytes(&mut self, layout: Layout) -> Result<[f64; 2], GpuError> {
        let (results, _) = self.results()?;
        let finished = |result: &&LaneResult| Outcome::of(result.outcome) == Outcome::Finished;
        let count = results.iter().filter(finished).count().max(1) as f64;
        let lanes = results.len();
        let base = self.memory.address();
        let heads = self.bring_back(base.plus(self.places.head_lengths), lanes * 4)?;
        let heads: u64 = (results.iter().enumerate())
            .filter(|(_, result)| finished(result))
            .map(|(lane, _)| u64::from(read::<u32>(&heads, 0, lane)))
            .sum();
        let runs_only = layout == Layout::Runs;
        let bodies = results.iter().filter(finished);
        let own: u64 = bodies
            .map(|r| {
                u64::from(if runs_only {
                    r.run_length
                } else {
                    r.body_length
                })
            })
            .sum();
        let own = (heads + own) as f64 / count;
        let written = match layout {
            Layout::Row | Layout::Runs => own,
            Layout::A | Layout::B | Layout::C => {
                let tile_rows =
                    self.bring_back(base.plus(self.places.tile_rows), Tiles::count(lanes) * 4)?;
                let rows: u64 = (0..Tiles::count(lanes))
                    .map(|tile| u64::from(read::<u32>(&tile_rows, 0, tile)))
                    .sum();
                let columns = (rows as usize * WARP * UNIT) as f64 / count;
                if layout == Layout::C {
                    columns
                } else {
                    columns + own
                }
            }
        };
        Ok([written, own])
    }

    fn bring_back(&mut self, from: Address, bytes: usize) -> Result<Vec<u8>, GpuError> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        self.back.grow(bytes)?;
        // SAFETY: the source is the context's, and the copy is waited for.
        unsafe { self.gpu.copy(self.stream, self.back.address(), from, bytes) }?;
        self.gpu.synchronize(self.stream)?;
        // SAFETY: the stream has been waited for.
        Ok(unsafe { &self.back.bytes()[..bytes] }.to_vec())
    }
}
