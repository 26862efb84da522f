//! A report as Markdown.

use super::table::{Cell, Report, Table};
use std::fmt::Write as _;

pub(super) fn write(report: &Report) -> String {
    let mut text = format!(
        "# RPO: the paper's tables, {}\n\nMeans over {} seeds, with 95 % confidence intervals; \
         beside each the paper's figure.\n",
        report.kind, report.seeds
    );
    for table in &report.tables {
        one(&mut text, table, report);
    }
    text.push_str("\n## Not here\n\n");
    for (what, why) in &report.left_out {
        let _ = writeln!(text, "- {what}: {why}");
    }
    text
}

fn one(text: &mut String, table: &Table, report: &Report) {
    let _ = writeln!(
        text,
        "\n## Table {}: {} ({})\n",
        table.number, table.title, report.kind
    );
    text.push_str("| |");
    for column in &table.columns {
        let _ = write!(text, " paper: {column} | ours |");
    }
    text.push_str("\n|---|");
    text.push_str(&"---|---|".repeat(table.columns.len()));
    text.push('\n');
    for row in &table.rows {
        let unstable = if row.unstable > 0 {
            format!(" (unstable in {} of {})", row.unstable, report.seeds)
        } else {
            String::new()
        };
        let _ = write!(text, "| {}{unstable} |", row.name);
        for cell in &row.cells {
            let _ = write!(text, " {} |", two(cell));
        }
        text.push('\n');
    }
    if !table.note.is_empty() {
        let _ = writeln!(text, "\n{}", table.note);
    }
}

/// The paper's and ours, with as many digits as their size asks for.
fn two(cell: &Cell) -> String {
    let digits = if cell.simulated.mean.abs() < 2.0 {
        2
    } else {
        1
    };
    let paper = cell
        .paper
        .map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let ours = format!("{:.digits$}", cell.simulated.mean);
    match cell.simulated.within {
        Some(within) => format!("{paper} | {ours} ± {within:.digits$}"),
        None => format!("{paper} | {ours}"),
    }
}
