//! What `rhythm venice bench` measures: it has another process as a donor, and compares in turns.

use super::lab::Lab;
use super::unmade::Unmade;
use serde::Deserialize;
use std::rc::Rc;

/// A figure of its report.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    /// What is compared.
    pub(super) part: String,
    pub(super) transport: String,
    pub(super) bytes: Option<usize>,
    /// Who did it.
    pub(super) what: String,
    /// Its figure in each turn.
    pub(super) turns: Vec<f64>,
}

/// Times that one is of another, turn by turn.
pub(super) fn ratios(one: &[f64], other: &[f64]) -> Vec<f64> {
    let turns = one.iter().zip(other);
    turns.map(|(one, other)| one / other).collect()
}

#[derive(Debug, Deserialize)]
struct Report {
    rows: Vec<Row>,
}

/// Has it measure a part, once for all figures that are of it.
pub(super) fn bench(lab: &Lab<'_>, part: &'static str) -> Result<Rc<[Row]>, Unmade> {
    if let Some(rows) = lab.benched.borrow().get(part) {
        return Ok(rows.clone());
    }
    let turns = lab.options.effort.turns.to_string();
    let words = [
        "venice", "bench", "--only", part, "--rounds", &turns, "--json", "-",
    ];
    let ended = lab.run("rhythm venice bench", lab.rhythm(&words))?;
    let report = serde_json::from_str::<Report>(&ended.output);
    let report = report.map_err(|error| Unmade::Failed(format!("rhythm venice bench: {error}")))?;
    let rows: Rc<[Row]> = report.rows.into();
    lab.benched.borrow_mut().insert(part, rows.clone());
    Ok(rows)
}

/// The command that measures a part by itself.
pub(super) fn command(part: &str) -> String {
    format!("rhythm venice bench --only {part}")
}
