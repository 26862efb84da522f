//! The device's memory of a cohort in flight, from parsed requests to answers, for one page.

use super::heads::HeadRoom;
use super::options::ResidentOptions;
use crate::abi::layout::{LaneOffsets, UNIT};
use crate::abi::{Columns, SessionKey};
use crate::besim::ANSWER_BYTES;
use crate::cohort::bodies::{HeadPlaces, Tiles};
use crate::cohort::regions::RegionExtents;
use crate::cohort::room::Room;
use crate::cohort::stages::DeviceCohort;
use crate::gpu::{
    Address, DeviceBuffer, Extent, Extents, GpuError, SharedGpu, Slice, Stream, scope,
};
use crate::layout::Layout;
use crate::parser::{Lanes, PageParams};
use crate::plain::bytes_of;
use crate::service::DeviceService;
use crate::upload::copy_in;
use rhythm_engine::program::{FieldType, PageProgram};

/// What a page asks of its cohorts.
#[derive(Clone, Debug)]
pub(super) struct PageNeeds {
    pub(super) index: usize,
    pub(super) room: Room,
    pub(super) head: HeadRoom,
    /// Bytes of an answer.
    pub(super) pitch: usize,
    pub(super) param_text: u32,
}

/// Where things are.
#[derive(Clone, Debug)]
struct MemoryExtents {
    /// By slot.
    columns: Vec<Extent<u64>>,
    table: Extent<Address>,
    states: Extent<u8>,
    tickets: Extent<u32>,
    lane_count: Extent<u32>,
    keys: Extent<SessionKey>,
    created: Extent<SessionKey>,
    randoms: Extent<[u64; 2]>,
    heads: Extent<u8>,
    head_lengths: Extent<u32>,
    rows_needed: Extent<[u32; 2]>,
    tile_rows: Extent<u32>,
    offsets: Extent<LaneOffsets>,
    regions: RegionExtents,
    out: Extent<u8>,
    /// Of the session's fields, where the page has them.
    present: Option<Extent<i64>>,
    users: Option<Extent<i64>>,
    /// In the arena: parameters, then the texts that stages make, then answers.
    text_base: usize,
    made_base: usize,
    answer_base: usize,
    arena_bytes: usize,
}

impl MemoryExtents {
    /// Finds room for a page's cohorts of so many lanes; gives the bytes, too.
    fn new(
        options: &ResidentOptions,
        service: &DeviceService,
        program: &PageProgram,
        params: &PageParams,
        needs: &PageNeeds,
    ) -> (MemoryExtents, usize) {
        let (lanes, page) = (options.cohort, &service.pages[needs.index]);
        let shares = needs.room.shares;
        let mut places = Extents::default();
        let columns = columns(&mut places, lanes, program, params, needs.room.items);
        let slot = |field: u16| columns[page.page.slots[usize::from(field)] as usize].cast();
        let text_base = program.texts.len().next_multiple_of(UNIT);
        let made_base = text_base + lanes * needs.param_text as usize;
        let answer_base = made_base + lanes * shares.text as usize;
        let calls = page.stages.len() - 1;
        let answer_bytes = calls * lanes * shares.queries as usize * ANSWER_BYTES as usize;
        let all = MemoryExtents {
            present: program.session_fields.map(|fields| slot(fields.present)),
            users: program.session_fields.map(|fields| slot(fields.user)),
            table: places.take(columns.len()),
            states: places.take(lanes),
            tickets: places.take(lanes),
            lane_count: places.take(1),
            keys: places.take(lanes),
            created: places.take(lanes),
            randoms: places.take(lanes),
            heads: places.take(lanes * needs.head.stride),
            head_lengths: places.take(lanes),
            rows_needed: places.take(1),
            tile_rows: places.take(Tiles::count(lanes)),
            offsets: places.take(lanes + 1),
            regions: RegionExtents::new(&mut places, lanes, &shares, page.registers()),
            out: places.take(match options.layout {
                Layout::C => 0,
                _ => lanes * needs.pitch,
            }),
            columns,
            text_base,
            made_base,
            answer_base,
            arena_bytes: answer_base + answer_bytes + UNIT,
        };
        (all, places.bytes())
    }
}

/// Finds room for a page's columns, by slot.
fn columns(
    places: &mut Extents,
    lanes: usize,
    program: &PageProgram,
    params: &PageParams,
    items: u32,
) -> Vec<Extent<u64>> {
    let mut columns = Vec::new();
    for (field, kind) in program.fields.iter().enumerate() {
        columns.push(places.take(lanes));
        if let FieldType::List(of_records) = &kind.kind {
            let mut pools = params.lists.iter();
            let pool = pools.find(|list| usize::from(list.field) == field);
            let items = pool.map_or(items, |pool| pool.max_items) as usize;
            columns.extend(of_records.iter().map(|_| places.take(lanes * items)));
        }
    }
    columns
}

/// The memory, once it is that of a page's cohorts.
#[derive(Debug)]
pub(super) struct CohortMemory {
    pub(super) needs: PageNeeds,
    places: MemoryExtents,
    memory: DeviceBuffer,
    arena: DeviceBuffer,
    tiles: DeviceBuffer,
}

