//! What goes on in time: panels one below the other, over the same seconds.

use super::style::{DrawError, FONT, SIZE, color};
use plotters::prelude::*;

/// A line of a panel.
pub(in crate::reproduce) struct Line {
    pub(in crate::reproduce) name: String,
    /// Seconds and values, from left to right.
    pub(in crate::reproduce) points: Vec<(f64, f64)>,
}

/// One of the panels.
pub(in crate::reproduce) struct Panel {
    pub(in crate::reproduce) unit: String,
    pub(in crate::reproduce) lines: Vec<Line>,
}

/// A chart of panels.
pub(in crate::reproduce) struct Times {
    pub(in crate::reproduce) title: String,
    pub(in crate::reproduce) panels: Vec<Panel>,
}

impl Times {
    /// As SVG.
    pub(in crate::reproduce) fn draw(&self) -> Result<String, DrawError> {
        let mut text = String::new();
        self.draw_to(&mut text)?;
        Ok(text)
    }

    fn draw_to(&self, text: &mut String) -> Result<(), DrawError> {
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let below = root.titled(&self.title, (FONT, 20))?;
        let areas = below.split_evenly((self.panels.len().max(1), 1));
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        let all = lines.flat_map(|line| &line.points);
        let right = all.map(|(x, _)| *x).fold(1.0, f64::max);
        for (panel, area) in self.panels.iter().zip(&areas) {
            panel.draw(area, right)?;
        }
        root.present()?;
        Ok(())
    }
}

impl Panel {
    fn draw<Backend>(
        &self,
        area: &DrawingArea<Backend, plotters::coord::Shift>,
        right: f64,
    ) -> Result<(), plotters::drawing::DrawingAreaErrorKind<Backend::ErrorType>>
    where
        Backend: DrawingBackend,
    {
        let all = self.lines.iter().flat_map(|line| &line.points);
        let top = all.map(|(_, y)| *y).fold(f64::MIN_POSITIVE, f64::max);
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(72)
            .build_cartesian_2d(0.0..right, 0.0..top * 1.1)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("s").y_desc(&self.unit).max_light_lines(0);
        mesh.x_label_formatter(&|x| format!("{x}"));
        mesh.y_label_formatter(&|y| format!("{y}")).draw()?;
        for (number, line) in self.lines.iter().enumerate() {
            let stroke = color(number).stroke_width(2);
            let points = line.points.iter().copied();
            let drawn = chart.draw_series(LineSeries::new(points, stroke))?;
            let legend = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], stroke);
            drawn.label(&line.name).legend(legend);
        }
        if self.lines.len() > 1 {
            let mut legend = chart.configure_series_labels();
            legend.position(SeriesLabelPosition::UpperLeft);
            legend
                .border_style(BLACK)
                .background_style(WHITE.mix(0.8))
                .draw()?;
        }
        Ok(())
    }
}
