//! Bars in groups, beside each other or one on the other.

use super::style::{DrawError, FONT, SIZE, color};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The bars of one color.
pub(in crate::reproduce) struct Series {
    pub(in crate::reproduce) name: String,
    /// One for each group.
    pub(in crate::reproduce) values: Vec<f64>,
    /// How far each is uncertain to either side; empty where that is not told.
    pub(in crate::reproduce) within: Vec<f64>,
}

/// A chart of bars.
pub(in crate::reproduce) struct Bars {
    pub(in crate::reproduce) title: String,
    pub(in crate::reproduce) unit: String,
    /// What the groups are called.
    pub(in crate::reproduce) labels: Vec<String>,
    pub(in crate::reproduce) series: Vec<Series>,
    /// Whether the bars of a group stand on each other.
    pub(in crate::reproduce) is_stacked: bool,
}

/// The share of a group's width that has bars.
const FULL: f64 = 0.8;
/// The height of a legend without series, and of each series, in parts of the chart's.
const LEGEND: (f64, f64) = (0.1, 0.036);
/// The height of a label's line, and the width of a letter, about.
const LINE: i32 = 14;
const LETTER: f64 = 6.0;
/// Around the bars: margin, and what is below them at least and at their left.
const MARGIN: u32 = 12;
const BELOW: u32 = 64;
const LEFT: u32 = 80;

/// Bars that are more than so many times as high as others are drawn by the logarithm: the others
/// would not be seen.
const EVEN_MAX: f64 = 100.0;

/// How high values are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Even,
    /// In decades above this, which is one itself.
    Decades(f64),
}

impl Scale {
    /// That by which all of these can be seen.
    fn of(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let least = (values.clone().filter(|value| *value > 0.0)).fold(f64::INFINITY, f64::min);
        let most = values.clone().fold(0.0, f64::max);
        let is_even = most <= EVEN_MAX * least || values.clone().any(|value| value < 0.0);
        if is_even || !most.is_finite() {
            return Scale::Even;
        }
        let decade = 10_f64.powf(least.log10().floor());
        // The lowest has some height, too.
        Scale::Decades(if least < 2.0 * decade {
            decade / 10.0
        } else {
            decade
        })
    }

    fn height(self, value: f64) -> f64 {
        match self {
            Scale::Even => value,
            Scale::Decades(first) => (value.max(first) / first).log10(),
        }
    }

    /// What is so high; between decades nothing is told.
    fn label(self, height: f64) -> String {
        // Without what is left of sums of tenths.
        let digits = |value: f64| format!("{}", (value * 1e6).round() / 1e6);
        match self {
            Scale::Even => digits(height),
            Scale::Decades(first) if (height - height.round()).abs() < 1e-6 => {
                digits(first * 10_f64.powf(height))
            }
            Scale::Decades(_) => String::new(),
        }
    }
}

