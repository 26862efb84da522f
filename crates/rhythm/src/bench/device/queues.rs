//! What queues between host and device are worth: cohorts in flight together, by how many there
//! are. The driver reads their number as it begins, so each number has a process of its own: this
//! program again, which measures one layout and page.

use super::report::Concurrency;
use crate::device::{Device, QUEUES};
use anyhow::{Context, Result, bail};
use rhythm_bench::load::Page;
use rhythm_bench::reproduce;
use rhythm_engine_cuda::layout::Layout;
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Numbers that are tried: one, as the paper's older card has it (section 6.4), what there is where
/// nobody says, and the most.
const TRIED: [u32; 3] = [1, 8, 32];
/// Requests of a cohort, where nothing else is said: the paper's.
const COHORT: u32 = 4096;
/// Cohorts in flight, likewise: as many as there can be queues.
const IN_FLIGHT: u32 = 32;
/// One of the processes takes its seconds, and before them what is long with the emulation.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
const LAYOUT: Layout = Layout::Row;
const PAGE: Page = Page::AccountSummary;

/// What is measured with: as was asked for.
pub(super) struct Asked<'a> {
    pub(super) service: &'a Path,
    pub(super) device: Device,
    pub(super) gpu: Option<u32>,
    pub(super) cohort: Option<u32>,
    pub(super) in_flight: Option<u32>,
    pub(super) seconds: f64,
}

/// The other process's report, as far as it is looked at.
#[derive(Deserialize)]
struct Told {
    report: Of,
}

#[derive(Deserialize)]
struct Of {
    layouts: Vec<OfLayout>,
}

#[derive(Deserialize)]
struct OfLayout {
    pages: Vec<OfPage>,
}

#[derive(Deserialize)]
struct OfPage {
    requests_per_s: f64,
}

/// Measures with each number; what was found before a failure stays.
pub(super) fn measure(
    asked: &Asked<'_>,
    say: &dyn Fn(String),
    found: &mut Vec<Concurrency>,
) -> Result<()> {
    let cohort = asked.cohort.unwrap_or(COHORT);
    let in_flight = asked.in_flight.unwrap_or(IN_FLIGHT);
    for queues in TRIED {
        say(format!(
            "{in_flight} cohorts of {cohort} in flight by {queues} queues"
        ));
        let requests_per_s = rate(asked, queues, [cohort, in_flight])?;
        found.push(Concurrency {
            queues,
            layout: LAYOUT.to_string(),
            page: PAGE.name(),
            cohort,
            in_flight,
            requests_per_s,
        });
    }
    Ok(())
}

/// Requests a second of a process that has so many queues.
fn rate(asked: &Asked<'_>, queues: u32, [cohort, in_flight]: [u32; 2]) -> Result<f64> {
    let mut command = Command::new(std::env::current_exe().context("this program")?);
    command
        .env(QUEUES, queues.to_string())
        .args(["bench", "device", "--measure", "rates", "--json", "-"])
        .args(["--layout", LAYOUT.name(), "--page", PAGE.name()])
        .args(["--cohort-size", &cohort.to_string()])
        .args(["--cohorts-in-flight", &in_flight.to_string()])
        .args(["--seconds", &asked.seconds.to_string()])
        .args(["--device", &asked.device.to_string(), "--service"])
        .arg(asked.service);
    if let Some(gpu) = asked.gpu {
        command.args(["--gpu", &gpu.to_string()]);
    }
    command.stdin(Stdio::null());
    let output = reproduce::output(&mut command, PATIENCE).context("this program again")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("with {queues}: {}", said.trim());
    }
    let told: Told = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("what it told with {queues}"))?;
    // One layout and page were asked for.
    let mut pages = told.report.layouts.iter().flat_map(|of| &of.pages);
    let page = pages.next().context("it told no rate")?;
    Ok(page.requests_per_s)
}
