//! A chart of a case, as SVG: for each page and number of connections a group of bars, as long as
//! answers a second and as CPU time an answer, each beside the longest of its group.

use super::error::CompareError;
use super::report::{CaseReport, Measured, Point, Spread};
use super::table::Figure;
use crate::reproduce::{DrawError, FONT, color};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: i32 = 1120;
const MARGIN: i32 = 16;
/// Where bars of rates begin, and how long the longest is; behind it stands its figure.
const RATES: (i32, i32) = (220, 330);
/// The same of CPU time.
const TIMES: (i32, i32) = (700, 290);
const TOP: i32 = 84;
/// Of a group's title, a bar with what is between two, and what is between groups.
const TITLE: i32 = 26;
const ROW: i32 = 22;
const GAP: i32 = 14;
const BAR: i32 = 15;
/// What a database takes is drawn as the server's, but lighter.
const LIGHT: f64 = 0.4;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The chart of a case.
pub(super) fn draw(case: &CaseReport) -> Result<String, CompareError> {
    let mut text = String::new();
    draw_to(case, &mut text).map_err(|why| CompareError::Chart(why.to_string()))?;
    Ok(text)
}

fn height_of(point: &Point) -> i32 {
    TITLE + ROW * point.servers.len() as i32 + GAP
}

fn draw_to(case: &CaseReport, text: &mut String) -> Result<(), DrawError> {
    let height = TOP + case.points.iter().map(height_of).sum::<i32>() + MARGIN;
    let size = (WIDTH as u32, height as u32);
    let area = SVGBackend::with_string(text, size).into_drawing_area();
    area.fill(&WHITE)?;
    write(&area, &case.about, (MARGIN, 26), 18, &BLACK)?;
    write(
        &area,
        "answers a second (lines: from the least to the most)",
        (RATES.0, 60),
        14,
        &BLACK,
    )?;
    let times = match case.database {
        Some(_) => "CPU an answer, us: server + database (lighter)",
        None => "CPU of the server an answer, us",
    };
    write(&area, times, (TIMES.0, 60), 14, &BLACK)?;
    let mut top = TOP;
    for point in &case.points {
        draw_point(&area, case, point, top)?;
        top += height_of(point);
    }
    area.present()?;
    Ok(())
}

fn draw_point(
    area: &Area<'_>,
    case: &CaseReport,
    point: &Point,
    top: i32,
) -> Result<(), DrawError> {
    let connections = match point.connections {
        1 => "1 connection".to_owned(),
        many => format!("{many} connections"),
    };
    let bytes = Figure(point.bytes as f64);
    let title = format!("{}, {bytes} bytes, {connections}", point.page);
    write(area, &title, (MARGIN, top + TITLE / 2), 15, &BLACK)?;
    let most = |of: &dyn Fn(&Measured) -> f64| {
        let all = point.servers.iter().map(of);
        all.fold(f64::MIN_POSITIVE, f64::max)
    };
    let rate = most(&|measured| measured.requests_per_s.max);
    let time = most(&|measured| {
        let database = measured.database_us.map_or(0.0, |spread| spread.max);
        measured.server_us.map_or(0.0, |spread| spread.max) + database
    });
    for (number, measured) in point.servers.iter().enumerate() {
        let middle = top + TITLE + ROW * number as i32 + ROW / 2;
        // The same color at all points, whoever was left out.
        let place = case
            .servers
            .iter()
            .position(|server| server.name == measured.server);
        let fill = color(place.unwrap_or(number));
        write(area, &measured.server, (MARGIN + 12, middle), 13, &BLACK)?;
        let load = if measured.is_of_load { " [load]" } else { "" };
        let wrong = if measured.errors > 0 { " [wrong]" } else { "" };
        let told = format!("{}{load}{wrong}", Figure(measured.requests_per_s.median));
        let spread = measured.requests_per_s;
        let end = bar(area, RATES, middle, 0.0, spread, rate, fill)?;
        write(area, &told, (end + 8, middle), 13, &BLACK)?;
        // Where nobody was answered, no answer took anything.
        let Some(server) = measured.server_us else {
            continue;
        };
        let mut end = bar(area, TIMES, middle, 0.0, server, time, fill)?;
        let mut told = Figure(server.median).to_string();
        if let Some(database) = measured.database_us {
            let light = fill.mix(LIGHT);
            end = end.max(bar(
                area,
                TIMES,
                middle,
                server.median,
                database,
                time,
                light,
            )?);
            told = format!("{told} + {}", Figure(database.median));
        }
        write(area, &told, (end + 8, middle), 13, &BLACK)?;
    }
    Ok(())
}

