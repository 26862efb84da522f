//! The conformance suite: what every executor must do as the reference does.
//!
//! [`check`] runs a page's stages on an executor and on [`ScalarExecutor`] side by side, over the
//! same cohort of made-up lanes, and compares after every stage what can be seen of it: the lanes'
//! states, the queries they ask, and for finished lanes status, headers, session change, file and
//! every byte of the body. Backends are played by the suite: they answer rows of random texts,
//! other statuses, and now and then something unreadable or nothing.

mod dice;
mod passes;
mod programs;

pub use dice::Dice;
pub use passes::check_passes;
pub use programs::{make_service, make_service_with_rows};

use super::executor::{Executor, Refusal, Work};
use super::limits::LaneLimits;
use super::scalar::ScalarExecutor;
use crate::cohort::{AnswerWriter, Arena, Cell, Cohort, Column, LaneState, Pass, Span, View};
use crate::kind::{Asks, BackendKey, BackendKind};
use crate::program::Service;
use crate::program::{Aside, CallResult, Field, FieldType, PageProgram, ParamType, Type};
use crate::settings::Setting;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The cohort sizes that the suite is meant to be run with: one, two, an odd number, and the
/// paper's.
pub const LANES: [usize; 4] = [1, 2, 7, 4096];

/// The kind of backends that the suites of executors compile pages with: BeSim's, as far as pages
/// and service.toml go.
pub const BESIM: &[BackendKind] = &[BackendKind {
    name: "besim",
    keys: &[
        BackendKey {
            name: "url",
            about: "where it is",
            default: Setting::Text("embedded"),
            check: |url| url.text() == "embedded" || url.text().starts_with("http://"),
            wrong: "this is no address of a backend",
            hint: "\"embedded\", or such as \"http://127.0.0.1:8081/besim\"",
        },
        BackendKey {
            name: "users",
            about: "how many users it has",
            default: Setting::Int(100_000),
            check: |users| users.int() > 0,
            wrong: "`users` must be at least 1",
            hint: "",
        },
    ],
    asks: Asks::Template("request"),
    check: |_| None,
    check_backend: |_| None,
    keeps_sessions: None,
}];

/// Runs a page on `executor` and on the reference, with so many lanes of data from `seed`.
///
/// # Errors
/// The first difference, in words.
pub fn check(
    executor: &mut dyn Executor,
    service: &Arc<Service>,
    page: usize,
    lanes: usize,
    seed: u64,
    limits: LaneLimits,
) -> Result<(), String> {
    let program = &service.pages[page];
    let mut reference = ScalarExecutor::new(limits);
    let mut theirs = make_cohort(program, lanes, &mut Dice::new(seed));
    let mut ours = make_cohort(program, lanes, &mut Dice::new(seed));
    for stage in 0..program.stages.len() {
        let at = |what: String| {
            format!(
                "page {}, {lanes} lanes, seed {seed}, stage {stage}: {what}",
                program.name
            )
        };
        ours = run(&mut reference, service, page, ours).map_err(at)?;
        theirs = run(executor, service, page, theirs).map_err(at)?;
        compare(service, program, &theirs, &ours).map_err(at)?;
        if stage < program.calls.len() {
            let mut dice = Dice::new(seed ^ 0xa5a5 ^ stage as u64);
            answer(program, &mut ours, &mut dice.clone());
            answer(program, &mut theirs, &mut dice);
        }
    }
    Ok(())
}

/// Runs a page on `executor` and on the reference from the first stage to the last, with a backend
/// that answers all queries of a cohort and gives the lanes their rows: for executors that have the
/// backend on their device, too, and go through several stages at once.
///
/// # Errors
/// The first difference, in words.
pub fn check_with_backend(
    executor: &mut dyn Executor,
    service: &Arc<Service>,
    page: usize,
    lanes: usize,
    seed: u64,
    limits: LaneLimits,
    backend: &dyn Fn(&PageProgram, &mut Cohort),
) -> Result<(), String> {
    let program = &service.pages[page];
    let to_the_end = |executor: &mut dyn Executor| {
        let mut cohort = make_cohort(program, lanes, &mut Dice::new(seed));
        loop {
            cohort = run(executor, service, page, cohort)?;
            if cohort.stage == program.stages.len() {
                return Ok(cohort);
            }
            backend(program, &mut cohort);
        }
    };
    let what = |what: String| format!("page {}, {lanes} lanes, seed {seed}: {what}", program.name);
    let ours = to_the_end(&mut ScalarExecutor::new(limits)).map_err(what)?;
    let theirs = to_the_end(executor).map_err(what)?;
    compare(service, program, &theirs, &ours).map_err(what)
}

