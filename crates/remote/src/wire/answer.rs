//! What comes back of a cohort (outcome.rs), and its way into it.
//!
//! All of it is checked against the page's program before the cohort is touched: a node that lies
//! can say something else than is true, but nothing that an honest one could not have said of some
//! lane of this page, so nobody looks for what is not there.

use super::bytes::{Taker, Wrong};
use super::may_say::MaySay;
use super::outcome::{ACTIVE, FAILED, FINISHED, LATER, SEGMENT_BYTES, is_answer};
use rhythm_engine::cohort::{Argument, Cohort, LaneError, LaneOutput, LaneState};
use rhythm_engine::cohort::{Segment, SessionChange, View};
use rhythm_engine::program::{Aside, PageProgram, Service, Type};

/// What a finished lane answers.
#[derive(Debug)]
struct Finished<'a> {
    run: &'a [u8],
    /// A segment is two numbers.
    segments: &'a [[u8; SEGMENT_BYTES]],
    body_length: u32,
    status: u16,
    session: SessionChange,
    file: Option<&'a str>,
}

/// The values of an argument, one a query.
#[derive(Debug)]
enum Values<'a> {
    Text(Vec<&'a str>),
    Int(Vec<i64>),
    Float(Vec<f64>),
    Bool(&'a [u8]),
}

impl<'a> Values<'a> {
    fn get(&self, query: usize) -> Argument<'a> {
        match self {
            Values::Text(texts) => Argument::Text(texts[query].as_bytes()),
            Values::Int(values) => Argument::Int(values[query]),
            Values::Float(values) => Argument::Float(values[query]),
            Values::Bool(values) => Argument::Bool(values[query] == 1),
        }
    }
}

/// What a node answers for a stage of a cohort, checked.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    states: Vec<LaneState>,
    /// Of the lanes that are finished, in their order.
    finished: Vec<Finished<'a>>,
    /// Lane, name, value; in order of lanes.
    headers: Vec<(u32, u16, &'a str)>,
    /// Who asks, in order of lanes.
    asked: Vec<u32>,
    arguments: Vec<Values<'a>>,
}

/// What of a page and a stage an answer is held against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'p> {
    pub(crate) service: &'p Service,
    pub(crate) page: usize,
    pub(crate) stage: usize,
    pub(crate) lanes: usize,
    /// What it may have, as [`MaySay::of`] knows it of the page.
    pub(crate) may_say: &'p MaySay,
}

