//! `--device`: executors by name, and the flags that say how a GPU is used.

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use clap::error::ErrorKind;
use rhythm_engine::device::host::{HostExecutor, PASS_WORK_MAX};
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, LaneLimits};
use rhythm_engine::program::Service;
use rhythm_engine_cuda::besim::embedded_users;
use rhythm_engine_cuda::executor::{CudaExecutor, Options};
use rhythm_engine_cuda::gpu::SharedGpu;
use rhythm_engine_cuda::gpu::driver::{DeviceDescription, Driver};
#[cfg(feature = "cuda-emulation")]
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder};
use rhythm_engine_cuda::layout::Layout;
use rhythm_protocol::scan::Level;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// What an executor calls, from any thread, when it has finished something.
type Wake = Arc<dyn Fn() + Send + Sync>;

/// Executors by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// One request at a time, in plain code: the reference.
    Scalar,
    /// One operation at a time for all requests of a cohort, with SIMD.
    Host,
    /// An NVIDIA GPU, through its driver.
    Cuda,
    /// The kernels of cuda run thread by thread on the CPU: slow, to try them out.
    #[cfg(feature = "cuda-emulation")]
    CudaEmulated,
}

impl Device {
    /// Whether it runs the kernels.
    fn has_kernels(self) -> bool {
        !matches!(self, Device::Scalar | Device::Host)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", PossibleValue::get_name))
    }
}

/// A layout, with its summary in the help.
#[derive(Clone, Copy, Debug)]
struct LayoutName(Layout);

impl ValueEnum for LayoutName {
    fn value_variants<'a>() -> &'a [LayoutName] {
        const ALL: [LayoutName; Layout::ALL.len()] = {
            let mut all = [LayoutName(Layout::A); Layout::ALL.len()];
            let mut index = 0;
            while index < all.len() {
                all[index] = LayoutName(Layout::ALL[index]);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.summary()))
    }
}

/// How many queues between host and device streams share. The driver reads it when it begins.
pub(crate) const QUEUES: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
/// The most that there can be; 8 where nobody says.
const QUEUES_MAX: &str = "32";

/// Where the device is a GPU, and nobody has said how many queues it is to have: starts this
/// program anew with the most, before it has done anything. Streams share queues, and one that
/// waits holds up the others of its queue: 32 cohorts in flight came to a third less with 8 of them
/// (docs/results/2026-11-26-gpu.md). To change one's own environment is nothing for safe code.
pub(crate) fn take_all_queues(device: Device) {
    if device != Device::Cuda || std::env::var_os(QUEUES).is_some() {
        return;
    }
    let Ok(this) = std::env::current_exe() else {
        return;
    };
    let mut given = std::env::args_os();
    let mut command = Command::new(this);
    if let Some(name) = given.next() {
        command.arg0(name);
    }
    // It only comes back where it fails, and then there are the 8.
    let _ = command.args(given).env(QUEUES, QUEUES_MAX).exec();
}

/// How many queues there are to be, where somebody has said it.
pub(crate) fn queues_asked_for() -> Option<u32> {
    std::env::var(QUEUES).ok()?.parse().ok()
}

/// How a GPU is used.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Options of --device cuda")]
pub(crate) struct CudaArgs {
    /// How answers are made on the GPU [default: runs]
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<LayoutName>,

    /// Cohorts that the GPU has at a time, for each thread of the server [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    cohorts_in_flight: Option<u32>,

    /// Which GPU, as CUDA counts them [default: 0]
    #[arg(long, value_name = "N")]
    gpu: Option<u32>,
}

impl CudaArgs {
    /// Sees that they are given only where they say something.
    ///
    /// # Errors
    /// A wrong flag, as clap says it.
    pub(crate) fn check(&self, devices: &[Device]) -> Result<(), clap::Error> {
        let given = [
            ("--layout", self.layout.is_some()),
            ("--cohorts-in-flight", self.cohorts_in_flight.is_some()),
            ("--gpu", self.gpu.is_some()),
        ];
        let wrong = |flag: &str, device: &str, why: &str| {
            let text = format!("{flag} is for --device {device}; {why}\n");
            Err(clap::Error::raw(ErrorKind::ArgumentConflict, text))
        };
        for (flag, _) in given.iter().filter(|(_, is_given)| *is_given) {
            if !devices.iter().any(|device| device.has_kernels()) {
                return wrong(flag, "cuda", "add it, or leave this flag out");
            }
        }
        if self.gpu.is_some() && !devices.contains(&Device::Cuda) {
            return wrong("--gpu", "cuda", "the emulation is no GPU of this machine");
        }
        Ok(())
    }

