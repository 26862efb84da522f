//! What `rhythm bench device` measures, and how.

use super::part::Part;
use super::report::*;
use anyhow::{Context, Result, anyhow, bail};
use indicatif::ProgressBar;
use rhythm_bench::emulate::{self, EmulationOptions, MakeExecutor, Users, Witness, mix14};
use rhythm_bench::load::Page;
use rhythm_besim::Bank;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine_cuda::bandwidth::{self, Bandwidth};
use rhythm_engine_cuda::gpu::power::PowerMeter;
use rhythm_engine_cuda::gpu::{GpuError, SharedGpu, Stopwatch};
use rhythm_engine_cuda::layout::Layout;
use rhythm_engine_cuda::resident::{Resident, ResidentError, ResidentOptions, Trace};
use rhythm_protocol::scan::Level;
use rhythm_server::Site;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Cohort sizes that are tried.
const COHORTS: [usize; 5] = [256, 1024, 4096, 16384, 65536];
/// Cohorts in flight that are tried.
const IN_FLIGHT: [usize; 4] = [2, 8, 16, 32];
/// The largest of both in layout A, whose answers come to the host: what can cross is used up by
/// then, and memory of the host must be locked for all of them.
const CROSSING_MAX: (usize, usize) = (1024, 16);
/// Lots of requests that a page's trace has, which cohorts go round.
const LOTS: usize = 4;
/// Requests of the cohort whose answers are compared with the server's.
const COMPARED: usize = 256;
/// Runs of which the median counts.
const RUNS: usize = 3;
/// Most sessions there is room for while logins are measured: each one stays, and some hundred
/// milliseconds of them are wanted.
const SESSIONS_MAX: u64 = 1 << 26;
/// The page whose parameters are read while parsing is measured.
const PARSED_PAGE: Page = Page::BillPayStatusOutput;
/// The cohort size whose latency is measured for each page.
const LATENCY_COHORT: usize = 1024;
/// The cohort size whose kernels are timed for each page: it fills the device alone.
const KERNELS_COHORT: usize = 65536;

/// What some runs of cohorts came to.
struct Timed {
    /// Of the median run.
    requests_per_s: f64,
    slowest_per_s: f64,
    fastest_per_s: f64,
    /// When the first began and the last ended.
    from: Instant,
    to: Instant,
}

/// Everything that measuring needs.
pub(super) struct Bench {
    pub(super) gpu: SharedGpu,
    /// Bytes of its memory, where it is not emulated.
    pub(super) memory: Option<u64>,
    pub(super) site: Arc<Site>,
    pub(super) bank: Bank,
    pub(super) pages: Vec<Page>,
    pub(super) seconds: Duration,
    pub(super) parsers: usize,
    pub(super) transposes: bool,
    /// Empty: all.
    pub(super) parts: Vec<Part>,
    pub(super) power: Option<PowerMeter>,
    pub(super) bar: ProgressBar,
}

impl Bench {
    fn say(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Whether this part is wanted.
    pub(super) fn measures(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    fn page_index(&self, page: Page) -> Result<usize> {
        let pages = &self.site.service().pages;
        let index = pages.iter().position(|known| known.name == page.name());
        index.with_context(|| format!("the service has no page {}", page.name()))
    }

    /// Power while nothing runs.
    pub(super) fn idle(&self, is_emulated: bool) -> Option<f64> {
        let is_wanted = !is_emulated && self.measures(Part::Rates);
        let meter = self.power.as_ref().filter(|_| is_wanted)?;
        self.say("measuring power while idle".to_owned());
        let from = Instant::now();
        std::thread::sleep(Duration::from_secs(2));
        let power = meter.between(from, Instant::now());
        power.map(|power| power.mean_watts())
    }

    /// What the device's memory can do, by kernels that do nothing else.
    pub(super) fn bandwidth(&self, is_emulated: bool) -> Result<Bandwidth> {
        self.say("measuring the device's memory".to_owned());
        let bytes = match self.memory {
            // Two such buffers; in small devices other programs want some, too.
            Some(memory) if !is_emulated => (memory / 8).min(4 << 30) as usize,
            _ => 1 << 20,
        };
        Ok(bandwidth::measure(&self.gpu, bytes)?)
    }

    /// The host executor on all cores at once, each with a pipeline of its own.
    pub(super) fn host(&self, is_emulated: bool) -> Result<HostResult> {
        if !self.measures(Part::Host) {
            return Ok(HostResult::UNKNOWN);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.say(format!("measuring the host executor on {cores} cores"));
        let reports: Vec<emulate::Report> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..cores)
                .map(|_| {
                    scope.spawn(|| {
                        let make: MakeExecutor = Box::new(|| {
                            Ok(Box::new(HostExecutor::new(
                                LaneLimits::default(),
                                Level::active(),
                            )))
                        });
                        let options = EmulationOptions {
                            executors: vec![("host".to_owned(), make)],
                            cohort_size: 256,
                            in_flight: 2,
                            requests: if is_emulated { 512 } else { 20_000 },
                            repeats: 3,
                            ring_bytes: 84 << 20,
                            output: emulate::Output::Pages,
                            pages: self.pages.clone(),
                        };
                        emulate::run(&self.site, &options, &mut |_| {})
                    })
                })
                .collect();
            let lost = |_| anyhow!("a thread has panicked");
            threads
                .into_iter()
                .map(|thread| Ok(thread.join().map_err(lost)??))
                .collect::<Result<_>>()
        })?;
        let pages = self.pages.iter().map(|page| {
            let rate = |report: &emulate::Report| {
                let found = report.pages.iter().find(|found| found.page == page.name());
                found.map_or(f64::NAN, |found| found.executed[0].requests_per_s)
            };
            (*page, reports.iter().map(rate).sum())
        });
        let rates: Vec<(Page, f64)> = pages.collect();
        let pages = rates.iter().map(|(page, rate)| HostPage {
            page: page.name(),
            requests_per_s: *rate,
        });
        Ok(HostResult {
            cores,
            requests_per_s: Mean::of(&rates),
            pages: pages.collect(),
        })
    }

