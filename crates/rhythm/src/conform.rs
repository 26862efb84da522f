//! `rhythm check --device`: every page on a device, compared with the reference.

use crate::device::{CudaArgs, Opened};
use crate::output::{complain, print_line};
use crate::progress;
use crate::remote::{DeviceChoice, Nodes};
use anyhow::{Result, anyhow, bail};
use indicatif::ProgressBar;
use rhythm_besim::Bank;
use rhythm_engine::cohort::Cohort;
use rhythm_engine::device::{Executor, LaneLimits, conformance};
use rhythm_engine::program::{PageProgram, Service};
use rhythm_engine_cuda::besim::answer_queries;
use rhythm_engine_cuda::executor::CudaExecutor;
use std::process::ExitCode;
use std::sync::Arc;

/// Cohorts of so many lanes are compared: one, two, odd ones, a warp and one more, and whole ones.
const LANES: [usize; 6] = [1, 2, 7, 33, 256, 4096];
/// Most lanes of a cohort for an emulated device, which is slow.
const LANES_EMULATED: usize = 256;

/// A comparison under way.
struct Comparison<'a> {
    opened: &'a Opened,
    /// What it is called.
    name: String,
    nodes: Option<&'a Nodes>,
    service: Arc<Service>,
    limits: LaneLimits,
    sizes: Vec<usize>,
    bar: ProgressBar,
    /// Runs so far, and those that differ.
    runs: usize,
    wrong: usize,
    /// Lanes that the host ran in the device's place, as it must some.
    on_host: u64,
    /// Stages that this machine ran in a node's place, as it must some.
    here: u64,
}

/// Compares every page, in cohorts of `lanes` or of several sizes.
///
/// # Errors
/// The device cannot be used, or fails.
pub(crate) fn run(
    device: &DeviceChoice,
    args: &CudaArgs,
    lanes: Option<u32>,
    service: Arc<Service>,
    nodes: Option<&Nodes>,
) -> Result<ExitCode> {
    let opened = device.here().open(args, &[&service])?;
    let sizes = LANES.into_iter();
    let sizes = match lanes {
        Some(lanes) => vec![lanes as usize],
        None if opened.is_emulated() => sizes.filter(|lanes| *lanes <= LANES_EMULATED).collect(),
        None => sizes.collect(),
    };
    let mut comparison = Comparison {
        limits: LaneLimits::of(&service.config.limits),
        opened: &opened,
        name: match device {
            DeviceChoice::Here(_) => opened.to_string(),
            remote => remote.to_string(),
        },
        nodes,
        service,
        sizes,
        bar: progress::steps(0),
        runs: 0,
        wrong: 0,
        on_host: 0,
        here: 0,
    };
    comparison.all()?;
    comparison.bar.finish_and_clear();
    comparison.report()
}

impl Comparison<'_> {
    /// Compares with backends that answer anything; then, where the device has the backend, with
    /// that.
    fn all(&mut self) -> Result<()> {
        if let Some(nodes) = self.nodes {
            return self.on_nodes(nodes);
        }
        if !self.opened.has_kernels() {
            // A stage is compared when all lanes have run it.
            let mut executor = self.opened.on_cpu(self.limits, usize::MAX);
            self.pages(&mut *executor, None);
            return Ok(());
        }
        self.on_device(None)?;
        match self.opened.besim_users() {
            Some(users) => self.on_device(Some(users)),
            None => Ok(()),
        }
    }

    /// Compares what other machines do, and sees that it was them.
    fn on_nodes(&mut self, nodes: &Nodes) -> Result<()> {
        let local = self.opened.on_cpu(self.limits, usize::MAX);
        let mut executor = nodes.alone(&self.service.clone(), local)?;
        let figures = nodes.figures();
        let [done, here] = [figures.done(), figures.here()];
        self.pages(&mut executor, None);
        self.here = figures.here() - here;
        if figures.done() == done && self.runs > 0 {
            bail!(
                "{}: this machine ran everything, so nothing is known of it",
                self.name
            );
        }
        Ok(())
    }

    /// Compares what the kernels do, and sees that it was them.
    fn on_device(&mut self, besim_users: Option<u32>) -> Result<()> {
        let opened = self.opened;
        let executor = opened.cuda(self.limits, besim_users, Arc::new(|| ()));
        let mut executor: CudaExecutor = executor.map_err(|why| anyhow!("{why}"))?;
        self.pages(&mut executor, besim_users.map(Bank::new).as_ref());
        if let Some(why) = executor.lost() {
            bail!("{opened}: {why}");
        }
        let statistics = executor.statistics();
        if statistics.lanes == 0 && self.runs > 0 {
            bail!("{opened}: the host ran everything, so nothing is known of the device");
        }
        self.on_host += statistics.on_host;
        Ok(())
    }

    fn pages(&mut self, executor: &mut dyn Executor, bank: Option<&Bank>) {
        let service = self.service.clone();
        self.bar
            .inc_length((service.pages.len() * self.sizes.len()) as u64);
        for (page, program) in service.pages.iter().enumerate() {
            for lanes in self.sizes.clone() {
                self.bar
                    .set_message(format!("{}, {lanes} lanes", program.name));
                let (seed, limits) = (lanes as u64, self.limits);
                let compared = match bank {
                    None => conformance::check(executor, &service, page, lanes, seed, limits),
                    Some(bank) => {
                        let answer = |program: &PageProgram, cohort: &mut Cohort| {
                            answer_queries(bank, program, cohort);
                        };
                        conformance::check_with_backend(
                            executor, &service, page, lanes, seed, limits, &answer,
                        )
                    }
                };
                self.runs += 1;
                if let Err(difference) = compared {
                    self.wrong += 1;
                    let name = &self.name;
                    self.bar
                        .suspend(|| complain(format_args!("{name}: {difference}")));
                }
                self.bar.inc(1);
            }
        }
    }

    fn report(&self) -> Result<ExitCode> {
        let opened = &self.name;
        if self.wrong > 0 {
            let (wrong, runs) = (self.wrong, self.runs);
            complain(format_args!(
                "{opened}: {wrong} of {runs} runs differ from the reference"
            ));
            return Ok(ExitCode::FAILURE);
        }
        let sizes: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
        let sizes = sizes.join(", ");
        print_line(format_args!(
            "{opened}: every byte of every page is the reference's, in cohorts of {sizes} lanes"
        ))?;
        if self.on_host > 0 {
            let on_host = self.on_host;
            print_line(format_args!(
                "{opened}: {on_host} of the lanes were left to the host"
            ))?;
        }
        if self.here > 0 {
            let here = self.here;
            print_line(format_args!(
                "{opened}: {here} of the stages were run by this machine"
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
