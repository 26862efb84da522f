//! What a run found out.

mod text;

pub(crate) use text::Micros;

use super::walk::{Kind, PageShare};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Different errors and faults that are told apart.
const KINDS_MAX: usize = 20;

/// Failures of which an excerpt is kept.
const FAILURES_MAX: usize = 20;

/// Longest latency told apart, in nanoseconds.
const LATENCY_MAX: u64 = 600_000_000_000;

/// SPECweb's: a page within 2 s is good, ...
const GOOD: Duration = Duration::from_secs(2);

/// ... and one within 4 s is tolerable.
const TOLERABLE: Duration = Duration::from_secs(4);

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was loaded.
    pub url: String,
    /// The service whose users did it.
    pub service: &'static str,
    /// Users at a time (in open loop: at most).
    pub sessions: usize,
    /// Users a second in open loop; `None` in closed loop.
    pub arrivals_per_s: Option<f64>,
    /// The length of the measurement, in seconds.
    pub seconds: f64,
    /// Dynamic pages asked for (in open loop: due) in the measurement, and answered.
    pub pages: u64,
    /// The same a second.
    pub pages_per_s: f64,
    /// All answers: pages, static files and what is not part of the mix.
    pub requests: u64,
    /// The same a second.
    pub requests_per_s: f64,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// Latency of all pages, with the waits of users who were never served, and of those whose page
    /// never came, until it was given up.
    pub latency: Latency,
    /// Each page, in the order of the workload's table.
    pub by_page: Vec<PageReport>,
    /// Most that a page's share differs from the workload's mix, in percentage points; 0 when only
    /// one page is asked for.
    pub mix_difference: f64,
    /// SPECweb's quality of service.
    pub quality: Quality,
    /// Static files and check images.
    pub files: FileReport,
    /// Visits begun.
    pub visits: u64,
    /// Users of an open loop who were due and found no session free until the end.
    pub never_served: u64,
    /// Requests that had to be refused and were: old cookies, wrong passwords, unknown checks.
    pub refusals: u64,
    /// Logouts behind the scenes, for users who left without one.
    pub sign_outs: u64,
    /// Connections opened.
    pub connections: u64,
    /// Greetings of TLS that were done, resumed ones among them; 0 where it is not spoken.
    pub handshakes: u64,
    /// Requests sent again because the server had closed an idle connection.
    pub retries: u64,
    /// Pages and files that are not what must come.
    pub invalid: u64,
    /// Requests that got no answer or one with a wrong status, by kind.
    pub errors: BTreeMap<String, u64>,
    /// The first of the invalid pages, one of each kind.
    pub failures: Vec<Failure>,
}

/// A page's part of a report.
#[derive(Clone, Debug, Serialize)]
pub struct PageReport {
    /// Which.
    pub page: &'static str,
    /// How often it was answered.
    pub count: u64,
    /// Its share of all pages, in percent.
    pub share: f64,
    /// Its share in the workload's mix, in percent.
    pub mix: f64,
    /// Average bytes of an answer's content.
    pub bytes: u64,
    /// From the request (in open loop: from when it was due) to the last byte, or to when it was
    /// given up.
    pub latency: Latency,
}

/// A distribution of latencies, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// Average.
    pub mean: f64,
    /// Half are not longer.
    pub p50: f64,
    /// 90 % are not longer.
    pub p90: f64,
    /// 99 % are not longer.
    pub p99: f64,
    /// 99.9 % are not longer.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// SPECweb's quality of service for Banking, of all pages that were asked for (in open loop: due):
/// one that never came, or with a wrong status, is neither good nor tolerable.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quality {
    /// Pages within 2 s, in percent; 95 are needed.
    pub good: f64,
    /// Pages within 4 s, in percent; 99 are needed.
    pub tolerable: f64,
    /// Whether both are reached.
    pub reached: bool,
}

/// Static files in a report.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct FileReport {
    /// Answers with the file (check images, which are pages, are not counted).
    pub whole: u64,
    /// Answers 304 to a condition.
    pub not_modified: u64,
    /// Bytes of content.
    pub bytes: u64,
}

/// An answer that is not the one that must come.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// What was asked for.
    pub request: String,
    /// What is wrong.
    pub reason: String,
    /// The answer near there.
    pub excerpt: String,
    #[serde(skip)]
    kind: String,
}

