//! Points with their names over two logarithmic axes.

use super::style::{DrawError, FONT, SIZE, color};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// Points of one color.
pub(in crate::reproduce) struct Cloud {
    pub(in crate::reproduce) name: String,
    pub(in crate::reproduce) points: Vec<(String, (f64, f64))>,
}

/// A chart of named points, such as the paper's throughput over efficiency.
pub(in crate::reproduce) struct Scatter {
    pub(in crate::reproduce) title: String,
    pub(in crate::reproduce) x_unit: String,
    pub(in crate::reproduce) y_unit: String,
    pub(in crate::reproduce) clouds: Vec<Cloud>,
}

/// Room around the points, in times of them; to the right for the names.
const ROOM: (f64, f64) = (1.6, 3.0);
/// The height of a name and the width of its letters, about, and how far it is from its point.
const NAME: (i32, i32, i32) = (13, 6, 8);
/// Places for a name that are tried above and below its point.
const PLACES: i32 = 12;
/// The legend beside its names, and each of its lines, in pixels.
const LEGEND: (i32, i32) = (56, 20);
/// An axis of more decades than this has their ends alone as ticks.
const DECADES: i32 = 3;

/// Left, top, right, bottom.
type Area = [i32; 4];

fn meet(one: &Area, other: &Area) -> bool {
    one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
}

fn is_within(area: &Area, all: &Area) -> bool {
    area[0] >= all[0] && area[1] >= all[1] && area[2] <= all[2] && area[3] <= all[3]
}

/// Ticks of a logarithmic axis: powers of ten, and 2 and 5 times these where there are few.
fn ticks(range: &Range<f64>) -> Vec<f64> {
    let first = range.start.log10().floor() as i32;
    let last = range.end.log10().ceil() as i32;
    let within: &[f64] = match last - first > DECADES {
        true => &[1.0],
        false => &[1.0, 2.0, 5.0],
    };
    let decades = (first..=last).flat_map(|power| {
        let of = move |times: &f64| match power {
            // Tenths are not exact, and their digits would be shown.
            ..0 => times / 10_f64.powi(-power),
            _ => times * 10_f64.powi(power),
        };
        within.iter().map(of)
    });
    decades.filter(|tick| range.contains(tick)).collect()
}

/// The nearest place in the chart for a name that nothing has taken: its area, right of the point
/// if it can be.
fn place((x, y): (i32, i32), letters: usize, taken: &[Area], all: &Area) -> Area {
    let (height, letter, away) = NAME;
    let width = letters as i32 * letter;
    let steps = (0..PLACES).flat_map(|step| [-step, step]);
    let places = steps.flat_map(|step| {
        let top = y - height / 2 + step * height;
        let at = |left: i32| [left, top, left + width, top + height];
        [at(x + away), at(x - away - width)]
    });
    let is_free =
        |area: &Area| is_within(area, all) && !taken.iter().any(|other| meet(area, other));
    let nearest = [x + away, y - height / 2, x + away + width, y + height / 2];
    places.into_iter().find(is_free).unwrap_or(nearest)
}

impl Scatter {
    /// As SVG.
    pub(in crate::reproduce) fn draw(&self) -> Result<String, DrawError> {
        let mut text = String::new();
        self.draw_to(&mut text)?;
        Ok(text)
    }

    fn range(&self, of: fn(&(f64, f64)) -> f64, above: f64) -> Range<f64> {
        let points = self.clouds.iter().flat_map(|cloud| &cloud.points);
        let ends = points.fold((f64::INFINITY, 0.0_f64), |(least, most), (_, at)| {
            (least.min(of(at)), most.max(of(at)))
        });
        match ends {
            (least, most) if least > 0.0 && most >= least => least / ROOM.0..most * above,
            _ => 0.1..10.0,
        }
    }

    fn draw_to(&self, text: &mut String) -> Result<(), DrawError> {
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (x, y) = (
            self.range(|at| at.0, ROOM.1),
            self.range(|at| at.1, ROOM.0 * ROOM.0),
        );
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, (FONT, 20))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(
                x.clone().log_scale().with_key_points(ticks(&x)),
                y.clone().log_scale().with_key_points(ticks(&y)),
            )?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(&self.x_unit)
            .y_desc(&self.y_unit)
            .max_light_lines(0);
        mesh.x_label_formatter(&|x| format!("{x}"));
        mesh.y_label_formatter(&|y| format!("{y}")).draw()?;
        let style = (FONT, 12).into_text_style(&root);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        let dot = |(x, y): (i32, i32)| [x - 5, y - 5, x + 5, y + 5];
        let points = self.clouds.iter().flat_map(|cloud| &cloud.points);
        let mut taken: Vec<Area> = points.map(|(_, at)| dot(chart.backend_coord(at))).collect();
        let (across, down) = chart.plotting_area().get_pixel_range();
        let all = [across.start, down.start, across.end, down.end];
        let names = self.clouds.iter().map(|cloud| cloud.name.chars().count());
        let legend_ends = [
            all[0] + LEGEND.0 + NAME.1 * names.max().unwrap_or(0) as i32,
            all[1] + LEGEND.1 * (1 + self.clouds.len() as i32),
        ];
        taken.push([all[0], all[1], legend_ends[0], legend_ends[1]]);
        for (number, cloud) in self.clouds.iter().enumerate() {
            let fill = color(number).filled();
            let dots = cloud.points.iter().map(|(_, at)| Circle::new(*at, 4, fill));
            let drawn = chart.draw_series(dots)?;
            let legend = move |at| Circle::new(at, 4, fill);
            drawn.label(&cloud.name).legend(legend);
            for (name, at) in &cloud.points {
                let from = chart.backend_coord(at);
                let area = place(from, name.chars().count(), &taken, &all);
                taken.push(area);
                let to = (area[0], i32::midpoint(area[1], area[3]));
                if to.1 != from.1 {
                    let end = if to.0 > from.0 { to } else { (area[2], to.1) };
                    root.draw(&PathElement::new([from, end], BLACK.mix(0.4)))?;
                }
                // The grid stays behind it.
                let corners = [(area[0], area[1]), (area[2], area[3])];
                root.draw(&Rectangle::new(corners, WHITE.mix(0.8).filled()))?;
                root.draw(&Text::new(name.clone(), to, style.clone()))?;
            }
        }
        let mut legend = chart.configure_series_labels();
        legend.border_style(BLACK).background_style(WHITE.mix(0.8));
        legend.position(SeriesLabelPosition::UpperLeft).draw()?;
        root.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_points_that_are_close_do_not_meet_and_stay_in_the_chart() {
        let (mut taken, all) = (Vec::new(), [80, 20, 960, 480]);
        for point in [(500, 200), (502, 201), (501, 199), (940, 200), (90, 22)] {
            let area = place(point, 10, &taken, &all);
            assert!(!taken.iter().any(|other| meet(&area, other)), "{area:?}");
            assert!(is_within(&area, &all), "{area:?}");
            taken.push(area);
        }
        // A name that is too long for its left is not put across the axis.
        taken.push([110, 180, 200, 220]);
        let area = place((100, 200), 10, &taken, &all);
        assert!(is_within(&area, &all), "{area:?}");
    }

    #[test]
    fn each_tick_is_there_once() {
        assert_eq!(ticks(&(5.5..143.0)), [10.0, 20.0, 50.0, 100.0]);
        assert_eq!(ticks(&(0.012..2500.0)), [0.1, 1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(ticks(&(0.3..0.9)), [0.5]);
    }
}
