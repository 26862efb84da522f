//! Runs: a server, loaded for a while, and what that took.

use super::case::{Case, Equality, Page};
use super::equal::{Rules, difference};
use super::error::CompareError;
use super::machine::{busy, tree_time};
use super::options::CompareOptions;
use super::report::{Measured, Point, Run};
use super::servers::Running;
use crate::load::{self, Again, LoadOptions, Report};
use rustix::time::{ClockId, clock_gettime};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Ticks of /proc/stat a second.
const TICKS: f64 = 100.0;

/// What measures the servers of a case.
pub(super) struct Measurer<'a> {
    pub(super) options: &'a CompareOptions,
    pub(super) case: &'a Case,
    pub(super) servers: &'a mut [Running],
    /// The database's process, where there is one.
    pub(super) database: Option<u32>,
    /// The process of the server behind, where it is on the servers' processor.
    pub(super) beside: Option<u32>,
    /// The processors of servers and load.
    pub(super) processors: Option<[usize; 2]>,
    pub(super) certificate: Option<PathBuf>,
}

/// What was counted until a moment.
struct Look {
    at: Instant,
    answers: u64,
    server: Duration,
    database: Option<Duration>,
    beside: Duration,
    load: Duration,
    busy: Option<[u64; 2]>,
}

impl Measurer<'_> {
    /// A page at a number of connections: all servers in turn, as often as there are rounds; who
    /// begins changes. `tell` is told before each run.
    pub(super) fn point(
        &mut self,
        number: usize,
        connections: usize,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Point, CompareError> {
        let page = &self.case.page[number];
        let count = self.servers.len();
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); count];
        for round in 0..self.options.rounds {
            for turn in 0..count {
                let at = (round + turn) % count;
                let name = self.servers[at].name.clone();
                tell(&format!("{}, {connections} connections: {name}", page.name));
                let run = self.run(number, page, &self.servers[at], connections);
                // Whatever is measured of one that has ended, that it has is what is the matter.
                if let Some(said) = self.servers[at].ended() {
                    return Err(CompareError::Server { server: name, said });
                }
                runs[at].push(run?);
            }
        }
        let answer = self.servers[0].pages[number].asked.first();
        Ok(Point {
            page: page.name.clone(),
            bytes: answer.map_or(0, |asked| asked.answer.content.len()),
            connections,
            servers: (self.servers.iter().zip(runs))
                .map(|(server, runs)| Measured::of(&server.name, runs))
                .collect(),
        })
    }

    fn run(
        &self,
        number: usize,
        page: &Page,
        server: &Running,
        connections: usize,
    ) -> Result<Run, CompareError> {
        let again = self.again(number, page, server);
        let scheme = if self.case.tls { "https" } else { "http" };
        let options = LoadOptions {
            url: format!("{scheme}://{}", server.address),
            sessions: connections,
            duration: self.options.duration,
            warmup: self.options.warmup,
            ca: self.certificate.clone(),
            ..LoadOptions::default()
        };
        // Looks are when they are due, however long the one before took: the last one while the
        // load goes on, whose time began later.
        let begin = Instant::now() + self.options.warmup;
        let (report, looks) = thread::scope(|scope| {
            let looks = scope.spawn(|| {
                [begin, begin + self.options.duration].map(|due| {
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    self.look(server, &again.answers)
                })
            });
            (load::run_again(options, &again), looks.join())
        });
        let failed = |source| CompareError::Load {
            server: server.name.clone(),
            source,
        };
        let report = report.map_err(failed)?;
        let looks = looks.map_err(|_| CompareError::Server {
            server: server.name.clone(),
            said: "it could not be looked at".to_owned(),
        })?;
        let is_shared = self.processors.is_some_and(|[server, load]| server == load);
        Ok(figures(&report, &looks, is_shared))
    }

    fn again(&self, number: usize, page: &Page, server: &Running) -> Again {
        let pages = &server.pages[number];
        let is_gzip = self.case.gzip && server.equality == Equality::Equal;
        let (rules, plain) = (Rules::of(self.case, page), pages.plain.clone());
        let look = move |ask: usize, content: &[u8]| {
            let came = rules.plain(content, is_gzip)?;
            let due = plain.get(ask).map_or("", String::as_str);
            difference(due, &came).map_or(Ok(()), Err)
        };
        Again {
            asked: pages.asked.clone().into(),
            is_gzip,
            is_drawn: page.drawn,
            look: Arc::new(look),
            answers: Arc::default(),
        }
    }

    fn look(&self, server: &Running, answers: &AtomicU64) -> Look {
        Look {
            at: Instant::now(),
            answers: answers.load(Ordering::Relaxed),
            server: tree_time(server.process.0.id()),
            database: self.database.map(tree_time),
            beside: self.beside.map(tree_time).unwrap_or_default(),
            load: own_time(),
            busy: self.processors.and_then(busy),
        }
    }
}

