//! What `rhythm bench device` found, for people and as JSON, with the paper's table beside it.

use rhythm_bench::emulate::{PaperRow, TABLE_3, mix14};
use rhythm_bench::load::Page;
use rhythm_engine_cuda::bandwidth::Bandwidth;
use rhythm_engine_cuda::gpu::driver::DeviceDescription;
use rhythm_engine_cuda::layout::Layout;
use serde::Serialize;
use std::fmt;

/// Weighted harmonic means over the pages measured, by the paper's mix and by the whole workload's
/// (check images left out). NaN, which JSON has as null, is not known: none of the pages is in it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Mean {
    pub(super) mix14: f64,
    pub(super) mix16: f64,
}

impl Mean {
    /// Of rates.
    pub(super) fn of(rates: &[(Page, f64)]) -> Mean {
        let mean = |share: fn(Page) -> f64| {
            let whole: f64 = rates.iter().map(|(page, _)| share(*page)).sum();
            whole
                / rates
                    .iter()
                    .map(|(page, rate)| share(*page) / rate)
                    .sum::<f64>()
        };
        Mean {
            mix14: mean(mix14),
            mix16: mean(Page::mix),
        }
    }
}

/// The host executor on all cores of the machine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct HostResult {
    pub(super) cores: usize,
    pub(super) requests_per_s: Mean,
    pub(super) pages: Vec<HostPage>,
}

impl HostResult {
    /// It was not measured.
    pub(super) const UNKNOWN: HostResult = HostResult {
        cores: 0,
        requests_per_s: Mean {
            mix14: f64::NAN,
            mix16: f64::NAN,
        },
        pages: Vec::new(),
    };
}

/// A page on the host.
#[derive(Clone, Debug, Serialize)]
pub(super) struct HostPage {
    pub(super) page: &'static str,
    pub(super) requests_per_s: f64,
}

/// A size that was tried.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Trial {
    pub(super) cohort: usize,
    pub(super) in_flight: usize,
    pub(super) requests_per_s: f64,
}

/// A page in isolation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PageResult {
    #[serde(skip)]
    pub(super) kind: Page,
    pub(super) page: &'static str,
    pub(super) mix14_percent: f64,
    pub(super) mix16_percent: f64,
    /// Of the median run, the slowest, and the fastest.
    pub(super) requests_per_s: f64,
    pub(super) slowest_per_s: f64,
    pub(super) fastest_per_s: f64,
    /// Bytes of an answer, head included (layout runs: of the head and the run).
    pub(super) answer_bytes: f64,
    /// Bytes that the layouts' kernels write for it, padding and the transpose's second writing
    /// included.
    pub(super) written_bytes: f64,
    pub(super) written_gb_per_s: f64,
    /// Its share of what kernels that only write reach.
    pub(super) of_write_bandwidth: f64,
    /// Bytes that cross to the device and to the host for it (layout A).
    pub(super) crossed_bytes: [f64; 2],
    /// The larger of their shares of what can cross (the paper's Figure 9).
    pub(super) of_crossing_bandwidth: f64,
    /// Times the host executor on all cores.
    pub(super) of_host: f64,
    pub(super) watts: Option<f64>,
    pub(super) requests_per_joule: Option<f64>,
    pub(super) clock_mhz: Option<f64>,
}

/// The device's time for a cohort alone.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Latency {
    pub(super) page: &'static str,
    pub(super) cohort: usize,
    pub(super) p50_ms: f32,
    pub(super) p99_ms: f32,
    pub(super) max_ms: f32,
}

/// A launch of a page's cohort, in their order.
#[derive(Clone, Debug, Serialize)]
pub(super) struct KernelTime {
    pub(super) kernel: &'static str,
    /// Nanoseconds, over the requests of the cohort.
    pub(super) ns_a_request: f64,
}

/// What the kernels take of a cohort that has the device for itself.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PageKernels {
    #[serde(skip)]
    pub(super) kind: Page,
    pub(super) page: &'static str,
    pub(super) cohort: usize,
    pub(super) kernels: Vec<KernelTime>,
}

/// A layout.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LayoutResult {
    pub(super) layout: String,
    /// Sizes tried with one page, and which went best.
    pub(super) trial_page: &'static str,
    pub(super) tried: Vec<Trial>,
    pub(super) cohort: usize,
    pub(super) in_flight: usize,
    pub(super) parsers: usize,
    pub(super) requests_per_s: Mean,
    /// Per joule of the board, and per joule above idle, where its power is known.
    pub(super) requests_per_joule: Option<Mean>,
    pub(super) requests_per_dynamic_joule: Option<Mean>,
    /// Bytes written a second over the mix, as a share of what kernels that only write reach.
    pub(super) of_write_bandwidth: f64,
    /// Times the host executor on all cores.
    pub(super) of_host: Mean,
    pub(super) pages: Vec<PageResult>,
    pub(super) latency: Vec<Latency>,
    pub(super) kernels: Vec<PageKernels>,
    /// What measuring all of it took.
    pub(super) seconds: f64,
}

