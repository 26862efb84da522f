//! Answers of every kind and how they are delivered, and what they may take.

use super::*;
use crate::cohort::Cohort;
use crate::program::{
    Asking, Csrf, Field, FieldType, Form, PageProgram, SessionUse, StageProgram, Type,
};
use proptest::prelude::*;

/// A page that asks for rows of these columns.
fn page(columns: &[Type]) -> PageProgram {
    let list = columns.iter().map(|kind| (String::new(), *kind)).collect();
    let field = |kind| Field {
        name: "field".to_owned(),
        kind,
    };
    PageProgram {
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
        content_type: String::new(),
        params: vec![],
        list_params: vec![],
        fields: vec![
            field(FieldType::List(list)),
            field(FieldType::Scalar(Type::Int)),
        ],
        calls: vec![Call {
            backend: 0,
            asking: Asking::Request,
            has_name: true,
            statements: Box::default(),
            document: None,
            form: Form::plain(&[]),
            columns: columns.len() as u16,
            result: CallResult::Rows(0),
            status: 1,
            idempotent: true,
            optional: false,
            shared: false,
            merged: false,
            particulars: Default::default(),
        }],
        stages: vec![StageProgram {
            call: Some(0),
            ..StageProgram::default()
        }],
        texts: vec![],
        tables: vec![],
        asides: vec![],
    }
}

/// A cohort that has asked once for each lane.
fn asked(page: &PageProgram, lanes: u32, bytes_max: usize) -> Cohort {
    let mut cohort = Cohort::new(bytes_max);
    cohort.reset(page);
    cohort.stage = 1;
    for lane in 0..lanes {
        cohort.push_lane();
        assert!(cohort.queries.push(lane, std::iter::empty()));
    }
    cohort
}

#[test]
fn cells_that_hold_no_text_are_bounded_too() {
    let page = page(&[Type::Int, Type::Text, Type::Int]);
    let row = || [Cell::Int(7), Cell::Null, Cell::Null];
    // Each row takes three cells of 8 bytes.
    let (room, rows_of_one) = (10_000, ROWS_MAX as usize);
    for lanes in [1, 2, 3, 4] {
        let mut cohort = asked(&page, lanes, room * 24);
        let (_, mut rows) = cohort.exchange(&page);
        for query in 0..lanes as usize {
            rows.answer(query, |answer| {
                (0..rows_of_one).for_each(|_| answer.row(row()));
                0
            });
        }
        cohort.settle(&page);
        let fit = room / rows_of_one;
        let expected = (0..lanes as usize).map(|lane| match lane < fit {
            true => LaneState::Active,
            false => LaneState::Failed(LaneError::ArenaFull),
        });
        assert_eq!(cohort.lanes, expected.collect::<Vec<_>>());
        let list = cohort.fields[0].list();
        let cells: usize = list.columns.iter().map(Column::len).sum();
        assert!(cells * 8 + cohort.arena.bytes().len() <= room * 24);
    }
}

#[test]
fn what_an_answer_that_is_dropped_took_is_free_again() {
    let page = page(&[Type::Int]);
    let mut cohort = asked(&page, 4, 10 * 8);
    let (_, mut rows) = cohort.exchange(&page);
    // Ten rows fit: of a bad status, too many, of a bad cell, and then ten good ones.
    for (query, count, status, last) in [
        (0, 10, 3, Cell::Null),
        (1, 11, 0, Cell::Null),
        (2, 9, 0, Cell::Float(0.5)),
        (3, 9, 0, Cell::Int(9)),
    ] {
        rows.answer(query, |answer| {
            (0..count).for_each(|_| answer.row([Cell::Int(1)]));
            if status == 0 {
                answer.row([last]);
            }
            status
        });
    }
    cohort.settle(&page);
    let failed = |error| LaneState::Failed(error);
    let (large, bad) = (failed(LaneError::ArenaFull), failed(LaneError::BadAnswer));
    assert_eq!(
        cohort.lanes,
        [LaneState::Active, large, bad, LaneState::Active]
    );
    assert_eq!(cohort.fields[0].list().spans[3].length, 10);
    assert!(!cohort.arena.reserve(1));
}

/// What the lanes have: their states, their statuses, and their rows of texts and integers.
fn got(cohort: &Cohort) -> Vec<(LaneState, i64, Vec<String>)> {
    let list = cohort.fields[0].list();
    let cell = |column: &Column, item: usize| match column {
        Column::Text(views) => format!("{:?}", cohort.arena.get(views[item])),
        column => column.ints()[item].to_string(),
    };
    let lanes = cohort.lanes.iter().enumerate();
    let of_lane = |(lane, state): (usize, &LaneState)| {
        let Span { start, length } = list.spans[lane];
        let items = start as usize..(start + length) as usize;
        let rows = items.flat_map(|item| list.columns.iter().map(move |of| cell(of, item)));
        (*state, cohort.fields[1].ints()[lane], rows.collect())
    };
    lanes.map(of_lane).collect()
}

