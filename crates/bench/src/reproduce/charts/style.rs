//! What all charts have in common.

use plotters::drawing::DrawingAreaErrorKind;
use plotters::style::{Color, RGBAColor, RGBColor};

/// Writing to memory does not fail, but the charts' makers cannot know.
pub(crate) type DrawError = DrawingAreaErrorKind<std::io::Error>;

/// The size of a chart, in pixels.
pub(super) const SIZE: (u32, u32) = (960, 540);
pub(crate) const FONT: &str = "sans-serif";
/// Colors that people who see few can tell apart, too (Okabe and Ito's).
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// The color of the series of this number.
pub(crate) fn color(number: usize) -> RGBAColor {
    COLORS[number % COLORS.len()].to_rgba()
}