impl LayoutResult {
    /// Of which nothing is known yet.
    pub(super) fn of(layout: Layout) -> LayoutResult {
        LayoutResult {
            layout: layout.to_string(),
            trial_page: "",
            tried: Vec::new(),
            cohort: 0,
            in_flight: 0,
            parsers: 0,
            requests_per_s: Mean::default(),
            requests_per_joule: None,
            requests_per_dynamic_joule: None,
            of_write_bandwidth: f64::NAN,
            of_host: Mean::default(),
            pages: Vec::new(),
            latency: Vec::new(),
            kernels: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Fills in what follows from the pages.
    pub(super) fn summarize(&mut self, host: &HostResult, idle_watts: Option<f64>) {
        let rates: Vec<(Page, f64)> = self
            .pages
            .iter()
            .map(|page| (page.kind, page.requests_per_s))
            .collect();
        self.requests_per_s = Mean::of(&rates);
        self.of_host = Mean {
            mix14: self.requests_per_s.mix14 / host.requests_per_s.mix14,
            mix16: self.requests_per_s.mix16 / host.requests_per_s.mix16,
        };
        self.requests_per_joule = self.per_joule(0.0);
        self.requests_per_dynamic_joule = idle_watts.and_then(|idle| self.per_joule(idle));
        // Bytes over time, each by its share of the mix.
        let sum = |value: &dyn Fn(&PageResult) -> f64| -> f64 {
            self.pages
                .iter()
                .map(|page| mix14(page.kind) * value(page))
                .sum()
        };
        self.of_write_bandwidth = sum(&|page| page.of_write_bandwidth / page.requests_per_s)
            / sum(&|page| 1.0 / page.requests_per_s);
    }

    /// Why there is nothing for each joule above idle, where power is measured.
    pub(super) fn unknown_power(&self, idle_watts: Option<f64>) -> Option<String> {
        let why = "requests for each joule above idle are not known: a page's power is not, or is \
                   no more than that";
        let is_unknown = idle_watts.is_some() && self.requests_per_dynamic_joule.is_none();
        is_unknown.then(|| format!("layout {}: {why}", self.layout))
    }

    fn fmt_rates(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "cohorts of {}, {} in flight, {} parsers",
            self.cohort, self.in_flight, self.parsers
        )?;
        writeln!(
            f,
            "{:26} {:>9} {:>12} {:>9} {:>9} {:>8} {:>12}",
            "page", "bytes", "M req/s", "GB/s", "of write", "x host", "req/J"
        )?;
        for page in &self.pages {
            writeln!(
                f,
                "{:26} {:>9.0} {:>12.3} {:>9.1} {:>9.3} {:>8} {:>12}",
                page.page,
                page.answer_bytes,
                million(page.requests_per_s),
                page.written_gb_per_s,
                page.of_write_bandwidth,
                or_dash(page.of_host, 1),
                or_dash(page.requests_per_joule, 0)
            )?;
        }
        let crosses = |page: &&PageResult| page.of_crossing_bandwidth > 0.0;
        if let Some(first) = self.pages.iter().find(crosses) {
            let shares = self.pages.iter().map(|page| page.of_crossing_bandwidth);
            let (least, most) = shares.fold((f64::MAX, 0.0f64), |(least, most), share| {
                (least.min(share), most.max(share))
            });
            writeln!(
                f,
                "of what can cross between host and device: {least:.2} to {most:.2} ({} has {:.0} \
                 and {:.0} bytes a request)",
                first.page, first.crossed_bytes[0], first.crossed_bytes[1]
            )?;
        }
        let per_joule = |of: fn(&Mean) -> f64| or_dash(self.requests_per_joule.as_ref().map(of), 0);
        let (rates, of_host) = (&self.requests_per_s, &self.of_host);
        for (mix, rate, of_host, joule) in [
            (
                "mix14",
                rates.mix14,
                of_host.mix14,
                per_joule(|mean| mean.mix14),
            ),
            (
                "mix16",
                rates.mix16,
                of_host.mix16,
                per_joule(|mean| mean.mix16),
            ),
        ] {
            writeln!(
                f,
                "{mix:26} {:>9} {:>12} {:>9} {:>9} {:>8} {joule:>12}",
                "",
                or_dash(million(rate), 3),
                "",
                or_dash(self.of_write_bandwidth, 3),
                or_dash(of_host, 1)
            )?;
        }
        Ok(())
    }

    /// Nanoseconds that each kernel takes of a request of the paper's mix, the most first, when one
    /// cohort has the device for itself; nothing where none of the pages is in it.
    fn kernels_of_mix(&self) -> Vec<(&'static str, f64)> {
        let whole: f64 = self.kernels.iter().map(|page| mix14(page.kind)).sum();
        let mut sums: Vec<(&'static str, f64)> = Vec::new();
        if whole == 0.0 {
            return sums;
        }
        for page in &self.kernels {
            for time in &page.kernels {
                let share = mix14(page.kind) / whole * time.ns_a_request;
                match sums.iter_mut().find(|(kernel, _)| *kernel == time.kernel) {
                    Some((_, sum)) => *sum += share,
                    None => sums.push((time.kernel, share)),
                }
            }
        }
        sums.sort_by(|a, b| b.1.total_cmp(&a.1));
        sums
    }

    /// Requests for each joule above so many watts, where all pages' power is known, and above.
    fn per_joule(&self, above: f64) -> Option<Mean> {
        let known = self.pages.iter().map(|page| {
            let watts = Some(page.watts? - above).filter(|watts| *watts > 0.0);
            Some((page.kind, page.requests_per_s / watts?))
        });
        let known: Vec<_> = known.collect::<Option<_>>()?;
        Some(Mean::of(&known))
    }
}

/// Parsing alone.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Parsing {
    pub(super) transposed: bool,
    /// All requests are classified and sorted; of this page's the parameters are read, too.
    pub(super) params_of: &'static str,
    pub(super) instances: usize,
    pub(super) lot: usize,
    pub(super) requests_per_s: f64,
    pub(super) microseconds_per_lot: f64,
}

/// Cohorts in flight together, by so many queues between host and device.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Concurrency {
    pub(super) queues: u32,
    pub(super) layout: String,
    pub(super) page: &'static str,
    pub(super) cohort: u32,
    pub(super) in_flight: u32,
    pub(super) requests_per_s: f64,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) gpu: Option<DeviceDescription>,
    /// Queues between host and device that were asked for (CUDA_DEVICE_MAX_CONNECTIONS), which all
    /// but `concurrency` was measured with.
    pub(super) queues: Option<u32>,
    pub(super) idle_watts: Option<f64>,
    pub(super) bandwidth: Bandwidth,
    pub(super) host: HostResult,
    pub(super) layouts: Vec<LayoutResult>,
    pub(super) parsing: Vec<Parsing>,
    pub(super) concurrency: Vec<Concurrency>,
    /// What could not be measured, and why.
    pub(super) notes: Vec<String>,
    /// The paper's Table 3.
    pub(super) paper: &'static [PaperRow],
}

