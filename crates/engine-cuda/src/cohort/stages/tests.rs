//! Answers in BeSim's text form, good and bad: the kernel puts into columns what the engine does.

use super::super::regions::LaneRegions;
use super::super::room::Shares;
use super::*;
use crate::abi::stage::{INTERLEAVED, TEXT_PLAIN};
use crate::abi::{LANE_ACTIVE, LaneResult, NO_TEXT, Outcome};
use crate::besim::deliver_text;
use crate::gpu::emulated::{Emulated, LaneOrder};
use crate::gpu::{Address, Extent, PinnedBuffer, SharedGpu, scope};
use crate::plain::{Plain, bytes_of};
use rhythm_engine::cohort::{Cohort, Column, LaneError, LaneState, Span, View};
use rhythm_engine::device::FOLD_BYTES_MAX;
use rhythm_engine::program::{
    Asking, Call, CallResult, Csrf, Field, FieldType, Form, PageProgram, Service, SessionUse,
    StageProgram, Type,
};
use std::marker::PhantomData;

#[path = "../../../tests/bodies/mod.rs"]
mod bodies;

/// Items in memory that kernels use where it is.
struct Items<T> {
    buffer: PinnedBuffer,
    count: usize,
    of: PhantomData<T>,
}

impl<T: Plain + Copy> Items<T> {
    fn new(gpu: &SharedGpu, items: &[T]) -> Items<T> {
        let mut buffer = PinnedBuffer::new(gpu, size_of_val(items).max(16)).unwrap();
        let bytes = bytes_of(items);
        buffer.host()[..bytes.len()].copy_from_slice(bytes);
        let (count, of) = (items.len(), PhantomData);
        Items { buffer, count, of }
    }

    fn slice(&self) -> Slice<'_, T> {
        self.buffer.slice(Extent::new(0, self.count))
    }

    /// What is there when all work is done.
    fn into_items(mut self) -> Vec<T> {
        let place = Extent::new(0, self.count);
        let bytes = self.buffer.host();
        let items = (0..self.count).map(|index| place.read(bytes, index));
        items.collect()
    }
}

/// A service with a page whose call's answers go to a list of a text and an integer, and another
/// where they go to two fields.
fn service() -> Service {
    let page = |result: CallResult| {
        let field = |name: &str, kind| Field {
            name: name.to_owned(),
            kind,
        };
        let columns = vec![("a".to_owned(), Type::Text), ("b".to_owned(), Type::Int)];
        PageProgram {
            name: "asks".to_owned(),
            routes: vec![],
            session: SessionUse::None,
            session_fields: None,
            stored: vec![],
            cookies: Vec::new(),
            flash: None,
            here: None,
            now: None,
            drawn: vec![],
            csrf: Csrf::default(),
            is_sign_in: false,
            gzip: true,
            content_type: String::new(),
            params: vec![],
            list_params: vec![],
            fields: vec![
                field("status", FieldType::Scalar(Type::Int)),
                field("rows", FieldType::List(columns)),
                field("a", FieldType::Scalar(Type::Text)),
                field("b", FieldType::Scalar(Type::Int)),
            ],
            calls: vec![Call {
                backend: 0,
                asking: Asking::Request,
                has_name: true,
                statements: Box::default(),
                document: None,
                form: Form::plain(&[]),
                columns: 2,
                result,
                status: 0,
                idempotent: true,
                optional: false,
                shared: false,
                merged: false,
                particulars: Default::default(),
            }],
            stages: vec![
                StageProgram {
                    call: Some(0),
                    ..StageProgram::default()
                },
                StageProgram::default(),
            ],
            texts: vec![],
            tables: vec![],
            asides: vec![],
        }
    };
    Service {
        pages: vec![page(CallResult::Rows(1)), page(CallResult::Row(vec![2, 3]))],
        ..Service::default()
    }
}

/// What a lane has after its answers: the status and its rows.
type Got = Result<(i64, Vec<(Vec<u8>, i64)>), LaneError>;

