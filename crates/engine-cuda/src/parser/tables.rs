//! What the parser's kernels know of a service, encoded for them: `kernels/parse_tables.cuh` says
//! the same in C++.
//!
//! Some pages are left to the host altogether, as no service known needs more: those with a
//! parameter whose name has more than 24 bytes or whose type is none of text (without a pattern),
//! int, decimal and date, with more than 96 parameters and columns of lists, with a list of more
//! than 9999 items, those that have to do with CSRF tokens, with JSON, with cookies by their
//! names, with messages, with the time, with numbers that are drawn or with what sessions keep
//! beside their user, and those beyond the first 12000.

use crate::abi::parse::{
    COUNTERS_MAX, HOST_PAGE, NAME_BYTES, NO_SEGMENT_NAME, PAGES_MAX, PageEntry, PageFlag,
    ParamEntry, ParamKind, ParamPlace, ParserTables as TableArguments, RouteEntry, SegmentEntry,
    TableText,
};
use crate::abi::{NO_TEXT, column_slots};
use crate::gpu::{DeviceBuffer, Extent, GpuError, SharedGpu, Stream};
use crate::upload::{Bundle, upload};
use rhythm_engine::program::{
    Carrier, Csrf, FieldId, PageProgram, ParamType, Route, Segment, Service,
};

/// Most items of a list: their indices have four digits.
const ITEMS_MAX: u32 = 9999;
/// Most routes: a request's parts say in 16 bits by which one it was found.
const ROUTES_MAX: usize = 0xffff;

/// The room that a list parameter needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPool {
    /// The list's field.
    pub field: FieldId,
    /// Its item columns have room for so many items a lane.
    pub max_items: u32,
}

/// What a page's parameters need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageParams {
    /// Its list parameters.
    pub lists: Vec<ListPool>,
    /// Counters a thread has in shared memory.
    pub(super) counters: u32,
    /// Texts a lane may have.
    texts: u32,
    /// Most bytes of these texts by their bounds, each rounded up to 8.
    texts_max: u64,
    /// Bytes of the texts that stand for absent ones, each rounded up to 8.
    fallbacks: u32,
}

impl PageParams {
    /// A size for a lane's part of the arena that is always enough for requests of at most so many
    /// bytes; a multiple of 16.
    #[must_use]
    pub fn text_stride(&self, request_bytes: u32) -> u32 {
        let by_request =
            u64::from(request_bytes) + 8 * u64::from(self.texts) + u64::from(self.fallbacks);
        let stride = self.texts_max.min(by_request).next_multiple_of(16);
        u32::try_from(stride).unwrap_or(!15)
    }
}

/// What the tables say beside their entries.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    literals: u32,
    patterns: u32,
    head_max: u32,
    target_max: u32,
    header_max: u32,
    body_max: u32,
    /// The session cookie's name, and where static files are.
    cookie: TableText,
    mount: TableText,
}

/// The tables in device memory.
#[derive(Debug)]
pub struct ParserTables {
    buffer: DeviceBuffer,
    routes: Extent<RouteEntry>,
    segments: Extent<SegmentEntry>,
    page_entries: Extent<PageEntry>,
    params: Extent<ParamEntry>,
    options: Extent<TableText>,
    texts: Extent<u8>,
    bounds: Bounds,
    pages: Vec<PageParams>,
}

impl ParserTables {
    /// Encodes a service and copies it to the device; waits for the stream.
    ///
    /// # Errors
    /// There is no room, or the device failed.
    pub fn new(
        gpu: &SharedGpu,
        stream: Stream,
        service: &Service,
    ) -> Result<ParserTables, GpuError> {
        let encoded = Encoder::service(service);
        let mut bundle = Bundle::default();
        Ok(ParserTables {
            routes: bundle.push(&encoded.routes),
            segments: bundle.push(&encoded.segments),
            page_entries: bundle.push(&encoded.pages),
            params: bundle.push(&encoded.params),
            options: bundle.push(&encoded.options),
            texts: bundle.push(&encoded.texts),
            bounds: encoded.bounds,
            buffer: upload(gpu, stream, bundle.bytes())?,
            pages: encoded.needs,
        })
    }

    /// What each page's parameters need, by the page's index.
    #[must_use]
    pub fn pages(&self) -> &[PageParams] {
        &self.pages
    }

    /// How many pages the device knows.
    pub(crate) fn page_count(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Bytes of device memory.
    #[must_use]
    pub fn size(&self) -> usize {
        self.buffer.len()
    }

    pub(super) fn arguments(&self) -> TableArguments<'_> {
        let bounds = &self.bounds;
        TableArguments {
            routes: self.buffer.slice(self.routes),
            segments: self.buffer.slice(self.segments),
            pages: self.buffer.slice(self.page_entries),
            params: self.buffer.slice(self.params),
            options: self.buffer.slice(self.options),
            texts: self.buffer.slice(self.texts),
            literal_count: bounds.literals,
            pattern_count: bounds.patterns,
            page_count: self.page_count(),
            head_max: bounds.head_max,
            target_max: bounds.target_max,
            header_max: bounds.header_max,
            body_max: bounds.body_max,
            cookie: bounds.cookie,
            mount: bounds.mount,
            unused: 0,
        }
    }
}

