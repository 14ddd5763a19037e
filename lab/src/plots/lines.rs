//! Lines with marks, on a linear or logarithmic scale.

use super::PlotError;
use super::page::{Area, colour, failed, faint, label, sheet, text_style};
use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, Circle, Color, Cross, DrawingArea, DynElement, EmptyElement, IntoDynElement, IntoLogRange,
    LineSeries, PathElement, SVGBackend, Text, TriangleMarker,
};
use std::fmt::Write;

/// Whether a scale is even or by powers of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Even, from 0.
    Linear,
    /// By powers of ten; values above 0 alone are drawn.
    Logarithmic,
    /// Even, from 0 to 100.
    Percent,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is.
    pub label: String,
    /// Its points, in order of x.
    pub points: Vec<(f64, f64)>,
}

/// Lines over one another.
#[derive(Clone, Debug, PartialEq)]
pub struct LinePanel {
    /// What is shown, and in which unit.
    pub title: String,
    /// What is along the bottom.
    pub x_title: String,
    /// The upright scale.
    pub y_axis: Axis,
    /// The lines; those of the same label have the same colour in every panel of a sheet.
    pub lines: Vec<Line>,
}

const PANEL: (u32, u32) = (430, 300);
const HEAD: u32 = 44;
const LEGEND_COLUMN: u32 = 210;
const LEGEND_LINE: u32 = 22;

/// Draws panels in rows of `columns`, with one legend below.
///
/// # Errors
/// [`PlotError`].
pub fn line_chart(title: &str, panels: &[LinePanel], columns: usize) -> Result<String, PlotError> {
    let columns = columns.clamp(1, panels.len().max(1));
    let rows = panels.len().div_ceil(columns);
    let mut names: Vec<&str> = Vec::new();
    for line in panels.iter().flat_map(|panel| &panel.lines) {
        if !names.contains(&line.label.as_str()) {
            names.push(&line.label);
        }
    }
    let width = columns as u32 * PANEL.0;
    let in_a_row = (width / LEGEND_COLUMN).max(1) as usize;
    let legend_height = names.len().div_ceil(in_a_row) as u32 * LEGEND_LINE + 14;
    let body_height = rows as u32 * PANEL.1;
    let size = (width, HEAD + body_height + legend_height);
    sheet(size, title, &described(panels), |root| {
        let (head, rest) = root.split_vertically(HEAD);
        super::bars::heading(&head, title, &[])?;
        let (body, legend) = rest.split_vertically(body_height);
        for (area, panel) in body.split_evenly((rows, columns)).iter().zip(panels) {
            draw(area, panel, &names)?;
        }
        key(&legend, &names, in_a_row)
    })
}

fn described(panels: &[LinePanel]) -> String {
    let mut text = String::new();
    for panel in panels {
        // Writing to a string does not fail.
        let _ = write!(text, "{}, over {}. ", panel.title, panel.x_title);
        for line in &panel.lines {
            if let (Some(first), Some(last)) = (line.points.first(), line.points.last()) {
                let (from, to) = (label(first.1), label(last.1));
                let _ = write!(text, "{}: from {from} to {to}. ", line.label);
            }
        }
    }
    text
}

/// A mark whose shape, too, tells which line it is of.
fn mark<'a>(place: (i32, i32), series: usize) -> DynElement<'a, SVGBackend<'a>, (i32, i32)> {
    let style = colour(series).filled();
    match series / 3 % 4 {
        0 => (EmptyElement::at(place) + Circle::new((0, 0), 3, style)).into_dyn(),
        1 => (EmptyElement::at(place) + TriangleMarker::new((0, 0), 5, style)).into_dyn(),
        2 => (EmptyElement::at(place) + Cross::new((0, 0), 4, colour(series).stroke_width(2))).into_dyn(),
        _ => (EmptyElement::at(place) + Circle::new((0, 0), 4, colour(series).stroke_width(1))).into_dyn(),
    }
}

