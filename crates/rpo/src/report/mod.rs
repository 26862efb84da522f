//! The paper's tables and figures again, from the model: its figures beside ours.
//!
//! All of ours are *simulated*: means over seeds with their 95 % confidence intervals. What the
//! model has no notion of (power, cache misses) is named and left out.

mod cases;
mod markdown;
mod statistics;

use crate::model::{ModelError, Params, Second};
use serde::Serialize;

pub use statistics::Estimate;

/// What was simulated.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How the figures came about; never anything but "simulated" here.
    pub kind: &'static str,
    /// Runs of each case, each with its own seed.
    pub seeds: u64,
    /// The tables.
    pub tables: Vec<Table>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// What of the paper is not here, and why.
    pub left_out: Vec<(&'static str, &'static str)>,
}

/// A table of the paper.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Its number in the paper.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What its columns are, those of figures.
    pub columns: Vec<&'static str>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// What is to be said of it.
    pub note: &'static str,
}

/// A row: what it is of, and a cell for each column.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it is of.
    pub name: String,
    /// Its cells.
    pub cells: Vec<Cell>,
    /// In how many of the runs the server's limit was reached.
    pub unstable: u64,
}

/// A figure of the paper and ours.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cell {
    /// The paper's.
    pub paper: Option<f64>,
    /// Ours.
    pub simulated: Estimate,
}

/// A figure of the paper: one run, second by second.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Its number in the paper.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Each second of the run.
    pub seconds: Vec<Second>,
}

impl Report {
    /// As JSON.
    ///
    /// # Errors
    ///
    /// Never with what a report holds.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }

    /// As Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::write(self)
    }
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
        let text = report.markdown();
        assert!(text.contains("## Table VI: with RPO (simulated)"), "{text}");
        let row = "| browsing, HT (unstable in 1 of 3) | 20.0 | 22.0 ± 2.5 |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("Table IV: no caches"), "{text}");
        let json = report.json().expect("numbers and texts");
        assert!(json.contains("\"number\": \"VI\""), "{json}");
    }
}