/// The tables as they grow.
#[derive(Default)]
struct Encoder {
    routes: Vec<RouteEntry>,
    segments: Vec<SegmentEntry>,
    pages: Vec<PageEntry>,
    params: Vec<ParamEntry>,
    options: Vec<TableText>,
    texts: Vec<u8>,
    /// The names of path parameters, by their number.
    names: Vec<String>,
    needs: Vec<PageParams>,
    bounds: Bounds,
}

impl Encoder {
    fn service(service: &Service) -> Encoder {
        let mut to = Encoder::default();
        let mut literals = Vec::new();
        let mut patterns = Vec::new();
        for (index, page) in service.pages.iter().enumerate() {
            let known = index < PAGES_MAX && to.page(page);
            let page_number = if known { index as u32 } else { HOST_PAGE };
            for route in &page.routes {
                match route.segments.iter().any(is_param) {
                    false => literals.push((route.method.clone(), path_of(route), page_number)),
                    true => patterns.push((route, page_number)),
                }
            }
        }
        // As the host's routes: pages come before redirects, and a literal segment before a
        // parameter, the first segment deciding.
        let redirects = service.config.statics.index.keys();
        literals.extend(redirects.map(|path| ("GET".to_owned(), path.clone(), HOST_PAGE)));
        patterns.sort_by_key(|(route, _)| -> Vec<bool> {
            route.segments.iter().map(is_param).collect()
        });
        // What they would find is the host's then; a path without parameters has no use for the
        // number.
        patterns.truncate(ROUTES_MAX.saturating_sub(literals.len()));
        for (method, path, page) in &literals {
            let tail = &path.as_bytes()[path.len().saturating_sub(8)..];
            let entry = RouteEntry {
                method: word(method.as_bytes(), 0),
                tail: word(tail, 0),
                path: to.text(path),
                page: *page,
                ..RouteEntry::default()
            };
            to.routes.push(entry);
        }
        for (route, page) in &patterns {
            let entry = RouteEntry {
                method: word(route.method.as_bytes(), 0),
                segment_start: to.segments.len() as u32,
                segment_count: route.segments.len() as u32,
                page: *page,
                ..RouteEntry::default()
            };
            to.routes.push(entry);
            for segment in &route.segments {
                let entry = match segment {
                    Segment::Literal(text) => SegmentEntry {
                        name: NO_SEGMENT_NAME,
                        text: to.text(text),
                    },
                    Segment::Param(name) => SegmentEntry {
                        name: to.name(name),
                        text: TableText::default(),
                    },
                };
                to.segments.push(entry);
            }
        }
        let config = &service.config;
        to.bounds = Bounds {
            literals: literals.len() as u32,
            patterns: patterns.len() as u32,
            head_max: config.limits.head_bytes_max,
            target_max: config.limits.target_bytes_max,
            header_max: config.limits.headers_max,
            body_max: config.limits.body_bytes_max,
            cookie: to.text(&config.session.cookie),
            mount: to.text(&config.statics.mount),
        };
        to
    }

    /// Adds a page's parameters; false where its requests are the host's.
    fn page(&mut self, page: &PageProgram) -> bool {
        let (slots, _) = column_slots(page);
        let columns: usize = page.list_params.iter().map(|list| list.columns.len()).sum();
        let mut entry = PageEntry {
            param_start: self.params.len() as u32,
            scalar_count: page.params.len() as u32,
            column_count: columns as u32,
            flags: 0,
        };
        if page.reads_session() {
            entry.flags |= PageFlag::Session as u32;
        }
        let mut needs = PageParams {
            counters: entry.scalar_count + entry.column_count,
            ..PageParams::default()
        };
        let mut fits = needs.counters as usize <= COUNTERS_MAX
            && page.csrf == Csrf::default()
            && page.stored.is_empty()
            && page.cookies.is_empty()
            && !page.sets_stored()
            && page.flash.is_none()
            && page.here.is_none()
            && page.now.is_none()
            && page.drawn.is_empty()
            && !page.sets_flash();
        let carriers = || {
            let scalars = page.params.iter().flat_map(|param| &param.carriers);
            scalars.chain(page.list_params.iter().flat_map(|list| &list.carriers))
        };
        fits &= !carriers().any(|carrier| *carrier == Carrier::Json);
        for param in &page.params {
            let mut scalar = self.param(&param.wire_name, &param.carriers, &param.kind);
            scalar.slot = slots[usize::from(param.field)];
            scalar.fallback = match &param.default {
                Some(default) => self.text(default),
                None => TableText {
                    offset: 0,
                    length: NO_TEXT,
                },
            };
            scalar.segment_name = self.name(&param.wire_name);
            entry.flags |= flags_of(&param.carriers);
            fits &= param.wire_name.len() <= NAME_BYTES && param.told.is_none();
            fits &= is_known(&param.kind);
            let fallback = param.default.as_ref().map_or(0, String::len);
            needs.fallbacks += fallback.next_multiple_of(8) as u32;
            needs.count(&param.kind, 1, fallback as u64);
            self.params.push(scalar);
        }
        for list in &page.list_params {
            let first = self.params.len() as u32 - entry.param_start;
            for (index, (name, kind)) in list.columns.iter().enumerate() {
                let mut column = self.param(name, &list.carriers, kind);
                column.span_slot = slots[usize::from(list.field)];
                column.slot = column.span_slot + 1 + index as u32;
                column.list = first;
                column.min_items = list.min_items;
                column.max_items = list.max_items;
                fits &= name.len() <= NAME_BYTES && is_known(kind);
                needs.count(kind, list.max_items, 0);
                self.params.push(column);
            }
            entry.flags |= flags_of(&list.carriers);
            fits &= list.max_items <= ITEMS_MAX && list.told.is_none();
            needs.lists.push(ListPool {
                field: list.field,
                max_items: list.max_items,
            });
        }
        self.pages.push(entry);
        self.needs.push(needs);
        fits
    }