fn key(area: &DrawingArea<SVGBackend<'_>, Shift>, names: &[&str], in_a_row: usize) -> Result<(), PlotError> {
    let style = text_style(14);
    for (at, name) in names.iter().enumerate() {
        let left = 16 + i32::try_from(at % in_a_row).unwrap_or(0) * LEGEND_COLUMN.cast_signed();
        let middle = 12 + i32::try_from(at / in_a_row).unwrap_or(0) * LEGEND_LINE.cast_signed();
        let line = PathElement::new([(left, middle), (left + 26, middle)], colour(at).stroke_width(2));
        area.draw(&line).map_err(failed)?;
        area.draw(&mark((left + 13, middle), at)).map_err(failed)?;
        area.draw(&Text::new((*name).to_owned(), (left + 34, middle - 8), style.clone())).map_err(failed)?;
    }
    Ok(())
}

/// The frame of the points: least and greatest x, least and greatest y.
fn frame(panel: &LinePanel) -> ((f64, f64), (f64, f64)) {
    let logarithmic = panel.y_axis == Axis::Logarithmic;
    let points = panel.lines.iter().flat_map(|line| &line.points);
    let (mut x, mut y) = ((f64::INFINITY, f64::NEG_INFINITY), (f64::INFINITY, f64::NEG_INFINITY));
    for point in points.filter(|point| !logarithmic || point.1 > 0.0) {
        x = (x.0.min(point.0), x.1.max(point.0));
        y = (y.0.min(point.1), y.1.max(point.1));
    }
    if !x.0.is_finite() {
        return ((0.0, 1.0), (0.1, 1.0));
    }
    let x = if x.1 > x.0 { x } else { (x.0 - 0.5, x.1 + 0.5) };
    let y = match panel.y_axis {
        Axis::Linear => (0.0, (y.1 * 1.08).max(1e-9)),
        Axis::Percent => (0.0, 100.0),
        Axis::Logarithmic => {
            // A decade at least, so that there is a number beside the scale.
            let (from, to) = (y.0 / 1.5, y.1 * 1.5);
            if to / from >= 10.0 {
                (from, to)
            } else {
                (10f64.powf(y.0.log10().floor()), 10f64.powf(to.log10().ceil()))
            }
        }
    };
    (x, y)
}

/// Draws the lines on either scale: the scales are of different types.
macro_rules! draw_on {
    ($area:expr, $panel:expr, $names:expr, $x:expr, $y:expr) => {{
        let mut chart = ChartBuilder::on($area)
            .caption(&$panel.title, text_style(15))
            .margin(8)
            .margin_right(16)
            .x_label_area_size(44)
            .y_label_area_size(48)
            .build_cartesian_2d($x, $y)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_labels(6)
            .y_labels(6)
            .x_desc($panel.x_title.as_str())
            .x_label_formatter(&|value| label(*value))
            .y_label_formatter(&|value| label(*value))
            .bold_line_style(faint())
            .light_line_style(faint().mix(0.0))
            .axis_style(faint())
            .label_style(text_style(12))
            .axis_desc_style(text_style(13))
            .draw()
            .map_err(failed)?;
        for line in &$panel.lines {
            let series = $names.iter().position(|name| *name == line.label).unwrap_or(0);
            let drawn = line
                .points
                .iter()
                .copied()
                .filter(|point| $panel.y_axis != Axis::Logarithmic || point.1 > 0.0);
            chart
                .draw_series(LineSeries::new(drawn.clone(), colour(series).stroke_width(2)))
                .map_err(failed)?;
            if line.points.len() <= MARKED_MAX {
                for point in drawn {
                    let place = chart.backend_coord(&point);
                    let edge = $area.get_base_pixel();
                    $area.draw(&mark((place.0 - edge.0, place.1 - edge.1), series)).map_err(failed)?;
                }
            }
        }
        Ok(())
    }};
}

/// Lines of more points have no marks.
const MARKED_MAX: usize = 40;

fn draw(area: &Area<'_>, panel: &LinePanel, names: &[&str]) -> Result<(), PlotError> {
    let (x, y) = frame(panel);
    match panel.y_axis {
        Axis::Linear | Axis::Percent => draw_on!(area, panel, names, x.0..x.1, y.0..y.1),
        Axis::Logarithmic => draw_on!(area, panel, names, x.0..x.1, (y.0..y.1).log_scale()),
    }
}
