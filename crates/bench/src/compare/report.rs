//! What was found out.

use super::case::Case;
use super::options::CompareOptions;
use serde::Serialize;

/// A processor that is as busy as this is full.
const FULL: f64 = 0.95;
/// Where the load takes less of its processor, it is others that fill it.
const LOADED: f64 = 0.5;
/// Others that take as much of a processor as this are told of.
const OTHERS: f64 = 0.02;

/// All that was compared, with what it was compared on and by.
#[derive(Clone, Debug, Serialize)]
pub struct CompareReport {
    /// CPU, cores, kernel.
    pub machine: String,
    /// Of the program that compared.
    pub commit: String,
    /// The command line.
    pub command: String,
    /// What ran where.
    pub processors: String,
    /// Alternating runs of each server.
    pub rounds: usize,
    /// How long each was measured.
    pub seconds: f64,
    /// How long each was loaded before.
    pub warmup_seconds: f64,
    /// The cases, in their order.
    pub cases: Vec<CaseReport>,
}

/// A case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub about: String,
    /// Whether answers were compressed.
    pub gzip: bool,
    /// Whether TLS was spoken.
    pub tls: bool,
    /// The version of the PostgreSQL beside the servers, where there was one.
    pub database: Option<String>,
    /// The server behind the others, where there is one.
    pub upstream: Option<Upstream>,
    /// What was compared.
    pub servers: Vec<ServerReport>,
    /// What was left out.
    pub absent: Vec<Absent>,
    /// Each page at each number of connections.
    pub points: Vec<Point>,
    /// Why there are no more points, where there are none.
    pub error: Option<String>,
}

/// A server that was compared.
#[derive(Clone, Debug, Serialize)]
pub struct ServerReport {
    /// As tables call it.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Which.
    pub version: String,
}

/// A server behind those that were compared.
#[derive(Clone, Debug, Serialize)]
pub struct Upstream {
    /// Which.
    #[serde(flatten)]
    pub server: ServerReport,
    /// The number of its processor, where the system tells.
    pub processor: Option<usize>,
    /// Whether that is the servers', too, as it is where there are no three: rates are of both.
    pub is_beside_servers: bool,
}

/// A server that was not.
#[derive(Clone, Debug, Serialize)]
pub struct Absent {
    /// As tables would have called it.
    pub name: String,
    /// Why, and what helps.
    pub why: String,
}

/// A page at a number of connections.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The page.
    pub page: String,
    /// Bytes of the first server's answer as it was sent, without its head (of the first key's).
    pub bytes: usize,
    /// Requests under way at a time.
    pub connections: usize,
    /// By servers, the first of the case first.
    pub servers: Vec<Measured>,
}

/// A server's part of a point.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// As tables call it.
    pub server: String,
    /// Answers a second.
    pub requests_per_s: Spread,
    /// Half of the answers took no longer, in microseconds; `None`, as all of answers, where nobody
    /// was answered.
    pub p50_us: Option<Spread>,
    /// 99 % took no longer.
    pub p99_us: Option<Spread>,
    /// CPU time of the server for an answer, in microseconds.
    pub server_us: Option<Spread>,
    /// That of the database; `None` where there is none, too.
    pub database_us: Option<Spread>,
    /// Answers that were wrong or did not come.
    pub errors: u64,
    /// What was wrong with some of them.
    pub wrong: Vec<String>,
    /// Whether the load's processor was full while the server's was not, so that the rate is what
    /// the load could ask for.
    pub is_of_load: bool,
    /// The share of the server's and of the load's processor that others took: the larger of the
    /// two, where the system tells, and there are two.
    pub others: Option<f64>,
    /// What it is from.
    pub runs: Vec<Run>,
}

/// A run of a server.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// Answers a second.
    pub requests_per_s: f64,
    /// In microseconds.
    pub p50_us: f64,
    /// In microseconds.
    pub p99_us: f64,
    /// CPU time of the server for an answer, in microseconds.
    pub server_us: f64,
    /// That of the database, where there is one.
    pub database_us: Option<f64>,
    /// The share of a processor that server and database took, and a server behind that shares it.
    pub server_share: f64,
    /// The share of a processor that the load took.
    pub load_share: f64,
    /// The shares of the server's and of the load's processor that anything took, where the system
    /// tells.
    pub busy: Option<[f64; 2]>,
    /// Whether that is one processor, for both.
    pub is_shared: bool,
    /// Answers that were wrong or did not come.
    pub errors: u64,
    /// What was wrong with some of them.
    pub wrong: Vec<String>,
}