    /// What scalars and columns of lists have in common.
    fn param(&mut self, name: &str, carriers: &[Carrier], kind: &ParamType) -> ParamEntry {
        let option_start = self.options.len() as u32;
        let (kind, least, greatest) = match kind {
            ParamType::Text {
                min_length,
                max_length,
                one_of,
                pattern: _,
            } => {
                for option in one_of {
                    let option = self.text(option);
                    self.options.push(option);
                }
                (
                    ParamKind::Text,
                    i64::from(*min_length),
                    i64::from(*max_length),
                )
            }
            ParamType::Int { min, max } => (ParamKind::Int, *min, *max),
            ParamType::Decimal => (ParamKind::Decimal, 0, 0),
            ParamType::Date => (ParamKind::Date, 0, 0),
            // Its page is the host's.
            ParamType::Float { .. }
            | ParamType::Bool
            | ParamType::Email { .. }
            | ParamType::File { .. }
            | ParamType::Path { .. } => (ParamKind::Text, 0, 0),
        };
        ParamEntry {
            name: [0, 8, 16].map(|at| word(name.as_bytes(), at)),
            name_length: name.len() as u32,
            least,
            greatest,
            places: carriers
                .iter()
                .fold(0, |bits, carrier| bits | carrier_bit(*carrier)),
            kind: kind as u32,
            option_start,
            option_count: self.options.len() as u32 - option_start,
            ..ParamEntry::default()
        }
    }

    /// Stores a text, zeros after it to a multiple of 8.
    fn text(&mut self, text: &str) -> TableText {
        let offset = self.texts.len();
        self.texts.extend_from_slice(text.as_bytes());
        self.texts.resize(self.texts.len().next_multiple_of(8), 0);
        TableText {
            offset: offset as u32,
            length: text.len() as u32,
        }
    }

    /// The number of a path parameter's name.
    fn name(&mut self, name: &str) -> u32 {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        }) as u32
    }
}

impl PageParams {
    /// Counts in `items` values of a type, or a fallback of so many bytes instead.
    fn count(&mut self, kind: &ParamType, items: u32, fallback: u64) {
        let bytes = match kind {
            ParamType::Int { .. } => return,
            // A character takes at most four bytes.
            ParamType::Text { max_length, .. } => 4 * u64::from(*max_length),
            ParamType::Decimal | ParamType::Date => 16,
            // Of pages that are the host's.
            _ => 0,
        };
        self.texts += items;
        self.texts_max += u64::from(items) * bytes.max(fallback).next_multiple_of(8);
    }
}

/// Whether the kernels check values of this type.
fn is_known(kind: &ParamType) -> bool {
    match kind {
        ParamType::Text { pattern, .. } => pattern.is_none(),
        ParamType::Int { .. } | ParamType::Decimal | ParamType::Date => true,
        _ => false,
    }
}

fn is_param(segment: &Segment) -> bool {
    matches!(segment, Segment::Param(_))
}

/// The path of a route without parameters.
fn path_of(route: &Route) -> String {
    let mut path = String::new();
    for segment in &route.segments {
        if let Segment::Literal(text) = segment {
            path.push('/');
            path.push_str(text);
        }
    }
    if path.is_empty() {
        path.push('/');
    }
    path
}

/// Eight bytes of a text from `at` on, zero-padded.
fn word(text: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(text.iter().skip(at)) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

fn carrier_bit(carrier: Carrier) -> u32 {
    let place = match carrier {
        Carrier::Query => ParamPlace::Query,
        Carrier::Form => ParamPlace::Form,
        Carrier::Path => ParamPlace::Path,
        Carrier::Cookie => ParamPlace::Cookie,
        Carrier::Header => ParamPlace::Header,
        // Its page is the host's.
        Carrier::Json => return 0,
    };
    place as u32
}

fn flags_of(carriers: &[Carrier]) -> u32 {
    carriers.iter().fold(0, |flags, carrier| {
        flags
            | match carrier {
                Carrier::Query | Carrier::Json => 0,
                Carrier::Form => PageFlag::Form as u32,
                Carrier::Path | Carrier::Cookie | Carrier::Header => PageFlag::Others as u32,
            }
    })
}
