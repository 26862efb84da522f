//! `rhythm reproduce rhythm`: the evaluation of the paper *Rhythm* (ASPLOS 2014), its figures
//! beside ours.
//!
//! ```text
//!   valgrind, with our program as its child --> counted  --+
//!   the emulation, on this machine's cores  --> executed --+--> sections --> Markdown, JSON, SVG
//!   reports of `rhythm bench device`        --> gpu -------+       |  ^
//!                                                 +--> formed -----|--+
//!                                                 +--> computed ---|--+
//!                                                                  +--> claims, verdicts
//! ```
//!
//! What is absent is said where it would stand, with what would measure it.

mod chart;
mod claims;
mod computed;
mod counted;
mod executed;
mod formed;
mod gpu;
mod options;
mod paper;
mod similarity;
mod valgrind;
mod verdicts;

pub use options::{Effort, RhythmOptions};

pub use valgrind::{BEGIN, END};

use super::children::Folder;
use super::error::ReproduceError;
use super::files::write;
use super::progress::ReproduceProgress;
use super::section::Section;
use super::table::wrapped;
use super::verdicts::{Claim, Verdicts, write_claims};
use gpu::DeviceReport;
use rhythm_server::{ServerOptions, Site};
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;
use valgrind::Valgrind;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct RhythmReport {
    machine: String,
    commit: String,
    command: String,
    /// Tables and figures, in the paper's order.
    pub sections: Vec<Section>,
    /// What the paper says, as far as the run decides it.
    pub claims: Vec<Claim>,
    /// What is to be said of our figures beside the paper's, and of these.
    pub verdicts: Verdicts,
}

/// Steps besides a page's instructions: rates, rates of arrivals, buffers, cohort sizes, the
/// parser.
const STEPS: usize = 2 + 8 + 1 + 6 + 1;
/// Further ones where there is valgrind: traces and system calls.
const COUNTED: usize = 2;

