//! Bodies from runs and fragments, by the kernels of `layout.cu`.

use super::stages::DeviceCohort;
use crate::abi::WARP;
use crate::abi::layout::{ColumnArgs, HeadText, LaneOffsets, Pieces, RowArgs, TransposeArgs, UNIT};
use crate::gpu::{GpuError, Queue, Slice};
use crate::program::Form;
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
}

/// Where each lane's head is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadPlaces<'m> {
    /// What it has of its own, in a share of `stride` bytes a lane.
    pub(crate) own: Slice<'m, u8>,
    /// Bytes of all of it.
    pub(crate) lengths: Slice<'m, u32>,
    pub(crate) stride: usize,
}

/// Heads that go before bodies: what lanes have of their own, and what they share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadsOf<'m> {
    pub(crate) places: HeadPlaces<'m>,
    pub(crate) texts: Slice<'m, u8>,
    pub(crate) status_lines: Slice<'m, HeadText>,
    pub(crate) fields: HeadText,
}

/// Where each body begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Starts<'m> {
    /// Where the sums of the bodies before it say.
    Offsets(Slice<'m, LaneOffsets>),
    /// So many bytes behind the one before.
    Pitch(usize),
}

impl<'m> Starts<'m> {
    /// The offsets and the pitch, of which one says it.
    fn numbers(&self) -> (Option<Slice<'m, LaneOffsets>>, u64) {
        match self {
            Starts::Offsets(offsets) => (Some(*offsets), 0),
            Starts::Pitch(pitch) => (None, *pitch as u64),
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
    fn pieces(&self) -> Pieces<'m> {
        let DeviceCohort {
            service,
            regions,
            arena,
            ..
        } = &self.cohort;
        Pieces {
            results: regions.results,
            runs: regions.runs,
            segments: regions.segments,
            fragments: service.at(service.fragments),
            fragment_bytes: service.at(service.fragment_bytes),
            arena: (service.form == Form::Stretches).then_some(*arena),
            heads: self.heads.map(|heads| heads.places.own),
            head_lengths: self.heads.map(|heads| heads.places.lengths),
            head_texts: self.heads.map(|heads| heads.texts),
            status_lines: self.heads.map(|heads| heads.status_lines),
            lane_count: self.cohort.lane_count,
            fields: self.heads.map(|heads| heads.fields).unwrap_or_default(),
            run_stride: regions.shares.run,
            segment_stride: regions.shares.segments,
            head_stride: self.heads.map_or(0, |heads| heads.places.stride as u32),
            lanes: self.cohort.lanes() as u32,
        }
    }

    /// Renders bodies row by row, or their runs alone.
    pub(crate) fn render_row(
        &self,
        queue: &Queue<'m>,
        to: &Destination<'m>,
        runs_only: bool,
    ) -> Result<(), GpuError> {
        let (offsets, pitch) = to.starts.numbers();
        let mut pieces = self.pieces();
        if runs_only {
            // A head and a run are as in segments, of which there are none.
            pieces.arena = None;
        }
        queue.launch(RowArgs {
            pieces,
            offsets,
            out: to.out,
            segments_out: to.segments,
            out_capacity: to.out.len() as u64,
            pitch,
            segments_capacity: to.segments.map_or(0, |segments| segments.len() as u32),
            runs_only: u32::from(runs_only),
        })
    }

    /// Renders bodies into columns.
    pub(crate) fn render_columns(
        &self,
        queue: &Queue<'m>,
        tiles: &Tiles<'m>,
    ) -> Result<(), GpuError> {
        queue.launch(ColumnArgs {
            pieces: self.pieces(),
            tiles: tiles.units,
            tile_rows: tiles.rows_used,
            rows_needed: self.cohort.rows_needed.flat().part(1..2),
            rows_capacity: tiles.rows,
            unused: 0,
        })
    }

    /// Turns columns into bodies, one after the other.
    pub(crate) fn transpose_columns(
        &self,
        queue: &Queue<'m>,
        tiles: &Tiles<'m>,
        to: &Destination<'m>,
    ) -> Result<(), GpuError> {
        let (offsets, pitch) = to.starts.numbers();
        queue.launch(TransposeArgs {
            pieces: self.pieces(),
            offsets,
            tiles: tiles.units,
            tile_rows: tiles.rows_used,
            out: to.out,
            out_capacity: to.out.len() as u64,
            pitch,
            rows_capacity: tiles.rows,
            unused: 0,
        })
    }
}
