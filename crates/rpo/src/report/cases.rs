//! What the paper measured, and how each of it is simulated.

use super::statistics::Estimate;
use super::table::{Cell, Figure, Row, Table};
use crate::Setting;
use crate::model::{Chooser, Length, ModelError, Outcome, Params, Run, Workload, run};
use crate::policy::{Fixed, Learned, LearnedSettings, Majority, Policy};

/// What is not simulated.
pub(super) const LEFT_OUT: [(&str, &str); 4] = [
    (
        "Power in Tables I, II, VI, IX and X",
        "the model knows no power",
    ),
    (
        "Table IV",
        "the model knows no caches: it is their effect on speeds that it has",
    ),
    (
        "Table V",
        "it is the table of classes itself: `rpo::classifier::tpcw`",
    ),
    (
        "Tables XII and XIII",
        "what collecting costs is measured, not simulated",
    ),
];

#[derive(Clone, Copy)]
enum Who {
    Ht,
    Noht,
    Rpo(u32),
    Learned,
}

impl Who {
    fn name(self) -> String {
        match self {
            Who::Ht => "HT".into(),
            Who::Noht => "NOHT".into(),
            Who::Rpo(20) => "RPO".into(),
            Who::Rpo(batch) => format!("RPO, b = {batch}"),
            Who::Learned => "learned".into(),
        }
    }
}

/// One row: a workload at a frequency, who chooses, and the paper's figures.
struct Case {
    workload: Workload,
    ghz: f64,
    cores: u32,
    who: Who,
    paper: Vec<Option<f64>>,
}

pub(super) struct Plan {
    pub(super) number: &'static str,
    title: &'static str,
    columns: &'static [&'static str],
    look: fn(&Outcome) -> Vec<f64>,
    cases: Vec<Case>,
    note: &'static str,
}

const XRU: &[&str] = &["X, requests/s", "R, ms", "U"];

fn xru(outcome: &Outcome) -> Vec<f64> {
    vec![outcome.rate(), outcome.response_ms(), outcome.utilization]
}

fn at_database(outcome: &Outcome) -> Vec<f64> {
    vec![outcome.response_ms(), outcome.most_at_lock as f64]
}

fn batches(outcome: &Outcome) -> Vec<f64> {
    let batches = outcome.batches.unwrap_or_default();
    Setting::ALL
        .map(|setting| batches.share(setting) * 100.0)
        .into()
}

fn minorities(outcome: &Outcome) -> Vec<f64> {
    let batches = outcome.batches.unwrap_or_default();
    [Setting::OnePerCore, Setting::AllThreads]
        .map(|one| batches.minority(one) * 100.0)
        .into()
}

fn browsing() -> Workload {
    Workload::mix("browsing", 356.0)
}

fn ordering() -> Workload {
    Workload::mix("ordering", 48.0)
}

fn case(workload: Workload, ghz: f64, who: Who, paper: &[f64]) -> Case {
    let known = |value: &f64| (!value.is_nan()).then_some(*value);
    Case {
        workload,
        ghz,
        cores: 4,
        who,
        paper: paper.iter().map(known).collect(),
    }
}

/// No figure in the paper.
const NONE: f64 = f64::NAN;