    fn options(&self, layout: Layout, cohort: usize, in_flight: usize) -> ResidentOptions {
        let lots = (cohort * LOTS) as u32;
        ResidentOptions {
            layout,
            cohort,
            in_flight,
            parsers: self.parsers.min(in_flight),
            transposes: self.transposes,
            limits: LaneLimits::default(),
            sessions: if cohort < COMPARED {
                1 << 14
            } else {
                lots.max(1 << 22)
            },
            idle_timeout_ms: 3_600_000,
            users: self.bank.users(),
            now: 0,
        }
    }

    fn resident(&self, options: ResidentOptions) -> Result<Resident, ResidentError> {
        self.resident_on(&self.gpu, options)
    }

    fn resident_on(
        &self,
        gpu: &SharedGpu,
        options: ResidentOptions,
    ) -> Result<Resident, ResidentError> {
        // A bench's sessions may be guessed.
        let mut seed = 1u64;
        let random = move || {
            seed = seed
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            seed
        };
        Resident::new(gpu, self.site.service(), options, random)
    }

    /// Logs users in on the device, so many lots of a cohort.
    fn log_in(&self, resident: &mut Resident, cohort: usize, lots: usize) -> Result<Users> {
        let mut users = Users::new(cohort * lots, self.bank);
        let trace = resident.load(&users.requests(Page::Login))?;
        resident.prepare(self.page_index(Page::Login)?, &trace)?;
        for lot in 0..lots {
            for answer in resident.ask(&trace, lot * cohort)? {
                let user = lot * cohort + answer.request as usize;
                if !users.logged_in(user, &answer.bytes) {
                    bail!("user {user} is not logged in: {:?}", answer.outcome);
                }
            }
        }
        Ok(users)
    }

    /// Each page's answers must be the server's: a figure for others would mean nothing.
    pub(super) fn compare(&self, layout: Layout) -> Result<()> {
        let mut witness = Witness::new(&self.site, COMPARED)?;
        let mut resident = self.resident(self.options(layout, COMPARED, 1))?;
        let mut users = self.log_in(&mut resident, COMPARED, 1)?;
        let every = Page::ALL
            .into_iter()
            .filter(|page| *page != Page::CheckDetailImage);
        for page in every {
            self.say(format!("layout {layout}: comparing {}", page.name()));
            let expected = witness.answers(page);
            let trace = resident.load(&users.requests(page))?;
            resident.prepare(self.page_index(page)?, &trace)?;
            for answer in resident.answers(0)? {
                let compared = answer.compare(&expected[answer.request as usize]);
                compared.map_err(|why| anyhow!("layout {layout}, page {}: {why}", page.name()))?;
            }
        }
        Ok(())
    }

    pub(super) fn layout(
        &self,
        layout: Layout,
        given: (Option<usize>, Option<usize>),
        report: &Report,
    ) -> Result<LayoutResult, ResidentError> {
        let began = Instant::now();
        let mut result = match self.measures(Part::Rates) {
            true => self.rates(layout, given, report)?,
            false => LayoutResult::of(layout),
        };
        if self.measures(Part::Latency) {
            result.latency = self.latency(layout)?;
        }
        if self.measures(Part::Kernels) {
            result.kernels = self.kernels(layout)?;
        }
        result.seconds = began.elapsed().as_secs_f64();
        Ok(result)
    }

