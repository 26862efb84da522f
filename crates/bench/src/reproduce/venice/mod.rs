//! `rhythm reproduce venice`: the evaluation of *Venice: Exploring Server Architectures for
//! Effective Resource Sharing* (HPCA 2016), its figures beside ours.
//!
//! ```text
//!   workload: redis-server, BerkeleyDB, our programs --+
//!     lab: here, or by `rhythm venice run`             +--> sections --> Markdown, JSON, SVG
//!          with `rhythm venice lend`, over a link      |
//!   channels: `rhythm venice bench` -------------------+
//! ```
//!
//! Nothing of the crate venice is named here: its commands are run as their users run them, so that
//! what they do to programs that know nothing of it is what is measured. A figure for which this
//! machine lacks something is left out, and the report says for what; one whose programs find
//! something else than they do locally has failed.

mod benched;
mod cache;
mod channels;
mod chart;
mod claims;
mod costs;
mod database;
mod lab;
mod latency;
mod link;
mod memory;
mod namespaces;
mod nic;
mod options;
mod paper;
mod ready;
mod redis;
mod unmade;
mod workload;

pub use options::{Figure, VeniceEffort, VeniceOptions};

use super::children::Folder;
use super::error::ReproduceError;
use super::files::write;
use super::progress::ReproduceProgress;
use super::section::Section;
use super::table::wrapped;
use super::verdicts::{Claim, Verdicts, write_claims};
use lab::Lab;
use serde::Serialize;
use std::fmt::Write as _;
use unmade::Unmade;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct VeniceReport {
    machine: String,
    commit: String,
    command: String,
    /// Figures, in the paper's order.
    pub sections: Vec<Section>,
    /// What this machine lacks for figures that are left out.
    pub lacking: Vec<String>,
    /// What went wrong with figures that were to be made.
    pub failed: Vec<String>,
    /// What the paper says, as far as these decide it.
    pub claims: Vec<Claim>,
    /// Whether that is so.
    pub verdicts: Verdicts,
}

/// Makes a figure, and tells each of its steps when it begins. What sections there are is made,
/// whatever becomes of the rest.
type Make = fn(&Lab<'_>, &mut dyn FnMut(&str), &mut Vec<Section>) -> Result<(), Unmade>;

/// How a figure is made.
struct Part {
    figure: Figure,
    steps: usize,
    make: Make,
}

fn parts(lab: &Lab<'_>) -> Vec<Part> {
    let part = |figure, steps, make: Make| Part {
        figure,
        steps,
        make,
    };
    vec![
        part(Figure::Three, memory::figure_3_steps(lab), memory::figure_3),
        part(Figure::Five, 1, latency::figure_5),
        part(Figure::Six, 1, latency::figure_6),
        part(Figure::Fourteen, cache::steps(lab), cache::figure_14),
        part(
            Figure::Fifteen,
            memory::figure_15_steps(lab),
            memory::figure_15,
        ),
        part(Figure::Sixteen, 1, channels::figure_16a),
        part(Figure::Sixteen, nic::steps(lab), nic::figure_16b),
        part(Figure::Seventeen, 1, channels::figure_17),
        part(Figure::Eighteen, 1, channels::figure_18),
    ]
}

/// Makes the figures, and writes tables (venice.md), data (venice.json) and charts (SVG) into the
/// folder, after each part; `progress` is called at each step.
///
/// # Errors
/// The folder cannot be written. Figures that are not made are none: the report says why.
pub fn run_venice(
    options: &VeniceOptions,
    progress: &mut dyn FnMut(ReproduceProgress<'_>),
) -> Result<VeniceReport, ReproduceError> {
    // Before it takes its time.
    std::fs::create_dir_all(&options.out).map_err(ReproduceError::file(&options.out))?;
    let lab = Lab::new(options, Folder::new()?);
    let mut parts = parts(&lab);
    parts.retain(|part| options.figures.contains(&part.figure));
    let of = parts.iter().map(|part| part.steps).sum();
    let mut report = VeniceReport {
        machine: options.machine.clone(),
        commit: options.commit.clone(),
        command: options.command.clone(),
        sections: Vec::new(),
        lacking: Vec::new(),
        failed: Vec::new(),
        claims: Vec::new(),
        verdicts: Verdicts::default(),
    };
    let mut before = 0;
    for part in &parts {
        let mut done = before;
        let mut tell = |what: &str| {
            let what = &format!("{}: {what}", part.figure);
            progress(ReproduceProgress { done, of, what });
            done += 1;
        };
        match (part.make)(&lab, &mut tell, &mut report.sections) {
            Ok(()) => {}
            Err(Unmade::Lacking(why)) => report.lacking.push(format!("{}: {why}", part.figure)),
            Err(Unmade::Failed(why)) => report.failed.push(format!("{}: {why}", part.figure)),
        }
        before += part.steps;
        report.claims = claims::of(&report.sections);
        report.verdicts = Verdicts::of([], &report.claims);
        report.write(options)?;
    }
    Ok(report)
}

impl VeniceReport {
    fn write(&self, options: &VeniceOptions) -> Result<(), ReproduceError> {
        let mut files = chart::draw(&self.sections)?;
        files.push(("venice.md", self.markdown()));
        files.push(("venice.json", serde_json::to_string_pretty(self)? + "\n"));
        write(files, &options.out)
    }

    /// As Markdown.
    fn markdown(&self) -> String {
        let mut text = String::from("# Venice: the paper's evaluation\n\n");
        // Writing to a text cannot fail.
        let _ = writeln!(text, "- Machine: {}", self.machine);
        let _ = writeln!(text, "- Commit: {}", self.commit);
        let _ = writeln!(text, "- Command: `{}`\n", self.command);
        text.push_str(
            "The paper's figure is beside each of ours, where its text says it; most of its bars \
             are drawn alone. Its machines are eight boards with a fabric of their own; ours are \
             processes of the machine above: read what is told in times of something else. \
             *Measured*: there. A figure is the median of its turns, and all of the 95 % \
             confidence interval of their mean (Student's) is within the ±. A dash: there is \
             none.\n",
        );
        for section in &self.sections {
            section.write(&mut text);
        }
        write_claims(&self.claims, &mut text);
        let not_here = [("Failed", &self.failed), ("Left out here", &self.lacking)];
        for (title, lines) in not_here.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            let _ = writeln!(text, "\n## {title}\n");
            for line in lines {
                let _ = writeln!(text, "- {line}");
            }
        }
        text.push_str(
            "\n## Not made\n\n\
             - Memory hot-plug (the paper's section 5.2.1): declined. It needs hardware that shows \
             a machine another's memory, and a kernel that may lose it at any time; here memory is \
             borrowed for single programs, by page faults.\n\
             - Swap, local or remote (the other bars of Figures 3 and 15): it would be a device of \
             the whole machine, which a reproduction is not to change.\n\
             - Area and power of the chip (section 7.3).\n",
        );
        text.lines().map(wrapped).collect()
    }
}
