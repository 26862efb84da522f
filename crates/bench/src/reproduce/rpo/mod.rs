//! `rhythm reproduce rpo`: the tables and figures of RPO's paper from its model, with the paper's
//! figures beside; nothing is measured, so it is the same on any machine. The tables are
//! `rhythm_rpo::report`'s; charts and files are made here.
//!
//! `measured` has those that are measured, with a real server on this machine (`--measured`).

mod chart;
mod claims;
mod measured;

pub use measured::{MeasuredEffort, MeasuredOptions, MeasuredReport, run_measured};

use super::error::ReproduceError;
use super::files::write;
use super::table::wrapped;
use super::verdicts::{Claim, Verdicts, write_claims};
use rhythm_rpo::model::Params;
use rhythm_rpo::report::{self, Report};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

/// How the paper's tables are made.
#[derive(Clone, Debug)]
pub struct RpoOptions {
    /// What is simulated.
    pub params: Params,
    /// Which that is, which the report tells.
    pub params_name: String,
    /// Runs of each case.
    pub seeds: usize,
    /// Where tables and charts go; made if it is not there.
    pub out: PathBuf,
    /// The commit of the program and its version, which the report tells.
    pub commit: String,
    /// The command line, which the report tells.
    pub command: String,
}

/// What is left in the file of data.
#[derive(Serialize)]
struct Data<'a> {
    commit: &'a str,
    command: &'a str,
    params: &'a Params,
    #[serde(flatten)]
    report: &'a Report,
    /// What the paper says, and whether that is so.
    claims: &'a [Claim],
    verdicts: &'a Verdicts,
}

/// Simulates all, and writes tables (rpo.md), data (rpo.json) and charts (SVG) into the folder;
/// `progress` is told how many runs of how many are done. What comes of the paper's claims.
///
/// # Errors
/// The parameters have not the paper's mixes, or the folder cannot be written.
pub fn run_rpo(
    options: &RpoOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Verdicts, ReproduceError> {
    // Before it takes its time.
    std::fs::create_dir_all(&options.out).map_err(ReproduceError::file(&options.out))?;
    let report = report::reproduce(&options.params, options.seeds, progress)?;
    let charts = chart::draw(&report)?;
    let claims = claims::of(&report.tables);
    let verdicts = Verdicts::of([], &claims);
    let data = Data {
        commit: &options.commit,
        command: &options.command,
        params: &options.params,
        report: &report,
        claims: &claims,
        verdicts: &verdicts,
    };
    let data = serde_json::to_string_pretty(&data)? + "\n";
    let text = markdown(options, &report, &claims, &charts);
    let mut files: Vec<(&str, String)> = vec![("rpo.md", text), ("rpo.json", data)];
    let charts = charts.iter();
    files.extend(charts.map(|(name, text)| (name.as_str(), text.clone())));
    write(files, &options.out)?;
    Ok(verdicts)
}

fn markdown(
    options: &RpoOptions,
    report: &Report,
    claims: &[Claim],
    charts: &[(String, String)],
) -> String {
    let mut text = String::from("# RPO: the paper's tables and figures, from its model\n\n");
    // Writing to a text cannot fail.
    let _ = writeln!(text, "- Parameters: {}", options.params_name);
    let _ = writeln!(text, "- Commit: {}", options.commit);
    let _ = writeln!(text, "- Command: `{}`\n", options.command);
    text.push_str(&report::markdown(report));
    write_claims(claims, &mut text);
    text.push_str("\n## Figures and charts, simulated\n\n");
    text.push_str(
        "Figures are one run each, of one seed; bars of ours have their 95 % confidence \
         intervals, and those of unstable runs are left out.\n\n",
    );
    for (name, _) in charts {
        let _ = writeln!(text, "![]({name})");
    }
    text.lines().map(wrapped).collect()
}