/// Runs a page from its first stage to its last on an executor alone, and gives where each lane
/// ended.
///
/// # Panics
/// Where the executor refuses the work.
pub fn final_states(
    executor: &mut dyn Executor,
    service: &Arc<Service>,
    page: usize,
    lanes: usize,
    seed: u64,
) -> Vec<LaneState> {
    let program = &service.pages[page];
    let mut cohort = make_cohort(program, lanes, &mut Dice::new(seed));
    for stage in 0..program.stages.len() {
        cohort = run(executor, service, page, cohort).expect("an idle executor takes work");
        if stage < program.calls.len() {
            answer(program, &mut cohort, &mut Dice::new(seed ^ stage as u64));
        }
    }
    cohort.lanes
}

/// After this a stage is not waited for any more: it takes milliseconds, but where a device is
/// emulated and the emulation looked at.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs a stage, in as many passes as the executor takes for it.
fn run(
    executor: &mut dyn Executor,
    service: &Arc<Service>,
    page: usize,
    mut cohort: Box<Cohort>,
) -> Result<Box<Cohort>, String> {
    loop {
        cohort = run_pass(executor, service, page, cohort)?;
        match cohort.next_pass_beside() {
            Pass::Over => return Ok(cohort),
            Pass::Again | Pass::Yield => {}
            Pass::Short => return Err("no lane was run in a pass".to_owned()),
        }
    }
}

/// Submits a pass of a stage and polls until it is done.
fn run_pass(
    executor: &mut dyn Executor,
    service: &Arc<Service>,
    page: usize,
    cohort: Box<Cohort>,
) -> Result<Box<Cohort>, String> {
    let work = Work {
        service: Arc::clone(service),
        page,
        cohort,
        token: 0,
    };
    executor
        .submit(work)
        .map_err(|refusal: Refusal| refusal.to_string())?;
    let (begin, mut done) = (Instant::now(), Vec::new());
    while done.is_empty() {
        if begin.elapsed() > PATIENCE {
            return Err(format!("nothing came of a stage in {PATIENCE:?}"));
        }
        executor.poll(&mut done);
        std::hint::spin_loop();
    }
    Ok(done.remove(0).cohort)
}

/// A cohort of made-up lanes; a few of them have failed before, as after a bad session, and some
/// ask for what the one before them asks for.
pub fn make_cohort(program: &PageProgram, lanes: usize, dice: &mut Dice) -> Box<Cohort> {
    let mut cohort = Box::new(Cohort::default());
    cohort.reset(program);
    for _ in 0..lanes {
        let lane = cohort.push_lane();
        if lanes > 2 && dice.once_in(50) {
            cohort.lanes[lane] = LaneState::Finished;
        }
    }
    let is_twin: Vec<bool> = (0..lanes).map(|lane| lane > 0 && dice.once_in(3)).collect();
    for (id, field) in program.fields.iter().enumerate() {
        let of_call = program.calls.iter().any(|call| {
            usize::from(call.status) == id
                || match &call.result {
                    CallResult::Rows(list) => usize::from(*list) == id,
                    CallResult::Row(fields) => fields.iter().any(|f| usize::from(*f) == id),
                }
        });
        if !of_call {
            fill_field(program, id, field, &is_twin, &mut cohort, dice);
        }
    }
    cohort
}