pub(super) fn tables() -> Vec<Plan> {
    let both = |workload: fn() -> Workload, ghz: f64, ht: [f64; 3], noht: [f64; 3]| {
        [
            case(workload(), ghz, Who::Ht, &ht),
            case(workload(), ghz, Who::Noht, &noht),
        ]
    };
    let learned = |workload: Workload, ghz| case(workload, ghz, Who::Learned, &[NONE; 3]);
    let plan = |number, title, columns, look, cases, note| Plan {
        number,
        title,
        columns,
        look,
        cases,
        note,
    };
    let minority: &[&str] = &[
        "HT-friendly in NOHT batches, %",
        "NOHT-friendly in HT batches, %",
    ];
    let rpo =
        |workload: Workload, ghz: f64, paper: &[f64]| case(workload, ghz, Who::Rpo(20), paper);
    let low = || Workload::Custom {
        switching: 0.0,
        light_s: 0.03,
        heavy_s: 0.4,
    };
    let s = Workload::custom;
    vec![
        plan(
            "I",
            "browsing",
            XRU,
            xru,
            [
                both(browsing, 2.534, [356.0, 13.5, 0.34], [356.0, 11.6, 0.53]),
                both(browsing, 2.133, [356.0, 16.1, 0.40], [356.0, 14.5, 0.62]),
                both(browsing, 1.867, [356.0, 17.5, 0.46], [356.0, 18.7, 0.69]),
                both(browsing, 1.6, [356.0, 21.2, 0.55], [356.0, 43.1, 0.86]),
            ]
            .into_iter()
            .flatten()
            .collect(),
            "",
        ),
        plan(
            "II",
            "ordering",
            XRU,
            xru,
            [
                both(ordering, 2.534, [48.0, 41.5, 0.22], [48.0, 38.7, 0.38]),
                both(ordering, 2.133, [48.0, 103.7, 0.33], [48.0, 50.0, 0.48]),
                both(ordering, 1.867, [48.0, NONE, 0.61], [48.0, 58.4, 0.56]),
                both(ordering, 1.6, [48.0, NONE, 0.64], [48.0, 156.8, 0.69]),
            ]
            .into_iter()
            .flatten()
            .collect(),
            "The paper's HT at 1.867 and 1.6 GHz is unstable, R between 18 and 55 s.",
        ),
        plan(
            "III",
            "database under ordering",
            &["R, ms", "most at the database"],
            at_database,
            vec![
                case(ordering(), 1.7, Who::Ht, &[179.7, 185.0]),
                case(ordering(), 1.7, Who::Noht, &[114.2, 85.0]),
            ],
            "The paper pins the tiers apart and gives no frequency; ours are the requests at the \
             lock in the model's one server: an analogy, not the same experiment.",
        ),
        plan(
            "VI",
            "browsing and ordering with RPO",
            XRU,
            xru,
            vec![
                case(browsing(), 1.6, Who::Ht, &[356.0, 21.2, 0.55]),
                case(browsing(), 1.6, Who::Noht, &[356.0, 43.1, 0.82]),
                rpo(browsing(), 1.6, &[356.0, 22.4, 0.55]),
                learned(browsing(), 1.6),
                case(ordering(), 2.133, Who::Ht, &[48.0, 103.7, 0.33]),
                case(ordering(), 2.133, Who::Noht, &[48.0, 50.0, 0.48]),
                rpo(ordering(), 2.133, &[48.0, 56.3, 0.27]),
                learned(ordering(), 2.133),
            ],
            "",
        ),
        plan(
            "VII",
            "batches",
            &["HT-friendly, %", "NOHT-friendly, %"],
            batches,
            vec![
                rpo(browsing(), 1.6, &[99.3, 0.7]),
                rpo(ordering(), 2.133, &[51.2, 48.3]),
            ],
            "",
        ),
        plan(
            "VIII",
            "what the batching does",
            minority,
            minorities,
            vec![
                rpo(browsing(), 1.6, &[44.0, 27.0]),
                rpo(ordering(), 2.133, &[38.0, 44.0]),
            ],
            "",
        ),
        plan(
            "IX",
            "S(0) with RPO",
            XRU,
            xru,
            vec![
                case(s(0.0), 1.6, Who::Ht, &[43.0, 122.7, 0.42]),
                case(s(0.0), 1.6, Who::Noht, &[43.0, 233.4, 0.57]),
                rpo(s(0.0), 1.6, &[43.0, 73.3, 0.44]),
                learned(s(0.0), 1.6),
                case(low(), 1.6, Who::Ht, &[43.0, 147.6, 0.42]),
                case(low(), 1.6, Who::Noht, &[43.0, 77.6, 0.54]),
                rpo(low(), 1.6, &[43.0, 72.3, 0.49]),
                learned(low(), 1.6),
            ],
            "The second half has a light session each 0.03 s instead of each 0.02 s.",
        ),
        plan(
            "X",
            "S(5), S(15), S(50) with RPO, on two cores",
            XRU,
            xru,
            [
                (5.0, [162.9, 0.64], [246.2, 0.82], [140.9, 0.60]),
                (15.0, [143.6, 0.66], [286.3, 0.81], [139.9, 0.64]),
                (50.0, [155.8, 0.66], [400.5, 0.79], [135.4, 0.67]),
            ]
            .into_iter()
            .flat_map(|(percent, ht, noht, rpo)| {
                [(Who::Ht, ht), (Who::Noht, noht), (Who::Rpo(20), rpo)].map(|(who, paper)| Case {
                    cores: 2,
                    ..case(s(percent), 1.6, who, &[36.0, paper[0], paper[1]])
                })
            })
            .collect(),
            "Not reproduced: the sessions that make Table IX ask for more than two cores \
            have.",
        ),
        plan(
            "XI",
            "batches of the custom mixes",
            minority,
            minorities,
            vec![
                rpo(s(0.0), 1.6, &[0.0, 0.0]),
                rpo(s(5.0), 1.6, &[32.0, 22.0]),
                rpo(s(15.0), 1.6, &[40.0, 25.0]),
                rpo(s(50.0), 1.6, &[42.0, 27.0]),
            ],
            "On four cores.",
        ),
        plan(
            "XIV",
            "the batch's size, S(50)",
            XRU,
            xru,
            sizes(|at| {
                vec![
                    36.0,
                    [175.0, 160.23, 135.38, 138.17, 166.03, 324.67][at],
                    [0.68, 0.68, 0.67, 0.67, 0.65, 0.65][at],
                ]
            }),
            "On four cores; the paper has two.",
        ),
        plan(
            "XV",
            "batches by their size, S(50)",
            minority,
            minorities,
            sizes(|at| {
                vec![
                    [49.0, 46.0, 42.0, 37.0, 35.0, 0.0][at],
                    [28.0, 28.0, 27.0, 26.0, 21.0, 0.0][at],
                ]
            }),
            "On four cores; the paper has two.",
        ),
    ]
}

