//! Tests of cohorts: lanes that come and go, and what memory they take.

use super::*;
use crate::program::{
    Asking, Call, CallResult, Csrf, Field, FieldType, Form, SessionUse, StageProgram, Type,
};

/// A page with a text and a list of texts, whose first stage calls for the latter.
fn page() -> PageProgram {
    let field = |name: &str, kind| Field {
        name: name.to_owned(),
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
            field("a", FieldType::Scalar(Type::Text)),
            field("b", FieldType::List(vec![(String::new(), Type::Text)])),
            field("b.status", FieldType::Scalar(Type::Int)),
        ],
        calls: vec![Call {
            backend: 0,
            asking: Asking::Request,
            has_name: true,
            statements: Box::default(),
            document: None,
            form: Form::plain(&[Type::Text]),
            columns: 1,
            result: CallResult::Rows(1),
            status: 2,
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
        texts: b"four".to_vec(),
        tables: vec![],
        asides: vec![],
    }
}

/// Two lanes, each with a text of 10 bytes, a list of two texts of 5, and a query of `asked`.
fn filled(page: &PageProgram, asked: &[u8]) -> Cohort {
    let mut cohort = Cohort::default();
    cohort.reset(page);
    cohort.stage = 1;
    for lane in 0..2 {
        cohort.push_lane();
        let text = cohort.arena.push(b"0123456789");
        cohort.fields[0].set_text(lane, text);
        let list = cohort.fields[1].list_mut();
        list.spans[lane] = Span {
            start: 2 * lane as u32,
            length: 2,
        };
        let half = View { length: 5, ..text };
        for item in 2 * lane..2 * lane + 2 {
            list.columns[0].push_empty();
            list.columns[0].set_text(item, half);
        }
        let argument = [Argument::Text(asked)].into_iter();
        assert!(cohort.queries.push(lane as u32, argument));
    }
    cohort
}

#[test]
fn lanes_move_as_far_as_there_is_room() {
    let page = page();
    // The program's texts take 4, and a lane 36: texts of 20 and two cells of a list.
    for (bytes_max, expected) in [
        (76, [LaneState::Active, LaneState::Active]),
        (
            75,
            [LaneState::Active, LaneState::Failed(LaneError::ArenaFull)],
        ),
        (39, [LaneState::Failed(LaneError::ArenaFull); 2]),
        (4, [LaneState::Failed(LaneError::ArenaFull); 2]),
    ] {
        let mut from = filled(&page, b"0123456789");
        let mut into = Cohort::new(bytes_max);
        into.reset(&page);
        into.stage = 1;
        // Asked before, it tells exactly when all of them fit.
        let all_fit = expected == [LaneState::Active; 2];
        assert_eq!(
            into.arena.reserve(from.moved_bytes(&page, &[0, 1])),
            all_fit
        );
        assert_eq!(from.moved_bytes(&page, &[1]), 36);
        from.move_lanes(&page, &[0, 1], &mut into);
        assert_eq!(from.lanes, [LaneState::Vacant; 2]);
        assert_eq!(into.lanes, expected, "in {bytes_max} bytes");
        assert_eq!((from.queries.len(), into.queries.len()), (0, 2));
        for lane in (0..2).filter(|&lane| into.lanes[lane] == LaneState::Active) {
            let text = into.arena.get(into.fields[0].texts()[lane]);
            assert_eq!(text, b"0123456789");
            let argument = into.queries.argument(lane, 0);
            let room = bytes_max >= 10 * (lane + 1);
            assert_eq!(argument, Argument::Text(if room { text } else { b"" }));
            assert_eq!(into.queries.is_whole(lane), room);
        }
    }
}

#[test]
fn a_lane_that_is_taken_back_leaves_nothing() {
    let page = page();
    let mut cohort = filled(&page, b"");
    let lengths = |cohort: &Cohort| {
        let items = cohort.fields[1].list().columns[0].len();
        (cohort.len(), cohort.arena.used(), items)
    };
    let before = lengths(&cohort);
    for items in [0, 3] {
        let lane = cohort.push_lane();
        let text = cohort.arena.push(b"of a request that is refused");
        cohort.fields[0].set_text(lane, text);
        let list = cohort.fields[1].list_mut();
        let start = list.columns[0].len() as u32;
        (0..items).for_each(|_| list.columns[0].push_empty());
        list.spans[lane] = Span {
            start,
            length: items,
        };
        cohort.pop_lane();
        assert_eq!(lengths(&cohort), before, "with {items} items");
    }
}

#[test]
fn what_a_burst_needed_is_given_back() {
    const BURST: usize = 1 << 18;
    let page = page();
    let mut cohort = filled(&page, b"0123456789");
    cohort.reset(&page);
    let usual = cohort.capacity();
    for lane in 0..BURST {
        cohort.arena.push(b"0123456789");
        cohort.fields[1].list_mut().columns[0].push_empty();
        let argument = [Argument::Text(b"0123456789")].into_iter();
        assert!(cohort.queries.push(lane as u32, argument));
        cohort.output.reserve(10, 1).expect("memory");
        cohort.output.headers.push((0, 0, View::default()));
        cohort.output.lanes.push(LaneOutput::default());
    }
    cohort.answers.resize(BURST, None);
    cohort.reset(&page);
    assert!(
        cohort.capacity() >= usual + 50 * BURST,
        "the next may be like it"
    );
    for _ in 0..1000 {
        cohort.reset(&page);
    }
    assert!(cohort.capacity() <= 16 * 2 * need::LEAST_BYTES);
    cohort.rest();
    cohort.forget();
    assert_eq!(cohort.capacity(), 0);
}

#[test]
fn a_context_keeps_a_bounded_part_of_what_is_needed_all_the_time() {
    let page = page();
    let budget = Budget::new(0, usize::MAX);
    let share = Share::new(&budget);
    let mut cohort = Cohort::of_share(&share, Arena::BYTES_MAX);
    for _ in 0..10 {
        cohort.reset(&page);
        let needed = 8 * need::MOST_BYTES;
        let text = vec![b'x'; needed];
        assert!(cohort.arena.reserve(needed));
        cohort.arena.push(&text);
        assert!(cohort.queries.push(0, [Argument::Text(&text)].into_iter()));
        assert_eq!(cohort.output.lease_regions(1, needed, 0, needed), 1);
        cohort.output.reserve(needed, 0).expect("memory");
        assert!(cohort.capacity() >= 3 * needed && share.bytes() >= 3 * needed);
        cohort.rest();
        assert!(cohort.capacity() <= 3 * 2 * need::MOST_BYTES);
        assert!(
            share.bytes() <= 3 * 2 * need::MOST_BYTES,
            "others may have it"
        );
        assert!(cohort.capacity() >= 3 * need::MOST_BYTES, "some is kept");
    }
    cohort.forget();
    assert_eq!((cohort.capacity(), share.bytes()), (0, 0));
}

/// The same, each query answered with a text of 10.
fn answered(page: &PageProgram) -> Cohort {
    let mut cohort = filled(page, b"what is asked");
    let (_, mut rows) = cohort.exchange(page);
    for query in 0..2 {
        rows.answer(query, |answer| {
            answer.row([Cell::Text(b"0123456789")]);
            0
        });
    }
    cohort
}

#[test]
fn a_row_is_one_row() {
    let mut page = page();
    page.calls[0].result = CallResult::Row(vec![0]);
    for (rows_of_first, status, misfits) in [(1, 0, 0), (0, 0, 1), (2, 0, 1), (0, 5, 0)] {
        let mut cohort = filled(&page, b"");
        let (_, mut rows) = cohort.exchange(&page);
        for query in 0..2 {
            rows.answer(query, |answer| {
                let count = if query == 0 { rows_of_first } else { 1 };
                (0..count).for_each(|_| answer.row([Cell::Text(b"row")]));
                if query == 0 { status } else { 0 }
            });
        }
        assert_eq!(cohort.settle(&page), misfits);
        let failed = LaneState::Failed(LaneError::BadAnswer);
        let first = if misfits == 1 {
            failed
        } else {
            LaneState::Active
        };
        assert_eq!(cohort.lanes, [first, LaneState::Active]);
        assert_eq!(cohort.arena.get(cohort.fields[0].texts()[1]), b"row");
    }
}

#[test]
fn a_row_is_empty_where_any_answer_refuses() {
    let mut page = page();
    page.calls[0].result = CallResult::Row(vec![0]);
    for refused in [0, 1] {
        let mut cohort = filled(&page, b"");
        cohort.queries.clear();
        for lane in [0, 0, 1] {
            let argument = [Argument::Text(b"")].into_iter();
            assert!(cohort.queries.push(lane, argument));
        }
        let (_, mut rows) = cohort.exchange(&page);
        for query in 0..3 {
            rows.answer(query, |answer| match query == refused {
                true => 5,
                false => {
                    answer.row([Cell::Text(b"row")]);
                    0
                }
            });
        }
        assert_eq!(cohort.settle(&page), 0);
        assert_eq!(cohort.fields[2].ints(), [5, 0]);
        let text = |lane: usize| cohort.arena.get(cohort.fields[0].texts()[lane]);
        assert_eq!([text(0), text(1)], [b"" as &[u8], b"row"]);
    }
}

#[test]
fn answers_move_with_their_lanes() {
    let page = page();
    // The program's texts take 4; a lane takes 36, and its answer 18.
    for (bytes_max, expected) in [
        (112, [LaneState::Active, LaneState::Active]),
        (
            111,
            [LaneState::Active, LaneState::Failed(LaneError::ArenaFull)],
        ),
        (40, [LaneState::Failed(LaneError::ArenaFull); 2]),
        (4, [LaneState::Failed(LaneError::ArenaFull); 2]),
    ] {
        let mut from = answered(&page);
        let mut into = Cohort::new(bytes_max);
        into.reset(&page);
        into.stage = 1;
        let all_fit = expected == [LaneState::Active; 2];
        let bytes = from.moved_bytes(&page, &[0, 1]);
        assert_eq!(into.arena.reserve(bytes), all_fit);
        from.move_lanes(&page, &[0, 1], &mut into);
        assert_eq!(from.lanes, [LaneState::Vacant; 2]);
        assert_eq!(into.lanes, expected, "in {bytes_max} bytes");
        assert_eq!((from.queries.len(), into.queries.len()), (0, 2));
        let asked: Vec<_> = into.queries.arguments(1).collect();
        let text: &[u8] = if bytes_max < 26 {
            b""
        } else {
            b"what is asked"
        };
        assert_eq!(
            asked,
            [Argument::Text(text)],
            "what has been asked is not needed"
        );
        into.settle(&page);
        for lane in (0..2).filter(|&lane| into.lanes[lane] == LaneState::Active) {
            let text = into.arena.get(into.fields[0].texts()[lane]);
            assert_eq!(text, b"0123456789");
            let list = into.fields[1].list();
            assert_eq!(list.spans[lane].length, 1, "the answer's row");
            let item = list.columns[0].texts()[list.spans[lane].start as usize];
            assert_eq!(into.arena.get(item), text);
        }
    }
}
