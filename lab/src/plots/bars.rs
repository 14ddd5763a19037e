//! Bars, lying, each with its number, on a logarithmic scale or on that of percentages.

use super::PlotError;
use super::page::{Area, colour, failed, faint, label, percent, sheet, text_style};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{Cartesian2d, ChartBuilder, ChartContext, Rectangle, SVGBackend, Text};
use plotters::prelude::{Color, IntoLogRange, Ranged};
use std::fmt::Write;

/// Bars of one thing: one a series.
#[derive(Clone, Debug, PartialEq)]
pub struct BarRow {
    /// What it is.
    pub label: String,
    /// Its value in each series, where there is one; not below 0.
    pub values: Vec<Option<f64>>,
}

/// Along what bars are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// By powers of ten, from below the least value above 0; a value of 0 has no bar.
    Logarithmic,
    /// Even, from 0 to 100.
    Percent,
}

impl Scale {
    /// A value as it stands at its bar.
    fn number(self, value: f64) -> String {
        match self {
            Self::Logarithmic => label(value),
            Self::Percent => percent(value),
        }
    }
}

/// Bars of several things.
#[derive(Clone, Debug, PartialEq)]
pub struct BarPanel {
    /// What is shown, and in which unit.
    pub title: String,
    /// Along what.
    pub scale: Scale,
    /// The things.
    pub rows: Vec<BarRow>,
}

/// Of the part of a panel that has the bars.
const BARS_WIDTH: u32 = 292;
const BAR_HEIGHT: u32 = 13;
const ROW_GAP: u32 = 8;
/// Heading, axis and margins of a panel.
const PANEL_FRAME: u32 = 74;
/// Heading and legend of the sheet.
const HEAD: u32 = 64;
/// Room for labels, if they do not need more.
const LABEL_WIDTH_MIN: u32 = 178;
/// More than a character of a label is wide, in any usual font without serifs.
const CHARACTER_WIDTH: u32 = 8;

/// Draws panels in rows of `columns`.
///
/// # Errors
/// [`PlotError`].
pub fn bar_chart(
    title: &str,
    series: &[String],
    panels: &[BarPanel],
    columns: usize,
) -> Result<String, PlotError> {
    let columns = columns.clamp(1, panels.len().max(1));
    let rows = panels.len().div_ceil(columns);
    let bars = series.len().max(1) as u32;
    let most = panels.iter().map(|panel| panel.rows.len()).max().unwrap_or(0) as u32;
    let label_width = label_width(panels);
    let panel_height = PANEL_FRAME + most * (bars * BAR_HEIGHT + ROW_GAP);
    let size = (columns as u32 * (label_width + BARS_WIDTH), HEAD + rows as u32 * panel_height);
    sheet(size, title, &described(series, panels), |root| {
        let (head, body) = root.split_vertically(HEAD);
        heading(&head, title, series)?;
        for (area, panel) in body.split_evenly((rows, columns)).iter().zip(panels) {
            draw(area, panel, series.len().max(1), label_width)?;
        }
        Ok(())
    })
}

/// Room for the longest label left of the bars.
fn label_width(panels: &[BarPanel]) -> u32 {
    let labels = panels.iter().flat_map(|panel| &panel.rows).map(|row| row.label.chars().count() as u32);
    (labels.max().unwrap_or(0) * CHARACTER_WIDTH + 12).max(LABEL_WIDTH_MIN)
}

/// The numbers, for those who do not see the bars.
fn described(series: &[String], panels: &[BarPanel]) -> String {
    let mut text = String::new();
    for panel in panels {
        // Writing to a string does not fail.
        let _ = write!(text, "{}. ", panel.title);
        for row in &panel.rows {
            for (value, name) in row.values.iter().zip(series) {
                let value = value.map_or_else(|| "none".to_owned(), |value| panel.scale.number(value));
                let _ = write!(text, "{}, {name}: {value}. ", row.label);
            }
        }
    }
    text
}

