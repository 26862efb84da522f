//! What `rhythm venice bench` measures: it has another process as a donor, and compares in turns.

use super::lab::Lab;
use super::unmade::Unmade;
use serde::Deserialize;

/// A figure of its report.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    /// What is compared.
    pub(super) part: String,
    pub(super) transport: String,
    pub(super) bytes: Option<usize>,
    /// Who did it.
    pub(super) what: String,
    /// Of the turns.
    pub(super) median: f64,
    /// Against another, as it says.
    pub(super) ratio: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Report {
    rows: Vec<Row>,
}

/// Has it measure a part.
pub(super) fn bench(lab: &Lab<'_>, part: &str) -> Result<Vec<Row>, Unmade> {
    let turns = lab.options.effort.turns.to_string();
    let words = [
        "venice", "bench", "--only", part, "--rounds", &turns, "--json", "-",
    ];
    let ended = lab.run("rhythm venice bench", lab.rhythm(&words))?;
    let report = serde_json::from_str::<Report>(&ended.output);
    let report = report.map_err(|error| Unmade::Failed(format!("rhythm venice bench: {error}")))?;
    Ok(report.rows)
}

/// The command that measures a part by itself.
pub(super) fn command(part: &str) -> String {
    format!("rhythm venice bench --only {part}")
}