fn kind() -> impl Strategy<Value = Type> {
    prop_oneof![5 => Just(Type::Text), 1 => Just(Type::Int)]
}

fn status_and_rows() -> impl Strategy<Value = (i64, u32)> {
    prop_oneof![5 => (Just(0), 0..4u32), 1 => (1..3i64, Just(0))]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[0-9]{1,3}", "[ -~]{0,3}", "[0-9\u{e9}]{0,2}"]
}

proptest! {
    #[test]
    fn texts_by_column_are_as_rows_of_them(
        kinds in proptest::collection::vec(kind(), 0..4),
        answers in proptest::collection::vec(status_and_rows(), 0..6),
        cells in proptest::collection::vec(text(), 60),
        width in 0..8usize,
        failed in 0..12usize,
        bytes_max in prop_oneof![3 => Just(1 << 20), 1 => 0..400usize],
    ) {
        let page = page(&kinds);
        // Nearly always as many columns as there should be.
        let width = if width == 7 { kinds.len() + 1 } else { kinds.len() };
        let count: u32 = answers.iter().map(|(_, rows)| rows).sum();
        let mut texts = Vec::new();
        let mut column = |column: usize| {
            let of_column = (0..count as usize).map(|row| {
                let start = texts.len() as u32;
                texts.extend_from_slice(cells[(row * 7 + column * 3) % cells.len()].as_bytes());
                texts.push(b'|');
                start..texts.len() as u32 - 1
            });
            of_column.collect::<Vec<_>>()
        };
        let columns: Vec<_> = (0..width).map(&mut column).collect();
        let cohorts = [true, false].map(|at_once| {
            let mut cohort = asked(&page, answers.len() as u32, bytes_max);
            if let Some(state) = cohort.lanes.get_mut(failed) {
                *state = LaneState::Failed(LaneError::Overflow);
            }
            let (_, mut rows) = cohort.exchange(&page);
            let mut first = 0;
            if at_once {
                let texts = TextColumns { answers: &answers, text: &texts, columns: &columns };
                rows.answer_columns(0, texts);
            } else {
                for (query, &(status, length)) in answers.iter().enumerate() {
                    let items = first..first + length as usize;
                    first = items.end;
                    rows.answer(query, |answer| {
                        for item in items {
                            answer.row(columns.iter().map(|cells| {
                                let Range { start, end } = cells[item].clone();
                                Cell::Text(&texts[start as usize..end as usize])
                            }));
                        }
                        status
                    });
                }
            }
            cohort.settle(&page);
            cohort
        });
        // What stands between cells takes room where they move at once, so that they do not
        // always fit then; what does not fails in the same way.
        let used = |cohort: &Cohort| cohort.arena.bytes().len();
        prop_assert!(cohorts.iter().all(|cohort| used(cohort) <= bytes_max));
        let arena = &cohorts[0].arena;
        let plain = arena.plain().start as usize..arena.plain().end as usize;
        prop_assert_eq!(html_special(&arena.bytes()[plain]), None);
        let [at_once, one_by_one] = cohorts.map(|cohort| got(&cohort));
        prop_assert_eq!(at_once, one_by_one);
    }
}

/// A page that asks for one row of a text and an integer.
fn page_of_one_row() -> PageProgram {
    let mut page = page(&[]);
    page.fields = [Type::Int, Type::Int, Type::Text, Type::Int]
        .map(|kind| Field {
            name: "field".to_owned(),
            kind: FieldType::Scalar(kind),
        })
        .to_vec();
    page.calls[0].columns = 2;
    page.calls[0].result = CallResult::Row(vec![2, 3]);
    page
}

