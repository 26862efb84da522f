//! How many lanes a launch takes, and how its memory is divided, before any of it is made.

use crate::abi::LaneResult;
use crate::abi::layout::{DeliveredText, LaneOffsets, UNIT};
use crate::abi::stage::HeaderValue;
use crate::besim::ANSWER_BYTES;
use crate::cohort::bodies::Tiles;
use crate::cohort::regions::RegionExtents;
use crate::cohort::room::Room;
use crate::executor::job::Job;
use crate::executor::options::Options;
use crate::gpu::{Extent, Extents, GpuError};
use crate::layout::Layout;
use rhythm_engine::cohort::{Segment, View};

/// What a launch needs.
#[derive(Debug)]
pub(super) struct Footprint {
    pub(super) lanes: usize,
    pub(super) layout: Layout,
    /// In the arena: where the texts and the answers go that are made on the device.
    pub(super) text_base: usize,
    pub(super) answer_base: usize,
    pub(super) arena_bytes: usize,
    /// In the buffer of regions.
    pub(super) regions: RegionExtents,
    pub(super) offsets: Extent<LaneOffsets>,
    pub(super) tile_rows: Extent<u32>,
    pub(super) region_bytes: usize,
    /// Of tiles; 0 where bodies are not made in columns.
    pub(super) tile_bytes: usize,
}

impl Footprint {
    /// For as many of the job's pending lanes as there may be in one launch.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`]: there is no room for a single one.
    pub(super) fn new(job: &Job, options: &Options) -> Result<Footprint, GpuError> {
        let layout = options.layout;
        let stages = &job.service.pages[job.work.page].stages[job.first..=job.last];
        let registers = stages.iter().map(|stage| stage.registers).max();
        let registers = registers.unwrap_or(0);
        let shares = job.room.shares;
        // Answers made on the device; those of the host are in the arena already.
        let calls = job.last - job.first;
        let answer_bytes = calls * shares.queries as usize * ANSWER_BYTES as usize;
        let text_base = job.work.cohort.arena.bytes().len().next_multiple_of(UNIT);
        let delivered_bytes = delivered_bytes(&job.room, layout);
        let lane_bytes = regions_bytes(&job.room, layout) + delivered_bytes + answer_bytes;
        // Views have 32 bits.
        let arena_left = (u32::MAX as usize).saturating_sub(text_base + (1 << 16));
        let lanes = (job.pending.len())
            .min((options.launch_bytes / lane_bytes).max(1))
            .min((options.delivered_bytes / delivered_bytes).max(1))
            .min(arena_left / (shares.text as usize + answer_bytes).max(1));
        if lanes == 0 {
            // Its texts leave no room in 32 bits.
            return Err(GpuError::OutOfMemory(lane_bytes));
        }
        let mut places = Extents::default();
        let regions = RegionExtents::new(&mut places, lanes, &shares, registers);
        let offsets = places.take(lanes + 1);
        let tile_rows = places.take(Tiles::count(lanes));
        let answer_base = (text_base + lanes * shares.text as usize).next_multiple_of(UNIT);
        Ok(Footprint {
            lanes,
            layout,
            text_base,
            answer_base,
            arena_bytes: (answer_base + lanes * answer_bytes).max(UNIT),
            regions,
            offsets,
            tile_rows,
            region_bytes: places.bytes(),
            tile_bytes: if layout.is_column() {
                Tiles::bytes(lanes, job.room.rows)
            } else {
                0
            },
        })
    }
}

/// Memory of the device that a lane takes, but for answers made there.
fn regions_bytes(room: &Room, layout: Layout) -> usize {
    let shares = &room.shares;
    let tile = if layout.is_column() {
        room.rows as usize * UNIT
    } else {
        0
    };
    shares.run as usize
        + shares.segments as usize * size_of::<Segment>()
        + shares.text as usize
        + shares.queries as usize * 2 * size_of::<View>()
        + shares.headers as usize * size_of::<HeaderValue>()
        + tile
}

/// Bytes that a lane has in what is delivered.
fn delivered_bytes(room: &Room, layout: Layout) -> usize {
    let shares = &room.shares;
    let body = match layout {
        Layout::Runs => room.body as usize + shares.segments as usize * size_of::<Segment>(),
        Layout::C => room.rows as usize * UNIT,
        _ => room.body as usize,
    };
    let places = shares.queries as usize + shares.headers as usize;
    let places = places * size_of::<DeliveredText>();
    size_of::<LaneResult>() + places + room.texts as usize + body
}