    fn layout(&self) -> Layout {
        self.layout.map_or_else(Layout::default, |name| name.0)
    }
}

/// A device that is there, and makes executors.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    device: Device,
    cuda: Option<Cuda>,
}

#[derive(Clone, Debug)]
struct Cuda {
    gpu: SharedGpu,
    description: Option<DeviceDescription>,
    layout: Layout,
    in_flight: usize,
    /// Lanes of its cohorts, and bytes of a cohort's answers.
    cohort: usize,
    answers_bytes_max: usize,
    besim_users: Option<u32>,
}

impl Cuda {
    fn options(&self, limits: LaneLimits, besim_users: Option<u32>) -> Options {
        Options {
            layout: self.layout,
            limits,
            in_flight: self.in_flight,
            cohort: self.cohort,
            besim_users,
            ..Options::default()
        }
    }

    /// The same for a server, whose cohorts' answers are bounded: more than that would find no room
    /// in them.
    fn server_options(&self, limits: LaneLimits) -> Options {
        Options {
            delivered_bytes: self.answers_bytes_max,
            pass_work_max: PASS_WORK_MAX,
            ..self.options(limits, self.besim_users)
        }
    }
}

impl Device {
    /// Opens it, to serve pages of these services.
    ///
    /// # Errors
    /// One sentence that says why it cannot be used, and what to do.
    pub(crate) fn open(self, args: &CudaArgs, services: &[&Service]) -> Result<Opened> {
        if !self.has_kernels() {
            return Ok(Opened {
                device: self,
                cuda: None,
            });
        }
        let layout = args.layout();
        let besim_users = besim_users(layout, services)?;
        let cohort = &services[0].config.cohort;
        let (gpu, description): (SharedGpu, _) = match self {
            #[cfg(feature = "cuda-emulation")]
            Device::CudaEmulated => (Emulated::new(LaneOrder::default()), None),
            _ => {
                let driver = Driver::open(args.gpu.unwrap_or(0));
                let driver = driver.map_err(|why| anyhow!("--device {self}: {why}"))?;
                let description = driver.describe().clone();
                (driver, Some(description))
            }
        };
        Ok(Opened {
            device: self,
            cuda: Some(Cuda {
                gpu,
                description,
                layout,
                in_flight: args.cohorts_in_flight.unwrap_or(4) as usize,
                cohort: cohort.size as usize,
                answers_bytes_max: cohort.arena_bytes_max as usize,
                besim_users,
            }),
        })
    }
}

/// The users of the embedded backend, where the device may answer for it.
fn besim_users(layout: Layout, services: &[&Service]) -> Result<Option<u32>> {
    let mut users = None;
    for backend in services.iter().flat_map(|service| &service.backends) {
        let Some(of_backend) = embedded_users(backend) else {
            if layout.has_device_backend() {
                let what = match backend.kind {
                    rhythm_besim::KIND => format!("at {}", backend.shown_text("url")),
                    kind => format!("of kind {kind}"),
                };
                bail!(
                    "--layout {layout} has the backend on the GPU, but {} is {what}: \
                     give --backend {}=embedded, or --layout a",
                    backend.name,
                    backend.name
                );
            }
            continue;
        };
        // The device has one bank.
        if users
            .replace(of_backend)
            .is_some_and(|other| other != of_backend)
        {
            return Ok(None);
        }
    }
    Ok(users.filter(|_| layout != Layout::A))
}

impl Opened {
    /// An executor for cohorts of a server, which calls `wake` from any thread when it has finished
    /// something.
    ///
    /// # Errors
    /// The GPU cannot be used, or has no room.
    pub(crate) fn executor(
        &self,
        limits: LaneLimits,
        wake: Wake,
    ) -> Result<Box<dyn Executor>, String> {
        let Some(cuda) = &self.cuda else {
            return Ok(self.on_cpu(limits, PASS_WORK_MAX));
        };
        let executor = self.with_kernels(cuda, cuda.server_options(limits), wake)?;
        Ok(Box::new(executor))
    }

    /// The same, to be lent: cohorts are others', and of any size. What is run on the thread that
    /// it is for ends a pass when it has done enough.
    ///
    /// # Errors
    /// The GPU cannot be used, or has no room.
    pub(crate) fn lent(&self, limits: LaneLimits, wake: Wake) -> Result<Box<dyn Executor>, String> {
        let Some(cuda) = &self.cuda else {
            return Ok(self.on_cpu(limits, PASS_WORK_MAX));
        };
        let options = Options {
            pass_work_max: PASS_WORK_MAX,
            // Backends are the front ends': what a device could answer for them it does not.
            ..cuda.options(limits, None)
        };
        Ok(Box::new(self.with_kernels(cuda, options, wake)?))
    }