impl Report {
    /// Whether every page was right and every request answered, and there were any.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.pages > 0 && self.invalid == 0 && self.errors.is_empty()
    }

    /// Whether it looks as if the server had other pages than the workload's: all were answered,
    /// and none was right.
    fn is_of_another_service(&self) -> bool {
        self.errors.values().sum::<u64>() + self.invalid > 0
            && self.files.whole == 0
            && self.pages <= self.invalid
    }
}

/// Where latencies are counted, in nanoseconds.
pub(crate) fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(64, LATENCY_MAX, 3).expect("the bounds are right")
}

/// How long something took, as it is counted.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What is counted under this name, or, once there are many names, under one for the rest: servers
/// choose some of the names.
pub(crate) fn entry<'a, T: Default>(counts: &'a mut BTreeMap<String, T>, kind: &str) -> &'a mut T {
    let is_told_apart = counts.len() < KINDS_MAX || counts.contains_key(kind);
    let kind = if is_told_apart { kind } else { "others" };
    counts.entry(kind.to_owned()).or_default()
}

/// Counts of a page.
#[derive(Clone, Debug)]
struct PageCounts {
    count: u64,
    bytes: u64,
    latency: Histogram<u64>,
}

/// What a worker counts.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    pages: Vec<PageCounts>,
    /// How long they had waited who were never served, or whose way to a page ended before it.
    unserved: Histogram<u64>,
    /// How long pages had been waited for that never came: part of the pages' latencies.
    unanswered: Histogram<u64>,
    never_served: u64,
    /// Pages whose answer is none; how fast that came is no latency of a page.
    refused: u64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) files: FileReport,
    pub(crate) visits: u64,
    pub(crate) refusals: u64,
    pub(crate) sign_outs: u64,
    pub(crate) connections: u64,
    pub(crate) handshakes: u64,
    pub(crate) retries: u64,
    pub(crate) invalid: u64,
    errors: BTreeMap<String, u64>,
    failures: Vec<Failure>,
}