/// The figures of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// A quarter are not more.
    pub quartile_1: f64,
    /// The middle one.
    pub median: f64,
    /// A quarter are not less.
    pub quartile_3: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of these figures; all 0 of none. Between two figures it is as far as the quartile is.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * values.len().saturating_sub(1) as f64;
            let (low, part) = (place.floor() as usize, place.fract());
            let of = |number: usize| values.get(number).or(values.last()).copied().unwrap_or(0.0);
            of(low) + (of(low + 1) - of(low)) * part
        };
        let [min, quartile_1, median, quartile_3, max] = [0.0, 0.25, 0.5, 0.75, 1.0].map(at);
        Spread {
            min,
            quartile_1,
            median,
            quartile_3,
            max,
        }
    }
}

impl Run {
    /// The shares of the server's and of the load's processor that were not others'.
    fn ours(&self) -> [f64; 2] {
        match self.is_shared {
            true => [self.server_share + self.load_share; 2],
            false => [self.server_share, self.load_share],
        }
    }
}

impl Measured {
    /// A server's runs, put together.
    pub(super) fn of(server: &str, runs: Vec<Run>) -> Measured {
        let spread = |of: &dyn Fn(&Run) -> f64| Spread::of(runs.iter().map(of));
        let median = |of: &dyn Fn(&Run) -> f64| spread(of).median;
        let has_database = runs.iter().any(|run| run.database_us.is_some());
        let is_told = runs.iter().all(|run| run.busy.is_some()) && !runs.is_empty();
        let busy = |run: &Run, at: usize| run.busy.map_or(0.0, |busy| busy[at]);
        // Where the system does not tell, what was ours is what there was.
        let full = |at: usize| match (is_told, at) {
            (true, at) => median(&|run| busy(run, at)) >= FULL,
            (false, 0) => median(&|run| run.server_share) >= FULL,
            (false, _) => median(&|run| run.load_share) >= FULL,
        };
        let of_others = [0, 1].map(|at| median(&|run| busy(run, at) - run.ours()[at]));
        // A run without an answer has a rate, and nothing else.
        let answered = || runs.iter().filter(|run| run.requests_per_s > 0.0);
        let is_answered = answered().next().is_some();
        let spread_of_answers =
            |of: &dyn Fn(&Run) -> f64| is_answered.then(|| Spread::of(answered().map(of)));
        Measured {
            server: server.to_owned(),
            requests_per_s: spread(&|run| run.requests_per_s),
            p50_us: spread_of_answers(&|run| run.p50_us),
            p99_us: spread_of_answers(&|run| run.p99_us),
            server_us: spread_of_answers(&|run| run.server_us),
            database_us: spread_of_answers(&|run| run.database_us.unwrap_or(0.0))
                .filter(|_| has_database),
            errors: runs.iter().map(|run| run.errors).sum(),
            wrong: runs
                .iter()
                .flat_map(|run| run.wrong.clone())
                .take(3)
                .collect(),
            is_of_load: full(1) && !full(0) && median(&|run| run.load_share) >= LOADED,
            // Both are counted in ticks, and not at the same moment.
            others: is_told.then(|| of_others[0].max(of_others[1]).clamp(0.0, 1.0)),
            runs,
        }
    }
}

impl CaseReport {
    /// With nothing measured yet.
    pub(super) fn new(case: &Case) -> CaseReport {
        CaseReport {
            name: case.name.clone(),
            about: case.about.clone(),
            gzip: case.gzip,
            tls: case.tls,
            database: None,
            upstream: None,
            servers: Vec::new(),
            absent: Vec::new(),
            points: Vec::new(),
            error: None,
        }
    }
}

impl CompareReport {
    /// With no case yet.
    pub(super) fn new(options: &CompareOptions, processors: String) -> CompareReport {
        CompareReport {
            machine: options.machine.clone(),
            commit: options.commit.clone(),
            command: options.command.clone(),
            processors,
            rounds: options.rounds,
            seconds: options.duration.as_secs_f64(),
            warmup_seconds: options.warmup.as_secs_f64(),
            cases: Vec::new(),
        }
    }

    /// All that was measured.
    pub(super) fn measured(&self) -> impl Iterator<Item = &Measured> {
        let points = self.cases.iter().flat_map(|case| &case.points);
        points.flat_map(|point| &point.servers)
    }