    /// Makes an executor of a device without kernels that ends a pass of a stage when it has done
    /// so much work; with `usize::MAX` a stage is one pass, where there is memory.
    pub(crate) fn on_cpu(&self, limits: LaneLimits, pass_work_max: usize) -> Box<dyn Executor> {
        match self.device {
            Device::Scalar => Box::new(ScalarExecutor::new(limits)),
            _ => {
                let host = HostExecutor::new(limits, Level::active());
                Box::new(host.in_passes_of(pass_work_max))
            }
        }
    }

    /// Most memory of the host, in bytes, that such an executor has for what goes to a GPU and
    /// comes back.
    pub(crate) fn host_bytes_max(&self, limits: LaneLimits, services: &[&Service]) -> usize {
        let options = self.cuda.as_ref().map(|cuda| cuda.server_options(limits));
        let of_each = |options: Options| {
            let each = services
                .iter()
                .map(|service| options.host_bytes_max(service));
            each.max().unwrap_or(0)
        };
        options.map_or(0, of_each)
    }

    /// One of a device that has kernels, for cohorts of any size, with the backend there for so
    /// many users.
    ///
    /// # Errors
    /// The GPU cannot be used, or has no room.
    pub(crate) fn cuda(
        &self,
        limits: LaneLimits,
        besim_users: Option<u32>,
        wake: Wake,
    ) -> Result<CudaExecutor, String> {
        let cuda = self.cuda.as_ref();
        let cuda = cuda.ok_or_else(|| format!("--device {} is no GPU", self.device))?;
        self.with_kernels(cuda, cuda.options(limits, besim_users), wake)
    }

    fn with_kernels(
        &self,
        cuda: &Cuda,
        options: Options,
        wake: Wake,
    ) -> Result<CudaExecutor, String> {
        let executor = CudaExecutor::new(cuda.gpu.clone(), options, wake);
        executor.map_err(|why| format!("--device {}: {why}", self.device))
    }

    /// Whether it runs the kernels.
    pub(crate) fn has_kernels(&self) -> bool {
        self.cuda.is_some()
    }

    /// Users of the backend that its executors have on the device, too.
    pub(crate) fn besim_users(&self) -> Option<u32> {
        self.cuda.as_ref()?.besim_users
    }

    /// The GPU that it is, where it is one.
    pub(crate) fn gpu(&self) -> Option<&DeviceDescription> {
        self.cuda.as_ref()?.description.as_ref()
    }

    /// Whether it is an emulation, which takes its time.
    pub(crate) fn is_emulated(&self) -> bool {
        self.cuda
            .as_ref()
            .is_some_and(|cuda| cuda.description.is_none())
    }
}

impl fmt::Display for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cuda {
            Some(cuda) => write!(f, "{}-{}", self.device, cuda.layout),
            None => self.device.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_engine::cohort::{Cohort, LaneState};
    use rhythm_engine::compile::compile;
    use rhythm_engine::device::Work;
    use rhythm_engine::source::Sources;

    #[test]
    fn what_is_lent_ends_a_pass_when_it_has_done_enough() {
        let mut sources = Sources::default();
        for (name, text) in [
            ("service.toml", ""),
            (
                "pages/slow.html",
                "+++\nroute = \"GET /slow\"\n+++\n{% for i in range(120000) %}{{ i }}{% endfor %}",
            ),
        ] {
            sources.files.insert(name.to_owned(), text.to_owned());
        }
        let service = Arc::new(compile(&sources, &[]).expect("it compiles"));
        let mut cohort = Box::new(Cohort::default());
        cohort.reset(&service.pages[0]);
        for _ in 0..3 {
            cohort.push_lane();
        }
        let opened = Device::Host.open(&CudaArgs::default(), &[&service]);
        let opened = opened.expect("it is there");
        let executor = opened.lent(LaneLimits::default(), Arc::new(|| ()));
        let mut executor = executor.expect("it needs nothing");
        let work = Work {
            service,
            page: 0,
            cohort,
            token: 0,
        };
        executor.submit(work).expect("it takes everything");
        let mut done = Vec::new();
        executor.poll(&mut done);
        use LaneState::{Finished, Later};
        assert_eq!(done[0].cohort.lanes, [Finished, Later, Later]);
    }
}
