//! What `kernels/parse.cu` is given: the tables of a service, requests, and where their lanes go.

use super::layout::UNIT;
use super::{Columns, SessionKey, WARP};
use crate::gpu::{Count, Grid, Slice};

/// The page of a request that the host answers.
pub(crate) const HOST_PAGE: u32 = 0xffff;
/// A segment that is a text, no parameter.
pub(crate) const NO_SEGMENT_NAME: u32 = u32::MAX;
/// Most bytes of a parameter's name.
pub(crate) const NAME_BYTES: usize = 24;

numbers! {
    /// What a page reads of its requests, as bits.
    pub(crate) enum PageFlag: u32 {
        /// A form.
        Form = 1,
        /// The session cookie.
        Session = 2,
        /// Path, cookies or headers.
        Others = 4,
    }
}

numbers! {
    /// Where a parameter may stand, as bits.
    pub(crate) enum ParamPlace: u32 {
        Query = 1,
        Form = 2,
        Path = 4,
        Cookie = 8,
        Header = 16,
    }
}

numbers! {
    /// What a parameter is.
    pub(crate) enum ParamKind: u32 {
        Text,
        Int,
        Decimal,
        Date,
    }
}

structs! {
    /// A text in the tables.
    pub(crate) struct TableText {
        pub(crate) offset: u32,
        pub(crate) length: u32,
    }

    /// A method and a path.
    pub(crate) struct RouteEntry {
        pub(crate) method: u64,
        pub(crate) tail: u64,
        pub(crate) path: TableText,
        pub(crate) segment_start: u32,
        pub(crate) segment_count: u32,
        pub(crate) page: u32,
        pub(crate) unused: u32,
    }

    /// A segment of a route.
    pub(crate) struct SegmentEntry {
        pub(crate) name: u32,
        pub(crate) text: TableText,
    }

    /// A page's parameters and what it reads.
    pub(crate) struct PageEntry {
        pub(crate) param_start: u32,
        pub(crate) scalar_count: u32,
        pub(crate) column_count: u32,
        pub(crate) flags: u32,
    }

    /// A parameter, or a column of a list of records.
    pub(crate) struct ParamEntry {
        pub(crate) name: [u64; NAME_BYTES / 8],
        pub(crate) least: i64,
        pub(crate) greatest: i64,
        pub(crate) name_length: u32,
        pub(crate) places: u32,
        pub(crate) kind: u32,
        pub(crate) slot: u32,
        pub(crate) option_start: u32,
        pub(crate) option_count: u32,
        pub(crate) fallback: TableText,
        pub(crate) segment_name: u32,
        pub(crate) list: u32,
        pub(crate) span_slot: u32,
        pub(crate) min_items: u32,
        pub(crate) max_items: u32,
        pub(crate) unused: u32,
    }

    /// Where the parts of a request are, in bytes from its start.
    #[derive(PartialEq, Eq)]
    #[repr(align(16))]
    pub(crate) struct RequestParts {
        /// The route it was found by.
        pub(crate) route: u16,
        /// Where its target begins.
        pub(crate) path_start: u16,
        /// The path's length, without the query.
        pub(crate) path_length: u16,
        /// The length of path, question mark and query.
        pub(crate) target_length: u16,
        /// The first Cookie header's value; 0 for none.
        pub(crate) cookie_start: u16,
        /// Its length.
        pub(crate) cookie_length: u16,
        /// The content, after the head.
        pub(crate) content_start: u16,
        /// Its length.
        pub(crate) content_length: u16,
    }
}

pointing! {
    /// All tables.
    pub(crate) struct ParserTables<'m> {
        routes: Slice<'m, RouteEntry> [literal_count + pattern_count],
        segments: Slice<'m, SegmentEntry>,
        pages: Slice<'m, PageEntry> [page_count],
        params: Slice<'m, ParamEntry>,
        options: Slice<'m, TableText>,
        texts: Slice<'m, u8>,
        literal_count: u32,
        pattern_count: u32,
        page_count: u32,
        head_max: u32,
        target_max: u32,
        header_max: u32,
        body_max: u32,
        cookie: TableText,
        mount: TableText,
        unused: u32,
    }

    /// Requests in device memory, in one of two layouts: unit u (16 bytes) of request r is at
    /// `base + r * request_stride + u * unit_stride`.
    pub(crate) struct Requests<'m> {
        /// Where the first begins, a multiple of 16.
        base: Slice<'m, u8> [reach(count, capacity, request_stride, unit_stride)],
        /// Their bytes. One that is longer than `capacity` is the host's.
        lengths: Slice<'m, u32> [count],
        /// From one request to the next: its place's size where the requests lie one after the
        /// other, 16 where they are transposed.
        request_stride: u64,
        /// From one unit of a request to its next: 16, or a row of all requests' units.
        unit_stride: u64,
        /// How many there are.
        count: u32,
        /// The most bytes a request can have, a multiple of 16, at most 65520.
        capacity: u32,
    }
}

