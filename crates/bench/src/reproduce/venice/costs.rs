//! What `rhythm venice bench` measures: it has another process as a donor, and compares in turns.

use super::benched::Row;
use super::lab::Lab;
use super::unmade::Unmade;
use serde::Deserialize;
use std::rc::Rc;

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
