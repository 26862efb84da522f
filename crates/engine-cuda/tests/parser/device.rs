//! The parser on the emulation, and what it makes of a request in a form to compare.
#![allow(unsafe_code)]

use rhythm_engine::cohort::{Cohort, Column, Span, View};
use rhythm_engine::program::Service;
use rhythm_engine::program::{FieldId, FieldType, PageProgram, Type};
use rhythm_engine_cuda::abi::{LANE_ACTIVE, LANE_FINISHED, LANE_HOST, SessionKey, column_slots};
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder};
use rhythm_engine_cuda::gpu::{Address, DeviceBuffer, PinnedBuffer, SharedGpu, Stream};
use rhythm_engine_cuda::parser::{Lanes, Parser, ParserTables, Requests};
use std::sync::Arc;

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Int(i64),
    Text(Vec<u8>),
    List(Vec<Vec<Value>>),
}

/// What a request says to its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) page: usize,
    pub(crate) params: Vec<Value>,
    pub(crate) session: Option<Vec<u8>>,
}

/// A device with a service's tables.
pub(crate) struct Device<'s> {
    gpu: SharedGpu,
    stream: Stream,
    service: &'s Service,
    tables: Arc<ParserTables>,
    /// Most bytes of a lane's part of the arena.
    pub(crate) text_max: u32,
}

/// The fields of a page's parameters.
fn param_fields(page: &PageProgram) -> impl Iterator<Item = FieldId> {
    let scalars = page.params.iter().map(|param| param.field);
    scalars.chain(page.list_params.iter().map(|list| list.field))
}

/// What the host made of a request.
pub(crate) fn values_of(page: &PageProgram, cohort: &Cohort) -> Vec<Value> {
    let value = |column: &Column, at: usize| match column {
        Column::Int(values) => Value::Int(values[at]),
        Column::Text(views) => Value::Text(cohort.arena.get(views[at]).to_vec()),
        Column::List(_) => unreachable!("no list in a list"),
    };
    param_fields(page)
        .map(|field| match &cohort.fields[usize::from(field)] {
            Column::List(list) => {
                let span = list.spans[0];
                let items = span.start as usize..(span.start + span.length) as usize;
                let column = |column| items.clone().map(|at| value(column, at)).collect();
                Value::List(list.columns.iter().map(column).collect())
            }
            column => value(column, 0),
        })
        .collect()
}

impl<'s> Device<'s> {
    pub(crate) fn new(service: &'s Service, order: LaneOrder) -> Device<'s> {
        let gpu = Emulated::new(order);
        let stream = gpu.stream().unwrap();
        let tables = Arc::new(ParserTables::new(&gpu, stream, service).unwrap());
        Device {
            gpu,
            stream,
            service,
            tables,
            text_max: u32::MAX,
        }
    }

    /// A buffer with these bytes.
    fn upload(&self, bytes: &[u8]) -> DeviceBuffer {
        let buffer = DeviceBuffer::new(&self.gpu, bytes.len()).unwrap();
        if bytes.is_empty() {
            return buffer;
        }
        let mut staging = PinnedBuffer::new(&self.gpu, bytes.len()).unwrap();
        // SAFETY: the staging buffer is in no stream before the copy, and both live until it is
        // done.
        unsafe {
            staging.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            (self.gpu)
                .copy(
                    self.stream,
                    buffer.address(),
                    staging.address(),
                    bytes.len(),
                )
                .unwrap();
        }
        self.gpu.synchronize(self.stream).unwrap();
        buffer
    }

    fn download(&self, from: Address, bytes: usize) -> Vec<u8> {
        if bytes == 0 {
            return Vec::new();
        }
        let staging = PinnedBuffer::new(&self.gpu, bytes).unwrap();
        // SAFETY: both live until the copy is done.
        unsafe {
            (self.gpu)
                .copy(self.stream, staging.address(), from, bytes)
                .unwrap();
        }
        self.gpu.synchronize(self.stream).unwrap();
        // SAFETY: the stream is done.
        unsafe { staging.bytes()[..bytes].to_vec() }
    }

    fn words(&self, from: Address, count: usize) -> Vec<u32> {
        let bytes = self.download(from, count * 4);
        let words = bytes.as_chunks().0.iter();
        words.map(|word| u32::from_le_bytes(*word)).collect()
    }

    /// Parses requests in places of `request_bytes`; what the device leaves to the host is `None`.
    pub(crate) fn parse(
        &self,
        requests: &[Vec<u8>],
        request_bytes: u32,
        transposed: bool,
    ) -> Vec<Option<Parsed>> {
        let count = requests.len();
        let place = request_bytes as usize;
        let mut rows = vec![0xaa; count * place];
        for (row, request) in rows.chunks_exact_mut(place).zip(requests) {
            let fits = request.len().min(place);
            row[..fits].copy_from_slice(&request[..fits]);
        }
        let lengths: Vec<u8> = (requests.iter())
            .flat_map(|request| (request.len() as u32).to_le_bytes())
            .collect();
        let (rows, lengths) = (self.upload(&rows), self.upload(&lengths));
        let parser = Parser::new(
            &self.gpu,
            self.tables.clone(),
            count as u32,
            request_bytes,
            transposed,
        )
        .unwrap();
        let mut raw = parser.rows(rows.address(), lengths.address(), count as u32);
        // SAFETY: all buffers live until the stream is done, and hold what they are said to.
        unsafe {
            if transposed {
                raw = parser.transpose(self.stream, &raw).unwrap();
            }
            parser.classify(self.stream, &raw).unwrap();
            parser.sort(self.stream, count as u32).unwrap();
        }
        let order = self.words(parser.order(), count);
        let starts = self.words(parser.page_start(), self.service.pages.len() + 2);
        assert_eq!(starts.first(), Some(&0));
        assert_eq!(starts.last(), Some(&(count as u32)));
        let mut seen = order.clone();
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(0..count as u32), "{order:?}");

        let mut parsed = vec![None; count];
        for page in 0..self.service.pages.len() {
            let own = &order[starts[page] as usize..starts[page + 1] as usize];
            assert!(own.is_sorted(), "page {page}: {own:?}");
            // In two parts where there are some, and more lanes than there are requests.
            let cut = own.len() / 3;
            for (first, lanes_max) in [(0, cut), (cut, own.len() - cut + 2)] {
                let expected = &own[first..own.len().min(first + lanes_max)];
                self.params(&parser, &raw, page, first, lanes_max, expected, &mut parsed);
            }
        }
        parsed
    }

