//! The charts of sections, by the names that these give them.

use crate::reproduce::charts::{Bars, Series, failed};
use crate::reproduce::error::ReproduceError;
use crate::reproduce::section::Section;
use rhythm_rpo::report::{Cell, Estimate};

/// Which columns of its section a chart has as bars, and their unit.
const CHARTS: [(&str, &[usize], &str); 10] = [
    ("figure-3.svg", &[0], "times all local"),
    ("figure-5.svg", &[0, 1], "times QPair, off-chip"),
    ("figure-6.svg", &[0, 1], "times without"),
    ("figure-14.svg", &[0, 1], "times the most memory"),
    ("figure-15.svg", &[0], "times all local"),
    ("figure-16a.svg", &[0, 1], "times one local"),
    ("figure-16b.svg", &[0, 1], "% of local NICs"),
    ("figure-17-tcp.svg", &[0, 1, 2], "of the fastest"),
    ("figure-17-shared.svg", &[0, 1, 2], "of the fastest"),
    (
        "figure-18.svg",
        &[0, 1, 2, 3, 4],
        "times credits by messages",
    ),
];

/// The names and texts of all charts.
pub(super) fn draw(sections: &[Section]) -> Result<Vec<(&'static str, String)>, ReproduceError> {
    let mut charts = Vec::new();
    let has_rows = |section: &&Section| !section.table.rows.is_empty();
    for section in sections.iter().filter(has_rows) {
        for &name in &section.charts {
            if let Some((_, columns, unit)) = CHARTS.iter().find(|(chart, ..)| *chart == name) {
                charts.push((name, bars(section, columns, unit).draw().map_err(failed)?));
            }
        }
    }
    Ok(charts)
}

fn papers(cell: &Cell) -> Option<Estimate> {
    match cell {
        Cell::Number { paper, .. } => paper.map(|mean| Estimate { mean, within: None }),
        Cell::Word { .. } => None,
    }
}

fn ours(cell: &Cell) -> Option<Estimate> {
    match cell {
        Cell::Number { ours, .. } => *ours,
        Cell::Word { .. } => None,
    }
}

fn bars(section: &Section, columns: &[usize], unit: &str) -> Bars {
    let table = &section.table;
    let mut series = Vec::new();
    for &at in columns {
        let column = table.columns[at];
        let named = [
            (
                format!("paper: {}", column.name),
                papers as fn(&Cell) -> Option<Estimate>,
            ),
            (format!("{}: {}", column.kind, column.name), ours),
        ];
        for (name, of) in named {
            let values = table.rows.iter().map(|row| row.cells.get(at).and_then(of));
            let values: Vec<Option<Estimate>> = values.collect();
            if values.iter().any(Option::is_some) {
                series.push(Series {
                    name,
                    values: values
                        .iter()
                        .map(|of| of.map_or(0.0, |of| of.mean))
                        .collect(),
                    within: (values.iter())
                        .map(|of| of.and_then(|of| of.within).unwrap_or(0.0))
                        .collect(),
                });
            }
        }
    }
    Bars {
        title: format!("{}: {}", table.number, table.title),
        unit: unit.to_owned(),
        labels: table.rows.iter().map(|row| row.name.clone()).collect(),
        series,
        is_stacked: false,
    }
}
