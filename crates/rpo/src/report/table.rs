//! What a report holds.

use super::statistics::Estimate;
use crate::model::Second;
use serde::Serialize;

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
}
