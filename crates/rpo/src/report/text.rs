//! A report as Markdown.

use super::table::{Cell, Report, Table};
use std::fmt::Write as _;

pub(super) fn write(report: &Report) -> String {
    let mut text = format!(
        "Each figure of the paper is beside ours: *simulated* ones are means over {} seeds with \
         95 % confidence intervals, *modeled* ones are by a formula fitted to the paper's own \
         figures, *computed* ones by the paper's rule. None is measured.\n",
        report.seeds
    );
    for table in &report.tables {
        one(&mut text, table, report);
    }
    if !report.left_out.is_empty() {
        text.push_str("\n## Not here\n\n");
    }
    for (what, why) in &report.left_out {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "- {what}: {why}");
    }
    text
}

fn one(text: &mut String, table: &Table, report: &Report) {
    let _ = writeln!(text, "\n## Table {}: {}\n", table.number, table.title);
    rows(text, table, report.seeds, true);
    if !table.note.is_empty() {
        let _ = writeln!(text, "\n{}", table.note);
    }
}

/// The columns and rows of a table, of this many runs each; `has_all`: also columns of the paper's
/// figures, or of ours, that have none.
pub(super) fn rows(text: &mut String, table: &Table, runs: usize, has_all: bool) {
    let has = |column: usize, of: fn(&Cell) -> bool| {
        let cells = table.rows.iter().filter_map(|row| row.cells.get(column));
        has_all || cells.into_iter().any(of)
    };
    let shown: Vec<(bool, bool)> = (0..table.columns.len())
        .map(|column| {
            let papers = has(column, |cell| {
                !matches!(cell, Cell::Number { paper: None, .. })
            });
            (
                papers,
                has(column, |cell| {
                    !matches!(cell, Cell::Number { ours: None, .. })
                }),
            )
        })
        .collect();
    text.push_str("| |");
    let mut line = String::from("|---|");
    for (column, (papers, ours)) in table.columns.iter().zip(&shown) {
        if *papers {
            let _ = write!(text, " {}: paper |", column.name);
        }
        if *ours {
            let name = if *papers {
                String::new()
            } else {
                format!("{}, ", column.name)
            };
            let _ = write!(text, " {name}*{}* |", column.kind);
        }
        line.push_str(&"---|".repeat(usize::from(*papers) + usize::from(*ours)));
    }
    let _ = writeln!(text, "\n{line}");
    for row in &table.rows {
        let unstable = if row.unstable > 0 {
            format!(" (unstable in {} of {runs})", row.unstable)
        } else {
            String::new()
        };
        let _ = write!(text, "| {}{unstable} |", row.name);
        for (cell, (has_papers, has_ours)) in row.cells.iter().zip(&shown) {
            let [papers, ours] = two(cell);
            if *has_papers {
                let _ = write!(text, " {papers} |");
            }
            if *has_ours {
                let _ = write!(text, " {ours} |");
            }
        }
        text.push('\n');
    }
}

/// The paper's and ours, each with as many digits as its size asks for.
fn two(cell: &Cell) -> [String; 2] {
    let (paper, ours) = match cell {
        Cell::Word { paper, ours } => return [paper.clone(), ours.clone()],
        Cell::Number { paper, ours } => (paper, ours),
    };
    let none = || "-".to_owned();
    let paper = paper.map_or_else(none, |value| format!("{value:.0$}", digits(value)));
    let ours = ours.map_or_else(none, |ours| {
        let digits = digits(ours.mean);
        match ours.within {
            Some(within) => format!("{:.digits$} ± {within:.digits$}", ours.mean),
            None => format!("{:.digits$}", ours.mean),
        }
    });
    [paper, ours]
}

/// Digits behind the point of a figure of this size.
fn digits(value: f64) -> usize {
    match value.abs() {
        size if size < 2.0 => 2,
        size if size < 1000.0 => 1,
        _ => 0,
    }
}
