//! What the emulation found, and the paper's figures beside it.

use super::output::Output;
use crate::load::Page;
use serde::Serialize;
use std::fmt;

/// A page type under one executor. All figures are medians, a request, on one core.
#[derive(Clone, Debug, Serialize)]
pub struct Executed {
    /// The executor.
    pub executor: String,
    /// Nanoseconds.
    pub ns: f64,
    /// Instructions, where the machine counts them.
    pub instructions: Option<f64>,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Gigabytes of answers written to memory a second.
    pub gb_per_s: f64,
    /// Its share of the limit: time to copy the answer's bytes to memory, over its time.
    pub of_copy_limit: f64,
}

impl Executed {
    pub(super) fn new(
        executor: &str,
        ns: f64,
        bytes: f64,
        instructions: Option<f64>,
        copy_ns: f64,
    ) -> Executed {
        Executed {
            executor: executor.to_owned(),
            ns,
            instructions,
            requests_per_s: 1e9 / ns,
            gb_per_s: bytes / ns,
            of_copy_limit: copy_ns / ns,
        }
    }
}

/// A page type.
#[derive(Clone, Debug, Serialize)]
pub struct PageResult {
    /// Its name.
    pub page: &'static str,
    /// Its share in the paper's mix of fourteen pages; 0 for the two it left out.
    pub mix14_percent: f64,
    /// Its share in the whole workload.
    pub mix16_percent: f64,
    /// Bytes of its answer, head included.
    pub bytes: f64,
    /// Nanoseconds for copying as many bytes to memory with `memcpy`: what shares of the limit are
    /// of.
    pub copy_ns: f64,
    /// Nanoseconds for copying them there with streaming stores.
    pub stream_ns: f64,
    /// What each executor did.
    pub executed: Vec<Executed>,
}

/// A weighted harmonic mean over the page types.
#[derive(Clone, Debug, Serialize)]
pub struct Mean {
    /// Which mix.
    pub mix: &'static str,
    /// Nanoseconds for copying its answer to memory with streaming stores.
    pub stream_ns: f64,
    /// What it says.
    pub executed: Executed,
}

/// The emulation's results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Lanes of a cohort.
    pub cohort_size: usize,
    /// Cohorts fed at a time.
    pub in_flight: usize,
    /// Bytes of memory that answers were written to, round and round.
    pub ring_bytes: usize,
    /// What of an answer was written: `pages`, `runs` or `buffers`.
    pub output: &'static str,
    /// Each page type in isolation.
    pub pages: Vec<PageResult>,
    /// The mixes, where all their pages were measured.
    pub means: Vec<Mean>,
    /// The paper's Table 3.
    pub paper: &'static [PaperRow],
}

/// A page's share in the paper's mix (Table 2), percent.
#[must_use]
pub fn mix14(page: Page) -> f64 {
    match page {
        Page::Login => 28.17,
        Page::AccountSummary => 19.77,
        Page::AddPayee => 1.47,
        Page::BillPay => 18.18,
        Page::BillPayStatusOutput => 2.92,
        Page::ChangeProfile => 1.60,
        Page::CheckDetailHtml => 11.06,
        Page::OrderCheck => 1.60,
        Page::PlaceCheckOrder => 1.15,
        Page::PostPayee => 1.05,
        Page::PostTransfer => 1.60,
        Page::Profile => 1.15,
        Page::Transfer => 2.24,
        Page::Logout => 8.06,
        Page::QuickPay | Page::CheckDetailImage => 0.0,
    }
}

/// A row of the paper's Table 3.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PaperRow {
    /// The platform.
    pub platform: &'static str,
    /// Thousands of requests a second.
    pub kreq_per_s: f64,
    /// Latency, milliseconds.
    pub latency_ms: f64,
    /// Requests per joule of dynamic power.
    pub req_per_joule: f64,
}

/// The paper's Table 3.
pub const TABLE_3: &[PaperRow] = &[
    row("Core i5, 1 worker", 75.0, 0.016, 3283.0),
    row("Core i5, 4 workers", 282.0, 0.016, 4712.0),
    row("Core i7, 4 workers", 331.0, 0.014, 2735.0),
    row("Core i7, 8 workers", 377.0, 0.014, 2873.0),
    row("ARM A9, 1 worker", 8.0, 0.176, 4061.0),
    row("ARM A9, 2 workers", 16.0, 0.176, 4830.0),
    row("Titan A", 398.0, 86.0, 2193.0),
    row("Titan B", 1535.0, 24.0, 4410.0),
    row("Titan C", 3082.0, 10.0, 12264.0),
];