impl Counts {
    /// Of so many kinds of pages.
    pub(crate) fn new(pages: usize) -> Counts {
        let latency = latency_histogram();
        Counts {
            pages: vec![
                PageCounts {
                    count: 0,
                    bytes: 0,
                    latency: latency.clone(),
                };
                pages
            ],
            unserved: latency.clone(),
            unanswered: latency,
            never_served: 0,
            refused: 0,
            requests: 0,
            bytes: 0,
            files: FileReport::default(),
            visits: 0,
            refusals: 0,
            sign_outs: 0,
            connections: 0,
            handshakes: 0,
            retries: 0,
            invalid: 0,
            errors: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    pub(crate) fn page(&mut self, page: usize, bytes: usize, latency: Duration) {
        let counts = &mut self.pages[page];
        counts.count += 1;
        counts.bytes += bytes as u64;
        counts.latency.saturating_record(nanos(latency));
    }

    /// A user was due so long before the end, and no session was free.
    pub(crate) fn never_served(&mut self, waited: Duration) {
        self.never_served += 1;
        self.unserved.saturating_record(nanos(waited));
    }

    /// A request was given up after so long.
    pub(crate) fn never_answered(&mut self, kind: Kind, waited: Duration) {
        let waited = nanos(waited);
        match kind {
            Kind::Page(page) => {
                self.pages[page].latency.saturating_record(waited);
                self.unanswered.saturating_record(waited);
            }
            Kind::Step => self.unserved.saturating_record(waited),
            Kind::File | Kind::Refusal | Kind::SignOut => {}
        }
    }

    /// What came in place of a page, or on the way to one, is no answer.
    pub(crate) fn refused(&mut self, kind: Kind) {
        self.refused += u64::from(matches!(kind, Kind::Page(_) | Kind::Step));
    }

    pub(crate) fn error(&mut self, kind: &str) {
        *entry(&mut self.errors, kind) += 1;
    }

    /// Notes an invalid answer; the excerpt is kept if it is the first of its kind.
    pub(crate) fn invalid(&mut self, request: &str, kind: &str, reason: &str, excerpt: &[u8]) {
        self.invalid += 1;
        let failure = Failure {
            request: request.to_owned(),
            reason: reason.to_owned(),
            excerpt: String::from_utf8_lossy(excerpt).into_owned(),
            kind: kind.to_owned(),
        };
        self.keep(failure);
    }

    fn keep(&mut self, failure: Failure) {
        let is_known =
            |known: &Failure| known.request == failure.request && known.kind == failure.kind;
        if self.failures.len() < FAILURES_MAX && !self.failures.iter().any(is_known) {
            self.failures.push(failure);
        }
    }

    pub(crate) fn add(&mut self, other: Counts) {
        for (counts, more) in self.pages.iter_mut().zip(other.pages) {
            counts.count += more.count;
            counts.bytes += more.bytes;
            counts
                .latency
                .add(&more.latency)
                .expect("all have the same bounds");
        }
        for (waits, more) in [
            (&mut self.unserved, &other.unserved),
            (&mut self.unanswered, &other.unanswered),
        ] {
            waits.add(more).expect("all have the same bounds");
        }
        self.never_served += other.never_served;
        self.refused += other.refused;
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.files.whole += other.files.whole;
        self.files.not_modified += other.files.not_modified;
        self.files.bytes += other.files.bytes;
        self.visits += other.visits;
        self.refusals += other.refusals;
        self.sign_outs += other.sign_outs;
        self.connections += other.connections;
        self.handshakes += other.handshakes;
        self.retries += other.retries;
        self.invalid += other.invalid;
        for (kind, count) in other.errors {
            *entry(&mut self.errors, &kind) += count;
        }
        other
            .failures
            .into_iter()
            .for_each(|failure| self.keep(failure));
    }

    /// The report of a measurement of this length.
    pub(crate) fn report(self, measured: Duration, shares: &[PageShare], walks: bool) -> Report {
        let seconds = measured.as_secs_f64().max(f64::MIN_POSITIVE);
        let pages: u64 = self.pages.iter().map(|page| page.count).sum();
        let percent = |count: u64| 100.0 * count as f64 / pages.max(1) as f64;
        let mut all = self.unserved.clone();
        for page in &self.pages {
            all.add(&page.latency).expect("all have the same bounds");
        }
        // What was waited for in vain was asked for, and never came in time.
        let asked = all.len() + self.refused;
        let within = |bound: Duration| {
            let waits = |of: &Histogram<u64>| of.count_between(0, nanos(bound));
            let came = waits(&all) - waits(&self.unserved) - waits(&self.unanswered);
            100.0 * came as f64 / asked.max(1) as f64
        };
        let (good, tolerable) = (within(GOOD), within(TOLERABLE));
        let by_page: Vec<PageReport> = (shares.iter())
            .zip(&self.pages)
            .map(|(page, counts)| PageReport {
                page: page.name,
                count: counts.count,
                share: percent(counts.count),
                mix: page.share,
                bytes: counts.bytes / counts.count.max(1),
                latency: Latency::of(&counts.latency),
            })
            .collect();
        let differences = by_page.iter().map(|page| (page.share - page.mix).abs());
        Report {
            url: String::new(),
            service: "",
            sessions: 0,
            arrivals_per_s: None,
            seconds,
            pages,
            pages_per_s: pages as f64 / seconds,
            requests: self.requests,
            requests_per_s: self.requests as f64 / seconds,
            bytes: self.bytes,
            latency: Latency::of(&all),
            mix_difference: if walks {
                differences.fold(0.0, f64::max)
            } else {
                0.0
            },
            by_page,
            quality: Quality {
                good,
                tolerable,
                reached: good >= 95.0 && tolerable >= 99.0,
            },
            files: self.files,
            visits: self.visits,
            never_served: self.never_served,
            refusals: self.refusals,
            sign_outs: self.sign_outs,
            connections: self.connections,
            handshakes: self.handshakes,
            retries: self.retries,
            invalid: self.invalid,
            errors: self.errors,
            failures: self.failures,
        }
    }
}

impl Latency {
    /// Of latencies in nanoseconds.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Latency {
        if histogram.is_empty() {
            return Latency::default();
        }
        let micros = |nanos: u64| nanos as f64 / 1e3;
        Latency {
            mean: histogram.mean() / 1e3,
            p50: micros(histogram.value_at_quantile(0.5)),
            p90: micros(histogram.value_at_quantile(0.9)),
            p99: micros(histogram.value_at_quantile(0.99)),
            p999: micros(histogram.value_at_quantile(0.999)),
            max: micros(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [PageShare; 2] = [
        PageShare {
            name: "login",
            share: 60.0,
        },
        PageShare {
            name: "logout",
            share: 40.0,
        },
    ];
    const LOGIN: usize = 0;
    const LOGOUT: usize = 1;

    fn counts(page: usize, count: u64, latency: Duration) -> Counts {
        let mut counts = Counts::new(2);
        (0..count).for_each(|_| counts.page(page, 1000, latency));
        counts
    }

    #[test]
    fn workers_add_up_to_a_report() {
        let mut all = counts(LOGIN, 90, Duration::from_millis(1));
        all.add(counts(LOGOUT, 10, Duration::from_secs(3)));
        let report = all.report(Duration::from_secs(2), &PAGES, true);
        assert_eq!((report.pages, report.pages_per_s), (100, 50.0));
        assert_eq!(report.by_page[0].share, 90.0);
        assert!((report.mix_difference - (90.0 - 60.0)).abs() < 1e-9);
        assert!((report.latency.p50 - 1000.0).abs() < 10.0);
        assert!((report.latency.p99 - 3e6).abs() < 1e4);
        assert_eq!(
            (report.quality.good, report.quality.tolerable),
            (90.0, 100.0)
        );
        assert!(!report.quality.reached && report.passed());
        let text = report.to_string();
        assert!(
            text.contains("50 pages/s") && text.ends_with("passed"),
            "{text}"
        );
    }

    #[test]
    fn who_was_never_served_has_waited_and_got_no_page() {
        let mut all = counts(LOGIN, 90, Duration::from_millis(1));
        (0..10).for_each(|_| all.never_served(Duration::from_secs(3)));
        let report = all.report(Duration::from_secs(2), &PAGES, true);
        assert_eq!((report.pages, report.never_served), (90, 10));
        assert!((report.latency.max - 3e6).abs() < 1e4);
        let quality = report.quality;
        assert_eq!((quality.good, quality.tolerable), (90.0, 90.0));
        assert!(report.to_string().contains("10 users found no session"));
    }

    #[test]
    fn what_never_came_is_no_good_page_however_soon_it_was_given_up() {
        let mut all = counts(LOGIN, 90, Duration::from_millis(1));
        let mut more = Counts::new(2);
        (0..4).for_each(|_| more.never_answered(Kind::Page(LOGOUT), Duration::from_millis(20)));
        more.never_answered(Kind::Step, Duration::from_millis(30));
        more.never_answered(Kind::File, Duration::from_secs(3));
        (0..5).for_each(|_| more.refused(Kind::Page(LOGOUT)));
        more.refused(Kind::Refusal);
        all.add(more);
        let report = all.report(Duration::from_secs(2), &PAGES, true);
        assert_eq!((report.pages, report.never_served), (90, 0));
        let quality = report.quality;
        assert_eq!((quality.good, quality.tolerable), (90.0, 90.0));
        assert!(!quality.reached);
        let logout = report.by_page[LOGOUT].latency;
        assert!((logout.p50 - 20e3).abs() < 100.0, "{logout:?}");
        assert!((report.latency.max - 30e3).abs() < 100.0, "{report}");
    }

    #[test]
    fn one_wrong_page_or_error_or_nothing_at_all_is_not_passed() {
        assert!(
            !Counts::new(2)
                .report(Duration::from_secs(1), &PAGES, true)
                .passed()
        );
        let mut wrong = counts(LOGIN, 1, Duration::ZERO);
        for _ in 0..3 {
            wrong.invalid(
                "login",
                "a wrong value",
                "expected 1, found 2",
                b"<td>2</td>",
            );
        }
        wrong.invalid("login", "a value is missing", "expected 1", b"");
        let report = wrong.report(Duration::from_secs(1), &PAGES, true);
        assert!(!report.passed());
        assert_eq!((report.invalid, report.failures.len()), (4, 2));
        let mut failed = counts(LOGIN, 1, Duration::ZERO);
        failed.error("timeout");
        failed.add({
            let mut more = Counts::new(2);
            more.error("timeout");
            more
        });
        let report = failed.report(Duration::from_secs(1), &PAGES, false);
        assert!(!report.passed() && report.errors["timeout"] == 2);
        assert!(report.to_string().contains("2 timeout"));
    }
}