    /// Fills a page's lanes, and takes them apart.
    #[allow(clippy::too_many_arguments)]
    fn params(
        &self,
        parser: &Parser,
        raw: &Requests,
        page: usize,
        first: usize,
        lanes_max: usize,
        expected: &[u32],
        parsed: &mut [Option<Parsed>],
    ) {
        let program = &self.service.pages[page];
        let needs = &self.tables.pages()[page];
        let text_base = program.texts.len().next_multiple_of(16);
        let text_stride = needs.text_stride(raw.capacity).min(self.text_max);
        let (slots, slot_count) = column_slots(program);
        // Each slot has columns of 8 bytes a value.
        let mut columns = Vec::new();
        for (index, field) in program.fields.iter().enumerate() {
            columns.push(DeviceBuffer::new(&self.gpu, lanes_max * 8).unwrap());
            if let FieldType::List(list) = &field.kind {
                let pool = needs
                    .lists
                    .iter()
                    .find(|list| usize::from(list.field) == index);
                let items = pool.map_or(0, |pool| pool.max_items as usize);
                for _ in list {
                    columns.push(DeviceBuffer::new(&self.gpu, lanes_max * items * 8).unwrap());
                }
            }
        }
        assert_eq!(columns.len(), slot_count as usize);
        let addresses: Vec<u8> = (columns.iter())
            .flat_map(|column| column.address().0.to_le_bytes())
            .collect();
        let addresses = self.upload(&addresses);
        let buffer = |bytes| DeviceBuffer::new(&self.gpu, bytes).unwrap();
        let arena = buffer(text_base + lanes_max * text_stride as usize);
        let sessions = buffer(lanes_max * size_of::<SessionKey>());
        let (states, tickets, lane_count) = (buffer(lanes_max), buffer(lanes_max * 4), buffer(4));
        let lanes = Lanes {
            page: page as u32,
            first: first as u32,
            lanes_max: lanes_max as u32,
            columns: addresses.address(),
            arena: arena.address(),
            text_base: text_base as u32,
            text_stride,
            sessions: sessions.address(),
            states: states.address(),
            tickets: tickets.address(),
            lane_count: lane_count.address(),
        };
        // SAFETY: all buffers live until the stream is done, and hold what they are said to.
        unsafe { parser.params(self.stream, raw, &lanes).unwrap() };
        if lanes_max == 0 {
            return;
        }
        assert_eq!(self.words(lanes.lane_count, 1), [expected.len() as u32]);
        assert_eq!(self.words(lanes.tickets, expected.len()), expected);
        let states = self.download(lanes.states, lanes_max);
        let (here, nobody) = states.split_at(expected.len());
        assert!(nobody.iter().all(|state| *state == LANE_FINISHED));
        let arena = self.download(lanes.arena, arena.len());
        let columns: Vec<Vec<u64>> = (columns.iter())
            .map(|column| {
                let bytes = self.download(column.address(), column.len());
                let values = bytes.as_chunks().0.iter();
                values.map(|value| u64::from_le_bytes(*value)).collect()
            })
            .collect();
        let sessions = self.words(lanes.sessions, lanes_max * size_of::<SessionKey>() / 4);
        let value = |kind: Type, value: u64| match kind {
            Type::Int => Value::Int(value as i64),
            _ => {
                let view = View {
                    offset: value as u32,
                    length: (value >> 32) as u32,
                };
                Value::Text(arena[view.offset as usize..][..view.length as usize].to_vec())
            }
        };
        for (lane, state) in here.iter().enumerate() {
            if *state == LANE_HOST {
                continue;
            }
            assert_eq!(*state, LANE_ACTIVE);
            let params = param_fields(program)
                .map(|field| {
                    let slot = slots[usize::from(field)] as usize;
                    match &program.fields[usize::from(field)].kind {
                        FieldType::Scalar(kind) => value(*kind, columns[slot][lane]),
                        FieldType::List(list) => {
                            let span = columns[slot][lane];
                            let span = Span {
                                start: span as u32,
                                length: (span >> 32) as u32,
                            };
                            let items = span.start as usize..(span.start + span.length) as usize;
                            let column = |(index, (_, kind)): (usize, &(String, Type))| {
                                let column = &columns[slot + 1 + index][items.clone()];
                                column.iter().map(|item| value(*kind, *item)).collect()
                            };
                            Value::List(list.iter().enumerate().map(column).collect())
                        }
                    }
                })
                .collect();
            let has_session = program.session_fields.is_some();
            let session = match sessions[lane * 6..][..6] {
                [slot, 1, low, low_top, high, high_top] if has_session => {
                    let text = format!("{slot:08x}{high_top:08x}{high:08x}{low_top:08x}{low:08x}");
                    Some(text.into_bytes())
                }
                [_, present, ..] => {
                    assert!(!has_session || present == 0);
                    None
                }
                _ => unreachable!("six words"),
            };
            parsed[expected[lane] as usize] = Some(Parsed {
                page,
                params,
                session,
            });
        }
    }
}