/// A bar as long as the middle figure, from where another ends, with a line from the least to the
/// most; gives where it ends.
fn bar(
    area: &Area<'_>,
    (left, longest): (i32, i32),
    middle: i32,
    from: f64,
    spread: Spread,
    most: f64,
    fill: RGBAColor,
) -> Result<i32, DrawError> {
    let at = |value: f64| left + (value / most * f64::from(longest)).round() as i32;
    let corners = [
        (at(from), middle - BAR / 2),
        (at(from + spread.median), middle + BAR / 2),
    ];
    area.draw(&Rectangle::new(corners, fill.filled()))?;
    let ends = [spread.min, spread.max].map(|value| at(from + value));
    let line = |from: (i32, i32), to: (i32, i32)| PathElement::new([from, to], BLACK);
    area.draw(&line((ends[0], middle), (ends[1], middle)))?;
    for end in ends {
        area.draw(&line((end, middle - 4), (end, middle + 4)))?;
    }
    Ok(ends[1].max(corners[1].0))
}

/// A text that begins here, its middle at this height.
fn write(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    size: i32,
    color: &RGBColor,
) -> Result<(), DrawError> {
    let style = (FONT, size).into_font().color(color);
    let style = style.pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
}

#[cfg(test)]
mod tests {
    use super::super::report::Run;
    use super::super::report::tests::made_up;
    use super::*;

    /// The widths of the rectangles of an SVG, but for what is behind all.
    fn widths(svg: &str) -> Vec<i32> {
        let rectangles = svg.split("<rect ").skip(2);
        let width = |part: &str| -> Option<i32> {
            part.split("width=\"")
                .nth(1)?
                .split('"')
                .next()?
                .parse()
                .ok()
        };
        rectangles.filter_map(width).collect()
    }

    #[test]
    fn bars_are_as_long_as_figures_say() {
        let case = &made_up().cases[0];
        let svg = draw(case).expect("it can be drawn");
        // Of the most there was in a run: 150,000 a second, 162 us.
        let rates = [110_000.0, 145_500.0, 55_000.0].map(|rate| rate / 150_000.0 * 330.0);
        let times = [6.25, 5.0, 162.0].map(|time| time / 162.0 * 290.0);
        let due: Vec<f64> = rates
            .into_iter()
            .zip(times)
            .flat_map(|(a, b)| [a, b])
            .collect();
        let widths = widths(&svg);
        assert_eq!(widths.len(), due.len(), "{svg}");
        for (width, due) in widths.iter().zip(due) {
            assert!((f64::from(*width) - due).abs() <= 1.0, "{width} {due}");
        }
        for text in [
            "nginx, level 6",
            "145,500 [load]",
            "55,000 [wrong]",
            "162",
            "64 connections",
            "A page",
        ] {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn who_answered_nobody_has_a_rate_and_nothing_else() {
        let mut case = made_up().cases.remove(0);
        case.points[0].servers[1] = Measured::of("limit", vec![Run::default()]);
        let svg = draw(&case).expect("it can be drawn");
        assert_eq!(svg.matches("\n0.0\n").count(), 1, "{svg}");
    }

    #[test]
    fn what_a_database_takes_stands_behind_the_servers() {
        let mut case = made_up().cases.remove(0);
        case.database = Some("15".to_owned());
        for measured in &mut case.points[0].servers {
            measured.database_us = Some(Spread::of([162.0].into_iter()));
        }
        let svg = draw(&case).expect("it can be drawn");
        assert_eq!(widths(&svg).len(), 9);
        assert!(svg.contains("6.2 + 162") && svg.contains("server + database"));
    }
}
