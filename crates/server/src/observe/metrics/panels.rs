//! What the dashboard shows of a page server's figures, those of all workers added up.

mod pieces;
mod tables;

use super::scrape::histogram_sums;
use super::{Metrics, PageMetrics};
use pieces::{Named, answers, chart, launches, of_class, sum};
use rhythm_cohort::LaunchReason;
use rhythm_observe::dashboard::{Dashboard, Figure, Part, Unit, Value};
use rhythm_observe::{Count, HistogramSum, NANOSECOND, Sample, process};
use std::sync::Arc;

/// The most that there may be, as settings say.
pub(crate) struct Bounds {
    /// Requests in cohorts.
    pub(crate) lanes: usize,
    /// Contexts of cohorts.
    pub(crate) contexts: usize,
    /// Connections.
    pub(crate) connections: usize,
    /// Bytes that connections hold.
    pub(crate) held: usize,
    /// Bytes of memory.
    pub(crate) memory: usize,
}

/// Those of all pages, as one.
fn merged(pages: Vec<Sample<HistogramSum>>) -> HistogramSum {
    let mut all = HistogramSum::default();
    for (_, of_page) in &pages {
        all.merge(of_page);
    }
    all
}

fn quantiles(histogram: &str) -> Vec<(String, Value)> {
    let quantile = |(name, part): (&str, f64)| {
        let value = Value::Quantile(part, histogram.to_owned());
        (name.to_owned(), value)
    };
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)]
        .map(quantile)
        .into()
}

impl Metrics {
    /// Adds what there is to show.
    pub(crate) fn show(&self, board: &mut Dashboard, bounds: &Bounds) {
        let pages = self.gather("page", |site| &site.pages);
        let whole = merged(histogram_sums(&pages, NANOSECOND, |m| &m.whole_time));
        let mean = Value::Ratio(whole.sum(), whole.count() as f64);
        board.histogram("whole", whole);
        let wait = merged(histogram_sums(&pages, NANOSECOND, |m| &m.queue_wait));
        board.histogram("wait", wait);
        let answer = merged(histogram_sums(&pages, NANOSECOND, |m| &m.service_time));
        board.histogram("answer", answer);
        let sizes = merged(histogram_sums(&pages, 1.0, |m| &m.cohort_size));
        let lanes = sizes.sum();
        board.histogram("size", sizes);
        let all: Vec<Arc<PageMetrics>> = pages.values().flatten().cloned().collect();
        let pages = Named::of(pages);
        self.requests(board, &all);
        latency(board, mean);
        cohorts(board, &all, lanes);
        self.queue(board, &all, bounds);
        self.machine(board, &all, bounds);
        self.sessions_now(board);
        let backends = self.gather("backend", |site| &site.backends);
        tables::backends(board, backends);
        self.errors(board, &pages);
        tables::pages(board, pages);
        if let Some(beside) = self.beside.get() {
            beside.show(board);
        }
    }

    /// Answers that no page gave: from this class of status on.
    fn host_answers(&self, from: usize) -> f64 {
        sum(&self.workers, |worker| {
            worker.host_answers[from..].iter().map(Count::get).sum()
        })
    }

    fn requests(&self, board: &mut Dashboard, all: &[Arc<PageMetrics>]) {
        let (of_pages, others) = (sum(all, answers), self.host_answers(0));
        let failed = sum(all, of_class(4)) + self.host_answers(4);
        let refused = sum(all, of_class(3)) + self.host_answers(3) - self.host_answers(4);
        let lines = vec![
            ("pages".to_owned(), Value::Rate(of_pages)),
            ("files and errors".to_owned(), Value::Rate(others)),
            ("status 5xx".to_owned(), Value::Rate(failed)),
        ];
        let total = of_pages + others;
        let figures = vec![
            Figure::new("Requests", Value::Rate(total), Unit::PerSecond),
            Figure::new("Status 4xx", Value::Rate(refused), Unit::PerSecond),
            Figure::new("Status 5xx", Value::Rate(failed), Unit::PerSecond),
            Figure::new("Since the start", Value::Now(total), Unit::Count),
        ];
        let chart = chart("Requests answered", Unit::PerSecond, lines);
        board.panel("requests", "Requests", vec![Part::Figures(figures), chart]);
    }

    fn queue(&self, board: &mut Dashboard, all: &[Arc<PageMetrics>], bounds: &Bounds) {
        let queued = sum(all, |page| page.queued.get());
        let sum = |figure: fn(&super::WorkerMetrics) -> u64| sum(&self.workers, figure);
        let taken = sum(|worker| worker.contexts[1..].iter().map(Count::get).sum());
        let connections = sum(|worker| worker.connections.get());
        let held = sum(|worker| worker.held_bytes.get());
        let stalls = sum(|worker| worker.stalls.get());
        let share = |value, most: usize| Value::Share(value, most as f64);
        let figures = vec![
            Figure::new("Queued", share(queued, bounds.lanes), Unit::Count),
            Figure::new("Most seen", Value::Most(queued), Unit::Count),
            Figure::new("Cohorts in use", share(taken, bounds.contexts), Unit::Count),
            Figure::new("Stalls", Value::Rate(stalls), Unit::PerSecond),
            Figure::new(
                "Connections",
                share(connections, bounds.connections),
                Unit::Count,
            ),
            Figure::new("Held by them", share(held, bounds.held), Unit::Bytes),
        ];
        let lines = vec![
            ("queued".to_owned(), Value::Now(queued)),
            ("connections".to_owned(), Value::Now(connections)),
        ];
        let chart = chart("Requests queued, and connections", Unit::Count, lines);
        board.panel("queue", "Queue", vec![Part::Figures(figures), chart]);
    }

