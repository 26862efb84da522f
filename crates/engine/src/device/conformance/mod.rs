//! The conformance suite: what every executor must do as the reference does.
//!
//! [`check`] runs a page's stages on an executor and on [`ScalarExecutor`] side by side, over the
//! same cohort of made-up lanes, and compares after every stage what can be seen of it: the lanes'
//! states, the queries they ask, and for finished lanes status, headers, session change, file and
//! every byte of the body. Backends are played by the suite: they answer rows of random texts,
//! other statuses, and now and then something unreadable or nothing.

mod cohorts;
mod passes;
mod programs;

pub use cohorts::{answer, make_cohort};
pub use passes::check_passes;
pub use programs::{make_service, make_service_with_rows};

use super::executor::{Executor, Refusal, Work};
use super::limits::LaneLimits;
use super::scalar::ScalarExecutor;
use crate::cohort::{Arena, Cohort, LaneState, View};
use crate::kind::{BackendKey, BackendKind};
use crate::program::PageProgram;
use crate::program::Service;
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
    call_key: "request",
    check: |_| None,
}];

/// Pseudo-random numbers from a seed (splitmix64): enough for data, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A text as the world may send it: mostly short and plain, sometimes long, empty, not ASCII,
    /// or full of what must be escaped.
    pub fn text(&mut self) -> String {
        const PLAIN: &[&str] = &[
            "1234.56",
            "checking",
            "O'Brien",
            "2026-01-15",
            "Main St 7",
            "01",
            "0000012345",
        ];
        const ODD: &[&str] = &[
            "<b>", "\"q\"", "a/b", "ß", "日本", "é", "'", ">", " ", "x", "Ω", "%41", "{{ x }}",
        ];
        const RUDE: &[&str] = &["&", "\r\n", "\u{0}", "\t", "&amp;"];
        match self.below(8) {
            0 => String::new(),
            1..4 => (*self.pick(PLAIN)).to_owned(),
            kind => {
                let pieces = if kind == 7 {
                    self.below(120)
                } else {
                    self.below(6)
                };
                let mut text = String::new();
                for _ in 0..pieces {
                    text += match self.below(4) {
                        0 => *self.pick(PLAIN),
                        1 => *self.pick(RUDE),
                        _ => *self.pick(ODD),
                    };
                }
                text
            }
        }
    }

    /// An integer: mostly small, sometimes at the ends.
    pub fn int(&mut self) -> i64 {
        match self.below(12) {
            0 => i64::MAX,
            1 => i64::MIN,
            2 => self.roll() as i64,
            _ => self.below(40) as i64 - 10,
        }
    }
}

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

/// Submits a stage and polls until it is done.
fn run(
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
    let headers = |cohort: &Cohort| -> Vec<(u32, String, Vec<u8>)> {
        let own = |(lane, name, value): &(u32, u16, View)| {
            (
                *lane,
                program.header_names[usize::from(*name)].clone(),
                text(&cohort.arena, *value),
            )
        };
        cohort.output.headers.iter().map(own).collect()
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