fn sizes(paper: impl Fn(usize) -> Vec<f64>) -> Vec<Case> {
    let of =
        |(at, batch): (usize, u32)| case(Workload::custom(50.0), 1.6, Who::Rpo(batch), &paper(at));
    [100, 40, 20, 10, 5, 1]
        .into_iter()
        .enumerate()
        .map(of)
        .collect()
}

impl Plan {
    pub(super) fn simulate(self, params: &Params, seeds: u64) -> Result<Table, ModelError> {
        let row = |case: &Case| case.simulate(params, seeds, self.look);
        Ok(Table {
            number: self.number,
            title: self.title,
            columns: self.columns.to_vec(),
            rows: self.cases.iter().map(row).collect::<Result<_, _>>()?,
            note: self.note,
        })
    }
}

impl Case {
    fn simulate(
        &self,
        params: &Params,
        seeds: u64,
        look: fn(&Outcome) -> Vec<f64>,
    ) -> Result<Row, ModelError> {
        let outcomes = (0..seeds)
            .map(|seed| self.once(params, seed, false))
            .collect::<Result<Vec<Outcome>, ModelError>>()?;
        let seen: Vec<Vec<f64>> = outcomes.iter().map(look).collect();
        let cells = self.paper.iter().enumerate().map(|(column, paper)| {
            let runs: Vec<f64> = seen.iter().map(|values| values[column]).collect();
            Cell {
                paper: *paper,
                simulated: Estimate::of(&runs),
            }
        });
        let unstable = outcomes.iter().filter(|outcome| outcome.unstable).count() as u64;
        Ok(Row {
            name: self.name(),
            cells: cells.collect(),
            unstable,
        })
    }

    fn name(&self) -> String {
        let workload = match &self.workload {
            Workload::Mix { mix, .. } => mix.clone(),
            Workload::Custom {
                switching, light_s, ..
            } if *light_s > 0.02 => {
                format!("S({:.0}), fewer light", switching * 100.0)
            }
            Workload::Custom { switching, .. } => format!("S({:.0})", switching * 100.0),
        };
        format!("{workload}, {} GHz, {}", self.ghz, self.who.name())
    }

    fn once(&self, params: &Params, seed: u64, each_second: bool) -> Result<Outcome, ModelError> {
        let mut params = params.clone();
        params.server.cores = self.cores;
        let mut policy: Box<dyn Policy> = match self.who {
            Who::Ht => Box::new(Fixed::new(Setting::AllThreads)),
            Who::Noht => Box::new(Fixed::new(Setting::OnePerCore)),
            Who::Rpo(batch) => Box::new(Majority::with_batch(&params.classes(), batch)),
            Who::Learned => Box::new(Learned::new(LearnedSettings::default())),
        };
        // The paper's durations (section II-B); what is learned has had them once before.
        let learned = matches!(self.who, Who::Learned);
        let length = match &self.workload {
            Workload::Mix { mix, .. } => {
                let lasts = if mix == "browsing" { 900.0 } else { 1500.0 };
                let before = if learned { lasts } else { 60.0 };
                Length::Seconds {
                    all: before + lasts,
                    warm_up: before,
                }
            }
            Workload::Custom { .. } if learned => Length::Cycles { all: 2, warm_up: 1 },
            Workload::Custom { .. } => Length::Cycles { all: 1, warm_up: 0 },
        };
        let workload = self.workload.clone();
        let run_of = Run {
            ghz: self.ghz,
            workload,
            seed,
            length,
            each_second,
        };
        run(&params, &run_of, Chooser::Policy(policy.as_mut()))
    }
}

pub(super) fn figures(params: &Params) -> Result<Vec<Figure>, ModelError> {
    let seconds = |who, ghz| -> Result<_, ModelError> {
        let mut seconds = case(ordering(), ghz, who, &[])
            .once(params, 1, true)?
            .seconds_seen;
        seconds.truncate(300);
        Ok(seconds)
    };
    Ok(vec![
        Figure {
            number: "1",
            title: "contention at the database, ordering with all threads",
            seconds: seconds(Who::Ht, 2.133)?,
        },
        Figure {
            number: "2",
            title: "switching by RPO, ordering",
            seconds: seconds(Who::Rpo(20), 2.133)?,
        },
    ])
}