    /// Each page with what goes best of the sizes that are not given.
    fn rates(
        &self,
        layout: Layout,
        given: (Option<usize>, Option<usize>),
        report: &Report,
    ) -> Result<LayoutResult, ResidentError> {
        let mut tried = Vec::new();
        let mut wanted = 0;
        // The page that the paper's mix has most of, if it is measured.
        let page = *self
            .pages
            .iter()
            .find(|page| **page == Page::AccountSummary)
            .unwrap_or(&self.pages[0]);
        let (cohort_max, in_flight_max) = match layout {
            Layout::A => CROSSING_MAX,
            _ => (usize::MAX, usize::MAX),
        };
        let up_to = |all: &[usize], most: usize| -> Vec<usize> {
            all.iter().copied().filter(|one| *one <= most).collect()
        };
        let cohorts = given.0.map_or(up_to(&COHORTS, cohort_max), |one| vec![one]);
        let in_flights = given
            .1
            .map_or(up_to(&IN_FLIGHT, in_flight_max), |one| vec![one]);
        for &cohort in &cohorts {
            for &in_flight in &in_flights {
                self.say(format!(
                    "layout {layout}: trying {in_flight} cohorts of {cohort} in flight"
                ));
                match self.trial(layout, cohort, in_flight, page) {
                    Ok(requests_per_s) => tried.push(Trial {
                        cohort,
                        in_flight,
                        requests_per_s,
                    }),
                    // Too much for this device: smaller ones may fit.
                    Err(ResidentError::Gpu(GpuError::OutOfMemory(bytes))) => wanted = bytes,
                    Err(error) => return Err(error),
                }
            }
        }
        // The page tried may have fitted where a longer one does not: then what went second best,
        // and so on.
        let mut order = tried.clone();
        order.sort_by(|a, b| b.requests_per_s.total_cmp(&a.requests_per_s));
        let mut order = order.into_iter();
        let (best, pages) = loop {
            let best = order.next().ok_or(GpuError::OutOfMemory(wanted))?;
            match self.measure_pages(layout, best, report) {
                Ok(pages) => break (best, pages),
                Err(ResidentError::Gpu(GpuError::OutOfMemory(bytes))) => wanted = bytes,
                Err(error) => return Err(error),
            }
        };
        let mut result = LayoutResult {
            trial_page: page.name(),
            tried,
            cohort: best.cohort,
            in_flight: best.in_flight,
            parsers: self.parsers.min(best.in_flight),
            pages,
            ..LayoutResult::of(layout)
        };
        result.summarize(&report.host, report.idle_watts);
        Ok(result)
    }

    /// Requests a second of one page.
    fn trial(
        &self,
        layout: Layout,
        cohort: usize,
        in_flight: usize,
        page: Page,
    ) -> Result<f64, ResidentError> {
        let mut resident = self.resident(self.options(layout, cohort, in_flight))?;
        let mut users = self
            .log_in(&mut resident, cohort, 1)
            .map_err(resident_error)?;
        let trace = resident.load(&users.requests(page))?;
        resident.prepare(self.page_index(page).map_err(resident_error)?, &trace)?;
        let timed = self.timed(
            &mut resident,
            &trace,
            [cohort, in_flight],
            self.seconds / 4,
            usize::MAX,
        )?;
        Ok(timed.requests_per_s)
    }

    /// Runs cohorts of this size, so many in flight, for about so long, no more than `cohorts_max`
    /// at once.
    fn timed(
        &self,
        resident: &mut Resident,
        trace: &Trace,
        [cohort, in_flight]: [usize; 2],
        long: Duration,
        cohorts_max: usize,
    ) -> Result<Timed, ResidentError> {
        // With fewer the device would be filling and running dry all the time.
        let least = (2 * in_flight).min(cohorts_max);
        let mut cohorts = least.max(8.min(cohorts_max));
        // Once to warm up, then more until it takes a tenth of the time.
        let mut took = resident.run(trace, cohorts)?;
        while took < long / 10 && cohorts * 4 <= cohorts_max {
            cohorts *= 4;
            took = resident.run(trace, cohorts)?;
        }
        let each = long.as_secs_f64() / RUNS as f64;
        let wanted = (each / took.as_secs_f64().max(1e-9) * cohorts as f64) as usize;
        let cohorts = wanted.clamp(least, cohorts_max);
        let from = Instant::now();
        let mut all = (0..RUNS)
            .map(|_| resident.run(trace, cohorts))
            .collect::<Result<Vec<_>, _>>()?;
        let to = Instant::now();
        all.sort_unstable();
        let rate = |took: Duration| (cohorts * cohort) as f64 / took.as_secs_f64();
        Ok(Timed {
            requests_per_s: rate(all[RUNS / 2]),
            slowest_per_s: rate(all[RUNS - 1]),
            fastest_per_s: rate(all[0]),
            from,
            to,
        })
    }

