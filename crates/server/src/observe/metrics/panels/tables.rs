//! The dashboard's tables: backends, errors, pages.

use super::pieces::{Named, answers, chart, columns, launches, of_class, sum};
use crate::observe::metrics::scrape::{ByLabels, histogram_sums};
use crate::observe::metrics::{BackendMetrics, LastFailure, Metrics, PageMetrics};
use rhythm_net::{Time, clock};
use rhythm_observe::dashboard::{Dashboard, Figure, Part, Table, Unit, Value};
use rhythm_observe::{HistogramSum, NANOSECOND};
use std::sync::Arc;
use std::time::Duration;

/// Rows that a table of pages has at most.
const ROWS_MAX: usize = 50;

/// Pages that an alarm names at most; of others it says how many.
const NAMED_MAX: usize = 3;

/// A page whose last failure was so lately fails.
const LATELY: Duration = Duration::from_secs(15);

/// Whether a backend is as it should be, and a word for how it is.
fn health(of: &[Arc<BackendMetrics>]) -> (bool, &'static str) {
    let leave_it = (of.iter()).filter(|worker| worker.circuit_open.get() > 0);
    // "Down" would not be true of one that still answers some calls.
    let answers_some = leave_it.clone().any(|worker| worker.answers_some.get() > 0);
    match leave_it.count() {
        0 if sum(of, |it| it.requests.get()) == 0.0 => (true, "not asked yet"),
        0 => (true, "up"),
        _ if answers_some => (false, "failing in part"),
        workers if workers == of.len() => (false, "down"),
        _ => (false, "down for some workers"),
    }
}

pub(super) fn backends(board: &mut Dashboard, backends: ByLabels<BackendMetrics>) {
    let latencies = histogram_sums(&backends, NANOSECOND, |m| &m.latency);
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for ((name, of), (_, latency)) in Named::of(backends).0.into_iter().zip(latencies) {
        let now = |figure: fn(&BackendMetrics) -> u64| Value::Now(sum(&of, figure));
        let rate = |figure: fn(&BackendMetrics) -> u64| Value::Rate(sum(&of, figure));
        let (is_well, word) = health(&of);
        if !is_well {
            board.alarm(format!("backend {name} is {word}"));
        }
        let histogram = format!("backend {name}");
        lines.push((name.clone(), Value::Quantile(0.99, histogram.clone())));
        rows.push(vec![
            Value::Text(name),
            Value::State(is_well, word),
            rate(|it| it.requests.get()),
            Value::Quantile(0.5, histogram.clone()),
            Value::Quantile(0.99, histogram.clone()),
            now(|it| it.under_way.get()),
            now(|it| it.waiting.get()),
            now(|it| it.connections.get()),
            rate(|it| it.shared.get()),
            rate(|it| it.merged.get()),
            rate(|it| it.failures.get()),
        ]);
        board.histogram(&histogram, latency);
    }
    let table = Part::Table(Table {
        caption: "Queries to each backend".to_owned(),
        columns: columns([
            ("Backend", Unit::Count),
            ("Health", Unit::Count),
            ("Queries", Unit::PerSecond),
            ("p50", Unit::Seconds),
            ("p99", Unit::Seconds),
            ("Under way", Unit::Count),
            ("Waiting", Unit::Count),
            ("Connections", Unit::Count),
            ("Shared", Unit::PerSecond),
            ("Merged", Unit::PerSecond),
            ("Failed", Unit::PerSecond),
        ]),
        rows,
        empty: "No page has a backend.",
    });
    let words = "Shared: another asked the same, and was sent in its place. Merged: asked for with \
                 others by one statement.";
    let mut parts = vec![table, Part::Note(words.into())];
    if !lines.is_empty() {
        parts.push(chart("Latency of backends, p99", Unit::Seconds, lines));
    }
    board.panel("backends", "Backends", parts);
}

/// The last failure that any worker saw.
fn last_failure(of: &[Arc<PageMetrics>]) -> Option<(Time, String)> {
    let all = of
        .iter()
        .filter_map(|page| LastFailure::get(&page.last_failure));
    all.max_by_key(|(when, _)| *when)
}

/// What is said of pages that fail.
fn fail(pages: &[&str]) -> Option<String> {
    match pages {
        [] => None,
        [page] => Some(format!("page {page} fails")),
        pages if pages.len() <= NAMED_MAX => Some(format!("pages {} fail", pages.join(", "))),
        pages => {
            let (named, others) = pages.split_at(NAMED_MAX);
            let (named, others) = (named.join(", "), others.len());
            Some(format!("pages {named} and {others} more fail"))
        }
    }
}

