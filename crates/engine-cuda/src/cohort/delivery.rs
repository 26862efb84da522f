//! What leaves the device beside bodies: each lane's result, queries, headers and texts, one
//! lane's behind the other's.
#![allow(unsafe_code)]

use super::stages::DeviceCohort;
use crate::abi::LaneResult;
use crate::abi::layout::{DeliveredText, LaneOffsets, OffsetsArgs, TextsArgs};
use crate::gpu::{GpuError, Grid, Queue, Slice, address_or_null};

/// Where it goes. Queries, headers and texts that find no room are left out, which the sums tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery<'m> {
    /// Where each lane's things begin, and behind the last one's the sums.
    pub(crate) offsets: Slice<'m, LaneOffsets>,
    pub(crate) results: Slice<'m, LaneResult>,
    pub(crate) queries: Slice<'m, DeliveredText>,
    pub(crate) headers: Slice<'m, DeliveredText>,
    pub(crate) texts: Slice<'m, u8>,
}

impl<'m> DeviceCohort<'m> {
    /// Sums up what the lanes have, bodies or their runs alone included, and delivers all but
    /// these.
    pub(crate) fn deliver(
        &self,
        queue: &Queue<'m>,
        to: &Delivery<'m>,
        runs_only: bool,
    ) -> Result<(), GpuError> {
        let (results, lanes) = (self.regions.results.address(), self.lanes() as u32);
        assert_eq!(
            to.offsets.len(),
            self.lanes() + 1,
            "one a lane, and the sums"
        );
        assert_eq!(to.results.len(), self.lanes());
        let sums = OffsetsArgs {
            results,
            offsets: to.offsets.address(),
            lanes,
            runs_only: u32::from(runs_only),
        };
        // SAFETY: all is borrowed for 'm, an item for each lane, and one more of the offsets.
        unsafe { queue.launch(Grid::blocks(1, 256), &sums)? };
        let texts = TextsArgs {
            results,
            offsets: to.offsets.address(),
            lane_list: address_or_null(self.lane_list),
            arena: self.arena.address(),
            results_out: to.results.address(),
            queries_out: to.queries.address(),
            headers_out: to.headers.address(),
            texts_out: to.texts.address(),
            regions: self.shares(),
            lanes,
            queries_capacity: to.queries.len() as u32,
            headers_capacity: to.headers.len() as u32,
            texts_capacity: to.texts.len() as u32,
        };
        // SAFETY: all is borrowed for 'm, an item or a share for each lane; of the others the
        // kernel writes no more than the capacities, which are their lengths.
        unsafe { queue.launch(Grid::over(self.lanes(), 128), &texts) }
    }
}
