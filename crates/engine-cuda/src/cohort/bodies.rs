//! Bodies from runs and fragments, by the kernels of `layout.cu`.
#![allow(unsafe_code)]

use super::stages::DeviceCohort;
use crate::abi::WARP;
use crate::abi::layout::{ColumnArgs, LaneOffsets, Pieces, RowArgs, TransposeArgs, UNIT};
use crate::gpu::{Address, GpuError, Grid, Queue, Slice, address_or_null};
use rhythm_engine::cohort::Segment;

/// Tiles of columns: of each warp's lanes so many rows of units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiles<'m> {
    pub(crate) units: Slice<'m, u8>,
    /// Rows in use, one a tile.
    pub(crate) rows_used: Slice<'m, u32>,
    pub(crate) rows: u32,
}

impl Tiles<'_> {
    /// How many tiles so many lanes have.
    pub(crate) fn count(lanes: usize) -> usize {
        lanes.div_ceil(WARP)
    }

    /// Bytes of their units.
    pub(crate) fn bytes(lanes: usize, rows: u32) -> usize {
        Tiles::count(lanes) * WARP * UNIT * rows as usize
    }

    fn assert_room(&self, lanes: usize) {
        assert_eq!(self.rows_used.len(), Tiles::count(lanes));
        assert!(self.units.len() >= Tiles::bytes(lanes, self.rows));
    }
}

/// Heads that go before bodies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadsOf<'m> {
    /// A share of `stride` bytes a lane.
    pub(crate) bytes: Slice<'m, u8>,
    pub(crate) lengths: Slice<'m, u32>,
    pub(crate) stride: usize,
}

/// Where each body begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Starts<'m> {
    /// Where the sums of the bodies before it say.
    Offsets(Slice<'m, LaneOffsets>),
    /// So many bytes behind the one before.
    Pitch(usize),
}

impl Starts<'_> {
    /// The offsets' address and the pitch, of which one says it.
    fn numbers(&self, lanes: usize) -> (Address, u64) {
        match self {
            Starts::Offsets(offsets) => {
                assert_eq!(offsets.len(), lanes + 1, "one a lane, and the sums");
                (offsets.address(), 0)
            }
            Starts::Pitch(pitch) => (Address::NULL, *pitch as u64),
        }
    }
}

/// Where bodies are written to. What has no room there is not written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination<'m> {
    pub(crate) starts: Starts<'m>,
    pub(crate) out: Slice<'m, u8>,
    /// With runs alone, and offsets: where their segments go.
    pub(crate) segments: Option<Slice<'m, Segment>>,
}

/// What bodies are made of: a cohort's runs and fragments, and perhaps heads before them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bodies<'m> {
    pub(crate) cohort: DeviceCohort<'m>,
    pub(crate) heads: Option<HeadsOf<'m>>,
}

impl<'m> Bodies<'m> {
    fn pieces(&self) -> Pieces {
        let DeviceCohort {
            service, regions, ..
        } = &self.cohort;
        let lanes = self.cohort.lanes();
        if let Some(heads) = &self.heads {
            assert!(heads.bytes.len() >= lanes * heads.stride && heads.lengths.len() == lanes);
        }
        Pieces {
            results: regions.results.address(),
            runs: regions.runs.address(),
            segments: regions.segments.address(),
            fragments: service.at(service.fragments).address(),
            fragment_bytes: service.at(service.fragment_bytes).address(),
            heads: address_or_null(self.heads.map(|heads| heads.bytes)),
            head_lengths: address_or_null(self.heads.map(|heads| heads.lengths)),
            lane_count: address_or_null(self.cohort.lane_count),
            run_stride: regions.shares.run,
            segment_stride: regions.shares.segments,
            head_stride: self.heads.map_or(0, |heads| heads.stride as u32),
            lanes: lanes as u32,
        }
    }

    /// Renders bodies row by row, or their runs alone.
    pub(crate) fn render_row(
        &self,
        queue: &Queue<'m>,
        to: &Destination<'m>,
        runs_only: bool,
    ) -> Result<(), GpuError> {
        let lanes = self.cohort.lanes();
        let (offsets, pitch) = to.starts.numbers(lanes);
        let arguments = RowArgs {
            pieces: self.pieces(),
            offsets,
            out: to.out.address(),
            segments_out: address_or_null(to.segments),
            out_capacity: to.out.len() as u64,
            pitch,
            segments_capacity: to.segments.map_or(0, |segments| segments.len() as u32),
            runs_only: u32::from(runs_only),
        };
        // SAFETY: all is borrowed for 'm. Pieces have a share for each lane, and the kernel writes
        // no further than the capacities, which are the destinations' lengths.
        unsafe { queue.launch(Grid::over(lanes * WARP, 128), &arguments) }
    }

    /// Renders bodies into columns.
    pub(crate) fn render_columns(
        &self,
        queue: &Queue<'m>,
        tiles: &Tiles<'m>,
    ) -> Result<(), GpuError> {
        let lanes = self.cohort.lanes();
        tiles.assert_room(lanes);
        assert_eq!(self.cohort.rows_needed.len(), 1);
        let arguments = ColumnArgs {
            pieces: self.pieces(),
            tiles: tiles.units.address(),
            tile_rows: tiles.rows_used.address(),
            rows_needed: self.cohort.rows_needed.address().plus(size_of::<u32>()),
            rows_capacity: tiles.rows,
            unused: 0,
        };
        // SAFETY: all is borrowed for 'm. Pieces have a share for each lane, and there are tiles
        // for all lanes, of so many rows, as asserted.
        unsafe { queue.launch(Grid::over(lanes, 128), &arguments) }
    }

    /// Turns columns into bodies, one after the other.
    pub(crate) fn transpose_columns(
        &self,
        queue: &Queue<'m>,
        tiles: &Tiles<'m>,
        to: &Destination<'m>,
    ) -> Result<(), GpuError> {
        let lanes = self.cohort.lanes();
        tiles.assert_room(lanes);
        let (offsets, pitch) = to.starts.numbers(lanes);
        let arguments = TransposeArgs {
            pieces: self.pieces(),
            offsets,
            tiles: tiles.units.address(),
            tile_rows: tiles.rows_used.address(),
            out: to.out.address(),
            out_capacity: to.out.len() as u64,
            pitch,
            rows_capacity: tiles.rows,
            unused: 0,
        };
        let grid = Grid::blocks(Tiles::count(lanes), 256);
        // SAFETY: all is borrowed for 'm. There are tiles for all lanes, of so many rows, as
        // asserted, and the kernel writes no further than the capacity, which is `out`'s length.
        unsafe { queue.launch(grid, &arguments) }
    }
}