impl Metrics {
    pub(super) fn errors(&self, board: &mut Dashboard, pages: &Named<PageMetrics>) {
        let now = clock::monotonic();
        let failed = |of: &[Arc<PageMetrics>]| sum(of, of_class(4));
        let mut rows: Vec<_> = (pages.0.iter())
            .filter(|(_, of)| failed(of) > 0.0)
            .map(|(name, of)| (name, of, last_failure(of)))
            .collect();
        let mut failing: Vec<&str> = (rows.iter())
            .filter(|(.., last)| last.as_ref().is_some_and(|it| now.since(it.0) <= LATELY))
            .map(|(name, ..)| name.as_str())
            .collect();
        // In an order that stays: an alarm is read out whenever it changes.
        failing.sort_unstable();
        if let Some(alarm) = fail(&failing) {
            board.alarm(alarm);
        }
        let all = rows.len();
        // Those that failed last are above; so it is not by how often, which would keep old ones.
        rows.sort_by_key(|(.., last)| std::cmp::Reverse(last.as_ref().map(|(when, _)| *when)));
        rows.truncate(ROWS_MAX);
        let mut caption =
            "Pages that answered with a status 5xx since the start, and why the last \
                           time"
                .to_owned();
        if all > ROWS_MAX {
            caption = format!("{caption}: {ROWS_MAX} of {all} pages");
        }
        let rows = rows.into_iter().map(|(name, of, last)| {
            let (ago, words) = match last {
                Some((when, words)) => (Value::Now(now.since(when).as_secs_f64()), words),
                None => (
                    Value::Text("not known".to_owned()),
                    "the page says this status itself".to_owned(),
                ),
            };
            vec![
                Value::Text(name.clone()),
                Value::Text(words),
                ago,
                Value::Rate(failed(of)),
                Value::Now(failed(of)),
            ]
        });
        let table = Table {
            caption,
            columns: columns([
                ("Page", Unit::Count),
                ("Why", Unit::Count),
                ("Last, ago", Unit::Seconds),
                ("Failing", Unit::PerSecond),
                ("Failed", Unit::Count),
            ]),
            rows: rows.collect(),
            empty: "No page has failed.",
        };
        let (lines, _) = self.log.lost_and_failed();
        let restarts = sum(&self.workers, |worker| worker.restarts.get());
        let figures = vec![
            Figure::new(
                "Access log lines lost",
                Value::Now(lines as f64),
                Unit::Count,
            ),
            Figure::new("Workers restarted", Value::Now(restarts), Unit::Count),
        ];
        let parts = vec![Part::Table(table), Part::Figures(figures)];
        board.panel("errors", "Errors", parts);
    }
}

pub(super) fn pages(board: &mut Dashboard, pages: Named<PageMetrics>) {
    let mut pages = pages.0;
    let all = pages.len();
    let mut caption = "Each page".to_owned();
    if all > ROWS_MAX {
        pages.sort_by_key(|(_, of)| std::cmp::Reverse(sum(of, |it| it.requests.get()) as u64));
        pages.truncate(ROWS_MAX);
        pages.sort_by(|(one, _), (other, _)| one.cmp(other));
        caption = format!("The {ROWS_MAX} pages of {all} that were asked for most");
    }
    let mut rows = Vec::new();
    for (name, of) in pages {
        let [mut whole, mut wait, mut answer] = [(); 3].map(|()| HistogramSum::default());
        let mut lanes = 0;
        for page in &of {
            whole.add(&page.whole_time, NANOSECOND);
            wait.add(&page.queue_wait, NANOSECOND);
            answer.add(&page.service_time, NANOSECOND);
            lanes += page.cohort_size.sum();
        }
        let [of_whole, of_wait, of_answer] =
            ["whole", "wait", "answer"].map(|what| format!("{what} {name}"));
        board.histogram(&of_whole, whole);
        board.histogram(&of_wait, wait);
        board.histogram(&of_answer, answer);
        rows.push(vec![
            Value::Text(name),
            Value::Rate(sum(&of, answers)),
            Value::Ratio(lanes as f64, sum(&of, launches)),
            Value::Quantile(0.5, of_whole.clone()),
            Value::Quantile(0.99, of_whole),
            Value::Quantile(0.99, of_wait),
            Value::Quantile(0.5, of_answer.clone()),
            Value::Quantile(0.99, of_answer),
            Value::Rate(sum(&of, of_class(3))),
            Value::Rate(sum(&of, of_class(4))),
        ]);
    }
    let table = Table {
        caption,
        columns: columns([
            ("Page", Unit::Count),
            ("Requests", Unit::PerSecond),
            ("A cohort", Unit::Count),
            ("Whole time, p50", Unit::Seconds),
            ("Whole time, p99", Unit::Seconds),
            ("Waiting, p99", Unit::Seconds),
            ("Answering, p50", Unit::Seconds),
            ("Answering, p99", Unit::Seconds),
            ("4xx", Unit::PerSecond),
            ("5xx", Unit::PerSecond),
        ]),
        rows,
        empty: "The service has no pages, or none was loaded yet.",
    };
    board.panel("pages", "Pages", vec![Part::Table(table)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_that_answers_some_calls_is_not_called_down() {
        let of = [(); 2].map(|()| Arc::new(BackendMetrics::default()));
        assert_eq!(health(&of), (true, "not asked yet"));
        of[0].circuit_open.set(1);
        assert_eq!(health(&of), (false, "down for some workers"));
        of[1].circuit_open.set(1);
        assert_eq!(health(&of), (false, "down"));
        of[1].answers_some.set(1);
        assert_eq!(health(&of), (false, "failing in part"));
    }

    #[test]
    fn an_alarm_names_some_pages_and_counts_the_rest() {
        assert_eq!(fail(&[]), None);
        let said = |pages: &[&str]| fail(pages).expect("an alarm");
        assert_eq!(said(&["home"]), "page home fails");
        assert_eq!(said(&["a", "b", "c"]), "pages a, b, c fail");
        assert_eq!(said(&["a", "b", "c", "d"]), "pages a, b, c and 1 more fail");
    }
}
