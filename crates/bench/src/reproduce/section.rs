//! What the report is made of: tables of RPO's kind, with what is to be said of each.

use crate::median::median;
use rhythm_rpo::report::{Cell, Column, Estimate, Kind, Row, Table, markdown_rows};
use serde::Serialize;
use std::fmt::Write as _;

/// A table or figure of the paper again.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// Its columns and rows; without rows where it could not be had.
    pub table: Table,
    /// The command that makes it by itself, if there is one.
    pub command: String,
    /// What is to be said of it, what is absent too.
    pub notes: Vec<String>,
    /// The names of its charts.
    pub charts: Vec<&'static str>,
}

/// A column of figures.
pub(super) const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

/// The paper's figure and ours.
pub(super) fn cell(paper: impl Into<Option<f64>>, ours: impl Into<Option<f64>>) -> Cell {
    let certain = |mean| Estimate { mean, within: None };
    Cell::Number {
        paper: paper.into(),
        ours: ours.into().map(certain),
    }
}

/// Likewise of ours of turns: their median, and where there are several how far to either side of
/// it all of the 95 % confidence interval of their mean (Student's) is.
pub(super) fn of_turns(paper: impl Into<Option<f64>>, turns: &[f64]) -> Cell {
    let median = median(turns.iter().copied());
    let of_mean = Estimate::of(turns);
    Cell::Number {
        paper: paper.into(),
        ours: median.map(|median| Estimate {
            mean: median,
            within: (of_mean.within).map(|within| within + (of_mean.mean - median).abs()),
        }),
    }
}

/// Ours alone.
pub(super) fn ours(ours: impl Into<Option<f64>>) -> Cell {
    cell(None, ours)
}

/// What of a cell is ours.
pub(super) fn value(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Number { ours, .. } => ours.map(|ours| ours.mean),
        Cell::Word { .. } => None,
    }
}

impl Section {
    /// Of a title, as the paper numbers it, and columns; rows are to be added.
    pub(super) fn new(number: &'static str, title: &'static str, columns: &[Column]) -> Section {
        Section {
            table: Table {
                number,
                title,
                columns: columns.to_vec(),
                rows: Vec::new(),
                note: "",
            },
            command: String::new(),
            notes: Vec::new(),
            charts: Vec::new(),
        }
    }

    pub(super) fn by(mut self, command: &str) -> Section {
        command.clone_into(&mut self.command);
        self
    }

    pub(super) fn row(&mut self, name: impl Into<String>, cells: Vec<Cell>) {
        self.table.rows.push(Row {
            name: name.into(),
            cells,
            unstable: 0,
        });
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// As Markdown.
    pub(super) fn write(&self, text: &mut String) {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "\n## {}: {}\n", self.table.number, self.table.title);
        for chart in &self.charts {
            let _ = writeln!(text, "![]({chart})\n");
        }
        if !self.table.rows.is_empty() {
            text.push_str(&markdown_rows(&self.table));
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "- {note}");
        }
        if !self.command.is_empty() {
            let _ = writeln!(text, "- Command: `{}`", self.command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_have_a_median_and_the_interval_of_their_mean_around_it() {
        let of = |turns: &[f64]| match of_turns(7.0, turns) {
            Cell::Number { paper, ours } => {
                assert_eq!(paper, Some(7.0));
                ours.map(|ours| (ours.mean, ours.within))
            }
            Cell::Word { .. } => None,
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0]), Some((3.0, None)));
        let (median, within) = of(&[1.0, 2.0, 3.0]).expect("turns");
        assert!(median == 2.0 && within.is_some_and(|within| (within - 2.484).abs() < 1e-3));
        // One turn of another's doing moves the mean, and it stays within.
        let (median, within) = of(&[1.0, 1.0, 1.0, 1.0, 6.0]).expect("turns");
        assert!(median == 1.0 && within.is_some_and(|within| within > 1.0 + 2.7));
    }
}
