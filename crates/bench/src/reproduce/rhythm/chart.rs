//! The charts of sections, by the names that these give them.

use crate::reproduce::charts::{Bars, Cloud, Scatter, Series, failed};
use crate::reproduce::error::ReproduceError;
use crate::reproduce::section::{Section, value};
use rhythm_rpo::report::{Cell, Row};

/// What a chart shows of its section.
enum Shown {
    /// Columns as bars, in these units: the paper's figures too, where there are any.
    Bars(&'static [usize], &'static str),
    /// One column over another, a point a row.
    Points { x: usize, y: usize },
}

const CHARTS: [(&str, Shown); 6] = [
    ("table-2.svg", Shown::Bars(&[0, 1], "1000 instructions")),
    ("figure-2.svg", Shown::Bars(&[0], "% of ideal")),
    ("figure-8.svg", Shown::Points { x: 2, y: 0 }),
    ("figure-9.svg", Shown::Bars(&[0, 1], "1000 requests/s")),
    ("figure-10.svg", Shown::Points { x: 1, y: 0 }),
    ("cohort-sizes.svg", Shown::Bars(&[0], "1000 requests/s")),
];

/// The names and texts of all charts.
pub(super) fn draw(sections: &[Section]) -> Result<Vec<(&'static str, String)>, ReproduceError> {
    let mut charts = Vec::new();
    for section in sections
        .iter()
        .filter(|section| !section.table.rows.is_empty())
    {
        for &name in &section.charts {
            let shown = CHARTS.iter().find(|(chart, _)| *chart == name);
            let Some((_, shown)) = shown else { continue };
            let text = match shown {
                Shown::Bars(columns, unit) => bars(section, columns, unit).draw(),
                Shown::Points { x, y } => points(section, *x, *y).draw(),
            };
            charts.push((name, text.map_err(failed)?));
        }
    }
    Ok(charts)
}

fn title(section: &Section) -> String {
    format!("{}: {}", section.table.number, section.table.title)
}

fn papers(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Number { paper, .. } => *paper,
        Cell::Word { .. } => None,
    }
}

/// A label in words, which bars break where their width ends.
fn label(row: &Row) -> String {
    row.name.replace("host executor, ", "").replace('_', " ")
}

fn bars(section: &Section, columns: &[usize], unit: &str) -> Bars {
    let scale = if unit.starts_with("1000 i") {
        1e-3
    } else {
        1.0
    };
    let rows = &section.table.rows;
    let mut series = Vec::new();
    for &column in columns {
        let name = section.table.columns[column].name;
        for (whose, of) in [("paper: ", papers as fn(&Cell) -> Option<f64>), ("", value)] {
            let values = rows.iter().map(|row| row.cells.get(column).and_then(of));
            let values: Vec<Option<f64>> = values.collect();
            if values.iter().any(Option::is_some) {
                series.push(Series {
                    name: format!("{whose}{name}"),
                    values: values.iter().map(|of| of.unwrap_or(0.0) * scale).collect(),
                    within: Vec::new(),
                });
            }
        }
    }
    Bars {
        title: title(section),
        unit: unit.to_owned(),
        labels: rows.iter().map(label).collect(),
        series,
        is_stacked: false,
    }
}

fn points(section: &Section, x: usize, y: usize) -> Scatter {
    let cloud = |name: &str, of: fn(&Cell) -> Option<f64>| {
        let points = section.table.rows.iter().filter_map(|row| {
            let at = of(row.cells.get(x)?).zip(of(row.cells.get(y)?))?;
            let (name, _) = row.name.split_once(" (paper").unwrap_or((&row.name, ""));
            // Which card it is, the table tells.
            let name = match name.split_once(", ") {
                Some((layout, _)) if name.starts_with("layout ") => layout,
                _ => name,
            };
            (at.0 > 0.0 && at.1 > 0.0).then(|| (name.to_owned(), at))
        });
        Cloud {
            name: name.to_owned(),
            points: points.collect(),
        }
    };
    let clouds = [cloud("the paper's", papers), cloud("ours", value)];
    Scatter {
        title: title(section),
        x_unit: section.table.columns[x].name.to_owned(),
        y_unit: section.table.columns[y].name.to_owned(),
        clouds: clouds
            .into_iter()
            .filter(|cloud| !cloud.points.is_empty())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::section::{cell, column, ours};
    use rhythm_rpo::report::Kind;

    #[test]
    fn bars_and_points_have_the_papers_figures_and_ours_as_far_as_they_are_there() {
        let columns = [column("a", Kind::Measured), column("b", Kind::Computed)];
        let mut section = Section::new("Figure 8", "x", &columns);
        section.row("one_two", vec![cell(5.0, 4.0), ours(2.0)]);
        section.row(
            "three (paper: four)",
            vec![cell(3.0, None), cell(6.0, None)],
        );
        let bars = bars(&section, &[0, 1], "x");
        let names: Vec<&str> = bars
            .series
            .iter()
            .map(|series| series.name.as_str())
            .collect();
        assert_eq!(names, ["paper: a", "a", "paper: b", "b"]);
        assert_eq!(bars.series[1].values, [4.0, 0.0]);
        assert_eq!(bars.labels[0], "one two");
        let points = points(&section, 0, 1);
        assert_eq!(points.clouds[0].points, [("three".to_owned(), (3.0, 6.0))]);
        assert_eq!(
            points.clouds[1].points,
            [("one_two".to_owned(), (4.0, 2.0))]
        );
        section.charts = vec!["figure-8.svg"];
        section.table.columns.push(column("c", Kind::Computed));
        let charts = draw(&[section]).expect("it is drawn");
        assert!(charts[0].1.starts_with("<svg"));
    }
}
