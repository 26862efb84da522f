//! The parser on the emulation, and what it makes of a request in a form to compare.

use rhythm_engine::cohort::{Cohort, Column, Span, View};
use rhythm_engine::program::{FieldId, FieldType, PageProgram, Service, Type};
use rhythm_engine_cuda::Columns;
use rhythm_engine_cuda::abi::{LANE_ACTIVE, LANE_FINISHED, LANE_HOST, SessionKey, column_slots};
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder};
use rhythm_engine_cuda::gpu::{
    DeviceBuffer, Extent, GpuError, PinnedBuffer, Scope, SharedGpu, Slice, Stream, scope,
};
use rhythm_engine_cuda::parser::{Lanes, Parser, ParserTables, Sorted};
use rhythm_engine_cuda::plain::{Plain, bytes_of};
use std::ops::Range;
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

    /// Has the stream do some work.
    fn run<'env, R>(
        &self,
        work: impl for<'q> FnOnce(&Scope<'q, 'env>) -> Result<R, GpuError>,
    ) -> R {
        scope(&*self.gpu, &[self.stream], work).unwrap()
    }

    /// A buffer with these items.
    fn upload<T: Plain>(&self, items: &[T]) -> DeviceBuffer {
        let bytes = bytes_of(items);
        let buffer = DeviceBuffer::new(&self.gpu, bytes.len()).unwrap();
        let mut staging = PinnedBuffer::new(&self.gpu, bytes.len()).unwrap();
        staging.host()[..bytes.len()].copy_from_slice(bytes);
        let (to, from) = (buffer.first(bytes.len()), staging.first(bytes.len()));
        self.run(|queue| queue.copy(to, from));
        buffer
    }

    fn download<T: Plain>(&self, from: Slice<'_, T>) -> Vec<T> {
        let place = Extent::<T>::new(0, from.len());
        let mut staging = PinnedBuffer::new(&self.gpu, place.range().end).unwrap();
        let to = staging.slice(place);
        self.run(|queue| queue.copy(to, from));
        let bytes = staging.host();
        (0..from.len())
            .map(|index| place.read(bytes, index))
            .collect()
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
        let lengths: Vec<u32> = (requests.iter())
            .map(|request| request.len() as u32)
            .collect();
        let (rows, lengths) = (self.upload(&rows), self.upload(&lengths));
        let parser = Parser::new(&self.gpu, self.tables.clone(), count, place, transposed).unwrap();
        let lengths = lengths.slice(Extent::new(0, count));
        let raw = parser.rows(rows.first(count * place), lengths);
        self.run(|queue| {
            let sorted = match transposed {
                true => parser.sort(queue, &parser.transpose(queue, &raw)?)?,
                false => parser.sort(queue, &raw)?,
            };
            Ok(self.lanes(&parser, &sorted, count, place))
        })
    }

    /// What the lanes of all pages have of so many requests in places of so many bytes.
    fn lanes(
        &self,
        parser: &Parser,
        sorted: &Sorted<'_>,
        count: usize,
        place: usize,
    ) -> Vec<Option<Parsed>> {
        self.gpu.synchronize(self.stream).unwrap();
        let order = self.download(parser.order());
        let starts = self.download(parser.page_start());
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
                self.params(
                    sorted,
                    page,
                    first..first + lanes_max,
                    place,
                    expected,
                    &mut parsed,
                );
            }
        }
        parsed
    }

    /// Fills a page's lanes, and takes them apart.
    fn params(
        &self,
        sorted: &Sorted<'_>,
        page: usize,
        lanes: Range<usize>,
        request_bytes: usize,
        expected: &[u32],
        parsed: &mut [Option<Parsed>],
    ) {
        let lanes_max = lanes.len();
        let program = &self.service.pages[page];
        let needs = &self.tables.pages()[page];
        let text_base = program.texts.len().next_multiple_of(16);
        let text_stride = needs.text_stride(request_bytes as u32).min(self.text_max);
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
        let addresses: Vec<_> = columns.iter().map(DeviceBuffer::address).collect();
        let addresses = self.upload(&addresses);
        let table = Columns::new(addresses.slice(Extent::new(0, columns.len())), &columns);
        let buffer = |bytes| DeviceBuffer::new(&self.gpu, bytes).unwrap();
        let arena = buffer(text_base + lanes_max * text_stride as usize);
        let sessions = buffer(lanes_max * size_of::<SessionKey>());
        let (states, tickets, lane_count) = (buffer(lanes_max), buffer(lanes_max * 4), buffer(4));
        let lanes = Lanes {
            page,
            first: lanes.start as u32,
            columns: table,
            arena: arena.first(arena.len()),
            text_base: text_base as u32,
            text_stride,
            sessions: sessions.slice(Extent::new(0, lanes_max)),
            states: states.first(lanes_max),
            tickets: tickets.slice(Extent::new(0, lanes_max)),
            lane_count: lane_count.slice(Extent::new(0, 1)),
        };
        self.run(|queue| sorted.params(queue, &lanes));
        if lanes_max == 0 {
            return;
        }
        assert_eq!(self.download(lanes.lane_count), [expected.len() as u32]);
        assert_eq!(
            self.download(lanes.tickets.part(0..expected.len())),
            expected
        );
        let states = self.download(lanes.states);
        let (here, nobody) = states.split_at(expected.len());
        assert!(nobody.iter().all(|state| *state == LANE_FINISHED));
        let arena = self.download(lanes.arena);
        let columns: Vec<Vec<u64>> = (columns.iter())
            .map(|column| self.download(column.slice(Extent::new(0, column.len() / 8))))
            .collect();
        let sessions = self.download(lanes.sessions);
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
        let has_session = program.reads_session();
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
            let SessionKey {
                slot,
                present,
                secret: [low, high],
            } = sessions[lane];
            assert!(!has_session || present <= 1);
            let session = (has_session && present == 1)
                .then(|| format!("{slot:08x}{high:016x}{low:016x}").into_bytes());
            parsed[expected[lane] as usize] = Some(Parsed {
                page,
                params,
                session,
            });
        }
    }
}
