//! The structs of `kernels/parse.cu` and of the tables it reads.

#![allow(unsafe_code)]

use crate::gpu::{Address, Arguments, Kernel};

/// The page of a request that the host answers.
pub(super) const HOST_PAGE: u32 = 0xffff;
/// A segment that is a text, no parameter.
pub(super) const NO_SEGMENT_NAME: u32 = u32::MAX;
/// Most bytes of a parameter's name.
pub(super) const NAME_BYTES: usize = 24;

pub(super) const PAGE_FORM: u32 = 1;
pub(super) const PAGE_SESSION: u32 = 2;
pub(super) const PAGE_OTHERS: u32 = 4;

/// A text in the tables.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct TableText {
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// A method and a path.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct RouteEntry {
    pub(super) method: u64,
    pub(super) tail: u64,
    pub(super) path: TableText,
    pub(super) segment_start: u32,
    pub(super) segment_count: u32,
    pub(super) page: u32,
    pub(super) unused: u32,
}

/// A segment of a route.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct SegmentEntry {
    pub(super) name: u32,
    pub(super) text: TableText,
}

/// A page's parameters and what it reads.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct PageEntry {
    pub(super) param_start: u32,
    pub(super) scalar_count: u32,
    pub(super) column_count: u32,
    pub(super) flags: u32,
}

/// A parameter, or a column of a list of records.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct ParamEntry {
    pub(super) name: [u64; NAME_BYTES / 8],
    pub(super) least: i64,
    pub(super) greatest: i64,
    pub(super) name_length: u32,
    pub(super) places: u32,
    pub(super) kind: u32,
    pub(super) slot: u32,
    pub(super) option_start: u32,
    pub(super) option_count: u32,
    pub(super) fallback: TableText,
    pub(super) segment_name: u32,
    pub(super) list: u32,
    pub(super) span_slot: u32,
    pub(super) min_items: u32,
    pub(super) max_items: u32,
    pub(super) unused: u32,
}

/// All tables.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct TableArguments {
    pub(super) routes: Address,
    pub(super) segments: Address,
    pub(super) pages: Address,
    pub(super) params: Address,
    pub(super) options: Address,
    pub(super) texts: Address,
    pub(super) literal_count: u32,
    pub(super) pattern_count: u32,
    pub(super) page_count: u32,
    pub(super) head_max: u32,
    pub(super) target_max: u32,
    pub(super) header_max: u32,
    pub(super) body_max: u32,
    pub(super) cookie: TableText,
    pub(super) mount: TableText,
    pub(super) unused: u32,
}

/// Requests in device memory, in one of two layouts: unit u (16 bytes) of request r is at
/// `base + r * request_stride + u * unit_stride`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Requests {
    /// Where the first begins, a multiple of 16.
    pub base: Address,
    /// A `u32` each: their bytes. One that is longer than `capacity` is the host's.
    pub lengths: Address,
    /// From one request to the next: its place's size where the requests lie one after the other,
    /// 16 where they are transposed.
    pub request_stride: u64,
    /// From one unit of a request to its next: 16, or a row of all requests' units.
    pub unit_stride: u64,
    /// How many there are.
    pub count: u32,
    /// The most bytes a request can have, a multiple of 16, at most 65520.
    pub capacity: u32,
}

/// Where the parts of a request are, in bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct RequestParts {
    /// The route it was found by.
    pub route: u16,
    /// Where its target begins.
    pub path_start: u16,
    /// The path's length, without the query.
    pub path_length: u16,
    /// The length of path, question mark and query.
    pub target_length: u16,
    /// The first Cookie header's value; 0 for none.
    pub cookie_start: u16,
    /// Its length.
    pub cookie_length: u16,
    /// The content, after the head.
    pub content_start: u16,
    /// Its length.
    pub content_length: u16,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct TransposeRequests {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) lengths: Address,
    pub(super) count: u32,
    pub(super) capacity: u32,
    pub(super) padded_count: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct ClassifyRequests {
    pub(super) tables: TableArguments,
    pub(super) requests: Requests,
    pub(super) pages: Address,
    pub(super) parts: Address,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct SortRequests {
    pub(super) pages: Address,
    pub(super) order: Address,
    pub(super) page_start: Address,
    pub(super) count: u32,
    pub(super) page_count: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct ParseParams {
    pub(super) tables: TableArguments,
    pub(super) requests: Requests,
    pub(super) parts: Address,
    pub(super) order: Address,
    pub(super) page_start: Address,
    pub(super) columns: Address,
    pub(super) arena: Address,
    pub(super) sessions: Address,
    pub(super) states: Address,
    pub(super) tickets: Address,
    pub(super) lane_count: Address,
    pub(super) page: u32,
    pub(super) first: u32,
    pub(super) lanes_max: u32,
    pub(super) text_base: u32,
    pub(super) text_stride: u32,
    pub(super) unused: u32,
}

macro_rules! arguments {
    ($($struct:ident: $kernel:ident,)*) => {
        $(
            // SAFETY: `#[repr(C)]`, with the kernel's fields in their order.
            unsafe impl Arguments for $struct {
                const KERNEL: Kernel = Kernel::$kernel;
            }
        )*
    };
}

arguments! {
    TransposeRequests: TransposeRequests,
    ClassifyRequests: Classify,
    SortRequests: Sort,
    ParseParams: Params,
}

/// A table as the bytes that are copied to the device.
pub(super) trait Table {
    /// The entries' bytes.
    fn bytes(&self) -> &[u8];
}

macro_rules! tables {
    ($($struct:ident $size:literal,)*) => {
        $(
            const _: () = assert!(size_of::<$struct>() == $size);

            impl Table for [$struct] {
                fn bytes(&self) -> &[u8] {
                    // SAFETY: `#[repr(C)]` structs of integers whose sizes add up to the struct's:
                    // no byte is padding.
                    unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), size_of_val(self)) }
                }
            }
        )*
    };
}

tables! {
    RouteEntry 40,
    SegmentEntry 12,
    PageEntry 16,
    ParamEntry 96,
    TableText 8,
}
