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

pub mod tables;

pub use tables::{ListPool, PageParams, ParserTables};

use crate::abi::parse::{
    ClassifyRequests, ParseParams, RequestParts, Requests as RequestArgs, SortRequests,
    TransposeRequests,
};
use crate::abi::{Columns, SessionKey, WARP};
use crate::gpu::{DeviceBuffer, Extent, Extents, GpuError, Queue, SharedGpu, Slice};
use std::sync::Arc;

/// Requests in device memory, in one of two layouts: unit u (16 bytes) of request r is at
/// `r * request_stride + u * unit_stride`.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'m> {
    bytes: Slice<'m, u8>,
    /// Their bytes. One that is longer than its place is the host's.
    lengths: Slice<'m, u32>,
    /// From one request to the next: its place's size where the requests lie one after the other,
    /// 16 where they are transposed.
    request_stride: usize,
    /// From one unit of a request to its next: 16, or a row of all requests' units.
    unit_stride: usize,
}

/// The buffers for one lot of requests; several can be in flight in different streams.
#[derive(Debug)]
pub struct Parser {
    tables: Arc<ParserTables>,
    capacity: usize,
    request_bytes: usize,
    memory: DeviceBuffer,
    transposed: Extent<u8>,
    pages: Extent<u16>,
    parts: Extent<RequestParts>,
    order: Extent<u32>,
    page_start: Extent<u32>,
}

/// Requests whose numbers a parser has sorted by page, in a queue's stream.
#[derive(Clone, Copy, Debug)]
pub struct Sorted<'m> {
    parser: &'m Parser,
    requests: Requests<'m>,
}

