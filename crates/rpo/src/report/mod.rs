//! The paper's tables and figures again, from the model: its figures beside ours.
//!
//! All of ours are *simulated*: means over seeds with their 95 % confidence intervals. What the
//! model has no notion of (power, cache misses) is named and left out.

mod cases;
mod statistics;
mod table;
mod text;

use crate::model::{ModelError, Params};

pub use statistics::Estimate;
pub use table::{Cell, Figure, Report, Row, Table};

/// A report as Markdown.
#[must_use]
pub fn markdown(report: &Report) -> String {
    text::write(report)
}

/// Simulates all cases, so many seeds each; says which table is next.
///
/// # Errors
///
/// Where the parameters have not the paper's mixes.
pub fn reproduce(
    params: &Params,
    seeds: u64,
    mut next: impl FnMut(&str),
) -> Result<Report, ModelError> {
    let mut tables = Vec::new();
    for table in cases::tables() {
        next(table.number);
        tables.push(table.simulate(params, seeds.max(1))?);
    }
    next("figures");
    Ok(Report {
        kind: "simulated",
        seeds: seeds.max(1),
        tables,
        figures: cases::figures(params)?,
        left_out: cases::LEFT_OUT.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_written_as_text_and_as_json() {
        let cell = Cell {
            paper: Some(20.0),
            simulated: Estimate::of(&[21.0, 22.0, 23.0]),
        };
        let row = Row {
            name: "browsing, HT".into(),
            cells: vec![cell],
            unstable: 1,
        };
        let table = Table {
            number: "VI",
            title: "with RPO",
            columns: vec!["R, ms"],
            rows: vec![row],
            note: "A note.",
        };
        let report = Report {
            kind: "simulated",
            seeds: 3,
            tables: vec![table],
            figures: Vec::new(),
            left_out: vec![("Table IV", "no caches")],
        };
        let text = markdown(&report);
        assert!(text.contains("## Table VI: with RPO (simulated)"), "{text}");
        let row = "| browsing, HT (unstable in 1 of 3) | 20.0 | 22.0 ± 2.5 |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("Table IV: no caches"), "{text}");
        let json = report.json().expect("numbers and texts");
        assert!(json.contains("\"number\": \"VI\""), "{json}");
    }
}
