//! What `kernels/parse.cu` is given: the tables of a service, requests, and where their lanes go.

use crate::gpu::Address;

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

    /// All tables.
    pub(crate) struct ParserTables {
        pub(crate) routes: Address,
        pub(crate) segments: Address,
        pub(crate) pages: Address,
        pub(crate) params: Address,
        pub(crate) options: Address,
        pub(crate) texts: Address,
        pub(crate) literal_count: u32,
        pub(crate) pattern_count: u32,
        pub(crate) page_count: u32,
        pub(crate) head_max: u32,
        pub(crate) target_max: u32,
        pub(crate) header_max: u32,
        pub(crate) body_max: u32,
        pub(crate) cookie: TableText,
        pub(crate) mount: TableText,
        pub(crate) unused: u32,
    }

    /// Requests in device memory, in one of two layouts: unit u (16 bytes) of request r is at
    /// `base + r * request_stride + u * unit_stride`.
    pub(crate) struct Requests {
        /// Where the first begins, a multiple of 16.
        pub(crate) base: Address,
        /// A `u32` each: their bytes. One that is longer than `capacity` is the host's.
        pub(crate) lengths: Address,
        /// From one request to the next: its place's size where the requests lie one after the
        /// other, 16 where they are transposed.
        pub(crate) request_stride: u64,
        /// From one unit of a request to its next: 16, or a row of all requests' units.
        pub(crate) unit_stride: u64,
        /// How many there are.
        pub(crate) count: u32,
        /// The most bytes a request can have, a multiple of 16, at most 65520.
        pub(crate) capacity: u32,
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

    /// Arguments of `transpose_requests`.
    pub(crate) struct TransposeRequests {
        pub(crate) from: Address,
        pub(crate) to: Address,
        pub(crate) lengths: Address,
        pub(crate) count: u32,
        pub(crate) capacity: u32,
        pub(crate) padded_count: u32,
        pub(crate) unused: u32,
    }

    /// Arguments of `classify_requests`.
    pub(crate) struct ClassifyRequests {
        pub(crate) tables: ParserTables,
        pub(crate) requests: Requests,
        pub(crate) pages: Address,
        pub(crate) parts: Address,
    }

    /// Arguments of `sort_requests`.
    pub(crate) struct SortRequests {
        pub(crate) pages: Address,
        pub(crate) order: Address,
        pub(crate) page_start: Address,
        pub(crate) count: u32,
        pub(crate) page_count: u32,
    }

    /// Arguments of `parse_params`.
    pub(crate) struct ParseParams {
        pub(crate) tables: ParserTables,
        pub(crate) requests: Requests,
        pub(crate) parts: Address,
        pub(crate) order: Address,
        pub(crate) page_start: Address,
        pub(crate) columns: Address,
        pub(crate) arena: Address,
        pub(crate) sessions: Address,
        pub(crate) states: Address,
        pub(crate) tickets: Address,
        pub(crate) lane_count: Address,
        pub(crate) page: u32,
        pub(crate) first: u32,
        pub(crate) lanes_max: u32,
        pub(crate) text_base: u32,
        pub(crate) text_stride: u32,
        pub(crate) unused: u32,
    }
}

arguments! {
    TransposeRequests = TransposeRequests,
    ClassifyRequests = Classify,
    SortRequests = Sort,
    ParseParams = Params,
}