/// Bytes up to the last unit of the last request.
fn reach(count: Count, capacity: Count, request_stride: Count, unit_stride: Count) -> Count {
    let (requests, units) = (count.get(), capacity.get() / UNIT);
    if requests == 0 || units == 0 {
        return Count::from(0u32);
    }
    request_stride * (requests - 1) + unit_stride * (units - 1) + UNIT
}

impl Requests<'_> {
    fn count(&self) -> Count {
        self.count.into()
    }
}

/// Threads of a block where a thread handles a request.
const THREADS: u32 = 128;
/// Shared memory that a block has without being asked.
const SHARED_BYTES: u32 = 48 * 1024;

/// Most pages that can be sorted by: so many counts fit a block's shared memory.
pub(crate) const PAGES_MAX: usize = 12_000;
/// Most counters of a page: so many for each thread fit a block's shared memory.
pub(crate) const COUNTERS_MAX: usize = 96;

/// One block, in which each warp has a count for each page and one for the host.
fn sort_grid(page_count: Count) -> Grid {
    let warp_bytes = (page_count.get() as u32 + 1) * size_of::<u32>() as u32;
    let warps = (SHARED_BYTES / warp_bytes).clamp(1, 32);
    Grid::blocks(1, warps * WARP as u32).with_shared(warps * warp_bytes)
}

signatures! {
    /// Arguments of `transpose_requests`.
    pub(crate) struct TransposeRequests<'m> {
        from: Slice<'m, u8> [count * capacity],
        to: Slice<'m, u8> [padded_count * capacity],
        lengths: Slice<'m, u32> [count],
        count: u32,
        /// Bytes of a request's place, a multiple of 16.
        capacity: u32,
        /// Requests of a row of the result, a multiple of 32.
        padded_count: u32,
        unused: u32,
    }
    where {
        padded_count.get().is_multiple_of(WARP) && capacity.get().is_multiple_of(UNIT),
        padded_count >= count,
    }
    launch TransposeRequests => Grid::blocks(
        (capacity.get() / UNIT).div_ceil(WARP) * (padded_count.get() / WARP),
        256,
    );

    /// Arguments of `classify_requests`.
    pub(crate) struct ClassifyRequests<'m> {
        tables: ParserTables<'m>,
        requests: Requests<'m>,
        pages: Slice<'m, u16> [requests.count()],
        parts: Slice<'m, RequestParts> [requests.count()],
    }
    launch Classify => requests.count().over(THREADS);

    /// Arguments of `sort_requests`.
    pub(crate) struct SortRequests<'m> {
        pages: Slice<'m, u16> [count],
        order: Slice<'m, u32> [count],
        /// Of each page, of the host, and the number of requests.
        page_start: Slice<'m, u32> [page_count + 2u32],
        count: u32,
        page_count: u32,
    }
    launch Sort => sort_grid(page_count);

    /// Arguments of `parse_params`.
    pub(crate) struct ParseParams<'m> {
        tables: ParserTables<'m>,
        requests: Requests<'m>,
        parts: Slice<'m, RequestParts> [requests.count()],
        order: Slice<'m, u32> [requests.count()],
        page_start: Slice<'m, u32> [Count::from(tables.page_count) + 2u32],
        columns: Columns<'m>,
        arena: Slice<'m, u8> [lanes_max * text_stride + text_base],
        sessions: Slice<'m, SessionKey> [lanes_max],
        states: Slice<'m, u8> [lanes_max],
        tickets: Slice<'m, u32> [lanes_max],
        lane_count: Slice<'m, u32> [Count::from(1u32)],
        page: u32,
        first: u32,
        lanes_max: u32,
        text_base: u32,
        text_stride: u32,
        unused: u32,
    }
    beside {
        /// Counters of a thread: the page's parameters.
        counters: u32,
    }
    where { page < tables.page_count.into() }
    launch Params => lanes_max.over(THREADS)
        .with_shared(THREADS * counters.get() as u32 * size_of::<u32>() as u32);
}
