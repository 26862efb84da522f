//! The lanes' shares of one buffer.

use super::room::Shares;
use crate::abi::LaneResult;
use crate::abi::stage::{HeaderValue, spilled_words};
use crate::gpu::{DeviceBuffer, Extent, Extents, Slice};
use rhythm_engine::cohort::{Segment, View};

/// Where the lanes' regions are in one buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RegionExtents {
    results: Extent<LaneResult>,
    runs: Extent<u8>,
    segments: Extent<Segment>,
    queries: Extent<View>,
    headers: Extent<HeaderValue>,
    answers: Extent<View>,
    registers: Extent<u64>,
}

impl RegionExtents {
    /// Finds room for them. `registers` is the most that a program has.
    pub(crate) fn new(
        places: &mut Extents,
        lanes: usize,
        shares: &Shares,
        registers: u32,
    ) -> RegionExtents {
        RegionExtents {
            results: places.take(lanes),
            runs: places.take(lanes * shares.run as usize),
            segments: places.take(lanes * shares.segments as usize),
            queries: places.take(lanes * shares.queries as usize),
            headers: places.take(lanes * shares.headers as usize),
            answers: places.take(lanes * shares.queries as usize),
            registers: places.take(spilled_words(lanes, registers)),
        }
    }

    /// The regions, in the buffer that was made for them.
    pub(crate) fn of<'m>(&self, buffer: &'m DeviceBuffer, shares: &Shares) -> LaneRegions<'m> {
        LaneRegions {
            shares: *shares,
            results: buffer.slice(self.results),
            runs: buffer.slice(self.runs),
            segments: buffer.slice(self.segments),
            queries: buffer.slice(self.queries),
            headers: buffer.slice(self.headers),
            answers: buffer.slice(self.answers),
            registers: buffer.slice(self.registers),
        }
    }
}

/// The lanes' regions: of each as many as the shares say, a lane's behind the other's; of segments
/// all lanes' first ones, then all second ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneRegions<'m> {
    pub(crate) shares: Shares,
    /// One a lane: this says how many lanes there are.
    pub(crate) results: Slice<'m, LaneResult>,
    pub(crate) runs: Slice<'m, u8>,
    pub(crate) segments: Slice<'m, Segment>,
    pub(crate) queries: Slice<'m, View>,
    pub(crate) headers: Slice<'m, HeaderValue>,
    /// Answers made on the device, by the places of queries.
    pub(crate) answers: Slice<'m, View>,
    /// Registers of programs that have more than shared memory has room for.
    pub(crate) registers: Slice<'m, u64>,
}