    fn sessions_now(&self, board: &mut Dashboard) {
        let (mut parts, mut lines) = (Vec::new(), Vec::new());
        for (index, (name, sessions)) in self.sites.iter().enumerate() {
            let (live, most) = sessions.sessions();
            let of_workers = self.workers.iter().map(|worker| worker.site(index));
            let of_workers: Vec<_> = of_workers.collect();
            let rate =
                |figure: fn(&super::SiteMetrics) -> u64| Value::Rate(sum(&of_workers, figure));
            let label = |label: &str| match name {
                Some(name) => format!("{name}: {label}"),
                None => label.to_owned(),
            };
            lines.push((label("sessions"), Value::Now(live as f64)));
            let figure = |words, value, unit| Figure::new(label(words), value, unit);
            let per_second = Unit::PerSecond;
            let live = Value::Share(live as f64, most as f64);
            let failed = rate(|site| site.sign_ins_failed.get());
            let refused = rate(|site| site.sign_ins_refused.get());
            parts.push(Part::Figures(vec![
                figure("Sessions", live, Unit::Count),
                figure("Begun", rate(|site| site.sign_ins.get()), per_second),
                figure("Sign-ins that failed", failed, per_second),
                figure("Sign-ins refused", refused, per_second),
            ]));
        }
        parts.push(chart("Sessions", Unit::Count, lines));
        board.panel("sessions", "Sessions", parts);
    }

    fn machine(&self, board: &mut Dashboard, all: &[Arc<PageMetrics>], bounds: &Bounds) {
        let cpu = process::cpu_time().as_secs_f64();
        let answers = sum(all, answers) + self.host_answers(0);
        let busy = sum(&self.workers, |worker| worker.busy_ns.get());
        let total = sum(&self.workers, |worker| worker.total_ns.get());
        let mut figures = vec![
            Figure::new("CPU a request", Value::Ratio(cpu, answers), Unit::Seconds),
            Figure::new("CPU, of one core", Value::Rate(cpu), Unit::Part),
            Figure::new("Workers busy", Value::Ratio(busy, total), Unit::Part),
        ];
        let of_one_core = vec![
            ("process".to_owned(), Value::Rate(cpu)),
            ("workers busy".to_owned(), Value::Ratio(busy, total)),
        ];
        let mut charts = vec![chart("CPU, of one core", Unit::Part, of_one_core)];
        if let Some(resident) = process::resident_bytes() {
            let resident = resident as f64;
            let share = Value::Share(resident, bounds.memory as f64);
            figures.push(Figure::new(
                "Memory, of what settings allow",
                share,
                Unit::Bytes,
            ));
            let lines = vec![("process".to_owned(), Value::Now(resident))];
            charts.push(chart("Memory", Unit::Bytes, lines));
        }
        charts.insert(0, Part::Figures(figures));
        board.panel("machine", "CPU and memory", charts);
    }
}

fn latency(board: &mut Dashboard, mean: Value) {
    let mut figures = vec![Figure::new("Whole time, mean", mean, Unit::Seconds)];
    for (words, histogram, part) in [
        ("Whole time, p50", "whole", 0.5),
        ("Whole time, p90", "whole", 0.9),
        ("Whole time, p99", "whole", 0.99),
        ("Answering, p50", "answer", 0.5),
        ("Answering, p99", "answer", 0.99),
        ("Waiting, p99", "wait", 0.99),
    ] {
        let value = Value::Quantile(part, histogram.to_owned());
        figures.push(Figure::new(words, value, Unit::Seconds));
    }
    let [whole, answer, wait] = ["whole", "answer", "wait"].map(quantiles);
    let parts = vec![
        Part::Figures(figures),
        chart(
            "Whole time: from the first byte to the last",
            Unit::Seconds,
            whole,
        ),
        chart(
            "Answering: from a launch to its answers",
            Unit::Seconds,
            answer,
        ),
        chart(
            "Waiting: from an arrival to its launch",
            Unit::Seconds,
            wait,
        ),
    ];
    board.panel("latency", "Latency", parts);
}

fn cohorts(board: &mut Dashboard, all: &[Arc<PageMetrics>], lanes: f64) {
    let launched = sum(all, launches);
    let size = Value::Ratio(lanes, launched);
    let stragglers = Value::Rate(sum(all, |page| page.stragglers.get()));
    let figures = vec![
        Figure::new("Requests a cohort", size.clone(), Unit::Count),
        Figure::new("Cohorts", Value::Rate(launched), Unit::PerSecond),
        Figure::new("Stragglers", stragglers, Unit::PerSecond),
    ];
    let lines = vec![
        ("mean".to_owned(), size),
        ("p99".to_owned(), Value::Quantile(0.99, "size".to_owned())),
    ];
    let reasons = LaunchReason::ALL.map(|reason| {
        let words = match reason {
            LaunchReason::Full => "full",
            LaunchReason::Timeout => "delay over",
            LaunchReason::Idle => "idle",
            LaunchReason::Drain => "draining",
        };
        (
            words,
            sum(all, |page| page.launches[reason as usize].get()) as u64,
        )
    });
    let parts = vec![
        Part::Figures(figures),
        chart("Requests in a cohort", Unit::Count, lines),
        Part::Distribution("Cohorts by size", "size".to_owned()),
        Part::Bars("Why they were launched", reasons.into()),
    ];
    board.panel("cohorts", "Cohorts", parts);
}
