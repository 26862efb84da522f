//! The paper's tables and figures again, from the model: its figures beside ours.
//!
//! ```text
//! cases: setups, the paper's figures ──▶ runs: each once, in threads ──▶ tables ──▶ text, JSON
//! ```
//!
//! Ours are *simulated*: means over seeds with their 95 % confidence intervals. Power and cache
//! misses, of which the model has no notion, are *modeled*: by formulas fitted to the paper's own
//! figures. What cannot be had of either is named and left out.

mod cases;
mod classes;
mod modeled;
mod runs;
mod setup;
mod statistics;
mod table;
mod text;

use crate::model::{ModelError, Outcome, Params};
use cases::{Case, Plan};
use runs::Runs;
use setup::{Setup, Who};

pub use statistics::Estimate;
pub use table::{Cell, Column, Figure, Kind, Report, Row, Table};

/// Seconds of a run that a figure shows.
const FIGURE_SECONDS: usize = 300;

/// A report as Markdown.
#[must_use]
pub fn markdown(report: &Report) -> String {
    text::write(report)
}

/// A table's columns and rows as Markdown, each of one run and without columns that have
/// no figures: for reports of other papers.
#[must_use]
pub fn markdown_rows(table: &Table) -> String {
    let mut text = String::new();
    text::rows(&mut text, table, 1, false);
    text
}

/// Simulates all cases, so many seeds each, one at least, on all processors; `progress` is told how
/// many runs of how many are done.
///
/// # Errors
///
/// Where the parameters have not the paper's mixes.
pub fn reproduce(
    params: &Params,
    seeds: usize,
    progress: impl FnMut(usize, usize),
) -> Result<Report, ModelError> {
    let seeds = seeds.max(1);
    let plans = cases::plans();
    let setups = plans.iter().flat_map(|plan| &plan.cases);
    let setups = setups.map(|case| case.setup.clone());
    let runs = Runs::make(params, setups, seeds, progress)?;
    let mut tables: Vec<Table> = plans
        .iter()
        .map(|plan| table(params, plan, &runs))
        .collect();
    let at = tables.iter().position(|table| table.number == "VI");
    let unsimulated = [classes::misses(), classes::classes(params)?];
    let at = at.unwrap_or(tables.len());
    tables.splice(at..at, unsimulated);
    Ok(Report {
        seeds,
        tables,
        figures: figures(params)?,
        left_out: cases::LEFT_OUT.to_vec(),
    })
}

fn table(params: &Params, plan: &Plan, runs: &Runs) -> Table {
    Table {
        number: plan.number,
        title: plan.title,
        columns: plan.columns.to_vec(),
        rows: (plan.cases.iter())
            .map(|case| row(params, plan, case, runs.of(&case.setup)))
            .collect(),
        note: plan.note,
    }
}

fn row(params: &Params, plan: &Plan, case: &Case, outcomes: &[Outcome]) -> Row {
    let look = |outcome| (plan.look)(params, &case.setup, outcome);
    let seen: Vec<Vec<f64>> = outcomes.iter().map(look).collect();
    let cells = case.paper.iter().enumerate().map(|(column, &paper)| {
        let runs: Vec<f64> = seen.iter().map(|values| values[column]).collect();
        let is_said = runs.iter().all(|value| !value.is_nan());
        let ours = is_said.then(|| Estimate::of(&runs));
        Cell::Number { paper, ours }
    });
    Row {
        name: case.setup.name(),
        cells: cells.collect(),
        unstable: outcomes.iter().filter(|outcome| outcome.unstable).count(),
    }
}

/// Figures 1 and 2.
fn figures(params: &Params) -> Result<Vec<Figure>, ModelError> {
    let cores = params.server.cores;
    let figure = |number, title, who| -> Result<Figure, ModelError> {
        let setup = Setup {
            workload: cases::ordering(),
            ghz: 2.133,
            cores,
            who,
        };
        let mut seconds = setup.seconds(params, 1)?.seconds_seen;
        seconds.truncate(FIGURE_SECONDS);
        Ok(Figure {
            number,
            title,
            cores,
            seconds,
        })
    };
    let contention = "contention at the database, ordering with all threads";
    Ok(vec![
        figure("1", contention, Who::Ht)?,
        figure("2", "switching by RPO, ordering", Who::Rpo(20))?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_written_as_text_and_as_json() {
        let cell = |paper, runs: &[f64]| Cell::Number {
            paper,
            ours: Some(Estimate::of(runs)),
        };
        let none = Cell::Number {
            paper: Some(167.0),
            ours: None,
        };
        let row = Row {
            name: "browsing, HT".into(),
            cells: vec![
                cell(Some(20.0), &[21.0, 22.0, 23.0]),
                cell(None, &[0.5]),
                none,
            ],
            unstable: 1,
        };
        let column = |name, kind| Column { name, kind };
        let table = Table {
            number: "VI",
            title: "with RPO",
            columns: vec![
                column("R, ms", Kind::Simulated),
                column("U", Kind::Simulated),
                column("P, W", Kind::Modeled),
            ],
            rows: vec![row],
            note: "A note.",
        };
        let report = Report {
            seeds: 3,
            tables: vec![table],
            figures: Vec::new(),
            left_out: vec![("Table IV", "no caches")],
        };
        let text = markdown(&report);
        assert!(text.contains("## Table VI: with RPO\n"), "{text}");
        let head = "| R, ms: paper | *simulated* | U: paper | *simulated* | P, W: paper | \
                    *modeled* |";
        assert!(text.contains(head), "{text}");
        let row =
            "| browsing, HT (unstable in 1 of 3) | 20.0 | 22.0 ± 2.5 | - | 0.50 | 167.0 | - |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("Table IV: no caches"), "{text}");
        let json = report.json().expect("numbers and texts");
        assert!(
            json.contains("\"number\": \"VI\"") && json.contains("\"modeled\""),
            "{json}"
        );
    }

    #[test]
    fn all_the_papers_tables_are_here_in_their_order() {
        let params = Params::paper().expect("params/paper.toml");
        let mut numbers: Vec<&str> = cases::plans().iter().map(|plan| plan.number).collect();
        numbers.splice(
            3..3,
            ["IV", classes::classes(&params).expect("mixes").number],
        );
        let all = "I II III IV V VI VII VIII IX X XI XIV XV";
        assert_eq!(numbers.join(" "), all);
        for plan in cases::plans() {
            for case in &plan.cases {
                assert_eq!(case.paper.len(), plan.columns.len(), "{}", plan.number);
            }
        }
    }
}