/// Measures and computes all, and writes tables (report.md), data (report.json) and charts (SVG)
/// into the folder; `progress` is called at each step.
///
/// # Errors
/// What valgrind executes does not go on, a page is not what was asked for, a report of a device
/// cannot be read, or the folder cannot be written. A missing valgrind is none: the report says
/// what is absent for it.
pub fn run_rhythm(
    site: &Arc<Site>,
    options: &RhythmOptions,
    progress: &mut dyn FnMut(ReproduceProgress<'_>),
) -> Result<RhythmReport, ReproduceError> {
    // Before it takes its time.
    std::fs::create_dir_all(&options.out).map_err(ReproduceError::file(&options.out))?;
    let reports = options.device_reports.iter();
    let gpus: Vec<DeviceReport> = reports
        .map(|path| DeviceReport::read(path))
        .collect::<Result<_, _>>()?;
    // Where a report cannot be simulated, that is said before the rest takes its time.
    // A report may be of something else of a card alone.
    let of_layouts = || of_layouts(&gpus);
    let formed = of_layouts().map(|gpu| formed::latency(gpu, site, options));
    let formed = formed.collect::<Result<Vec<_>, _>>()?;
    let rates = gpus.iter().flat_map(DeviceReport::rates);
    let rates: Vec<gpu::Rate> = rates.map(|(_, rate)| rate).collect();
    // Not where the report goes, in which others may have files of any name.
    let folder = Folder::new()?;
    let found = Valgrind::new(
        &options.valgrind,
        &options.program,
        &options.service,
        folder.path(),
    );
    let of = STEPS
        + match &found {
            Ok(_) => COUNTED + options.pages.len(),
            Err(_) => 0,
        };
    let mut done = 0;
    let mut tell = |what: &str| {
        progress(ReproduceProgress { done, of, what });
        done += 1;
    };
    let mut sections = match &found {
        Ok(valgrind) => vec![
            counted::table_2(valgrind, options, &mut tell)?,
            counted::figure_2(valgrind, options, &mut tell)?,
            counted::system_calls(valgrind, options, &mut tell).or_else(counted::not_counted)?,
        ],
        Err(why) => counted::absent(why),
    };
    let reached = executed::reach(site, options, &mut tell)?;
    sections.insert(1, executed::table_2(&reached));
    sections.push(executed::table_3(options, &reached));
    sections.push(executed::latency(site, options, &reached, &mut tell)?);
    sections.extend(of_layouts().map(DeviceReport::table_3));
    if of_layouts().next().is_none() {
        sections.push(gpu::absent("Table 3, GPU", "throughput, power and latency"));
    }
    sections.extend(formed);
    if of_layouts().next().is_none() {
        sections.push(gpu::absent(formed::NUMBER, formed::TITLE));
    }
    let commands = of_rates(&gpus);
    sections.extend(gpus.iter().rev().find_map(DeviceReport::row_layout));
    sections.push(computed::figure_8(&reached, &rates).by(&commands));
    let last_of = |of: fn(&DeviceReport) -> Option<Section>, number, title| {
        // One of each: the last report's, as far as it has the layout.
        let last = gpus.iter().rev().find_map(of);
        last.unwrap_or_else(|| gpu::absent(number, title))
    };
    let figure_9 = ("Figure 9", "answers across PCIe (layout a)");
    sections.push(last_of(DeviceReport::figure_9, figure_9.0, figure_9.1));
    let figure_10 = ("Figure 10", "pages of layout b");
    sections.push(last_of(DeviceReport::figure_10, figure_10.0, figure_10.1));
    sections.push(executed::buffers(site, options, &mut tell)?);
    sections.push(computed::projection(&reached, &gpus).by(&commands));
    sections.push(computed::cores(&reached, &rates, options.watts_core).by(&commands));
    let server = ServerOptions::of(site.service());
    let resources = computed::resources(&reached, &rates, &server.sessions[0]);
    sections.push(resources.by(&commands));
    sections.push(executed::cohort_sizes(site, options, &mut tell)?);
    sections.extend(of_layouts().map(DeviceReport::cohort_sizes));
    let queues: Vec<Section> = gpus.iter().filter_map(DeviceReport::queues).collect();
    match queues.is_empty() {
        true => sections.push(gpu::no_queues()),
        false => sections.extend(queues),
    }
    sections.push(executed::parser(&gpus, &mut tell));
    for section in &mut sections {
        if section.command.is_empty() && !section.table.rows.is_empty() {
            // Nothing makes it by itself.
            section.command.clone_from(&options.command);
        }
        section.notes.extend(verdicts::note(section));
    }
    let claims = claims::of(&sections);
    let report = RhythmReport {
        machine: options.machine.clone(),
        commit: options.commit.clone(),
        command: options.command.clone(),
        verdicts: Verdicts::of(verdicts::of(&sections), &claims),
        claims,
        sections,
    };
    let mut files = chart::draw(&report.sections)?;
    files.push(("report.md", report.markdown()));
    files.push(("report.json", serde_json::to_string_pretty(&report)? + "\n"));
    write(files, &options.out)?;
    Ok(report)
}

/// Those that are of layouts; of others, parts alone are.
fn of_layouts(gpus: &[DeviceReport]) -> impl Iterator<Item = &DeviceReport> {
    gpus.iter().filter(|gpu| gpu.has_layouts())
}

/// The commands whose figures others are computed of.
fn of_rates(gpus: &[DeviceReport]) -> String {
    let own = [executed::COMMAND].into_iter();
    let all: Vec<&str> = own
        .chain(of_layouts(gpus).map(DeviceReport::command))
        .collect();
    all.join("; ")
}

impl RhythmReport {
    /// As Markdown.
    fn markdown(&self) -> String {
        let mut text = String::from("# Rhythm: the paper's evaluation\n\n");
        // Writing to a text cannot fail.
        let _ = writeln!(text, "- Machine: {}", self.machine);
        let _ = writeln!(text, "- Commit: {}", self.commit);
        let _ = writeln!(text, "- Command: `{}`\n", self.command);
        text.push_str(
            "The paper's figure is beside each of ours, where it has one. *Measured*: on the \
             machine above, or on the card that is named; *counted*: there, too, what every run \
             comes to; *emulated*: on that machine without network; *simulated*: by a model of \
             how cohorts form; *computed*: from figures that are told. A dash: there is none.\n\n\
             Verdicts are of figures that both have: ours is within 10 % of the paper's, or it \
             differs, and by how many times it is as much is told. Those of another program or \
             card than the paper's are not comparable.\n",
        );
        for section in &self.sections {
            section.write(&mut text);
        }
        write_claims(&self.claims, &mut text);
        text.lines().map(wrapped).collect()
    }
}