/// What the engine makes of answers; `None` is a query without one.
fn expected(program: &PageProgram, lanes: &[Vec<Option<Vec<u8>>>]) -> Vec<Got> {
    let mut cohort = Cohort::default();
    cohort.reset(program);
    for (lane, answers) in lanes.iter().enumerate() {
        cohort.push_lane();
        for _ in answers {
            assert!(cohort.queries.push(lane as u32, std::iter::empty()));
        }
    }
    cohort.stage = 1;
    let (_, mut rows) = cohort.exchange(program);
    for (query, body) in lanes.iter().flatten().enumerate() {
        if let Some(body) = body {
            rows.answer(query, |answer| deliver_text(body, 2, answer));
        }
    }
    cohort.settle(program);
    let text = |view: View| cohort.arena.get(view).to_vec();
    let lane = |lane: usize| -> Got {
        if let LaneState::Failed(error) = cohort.lanes[lane] {
            return Err(error);
        }
        let rows = match program.calls[0].result {
            CallResult::Rows(_) => {
                let list = cohort.fields[1].list();
                let Span { start, length } = list.spans[lane];
                let [Column::Text(texts), Column::Int(values)] = &list.columns[..] else {
                    panic!("a text and an integer");
                };
                (start as usize..(start + length) as usize)
                    .map(|row| (text(texts[row]), values[row]))
                    .collect()
            }
            CallResult::Row(_) => vec![(
                text(cohort.fields[2].texts()[lane]),
                cohort.fields[3].ints()[lane],
            )],
        };
        Ok((cohort.fields[0].ints()[lane], rows))
    };
    (0..lanes.len()).map(lane).collect()
}

/// Answers as a backend on the device leaves them: each lane's result, where its answers are, of so
/// many places a lane, and their bytes.
fn laid_out(
    lanes: &[Vec<Option<Vec<u8>>>],
    stride: usize,
) -> (Vec<LaneResult>, Vec<View>, Vec<u8>) {
    let mut arena = Vec::new();
    let mut views = vec![View::default(); lanes.len() * stride];
    let mut results = Vec::new();
    for (lane, answers) in lanes.iter().enumerate() {
        results.push(LaneResult {
            outcome: LANE_ACTIVE,
            query_count: answers.len() as u32,
            ..LaneResult::default()
        });
        for (at, body) in answers.iter().enumerate() {
            let body = body.as_deref();
            views[lane * stride + at] = View {
                offset: arena.len() as u32,
                length: body.map_or(NO_TEXT, |body| body.len() as u32),
            };
            // At any place of a word; what follows belongs to nobody's text.
            arena.extend_from_slice(body.unwrap_or_default());
            arena.extend(&b"&7\n</pre>"[..(lane + at) % 9]);
        }
    }
    arena.resize(arena.len().next_multiple_of(16), b'9');
    (results, views, arena)
}

/// What the kernel makes of them, of each lane, and the most rows that it says a lane has. `None`
/// is a lane with more rows than its share.
fn decoded(
    service: &Service,
    page: usize,
    lanes: &[Vec<Option<Vec<u8>>>],
    item_stride: usize,
    order: LaneOrder,
) -> (Vec<Option<Got>>, u32) {
    let gpu = &Emulated::new(order);
    let stream = gpu.stream().unwrap();
    let form = crate::program::Form::Segments {
        folded_max: FOLD_BYTES_MAX,
    };
    let on_device = DeviceService::new(gpu, stream, service, form).unwrap();
    let stride = lanes.iter().map(Vec::len).max().unwrap_or(0);
    let (results, views, arena) = laid_out(lanes, stride);
    let (arena, views) = (Items::new(gpu, &arena), Items::new(gpu, &views));
    let results = Items::new(gpu, &results);
    let rows_needed = Items::new(gpu, &[[0u32; 2]]);
    // Of an earlier cohort: nothing may be left of it.
    let stale = |count: usize| Items::new(gpu, &vec![0x0000_0003_0000_0001u64; count]);
    let columns: Vec<Items<u64>> = [
        lanes.len(),
        lanes.len(),
        lanes.len() * item_stride,
        lanes.len() * item_stride,
        lanes.len(),
        lanes.len(),
    ]
    .map(stale)
    .into();
    let addresses: Vec<Address> = columns.iter().map(|of| of.slice().address()).collect();
    let table = Items::new(gpu, &addresses);
    let none = Items::<u8>::new(gpu, &[]);
    let cohort = DeviceCohort {
        service: &on_device,
        page,
        regions: LaneRegions {
            shares: Shares {
                run: 0,
                segments: 0,
                text: 0,
                queries: stride as u32,
                headers: 0,
            },
            results: results.slice(),
            runs: none.slice(),
            segments: none.buffer.slice(Extent::new(0, 0)),
            queries: none.buffer.slice(Extent::new(0, 0)),
            headers: none.buffer.slice(Extent::new(0, 0)),
            answers: views.slice(),
            registers: none.buffer.slice(Extent::new(0, 0)),
        },
        lane_list: None,
        lane_count: None,
        columns: Columns::new(table.slice(), columns.iter().map(|column| &column.buffer)),
        arena: arena.slice(),
        text_base: 0,
        answer_base: 0,
        item_stride: item_stride as u32,
        item_pitch: lanes.len() as u32,
        rows_needed: rows_needed.slice(),
    };
    scope(&**gpu, &[stream], |queue| cohort.decode(queue, 0)).unwrap();
    let columns: Vec<_> = columns.into_iter().map(Items::into_items).collect();
    let (results, arena) = (results.into_items(), arena.into_items());
    let text = |bits: u64| -> Vec<u8> {
        let (offset, length) = (bits as u32 as usize, (bits >> 32) as u32);
        let (is_plain, length) = (length & TEXT_PLAIN != 0, (length & !TEXT_PLAIN) as usize);
        let text: Vec<u8> = (offset..offset + length).map(|at| arena[at]).collect();
        // Where HTML changes nothing in it, that is said; what is empty may be a row refused.
        let plain = !text.iter().any(|byte| b"<>&\"'/".contains(byte));
        assert!(is_plain == plain || text.is_empty() && !is_plain);
        text
    };
    let lane = |lane: usize| -> Option<Got> {
        match Outcome::of(results[lane].outcome) {
            Outcome::Active => {}
            Outcome::Room => return None,
            Outcome::Failed(error) => return Some(Err(error)),
            Outcome::Finished | Outcome::Host => panic!("decoding says neither"),
        }
        let status = columns[0][lane] as i64;
        let rows = match page {
            0 => {
                let span = columns[1][lane];
                let (start, length) = (span as u32 & !INTERLEAVED, (span >> 32) as usize);
                (start as usize..)
                    .step_by(lanes.len())
                    .take(length)
                    .map(|item| (text(columns[2][item]), columns[3][item] as i64))
                    .collect()
            }
            _ => vec![(text(columns[4][lane]), columns[5][lane] as i64)],
        };
        Some(Ok((status, rows)))
    };
    let all = (0..lanes.len()).map(lane).collect();
    (all, rows_needed.into_items()[0][0])
}