/// Where the lanes of a page's cohort go; as many values of each as there can be lanes.
#[derive(Clone, Copy, Debug)]
pub struct Lanes<'m> {
    /// The page.
    pub page: usize,
    /// Lane 0 is this one of the page's requests: 0, but for a page with more requests than its
    /// cohort takes.
    pub first: u32,
    /// The page's columns; a list's item columns have room for [`ListPool::max_items`] items a
    /// lane. Only the columns of parameters are used.
    pub columns: Columns<'m>,
    /// The arena; views are offsets into it.
    pub arena: Slice<'m, u8>,
    /// Where lane 0's part of the arena begins, a multiple of 8 not before the program's texts.
    pub text_base: u32,
    /// The size of a lane's part, a multiple of 8; [`PageParams::text_stride`] is enough.
    pub text_stride: u32,
    /// What the session cookie says. Unused by pages without a session.
    pub sessions: Slice<'m, SessionKey>,
    /// [`LANE_ACTIVE`](crate::abi::LANE_ACTIVE), [`LANE_HOST`](crate::abi::LANE_HOST), or
    /// [`LANE_FINISHED`](crate::abi::LANE_FINISHED) where there is no request.
    pub states: Slice<'m, u8>,
    /// The number of its request.
    pub tickets: Slice<'m, u32>,
    /// One number: how many lanes there are.
    pub lane_count: Slice<'m, u32>,
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
        capacity: usize,
        request_bytes: usize,
        transposes: bool,
    ) -> Result<Parser, GpuError> {
        let request_bytes = request_bytes.next_multiple_of(16);
        if request_bytes > 0xfff0 {
            let message = format!("requests of {request_bytes} bytes are too large to be parsed");
            return Err(GpuError::Failed(message));
        }
        let transposed = match transposes {
            true => capacity.next_multiple_of(WARP) * request_bytes,
            false => 0,
        };
        let mut places = Extents::default();
        Ok(Parser {
            capacity,
            request_bytes,
            transposed: places.take(transposed),
            pages: places.take(capacity),
            parts: places.take(capacity),
            order: places.take(capacity),
            page_start: places.take(tables.page_count() as usize + 2),
            memory: DeviceBuffer::new(gpu, places.bytes())?,
            tables,
        })
    }

    /// What it knows of the service.
    #[must_use]
    pub fn tables(&self) -> &ParserTables {
        &self.tables
    }

    /// The requests' numbers, those of a page together and in the order they came, the host's last.
    #[must_use]
    pub fn order(&self) -> Slice<'_, u32> {
        self.memory.slice(self.order)
    }

    /// Of each page: where its requests begin in [`Parser::order`]; then where the host's begin,
    /// then the number of requests.
    #[must_use]
    pub fn page_start(&self) -> Slice<'_, u32> {
        self.memory.slice(self.page_start)
    }

    /// Requests one after the other, each in a place of its own of the parser's `request_bytes`.
    ///
    /// # Panics
    /// There are not as many places as lengths, or more than the parser takes.
    #[must_use]
    pub fn rows<'m>(&self, bytes: Slice<'m, u8>, lengths: Slice<'m, u32>) -> Requests<'m> {
        assert_eq!(bytes.len(), lengths.len() * self.request_bytes);
        assert!(lengths.len() <= self.capacity, "more than the parser takes");
        Requests {
            bytes,
            lengths,
            request_stride: self.request_bytes,
            unit_stride: 16,
        }
    }

    /// Transposes requests into the parser's own buffer (paper, section 4.3.2), and gives them as
    /// they are there.
    ///
    /// # Errors
    /// The launch failed.
    ///
    /// # Panics
    /// They are not [`Parser::rows`], or this parser was not made for it.
    pub fn transpose<'m>(
        &'m self,
        queue: &Queue<'m>,
        requests: &Requests<'m>,
    ) -> Result<Requests<'m>, GpuError> {
        assert_eq!(requests.request_stride, self.request_bytes);
        let count = requests.lengths.len();
        let padded_count = count.next_multiple_of(WARP);
        let transposed = self.memory.slice(self.transposed);
        let transposed = transposed.part(0..padded_count * self.request_bytes);
        queue.launch(TransposeRequests {
            from: requests.bytes,
            to: transposed,
            lengths: requests.lengths,
            count: count as u32,
            capacity: self.request_bytes as u32,
            padded_count: padded_count as u32,
            unused: 0,
        })?;
        Ok(Requests {
            bytes: transposed,
            request_stride: 16,
            unit_stride: 16 * padded_count,
            ..*requests
        })
    }

    fn request_arguments<'m>(&self, requests: &Requests<'m>) -> RequestArgs<'m> {
        RequestArgs {
            base: requests.bytes,
            lengths: requests.lengths,
            request_stride: requests.request_stride as u64,
            unit_stride: requests.unit_stride as u64,
            count: requests.lengths.len() as u32,
            capacity: self.request_bytes as u32,
        }
    }

    /// Finds each request's page and its parts, and sorts the requests' numbers by page.
    ///
    /// # Errors
    /// A launch failed.
    ///
    /// # Panics
    /// They are more than the parser takes.
    pub fn sort<'m>(
        &'m self,
        queue: &Queue<'m>,
        requests: &Requests<'m>,
    ) -> Result<Sorted<'m>, GpuError> {
        let count = requests.lengths.len();
        queue.launch(ClassifyRequests {
            tables: self.tables.arguments(),
            requests: self.request_arguments(requests),
            pages: self.memory.slice(self.pages),
            parts: self.memory.slice(self.parts),
        })?;
        queue.launch(SortRequests {
            pages: self.memory.slice(self.pages),
            order: self.order(),
            page_start: self.page_start(),
            count: count as u32,
            page_count: self.tables.page_count(),
        })?;
        Ok(Sorted {
            parser: self,
            requests: *requests,
        })
    }
}

impl<'m> Sorted<'m> {
    /// Fills in the lanes of a page's cohort from its requests; nothing where there is no such
    /// page.
    ///
    /// # Errors
    /// The launch failed.
    ///
    /// # Panics
    /// There are not as many of each of the lanes' things.
    pub fn params(&self, queue: &Queue<'m>, lanes: &Lanes<'m>) -> Result<(), GpuError> {
        let Sorted { parser, requests } = self;
        let Some(page) = parser.tables.pages().get(lanes.page) else {
            return Ok(());
        };
        let lanes_max = lanes.states.len();
        assert_eq!([lanes.sessions.len(), lanes.tickets.len()], [lanes_max; 2]);
        // What the parser's buffers say of the requests, `Parser::sort` has put into the stream
        // before.
        queue.launch(ParseParams {
            tables: parser.tables.arguments(),
            requests: parser.request_arguments(requests),
            parts: parser.memory.slice(parser.parts),
            order: parser.order(),
            page_start: parser.page_start(),
            columns: lanes.columns,
            arena: lanes.arena,
            sessions: lanes.sessions,
            states: lanes.states,
            tickets: lanes.tickets,
            lane_count: lanes.lane_count,
            page: lanes.page as u32,
            first: lanes.first,
            lanes_max: lanes_max as u32,
            text_base: lanes.text_base,
            text_stride: lanes.text_stride,
            unused: 0,
            counters: page.counters,
        })
    }
}