proptest! {
    #[test]
    fn an_answer_to_several_is_as_one_to_each(
        // Of each lane the answers that its queries get, of four there are.
        asked in proptest::collection::vec(proptest::collection::vec(0..4usize, 0..3), 1..8),
        answers in proptest::collection::vec((0..6u32, 0..8u32), 4),
        one_row in any::<bool>(),
        failed in 0..16usize,
    ) {
        let page = match one_row {
            true => page_of_one_row(),
            false => page(&[Type::Text, Type::Int]),
        };
        let write = |of: usize, answer: &mut AnswerWriter<'_>| {
            let (rows, kind) = answers[of];
            for row in 0..rows.min(if one_row { 1 } else { 5 }) {
                let text = format!("{of}.{row}");
                let number = match kind {
                    0 => Cell::Float(0.5),
                    _ => Cell::Int(i64::from(row)),
                };
                answer.row([Cell::Text(text.as_bytes()), number]);
            }
            i64::from(kind == 1)
        };
        let cohorts = [true, false].map(|at_once| {
            let mut cohort = Cohort::new(1 << 20);
            cohort.reset(&page);
            cohort.stage = 1;
            let mut by_answer = [(); 4].map(|()| Vec::new());
            for (lane, of_lane) in asked.iter().enumerate() {
                cohort.push_lane();
                // Where there is one row, a lane asks once.
                for of in of_lane.iter().take(if one_row { 1 } else { 9 }) {
                    by_answer[*of].push(cohort.queries.len());
                    assert!(cohort.queries.push(lane as u32, std::iter::empty()));
                }
            }
            if let Some(state) = cohort.lanes.get_mut(failed) {
                *state = LaneState::Failed(LaneError::Overflow);
            }
            let (_, mut rows) = cohort.exchange(&page);
            for (of, queries) in by_answer.iter().enumerate().filter(|(_, all)| !all.is_empty()) {
                if at_once {
                    rows.answer_all(queries.iter().copied(), |answer| write(of, answer));
                } else {
                    queries.iter().for_each(|query| rows.answer(*query, |a| write(of, a)));
                }
            }
            let settled = cohort.settle(&page);
            let fields: Vec<String> = match one_row {
                false => got(&cohort).iter().map(|lane| format!("{lane:?}")).collect(),
                true => (cohort.lanes.iter().enumerate())
                    .map(|(lane, state)| {
                        let text = cohort.arena.get(cohort.fields[2].texts()[lane]);
                        let ints = [1, 3].map(|field: usize| cohort.fields[field].ints()[lane]);
                        match state {
                            LaneState::Failed(_) => format!("{state:?}"),
                            _ => format!("{state:?} {text:?} {ints:?}"),
                        }
                    })
                    .collect(),
            };
            let mut misfits: Vec<(usize, Misfit)> = cohort.take_misfits().collect();
            misfits.sort_by_key(|(lane, _)| *lane);
            (fields, settled, misfits)
        });
        let [at_once, each] = cohorts;
        prop_assert_eq!(at_once, each);
    }
}

#[test]
fn a_cell_that_is_no_integer_is_named() {
    let rows = [[&b"x"[..], b"-3"], [b"y", b"3 "]];
    for (columns, wrong) in [
        ([Type::Text, Type::Text], None),
        ([Type::Text, Type::Int], Some(1)),
        ([Type::Int, Type::Text], Some(0)),
    ] {
        let page = page(&columns);
        // Row by row, and by columns.
        for by_columns in [false, true] {
            let mut cohort = asked(&page, 2, 1000);
            let (_, mut answers) = cohort.exchange(&page);
            answers.answer(0, |_| 0);
            match by_columns {
                false => answers.answer(1, |answer| {
                    (rows.iter()).for_each(|row| answer.row(row.map(Cell::Text)));
                    0
                }),
                true => answers.answer_columns(
                    1,
                    TextColumns {
                        answers: &[(0, 2)],
                        text: b"xy-33 ",
                        columns: &[vec![0..1, 1..2], vec![2..4, 4..6]],
                    },
                ),
            }
            let named: Vec<(usize, Misfit)> = cohort.take_misfits().collect();
            let of_second = |column| (1, Misfit::NoInteger(column));
            assert_eq!(named, Vec::from_iter(wrong.map(of_second)), "{columns:?}");
            assert_eq!(cohort.take_misfits().count(), 0, "it is said once");
        }
    }
}

#[test]
fn it_is_said_why_an_answer_is_none_that_the_page_takes() {
    let page = page(&[Type::Text, Type::Text]);
    let bad = b"\xff";
    let row = || [Cell::Text(b"x"), Cell::Int(1)];
    let misfit_of = |write: &dyn Fn(&mut AnswerWriter<'_>)| {
        let mut cohort = asked(&page, 1, 1 << 20);
        let (_, mut answers) = cohort.exchange(&page);
        answers.answer(0, |answer| {
            write(answer);
            0
        });
        cohort.settle(&page);
        let misfit = cohort.take_misfits().next();
        let failed = cohort.lanes[0] == LaneState::Failed(LaneError::BadAnswer);
        assert_eq!(failed, misfit.is_some());
        misfit.map(|(_, misfit)| misfit)
    };
    assert_eq!(misfit_of(&|answer| answer.row(row())), None);
    let fewer = misfit_of(&|answer| answer.row([Cell::Null]));
    let more = misfit_of(&|answer| answer.row([Cell::Null; 3]));
    assert_eq!([fewer, more], [Some(Misfit::Cells); 2]);
    let no_text = misfit_of(&|answer| answer.row([Cell::Null, Cell::Bytes(bad)]));
    assert_eq!(no_text, Some(Misfit::NoText(1)));
    let many = misfit_of(&|answer| (0..=ROWS_MAX).for_each(|_| answer.row(row())));
    assert_eq!(many, Some(Misfit::ManyRows));
}