fn fill_field(
    program: &PageProgram,
    id: usize,
    field: &Field,
    is_twin: &[bool],
    cohort: &mut Cohort,
    dice: &mut Dice,
) {
    let param = program.params.iter().find(|p| usize::from(p.field) == id);
    let session = program.session_fields;
    for lane in 0..cohort.len() {
        let Cohort { fields, arena, .. } = cohort;
        match (&field.kind, &mut fields[id]) {
            (FieldType::Scalar(_), Column::Text(views)) if is_twin[lane] => {
                views[lane] = views[lane - 1];
            }
            (FieldType::Scalar(_), Column::Int(values)) if is_twin[lane] => {
                values[lane] = values[lane - 1];
            }
            (FieldType::Scalar(_), Column::Text(views)) => {
                views[lane] = arena.push(scalar_text(param.map(|p| &p.kind), dice).as_bytes());
            }
            (FieldType::Scalar(_), Column::Int(values)) => {
                values[lane] = match (param.map(|p| &p.kind), session) {
                    (Some(ParamType::Int { min, max }), _) => {
                        let wide = max.saturating_sub(*min).saturating_add(1).max(1);
                        min.saturating_add((dice.roll() >> 2) as i64 % wide)
                    }
                    (_, Some(s)) if usize::from(s.present) == id => i64::from(!dice.once_in(8)),
                    (_, Some(s)) if usize::from(s.user) == id => 1 + dice.below(100_000) as i64,
                    _ => dice.int(),
                };
            }
            (FieldType::List(_), Column::List(list)) => {
                let length = dice.below(6);
                let start = list.columns.first().map_or(0, Column::len);
                for column in &mut list.columns {
                    for _ in 0..length {
                        match column {
                            Column::Text(views) => views.push(arena.push(dice.text().as_bytes())),
                            Column::Int(values) => values.push(dice.int()),
                            Column::List(_) => unreachable!("records have no lists"),
                        }
                    }
                }
                list.spans[lane] = Span {
                    start: start as u32,
                    length: length as u32,
                };
            }
            _ => unreachable!("columns are made by the fields' types"),
        }
    }
}

fn scalar_text(kind: Option<&ParamType>, dice: &mut Dice) -> String {
    match kind {
        Some(ParamType::Text { one_of, .. }) if !one_of.is_empty() => dice.pick(one_of).clone(),
        Some(ParamType::Date) => {
            format!("2026-{:02}-{:02}", 1 + dice.below(12), 1 + dice.below(28))
        }
        Some(ParamType::Decimal) => format!("{}.{:02}", dice.below(10_000), dice.below(100)),
        // Empty where one that is wrong was told to the page.
        Some(ParamType::Float { .. }) if dice.once_in(8) => String::new(),
        Some(ParamType::Float { .. }) => format!("-{}.{:02}", dice.below(1000), dice.below(100)),
        _ => dice.text(),
    }
}

/// Plays the backend of the call that ended the stage last run.
pub fn answer(program: &PageProgram, cohort: &mut Cohort, dice: &mut Dice) {
    let (queries, mut rows) = cohort.exchange(program);
    let call = rows.call().clone();
    let mut kinds: Vec<Type> = match &call.result {
        CallResult::Rows(list) => match &program.fields[usize::from(*list)].kind {
            FieldType::List(columns) => columns.iter().map(|(_, kind)| *kind).collect(),
            FieldType::Scalar(_) => unreachable!("rows go to a list"),
        },
        CallResult::Row(fields) => fields
            .iter()
            .map(|f| match program.fields[usize::from(*f)].kind {
                FieldType::Scalar(kind) => kind,
                FieldType::List(_) => unreachable!("a row's columns go to scalar fields"),
            })
            .collect(),
    };
    kinds.truncate(call.columns.into());
    for float in &call.particulars.floats {
        kinds[usize::from(*float)] = Type::Float;
    }
    let nulls: Vec<usize> = (call.particulars.nulls.iter())
        .map(|(column, _)| usize::from(*column))
        .collect();
    let mut first = 0;
    while first < queries.len() {
        // Some share an answer.
        let several = if dice.once_in(4) { dice.below(5) } else { 0 };
        let alike = first..queries.len().min(first + 1 + several);
        first = alike.end;
        let count = match call.result {
            CallResult::Row(_) if !dice.once_in(20) => 1,
            _ => dice.below(7),
        };
        match dice.below(24) {
            0 => rows.answer_all(alike, |_| 1),
            1 => rows.answer_all(alike, |answer| {
                answer.row([Cell::Text(b"broken"); 9]);
                0
            }),
            2 => {}
            _ => rows.answer_all(alike, |answer| {
                for _ in 0..count {
                    deliver_row(&kinds, &nulls, dice, answer);
                }
                0
            }),
        }
    }
    cohort.settle(program);
}

/// A row of made-up cells, now and then one that has a type of its own or none; of these columns
/// often none.
fn deliver_row(kinds: &[Type], nulls: &[usize], dice: &mut Dice, answer: &mut AnswerWriter<'_>) {
    let texts: Vec<String> = kinds.iter().map(|_| dice.text()).collect();
    let odd = [
        Cell::Null,
        Cell::Bool(dice.once_in(2)),
        Cell::Int(dice.int()),
        Cell::Float(dice.int() as f64 / 8.0),
        Cell::Timestamp(dice.int()),
        Cell::Bytes(b"\xff"),
        Cell::Decimal(b"12.50"),
    ];
    let cells: Vec<Cell<'_>> = (kinds.iter().zip(&texts).enumerate())
        .map(|(column, (kind, text))| match kind {
            _ if dice.once_in(200) => *dice.pick(&odd),
            _ if nulls.contains(&column) && dice.once_in(3) => Cell::Null,
            Type::Float => Cell::Float(dice.int() as f64 / 8.0),
            Type::Int => Cell::Int(dice.int()),
            _ => Cell::Text(text.as_bytes()),
        })
        .collect();
    answer.row(cells);
}

