//! What a launch delivers: where it goes in the host's memory, and how it is read from there.
//!
//! Kernels write most of it into `out` themselves; the rest is copied to `back`.

use super::footprint::Footprint;
use crate::abi::layout::{DeliveredText, LaneOffsets, UNIT};
use crate::abi::{LaneResult, WARP};
use crate::cohort::bodies::{Bodies, Destination, Starts, Tiles};
use crate::cohort::delivery::Delivery;
use crate::cohort::room::Room;
use crate::cohort::stages::DeviceCohort;
use crate::executor::options::FirstBytes;
use crate::gpu::{Extent, Extents, GpuError, PinnedBuffer, Queue, SharedGpu, Slice};
use crate::layout::Layout;
use rhythm_engine::cohort::{Segment, View};

/// Where things are after a launch.
#[derive(Clone, Debug, Default)]
struct OutputExtents {
    // In `out`.
    results: Extent<LaneResult>,
    queries: Extent<DeliveredText>,
    headers: Extent<DeliveredText>,
    segments: Extent<Segment>,
    texts: Extent<u8>,
    bodies: Extent<u8>,
    // In `back`.
    offsets: Extent<LaneOffsets>,
    rows_needed: Extent<[u32; 2]>,
    tile_rows: Extent<u32>,
    /// Rows that a tile has room for.
    tile_capacity: u32,
}

/// The output of a slot's launches.
#[derive(Debug)]
pub(super) struct Output {
    out: PinnedBuffer,
    back: PinnedBuffer,
    places: OutputExtents,
}

impl Output {
    /// Memory for cohorts of so many lanes of a usual page.
    pub(super) fn new(
        gpu: &SharedGpu,
        lanes: usize,
        first: &FirstBytes,
    ) -> Result<Output, GpuError> {
        Ok(Output {
            out: PinnedBuffer::new(gpu, lanes * first.delivered)?,
            back: PinnedBuffer::new(gpu, lanes * first.counts)?,
            places: OutputExtents::default(),
        })
    }

    /// Bytes of the host's memory that it has.
    pub(super) fn host_bytes(&self) -> usize {
        self.out.len() + self.back.len()
    }

    /// Finds room for what a launch delivers. Nothing of the slot's is under way.
    pub(super) fn make_room(&mut self, room: &Room, footprint: &Footprint) -> Result<(), GpuError> {
        let (shares, lanes) = (&room.shares, footprint.lanes);
        let (mut out, mut back) = (Extents::default(), Extents::default());
        self.places = OutputExtents {
            results: out.take(lanes),
            queries: out.take(lanes * shares.queries as usize),
            headers: out.take(lanes * shares.headers as usize),
            segments: out.take(match footprint.layout {
                Layout::Runs => lanes * shares.segments as usize,
                _ => 0,
            }),
            // The device counts them in 32 bits, of which the last says that it cannot.
            texts: out.take((lanes * room.texts as usize).min(u32::MAX as usize - 1)),
            bodies: out.take(match footprint.layout {
                Layout::C => footprint.tile_bytes,
                _ => lanes * room.body as usize,
            }),
            offsets: back.take(lanes + 1),
            rows_needed: back.take(1),
            tile_rows: back.take(Tiles::count(lanes)),
            tile_capacity: room.rows,
        };
        self.out.grow(out.bytes())?;
        self.back.grow(back.bytes())
    }

