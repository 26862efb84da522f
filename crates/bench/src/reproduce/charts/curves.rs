//! Curves over a logarithmic axis, with levels to compare them with.

use super::style::{DrawError, FONT, SIZE, color};
use plotters::prelude::*;

/// A curve: its points from left to right.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart of curves.
pub(super) struct Curves {
    pub(super) title: String,
    pub(super) x_unit: String,
    pub(super) y_unit: String,
    pub(super) curves: Vec<Curve>,
    /// Lines from left to right.
    pub(super) levels: Vec<(String, f64)>,
}

impl Curves {
    /// As SVG.
    pub(super) fn draw(&self) -> Result<String, DrawError> {
        let mut text = String::new();
        self.draw_to(&mut text)?;
        Ok(text)
    }

    fn draw_to(&self, text: &mut String) -> Result<(), DrawError> {
        let all = || self.curves.iter().flat_map(|curve| &curve.points);
        let left = all().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
        let right = all().map(|(x, _)| *x).fold(left + 1.0, f64::max);
        let levels = self.levels.iter().map(|(_, y)| *y);
        let top = all()
            .map(|(_, y)| *y)
            .chain(levels)
            .fold(f64::MIN_POSITIVE, f64::max);
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, (FONT, 20))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d((left..right).log_scale(), 0.0..top * 1.1)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(&self.x_unit).y_desc(&self.y_unit);
        mesh.x_label_formatter(&|x| format!("{x:.0}"));
        mesh.y_label_formatter(&|y| format!("{y}")).draw()?;
        for (number, curve) in self.curves.iter().enumerate() {
            let line = color(number).stroke_width(2);
            let drawn = chart.draw_series(LineSeries::new(curve.points.clone(), line))?;
            let legend = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], line);
            drawn.label(&curve.name).legend(legend);
            let dots = curve.points.iter();
            chart.draw_series(dots.map(|at| Circle::new(*at, 3, color(number).filled())))?;
        }
        for (number, (name, y)) in self.levels.iter().enumerate() {
            // Black and gray, apart from the curves.
            let line = BLACK.mix(1.0 / (1.0 + number as f64)).stroke_width(1);
            let ends = [(left, *y), (right, *y)];
            let drawn = chart.draw_series([PathElement::new(ends, line)])?;
            let legend = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], line);
            drawn.label(name).legend(legend);
        }
        let mut legend = chart.configure_series_labels();
        legend.border_style(BLACK).background_style(WHITE.mix(0.8));
        legend.position(SeriesLabelPosition::UpperLeft).draw()?;
        root.present()?;
        Ok(())
    }
}