impl CohortMemory {
    /// Memory for a page's cohorts, which may be that of another's before. Of that nothing is in
    /// flight. `randoms` has 128 bits a lane, for ids of sessions.
    pub(super) fn new(
        gpu: &SharedGpu,
        stream: Stream,
        options: &ResidentOptions,
        service: &DeviceService,
        (program, params, needs): (&PageProgram, &PageParams, &PageNeeds),
        randoms: &[[u64; 2]],
        before: Option<CohortMemory>,
    ) -> Result<CohortMemory, GpuError> {
        let (places, bytes) = MemoryExtents::new(options, service, program, params, needs);
        if places.arena_bytes > u32::MAX as usize {
            // Views have 32 bits.
            return Err(GpuError::OutOfMemory(places.arena_bytes));
        }
        let (mut memory, mut arena, mut tiles) = match before {
            Some(before) => (before.memory, before.arena, before.tiles),
            None => (
                DeviceBuffer::new(gpu, 0)?,
                DeviceBuffer::new(gpu, 0)?,
                DeviceBuffer::new(gpu, 0)?,
            ),
        };
        memory.grow_to(bytes)?;
        tiles.grow_to(match options.layout.is_column() {
            true => Tiles::bytes(options.cohort, needs.room.rows),
            false => 0,
        })?;
        arena.grow_to(places.arena_bytes)?;
        let columns = places.columns.iter();
        let table: Vec<Address> = columns
            .map(|place| memory.slice(*place).address())
            .collect();
        let at = |range| memory.first(memory.len()).part(range);
        copy_in(gpu, stream, at(places.table.range()), bytes_of(&table))?;
        let randoms = &randoms[..options.cohort];
        copy_in(gpu, stream, at(places.randoms.range()), bytes_of(randoms))?;
        let texts = arena.first(program.texts.len());
        copy_in(gpu, stream, texts, &program.texts)?;
        // Tiles beyond the lanes that there are have no rows: nobody renders them, but the
        // transpose looks.
        let tile_rows = memory.slice(places.tile_rows);
        scope(&**gpu, &[stream], |queue| queue.fill(tile_rows, 0))?;
        Ok(CohortMemory {
            needs: needs.clone(),
            places,
            memory,
            arena,
            tiles,
        })
    }

    fn columns(&self) -> Columns<'_> {
        Columns::new(self.memory.slice(self.places.table), [&self.memory])
    }

    fn arena(&self) -> Slice<'_, u8> {
        self.arena.first(self.places.arena_bytes)
    }

    /// Where the parser puts the lanes.
    pub(super) fn lanes(&self) -> Lanes<'_> {
        Lanes {
            page: self.needs.index,
            first: 0,
            columns: self.columns(),
            arena: self.arena(),
            text_base: self.places.text_base as u32,
            text_stride: self.needs.param_text,
            sessions: self.keys(),
            states: self.memory.slice(self.places.states),
            tickets: self.tickets(),
            lane_count: self.lane_count(),
        }
    }

    /// The cohort of these lanes.
    pub(super) fn cohort<'m>(&'m self, service: &'m DeviceService) -> DeviceCohort<'m> {
        DeviceCohort {
            service,
            page: self.needs.index,
            regions: (self.places.regions).of(&self.memory, &self.needs.room.shares),
            lane_list: None,
            lane_count: Some(self.lane_count()),
            columns: self.columns(),
            arena: self.arena(),
            text_base: self.places.made_base,
            answer_base: self.places.answer_base,
            item_stride: self.needs.room.items,
            item_pitch: self.tickets().len() as u32,
            rows_needed: self.memory.slice(self.places.rows_needed),
        }
    }

    /// One number: the lanes that there are.
    pub(super) fn lane_count(&self) -> Slice<'_, u32> {
        self.memory.slice(self.places.lane_count)
    }

    /// What the parser made of each request.
    pub(super) fn states(&self) -> Slice<'_, u8> {
        self.memory.slice(self.places.states)
    }

    /// Each lane's request.
    pub(super) fn tickets(&self) -> Slice<'_, u32> {
        self.memory.slice(self.places.tickets)
    }

    /// The session that each request names.
    pub(super) fn keys(&self) -> Slice<'_, SessionKey> {
        self.memory.slice(self.places.keys)
    }

    /// Whether there is such a session, and whose it is, where the page asks.
    pub(super) fn session_fields(&self) -> Option<[Slice<'_, i64>; 2]> {
        let fields = [self.places.present?, self.places.users?];
        Some(fields.map(|place| self.memory.slice(place)))
    }

    /// The bits of ids, and the sessions created with them.
    pub(super) fn new_sessions(&self) -> (Slice<'_, [u64; 2]>, Slice<'_, SessionKey>) {
        let created = self.memory.slice(self.places.created);
        (self.memory.slice(self.places.randoms), created)
    }

    /// The lanes' places in what is delivered to a backend on the host.
    pub(super) fn offsets(&self) -> Slice<'_, LaneOffsets> {
        self.memory.slice(self.places.offsets)
    }

    /// The heads of answers.
    pub(super) fn heads(&self) -> HeadPlaces<'_> {
        HeadPlaces {
            own: self.memory.slice(self.places.heads),
            lengths: self.memory.slice(self.places.head_lengths),
            stride: self.needs.head.stride,
        }
    }

    /// The columns of answers.
    pub(super) fn tiles(&self) -> Tiles<'_> {
        Tiles {
            units: self.tiles.first(self.tiles.len()),
            rows_used: self.memory.slice(self.places.tile_rows),
            rows: self.needs.room.rows,
        }
    }

    /// Whole answers.
    pub(super) fn out(&self) -> Slice<'_, u8> {
        self.memory.slice(self.places.out)
    }
}
