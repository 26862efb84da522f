//! Points with their names over two logarithmic axes.

use super::style::{DrawError, FONT, SIZE, color};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

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
/// Pixels that two names are apart at least, from top to bottom, where they are beside each other.
const APART: (i32, i32) = (14, 150);

impl Scatter {
    /// As SVG.
    pub(in crate::reproduce) fn draw(&self) -> Result<String, DrawError> {
        let mut text = String::new();
        self.draw_to(&mut text)?;
        Ok(text)
    }

    fn range(&self, of: fn(&(f64, f64)) -> f64, above: f64) -> std::ops::Range<f64> {
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
            .build_cartesian_2d(x.log_scale(), y.log_scale())?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(&self.x_unit)
            .y_desc(&self.y_unit)
            .max_light_lines(0);
        mesh.x_label_formatter(&|x| format!("{x}"));
        mesh.y_label_formatter(&|y| format!("{y}")).draw()?;
        let style = (FONT, 12).into_text_style(&root);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        let mut taken: Vec<(i32, i32)> = Vec::new();
        for (number, cloud) in self.clouds.iter().enumerate() {
            let fill = color(number).filled();
            let dots = cloud.points.iter().map(|(_, at)| Circle::new(*at, 4, fill));
            let drawn = chart.draw_series(dots)?;
            let legend = move |at| Circle::new(at, 4, fill);
            drawn.label(&cloud.name).legend(legend);
            for (name, at) in &cloud.points {
                let (x, mut y) = chart.backend_coord(at);
                let is_near = |y: i32, other: &(i32, i32)| {
                    (y - other.1).abs() < APART.0 && (x - other.0).abs() < APART.1
                };
                // Each step leaves one name behind, so it ends.
                while let Some(other) = taken.iter().find(|other| is_near(y, other)) {
                    y = other.1 + APART.0;
                }
                taken.push((x, y));
                root.draw(&Text::new(name.clone(), (x + 8, y), style.clone()))?;
            }
        }
        let mut legend = chart.configure_series_labels();
        legend.border_style(BLACK).background_style(WHITE.mix(0.8));
        legend.position(SeriesLabelPosition::UpperLeft).draw()?;
        root.present()?;
        Ok(())
    }
}
