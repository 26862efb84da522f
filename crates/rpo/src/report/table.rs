//! What a report holds.

use super::statistics::Estimate;
use crate::model::Second;
use serde::Serialize;
use std::fmt;

/// What was simulated.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Runs of each case, each with its own seed.
    pub seeds: usize,
    /// The tables.
    pub tables: Vec<Table>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// What of the paper is not here, and why.
    pub left_out: Vec<(&'static str, &'static str)>,
}

/// How a figure of ours came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// On the machine that the report names.
    Measured,
    /// There, too, by counting what every run comes to: instructions, bytes.
    Counted,
    /// On that machine, with something in the place of what it has not: no network, processor time
    /// in the place of time.
    Emulated,
    /// By simulated runs: a mean over seeds.
    Simulated,
    /// By a formula that was fitted to the paper's own figures.
    Modeled,
    /// By a rule, from figures that are told.
    Computed,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kind::Measured => "measured",
            Kind::Counted => "counted",
            Kind::Emulated => "emulated",
            Kind::Simulated => "simulated",
            Kind::Modeled => "modeled",
            Kind::Computed => "computed",
        })
    }
}

/// A table of the paper.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Its number in the paper.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What its columns are.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// What is to be said of it.
    pub note: &'static str,
}

/// A column of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// What it is, with its unit.
    pub name: &'static str,
    /// How ours came about.
    pub kind: Kind,
}

/// A row: what it is of, and a cell for each column.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it is of.
    pub name: String,
    /// Its cells.
    pub cells: Vec<Cell>,
    /// In how many of the runs the server's limit was reached.
    pub unstable: usize,
}

/// A figure of the paper and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Of numbers.
    Number {
        /// The paper's.
        paper: Option<f64>,
        /// Ours; none where the model does not say.
        ours: Option<Estimate>,
    },
    /// Of words.
    Word {
        /// The paper's.
        paper: String,
        /// Ours.
        ours: String,
    },
}

/// A figure of the paper: one run, second by second.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Its number in the paper.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// How many processors there are with one a core.
    pub cores: u32,
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