    /// Whether all was measured, and every answer right.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.cases.iter().all(|case| case.error.is_none())
            && self.measured().all(|measured| measured.errors == 0)
    }

    /// The share of a processor that others took at most, where it is worth telling.
    pub(super) fn others(&self) -> Option<f64> {
        let others = self.measured().filter_map(|measured| measured.others);
        others
            .max_by(f64::total_cmp)
            .filter(|others| *others >= OTHERS)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A report of made-up runs.
    pub(in crate::compare) fn made_up() -> CompareReport {
        let run = |rate: f64, server_us: f64, busy: [f64; 2]| Run {
            requests_per_s: rate,
            p50_us: 64e6 / rate,
            p99_us: 128e6 / rate,
            server_us,
            database_us: None,
            server_share: busy[0],
            load_share: busy[1],
            busy: Some(busy),
            ..Run::default()
        };
        let full = [1.0, 0.9];
        let rhythm = [100_000.0, 120_000.0, 110_000.0].map(|rate| run(rate, 6.25, full));
        let limit = [150_000.0, 140_000.0, 145_500.0].map(|rate| run(rate, 5.0, [0.7, 1.0]));
        let mut nginx = [55_000.0, 54_000.0, 56_000.0].map(|rate| run(rate, 162.0, full));
        nginx[1].errors = 2;
        nginx[1].wrong = vec!["/a: status 500".to_owned()];
        nginx[2].busy = Some([1.1, 0.9]);
        let server = |name: &str, version: &str| ServerReport {
            name: name.to_owned(),
            about: format!("what {name} is"),
            version: version.to_owned(),
        };
        CompareReport {
            machine: "a CPU, 2 cores".to_owned(),
            commit: "abc".to_owned(),
            command: "rhythm bench compare made-up".to_owned(),
            processors: "servers on processor 0, the load on 1".to_owned(),
            rounds: 3,
            seconds: 2.0,
            warmup_seconds: 0.5,
            cases: vec![CaseReport {
                name: "made-up".to_owned(),
                about: "A page".to_owned(),
                gzip: true,
                tls: false,
                database: None,
                upstream: None,
                servers: vec![
                    server("rhythm", "rhythm 1"),
                    server("limit", "rhythm 1"),
                    server("nginx, level 6", "nginx 2"),
                ],
                absent: vec![Absent {
                    name: "actix".to_owned(),
                    why: "there is no bank-actix: build it".to_owned(),
                }],
                points: vec![Point {
                    page: "a page".to_owned(),
                    bytes: 4321,
                    connections: 64,
                    servers: vec![
                        Measured::of("rhythm", rhythm.into()),
                        Measured::of("limit", limit.into()),
                        Measured::of("nginx, level 6", nginx.into()),
                    ],
                }],
                error: None,
            }],
        }
    }

    #[test]
    fn spreads_have_middles_and_ends() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0].into_iter());
        let expected = [1.0, 1.75, 2.5, 3.25, 4.0];
        let Spread {
            min,
            quartile_1,
            median,
            quartile_3,
            max,
        } = spread;
        assert_eq!([min, quartile_1, median, quartile_3, max], expected);
        assert_eq!(Spread::of([7.0].into_iter()).quartile_3, 7.0);
        assert_eq!(Spread::of([].into_iter()), Spread::default());
    }

    #[test]
    fn a_load_that_cannot_ask_for_more_is_told_and_so_are_others_and_errors() {
        let report = made_up();
        let of_load: Vec<bool> = report.measured().map(|it| it.is_of_load).collect();
        assert_eq!(of_load, [false, true, false]);
        assert!(!report.passed() && report.others().is_none());
        // The median of the runs counts: others were there in all.
        let mut runs = report.cases[0].points[0].servers[0].runs.clone();
        runs.iter_mut().for_each(|run| run.server_share = 0.75);
        assert_eq!(Measured::of("rhythm", runs).others, Some(0.25));
        // Others that fill the load's processor are told as such.
        let mut runs = report.cases[0].points[0].servers[1].runs.clone();
        runs.iter_mut().for_each(|run| run.load_share = 0.25);
        let measured = Measured::of("limit", runs);
        assert!(!measured.is_of_load && measured.others == Some(0.75));
        // What the load takes of a processor that is the server's, too, is no others'; and it is
        // the server that fills it as well.
        let mut runs = report.cases[0].points[0].servers[0].runs.clone();
        for run in &mut runs {
            (run.is_shared, run.busy) = (true, Some([1.0, 1.0]));
            (run.server_share, run.load_share) = (0.25, 0.5);
        }
        let measured = Measured::of("rhythm", runs);
        assert!(!measured.is_of_load && measured.others == Some(0.25));
        // Where the system does not tell how busy processors are, it is known of what is ours.
        let mut runs = report.cases[0].points[0].servers[1].runs.clone();
        runs.iter_mut().for_each(|run| run.busy = None);
        let measured = Measured::of("limit", runs);
        assert!(measured.is_of_load && measured.others.is_none());
        // A run that nobody was answered in counts as a rate alone.
        let mut runs = report.cases[0].points[0].servers[0].runs.clone();
        runs[0] = Run::default();
        let measured = Measured::of("rhythm", runs);
        let server_us = measured.server_us.map(|spread| spread.min);
        assert_eq!((measured.requests_per_s.min, server_us), (0.0, Some(6.25)));
        // Where all are such, there is nothing that an answer took.
        let unanswered = Run {
            database_us: Some(0.0),
            ..Run::default()
        };
        let measured = Measured::of("rhythm", vec![unanswered]);
        assert_eq!(measured.requests_per_s, Spread::default());
        let Measured {
            p50_us,
            p99_us,
            server_us,
            database_us,
            ..
        } = measured;
        assert_eq!([p50_us, p99_us, server_us, database_us], [None; 4]);
    }
}
