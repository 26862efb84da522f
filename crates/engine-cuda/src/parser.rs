//! Parser: from raw requests in device memory to each page's columns (paper, sections 3.2, 4.2 and
//! 4.3.2).
//!
//! Requests of all pages come mixed, each in a place of the same size. Perhaps transposed first,
//! they are classified, a thread a request; their numbers are sorted by page; and for each page its
//! requests' parameters go into the columns of a cohort. The host needs to know no count on the
//! way: all steps can be put into a stream one after the other.
//!
//! What is unusual is left to the host (see [`crate::parser::tables`] for what a page may have), as
//! are requests that are wrong: the device never accepts what the host's parser refuses, and sees
//! the same values in what it accepts.

#![allow(unsafe_code)]

pub mod arguments;
pub mod tables;

pub use arguments::{RequestParts, Requests};
pub use tables::{ListPool, PageParams, ParserTables};

use crate::gpu::{Address, DeviceBuffer, GpuError, Grid, SharedGpu, Stream, launch};
use arguments::{ClassifyRequests, ParseParams, SortRequests, TransposeRequests};
use std::sync::Arc;

/// Threads of a block where a thread handles a request.
const THREADS: u32 = 128;
/// Threads of a warp, and requests of a tile of the transpose.
const WARP: u32 = 32;
/// Shared memory that a block has without being asked.
const SHARED_BYTES: u32 = 48 * 1024;

/// The buffers for one lot of requests; several can be in flight in different streams.
#[derive(Debug)]
pub struct Parser {
    gpu: SharedGpu,
    tables: Arc<ParserTables>,
    capacity: u32,
    request_bytes: u32,
    transposed: DeviceBuffer,
    pages: DeviceBuffer,
    parts: DeviceBuffer,
    order: DeviceBuffer,
    page_start: DeviceBuffer,
}

/// Where the lanes of a page's cohort go. Addresses point to as many values as there can be lanes.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// The page.
    pub page: u32,
    /// Lane 0 is this one of the page's requests: 0, but for a page with more requests than its
    /// cohort takes.
    pub first: u32,
    /// Most lanes.
    pub lanes_max: u32,
    /// The addresses of the page's columns by slot (see [`crate::abi::column_slots`]); a list's
    /// item columns have room for [`ListPool::max_items`] items a lane. Only the columns of
    /// parameters are used.
    pub columns: Address,
    /// The arena; views are offsets into it.
    pub arena: Address,
    /// Where lane 0's part of the arena begins, a multiple of 8 not before the program's texts.
    pub text_base: u32,
    /// The size of a lane's part, a multiple of 8; [`PageParams::text_stride`] is enough.
    pub text_stride: u32,
    /// A [`SessionKey`](crate::abi::SessionKey) a lane: of what the session cookie says. Unused by
    /// pages without a session.
    pub sessions: Address,
    /// A byte a lane: [`LANE_ACTIVE`](crate::abi::LANE_ACTIVE),
    /// [`LANE_HOST`](crate::abi::LANE_HOST), or [`LANE_FINISHED`](crate::abi::LANE_FINISHED) where
    /// there is no request.
    pub states: Address,
    /// A `u32` a lane: the number of its request.
    pub tickets: Address,
    /// One `u32`: how many lanes there are.
    pub lane_count: Address,
}

impl Parser {
    /// Buffers for so many requests of at most `request_bytes` each, which is rounded up to a
    /// multiple of 16; `transposes`: also for them transposed.
    ///
    /// # Errors
    /// There is no room, or the requests are larger than 65520 bytes.
    pub fn new(
        gpu: &SharedGpu,
        tables: Arc<ParserTables>,
        capacity: u32,
        request_bytes: u32,
        transposes: bool,
    ) -> Result<Parser, GpuError> {
        let request_bytes = request_bytes.next_multiple_of(16);
        if request_bytes > 0xfff0 {
            let message = format!("requests of {request_bytes} bytes are too large to be parsed");
            return Err(GpuError::Failed(message));
        }
        let requests = capacity as usize;
        let transposed = match transposes {
            true => requests.next_multiple_of(WARP as usize) * request_bytes as usize,
            false => 0,
        };
        Ok(Parser {
            gpu: gpu.clone(),
            capacity,
            request_bytes,
            transposed: DeviceBuffer::new(gpu, transposed)?,
            pages: DeviceBuffer::new(gpu, requests * size_of::<u16>())?,
            parts: DeviceBuffer::new(gpu, requests * size_of::<RequestParts>())?,
            order: DeviceBuffer::new(gpu, requests * size_of::<u32>())?,
            page_start: DeviceBuffer::new(
                gpu,
                (tables.page_count() as usize + 2) * size_of::<u32>(),
            )?,
            tables,
        })
    }

    /// What it knows of the service.
    #[must_use]
    pub fn tables(&self) -> &ParserTables {
        &self.tables
    }

    /// A `u32` a request: their numbers, those of a page together and in the order they came, the
    /// host's last.
    #[must_use]
    pub fn order(&self) -> Address {
        self.order.address()
    }

    /// A `u32` a page: where its requests begin in [`Parser::order`]; then where the host's begin,
    /// then the number of requests.
    #[must_use]
    pub fn page_start(&self) -> Address {
        self.page_start.address()
    }