/// The sheet's title, and which colour is what if there are several.
pub(super) fn heading(area: &Area<'_>, title: &str, series: &[String]) -> Result<(), PlotError> {
    area.draw(&Text::new(title.to_owned(), (12, 10), text_style(18))).map_err(failed)?;
    let mut left = 12;
    for (at, name) in series.iter().enumerate().filter(|_| series.len() > 1) {
        area.draw(&Rectangle::new([(left, 40), (left + 12, 52)], colour(at).filled())).map_err(failed)?;
        area.draw(&Text::new(name.clone(), (left + 18, 39), text_style(14))).map_err(failed)?;
        left += 44 + 8 * i32::try_from(name.len()).unwrap_or(0);
    }
    Ok(())
}

type Chart<'a, 'b, X> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, RangedCoordf64>>;

/// From where to where bars of powers of ten go.
fn decades(panel: &BarPanel) -> (f64, f64) {
    let values = panel.rows.iter().flat_map(|row| row.values.iter().flatten().copied());
    let (mut least, mut greatest) = (f64::INFINITY, 0.0f64);
    for value in values.filter(|value| *value > 0.0) {
        (least, greatest) = (least.min(value), greatest.max(value));
    }
    let (least, greatest) = if least.is_finite() { (least, greatest) } else { (1.0, 1.0) };
    // A bar begins a decade or so below the least value, and its number has room behind the greatest.
    let from = 10f64.powf((least.log10() - 0.3).floor());
    (from, greatest * (greatest / from).powf(0.22).max(3.0))
}

/// Behind a bar of 100 percent its number has room.
const PERCENT_TO: f64 = 116.0;

fn draw(area: &Area<'_>, panel: &BarPanel, bars: usize, label_width: u32) -> Result<(), PlotError> {
    let rows = 0.0..panel.rows.len().max(1) as f64;
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(&panel.title, text_style(15))
        .margin(8)
        .margin_left(label_width + 4)
        .x_label_area_size(26);
    match panel.scale {
        Scale::Logarithmic => {
            let (from, to) = decades(panel);
            let mut chart = builder.build_cartesian_2d((from..to).log_scale(), rows).map_err(failed)?;
            rows_of_bars(area, panel, bars, &mut chart, from)
        }
        Scale::Percent => {
            let mut chart = builder.build_cartesian_2d(0.0..PERCENT_TO, rows).map_err(failed)?;
            rows_of_bars(area, panel, bars, &mut chart, 0.0)
        }
    }
}

/// Draws the grid, the bars from `from` on, and the labels.
fn rows_of_bars<X>(
    area: &Area<'_>,
    panel: &BarPanel,
    bars: usize,
    chart: &mut Chart<'_, '_, X>,
    from: f64,
) -> Result<(), PlotError>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(6)
        .x_label_formatter(&|value| label(*value))
        .bold_line_style(faint())
        .light_line_style(faint().mix(0.0))
        .axis_style(faint())
        .label_style(text_style(12))
        .draw()
        .map_err(failed)?;
    let thickness = 0.76 / bars as f64;
    for (at, row) in panel.rows.iter().enumerate() {
        // From the top down.
        let top = (panel.rows.len() - at) as f64 - 0.12;
        for (which, value) in row.values.iter().enumerate() {
            let corner = (from, top - which as f64 * thickness);
            let text = value.map_or_else(|| "\u{2013}".to_owned(), |value| panel.scale.number(value));
            // Nothing to draw is no bar.
            let end = value.filter(|value| *value > from).unwrap_or(from);
            bar(chart, [corner, (end, corner.1 - thickness * 0.92)], which, &text)?;
        }
        let middle = chart.backend_coord(&(from, top - 0.38));
        let edge = area.get_base_pixel();
        let place = (8, middle.1 - edge.1 - 7);
        area.draw(&Text::new(row.label.clone(), place, text_style(13))).map_err(failed)?;
    }
    Ok(())
}

/// A bar between two corners, and its number behind it.
fn bar<X: Ranged<ValueType = f64>>(
    chart: &mut Chart<'_, '_, X>,
    corners: [(f64, f64); 2],
    series: usize,
    text: &str,
) -> Result<(), PlotError> {
    let [(from, top), (end, bottom)] = corners;
    if end > from {
        chart.draw_series([Rectangle::new(corners, colour(series).filled())]).map_err(failed)?;
    }
    let place = (end, top - (top - bottom) * 0.02);
    let number = Text::new(format!("\u{a0}{text}"), place, text_style(11));
    chart.draw_series([number]).map_err(failed)?;
    Ok(())
}