    /// Puts into a queue what brings a cohort's results here. `offsets` is the device's memory for
    /// the lanes' places.
    pub(super) fn deliver<'m>(
        &'m self,
        queue: &Queue<'m>,
        cohort: &DeviceCohort<'m>,
        layout: Layout,
        tiles: &Tiles<'m>,
        offsets: Slice<'m, LaneOffsets>,
    ) -> Result<(), GpuError> {
        let places = &self.places;
        let delivery = Delivery {
            offsets,
            results: self.out.slice(places.results),
            queries: self.out.slice(places.queries),
            headers: self.out.slice(places.headers),
            texts: self.out.slice(places.texts),
        };
        cohort.deliver(queue, &delivery, layout == Layout::Runs)?;
        let to = Destination {
            starts: Starts::Offsets(offsets),
            out: self.out.slice(places.bodies),
            segments: Some(self.out.slice(places.segments)),
        };
        let bodies = Bodies {
            cohort: *cohort,
            heads: None,
        };
        match layout {
            Layout::Row => bodies.render_row(queue, &to, false)?,
            Layout::Runs => bodies.render_row(queue, &to, true)?,
            Layout::A | Layout::B => {
                bodies.render_columns(queue, tiles)?;
                bodies.transpose_columns(queue, tiles, &to)?;
            }
            Layout::C => {
                bodies.render_columns(queue, tiles)?;
                queue.copy(to.out, tiles.units)?;
            }
        }
        let back = &self.back;
        queue.copy(back.slice(places.offsets), offsets)?;
        queue.copy(back.slice(places.rows_needed), cohort.rows_needed)?;
        queue.copy(back.slice(places.tile_rows), tiles.rows_used)
    }

    /// What was delivered.
    pub(super) fn delivered(&mut self) -> Delivered<'_> {
        Delivered {
            places: &self.places,
            out: self.out.host(),
            back: self.back.host(),
        }
    }
}

/// What a launch delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered<'a> {
    places: &'a OutputExtents,
    out: &'a [u8],
    back: &'a [u8],
}

impl<'a> Delivered<'a> {
    /// How many lanes.
    pub(crate) fn lanes(&self) -> usize {
        self.places.results.len()
    }

    /// The most rows of answers that a lane has, and the most of a tile, where the share was too
    /// small.
    pub(crate) fn rows_needed(&self) -> [u32; 2] {
        self.places.rows_needed.read(self.back, 0)
    }

    /// What a lane came to; a file's view is into the texts delivered.
    pub(crate) fn result(&self, index: usize) -> LaneResult {
        self.places.results.read(self.out, index)
    }

    /// Where a lane's things begin; one past the last: the sums.
    pub(crate) fn offsets(&self, index: usize) -> LaneOffsets {
        self.places.offsets.read(self.back, index)
    }

    /// Whether everything found its place. Otherwise it says how much room is needed, as lane
    /// averages of (bodies, texts).
    pub(crate) fn fits(&self, layout: Layout) -> Result<(), [u32; 2]> {
        let sums = self.offsets(self.lanes());
        // Segments, queries and headers have room for all that the shares allow.
        let bodies_fit = layout == Layout::C || sums.body <= self.places.bodies.len() as u64;
        if bodies_fit && sums.texts as usize <= self.places.texts.len() {
            return Ok(());
        }
        let lanes = self.lanes() as u64;
        let average =
            |sum: u64| (sum.div_ceil(lanes).next_multiple_of(64) + 64).min(1 << 30) as u32;
        Err([average(sums.body), average(u64::from(sums.texts))])
    }

    /// A query of the lanes delivered: whose, and its text.
    pub(crate) fn query(&self, index: usize) -> (u32, &'a [u8]) {
        let query = self.places.queries.read(self.out, index);
        (query.lane, self.text(query.text))
    }

    /// A header: its name's index and its value.
    pub(crate) fn header(&self, index: usize) -> (u16, &'a [u8]) {
        let header = self.places.headers.read(self.out, index);
        (header.name as u16, self.text(header.text))
    }

    /// A segment.
    pub(crate) fn segment(&self, index: usize) -> Segment {
        self.places.segments.read(self.out, index)
    }

    /// A text delivered.
    pub(crate) fn text(&self, view: View) -> &'a [u8] {
        &self.out[self.places.texts.range()][view.offset as usize..][..view.length as usize]
    }

    /// A body, or a run, in one piece.
    pub(crate) fn body(&self, at: u64, length: usize) -> &'a [u8] {
        &self.out[self.places.bodies.range()][at as usize..][..length]
    }

    /// The units of a lane's column, in order. Padding comes last in each.
    pub(crate) fn units(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (tile, lane) = (index / WARP, index % WARP);
        let rows = self.places.tile_rows.read(self.back, tile);
        let start = Tiles::bytes(tile * WARP, self.places.tile_capacity) + lane * UNIT;
        let units = &self.out[self.places.bodies.range()];
        (0..rows as usize).map(move |row| &units[start + row * WARP * UNIT..][..UNIT])
    }
}