const ORDERS: [LaneOrder; 3] = [
    LaneOrder::Ascending,
    LaneOrder::Descending,
    LaneOrder::Shuffled(7),
];

/// Every answer alone, before and behind a good one and one that refuses; and none at all.
fn lanes() -> Vec<Vec<Option<Vec<u8>>>> {
    let good = b"<pre>\n0\ngood&17\n</pre>\n".to_vec();
    let refused = b"<pre>\n5\nno\n</pre>\n".to_vec();
    let mut lanes = vec![vec![], vec![None], vec![Some(good.clone()), None]];
    for body in bodies::bodies() {
        lanes.push(vec![Some(body.clone())]);
        for other in [&good, &refused] {
            lanes.push(vec![Some(other.clone()), Some(body.clone())]);
            lanes.push(vec![Some(body.clone()), Some(other.clone())]);
        }
    }
    lanes
}

#[test]
fn any_answer_is_read_as_the_engine_reads_it() {
    let (service, lanes) = (service(), lanes());
    for page in 0..2 {
        let expected = expected(&service.pages[page], &lanes);
        let good = expected.iter().filter(|got| got.is_ok()).count();
        assert!((20..lanes.len() - 20).contains(&good), "both kinds: {good}");
        for order in ORDERS {
            let (got, _) = decoded(&service, page, &lanes, 4097, order);
            for (lane, (got, expected)) in got.iter().zip(&expected).enumerate() {
                assert_eq!(got.as_ref(), Some(expected), "page {page}, lane {lane}");
            }
        }
    }
}

#[test]
fn a_lane_with_more_rows_than_its_share_says_so_and_harms_no_other() {
    let (service, lanes) = (service(), lanes());
    let expected = expected(&service.pages[0], &lanes);
    let rows = |got: &Got| got.as_ref().map_or(0, |(_, rows)| rows.len());
    let most = expected.iter().map(rows).max().unwrap_or(0);
    for item_stride in [1, 2, 3] {
        for order in ORDERS {
            let (got, needed) = decoded(&service, 0, &lanes, item_stride, order);
            assert_eq!(needed as usize, most);
            for (got, expected) in got.iter().zip(&expected) {
                match rows(expected) > item_stride {
                    true => assert_eq!(*got, None),
                    false => assert_eq!(got.as_ref(), Some(expected)),
                }
            }
        }
    }
}
