//! What a GPU gave: reports of `rhythm bench device --json`, beside the paper's Titans.

use super::paper;
use crate::reproduce::error::ReproduceError;
use crate::reproduce::files::read;
use crate::reproduce::section::{Section, cell, column, ours};
use rhythm_rpo::report::Kind::{Computed, Measured};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Whose latency stands for a layout.
const LATENCY_PAGE: &str = "account_summary";

/// The layouts whose backend is on the device: the paper's two, and the one that it decides
/// against.
const ON_DEVICE: [&str; 3] = ["b", "c", "row"];
/// Section 6.4's concurrent kernels: its number and title.
const QUEUES: (&str, &str) = (
    "Section 6.4, queues",
    "concurrent kernels, by queues between host and device",
);

/// A report, as far as it is shown here.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct DeviceReport {
    /// Where it was read.
    #[serde(skip)]
    path: PathBuf,
    machine: String,
    command: String,
    report: Found,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Found {
    gpu: Gpu,
    bandwidth: Option<Bandwidth>,
    layouts: Vec<Layout>,
    #[serde(default)]
    parsing: Vec<Parsing>,
    /// Reports from before it was measured have none.
    #[serde(default)]
    concurrency: Vec<Concurrency>,
    idle_watts: Option<f64>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Gpu {
    name: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Bandwidth {
    to_host_gb_per_s: f64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Mean {
    mix14: Option<f64>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Layout {
    layout: String,
    cohort: usize,
    in_flight: usize,
    tried: Vec<Trial>,
    requests_per_s: Mean,
    requests_per_joule: Option<Mean>,
    requests_per_dynamic_joule: Option<Mean>,
    pages: Vec<PageRate>,
    latency: Vec<Latency>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Trial {
    cohort: usize,
    in_flight: usize,
    requests_per_s: f64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct PageRate {
    page: String,
    requests_per_s: f64,
    answer_bytes: f64,
    crossed_bytes: [f64; 2],
    of_crossing_bandwidth: f64,
    watts: Option<f64>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Latency {
    page: String,
    cohort: usize,
    p50_ms: f64,
    p99_ms: f64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Parsing {
    transposed: bool,
    instances: usize,
    lot: usize,
    requests_per_s: f64,
    microseconds_per_lot: f64,
}

/// Cohorts in flight together, by so many queues.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Concurrency {
    queues: u32,
    layout: String,
    page: String,
    cohort: usize,
    in_flight: usize,
    requests_per_s: f64,
}

/// A layout's rate over the paper's mix and watts, for what is computed of them.
pub(super) struct Rate {
    pub(super) name: String,
    pub(super) requests_per_s: f64,
    pub(super) watts: Option<f64>,
    pub(super) dynamic_watts: Option<f64>,
    pub(super) in_flight: f64,
}

/// What a layout's cohorts of one size take, in seconds, for what is simulated of them.
pub(super) struct CohortTimes {
    pub(super) layout: String,
    /// Requests of a cohort, the size whose latency was measured.
    pub(super) lanes: usize,
    pub(super) in_flight: usize,
    /// The highest rate of such cohorts.
    pub(super) requests_per_s: f64,
    /// What each cohort adds, whatever its size, where many follow each other.
    pub(super) each: f64,
    /// What each of its requests adds.
    pub(super) per_request: f64,
    /// What one takes that has the device for itself.
    pub(super) alone: f64,
}

impl Layout {
    fn cohort_times(&self) -> Option<CohortTimes> {
        let lanes = self.latency.first()?.cohort;
        let best = |size: usize| {
            let of_size = self.tried.iter().filter(|of| of.cohort == size);
            of_size.max_by(|a, b| a.requests_per_s.total_cmp(&b.requests_per_s))
        };
        let full = best(lanes)?;
        let sizes = self.tried.iter().map(|of| of.cohort);
        let small = best(sizes.filter(|size| *size < lanes).min()?)?;
        let taken = |of: &Trial| of.cohort as f64 / of.requests_per_s;
        let more = (taken(full) - taken(small)) / (full.cohort - small.cohort) as f64;
        let per_request = more.max(0.0).min(taken(full) / lanes as f64);
        // By the paper's mix, as far as it was measured.
        let (mut ms, mut share) = (0.0, 0.0);
        for paper in &paper::PAGES {
            let of = self.latency.iter().find(|of| of.page == paper.page.name());
            if let Some(of) = of {
                ms += of.p50_ms * paper.percent;
                share += paper.percent;
            }
        }
        (share > 0.0).then(|| CohortTimes {
            layout: self.layout.clone(),
            lanes,
            in_flight: full.in_flight,
            requests_per_s: full.requests_per_s,
            each: taken(full) - per_request * lanes as f64,
            per_request,
            alone: ms / share / 1e3,
        })
    }
}

impl DeviceReport {
    /// Reads a report.
    pub(super) fn read(path: &Path) -> Result<DeviceReport, ReproduceError> {
        let told = |why| ReproduceError::DeviceReport {
            path: path.to_owned(),
            why,
        };
        let mut report: DeviceReport = serde_json::from_str(&read(path)?).map_err(told)?;
        if !report.rates_are_some() {
            let why = "a rate that no device has: none, or less";
            return Err(told(serde_json::Error::custom(why)));
        }
        report.path = path.to_owned();
        Ok(report)
    }

    /// Whether what others are divided by are rates. (Those of cohorts are told apart.)
    fn rates_are_some(&self) -> bool {
        let Found {
            layouts,
            parsing,
            concurrency,
            ..
        } = &self.report;
        let pages = layouts.iter().flat_map(|of| &of.pages);
        let mut all = (pages.map(|of| of.requests_per_s))
            .chain(layouts.iter().filter_map(|of| of.requests_per_s.mix14))
            .chain(parsing.iter().map(|of| of.requests_per_s))
            .chain(concurrency.iter().map(|of| of.requests_per_s));
        all.all(|rate| rate.is_finite() && rate > 0.0)
    }

    /// Where it was read.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The command that made it.
    pub(super) fn command(&self) -> &str {
        &self.command
    }

    fn name(&self, layout: &Layout) -> String {
        let titan = paper::titan(&layout.layout);
        let titan = titan.map_or(String::new(), |titan| format!(" (paper: {})", titan.name));
        format!("layout {}, {}{titan}", layout.layout, self.report.gpu.name)
    }

    /// Its layouts with their rates, as far as the paper's mix was measured: a report of some of
    /// the pages has a mean of these alone.
    pub(super) fn rates(&self) -> Vec<(&Layout, Rate)> {
        let layouts = self.report.layouts.iter().filter_map(|layout| {
            let has = |name: &str| layout.pages.iter().any(|page| page.page == name);
            if !paper::PAGES.iter().all(|paper| has(paper.page.name())) {
                return None;
            }
            let rate = layout.requests_per_s.mix14?;
            let watts = |of: &Option<Mean>| of.as_ref().and_then(|of| of.mix14).map(|of| rate / of);
            let rate = Rate {
                name: self.name(layout),
                requests_per_s: rate,
                watts: watts(&layout.requests_per_joule),
                dynamic_watts: watts(&layout.requests_per_dynamic_joule),
                in_flight: (layout.cohort * layout.in_flight) as f64,
            };
            Some((layout, rate))
        });
        layouts.collect()
    }

    /// Whether it is, at least in part, of pages in layouts.
    pub(super) fn has_layouts(&self) -> bool {
        !self.report.layouts.is_empty()
    }

    /// What cohorts take in each layout, and the layouts of which that is not known.
    pub(super) fn cohort_times(&self) -> (Vec<CohortTimes>, Vec<&str>) {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for layout in &self.report.layouts {
            match layout.cohort_times() {
                Some(times) => known.push(times),
                None => unknown.push(layout.layout.as_str()),
            }
        }
        (known, unknown)
    }

    pub(super) fn note(&self, section: &mut Section) {
        let said = "measured on that card; machine";
        section.note(format!(
            "{}: {said}: {}",
            self.report.gpu.name, self.machine
        ));
        section.command.clone_from(&self.command);
    }

    /// Table 3's Titans.
    pub(super) fn table_3(&self) -> Section {
        let mut section = Section::new(
            "Table 3, GPU",
            "throughput, power and latency",
            &[
                column("1000 requests/s", Measured),
                column("W (paper: at the wall)", Measured),
                column("dynamic W", Measured),
                column("req/J (paper: at the wall)", Measured),
                column("req/J, dynamic", Measured),
                column("latency, ms", Measured),
                column("p99, ms", Measured),
            ],
        );
        for (layout, rate) in self.rates() {
            let titan = paper::titan(&layout.layout);
            let of = |value: fn(&paper::Platform) -> f64| titan.map(value);
            let latency = layout.latency.iter().find(|of| of.page == LATENCY_PAGE);
            let per = |watts: Option<f64>| watts.map(|watts| rate.requests_per_s / watts);
            let cells = vec![
                cell(of(|titan| titan.kreq_per_s), rate.requests_per_s / 1e3),
                cell(of(|titan| titan.wall_watts), rate.watts),
                cell(of(|titan| titan.dynamic_watts), rate.dynamic_watts),
                cell(of(|titan| titan.per_wall_joule), per(rate.watts)),
                cell(of(|titan| titan.per_dynamic_joule), per(rate.dynamic_watts)),
                cell(of(|titan| titan.latency_ms), latency.map(|of| of.p50_ms)),
                ours(latency.map(|of| of.p99_ms)),
            ];
            section.row(rate.name, cells);
        }
        let lanes = self
            .report
            .layouts
            .iter()
            .flat_map(|layout| &layout.latency);
        let lanes = lanes.map(|of| of.cohort).next().unwrap_or(0);
        let idle = self.report.idle_watts;
        let idle = idle.map_or(String::new(), |watts| format!(" ({watts:.0} idle)"));
        section.note(format!(
            "Watts are the board's{idle}, without its machine, which the paper's have in \
             them. Latency is the median of a cohort of {lanes} of {LATENCY_PAGE} on the device \
             alone, without its formation; the paper's is a mean with it, which is simulated below"
        ));
        if self.report.layouts.len() > self.rates().len() {
            section.note("Absent: layouts of which not all of the paper's pages were measured");
        }
        self.note(&mut section);
        section
    }

    /// Figure 9: what crosses PCIe, and what could.
    pub(super) fn figure_9(&self) -> Option<Section> {
        let layout = self.report.layouts.iter().find(|of| of.layout == "a")?;
        let mut section = Section::new(
            "Figure 9",
            "answers across PCIe (layout a)",
            &[
                column("1000 requests/s achieved", Measured),
                column("1000 requests/s at most", Computed),
                column("% of the bound", Measured),
            ],
        );
        let rows = layout
            .pages
            .iter()
            .filter(|page| page.of_crossing_bandwidth > 0.0);
        for page in rows {
            let (rate, share) = (page.requests_per_s, page.of_crossing_bandwidth);
            let cells = vec![
                ours(rate / 1e3),
                ours(rate / share / 1e3),
                ours(share * 100.0),
            ];
            section.row(page.page.clone(), cells);
        }
        section.note(
            "The paper's pages reach 83 to 95 % of theirs, which counts both directions. The \
             bound here is the busier direction's: what it carries by itself, measured, over the \
             bytes that a request has cross",
        );
        self.note(&mut section);
        section.charts = vec!["figure-9.svg"];
        Some(section)
    }

    /// Figure 10: pages of layout b.
    pub(super) fn figure_10(&self) -> Option<Section> {
        let layout = self.report.layouts.iter().find(|of| of.layout == "b")?;
        let mut section = Section::new(
            "Figure 10",
            "pages of layout b (paper: Titan B), of an i7's throughput and an A9's efficiency",
            &[
                column("throughput, times the i7's", Computed),
                column("dynamic req/J, times the A9's", Computed),
                column("KB of the answer", Measured),
            ],
        );
        for page in &layout.pages {
            let idle = self.report.idle_watts;
            let watts = page.watts.zip(idle).map(|(watts, idle)| watts - idle);
            let watts = watts.filter(|watts| *watts > 0.0);
            let per_joule = watts.map(|watts| page.requests_per_s / watts);
            let cells = vec![
                ours(page.requests_per_s / 1e3 / paper::I7.kreq_per_s),
                ours(per_joule.map(|of| of / paper::A9.per_dynamic_joule)),
                ours(page.answer_bytes / 1e3),
            ];
            section.row(page.page.clone(), cells);
        }
        section.note(
            "The paper: login, change_profile and transfer reach 3.5 to 5 times the i7's \
             throughput with 105 to 120 % of the A9's efficiency; pages whose answers are just \
             beyond a power of two are behind them. Absent: the same with buffers of powers of \
             two, which is the paper's cause. Answers here have exact lengths: the transpose \
             squeezes padding out. Buffers would need columns that are as long as they are and \
             written to their end, a second transpose that keeps all of it, and answers that are \
             compared without it, on the device and off it. Only this figure would run that code, \
             so it is declined; what such buffers cost a CPU (--buffers pow2) is below",
        );
        self.note(&mut section);
        section.charts = vec!["figure-10.svg"];
        Some(section)
    }

    /// Bytes that cross to the host for a request of the paper's mix in layout a, and how many can
    /// a second, measured.
    pub(super) fn crossing(&self) -> Option<(f64, Option<f64>)> {
        let layout = self.report.layouts.iter().find(|of| of.layout == "a")?;
        let bytes = paper::mean(|paper| {
            let page = layout.pages.iter().find(|of| of.page == paper.page.name());
            page.map(|page| page.crossed_bytes[1])
        })?;
        let bandwidth = self.report.bandwidth.as_ref();
        Some((bytes, bandwidth.map(|of| of.to_host_gb_per_s)))
    }

    /// Section 6.4, cohort sizes.
    pub(super) fn cohort_sizes(&self) -> Section {
        let mut section = Section::new(
            "Section 6.4, GPU",
            "cohort sizes",
            &[column("1000 requests/s", Measured)],
        );
        for layout in &self.report.layouts {
            let mut sizes: Vec<usize> = layout.tried.iter().map(|of| of.cohort).collect();
            sizes.sort_unstable();
            sizes.dedup();
            for size in sizes {
                let of_size = layout.tried.iter().filter(|of| of.cohort == size);
                let best = of_size.max_by(|a, b| a.requests_per_s.total_cmp(&b.requests_per_s));
                let Some(best) = best else { continue };
                let name = format!(
                    "layout {}, cohorts of {size}, {} in flight",
                    layout.layout, best.in_flight
                );
                section.row(name, vec![ours(best.requests_per_s / 1e3)]);
            }
        }
        section.note(format!(
            "The paper tried 256 to 8192 and took 4096; of each size the best number in flight \
             is shown, of one page ({LATENCY_PAGE})"
        ));
        self.note(&mut section);
        section
    }

    /// Section 6.4: kernels of different cohorts at a time.
    pub(super) fn queues(&self) -> Option<Section> {
        let all = &self.report.concurrency;
        let first = all.first()?;
        let mut section = Section::new(
            QUEUES.0,
            QUEUES.1,
            &[
                column("1000 requests/s", Measured),
                column("times the first", Computed),
            ],
        );
        for of in all {
            let cells = vec![
                ours(of.requests_per_s / 1e3),
                ours(of.requests_per_s / first.requests_per_s),
            ];
            let plural = if of.queues == 1 { "" } else { "s" };
            let name = format!("{}, {} queue{plural}", self.report.gpu.name, of.queues);
            section.row(name, cells);
        }
        section.note(format!(
            "CUDA_DEVICE_MAX_CONNECTIONS, a process for each; layout {}, {} cohorts of {} in \
             flight, {}. The paper: one queue, as the card before its Titan had, \"created false \
             dependencies among process kernels, limiting throughput\"",
            first.layout, first.in_flight, first.cohort, first.page
        ));
        self.note(&mut section);
        Some(section)
    }

    /// Section 4.3.2: columns, or a warp for each request.
    pub(super) fn row_layout(&self) -> Option<Section> {
        let mut section = Section::new(
            "Section 4.3.2",
            "columns, or a row for each request: who wins",
            &[
                column("1000 requests/s", Measured),
                column("req/J, dynamic", Measured),
                column("latency, ms", Measured),
            ],
        );
        let rates = self.rates();
        let rates = rates
            .iter()
            .filter(|(layout, _)| ON_DEVICE.contains(&layout.layout.as_str()));
        let rows: Vec<(&str, [Option<f64>; 3])> = rates
            .map(|(layout, rate)| {
                let latency = layout.latency.iter().find(|of| of.page == LATENCY_PAGE);
                let per_joule = rate.dynamic_watts.map(|watts| rate.requests_per_s / watts);
                let figures = [
                    Some(rate.requests_per_s / 1e3),
                    per_joule,
                    latency.map(|of| of.p50_ms),
                ];
                (layout.layout.as_str(), figures)
            })
            .collect();
        if !rows.iter().any(|(layout, _)| *layout == "row") || rows.len() < 2 {
            return None;
        }
        let best = |at: usize, sign: f64| {
            let all = rows.iter().filter_map(|(name, of)| Some((*name, of[at]?)));
            all.max_by(|one, other| (sign * one.1).total_cmp(&(sign * other.1)))
        };
        let wins = [
            ("throughput", 0, 1.0),
            ("efficiency", 1, 1.0),
            ("latency", 2, -1.0),
        ];
        let wins = wins.into_iter().filter_map(|(what, at, sign)| {
            let (name, _) = best(at, sign)?;
            Some(format!("{what}: layout {name}"))
        });
        let wins: Vec<String> = wins.collect();
        for (name, figures) in &rows {
            section.row(format!("layout {name}"), figures.map(ours).into());
        }
        section.note(format!(
            "Who wins: {}. Layouts b and c have the lanes of a cohort write columns together, as \
             the paper does; in layout row a warp writes one request's answer, the parallelism \
             within a request that section 4.3.2 decides against",
            wins.join("; ")
        ));
        self.note(&mut section);
        Some(section)
    }

    /// Rows of section 6.4, the parser by itself.
    pub(super) fn parsing(&self, section: &mut Section) {
        for of in self.report.parsing.iter().filter(|of| of.transposed) {
            // The paper's had one, of cohorts of 4096.
            let is_papers = of.instances == 1 && of.lot as f64 == paper::COHORT;
            let name = format!(
                "{}, {} at a time, lots of {}",
                self.report.gpu.name, of.instances, of.lot
            );
            let cells = vec![
                cell(
                    is_papers.then_some(paper::PARSER_M_S),
                    of.requests_per_s / 1e6,
                ),
                cell(
                    is_papers.then_some(paper::PARSER_US),
                    of.microseconds_per_lot,
                ),
            ];
            section.row(name, cells);
        }
    }
}

/// Section 6.4's concurrent kernels, where no report has them.
pub(super) fn no_queues() -> Section {
    let mut section = Section::new(QUEUES.0, QUEUES.1, &[]);
    section.note(
        "Absent: no report that was given has it. `rhythm bench device --measure queues --json \
         FILE` measures it alone where there is a GPU, as does a report of all without --measure, \
         and --device-report FILE shows it here. Each number of queues \
         (CUDA_DEVICE_MAX_CONNECTIONS) is measured by a process of its own",
    );
    section
}

/// What is said where there is no report of a GPU.
pub(super) fn absent(number: &'static str, title: &'static str) -> Section {
    let mut section = Section::new(number, title, &[]);
    section.note(
        "Absent: only a GPU gives it, and no report of one was given. `rhythm bench device \
         --layout all --json FILE` measures it where there is one, and --device-report FILE \
         shows it here",
    );
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::section::value;
    use serde_json::json;

    /// A report of one layout for each rate, with so many of the paper's pages.
    fn report(rates: &[Option<f64>], pages: usize) -> DeviceReport {
        let page = |paper: &paper::PaperPage| {
            json!({
                "page": paper.page.name(), "requests_per_s": 1.0, "answer_bytes": 1.0,
                "crossed_bytes": [1.0, 1.0], "of_crossing_bandwidth": 0.5, "watts": null,
            })
        };
        let pages: Vec<_> = paper::PAGES.iter().take(pages).map(page).collect();
        let layout = |(name, rate): (&str, &Option<f64>)| {
            json!({
                "layout": name, "cohort": 1, "in_flight": 1, "tried": [],
                "requests_per_s": { "mix14": rate }, "requests_per_joule": null,
                "requests_per_dynamic_joule": null, "pages": pages.clone(), "latency": [],
            })
        };
        let layouts: Vec<_> = ["a", "b", "c"].into_iter().zip(rates).map(layout).collect();
        let report = json!({
            "machine": "m", "command": "c",
            "report": {
                "gpu": { "name": "g" }, "bandwidth": null, "layouts": layouts,
                "idle_watts": null,
            },
        });
        serde_json::from_value(report).expect("a report")
    }

    #[test]
    fn queues_are_the_reports_own_or_absent() {
        let mut of = report(&[], 0);
        // As reports from before there was such a measurement.
        assert!(of.queues().is_none());
        for (queues, rate) in [(1, 2e6), (8, 5e6)] {
            let trial = json!({
                "queues": queues, "layout": "row", "page": "account_summary",
                "cohort": 4096, "in_flight": 32, "requests_per_s": rate,
            });
            let trial = serde_json::from_value(trial).expect("a trial");
            of.report.concurrency.push(trial);
        }
        let section = of.queues().expect("it has them");
        let rows: Vec<(&str, Option<f64>)> = (section.table.rows.iter())
            .map(|row| (row.name.as_str(), value(&row.cells[1])))
            .collect();
        assert_eq!(
            rows,
            [("g, 1 queue", Some(1.0)), ("g, 8 queues", Some(2.5))]
        );
        assert!(section.command == "c" && section.notes[1].starts_with("g: "));
        let absent = no_queues();
        assert!(absent.table.rows.is_empty());
        assert!(absent.notes[0].contains("--measure queues"));
    }

    #[test]
    fn rates_are_of_their_layouts_and_of_all_pages() {
        let all = report(&[None, Some(5.0)], paper::PAGES.len());
        let rates = all.rates();
        assert_eq!(rates.len(), 1);
        assert_eq!(
            (rates[0].0.layout.as_str(), rates[0].1.requests_per_s),
            ("b", 5.0)
        );
        let mut text = String::new();
        all.table_3().write(&mut text);
        assert!(!text.contains("NaN"), "{text}");
        assert!(report(&[Some(5.0)], 1).rates().is_empty());
    }

    #[test]
    fn a_report_of_queues_alone_is_of_no_layouts() {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
        let read = DeviceReport::read(&results.join("2026-11-26-gpu-queues.json"));
        let alone = read.expect("it is one");
        assert!(!alone.has_layouts() && alone.rates().is_empty());
        let queues = alone.queues().expect("it has them");
        assert_eq!(queues.table.rows.len(), 3);
        assert!(alone.figure_9().is_none() && alone.figure_10().is_none());
    }
}