impl<'a> Answer<'a> {
    /// Takes one apart.
    ///
    /// # Errors
    /// It is none to what was asked.
    pub(crate) fn of(asked: Asked<'_>, bytes: &'a [u8]) -> Result<Answer<'a>, Wrong> {
        let program = &asked.service.pages[asked.page];
        let call = program.stages[asked.stage].call;
        let mut from = Taker(bytes);
        let states = from.slice(asked.lanes)?.iter().map(|byte| {
            let state = match *byte {
                ACTIVE if call.is_some() => LaneState::Active,
                LATER => LaneState::Later,
                FINISHED => LaneState::Finished,
                number => (LaneError::of_number(number ^ FAILED))
                    .map(LaneState::Failed)
                    .ok_or(Wrong("a lane is in no state that it can be in"))?,
            };
            match is_answer(state) {
                true => Ok(state),
                false => Err(Wrong("a lane has failed for what is the node's own")),
            }
        });
        let states = states.collect::<Result<Vec<_>, _>>()?;
        if !states.iter().any(|state| *state != LaneState::Later) {
            return Err(Wrong("no lane was run"));
        }
        let count = states
            .iter()
            .filter(|state| **state == LaneState::Finished)
            .count();
        let mut finished = Vec::with_capacity(count);
        let mut lengths = Vec::with_capacity(count);
        for _ in 0..count {
            lengths.push((from.u32()? as usize, from.u32()? as usize));
            finished.push(head(asked.may_say, &mut from)?);
        }
        let headers = headers(program, &states, &mut from)?;
        let (lanes, arguments) = queries(program, call, &states, &mut from)?;
        for (one, (run, _)) in finished.iter_mut().zip(&lengths) {
            one.run = from.slice(*run)?;
        }
        for (one, (_, segments)) in finished.iter_mut().zip(&lengths) {
            let bytes = segments.checked_mul(SEGMENT_BYTES);
            let bytes = from.slice(bytes.ok_or(Wrong("segments are too many"))?)?;
            (one.segments, _) = bytes.as_chunks();
            check_body(asked.service, asked.may_say, one)?;
        }
        from.end()?;
        Ok(Answer {
            states,
            finished,
            headers,
            asked: lanes,
            arguments,
        })
    }

    /// How many lanes are not left for another pass: one at least.
    pub(crate) fn lanes_run(&self) -> usize {
        let is_run = |state: &&LaneState| **state != LaneState::Later;
        self.states.iter().filter(is_run).count()
    }

    /// Puts it into the cohort, whose lanes it is of are these, in rising order. Those that find no
    /// room beside the others are left for another pass, and so are those that were not asked for.
    pub(crate) fn apply(&self, cohort: &mut Cohort, lanes: &[u32]) {
        for (lane, state) in (0_u32..).zip(&mut cohort.lanes) {
            if *state == LaneState::Active && lanes.binary_search(&lane).is_err() {
                *state = LaneState::Later;
            }
        }
        let output = &mut cohort.output;
        output
            .lanes
            .resize(cohort.lanes.len(), LaneOutput::default());
        output.runs.truncate(output.runs_used);
        output.segments.truncate(output.segments_used);
        let [mut finished, mut headers, mut queries] = [0; 3];
        for (index, (&lane, state)) in lanes.iter().zip(&self.states).enumerate() {
            let of_lane = |lanes: &mut dyn Iterator<Item = u32>| {
                lanes.take_while(|of| *of as usize == index).count()
            };
            let own_headers = of_lane(&mut self.headers[headers..].iter().map(|it| it.0));
            let own_queries = of_lane(&mut self.asked[queries..].iter().copied());
            let own = Own {
                headers: headers..headers + own_headers,
                queries: queries..queries + own_queries,
            };
            (headers, queries) = (own.headers.end, own.queries.end);
            match state {
                LaneState::Failed(error) => {
                    cohort.fail(lane as usize, *error);
                    if self.take_texts(cohort, lane, own, None).is_none() {
                        // It has failed already: the next one is not to be left for its sake.
                        cohort.fail_without_room(lane as usize);
                    }
                }
                LaneState::Active => {
                    if self.take_texts(cohort, lane, own, None).is_none() {
                        cohort.leave_without_room(lane as usize);
                    }
                }
                LaneState::Finished => {
                    let answer = &self.finished[finished];
                    finished += 1;
                    self.finish(cohort, lane, own, answer);
                }
                _ => cohort.lanes[lane as usize] = LaneState::Later,
            }
        }
        // Lanes that failed before still have theirs.
        if !cohort.output.headers.is_sorted_by_key(|(lane, ..)| *lane) {
            cohort.output.headers.sort_by_key(|(lane, ..)| *lane);
        }
        cohort.stage += 1;
    }

    fn finish(&self, cohort: &mut Cohort, lane: u32, own: Own, answer: &Finished<'_>) {
        if !cohort.has_room_for_answer(answer.run.len(), answer.segments.len()) {
            // Its stage is run again when those before it are answered.
            cohort.lanes[lane as usize] = LaneState::Later;
            return;
        }
        let Some(file) = self.take_texts(cohort, lane, own, answer.file) else {
            return cohort.leave_without_room(lane as usize);
        };
        cohort.lanes[lane as usize] = LaneState::Finished;
        let output = &mut cohort.output;
        let (run_start, segment_start) = (output.runs.len(), output.segments.len());
        output.runs.extend_from_slice(answer.run);
        output
            .segments
            .extend(answer.segments.iter().map(|it| segment(*it)));
        output.runs_used = output.runs.len();
        output.segments_used = output.segments.len();
        output.lanes[lane as usize] = LaneOutput {
            run_start,
            run_length: answer.run.len() as u32,
            segment_start: segment_start as u32,
            segment_count: answer.segments.len() as u32,
            body_length: answer.body_length,
            status: answer.status,
            session: answer.session,
            file,
        };
    }

    /// Puts a lane's texts into the cohort and gives its file's view; `None`, and none of them is
    /// there, where the arena is full.
    fn take_texts(
        &self,
        cohort: &mut Cohort,
        lane: u32,
        own: Own,
        file: Option<&str>,
    ) -> Option<Option<View>> {
        let queries_before = cohort.queries.len();
        let headers_before = cohort.output.headers.len();
        let push = |cohort: &mut Cohort, text: &str| {
            let arena = &mut cohort.arena;
            arena
                .reserve(text.len())
                .then(|| arena.push(text.as_bytes()))
        };
        let take = || {
            for query in own.queries {
                let arguments = self.arguments.iter().map(|values| values.get(query));
                cohort.queries.push(lane, arguments).then_some(())?;
            }
            for header in own.headers {
                let (_, aside, value) = self.headers[header];
                let value = push(cohort, value)?;
                cohort.output.headers.push((lane, aside, value));
            }
            match file {
                Some(file) => push(cohort, file).map(Some),
                None => Some(None),
            }
        };
        let taken = take();
        if taken.is_none() {
            cohort.queries.truncate(queries_before);
            cohort.output.headers.truncate(headers_before);
        }
        taken
    }
}

