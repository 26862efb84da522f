//! Layouts where pages do not lead: lengths about a unit, about a tile and about a warp's turn, and
//! lanes of one warp that part.
//!
//! What is expected is put together here, without the engine's reference.

mod common;

use common::{ORDERS, emulated};
use rhythm_engine::cohort::{Cohort, LaneError, LaneState};
use rhythm_engine::device::{Executor, LaneLimits, Work};
use rhythm_engine::program::{
    Csrf, Escape, Field, FieldType, For, If, Load, Op, PageProgram, Put, Service, SessionUse,
    StageProgram, Type, Unary,
};
use rhythm_engine_cuda::executor::CudaExecutor;
use rhythm_engine_cuda::layout::Layout;
use std::sync::Arc;

const LIMITS: LaneLimits = LaneLimits {
    body_bytes_max: 20_000,
    text_bytes_max: 1 << 10,
    turns_max: 1 << 10,
};

/// A lane's body: the text, as often as `turns` says the first fragment and the text, then the
/// second and the third fragment where it wants them.
#[derive(Clone, Debug)]
struct Lane {
    state: LaneState,
    text: String,
    turns: usize,
    second: bool,
    third: bool,
}

impl Lane {
    /// A text that looks the same nowhere, of so many bytes.
    fn new(lane: usize, bytes: usize) -> Lane {
        let text = (0..bytes).map(|at| char::from(b'!' + ((at * 7 + lane * 13) % 90) as u8));
        Lane {
            state: LaneState::Active,
            text: text.collect(),
            turns: 0,
            second: false,
            third: false,
        }
    }

    fn body(&self, fragments: &[Box<[u8]>]) -> Vec<u8> {
        let mut body = self.text.as_bytes().to_vec();
        for _ in 0..self.turns {
            body.extend_from_slice(&fragments[0]);
            body.extend_from_slice(self.text.as_bytes());
        }
        for (wanted, fragment) in [(self.second, 1), (self.third, 2)] {
            if wanted {
                body.extend_from_slice(&fragments[fragment]);
            }
        }
        body
    }
}

/// A service with the page that makes such bodies.
fn service(fragment_bytes: [usize; 3]) -> Arc<Service> {
    let [text, turns, second, third, position, index, length] = [0, 1, 2, 3, 4, 5, 6];
    let optional = |from, to, fragment| {
        let decide = Op::If(If {
            condition: to,
            then: vec![Op::Fragment(fragment)],
            otherwise: vec![],
        });
        [Op::Truth(Unary { to, from }), decide]
    };
    let put = Op::Put(Put {
        from: text,
        escape: Escape::None,
    });
    let mut body: Vec<Op> = (0..4)
        .map(|field| Op::Field(Load { to: field, field }))
        .collect();
    body.extend([
        put.clone(),
        Op::For(For {
            count: turns,
            choices: vec![],
            position,
            index,
            length,
            body: vec![Op::Fragment(0), put],
            otherwise: vec![],
        }),
    ]);
    body.extend(optional(second, 7, 1));
    body.extend(optional(third, 8, 2));
    let field = |name: &str, kind| Field {
        name: name.to_owned(),
        kind: FieldType::Scalar(kind),
    };
    let page = PageProgram {
        name: "made".to_owned(),
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
        content_type: "text/html".to_owned(),
        params: vec![],
        list_params: vec![],
        calls: vec![],
        tables: vec![],
        texts: vec![],
        asides: vec![],
        fields: vec![
            field("text", Type::Text),
            field("turns", Type::Int),
            field("second", Type::Int),
            field("third", Type::Int),
        ],
        stages: vec![StageProgram {
            registers: [vec![Type::Text], vec![Type::Int; 6], vec![Type::Bool; 2]].concat(),
            body,
            ..StageProgram::default()
        }],
    };
    let fragment = |(number, bytes): (usize, usize)| -> Box<[u8]> {
        (0..bytes)
            .map(|at| b'A' + ((at * 5 + number) % 50) as u8)
            .collect()
    };
    let fragments = fragment_bytes.into_iter().enumerate().map(fragment);
    Arc::new(Service {
        pages: vec![page],
        fragments: fragments.collect(),
        ..Service::default()
    })
}

