//! The texts that heads of answers are made of, on the device, written by the protocol's own
//! writer.
#![allow(unsafe_code)]

use super::ResidentError;
use crate::executor::upload::{Bundle, Plain, upload};
use crate::gpu::{Address, Arguments, DeviceBuffer, Kernel, SharedGpu, Stream};
use rhythm_engine::program::Service;
use rhythm_engine::program::{PageProgram, SessionUse};
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::response::{HeaderName, ResponseWriter, SameSite, SetCookie};

/// A text among those uploaded.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct HeadText {
    offset: u32,
    length: u32,
}

// SAFETY: two integers.
unsafe impl Plain for HeadText {}

/// Statuses that have a line.
const STATUSES: std::ops::Range<u16> = 100..600;

/// Arguments of `write_heads`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct HeadArgs {
    pub(super) results: Address,
    pub(super) lane_count: Address,
    pub(super) arena: Address,
    pub(super) headers: Address,
    pub(super) created: Address,
    pub(super) heads: Address,
    pub(super) head_lengths: Address,
    texts: Address,
    status_lines: Address,
    header_names: Address,
    cookie_before: HeadText,
    cookie_after: HeadText,
    cookie_removed: HeadText,
    fields: HeadText,
    pub(super) lanes: u32,
    pub(super) head_stride: u32,
    pub(super) header_stride: u32,
    unused: u32,
}

// SAFETY: `#[repr(C)]`, the fields of the kernel's struct in its order; sizes are compared by a
// test.
unsafe impl Arguments for HeadArgs {
    const KERNEL: Kernel = Kernel::Heads;
}

/// Arguments of `begin_lanes`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct BeginArgs {
    pub(super) states: Address,
    pub(super) lane_count: Address,
    pub(super) results: Address,
    pub(super) lanes: u32,
    pub(super) unused: u32,
}

// SAFETY: as above.
unsafe impl Arguments for BeginArgs {
    const KERNEL: Kernel = Kernel::Begin;
}

/// A page's texts.
#[derive(Debug)]
struct PageHeads {
    fields: HeadText,
    header_names: usize,
    bytes: usize,
}

/// The texts of a service.
#[derive(Debug)]
pub(super) struct Heads {
    memory: DeviceBuffer,
    texts: usize,
    status_lines: usize,
    cookie: [HeadText; 3],
    pages: Vec<PageHeads>,
}

/// Texts at multiples of 8.
#[derive(Default)]
struct Texts(Vec<u8>);

impl Texts {
    fn push(&mut self, text: &[u8]) -> HeadText {
        let offset = self.0.len() as u32;
        self.0.extend_from_slice(text);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        HeadText {
            offset,
            length: text.len() as u32,
        }
    }
}

impl Heads {
    /// Writes and uploads them. `now` is the time of Date, in seconds since 1970.
    pub(super) fn new(
        gpu: &SharedGpu,
        stream: Stream,
        service: &Service,
        now: u64,
    ) -> Result<Heads, ResidentError> {
        let mut texts = Texts::default();
        let lines: Vec<HeadText> = STATUSES
            .map(|status| {
                let mut line = Vec::new();
                ResponseWriter::new(&mut line, status);
                texts.push(&line)
            })
            .collect();
        let cookie = cookie_texts(&service.config.session.cookie).map(|text| texts.push(&text));
        let date = DateCache::new(now);
        let mut bundle = Bundle::default();
        let mut pages = Vec::new();
        for page in &service.pages {
            let fields = fields(page, &date);
            let names: Vec<Vec<u8>> = page
                .header_names
                .iter()
                .map(|name| format!("{name}: ").into_bytes())
                .collect();
            let cookie: u32 = cookie.iter().map(|text| text.length).sum();
            let named: usize = names.iter().map(Vec::len).sum();
            let placed: Vec<HeadText> = names.iter().map(|name| texts.push(name)).collect();
            pages.push(PageHeads {
                bytes: 64 + cookie as usize + 40 + fields.len() + named,
                fields: texts.push(&fields),
                header_names: bundle.push(&placed),
            });
        }
        let status_lines = bundle.push(&lines);
        let texts = bundle.push(&texts.0);
        Ok(Heads {
            memory: upload(gpu, stream, bundle.bytes())?,
            texts,
            status_lines,
            cookie,
            pages,
        })
    }

    /// Room for a head of the page, if its headers' values have no more than `values` bytes; a
    /// multiple of 16.
    pub(super) fn stride(&self, page: usize, values: usize) -> usize {
        (self.pages[page].bytes + values).next_multiple_of(64)
    }

    /// The arguments that concern the page's texts.
    pub(super) fn arguments(&self, page: usize) -> HeadArgs {
        let at = |place: usize| self.memory.address().plus(place);
        let page = &self.pages[page];
        HeadArgs {
            texts: at(self.texts),
            status_lines: at(self.status_lines),
            header_names: at(page.header_names),
            cookie_before: self.cookie[0],
            cookie_after: self.cookie[1],
            cookie_removed: self.cookie[2],
            fields: page.fields,
            ..HeadArgs::default()
        }
    }
}

/// What stands before and after a session's id where its cookie is set, and the line that removes
/// the cookie.
fn cookie_texts(name: &str) -> [Vec<u8>; 3] {
    let line = |value: &[u8], max_age| {
        let mut out = Vec::new();
        if let Some(name) = HeaderName::new(name) {
            ResponseWriter::resume(&mut out).set_cookie(&SetCookie {
                name,
                value,
                max_age,
                http_only: true,
                secure: false,
                same_site: SameSite::Lax,
            });
        }
        out
    };
    let set = line(b"", None);
    let split = set
        .iter()
        .position(|byte| *byte == b'=')
        .map_or(set.len(), |at| at + 1);
    [
        set[..split].to_vec(),
        set[split..].to_vec(),
        line(b"", Some(0)),
    ]
}

/// Date and what all answers of a page have, up to the length.
fn fields(page: &PageProgram, date: &DateCache) -> Vec<u8> {
    let mut out = Vec::new();
    let mut head = ResponseWriter::resume(&mut out);
    head.date(date).content_type(&page.content_type);
    if page.session != SessionUse::None
        && let Some(name) = HeaderName::new("Cache-Control")
    {
        head.header(name, b"no-store");
    }
    out.extend_from_slice(b"Content-Length: ");
    out
}