    /// Sessions there is room for while pages are measured.
    fn sessions(&self, least: u32) -> u32 {
        // 32 bytes each, and a sixty-fourth of the memory at most.
        let room = self.memory.unwrap_or(0) / 64 / 32;
        (room.min(SESSIONS_MAX) as u32).max(least)
    }

    fn measure_pages(
        &self,
        layout: Layout,
        best: Trial,
        report: &Report,
    ) -> Result<Vec<PageResult>, ResidentError> {
        let Trial {
            cohort, in_flight, ..
        } = best;
        let mut options = self.options(layout, cohort, in_flight);
        options.sessions = self.sessions(options.sessions);
        let mut resident = self.resident(options)?;
        let mut users = self
            .log_in(&mut resident, cohort, LOTS)
            .map_err(resident_error)?;
        // Logout ends the users' sessions, and login fills the array: these two come last.
        let mut pages = self.pages.clone();
        pages.sort_by_key(|page| (*page == Page::Login, *page == Page::Logout));
        let mut found = Vec::new();
        for page in pages {
            self.say(format!("layout {layout}: measuring {}", page.name()));
            if page == Page::Login {
                resident.forget_sessions()?;
            }
            let trace = resident.load(&users.requests(page))?;
            resident.prepare(self.page_index(page).map_err(resident_error)?, &trace)?;
            // To warm up, for which there are up to one and a third as many, and for all runs.
            let room = options.sessions as usize / cohort / (RUNS + 3);
            let cohorts_max = if page == Page::Login {
                room.max(1)
            } else {
                usize::MAX
            };
            let timed = self.timed(
                &mut resident,
                &trace,
                [cohort, in_flight],
                self.seconds,
                cohorts_max,
            )?;
            if resident.finished()? < cohort {
                return Err(ResidentError::Page {
                    page: page.name().to_owned(),
                    why: "some of its requests failed while it was measured",
                });
            }
            let power = self.power.as_ref();
            let power = power.and_then(|meter| meter.between(timed.from, timed.to));
            let requests_per_s = timed.requests_per_s;
            let [written, own] = resident.answer_bytes()?;
            let mut on_host = report.host.pages.iter();
            let on_host = on_host.find(|host| host.page == page.name());
            let watts = power.map(|power| power.mean_watts());
            let crossed_bytes = resident.crossed_bytes();
            let Bandwidth {
                to_device_gb_per_s,
                to_host_gb_per_s,
                ..
            } = report.bandwidth;
            let crossing = (crossed_bytes[0] / to_device_gb_per_s)
                .max(crossed_bytes[1] / to_host_gb_per_s)
                * requests_per_s
                / 1e9;
            let of_write_bandwidth =
                written * requests_per_s / 1e9 / report.bandwidth.write_gb_per_s;
            found.push(PageResult {
                kind: page,
                page: page.name(),
                mix14_percent: mix14(page),
                mix16_percent: page.mix(),
                requests_per_s,
                slowest_per_s: timed.slowest_per_s,
                fastest_per_s: timed.fastest_per_s,
                answer_bytes: own,
                written_bytes: written,
                written_gb_per_s: written * requests_per_s / 1e9,
                of_write_bandwidth,
                crossed_bytes,
                of_crossing_bandwidth: crossing,
                of_host: on_host.map_or(f64::NAN, |host| requests_per_s / host.requests_per_s),
                watts,
                requests_per_joule: watts.map(|watts| requests_per_s / watts),
                clock_mhz: power.and_then(|power| power.clock_mhz),
            });
        }
        found.sort_by_key(|found| Page::ALL.iter().position(|page| *page == found.kind));
        Ok(found)
    }