const fn row(
    platform: &'static str,
    kreq_per_s: f64,
    latency_ms: f64,
    req_per_joule: f64,
) -> PaperRow {
    PaperRow {
        platform,
        kreq_per_s,
        latency_ms,
        req_per_joule,
    }
}

impl Report {
    pub(super) fn new(
        cohort_size: usize,
        in_flight: usize,
        ring_bytes: usize,
        output: Output,
        pages: Vec<PageResult>,
    ) -> Report {
        let mut means = Vec::new();
        let executors = pages.first().map_or(0, |page| page.executed.len());
        for mix in ["mix14", "mix16"] {
            let share = |page: &PageResult| match mix {
                "mix14" => page.mix14_percent,
                _ => page.mix16_percent,
            };
            // A mean of some pages is no mix.
            let whole: f64 = pages.iter().map(share).sum();
            let all = Page::ALL.iter().map(|page| match mix {
                "mix14" => mix14(*page),
                _ => page.mix(),
            });
            let measured = pages.iter().filter(|page| share(page) > 0.0).count();
            if measured < all.filter(|share| *share > 0.0).count() {
                continue;
            }
            // The harmonic mean of throughputs is the inverse of the mean time.
            let mean = |value: &dyn Fn(&PageResult) -> f64| {
                pages
                    .iter()
                    .map(|page| share(page) * value(page))
                    .sum::<f64>()
                    / whole
            };
            let (bytes, copy) = (mean(&|page| page.bytes), mean(&|page| page.copy_ns));
            for at in 0..executors {
                let instructions = pages
                    .iter()
                    .all(|page| page.executed[at].instructions.is_some());
                let executed = Executed::new(
                    &pages[0].executed[at].executor,
                    mean(&|page| page.executed[at].ns),
                    bytes,
                    instructions
                        .then(|| mean(&|page| page.executed[at].instructions.unwrap_or(f64::NAN))),
                    copy,
                );
                means.push(Mean {
                    mix,
                    stream_ns: mean(&|page| page.stream_ns),
                    executed,
                });
            }
        }
        Report {
            cohort_size,
            in_flight,
            ring_bytes,
            output: output.name(),
            pages,
            means,
            paper: TABLE_3,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "cohorts of {}, {} fed at a time, {} written to {} MiB of memory, one core",
            self.cohort_size,
            self.in_flight,
            self.output,
            self.ring_bytes >> 20
        )?;
        let executed = self.pages.iter().flat_map(|page| &page.executed);
        let names = executed.map(|executed| executed.executor.len());
        let wide = names.max().unwrap_or(0).max("executor".len());
        writeln!(
            f,
            "\n{:24} {:>8} {:>8} {:>9} {:>wide$} {:>9} {:>12} {:>12} {:>7} {:>9}",
            "page",
            "bytes",
            "copy ns",
            "stream ns",
            "executor",
            "ns",
            "req/s",
            "instructions",
            "GB/s",
            "of limit"
        )?;
        let line = |f: &mut fmt::Formatter<'_>,
                    name: &str,
                    [bytes, copy, stream]: [f64; 3],
                    e: &Executed| {
            let instructions = e
                .instructions
                .map_or("-".to_owned(), |count| format!("{count:.0}"));
            writeln!(
                f,
                "{name:24} {bytes:>8.0} {copy:>8.0} {stream:>9.0} {:>wide$} {:>9.0} {:>12.0} \
                 {instructions:>12} {:>7.2} {:>9.2}",
                e.executor, e.ns, e.requests_per_s, e.gb_per_s, e.of_copy_limit
            )
        };
        for page in &self.pages {
            for executed in &page.executed {
                let limits = [page.bytes, page.copy_ns, page.stream_ns];
                line(f, page.page, limits, executed)?;
            }
        }
        if self.means.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        for mean in &self.means {
            let e = &mean.executed;
            let limits = [e.gb_per_s * e.ns, e.of_copy_limit * e.ns, mean.stream_ns];
            line(f, mean.mix, limits, e)?;
        }
        writeln!(f, "\nthe paper's Table 3 (its mix of fourteen pages)")?;
        for row in self.paper {
            writeln!(
                f,
                "{:24} {:>8.0} kreq/s {:>8.3} ms {:>8.0} req/J",
                row.platform, row.kreq_per_s, row.latency_ms, row.req_per_joule
            )?;
        }
        Ok(())
    }
}