/// A lane's own, of all.
struct Own {
    headers: std::ops::Range<usize>,
    queries: std::ops::Range<usize>,
}

fn segment(bytes: [u8; SEGMENT_BYTES]) -> Segment {
    let [a, b, c, d, e, f, g, h] = bytes;
    Segment {
        run_end: u32::from_le_bytes([a, b, c, d]),
        fragment: u32::from_le_bytes([e, f, g, h]),
    }
}

/// What is in a finished lane's head behind the two lengths.
fn head<'a>(may_say: &MaySay, from: &mut Taker<'a>) -> Result<Finished<'a>, Wrong> {
    let (body_length, status) = (from.u32()?, from.u16()?);
    if !(100..=599).contains(&status) {
        return Err(Wrong("a status is none"));
    }
    let (change, user) = (from.u8()?, from.u64()? as i64);
    let session = match change {
        0 => SessionChange::None,
        1 if may_say.begins_session => SessionChange::Create(user),
        2 if may_say.ends_session => SessionChange::Destroy,
        _ => return Err(Wrong("a page does to sessions what it cannot")),
    };
    let file = match from.u8()? {
        0 => None,
        1 => Some(from.text()?),
        _ => return Err(Wrong("a truth value is none")),
    };
    Ok(Finished {
        run: &[],
        segments: &[],
        body_length,
        status,
        session,
        file,
    })
}

/// Sees that a body is as long as it says, which is no longer than any may be, and made of what its
/// page has.
fn check_body(service: &Service, may_say: &MaySay, answer: &Finished<'_>) -> Result<(), Wrong> {
    let (mut length, mut at) = (answer.run.len() as u64, 0);
    for bytes in answer.segments {
        let Segment { run_end, fragment } = segment(*bytes);
        if !may_say.has_fragment(fragment) {
            return Err(Wrong("the page has no such fragment"));
        }
        length += service.fragments[fragment as usize].len() as u64;
        if run_end < at || run_end as usize > answer.run.len() {
            return Err(Wrong("fragments stand where no run is"));
        }
        at = run_end;
    }
    if length != u64::from(answer.body_length) {
        return Err(Wrong("a body is not as long as it is said to be"));
    }
    match length <= may_say.body_bytes_max as u64 {
        true => Ok(()),
        false => Err(Wrong("a body is longer than an answer may be")),
    }
}

fn headers<'a>(
    program: &PageProgram,
    states: &[LaneState],
    from: &mut Taker<'a>,
) -> Result<Vec<(u32, u16, &'a str)>, Wrong> {
    let count = from.u32()? as usize;
    let mut headers = Vec::new();
    let mut last = 0;
    for _ in 0..count {
        let (lane, aside, value) = (from.u32()?, from.u16()?, from.text()?);
        let state = states.get(lane as usize);
        if lane < last || matches!(state, None | Some(LaneState::Later)) {
            return Err(Wrong("a header is of no lane that may have one"));
        }
        last = lane;
        let aside_of_page = program.asides.get(usize::from(aside));
        let is_header = match aside_of_page.ok_or(Wrong("there is no such header"))? {
            Aside::Header(_) => true,
            Aside::Stored(_) | Aside::Flash | Aside::Proxy => false,
        };
        // What would end a header's line (RFC 9110, section 5.5).
        if is_header && value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return Err(Wrong("a header has what ends its line"));
        }
        headers.push((lane, aside, value));
    }
    Ok(headers)
}

fn queries<'a>(
    program: &PageProgram,
    call: Option<usize>,
    states: &[LaneState],
    from: &mut Taker<'a>,
) -> Result<(Vec<u32>, Vec<Values<'a>>), Wrong> {
    let count = from.u32()? as usize;
    let lanes: Vec<u32> = from.u32s(count)?.collect();
    let may_ask = |lane: &u32| states.get(*lane as usize) == Some(&LaneState::Active);
    if !lanes.is_sorted() || !lanes.iter().all(may_ask) {
        return Err(Wrong("a query is of no lane that may ask"));
    }
    let Some(call) = call.filter(|_| count > 0) else {
        return match count {
            0 => Ok((lanes, Vec::new())),
            _ => Err(Wrong("a stage asks that has nobody to ask")),
        };
    };
    let kinds = program.calls[call].form.arguments.iter();
    let arguments = kinds.map(|kind| {
        Ok(match kind {
            Type::Text => Values::Text(from.texts(count)?),
            Type::Int => Values::Int(from.u64s(count)?.map(|value| value as i64).collect()),
            Type::Float => Values::Float(from.u64s(count)?.map(f64::from_bits).collect()),
            Type::Bool => Values::Bool(from.slice(count)?),
        })
    });
    let arguments = arguments.collect::<Result<_, _>>()?;
    Ok((lanes, arguments))
}