fn compare(
    service: &Service,
    program: &PageProgram,
    theirs: &Cohort,
    ours: &Cohort,
) -> Result<(), String> {
    if theirs.stage != ours.stage {
        return Err(format!("is at stage {}, not {}", theirs.stage, ours.stage));
    }
    if theirs.len() != ours.len() {
        return Err(format!("has {} lanes, not {}", theirs.len(), ours.len()));
    }
    for lane in 0..ours.len() {
        if theirs.lanes[lane] != ours.lanes[lane] {
            return Err(format!(
                "lane {lane} is {:?}, not {:?}",
                theirs.lanes[lane], ours.lanes[lane]
            ));
        }
        if ours.lanes[lane] == LaneState::Finished {
            compare_bodies(service, theirs, ours, lane)?;
        }
    }
    let asked = |cohort: &Cohort| asked(program, cohort);
    if asked(theirs) != asked(ours) {
        return Err("asks other queries".to_owned());
    }
    let headers = |cohort: &Cohort| -> Vec<(u32, Aside, Vec<u8>)> {
        let own = |(lane, name, value): &(u32, u16, View)| {
            (
                *lane,
                program.asides[usize::from(*name)].clone(),
                text(&cohort.arena, *value),
            )
        };
        // Of others there may be some or none: lanes that go on set them anew.
        let headers = cohort.output.headers.iter();
        let kept = headers.filter(|(lane, ..)| cohort.lanes[*lane as usize] == LaneState::Finished);
        kept.map(own).collect()
    };
    if headers(theirs) != headers(ours) {
        return Err("sets other headers".to_owned());
    }
    Ok(())
}

/// Who asks what in a cohort: the queries' text forms.
pub fn asked(program: &PageProgram, cohort: &Cohort) -> Vec<(u32, Vec<u8>)> {
    let stage = cohort
        .stage
        .checked_sub(1)
        .map(|last| &program.stages[last]);
    let Some(call) = stage.and_then(|stage| stage.call) else {
        return Vec::new();
    };
    let text = |query| {
        let mut text = Vec::new();
        (program.calls[call].form).write(cohort.queries.arguments(query), &mut text);
        text
    };
    let lanes = cohort.queries.lanes().iter().enumerate();
    lanes.map(|(query, lane)| (*lane, text(query))).collect()
}

fn compare_bodies(
    service: &Service,
    theirs: &Cohort,
    ours: &Cohort,
    lane: usize,
) -> Result<(), String> {
    let (a, b) = (&theirs.output.lanes[lane], &ours.output.lanes[lane]);
    let head = |cohort: &Cohort| {
        let own = &cohort.output.lanes[lane];
        (
            own.status,
            own.session,
            own.file.map(|path| text(&cohort.arena, path)),
        )
    };
    if head(theirs) != head(ours) {
        return Err(format!(
            "lane {lane} answers {:?}, not {:?}",
            head(theirs),
            head(ours)
        ));
    }
    let (mut body, mut expected) = (Vec::new(), Vec::new());
    theirs.output.stitch(lane, &service.fragments, &mut body);
    ours.output.stitch(lane, &service.fragments, &mut expected);
    if body != expected {
        let at = body
            .iter()
            .zip(&expected)
            .take_while(|(a, b)| a == b)
            .count();
        let near = |text: &[u8]| {
            String::from_utf8_lossy(&text[at.saturating_sub(40)..text.len().min(at + 40)])
                .into_owned()
        };
        return Err(format!(
            "lane {lane} differs at byte {at}: {:?}, not {:?}",
            near(&body),
            near(&expected)
        ));
    }
    if a.body_length as usize != body.len() || b.body_length as usize != expected.len() {
        return Err(format!(
            "lane {lane} says {} bytes and has {}",
            a.body_length,
            body.len()
        ));
    }
    Ok(())
}

fn text(arena: &Arena, view: View) -> Vec<u8> {
    arena.get(view).to_vec()
}
