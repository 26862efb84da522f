//! The ends of a cohort's way on the device: lanes made of parsed requests, and the heads of their
//! answers, from texts that the protocol's own writer wrote.

use crate::abi::SessionKey;
use crate::abi::layout::{HEAD_END, HEAD_LINES, HeadText, STATUS_MAX, STATUS_MIN};
use crate::abi::resident::{BeginArgs, HeadArgs};
use crate::cohort::bodies::{HeadPlaces, HeadsOf};
use crate::cohort::stages::DeviceCohort;
use crate::gpu::{DeviceBuffer, Extent, GpuError, Queue, SharedGpu, Slice, Stream};
use crate::upload::{Bundle, upload};
use rhythm_engine::program::{Aside, PageProgram, Service};
use rhythm_engine::settings::HeaderSettings;
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::response::{HeaderName, ResponseWriter, SameSite, SetCookie};

/// Begins a cohort: its lanes are active where the parser says so, and nothing needs more room.
pub(super) fn begin<'m>(
    queue: &Queue<'m>,
    states: Slice<'m, u8>,
    cohort: &DeviceCohort<'m>,
) -> Result<(), GpuError> {
    assert_eq!(states.len(), cohort.lanes());
    let lane_count = cohort.lane_count.expect("the parser counts the lanes");
    queue.launch(BeginArgs {
        states,
        lane_count,
        results: cohort.regions.results,
        rows_needed: cohort.rows_needed.flat(),
        lanes: cohort.lanes() as u32,
        unused: 0,
    })
}

/// Bytes that a head of a page takes at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadRoom {
    /// Of its own.
    pub(super) stride: usize,
    /// All of it.
    pub(super) length_max: usize,
}

/// A page's texts.
#[derive(Debug)]
struct PageHeads {
    fields: HeadText,
    header_names: Extent<HeadText>,
    /// The most bytes of what a head has of its own and what it shares, values of headers left out.
    own_bytes: usize,
    shared_bytes: usize,
}

/// The texts of a service.
#[derive(Debug)]
pub(super) struct Heads {
    memory: DeviceBuffer,
    texts: Extent<u8>,
    status_lines: Extent<HeadText>,
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
    ) -> Result<Heads, GpuError> {
        let mut texts = Texts::default();
        let lines: Vec<HeadText> = (STATUS_MIN..=STATUS_MAX)
            .map(|status| {
                let mut line = Vec::new();
                ResponseWriter::new(&mut line, status);
                texts.push(&line)
            })
            .collect();
        let status_bytes = lines.iter().map(|line| line.length).max().unwrap_or(0) as usize;
        let cookie = cookie_texts(&service.config.session.cookie).map(|text| texts.push(&text));
        let date = DateCache::new(now);
        let mut bundle = Bundle::default();
        let mut pages = Vec::new();
        for page in &service.pages {
            let fields = fields(page, &service.config.headers, &date);
            let line = |aside: &Aside| match aside {
                Aside::Header(name) => format!("{name}: ").into_bytes(),
                // Its pages are the host's.
                Aside::Stored(_) | Aside::Flash | Aside::Proxy => Vec::new(),
            };
            let names: Vec<Vec<u8>> = page.asides.iter().map(line).collect();
            let cookie: u32 = cookie.iter().map(|text| text.length).sum();
            let named: usize = names.iter().map(Vec::len).sum();
            let placed: Vec<HeadText> = names.iter().map(|name| texts.push(name)).collect();
            pages.push(PageHeads {
                own_bytes: HEAD_LINES + cookie as usize + 40 + named,
                shared_bytes: status_bytes + fields.len() + HEAD_END,
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

    /// Room for what a head of the page has of its own, a multiple of 64, if its headers' values
    /// have no more than `values` bytes; and for the whole of it.
    pub(super) fn room(&self, page: usize, values: usize) -> HeadRoom {
        let page = &self.pages[page];
        let stride = (page.own_bytes + values).next_multiple_of(64);
        HeadRoom {
            stride,
            length_max: stride + page.shared_bytes,
        }
    }

    /// The heads of a page's answers that are at these places.
    pub(super) fn of<'m>(&'m self, page: usize, places: HeadPlaces<'m>) -> HeadsOf<'m> {
        HeadsOf {
            places,
            texts: self.memory.slice(self.texts),
            status_lines: self.memory.slice(self.status_lines),
            fields: self.pages[page].fields,
        }
    }

    /// Writes the heads of a cohort's answers, with the sessions `created` for its lanes.
    pub(super) fn write<'m>(
        &'m self,
        queue: &Queue<'m>,
        cohort: &DeviceCohort<'m>,
        created: Slice<'m, SessionKey>,
        to: &HeadPlaces<'m>,
    ) -> Result<(), GpuError> {
        let (lanes, regions) = (cohort.lanes(), &cohort.regions);
        assert_eq!([created.len(), to.lengths.len()], [lanes; 2]);
        let lane_count = cohort.lane_count.expect("the parser counts the lanes");
        let page = &self.pages[cohort.page];
        let [cookie_before, cookie_after, cookie_removed] = self.cookie;
        // There is a name for each header of the page.
        queue.launch(HeadArgs {
            results: regions.results,
            lane_count,
            arena: cohort.arena,
            headers: regions.headers,
            created,
            heads: to.own,
            head_lengths: to.lengths,
            texts: self.memory.slice(self.texts),
            status_lines: self.memory.slice(self.status_lines),
            header_names: self.memory.slice(page.header_names),
            cookie_before,
            cookie_after,
            cookie_removed,
            fields: page.fields,
            lanes: lanes as u32,
            head_stride: to.stride as u32,
            header_stride: regions.shares.headers,
            unused: 0,
        })
    }
}

/// What stands before and after a session's id where its cookie is set, and the line that removes
/// the cookie.
fn cookie_texts(name: &str) -> [Vec<u8>; 3] {
    let name = HeaderName::new(name).expect("the settings refuse other names");
    let line = |value: &[u8], max_age| {
        let mut out = Vec::new();
        ResponseWriter::resume(&mut out).set_cookie(&SetCookie {
            name,
            value,
            max_age,
            http_only: true,
            secure: false,
            same_site: SameSite::Lax,
        });
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
fn fields(page: &PageProgram, headers: &HeaderSettings, date: &DateCache) -> Vec<u8> {
    let mut out = Vec::new();
    let mut head = ResponseWriter::resume(&mut out);
    head.date(date).content_type(&page.content_type);
    if page.reads_session() {
        head.no_store();
    }
    // One that the page gives itself goes before, as in the server.
    for (name, value) in headers.lines() {
        let is_own = |own: &Aside| match own {
            Aside::Header(own) => own.eq_ignore_ascii_case(name.as_str()),
            Aside::Stored(_) | Aside::Flash | Aside::Proxy => false,
        };
        if !page.asides.iter().any(is_own) {
            head.header(name, value.as_bytes());
        }
    }
    out.extend_from_slice(b"Content-Length: ");
    out
}
