//! The charts: bars of the paper's figures and ours by table, and what goes on in time.

use crate::reproduce::charts::{Bars, Line, Panel, Series, Times, failed};
use crate::reproduce::error::ReproduceError;
use rhythm_rpo::model::Second;
use rhythm_rpo::report::{Cell, Figure, Kind, Report, Row, Table};

/// The column that a table is drawn by, where it has it; else all are.
const RESPONSE: &str = "R, ms";

/// The names and texts of all charts.
pub(super) fn draw(report: &Report) -> Result<Vec<(String, String)>, ReproduceError> {
    let mut charts = Vec::new();
    for drawn in &report.figures {
        let text = figure(drawn).draw().map_err(failed)?;
        charts.push((format!("figure-{}.svg", drawn.number), text));
    }
    let simulated = |table: &&Table| (table.columns.iter()).any(|of| of.kind == Kind::Simulated);
    for table in report.tables.iter().filter(simulated) {
        let text = bars(table).draw().map_err(failed)?;
        charts.push((format!("table-{}.svg", table.number.to_lowercase()), text));
    }
    Ok(charts)
}

fn bars(table: &Table) -> Bars {
    let by_response = table.columns.iter().any(|column| column.name == RESPONSE);
    let mut series = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        if by_response && column.name != RESPONSE {
            continue;
        }
        let of = |who: &str| match by_response {
            true => who.to_owned(),
            false => format!("{who}: {}", column.name.trim_end_matches(", %")),
        };
        let (papers, ours) = (table.rows.iter())
            .map(|row| drawn(row, at))
            .unzip::<_, _, Vec<_>, Vec<_>>();
        series.push(Series {
            name: of("paper"),
            values: papers,
            within: Vec::new(),
        });
        let (values, within) = ours.into_iter().unzip();
        series.push(Series {
            name: of(&column.kind.to_string()),
            values,
            within,
        });
    }
    let label = |row: &Row| match row.unstable {
        0 => row.name.clone(),
        _ => format!("{}, unstable", row.name),
    };
    Bars {
        title: format!("Table {}: {}", table.number, table.title),
        unit: if by_response { RESPONSE } else { "%" }.to_owned(),
        labels: table.rows.iter().map(label).collect(),
        series,
        is_stacked: false,
    }
}

/// The paper's figure, and ours with its interval; nothing where that is not known, or where the
/// server was unstable, which would leave no room for the others.
fn drawn(row: &Row, column: usize) -> (f64, (f64, f64)) {
    let Some(Cell::Number { paper, ours }) = row.cells.get(column) else {
        return (0.0, (0.0, 0.0));
    };
    let ours = ours.filter(|_| row.unstable == 0);
    let ours = ours.map_or((0.0, 0.0), |ours| (ours.mean, ours.within.unwrap_or(0.0)));
    (paper.unwrap_or(0.0), ours)
}

fn figure(figure: &Figure) -> Times {
    let line = |name: &str, of: &dyn Fn(&Second) -> f64| Line {
        name: name.to_owned(),
        points: (figure.seconds.iter().enumerate())
            .map(|(at, second)| (at as f64, of(second)))
            .collect(),
    };
    let panel = |unit: &str, line| Panel {
        unit: unit.to_owned(),
        lines: vec![line],
    };
    let response = |second: &Second| match second.completed {
        0 => 0.0,
        completed => second.response_sum / completed as f64 * 1e3,
    };
    let cores = |second: &Second| f64::from(figure.cores * u32::from(second.threads));
    let panels = match figure.number {
        "2" => vec![panel("processors", line("processors", &cores))],
        _ => vec![
            panel(RESPONSE, line("response time", &response)),
            panel(
                "at the database",
                line("requests", &|second| second.at_lock as f64),
            ),
        ],
    };
    Times {
        title: format!("Figure {}: {} (simulated)", figure.number, figure.title),
        panels,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_rpo::report::{Column, Estimate};

    fn row(name: &str, ours: &[f64], unstable: usize) -> Row {
        Row {
            name: name.to_owned(),
            cells: vec![Cell::Number {
                paper: Some(20.0),
                ours: Some(Estimate::of(ours)),
            }],
            unstable,
        }
    }

    #[test]
    fn unstable_runs_leave_room_for_the_others() {
        let table = Table {
            number: "II",
            title: "ordering",
            columns: vec![Column {
                name: RESPONSE,
                kind: Kind::Simulated,
            }],
            rows: vec![row("HT", &[9e4, 8e4], 2), row("NOHT", &[21.0, 23.0], 0)],
            note: "",
        };
        let bars = bars(&table);
        assert_eq!(bars.labels, ["HT, unstable", "NOHT"]);
        assert_eq!(bars.series[0].values, [20.0, 20.0]);
        assert_eq!(bars.series[1].values, [0.0, 22.0]);
        assert!(bars.series[1].within[1] > 1.0);
        assert_eq!(bars.series[1].name, "simulated");
    }

    #[test]
    fn a_figure_has_its_seconds() {
        let second = Second {
            completed: 4,
            response_sum: 0.2,
            at_lock: 7,
            threads: 2,
        };
        let drawn = |number| Figure {
            number,
            title: "x",
            cores: 4,
            seconds: vec![Second::default(), second],
        };
        let one = figure(&drawn("1"));
        assert_eq!(one.panels[0].lines[0].points, [(0.0, 0.0), (1.0, 50.0)]);
        assert_eq!(one.panels[1].lines[0].points, [(0.0, 0.0), (1.0, 7.0)]);
        let two = figure(&drawn("2"));
        assert_eq!(two.panels[0].lines[0].points, [(0.0, 0.0), (1.0, 8.0)]);
        assert!(two.draw().expect("a chart").contains("Figure 2"));
    }
}
