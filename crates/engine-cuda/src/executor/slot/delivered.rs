//! What a launch delivers: where it is in the host's memory, and how it is read.

use crate::abi::LaneResult;
use crate::cohort::{Places, Tiles};
use crate::executor::upload::read;
use crate::launch::{DeliveredText, LaneOffsets, UNIT, WARP};
use crate::layout::Layout;
use rhythm_engine::cohort::Segment;
use rhythm_engine::cohort::{Span, View};

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

/// Where things are in `out` and `back` after a launch, and how much room there was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) lanes: usize,
    pub(super) results: usize,
    pub(super) requests: Room,
    pub(super) headers: Room,
    pub(super) segments: Room,
    pub(super) texts: Room,
    pub(super) bodies: Room,
    pub(super) offsets: usize,
    pub(super) counters: usize,
    pub(super) tile_rows: usize,
    pub(super) tile_capacity: usize,
    pub(super) columns: usize,
    pub(super) items: usize,
    /// Bytes of the pools of items.
    pub(super) item_bytes: usize,
    /// Where each slot's column is among the columns, or its pool among the items.
    pub(super) column_places: Vec<ColumnPlace>,
    pub(super) item_stride: usize,
}

/// Room for so many things from a place on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) at: usize,
    pub(super) count: usize,
}

impl Room {
    pub(super) fn take<T>(places: &mut Places, count: usize) -> Room {
        Room {
            at: places.take::<T>(count),
            count,
        }
    }
}

/// Where a slot's column is.
#[derive(Clone, Copy, Debug)]
pub(super) enum ColumnPlace {
    /// Among what was copied in.
    Input(usize),
    /// A pool of decoded items.
    Items(usize),
}

/// What a launch delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered<'a> {
    pub(super) delivery: &'a Delivery,
    pub(super) out: &'a [u8],
    pub(super) back: &'a [u8],
}

impl<'a> Delivered<'a> {
    /// How many lanes.
    pub(crate) fn lanes(&self) -> usize {
        self.delivery.lanes
    }

    /// What the device counted.
    pub(crate) fn counters(&self) -> Counters {
        read(self.back, self.delivery.counters, 0)
    }

    /// What a lane came to; a file's view is into the texts delivered.
    pub(crate) fn result(&self, index: usize) -> LaneResult {
        read(self.out, self.delivery.results, index)
    }

    /// Where a lane's things begin; one past the last: the sums.
    pub(crate) fn offsets(&self, index: usize) -> LaneOffsets {
        read(self.back, self.delivery.offsets, index)
    }

    /// Whether everything found its place. Otherwise it says how much room is needed, as lane
    /// averages of (bodies, texts).
    pub(crate) fn fits(&self, layout: Layout) -> Result<(), [u32; 2]> {
        let sums = self.offsets(self.lanes());
        let delivery = self.delivery;
        // Segments, requests and headers have room for all that the shares allow.
        let bodies_fit = layout == Layout::C || sums.body <= delivery.bodies.count as u64;
        if bodies_fit && sums.texts as usize <= delivery.texts.count {
            return Ok(());
        }
        let lanes = self.lanes() as u64;
        let average =
            |sum: u64| (sum.div_ceil(lanes).next_multiple_of(64) + 64).min(1 << 30) as u32;
        Err([average(sums.body), average(u64::from(sums.texts))])
    }

    /// A request of the lanes delivered: whose, and its text.
    pub(crate) fn request(&self, index: usize) -> (u32, &'a [u8]) {
        let request: DeliveredText = read(self.out, self.delivery.requests.at, index);
        (request.lane, self.text(request.text))
    }

    /// A header: its name's index and its value.
    pub(crate) fn header(&self, index: usize) -> (u16, &'a [u8]) {
        let header: DeliveredText = read(self.out, self.delivery.headers.at, index);
        (header.name as u16, self.text(header.text))
    }

    /// A segment.
    pub(crate) fn segment(&self, index: usize) -> Segment {
        read(self.out, self.delivery.segments.at, index)
    }

    /// A text delivered.
    pub(crate) fn text(&self, view: View) -> &'a [u8] {
        &self.out[self.delivery.texts.at + view.offset as usize..][..view.length as usize]
    }

    /// A body, or a run, in one piece.
    pub(crate) fn body(&self, at: u64, length: usize) -> &'a [u8] {
        &self.out[self.delivery.bodies.at + at as usize..][..length]
    }

    /// The units of a lane's column, in order. Padding comes last in each.
    pub(crate) fn units(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (tile, lane) = (index / WARP, index % WARP);
        let rows: u32 = read(self.back, self.delivery.tile_rows, tile);
        let start =
            self.delivery.bodies.at + Tiles::bytes(tile * WARP, self.delivery.tile_capacity as u32);
        let (out, row_bytes) = (self.out, WARP * UNIT);
        (0..rows as usize).map(move |row| &out[start + row * row_bytes + lane * UNIT..][..UNIT])
    }

    /// Whether columns were brought back.
    fn column(&self, slot: u32) -> (&'a [u8], usize) {
        match self.delivery.column_places[slot as usize] {
            ColumnPlace::Input(at) => (self.back, self.delivery.columns + at),
            ColumnPlace::Items(at) => (self.back, self.delivery.items + at),
        }
    }

    /// A lane's integer in a column brought back.
    pub(crate) fn int(&self, slot: u32, lane: usize) -> i64 {
        let (bytes, at) = self.column(slot);
        read(bytes, at, lane)
    }

    /// A lane's view in a column brought back.
    pub(crate) fn view(&self, slot: u32, lane: usize) -> View {
        let (bytes, at) = self.column(slot);
        read(bytes, at, lane)
    }

    /// A lane's span in a column brought back.
    pub(crate) fn span(&self, slot: u32, lane: usize) -> Span {
        let (bytes, at) = self.column(slot);
        read(bytes, at, lane)
    }
}