impl Report {
    pub(super) const PAPER: &'static [PaperRow] = TABLE_3;
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.gpu {
            Some(gpu) => writeln!(
                f,
                "{}, {} multiprocessors, driver for CUDA {}",
                gpu.name, gpu.multiprocessors, gpu.driver_version
            )?,
            None => writeln!(
                f,
                "an emulated GPU: these figures say nothing about a real one"
            )?,
        }
        let Bandwidth {
            copy_gb_per_s,
            write_gb_per_s,
            to_device_gb_per_s,
            to_host_gb_per_s,
        } = self.bandwidth;
        writeln!(
            f,
            "memory: {copy_gb_per_s:.0} GB/s copying (read and written), \
             {write_gb_per_s:.0} GB/s writing alone; {to_device_gb_per_s:.1} GB/s from the host, \
             {to_host_gb_per_s:.1} GB/s to it"
        )?;
        if self.host.cores > 0 {
            writeln!(
                f,
                "host executor on {} cores: {} million requests/s (mix14), {} (mix16)",
                self.host.cores,
                or_dash(million(self.host.requests_per_s.mix14), 2),
                or_dash(million(self.host.requests_per_s.mix16), 2)
            )?;
        }
        self.layouts.iter().try_for_each(|layout| layout.fmt(f))?;
        if !self.parsing.is_empty() {
            writeln!(f, "\nparsing alone, mixed trace (parameters of one page)")?;
        }
        self.parsing.iter().try_for_each(|parsing| parsing.fmt(f))?;
        for of in &self.concurrency {
            writeln!(
                f,
                "{:>2} queues, layout {}, {} cohorts of {} in flight, {}: {:.3} M req/s",
                of.queues,
                of.layout,
                of.in_flight,
                of.cohort,
                of.page,
                million(of.requests_per_s)
            )?;
        }
        if let Some(watts) = self.idle_watts {
            writeln!(f, "\nidle: {watts:.0} W")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        writeln!(f, "\nthe paper's Table 3 (its mix of fourteen pages)")?;
        for row in self.paper {
            writeln!(
                f,
                "{:26} {:>12.3} M req/s {:>8.3} ms {:>8.0} req/J",
                row.platform,
                row.kreq_per_s / 1e3,
                row.latency_ms,
                row.req_per_joule
            )?;
        }
        Ok(())
    }
}

