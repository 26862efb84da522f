//! The lanes' shares of one buffer, and the table of the cohort's columns.

use super::room::Shares;
use crate::abi::stage::HeaderValue;
use crate::abi::{LaneResult, WARP};
use crate::gpu::{Address, DeviceBuffer, Extent, Extents, Slice};
use rhythm_engine::cohort::{Segment, View};

/// Registers of a warp are kept in shared memory up to so many bytes; with more, fewer warps would
/// run at a time than with global memory.
const SHARED_REGISTERS_MAX: usize = 48 << 10;

/// Words of a warp's registers: the program's, and one for what is left of the lane's limits.
fn register_words(registers: u32) -> usize {
    (registers as usize + 1) * WARP
}

/// Bytes of shared memory for a warp's registers; `None` where they are in global memory.
pub(crate) fn shared_registers(registers: u32) -> Option<u32> {
    let bytes = register_words(registers) * size_of::<u64>();
    (bytes <= SHARED_REGISTERS_MAX).then_some(bytes as u32)
}

/// Words of global memory for so many lanes' registers; none where they are in shared memory.
pub(super) fn spilled_words(lanes: usize, registers: u32) -> usize {
    match shared_registers(registers) {
        Some(_) => 0,
        None => lanes.div_ceil(WARP) * register_words(registers),
    }
}

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

/// The lanes' regions: of each as many as the shares say, a lane's behind the other's.
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

/// The addresses of a cohort's columns by slot, in the device's memory; see
/// [`column_slots`](crate::abi::column_slots).
#[derive(Clone, Copy, Debug)]
pub struct Columns<'m> {
    table: Slice<'m, Address>,
}

impl<'m> Columns<'m> {
    /// The columns that a table says.
    ///
    /// # Safety
    /// When work that is put into a stream after this reads the table, its addresses are of the
    /// page's columns, as many as it has slots, in memory that is borrowed for `'m`: a value for
    /// each lane, and of lists as many items as the lanes' spans reach.
    #[must_use]
    #[allow(unsafe_code)]
    pub unsafe fn new(table: Slice<'m, Address>) -> Columns<'m> {
        Columns { table }
    }

    /// Where the table is.
    pub(crate) fn address(&self) -> Address {
        self.table.address()
    }
}