/// A label in lines of so many letters at most, unless a word is longer. A comma ends a line.
fn lines(label: &str, letters: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for part in label.split(", ") {
        let mut line = String::new();
        for word in part.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > letters {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

impl Bars {
    /// As SVG.
    pub(in crate::reproduce) fn draw(&self) -> Result<String, DrawError> {
        let mut text = String::new();
        self.draw_to(&mut text)?;
        Ok(text)
    }

    fn scale(&self) -> Scale {
        match self.is_stacked {
            true => Scale::Even,
            false => Scale::of(self.series.iter().flat_map(|of| of.values.iter().copied())),
        }
    }

    /// The corners of a bar.
    fn corners(&self, group: usize, series: usize) -> [(f64, f64); 2] {
        let value = self.series[series].values[group];
        let left = group as f64 + (1.0 - FULL) / 2.0;
        if self.is_stacked {
            let below = self.series[..series]
                .iter()
                .map(|below| below.values[group]);
            let below: f64 = below.sum();
            return [(left, below), (left + FULL, below + value)];
        }
        let width = FULL / self.series.len() as f64;
        let left = left + width * series as f64;
        [(left, 0.0), (left + width, self.scale().height(value))]
    }

    /// How high a bar is at least and at most that may be as much more or less.
    fn ends(&self, group: usize, series: usize, within: f64) -> [f64; 2] {
        let [_, (_, top)] = self.corners(group, series);
        match self.scale() {
            Scale::Even => [(top - within).max(0.0), top + within],
            scale => {
                let value = self.series[series].values[group];
                [value - within, value + within].map(|end| scale.height(end))
            }
        }
    }

    /// A line over each bar of a series, from as little to as much as it may be.
    fn whiskers(&self, series: usize) -> impl Iterator<Item = PathElement<(f64, f64)>> + '_ {
        let within = self.series[series].within.iter().enumerate();
        within.map(move |(group, within)| {
            let [(left, _), (right, _)] = self.corners(group, series);
            let middle = f64::midpoint(left, right);
            let ends = self.ends(group, series, *within);
            PathElement::new(ends.map(|end| (middle, end)), BLACK.stroke_width(2))
        })
    }

    fn draw_to(&self, text: &mut String) -> Result<(), DrawError> {
        let groups = self.labels.len();
        let tops = (0..groups)
            .flat_map(|group| (0..self.series.len()).map(move |series| (group, series)))
            .map(|(group, series)| {
                let within = self.series[series].within.get(group);
                self.ends(group, series, *within.unwrap_or(&0.0))[1]
            });
        // The legend stands above the bars.
        let legend = LEGEND.0 + LEGEND.1 * self.series.len() as f64;
        let top = tops.fold(0.0, f64::max).max(f64::MIN_POSITIVE) / (1.0 - legend);
        let width = f64::from(SIZE.0 - 2 * MARGIN - LEFT) / groups.max(1) as f64;
        let letters = (width / LETTER) as usize;
        let labels: Vec<Vec<String>> = (self.labels.iter())
            .map(|label| lines(label, letters))
            .collect();
        let most = labels.iter().map(Vec::len).max().unwrap_or(0) as u32;
        let below = (most * LINE as u32 + MARGIN).max(BELOW);
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, (FONT, 20))
            .margin(MARGIN)
            .x_label_area_size(below)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(0.0..groups as f64, 0.0..top)?;
        let mut mesh = chart.configure_mesh();
        let scale = self.scale();
        let unit = match scale {
            Scale::Even => self.unit.clone(),
            Scale::Decades(_) => format!("{} (by decades)", self.unit),
        };
        mesh.disable_x_mesh().x_labels(0).y_desc(unit);
        mesh.max_light_lines(0);
        let label = |height: &f64| scale.label(*height);
        mesh.y_label_formatter(&label).draw()?;
        for (number, series) in self.series.iter().enumerate() {
            let fill = color(number).filled();
            let bars = (0..groups).map(|group| Rectangle::new(self.corners(group, number), fill));
            let drawn = chart.draw_series(bars)?;
            let legend = move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], fill);
            drawn.label(&series.name).legend(legend);
            chart.draw_series(self.whiskers(number))?;
        }
        let style = (FONT, 13).into_text_style(&root);
        let style = style.pos(Pos::new(HPos::Center, VPos::Top));
        for (group, label) in labels.into_iter().enumerate() {
            let (x, y) = chart.backend_coord(&(group as f64 + 0.5, 0.0));
            for (row, line) in label.into_iter().enumerate() {
                let at = (x, y + 6 + LINE * row as i32);
                root.draw(&Text::new(line, at, style.clone()))?;
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
    fn labels_are_broken_at_commas_and_where_a_line_is_full() {
        let of = |label| lines(label, 9);
        assert_eq!(of("average of the mix"), ["average", "of the", "mix"]);
        assert_eq!(of("bill pay, status"), ["bill pay", "status"]);
        assert_eq!(of("incomparable"), ["incomparable"]);
        assert_eq!(lines("S(0), b = 100", 40), ["S(0)", "b = 100"]);
    }

    #[test]
    fn bars_that_others_would_hide_are_drawn_by_decades() {
        let of = |values: &[f64]| Scale::of(values.iter().copied());
        assert_eq!(of(&[1.0, 100.0]), Scale::Even);
        assert_eq!(of(&[0.0, 5.0]), Scale::Even);
        assert_eq!(of(&[-1.0, 0.1, 500.0]), Scale::Even);
        assert_eq!(of(&[]), Scale::Even);
        assert_eq!(of(&[0.0, 3.6, 877.0]), Scale::Decades(1.0));
        let scale = of(&[1.03, 1266.0]);
        assert_eq!(scale, Scale::Decades(0.1));
        assert!((scale.height(1.0) - 1.0).abs() < 1e-9 && scale.height(0.0) == 0.0);
        let labels = [0.0, 1.0, 1.5, 2.0].map(|height| scale.label(height));
        assert_eq!(labels, ["0.1", "1", "", "10"]);
        assert_eq!(Scale::Even.label(0.3), "0.3");
    }
}
