//! A page whose lanes ask for as much as they are told: queries, rows of answers, segments,
//! headers.
#![allow(dead_code, unreachable_pub)]

use super::flight::Filling;
use rhythm_engine::cohort::{Cell, Cohort, Column};
use rhythm_engine::program::Service;
use rhythm_engine::program::*;
use std::sync::Arc;

const TEXT: FieldId = 0;
const QUERIES: FieldId = 1;
const HEADERS: FieldId = 2;
const ROWS: FieldId = 3;
const STATUS: FieldId = 4;

/// A loop over registers `first` to `first + 3`, of so many turns as the first says.
fn turns(first: Register, body: Block) -> Op {
    Op::For(For {
        count: first,
        choices: vec![],
        position: first + 1,
        index: first + 2,
        length: first + 3,
        body,
        otherwise: vec![],
    })
}

/// The service. Its page asks QUERIES queries; then it shows STATUS, TEXT and a fragment for each
/// of them, and each row with another, and sets HEADERS headers.
pub fn wasteful() -> Arc<Service> {
    use Type::{Int, Text};
    let ask = StageProgram {
        step: 1,
        registers: vec![Int, Int, Int, Int, Text, Text],
        constants: vec![],
        body: vec![
            Op::Field(Load {
                to: 0,
                field: QUERIES,
            }),
            Op::Field(Load { to: 4, field: TEXT }),
            turns(
                0,
                vec![
                    Op::Text(TextFunction::Upper, Unary { to: 5, from: 4 }),
                    Op::Query(Query { arguments: vec![5] }),
                ],
            ),
        ],
        call: Some(0),
        ..StageProgram::default()
    };
    let put = |from| {
        Op::Put(Put {
            from,
            escape: Escape::Html,
        })
    };
    // So many registers that they are not in shared memory.
    let show = StageProgram {
        step: 0,
        registers: [vec![Int; 12], vec![Text; 2], vec![Int; 200]].concat(),
        constants: vec![],
        body: vec![
            Op::Field(Load {
                to: 0,
                field: QUERIES,
            }),
            Op::Length(Load { to: 4, field: ROWS }),
            Op::Field(Load {
                to: 8,
                field: HEADERS,
            }),
            Op::Field(Load {
                to: 12,
                field: TEXT,
            }),
            Op::Field(Load {
                to: 14,
                field: STATUS,
            }),
            put(14),
            turns(0, vec![Op::Fragment(0), put(12)]),
            turns(
                4,
                vec![
                    Op::Item(Item {
                        to: 13,
                        list: ROWS,
                        column: 0,
                        position: 5,
                    }),
                    put(13),
                    Op::Fragment(1),
                ],
            ),
            turns(8, vec![Op::Header(Header { name: 0, value: 12 })]),
        ],
        call: None,
        ..StageProgram::default()
    };
    let field = |name: &str, kind| Field {
        name: name.to_owned(),
        kind,
    };
    let page = PageProgram {
        name: "wasteful".to_owned(),
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
        fields: vec![
            field("text", FieldType::Scalar(Text)),
            field("queries", FieldType::Scalar(Int)),
            field("headers", FieldType::Scalar(Int)),
            field(
                "rows",
                FieldType::List(vec![("a".to_owned(), Text), ("b".to_owned(), Int)]),
            ),
            field("rows.status", FieldType::Scalar(Int)),
        ],
        calls: vec![Call {
            backend: 0,
            asking: Asking::Request,
            has_name: true,
            statements: Box::default(),
            document: None,
            form: Form::plain(&[Text]),
            columns: 2,
            result: CallResult::Rows(ROWS),
            status: STATUS,
            idempotent: true,
            optional: false,
            shared: false,
            merged: false,
            particulars: Default::default(),
        }],
        stages: vec![ask, show],
        tables: vec![],
        texts: vec![],
        asides: vec![Aside::Header("X-Made".to_owned())],
    };
    Arc::new(Service {
        pages: vec![page],
        fragments: vec![vec![b'a'; 150].into(), vec![b'b'; 201].into()],
        ..Service::default()
    })
}

impl Filling {
    /// Lanes of [`wasteful`]: every third asks for all of `wants` (queries, rows of an answer,
    /// headers), the others for less.
    pub fn wasteful(service: &Arc<Service>, lanes: usize, wants: [i64; 3]) -> Filling {
        let page = service.pages[0].clone();
        let [queries, rows, headers] = wants;
        let share = |lane: usize| [1, 2, 10][lane % 3] as i64 * i64::from(lane != 5);
        let cohort = move || {
            let mut cohort = Box::new(Cohort::default());
            cohort.reset(&page);
            for _ in 0..lanes {
                cohort.push_lane();
            }
            for lane in 0..lanes {
                let text = format!("lane {lane} <&\"no\">");
                let text = cohort.arena.push(text.as_bytes());
                for (field, column) in cohort.fields.iter_mut().enumerate() {
                    match (field as FieldId, column) {
                        (TEXT, Column::Text(views)) => views[lane] = text,
                        (QUERIES, Column::Int(values)) => values[lane] = queries * share(lane) / 10,
                        (HEADERS, Column::Int(values)) => values[lane] = headers * share(lane) / 10,
                        _ => {}
                    }
                }
            }
            cohort
        };
        // The first query of a lane is answered with all rows, the others with none.
        let page = service.pages[0].clone();
        let answer = move |_, cohort: &mut Cohort| {
            let mut before = None;
            let (queries, mut answers) = cohort.exchange(&page);
            for (query, &lane) in queries.lanes().iter().enumerate() {
                let share = share(lane as usize);
                let rows = if before == Some(lane) {
                    0
                } else {
                    rows * share / 10
                };
                before = Some(lane);
                answers.answer(query, |answer| {
                    for row in 0..rows {
                        let text = format!("row <{row}>");
                        answer.row([Cell::Text(text.as_bytes()), Cell::Int(row)]);
                    }
                    0
                });
            }
            cohort.settle(&page);
        };
        Filling {
            cohort: Box::new(cohort),
            answer: Box::new(answer),
        }
    }
}
