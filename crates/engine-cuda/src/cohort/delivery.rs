//! What leaves the device beside bodies: each lane's result, queries, headers and texts, one
//! lane's behind the other's.

use super::stages::DeviceCohort;
use crate::abi::LaneResult;
use crate::abi::layout::{DeliveredText, LaneOffsets, OffsetsArgs, TextsArgs};
use crate::gpu::{GpuError, Queue, Slice};

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
        let (results, lanes) = (self.regions.results, self.lanes() as u32);
        assert_eq!(
            to.offsets.len(),
            self.lanes() + 1,
            "one a lane, and the sums"
        );
        assert_eq!(to.results.len(), self.lanes());
        queue.launch(OffsetsArgs {
            results,
            offsets: to.offsets,
            lanes,
            runs_only: u32::from(runs_only),
        })?;
        queue.launch(TextsArgs {
            results,
            offsets: to.offsets,
            lane_list: self.lane_list,
            arena: self.arena,
            results_out: to.results,
            queries_out: to.queries,
            headers_out: to.headers,
            texts_out: to.texts,
            regions: self.shares(),
            lanes,
            queries_capacity: to.queries.len() as u32,
            headers_capacity: to.headers.len() as u32,
            texts_capacity: to.texts.len() as u32,
        })
    }
}
