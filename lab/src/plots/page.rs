//! The sheet a chart is drawn on: colours for light and dark, title and description.

use super::PlotError;
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, IntoDrawingArea, IntoFont, RGBColor, SVGBackend, TextStyle};
use std::fmt::Display;
use std::fmt::Write;

/// Part of a sheet.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A colour on light paper and on dark.
struct Shade {
    light: RGBColor,
    dark: RGBColor,
}

const fn shade(light: (u8, u8, u8), dark: (u8, u8, u8)) -> Shade {
    Shade { light: RGBColor(light.0, light.1, light.2), dark: RGBColor(dark.0, dark.1, dark.2) }
}

const PAPER: Shade = shade((255, 255, 255), (22, 24, 29));
const INK: Shade = shade((28, 28, 30), (232, 232, 235));
const FAINT: Shade = shade((218, 218, 222), (62, 65, 74));

/// Told apart by people who see fewer colours, too (after Okabe and Ito), and against the paper.
const SERIES: [Shade; 8] = [
    shade((0, 114, 178), (86, 180, 233)),
    shade((213, 94, 0), (255, 150, 66)),
    shade((0, 138, 103), (46, 204, 160)),
    shade((170, 70, 130), (224, 140, 190)),
    shade((120, 105, 0), (222, 204, 60)),
    shade((90, 70, 160), (168, 150, 245)),
    shade((130, 60, 40), (214, 148, 122)),
    shade((90, 96, 104), (170, 178, 188)),
];

/// Text in ink.
pub(super) fn text_style(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK.light)
}

/// For grids.
pub(super) const fn faint() -> RGBColor {
    FAINT.light
}

/// The colour of a series.
pub(super) fn colour(series: usize) -> RGBColor {
    SERIES[series % SERIES.len()].light
}

pub(super) fn failed(error: impl Display) -> PlotError {
    PlotError(error.to_string())
}

/// Draws on a sheet of this size and returns it as SVG.
pub(super) fn sheet(
    (width, height): (u32, u32),
    title: &str,
    description: &str,
    draw: impl FnOnce(&Area<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        area.fill(&PAPER.light).map_err(failed)?;
        draw(&area)?;
        area.present().map_err(failed)?;
    }
    Ok(dressed(&svg, (width, height), title, description))
}

/// Adds what the drawing crate has no words for.
fn dressed(svg: &str, (width, height): (u32, u32), title: &str, description: &str) -> String {
    let after = svg.find('>').map_or(0, |at| at + 1);
    let mut head = format!(
        "<svg role=\"img\" aria-labelledby=\"title description\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" style=\"max-width:100%;height:auto\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n<title id=\"title\">{}</title>\n\
         <desc id=\"description\">{}</desc>\n<style>\n@media (prefers-color-scheme: dark) {{\n",
        escaped(title),
        escaped(description)
    );
    for Shade { light, dark } in [PAPER, INK, FAINT].iter().chain(&SERIES) {
        let (from, to) = (hex(*light), hex(*dark));
        // Writing to a string does not fail.
        let _ = writeln!(head, "[fill=\"{from}\"] {{ fill: {to} }} [stroke=\"{from}\"] {{ stroke: {to} }}");
    }
    head.push_str("}\n</style>");
    head.push_str(svg.get(after..).unwrap_or_default());
    head
}

fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// Text of an element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A number as a label: short.
pub(super) fn label(number: f64) -> String {
    let scaled = |number: f64, unit: &str| {
        let text = if number < 10.0 { format!("{number:.1}") } else { format!("{number:.0}") };
        format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match number.abs() {
        1e9.. => scaled(number / 1e9, "G"),
        1e6.. => scaled(number / 1e6, "M"),
        1e3.. => scaled(number / 1e3, "k"),
        1.0.. | 0.0 => scaled(number, ""),
        0.01.. => format!("{number:.2}"),
        _ => format!("{number:.0e}"),
    }
}

/// Percent, as tables and plots have it.
pub(crate) fn percent(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        ..0.1 => format!("{number:.4}"),
        ..1.0 => format!("{number:.2}"),
        _ => format!("{number:.1}"),
    }
}