    /// `count` requests at `base`, each `request_bytes` after the one before, with `lengths` (`u32`
    /// each).
    #[must_use]
    pub fn rows(&self, base: Address, lengths: Address, count: u32) -> Requests {
        Requests {
            base,
            lengths,
            request_stride: self.request_bytes.into(),
            unit_stride: 16,
            count,
            capacity: self.request_bytes,
        }
    }

    /// Transposes requests into the parser's own buffer (paper, section 4.3.2), and gives them as
    /// they are there.
    ///
    /// # Errors
    /// The launch failed.
    ///
    /// # Safety
    /// `requests` are [`Parser::rows`], no more than its capacity, and stay as they are until the
    /// stream has done it; this parser was made for it, and nothing in another stream uses its
    /// buffer.
    pub unsafe fn transpose(
        &self,
        stream: Stream,
        requests: &Requests,
    ) -> Result<Requests, GpuError> {
        debug_assert!(requests.count <= self.capacity);
        let padded_count = requests.count.next_multiple_of(WARP);
        let arguments = TransposeRequests {
            from: requests.base,
            to: self.transposed.address(),
            lengths: requests.lengths,
            count: requests.count,
            capacity: self.request_bytes,
            padded_count,
        };
        let tiles = (self.request_bytes / 16).div_ceil(WARP) * (padded_count / WARP);
        let grid = Grid {
            blocks: tiles,
            threads: 256,
            shared_bytes: 0,
        };
        // SAFETY: the buffer holds all of it, by the caller's promise; so are the addresses.
        unsafe { launch(&*self.gpu, stream, grid, &arguments)? };
        Ok(Requests {
            base: self.transposed.address(),
            request_stride: 16,
            unit_stride: 16 * u64::from(padded_count),
            ..*requests
        })
    }

    /// Finds each request's page and its parts.
    ///
    /// # Errors
    /// The launch failed.
    ///
    /// # Safety
    /// As [`Parser::transpose`], of requests in either layout.
    pub unsafe fn classify(&self, stream: Stream, requests: &Requests) -> Result<(), GpuError> {
        debug_assert!(requests.count <= self.capacity);
        let arguments = ClassifyRequests {
            tables: self.tables.arguments(),
            requests: *requests,
            pages: self.pages.address(),
            parts: self.parts.address(),
        };
        let grid = Grid::over(requests.count as usize, THREADS);
        // SAFETY: the buffers hold an entry for each request, by the caller's promise; so are the
        // addresses.
        unsafe { launch(&*self.gpu, stream, grid, &arguments) }
    }

    /// Sorts the numbers of `count` classified requests by page.
    ///
    /// # Errors
    /// The launch failed.
    ///
    /// # Safety
    /// So many were classified in this stream, or before it came here.
    pub unsafe fn sort(&self, stream: Stream, count: u32) -> Result<(), GpuError> {
        debug_assert!(count <= self.capacity);
        let page_count = self.tables.page_count();
        // Each warp has a count for each page and one for the host.
        let warp_bytes = (page_count + 1) * size_of::<u32>() as u32;
        let warps = (SHARED_BYTES / warp_bytes).clamp(1, 32);
        let arguments = SortRequests {
            pages: self.pages.address(),
            order: self.order.address(),
            page_start: self.page_start.address(),
            count,
            page_count,
        };
        let grid = Grid {
            blocks: 1,
            threads: warps * WARP,
            shared_bytes: warps * warp_bytes,
        };
        // SAFETY: the buffers hold an entry for each request and page.
        unsafe { launch(&*self.gpu, stream, grid, &arguments) }
    }

    /// Fills in the lanes of a page's cohort from its sorted requests.
    ///
    /// # Errors
    /// The launch failed.
    ///
    /// # Safety
    /// `requests` are the ones classified and sorted in this stream, or before it came here;
    /// `lanes` is a page of the service and its addresses are as said there, alive and used by
    /// nobody else until the stream has done it.
    pub unsafe fn params(
        &self,
        stream: Stream,
        requests: &Requests,
        lanes: &Lanes,
    ) -> Result<(), GpuError> {
        let Some(page) = self.tables.pages().get(lanes.page as usize) else {
            return Ok(());
        };
        let arguments = ParseParams {
            tables: self.tables.arguments(),
            requests: *requests,
            parts: self.parts.address(),
            order: self.order.address(),
            page_start: self.page_start.address(),
            columns: lanes.columns,
            arena: lanes.arena,
            sessions: lanes.sessions,
            states: lanes.states,
            tickets: lanes.tickets,
            lane_count: lanes.lane_count,
            page: lanes.page,
            first: lanes.first,
            lanes_max: lanes.lanes_max,
            text_base: lanes.text_base,
            text_stride: lanes.text_stride,
            unused: 0,
        };
        let counters = THREADS * page.counters * size_of::<u32>() as u32;
        let grid = Grid::over(lanes.lanes_max as usize, THREADS).with_shared(counters);
        // SAFETY: of the parser's own buffers as of `sort`; of the lanes' by the caller's promise.
        unsafe { launch(&*self.gpu, stream, grid, &arguments) }
    }
}