/// The CPU time of this process, which is the load: of threads that have ended, too.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// A run's figures, from what was counted at its begin and end.
fn figures(report: &Report, [begin, end]: &[Look; 2], is_shared: bool) -> Run {
    let seconds = (end.at - begin.at).as_secs_f64();
    let answers = (end.answers - begin.answers).max(1) as f64;
    let took = |of: fn(&Look) -> Duration| of(end).saturating_sub(of(begin)).as_secs_f64();
    let database = end.database.zip(begin.database);
    let database = database.map(|(end, begin)| end.saturating_sub(begin).as_secs_f64());
    let server = took(|look| look.server);
    let share = |at: usize, [begin, end]: [[u64; 2]; 2]| {
        end[at].saturating_sub(begin[at]) as f64 / TICKS / seconds
    };
    let busy = begin
        .busy
        .zip(end.busy)
        .map(|(begin, end)| [0, 1].map(|at| share(at, [begin, end])));
    let errors = report.errors.iter();
    let mut wrong: Vec<String> = errors
        .map(|(what, count)| format!("{what} ({count} times)"))
        .collect();
    let failures = report.failures.iter();
    wrong.extend(failures.map(|failure| format!("{}: {}", failure.request, failure.reason)));
    Run {
        requests_per_s: report.pages_per_s,
        p50_us: report.latency.p50,
        p99_us: report.latency.p99,
        server_us: server * 1e6 / answers,
        database_us: database.map(|seconds| seconds * 1e6 / answers),
        server_share: (server + database.unwrap_or(0.0) + took(|look| look.beside)) / seconds,
        load_share: took(|look| look.load) / seconds,
        busy,
        is_shared,
        errors: report.invalid + report.errors.values().sum::<u64>(),
        wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::super::servers::tests::running;
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};

    const CASE: &str = r#"
        about = "a test"
        connections = [1]
        [[page]]
        name = "page"
        target = "/"
        [[server]]
        peer = "banking"
        name = "first"
    "#;
    /// Answers before the page is another one.
    const RIGHT: usize = 100;

    /// Serves one client at a time, each to its end; two come: one looks whether it serves.
    fn serve(listener: &TcpListener) {
        for _ in 0..2 {
            let (mut client, _) = listener.accept().expect("one comes");
            let mut input = [0; 4096];
            let mut answers = 0;
            while client.read(&mut input).is_ok_and(|length| length > 0) {
                let page = if answers < RIGHT { "right" } else { "wrong" };
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
                if client
                    .write_all(format!("{head}{page}").as_bytes())
                    .is_err()
                {
                    break;
                }
                answers += 1;
            }
        }
    }

    #[test]
    fn an_answer_that_is_another_than_before_is_an_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address: SocketAddr = listener.local_addr().expect("it listens");
        let server = thread::spawn(move || serve(&listener));
        let options = CompareOptions {
            rounds: 1,
            duration: Duration::from_millis(200),
            ..CompareOptions::default()
        };
        let mut measurer = Measurer {
            options: &options,
            case: &Case::parse("own", CASE).expect("it makes sense"),
            servers: &mut [running("first", address, "right")],
            database: None,
            beside: None,
            processors: Some([0, 0]),
            certificate: None,
        };
        let point = measurer.point(0, 1, &mut |_| ()).expect("it is measured");
        server.join().expect("nothing went wrong there");
        let [measured] = &point.servers[..] else {
            panic!("one server")
        };
        assert!(measured.errors > 0 && measured.requests_per_s.median > 0.0);
        let run = &measured.runs[0];
        assert!(run.load_share > 0.0 && run.load_share < 3.0, "{run:?}");
        // One processor: what is not its own load is not others' by that.
        let busy = run.busy.map_or(0.0, |busy| busy[0]);
        let others = (busy - (run.server_share + run.load_share)).clamp(0.0, 1.0);
        assert!(run.is_shared && measured.others == Some(others), "{run:?}");
        let wrong = "/: line 1 (empty ones not counted): `wrong` instead of `right`";
        assert_eq!(measured.wrong[..], [wrong.to_owned()]);
        assert_eq!(point.bytes, 5);
    }
}