/// Renders the lanes and compares each body.
fn check(executor: &mut CudaExecutor, service: &Arc<Service>, lanes: &[Lane], what: &str) {
    let mut cohort = Box::new(Cohort::default());
    cohort.reset(&service.pages[0]);
    for (number, lane) in lanes.iter().enumerate() {
        cohort.push_lane();
        cohort.lanes[number] = lane.state;
        let text = cohort.arena.push(lane.text.as_bytes());
        cohort.fields[0].set_text(number, text);
        let ints = [lane.turns as i64, lane.second.into(), lane.third.into()];
        for (field, value) in (1..).zip(ints) {
            cohort.fields[field].set_int(number, value);
        }
    }
    let work = Work {
        service: Arc::clone(service),
        page: 0,
        cohort,
        token: 0,
    };
    assert!(executor.submit(work).is_ok(), "an idle executor takes work");
    let mut done = Vec::new();
    while done.is_empty() {
        executor.poll(&mut done);
    }
    let cohort = &done[0].cohort;
    for (number, lane) in lanes.iter().enumerate() {
        let expected = lane.body(&service.fragments);
        if lane.state != LaneState::Active {
            assert_eq!(cohort.lanes[number], lane.state, "{what}, lane {number}");
        } else if expected.len() > LIMITS.body_bytes_max {
            let failed = LaneState::Failed(LaneError::TooLarge);
            assert_eq!(cohort.lanes[number], failed, "{what}, lane {number}");
        } else {
            assert_eq!(
                cohort.lanes[number],
                LaneState::Finished,
                "{what}, lane {number}"
            );
            let mut body = Vec::new();
            cohort.output.stitch(number, &service.fragments, &mut body);
            assert!(
                body == expected,
                "{what}, lane {number}: {lane:?} has another body"
            );
        }
    }
    assert_eq!(executor.lost(), None);
    assert_eq!(executor.statistics().on_host, 0, "{what}");
}

/// In every layout, with the orders of threads by turns.
fn in_every_layout(test: impl Fn(&mut CudaExecutor, &str)) {
    for (layout, order) in Layout::ALL.iter().zip(ORDERS.iter().cycle()) {
        let mut executor = emulated(*order, *layout, LIMITS);
        test(&mut executor, &format!("{layout}, {order:?}"));
    }
}

/// Lengths of texts about a word, a unit, a row of 32 units, the tile of a row-major warp, and
/// twice it.
const LENGTHS: [usize; 21] = [
    0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 5000,
];

#[test]
fn bodies_of_text_alone() {
    let service = service([200; 3]);
    in_every_layout(|executor, what| {
        // All lanes of one length, then all lengths side by side.
        for bytes in LENGTHS {
            let lanes: Vec<Lane> = (0..33).map(|lane| Lane::new(lane, bytes)).collect();
            check(executor, &service, &lanes, what);
        }
        let mixed: Vec<Lane> = (0..70)
            .map(|lane| Lane::new(lane, LENGTHS[lane * 8 % LENGTHS.len()]))
            .collect();
        check(executor, &service, &mixed, what);
    });
}

#[test]
fn fragments_about_whole_units() {
    in_every_layout(|executor, what| {
        for bytes in 129..=145 {
            let service = service([bytes, bytes + 1, 1024 + bytes]);
            // Texts before the fragment end at each place of a unit, of half of the lanes near a
            // tile's end.
            let lanes: Vec<Lane> = (0..66)
                .map(|lane| Lane {
                    turns: 1 + lane % 4 / 2,
                    third: lane % 3 == 0,
                    ..Lane::new(lane, lane / 2 + lane % 2 * 1000)
                })
                .collect();
            check(executor, &service, &lanes, what);
        }
    });
}

#[test]
fn lanes_of_a_warp_that_part() {
    let service = service([129, 700, 6000]);
    in_every_layout(|executor, what| {
        let lanes: Vec<Lane> = (0..97)
            .map(|lane| Lane {
                turns: lane * lane % 6,
                second: lane % 3 == 1,
                third: lane % 5 == 2,
                ..Lane::new(lane, LENGTHS[lane * 5 % 12])
            })
            .collect();
        check(executor, &service, &lanes, what);
    });
}

#[test]
fn lanes_without_a_body_in_between() {
    let service = service([300, 2000, 333]);
    in_every_layout(|executor, what| {
        let mut lanes: Vec<Lane> = (0..66)
            .map(|lane| Lane {
                turns: lane % 3,
                second: lane % 2 == 0,
                ..Lane::new(lane, lane * 3)
            })
            .collect();
        for lane in [0, 5, 31, 32, 33, 40] {
            lanes[lane].state = LaneState::Finished;
        }
        // These are too large, for one by its text and for the other by its fragments.
        lanes[7] = Lane::new(7, LIMITS.body_bytes_max + 1);
        lanes[64].turns = 100;
        check(executor, &service, &lanes, what);
        // Nobody is left, but for one.
        for (number, lane) in lanes.iter_mut().enumerate() {
            if number != 50 {
                lane.state = LaneState::Finished;
            }
        }
        check(executor, &service, &lanes, what);
    });
}