/// A rate in millions.
fn million(rate: f64) -> f64 {
    rate / 1e6
}

/// A figure with so many digits behind the point, or a dash where it is not known.
fn or_dash(figure: impl Into<Option<f64>>, digits: usize) -> String {
    let figure: Option<f64> = figure.into();
    let known = figure.filter(|figure| figure.is_finite());
    known.map_or("-".to_owned(), |figure| format!("{figure:.digits$}"))
}

impl fmt::Display for LayoutResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nlayout {}", self.layout)?;
        if !self.pages.is_empty() {
            self.fmt_rates(f)?;
        }
        let kernels = self.kernels_of_mix();
        if !kernels.is_empty() {
            let all: f64 = kernels.iter().map(|(_, ns)| ns).sum();
            write!(
                f,
                "kernels of a cohort alone, ns a request (mix14): all {all:.2}"
            )?;
            for (kernel, ns) in kernels {
                write!(f, ", {kernel} {ns:.2}")?;
            }
            writeln!(f)?;
        }
        let by_p99 = |a: &&Latency, b: &&Latency| a.p99_ms.total_cmp(&b.p99_ms);
        match self.latency.iter().max_by(by_p99) {
            None => Ok(()),
            Some(worst) => writeln!(
                f,
                "latency of a cohort of {} alone: at worst {} with p50 {:.3} ms, p99 {:.3} ms",
                worst.cohort, worst.page, worst.p50_ms, worst.p99_ms
            ),
        }
    }
}

impl fmt::Display for Parsing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.transposed {
            "transposed"
        } else {
            "as it lies"
        };
        writeln!(
            f,
            "{how:12} {:>2} instances, lots of {:>6}: {:>9.3} M req/s, {:>9.1} us a lot",
            self.instances,
            self.lot,
            million(self.requests_per_s),
            self.microseconds_per_lot
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_a_dash() {
        // The paper's mix leaves this page out.
        let kind = Page::QuickPay;
        let mut layout = LayoutResult::of(Layout::Row);
        layout.pages = vec![PageResult {
            kind,
            page: kind.name(),
            mix14_percent: mix14(kind),
            mix16_percent: kind.mix(),
            requests_per_s: 2e6,
            slowest_per_s: 2e6,
            fastest_per_s: 2e6,
            answer_bytes: 100.0,
            written_bytes: 100.0,
            written_gb_per_s: 0.2,
            of_write_bandwidth: 0.5,
            crossed_bytes: [0.0; 2],
            of_crossing_bandwidth: 0.0,
            of_host: f64::NAN,
            watts: Some(1000.0),
            requests_per_joule: Some(2000.0),
            clock_mhz: None,
        }];
        layout.kernels = vec![PageKernels {
            kind,
            page: kind.name(),
            cohort: 1,
            kernels: vec![KernelTime {
                kernel: "parse",
                ns_a_request: 1.0,
            }],
        }];
        layout.summarize(&HostResult::UNKNOWN, None);
        let report = Report {
            gpu: None,
            queues: None,
            idle_watts: None,
            bandwidth: Bandwidth {
                copy_gb_per_s: 1.0,
                write_gb_per_s: 1.0,
                to_device_gb_per_s: 1.0,
                to_host_gb_per_s: 1.0,
            },
            host: HostResult {
                cores: 1,
                requests_per_s: Mean::of(&[(kind, 1e6)]),
                pages: Vec::new(),
            },
            layouts: vec![layout],
            parsing: Vec::new(),
            concurrency: Vec::new(),
            notes: Vec::new(),
            paper: Report::PAPER,
        };
        let text = report.to_string();
        assert!(!text.contains("NaN") && !text.contains("kernels"), "{text}");
        let words = |first: &str| {
            let line = text.lines().find(|line| line.starts_with(first));
            let words = line.unwrap_or_default().split_whitespace();
            words.collect::<Vec<_>>()
        };
        let page = ["quick_pay", "100", "2.000", "0.2", "0.500", "-", "2000"];
        assert_eq!(words("quick_pay"), page);
        assert_eq!(words("mix14"), ["mix14", "-", "-", "-", "-"]);
        assert_eq!(words("mix16"), ["mix16", "2.000", "-", "-", "2000"]);
        let host = "host executor on 1 cores: - million requests/s (mix14), 1.00 (mix16)";
        assert!(text.contains(host), "{text}");
    }
}