    /// The device's time for one cohort alone, each page.
    fn latency(&self, layout: Layout) -> Result<Vec<Latency>, ResidentError> {
        let cohort = LATENCY_COHORT.min(self.cohort_max());
        let mut resident = self.resident(self.options(layout, cohort, 1))?;
        let mut users = self
            .log_in(&mut resident, cohort, 1)
            .map_err(resident_error)?;
        let times = if cohort < LATENCY_COHORT { 4 } else { 200 };
        let mut found = Vec::new();
        for &page in self
            .pages
            .iter()
            .filter(|page| !matches!(page, Page::Login | Page::Logout))
        {
            self.say(format!("layout {layout}: latency of {}", page.name()));
            let trace = resident.load(&users.requests(page))?;
            resident.prepare(self.page_index(page).map_err(resident_error)?, &trace)?;
            let mut all = resident.latency_ms(&trace, times)?;
            all.sort_by(f32::total_cmp);
            let at = |share: f64| {
                all.get(((all.len() - 1) as f64 * share) as usize)
                    .copied()
                    .unwrap_or(f32::NAN)
            };
            found.push(Latency {
                page: page.name(),
                cohort,
                p50_ms: at(0.5),
                p99_ms: at(0.99),
                max_ms: at(1.0),
            });
        }
        Ok(found)
    }

    /// What each kernel takes of a cohort that has the device for itself, each page.
    fn kernels(&self, layout: Layout) -> Result<Vec<PageKernels>, ResidentError> {
        let cohort = KERNELS_COHORT.min(self.cohort_max());
        let stopwatch = Stopwatch::new(&self.gpu);
        let gpu: SharedGpu = stopwatch.clone();
        let mut resident = self.resident_on(&gpu, self.options(layout, cohort, 1))?;
        let mut users = self
            .log_in(&mut resident, cohort, 1)
            .map_err(resident_error)?;
        let mut pages = self.pages.clone();
        pages.sort_by_key(|page| (*page == Page::Login, *page == Page::Logout));
        let mut found = Vec::new();
        for page in pages {
            self.say(format!("layout {layout}: kernels of {}", page.name()));
            let trace = resident.load(&users.requests(page))?;
            resident.prepare(self.page_index(page).map_err(resident_error)?, &trace)?;
            resident.run(&trace, 1)?;
            stopwatch.start();
            let ran = resident.run(&trace, RUNS);
            let launches = stopwatch.stop()?;
            ran?;
            let each = (launches.len() / RUNS).max(1);
            let median = |launch: usize| {
                let runs = launches.iter().skip(launch).step_by(each);
                let mut runs: Vec<f32> = runs.map(|(_, took)| *took).collect();
                runs.sort_by(f32::total_cmp);
                runs.get(runs.len() / 2).copied().unwrap_or(f32::NAN)
            };
            let launched = launches.iter().take(each).enumerate();
            found.push(PageKernels {
                kind: page,
                page: page.name(),
                cohort,
                kernels: launched
                    .map(|(launch, (kernel, _))| KernelTime {
                        kernel: kernel.name(),
                        ns_a_request: f64::from(median(launch)) * 1e6 / cohort as f64,
                    })
                    .collect(),
            });
        }
        Ok(found)
    }

    /// The emulation is for small things.
    fn cohort_max(&self) -> usize {
        if self.gpu.multiprocessors() < 8 {
            64
        } else {
            usize::MAX
        }
    }

    /// Parsing alone, of a mixed trace.
    pub(super) fn parsing(&self, is_emulated: bool, found: &mut Vec<Parsing>) -> Result<()> {
        for transposes in [true, false] {
            for instances in [1, 4, 8] {
                for cohort in [4096, 16384].map(|cohort: usize| cohort.min(self.cohort_max())) {
                    self.say(format!("parsing: {instances} instances, lots of {cohort}"));
                    let options = ResidentOptions {
                        parsers: instances,
                        transposes,
                        ..self.options(Layout::Runs, cohort, instances)
                    };
                    let mut resident = self.resident(options)?;
                    let mut users = self.log_in(&mut resident, cohort, 1)?;
                    let trace = resident.load(&users.mixed(&[Page::CheckDetailImage]))?;
                    resident.prepare(self.page_index(PARSED_PAGE)?, &trace)?;
                    let mut lots = if is_emulated { 2 } else { 64 };
                    resident.parse(&trace, lots)?;
                    let mut took = resident.parse(&trace, lots)?;
                    while took < self.seconds / 4 && !is_emulated {
                        lots *= 4;
                        took = resident.parse(&trace, lots)?;
                    }
                    found.push(Parsing {
                        transposed: transposes,
                        params_of: PARSED_PAGE.name(),
                        instances,
                        lot: cohort,
                        requests_per_s: (lots * cohort) as f64 / took.as_secs_f64(),
                        microseconds_per_lot: took.as_secs_f64() * 1e6 / lots as f64,
                    });
                    if is_emulated {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

fn resident_error(error: anyhow::Error) -> ResidentError {
    match error.downcast::<ResidentError>() {
        Ok(error) => error,
        Err(other) => ResidentError::Gpu(GpuError::Failed(format!("{other:#}"))),
    }
}
